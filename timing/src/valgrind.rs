//! Requests to valgrind's memcheck (valgrind.h and memcheck.h, version 3.19). A crate for them
//! needs libclang for five instructions.
#![allow(unsafe_code, reason = "the instructions that valgrind recognises")]

use std::arch::asm;

const RUNNING_ON_VALGRIND: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;
const MAKE_MEM_UNDEFINED: usize = 0x4d43_0001;
const MAKE_MEM_DEFINED: usize = 0x4d43_0002;

/// Whether valgrind runs this program.
pub(crate) fn is_running() -> bool {
    request(RUNNING_ON_VALGRIND, 0, 0) > 0
}

/// Errors so far.
pub(crate) fn errors() -> usize {
    request(COUNT_ERRORS, 0, 0)
}

/// Marks these bytes as secret.
pub(crate) fn hide(bytes: &[u8]) {
    request(MAKE_MEM_UNDEFINED, bytes.as_ptr().addr(), bytes.len());
}

/// Marks these bytes as public.
pub(crate) fn publish(bytes: &[u8]) {
    request(MAKE_MEM_DEFINED, bytes.as_ptr().addr(), bytes.len());
}

/// The answer of valgrind; 0 without it.
#[inline(never)]
fn request(code: usize, address: usize, length: usize) -> usize {
    let arguments = [code, address, length, 0, 0, 0];
    let mut answer = 0_usize;
    // SAFETY: the rotations are 128 bits together, so that the register is as before. Without
    // valgrind nothing else happens; valgrind reads the arguments and writes the answer.
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") &raw const arguments, inout("rdx") answer, options(nostack),
        );
    }
    answer
}
