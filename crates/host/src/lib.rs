//! The ground floor of every daemon: parts that know no bearer and no protocol.
//!
//! - [`fault`]: what is wrong with a file or a machine, where, and the remedy
//! - [`document`]: TOML files, read to the end with all their faults
//! - [`private_file`]: files with secrets
//! - [`hex`]: hexadecimal digits
//! - [`replace`]: files that are replaced as a whole, by one process at a time
//! - [`numbers`]: nonces' numbers that survive a restart, a crash and a power cut
//! - [`process`]: the user that this process runs as
//! - `control`: the control socket (feature `control`)
//! - `signals`, `log`: SIGTERM, SIGINT, and log lines on standard error (feature `daemon`)

#![forbid(unsafe_code)]

#[cfg(feature = "control")]
pub mod control;
pub mod document;
pub mod fault;
pub mod hex;
#[cfg(feature = "daemon")]
pub mod log;
pub mod numbers;
pub mod private_file;
pub mod process;
pub mod replace;
#[cfg(feature = "daemon")]
pub mod signals;
