//! An attacker's view of the wire, frame by frame.

use std::collections::BTreeMap;

use antedate_wire::Sci;
use antedate_wire::ethernet::{EtherType, Frame, HEADER_LEN};
use antedate_wire::ip::Protocol;
use antedate_wire::macsec::Mpdu;
use antedate_wire::wireguard::Message;
use antedate_wire::{Error, ipv4, udp};
use serde::{Deserialize, Serialize};

use super::nonces::{NonceLedger, Nonces};
use super::plaintext::Search;

/// Port of the demonstration's overlay.
const WIREGUARD: u16 = 51820;
/// Limit of separate sizes.
const MOST_SIZES: usize = 256;

/// Collects the gateways' frames.
#[derive(Debug, Default)]
pub struct View {
    search: Search,
    nonces: NonceLedger,
    counts: Counts,
    ethertypes: BTreeMap<u16, u64>,
    sizes: BTreeMap<usize, u64>,
    octets: Octets,
    example: Vec<u8>,
    leak: Vec<u8>,
}

/// Counters of the tap. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// Octets.
    pub bytes: u64,
    /// MACsec frames with encrypted payload, and transport messages of WireGuard.
    pub encrypted: u64,
    /// MACsec frames with integrity only: readable.
    pub integrity_only: u64,
    /// Frames with MACsec's EtherType that are no valid MACsec PDU.
    pub malformed: u64,
    /// Frames of another EtherType.
    pub unprotected: u64,
    /// Frames with process data.
    pub with_process_data: u64,
    /// Readable frames: unprotected, integrity only, or with process data.
    pub plaintext_frames: u64,
    /// Frames that the kernel dropped. If not 0, the view is incomplete.
    pub dropped: u64,
}

/// Results of the tap. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Counters.
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames by EtherType; `0x88e5` is MACsec.
    pub ethertypes: BTreeMap<String, u64>,
    /// Frames by their length.
    pub sizes: BTreeMap<String, u64>,
    /// Estimated entropy of the payload octets, at most 8; ciphertext comes close to it.
    pub entropy_bits_per_octet: f64,
    /// Packet numbers.
    pub nonces: Nonces,
    /// The newest frame in hexadecimal, at most 96 octets.
    pub example: String,
    /// The newest frame with readable content, if any.
    pub leak: String,
}

impl View {
    /// Takes one frame of the gateway on `side` of the wire.
    pub fn frame(&mut self, side: u8, frame: &[u8]) {
        self.counts.frames += 1;
        self.counts.bytes += frame.len() as u64;
        if self.sizes.len() < MOST_SIZES || self.sizes.contains_key(&frame.len()) {
            *self.sizes.entry(frame.len()).or_default() += 1;
        }
        keep(&mut self.example, frame);
        let Ok(view) = Frame::new_checked(frame) else { return self.counts.malformed += 1 };
        *self.ethertypes.entry(view.ethertype().number()).or_default() += 1;

        let protected = match view.ethertype() {
            EtherType::Macsec => self.protected(side, frame),
            EtherType::Ipv4 => self.tunnelled(side, view.payload()),
            _ => false,
        };
        let found = self.search.find(&frame[HEADER_LEN..]).is_some();
        self.counts.with_process_data += u64::from(found);
        if !protected || found {
            self.counts.plaintext_frames += 1;
            keep(&mut self.leak, frame);
        }
        if view.ethertype() != EtherType::Macsec {
            self.counts.unprotected += 1;
            self.octets.add(view.payload());
        }
    }

    /// Takes a frame with MACsec's EtherType; false if its payload is readable.
    fn protected(&mut self, side: u8, frame: &[u8]) -> bool {
        let Ok(mpdu) = Mpdu::parse(frame) else {
            // A malformed frame may be readable.
            self.counts.malformed += 1;
            return false;
        };
        // Without an SCI in the frame there is one sender on each side.
        let sci = mpdu.sci().unwrap_or(Sci([0, 0, 0, 0, 0, 0, 0, side]));
        self.nonces.spend(sci, mpdu.tag.an.number(), mpdu.tag.packet_number);
        self.octets.add(mpdu.secure_data);
        if mpdu.tag.tci.encryption() {
            self.counts.encrypted += 1;
            true
        } else {
            self.counts.integrity_only += 1;
            false
        }
    }

    /// Takes an IPv4 packet; false if it is neither a WireGuard message nor quotes one.
    fn tunnelled(&mut self, side: u8, packet: &[u8]) -> bool {
        let Ok(packet) = ipv4::Packet::new_checked(packet) else { return false };
        if packet.protocol() == Protocol::Icmp {
            // A quote may end early.
            return quoted(packet.payload())
                .is_some_and(|message| matches!(Message::parse(&message), Ok(_) | Err(Error::Truncated)));
        }
        let Some(message) = to_tunnel(&packet) else { return false };
        match Message::parse(&message) {
            Ok(Message::Transport(transport)) => {
                // The session index stands for a key, with a counter for each side.
                let [a, b, c, d] = transport.receiver.to_be_bytes();
                let session = Sci([a, b, c, d, side, 0, 0, 0]);
                self.nonces.spend(session, 0, transport.counter as u32);
                self.counts.encrypted += 1;
                true
            }
            // A handshake carries no data of the machines.
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Counts frames dropped by the kernel.
    pub fn dropped(&mut self, frames: u64) {
        self.counts.dropped += frames;
    }

    /// All later keys are new.
    pub fn next_generation(&mut self) {
        self.nonces.next_generation();
    }

    /// The results so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen {
            counts: self.counts.clone(),
            ethertypes: self.ethertypes.iter().map(|(kind, n)| (format!("0x{kind:04x}"), *n)).collect(),
            sizes: self.sizes.iter().map(|(len, n)| (len.to_string(), *n)).collect(),
            entropy_bits_per_octet: (self.octets.entropy() * 1_000.0).round() / 1_000.0,
            nonces: self.nonces.summary(),
            example: hex(&self.example),
            leak: hex(&self.leak),
        }
    }
}

/// The content of a datagram from or to the tunnel's port.
fn to_tunnel(packet: &ipv4::Packet<&[u8]>) -> Option<Vec<u8>> {
    let udp = packet.protocol() == Protocol::Udp;
    let datagram = udp::Datagram::new_checked(packet.payload()).ok().filter(|_| udp)?;
    let port = [datagram.src_port(), datagram.dst_port()].contains(&WIREGUARD);
    port.then(|| datagram.payload().to_vec())
}

/// The tunnel's datagram that an ICMP error (RFC 792) quotes, its end missing: a gateway that is
/// gone, or a path that is too narrow. It shows the ciphertext that was on the wire before.
fn quoted(icmp: &[u8]) -> Option<Vec<u8>> {
    /// Destination unreachable, source quench, redirect, time exceeded, parameter problem.
    const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
    const HEADER_LEN: usize = 8;
    let quote = icmp.get(HEADER_LEN..).filter(|_| ERRORS.contains(&icmp[0]))?;
    to_tunnel(&ipv4::Packet::new_checked(quote).ok()?)
}

fn keep(place: &mut Vec<u8>, frame: &[u8]) {
    place.clear();
    place.extend_from_slice(&frame[..frame.len().min(96)]);
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Counts of octet values.
#[derive(Debug)]
struct Octets([u64; 256]);

impl Default for Octets {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl Octets {
    fn add(&mut self, octets: &[u8]) {
        octets.iter().for_each(|&octet| self.0[usize::from(octet)] += 1);
    }

    /// Shannon entropy of single octets.
    fn entropy(&self) -> f64 {
        let total = self.0.iter().sum::<u64>() as f64;
        let share = self.0.iter().filter(|&&n| n > 0).map(|&n| n as f64 / total);
        share.map(|p| -p * p.log2()).sum::<f64>().max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use antedate_wire::macsec::{An, SecTag, Tci};
    use antedate_wire::{EthernetAddress, EthernetRepr};

    use super::*;
    use crate::station::host::{Host, IpSuite, Remote};
    use crate::station::process_data::{ProcessData, Writer};

    fn frame(ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
        let (dst_addr, src_addr) = (EthernetAddress([2; 6]), EthernetAddress([4; 6]));
        let mut frame = vec![0; HEADER_LEN];
        EthernetRepr { dst_addr, src_addr, ethertype }.emit(&mut frame).unwrap();
        frame.extend_from_slice(payload);
        frame
    }

    fn macsec(tci: Tci, packet_number: u32, sci: Option<Sci>, secure_data: &[u8]) -> Vec<u8> {
        let tag = SecTag {
            tci,
            an: An::new(1).unwrap(),
            short_length: 0,
            more_fragments: false,
            continued: false,
            packet_number,
            sci,
        };
        let mut octets = vec![0; tag.buffer_len()];
        tag.emit(&mut octets).unwrap();
        octets.extend_from_slice(secure_data);
        octets.extend_from_slice(&[0xaa; 16]);
        // The SecTAG begins with its own EtherType.
        frame(EtherType::Macsec, &octets[2..])
    }

    fn encrypted() -> Tci {
        Tci::NONE.with_encryption(true).with_changed_text(true)
    }

    fn object() -> Vec<u8> {
        let mut object = vec![0; 100];
        Writer::prepare(&mut object).unwrap().write(&mut object, &ProcessData::default());
        object
    }

    #[test]
    fn encrypted_frames_show_nothing() {
        let mut view = View::default();
        for pn in 1..=10 {
            view.frame(0, &macsec(encrypted(), pn, Some(Sci([1; 8])), &[0x99; 60]));
        }
        let seen = view.seen();
        assert_eq!((seen.counts.encrypted, seen.counts.plaintext_frames), (10, 0));
        assert_eq!((seen.nonces.seen, seen.nonces.reused), (10, 0));
        assert_eq!(seen.ethertypes, BTreeMap::from([("0x88e5".to_owned(), 10)]));
        assert!(seen.leak.is_empty() && seen.example.contains("88e5"));
    }

    #[test]
    fn readable_frames_are_plaintext() {
        let mut view = View::default();
        view.frame(0, &frame(EtherType::Profinet, &object()));
        view.frame(0, &frame(EtherType::Lldp, &[1; 60]));
        view.frame(0, &macsec(Tci::NONE, 1, Some(Sci([1; 8])), &[0x99; 60]));
        view.frame(0, &macsec(encrypted(), 2, Some(Sci([1; 8])), &object()));
        view.frame(0, &frame(EtherType::Macsec, &[0; 4]));
        let counts = view.seen().counts;
        assert_eq!(
            (counts.plaintext_frames, counts.unprotected, counts.with_process_data),
            (5, 2, 2),
            "{counts:?}"
        );
        assert_eq!((counts.integrity_only, counts.malformed), (1, 1));
    }

    /// A frame with a transport message of WireGuard around these octets.
    fn tunnelled(counter: u8, packet: &[u8]) -> Vec<u8> {
        let host = |last| Host {
            mac: EthernetAddress([2, 0, 0, 0, 0, last]),
            ip: IpSuite::local(ipv4::Address::new(192, 0, 2, last)),
        };
        let to = Remote { mac: host(2).mac, ip: host(2).ip.address, port: WIREGUARD };
        let message = [&[4, 0, 0, 0, 1, 2, 3, 4, counter, 0, 0, 0, 0, 0, 0, 0], packet, &[0x77; 16]].concat();
        host(1).datagram(WIREGUARD, &to, &message)
    }

    /// An ICMP error that quotes the IP packet of a frame.
    fn error(kind: u8, quoted: &[u8]) -> Vec<u8> {
        let mut packet = quoted[..20].to_vec();
        packet[9] = Protocol::Icmp.number();
        packet.extend_from_slice(&[kind, 3, 0, 0, 0, 0, 0, 0]);
        packet.extend_from_slice(quoted);
        frame(EtherType::Ipv4, &packet)
    }

    #[test]
    fn quoted_ciphertext_is_not_readable() {
        let mut view = View::default();
        let sealed = tunnelled(1, &[0x99; 64]);
        view.frame(0, &sealed);
        for len in [28 + 4, 28 + 40, sealed.len() - HEADER_LEN] {
            view.frame(1, &error(3, &sealed[HEADER_LEN..][..len]));
        }
        let seen = view.seen();
        assert_eq!((seen.counts.plaintext_frames, seen.counts.encrypted), (0, 1), "{seen:?}");
        assert_eq!((seen.nonces.seen, seen.nonces.reused), (1, 0), "a quote spends no number");
        // An echo, a quote of process data, and one of another protocol's packet.
        view.frame(1, &error(8, &sealed[HEADER_LEN..]));
        view.frame(1, &error(3, &tunnelled(2, &object())[HEADER_LEN..]));
        let mut other = sealed[HEADER_LEN..].to_vec();
        other[9] = Protocol::Tcp.number();
        view.frame(1, &error(3, &other));
        assert_eq!(view.seen().counts.plaintext_frames, 3);
    }

    #[test]
    fn nonce_reuse_is_found_without_sci() {
        let mut view = View::default();
        for side in [0, 1] {
            view.frame(side, &macsec(encrypted(), 7, None, &[0x99; 60]));
        }
        assert_eq!(view.seen().nonces.reused, 0);
        view.frame(1, &macsec(encrypted(), 7, None, &[0x98; 60]));
        assert_eq!(view.seen().nonces.reused, 1);
    }

    #[test]
    fn entropy_tells_text_from_noise() {
        let mut text = Octets::default();
        text.add(crate::station::process_data::IMAGE);
        let mut noise = Octets::default();
        noise.add(&(0..=255).collect::<Vec<u8>>());
        assert!(text.entropy() < 5.0 && noise.entropy() > 7.99);
        assert!(Octets::default().entropy().abs() < f64::EPSILON);
    }
}
