//! Frames waiting for their cells.

use antedate_wire::dot15d4::advertisement::Repr;
use antedate_wire::dot15d4::ie::PayloadIes;
use antedate_wire::dot15d4::{FCS_LEN, MAX_FRAME_LEN, SecurityHeader};

use super::super::{Asn, ExtendedAddress, FrameType, Protection, SecurityLevel};
use super::headers::elements_of;
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
    /// a command without its identifier, or payload elements that are not well-formed
    Malformed,
}

/// A frame to queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// a MAC command, whose payload begins with its identifier; otherwise data
    pub command: bool,
    /// the payload begins with payload elements, such as those of 6P
    pub elements: bool,
    /// the neighbour, or `None` for broadcast
    pub to: Option<ExtendedAddress>,
    /// the MAC payload
    pub payload: &'a [u8],
    /// its last octets that may be replaced until its slot begins
    pub late: usize,
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
        self.send_frame(Outgoing { command: false, elements: false, to, payload, late })
    }

    /// Queues a frame of any kind but a beacon.
    pub fn send_frame(&mut self, frame: Outgoing<'_>) -> Result<Ticket, QueueError> {
        let Outgoing { command, elements, to, payload, late } = frame;
        let content =
            if elements { PayloadIes::split(payload).map(|(_, content)| content) } else { Ok(payload) };
        if content.is_ok_and(|content| command && content.is_empty()) || content.is_err() {
            return Err(QueueError::Malformed);
        }
        let frame_type = if command { FrameType::Command } else { FrameType::Data };
        let sequence = self.sequence;
        let ticket = self.enqueue(frame_type, elements, to, payload, late, sequence)?;
        self.sequence = sequence.wrapping_add(1);
        Ok(ticket)
    }

    /// Queues an enhanced beacon for the next cell for all. The node writes the slot into it, and
    /// prepares it as other frames.
    pub fn beacon(&mut self, beacon: &Repr<'_>) -> Result<Ticket, QueueError> {
        let mut payload = [0; MAX_FRAME_LEN];
        let len = beacon.emit(Asn::default(), &mut payload).map_err(|_| QueueError::TooLong)?;
        let sequence = self.beacon_sequence;
        let payload = payload.get(..len).unwrap_or_default();
        let ticket = self.enqueue(FrameType::Beacon, true, None, payload, 0, sequence)?;
        self.beacon_sequence = sequence.wrapping_add(1);
        Ok(ticket)
    }

    fn enqueue(
        &mut self,
        frame_type: FrameType,
        elements: bool,
        to: Option<ExtendedAddress>,
        payload: &[u8],
        late: usize,
        sequence: u8,
    ) -> Result<Ticket, QueueError> {
        if self.queue.len() >= self.config.queue {
            return Err(QueueError::Full);
        }
        if late > payload.len() {
            return Err(QueueError::Late);
        }
        if !self.fits(frame_type, elements, to, payload.len()) {
            return Err(QueueError::TooLong);
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let (exponent, _) = self.config.backoff;
        let waiting = Waiting {
            ticket,
            frame_type,
            elements,
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
    pub(in super::super) fn fits(
        &self,
        frame_type: FrameType,
        elements: bool,
        to: Option<ExtendedAddress>,
        payload: usize,
    ) -> bool {
        let Protection { level, key } = self.protection_of(frame_type, to);
        let aux = if level == SecurityLevel::None { 0 } else { SecurityHeader::tsch(level, key).len() };
        let header = self.header(frame_type, elements, to, 0);
        let header = header.buffer_len() + elements_of(&header).len() + aux;
        header + payload + level.mic_len() + FCS_LEN <= MAX_FRAME_LEN
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
