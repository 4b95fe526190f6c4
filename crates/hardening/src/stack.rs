//! The stack below a computation with secrets.

use std::hint::black_box;

/// Octets that one call wipes: several times the pools of a MACsec association, the largest thing
/// with keys that is built on the stack.
pub const WIPED: usize = 192 << 10;

/// Overwrites the calling thread's stack below the caller with zeros. What a finished call left
/// there, such as an expanded key that was moved to the heap, is gone. Costs some microseconds.
#[inline(never)]
pub fn wipe() {
    let mut below = [0_u8; WIPED];
    black_box(&mut below);
}

/// As [`wipe`], for a thread whose frames wait: less, and in a fraction of a microsecond. Enough
/// below the loop of a forwarding thread, which expands no key.
#[inline(never)]
pub fn wipe_some() {
    let mut below = [0_u8; WIPED / 12];
    black_box(&mut below);
}

/// Runs a computation with secrets, and wipes what it left on the stack.
pub fn wiped<T>(compute: impl FnOnce() -> T) -> T {
    // A frame of its own, which has ended when the stack is wiped.
    #[inline(never)]
    fn call<T>(compute: impl FnOnce() -> T) -> T {
        compute()
    }
    let done = call(compute);
    wipe();
    done
}
