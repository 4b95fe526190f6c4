//! Reads the frames of a capture, of Ethernet or of IEEE 802.15.4: pcap (draft-ietf-opsawg-pcap) and pcapng
//! (draft-ietf-opsawg-pcapng). Octets come from anywhere: each length is checked.

use std::fmt;
use std::io::{self, Read};

use antedate_wire::dot15d4::capture::LinkType;
use flate2::read::MultiGzDecoder;

const ETHERNET: u32 = 1;
/// Those of IEEE 802.15.4 ([`LinkType`]).
const RADIO: [u32; 5] = [113, 195, 215, 230, 283];
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const RESOLUTION: u16 = 9;

/// The octets are no capture of Ethernet frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CaptureError {
    Cut,
    Format,
    Order,
    Link(u32),
    NoEthernet,
    Packing,
    TooLong,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("is empty or cut"),
            Self::Format => f.write_str("is neither pcap nor pcapng"),
            Self::Order => f.write_str("has a section of an unknown order of octets"),
            Self::Link(link) => write!(f, "has frames of link type {link}, not of Ethernet"),
            Self::NoEthernet => f.write_str("has no Ethernet frames"),
            Self::Packing => f.write_str("is packed by gzip, and damaged"),
            Self::TooLong => f.write_str("has more than 4 GiB when it is unpacked"),
        }
    }
}

/// The remedy of a fault.
pub(crate) const REMEDY: &str =
    "name a capture of Ethernet frames in the format pcap or pcapng, plain or packed by gzip";
/// The most octets of an unpacked capture.
const UNPACKED_MAX: u64 = 4 << 30;

/// The capture, unpacked if it is packed by gzip. What was there before a cut is kept.
///
/// # Errors
/// The fault, if it is damaged, or longer than 4 GiB.
pub(crate) fn unpacked(octets: Vec<u8>) -> Result<Vec<u8>, CaptureError> {
    unpacked_below(octets, UNPACKED_MAX)
}

fn unpacked_below(octets: Vec<u8>, most: u64) -> Result<Vec<u8>, CaptureError> {
    if !octets.starts_with(&[0x1f, 0x8b]) {
        return Ok(octets);
    }
    let mut plain = Vec::new();
    match MultiGzDecoder::new(&octets[..]).take(most + 1).read_to_end(&mut plain) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !plain.is_empty() => {}
        Err(_) => return Err(CaptureError::Packing),
    }
    if plain.len() as u64 > most { Err(CaptureError::TooLong) } else { Ok(plain) }
}

/// Calls `each` with the seconds since the first frame, and the frame.
///
/// # Errors
/// The fault, if the octets are no capture of Ethernet frames. A last frame that is cut is left out.
pub(crate) fn read(octets: &[u8], mut each: impl FnMut(f64, &[u8])) -> Result<(), CaptureError> {
    read_of(&[ETHERNET], octets, |seconds, _, frame| each(seconds, frame))
}

/// As [`read`], of IEEE 802.15.4.
pub(crate) fn read_radio(
    octets: &[u8],
    mut each: impl FnMut(f64, LinkType, &[u8]),
) -> Result<(), CaptureError> {
    read_of(&RADIO, octets, |seconds, link, frame| {
        if let Some(link) = LinkType::from_number(link) {
            each(seconds, link, frame);
        }
    })
}

/// Whether a capture has frames of IEEE 802.15.4.
pub(crate) fn is_radio(octets: &[u8]) -> bool {
    let mut frames = 0u64;
    read_radio(octets, |_, _, _| frames += 1).is_ok() && frames > 0
}

/// Calls `each` with the seconds since the first frame of these link types, the link type and the
/// frame.
fn read_of(wanted: &[u32], octets: &[u8], each: impl FnMut(f64, u32, &[u8])) -> Result<(), CaptureError> {
    let clock = Clock { wanted, first: None, each };
    let magic = octets.first_chunk().copied().ok_or(CaptureError::Cut)?;
    match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
        (SECTION, _) => pcapng(octets, clock),
        (0xa1b2_c3d4, _) => pcap(octets, u32::from_le_bytes, 1e-6, clock),
        (0xa1b2_3c4d, _) => pcap(octets, u32::from_le_bytes, 1e-9, clock),
        (_, 0xa1b2_c3d4) => pcap(octets, u32::from_be_bytes, 1e-6, clock),
        (_, 0xa1b2_3c4d) => pcap(octets, u32::from_be_bytes, 1e-9, clock),
        _ => Err(CaptureError::Format),
    }
}

/// Chooses frames by their link types, and turns times into seconds since the first one.
struct Clock<'a, F> {
    wanted: &'a [u32],
    first: Option<f64>,
    each: F,
}

impl<F: FnMut(f64, u32, &[u8])> Clock<'_, F> {
    fn wants(&self, link: u32) -> bool {
        self.wanted.contains(&link)
    }

    fn frame(&mut self, at: f64, link: u32, frame: &[u8]) {
        let first = *self.first.get_or_insert(at);
        (self.each)((at - first).max(0.0), link, frame);
    }
}

type Order = fn([u8; 4]) -> u32;

fn word(octets: &[u8], at: usize, order: Order) -> Option<u32> {
    octets.get(at..)?.first_chunk().copied().map(order)
}

fn pcap<F: FnMut(f64, u32, &[u8])>(
    octets: &[u8],
    order: Order,
    unit: f64,
    mut clock: Clock<'_, F>,
) -> Result<(), CaptureError> {
    let link = word(octets, 20, order).ok_or(CaptureError::Cut)? & 0x0fff_ffff;
    if !clock.wants(link) {
        return Err(CaptureError::Link(link));
    }
    let mut rest = octets.get(24..).unwrap_or_default();
    while let (Some(seconds), Some(parts), Some(len)) =
        (word(rest, 0, order), word(rest, 4, order), word(rest, 8, order))
    {
        let Some(frame) = rest.get(16..).and_then(|behind| behind.get(..len as usize)) else { break };
        clock.frame(f64::from(seconds) + f64::from(parts) * unit, link, frame);
        rest = &rest[16 + frame.len()..];
    }
    Ok(())
}

fn pcapng<F: FnMut(f64, u32, &[u8])>(octets: &[u8], mut clock: Clock<'_, F>) -> Result<(), CaptureError> {
    let mut order: Order = u32::from_le_bytes;
    // The link type and the unit of time of each wanted interface of the section.
    let mut units: Vec<Option<(u32, f64)>> = Vec::new();
    let (mut rest, mut seen, mut other) = (octets, 0u64, 0u64);
    while rest.len() >= 12 {
        let kind = word(rest, 0, order).unwrap_or(0);
        if kind == SECTION {
            order = match word(rest, 8, u32::from_le_bytes) {
                Some(0x1a2b_3c4d) => u32::from_le_bytes,
                Some(0x4d3c_2b1a) => u32::from_be_bytes,
                _ => return Err(CaptureError::Order),
            };
            units.clear();
        }
        let len = word(rest, 4, order).unwrap_or(0) as usize;
        // A block that is cut ends the capture.
        let Some(body) = rest.get(..len).filter(|block| block.len() >= 12).and_then(|b| b.get(8..len - 4))
        else {
            break;
        };
        match kind {
            INTERFACE => {
                let link = word(body, 0, order).unwrap_or(0);
                // The link type is a half word, first in either order.
                let link =
                    u32::from(if order([1, 0, 0, 0]) == 1 { link as u16 } else { (link >> 16) as u16 });
                let unit = unit(body.get(8..).unwrap_or_default(), order);
                units.push(clock.wants(link).then_some((link, unit)));
            }
            ENHANCED_PACKET => {
                let interface = word(body, 0, order).unwrap_or(0) as usize;
                let (high, low) = (word(body, 4, order).unwrap_or(0), word(body, 8, order).unwrap_or(0));
                let len = word(body, 12, order).unwrap_or(0) as usize;
                let frame = body.get(20..).and_then(|behind| behind.get(..len));
                match (units.get(interface).copied().flatten(), frame) {
                    (Some((link, unit)), Some(frame)) => {
                        seen += 1;
                        clock.frame((u64::from(high) << 32 | u64::from(low)) as f64 * unit, link, frame);
                    }
                    _ => other += 1,
                }
            }
            SIMPLE_PACKET => {
                let len = word(body, 0, order).unwrap_or(0) as usize;
                let frame = body.get(4..).and_then(|behind| behind.get(..len.min(behind.len())));
                match (units.first().copied().flatten(), frame) {
                    (Some((link, _)), Some(frame)) => {
                        seen += 1;
                        clock.frame(0.0, link, frame);
                    }
                    _ => other += 1,
                }
            }
            _ => {}
        }
        rest = &rest[len..];
    }
    if seen == 0 && other > 0 { Err(CaptureError::NoEthernet) } else { Ok(()) }
}

/// Seconds of the unit of time in the options of an interface: microseconds unless given.
fn unit(mut options: &[u8], order: Order) -> f64 {
    let half = |octets: &[u8], at: usize| {
        let [a, b] = *octets.get(at..)?.first_chunk()?;
        let whole =
            if order([1, 0, 0, 0]) == 1 { u16::from_le_bytes([a, b]) } else { u16::from_be_bytes([a, b]) };
        Some(whole)
    };
    while let (Some(code), Some(len)) = (half(options, 0), half(options, 2)) {
        if code == RESOLUTION && len == 1 {
            return match options.get(4).copied().unwrap_or(6) {
                power if power & 0x80 != 0 => 0.5f64.powi(i32::from(power & 0x7f)),
                power => 0.1f64.powi(i32::from(power)),
            };
        }
        if code == 0 {
            break;
        }
        options = options.get(4 + usize::from(len).next_multiple_of(4)..).unwrap_or_default();
    }
    1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(octets: &[u8]) -> Result<Vec<(f64, Vec<u8>)>, CaptureError> {
        let mut all = Vec::new();
        read(octets, |at, frame| all.push(((at * 1e9).round() / 1e9, frame.to_vec()))).map(|()| all)
    }

    fn words(order: fn(u32) -> [u8; 4], words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| order(*word)).collect()
    }

    #[test]
    fn pcap_is_read_in_both_orders() {
        for order in [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes] {
            for (magic, parts) in [(0xa1b2_c3d4, 500_000), (0xa1b2_3c4d, 500_000_000)] {
                let mut file = words(order, &[magic, 0, 0, 0, 65_535, 1]);
                file.extend(words(order, &[7, 0, 3, 3]));
                file.extend([1, 2, 3]);
                file.extend(words(order, &[8, parts, 2, 9]));
                file.extend([4, 5]);
                let expected = vec![(0.0, vec![1, 2, 3]), (1.5, vec![4, 5])];
                assert_eq!(frames(&file), Ok(expected.clone()));
                // The last frame is cut.
                assert_eq!(frames(&file[..file.len() - 1]), Ok(expected[..1].to_vec()));
                file[if order(1)[0] == 1 { 20 } else { 23 }] = 105;
                assert_eq!(frames(&file), Err(CaptureError::Link(105)));
            }
        }
    }

    #[test]
    fn pcapng_is_read() {
        let block = |kind: u32, body: &[u8]| {
            let len = 12 + body.len() as u32;
            [&words(u32::to_le_bytes, &[kind, len])[..], body, &len.to_le_bytes()].concat()
        };
        let section = block(SECTION, &words(u32::to_le_bytes, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        let nanoseconds =
            [&words(u32::to_le_bytes, &[1, 0])[..], &[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]].concat();
        let other = words(u32::to_le_bytes, &[105, 0]);
        let packet = |interface: u32, at: u32| {
            block(6, &[&words(u32::to_le_bytes, &[interface, 0, at, 3, 3])[..], &[1, 2, 3, 0]].concat())
        };
        let file = [
            section.clone(),
            block(1, &nanoseconds),
            block(1, &other),
            packet(0, 10),
            block(5, &[0; 8]),
            packet(1, 20),
            packet(0, 110),
        ]
        .concat();
        assert_eq!(frames(&file), Ok(vec![(0.0, vec![1, 2, 3]), (1e-7, vec![1, 2, 3])]));
        let wireless = [section.clone(), block(1, &other), packet(0, 1)].concat();
        assert_eq!(frames(&wireless), Err(CaptureError::NoEthernet));
        assert!(!is_radio(&wireless) && !is_radio(&file), "neither IEEE 802.11 nor Ethernet");
        let radio = block(1, &words(u32::to_le_bytes, &[283, 0]));
        let mixed = [section, block(1, &nanoseconds), radio, packet(0, 1), packet(1, 2)].concat();
        let mut found = Vec::new();
        read_radio(&mixed, |_, link, frame| found.push((link, frame.to_vec()))).expect("a capture");
        assert_eq!(found, [(LinkType::Tap, vec![1, 2, 3])]);
        assert!(is_radio(&mixed));
        for len in 0..file.len() {
            let _ = frames(&file[..len]);
        }
    }

    #[test]
    fn packed_capture_is_unpacked() {
        use std::io::Write;
        let mut file = words(u32::to_le_bytes, &[0xa1b2_c3d4, 0, 0, 0, 65_535, 1]);
        for second in 0..500 {
            file.extend(words(
                u32::to_le_bytes,
                &[second, second.wrapping_mul(2_654_435_761) % 1_000_000, 3, 3],
            ));
            file.extend([1, 2, second as u8]);
        }
        let pack = |octets: &[u8]| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(octets).and_then(|()| packer.finish()).expect("packed")
        };
        let packed = pack(&file);
        assert_eq!(unpacked(packed.clone()), Ok(file.clone()));
        assert_eq!(unpacked(file.clone()), Ok(file.clone()), "not packed");
        let both = [pack(&file[..100]), pack(&file[100..])].concat();
        assert_eq!(unpacked(both), Ok(file.clone()), "two in a row");
        let cut = unpacked(packed[..packed.len() / 2].to_vec()).expect("the first half");
        assert!(!cut.is_empty() && file.starts_with(&cut) && frames(&cut).is_ok());
        let mut damaged = packed.clone();
        damaged[packed.len() / 2] ^= 0xff;
        assert!(unpacked(damaged).is_err());
        assert_eq!(unpacked_below(packed, 99), Err(CaptureError::TooLong));
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(frames(b"hello"), Err(CaptureError::Format));
        assert_eq!(frames(b""), Err(CaptureError::Cut));
    }
}
