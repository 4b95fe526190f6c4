//! The flow of a frame: protocol, identifier, and both addresses.
//!
//! The identifier is Profinet's FrameID, or the APPID of GOOSE and of sampled values. It alone is
//! not enough: each device chooses the FrameID of what it is sent, so a controller may send one
//! FrameID to several.

use antedate_wire::EthernetAddress;
use antedate_wire::VlanTagStack;

use crate::config::policy::{Class, Traffic};

/// A protocol with cyclic frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Profinet = 1,
    Goose,
    SampledValues,
    Ethercat,
}

impl Protocol {
    #[inline]
    const fn of(class: Class) -> Option<Self> {
        match class {
            Class::Named(Traffic::ProfinetRt) => Some(Self::Profinet),
            Class::Named(Traffic::Goose) => Some(Self::Goose),
            Class::Named(Traffic::SampledValues) => Some(Self::SampledValues),
            Class::Named(Traffic::Ethercat) => Some(Self::Ethercat),
            _ => None,
        }
    }

    const fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Profinet),
            2 => Some(Self::Goose),
            3 => Some(Self::SampledValues),
            4 => Some(Self::Ethercat),
            _ => None,
        }
    }

    /// Its name, as in a policy.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Profinet => "profinet-rt",
            Self::Goose => "goose",
            Self::SampledValues => "sampled-values",
            Self::Ethercat => "ethercat",
        }
    }

    /// Whether its frames have an identifier.
    pub(super) const fn has_id(self) -> bool {
        !matches!(self, Self::Ethercat)
    }
}

/// The identity of a flow, in two words: the first eight octets of the frame; the next four, the
/// identifier and the protocol. The second one is never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(pub(super) [u64; 2]);

impl Identity {
    /// The flow of a frame that the policy has found well-formed. `None`: it is not of a flow.
    #[inline]
    pub(super) fn of(class: Class, frame: &[u8]) -> Option<Self> {
        let protocol = Protocol::of(class)?;
        let ends = u64::from_be_bytes(*frame.first_chunk()?);
        let rest = u64::from(u32::from_be_bytes(*frame.get(8..)?.first_chunk()?));
        let id = if protocol.has_id() {
            u64::from(u16::from_be_bytes(*frame.get(payload(frame)?..)?.first_chunk()?))
        } else {
            0
        };
        Some(Self([ends, rest << 32 | id << 16 | protocol as u64]))
    }

    /// A number that spreads over 64 bits.
    #[inline]
    pub(super) const fn hash(self) -> u64 {
        let Self([a, b]) = self;
        (a.rotate_left(23) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    pub(super) fn protocol(self) -> Option<Protocol> {
        Protocol::from_number(self.0[1] & 0xff)
    }

    pub(super) const fn id(self) -> u16 {
        (self.0[1] >> 16) as u16
    }

    /// Destination and source.
    pub(super) fn addresses(self) -> [EthernetAddress; 2] {
        let Self([a, b]) = self;
        let [d0, d1, d2, d3, d4, d5, s0, s1] = a.to_be_bytes();
        let [s2, s3, s4, s5, ..] = b.to_be_bytes();
        [[d0, d1, d2, d3, d4, d5], [s0, s1, s2, s3, s4, s5]].map(EthernetAddress)
    }
}

/// The offset of the octets behind the EtherType.
#[inline]
fn payload(frame: &[u8]) -> Option<usize> {
    match frame.get(12..14)? {
        [0x81, 0x00] if !matches!(frame.get(16..18), Some([0x81, 0x00] | [0x88, 0xa8])) => Some(18),
        [0x81, 0x00] | [0x88, 0xa8] | [0x91..=0x93, 0x00] => tagged(frame),
        _ => Some(14),
    }
}

#[cold]
fn tagged(frame: &[u8]) -> Option<usize> {
    VlanTagStack::parse(frame).ok().map(|stack| stack.payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RT: Class = Class::Named(Traffic::ProfinetRt);

    fn frame(tags: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], tags, rest].concat();
        frame.resize(64, 0);
        frame
    }

    #[test]
    fn tags_do_not_hide_the_frame_id() {
        let bare = Identity::of(RT, &frame(&[], &[0x88, 0x92, 0x80, 7])).unwrap();
        assert_eq!((bare.id(), bare.protocol()), (0x8007, Some(Protocol::Profinet)));
        let [to, from] = bare.addresses();
        assert_eq!((to.0, from.0), ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]));
        for tags in
            [&[0x81, 0, 0xc0, 0][..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0xc0, 0], &[0x81, 0, 0, 1, 0x81, 0, 0, 2]]
        {
            assert_eq!(Identity::of(RT, &frame(tags, &[0x88, 0x92, 0x80, 7])), Some(bare), "{tags:x?}");
        }
    }

    #[test]
    fn protocol_and_identifier_make_a_flow() {
        let all = [Traffic::ProfinetRt, Traffic::Goose, Traffic::SampledValues, Traffic::Ethercat];
        let of = |kind, id| Identity::of(Class::Named(kind), &frame(&[], &[0x88, 0xb8, 0, id])).unwrap();
        for (at, kind) in all.into_iter().enumerate() {
            assert!(all[..at].iter().all(|other| of(*other, 1) != of(kind, 1)));
            assert_eq!(of(kind, 1) == of(kind, 2), kind == Traffic::Ethercat, "EtherCAT has no identifier");
        }
        assert_eq!(Identity::of(Class::Named(Traffic::Arp), &frame(&[], &[8, 6])), None);
    }

    #[test]
    fn short_frames_are_of_no_flow() {
        let whole = frame(&[0x81, 0, 0, 1, 0x81, 0, 0, 2], &[0x88, 0x92, 0x80, 7]);
        for length in 0..24 {
            assert_eq!(Identity::of(RT, &whole[..length]), None, "{length}");
        }
    }
}
