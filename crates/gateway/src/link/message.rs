//! Messages of other threads to a forwarding thread, and its state that they read without a
//! message.

use std::sync::Arc;
use std::sync::mpsc::Sender as Answer;

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::{
    An, FlowShape, ReadyReceive, ReadyTransmit, ReceiveInstallError, Retired, Sci, SwitchError,
    TransmitInstallError,
};

use super::express::Selector;
use super::snapshot::Snapshot;
use crate::frames::delivery::Delivery;
use crate::frames::gate::Gate;
use crate::run::counters::Counter;
use crate::run::governor::Mode;
use crate::sys::age::Bounds;
use crate::sys::lanes::Lanes;
use crate::sys::sender::{Carries, Sender};
use crate::sys::xdp::Xdp;

/// The two ports of one direction.
#[derive(Debug)]
pub struct Ports<To> {
    /// The receiving port.
    pub from: Lanes,
    /// The sending port.
    pub to: To,
    /// The MTU of the sending port.
    pub mtu: usize,
}

/// The reason for not installing a prepared key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The receive channel refused it.
    #[error(transparent)]
    Receive(#[from] ReceiveInstallError),
    /// The transmit channel refused it.
    #[error(transparent)]
    Transmit(#[from] TransmitInstallError),
    /// The transmit channel cannot protect with it.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

/// Settings that change between two frames. The thread returns those that it had, so that it frees
/// nothing.
#[derive(Debug)]
pub struct Change {
    /// The policy.
    pub gate: Arc<Gate>,
    /// The ages from which on frames are dropped.
    pub max_age: Bounds,
    /// How the thread waits.
    pub mode: Mode,
    /// The shapes of flows with tables, if they change.
    pub flows: Option<Vec<FlowShape>>,
    /// The frames of the express channel, and the rate of the others in Mbit/s, if they change.
    pub express: Option<(Box<Selector>, u64)>,
}

/// A message to a forwarding thread.
#[derive(Debug)]
pub enum Message {
    /// Take over other settings. The answer returns the replaced ones.
    Change(Box<Change>, Answer<Box<Change>>),
    /// Packet numbers below `limit` are reserved on disk.
    Reserve {
        /// The association.
        an: An,
        /// The first number that is not reserved.
        limit: u64,
    },
    /// Protect with another association.
    Switch(An, Answer<Result<(), SwitchError>>),
    /// Send a snapshot of the state.
    Snapshot(Answer<Snapshot>),
    /// Send long frames in fragments, or not at all.
    SendFragments(Option<Marks>),
    /// Accept fragments from a peer, or no longer.
    TakeFragments(Sci, Option<Marks>),
    /// Receive from a member with a prepared key. Adds a new member. The answer returns the
    /// replaced key.
    InstallReceive(Box<ReadyReceive>, Answer<Result<Retired, InstallError>>),
    /// Protect with prepared keys from the next frame on: first the ordinary channel's, then the
    /// express one's. The answer returns the replaced keys.
    InstallTransmit(Vec<ReadyTransmit>, Answer<Result<Retired, InstallError>>),
    /// Accept no lower packet number on this channel.
    Lowest(Sci, An, u64),
    /// Remove the keys of this association. The answer returns them.
    RemoveSa(An, Answer<Retired>),
    /// Remove this peer. The answer returns its keys.
    ForgetPeer(Sci, Answer<Retired>),
    /// Send bulk at this rate in Mbit/s.
    Rate(u64),
    /// Send this frame to the machines as it is.
    ToField(Vec<u8>),
    /// The same with a hello of a gateway that stands by.
    HelloToField(Vec<u8>),
    /// Protect and send such a hello.
    Hello(Vec<u8>),
    /// Protect and send this echo, whole, whatever the path MTU.
    Echo(Vec<u8>),
    /// The same by one of two uplinks.
    HelloBy(Carries, Vec<u8>),
    /// Send frames of machines by these uplinks.
    CarryBy(Carries),
    /// The path carries this MTU, or that of the uplink.
    PathMtu(Option<usize>),
    /// Use these ports: the interface was replaced.
    Outbound(Ports<Sender>),
    /// As [`Self::Outbound`], for the other direction.
    Inbound(Ports<Delivery>),
    /// Send to the uplink by this socket too; whether both stay in order.
    OutboundXdp(Box<Xdp>, bool),
    /// The same to the machines.
    InboundXdp(Box<Xdp>, bool),
    /// Stop forwarding and end.
    Stop,
}

impl Message {
    /// Whether keys come, go or are exchanged.
    #[must_use]
    pub const fn changes_keys(&self) -> bool {
        use Message::{ForgetPeer, InstallReceive, InstallTransmit, RemoveSa, Switch};
        matches!(self, ForgetPeer(..) | InstallReceive(..) | InstallTransmit(..) | RemoveSa(..) | Switch(..))
    }
}

/// The state of a thread that others read without a message.
#[derive(Debug, Default)]
pub struct Shown {
    /// The encoding association plus one; 0 for none.
    pub encoding: Counter,
    /// Its next packet number in the ordinary channel.
    pub usual_pn: Counter,
    /// The same in the express channel; 0 without one.
    pub express_pn: Counter,
    /// The time until which frames may be opened, see [`super::vouch`]; 0: at any time.
    pub vouched: Counter,
}

impl Shown {
    /// The higher of the next packet numbers.
    #[must_use]
    pub fn next_pn(&self) -> u64 {
        self.usual_pn.get().max(self.express_pn.get())
    }
}
