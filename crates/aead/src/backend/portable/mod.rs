//! Code for every CPU, in constant time: no table, branch or address depends on a secret.

#[cfg(feature = "aegis")]
pub(crate) mod aegis;
pub(crate) mod aes;
#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
mod aes_inverse;
#[cfg(any(test, target_pointer_width = "32"))]
pub(crate) mod aes_pairs;
#[cfg(feature = "ascon")]
pub(crate) mod ascon;
pub(crate) mod chacha20;
pub(crate) mod ghash;
#[cfg(feature = "research")]
pub(crate) mod morus;
pub(crate) mod pieces;
#[cfg(target_pointer_width = "64")]
pub(crate) mod poly1305;
#[cfg(all(feature = "msp430-multiplier", not(target_arch = "msp430")))]
compile_error!("msp430-multiplier is for MSP430 alone; leave the feature out");
#[cfg(any(test, target_pointer_width = "16"))]
pub(crate) mod poly1305_16;
#[cfg(any(test, target_pointer_width = "32"))]
pub(crate) mod poly1305_26;
#[cfg(feature = "chacha20-poly1305")]
pub(crate) mod poly1305_holes;
#[cfg(all(feature = "chacha20-poly1305", target_pointer_width = "64"))]
mod poly1305_weights;
#[cfg(target_pointer_width = "16")]
pub(crate) use poly1305_16 as poly1305;
#[cfg(target_pointer_width = "32")]
pub(crate) use poly1305_26 as poly1305;
