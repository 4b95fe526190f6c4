//! The public traits of the cipher suites.

use crate::{
    bytes::Bytes,
    suites::{engine::Engine, serial::Serial, sparse::SparseEngine},
};

/// An AEAD cipher suite. The trait is sealed: this crate has all of its implementations.
///
/// A suite is a type without a value. It names the cipher of a [`Key`](crate::Key), a slot or a
/// pool.
#[allow(private_bounds, reason = "a suite is implemented in this crate alone")]
pub trait Suite: Engine {
    /// The name of the suite in configurations and reports, as in `aes-128-gcm`.
    const NAME: &'static str;
    /// Bytes of a key.
    const KEY_LEN: usize;
    /// Bytes of a nonce.
    const NONCE_LEN: usize = <Self::NonceBytes as Bytes>::LEN;
    /// Bytes of a tag.
    const TAG_LEN: usize = <Self::TagBytes as Bytes>::LEN;
}

/// A suite with nonces of 12 bytes and tags of 16, as in most protocols.
pub trait Usual: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]> {}

impl<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> Usual for S {}

/// A suite whose packets can be prepared for a [`Template`](crate::Template), with holes anywhere.
#[allow(private_bounds, reason = "a suite is implemented in this crate alone")]
pub trait Sparse: Suite + SparseEngine {}

impl<S: Suite + SparseEngine> Sparse for S {}

/// A suite with a serial MAC. Its packets can be prepared for a [`Front`](crate::Front), the known
/// beginning of a packet.
#[allow(private_bounds, reason = "a suite is implemented in this crate alone")]
pub trait Fronted: Suite + Serial {}

impl<S: Suite + Serial> Fronted for S {}
