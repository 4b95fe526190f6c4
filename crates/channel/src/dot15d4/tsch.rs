//! The slots of TSCH (IEEE 802.15.4-2015 clauses 6.2.6 and 6.5.4), with link-layer security
//! computed before each slot.
//!
//! The owner of the radio and the clock drives a [`Node`]: [`Node::begin`] returns the action at
//! the start of a slot, [`Node::received`] and [`Node::acknowledged`] take frames from the radio,
//! [`Node::end`] closes the slot, and [`Node::idle`] prepares between slots. A slot has four
//! security operations (sciancalepore2016 section 3.3):
//!
//! | | at | operation | before the slot |
//! | --- | --- | --- | --- |
//! | sec1 | sender | secures the frame | all but its late octets |
//! | sec2 | receiver | unsecures it | key stream, S0, the MAC over the predicted header |
//! | sec3 | receiver | secures the acknowledgment | all but the time correction |
//! | sec4 | sender | unsecures it | all but the time correction |
//!
//! The paper states that sec1 cannot be computed ahead, because the nonce contains the slot number.
//! But the [`Schedule`] determines the next cell, and so its number.

mod ahead;
mod habits;
mod headers;
mod node;
mod prepare;
mod queue;
mod receive;
mod report;
mod schedule;
mod timing;
mod transmit;

#[cfg(test)]
mod tests;

pub use node::{Node, NodeConfig};
#[cfg(test)]
pub(super) use prepare::preparation_len;
pub use queue::{Outgoing, QueueError};
pub use report::{Action, Delivered, Heard, NodeCounters, Outcome, Reaction, Ticket};
pub use schedule::{Cell, CellKind, Schedule, ScheduleError, Slotframe};
pub use timing::Timeslot;
