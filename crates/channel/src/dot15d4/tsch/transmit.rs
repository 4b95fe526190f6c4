//! Sending in a slot: the frame (sec1) and its acknowledgment (sec4).

use antedate_wire::dot15d4::Frame;
use antedate_wire::dot15d4::ie::TimeCorrection;

use super::super::{Address, Asn, ExtendedAddress, FrameType, Header, Protection, SecurityLevel, Status};
use super::headers::{elements_of, protection};
use super::node::{Sent, Waiting};
use super::prepare::Unsecured;
use super::{Action, Cell, CellKind, Heard, Node, Outcome};

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// sec1.
    pub(super) fn transmit(&mut self, asn: Asn, cell: &Cell, at: usize) -> Action<'_> {
        let Some(waiting) = self.queue.get_mut(at) else { return Action::Sleep };
        waiting.stamp(asn);
        let Some(waiting) = self.queue.get(at) else { return Action::Sleep };
        let (ticket, ack) = (waiting.ticket, waiting.to.is_some());
        let protection = self.protection_of(waiting.frame_type, waiting.to);
        let prepared = self.outbound.ticket == Some(ticket)
            && self.security.release(asn, waiting.late_octets(), &mut self.outbound.frame);
        let len = if prepared {
            0
        } else {
            let header = self.header_of(waiting);
            let (ies, payload) = (elements_of(&header), waiting.payload());
            let len = self.security.secure(&header, ies, payload, protection, Some(asn), &mut self.plain);
            let Ok(len) = len else { return Action::Sleep };
            len
        };
        self.count(0, prepared);
        self.counters.sent += 1;
        self.sending = Some(Sent { ticket, kind: cell.kind, protection });
        let ordinary = self.plain.get(..len).unwrap_or_default();
        Action::Transmit {
            channel: self.schedule.channel(asn, cell.channel_offset),
            at: self.config.timeslot.tx_offset,
            frame: if prepared { self.outbound.frame.frame() } else { ordinary },
            ack,
        }
    }

    /// Processes the reply to the frame sent: sec4. Returns the frame's outcome, and the reason if
    /// an acknowledgment was refused.
    ///
    /// A secured frame demands its own level and key of its acknowledgment (clause 6.7.4.2). The
    /// policy for acknowledgments may be weaker, because a joining device's are unsecured.
    pub fn acknowledged(&mut self, heard: Heard<'_>) -> (Outcome, Option<Status>) {
        let Some(Sent { ticket, kind, protection }) = self.sending.take() else {
            return (Outcome::Nothing, None);
        };
        let Some(at) = self.queue.iter().position(|waiting| waiting.ticket == ticket) else {
            return (Outcome::Nothing, None);
        };
        let Some(&Waiting { to, sequence, .. }) = self.queue.get(at) else {
            return (Outcome::Nothing, None);
        };
        let Some(to) = to else {
            self.queue.remove(at);
            return (Outcome::Sent(ticket), None);
        };
        let correction = match heard {
            Heard::Silence => Ok(None),
            Heard::Frame(octets) => self.parse(octets).and_then(|reply| {
                self.demand(protection, &reply.header)?;
                self.correction(&reply, to, sequence)
            }),
        };
        match correction {
            Ok(Some(correction)) if correction.nack => {
                self.counters.nacks += 1;
                // The frame arrived, so nobody sent at the same time: the backoff is unchanged.
                let outcome = match self.failed(at, CellKind::Transmit) {
                    Outcome::Again(ticket) => Outcome::NotAccepted(ticket, correction.microseconds),
                    given_up => given_up,
                };
                (outcome, None)
            }
            Ok(Some(correction)) => {
                if kind == CellKind::Shared {
                    self.queue.remove(at);
                } else {
                    self.leave(at);
                }
                self.counters.acknowledged += 1;
                (Outcome::Acknowledged(ticket, correction.microseconds), None)
            }
            Ok(None) => (self.failed(at, kind), None),
            Err(status) => (self.failed(at, kind), Some(status)),
        }
    }

    /// Refuses a reply with another level or key than the frame sent.
    fn demand(&mut self, sent: Protection, reply: &Header) -> Result<(), Status> {
        let came = protection(reply);
        let status = match sent.level {
            SecurityLevel::None => return Ok(()),
            level if level != came.level => Status::ImproperSecurityLevel,
            _ if sent.key != came.key => Status::ImproperKeyType,
            _ => return Ok(()),
        };
        self.security.received.refuse(status);
        Err(status)
    }

    /// The time correction of a matching acknowledgment.
    fn correction(
        &mut self,
        reply: &Frame<'_>,
        to: ExtendedAddress,
        sequence: u8,
    ) -> Result<Option<TimeCorrection>, Status> {
        let (asn, expected) = (self.asn, core::iter::once(&mut self.outbound.ack));
        let unsecured = self.security.unsecure_prepared(reply, asn, Some(to), expected, &mut self.plain);
        let Unsecured { received, served, .. } = unsecured?;
        if received.header.security.is_some() {
            self.count(3, served.is_some_and(|(_, foreseen)| foreseen));
        }
        let own = self.security.config();
        let ours = match received.header.addressing.dst {
            Address::Absent => true,
            Address::Short(short) => Some(short) == own.short,
            Address::Extended(extended) => extended == own.extended,
        };
        let fits = received.header.frame_type == FrameType::Ack
            && received.header.sequence.is_none_or(|of| of == sequence)
            && received.device == Some(to)
            && ours;
        match reply.header_ies().time_correction() {
            Some(correction) if fits => Ok(Some(correction)),
            _ => {
                self.counters.foreign_acks += 1;
                Ok(None)
            }
        }
    }

    /// Records a frame without acknowledgment. Only shared cells have a backoff; failure in a
    /// dedicated cell leaves it unchanged (IEEE 802.15.4-2020, 6.2.5.3).
    fn failed(&mut self, at: usize, kind: CellKind) -> Outcome {
        let (_, greatest) = self.config.backoff;
        let Some(waiting) = self.queue.get_mut(at) else { return Outcome::Nothing };
        let ticket = waiting.ticket;
        waiting.attempts += 1;
        if kind == CellKind::Shared {
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // An exponent beyond 31 uses all bits.
            let cells = 1u32.checked_shl(waiting.exponent.into()).unwrap_or(0);
            waiting.backoff = (self.random >> 16) & cells.wrapping_sub(1);
            waiting.exponent = waiting.exponent.saturating_add(1).min(greatest);
        }
        if waiting.attempts > self.config.max_retries {
            self.leave(at);
            self.counters.given_up += 1;
            return Outcome::GivenUp(ticket);
        }
        Outcome::Again(ticket)
    }

    /// Removes a frame from the queue. Its backoff is the neighbour's, and continues with the next
    /// frame for it. After success in a shared cell it resets instead (IEEE 802.15.4-2020,
    /// 6.2.5.3). It also resets if no other frame waits for the neighbour, because no state is kept
    /// for a neighbour without a frame.
    pub(super) fn leave(&mut self, at: usize) {
        let Some(Waiting { to, backoff, exponent, .. }) = self.queue.remove(at) else { return };
        let mut others = self.queue.iter_mut().enumerate().filter(|(_, waiting)| waiting.to == to);
        // A frame waiting before it has the backoff already.
        if let Some((_, next)) = others.next().filter(|(place, _)| *place >= at) {
            (next.backoff, next.exponent) = (backoff, exponent);
        }
    }
}
