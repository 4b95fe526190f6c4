//! Faults of frames on the wire.

use antedate_aead::{Aes128Gcm, Key, Nonce};
use antedate_wire::ethernet::{EtherType, Frame, HEADER_LEN};
use antedate_wire::ip::Protocol;
use antedate_wire::macsec::{An, ICV_LEN, Mpdu, SecTag, Tci};
use antedate_wire::profinet::FrameId;
use antedate_wire::wireguard::Message;
use antedate_wire::{EthernetAddress, EthernetRepr, Sci, ipv4, udp};
use serde::{Deserialize, Serialize};

use super::schedule::Random;
use crate::station::cyclic::FrameWriter;
use crate::station::process_data::ProcessData;

/// A fault. The names are those of `--faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The frame does not arrive.
    Lose,
    /// It arrives twice.
    Duplicate,
    /// It arrives after its successor.
    Reorder,
    /// A bit of its payload or ICV is flipped.
    Corrupt,
    /// A bit of its addresses or SecTAG is flipped.
    CorruptHeader,
    /// Its end is cut off.
    Truncate,
    /// It arrives late, in order.
    Delay,
    /// An earlier frame comes again.
    Replay,
    /// A forged, unprotected Profinet frame comes.
    Inject,
    /// A forged frame comes on the right secure channel, sealed with another key and an unused
    /// number.
    ForeignKey,
    /// A forged frame comes on an unknown secure channel.
    ForeignChannel,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 11] = [
        Self::Lose,
        Self::Duplicate,
        Self::Reorder,
        Self::Corrupt,
        Self::CorruptHeader,
        Self::Truncate,
        Self::Delay,
        Self::Replay,
        Self::Inject,
        Self::ForeignKey,
        Self::ForeignChannel,
    ];

    /// Name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lose => "lose",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Corrupt => "corrupt",
            Self::CorruptHeader => "corrupt-header",
            Self::Truncate => "truncate",
            Self::Delay => "delay",
            Self::Replay => "replay",
            Self::Inject => "inject",
            Self::ForeignKey => "foreign-key",
            Self::ForeignChannel => "foreign-channel",
        }
    }

    /// Whether the receiver misses a good frame.
    #[must_use]
    pub const fn removes(self) -> bool {
        matches!(self, Self::Lose | Self::Reorder | Self::Corrupt | Self::CorruptHeader | Self::Truncate)
    }

    /// Whether the receiver gets a frame to refuse and to count.
    ///
    /// WireGuard accepts reordered datagrams. An overlay's gateway never gets frames in plaintext,
    /// nor those that the kernel drops by their outer headers.
    #[must_use]
    pub const fn must_be_counted(self, overlay: bool) -> bool {
        match self {
            Self::Lose | Self::Delay => false,
            Self::Reorder | Self::CorruptHeader | Self::Truncate | Self::Inject => !overlay,
            _ => true,
        }
    }
}

/// The octets of a MACsec frame that are neither tag nor padding, or those of a UDP datagram behind
/// its header. For other frames all octets behind the header.
fn payload(frame: &[u8]) -> std::ops::Range<usize> {
    match Mpdu::parse(frame) {
        Ok(mpdu) => mpdu.header.len()..mpdu.header.len() + mpdu.secure_data.len() + ICV_LEN,
        Err(_) => datagram(frame).unwrap_or(HEADER_LEN.min(frame.len())..frame.len()),
    }
}

/// The content of a UDP datagram in a frame.
fn datagram(frame: &[u8]) -> Option<std::ops::Range<usize>> {
    let view = Frame::new_checked(frame).ok().filter(|view| view.ethertype() == EtherType::Ipv4)?;
    let packet = ipv4::Packet::new_checked(view.payload()).ok()?;
    let begin = HEADER_LEN + packet.header_len() + udp::HEADER_LEN;
    let end = HEADER_LEN + usize::from(packet.total_len());
    let whole = packet.protocol() == Protocol::Udp && !packet.is_fragment();
    (whole && begin < end && end <= frame.len()).then_some(begin..end)
}

fn flip(frame: &mut [u8], range: std::ops::Range<usize>, random: &mut Random) {
    let bit = range.start * 8 + random.below(range.len() * 8);
    if let Some(octet) = frame.get_mut(bit / 8) {
        *octet ^= 1 << (bit % 8);
    }
}

/// Flips a bit of the payload or the ICV.
pub(super) fn corrupt(frame: &mut [u8], random: &mut Random) {
    flip(frame, payload(frame), random);
}

/// Flips a bit of the addresses or the SecTAG, but not of the EtherType; that case is
/// [`Fault::Inject`].
pub(super) fn corrupt_header(frame: &mut [u8], random: &mut Random) {
    let end = payload(frame).start;
    if end > HEADER_LEN && random.below(3) > 0 {
        flip(frame, HEADER_LEN..end, random);
    } else {
        // The group bit would redirect the frame; the other bits of an address suffice.
        flip(frame, 1..6, random);
    }
}

/// Cuts the frame between its header and the end of its ICV.
pub(super) fn truncate(frame: &mut Vec<u8>, random: &mut Random) {
    let end = payload(frame).end;
    frame.truncate(HEADER_LEN + random.below(end.saturating_sub(HEADER_LEN)));
}

/// Forges a Profinet frame between two addresses seen on the wire.
pub(super) fn inject(seen: &[u8], frame_id: FrameId) -> Option<Vec<u8>> {
    let (dst_addr, src_addr) = addresses(seen)?;
    let ethernet = EthernetRepr { dst_addr, src_addr, ethertype: EtherType::Profinet };
    let mut writer = FrameWriter::new(ethernet, frame_id, 64, 1_000)?;
    // No controller has this run, so a station recognises the forgery.
    Some(writer.write(&ProcessData { run: 0xffff, ..ProcessData::default() }).to_vec())
}

/// Forges a frame with a packet number ahead of those in use, sealed with an unknown key.
///
/// In an overlay the frame is a datagram of WireGuard, and the channel is the receiver's index.
pub(super) fn forge(seen: &[u8], frame_id: FrameId, unknown_channel: bool) -> Option<Vec<u8>> {
    if let Some(content) = datagram(seen) {
        return forge_datagram(seen, content, unknown_channel);
    }
    let plain = inject(seen, frame_id)?;
    let mut tag = match Mpdu::parse(seen) {
        Ok(mpdu) => mpdu.tag,
        Err(_) => SecTag {
            tci: Tci::NONE.with_encryption(true).with_changed_text(true),
            an: An::default(),
            short_length: 0,
            more_fragments: false,
            continued: false,
            packet_number: 1,
            sci: None,
        },
    };
    tag.packet_number = tag.packet_number.wrapping_add(1_000);
    if unknown_channel {
        tag.tci = tag.tci.with_end_station(false).with_single_copy_broadcast(false);
        tag.sci = Some(Sci::new(EthernetAddress([0x02, 0xba, 0xdb, 0xad, 0xba, 0xd0]), 1));
    }
    // Everything from the EtherType on is secure data.
    let secure = &plain[12..];
    tag.short_length = SecTag::short_length_of(secure.len());
    let mut frame = plain[..12].to_vec();
    frame.resize(12 + tag.buffer_len(), 0);
    tag.emit(&mut frame[12..]).ok()?;
    let key = Key::<Aes128Gcm>::new(&[0x66; 16]).ok()?;
    let mut nonce = [0; 12];
    nonce[8..].copy_from_slice(&tag.packet_number.to_be_bytes());
    let mut sealed = vec![0; secure.len()];
    let icv = key.seal(Nonce::assume_unique(nonce), &frame, secure, &mut sealed);
    frame.extend_from_slice(&sealed);
    frame.extend_from_slice(icv.as_bytes());
    Some(frame)
}

/// Forges a transport message of WireGuard after one seen on the wire.
fn forge_datagram(seen: &[u8], content: std::ops::Range<usize>, unknown_channel: bool) -> Option<Vec<u8>> {
    let Ok(Message::Transport(transport)) = Message::parse(&seen[content.clone()]) else { return None };
    /// Offsets in a transport message.
    const RECEIVER: usize = 4;
    const COUNTER: usize = 8;
    const SEALED: usize = 16;
    let mut frame = seen[..content.end].to_vec();
    let message = &mut frame[content.clone()];
    message[COUNTER..SEALED].copy_from_slice(&transport.counter.wrapping_add(1_000).to_le_bytes());
    message[SEALED..].fill(0x66);
    if unknown_channel {
        message[RECEIVER..COUNTER].copy_from_slice(&(!transport.receiver).to_le_bytes());
    }
    let ip = &mut frame[HEADER_LEN..];
    let sum = ipv4::Packet::new_checked(&ip[..]).ok().map(|packet| {
        let len = content.len() + udp::HEADER_LEN;
        packet.pseudo_header_sum(len as u16)
    })?;
    let at = content.start - udp::HEADER_LEN;
    udp::Datagram::new_checked(&mut frame[at..]).ok()?.fill_checksum(sum);
    Some(frame)
}

fn addresses(frame: &[u8]) -> Option<(EthernetAddress, EthernetAddress)> {
    let to = EthernetAddress::from_bytes(frame.get(..6)?).ok()?;
    Some((to, EthernetAddress::from_bytes(frame.get(6..12)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::station::cyclic::OUTPUT_FRAME_ID;
    use crate::station::host::{Host, IpSuite, Remote};

    fn sealed() -> Vec<u8> {
        let seen: Vec<u8> = [[2; 6], [4; 6]].concat();
        forge(&seen, OUTPUT_FRAME_ID, true).unwrap()
    }

    #[test]
    fn forged_frame_is_valid_with_later_pn() {
        let frame = sealed();
        let before = Mpdu::parse(&frame).unwrap().tag;
        let again = forge(&frame, OUTPUT_FRAME_ID, false).unwrap();
        let after = Mpdu::parse(&again).unwrap().tag;
        assert_eq!((after.sci, after.an), (before.sci, before.an));
        assert_eq!(after.packet_number, before.packet_number + 1_000);
        assert!(after.tci.encryption());
    }

    #[test]
    fn corruption_flips_one_bit() {
        let mut random = Random::new(1);
        let frame = sealed();
        let header = Mpdu::parse(&frame).unwrap().header.len();
        for _ in 0..2_000 {
            let mut changed = frame.clone();
            corrupt(&mut changed, &mut random);
            let bits: u32 = frame.iter().zip(&changed).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!((bits, &changed[..header]), (1, &frame[..header]));
            let mut changed = frame.clone();
            corrupt_header(&mut changed, &mut random);
            let bits: u32 = frame.iter().zip(&changed).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!((bits, &changed[header..]), (1, &frame[header..]));
            assert_eq!(changed[12..14], [0x88, 0xe5]);
        }
    }

    /// A frame with a WireGuard message of this kind.
    fn tunnelled(kind: u8) -> Vec<u8> {
        let host = |last| Host {
            mac: EthernetAddress([2, 0, 0, 0, 0, last]),
            ip: IpSuite::local(ipv4::Address::new(192, 0, 2, last)),
        };
        let to = Remote { mac: host(2).mac, ip: host(2).ip.address, port: 51_820 };
        let mut message = vec![kind, 0, 0, 0, 1, 2, 3, 4, 9, 0, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(&[0x33; 48]);
        host(1).datagram(51_820, &to, &message)
    }

    #[test]
    fn forged_datagram_has_later_counter() {
        let receiver = host_of(&tunnelled(4));
        for unknown in [false, true] {
            let forged = forge(&tunnelled(4), OUTPUT_FRAME_ID, unknown).unwrap();
            let content = receiver.receive(&forged).unwrap().content;
            let Ok(Message::Transport(transport)) = Message::parse(&content) else { panic!("no message") };
            assert_eq!((transport.counter, transport.receiver == 0x0403_0201), (1_009, !unknown));
            let packet = ipv4::Packet::new_checked(&forged[HEADER_LEN..]).unwrap();
            let sum = packet.pseudo_header_sum(content.len() as u16 + 8);
            assert!(udp::Datagram::new_checked(packet.payload()).unwrap().verify_checksum(sum));
        }
        assert_eq!(forge(&tunnelled(1), OUTPUT_FRAME_ID, false), None, "a handshake");
    }

    fn host_of(frame: &[u8]) -> Host {
        let packet = ipv4::Packet::new_checked(&frame[HEADER_LEN..]).unwrap();
        Host { mac: addresses(frame).unwrap().0, ip: IpSuite::local(packet.dst_addr()) }
    }

    #[test]
    fn corrupted_datagram_keeps_its_headers() {
        let (mut random, frame) = (Random::new(1), tunnelled(4));
        for _ in 0..500 {
            let mut changed = frame.clone();
            corrupt(&mut changed, &mut random);
            assert_eq!(changed[..HEADER_LEN + 28], frame[..HEADER_LEN + 28]);
            assert_ne!(changed, frame);
        }
    }

    #[test]
    fn truncated_frame_keeps_its_header() {
        let mut random = Random::new(1);
        for _ in 0..2_000 {
            let mut frame = sealed();
            let len = frame.len();
            truncate(&mut frame, &mut random);
            assert!((HEADER_LEN..len).contains(&frame.len()));
        }
        let mut short = vec![1; 8];
        truncate(&mut short, &mut random);
        assert_eq!(short.len(), 8);
    }

    #[test]
    fn names_are_those_of_the_results() {
        for fault in Fault::ALL {
            assert_eq!(serde_json::to_string(&fault).unwrap(), format!("\"{}\"", fault.name()));
        }
    }
}
