//! Frames waiting for their cells.

use antedate_wire::dot15d4::{FCS_LEN, MAX_FRAME_LEN, SecurityHeader};

use super::super::{ExtendedAddress, Protection, SecurityLevel};
use super::node::Waiting;
use super::{Cell, CellKind, Node, Ticket};

/// The reason for not queueing a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// the queue is full
    Full,
    /// with header and MIC it exceeds the maximum frame length
    TooLong,
    /// there are more late octets than octets, or their number differs from the announced one
    Late,
    /// it was sent, and would be retransmitted as it was, or it was given up
    Gone,
}

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// Queues a payload for a neighbour, or for broadcast. Its last `late` octets may be replaced
    /// until its slot begins.
    pub fn send(
        &mut self,
        to: Option<ExtendedAddress>,
        payload: &[u8],
        late: usize,
    ) -> Result<Ticket, QueueError> {
        if self.queue.len() >= self.config.queue {
            return Err(QueueError::Full);
        }
        if late > payload.len() {
            return Err(QueueError::Late);
        }
        if !self.fits(to, payload.len()) {
            return Err(QueueError::TooLong);
        }
        let (ticket, sequence) = (Ticket(self.next_ticket), self.sequence);
        self.next_ticket += 1;
        self.sequence = sequence.wrapping_add(1);
        let (exponent, _) = self.config.backoff;
        let waiting = Waiting {
            ticket,
            to,
            payload: place(payload),
            len: payload.len(),
            late,
            sequence,
            attempts: 0,
            backoff: 0,
            exponent,
        };
        self.queue.push_back(waiting);
        Ok(ticket)
    }

    /// Whether a frame with this many octets of payload fits under the present protection.
    pub(in super::super) fn fits(&self, to: Option<ExtendedAddress>, payload: usize) -> bool {
        let Protection { level, key } = self.config.protection;
        let aux = if level == SecurityLevel::None { 0 } else { SecurityHeader::tsch(level, key).len() };
        self.header(to, 0).buffer_len() + aux + payload + level.mic_len() + FCS_LEN <= MAX_FRAME_LEN
    }

    /// Replaces the late octets of a waiting frame that was not sent yet.
    pub fn update(&mut self, ticket: Ticket, late: &[u8]) -> Result<(), QueueError> {
        let waiting =
            self.queue.iter_mut().find(|waiting| waiting.ticket == ticket).ok_or(QueueError::Gone)?;
        if waiting.attempts > 0 || self.sending.is_some_and(|sent| sent.ticket == ticket) {
            return Err(QueueError::Gone);
        }
        if late.len() != waiting.late {
            return Err(QueueError::Late);
        }
        if let Some(place) = waiting.payload.get_mut(waiting.len - late.len()..waiting.len) {
            place.copy_from_slice(late);
        }
        Ok(())
    }

    /// The frame that a cell would send: the first one for its neighbour.
    pub(super) fn candidate(&self, cell: &Cell) -> Option<usize> {
        if cell.kind == CellKind::Receive {
            return None;
        }
        self.queue.iter().position(|waiting| cell.neighbour.is_none() || cell.neighbour == waiting.to)
    }
}

/// A payload that fits.
fn place(payload: &[u8]) -> [u8; MAX_FRAME_LEN] {
    let mut place = [0; MAX_FRAME_LEN];
    if let Some(front) = place.get_mut(..payload.len()) {
        front.copy_from_slice(payload);
    }
    place
}
