//! The block cipher under CCM and CTR: the AES of this crate, or a chip's.

#[cfg(target_arch = "x86_64")]
use crate::backend::x86::ccm as x86;
use crate::{Backend, backend::blocks::xor_in};

/// A cipher with blocks of 16 bytes and an expanded key, such as the AES engine of a chip.
///
/// [`Aes128`](crate::Aes128) and [`Aes256`](crate::Aes256) are those of this crate. A chip's AES engine takes their
/// place in [`AesCcm`](crate::AesCcm) and [`CtrStream`](crate::unauthenticated::CtrStream) by three lines:
///
/// ```
/// use antedate_aead::{AesCcm, BlockCipher, Key, Nonce};
///
/// # fn load_the_key_register(_: &[u8]) {}
/// # fn run_the_engine(block: &mut [u8; 16]) { block.reverse() }
/// struct ChipAes;
///
/// impl BlockCipher for ChipAes {
///     const KEY_LEN: usize = 16;
///
///     fn new(key: &[u8]) -> Self {
///         load_the_key_register(key);
///         Self
///     }
///
///     fn encrypt(&self, block: &mut [u8; 16]) {
///         run_the_engine(block);
///     }
/// }
///
/// let key = Key::<AesCcm<ChipAes, 13, 8>>::new(b"sixteen byte key")?;
/// let tag = key.seal(Nonce::assume_unique([0; 13]), b"header", b"", &mut []);
/// # Ok::<(), antedate_aead::InvalidKeyLength>(())
/// ```
///
/// The methods with a body exist so that a cipher can be faster than one block after the other. A CBC-MAC needs of
/// the cipher only what becomes of a chain, so a cipher may keep chains and masks in a form of its own (with a round
/// key added, for example), as long as XOR adds to them.
pub trait BlockCipher: Sized + 'static {
    /// Bytes of a key.
    const KEY_LEN: usize;

    /// Bytes of cipherstream that a step of preparation makes: 16, or more for a cipher that does several blocks at once.
    const UNIT: usize = 16;

    /// Expands a key of `KEY_LEN` bytes. What it keeps of the key is wiped when it is dropped.
    fn new(key: &[u8]) -> Self;

    /// Encrypts one block.
    fn encrypt(&self, block: &mut [u8; 16]);

    /// Encrypts several blocks.
    fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
        blocks.iter_mut().for_each(|block| self.encrypt(block));
    }

    /// Puts a chain into the cipher's own form.
    fn fold(&self, chain: &mut [u8; 16]) {
        let _ = chain;
    }

    /// Encrypts a chain that is in the cipher's own form, and leaves it there.
    fn advance(&self, chain: &mut [u8; 16]) {
        self.encrypt(chain);
    }

    /// Puts what masks a tag into the cipher's own form.
    fn fold_mask(&self, mask: &mut [u8; 16]) {
        let _ = mask;
    }

    /// The first bytes of a chain's encryption, masked; both are in the cipher's own form.
    fn finish<const TAG: usize>(&self, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; TAG]) {
        let mut block = *chain;
        self.encrypt(&mut block);
        xor_in(&mut block, mask);
        for (byte, masked) in tag.iter_mut().zip(&block) {
            *byte = *masked;
        }
    }

    /// As `new`, for a given backend, so that tests can compare them.
    #[doc(hidden)]
    fn select(key: &[u8], backend: Backend) -> Self {
        let _ = backend;
        Self::new(key)
    }

    /// The key as the kernels of this CPU have it.
    #[doc(hidden)]
    #[cfg(target_arch = "x86_64")]
    fn kernels(&self) -> Kernels<'_> {
        Kernels::None
    }
}

/// A key that kernels work with.
#[doc(hidden)]
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub enum Kernels<'a> {
    /// None do.
    None,
    #[allow(missing_docs)]
    Aes128(&'a x86::Key<10>),
    #[allow(missing_docs)]
    Aes256(&'a x86::Key<14>),
}
