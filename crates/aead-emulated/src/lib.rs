//! The engine's x86-64 kernels on an emulated CPU, so that every machine executes all of them.
//!
//! `build.rs` copies the sources of `antedate-aead` and changes three things in the copy:
//!
//! 1. `core::arch` becomes [`emulated`]: the intrinsics beyond SSE2 in plain Rust, a CPUID that
//!    reports the emulated CPU, and an `asm!` that accepts the kernels' assembly alone.
//! 2. `#[target_feature]` enables SSE2 alone, because the machine may lack the rest.
//! 3. The kernel below each of them begins with a note that it ran.
//!
//! The unit tests and the integration tests of `antedate-aead` run on the copy. The tests of
//! [`emulated`] compare each intrinsic with the real instruction where the machine has it. The
//! compiler's choice of instructions for the release build is not judged here.
//!
//! `ANTEDATE_EMULATED_CPU` names the emulated CPU. `ANTEDATE_KERNELS` names a file that gets a line
//! for each kernel and for each one that ran; `cargo xtask test --only backends` reads it.
#![cfg(target_arch = "x86_64")]
#![no_std]
#![allow(unsafe_code, reason = "that of the engine's backends")]
#![allow(
    dead_code,
    missing_docs,
    unused_imports,
    unused_macro_rules,
    unused_mut,
    unused_unsafe,
    unused_variables,
    unreachable_pub,
    clippy::all,
    reason = "the original is linted; without `target_feature` and assembly parts of it have no use"
)]
#![allow(unexpected_cfgs, reason = "features for CPUs that are not x86-64")]

extern crate std;

mod emulated;

include!(concat!(env!("OUT_DIR"), "/src/root.rs"));
