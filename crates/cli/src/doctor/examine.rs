//! The examinations, each a rule on [`Facts`].

use super::facts::{Cpu, Facts, Port};
use super::{Finding, Level};

/// A CPU that sleeps longer is late: a frame of a cycle of 1 ms has some ten microseconds.
const WAKE_MAX: u64 = 20;
/// More microseconds before an interrupt are a late frame.
const COALESCE_MAX: u64 = 10;
/// A hypervisor that takes more of the time makes frames late.
const STOLEN_MAX: u64 = 1_000;
/// The daemon's heap, rings and stacks.
const LOCKED_MIN: u64 = 64 << 20;
/// `capabilities(7)`
const CAP_NET_RAW: u32 = 13;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;
/// Programs that set the clock.
const CLOCKS: [&str; 7] = ["chronyd", "ntpd", "ntpsec", "openntpd", "systemd-timesyn", "ptp4l", "phc2sys"];

/// What a gateway asks of the machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// The CPUs of its forwarding threads.
    pub(super) cpus: Vec<usize>,
    pub(super) is_polling: bool,
    pub(super) priority: Option<u8>,
    pub(super) ports: Vec<String>,
}

fn finding(name: &'static str, level: Level, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { name, level, what: what.into(), remedy: remedy.into() }
}

fn good(name: &'static str, what: impl Into<String>) -> Finding {
    finding(name, Level::Good, what, "")
}

/// All findings.
pub(super) fn examine(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let mut found = vec![rights(facts), memory(facts), sleep(facts, wanted), frequency(facts), clock(facts)];
    found.extend([priority(facts, wanted), time_source(facts), stolen(facts), cipher(facts), demo(facts)]);
    found.extend(cpus(facts, wanted));
    if !facts.has_ethtool && !facts.ports.is_empty() {
        let what = "there is no ethtool, so delays of the ports were not examined";
        found.push(finding("ports", Level::Note, what, "apt install ethtool"));
    }
    found.extend(facts.ports.iter().flat_map(|port| ports(port, wanted)));
    found
}

fn has(facts: &Facts, capability: u32) -> bool {
    facts.capabilities >> capability & 1 == 1
}

fn rights(facts: &Facts) -> Finding {
    if has(facts, CAP_NET_RAW) {
        return good("rights", "packet sockets are permitted (CAP_NET_RAW)");
    }
    let remedy = "call it with sudo; run the gateway by its unit, or setcap cap_net_raw,cap_sys_nice,cap_ipc_lock+ep /usr/bin/antedate";
    finding("rights", Level::Note, "this user may not open packet sockets, which a gateway needs", remedy)
}

fn memory(facts: &Facts) -> Finding {
    match facts.locked_memory {
        Some(limit) if limit < LOCKED_MIN && !has(facts, CAP_IPC_LOCK) => finding(
            "memory",
            Level::Hurts,
            format!(
                "{} KiB may be locked: a page fault may delay a frame, and keys may reach the swap",
                limit >> 10
            ),
            "LimitMEMLOCK=infinity in the unit, as the units of this project have it, or ulimit -l unlimited",
        ),
        _ => good("memory", "enough memory may be locked"),
    }
}

/// The CPUs that count: those of the forwarding threads, or all.
fn counted<'a>(facts: &'a Facts, wanted: &'a Wanted) -> impl Iterator<Item = &'a Cpu> {
    facts.cpus.iter().filter(|cpu| wanted.cpus.is_empty() || wanted.cpus.contains(&cpu.number))
}

fn sleep(facts: &Facts, wanted: &Wanted) -> Finding {
    let deep = |cpu: &'_ Cpu| {
        let states = cpu.idle.iter().filter(|state| state.latency > WAKE_MAX);
        states.max_by_key(|state| state.latency).map(|state| (cpu.number, state.clone()))
    };
    match counted(facts, wanted).filter_map(deep).max_by_key(|(_, state)| state.latency) {
        None => good("sleep", "no CPU sleeps deeper than it wakes in time"),
        Some((cpu, state)) => finding(
            "sleep",
            Level::Hurts,
            format!("CPU {cpu} may sleep in {}, from which it wakes after {} us", state.name, state.latency),
            format!("cpupower idle-set --disable-by-latency {}", WAKE_MAX + 1),
        ),
    }
}

fn frequency(facts: &Facts) -> Finding {
    let slow = |cpu: &&Cpu| cpu.governor.as_deref().is_some_and(|governor| governor != "performance");
    match facts.cpus.iter().find(slow) {
        None => good("frequency", "no CPU saves energy by a lower frequency"),
        Some(cpu) => finding(
            "frequency",
            Level::Hurts,
            format!("CPU {} has the governor {}", cpu.number, cpu.governor.as_deref().unwrap_or_default()),
            "cpupower frequency-set --governor performance",
        ),
    }
}

fn clock(facts: &Facts) -> Finding {
    match facts.processes.iter().find(|name| CLOCKS.contains(&name.as_str())) {
        Some(name) => good("clock", format!("{name} sets it")),
        None => finding(
            "clock",
            Level::Hurts,
            "no program sets the clock: log lines, ages of MQTT commands and certificates depend on it",
            "apt install chrony; or let the hypervisor set it",
        ),
    }
}

fn priority(facts: &Facts, wanted: &Wanted) -> Finding {
    let share = facts.real_time_share.filter(|(run, _)| *run >= 0);
    if let Some(priority) = wanted.priority {
        let is_permitted = has(facts, CAP_SYS_NICE)
            || facts.priority_limit.is_some_and(|limit| limit >= u64::from(priority));
        if !is_permitted {
            let what = format!("run.priority = {priority} is not permitted to this user");
            let remedy = "LimitRTPRIO=99 in the unit, or give CAP_SYS_NICE";
            return finding("priority", Level::Hurts, what, remedy);
        }
        if let Some((run, period)) = share.filter(|(run, period)| run * 20 < period * 19) {
            let what = format!(
                "threads of fixed priority have {run} of each {period} us of a core, then they stand"
            );
            return finding("priority", Level::Hurts, what, "sysctl kernel.sched_rt_runtime_us=950000");
        }
    }
    match share {
        Some((run, period)) => good(
            "priority",
            format!(
                "threads of fixed priority have {run} of each {period} us of a core; a gateway rests by itself"
            ),
        ),
        None => good("priority", "threads of fixed priority have no bound"),
    }
}

fn time_source(facts: &Facts) -> Finding {
    match facts.clock_source.as_str() {
        slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies") => finding(
            "time source",
            Level::Hurts,
            format!("each look at the clock takes a microsecond or more: the kernel uses {slow}"),
            "see dmesg for the reason against tsc; firmware, or tsc=reliable on the kernel's command line",
        ),
        name => good("time source", if name.is_empty() { "unknown" } else { name }),
    }
}

fn stolen(facts: &Facts) -> Finding {
    if facts.stolen_ppm > STOLEN_MAX {
        let what = format!(
            "a hypervisor took {:.2} % of the CPUs' time since the start",
            facts.stolen_ppm as f64 / 1e4
        );
        return finding(
            "hypervisor",
            Level::Hurts,
            what,
            "give this machine CPUs of its own (pinned, not shared)",
        );
    }
    good("hypervisor", "no time of the CPUs was taken")
}

fn cipher(facts: &Facts) -> Finding {
    if facts.flags.is_empty() || facts.flags.iter().any(|flag| flag == "aes") {
        return good("cipher", "the CPU has AES instructions");
    }
    let remedy = "cipher = \"auto\" or \"chacha20-poly1305\" between Antedate gateways; [flows] for AES";
    finding("cipher", Level::Hurts, "the CPU has no AES instructions, so AES costs ten times as much", remedy)
}

fn demo(facts: &Facts) -> Finding {
    match facts.no_namespaces {
        None => good("demo", "user namespaces are permitted"),
        Some(remedy) => finding(
            "demo",
            Level::Note,
            "user namespaces are forbidden: demo and lab need root",
            format!("call them with sudo, or {remedy}"),
        ),
    }
}

/// CPUs that other work shares with forwarding threads.
fn cpus(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let mut found = Vec::new();
    if facts.cpus.len() == 1 {
        let what = "this machine has one CPU: all other programs delay frames";
        found.push(finding("CPU", Level::Hurts, what, "give it a second one"));
    }
    for cpu in &wanted.cpus {
        if !facts.isolated.contains(cpu) {
            let what = format!("other programs may run on CPU {cpu}, which a forwarding thread has");
            let remedy =
                format!("isolcpus={cpu} nohz_full={cpu} rcu_nocbs={cpu} on the kernel's command line");
            found.push(finding("CPU", Level::Hurts, what, remedy));
        }
        let about = facts.cpus.iter().find(|about| about.number == *cpu);
        let sibling = about.and_then(|about| about.siblings.iter().find(|sibling| *sibling != cpu));
        if let Some(sibling) = sibling {
            let what = format!("CPU {sibling} shares its core with CPU {cpu}, which a forwarding thread has");
            let remedy = format!("echo 0 > /sys/devices/system/cpu/cpu{sibling}/online");
            found.push(finding("CPU", Level::Hurts, what, remedy));
        }
    }
    if facts.processes.iter().any(|name| name == "irqbalance") && !wanted.cpus.is_empty() {
        let cpus: Vec<String> = wanted.cpus.iter().map(ToString::to_string).collect();
        let what = "irqbalance moves interrupts to CPUs of forwarding threads";
        let remedy = format!("IRQBALANCE_BANNED_CPULIST={} in /etc/default/irqbalance", cpus.join(","));
        found.push(finding("interrupts", Level::Hurts, what, remedy));
    }
    found
}

/// What a port's card and driver add.
fn ports(port: &Port, wanted: &Wanted) -> Vec<Finding> {
    let name = &port.name;
    let mut found = Vec::new();
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    };
    for key in ["rx-usecs", "tx-usecs"] {
        let delay = value(&port.coalescing, key).and_then(|text| text.parse::<u64>().ok());
        if let Some(delay) = delay.filter(|delay| *delay > COALESCE_MAX) {
            let what = format!("{name} waits {delay} us before an interrupt ({key})");
            found.push(finding("ports", Level::Hurts, what, format!("ethtool -C {name} {key} 0")));
        }
    }
    if value(&port.coalescing, "Adaptive RX").is_some_and(|text| text.starts_with("on")) {
        let what = format!("{name} waits before interrupts, as long as it finds right");
        found.push(finding(
            "ports",
            Level::Hurts,
            what,
            format!("ethtool -C {name} adaptive-rx off rx-usecs 0"),
        ));
    }
    if value(&port.features, "large-receive-offload").is_some_and(|text| text.starts_with("on")) {
        let what = format!("{name} merges received frames (LRO), so their borders are lost");
        found.push(finding("ports", Level::Hurts, what, format!("ethtool -K {name} lro off")));
    }
    if value(&port.energy, "EEE status").is_some_and(|text| text.starts_with("enabled")) {
        let what = format!("{name} lets its link sleep (IEEE 802.3az), and wakes it for each frame");
        found.push(finding("ports", Level::Hurts, what, format!("ethtool --set-eee {name} eee off")));
    }
    let polled = wanted.cpus.iter().find(|cpu| wanted.is_polling && port.irq_cpus.contains(cpu));
    if let Some(cpu) = polled {
        let what = format!("interrupts of {name} come to CPU {cpu}, where a forwarding thread polls");
        let remedy = "write another CPU to /proc/irq/NUMBER/smp_affinity_list, for the numbers in /sys/class/net/PORT/device/msi_irqs";
        found.push(finding("interrupts", Level::Hurts, what, remedy));
    }
    if found.is_empty() {
        found.push(good("ports", format!("{name} adds no delay that is known")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::facts::IdleState;
    use super::*;

    /// A machine without a fault.
    fn healthy() -> Facts {
        let cpu = |number| Cpu {
            number,
            idle: vec![IdleState { name: "C1".to_owned(), latency: 2 }],
            governor: Some("performance".to_owned()),
            siblings: vec![number],
        };
        Facts {
            cpus: vec![cpu(0), cpu(1)],
            isolated: vec![1],
            flags: vec!["aes".to_owned()],
            real_time_share: Some((950_000, 1_000_000)),
            clock_source: "tsc".to_owned(),
            processes: vec!["chronyd".to_owned()],
            capabilities: u64::MAX,
            has_ethtool: true,
            ports: vec![Port { name: "eth0".to_owned(), irq_cpus: vec![0], ..Port::default() }],
            ..Facts::default()
        }
    }

    fn gateway() -> Wanted {
        Wanted { cpus: vec![1], is_polling: true, priority: Some(50), ..Wanted::default() }
    }

    fn bad(facts: &Facts) -> Vec<Finding> {
        let found = examine(facts, &gateway());
        found.into_iter().filter(|finding| finding.level > Level::Good).collect()
    }

    #[test]
    fn healthy_machine_has_no_finding() {
        assert_eq!(bad(&healthy()), []);
    }

    /// Changes one fact of a healthy machine.
    fn with(change: impl FnOnce(&mut Facts)) -> Facts {
        let mut facts = healthy();
        change(&mut facts);
        facts
    }

    #[test]
    fn each_fault_is_found_alone_with_a_remedy() {
        let deep = IdleState { name: "C6".to_owned(), latency: 133 };
        let port = |change: fn(&mut Port)| with(|facts| change(&mut facts.ports[0]));
        let faults = [
            ("rights", with(|facts| facts.capabilities = !(1 << CAP_NET_RAW))),
            (
                "memory",
                with(|facts| {
                    (facts.capabilities, facts.locked_memory) = (!(1 << CAP_IPC_LOCK), Some(8 << 20))
                }),
            ),
            ("sleep", with(|facts| facts.cpus[1].idle.push(deep))),
            ("frequency", with(|facts| facts.cpus[0].governor = Some("powersave".to_owned()))),
            ("clock", with(|facts| facts.processes.clear())),
            ("priority", with(|facts| facts.capabilities = !(1 << CAP_SYS_NICE))),
            ("priority", with(|facts| facts.real_time_share = Some((500_000, 1_000_000)))),
            ("time source", with(|facts| facts.clock_source = "hpet".to_owned())),
            ("hypervisor", with(|facts| facts.stolen_ppm = 4_000)),
            ("cipher", with(|facts| facts.flags = vec!["sse2".to_owned()])),
            ("demo", with(|facts| facts.no_namespaces = Some("sysctl a=1"))),
            ("CPU", with(|facts| facts.isolated.clear())),
            ("CPU", with(|facts| facts.cpus[1].siblings = vec![0, 1])),
            ("interrupts", with(|facts| facts.processes.push("irqbalance".to_owned()))),
            ("interrupts", port(|port| port.irq_cpus = vec![1])),
            ("ports", with(|facts| facts.has_ethtool = false)),
            ("ports", port(|port| port.coalescing = "rx-usecs:\t50\n".to_owned())),
            ("ports", port(|port| port.coalescing = "Adaptive RX: on  TX: off\nrx-usecs:\t3\n".to_owned())),
            ("ports", port(|port| port.features = "large-receive-offload: on\n".to_owned())),
            (
                "ports",
                port(|port| {
                    port.energy = "EEE settings for eth0:\n\tEEE status: enabled - active\n".to_owned()
                }),
            ),
        ];
        for (name, facts) in faults {
            let found = bad(&facts);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert_eq!(found[0].name, name);
            assert!(!found[0].remedy.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn cpus_without_frames_may_sleep() {
        let facts = with(|facts| facts.cpus[0].idle.push(IdleState { name: "C6".to_owned(), latency: 133 }));
        assert_eq!(bad(&facts), []);
        let all = examine(&facts, &Wanted::default());
        assert!(all.iter().any(|finding| finding.name == "sleep" && finding.level == Level::Hurts));
    }
}
