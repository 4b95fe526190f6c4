//! The C interface of the engine. `include/` has the interface for C; the tests check it against this
//! code.
//!
//! All memory is the caller's, and nothing is allocated, but for MQTT. A context is opaque words in
//! C. Here it is a `Context` inside these words: a mark, its address, and the line of one suite (key,
//! slot, packet in preparation). Misuse by C (a packet sealed twice, a moved context, a header of
//! another build) is detected and returned as a [`Code`]. Invalid pointers cannot be detected; the
//! header says so.
//!
//! | file | contents |
//! | --- | --- |
//! | `calls` | the functions of the header, with all checks of their arguments |
//! | `context` | the context in the caller's words, and the suite in the context |
//! | `arguments` | slices from pointers, templates and fronts from structs |
//! | `line` | the operations of a suite, for the sending and the receiving side |
//! | `sparse`, `serial` | the same, with holes anywhere and with static data at the front |
//! | `dot15d4` | frames of IEEE 802.15.4, with a key and slots of their own |
//! | `dtls` | records of DTLS 1.2 around a sealer or an opener |
//! | `mqtt` | payloads of MQTT with groups and state, which allocates |
//! | `engine` | the suites, and a chip's AES engine below those of CCM |
//! | `numbers` | nonces from the caller's numbers |
//! | `process` | the check of a child process |
//!
//! Build the library for C with `cargo xtask capi`, or with `cargo rustc --release --package
//! antedate-capi --crate-type staticlib`. The environment variable `ANTEDATE_CAPACITY` (a multiple
//! of 64) sets the bytes that a context prepares. C is compiled with the same value, which the
//! header of `cargo xtask capi` has.
#![no_std]
#![cfg_attr(
    not(all(
        feature = "aegis",
        feature = "ascon",
        feature = "ccm",
        feature = "chacha20-poly1305",
        feature = "gcm",
        feature = "ocb3"
    )),
    allow(
        dead_code,
        unused_variables,
        unreachable_code,
        reason = "a build with few suites leaves parts of the others unused"
    )
)]

#[cfg(feature = "std")]
extern crate std;

mod arguments;
mod calls;
mod code;
mod context;
#[cfg(feature = "dot15d4")]
mod dot15d4;
#[cfg(feature = "dtls")]
mod dtls;
mod engine;
mod line;
#[cfg(feature = "mqtt")]
mod mqtt;
mod numbers;
mod process;
#[cfg(feature = "serial")]
mod serial;
#[cfg(feature = "sparse")]
mod sparse;
mod suites;

pub use arguments::{Bytes, Front, Hole, Template};
pub use calls::*;
pub use code::Code;
pub use context::{OPENER_BYTES, SEALER_BYTES};
#[cfg(feature = "dot15d4")]
pub use dot15d4::*;
#[cfg(feature = "dtls")]
pub use dtls::*;
pub use engine::Encrypt;
#[cfg(feature = "mqtt")]
pub use mqtt::*;

/// Bytes of payload that a context prepares. A longer packet is sealed the ordinary way.
pub const CAPACITY: usize = match option_env!("ANTEDATE_CAPACITY") {
    Some(text) => number(text),
    None => 1536,
};

/// Default bytes of a sealer or an opener in the header; at least the size that the code needs.
pub const CONTEXT_BYTES: usize = CAPACITY + if cfg!(target_arch = "x86_64") { 6656 } else { 3072 };
#[cfg(feature = "mqtt")]
const _: () = assert!(size_of::<MqttOpened>() == 96 && MQTT_OVERHEAD == 256, "see antedate_mqtt.h");
const _: () = assert!(SEALER_BYTES <= CONTEXT_BYTES && OPENER_BYTES <= CONTEXT_BYTES);
#[cfg(feature = "dot15d4")]
const _: () = assert!(DOT15D4_KEY_BYTES <= 2048 && DOT15D4_SLOT_BYTES <= 512, "see antedate_dot15d4.h");

/// Sizes of this build as text. `cargo xtask capi` reads it from the library, to write a header with
/// contexts of exactly these sizes; 0 for one that the build lacks. A program leaves it out.
#[allow(unsafe_code, reason = "a name for the linker")]
#[unsafe(no_mangle)]
pub static ANTEDATE_BUILD: [u8; 106] = {
    let mut text = *b"antedate build: capacity 000000, sealer 000000, opener 000000, \
        frame key 000000, frame slot 000000 bytes \n";
    decimal(&mut text, 25, CAPACITY);
    decimal(&mut text, 40, SEALER_BYTES);
    decimal(&mut text, 55, OPENER_BYTES);
    #[cfg(feature = "dot15d4")]
    {
        decimal(&mut text, 73, DOT15D4_KEY_BYTES);
        decimal(&mut text, 92, DOT15D4_SLOT_BYTES);
    }
    text
};

/// Writes six digits.
const fn decimal(text: &mut [u8; 106], at: usize, number: usize) {
    let (mut rest, mut digit) = (number, 6);
    while digit > 0 {
        digit -= 1;
        text[at + digit] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    assert!(rest == 0, "a context has less than a million bytes");
}

/// The most holes of a template, and the most 16-byte blocks that its holes touch.
pub const BLOCKS: usize = 8;

/// The most lengths of a front.
pub const LENGTHS: usize = 4;

/// The longest payload: the limit of CCM's shortest counter.
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

/// No input causes a panic. A program that must do more than stop links this crate from Rust.
#[cfg(all(not(feature = "std"), target_os = "none"))]
#[panic_handler]
fn stop(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
