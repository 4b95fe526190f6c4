//! Linux interfaces: the only `unsafe` code of this crate.
//!
//! | file | contents |
//! | --- | --- |
//! | [`clock`] | `CLOCK_MONOTONIC`, absolute sleep |
//! | [`packet`] | raw `AF_PACKET` sockets with VLAN and checksum metadata |
//! | [`sched`] | affinity, `SCHED_FIFO`, `mlockall`, timer slack |
//! | [`process`] | a child in a network namespace that dies with its parent |
//! | [`signal`] | SIGINT and SIGTERM as a flag for loops |
//! | [`terminal`] | its size, single keys |
//! | [`ticks`] | the CPU's time stamp counter, between fences |
//! | [`namespace`] | entering network namespaces, a user namespace without root |
#![allow(unsafe_code, reason = "the system calls of the lab are here and nowhere else")]

pub mod clock;
pub mod namespace;
pub mod packet;
pub mod process;
pub mod sched;
pub mod signal;
pub mod terminal;
pub mod ticks;

/// Converts a C return value to a `Result` with `errno`.
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
