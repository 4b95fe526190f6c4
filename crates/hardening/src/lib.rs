//! What a daemon of this project denies itself, so that an attacker who comes near it finds little.
//!
//! - [`Heap`]: a global allocator whose memory is locked, left out of dumps and wiped when freed
//! - [`stack`]: wipes what a computation with secrets left on the stack
//! - [`memory`]: no dumps, no debugger, no swap
//! - [`confine`]: no privileges, files and system calls beyond those needed
//! - [`files`]: the bound of open files, before that

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "no_calls.rs"]
mod calls;
pub mod confine;
pub mod files;
pub mod memory;
pub mod stack;
mod sys;

pub use sys::heap::Heap;
