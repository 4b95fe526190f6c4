//! Receiving in a slot: the frame (sec2) and its acknowledgment (sec3).

use antedate_wire::dot15d4::ie::TimeCorrection;
use antedate_wire::dot15d4::{Frame, MAX_FRAME_LEN};

use super::super::{
    Address, ExtendedAddress, Header, KeyIdentifier, PanId, Protection, SecurityLevel, ShortAddress, Status,
};
use super::headers::ack_ies;
use super::node::{Habit, KEPT};
use super::{Delivered, Node, Reaction};

/// The protection of a received frame.
fn protection(header: &Header) -> Protection {
    let key = header.security.map_or(KeyIdentifier::Implicit, |security| security.key);
    Protection { level: header.level(), key }
}

impl Node {
    /// Processes a frame without FCS that arrived `at` microseconds after the start of the slot:
    /// sec2, and sec3 if it is to be acknowledged.
    ///
    /// # Errors
    ///
    /// The reason for a refusal. No acknowledgment is sent then.
    pub fn received(&mut self, frame: &[u8], at: u32) -> Result<Reaction, Status> {
        let mut out = [0; MAX_FRAME_LEN];
        let (result, prepared) =
            self.security.unsecure_prepared(frame, self.asn, None, &mut self.inbound.frame, &mut out);
        let received = result?;
        if received.header.security.is_some() {
            self.count(1, prepared);
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
        if elsewhere || (!mine && !everybody) {
            self.counters.not_ours += 1;
            return Ok(Reaction { delivered: None, ack: false });
        }
        if let Some(from) = received.device {
            self.learn(from, frame, received.header.sequence);
        }
        let mut reaction = Reaction { delivered: None, ack: false };
        let mut again = false;
        if mine && received.header.ack_request {
            again = received.device.is_some_and(|from| self.came_before(from, &received.header));
            // An unknown but accepted device identifies itself by its address.
            let to = match received.header.addressing.src {
                Address::Extended(from) => Some(from),
                _ => received.device,
            };
            reaction.ack = to.is_some_and(|to| self.acknowledge(to, &received.header, at));
        }
        if again {
            self.counters.duplicates += 1;
        } else {
            self.counters.delivered += 1;
            let payload = out.get(..received.len).unwrap_or_default().to_vec();
            let frame_type = received.header.frame_type;
            reaction.delivered = Some(Delivered { from: received.device, frame_type, payload });
        }
        Ok(reaction)
    }

    /// Whether this frame is a retransmission: it has the sequence number of the sender's last
    /// frame with acknowledgment request. Beacons have sequence numbers of their own and are not
    /// retransmitted. Unsecured frames may be forged, so they do not count for secured ones.
    fn came_before(&mut self, from: ExtendedAddress, header: &Header) -> bool {
        let (sender, sequence) = ((from, header.security.is_some()), header.sequence);
        let again = sequence.is_some() && self.last.contains(&(sender, sequence));
        self.last.retain(|(of, _)| *of != sender);
        self.last.push((sender, sequence));
        again
    }

    /// Records the form of a neighbour's frame.
    fn learn(&mut self, from: ExtendedAddress, octets: &[u8], sequence: Option<u8>) {
        let Ok(frame) = Frame::parse(octets) else { return };
        let len = frame.before_mic().len();
        let (header, open, protection) = (frame.mac_header(), frame.open().len(), protection(&frame.header));
        let mut kept = [0; KEPT];
        let Some(place) = kept.get_mut(..header.len()) else { return };
        place.copy_from_slice(header);
        let lengths = match self.habits.iter().find(|habit| habit.from == from) {
            Some(Habit { lengths: [last, before], .. }) if *last == len => [*last, *before],
            Some(Habit { lengths: [last, _], .. }) => [len, *last],
            None => [len, len],
        };
        let habit =
            Habit { from, header: kept, header_len: header.len(), open, protection, lengths, sequence };
        self.habits.retain(|other| other.from != from);
        self.habits.push(habit);
    }

    /// sec3: secures the acknowledgment as the frame was secured.
    fn acknowledge(&mut self, to: ExtendedAddress, received: &Header, at: u32) -> bool {
        let early = i64::from(self.config.timeslot.tx_offset) - i64::from(at);
        let microseconds = early.clamp(-2048, 2047) as i16;
        let Some(ies) = ack_ies(TimeCorrection::new(microseconds, false)) else { return false };
        let (header, protection) = (self.ack_header(to, received.sequence), protection(received));
        let secured = self.security.secure_prepared(
            &header,
            &ies,
            &[],
            protection,
            self.asn,
            &mut self.inbound.ack,
            &mut self.frame,
        );
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
