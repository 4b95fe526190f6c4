//! Faults of frames on the wire.

use antedate_aead::{Aes128Gcm, Key, Nonce};
use antedate_wire::ethernet::{EtherType, HEADER_LEN};
use antedate_wire::macsec::{An, ICV_LEN, Mpdu, SecTag, Tci};
use antedate_wire::profinet::FrameId;
use antedate_wire::{EthernetAddress, EthernetRepr, Sci};
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

    /// Whether the receiver gets a frame to refuse.
    #[must_use]
    pub const fn must_be_refused(self) -> bool {
        !matches!(self, Self::Lose | Self::Delay)
    }
}

/// The octets of a MACsec frame that are neither tag nor padding. For other frames all octets
/// behind the header.
fn payload(frame: &[u8]) -> std::ops::Range<usize> {
    match Mpdu::parse(frame) {
        Ok(mpdu) => mpdu.header.len()..mpdu.header.len() + mpdu.secure_data.len() + ICV_LEN,
        Err(_) => HEADER_LEN.min(frame.len())..frame.len(),
    }
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
pub(super) fn forge(seen: &[u8], frame_id: FrameId, unknown_channel: bool) -> Option<Vec<u8>> {
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

fn addresses(frame: &[u8]) -> Option<(EthernetAddress, EthernetAddress)> {
    let to = EthernetAddress::from_bytes(frame.get(..6)?).ok()?;
    Some((to, EthernetAddress::from_bytes(frame.get(6..12)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::station::cyclic::OUTPUT_FRAME_ID;

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
