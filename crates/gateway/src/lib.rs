//! The gateway: a Linux daemon between machines that cannot encrypt and a network that cannot be trusted.
//!
//! A frame's way, from top to bottom:
//!
//! - [`sys`]: the ports, as AF_PACKET rings; all that is asked of Linux
//! - `duty`: what any forwarding thread does over and over: take, forward, prepare, rest
//! - [`worker`]: the forwarding thread of a pair of gateways
//! - [`path`]: what happens to a frame between its two ports
//! - [`offload`]: finishing what the sender's stack left to the hardware
//! - [`joiner`], [`delivery`]: joining again what need not be apart; a port that frames are given to
//! - [`gate`]: the policy: what passes
//! - [`express`]: frames that do not wait behind others
//! - [`overlay`]: all of that where the uplink is a tunnel: VXLAN in WireGuard
//! - [`poll`]: when to poll and when to sleep
//! - `rhythm`: when the next frame of a cyclic flow is due
//! - [`counters`], [`mailbox`]: how the other threads see and reach the forwarding thread without stopping it
//!
//! What runs beside it, and never on the forwarding thread:
//!
//! - [`daemon`]: the steward, who starts, looks after and stops the rest; [`setup`]: from a configuration to the parts
//! - [`ledger`], [`state`]: packet numbers, reserved on disk ahead of use
//! - [`agreement`]: MACsec Key Agreement with the other gateways; [`fastest`]: which cipher suite it would rather have
//! - [`control`], [`report`], [`status`]: what `antedate gateway status` asks and gets
//!
//! And before all of that:
//!
//! - [`config`], [`keys`], [`tunnel_keys`]: the files, with all their faults at once ([`fault`]); [`private_file`]: secrets on disk; [`names`]: how addresses and keys are written

pub mod agreement;
pub mod config;
pub mod control;
pub mod counters;
pub mod daemon;
pub mod delivery;
pub mod document;
mod duty;
pub mod express;
pub mod fastest;
pub mod fault;
pub mod gate;
pub mod joiner;
pub mod keys;
pub mod ledger;
pub mod mailbox;
pub mod names;
pub mod offload;
pub mod overlay;
pub mod path;
pub mod poll;
pub mod private_file;
pub mod report;
mod rhythm;
pub mod setup;
pub mod state;
pub mod status;
pub mod sys;
pub mod tunnel_keys;
pub mod worker;
