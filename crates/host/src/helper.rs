//! Threads beside the one with a deadline.

use std::thread::Builder;

/// Octets of their stacks. Daemons lock their memory, so each octet of a stack is resident.
const STACK: usize = 512 << 10;

/// A thread with this name, and less stack than usual.
pub fn thread(name: &str) -> Builder {
    Builder::new().name(name.into()).stack_size(STACK)
}
