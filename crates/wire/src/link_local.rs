//! Frames to link-local groups between Antedate gateways, always inside MACsec. Switches keep these
//! groups (IEEE 802.1Q-2018, tables 8-1 to 8-3), so on the way the frame has another destination.
//!
//! ```text
//!   03-A2-4E-D7-00-02  source  88-B7  A2-4E-D7 00-02  destination  rest of the frame
//!   6                  6       2      5               6
//! ```
//!
//! The EtherType is that of IEEE 802's OUI Extended protocols; the protocol identifier is
//! Antedate's (see [`OUI_ANTEDATE`]). The rest begins with VLAN tags or the EtherType.

use crate::bytes::at_least;
use crate::ethernet::{Address, HEADER_LEN};
use crate::mka::OUI_ANTEDATE;
use crate::{Error, Result};

/// The destination on the way: a group that switches forward.
pub const GROUP: Address = Address([0x03, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x02]);
/// Octets by which a carried frame is longer.
pub const OVERHEAD: usize = PROTOCOL.len() + 6;

const PROTOCOL: [u8; 7] = [0x88, 0xb7, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x02];
/// The group of PAUSE, which is for one cable.
const PAUSE: Address = Address([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

/// Whether a frame of a machine is carried in this form.
#[inline]
pub fn is_for_carriage(frame: &[u8]) -> bool {
    frame.first_chunk().is_some_and(|to| may_be_carried(Address(*to)))
}

const fn may_be_carried(to: Address) -> bool {
    to.is_link_local() && to.0[5] != PAUSE.0[5]
}

/// Whether a frame has this form. Machines have no such frames.
#[inline]
pub fn is_carried(frame: &[u8]) -> bool {
    frame.get(12..12 + PROTOCOL.len()) == Some(&PROTOCOL)
}

/// Writes the form of `frame` to the front of `out`, and returns its length.
pub fn carry(frame: &[u8], out: &mut [u8]) -> Result<usize> {
    at_least(frame, HEADER_LEN)?;
    let len = frame.len() + OVERHEAD;
    at_least(out, len)?;
    out[..6].copy_from_slice(GROUP.as_bytes());
    out[6..12].copy_from_slice(&frame[6..12]);
    out[12..19].copy_from_slice(&PROTOCOL);
    out[19..25].copy_from_slice(&frame[..6]);
    out[25..len].copy_from_slice(&frame[12..]);
    Ok(len)
}

/// Restores the frame in place. Refuses a destination that is not carried.
pub fn restore(carried: &mut [u8]) -> Result<&mut [u8]> {
    at_least(carried, HEADER_LEN + OVERHEAD)?;
    if !is_carried(carried) {
        return Err(Error::Value);
    }
    let to = Address::from_bytes(&carried[19..25])?;
    if !may_be_carried(to) {
        return Err(Error::Value);
    }
    carried.copy_within(6..12, OVERHEAD + 6);
    carried[OVERHEAD..OVERHEAD + 6].copy_from_slice(to.as_bytes());
    Ok(&mut carried[OVERHEAD..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn frame(last: u8, rest: &[u8]) -> Vec<u8> {
        [&[0x01, 0x80, 0xc2, 0, 0, last, 2, 0, 0, 0, 0, 9][..], rest].concat()
    }

    #[test]
    fn frame_is_restored() {
        for rest in [&[0x88, 0xcc, 2, 7, 4][..], &[0x81, 0, 0xc0, 0, 0x88, 0xf7, 1], &[0x00, 0x00]] {
            let lldp = frame(0x0e, rest);
            assert!(is_for_carriage(&lldp) && !is_carried(&lldp));
            let mut out = [0xff; 64];
            let len = carry(&lldp, &mut out).unwrap();
            assert_eq!(len, lldp.len() + OVERHEAD);
            assert!(is_carried(&out[..len]) && !is_for_carriage(&out) && GROUP.is_multicast());
            assert_eq!(restore(&mut out[..len]).unwrap(), &lldp);
            assert_eq!(carry(&lldp, &mut out[..len - 1]), Err(Error::Truncated));
        }
        assert_eq!(carry(&frame(0, &[0x88]), &mut [0; 64]), Err(Error::Truncated));
    }

    #[test]
    fn other_destinations_are_not_carried() {
        for (last, carried) in [(0x00, true), (0x01, false), (0x0f, true), (0x10, false)] {
            let frame = frame(last, &[0x88, 0xcc]);
            assert_eq!(is_for_carriage(&frame), carried, "{last}");
            let mut out = [0; 64];
            let len = carry(&frame, &mut out).unwrap();
            assert_eq!(restore(&mut out[..len]).is_ok(), carried, "{last}");
        }
        let mut other = [0; 64];
        assert_eq!(restore(&mut other), Err(Error::Value));
        for len in 0..HEADER_LEN + OVERHEAD {
            assert_eq!(restore(&mut other[..len]), Err(Error::Truncated));
        }
        assert!(!is_for_carriage(&[1, 0x80, 0xc2]));
    }
}
