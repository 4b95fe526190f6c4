//! The cipher suites, and the traits that they implement.
//!
//! Every suite implements `Engine`; `SparseEngine` if it takes holes anywhere, and `Serial` if its
//! MAC is serial.

pub(crate) mod engine;
pub(crate) mod key;
#[cfg(feature = "gcm")]
pub(crate) mod linear;
pub(crate) mod serial;
pub(crate) mod sparse;
pub(crate) mod suite;

#[cfg(feature = "aegis")]
pub(crate) mod aegis;
pub(crate) mod aes;
#[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
mod aes_table;
#[cfg(feature = "ascon")]
pub(crate) mod ascon;
#[cfg(feature = "research")]
pub(crate) mod block;
pub(crate) mod block_cipher;
#[cfg(feature = "cbc")]
pub(crate) mod cbc;
#[cfg(feature = "ccm")]
pub(crate) mod ccm;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod chacha20poly1305;
pub(crate) mod ctr;
#[cfg(any(feature = "aegis", feature = "ascon", feature = "research"))]
mod duplex;
#[cfg(feature = "gcm")]
pub(crate) mod gcm;
#[cfg(feature = "research")]
pub(crate) mod morus;
#[cfg(feature = "ocb3")]
pub(crate) mod ocb3;
#[cfg(feature = "rustcrypto")]
pub(crate) mod rustcrypto;
#[cfg(any(feature = "cbc", feature = "research"))]
mod two_way;
