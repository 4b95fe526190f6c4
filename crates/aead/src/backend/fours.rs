//! AES on a few blocks at once, with CPU instructions where they take single blocks, otherwise
//! bit-sliced.

use super::portable::aes::{Aes as Sliced, RoundKeys};
use crate::Backend;

/// An expanded key.
#[cfg_attr(
    any(target_arch = "aarch64", target_arch = "x86_64"),
    allow(clippy::large_enum_variant, reason = "a key stays where it was made")
)]
pub(crate) enum Aes {
    Sliced(Sliced),
    #[cfg(target_arch = "aarch64")]
    Arm(super::arm::Aes),
    #[cfg(target_arch = "x86_64")]
    Shuffled(super::ssse3::Aes),
}

impl Aes {
    pub(crate) fn new(key: &RoundKeys, backend: Backend) -> Self {
        #[cfg(target_arch = "aarch64")]
        if let Some(extension) = super::arm::Extension::new(backend) {
            return Self::Arm(super::arm::Aes::new(extension, key));
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(ssse3) = super::ssse3::Ssse3::new(backend) {
            return Self::Shuffled(super::ssse3::Aes::new(ssse3, key));
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
            #[cfg(target_arch = "x86_64")]
            Self::Shuffled(aes) => aes.encrypt(blocks),
        }
    }

    /// Encrypts one block.
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
            #[cfg(target_arch = "x86_64")]
            Self::Shuffled(aes) => aes.encrypt(core::slice::from_mut(block)),
        }
    }

    /// Encrypts two blocks, in the time of one where the CPU takes several instructions at once.
    #[cfg(not(target_pointer_width = "32"))]
    #[inline]
    pub(crate) fn encrypt_two(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
        #[cfg(target_arch = "x86_64")]
        if let Self::Shuffled(aes) = self {
            return aes.encrypt_two(first, second);
        }
        // Of two, as the sliced cipher takes them; others take no more than these.
        let mut blocks = [*first, *second];
        self.encrypt_all(&mut blocks);
        [*first, *second] = blocks;
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
            #[cfg(target_arch = "x86_64")]
            Self::Shuffled(aes) => aes.encrypt(blocks),
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
            #[cfg(target_arch = "x86_64")]
            Self::Shuffled(aes) => aes.encrypt(blocks),
        }
    }

    /// Decrypts up to four blocks.
    #[inline]
    pub(crate) fn decrypt_some(&self, blocks: &mut [[u8; 16]]) {
        match self {
            Self::Sliced(aes) => aes.decrypt_some(blocks),
            #[cfg(target_arch = "aarch64")]
            Self::Arm(aes) => aes.decrypt(blocks),
            #[cfg(target_arch = "x86_64")]
            Self::Shuffled(aes) => aes.decrypt(blocks),
        }
    }
}
