//! Preparation between slots for the next transmit cell and the next receive cell.

use antedate_wire::dot15d4::ie::TimeCorrection;
use antedate_wire::dot15d4::{Frame, MAX_FRAME_LEN, SecurityHeader};

use super::super::{Address, Asn, ExtendedAddress, Header, Protection, SecurityLevel};
use super::headers::{ack_ies, elements_of, protection, sample_ack};
use super::prepare::{Inbound, Known};
use super::{CellKind, Node};

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// Does at most `budget` encryptions for the next transmit cell and the next receive cell.
    /// Returns the number done, 0 if everything is prepared.
    pub fn idle(&mut self, budget: u32) -> u32 {
        if !self.config.prepare {
            return 0;
        }
        let Some(from) = self.asn.after(1) else { return 0 };
        self.aim(from);
        let mut left = budget;
        left -= self.outbound.frame.step_and_complete(&self.security, left);
        for Inbound { frame, ack, .. } in &mut self.inbound {
            left -= frame.step(&self.security, left);
            left -= ack.step(&self.security, left);
        }
        left -= self.outbound.ack.step(&self.security, left);
        budget - left
    }

    /// Starts the preparations for the next cells, unless already started.
    fn aim(&mut self, from: Asn) {
        let send = self.schedule.next(from, |cell| {
            self.candidate(cell)
                .and_then(|at| self.queue.get(at))
                .is_some_and(|waiting| cell.kind == CellKind::Transmit || waiting.backoff == 0)
        });
        if let Some((asn, cell)) = send
            && !self.outbound.frame.is_for(asn)
            && let Some(at) = self.candidate(&cell)
        {
            if let Some(waiting) = self.queue.get_mut(at) {
                waiting.stamp(asn);
            }
            let Some(waiting) = self.queue.get(at) else { return };
            let (header, protection) =
                (self.header_of(waiting), self.protection_of(waiting.frame_type, waiting.to));
            let (ies, payload, late) = (elements_of(&header), waiting.payload(), waiting.late);
            self.security.prepare(&header, ies, payload, late, protection, asn, &mut self.outbound.frame);
            self.outbound.ticket = Some(waiting.ticket);
            match waiting.to {
                Some(to) => self.expect_ack(asn, to, &header, protection),
                None => self.outbound.ack.wipe(),
            }
        }
        let listen = self.schedule.next(from, |cell| cell.kind != CellKind::Transmit);
        if let Some((asn, cell)) = listen
            && self.aimed != Some(asn)
        {
            self.wipe_inbound();
            self.aimed = Some(asn);
            // In a cell for any neighbour, those heard last are the best guess.
            let mut taken = [usize::MAX; EXPECTED];
            for place in 0..EXPECTED {
                let Some(habit) = self.last_heard(cell.neighbour, &taken) else { break };
                if let Some(of) = taken.get_mut(place) {
                    *of = habit;
                }
                self.expect_frame(asn, habit, place);
            }
        }
    }

    /// Expects the acknowledgment of a frame with this header.
    fn expect_ack(&mut self, asn: Asn, from: ExtendedAddress, frame: &Header, protection: Protection) {
        let Protection { level, key } = protection;
        if level == SecurityLevel::None {
            return self.outbound.ack.wipe();
        }
        let ack = self.ack_header(frame.addressing.src, frame.sequence);
        let header = Header { security: Some(SecurityHeader::tsch(level, key)), ..ack };
        let mut sample = [0; 80];
        let Some(len) = sample_ack(&header, &mut sample) else { return };
        let sample = sample.get(..len + level.mic_len()).unwrap_or_default();
        let front = sample.get(..len - TimeCorrection::LEN).unwrap_or_default();
        let known = Known { level, front, open: len, lengths: &[len] };
        self.security.expect(sample, Some(from), asn, &known, &mut self.outbound.ack);
    }

    fn expect_frame(&mut self, asn: Asn, habit: usize, place: usize) {
        let predicted_by = habit;
        let Some(habit) = self.habits.get(habit) else { return };
        let (from, next) = (habit.from(), self.next_sequence(habit));
        let ((header_len, open), (lengths, count)) = (habit.open(), self.lengths(habit));
        let lengths = lengths.get(..count).unwrap_or_default();
        let mut sample = [0; MAX_FRAME_LEN];
        if let Some(place) = sample.first_chunk_mut() {
            *place = habit.header(next);
        }
        // Any of the lengths will do: the payload is unknown.
        let len = lengths.first().map(|len| len + habit.level().mic_len());
        let Some(Ok(frame)) = len.and_then(|len| sample.get(..len)).map(Frame::parse) else { return };
        let (protection, wants_ack) = (protection(&frame.header), frame.header.ack_request);
        let Some(front) = sample.get(..header_len) else { return };
        let Some(Inbound { habit, frame: preparation, ack }) = self.inbound.get_mut(place) else { return };
        *habit = predicted_by;
        let known = Known { level: protection.level, front, open, lengths };
        self.security.expect(frame.octets(), None, asn, &known, preparation);
        if !wants_ack {
            return;
        }
        let to = match frame.header.addressing.src {
            Address::Absent => Address::Extended(from),
            src => src,
        };
        let header = super::headers::ack_header(self.security.config().pan, to, next);
        if let Some(ies) = ack_ies(TimeCorrection::default()) {
            self.security.prepare(&header, &ies, &[], TimeCorrection::LEN, protection, asn, ack);
        }
    }
}
