//! The motes' programs and measurements, independent of their CPU.
//!
//! [`measure_ccm`] and [`measure_chacha`] check known answers, then print a line for each
//! measurement: a name, and a number in the mote's counting unit. [`smallest`] is a sensor that
//! only seals packets; the size of its image is the size of the code.
#![no_std]

#[cfg(feature = "node")]
extern crate alloc;

mod answers;
mod ascon;
mod ccm;
mod chacha;
pub mod client;
mod ctr;
mod dtls;
#[cfg(feature = "node")]
mod heap;
mod interface;
mod link;
mod mqtt;
pub mod node;
mod scenarios;
mod schedule;
mod slots;
pub mod smallest;
mod traces;
#[cfg(feature = "node")]
pub mod tsch;
mod vectors;

pub use dtls::measure_dtls;
pub use interface::measure_interface;
pub use link::measure_link;
pub use mqtt::{Protects, measure_mqtt, measure_mqtt_bare, measure_mqtt_ccm};
pub use scenarios::{Holes, measure_holes, measure_scenarios};
pub use schedule::measure_schedule;
pub use slots::measure_slots;
pub use traces::measure_traces;

use antedate_aead::{BlockCipher, Nonce, NonceSequence};
use core::convert::Infallible;

/// A mote's services for programs.
pub trait Mote {
    /// Prints.
    fn print(text: &str);
    /// Starts a measurement.
    fn begin();
    /// Ends the measurement and returns its instructions or cycles, depending on the mote.
    fn end() -> u32;
    /// Fills the free part of the stack with a pattern.
    fn paint();
    /// Bytes of stack written since `paint`, counted from its top.
    fn depth() -> u32;
}

/// A failure; the number is the program's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A known answer was wrong.
    Answer = 1,
    /// A size limit was exceeded.
    Fit = 4,
}

/// Prints a line: name, size, known bytes, part, and the number.
pub fn report<M: Mote>(what: &str, sizes: &[usize], part: &str, number: u32) {
    M::print(what);
    for &size in sizes {
        M::print("-");
        decimal::<M>(size as u32);
    }
    if !part.is_empty() {
        M::print("-");
        M::print(part);
    }
    M::print(" ");
    decimal::<M>(number);
    M::print("\n");
}

/// Avoids `core::fmt`, which would take half of a mote's flash.
fn decimal<M: Mote>(number: u32) {
    let mut digits = [b'0'; 10];
    let (mut at, mut rest) = (digits.len(), number);
    while at > 0 {
        at -= 1;
        if let Some(digit) = digits.get_mut(at) {
            *digit += (rest % 10) as u8;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    M::print(core::str::from_utf8(digits.get(at..).unwrap_or_default()).unwrap_or_default());
}

/// An expression's cost, and its value.
macro_rules! cost {
    ($mote:ty, $what:expr) => {{
        <$mote>::begin();
        let value = core::hint::black_box($what);
        (<$mote>::end(), value)
    }};
}
use cost;

/// Packet numbers from 1, and nonces with the number at their end.
struct Counter(u64);

fn nonce_of(number: u64) -> [u8; 12] {
    let mut nonce = *b"mote\0\0\0\0\0\0\0\0";
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

impl NonceSequence for Counter {
    type Error = Infallible;

    fn next(&mut self) -> Result<(u64, Nonce), Infallible> {
        self.0 += 1;
        Ok((self.0, Nonce::assume_unique(nonce_of(self.0))))
    }
}

/// The longest payload measured, in whole blocks.
const LONGEST: usize = 1008;

/// The associated data of a DTLS 1.2 record (RFC 5246 section 6.2.3.3): number, type, version,
/// length.
const AAD: [u8; 13] = [0, 1, 0, 0, 0, 0, 0, 5, 23, 254, 253, 0, 16];

/// Fills the payload with a distinctive pattern. There is one copy at a time, since memory is
/// short.
fn payload(data: &mut [u8; LONGEST]) {
    for (i, byte) in data.iter_mut().enumerate() {
        *byte = expected(i);
    }
}

fn expected(i: usize) -> u8 {
    (i as u8).wrapping_mul(7) ^ (i >> 8) as u8
}

/// Whether these bytes are the start of the payload.
fn is_payload(data: &[u8]) -> bool {
    data.iter().enumerate().all(|(i, byte)| *byte == expected(i))
}

/// Starts the counter, and prints its count for an empty measurement.
fn nothing<M: Mote>() {
    // A counter that was just started may miss the first measurement.
    cost!(M, ());
    let (cost, ()) = cost!(M, ());
    report::<M>("nothing", &[], "", cost);
}

/// Checks this AES and CCM over it, measures and prints.
pub fn measure_ccm<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    nothing::<M>();
    answers::aes_and_ccm::<A>()?;
    ccm::block::<M, A>()?;
    ctr::all::<M, A>()?;
    ccm::all::<M, A>()
}

/// Checks Ascon-AEAD128, measures and prints.
pub fn measure_ascon<M: Mote>() -> Result<(), Wrong> {
    nothing::<M>();
    answers::ascon()?;
    ascon::all::<M>()
}

/// Checks ChaCha20-Poly1305, measures and prints.
pub fn measure_chacha<M: Mote>() -> Result<(), Wrong> {
    nothing::<M>();
    answers::chacha()?;
    chacha::all::<M>()
}

fn right(holds: bool) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(Wrong::Answer) }
}
