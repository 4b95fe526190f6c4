//! Preparation between slots for the next transmit cell and the next receive cell.

use antedate_wire::dot15d4::ie::TimeCorrection;
use antedate_wire::dot15d4::{MAX_FRAME_LEN, SecurityHeader};

use super::super::{Asn, ExtendedAddress, Header};
use super::headers::{ack_ies, sample_ack};
use super::prepare::Known;
use super::{CellKind, Node};

impl Node {
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
        left -= self.inbound.frame.step(&self.security, left);
        left -= self.inbound.ack.step(&self.security, left);
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
            && let Some(waiting) = self.candidate(&cell).and_then(|at| self.queue.get(at))
        {
            let header = self.header(waiting.to, waiting.sequence);
            let (payload, late, protection) = (&waiting.payload, waiting.late, self.config.protection);
            self.security.prepare(&header, &[], payload, late, protection, asn, &mut self.outbound.frame);
            match waiting.to {
                Some(to) => self.expect_ack(asn, to, waiting.sequence),
                None => self.outbound.ack.wipe(),
            }
        }
        let listen = self.schedule.next(from, |cell| cell.kind != CellKind::Transmit);
        if let Some((asn, cell)) = listen
            && !self.inbound.frame.is_for(asn)
        {
            // In a cell for any neighbour, the neighbour heard last is the best guess.
            let from = cell.neighbour.or_else(|| self.habits.last().map(|habit| habit.from));
            self.wipe_inbound();
            if let Some(from) = from {
                self.expect_frame(asn, from);
            }
        }
    }

    fn expect_ack(&mut self, asn: Asn, from: ExtendedAddress, sequence: u8) {
        let (extended, level) = (self.security.config().extended, self.config.protection.level);
        let header = Header {
            security: Some(SecurityHeader::tsch(level, self.config.protection.key)),
            ..self.ack_header(extended, Some(sequence))
        };
        let mut sample = [0; 80];
        let Some(len) = sample_ack(&header, &mut sample) else { return };
        let sample = sample.get(..len + level.mic_len()).unwrap_or_default();
        let front = sample.get(..len - TimeCorrection::LEN).unwrap_or_default();
        let known = Known { level, front, open: len, lengths: &[len] };
        self.security.expect(sample, Some(from), asn, &known, &mut self.outbound.ack);
    }

    fn expect_frame(&mut self, asn: Asn, from: ExtendedAddress) {
        let Some(habit) = self.habits.iter().find(|habit| habit.from == from) else { return };
        let mut sample = [0; MAX_FRAME_LEN];
        let header = habit.header.get(..habit.header_len).unwrap_or_default();
        let Some(place) = sample.get_mut(..header.len()) else { return };
        place.copy_from_slice(header);
        let next = habit.sequence.map(|sequence| sequence.wrapping_add(1));
        // The sequence number is the octet after the frame control field.
        if let (Some(next), Some(place)) = (next, sample.get_mut(2)) {
            *place = next;
        }
        let [last, before] = habit.lengths;
        let lengths = if last == before { &[last][..] } else { &[last, before][..] };
        let protection = habit.protection;
        let Some(sample) = sample.get(..last + protection.level.mic_len()) else { return };
        let front = sample.get(..habit.header_len).unwrap_or_default();
        let known = Known { level: protection.level, front, open: habit.open, lengths };
        self.security.expect(sample, None, asn, &known, &mut self.inbound.frame);
        let header = self.ack_header(from, next);
        if let Some(ies) = ack_ies(TimeCorrection::default()) {
            let late = TimeCorrection::LEN;
            self.security.prepare(&header, &ies, &[], late, protection, asn, &mut self.inbound.ack);
        }
    }
}
