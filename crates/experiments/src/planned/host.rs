//! Messages between two applications of this machine.
//!
//! Calibration and points take turns, datagram by datagram, so that a load of the machine meets both.
//! One thread receives all of them, and sleeps in its socket between two.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{Aead, CipherSuite, ConnectionId, DirectionKeys, Reader, Writer};
use antedate_plan::device::Cipher;
use antedate_wire::dtls::{ContentType, Record};

use crate::dtls::proxy;
use crate::{ExperimentError, Options, failed};

/// Time between two datagrams. The receiver sleeps meanwhile, as between messages of a device.
const PAUSE: Duration = Duration::from_micros(300);
/// The longest wait for a datagram.
const PATIENCE: Duration = Duration::from_secs(5);
/// Octets of a calibration's datagram.
const CALIBRATED: usize = 200;
/// In front of each datagram: its series, and its number.
const HEAD: usize = 1 + 4;
const LONGEST: usize = 2048;

/// A series of sealed messages.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// The cipher.
    pub cipher: Cipher,
    /// Octets of payload.
    pub size: usize,
}

/// The series of messages that the applications seal and open themselves.
pub const SEALED: [Sealed; 9] = {
    use Cipher::{Ccm8, ChaCha, Gcm};
    let mut all = [Sealed { cipher: Ccm8, size: 0 }; 9];
    let (ciphers, sizes) = ([Ccm8, Gcm, ChaCha], [64, 250, 1000]);
    let mut at = 0;
    while at < all.len() {
        all[at] = Sealed { cipher: ciphers[at / 3], size: sizes[at % 3] };
        at += 1;
    }
    all
};
/// Octets of the messages through two DTLS proxies.
pub const RELAYED: [usize; 3] = [64, 250, 500];

/// The series that calibrate: plain, and plain through the proxies.
const DIRECT: usize = 0;
const PROXIES: usize = 1;
const FIRST: usize = 2;
const SERIES: usize = FIRST + SEALED.len() + RELAYED.len();

/// Delays of all messages, in microseconds, in the order of sending.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of the calibration: the sender's call, and the rest until the receiver has the datagram.
    pub send_us: Vec<f64>,
    /// See `send_us`.
    pub receive_us: Vec<f64>,
    /// Of the calibration: the whole way through both proxies.
    pub proxies_us: Vec<f64>,
    /// Of [`SEALED`]: from the payload to the opened message.
    pub sealed_us: Vec<Vec<f64>>,
    /// Of [`RELAYED`]: from the payload to the received one.
    pub relayed_us: Vec<Vec<f64>>,
}

/// Both ends of a series.
fn ends(cipher: Cipher, series: usize, size: usize) -> Option<(Writer, Reader)> {
    let aead = match cipher {
        Cipher::Ccm8 => Aead::Aes128Ccm8,
        Cipher::Gcm => Aead::Aes128Gcm,
        Cipher::ChaCha => Aead::ChaCha20Poly1305,
    };
    // Keys of measurements only.
    let key = [series as u8; 32];
    let keys = DirectionKeys::new(aead, key.get(..aead.key_len())?, key.get(..aead.iv_len())?)?;
    let cid = ConnectionId::EMPTY;
    let (mut writer, mut reader) = (Writer::new(&keys, 1, 0, cid)?, Reader::new(&keys, 1, cid)?);
    writer.set_reach(size);
    reader.set_reach(size);
    while writer.idle(u32::MAX) + reader.idle(u32::MAX) > 0 {}
    Some((writer, reader))
}

/// Arrivals by number.
type Arrivals = Vec<Option<Instant>>;

/// Receives datagrams until that of no series, and opens those that are sealed.
fn receive(socket: &UdpSocket, readers: &mut [Reader], all: usize) -> Result<Arrivals, ExperimentError> {
    let mut arrivals = vec![None; all];
    let (mut datagram, mut text) = ([0; LONGEST], [0; LONGEST]);
    loop {
        let len = socket.recv(&mut datagram).map_err(|error| format!("the receiver: {error}"))?;
        let mut at = Instant::now();
        let (head, rest) = datagram[..len].split_first_chunk::<HEAD>().ok_or("a short datagram came")?;
        let [series, number @ ..] = *head;
        if usize::from(series) == SERIES {
            return Ok(arrivals);
        }
        let of_sealed = usize::from(series).checked_sub(FIRST);
        if let Some(reader) = of_sealed.and_then(|at| readers.get_mut(at)) {
            let (record, _) = Record::parse(rest, 0).map_err(|_| "no record came")?;
            reader.open(&record, &mut text).map_err(|why| format!("a record was refused: {why:?}"))?;
            at = Instant::now();
            while reader.idle(64) > 0 {}
        }
        // The number of those that woke the proxies is beyond all.
        if let Some(place) = arrivals.get_mut(u32::from_be_bytes(number) as usize) {
            *place = Some(at);
        }
    }
}

fn bound() -> Result<(UdpSocket, SocketAddr), ExperimentError> {
    let open = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let at = socket.local_addr()?;
        Ok((socket, at))
    };
    open().map_err(|error: std::io::Error| format!("no UDP socket on the loopback interface: {error}").into())
}

/// A datagram that was sent.
struct Sent {
    series: usize,
    begun: Instant,
    /// The end of the sender's call.
    ended: Instant,
}

/// Measures `count` messages of each series.
///
/// # Errors
/// Loopback without sockets, or lost datagrams.
pub fn measure(options: &Options, count: usize) -> Result<Measured, ExperimentError> {
    let (server, to) = bound()?;
    let sealed = SEALED.iter().enumerate().map(|(at, sealed)| ends(sealed.cipher, at, sealed.size));
    let (mut writers, mut readers): (Vec<_>, Vec<_>) = sealed
        .collect::<Option<Vec<_>>>()
        .ok_or("the record layer does not take its keys")?
        .into_iter()
        .unzip();
    let suite = CipherSuite::PskAes128GcmSha256;
    let far = proxy(to, suite, true, true)?;
    let near = proxy(far.at, suite, true, false)?;
    let ((direct, _), (device, _)) = (bound()?, bound()?);
    direct.connect(to).map_err(failed)?;
    device.connect(near.at).map_err(failed)?;
    handshake(&device, &server)?;
    let points = SERIES - FIRST;
    let all = 2 * points * count;
    let receiver = thread::spawn(move || receive(&server, &mut readers, all));
    let mut sent: Vec<Sent> = Vec::with_capacity(all);
    let (mut out, payload) = ([0x5a; LONGEST], [0x5a; LONGEST]);
    for round in 0..count {
        if round % 64 == 0 {
            options.progress(round, count, "messages between applications");
        }
        // A calibrating datagram precedes each of a point, so that the tails of both are as well known.
        for point in 0..points {
            let calibrating = if point < SEALED.len() { DIRECT } else { PROXIES };
            for series in [calibrating, FIRST + point] {
                thread::sleep(PAUSE);
                let head = [series as u8; HEAD];
                out[..HEAD].copy_from_slice(&head);
                out[1..HEAD].copy_from_slice(&(sent.len() as u32).to_be_bytes());
                let begun = Instant::now();
                let (socket, len) = match (writers.get_mut(point), series) {
                    (_, DIRECT) => (&direct, CALIBRATED),
                    (_, PROXIES) => (&device, CALIBRATED),
                    (Some(writer), _) => {
                        let text = &payload[..SEALED[point].size];
                        let record = writer.protect(ContentType::ApplicationData, text, &mut out[HEAD..]);
                        (&direct, HEAD + record.map_err(|why| format!("a message is not sealed: {why}"))?)
                    }
                    (None, _) => (&device, RELAYED[point - SEALED.len()]),
                };
                socket.send(&out[..len]).map_err(failed)?;
                sent.push(Sent { series, begun, ended: Instant::now() });
                if let Some(writer) = writers.get_mut(point).filter(|_| series >= FIRST) {
                    while writer.idle(64) > 0 {}
                }
            }
        }
    }
    options.progress(count, count, "");
    // The last ones may be under way.
    thread::sleep(Duration::from_millis(200));
    direct.send(&[SERIES as u8; HEAD]).map_err(failed)?;
    let arrivals = receiver.join().map_err(|_| "the receiving thread ended")??;
    let lost = arrivals.iter().filter(|arrival| arrival.is_none()).count();
    if lost > 0 {
        return Err(format!("{lost} of {all} datagrams on loopback were lost; let the machine rest").into());
    }
    Ok(sorted(&sent, &arrivals))
}

/// The delays of each series.
fn sorted(sent: &[Sent], arrivals: &[Option<Instant>]) -> Measured {
    let us = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e6;
    let mut all = Measured {
        sealed_us: vec![Vec::new(); SEALED.len()],
        relayed_us: vec![Vec::new(); RELAYED.len()],
        ..Measured::default()
    };
    for (Sent { series, begun, ended }, arrived) in sent.iter().zip(arrivals.iter().flatten()) {
        let whole = us(*begun, *arrived);
        match *series {
            DIRECT => {
                all.send_us.push(us(*begun, *ended));
                // A receiver on another core may be quicker than the return of the call.
                all.receive_us.push(us(*ended, *arrived));
            }
            PROXIES => all.proxies_us.push(whole),
            series if series < FIRST + SEALED.len() => all.sealed_us[series - FIRST].push(whole),
            series => all.relayed_us[series - FIRST - SEALED.len()].push(whole),
        }
    }
    all
}

/// Sends until the first datagram came through both proxies, whose handshake takes a while.
fn handshake(device: &UdpSocket, server: &UdpSocket) -> Result<(), ExperimentError> {
    let end = Instant::now() + PATIENCE;
    let mut buffer = [0; LONGEST];
    server.set_read_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
    loop {
        device.send(&[u8::MAX; HEAD]).map_err(failed)?;
        if server.recv(&mut buffer).is_ok() {
            return server.set_read_timeout(Some(PATIENCE)).map_err(failed);
        }
        if Instant::now() > end {
            return Err("nothing comes through the proxies".into());
        }
    }
}
