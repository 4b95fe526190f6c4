//! VLAN tags in front of the SecTAG: a hint for the switches between gateways.
//!
//! A switch or carrier may add, change or remove them, so a receiver ignores them. The tags behind the
//! SecTAG are the frame's.

use antedate_wire::ethernet::HEADER_LEN;
use antedate_wire::vlan::Tci;
use antedate_wire::{EtherType, VlanTagStack};

/// The frame from its SecTAG on with the addresses in front, and the control information of the
/// outermost tag that stood there. A frame without SecTAG stays as it is.
#[inline]
pub(super) fn without_outer_tags(frame: &mut [u8]) -> (&mut [u8], Option<Tci>) {
    if frame.get(12..14) == Some(&[0x88, 0xe5]) { (frame, None) } else { behind_tags(frame) }
}

#[inline(never)]
fn behind_tags(frame: &mut [u8]) -> (&mut [u8], Option<Tci>) {
    let hint = match VlanTagStack::parse(frame) {
        Ok(stack) if stack.ethertype == EtherType::Macsec => {
            stack.tags().first().map(|outermost| (outermost.tci, stack.payload - HEADER_LEN))
        }
        _ => None,
    };
    let Some((tci, tags)) = hint else { return (frame, None) };
    frame.copy_within(..12, tags);
    (frame.get_mut(tags..).unwrap_or_default(), Some(tci))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_in_front_of_a_sectag_are_removed() {
        let addresses: Vec<u8> = (1..13).collect();
        let bare = [&addresses[..], &[0x88, 0xe5, 0x2c, 0, 7]].concat();
        let tagged = |tags: &[u8]| [&addresses[..], tags, &bare[12..]].concat();
        for (tags, tci) in [
            (&[][..], None),
            (&[0x81, 0x00, 0xc0, 0x64][..], Some(Tci(0xc064))),
            (&[0x88, 0xa8, 0x20, 0x01, 0x81, 0x00, 0xc0, 0x64], Some(Tci(0x2001))),
        ] {
            let mut frame = tagged(tags);
            let (found, hint) = without_outer_tags(&mut frame);
            assert_eq!((&*found, hint), (&bare[..], tci));
        }
    }

    #[test]
    fn other_frames_stay() {
        for mut frame in [
            [&[1; 12][..], &[0x81, 0x00, 0xc0, 0x64, 0x88, 0x92, 0x80, 0x01]].concat(),
            [&[1; 12][..], &[0x81, 0x00, 0xc0]].concat(),
            [&[1; 12][..], &[0x81, 0, 0, 1].repeat(9), &[0x88, 0xe5]].concat(),
            vec![],
        ] {
            let before = frame.clone();
            assert_eq!(without_outer_tags(&mut frame), (&mut before.clone()[..], None));
        }
    }
}
