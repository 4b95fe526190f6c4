//! What runs on every CPU, in constant time: no table, no branch and no address that depends on a secret.

pub(crate) mod aegis;
pub(crate) mod aes;
mod aes_inverse;
pub(crate) mod ascon;
pub(crate) mod blocks;
pub(crate) mod chacha20;
pub(crate) mod gcm;
pub(crate) mod ghash;
pub(crate) mod morus;
pub(crate) mod ocb3;
pub(crate) mod pieces;
pub(crate) mod poly1305;
