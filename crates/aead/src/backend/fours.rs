//! AES on a few blocks at once, with CPU instructions where they take single blocks, otherwise
//! bit-sliced.

use super::portable::aes::{Aes as Sliced, RoundKeys};
use crate::Backend;

/// An expanded key.
#[cfg_attr(
    target_arch = "aarch64",
    allow(clippy::large_enum_variant, reason = "a key stays where it was made")
)]
pub(crate) enum Aes {
    Sliced(Sliced),
    #[cfg(target_arch = "aarch64")]
    Arm(super::arm::Aes),
}

impl Aes {
    pub(crate) fn new(key: &RoundKeys, backend: Backend) -> Self {
        #[cfg(target_arch = "aarch64")]
        if let Some(extension) = super::arm::Extension::new(backend) {
            return Self::Arm(super::arm::Aes::new(extension, key));
        }
        let _ = backend;
        Self::Sliced(Sliced::new(key))
    }

    /// Encrypts four blocks.
    #[inline]
    pub(crate) fn encrypt(&self, blocks: &mut [[u8; 16]; 4]) {
        match self {
            Self::Sliced(aes) => aes.encrypt(blocks),
            #[cfg(target_arch = "aarch64")]
            Self::Arm(aes) => aes.encrypt(blocks),
        }
    }

    /// Encrypts one block.
    #[cfg(not(target_pointer_width = "32"))]
    #[inline]
    pub(crate) fn encrypt_one(&self, block: &mut [u8; 16]) {
        match self {
            Self::Sliced(aes) => {
                let mut blocks = [*block, [0; 16], [0; 16], [0; 16]];
                aes.encrypt(&mut blocks);
                *block = blocks[0];
            }
            #[cfg(target_arch = "aarch64")]
            Self::Arm(aes) => aes.encrypt(core::slice::from_mut(block)),
        }
    }

    /// Encrypts any number of blocks.
    #[cfg(not(target_pointer_width = "32"))]
    pub(crate) fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
        match self {
            Self::Sliced(aes) => {
                let (fours, rest) = blocks.as_chunks_mut::<4>();
                fours.iter_mut().for_each(|four| aes.encrypt(four));
                let mut last = [[0; 16]; 4];
                if let (Some(some), false) = (last.get_mut(..rest.len()), rest.is_empty()) {
                    some.copy_from_slice(rest);
                    aes.encrypt(&mut last);
                    rest.copy_from_slice(&last[..rest.len()]);
                }
            }
            #[cfg(target_arch = "aarch64")]
            Self::Arm(aes) => aes.encrypt(blocks),
        }
    }
}

#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
impl Aes {
    /// Encrypts up to four blocks.
    #[inline]
    pub(crate) fn encrypt_some(&self, blocks: &mut [[u8; 16]]) {
        match self {
            Self::Sliced(aes) => aes.encrypt_some(blocks),
            #[cfg(target_arch = "aarch64")]
            Self::Arm(aes) => aes.encrypt(blocks),
        }
    }

    /// Decrypts up to four blocks.
    #[inline]
    pub(crate) fn decrypt_some(&self, blocks: &mut [[u8; 16]]) {
        match self {
            Self::Sliced(aes) => aes.decrypt_some(blocks),
            #[cfg(target_arch = "aarch64")]
            Self::Arm(aes) => aes.decrypt(blocks),
        }
    }
}
