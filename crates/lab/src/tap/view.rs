//! What an attacker on the wire sees, frame by frame.

use std::collections::BTreeMap;

use antedate_wire::Sci;
use antedate_wire::ethernet::{EtherType, Frame, HEADER_LEN};
use antedate_wire::macsec::Mpdu;
use antedate_wire::wireguard::Message;
use antedate_wire::{ipv4, udp};
use serde::{Deserialize, Serialize};

use super::nonces::{NonceLedger, Nonces};
use super::plaintext::Search;

/// The port of the overlay in the demonstration.
const WIREGUARD: u16 = 51820;
/// Sizes kept apart at most.
const MOST_SIZES: usize = 256;

/// Collects what passes. Frames are those that gateways put on the wire, not what the wire makes of them.
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

/// Counters of the tap; names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// Octets.
    pub bytes: u64,
    /// MACsec frames whose payload is encrypted, and WireGuard's transport messages.
    pub encrypted: u64,
    /// MACsec frames with integrity alone: readable.
    pub integrity_only: u64,
    /// Frames with MACsec's EtherType that are no valid MACsec PDU.
    pub malformed: u64,
    /// Frames of another EtherType.
    pub unprotected: u64,
    /// Frames in which process data was found.
    pub with_process_data: u64,
    /// Frames whose payload can be read: unprotected, integrity alone, or with process data in them.
    pub plaintext_frames: u64,
    /// Frames that the kernel dropped before the tap saw them; 0, or the view is not whole.
    pub dropped: u64,
}

/// What the tap saw; names are stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Counters.
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames by EtherType, `0x88e5` is MACsec.
    pub ethertypes: BTreeMap<String, u64>,
    /// Frames by their length.
    pub sizes: BTreeMap<String, u64>,
    /// Estimated entropy of the payload octets, 8 at most; ciphertext comes close to it.
    pub entropy_bits_per_octet: f64,
    /// Packet numbers.
    pub nonces: Nonces,
    /// The newest frame, in hexadecimal, as far as 96 octets.
    pub example: String,
    /// The newest frame with readable content, if any.
    pub leak: String,
}

impl View {
    /// Takes one frame that came from the gateway on `side` of the wire.
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
            // Whatever it is, nobody can say that it is unreadable.
            self.counts.malformed += 1;
            return false;
        };
        // Without an SCI in the frame there is one sender on each side of the wire.
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

    /// Takes an IPv4 packet; false if it is not a message of WireGuard.
    fn tunnelled(&mut self, side: u8, packet: &[u8]) -> bool {
        let message = ipv4::Packet::new_checked(packet).ok().and_then(|packet| {
            let datagram = udp::Datagram::new_checked(packet.payload().to_vec()).ok()?;
            let to_tunnel = [datagram.src_port(), datagram.dst_port()].contains(&WIREGUARD);
            to_tunnel.then(|| datagram.payload().to_vec())
        });
        let Some(message) = message else { return false };
        match Message::parse(&message) {
            Ok(Message::Transport(transport)) => {
                // The index of the session stands for a key, with a counter of its own on each side.
                let [a, b, c, d] = transport.receiver.to_be_bytes();
                let session = Sci([a, b, c, d, side, 0, 0, 0]);
                self.nonces.spend(session, 0, transport.counter as u32);
                self.counts.encrypted += 1;
                true
            }
            // A handshake has nothing of the machines in it.
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Frames that the kernel dropped.
    pub fn dropped(&mut self, frames: u64) {
        self.counts.dropped += frames;
    }

    /// All keys are new from here on.
    pub fn next_generation(&mut self) {
        self.nonces.next_generation();
    }

    /// Everything so far.
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

fn keep(place: &mut Vec<u8>, frame: &[u8]) {
    place.clear();
    place.extend_from_slice(&frame[..frame.len().min(96)]);
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// How often each octet value occurs.
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

    /// Shannon's entropy of the distribution of single octets.
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
    fn whatever_can_be_read_is_a_plaintext_frame() {
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

    #[test]
    fn a_reused_number_is_found_and_senders_without_sci_are_told_apart_by_their_side() {
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
