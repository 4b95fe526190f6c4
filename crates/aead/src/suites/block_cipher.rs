//! The block cipher of CCM and CTR: this crate's AES or a chip's.

#[cfg(target_arch = "x86_64")]
use crate::backend::x86::ccm as x86;
use crate::{Backend, backend::blocks::xor_in};

/// A cipher with blocks of 16 bytes and an expanded key, such as a chip's AES engine.
///
/// [`Aes128`](crate::Aes128) and [`Aes256`](crate::Aes256) are this crate's ciphers. A chip's AES
/// engine replaces them in [`AesCcm`](crate::AesCcm) and
/// [`CtrStream`](crate::unauthenticated::CtrStream):
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
/// # Ok::<(), antedate_aead::KeyLengthError>(())
/// ```
///
/// The methods with a body are for ciphers that do several blocks at once. A CBC-MAC only needs the
/// encryption of a chain, so a cipher may keep chains and masks in its own form (with a round key
/// added, for example), as long as XOR is its addition.
pub trait BlockCipher: Sized + 'static {
    /// Bytes of a key.
    const KEY_LEN: usize;

    /// Bytes of key stream in a step of preparation: 16, or more for a cipher that does several
    /// blocks at once.
    const UNIT: usize = 16;

    /// Expands a key of `KEY_LEN` bytes. The expanded key is wiped when dropped.
    fn new(key: &[u8]) -> Self;

    /// Encrypts one block.
    fn encrypt(&self, block: &mut [u8; 16]);

    /// Encrypts two blocks.
    fn encrypt_two(&self, first: &mut [u8; 16], second: &mut [u8; 16]) {
        self.encrypt(first);
        self.encrypt(second);
    }

    /// Encrypts several blocks.
    fn encrypt_all(&self, blocks: &mut [[u8; 16]]) {
        blocks.iter_mut().for_each(|block| self.encrypt(block));
    }

    /// Converts a chain to the cipher's own form.
    fn fold(&self, chain: &mut [u8; 16]) {
        let _ = chain;
    }

    /// Encrypts a chain in the cipher's own form.
    fn advance(&self, chain: &mut [u8; 16]) {
        self.encrypt(chain);
    }

    /// Converts a tag's mask to the cipher's own form.
    fn fold_mask(&self, mask: &mut [u8; 16]) {
        let _ = mask;
    }

    /// Encrypts a chain, masks it, and writes the first bytes. Chain and mask are in the cipher's
    /// own form.
    fn finish<const TAG: usize>(&self, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; TAG]) {
        let mut block = *chain;
        self.encrypt(&mut block);
        xor_in(&mut block, mask);
        for (byte, masked) in tag.iter_mut().zip(&block) {
            *byte = *masked;
        }
    }

    /// As `new`, for a given backend, for tests.
    #[doc(hidden)]
    fn select(key: &[u8], backend: Backend) -> Self {
        let _ = backend;
        Self::new(key)
    }

    /// The key in the form of this CPU's kernels.
    #[doc(hidden)]
    #[cfg(target_arch = "x86_64")]
    fn kernels(&self) -> Kernels<'_> {
        Kernels::None
    }
}

/// A key in the form of this CPU's kernels.
#[doc(hidden)]
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub enum Kernels<'a> {
    /// No kernel takes this key.
    None,
    #[allow(missing_docs, reason = "hidden")]
    Aes128(&'a x86::Key<10>),
    #[allow(missing_docs, reason = "hidden")]
    Aes256(&'a x86::Key<14>),
}
