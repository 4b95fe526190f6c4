//! The memory of a process with secrets: nobody attaches to it, it leaves no dump, and it stays out
//! of the swap.

use std::io;

use crate::sys::{heap, process};

/// The memory that the system lets a process keep out of the swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// All, now and later: heap, stacks, rings and code.
    All,
    /// The heap, as far as it goes now.
    Heap,
    /// Not even the whole heap: these octets of it may reach the swap.
    Lacking(usize),
}

/// Closes the memory of this process: no dump, no debugger without `CAP_SYS_PTRACE`, and nothing in
/// the swap, as far as the limit on locked memory permits. To be called before keys are read and
/// threads started.
///
/// # Errors
/// When the kernel refuses what every process may do.
pub fn close() -> io::Result<Locked> {
    process::forbid_dumps()?;
    Ok(if process::lock_all() { Locked::All } else { held() })
}

/// Locks all present memory and brings it in, so that no page fault delays a frame. To be called
/// when everything is set up.
///
/// # Errors
/// Without `CAP_IPC_LOCK` above the limit on locked memory.
pub fn settle() -> io::Result<()> {
    process::lock_present()
}

/// Whether all of the heap is locked at this moment, without regard to the rest of the memory.
#[must_use]
pub fn held() -> Locked {
    match heap::unlocked() {
        0 => Locked::Heap,
        octets => Locked::Lacking(octets),
    }
}
