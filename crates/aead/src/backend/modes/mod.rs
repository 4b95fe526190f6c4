//! Modes of AES over any block cipher: the sliced one, the CPU's instructions, or tables.

pub(crate) mod gcm;
#[cfg(feature = "ocb3")]
pub(crate) mod ocb3;
#[cfg(feature = "ocb3")]
pub(crate) mod ocb3_holes;
