//! Two machines and two gateways in network namespaces.
//!
//! The gateways are threads of this process. The wire is a Linux bridge, or the emulator with a
//! rate. Both ends measure on raw sockets.
//!
//! - [`cyclic`]: cyclic frames and their delays
//! - [`iperf3`]: the rate of TCP
//! - [`stalls`]: times at which the machine withheld a core

pub(crate) mod cyclic;
pub(crate) mod iperf3;
pub(crate) mod stalls;

use crate::{ExperimentError, failed};
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
use antedate_host::numbers::{NumberFile, permit_volatile};
use antedate_wire::Sci;

use antedate_lab::emulator;
use antedate_lab::histogram::Times;
use antedate_lab::ns::{Chain, ChainOptions, Namespace};
use antedate_lab::process::{Place, Process};
use antedate_lab::realtime::Realtime;
use antedate_lab::sys::clock::{monotonic_ns, sleep_until};
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_lab::sys::{namespace, sched};

/// Addresses and EtherType of cyclic Profinet data and of other frames.
pub(crate) const CYCLIC: [u8; 16] = [2, 0, 0x5e, 0, 0, 2, 2, 0, 0x5e, 0, 0, 1, 0x88, 0x92, 0x80, 0x01];
const BULK: [u8; 16] = [2, 0, 0x5e, 0, 0, 2, 2, 0, 0x5e, 0, 0, 1, 0x88, 0xb5, 0, 0];
/// Offsets of a frame's kind and time stamp.
const KIND: usize = 16;
const STAMP: std::ops::Range<usize> = 17..25;
const ECHO: u8 = b'E';
const COUNT: u8 = b'C';
const TIME: u8 = b'T';

/// Fixed priority of the machines, above the gateways.
pub(crate) const ENDS: i32 = 30;
/// Pause between two round trips.
const PAUSE_NS: u64 = 200_000;
/// A known CAK; it protects nothing here.
const CAK: &str = "mka_cak=000102030405060708090a0b0c0d0e0f\nmka_ckn=616263\n";

/// In the place of a suite: the gateways forward without protection.
pub(crate) const UNPROTECTED: &str = "none";

/// Options of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    /// Name of the MACsec suite, or [`UNPROTECTED`].
    pub(crate) suite: &'a str,
    /// More lines of `[macsec]`, and further sections.
    pub(crate) macsec: &'a str,
    pub(crate) field_mtu: u32,
    pub(crate) wire_mtu: u32,
    /// With a value the gateways agree on keys and change them at this interval. Otherwise keys are
    /// static.
    pub(crate) rekey_seconds: Option<u32>,
    /// Mbit/s of the emulated wire. 0 stands for a Linux bridge without a limit.
    pub(crate) rate_mbit: u32,
    /// The emulated wire carries bulk rather than single frames.
    pub(crate) bulk: bool,
    /// How the gateways wait for a frame: lines of `[run]`.
    pub(crate) wait: &'a str,
}

/// Gateways poll, for short round trips.
pub(crate) const POLLING: &str = "poll = \"adaptive\"\npoll_cpu_percent = 80\npriority = 20";
/// Gateways sleep until a frame comes, which leaves the cores to the machines.
pub(crate) const SLEEPING: &str = "poll = \"block\"";

/// Machines, gateways and the wire. All end on drop.
pub(crate) struct Link {
    plc: PacketSocket,
    far: Arc<Far>,
    answering: Option<JoinHandle<()>>,
    gateways: Vec<Gateway>,
    _wire: Option<Process>,
    chain: Chain,
    files: PathBuf,
}

/// Orders to the far machine, and its observations.
#[derive(Default)]
struct Far {
    stop: AtomicBool,
    counted: AtomicU64,
    /// Send and receive times of frames of kind `TIME`.
    crossings: Mutex<Vec<(u64, u64)>>,
}

pub(crate) struct Gateway {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ExperimentError>>>,
}

impl Link {
    pub(crate) fn build(settings: &Settings<'_>) -> Result<Self, ExperimentError> {
        let Settings { field_mtu, wire_mtu, rate_mbit, .. } = *settings;
        let chain = Chain::build(ChainOptions { field_mtu, wire_mtu, wire: true }).map_err(failed)?;
        let cpus = sched::allowed_cpus();
        let cpu = |index: usize| cpus.get(index % cpus.len().max(1)).copied().unwrap_or(0);
        let wire = if rate_mbit == 0 {
            chain.bridge_wire().map_err(failed)?;
            None
        } else {
            // The wire spins when frames are due. For single frames it runs above the gateways,
            // each direction on the core of the waiting gateway: below, it would wait for a polling
            // gateway. For bulk it runs below, to leave that gateway its core.
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
            let mut wire = Process::role("wire", "lab-wire", &options, &place).map_err(failed)?;
            if wire.next_line(Duration::from_secs(5)).is_none() {
                return Err(format!("the emulated wire does not start: {}", wire.errors().join("; ")).into());
            }
            Some(wire)
        };
        let files = super::files("antedate-lab-");
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).map_err(failed)?;
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        match settings.rekey_seconds {
            Some(_) => private(&files.join("cak"), CAK)?,
            None if settings.suite == UNPROTECTED => {}
            None => keys(&files, settings.suite)?,
        }
        let gateways = vec![
            Gateway::start(&chain.gateway_a, &files, "a", settings, cpu(0))?,
            Gateway::start(&chain.gateway_b, &files, "b", settings, cpu(1))?,
        ];
        let open = |namespace: &Namespace| {
            let options = Options { promiscuous: true, ..Options::default() };
            namespace.run(|| PacketSocket::open("eth0", options)).and_then(|socket| socket).map_err(failed)
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

    /// Waits until both gateways protect with an agreed key.
    fn until_agreed(&self) -> Result<(), ExperimentError> {
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

    /// Number of keys so far of a gateway that protects with one.
    pub(crate) fn fresh_keys(&self, gateway: usize) -> u64 {
        let agreement = self.status(gateway).and_then(|status| status.macsec?.agreement);
        let used = agreement.filter(|agreement| agreement.keys.iter().any(|key| key.transmits));
        used.map_or(0, |agreement| agreement.fresh_keys)
    }

    /// Measures round trips of frames of `len` octets, one at a time. Returns the number of lost
    /// ones.
    pub(crate) fn round_trips(
        &self,
        len: usize,
        count: usize,
        times: &mut Times,
    ) -> Result<u64, ExperimentError> {
        let (mut frame, mut buffer) = (frame(&BULK, len, ECHO), vec![0; 16 * 1024]);
        let mut lost = 0;
        let _ = sched::fifo(ENDS);
        for _ in 0..count {
            let sent = monotonic_ns();
            frame[STAMP].copy_from_slice(&sent.to_be_bytes());
            self.plc.send(&frame).map_err(failed)?;
            loop {
                self.plc.wait(50_000_000).map_err(failed)?;
                let received = self.plc.receive(&mut buffer, false).map_err(failed)?;
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

    /// Sends frames of `len` octets, one every `gap_ns`, for this time. Returns the share that
    /// arrived.
    pub(crate) fn delivered(&self, len: usize, gap_ns: f64, time: Duration) -> Result<f64, ExperimentError> {
        let frame = frame(&BULK, len, COUNT);
        let before = self.far.counted.load(Ordering::Relaxed);
        let begin = monotonic_ns();
        let mut sent = 0u64;
        while monotonic_ns() < begin + time.as_nanos() as u64 {
            sleep_until(begin + (sent as f64 * gap_ns) as u64);
            self.plc.send(&frame).map_err(failed)?;
            sent += 1;
        }
        thread::sleep(Duration::from_millis(100));
        let came = self.far.counted.load(Ordering::Relaxed) - before;
        Ok(came as f64 / sent.max(1) as f64)
    }

    /// Ends the far machine's answers, which read every frame, also those of another program.
    fn end_answers(&mut self) {
        self.far.stop.store(true, Ordering::Release);
        if let Some(thread) = self.answering.take() {
            let _ = thread.join();
        }
    }

    /// Status of gateway A (0) or B (1).
    pub(crate) fn status(&self, gateway: usize) -> Option<Status> {
        self.gateways.get(gateway)?.status()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end_answers();
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

/// The far machine: echoes, counts or stamps each frame by its kind.
fn answer(socket: &PacketSocket, far: &Far) {
    let mut buffer = vec![0; 16 * 1024];
    // Without the permission the measurement has more noise.
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

fn keys(files: &Path, suite: &str) -> Result<(), ExperimentError> {
    let sci = |last| Sci([2, 0, 0x5e, 0, 0, last, 0, 1]);
    let members = vec![("a".into(), sci(0xa2)), ("b".into(), sci(0xb2))];
    let mut count = 0usize;
    let fill = |bytes: &mut [u8]| {
        for byte in bytes {
            count += 1;
            *byte = (count * 7 % 251) as u8;
        }
        Ok::<_, ExperimentError>(())
    };
    let keys = KeyFile::generate(suite.parse().map_err(failed)?, members, fill)?;
    keys.write_new(&files.join("keys")).map_err(failed)
}

fn private(file: &Path, text: &str) -> Result<(), ExperimentError> {
    fs::write(file, text).map_err(failed)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).map_err(failed)
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
    ) -> Result<Self, ExperimentError> {
        let (state, socket) = (files.join(format!("state-{name}")), files.join(format!("{name}.sock")));
        let keys = settings.rekey_seconds.map_or("key_file = \"keys\"".to_owned(), |seconds| {
            format!("cak_file = \"cak\"\nmka_destination = \"broadcast\"\nmka_rekey_seconds = {seconds}")
        });
        let protection = if settings.suite == UNPROTECTED {
            "[plain]".to_owned()
        } else {
            let state = state.display();
            format!("[state]\ndirectory = \"{state}\"\n[macsec]\n{keys}\n{}", settings.macsec)
        };
        let configuration = format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
             [policy]\nallow = [\"all\"]\n[run]\n{}\ncpus = [{cpu}]\n\
             [control]\nsocket = \"{}\"\n{protection}\n",
            settings.wait,
            socket.display(),
        );
        // The keys are this run's.
        permit_volatile(&state).and_then(|()| NumberFile::create(&state)).map(drop).map_err(failed)?;
        Self::with(namespace, files, name, &configuration)
    }

    /// Asks for the gateway's status.
    pub(crate) fn status(&self) -> Option<Status> {
        let reply = control::ask(&self.socket, Request::Status {}).ok()?;
        reply.status.map(|status| *status)
    }

    /// Starts a gateway with this configuration. Its control socket must be `NAME.sock` beside it.
    pub(crate) fn with(
        namespace: &Namespace,
        files: &Path,
        name: &str,
        configuration: &str,
    ) -> Result<Self, ExperimentError> {
        let (file, socket) = (files.join(format!("{name}.toml")), files.join(format!("{name}.sock")));
        fs::write(&file, configuration).map_err(failed)?;
        let inside = namespace.file().try_clone().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let run = {
            let stop = Arc::clone(&stop);
            move || {
                namespace::enter(&inside).map_err(failed)?;
                let mut checked = check(&file, &ThisMachine).map_err(failed)?;
                daemon::run(&mut checked, &stop).map_err(failed)
            }
        };
        let mut gateway = Self { socket, stop, thread: Some(thread::spawn(run)) };
        let end = Instant::now() + Duration::from_secs(5);
        while control::ask(&gateway.socket, Request::Status {}).is_err() {
            let ended = gateway.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() > end {
                gateway.stop.store(true, Ordering::Release);
                let why = gateway.thread.take().filter(|_| ended).and_then(|thread| thread.join().ok());
                let why = why.and_then(Result::err).map(|error| error.to_string()).unwrap_or_default();
                return Err(format!("gateway {name} does not start: {why}").into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(gateway)
    }
}
