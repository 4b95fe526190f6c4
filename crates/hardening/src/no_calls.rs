//! CPUs for which there is no filter of system calls.

use std::io;

/// Not on this CPU.
pub(crate) fn daemon() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not on this CPU.
pub(crate) fn frames() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
