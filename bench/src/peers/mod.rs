//! The other implementations, one file each. Each runs at its best: key schedule done, buffers in
//! place.

pub mod aegis;
pub mod aws_lc;
pub mod graviola;
#[cfg(ipsec_mb)]
pub mod ipsec_mb;
pub mod morus;
pub mod openssl;
pub mod ring;
pub mod rustcrypto;
