//! What a daemon of this project denies itself, so that an attacker who comes near it finds little.
//!
//! - [`Heap`]: a global allocator whose memory is locked, left out of dumps and wiped when freed
//! - [`stack`]: wipes what a computation with secrets left on the stack
//! - [`memory`]: no dumps, no debugger, no swap

pub mod memory;
pub mod stack;
mod sys;

pub use sys::heap::Heap;
