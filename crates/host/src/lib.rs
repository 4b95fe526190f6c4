//! The base of every daemon, independent of bearer and protocol.
//!
//! - [`fault`]: faults of a file or a machine, with remedies
//! - [`document`]: TOML files, with all their faults
//! - [`private_file`]: files with secrets
//! - [`hex`]: hexadecimal digits
//! - [`replace`]: atomic replacement and locking of files
//! - [`hangup`]: the request to read a file again
//! - [`numbers`]: nonce numbers that survive a restart, a crash and a power cut
//! - [`clock`]: a clock that goes on during suspension
//! - [`process`]: the user of this process
//! - [`agent`]: a second user whose files count
//! - `control`: the control socket (feature `control`)
//! - `notify`: messages to a service manager (feature `notify`)
//! - [`helper`]: threads beside the one with a deadline
//! - `signals`, `log`: SIGTERM, SIGINT, and log lines on standard error (feature `daemon`)

#![forbid(unsafe_code)]

pub mod agent;
pub mod clock;
#[cfg(feature = "control")]
pub mod control;
pub mod document;
pub mod fault;
pub mod generation;
pub mod hangup;
pub mod helper;
pub mod hex;
#[cfg(feature = "daemon")]
pub mod log;
#[cfg(feature = "notify")]
pub mod notify;
pub mod numbers;
pub mod private_file;
pub mod process;
pub mod replace;
#[cfg(feature = "daemon")]
pub mod signals;
