//! The hello of an Antedate gateway, always inside MACsec: that it is there, and the link of its
//! field port.
//!
//! It has the EtherType and the protocol identifier of the [echo](crate::echo), and a kind of its
//! own.
//!
//! ```text
//!   03-A2-4E-D7-00-03  source  88-B7  A2-4E-D7 00-01  3  id  sequence  from  interval  state  zeros
//!   6                  6       2      5               1  4   4         8     2         1
//! ```
//!
//! *id* is a number that the process chose. *from* is an SCI. *interval* is the time between two
//! hellos in milliseconds. Of *state*, bit 0 says that the field port has no link.

use crate::bytes::{array, at_least, be16, be32, put16, put32};
use crate::echo::{PROTOCOL, is_echo};
use crate::ethernet::{Address, MIN_FRAME_LEN};
use crate::macsec::Sci;
use crate::mka::OUI_ANTEDATE;
use crate::{Error, Result};

/// The destination: a group that switches forward.
pub const GROUP: Address = Address([0x03, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x03]);
/// Octets of a hello, which is the shortest frame on the wire.
pub const HELLO_LEN: usize = MIN_FRAME_LEN;

const KIND: u8 = 3;
const FIELD_DOWN: u8 = 1;

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const PROTOCOL: Range<usize> = 12..19;
    pub(super) const KIND: usize = 19;
    pub(super) const ID: usize = 20;
    pub(super) const SEQUENCE: usize = 24;
    pub(super) const FROM: Range<usize> = 28..36;
    pub(super) const INTERVAL: usize = 36;
    pub(super) const STATE: usize = 38;
    pub(super) const END: usize = 39;
}

/// Whether a frame is a hello.
#[inline]
pub fn is_hello(frame: &[u8]) -> bool {
    is_echo(frame) && frame.get(field::KIND) == Some(&KIND)
}

/// A hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// the source address
    pub source: Address,
    /// a number that the sending process chose
    pub id: u32,
    /// the number of this hello
    pub sequence: u32,
    /// the sender
    pub from: Sci,
    /// milliseconds between two hellos
    pub interval_ms: u16,
    /// whether the sender's field port has no link
    pub field_down: bool,
}

impl Repr {
    /// Reads a whole frame.
    pub fn parse(frame: &[u8]) -> Result<Self> {
        at_least(frame, field::END)?;
        if !is_hello(frame) {
            return Err(Error::Value);
        }
        Ok(Self {
            source: Address::from_bytes(&frame[field::SOURCE])?,
            id: be32(frame, field::ID),
            sequence: be32(frame, field::SEQUENCE),
            from: Sci(array(frame, field::FROM.start)),
            interval_ms: be16(frame, field::INTERVAL),
            field_down: frame[field::STATE] & FIELD_DOWN != 0,
        })
    }

    /// Writes the frame.
    pub fn emit(&self, frame: &mut [u8; HELLO_LEN]) {
        frame.fill(0);
        frame[field::DESTINATION].copy_from_slice(GROUP.as_bytes());
        frame[field::SOURCE].copy_from_slice(self.source.as_bytes());
        frame[field::PROTOCOL].copy_from_slice(&PROTOCOL);
        frame[field::KIND] = KIND;
        put32(frame, field::ID, self.id);
        put32(frame, field::SEQUENCE, self.sequence);
        frame[field::FROM].copy_from_slice(&self.from.0);
        put16(frame, field::INTERVAL, self.interval_ms);
        frame[field::STATE] = u8::from(self.field_down) * FIELD_DOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo;

    const HELLO: Repr = Repr {
        source: Address([2, 0, 0, 0, 0, 2]),
        id: 0x0102_0304,
        sequence: 7,
        from: Sci([2, 0, 0, 0, 0, 2, 0, 1]),
        interval_ms: 10,
        field_down: true,
    };

    #[test]
    fn hello_reads_back() {
        for hello in [HELLO, Repr { field_down: false, interval_ms: 1000, ..HELLO }] {
            let mut frame = [0xff; HELLO_LEN];
            hello.emit(&mut frame);
            assert_eq!(Repr::parse(&frame), Ok(hello));
            assert!(frame[..6] == GROUP.0 && GROUP.is_multicast() && !GROUP.is_link_local());
            // A gateway without hellos takes it for an echo of a kind that it does not know.
            let kind = echo::Repr::parse(&frame).map(|echo| echo.kind);
            assert!(!matches!(kind, Ok(echo::Kind::Request | echo::Kind::Answer) | Err(_)), "{kind:?}");
        }
    }

    #[test]
    fn other_frames_are_no_hello() {
        let mut frame = [0; HELLO_LEN];
        HELLO.emit(&mut frame);
        for at in 12..20 {
            let mut other = frame;
            other[at] ^= 1;
            assert_eq!((is_hello(&other), Repr::parse(&other)), (false, Err(Error::Value)));
        }
        for len in 0..39 {
            assert_eq!(Repr::parse(&frame[..len]), Err(Error::Truncated));
        }
    }
}
