//! Explicit congestion notification through the tunnel (RFC 6040): the datagram has the code point
//! of the packet in it, and the packet takes over a mark that the datagram received on its way.

use antedate_wire::checksum::Sum;
use antedate_wire::{EtherType, VlanTagStack};

/// Code points: not capable, capable with either sign, congestion experienced.
const NOT_CAPABLE: u8 = 0;
const ECT_1: u8 = 1;
pub(super) const EXPERIENCED: u8 = 3;
const MASK: u8 = 3;

/// The code point of the IP packet in a frame; 0 in frames without one.
#[inline]
#[must_use]
pub fn of(frame: &[u8]) -> u8 {
    match place(frame) {
        Some((EtherType::Ipv4, at)) => frame.get(at + 1).map_or(0, |octet| octet & MASK),
        Some((_, at)) => frame.get(at + 1).map_or(0, |octet| octet >> 4 & MASK),
        None => 0,
    }
}

/// The code point of a packet after decapsulation (RFC 6040, figure 4). `None` if it has to be
/// dropped: the path marked congestion that the packet's ends do not understand.
#[inline]
#[must_use]
pub const fn combined(inner: u8, outer: u8) -> Option<u8> {
    match (inner & MASK, outer & MASK) {
        (NOT_CAPABLE, EXPERIENCED) => None,
        (NOT_CAPABLE, _) => Some(NOT_CAPABLE),
        (EXPERIENCED, _) | (_, EXPERIENCED) => Some(EXPERIENCED),
        (_, ECT_1) => Some(ECT_1),
        (inner, _) => Some(inner),
    }
}

/// Applies the datagram's code point to the frame that it carried. Returns whether the frame may
/// pass. A frame without an IP packet always may.
#[inline]
#[must_use]
pub fn decapsulate(frame: &mut [u8], outer: u8) -> bool {
    // Most networks mark nothing.
    if outer & MASK == NOT_CAPABLE {
        return true;
    }
    marked(frame, outer)
}

#[inline(never)]
fn marked(frame: &mut [u8], outer: u8) -> bool {
    let Some((kind, at)) = place(frame) else { return true };
    let inner = of(frame);
    let Some(ecn) = combined(inner, outer) else { return false };
    if ecn == inner {
        return true;
    }
    let Some(octet) = frame.get_mut(at + 1) else { return true };
    if kind == EtherType::Ipv6 {
        *octet = *octet & !(MASK << 4) | ecn << 4;
        return true;
    }
    let (old, new) = (*octet, *octet & !MASK | ecn);
    *octet = new;
    // RFC 1624: subtract the old octet and add the new one; both are low halves of a word.
    if let Some(place) = frame.get_mut(at + 10..at + 12) {
        let checksum = u16::from_be_bytes([place[0], place[1]]);
        let sum = Sum::of_u16(!checksum).and(Sum::of_u16(!u16::from(old))).and(Sum::of_u16(new.into()));
        place.copy_from_slice(&sum.checksum().to_be_bytes());
    }
    true
}

/// The place of the IP packet in a frame.
#[inline]
fn place(frame: &[u8]) -> Option<(EtherType, usize)> {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => return Some((EtherType::Ipv4, 14)),
        Some([0x86, 0xdd]) => return Some((EtherType::Ipv6, 14)),
        Some([0x81, 0x00] | [0x88, 0xa8]) => {}
        _ => return None,
    }
    let stack = VlanTagStack::parse(frame).ok()?;
    matches!(stack.ethertype, EtherType::Ipv4 | EtherType::Ipv6).then_some((stack.ethertype, stack.payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_wire::ipv4;
    use std::vec::Vec;

    fn frame(v6: bool, tagged: bool, ecn: u8) -> (Vec<u8>, usize) {
        let mut frame = std::vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if tagged {
            frame.extend([0x81, 0, 0x60, 5]);
        }
        let at = frame.len() + 2;
        if v6 {
            frame.extend([0x86, 0xdd, 0x6b, 0x80 | ecn << 4, 1, 2, 0, 0, 17, 64]);
            frame.extend([7; 40]);
        } else {
            frame.extend([
                0x08,
                0,
                0x45,
                0xb8 | ecn,
                0,
                40,
                1,
                2,
                0,
                0,
                64,
                17,
                0,
                0,
                10,
                0,
                0,
                1,
                10,
                0,
                0,
                2,
            ]);
            frame.extend([0; 20]);
            let sum = Sum::of(&frame[at..at + 20]).checksum();
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        (frame, at)
    }

    #[test]
    fn code_points_are_combined() {
        // RFC 6040, figure 4: rows are the packet, columns the datagram: 00, ECT(0), ECT(1), CE.
        let columns = [0, 2, 1, 3];
        for (inner, expected) in [
            (0, [Some(0), Some(0), Some(0), None]),
            (2, [Some(2), Some(2), Some(1), Some(3)]),
            (1, [Some(1), Some(1), Some(1), Some(3)]),
            (3, [Some(3), Some(3), Some(3), Some(3)]),
        ] {
            for (outer, expected) in columns.into_iter().zip(expected) {
                assert_eq!(combined(inner, outer), expected, "{inner} in {outer}");
                for (v6, tagged) in [(false, false), (false, true), (true, false), (true, true)] {
                    let (mut frame, at) = frame(v6, tagged, inner);
                    let before = frame.clone();
                    assert_eq!(of(&frame), inner);
                    assert_eq!(decapsulate(&mut frame, 0xb8 | outer), expected.is_some());
                    assert_eq!(of(&frame), expected.unwrap_or(inner));
                    assert!(v6 || ipv4::Packet::new_checked(&frame[at..]).unwrap().verify_checksum());
                    let other = |frame: &[u8]| [&frame[..at + 1], &frame[at + 2..]].concat();
                    assert!(!v6 || other(&frame) == other(&before));
                }
            }
        }
    }

    #[test]
    fn frames_without_ip_pass() {
        let mut frame = std::vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x92, 0x80, 1];
        let before = frame.clone();
        assert!(decapsulate(&mut frame, 3) && frame == before && of(&frame) == 0);
        assert!(decapsulate(&mut [0x08; 14], 3) && decapsulate(&mut [], 3));
    }
}
