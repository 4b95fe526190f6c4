//! The plant of the demonstration: namespaces, two gateways, the wire, the tap, a controller and a device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use antedate_gateway::config::machine::{Machine as _, ThisMachine};

use super::gateway::{Gateway, Setup, antedate};
use super::placement::Placement;
use super::{DemoError, Options, Secure};
use crate::emulator::{self, Command};
use crate::ns::{Chain, ChainOptions, Privilege};
use crate::process::{Place, Process, sweep_directories};
use crate::realtime::Realtime;
use crate::station::meter::Live;
use crate::station::{self, Report, Role};
use crate::tap;
use crate::tap::view::Seen;

/// Priority of gateways and wire, below the stations'.
const PRIORITY: u8 = 20;
/// Interval of the stations' live lines.
pub(super) const LIVE_MS: u32 = 100;
const TAP_LIVE_MS: u32 = 250;
const PATIENCE: Duration = Duration::from_secs(10);

/// A directory with keys and state files; removed on drop.
#[derive(Debug)]
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn create() -> Result<Self, DemoError> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = std::env::temp_dir();
        // The keys in directories of killed runs had no other use.
        sweep_directories(&parent, &["antedate-demo-"]);
        let path = parent.join(format!("antedate-demo-{}", std::process::id()));
        let failed = |error| {
            DemoError::Start(format!("{}: {error}; set TMPDIR to a place to write to", path.display()))
        };
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A station and its newest line.
#[derive(Debug)]
pub(super) struct Station {
    process: Process,
    pub(super) live: Live,
    pub(super) events: Vec<station::Line>,
    /// Times at which its core was withheld: from, to.
    stalls: Vec<(u64, u64)>,
    report: Option<Report>,
}

impl Station {
    fn start(role: Role, options: &station::Options, place: &Place<'_>) -> Result<Self, DemoError> {
        let name = if role == Role::Plc { "plc" } else { "device" };
        let options = station::Options { role, ..options.clone() };
        let process = Process::role(name, "lab-station", &options, place)
            .map_err(|error| DemoError::Start(format!("{name}: {error}")))?;
        Ok(Self { process, live: Live::default(), events: Vec::new(), stalls: Vec::new(), report: None })
    }

    /// Processes new lines. Returns requests to the other station.
    fn look(&mut self) -> Vec<station::Request> {
        self.process.lines().iter().filter_map(|line| self.take(line)).collect()
    }

    fn take(&mut self, line: &str) -> Option<station::Request> {
        match serde_json::from_str(line).ok()? {
            station::Line::Live(live) => self.live = live,
            station::Line::Result(report) => self.report = Some(*report),
            station::Line::Stalled { from_ns, to_ns } => {
                self.stalls.push((from_ns, to_ns));
                return Some(station::Request::PeerStalled { from_ns, to_ns });
            }
            event => self.events.push(event),
        }
        None
    }

    pub(super) fn started(&self) -> bool {
        self.events.iter().any(|event| matches!(event, station::Line::Started { .. }))
    }

    /// First recovery after `since_ns`.
    pub(super) fn recovered_after(&self, since_ns: u64) -> Option<u64> {
        self.events.iter().find_map(|event| match event {
            station::Line::Recovered { at_ns, .. } if *at_ns >= since_ns => Some(*at_ns),
            _ => None,
        })
    }

    /// First expiry of the watchdog after `since_ns`.
    pub(super) fn bus_error_after(&self, since_ns: u64) -> Option<u64> {
        self.events.iter().find_map(|event| match event {
            station::Line::BusError { at_ns } if *at_ns >= since_ns => Some(*at_ns),
            _ => None,
        })
    }

    fn tell(&mut self, request: station::Request) -> Result<(), DemoError> {
        self.process.tell(&request).map_err(|_| self.failure())
    }

    fn failure(&mut self) -> DemoError {
        let said = self.process.errors().join("\n");
        DemoError::process(self.process.name(), said)
    }

    fn finish(&mut self) -> Result<Report, DemoError> {
        for line in self.process.end() {
            self.take(&line);
        }
        match self.report.take() {
            Some(report) => Ok(report),
            None => Err(self.failure()),
        }
    }
}

/// Results of a stopped plant.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) plc: Report,
    pub(super) device: Report,
    pub(super) tap: Seen,
    pub(super) wire: Option<emulator::State>,
    pub(super) gateways_ended_cleanly: bool,
}

/// All running parts. Fields drop in this order: processes before their namespaces.
#[derive(Debug)]
pub(super) struct Plant {
    pub(super) plc: Station,
    pub(super) device: Station,
    /// A, then B; empty with plain bridges.
    pub(super) gateways: Vec<Gateway>,
    wire: Option<Process>,
    tap: Process,
    pub(super) seen: Seen,
    pub(super) placement: Placement,
    _directory: Directory,
    chain: Chain,
}

impl Plant {
    /// Builds the plant and waits until controller and device exchange data.
    pub(super) fn build(options: &Options, privilege: Privilege) -> Result<Self, DemoError> {
        let placement = Placement::on(&crate::sys::sched::allowed_cpus());
        let chain = Chain::build(ChainOptions {
            wire_mtu: options.mtu.map_or(ChainOptions::default().wire_mtu, u32::from),
            ..ChainOptions::default()
        })?;
        let directory = Directory::create()?;
        let priority = (privilege == Privilege::Root).then_some(PRIORITY);
        let wire_namespace =
            chain.wire.as_ref().ok_or_else(|| DemoError::Start("the chain has no wire".into()))?;

        let gateways = if options.secure == Secure::Bridge {
            chain.bridge_gateways()?;
            Vec::new()
        } else {
            start_gateways(options, &chain, &directory.0, &placement, priority)?
        };
        let lane = |cpus: &[usize]| Realtime {
            consumer_priority: PRIORITY.into(),
            cpus: cpus.to_vec(),
            ..Realtime::default()
        };
        let wire_place = Place { namespace: Some(wire_namespace.file()), cpus: &placement.observers };
        let wire = if options.faults.is_empty() {
            chain.bridge_wire()?;
            None
        } else {
            let wire_options = emulator::Options {
                seed: options.seed,
                a_to_b: lane(&placement.wire_a_to_b),
                b_to_a: lane(&placement.wire_b_to_a),
                ..emulator::Options::default()
            };
            // Its threads choose their cores.
            let place = Place { cpus: &[], ..wire_place };
            Some(ready("wire", "lab-wire", &wire_options, &place)?)
        };
        let tap_options =
            tap::Options { pcap: options.pcap.clone(), live_ms: TAP_LIVE_MS, ..tap::Options::default() };
        let tap = ready("tap", "lab-tap", &tap_options, &wire_place)?;

        let station_options = station::Options {
            cycle_us: options.cycle_us,
            frame_bytes: options.frame_bytes,
            live_ms: LIVE_MS,
            ..station::Options::default()
        };
        let station = |role, namespace: &crate::ns::Namespace, cpus: &[usize]| {
            let own = station::Options {
                realtime: Realtime { cpus: cpus.to_vec(), ..Realtime::default() },
                ..station_options.clone()
            };
            Station::start(
                role,
                &own,
                &Place { namespace: Some(namespace.file()), cpus: &placement.observers },
            )
        };
        let device = station(Role::Device, &chain.device, &placement.device_side)?;
        let plc = station(Role::Plc, &chain.plc, &placement.plc_side)?;
        let seen = Seen::default();
        let mut plant =
            Self { plc, device, gateways, wire, tap, seen, placement, _directory: directory, chain };
        plant.wait_for_data()?;
        Ok(plant)
    }

    fn wait_for_data(&mut self) -> Result<(), DemoError> {
        let deadline = std::time::Instant::now() + PATIENCE + Duration::from_secs(2);
        while !(self.plc.started() && self.device.started()) {
            self.check()?;
            if std::time::Instant::now() > deadline || crate::sys::signal::stopping() {
                return Err(self.plc.failure());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Processes the output of all processes; fails if one has ended.
    pub(super) fn check(&mut self) -> Result<(), DemoError> {
        for request in self.device.look() {
            self.plc.tell(request)?;
        }
        for request in self.plc.look() {
            self.device.tell(request)?;
        }
        for station in [&mut self.plc, &mut self.device] {
            if !station.process.is_running() {
                return Err(station.failure());
            }
        }
        for process in self.wire.iter_mut().chain([&mut self.tap]) {
            if !process.is_running() {
                let said = process.errors().join("\n");
                return Err(DemoError::process(process.name(), said));
            }
        }
        for line in self.tap.lines() {
            if let Ok(tap::Line::Live(seen)) = serde_json::from_str(&line) {
                self.seen = *seen;
            }
        }
        Ok(())
    }

    /// Longest stall of a station's core within this time, in nanoseconds.
    pub(super) fn stalled(&self, from: u64, to: u64) -> u64 {
        let stalls = self.plc.stalls.iter().chain(&self.device.stalls);
        stalls.map(|&(begin, end)| end.min(to).saturating_sub(begin.max(from))).sum()
    }

    /// Stops the stations' histograms.
    pub(super) fn freeze_histograms(&mut self) -> Result<(), DemoError> {
        self.plc.tell(station::Request::FreezeHistograms)?;
        self.device.tell(station::Request::FreezeHistograms)
    }

    /// Fails if a gateway does not run.
    pub(super) fn check_gateways(&mut self) -> Result<(), DemoError> {
        for gateway in &mut self.gateways {
            if !gateway.is_running() {
                return Err(DemoError::process("a gateway", gateway.errors()));
            }
        }
        Ok(())
    }

    /// Sends a command to the wire. Returns its counters afterwards.
    pub(super) fn command(&mut self, command: Command) -> Result<emulator::State, DemoError> {
        let Some(wire) = &mut self.wire else { return Ok(emulator::State::default()) };
        let failed = |wire: &mut Process| DemoError::process("wire", wire.errors().join("\n"));
        if wire.tell(&command).is_err() {
            return Err(failed(wire));
        }
        while let Some(line) = wire.next_line(Duration::from_secs(2)) {
            if let Ok(emulator::Line::State(state)) = serde_json::from_str(&line) {
                return Ok(state);
            }
        }
        Err(failed(wire))
    }

    /// Restarts gateway `index` after a kill. Returns the time.
    pub(super) fn restart_gateway(&mut self, index: usize) -> Result<u64, DemoError> {
        let namespace = if index == 0 { self.chain.gateway_a.file() } else { self.chain.gateway_b.file() };
        match self.gateways.get_mut(index) {
            Some(gateway) => gateway.restart(Some(namespace)),
            None => Err(DemoError::Start("there are no gateways between plain bridges".into())),
        }
    }

    /// Unplugs or plugs gateway A's uplink at the wire's end.
    pub(super) fn plug(&self, plugged: bool) -> Result<(), DemoError> {
        if let Some(wire) = &self.chain.wire {
            wire.set_link("a", plugged)?;
        }
        Ok(())
    }

    /// Stops all processes, the controller first, the tap last.
    pub(super) fn stop(mut self) -> Result<Ends, DemoError> {
        self.plc.process.terminate();
        let plc = self.plc.finish()?;
        let device = self.device.finish()?;
        let mut gateways_ended_cleanly = true;
        for gateway in &mut self.gateways {
            gateways_ended_cleanly &= gateway.end();
        }
        let wire = self.wire.as_mut().map(|wire| {
            let lines = wire.end();
            lines.iter().rev().find_map(|line| match serde_json::from_str(line) {
                Ok(emulator::Line::Result(state)) => Some(state),
                _ => None,
            })
        });
        let tap_lines = self.tap.end();
        let tap = tap_lines.iter().rev().find_map(|line| match serde_json::from_str(line) {
            Ok(tap::Line::Result(seen)) => Some(*seen),
            _ => None,
        });
        let tap = tap.ok_or_else(|| DemoError::process("tap", self.tap.errors().join("\n")))?;
        Ok(Ends { plc, device, tap, wire: wire.flatten(), gateways_ended_cleanly })
    }
}

fn start_gateways(
    options: &Options,
    chain: &Chain,
    directory: &Path,
    placement: &Placement,
    priority: Option<u8>,
) -> Result<Vec<Gateway>, DemoError> {
    let keys = directory.join("keys.toml");
    if options.secure == Secure::Macsec {
        // The members are the gateways' uplinks, with the chain's addresses.
        let [a, b] = ["a=02:00:5e:00:00:a2", "b=02:00:5e:00:00:b2"];
        antedate(&["keygen", "macsec", "--member", a, "--member", b, "--out", &keys.to_string_lossy()])?;
    }
    if options.secure == Secure::Overlay {
        address_uplinks(chain)?;
        for (own, other) in [("a", "b"), ("b", "a")] {
            let file = directory.join(format!("{own}.key"));
            antedate(&["keygen", "wireguard", "--out", &file.to_string_lossy()])?;
            let unread = |error: String| DemoError::Start(format!("{}: {error}", file.display()));
            let private = antedate_gateway::config::tunnel_keys::load(&file, ThisMachine.user());
            let private = private.map_err(|fault| unread(fault.to_string()))?;
            let public = antedate_gateway::config::tunnel_keys::public_of(&private);
            let told = directory.join(format!("{other}.peer"));
            std::fs::write(told, &**antedate_gateway::config::tunnel_keys::encode(&public))
                .map_err(|error| unread(error.to_string()))?;
        }
    }
    let sides =
        [("a", &chain.gateway_a, &placement.plc_side), ("b", &chain.gateway_b, &placement.device_side)];
    let start = |(name, namespace, cpus): (&'static str, &crate::ns::Namespace, &Vec<usize>)| {
        let setup = Setup {
            name,
            field: "field".into(),
            uplink: "uplink".into(),
            secure: options.secure,
            keys: if options.secure == Secure::Overlay {
                directory.join(format!("{name}.peer"))
            } else {
                keys.clone()
            },
            macsec: options.macsec(),
            cpus: cpus.clone(),
            priority,
            audible: false,
        };
        Gateway::start(setup, directory, Some(namespace.file()))
    };
    sides.into_iter().map(start).collect()
}

/// Gives the uplinks IP addresses and static neighbours, so the wire carries tunnels only.
fn address_uplinks(chain: &Chain) -> Result<(), DemoError> {
    for (space, own, other, last) in [(&chain.gateway_a, 1, 2, "b2"), (&chain.gateway_b, 2, 1, "a2")] {
        space.batch(&[
            format!("addr add 192.0.2.{own}/24 dev uplink"),
            format!("neigh replace 192.0.2.{other} lladdr 02:00:5e:00:00:{last} dev uplink nud permanent"),
        ])?;
    }
    Ok(())
}

/// Starts a role and waits for its first line.
fn ready(
    name: &str,
    role: &str,
    options: &impl serde::Serialize,
    place: &Place<'_>,
) -> Result<Process, DemoError> {
    let mut process = Process::role(name, role, options, place)
        .map_err(|error| DemoError::Start(format!("{name}: {error}")))?;
    match process.next_line(PATIENCE) {
        Some(_) => Ok(process),
        None => {
            let said = process.errors().join("\n");
            Err(DemoError::process(name, said))
        }
    }
}
