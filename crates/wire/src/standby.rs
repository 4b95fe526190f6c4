//! The messages of gateways that stand by for one another at one field segment.
//!
//! A hello leaves by the field port and, inside MACsec, by the uplink. The field is not trusted, so
//! the hello has an integrity check value of its own. A machine's message shows switches the port
//! behind which a machine is: the source address is the machine's, and nothing else counts.
//!
//! ```text
//!   03-A2-4E-D7-00-04  source  88-B7  A2-4E-D7 00-03  kind  group  state  priority  interval  term
//!   6                  6       2      5               1     1      1      1         2         4
//!   from  id  sequence  heard id  heard sequence  near  far  addresses          ICV
//!   8     8   8         8         8               1     1    6 * (near + far)   16
//! ```
//!
//! *kind* is 1 for a hello, 2 for a machine, whose frame ends with zeros after the kind. Of *state*,
//! bit 0 says that the sender forwards, bit 1 that it can, and bit 2 that it asks for the task.
//! *interval* is the time between two hellos in milliseconds. *term* rises with each takeover. *id* is
//! a random number of the sending process. *heard* names the last hello that the sender heard of
//! another gateway. *near* and *far* count the addresses of machines: of the field, then behind the
//! uplink. The ICV covers all octets before it.

use crate::bytes::{array, at_least, be16, be32, put16, put32};
use crate::ethernet::{Address, MIN_FRAME_LEN};
use crate::macsec::Sci;
use crate::mka::OUI_ANTEDATE;
use crate::{Error, Result};

/// The destination: a group that switches forward.
pub const GROUP: Address = Address([0x03, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x04]);
/// Octets of the integrity check value.
pub const ICV_LEN: usize = 16;
/// The most addresses in a hello.
pub const MAX_ADDRESSES: usize = 32;
/// Octets of the longest hello.
pub const MAX_HELLO_LEN: usize = field::ADDRESSES + 6 * MAX_ADDRESSES + ICV_LEN;
/// Octets of a machine's message, which is the shortest frame on the wire.
pub const MACHINE_LEN: usize = MIN_FRAME_LEN;

const PROTOCOL: [u8; 7] = [0x88, 0xb7, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x03];
const HELLO: u8 = 1;
const MACHINE: u8 = 2;
const ACTIVE: u8 = 1;
const ABLE: u8 = 2;
const ASKS: u8 = 4;

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const PROTOCOL: Range<usize> = 12..19;
    pub(super) const KIND: usize = 19;
    pub(super) const GROUP: usize = 20;
    pub(super) const STATE: usize = 21;
    pub(super) const PRIORITY: usize = 22;
    pub(super) const INTERVAL: usize = 23;
    pub(super) const TERM: usize = 25;
    pub(super) const FROM: Range<usize> = 29..37;
    pub(super) const ID: Range<usize> = 37..45;
    pub(super) const SEQUENCE: Range<usize> = 45..53;
    pub(super) const HEARD_ID: Range<usize> = 53..61;
    pub(super) const HEARD_SEQUENCE: Range<usize> = 61..69;
    pub(super) const NEAR: usize = 69;
    pub(super) const FAR: usize = 70;
    pub(super) const ADDRESSES: usize = 71;
}

/// Whether a frame is a message of this protocol.
#[inline]
pub fn is_standby(frame: &[u8]) -> bool {
    frame.get(field::PROTOCOL) == Some(&PROTOCOL)
}

/// Whether a frame is a hello.
#[inline]
pub fn is_hello(frame: &[u8]) -> bool {
    is_standby(frame) && frame.get(field::KIND) == Some(&HELLO)
}

/// A hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello<'a> {
    /// the source address
    pub source: Address,
    /// the number of the gateways that stand by for one another
    pub group: u8,
    /// whether the sender forwards
    pub active: bool,
    /// whether it can forward
    pub able: bool,
    /// whether it asks the one that forwards to hand over
    pub asks: bool,
    /// its preference: the highest first
    pub priority: u8,
    /// milliseconds between two hellos
    pub interval_ms: u16,
    /// the number of takeovers so far
    pub term: u32,
    /// the sender
    pub from: Sci,
    /// a random number of the sending process
    pub id: u64,
    /// the number of this hello
    pub sequence: u64,
    /// id and number of the last hello that the sender heard
    pub heard: (u64, u64),
    /// addresses of machines of the field, 6 octets each
    pub near: &'a [u8],
    /// addresses of machines behind the uplink, 6 octets each
    pub far: &'a [u8],
}

impl<'a> Hello<'a> {
    /// Reads a frame: the hello, the octets that the ICV covers, and the ICV. Octets behind it are
    /// ignored.
    pub fn parse(frame: &'a [u8]) -> Result<(Self, &'a [u8], &'a [u8; ICV_LEN])> {
        at_least(frame, field::ADDRESSES + ICV_LEN)?;
        if !is_hello(frame) {
            return Err(Error::Value);
        }
        let (near, far) = (usize::from(frame[field::NEAR]), usize::from(frame[field::FAR]));
        if near + far > MAX_ADDRESSES {
            return Err(Error::Value);
        }
        let rest = &frame[field::ADDRESSES..];
        let (near, rest) = rest.split_at_checked(6 * near).ok_or(Error::Truncated)?;
        let (far, rest) = rest.split_at_checked(6 * far).ok_or(Error::Truncated)?;
        let icv = rest.first_chunk().ok_or(Error::Truncated)?;
        let state = frame[field::STATE];
        let number = |at: usize| u64::from_be_bytes(array(frame, at));
        let hello = Self {
            source: Address::from_bytes(&frame[field::SOURCE])?,
            group: frame[field::GROUP],
            active: state & ACTIVE != 0,
            able: state & ABLE != 0,
            asks: state & ASKS != 0,
            priority: frame[field::PRIORITY],
            interval_ms: be16(frame, field::INTERVAL),
            term: be32(frame, field::TERM),
            from: Sci(array(frame, field::FROM.start)),
            id: number(field::ID.start),
            sequence: number(field::SEQUENCE.start),
            heard: (number(field::HEARD_ID.start), number(field::HEARD_SEQUENCE.start)),
            near,
            far,
        };
        Ok((hello, &frame[..field::ADDRESSES + near.len() + far.len()], icv))
    }

    /// Writes the frame without its ICV, and returns its octets so far; [`ICV_LEN`] octets follow.
    ///
    /// # Errors
    /// [`Error::Value`] for more than [`MAX_ADDRESSES`] addresses, or a part of one.
    pub fn emit(&self, frame: &mut [u8; MAX_HELLO_LEN]) -> Result<usize> {
        let (near, far) = (self.near.len(), self.far.len());
        if near % 6 != 0 || far % 6 != 0 || near + far > 6 * MAX_ADDRESSES {
            return Err(Error::Value);
        }
        frame[field::DESTINATION].copy_from_slice(GROUP.as_bytes());
        frame[field::SOURCE].copy_from_slice(self.source.as_bytes());
        frame[field::PROTOCOL].copy_from_slice(&PROTOCOL);
        frame[field::KIND] = HELLO;
        frame[field::GROUP] = self.group;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        frame[field::STATE] = bit(self.active, ACTIVE) | bit(self.able, ABLE) | bit(self.asks, ASKS);
        frame[field::PRIORITY] = self.priority;
        put16(frame, field::INTERVAL, self.interval_ms);
        put32(frame, field::TERM, self.term);
        frame[field::FROM].copy_from_slice(&self.from.0);
        frame[field::ID].copy_from_slice(&self.id.to_be_bytes());
        frame[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        frame[field::HEARD_ID].copy_from_slice(&self.heard.0.to_be_bytes());
        frame[field::HEARD_SEQUENCE].copy_from_slice(&self.heard.1.to_be_bytes());
        frame[field::NEAR] = (near / 6) as u8;
        frame[field::FAR] = (far / 6) as u8;
        let middle = field::ADDRESSES + near;
        frame[field::ADDRESSES..middle].copy_from_slice(self.near);
        frame[middle..middle + far].copy_from_slice(self.far);
        Ok(middle + far)
    }
}

/// The message of a machine with this address.
pub fn machine(source: Address) -> [u8; MACHINE_LEN] {
    let mut frame = [0; MACHINE_LEN];
    frame[field::DESTINATION].copy_from_slice(GROUP.as_bytes());
    frame[field::SOURCE].copy_from_slice(source.as_bytes());
    frame[field::PROTOCOL].copy_from_slice(&PROTOCOL);
    frame[field::KIND] = MACHINE;
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: [u8; 12] = [2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8];
    const FAR: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const HELLO: Hello<'static> = Hello {
        source: Address([2, 0, 0, 0, 0, 2]),
        group: 7,
        active: true,
        able: true,
        asks: false,
        priority: 100,
        interval_ms: 20,
        term: 0x0102_0304,
        from: Sci([2, 0, 0, 0, 0, 2, 0, 1]),
        id: 0x0102_0304_0506_0708,
        sequence: 9,
        heard: (0x1112_1314_1516_1718, 10),
        near: &NEAR,
        far: &FAR,
    };

    fn written(hello: &Hello<'_>) -> ([u8; MAX_HELLO_LEN], usize) {
        let mut frame = [0xff; MAX_HELLO_LEN];
        let covered = hello.emit(&mut frame).unwrap();
        frame[covered..covered + ICV_LEN].fill(0x5a);
        (frame, covered)
    }

    #[test]
    fn hello_reads_back() {
        for hello in [
            HELLO,
            Hello { active: false, asks: true, ..HELLO },
            Hello { able: false, near: &[], ..HELLO },
            Hello { near: &[], far: &[], ..HELLO },
        ] {
            let (frame, covered) = written(&hello);
            let read = Hello::parse(&frame[..covered + ICV_LEN]).unwrap();
            assert_eq!(read, (hello, &frame[..covered], &[0x5a; ICV_LEN]));
            assert!(covered + ICV_LEN > MIN_FRAME_LEN);
            assert!(is_standby(&frame) && is_hello(&frame) && crate::echo::is_between_gateways(&frame));
        }
        assert!(GROUP.is_multicast() && !GROUP.is_link_local());
    }

    #[test]
    fn other_frames_are_no_hellos() {
        let (frame, covered) = written(&HELLO);
        for at in 12..20 {
            let mut other = frame;
            other[at] ^= 2;
            assert_eq!((is_hello(&other), Hello::parse(&other)), (false, Err(Error::Value)));
        }
        for len in 0..covered + ICV_LEN {
            assert_eq!(Hello::parse(&frame[..len]), Err(Error::Truncated), "{len}");
        }
        let mut crowded = frame;
        crowded[69] = MAX_ADDRESSES as u8;
        assert_eq!(Hello::parse(&crowded), Err(Error::Value));
    }

    #[test]
    fn addresses_are_whole_and_bounded() {
        let mut frame = [0; MAX_HELLO_LEN];
        let most = [0; 6 * MAX_ADDRESSES];
        assert_eq!(Hello { near: &most, far: &[], ..HELLO }.emit(&mut frame), Ok(MAX_HELLO_LEN - ICV_LEN));
        assert_eq!(Hello { near: &most, ..HELLO }.emit(&mut frame), Err(Error::Value));
        assert_eq!(Hello { near: &NEAR[1..], ..HELLO }.emit(&mut frame), Err(Error::Value));
    }

    #[test]
    fn machine_is_the_source_of_its_frame() {
        let frame = machine(Address([2, 0, 0, 0, 0, 7]));
        assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 7]);
        assert!(is_standby(&frame) && !is_hello(&frame));
    }
}
