//! Messages of the Precision Time Protocol, version 2 (IEEE 1588-2019, clause 13; IEEE 802.1AS):
//! the common header, and the place of a message in an Ethernet frame.
//!
//! PTP runs directly over Ethernet (annex E, EtherType 88-F7), or over UDP (annexes C and D): event
//! messages to port 319, all others to port 320. A bridge that is a transparent clock adds the time
//! that an event message spent in it to the `correctionField` of that message, or of the `FollowUp`
//! behind a `Sync` (clause 10.2).

use crate::bytes::{array, at_least, be16};
use crate::checksum::Sum;
use crate::ip::Protocol;
use crate::{Error, EtherType, Result, VlanTagStack, ipv4, ipv6, udp};

/// Octets of the common header.
pub const HEADER_LEN: usize = 34;
/// The UDP port of event messages.
pub const EVENT_PORT: u16 = 319;
/// The UDP port of all other messages.
pub const GENERAL_PORT: u16 = 320;
/// The version of all messages here.
const VERSION: u8 = 2;
/// The TLV types AUTHENTICATION of IEEE 1588-2019 (clause 16.14) and of IEEE 1588-2008 (annex K).
const AUTHENTICATION: [u16; 2] = [0x8009, 0x2000];
/// The flag of messages with IEEE 1588-2008's annex K.
const SECURE: u16 = 0x8000;
/// The flag of a `Sync` with a `FollowUp`.
const TWO_STEP: u16 = 0x0200;
/// The value of a correction that is too large to write (clause 13.3.2.9).
const TOO_LARGE: i64 = i64::MAX;

wire_enum! {
    /// The kind of a message (table 36).
    pub enum MessageType(u8) {
        /// an event: the time server's time
        Sync = 0x0,
        /// an event: asks the time server for the arrival of this message
        DelayReq = 0x1,
        /// an event: asks the neighbour
        PdelayReq = 0x2,
        /// an event: the neighbour's answer
        PdelayResp = 0x3,
        /// the departure of a `Sync`
        FollowUp = 0x8,
        /// the arrival of a `DelayReq`
        DelayResp = 0x9,
        /// the departure of a `PdelayResp`
        PdelayRespFollowUp = 0xa,
        /// the time server's quality
        Announce = 0xb,
        /// a request between two ports
        Signaling = 0xc,
        /// a request of a manager
        Management = 0xd,
    }
}

impl MessageType {
    /// Whether ends take time stamps of such messages.
    pub const fn is_event(self) -> bool {
        matches!(self, Self::Sync | Self::DelayReq | Self::PdelayReq | Self::PdelayResp)
    }

    /// Octets of the message without TLVs. `None`: TLVs are not looked for.
    const fn body_len(self) -> Option<usize> {
        match self {
            Self::Sync | Self::DelayReq | Self::FollowUp => Some(44),
            Self::PdelayReq | Self::PdelayResp | Self::DelayResp | Self::PdelayRespFollowUp => Some(54),
            _ => None,
        }
    }
}

mod field {
    use core::ops::Range;

    pub(super) const TYPE: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const LENGTH: usize = 2;
    pub(super) const FLAGS: usize = 6;
    pub(super) const DOMAIN: usize = 4;
    pub(super) const MINOR_SDO: usize = 5;
    pub(super) const CORRECTION: Range<usize> = 8..16;
    pub(super) const SOURCE_PORT: usize = 20;
    pub(super) const SEQUENCE_ID: usize = 30;
}

/// The sender and the number of a message. A `Sync` and its `FollowUp` have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// `majorSdoId`, `domainNumber` and `minorSdoId`
    domain: [u8; 3],
    /// `sourcePortIdentity`
    port: [u8; 10],
    /// `sequenceId`
    number: u16,
}

/// A view of a message.
#[derive(Debug, Clone, Copy)]
pub struct Message<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Message<T> {
    /// A view of `buffer`, if it holds a whole message of version 2. More octets may follow it.
    pub fn new_checked(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        at_least(bytes, HEADER_LEN)?;
        if bytes[field::VERSION] & 0x0f != VERSION {
            return Err(Error::Value);
        }
        let len = usize::from(be16(bytes, field::LENGTH));
        if len < HEADER_LEN {
            return Err(Error::Length);
        }
        at_least(bytes, len)?;
        Ok(Self { buffer })
    }

    /// The kind.
    pub fn message_type(&self) -> MessageType {
        MessageType::from_number(self.buffer.as_ref()[field::TYPE] & 0x0f)
    }

    /// Octets of the message, TLVs included.
    pub fn message_len(&self) -> u16 {
        be16(self.buffer.as_ref(), field::LENGTH)
    }

    /// The flags, the first octet as the high half.
    pub fn flags(&self) -> u16 {
        be16(self.buffer.as_ref(), field::FLAGS)
    }

    /// The correction in nanoseconds times 65,536.
    pub fn correction(&self) -> i64 {
        i64::from_be_bytes(array(self.buffer.as_ref(), field::CORRECTION.start))
    }

    /// The number of the message.
    pub fn sequence_id(&self) -> u16 {
        be16(self.buffer.as_ref(), field::SEQUENCE_ID)
    }

    /// Whether a `FollowUp` has the departure of this `Sync`.
    pub fn is_two_step(&self) -> bool {
        self.flags() & TWO_STEP != 0
    }

    /// The sender and the number.
    pub fn origin(&self) -> Origin {
        let bytes = self.buffer.as_ref();
        Origin {
            domain: [bytes[field::TYPE] & 0xf0, bytes[field::DOMAIN], bytes[field::MINOR_SDO]],
            port: array(bytes, field::SOURCE_PORT),
            number: self.sequence_id(),
        }
    }

    /// Whether the message has an AUTHENTICATION TLV, or says that it is secured, so that nobody
    /// on the way may change it.
    ///
    /// # Errors
    /// When its TLVs are not whole.
    pub fn is_signed(&self) -> Result<bool> {
        if self.flags() & SECURE != 0 {
            return Ok(true);
        }
        let Some(mut at) = self.message_type().body_len() else { return Ok(false) };
        let message = self.buffer.as_ref().get(..usize::from(self.message_len())).ok_or(Error::Truncated)?;
        at_least(message, at)?;
        while at < message.len() {
            at_least(message, at + 4)?;
            if AUTHENTICATION.contains(&be16(message, at)) {
                return Ok(true);
            }
            at += 4 + usize::from(be16(message, at + 2));
            at_least(message, at)?;
        }
        Ok(false)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Message<T> {
    /// Sets the correction.
    pub fn set_correction(&mut self, scaled: i64) {
        self.buffer.as_mut()[field::CORRECTION].copy_from_slice(&scaled.to_be_bytes());
    }
}

/// The place of a message that a transparent clock handles: an event, or a `FollowUp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The offset of the message.
    at: usize,
    /// The offset of the UDP checksum, over UDP.
    checksum: Option<usize>,
    /// The kind.
    pub message_type: MessageType,
}

impl Place {
    /// Finds such a message in a frame, behind VLAN tags. `None` in all other frames, and in
    /// fragments.
    #[inline]
    pub fn find(frame: &[u8]) -> Option<Self> {
        let stack = VlanTagStack::parse(frame).ok()?;
        let (at, port) = match stack.ethertype {
            EtherType::Ptp => (stack.payload, None),
            EtherType::Ipv4 => {
                let packet = ipv4::Packet::new_checked(frame.get(stack.payload..)?).ok()?;
                let plain = packet.protocol() == Protocol::Udp && !packet.is_fragment();
                over_udp(frame, stack.payload + packet.header_len()).filter(|_| plain)?
            }
            EtherType::Ipv6 => {
                let packet = ipv6::Packet::new_checked(frame.get(stack.payload..)?).ok()?;
                let (protocol, upper) = packet.upper_layer().ok()?;
                over_udp(frame, stack.payload + upper).filter(|_| protocol == Protocol::Udp)?
            }
            _ => return None,
        };
        let message_type = Message::new_checked(frame.get(at..)?).ok()?.message_type();
        let wanted = match message_type {
            MessageType::FollowUp => GENERAL_PORT,
            other if other.is_event() => EVENT_PORT,
            _ => return None,
        };
        if port.is_some_and(|port| port != wanted) {
            return None;
        }
        let checksum = port.map(|_| at - 2);
        Some(Self { at, checksum, message_type })
    }

    /// The message in the frame that it was found in.
    pub fn message<'a>(&self, frame: &'a [u8]) -> Result<Message<&'a [u8]>> {
        Message::new_checked(frame.get(self.at..).ok_or(Error::Truncated)?)
    }

    /// Adds nanoseconds to the correction, and keeps the UDP checksum right. A correction that is
    /// too large stays so.
    ///
    /// # Errors
    /// When the message is signed, or its TLVs are not whole. It is unchanged then.
    pub fn add_residence(&self, frame: &mut [u8], nanoseconds: u32) -> Result<()> {
        let message = self.message(frame)?;
        if message.is_signed()? {
            return Err(Error::Value);
        }
        let (before, scaled) = (message.correction(), i64::from(nanoseconds) << 16);
        let after = if before == TOO_LARGE { before } else { before.saturating_add(scaled) };
        Message::new_checked(frame.get_mut(self.at..).ok_or(Error::Truncated)?)?.set_correction(after);
        let field = self.checksum.and_then(|at| frame.get_mut(at..)?.first_chunk_mut::<2>());
        // An absent checksum stays absent.
        if let Some(field) = field.filter(|field| **field != [0, 0]) {
            // RFC 1624, equation 3.
            let sum = Sum::of_u16(!u16::from_be_bytes(*field));
            let sum = sum.and(Sum::of(&(!before).to_be_bytes())).and(Sum::of(&after.to_be_bytes()));
            let checksum = if sum.checksum() == 0 { 0xffff } else { sum.checksum() };
            *field = checksum.to_be_bytes();
        }
        Ok(())
    }
}

/// The place of the message, and the port that it is for.
fn over_udp(frame: &[u8], at: usize) -> Option<(usize, Option<u16>)> {
    let datagram = udp::Datagram::new_checked(frame.get(at..)?).ok()?;
    let port = datagram.dst_port();
    matches!(port, EVENT_PORT | GENERAL_PORT).then_some((at + udp::HEADER_LEN, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A `Sync` with the correction of 1.5 ns, two steps, number 258.
    fn sync(tlvs: &[u8]) -> Vec<u8> {
        let mut message = std::vec![0; 44];
        message[..8].copy_from_slice(&[0x10, 0x12, 0, 44 + tlvs.len() as u8, 0, 0, 2, 0]);
        message[13..16].copy_from_slice(&[1, 0x80, 0]);
        message[20..32].copy_from_slice(&[2, 0, 0, 0xff, 0xfe, 0, 0, 1, 0, 1, 1, 2]);
        message.extend(tlvs);
        message
    }

    fn over_ethernet(message: &[u8]) -> Vec<u8> {
        [&[1, 0x1b, 0x19, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x88, 0xf7][..], message].concat()
    }

    fn datagram(pseudo: Sum, message: &[u8]) -> Vec<u8> {
        let len = (message.len() + 8) as u8;
        let mut bytes = [&[1, 63, 1, 63, 0, len, 0, 0][..], message].concat();
        udp::Datagram::new_checked(&mut bytes[..]).unwrap().fill_checksum(pseudo);
        bytes
    }

    fn over_ipv4(message: &[u8]) -> Vec<u8> {
        let mut packet = std::vec![0x45, 0, 0, (message.len() + 28) as u8, 0, 0, 0x40, 0, 1, 17, 0, 0];
        packet.extend([10, 0, 0, 1, 224, 0, 1, 129]);
        let pseudo = ipv4::Packet::new_checked(&packet).unwrap().pseudo_header_sum(message.len() as u16 + 8);
        packet.extend(datagram(pseudo, message));
        [&[1, 0, 0x5e, 0, 1, 0x81, 2, 0, 0, 0, 0, 1, 0x08, 0x00][..], &packet].concat()
    }

    fn over_ipv6(message: &[u8]) -> Vec<u8> {
        let mut packet = std::vec![0x60, 0, 0, 0, 0, (message.len() + 8) as u8, 17, 1];
        packet.extend([0xfd; 16]);
        packet.extend([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x81]);
        let packet_view = ipv6::Packet::new_checked(&packet).unwrap();
        let pseudo = packet_view.pseudo_header_sum(Protocol::Udp, message.len() as u32 + 8);
        packet.extend(datagram(pseudo, message));
        [&[0x33, 0x33, 0, 0, 1, 0x81, 2, 0, 0, 0, 0, 1, 0x86, 0xdd][..], &packet].concat()
    }

    fn verifies(frame: &[u8]) -> bool {
        let packet = &frame[14..];
        if frame[12] == 0x08 {
            let packet = ipv4::Packet::new_checked(packet).unwrap();
            let udp = packet.payload();
            let pseudo = packet.pseudo_header_sum(udp.len() as u16);
            udp::Datagram::new_checked(udp).unwrap().verify_checksum(pseudo)
        } else {
            let packet = ipv6::Packet::new_checked(packet).unwrap();
            let udp = packet.payload();
            let pseudo = packet.pseudo_header_sum(Protocol::Udp, udp.len() as u32);
            udp::Datagram::new_checked(udp).unwrap().verify_checksum(pseudo)
        }
    }

    #[test]
    fn header_is_read() {
        let message = sync(&[]);
        let view = Message::new_checked(&message).unwrap();
        assert_eq!((view.message_type(), view.message_len()), (MessageType::Sync, 44));
        assert_eq!((view.flags(), view.correction(), view.sequence_id()), (0x0200, 0x18000, 258));
        assert_eq!(view.is_signed(), Ok(false));
        for (at, value, error) in [(1, 0x01, Error::Value), (3, 33, Error::Length), (3, 45, Error::Truncated)]
        {
            let mut wrong = message.clone();
            wrong[at] = value;
            assert_eq!(Message::new_checked(&wrong).err(), Some(error));
        }
        assert_eq!(Message::new_checked(&message[..33]).err(), Some(Error::Truncated));
    }

    #[test]
    fn message_is_found_in_each_transport() {
        let tagged = over_ethernet(&sync(&[]));
        let tagged = [&tagged[..12], &[0x81, 0, 0xe0, 0, 0x88, 0xf7], &tagged[14..]].concat();
        let message = sync(&[]);
        for (frame, at) in [
            (over_ethernet(&message), 14),
            (tagged, 18),
            (over_ipv4(&message), 42),
            (over_ipv6(&message), 62),
        ] {
            let place = Place::find(&frame).unwrap();
            assert_eq!((place.at, place.message_type), (at, MessageType::Sync));
            assert_eq!(place.message(&frame).unwrap().correction(), 0x18000);
        }
    }

    #[test]
    fn other_frames_are_left_alone() {
        let mut general = sync(&[]);
        general[0] = 0x1b;
        assert_eq!(Place::find(&over_ethernet(&general)), None);
        // A FollowUp to the port of events.
        general[0] = 0x18;
        assert_eq!(Place::find(&over_ipv4(&general)), None);
        let mut port = over_ipv4(&sync(&[]));
        port[37] = 64;
        assert_eq!(Place::find(&port), None);
        let mut fragment = over_ipv4(&sync(&[]));
        fragment[20] = 0x20;
        assert_eq!(Place::find(&fragment), None);
        let mut tcp = over_ipv6(&sync(&[]));
        tcp[20] = 6;
        assert_eq!(Place::find(&tcp), None);
        assert_eq!(Place::find(&[0; 60]), None);
    }

    #[test]
    fn follow_up_has_the_origin_of_its_sync() {
        let sync = over_ethernet(&sync(&[]));
        let mut follow_up = sync.clone();
        follow_up[14] = 0x18;
        let message = |frame: &[u8]| {
            let place = Place::find(frame).unwrap();
            (place.message_type, place.message(frame).unwrap().origin())
        };
        assert!(Place::find(&sync).unwrap().message(&sync).unwrap().is_two_step());
        assert_eq!(message(&follow_up), (MessageType::FollowUp, message(&sync).1));
        for at in [14, 18, 19, 34, 43, 44, 45] {
            let mut other = follow_up.clone();
            other[at] ^= 0x40;
            assert_ne!(message(&other).1, message(&sync).1, "{at}");
        }
        let mut datagram = over_ipv6(&follow_up[14..]);
        datagram[57] = 64;
        assert_eq!(message(&datagram).0, MessageType::FollowUp);
    }

    #[test]
    fn residence_is_added_to_the_correction() {
        let mut frame = over_ethernet(&sync(&[]));
        let place = Place::find(&frame).unwrap();
        place.add_residence(&mut frame, 1_000).unwrap();
        assert_eq!(place.message(&frame).unwrap().correction(), 0x18000 + (1_000 << 16));
        for (before, after) in [(i64::MAX, i64::MAX), (i64::MAX - 1, i64::MAX), (-(9 << 16), -(8 << 16))] {
            Message::new_checked(&mut frame[14..]).unwrap().set_correction(before);
            place.add_residence(&mut frame, 1).unwrap();
            assert_eq!(place.message(&frame).unwrap().correction(), after);
        }
    }

    #[test]
    fn absent_checksum_stays_absent() {
        let mut frame = over_ipv4(&sync(&[]));
        frame[40..42].fill(0);
        Place::find(&frame).unwrap().add_residence(&mut frame, 77).unwrap();
        assert_eq!(frame[40..42], [0, 0]);
    }

    #[test]
    fn signed_messages_are_not_changed() {
        let mut secure = sync(&[]);
        secure[6] |= 0x80;
        for (message, error) in [
            (sync(&[0x80, 0x09, 0, 2, 1, 2]), Error::Value),
            (sync(&[0x00, 0x03, 0, 2, 1, 2, 0x20, 0x00, 0, 0]), Error::Value),
            (secure, Error::Value),
            (sync(&[0x00, 0x03, 0, 9, 1, 2]), Error::Truncated),
            (sync(&[0x00, 0x03]), Error::Truncated),
        ] {
            let mut frame = over_ethernet(&message);
            let before = frame.clone();
            assert_eq!(Place::find(&frame).unwrap().add_residence(&mut frame, 5), Err(error));
            assert_eq!(frame, before);
        }
        let mut other = over_ethernet(&sync(&[0x00, 0x03, 0, 2, 1, 2]));
        assert_eq!(Place::find(&other).unwrap().add_residence(&mut other, 5), Ok(()));
    }

    proptest! {
        #[test]
        fn checksum_stays_right(before: i64, nanoseconds: u32, filler in prop::collection::vec(any::<u8>(), 10)) {
            let mut message = sync(&[]);
            message[34..].copy_from_slice(&filler);
            Message::new_checked(&mut message[..]).unwrap().set_correction(before);
            for mut frame in [over_ipv4(&message), over_ipv6(&message)] {
                prop_assert!(verifies(&frame));
                Place::find(&frame).unwrap().add_residence(&mut frame, nanoseconds).unwrap();
                prop_assert!(verifies(&frame));
            }
        }

        #[test]
        fn any_frame_is_survived(mut frame in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(place) = Place::find(&frame) {
                let _ = place.add_residence(&mut frame, 1);
            }
        }
    }
}
