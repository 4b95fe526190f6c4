//! VLAN tags: one or several tags of IEEE 802.1Q (customer) and IEEE 802.1ad (service) before the
//! payload's EtherType.
//!
//! A tag is a tag protocol identifier in place of the EtherType, followed by the tag control
//! information (IEEE 802.1Q clause 9.6): priority, drop eligible, VLAN identifier.

use crate::bytes::{at_least, be16};
use crate::ethernet::EtherType;
use crate::{Error, Result};

/// Octets of a tag: its protocol identifier and its control information.
pub const TAG_LEN: usize = 4;
/// The most tags that [`TagStack`] reads. Real networks use two.
pub const MAX_TAGS: usize = 4;

/// A VLAN identifier of 12 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// The null identifier: the tag carries a priority only. Profinet uses it.
    pub const PRIORITY: Self = Self(0);

    /// An identifier of 12 bits, without the reserved 0xfff.
    pub const fn new(id: u16) -> Option<Self> {
        if id < 0xfff { Some(Self(id)) } else { None }
    }

    /// The identifier as a number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// Tag control information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tci(pub u16);

impl Tci {
    /// Control information from its three parts. Only the low three bits of `priority` count.
    pub const fn new(priority: u8, drop_eligible: bool, id: VlanId) -> Self {
        Self(((priority as u16 & 7) << 13) | ((drop_eligible as u16) << 12) | id.0)
    }

    /// The priority, 0 to 7. Profinet's cyclic data has 6.
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// The same with another priority, of which only the low three bits count.
    pub const fn with_priority(self, priority: u8) -> Self {
        Self(self.0 & 0x1fff | (priority as u16 & 7) << 13)
    }

    /// Whether the frame may be dropped first under congestion.
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// The VLAN identifier: all 12 bits, including the reserved 0xfff.
    pub const fn id(self) -> u16 {
        self.0 & 0x0fff
    }
}

/// One tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// [`EtherType::Vlan`] or a service tag's ([`EtherType::is_vlan`])
    pub protocol: EtherType,
    /// priority, drop eligible, identifier
    pub tci: Tci,
}

impl Tag {
    /// A customer tag.
    pub const fn customer(tci: Tci) -> Self {
        Self { protocol: EtherType::Vlan, tci }
    }

    /// Writes the tag's four octets, with the protocol identifier in place of an EtherType, to the
    /// front of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        at_least(buffer, TAG_LEN)?;
        buffer[..TAG_LEN].copy_from_slice(&self.octets());
        Ok(())
    }

    /// The tag's four octets, as in a frame.
    pub const fn octets(&self) -> [u8; TAG_LEN] {
        let ([a, b], [c, d]) = (self.protocol.number().to_be_bytes(), self.tci.0.to_be_bytes());
        [a, b, c, d]
    }
}

/// The tags of a frame, outermost first, and the place of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagStack {
    tags: [Tag; MAX_TAGS],
    len: usize,
    /// the EtherType behind the last tag
    pub ethertype: EtherType,
    /// the payload's offset in the frame, behind that EtherType
    pub payload: usize,
}

impl TagStack {
    /// Reads the tags of a whole Ethernet frame. Refuses more than [`MAX_TAGS`].
    pub fn parse(frame: &[u8]) -> Result<Self> {
        let mut stack = Self {
            tags: [Tag::customer(Tci(0)); MAX_TAGS],
            len: 0,
            ethertype: EtherType::Unknown(0),
            payload: crate::ethernet::HEADER_LEN,
        };
        loop {
            at_least(frame, stack.payload)?;
            stack.ethertype = EtherType::from_number(be16(frame, stack.payload - 2));
            if !stack.ethertype.is_vlan() {
                return Ok(stack);
            }
            at_least(frame, stack.payload + TAG_LEN)?;
            let tag = Tag { protocol: stack.ethertype, tci: Tci(be16(frame, stack.payload)) };
            *stack.tags.get_mut(stack.len).ok_or(Error::Value)? = tag;
            stack.len += 1;
            stack.payload += TAG_LEN;
        }
    }

    /// The tags, outermost first.
    pub fn tags(&self) -> &[Tag] {
        &self.tags[..self.len]
    }

    /// The VLAN of the frame: the identifier of the outermost tag; none if that tag carries a
    /// priority only.
    pub fn vlan(&self) -> Option<u16> {
        self.tags().first().map(|tag| tag.tci.id()).filter(|id| *id != 0)
    }
}

/// Writes `frame` with `tag` as its outermost tag into `out` and returns the length.
///
/// A packet socket passes the outermost tag beside the frame; this puts it back.
pub fn insert(frame: &[u8], tag: Tag, out: &mut [u8]) -> Result<usize> {
    at_least(frame, crate::ethernet::HEADER_LEN)?;
    let len = frame.len() + TAG_LEN;
    at_least(out, len)?;
    out[..12].copy_from_slice(&frame[..12]);
    tag.emit(&mut out[12..])?;
    out[16..len].copy_from_slice(&frame[12..]);
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rest: &[u8]) -> std::vec::Vec<u8> {
        [&[0u8; 12], rest].concat()
    }

    #[test]
    fn untagged_frame_has_an_empty_stack() {
        let stack = TagStack::parse(&frame(&[0x88, 0x92, 1])).unwrap();
        assert_eq!((stack.tags(), stack.ethertype, stack.payload), (&[][..], EtherType::Profinet, 14));
    }

    #[test]
    fn priority_tag_is_read() {
        let stack = TagStack::parse(&frame(&[0x81, 0x00, 0xc0, 0x00, 0x88, 0x92])).unwrap();
        assert_eq!(stack.tags(), [Tag::customer(Tci::new(6, false, VlanId::PRIORITY))]);
        assert_eq!((stack.vlan(), stack.ethertype, stack.payload), (None, EtherType::Profinet, 18));
    }

    #[test]
    fn service_and_customer_tags_are_read() {
        let stack =
            TagStack::parse(&frame(&[0x88, 0xa8, 0x30, 0x64, 0x81, 0x00, 0x00, 0x05, 0x08, 0x00])).unwrap();
        assert_eq!(stack.tags().len(), 2);
        assert_eq!(stack.vlan(), Some(100));
        assert!(stack.tags()[0].tci.drop_eligible());
        assert_eq!((stack.ethertype, stack.payload), (EtherType::Ipv4, 22));
    }

    #[test]
    fn old_service_tags_are_read() {
        for protocol in [0x91, 0x92, 0x93] {
            let stack = TagStack::parse(&frame(&[protocol, 0, 0, 1, 0x81, 0, 0, 7, 0x08, 0])).unwrap();
            let ids: std::vec::Vec<_> = stack.tags().iter().map(|tag| tag.tci.id()).collect();
            assert_eq!((ids, stack.ethertype), (std::vec![1, 7], EtherType::Ipv4));
        }
    }

    #[test]
    fn truncated_tag_is_refused() {
        let whole = frame(&[0x81, 0x00, 0x00, 0x05, 0x08, 0x00]);
        for len in 0..whole.len() {
            assert_eq!(TagStack::parse(&whole[..len]), Err(Error::Truncated), "{len}");
        }
    }

    #[test]
    fn endless_tags_are_refused() {
        assert_eq!(TagStack::parse(&frame(&[0x81, 0x00, 0x81, 0x00].repeat(20))), Err(Error::Value));
    }

    #[test]
    fn inserted_tag_is_read_back() {
        let plain = frame(&[0x88, 0x92, 1, 2, 3]);
        let tag = Tag::customer(Tci::new(6, true, VlanId::new(7).unwrap()));
        let mut out = [0; 32];
        let len = insert(&plain, tag, &mut out).unwrap();
        let stack = TagStack::parse(&out[..len]).unwrap();
        assert_eq!((stack.tags(), stack.vlan()), (&[tag][..], Some(7)));
        assert_eq!(&out[stack.payload..len], [1, 2, 3]);
        assert_eq!(insert(&plain, tag, &mut [0; 10]), Err(Error::Truncated));
    }
}
