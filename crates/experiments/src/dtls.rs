//! Experiment `dtls`: round trips of datagrams through both sides of the DTLS proxy on this
//! machine.
//!
//! Baselines are two relays that only copy datagrams, and the same proxy without preparation. All
//! take turns, so disturbances of the machine affect all. A device sends every millisecond, which
//! leaves time to prepare.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_channel::dtls::{CipherSuite, ConnectionId, PREPARED_LEN, Settings};
use antedate_dtls::devices::Devices;
use antedate_dtls::psk::PskFile;
use antedate_dtls::service::Keys;
use antedate_dtls::{Options as ProxyOptions, connect, listen};

use crate::{ExperimentError, Options, Report, Row, failed};
use antedate_lab::histogram::Times;

/// The key of this experiment.
const KEYS: &str = "turbine:000102030405060708090a0b0c0d0e0f\n";
/// Bound of any handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of the datagrams.
const PERIOD: Duration = Duration::from_millis(1);
const LONGEST: usize = 2048;

/// The way of a datagram to the server.
#[derive(Clone, Copy)]
enum Way {
    Relays,
    Proxy { suite: CipherSuite, prepared: bool },
}

const WAYS: [Way; 7] = {
    use CipherSuite::{PskAes128Ccm8, PskAes128GcmSha256, PskChacha20Poly1305Sha256};
    [
        Way::Relays,
        Way::Proxy { suite: PskAes128Ccm8, prepared: false },
        Way::Proxy { suite: PskAes128Ccm8, prepared: true },
        Way::Proxy { suite: PskAes128GcmSha256, prepared: false },
        Way::Proxy { suite: PskAes128GcmSha256, prepared: true },
        Way::Proxy { suite: PskChacha20Poly1305Sha256, prepared: false },
        Way::Proxy { suite: PskChacha20Poly1305Sha256, prepared: true },
    ]
};

/// A thread with a socket; stops on drop.
pub(crate) struct Running {
    pub(crate) at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Running {
    fn start(
        what: &str,
        run: impl FnOnce(&AtomicBool, &dyn Fn(SocketAddr)) -> Result<(), ExperimentError> + Send + 'static,
    ) -> Result<Self, ExperimentError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, at) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let said = ready.clone();
            if let Err(why) = run(&stopped, &|at| _ = said.send(Ok(at))) {
                let _ = ready.send(Err(why));
            }
        });
        let at = at.recv_timeout(PATIENCE).map_err(|_| format!("{what} does not begin"))?;
        at.map(|at| Self { at, stop, thread: Some(thread) }).map_err(|why| format!("{what}: {why}").into())
    }
}

fn socket() -> Result<UdpSocket, ExperimentError> {
    let open = || {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok(socket)
    };
    open().map_err(|error: std::io::Error| format!("no UDP socket on the loopback interface: {error}").into())
}

fn address(socket: &UdpSocket) -> Result<SocketAddr, ExperimentError> {
    socket.local_addr().map_err(failed)
}

/// Starts the devices' server, which echoes datagrams.
fn server() -> Result<Running, ExperimentError> {
    Running::start("the server", |stop, ready| {
        let socket = socket()?;
        ready(address(&socket)?);
        let mut buffer = [0; LONGEST];
        while !stop.load(Ordering::Acquire) {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..len], from);
            }
        }
        Ok(())
    })
}

/// Starts a relay between one client and a server, with a thread for each direction.
fn relay(to: SocketAddr) -> Result<Running, ExperimentError> {
    Running::start("a relay", move |stop, ready| {
        let (outside, inside) = (socket()?, socket()?);
        inside.connect(to).map_err(failed)?;
        let client = std::sync::Mutex::new(None);
        ready(address(&outside)?);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; LONGEST];
                while !stop.load(Ordering::Acquire) {
                    if let Ok(len) = inside.recv(&mut buffer)
                        && let Some(client) = client.lock().ok().and_then(|client| *client)
                    {
                        let _ = outside.send_to(&buffer[..len], client);
                    }
                }
            });
            let mut buffer = [0; LONGEST];
            while !stop.load(Ordering::Acquire) {
                if let Ok((len, from)) = outside.recv_from(&mut buffer) {
                    if let Ok(mut client) = client.lock() {
                        *client = Some(from);
                    }
                    let _ = inside.send(&buffer[..len]);
                }
            }
        });
        Ok(())
    })
}

/// Starts a side of the proxy with the experiment's key.
pub(crate) fn proxy(
    to: SocketAddr,
    suite: CipherSuite,
    prepared: bool,
    listening: bool,
) -> Result<Running, ExperimentError> {
    let options = ProxyOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        to: to.into(),
        settings: Settings {
            suites: vec![suite],
            cid: Some(ConnectionId::EMPTY),
            reach: if prepared { PREPARED_LEN } else { 0 },
            ..Settings::default()
        },
        threads: 1,
        max_sessions: 4,
        max_handshakes: 16,
        idle_ms: 60_000,
        silence_ms: 0,
        renew_ms: 0,
        resend: false,
        hold: 64,
        generations: false,
        status: None,
        key_log: None,
    };
    let keys = PskFile::parse(KEYS).map_err(|(_, what, _)| what)?;
    Running::start("a side of the proxy", move |stop, ready| {
        let run = if listening {
            listen(&options, keys.into(), &Arc::default(), stop, ready)
        } else {
            let keys = Keys { devices: Devices::all("turbine".to_owned()), ..Keys::from(keys) };
            connect(&options, keys, &Arc::default(), stop, ready)
        };
        run.map_err(failed)
    })
}

/// A way to the server and its device. The side next to the device is dropped first.
struct Path {
    device: UdpSocket,
    times: Times,
    lost: u64,
    _near: Running,
    _far: Running,
}

impl Path {
    fn new(way: Way, server: SocketAddr) -> Result<Self, ExperimentError> {
        let far = match way {
            Way::Relays => relay(server),
            Way::Proxy { suite, prepared } => proxy(server, suite, prepared, true),
        }?;
        let near = match way {
            Way::Relays => relay(far.at),
            Way::Proxy { suite, prepared } => proxy(far.at, suite, prepared, false),
        }?;
        let device = socket()?;
        device.connect(near.at).map_err(failed)?;
        let this = Self { device, times: Times::default(), lost: 0, _near: near, _far: far };
        // The first datagram waits for the handshake.
        let end = Instant::now() + PATIENCE;
        while this.round_trip(&[0; 16])?.is_none() {
            if Instant::now() > end {
                return Err("nothing comes back through the proxy".into());
            }
        }
        Ok(this)
    }

    fn round_trip(&self, datagram: &[u8]) -> Result<Option<Duration>, ExperimentError> {
        let failed = |error: std::io::Error| format!("the device's socket: {error}");
        let mut buffer = [0; LONGEST];
        let begun = Instant::now();
        self.device.send(datagram).map_err(failed)?;
        while let Ok(len) = self.device.recv(&mut buffer) {
            if buffer[..len] == *datagram {
                return Ok(Some(begun.elapsed()));
            }
        }
        Ok(None)
    }

    /// Measures round trips, one per period.
    fn measure(&mut self, size: usize, count: u32) -> Result<(), ExperimentError> {
        let mut datagram = vec![0x5a; size];
        let mut due = Instant::now();
        for number in 0..count {
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            match self.round_trip(&datagram)? {
                Some(time) => self.times.record(time.as_nanos() as u64),
                None => self.lost += 1,
            }
            due += PERIOD;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let (rounds, count, sizes) =
        if options.quick { (4, 25, &[64][..]) } else { (20, 100, &[16, 64, 512, 1200][..]) };
    let server = server()?;
    let mut report = Report::new("dtls", "hiller2018");
    let note = "both sides, device and server on this machine, a datagram each millisecond; baseline: two plain relays";
    for (done, size) in sizes.iter().enumerate() {
        options.progress(done, sizes.len(), &format!("datagrams of {size} bytes"));
        let mut paths =
            WAYS.iter().map(|way| Path::new(*way, server.at)).collect::<Result<Vec<_>, ExperimentError>>()?;
        for _ in 0..rounds {
            for path in &mut paths {
                path.measure(*size, count)?;
            }
        }
        let lost: u64 = paths.iter().map(|path| path.lost).sum();
        let relays = &paths[0].times;
        let plain = [50.0, 99.0].map(|percent| relays.percentile_us(percent));
        for (way, path) in WAYS.iter().zip(&paths).skip(1) {
            let Way::Proxy { suite, prepared } = way else { continue };
            let how = if *prepared { "antedated" } else { "not prepared" };
            for ((what, percent), plain) in [("median", 50.0), ("p99", 99.0)].into_iter().zip(plain) {
                let case = format!("{size} B, {}, {how}", suite.name());
                let row = Row::new(case, format!("round trip, {what}"), "us").baseline(plain);
                report.row(row.antedated(path.times.percentile_us(percent)).note(note));
            }
        }
        report.check(
            format!("{size} B: {lost} of {} datagrams lost", rounds * count * WAYS.len() as u32),
            lost == 0,
        );
    }
    options.progress(sizes.len(), sizes.len(), "");
    Ok(report)
}
