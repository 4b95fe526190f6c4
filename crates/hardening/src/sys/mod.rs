//! System calls, and the only `unsafe` of this crate.
#![allow(unsafe_code, reason = "an allocator and system calls; each block states its argument")]

pub(crate) mod files;
pub(crate) mod heap;
pub(crate) mod process;
pub(crate) mod rights;

use std::io;

/// Turns the -1 of a system call into its error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
