//! The messages that find a ring of parallel gateways, and heal it.
//!
//! A probe goes around: from the field port of its sender through another gateway, inside MACsec,
//! back to its sender's uplink. Each gateway on the way writes down what it is. The other messages
//! follow a change: a call for the addresses of machines, and such an address, which is the source of
//! its frame.
//!
//! ```text
//!   03-A2-4E-D7-00-04  source  88-B7  A2-4E-D7 00-03  kind  hops  id  sequence  highest  blocking  zeros
//!   6                  6       2      5               1     1     8   4         8        8
//! ```
//!
//! *id* is a random number of the sending process. *hops* is the number of gateways on the way, *highest*
//! the highest of their SCIs, and *blocking* the lowest SCI of those that block the ring, or zero.

use crate::bytes::{array, at_least, be32, put32};
use crate::ethernet::{Address, MIN_FRAME_LEN};
use crate::macsec::Sci;
use crate::mka::OUI_ANTEDATE;
use crate::{Error, Result};

/// The destination: a group that switches forward.
pub const GROUP: Address = Address([0x03, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x04]);
/// Octets of a message, which is the shortest frame on the wire.
pub const RING_LEN: usize = MIN_FRAME_LEN;

const PROTOCOL: [u8; 7] = [0x88, 0xb7, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x03];
/// No gateway.
const NONE: Sci = Sci([0; 8]);

wire_enum! {
    /// The kind of a message.
    pub enum Kind(u8) {
        /// looks whether the ring is closed
        Probe = 1,
        /// asks for the addresses of machines, because the way changed
        Changed = 2,
        /// is the address of a machine
        Address = 3,
    }
}

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const PROTOCOL: Range<usize> = 12..19;
    pub(super) const KIND: usize = 19;
    pub(super) const HOPS: usize = 20;
    pub(super) const ID: Range<usize> = 21..29;
    pub(super) const SEQUENCE: usize = 29;
    pub(super) const HIGHEST: Range<usize> = 33..41;
    pub(super) const BLOCKING: Range<usize> = 41..49;
    pub(super) const END: usize = 49;
}

/// Whether a frame is a message of this protocol.
#[inline]
pub fn is_ring(frame: &[u8]) -> bool {
    frame.get(field::PROTOCOL) == Some(&PROTOCOL)
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// the source address
    pub source: Address,
    /// the kind
    pub kind: Kind,
    /// gateways on the way
    pub hops: u8,
    /// a number that the sending process chose
    pub id: u64,
    /// the number of this message
    pub sequence: u32,
    /// the highest SCI on the way
    pub highest: Option<Sci>,
    /// the lowest SCI of those that block the ring
    pub blocking: Option<Sci>,
}

impl Repr {
    /// Reads a whole frame.
    pub fn parse(frame: &[u8]) -> Result<Self> {
        at_least(frame, field::END)?;
        if !is_ring(frame) {
            return Err(Error::Value);
        }
        Ok(Self {
            source: Address::from_bytes(&frame[field::SOURCE])?,
            kind: Kind::from_number(frame[field::KIND]),
            hops: frame[field::HOPS],
            id: u64::from_be_bytes(array(frame, field::ID.start)),
            sequence: be32(frame, field::SEQUENCE),
            highest: Some(Sci(array(frame, field::HIGHEST.start))).filter(|sci| *sci != NONE),
            blocking: Some(Sci(array(frame, field::BLOCKING.start))).filter(|sci| *sci != NONE),
        })
    }

    /// Writes the frame.
    pub fn emit(&self, frame: &mut [u8; RING_LEN]) {
        frame.fill(0);
        frame[field::DESTINATION].copy_from_slice(GROUP.as_bytes());
        frame[field::SOURCE].copy_from_slice(self.source.as_bytes());
        frame[field::PROTOCOL].copy_from_slice(&PROTOCOL);
        frame[field::KIND] = self.kind.number();
        frame[field::HOPS] = self.hops;
        frame[field::ID].copy_from_slice(&self.id.to_be_bytes());
        put32(frame, field::SEQUENCE, self.sequence);
        frame[field::HIGHEST].copy_from_slice(&self.highest.unwrap_or(NONE).0);
        frame[field::BLOCKING].copy_from_slice(&self.blocking.unwrap_or(NONE).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Repr = Repr {
        source: Address([2, 0, 0, 0, 0, 2]),
        kind: Kind::Probe,
        hops: 3,
        id: 0x0102_0304_0506_0708,
        sequence: 7,
        highest: Some(Sci([2, 0, 0, 0, 0, 2, 0, 1])),
        blocking: None,
    };

    #[test]
    fn message_reads_back() {
        for message in [
            PROBE,
            Repr { kind: Kind::Changed, highest: None, ..PROBE },
            Repr { kind: Kind::Address, blocking: PROBE.highest, ..PROBE },
        ] {
            let mut frame = [0xff; RING_LEN];
            message.emit(&mut frame);
            assert_eq!(Repr::parse(&frame), Ok(message));
            assert!(frame[..6] == GROUP.0 && GROUP.is_multicast() && !GROUP.is_link_local());
        }
    }

    #[test]
    fn other_frames_are_no_messages() {
        let mut frame = [0; RING_LEN];
        PROBE.emit(&mut frame);
        for at in 12..19 {
            let mut other = frame;
            other[at] ^= 1;
            assert_eq!((is_ring(&other), Repr::parse(&other)), (false, Err(Error::Value)));
        }
        for len in 0..49 {
            assert_eq!(Repr::parse(&frame[..len]), Err(Error::Truncated));
        }
    }
}
