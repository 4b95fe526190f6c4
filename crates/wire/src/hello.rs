//! The hello of an Antedate gateway, always inside MACsec: that it is there, the link of its field
//! port, and with an uplink that waits for another one, which gateways it hears by which way.
//!
//! It has the EtherType and the protocol identifier of the [echo](crate::echo), and a kind of its
//! own.
//!
//! ```text
//!   03-A2-4E-D7-00-03  source  88-B7  A2-4E-D7 00-01  3  id  sequence  from  interval  state  count
//!   6                  6       2      5               1  4   4         8     2         1      1
//!   heard      zeros
//!   9 * count
//! ```
//!
//! *id* is a number that the process chose. *from* is an SCI. *interval* is the time between two
//! hellos in milliseconds. Of *state*, bit 0 says that the field port has no link, and bit 1 that the
//! sender has two uplinks of which one waits. Then bit 2 says that this hello left by the second one,
//! and bit 3 that frames of machines do. *heard* has an SCI each, and an octet of which bit 0 says that
//! the sender hears what that gateway sends by its first uplink, and bit 1 the same of its second.

use crate::bytes::{array, at_least, be16, be32, put16, put32};
use crate::echo::{PROTOCOL, is_echo};
use crate::ethernet::{Address, MIN_FRAME_LEN};
use crate::macsec::Sci;
use crate::mka::OUI_ANTEDATE;
use crate::{Error, Result};

/// The destination: a group that switches forward.
pub const GROUP: Address = Address([0x03, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x03]);
/// Octets of the shortest hello, which is the shortest frame on the wire.
pub const MIN_HELLO_LEN: usize = MIN_FRAME_LEN;
/// The most gateways in a hello.
pub const MAX_HEARD: usize = 64;
/// Octets of one of them.
pub const HEARD_LEN: usize = 9;
/// Octets of the longest hello.
pub const MAX_HELLO_LEN: usize = field::HEARD + MAX_HEARD * HEARD_LEN;

const KIND: u8 = 3;
const FIELD_DOWN: u8 = 1;
const HAS_TWO: u8 = 2;
const BY_SECOND: u8 = 4;
const SECOND_CARRIES: u8 = 8;

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
    pub(super) const COUNT: usize = 39;
    pub(super) const HEARD: usize = 40;
}

/// Whether a frame is a hello.
#[inline]
pub fn is_hello(frame: &[u8]) -> bool {
    is_echo(frame) && frame.get(field::KIND) == Some(&KIND)
}

/// A hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr<'a> {
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
    /// the sender's uplinks, if one of two waits
    pub uplinks: Option<Uplinks<'a>>,
}

/// Two uplinks of which one waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uplinks<'a> {
    /// whether this hello left by the second one
    pub by_second: bool,
    /// whether frames of machines leave by the second one
    pub second_carries: bool,
    /// the gateways that the sender hears, [`HEARD_LEN`] octets each
    pub heard: &'a [u8],
}

impl Uplinks<'_> {
    /// By which of its uplinks the sender hears this gateway: the first, and the second.
    pub fn hears(&self, sci: Sci) -> [bool; 2] {
        let (entries, _) = self.heard.as_chunks::<HEARD_LEN>();
        let ways = entries.iter().find(|entry| entry[..8] == sci.0).map_or(0, |entry| entry[8]);
        [ways & 1 != 0, ways & 2 != 0]
    }
}

/// An entry of [`Uplinks::heard`].
pub fn heard(sci: Sci, ways: [bool; 2]) -> [u8; HEARD_LEN] {
    let mut entry = [0; HEARD_LEN];
    entry[..8].copy_from_slice(&sci.0);
    entry[8] = u8::from(ways[0]) | u8::from(ways[1]) << 1;
    entry
}

impl<'a> Repr<'a> {
    /// Reads a whole frame.
    pub fn parse(frame: &'a [u8]) -> Result<Self> {
        at_least(frame, field::COUNT)?;
        if !is_hello(frame) {
            return Err(Error::Value);
        }
        let state = frame[field::STATE];
        let uplinks = if state & HAS_TWO == 0 {
            None
        } else {
            let count = usize::from(*frame.get(field::COUNT).ok_or(Error::Truncated)?);
            if count > MAX_HEARD {
                return Err(Error::Value);
            }
            let end = field::HEARD + count * HEARD_LEN;
            Some(Uplinks {
                by_second: state & BY_SECOND != 0,
                second_carries: state & SECOND_CARRIES != 0,
                heard: frame.get(field::HEARD..end).ok_or(Error::Truncated)?,
            })
        };
        Ok(Self {
            source: Address::from_bytes(&frame[field::SOURCE])?,
            id: be32(frame, field::ID),
            sequence: be32(frame, field::SEQUENCE),
            from: Sci(array(frame, field::FROM.start)),
            interval_ms: be16(frame, field::INTERVAL),
            field_down: state & FIELD_DOWN != 0,
            uplinks,
        })
    }

    /// Writes the frame, and returns its octets. Of more than [`MAX_HEARD`] gateways it has the first
    /// ones.
    pub fn emit<'f>(&self, frame: &'f mut [u8; MAX_HELLO_LEN]) -> &'f [u8] {
        frame.fill(0);
        frame[field::DESTINATION].copy_from_slice(GROUP.as_bytes());
        frame[field::SOURCE].copy_from_slice(self.source.as_bytes());
        frame[field::PROTOCOL].copy_from_slice(&PROTOCOL);
        frame[field::KIND] = KIND;
        put32(frame, field::ID, self.id);
        put32(frame, field::SEQUENCE, self.sequence);
        frame[field::FROM].copy_from_slice(&self.from.0);
        put16(frame, field::INTERVAL, self.interval_ms);
        let mut state = u8::from(self.field_down) * FIELD_DOWN;
        let mut len = MIN_HELLO_LEN;
        if let Some(Uplinks { by_second, second_carries, heard }) = self.uplinks {
            state |= HAS_TWO + u8::from(by_second) * BY_SECOND + u8::from(second_carries) * SECOND_CARRIES;
            let count = (heard.len() / HEARD_LEN).min(MAX_HEARD);
            frame[field::COUNT] = count as u8;
            let end = field::HEARD + count * HEARD_LEN;
            frame[field::HEARD..end].copy_from_slice(&heard[..count * HEARD_LEN]);
            len = len.max(end);
        }
        frame[field::STATE] = state;
        &frame[..len]
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::echo;

    const HELLO: Repr<'static> = Repr {
        source: Address([2, 0, 0, 0, 0, 2]),
        id: 0x0102_0304,
        sequence: 7,
        from: Sci([2, 0, 0, 0, 0, 2, 0, 1]),
        interval_ms: 10,
        field_down: true,
        uplinks: None,
    };

    #[test]
    fn hello_reads_back() {
        let other = |number: usize| Sci([2, 0, 0, 0, 0, 3, 0, number as u8]);
        for (count, len) in [(0, MIN_HELLO_LEN), (2, MIN_HELLO_LEN), (3, 67), (MAX_HEARD, MAX_HELLO_LEN)] {
            let all: Vec<u8> = (0..count).flat_map(|at| heard(other(at), [at == 0, at != 1])).collect();
            let uplinks = Uplinks { by_second: count == 2, second_carries: count == 3, heard: &all };
            for hello in [
                HELLO,
                Repr { field_down: false, interval_ms: 1000, ..HELLO },
                Repr { uplinks: Some(uplinks), ..HELLO },
            ] {
                let mut frame = [0xff; MAX_HELLO_LEN];
                let frame = hello.emit(&mut frame);
                assert_eq!(Repr::parse(frame), Ok(hello));
                assert_eq!(frame.len(), if hello.uplinks.is_some() { len } else { MIN_HELLO_LEN });
                assert!(frame[..6] == GROUP.0 && GROUP.is_multicast() && !GROUP.is_link_local());
                // A gateway without hellos takes it for an echo of a kind that it does not know.
                let kind = echo::Repr::parse(frame).map(|echo| echo.kind);
                assert!(!matches!(kind, Ok(echo::Kind::Request | echo::Kind::Answer) | Err(_)), "{kind:?}");
            }
            let hears = (0..4).map(|at| uplinks.hears(other(at))).collect::<Vec<_>>();
            let wanted = [[true, true], [false, false], [false, true], [false, true]];
            assert!(
                hears
                    .iter()
                    .enumerate()
                    .all(|(at, ways)| *ways == [[false; 2], wanted[at]][usize::from(at < count)])
            );
        }
    }

    #[test]
    fn other_frames_are_no_hello() {
        let mut frame = [0; MAX_HELLO_LEN];
        let all = heard(HELLO.from, [true; 2]).repeat(3);
        let uplinks = Uplinks { by_second: false, second_carries: false, heard: &all };
        let len = Repr { uplinks: Some(uplinks), ..HELLO }.emit(&mut frame).len();
        for at in 12..20 {
            let mut other = frame;
            other[at] ^= 1;
            assert_eq!((is_hello(&other), Repr::parse(&other)), (false, Err(Error::Value)));
        }
        for len in 0..len {
            assert_eq!(Repr::parse(&frame[..len]), Err(Error::Truncated), "{len}");
        }
        frame[field::COUNT] = MAX_HEARD as u8 + 1;
        assert_eq!(Repr::parse(&frame), Err(Error::Value));
    }
}
