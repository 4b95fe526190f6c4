//! The common parts of `xtask` and `xtask-peers`.
//!
//! [`shell`] runs programs with a time bound, [`report`] times steps and prints their table,
//! [`sandbox`] gives a private network, [`setup`] installs Debian packages, [`cross`] compiles for
//! other CPUs, [`package`] packs the program, [`peers`] lists the peers of `cargo xtask test`,
//! [`mote`] builds for CPUs without an operating system, [`commands`] finds the commands of the
//! documents.

pub mod commands;
pub mod cross;
pub mod mote;
pub mod package;
pub mod peers;
pub mod report;
pub mod sandbox;
pub mod setup;
pub mod shell;

use std::process::ExitCode;

/// Runs a command with signals caught. Exit status: 0 passed, 1 failed, 2 could not run.
pub fn run(command: impl FnOnce() -> Result<bool, String>) -> ExitCode {
    if let Err(message) = shell::end_with_signals() {
        eprintln!("xtask: {message}");
    }
    match command() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}
