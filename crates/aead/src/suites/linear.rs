//! Suites whose MAC is linear over XOR.

use crate::suites::{sparse::SparseEngine, suite::Suite};

/// A suite whose MAC is linear over XOR.
pub trait LinearEngine: SparseEngine<TagBytes = [u8; 16]> {
    /// Adds some units of the cipherstream to the MAC of a packet without associated data, of which `len` bytes are its
    /// ciphertext. The stream stays as it is.
    fn add_stream(key: &Self::Key, mac: &mut u128, stream: &mut [u8], len: usize);

    /// Closes that MAC with lengths that count for nothing, and adds the tag's mask.
    fn close_stream(key: &Self::Key, once: &Self::OneTime, mac: u128) -> u128;

    /// The sum as a number of the same kind.
    fn flow_half(sum: &Self::Sum) -> u128;

    /// A block by a weight.
    fn product(key: &Self::Key, block: u128, weight: &Self::Weight) -> u128;

    /// A tag from the sum of all parts.
    fn tag(sum: u128) -> [u8; 16];
}

/// A suite with flow tables: AES-GCM.
#[allow(private_bounds)]
pub trait Linear: Suite<TagBytes = [u8; 16]> + LinearEngine {}

impl<S: Suite<TagBytes = [u8; 16]> + LinearEngine> Linear for S {}
