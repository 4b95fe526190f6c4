//! The plant under attack: controller and device, two gateway processes with agreed keys, and an
//! attacker on the wire and at the controller's port.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use antedate_channel::mka::Cak;
use antedate_gateway::run::control::{self, Request};
use antedate_host::hex::parse_hex;
use antedate_lab::ns::{Chain, ChainOptions, Namespace};
use antedate_lab::process::{Place, Process, executable};
use antedate_lab::station::meter::Counts;
use antedate_lab::station::{self, Role};
use antedate_lab::sys::packet::{Options, PacketSocket};
use serde_json::Value;

use super::forge::Recorded;
use crate::nonces::victim::antedate;
use crate::{ExperimentError, failed};

/// Bound of the start.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval of the stations' live lines.
const LIVE_MS: u32 = 100;
/// Counters that count no refusal.
const NOT_REFUSED: [&str; 3] = ["InPktsOK", "InPktsDelayed", "InPktsUncontrolled"];

/// A station of the plant.
struct Station {
    process: Process,
    counts: Counts,
    /// The 99th percentile of its round trips, in microseconds.
    round_trip_us: f64,
    started: bool,
}

/// A moment: bus errors without those in stalls, frames that no station sent, refusals by reason.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    pub(crate) bus_errors: u64,
    pub(crate) came_out: u64,
    pub(crate) refused: BTreeMap<String, u64>,
}

/// Fields drop in this order: processes before their namespaces.
pub(crate) struct Plant {
    stations: [Station; 2],
    gateways: [Process; 2],
    pub(crate) recorded: Recorded,
    /// Lines of both gateways' logs that were seen.
    logged: [usize; 2],
    hears: PacketSocket,
    /// Towards gateway B's uplink, and gateway A's field port.
    pub(crate) uplink: PacketSocket,
    pub(crate) field: PacketSocket,
    chain: Chain,
    files: PathBuf,
}

/// The key of a file of `antedate keygen macsec --cak`.
fn cak(text: &str) -> Result<Cak, ExperimentError> {
    let octets = |name: &str| {
        let digits = text.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_default();
        let mut octets = vec![0; digits.len() / 2];
        parse_hex(digits, &mut octets).then_some(octets).ok_or("the file of the CAK has another form")
    };
    Cak::new(&octets("mka_cak=")?, &octets("mka_ckn=")?).map_err(failed)
}

impl Plant {
    /// Starts everything, with further lines of the gateways' `[macsec]`.
    pub(crate) fn build(macsec: &str) -> Result<Self, ExperimentError> {
        let chain = Chain::build(ChainOptions::default())?;
        chain.bridge_wire()?;
        let files = crate::files("antedate-lab-");
        let _ = fs::remove_dir_all(&files);
        DirBuilder::new().mode(0o700).create(&files)?;
        let path = |name: &str| files.join(name).to_string_lossy().into_owned();
        antedate(&["keygen", "macsec", "--cak", "--out", &path("cak")], None)?;
        let gateway = |name: &str, space: &Namespace| {
            let text = format!(
                "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
                 [macsec]\ncak_file = \"cak\"\nmka_destination = \"broadcast\"\n{macsec}[policy]\nallow = [\"profinet\"]\n\
                 [control]\nsocket = \"{name}.sock\"\n"
            );
            let file = path(&format!("{name}.toml"));
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
            let place = Place { namespace: Some(space.file()), cpus: &[] };
            Process::start(name, &executable()?, &["gateway", "run", &file], &place)
        };
        let gateways = [gateway("a", &chain.gateway_a)?, gateway("b", &chain.gateway_b)?];
        let station = |role, space: &Namespace| {
            let options = station::Options { role, live_ms: LIVE_MS, ..station::Options::default() };
            let place = Place { namespace: Some(space.file()), cpus: &[] };
            let process = Process::role("station", "lab-station", &options, &place)?;
            Ok::<_, ExperimentError>(Station {
                process,
                counts: Counts::default(),
                round_trip_us: 0.0,
                started: false,
            })
        };
        let stations = [station(Role::Device, &chain.device)?, station(Role::Plc, &chain.plc)?];
        let wire = chain.wire.as_ref().ok_or("there is no wire")?;
        let open = |space: &Namespace, interface: &str| {
            let options = Options { promiscuous: true, receive_buffer: 32 << 20, ..Options::default() };
            space.run(|| PacketSocket::open(interface, options)).and_then(|socket| socket).map_err(failed)
        };
        let mut plant = Self {
            stations,
            gateways,
            recorded: Recorded { cak: Some(cak(&fs::read_to_string(path("cak"))?)?), ..Recorded::default() },
            logged: [0; 2],
            hears: open(wire, "a")?,
            uplink: open(wire, "b")?,
            field: open(&chain.plc, "eth0")?,
            chain,
            files,
        };
        let end = Instant::now() + PATIENCE;
        while !plant.stations.iter().all(|station| station.started) {
            plant.look()?;
            if Instant::now() > end {
                return Err("the stations do not exchange data through the gateways".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(plant)
    }

    /// Reads the stations' lines, and records the wire.
    fn look(&mut self) -> Result<(), ExperimentError> {
        let mut stalled = [Vec::new(), Vec::new()];
        for (at, station) in self.stations.iter_mut().enumerate() {
            if !station.process.is_running() {
                return Err(format!("a station ended: {}", station.process.errors().join("; ")).into());
            }
            for line in station.process.lines() {
                match serde_json::from_str(&line) {
                    Ok(station::Line::Live(live)) => {
                        station.counts = live.counts;
                        station.round_trip_us = station.round_trip_us.max(live.round_trip_recent_us);
                    }
                    Ok(station::Line::Started { .. }) => station.started = true,
                    Ok(station::Line::Stalled { from_ns, to_ns }) => {
                        stalled[1 - at].push(station::Request::PeerStalled { from_ns, to_ns });
                    }
                    _ => {}
                }
            }
        }
        for (station, requests) in self.stations.iter_mut().zip(stalled) {
            requests.iter().try_for_each(|request| station.process.tell(request))?;
        }
        for gateway in &mut self.gateways {
            if !gateway.is_running() {
                return Err(format!("a gateway ended: {}", gateway.errors().join("; ")).into());
            }
        }
        let mut buffer = vec![0; 1 << 14];
        while let Some(len) = self.hears.receive(&mut buffer, false).map_err(failed)? {
            self.recorded.keep(&buffer[..len]);
        }
        while let Some(len) = self.uplink.receive(&mut buffer, false).map_err(failed)? {
            self.recorded.keep_victims(&buffer[..len]);
        }
        let old = self.recorded.frames.len().saturating_sub(1_000);
        self.recorded.frames.drain(..old);
        let old = self.recorded.mkpdus.len().saturating_sub(20);
        self.recorded.mkpdus.drain(..old);
        let old = self.recorded.distributions.len().saturating_sub(4);
        self.recorded.distributions.drain(..old);
        Ok(())
    }

    /// Lets the plant run, with a call of `act` in short intervals.
    pub(crate) fn run(
        &mut self,
        time: Duration,
        mut act: impl FnMut(&Self) -> Result<(), ExperimentError>,
    ) -> Result<(), ExperimentError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            act(self)?;
            self.look()?;
        }
        Ok(())
    }

    /// Lets the plant run undisturbed.
    pub(crate) fn rest(&mut self, time: Duration) -> Result<(), ExperimentError> {
        self.run(time, |_| {
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        })
    }

    /// The control socket of gateway B.
    pub(crate) fn socket(&self) -> PathBuf {
        self.files.join("b.sock")
    }

    /// The controller's longest round trip since the last call, in microseconds.
    pub(crate) fn take_round_trip_us(&mut self) -> f64 {
        std::mem::take(&mut self.stations[1].round_trip_us)
    }

    /// The gateways' process IDs.
    pub(crate) fn gateways(&self) -> [u32; 2] {
        self.gateways.each_ref().map(Process::pid)
    }

    /// Plugs or unplugs the wire at gateway B.
    pub(crate) fn plug(&self, plugged: bool) -> Result<(), ExperimentError> {
        let wire = self.chain.wire.as_ref().ok_or("there is no wire")?;
        wire.set_link("b", plugged).map_err(failed)
    }

    /// Stops gateway A or B, or lets it go on.
    pub(crate) fn hold(&mut self, gateway: usize, still: bool) -> Result<(), ExperimentError> {
        self.gateways.get_mut(gateway).map_or(Ok(()), |gateway| gateway.hold(still)).map_err(failed)
    }

    /// All counters, after frames under way have arrived.
    pub(crate) fn moment(&mut self) -> Result<Moment, ExperimentError> {
        self.rest(Duration::from_millis(u64::from(LIVE_MS) * 3))?;
        let mut moment = Moment::default();
        for Station { counts, .. } in &self.stations {
            moment.bus_errors += counts.bus_errors.saturating_sub(counts.bus_errors_stalled);
            moment.came_out +=
                counts.damaged + counts.foreign + counts.duplicated + counts.reordered + counts.unexpected;
        }
        for name in ["a", "b"] {
            let socket = self.files.join(format!("{name}.sock"));
            let status = control::ask(&socket, Request::Status {}).map_err(failed)?.status;
            let status = serde_json::to_value(status).map_err(failed)?;
            let fault = status.pointer("/macsec/agreement/fault").and_then(Value::as_str);
            if let Some(fault) = fault.filter(|fault| !fault.is_empty()) {
                *moment.refused.entry(format!("fault: {fault}")).or_default() += 1;
            }
            let parts = [
                ("/macsec/counters", ""),
                ("/macsec/agreement/refused", "mkpdu:"),
                ("/in/refused", "in:"),
                ("/out/refused", "out:"),
            ];
            for (place, prefix) in parts {
                let counters = status.pointer(place).and_then(Value::as_object);
                for (counter, count) in counters.into_iter().flatten() {
                    let refusal = !prefix.is_empty() || counter.starts_with("InPkts");
                    if refusal && !NOT_REFUSED.contains(&counter.as_str()) {
                        *moment.refused.entry(format!("{prefix}{counter}")).or_default() +=
                            count.as_u64().unwrap_or(0);
                    }
                }
            }
        }
        Ok(moment)
    }

    /// Warnings that both gateways logged since the last call.
    pub(crate) fn warnings(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (gateway, seen) in self.gateways.iter_mut().zip(&mut self.logged) {
            let lines = gateway.errors();
            let fresh = lines.iter().skip(*seen);
            warnings.extend(fresh.filter(|line| line.contains("WARN")).cloned());
            *seen = lines.len();
        }
        warnings
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        self.stations.iter_mut().rev().for_each(|station| drop(station.process.end()));
        let _ = fs::remove_dir_all(&self.files);
    }
}
