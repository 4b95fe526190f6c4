//! The probe that finds a loop of gateways.
//!
//! It leaves by the uplink, inside MACsec, and by the field ports of those that receive it. One that
//! comes back by its sender's field port has gone around.
//!
//! ```text
//!   03-A2-4E-D7-00-05  source  88-B7  A2-4E-D7 00-04  hops  token  highest  zeros
//!   6                  6       2      5               1     16     8
//! ```
//!
//! *token* is a random number. *hops* is the number of gateways on the way so far, and *highest* the
//! highest of their SCIs, or zero.

use crate::bytes::{array, at_least};
use crate::ethernet::{Address, MIN_FRAME_LEN};
use crate::macsec::Sci;
use crate::mka::OUI_ANTEDATE;
use crate::{Error, Result};

/// The destination: a group that switches forward.
pub const GROUP: Address = Address([0x03, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x05]);
/// Octets of a probe, which is the shortest frame on the wire.
pub const PROBE_LEN: usize = MIN_FRAME_LEN;
/// Octets of a token.
pub const TOKEN_LEN: usize = 16;

const PROTOCOL: [u8; 7] = [0x88, 0xb7, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x04];

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const PROTOCOL: Range<usize> = 12..19;
    pub(super) const HOPS: usize = 19;
    pub(super) const TOKEN: Range<usize> = 20..36;
    pub(super) const HIGHEST: Range<usize> = 36..44;
    pub(super) const END: usize = 44;
}

/// Whether a frame is a probe.
#[inline]
pub fn is_probe(frame: &[u8]) -> bool {
    frame.get(field::PROTOCOL) == Some(&PROTOCOL)
}

/// A probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// the source address
    pub source: Address,
    /// gateways on the way
    pub hops: u8,
    /// the number that only gateways know before it was on a field
    pub token: [u8; TOKEN_LEN],
    /// the highest SCI on the way, or zero
    pub highest: Sci,
}

impl Repr {
    /// Reads a whole frame.
    pub fn parse(frame: &[u8]) -> Result<Self> {
        at_least(frame, field::END)?;
        if !is_probe(frame) {
            return Err(Error::Value);
        }
        Ok(Self {
            source: Address::from_bytes(&frame[field::SOURCE])?,
            hops: frame[field::HOPS],
            token: array(frame, field::TOKEN.start),
            highest: Sci(array(frame, field::HIGHEST.start)),
        })
    }

    /// Writes the frame.
    pub fn emit(&self, frame: &mut [u8; PROBE_LEN]) {
        frame.fill(0);
        frame[field::DESTINATION].copy_from_slice(GROUP.as_bytes());
        frame[field::SOURCE].copy_from_slice(self.source.as_bytes());
        frame[field::PROTOCOL].copy_from_slice(&PROTOCOL);
        frame[field::HOPS] = self.hops;
        frame[field::TOKEN].copy_from_slice(&self.token);
        frame[field::HIGHEST].copy_from_slice(&self.highest.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Repr = Repr {
        source: Address([2, 0, 0, 0, 0, 2]),
        hops: 3,
        token: [7; TOKEN_LEN],
        highest: Sci([2, 0, 0, 0, 0, 2, 0, 1]),
    };

    #[test]
    fn probe_reads_back() {
        let mut frame = [0xff; PROBE_LEN];
        PROBE.emit(&mut frame);
        assert_eq!(Repr::parse(&frame), Ok(PROBE));
        assert!(is_probe(&frame) && crate::echo::is_between_gateways(&frame));
        assert!(GROUP.is_multicast() && !GROUP.is_link_local());
    }

    #[test]
    fn other_frames_are_no_probes() {
        let mut frame = [0; PROBE_LEN];
        PROBE.emit(&mut frame);
        for at in 12..19 {
            let mut other = frame;
            other[at] ^= 1;
            assert_eq!((is_probe(&other), Repr::parse(&other)), (false, Err(Error::Value)));
        }
        for len in 0..44 {
            assert_eq!(Repr::parse(&frame[..len]), Err(Error::Truncated));
        }
    }
}
