//! The contenders: each is a path of four namespaces (controller, near gateway, far gateway,
//! device).

use crate::{ExperimentError, failed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use antedate_gateway::config::tunnel_keys::{Kind, Secret, encode, generate, public_of, write_new};

use crate::link::Gateway;
use antedate_lab::histogram::Times;
use antedate_lab::ns::{Chain, ChainOptions, Namespace};
use antedate_lab::process::{Place, Process};
use antedate_lab::roundtrip::{EchoOptions, PingOptions, PingReport};
use antedate_lab::station::meter::Measured;
use antedate_lab::station::{Line, Request};
use antedate_lab::sys::sched;

/// Real-time priority of all daemons, below that of the machines.
pub(super) const PRIORITY: i32 = 20;

/// The link between the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    Bridges,
    KernelVxlan,
    KernelOverGo,
    KernelOverBoringtun,
    KernelOverKernel,
    OursPlain,
    OursBare,
    Ours,
    OursToStock,
    /// No Ethernet: IP packets are routed into it.
    GoAlone,
    /// The same, in the kernel.
    KernelAlone,
}

/// The program or the kernel that speaks WireGuard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tunnel {
    Daemon(&'static str),
    Kernel,
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Contender {
    /// Those that carry Ethernet.
    pub(super) const ALL: [Self; 9] = [
        Self::Bridges,
        Self::KernelVxlan,
        Self::KernelOverGo,
        Self::KernelOverBoringtun,
        Self::KernelOverKernel,
        Self::OursPlain,
        Self::OursBare,
        Self::Ours,
        Self::OursToStock,
    ];
    /// Those whose datagrams are timed: the paper's rows, and ours.
    pub(super) const WITH_DATAGRAMS: [Self; 8] = [
        Self::Bridges,
        Self::KernelVxlan,
        Self::GoAlone,
        Self::KernelAlone,
        Self::KernelOverGo,
        Self::KernelOverKernel,
        Self::OursBare,
        Self::Ours,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bridges => "plain bridges",
            Self::KernelVxlan => "kernel VXLAN",
            Self::KernelOverGo => "kernel VXLAN over wireguard-go",
            Self::KernelOverBoringtun => "kernel VXLAN over boringtun",
            Self::KernelOverKernel => "kernel VXLAN over kernel WireGuard",
            Self::OursPlain => "ours, none",
            Self::OursBare => "ours, VXLAN without WireGuard",
            Self::Ours => "ours to ours",
            Self::OursToStock => "ours to kernel VXLAN over wireguard-go",
            Self::GoAlone => "WireGuard alone, by wireguard-go",
            Self::KernelAlone => "WireGuard alone, by the kernel",
        }
    }

    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::OursPlain | Self::OursBare | Self::Ours | Self::OursToStock)
    }

    pub(super) const fn note(self) -> &'static str {
        match self {
            Self::Bridges | Self::KernelVxlan => "in the kernel, on the sender's core",
            Self::KernelOverKernel | Self::KernelAlone => "in the kernel",
            Self::KernelOverGo | Self::KernelOverBoringtun | Self::GoAlone => {
                "a daemon that sleeps, as it comes"
            }
            Self::OursPlain | Self::OursBare | Self::Ours => {
                "one polling thread a gateway, each on a core with its machine"
            }
            Self::OursToStock => "near end polling, far end stock",
        }
    }

    /// The missing requirement on this machine, if any.
    pub(super) fn missing(self) -> Option<&'static str> {
        match self {
            Self::KernelOverGo | Self::GoAlone | Self::OursToStock
                if !(runs("wireguard-go") && runs("wg")) =>
            {
                Some("apt-get install wireguard-go wireguard-tools")
            }
            Self::KernelOverBoringtun if !(runs("boringtun-cli") && runs("wg")) => {
                Some("cargo install boringtun-cli, and wireguard-tools")
            }
            Self::KernelOverKernel | Self::KernelAlone if !(kernel_has_wireguard() && runs("wg")) => Some(
                "a kernel with the module wireguard, and wireguard-tools; `cargo xtask peers overlay-kernel` has one in a guest",
            ),
            _ => None,
        }
    }
}

/// Whether this kernel makes WireGuard's interfaces.
fn kernel_has_wireguard() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let add = ["link add wg0 type wireguard".to_owned()];
        Namespace::create("probe").is_ok_and(|space| space.batch(&add).is_ok())
    })
}

/// A running path; removed on drop.
pub(super) struct Path {
    pub(super) gateways: Vec<Gateway>,
    daemons: Vec<Daemon>,
    contender: Contender,
    pub(super) cpus: [usize; 2],
    pub(super) chain: Chain,
    files: PathBuf,
}

/// A WireGuard daemon of another project.
struct Daemon {
    process: Child,
    name: String,
}

impl Daemon {
    /// Name of its interface and socket.
    fn name(side: usize) -> String {
        format!("wg{}-{side}", std::process::id())
    }

    /// Its socket. A killed daemon leaves it behind.
    fn socket(name: &str) -> PathBuf {
        PathBuf::from(format!("/var/run/wireguard/{name}.sock"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(Self::socket(&self.name));
    }
}

/// Removes the sockets of this process's daemons before they are killed with it.
pub(crate) fn remove_sockets() {
    for side in 0..2 {
        let _ = fs::remove_file(Daemon::socket(&Daemon::name(side)));
    }
}

impl Path {
    pub(super) fn build(contender: Contender) -> Result<Self, ExperimentError> {
        Self::with(contender, "")
    }

    /// Builds a path with more lines in our gateways' `[overlay]`.
    pub(super) fn with(contender: Contender, overlay: &str) -> Result<Self, ExperimentError> {
        // An MTU of 1650 avoids fragmentation, so the comparison covers the tunnels alone.
        let chain = Chain::build(ChainOptions { wire_mtu: 1650, wire: false, ..ChainOptions::default() })
            .map_err(failed)?;
        let files = crate::files("antedate-lab-overlay-");
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).map_err(failed)?;
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        let cpus = sched::allowed_cpus();
        let cpu = |index: usize| cpus.get(index % cpus.len().max(1)).copied().unwrap_or(0);
        let cpus = [cpu(0), cpu(1)];
        for (space, last) in [(&chain.gateway_a, 1), (&chain.gateway_b, 2)] {
            space.batch(&[format!("addr add 192.0.2.{last}/24 dev uplink")]).map_err(failed)?;
        }
        let mut path = Self { gateways: Vec::new(), daemons: Vec::new(), contender, cpus, chain, files };
        let keys = [1, 2].map(|seed| key(&path.files, seed));
        let [near, far] = keys;
        let keys = [near?, far?];
        match contender {
            Contender::Bridges => path.chain.bridge_gateways().map_err(failed)?,
            Contender::KernelVxlan => {
                for side in 0..2 {
                    path.vxlan(side, "192.0.2")?;
                }
            }
            Contender::KernelOverGo => {
                (0..2).try_for_each(|side| path.stock(side, Tunnel::Daemon("wireguard-go"), &keys))?;
            }
            Contender::KernelOverKernel => {
                (0..2).try_for_each(|side| path.stock(side, Tunnel::Kernel, &keys))?;
            }
            Contender::GoAlone => {
                (0..2).try_for_each(|side| path.routed(side, Tunnel::Daemon("wireguard-go"), &keys))?;
            }
            Contender::KernelAlone => {
                (0..2).try_for_each(|side| path.routed(side, Tunnel::Kernel, &keys))?;
            }
            Contender::KernelOverBoringtun => {
                (0..2).try_for_each(|side| path.stock(side, Tunnel::Daemon("boringtun-cli"), &keys))?;
            }
            Contender::OursPlain | Contender::OursBare | Contender::Ours => {
                (0..2).try_for_each(|side| path.ours(side, contender, &keys, overlay))?;
            }
            Contender::OursToStock => {
                path.ours(0, contender, &keys, overlay)?;
                path.stock(1, Tunnel::Daemon("wireguard-go"), &keys)?;
            }
        }
        Ok(path)
    }

    fn space(&self, side: usize) -> &Namespace {
        if side == 0 { &self.chain.gateway_a } else { &self.chain.gateway_b }
    }

    /// Sets up kernel VXLAN between the addresses that end in 1 and 2, bridged to the field.
    fn vxlan(&self, side: usize, network: &str) -> Result<(), ExperimentError> {
        let (own, other) = (side + 1, 2 - side);
        let space = self.space(side);
        space
            .batch(&[
                format!("link add vx0 type vxlan id 42 local {network}.{own} remote {network}.{other} dstport 4789"),
                "link set dev vx0 mtu 1500".into(),
            ])
            .map_err(failed)?;
        space.bridge(&["field", "vx0"]).map_err(failed)?;
        space.batch(&["link set dev vx0 up".into()]).map_err(failed)
    }

    /// Sets up kernel VXLAN over WireGuard.
    fn stock(&mut self, side: usize, tunnel: Tunnel, keys: &[Secret; 2]) -> Result<(), ExperimentError> {
        self.tunnel(side, tunnel, keys)?;
        self.vxlan(side, "10.66.0")
    }

    /// Routes the machines' packets into WireGuard, without Ethernet.
    fn routed(&mut self, side: usize, tunnel: Tunnel, keys: &[Secret; 2]) -> Result<(), ExperimentError> {
        self.tunnel(side, tunnel, keys)?;
        let (own, other, name) = (side + 1, 2 - side, Daemon::name(side));
        let space = self.space(side);
        let forward = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        space.run(forward).and_then(|written| written).map_err(failed)?;
        space
            .batch(&[
                format!("addr add 10.7.{own}.254/24 dev field"),
                format!("route add 10.7.{other}.0/24 dev {name}"),
            ])
            .map_err(failed)
    }

    /// Starts the program that speaks WireGuard on one side, and waits for its interface.
    fn daemon(&mut self, side: usize, program: &str) -> Result<(), ExperimentError> {
        let name = Daemon::name(side);
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            self.space(side).name(),
            "chrt",
            "--fifo",
            &PRIORITY.to_string(),
            program,
            "--foreground",
            &name,
        ]);
        if program == "boringtun-cli" {
            command.arg("--disable-drop-privileges");
        }
        command.env("LOG_LEVEL", "error").env("WG_LOG_LEVEL", "error");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The daemon ends with this process.
        antedate_lab::sys::process::arrange(&mut command, None, &[]);
        let process = command.spawn().map_err(failed)?;
        self.daemons.push(Daemon { process, name: name.clone() });
        let end = Instant::now() + Duration::from_secs(5);
        while self.space(side).batch(&[format!("link show {name}")]).is_err() {
            if Instant::now() > end {
                return Err(format!("{program} does not start").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Sets up WireGuard between the boxes.
    fn tunnel(&mut self, side: usize, tunnel: Tunnel, keys: &[Secret; 2]) -> Result<(), ExperimentError> {
        let name = Daemon::name(side);
        match tunnel {
            Tunnel::Daemon(program) => self.daemon(side, program)?,
            Tunnel::Kernel => {
                self.space(side).batch(&[format!("link add {name} type wireguard")]).map_err(failed)?;
            }
        }
        let space = self.space(side);
        let (own, other) = (side + 1, 2 - side);
        let file = self.files.join(format!("{own}.key"));
        let status = Command::new("ip")
            .args(["netns", "exec", space.name(), "wg", "set", &name, "listen-port", "51820", "private-key"])
            .arg(file)
            .args([
                "peer",
                &encode(&public_of(&keys[1 - side])),
                "endpoint",
                &format!("192.0.2.{other}:51820"),
            ])
            .args(["allowed-ips", &format!("10.66.0.{other}/32,10.7.{other}.0/24")])
            .status();
        if !status.map_err(failed)?.success() {
            return Err(format!("wg set {name} failed").into());
        }
        space
            .batch(&[
                format!("addr add 10.66.0.{own}/24 dev {name}"),
                format!("link set dev {name} mtu 1560 up"),
            ])
            .map_err(failed)
    }

    /// Starts one of our gateways.
    fn ours(
        &mut self,
        side: usize,
        contender: Contender,
        keys: &[Secret; 2],
        overlay: &str,
    ) -> Result<(), ExperimentError> {
        let (own, other) = (side + 1, 2 - side);
        let protection = match contender {
            Contender::OursPlain => "[plain]".to_owned(),
            Contender::OursBare => format!(
                "[overlay]\nwireguard = false\nlisten = 4789\naddress = \"10.66.0.{own}\"\nvni = 42\n\
                 [[overlay.peer]]\nendpoint = \"192.0.2.{other}:4789\"\naddress = \"10.66.0.{other}\""
            ),
            _ => format!(
                "[overlay]\nprivate_key_file = \"{own}.key\"\naddress = \"10.66.0.{own}\"\nvni = 42\n{overlay}\n\
                 [[overlay.peer]]\npublic_key = \"{}\"\nendpoint = \"192.0.2.{other}:51820\"\n\
                 address = \"10.66.0.{other}\"",
                *encode(&public_of(&keys[1 - side]))
            ),
        };
        let name = format!("gateway{own}");
        // Gateways that share a core share the kernel's 95 % for real-time threads.
        let share = if self.cpus[0] == self.cpus[1] { 40 } else { 80 };
        let configuration = format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n{protection}\n\
             [policy]\nallow = [\"all\"]\n[run]\npoll = \"adaptive\"\npoll_cpu_percent = {share}\npriority = {PRIORITY}\ncpus = [{}]\n[control]\nsocket = \"{}\"\n",
            self.cpus[side],
            self.files.join(format!("{name}.sock")).display()
        );
        let gateway = Gateway::with(self.space(side), &self.files, &name, &configuration)?;
        self.gateways.push(gateway);
        Ok(())
    }

    /// Measures round trips of 64 octets, one at a time. Returns the number of lost ones.
    pub(super) fn round_trips(&self, count: u64, times: &mut Times) -> Result<u64, ExperimentError> {
        let place = |side: usize| Place {
            namespace: Some(if side == 0 { self.chain.plc.file() } else { self.chain.device.file() }),
            cpus: &self.cpus[side..=side],
        };
        let mut echo = Process::role(
            "echo",
            "lab-echo",
            &EchoOptions { interface: "eth0".into(), ..EchoOptions::default() },
            &place(1),
        )
        .map_err(failed)?;
        echo.next_line(Duration::from_secs(10)).ok_or("the responder does not start")?;
        // The warm-up establishes a session and fills the bridges' tables.
        let options = PingOptions { count, warm_up: 500, histogram: true, ..PingOptions::default() };
        let mut ping = Process::role("ping", "lab-ping", &options, &place(0)).map_err(failed)?;
        let line = ping.next_line(Duration::from_secs(120)).ok_or_else(|| ping.errors().join("\n"))?;
        let report: PingReport = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
        for (ns, count) in &report.histogram_ns {
            (0..*count).for_each(|_| times.record(*ns));
        }
        echo.end();
        Ok(report.lost)
    }

    /// Gives the machines their addresses. Returns that of the device.
    pub(super) fn addresses(&self) -> Result<String, ExperimentError> {
        let routed = matches!(self.contender, Contender::GoAlone | Contender::KernelAlone);
        for (space, last) in [(&self.chain.plc, 1), (&self.chain.device, 2)] {
            let lines = if routed {
                vec![
                    format!("addr add 10.7.{last}.1/24 dev eth0"),
                    format!("route add 10.7.0.0/16 via 10.7.{last}.254"),
                ]
            } else {
                vec![format!("addr add 10.7.0.{last}/24 dev eth0")]
            };
            space.batch(&lines).map_err(failed)?;
        }
        Ok(if routed { "10.7.2.1" } else { "10.7.0.2" }.into())
    }

    /// Runs controller and device and returns their reports.
    pub(super) fn stations(&self, cycle_us: u32, seconds: f64) -> Result<[Measured; 2], ExperimentError> {
        let start = |role: &str, namespace: &Namespace, side: usize, seconds: f64| {
            let options = serde_json::json!({
                "role": role, "cycle_us": cycle_us, "seconds": seconds, "realtime": { "cpus": [self.cpus[side]] },
            });
            let place = Place { namespace: Some(namespace.file()), cpus: &[] };
            Process::role(role, "lab-station", &options, &place).map_err(failed)
        };
        let device = start("device", &self.chain.device, 1, seconds + 5.0)?;
        let ends = [start("plc", &self.chain.plc, 0, seconds)?, device];
        reports(ends, Duration::from_secs_f64(seconds + 40.0))
    }
}

/// Collects both stations' final reports; fails as soon as one ends without a report.
fn reports(mut ends: [Process; 2], patience: Duration) -> Result<[Measured; 2], ExperimentError> {
    let mut results = [None, None];
    let end = Instant::now() + patience;
    while results.iter().any(Option::is_none) {
        for (at, other) in [(0, 1), (1, 0)] {
            // Asked first: the last lines of an ended station may still be on the way.
            let runs = ends[at].is_running();
            for line in if runs { ends[at].lines() } else { ends[at].end() } {
                match serde_json::from_str(&line) {
                    Ok(Line::Result(result)) => results[at] = Some(result.measured),
                    // The core is shared with the station's gateway. An ended station needs no
                    // notice.
                    Ok(Line::Stalled { from_ns, to_ns }) => {
                        let _ = ends[other].tell(&Request::PeerStalled { from_ns, to_ns });
                    }
                    _ => {}
                }
            }
            if !runs && results[at].is_none() {
                let said = ends[at].errors().join("; ");
                let said = if said.is_empty() { "it said nothing" } else { said.as_str() };
                return Err(format!("the {} ended: {said}", ends[at].name()).into());
            }
        }
        if Instant::now() > end {
            let said: Vec<_> = ends.iter_mut().flat_map(|end| end.errors().to_vec()).collect();
            return Err(format!("the stations do not end: {}", said.join("; ")).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(results.map(Option::unwrap_or_default))
}

impl Drop for Path {
    fn drop(&mut self) {
        self.gateways.clear();
        self.daemons.clear();
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Writes a fixed private key to a file; it protects nothing.
fn key(files: &FilePath, seed: u8) -> Result<Secret, ExperimentError> {
    let fill = |octets: &mut [u8]| {
        octets
            .iter_mut()
            .enumerate()
            .for_each(|(at, octet)| *octet = seed.wrapping_add(41u8.wrapping_mul(at as u8)));
        Ok::<_, ExperimentError>(())
    };
    let key = generate(Kind::Private, fill)?;
    write_new(&files.join(format!("{seed}.key")), &key).map_err(failed)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_end_of_station_is_reported() {
        let start = |name: &str, script: &str| {
            Process::start(name, &"/bin/sh".into(), &["-c", script], &Place::default()).expect("a shell")
        };
        let ends = [start("plc", "echo 'no such interface' >&2; exit 2"), start("device", "sleep 60")];
        let begun = Instant::now();
        let why = reports(ends, Duration::from_secs(50)).expect_err("no report");
        assert_eq!(why.to_string(), "the plc ended: no such interface");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
