//! Facts about a machine, from `/proc`, `/sys` and `ethtool`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A sleeping state of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdleState {
    pub(super) name: String,
    /// Microseconds to wake up.
    pub(super) latency: u64,
}

/// A CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cpu {
    pub(super) number: usize,
    /// The states that it may sleep in.
    pub(super) idle: Vec<IdleState>,
    /// The rule of its frequency, if it changes.
    pub(super) governor: Option<String>,
    /// CPUs of the same core, itself included.
    pub(super) siblings: Vec<usize>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) name: String,
    /// The CPUs that may get its interrupts.
    pub(super) irq_cpus: Vec<usize>,
    /// Output of `ethtool`'s options `-c`, `-k` and `--show-eee`; empty where it says nothing.
    pub(super) coalescing: String,
    pub(super) features: String,
    pub(super) energy: String,
}

/// A machine, as far as it is known. Unknown values are absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) cpus: Vec<Cpu>,
    /// CPUs without other programs (`isolcpus`).
    pub(super) isolated: Vec<usize>,
    /// Flags of the CPU.
    pub(super) flags: Vec<String>,
    /// Microseconds of each second that threads of fixed priority may run.
    pub(super) real_time_share: Option<(i64, i64)>,
    pub(super) clock_source: String,
    /// Names of all processes.
    pub(super) processes: Vec<String>,
    /// Effective capabilities.
    pub(super) capabilities: u64,
    /// The limit on locked memory in octets, on the priority.
    pub(super) locked_memory: Option<u64>,
    pub(super) priority_limit: Option<u64>,
    /// Parts per million of the CPU's time that a hypervisor took.
    pub(super) stolen_ppm: u64,
    /// Why user namespaces are forbidden.
    pub(super) no_namespaces: Option<&'static str>,
    pub(super) ports: Vec<Port>,
    pub(super) has_ethtool: bool,
}

impl Facts {
    /// Those of this machine, with these ports.
    pub(super) fn of_this_machine(ports: &[String]) -> Self {
        let mut facts = Self::below(Path::new("/"));
        facts.ports = ports.iter().map(|name| port(name)).collect();
        facts.has_ethtool = ethtool(&["--version"]).is_some();
        facts
    }

    /// Those of the files below a root.
    pub(super) fn below(root: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default().trim().to_owned();
        let number = |name: &str| text(name).parse::<i64>().ok();
        let numbered = |folder: &str, prefix: &str| {
            let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let mut found: Vec<usize> =
                names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
            found.sort_unstable();
            found
        };
        let cpu = |number: usize| {
            let at = format!("sys/devices/system/cpu/cpu{number}");
            let state = |state: usize| {
                let at = format!("{at}/cpuidle/state{state}");
                let latency = text(&format!("{at}/latency")).parse().ok()?;
                let is_off = text(&format!("{at}/disable")) == "1";
                (!is_off).then(|| IdleState { name: text(&format!("{at}/name")), latency })
            };
            let governor = text(&format!("{at}/cpufreq/scaling_governor"));
            Cpu {
                number,
                idle: numbered(&format!("{at}/cpuidle"), "state").into_iter().filter_map(state).collect(),
                governor: (!governor.is_empty()).then_some(governor),
                siblings: list(&text(&format!("{at}/topology/thread_siblings_list"))),
            }
        };
        let about = text("proc/cpuinfo");
        let flags = about.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
        let flags = flags.and_then(|line| line.split_once(':')).map_or("", |(_, flags)| flags);
        let processes = numbered("proc", "").into_iter().map(|process| text(&format!("proc/{process}/comm")));
        let limits = text("proc/self/limits");
        let status = text("proc/self/status");
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let share = number("proc/sys/kernel/sched_rt_runtime_us");
        Self {
            cpus: numbered("sys/devices/system/cpu", "cpu").into_iter().map(cpu).collect(),
            isolated: list(&text("sys/devices/system/cpu/isolated")),
            flags: flags.split_whitespace().map(str::to_owned).collect(),
            real_time_share: share.zip(number("proc/sys/kernel/sched_rt_period_us")),
            clock_source: text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            processes: processes.collect(),
            capabilities: effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0),
            locked_memory: limit(&limits, "Max locked memory"),
            priority_limit: limit(&limits, "Max realtime priority"),
            stolen_ppm: stolen(&text("proc/stat")),
            no_namespaces: if number("proc/sys/user/max_user_namespaces") == Some(0) {
                Some("sysctl user.max_user_namespaces=10000")
            } else if number("proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
                Some("sysctl kernel.unprivileged_userns_clone=1")
            } else if number("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
                Some("sysctl kernel.apparmor_restrict_unprivileged_userns=0")
            } else {
                None
            },
            ..Self::default()
        }
    }
}

/// A soft limit of `/proc/self/limits`; the greatest number for an unlimited one.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let value = line.split_whitespace().next()?;
    if value == "unlimited" { Some(u64::MAX) } else { value.parse().ok() }
}

/// Parts per million of the time since the start that a hypervisor took (`proc(5)`, `steal`).
fn stolen(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let times: Vec<u64> = line.split_whitespace().take(8).filter_map(|time| time.parse().ok()).collect();
    let all: u64 = times.iter().sum();
    times.get(7).map_or(0, |stolen| stolen.saturating_mul(1_000_000) / all.max(1))
}

/// `0-3,6` as numbers.
fn list(text: &str) -> Vec<usize> {
    let numbers = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(numbers).flatten().collect()
}

fn port(name: &str) -> Port {
    let interrupts = PathBuf::from("/sys/class/net").join(name).join("device/msi_irqs");
    let interrupts = fs::read_dir(interrupts).into_iter().flatten().flatten();
    let mut irq_cpus: Vec<usize> = interrupts
        .filter_map(|entry| {
            let affinity = Path::new("/proc/irq").join(entry.file_name()).join("smp_affinity_list");
            fs::read_to_string(affinity).ok()
        })
        .flat_map(|text| list(&text))
        .collect();
    irq_cpus.sort_unstable();
    irq_cpus.dedup();
    let said = |option: &str| ethtool(&[option, name]).unwrap_or_default();
    Port {
        name: name.to_owned(),
        irq_cpus,
        coalescing: said("-c"),
        features: said("-k"),
        energy: said("--show-eee"),
    }
}

/// The output of `ethtool`, which Debian has where users have no path to.
fn ethtool(words: &[&str]) -> Option<String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("ethtool").args(words).env("PATH", path).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_files() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        let cpu = "sys/devices/system/cpu/cpu1";
        write(&format!("{cpu}/cpuidle/state0/latency"), "0\n");
        write(&format!("{cpu}/cpuidle/state0/name"), "POLL\n");
        write(&format!("{cpu}/cpuidle/state1/latency"), "133\n");
        write(&format!("{cpu}/cpuidle/state1/name"), "C6\n");
        write(&format!("{cpu}/cpuidle/state2/latency"), "200\n");
        write(&format!("{cpu}/cpuidle/state2/disable"), "1\n");
        write(&format!("{cpu}/cpufreq/scaling_governor"), "powersave\n");
        write(&format!("{cpu}/topology/thread_siblings_list"), "1,3-4\n");
        write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu aes\n");
        write("proc/17/comm", "chronyd\n");
        write(
            "proc/self/limits",
            "Max locked memory         8388608              8388608              bytes\n",
        );
        write("proc/self/status", "CapEff:\t0000000000002000\n");
        write("proc/stat", "cpu  900 0 50 0 0 0 0 50 0 0\n");
        write("proc/sys/kernel/sched_rt_runtime_us", "950000\n");
        write("proc/sys/kernel/sched_rt_period_us", "1000000\n");
        write("proc/sys/user/max_user_namespaces", "0\n");
        let facts = Facts::below(root.path());
        let [cpu] = &facts.cpus[..] else { panic!("{:?}", facts.cpus) };
        let c6 = IdleState { name: "C6".to_owned(), latency: 133 };
        assert_eq!((cpu.number, cpu.idle.get(1), cpu.idle.len()), (1, Some(&c6), 2));
        assert_eq!((cpu.governor.as_deref(), &cpu.siblings[..]), (Some("powersave"), &[1, 3, 4][..]));
        assert_eq!((facts.flags.len(), &facts.processes[..]), (2, &["chronyd".to_owned()][..]));
        assert_eq!((facts.capabilities, facts.locked_memory), (1 << 13, Some(8 << 20)));
        assert_eq!((facts.stolen_ppm, facts.real_time_share), (50_000, Some((950_000, 1_000_000))));
        assert!(facts.no_namespaces.is_some_and(|remedy| remedy.contains("max_user_namespaces")));
    }

    #[test]
    fn unknown_facts_are_absent() {
        let root = tempfile::tempdir().expect("a directory");
        let facts = Facts::below(root.path());
        assert!(facts.cpus.is_empty() && facts.real_time_share.is_none() && facts.locked_memory.is_none());
        assert_eq!((facts.stolen_ppm, facts.no_namespaces), (0, None));
    }
}
