//! The echo between two Antedate gateways, always inside MACsec: whether a member is reachable, the
//! round trip, and the longest frame that the path carries.
//!
//! The EtherType is that of IEEE 802's OUI Extended protocols; the protocol identifier is
//! Antedate's (see [`OUI_ANTEDATE`]).
//!
//! ```text
//!   destination, source  88-B7  A2-4E-D7 00-01  kind  id  sequence  from  to  heard  wanted  zeros
//!   6            6       2      5               1     4   4         8     8   2      2
//! ```
//!
//! *from* and *to* are SCIs; a *to* of zero asks everyone. *heard* is the length of the request in
//! an answer. *wanted* is the length of the answer in a request. Lengths count from the destination
//! address.

use crate::bytes::{array, at_least, be16, be32, put16, put32};
use crate::ethernet::{Address, MIN_FRAME_LEN};
use crate::macsec::Sci;
use crate::mka::OUI_ANTEDATE;
use crate::{Error, Result};

/// The EtherType and the protocol identifier.
pub(crate) const PROTOCOL: [u8; 7] =
    [0x88, 0xb7, OUI_ANTEDATE[0], OUI_ANTEDATE[1], OUI_ANTEDATE[2], 0x00, 0x01];

/// Octets of the shortest echo, which is also the shortest frame on the wire.
pub const ECHO_LEN: usize = MIN_FRAME_LEN;

wire_enum! {
    /// The kind of an echo.
    pub enum Kind(u8) {
        /// asks for an answer
        Request = 1,
        /// answers a request
        Answer = 2,
    }
}

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const PROTOCOL: Range<usize> = 12..19;
    pub(super) const KIND: usize = 19;
    pub(super) const ID: usize = 20;
    pub(super) const SEQUENCE: usize = 24;
    pub(super) const FROM: usize = 28;
    pub(super) const TO: usize = 36;
    pub(super) const HEARD: usize = 44;
    pub(super) const WANTED: usize = 46;
    pub(super) const END: usize = 48;
}

/// Whether a frame is an echo, or a [hello](crate::hello). Such a frame never passes between a
/// gateway's ports.
#[inline]
pub fn is_echo(frame: &[u8]) -> bool {
    frame.get(field::PROTOCOL) == Some(&PROTOCOL)
}

/// Whether a frame is between Antedate gateways: an echo, a [hello](crate::hello), a [frame to a
/// link-local group](crate::link_local) on its way, a [probe](crate::probe), or a message of gateways
/// that [stand by](crate::standby). Machines have no such frames.
#[inline]
pub fn is_between_gateways(frame: &[u8]) -> bool {
    frame.get(12..18) == PROTOCOL.first_chunk::<6>().map(<[u8; 6]>::as_slice)
}

/// An echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// the destination address
    pub destination: Address,
    /// the source address
    pub source: Address,
    /// request or answer
    pub kind: Kind,
    /// a number that the asking process chose
    pub id: u32,
    /// the number of the request
    pub sequence: u32,
    /// the sender
    pub from: Sci,
    /// the receiver; zero for all
    pub to: Sci,
    /// in an answer: octets of the request
    pub heard_len: u16,
    /// in a request: octets of the answer
    pub wanted_len: u16,
}

impl Repr {
    /// Reads a whole frame.
    pub fn parse(frame: &[u8]) -> Result<Self> {
        at_least(frame, field::END)?;
        if !is_echo(frame) {
            return Err(Error::Value);
        }
        Ok(Self {
            destination: Address::from_bytes(&frame[field::DESTINATION])?,
            source: Address::from_bytes(&frame[field::SOURCE])?,
            kind: Kind::from_number(frame[field::KIND]),
            id: be32(frame, field::ID),
            sequence: be32(frame, field::SEQUENCE),
            from: Sci(array(frame, field::FROM)),
            to: Sci(array(frame, field::TO)),
            heard_len: be16(frame, field::HEARD),
            wanted_len: be16(frame, field::WANTED),
        })
    }

    /// Writes the frame, with zeros to the end of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        at_least(buffer, ECHO_LEN)?;
        buffer[field::END..].fill(0);
        buffer[field::DESTINATION].copy_from_slice(self.destination.as_bytes());
        buffer[field::SOURCE].copy_from_slice(self.source.as_bytes());
        buffer[field::PROTOCOL].copy_from_slice(&PROTOCOL);
        buffer[field::KIND] = self.kind.number();
        put32(buffer, field::ID, self.id);
        put32(buffer, field::SEQUENCE, self.sequence);
        buffer[field::FROM..field::TO].copy_from_slice(&self.from.0);
        buffer[field::TO..field::HEARD].copy_from_slice(&self.to.0);
        put16(buffer, field::HEARD, self.heard_len);
        put16(buffer, field::WANTED, self.wanted_len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Repr = Repr {
        destination: Address([2, 0, 0, 0, 0, 1]),
        source: Address([2, 0, 0, 0, 0, 2]),
        kind: Kind::Request,
        id: 0x0102_0304,
        sequence: 7,
        from: Sci([2, 0, 0, 0, 0, 2, 0, 1]),
        to: Sci([2, 0, 0, 0, 0, 1, 0, 1]),
        heard_len: 60,
        wanted_len: 1500,
    };

    #[test]
    fn echo_reads_back_at_any_length() {
        for len in [ECHO_LEN, 61, 1514] {
            let mut frame = std::vec![0xff; len];
            ECHO.emit(&mut frame).unwrap();
            assert_eq!(Repr::parse(&frame), Ok(ECHO));
            assert!(frame[48..].iter().all(|octet| *octet == 0));
        }
        assert_eq!(ECHO.emit(&mut [0; ECHO_LEN - 1]), Err(Error::Truncated));
    }

    #[test]
    fn other_frames_are_no_echo() {
        let mut frame = [0; ECHO_LEN];
        ECHO.emit(&mut frame).unwrap();
        for at in 12..19 {
            let mut other = frame;
            other[at] ^= 1;
            assert_eq!((is_echo(&other), Repr::parse(&other)), (false, Err(Error::Value)));
            assert_eq!(is_between_gateways(&other), at == 18);
        }
        for len in 0..48 {
            assert_eq!(Repr::parse(&frame[..len]), Err(Error::Truncated));
        }
    }
}
