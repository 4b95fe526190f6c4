//! The slots of TSCH (IEEE 802.15.4-2015 clauses 6.2.6 and 6.5.4), with link-layer security done before each of them.
//!
//! A [`Node`] is driven by whoever has the radio and the clock: [`Node::begin`] at the start of a slot says what to do in it,
//! [`Node::received`] and [`Node::acknowledged`] take what the radio heard, [`Node::end`] closes it, and
//! [`Node::idle`] prepares in the time between. Four security operations lie in a slot (sciancalepore2016 section 3.3):
//!
//! | | who | what | before the slot |
//! | --- | --- | --- | --- |
//! | sec1 | sender | secures the frame | all but its late octets |
//! | sec2 | receiver | unsecures it | cipherstream, S0, the MAC over the predicted header |
//! | sec3 | receiver | secures the acknowledgment | all but the time correction |
//! | sec4 | sender | unsecures it | all but the time correction |
//!
//! The paper holds that sec1 cannot be computed ahead, because the nonce contains the slot number. But the [`Schedule`] says
//! which cell comes next, and so its number.

mod ahead;
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
pub use prepare::PREPARATION_LEN;
pub use queue::{QueueError, Ticket};
pub use report::{Action, Delivered, Heard, NodeCounters, Outcome, Reaction};
pub use schedule::{Cell, CellKind, Schedule, ScheduleError, Slotframe};
pub use timing::Timeslot;
