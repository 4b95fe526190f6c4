//! Receiving in a slot: the frame (sec2) and its acknowledgment (sec3).

use antedate_wire::dot15d4::MAX_FRAME_LEN;
use antedate_wire::dot15d4::ie::TimeCorrection;

use super::super::{Address, ExtendedAddress, FrameType, Header, PanId, SecurityLevel, ShortAddress, Status};
use super::headers::{ack_ies, protection};
use super::node::Last;
use super::{Delivered, Node, Reaction};

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// Processes a frame without FCS that arrived `at` microseconds after the start of the slot:
    /// sec2, and sec3 if it is to be acknowledged.
    ///
    /// # Errors
    ///
    /// The reason for a refusal. No acknowledgment is sent then.
    pub fn received(&mut self, frame: &[u8], at: u32) -> Result<Reaction, Status> {
        let mut out = [0; MAX_FRAME_LEN];
        let expected = self.inbound.iter_mut().map(|of| &mut of.frame);
        let (result, served) = self.security.unsecure_prepared(frame, self.asn, None, expected, &mut out);
        let received = result?;
        let expected = served.map(|(at, _)| at);
        let nothing = Reaction { delivered: None, ack: false };
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
        let payload = out.get(..received.len).unwrap_or_default();
        if let Some(from) = teaches {
            self.learn(from, frame, everybody);
        }
        let mut reaction = nothing;
        let mut again = false;
        if mine && received.header.ack_request {
            again = received.device.is_some_and(|from| self.came_before(from, &received.header, payload));
            // An unknown but accepted device identifies itself by its address.
            let to = match received.header.addressing.src {
                Address::Extended(from) => Some(from),
                _ => received.device,
            };
            reaction.ack = to.is_some_and(|to| self.acknowledge(to, &received.header, at, expected));
        }
        if again {
            self.counters.duplicates += 1;
        } else {
            self.counters.delivered += 1;
            let payload = payload.to_vec();
            let frame_type = received.header.frame_type;
            reaction.delivered = Some(Delivered { from: received.device, frame_type, payload });
        }
        Ok(reaction)
    }

    /// Whether this frame is a retransmission: it has the sequence number and the content of the
    /// sender's last frame with acknowledgment request, and comes while retransmissions do. After a
    /// restart the sender's numbers begin anywhere, so a number alone does not tell. Beacons have
    /// sequence numbers of their own and are not retransmitted. Frames without MIC may be forged, so
    /// they do not count for others.
    fn came_before(&mut self, from: ExtendedAddress, header: &Header, payload: &[u8]) -> bool {
        let (authentic, sequence) = (header.level().mic_len() > 0, header.sequence);
        let now = Last { from, authentic, sequence, content: checksum(payload), asn: self.asn };
        let oldest = self.asn.number().saturating_sub(self.retransmissions());
        let same = |last: &Last| last.from == from && last.authentic == authentic;
        let again = self.last.iter().find(|last| same(last)).is_some_and(|last| {
            let recent = last.asn.number() >= oldest;
            recent && sequence.is_some() && last.sequence == sequence && last.content == now.content
        });
        if !again {
            self.last.retain(|last| !same(last));
            self.last.push(now);
        }
        again
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
        to: ExtendedAddress,
        received: &Header,
        at: u32,
        expected: Option<usize>,
    ) -> bool {
        let early = i64::from(self.config.timeslot.tx_offset) - i64::from(at);
        let microseconds = early.clamp(-2048, 2047) as i16;
        let Some(ies) = ack_ies(TimeCorrection::new(microseconds, false)) else { return false };
        let (header, protection) = (self.ack_header(to, received.sequence), protection(received));
        let (asn, frame) = (self.asn, &mut self.frame);
        let secured = match expected.and_then(|at| self.inbound.get_mut(at)) {
            Some(of) => {
                self.security.secure_prepared(&header, &ies, &[], protection, asn, &mut of.ack, frame)
            }
            None => {
                self.security.secure(&header, &ies, &[], protection, Some(asn), frame).map(|len| (len, false))
            }
        };
        let Ok((len, prepared)) = secured else { return false };
        if protection.level != SecurityLevel::None {
            self.count(2, prepared);
        }
        self.frame_len = len;
        true
    }

    /// The prepared acknowledgment, without its FCS.
    pub fn ack(&self) -> &[u8] {
        self.frame.get(..self.frame_len).unwrap_or_default()
    }
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
