//! Requests of other threads to a forwarding thread, and its state that they see without asking.

use std::sync::mpsc::Sender as Answer;

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::{An, ReadyReceive, ReadyTransmit, Retired, Sci, SwitchError};

use super::snapshot::Snapshot;
use crate::run::counters::Counter;
use crate::sys::packet::{Receiver, Sender};

/// The two ends of one direction.
#[derive(Debug)]
pub struct Ports {
    /// Where frames come from.
    pub from: Receiver,
    /// Where they leave.
    pub to: Sender,
    /// The MTU of the port where they leave.
    pub mtu: usize,
}

/// What the other threads ask of a forwarding thread.
#[derive(Debug)]
pub enum Letter {
    /// Packet numbers below `limit` are reserved on disk now.
    Reserve {
        /// The association.
        an: An,
        /// The first number that is not reserved.
        limit: u64,
    },
    /// Protect with another association from now on.
    Switch(An, Answer<Result<(), SwitchError>>),
    /// Tell the state of all there is.
    Snapshot(Answer<Snapshot>),
    /// Send frames in fragments from now on, where all receivers take them, or not at all.
    SendFragments(Option<Marks>),
    /// Take fragments from a peer that announced them, or not any more.
    TakeFragments(Sci, Option<Marks>),
    /// Receive from a member with a key that was made ready; a member that is new is added. What the key replaces comes back.
    InstallReceive(Box<ReadyReceive>, Answer<Result<Retired, String>>),
    /// Protect with keys that were made ready from the next frame on: the channel that all use comes first, the express one
    /// second. What they replace comes back.
    InstallTransmit(Vec<ReadyTransmit>, Answer<Result<Retired, String>>),
    /// Receive nothing below this packet number on this channel any more, for it is late.
    Lowest(Sci, An, u64),
    /// Neither receive nor protect with the keys of this association any more. They come back.
    RemoveSa(An, Answer<Retired>),
    /// Receive nothing from this channel any more. Its keys come back.
    ForgetPeer(Sci, Answer<Retired>),
    /// Send bulk at so many Mbit/s from now on.
    Rate(u64),
    /// Use these ports from now on, for the interface was replaced.
    Outbound(Ports),
    /// As [`Self::Outbound`], for the other direction.
    Inbound(Ports),
    /// Send no more and end.
    Stop,
}

/// What a thread shows to all others at any time, without being asked.
#[derive(Debug, Default)]
pub struct Shown {
    /// The association that protects, plus one; 0 when nothing does.
    pub encoding: Counter,
    /// Its next packet number, in the channel that all use.
    pub usual_pn: Counter,
    /// The same in the express channel; 0 when there is none.
    pub express_pn: Counter,
}

impl Shown {
    /// The higher one of the next packet numbers.
    #[must_use]
    pub fn next_pn(&self) -> u64 {
        self.usual_pn.get().max(self.express_pn.get())
    }
}
