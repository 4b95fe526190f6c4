//! Messages between two applications of this machine.
//!
//! Calibration and points are sent in a random order, so that a load of the machine and what is in its
//! caches meet both. One thread receives all of them, and sleeps in its socket between two.

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
/// The calibrating message between the applications. The same length calibrates the proxies.
pub const CALIBRATED: Sealed = Sealed { cipher: Cipher::Gcm, size: 200 };
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

/// The series: the calibrating one between the applications, the points, and plain ones through the
/// proxies, of which the first calibrates.
const DIRECT: usize = 0;
const PROXIES: usize = 1 + SEALED.len();
const SERIES: usize = PROXIES + 1 + RELAYED.len();

/// Delays of all messages, in microseconds: from the payload to the opened message.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of [`CALIBRATED`].
    pub direct_us: Vec<f64>,
    /// Of the same length, plain, through both proxies.
    pub proxies_us: Vec<f64>,
    /// Of [`SEALED`].
    pub sealed_us: Vec<Vec<f64>>,
    /// Of [`RELAYED`].
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
        if let Some(reader) = readers.get_mut(usize::from(series)) {
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

/// The series of a round in a random order: each point once, and the calibrations as often, so that
/// the tails of both are as well known.
fn order(random: &mut u64) -> Vec<usize> {
    let points = (DIRECT + 1..PROXIES).chain(PROXIES + 1..SERIES);
    let calibrations = points.clone().map(|point| if point < PROXIES { DIRECT } else { PROXIES });
    let mut order: Vec<usize> = points.chain(calibrations).collect();
    for at in (1..order.len()).rev() {
        // Xorshift (Marsaglia 2003).
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        order.swap(at, (*random % (at as u64 + 1)) as usize);
    }
    order
}

/// Measures `count` messages of each series, and of the calibrations as many as of all points.
///
/// # Errors
/// Loopback without sockets, or lost datagrams.
pub fn measure(options: &Options, count: usize) -> Result<Measured, ExperimentError> {
    let (server, to) = bound()?;
    let series = [CALIBRATED].into_iter().chain(SEALED);
    let ends = series.enumerate().map(|(at, sealed)| ends(sealed.cipher, at, sealed.size));
    let (mut writers, mut readers): (Vec<_>, Vec<_>) = ends
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
    let mut random = 0x5eed_0000_0001;
    let all: Vec<usize> = (0..count).flat_map(|_| order(&mut random)).collect();
    let len = all.len();
    let receiver = thread::spawn(move || receive(&server, &mut readers, len));
    let mut sent: Vec<(usize, Instant)> = Vec::with_capacity(len);
    let (mut out, payload) = ([0x5a; LONGEST], [0x5a; LONGEST]);
    for (number, series) in all.into_iter().enumerate() {
        if number % 1024 == 0 {
            options.progress(number, len, "messages between applications");
        }
        thread::sleep(PAUSE);
        out[0] = series as u8;
        out[1..HEAD].copy_from_slice(&(number as u32).to_be_bytes());
        let begun = Instant::now();
        let (socket, len) = match (series, writers.get_mut(series)) {
            (PROXIES, _) => (&device, CALIBRATED.size),
            (_, None) => (&device, RELAYED[series - PROXIES - 1]),
            (_, Some(writer)) => {
                let size = if series == DIRECT { CALIBRATED.size } else { SEALED[series - 1].size };
                let text = &payload[..size];
                let record = writer.protect(ContentType::ApplicationData, text, &mut out[HEAD..]);
                (&direct, HEAD + record.map_err(|why| format!("a message is not sealed: {why:?}"))?)
            }
        };
        socket.send(&out[..len]).map_err(failed)?;
        sent.push((series, begun));
        if let Some(writer) = writers.get_mut(series) {
            while writer.idle(64) > 0 {}
        }
    }
    options.progress(len, len, "");
    // The last ones may be under way.
    thread::sleep(Duration::from_millis(200));
    direct.send(&[SERIES as u8; HEAD]).map_err(failed)?;
    let arrivals = receiver.join().map_err(|_| "the receiving thread ended")??;
    let lost = arrivals.iter().filter(|arrival| arrival.is_none()).count();
    if lost > 0 {
        return Err(format!("{lost} of {len} datagrams on loopback were lost; let the machine rest").into());
    }
    let mut delays = vec![Vec::new(); SERIES];
    for ((series, begun), arrived) in sent.iter().zip(arrivals.iter().flatten()) {
        delays[*series].push(arrived.saturating_duration_since(*begun).as_secs_f64() * 1e6);
    }
    let relayed_us = delays.split_off(PROXIES + 1);
    let proxies_us = delays.pop().unwrap_or_default();
    let sealed_us = delays.split_off(DIRECT + 1);
    let direct_us = delays.pop().unwrap_or_default();
    Ok(Measured { direct_us, proxies_us, sealed_us, relayed_us })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrations_are_as_many_as_points() {
        let mut random = 1;
        let (first, second) = (order(&mut random), order(&mut random));
        assert_ne!(first, second);
        let of = |series| first.iter().filter(|one| **one == series).count();
        assert_eq!([of(DIRECT), of(PROXIES)], [SEALED.len(), RELAYED.len()]);
        assert!(
            (0..SERIES).filter(|series| ![DIRECT, PROXIES].contains(series)).all(|series| of(series) == 1)
        );
    }

    #[test]
    fn every_message_is_opened() {
        let measured = measure(&Options::default(), 3).expect("loopback");
        assert_eq!((measured.direct_us.len(), measured.proxies_us.len()), (27, 9));
        assert!(measured.sealed_us.iter().chain(&measured.relayed_us).all(|delays| delays.len() == 3));
        assert!(measured.sealed_us.iter().flatten().all(|delay| *delay > 0.0));
    }
}
