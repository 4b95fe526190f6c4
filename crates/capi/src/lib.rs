//! The C interface of the engine: `include/antedate.h` says what C sees and is checked against this code by the tests.
//!
//! All memory is the caller's, nothing is allocated. A context is opaque words in C; here it is a `Context` inside
//! them: who it is, where it is, and the line of one suite (key, slot, packet in preparation). What C does wrong (a
//! packet sealed twice, a context that was moved, a header of another build) is found and returned as a [`Code`]; what
//! cannot be found is said in the header: pointers that point nowhere.
//!
//! | file | what it is |
//! | --- | --- |
//! | `calls` | the functions of the header, with all checks of their arguments |
//! | `context` | finds the context in the caller's words, and the suite in the context |
//! | `arguments` | slices from pointers, templates and fronts from structs |
//! | `line` | what every suite can do, for the sending and the receiving side |
//! | `sparse`, `serial` | that for suites with holes anywhere, and for those with the static data in front |
//! | `numbers` | nonces from numbers that the caller gives |
//!
//! To build the library for C: `cargo rustc --release --package antedate-capi --crate-type staticlib`. How many bytes a
//! context prepares is chosen by the environment variable `ANTEDATE_CAPACITY` then (a multiple of 64), and C is
//! compiled with the same.
#![no_std]
// A build for few suites leaves parts unused that the others need.
#![cfg_attr(
    not(all(
        feature = "aegis",
        feature = "ascon",
        feature = "ccm",
        feature = "chacha20-poly1305",
        feature = "gcm",
        feature = "ocb3"
    )),
    allow(dead_code, unused_variables, unreachable_code)
)]

#[cfg(feature = "std")]
extern crate std;

mod arguments;
mod calls;
mod code;
mod context;
mod line;
mod numbers;
#[cfg(any(feature = "aegis", feature = "ascon", feature = "ccm"))]
mod serial;
#[cfg(any(feature = "chacha20-poly1305", feature = "gcm", feature = "ocb3"))]
mod sparse;
mod suites;

pub use arguments::{Bytes, Front, Hole, Template};
pub use calls::*;
pub use code::Code;
pub use context::{OPENER_BYTES, SEALER_BYTES};

/// Bytes of payload that a context prepares; a longer packet goes the ordinary way.
pub const CAPACITY: usize = match option_env!("ANTEDATE_CAPACITY") {
    Some(text) => number(text),
    None => 1536,
};

/// Bytes that the header gives to a sealer or an opener unless it is told otherwise; what the code needs is not more.
pub const CONTEXT_BYTES: usize = CAPACITY + if cfg!(target_arch = "x86_64") { 6656 } else { 3072 };
const _: () = assert!(SEALER_BYTES <= CONTEXT_BYTES && OPENER_BYTES <= CONTEXT_BYTES);

/// 16-byte blocks that the holes of a template may touch, and holes.
pub const BLOCKS: usize = 8;

/// Lengths that a front may name.
pub const LENGTHS: usize = 4;

/// The longest payload, as the shortest counter of CCM allows it.
pub const PAYLOAD_MAX: usize = 65_535;

/// The code of the book's chapter for firmware engineers, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/firmware-engineers.md")]
struct Chapter;

const fn number(text: &str) -> usize {
    let (mut value, mut at) = (0, 0);
    while at < text.len() {
        let digit = text.as_bytes()[at];
        assert!(digit.is_ascii_digit(), "ANTEDATE_CAPACITY is a number of bytes");
        value = value * 10 + (digit - b'0') as usize;
        at += 1;
    }
    assert!(value > 0 && value.is_multiple_of(64), "ANTEDATE_CAPACITY is a multiple of 64");
    value
}

/// No input leads here. Whoever wants more than to stop links this crate from Rust.
#[cfg(all(not(feature = "std"), target_os = "none"))]
#[panic_handler]
fn stop(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
