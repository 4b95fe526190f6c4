//! Receiving in a slot: the frame (sec2) and its acknowledgment (sec3).

use core::ops::Range;

use antedate_wire::dot15d4::Frame;
use antedate_wire::dot15d4::capability::Capability;
use antedate_wire::dot15d4::ie::{Following, PayloadIes, TimeCorrection};

use super::super::{
    Address, ExtendedAddress, FrameType, Header, PanId, Received, SecurityLevel, ShortAddress, Status,
};
use super::headers::{ack_ies, protection};
use super::node::Last;
use super::prepare::Unsecured;
use super::{Delivered, Node, Reaction};

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// Processes a frame without FCS that arrived `at` microseconds after the start of the slot:
    /// sec2, and sec3 if it is to be acknowledged.
    ///
    /// # Errors
    ///
    /// The reason for a refusal. No acknowledgment is sent then.
    pub fn received(&mut self, octets: &[u8], at: u32) -> Result<Reaction<'_>, Status> {
        let frame = self.parse(octets)?;
        let expected = self.inbound.iter_mut().map(|of| &mut of.frame);
        let unsecured = self.security.unsecure_prepared(&frame, self.asn, None, expected, &mut self.plain);
        let Unsecured { received, served, at: payload_at } = unsecured?;
        let nothing = Reaction { delivered: None, ack: None };
        if received.header.frame_type == FrameType::Ack {
            // Overheard: it answers another device's frame, or an old one.
            self.counters.foreign_acks += 1;
            return Ok(nothing);
        }
        if received.header.security.is_some() {
            self.count(1, served.is_some_and(|(_, foreseen)| foreseen));
        }
        let own = self.security.config();
        let (mine, everybody) = match received.header.addressing.dst {
            Address::Extended(extended) => (extended == own.extended, false),
            Address::Short(short) => (Some(short) == own.short, short == ShortAddress::BROADCAST),
            Address::Absent => (true, false),
        };
        // A frame without destination is for the PAN of its source. A node in no PAN yet accepts
        // all.
        let pan = received.header.addressing.destination_pan().or(received.header.addressing.src_pan);
        let elsewhere = pan.is_some_and(|pan| ![pan, own.pan].contains(&PanId::BROADCAST) && pan != own.pan);
        // A frame without MIC may be forged, and teaches nothing.
        let teaches = received.device.filter(|_| received.header.level().mic_len() > 0);
        if elsewhere || (!mine && !everybody) {
            self.counters.not_ours += 1;
            if let Some(from) = teaches.filter(|_| !elsewhere) {
                self.overheard(from, &received.header);
            }
            return Ok(nothing);
        }
        if let Some(from) = teaches {
            let foreseen = served.filter(|(_, foreseen)| *foreseen).and_then(|(at, _)| self.inbound.get(at));
            match foreseen.map(|of| of.habit) {
                Some(habit) => self.confirm(habit, from, &frame),
                None => self.learn(from, &frame, everybody),
            }
        }
        let range = payload_at..payload_at + received.len;
        if received.header.frame_type == FrameType::Command && self.config.unsecured_neighbours {
            self.capability(&received, range.clone());
        }
        let (mut ack, mut again, mut refused) = (None, false, false);
        if mine && received.header.ack_request {
            let content = checksum(self.plain.get(range.clone()).unwrap_or_default());
            again = received.device.is_some_and(|from| self.came_before(from, &received.header, content));
            refused = !again && !self.accepting;
            if let Some(from) = received.device.filter(|_| !again && !refused) {
                self.remember(from, &received.header, content);
            }
            let to = match received.header.addressing.src {
                Address::Absent => received.device.map(Address::Extended),
                src => Some(src),
            };
            // The acknowledgment prepared with the frame fits if the frame's header was foreseen.
            let begins = |at: usize| self.inbound.get(at).is_some_and(|of| of.frame.begins(octets));
            let prepared = served.filter(|(at, foreseen)| *foreseen || begins(*at)).map(|(at, _)| at);
            ack = to.and_then(|to| self.acknowledge(to, &received.header, at, refused, prepared));
        }
        let counter = match (again, refused) {
            (true, _) => &mut self.counters.duplicates,
            (_, true) => &mut self.counters.not_accepted,
            _ => &mut self.counters.delivered,
        };
        *counter += 1;
        let payload = self.plain.get(range).unwrap_or_default();
        let behind = match frame.following() {
            Following::PayloadIes => PayloadIes::split(payload)?.1.len(),
            Following::Nothing | Following::Payload => payload.len(),
        };
        let (elements, payload) = payload.split_at(payload.len() - behind);
        let (from, frame_type) = (received.device, received.header.frame_type);
        let delivered = (!again && !refused).then_some(Delivered { from, frame_type, elements, payload });
        let ack = ack.and_then(|ack| match ack {
            Reply::Prepared(place) => self.inbound.get(place).map(|of| of.ack.frame()),
            Reply::Ordinary(len) => self.ack.get(..len),
        });
        Ok(Reaction { delivered, ack })
    }

    /// Parses a frame. A malformed one is counted.
    pub(super) fn parse<'o>(&mut self, octets: &'o [u8]) -> Result<Frame<'o>, Status> {
        Frame::parse(octets).map_err(|malformed| {
            let status = malformed.into();
            self.security.received.refuse(status);
            status
        })
    }

    /// Whether this frame is a retransmission: it has the sequence number and the content of the
    /// sender's last frame with acknowledgment request, and comes while retransmissions do. After a
    /// restart the sender's numbers begin anywhere, so a number alone does not tell. Beacons have
    /// sequence numbers of their own and are not retransmitted. Frames without MIC may be forged, so
    /// they do not count for others.
    fn came_before(&self, from: ExtendedAddress, header: &Header, content: u32) -> bool {
        let (authentic, sequence) = (header.level().mic_len() > 0, header.sequence);
        let oldest = self.asn.number().saturating_sub(self.retransmissions());
        let same = |last: &&Last| last.from == from && last.authentic == authentic;
        self.last.iter().find(same).is_some_and(|last| {
            let recent = last.asn.number() >= oldest;
            recent && sequence.is_some() && last.sequence == sequence && last.content == content
        })
    }

    /// Remembers an accepted frame with acknowledgment request.
    fn remember(&mut self, from: ExtendedAddress, header: &Header, content: u32) {
        let (authentic, sequence) = (header.level().mic_len() > 0, header.sequence);
        self.last.retain(|last| last.from != from || last.authentic != authentic);
        self.last.reserve_exact(1);
        self.last.push(Last { from, authentic, sequence, content, asn: self.asn });
    }

    /// Learns from an association request whether an exempt device secures frames. Its request may be
    /// forged, so no other device is believed. A secured command takes the request back.
    fn capability(&mut self, received: &Received, payload: Range<usize>) {
        let exempt = |from: &ExtendedAddress| self.security.device(*from).is_some_and(|of| of.exempt);
        let Some(from) = received.device.filter(exempt) else { return };
        let capability = Capability::of_request(self.plain.get(payload).unwrap_or_default());
        let secured = received.header.security.is_some();
        if secured || capability.is_some_and(Capability::secures) {
            self.unsecured.retain(|of| *of != from);
        } else if capability.is_some() && !self.unsecured.contains(&from) {
            self.unsecured.push(from);
            self.wipe_outbound();
        }
    }

    /// The slots from a frame to its last retransmission, by the schedule, the retries and the
    /// backoffs of this network.
    fn retransmissions(&self) -> u64 {
        let (least, greatest) = self.config.backoff;
        let cells = (0..self.config.max_retries)
            .map(|attempt| least.saturating_add(attempt).min(greatest))
            .map(|exponent| 1u64.checked_shl(exponent.into()).unwrap_or(u64::MAX))
            .fold(0, u64::saturating_add);
        cells.saturating_mul(self.schedule.longest().into())
    }

    /// sec3: secures the acknowledgment as the frame was secured.
    fn acknowledge(
        &mut self,
        to: Address,
        received: &Header,
        at: u32,
        nack: bool,
        prepared: Option<usize>,
    ) -> Option<Reply> {
        let early = i64::from(self.config.timeslot.tx_offset) - i64::from(at);
        let microseconds = early.clamp(-2048, 2047) as i16;
        let correction = TimeCorrection::new(microseconds, nack);
        if let Some(place) = prepared
            && let Some(of) = self.inbound.get_mut(place)
            && self.security.release(self.asn, &correction.to_octets(), &mut of.ack)
        {
            self.count(2, true);
            return Some(Reply::Prepared(place));
        }
        let (header, protection) = (self.ack_header(to, received.sequence), protection(received));
        let ies = ack_ies(correction)?;
        let asn = Some(self.asn);
        let len = self.security.secure(&header, &ies, &[], protection, asn, &mut self.ack).ok()?;
        if protection.level != SecurityLevel::None {
            self.count(2, false);
        }
        Some(Reply::Ordinary(len))
    }
}

/// The place of an acknowledgment.
enum Reply {
    /// with this preparation
    Prepared(usize),
    /// in `ack`, of this length
    Ordinary(usize),
}

/// Two sums (Fletcher): quick on any CPU. The frames compared are authentic and of one sender.
fn checksum(payload: &[u8]) -> u32 {
    let (mut octets, mut sums) = (payload.len() as u16, 0u16);
    for octet in payload {
        octets = octets.wrapping_add((*octet).into());
        sums = sums.wrapping_add(octets);
    }
    u32::from(octets) << 16 | u32::from(sums)
}
