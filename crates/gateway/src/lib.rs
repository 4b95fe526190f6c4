//! The Linux daemon: ports, policy, forwarding, idle-time preparation.

mod cipher_suite;
pub mod config;
mod document;
pub mod fault;
pub mod keys;
pub mod names;
pub mod state;
pub mod sys;
