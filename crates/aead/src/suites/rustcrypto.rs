//! RustCrypto's `aead` traits for keys: other people's code takes a [`Key`] as its cipher.
//!
//! These calls prepare nothing, and their caller has the nonces.

use crate::{BlockCipher, Key, Nonce, Suite, bytes::Bytes};
use aead::array::{Array, ArraySize, AssocArraySize};
use aead::inout::InOutBuf;
use aead::{AeadCore, AeadInOut, Error, KeyInit, KeySizeUser, TagPosition};

/// The size of a suite's keys, as a type.
pub trait SizedKey {
    /// The type.
    type Size: ArraySize;
}

macro_rules! sized {
    ($($feature:literal $suite:ty, $bytes:ident;)*) => {$(
        #[cfg(feature = $feature)]
        impl SizedKey for $suite {
            type Size = aead::consts::$bytes;
        }
    )*};
}

sized! {
    "gcm" crate::Aes128Gcm, U16;
    "gcm" crate::Aes256Gcm, U32;
    "chacha20-poly1305" crate::ChaCha20Poly1305, U32;
    "ocb3" crate::Aes128Ocb3, U16;
    "aegis" crate::Aegis128L, U16;
    "ascon" crate::AsconAead128, U16;
}

#[cfg(feature = "ccm")]
impl<A: SizedKey + BlockCipher, const NONCE: usize, const TAG: usize> SizedKey
    for crate::AesCcm<A, NONCE, TAG>
{
    type Size = A::Size;
}

impl SizedKey for crate::Aes128 {
    type Size = aead::consts::U16;
}

impl SizedKey for crate::Aes256 {
    type Size = aead::consts::U32;
}

impl<S: Suite + SizedKey> KeySizeUser for Key<S> {
    type KeySize = S::Size;
}

impl<S: Suite + SizedKey> KeyInit for Key<S> {
    /// Expands a key.
    ///
    /// # Panics
    /// Never: the size is the suite's.
    fn new(key: &aead::Key<Self>) -> Self {
        const { assert!(<S::Size as aead::array::typenum::Unsigned>::USIZE == S::KEY_LEN) };
        match Key::new(key) {
            Ok(key) => key,
            Err(_) => unreachable!("the size is that of the suite's keys"),
        }
    }
}

impl<S: Suite> AeadCore for Key<S>
where
    S::NonceBytes: AssocArraySize,
    S::TagBytes: AssocArraySize,
{
    type NonceSize = <S::NonceBytes as AssocArraySize>::Size;
    type TagSize = <S::TagBytes as AssocArraySize>::Size;
    const TAG_POSITION: TagPosition = TagPosition::Postfix;
}

impl<S: Suite> AeadInOut for Key<S>
where
    S::NonceBytes: AssocArraySize,
    S::TagBytes: AssocArraySize,
{
    /// Fails if the payload is longer than the suite allows.
    fn encrypt_inout_detached(
        &self,
        nonce: &aead::Nonce<Self>,
        associated_data: &[u8],
        buffer: InOutBuf<'_, '_, u8>,
    ) -> aead::Result<aead::Tag<Self>> {
        if buffer.len() > S::MAX_PAYLOAD {
            return Err(Error);
        }
        let nonce = Nonce::assume_unique(bytes(nonce));
        let tag = self.seal_in_place(nonce, associated_data, buffer.into_out_with_copied_in());
        let mut made = aead::Tag::<Self>::default();
        made.copy_from_slice(tag.as_bytes().as_ref());
        Ok(made)
    }

    /// Fails if the packet is not authentic, and zeroes the output then.
    fn decrypt_inout_detached(
        &self,
        nonce: &aead::Nonce<Self>,
        associated_data: &[u8],
        buffer: InOutBuf<'_, '_, u8>,
        tag: &aead::Tag<Self>,
    ) -> aead::Result<()> {
        let (nonce, buffer) = (bytes(nonce), buffer.into_out_with_copied_in());
        self.open_in_place(nonce, associated_data, buffer, &bytes(tag)).map_err(|_| Error)
    }
}

/// An array of the same size.
fn bytes<B: Bytes, N: ArraySize>(array: &Array<u8, N>) -> B {
    let mut bytes = B::ZERO;
    bytes.as_mut().copy_from_slice(array);
    bytes
}
