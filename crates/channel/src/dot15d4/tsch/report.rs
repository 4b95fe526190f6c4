//! What a node says: what to do in a slot, what came of it, what was counted.

use alloc::vec::Vec;

use super::super::{ExtendedAddress, FrameType};
use super::Ticket;

/// What a node counted besides its [`Security`](super::super::Security).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounters {
    /// frames sent, retransmissions included
    pub sent: u64,
    /// frames that were acknowledged
    pub acknowledged: u64,
    /// frames given up
    pub given_up: u64,
    /// frames delivered
    pub delivered: u64,
    /// frames received again because their acknowledgment was lost, acknowledged again and not delivered
    pub duplicates: u64,
    /// genuine frames that were for somebody else
    pub not_ours: u64,
    /// genuine acknowledgments that did not fit what was sent
    pub foreign_acks: u64,
    /// security operations that were prepared: sec1 to sec4
    pub prepared: [u64; 4],
    /// security operations that were not
    pub unprepared: [u64; 4],
    /// preparations that their slot did not need, wiped
    pub wiped: u64,
}

/// What to do in a slot.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// nothing
    Sleep,
    /// send, then listen for an acknowledgment if `ack`
    Transmit {
        /// on this channel
        channel: u8,
        /// so many microseconds after the slot began
        at: u32,
        /// these octets, and their FCS
        frame: &'a [u8],
        /// an acknowledgment is expected
        ack: bool,
    },
    /// listen
    Listen {
        /// on this channel
        channel: u8,
        /// from so many microseconds after the slot began
        from: u32,
        /// until so many, if nothing begins
        until: u32,
    },
}

/// A frame for the layer above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// who sent it
    pub from: Option<ExtendedAddress>,
    /// what it is
    pub frame_type: FrameType,
    /// its MAC payload
    pub payload: Vec<u8>,
}

/// What a received frame leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// for the layer above, unless it came before or is for somebody else
    pub delivered: Option<Delivered>,
    /// an acknowledgment lies ready ([`Node::ack`](super::Node::ack)), to be sent TsTxAckDelay after the frame's end
    pub ack: bool,
}

/// What the radio heard in a slot in which we sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// a frame, without its FCS
    Frame(&'a [u8]),
    /// nothing
    Silence,
}

/// What became of a frame that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// it is done; the clock is off by so many microseconds
    Acknowledged(Ticket, i16),
    /// it goes to everybody, who do not acknowledge
    Sent(Ticket),
    /// it is sent again
    Again(Ticket),
    /// it was sent as often as it may be
    GivenUp(Ticket),
    /// nothing was sent
    Nothing,
}
