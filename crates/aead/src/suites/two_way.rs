//! AES encryption and decryption, for CBC and single blocks.

#[cfg(target_arch = "x86_64")]
use crate::backend::x86::two_way as x86;
#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
use crate::backend::{fours::Aes, round_keys};
use crate::{Backend, backend::blocks::xor_in, bytes::wipe};

/// An expanded key for AES of `R` rounds.
#[allow(clippy::large_enum_variant, reason = "a key stays where it was made")]
pub(crate) enum TwoWay<const R: usize> {
    #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
    Portable(Aes),
    /// The AES tables support keys of 128 bits only.
    #[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
    Table(crate::backend::table::cipher::BothWays),
    #[cfg(target_arch = "x86_64")]
    X86(x86::Key<R>),
}

impl<const R: usize> TwoWay<R> {
    /// Expands a key of the length for `R` rounds.
    pub(crate) fn new(key: &[u8], backend: Backend) -> Self {
        let _ = backend;
        #[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
        return Self::Table(crate::backend::table::cipher::BothWays::new(key));
        #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
        {
            let round_keys = round_keys(key, backend);
            #[cfg(target_arch = "x86_64")]
            if let Some(key) = x86::Key::new(&round_keys, backend) {
                return Self::X86(key);
            }
            Self::Portable(Aes::new(&round_keys, backend))
        }
    }

    pub(crate) fn encrypt(&self, block: &mut [u8; 16]) {
        match self {
            #[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
            Self::Table(aes) => aes.encrypt_some(core::slice::from_mut(block)),
            #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
            Self::Portable(aes) => aes.encrypt_some(core::slice::from_mut(block)),
            #[cfg(target_arch = "x86_64")]
            Self::X86(key) => key.encrypt(block),
        }
    }

    pub(crate) fn decrypt(&self, block: &mut [u8; 16]) {
        match self {
            #[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
            Self::Table(aes) => aes.decrypt_some(core::slice::from_mut(block)),
            #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
            Self::Portable(aes) => aes.decrypt_some(core::slice::from_mut(block)),
            #[cfg(target_arch = "x86_64")]
            Self::X86(key) => key.decrypt(block),
        }
    }

    /// CBC encryption (SP 800-38A section 6.2). The chain is the IV at first, then the last
    /// ciphertext block.
    pub(crate) fn encrypt_chain(&self, chain: &mut [u8; 16], blocks: &mut [[u8; 16]]) {
        #[cfg(target_arch = "x86_64")]
        if let Self::X86(key) = self {
            return key.encrypt_chain(chain, blocks);
        }
        for block in blocks {
            xor_in(block, chain);
            self.encrypt(block);
            *chain = *block;
        }
    }

    /// CBC decryption, with the same chain.
    pub(crate) fn decrypt_chain(&self, chain: &mut [u8; 16], blocks: &mut [[u8; 16]]) {
        #[cfg(target_arch = "x86_64")]
        if let Self::X86(key) = self {
            return key.decrypt_chain(chain, blocks);
        }
        // By fours, as the sliced cipher does them.
        let mut four = [[0; 16]; 4];
        for some in blocks.chunks_mut(4) {
            let plain = &mut four[..some.len()];
            plain.copy_from_slice(some);
            match self {
                #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
                Self::Portable(aes) => aes.decrypt_some(plain),
                #[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
                Self::Table(aes) => aes.decrypt_some(plain),
                #[cfg(target_arch = "x86_64")]
                Self::X86(_) => {}
            }
            for (block, plain) in some.iter_mut().zip(plain) {
                xor_in(plain, chain);
                *chain = *block;
                *block = *plain;
            }
        }
        wipe(four.as_flattened_mut());
    }
}
