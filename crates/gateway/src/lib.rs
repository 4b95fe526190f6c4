//! The Linux daemon: ports, policy, forwarding, idle-time preparation.

pub mod config;
pub mod control;
mod document;
pub mod fault;
pub mod keys;
pub mod ledger;
pub mod names;
pub mod state;
pub mod status;
pub mod sys;
pub mod counters;
pub mod gate;
pub mod mailbox;
pub mod offload;
pub mod poll;
pub mod path;
pub mod report;
pub mod setup;
pub mod daemon;
pub mod worker;
