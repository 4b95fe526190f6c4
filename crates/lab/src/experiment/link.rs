//! Two gateways between two machines, as an experiment needs them: in network namespaces, the gateways as threads of this
//! process, the wire a Linux bridge or the emulator with a rate. What is measured lies on raw sockets at both ends.
//!
//! - [`cyclic`]: cyclic frames and what became of each
//! - [`stalls`]: when the machine withheld a core

pub(super) mod cyclic;
pub(super) mod stalls;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_gateway::config::keys::KeyFile;
use antedate_gateway::config::{check, machine::ThisMachine};
use antedate_gateway::daemon;
use antedate_gateway::run::control::{self, Request};
use antedate_gateway::run::status::Status;
use antedate_host::numbers::NumberFile;
use antedate_wire::Sci;

use crate::emulator;
use crate::histogram::Times;
use crate::ns::{Chain, ChainOptions, Namespace};
use crate::process::{Place, Process};
use crate::realtime::Realtime;
use crate::sys::clock::{monotonic_ns, sleep_until};
use crate::sys::packet::{Options, PacketSocket};
use crate::sys::{namespace, sched};

/// Addresses and EtherType: those of cyclic Profinet data, and of something else.
pub(super) const CYCLIC: [u8; 16] = [2, 0, 0x5e, 0, 0, 2, 2, 0, 0x5e, 0, 0, 1, 0x88, 0x92, 0x80, 0x01];
const BULK: [u8; 16] = [2, 0, 0x5e, 0, 0, 2, 2, 0, 0x5e, 0, 0, 1, 0x88, 0xb5, 0, 0];
/// Where a frame says what is to be done with it, and its stamp.
const KIND: usize = 16;
const STAMP: std::ops::Range<usize> = 17..25;
const ECHO: u8 = b'E';
const COUNT: u8 = b'C';
const TIME: u8 = b'T';

/// The fixed priority of the machines, above the gateways.
pub(super) const ENDS: i32 = 30;
/// Between two round trips.
const PAUSE_NS: u64 = 200_000;
/// Of gateways that agree on keys, which protect nothing here.
const CAK: &str = "mka_cak=000102030405060708090a0b0c0d0e0f\nmka_ckn=616263\n";

/// What differs between links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'a> {
    pub(super) suite: &'a str,
    /// More lines of `[macsec]`, and sections behind it.
    pub(super) macsec: &'a str,
    pub(super) field_mtu: u32,
    pub(super) wire_mtu: u32,
    /// The gateways agree on keys, and change them so often; otherwise keys are static.
    pub(super) rekey_seconds: Option<u32>,
    /// Mbit/s of the emulated wire; 0: a Linux bridge, as fast as the machine.
    pub(super) rate_mbit: u32,
    /// The emulated wire is there for bulk, and not for single frames.
    pub(super) bulk: bool,
}

/// Machines, gateways and the wire; all of it ends when dropped.
pub(super) struct Link {
    plc: PacketSocket,
    far: Arc<Far>,
    answering: Option<JoinHandle<()>>,
    gateways: Vec<Gateway>,
    _wire: Option<Process>,
    chain: Chain,
    files: PathBuf,
}

/// What the far machine does and has seen.
#[derive(Default)]
struct Far {
    stop: AtomicBool,
    counted: AtomicU64,
    /// When the frames were sent that ask for the time, and when they came.
    crossings: Mutex<Vec<(u64, u64)>>,
}

pub(super) struct Gateway {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Link {
    pub(super) fn build(settings: &Settings<'_>) -> Result<Self, String> {
        let Settings { field_mtu, wire_mtu, rate_mbit, .. } = *settings;
        let chain = Chain::build(ChainOptions { field_mtu, wire_mtu, wire: true }).map_err(text)?;
        let cpus = sched::allowed_cpus();
        let cpu = |index: usize| cpus.get(index % cpus.len().max(1)).copied().unwrap_or(0);
        let wire = if rate_mbit == 0 {
            chain.bridge_wire().map_err(text)?;
            None
        } else {
            // It spins when frames are due. Above the gateways, and each way on the core of the gateway that has to wait for its
            // frames: below them it would wait for a gateway that polls. For bulk it is below them, or that gateway would starve.
            let consumer_priority = if settings.bulk { 15 } else { 25 };
            let lane = |cpu: usize| Realtime {
                consumer_priority,
                cpus: if settings.bulk { Vec::new() } else { vec![cpu] },
                ..Realtime::default()
            };
            let (a_to_b, b_to_a) = (lane(cpu(1)), lane(cpu(0)));
            let options = emulator::Options { rate_mbit, a_to_b, b_to_a, ..emulator::Options::default() };
            let inside = chain.wire.as_ref().map(Namespace::file);
            let place = Place { namespace: inside, cpus: &[] };
            let mut wire = Process::role("wire", "lab-wire", &options, &place).map_err(text)?;
            if wire.next_line(Duration::from_secs(5)).is_none() {
                return Err(format!("the emulated wire does not start: {}", wire.errors().join("; ")));
            }
            Some(wire)
        };
        let files = super::files("antedate-lab-");
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).map_err(text)?;
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).map_err(text)?;
        match settings.rekey_seconds {
            Some(_) => private(&files.join("cak"), CAK)?,
            None => keys(&files, settings.suite)?,
        }
        let gateways = vec![
            Gateway::start(&chain.gateway_a, &files, "a", settings, cpu(0))?,
            Gateway::start(&chain.gateway_b, &files, "b", settings, cpu(1))?,
        ];
        let open = |namespace: &Namespace| {
            let options = Options { promiscuous: true, ..Options::default() };
            namespace.run(|| PacketSocket::open("eth0", options)).and_then(|socket| socket).map_err(text)
        };
        let (plc, device) = (open(&chain.plc)?, open(&chain.device)?);
        let far = Arc::new(Far::default());
        let answering = {
            let far = Arc::clone(&far);
            thread::spawn(move || answer(&device, &far))
        };
        let link = Self { plc, far, answering: Some(answering), gateways, _wire: wire, chain, files };
        if settings.rekey_seconds.is_some() {
            link.until_agreed()?;
        }
        Ok(link)
    }

    /// Waits until both gateways protect with a key.
    fn until_agreed(&self) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(10);
        while (0..2).any(|gateway| self.fresh_keys(gateway) == 0) {
            if Instant::now() > end {
                return Err("the gateways do not agree on a key".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        // The last one begins to transmit.
        thread::sleep(Duration::from_millis(200));
        Ok(())
    }

    /// How many keys a gateway that protects with one has had.
    pub(super) fn fresh_keys(&self, gateway: usize) -> u64 {
        let agreement = self.status(gateway).and_then(|status| status.macsec?.agreement);
        let used = agreement.filter(|agreement| agreement.keys.iter().any(|key| key.transmits));
        used.map_or(0, |agreement| agreement.fresh_keys)
    }

    /// Round trips of frames of `len` octets, one at a time.
    pub(super) fn round_trips(&self, len: usize, count: usize, times: &mut Times) -> Result<u64, String> {
        let (mut frame, mut buffer) = (frame(&BULK, len, ECHO), vec![0; 16 * 1024]);
        let mut lost = 0;
        let _ = sched::fifo(ENDS);
        for _ in 0..count {
            let sent = monotonic_ns();
            frame[STAMP].copy_from_slice(&sent.to_be_bytes());
            self.plc.send(&frame).map_err(text)?;
            loop {
                self.plc.wait(50_000_000).map_err(text)?;
                let received = self.plc.receive(&mut buffer, false).map_err(text)?;
                let now = monotonic_ns();
                if received == Some(len) && buffer[STAMP] == frame[STAMP] {
                    times.record(now - sent);
                    break;
                }
                if now > sent + 50_000_000 {
                    lost += 1;
                    break;
                }
            }
            sleep_until(monotonic_ns() + PAUSE_NS);
        }
        Ok(lost)
    }

    /// Offers frames of `len` octets, one every `gap_ns`, for so long; the share of them that arrived.
    pub(super) fn delivered(&self, len: usize, gap_ns: f64, time: Duration) -> Result<f64, String> {
        let frame = frame(&BULK, len, COUNT);
        let before = self.far.counted.load(Ordering::Relaxed);
        let begin = monotonic_ns();
        let mut sent = 0u64;
        while monotonic_ns() < begin + time.as_nanos() as u64 {
            sleep_until(begin + (sent as f64 * gap_ns) as u64);
            self.plc.send(&frame).map_err(text)?;
            sent += 1;
        }
        thread::sleep(Duration::from_millis(100));
        let came = self.far.counted.load(Ordering::Relaxed) - before;
        Ok(came as f64 / sent.max(1) as f64)
    }

    /// What gateway A (0) or B (1) tells.
    pub(super) fn status(&self, gateway: usize) -> Option<Status> {
        self.gateways.get(gateway)?.status()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.far.stop.store(true, Ordering::Release);
        if let Some(thread) = self.answering.take() {
            let _ = thread.join();
        }
        self.gateways.clear();
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn frame(head: &[u8; 16], len: usize, kind: u8) -> Vec<u8> {
    let mut frame = head.to_vec();
    frame.resize(len.max(STAMP.end), 0x5a);
    frame[KIND] = kind;
    frame
}

/// The far machine: answers, counts, or takes the time, as a frame says.
fn answer(socket: &PacketSocket, far: &Far) {
    let mut buffer = vec![0; 16 * 1024];
    // Where it is not permitted, others disturb the measurement more.
    let _ = sched::fifo(ENDS);
    while !far.stop.load(Ordering::Acquire) {
        let Ok(Some(len)) = socket.receive(&mut buffer, false) else {
            let _ = socket.wait(20_000_000);
            continue;
        };
        let frame = &mut buffer[..len];
        let Some(stamp) = frame.get(STAMP).and_then(|stamp| stamp.first_chunk().copied()) else { continue };
        match frame[KIND] {
            ECHO => {
                let (destination, source) = frame[..12].split_at_mut(6);
                destination.swap_with_slice(source);
                let _ = socket.send(frame);
            }
            COUNT => {
                far.counted.fetch_add(1, Ordering::Relaxed);
            }
            TIME => lock(&far.crossings).push((u64::from_be_bytes(stamp), monotonic_ns())),
            _ => {}
        }
    }
}

fn keys(files: &Path, suite: &str) -> Result<(), String> {
    let sci = |last| Sci([2, 0, 0x5e, 0, 0, last, 0, 1]);
    let members = vec![("a".into(), sci(0xa2)), ("b".into(), sci(0xb2))];
    let mut count = 0usize;
    let fill = |bytes: &mut [u8]| {
        for byte in bytes {
            count += 1;
            *byte = (count * 7 % 251) as u8;
        }
        Ok::<_, String>(())
    };
    let keys = KeyFile::generate(suite.parse().map_err(text)?, members, fill)?;
    keys.write_new(&files.join("keys")).map_err(text)
}

fn private(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(self::text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).map_err(self::text)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Gateway {
    fn start(
        namespace: &Namespace,
        files: &Path,
        name: &str,
        settings: &Settings<'_>,
        cpu: usize,
    ) -> Result<Self, String> {
        let (state, socket) = (files.join(format!("state-{name}")), files.join(format!("{name}.sock")));
        let keys = settings.rekey_seconds.map_or("key_file = \"keys\"".to_owned(), |seconds| {
            format!("cak_file = \"cak\"\nmka_destination = \"broadcast\"\nmka_rekey_seconds = {seconds}")
        });
        let configuration = format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
             [policy]\nallow = [\"all\"]\n[run]\npoll = \"adaptive\"\npoll_cpu_percent = 80\npriority = 20\ncpus = [{cpu}]\n\
             [state]\ndirectory = \"{}\"\n[control]\nsocket = \"{}\"\n\
             [macsec]\n{keys}\n{}\n",
            state.display(),
            socket.display(),
            settings.macsec,
        );
        drop(NumberFile::create(&state).map_err(text)?);
        Self::with(namespace, files, name, &configuration)
    }

    /// What it tells.
    pub(super) fn status(&self) -> Option<Status> {
        let reply = control::ask(&self.socket, Request::Status {}).ok()?;
        reply.status.map(|status| *status)
    }

    /// Starts one with this configuration, whose control socket is `NAME.sock` beside it.
    pub(super) fn with(
        namespace: &Namespace,
        files: &Path,
        name: &str,
        configuration: &str,
    ) -> Result<Self, String> {
        let (file, socket) = (files.join(format!("{name}.toml")), files.join(format!("{name}.sock")));
        fs::write(&file, configuration).map_err(text)?;
        let inside = namespace.file().try_clone().map_err(text)?;
        let stop = Arc::new(AtomicBool::new(false));
        let run = {
            let stop = Arc::clone(&stop);
            move || {
                namespace::enter(&inside).map_err(text)?;
                let checked = check(&file, &ThisMachine).map_err(text)?;
                daemon::run(&checked, &stop).map_err(text)
            }
        };
        let mut gateway = Self { socket, stop, thread: Some(thread::spawn(run)) };
        let end = Instant::now() + Duration::from_secs(5);
        while control::ask(&gateway.socket, Request::Status {}).is_err() {
            let ended = gateway.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() > end {
                gateway.stop.store(true, Ordering::Release);
                let why = gateway.thread.take().filter(|_| ended).and_then(|thread| thread.join().ok());
                let why = why.and_then(Result::err).unwrap_or_default();
                return Err(format!("gateway {name} does not start: {why}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(gateway)
    }
}
