//! The border to the Linux kernel: the only place of this crate with `unsafe`.
//!
//! | file | what it wraps |
//! | --- | --- |
//! | [`clock`] | `CLOCK_MONOTONIC`, absolute sleeping |
//! | [`packet`] | raw `AF_PACKET` sockets with VLAN and checksum metadata |
//! | [`sched`] | affinity, `SCHED_FIFO`, `mlockall`, timer slack |
//! | [`process`] | a child in a network namespace that dies with its parent |
//! | [`signal`] | SIGINT and SIGTERM as a flag that loops look at |
//! | [`ticks`] | the CPU's own counter, between fences |
//! | [`namespace`] | entering network namespaces, a user namespace without root |
#![allow(unsafe_code)]

pub mod clock;
pub mod namespace;
pub mod packet;
pub mod process;
pub mod sched;
pub mod signal;
pub mod ticks;

/// Turns a C return value into the `errno` it stands for.
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
