//! Suites whose MAC is linear over XOR.

use crate::suites::{sparse::SparseEngine, suite::Suite};

/// A suite whose MAC is linear over XOR.
pub trait LinearEngine: SparseEngine<TagBytes = [u8; 16]> {
    /// Adds units of the key stream to the MAC of a packet without associated data; `len` bytes of
    /// them are its ciphertext. The stream stays unchanged.
    fn add_stream(key: &Self::Key, mac: &mut u128, stream: &mut [u8], len: usize);

    /// Closes that MAC with lengths of zero, and adds the tag's mask.
    fn close_stream(key: &Self::Key, once: &Self::OneTime, mac: u128) -> u128;

    /// The sum as a number.
    fn flow_half(sum: &Self::Sum) -> u128;

    /// The product of a block and a weight.
    fn product(key: &Self::Key, block: u128, weight: &Self::Weight) -> u128;

    /// The tag of the total sum.
    fn tag(sum: u128) -> [u8; 16];
}

/// A suite with flow tables: AES-GCM.
#[allow(private_bounds, reason = "a suite is implemented in this crate alone")]
pub trait Linear: Suite<TagBytes = [u8; 16]> + LinearEngine {}

impl<S: Suite<TagBytes = [u8; 16]> + LinearEngine> Linear for S {}
