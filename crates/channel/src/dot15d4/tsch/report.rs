//! A node's actions, outcomes and counters.

use antedate_wire::dot15d4::ie::PayloadIes;

use super::super::{Count, ExtendedAddress, FrameType};

/// Counters of a node besides those of its [`Security`](super::super::Security).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounters {
    /// frames sent, retransmissions included
    pub sent: Count,
    /// acknowledged frames
    pub acknowledged: Count,
    /// frames given up
    pub given_up: Count,
    /// frames delivered
    pub delivered: Count,
    /// frames received again because their acknowledgment was lost, acknowledged again and not
    /// delivered
    pub duplicates: Count,
    /// frames acknowledged as not accepted: ours by neighbours
    pub nacks: Count,
    /// frames that we acknowledged as not accepted
    pub not_accepted: Count,
    /// authentic frames for another device
    pub not_ours: Count,
    /// authentic acknowledgments that did not match the frame sent, or answered none
    pub foreign_acks: Count,
    /// prepared security operations, sec1 to sec4
    pub prepared: [Count; 4],
    /// unprepared security operations
    pub unprepared: [Count; 4],
    /// unused preparations, wiped
    pub wiped: Count,
}

/// Identifies a queued frame in later reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// The action for a slot.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// nothing
    Sleep,
    /// send, then listen for an acknowledgment if `ack`
    Transmit {
        /// on this channel
        channel: u8,
        /// microseconds after the start of the slot
        at: u32,
        /// the frame without its FCS
        frame: &'a [u8],
        /// an acknowledgment is expected
        ack: bool,
    },
    /// listen
    Listen {
        /// on this channel
        channel: u8,
        /// microseconds after the start of the slot
        from: u32,
        /// the end of listening if no frame begins
        until: u32,
    },
}

/// A frame for the layer above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// the sender
    pub from: Option<ExtendedAddress>,
    /// its frame type
    pub frame_type: FrameType,
    /// its payload elements; none if it has none
    pub elements: &'a [u8],
    /// its MAC payload behind them
    pub payload: &'a [u8],
}

impl<'a> Delivered<'a> {
    /// Its payload elements.
    pub fn ies(&self) -> PayloadIes<'a> {
        PayloadIes::split(self.elements).map_or_else(|_| PayloadIes::default(), |(ies, _)| ies)
    }
}

/// The result of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction<'a> {
    /// for the layer above, unless it is a duplicate or for another device
    pub delivered: Option<Delivered<'a>>,
    /// the acknowledgment without its FCS, to be sent TsTxAckDelay after the frame's end
    pub ack: Option<&'a [u8]>,
}

/// The radio's result after transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// a frame, without its FCS
    Frame(&'a [u8]),
    /// nothing
    Silence,
}

/// The outcome of a sent frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// acknowledged, with the clock's error in microseconds
    Acknowledged(Ticket, i16),
    /// received and not accepted, with the clock's error in microseconds; it will be retransmitted
    NotAccepted(Ticket, i16),
    /// sent to all, without acknowledgment
    Sent(Ticket),
    /// it will be retransmitted
    Again(Ticket),
    /// the retries are exhausted
    GivenUp(Ticket),
    /// nothing was sent
    Nothing,
}
