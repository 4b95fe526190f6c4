//! The other implementations, one file each. Each is given its best: the key schedule is done, buffers are in place.

pub mod aegis;
pub mod aws_lc;
#[cfg(ipsec_mb)]
pub mod ipsec_mb;
pub mod morus;
pub mod openssl;
pub mod ring;
pub mod rustcrypto;
