//! AES-CBC (NIST SP 800-38A section 6.2) with the padding of PKCS#7 (RFC 5652 section 6.3), as
//! katsikeas2017 encrypts MQTT payloads. **It authenticates nothing.**
//!
//! An attacker who can change a ciphertext can change the plaintext. One who learns whether a
//! padding was right can read it, block by block (Vaudenay, "Security flaws induced by CBC
//! padding", 2002). So this is no [`Suite`](crate::Suite) and has no sealer, and a decrypted
//! message comes as [`Unverified`].

use crate::{Backend, bytes::wipe, suites::two_way::TwoWay};
use core::fmt;

/// An unpredictable initialisation vector that is used once.
///
/// ```compile_fail
/// use antedate_aead::unauthenticated::Iv;
/// let iv = Iv::assume_unpredictable([0; 16]);
/// let again = iv.clone(); // an IV can't be doubled
/// ```
pub struct Iv([u8; 16]);

impl Iv {
    /// Asserts that these bytes are random and unused. A counter does not suffice: it allows to
    /// test a guess of the plaintext (SP 800-38A appendix C).
    pub const fn assume_unpredictable(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, which are sent with the ciphertext.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Iv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Iv(..)")
    }
}

/// A message can't be encrypted or decrypted.
///
/// The sender of a ciphertext must never learn that it was `Malformed`, not even from the response
/// time: authenticate the ciphertext before decrypting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CbcError {
    /// The destination is too short.
    Short {
        /// Bytes that are needed.
        needed: usize,
        /// Bytes that were given.
        given: usize,
    },
    /// The ciphertext is not a whole number of blocks, or its padding is wrong.
    Malformed,
}

impl fmt::Display for CbcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { needed, given } => {
                write!(f, "the destination has {given} bytes, but {needed} are needed")
            }
            Self::Malformed => f.write_str("the ciphertext is malformed"),
        }
    }
}

impl core::error::Error for CbcError {}

/// A decrypted message without verification. Dropping it wipes it.
///
/// ```compile_fail
/// use antedate_aead::unauthenticated::Unverified;
/// fn read(message: Unverified<'_>) -> u8 {
///     message[0] // who says that it is genuine?
/// }
/// ```
#[must_use]
pub struct Unverified<'a>(&'a mut [u8]);

impl<'a> Unverified<'a> {
    /// Asserts that the ciphertext was authenticated by other means.
    pub fn assume_authentic(mut self) -> &'a [u8] {
        let bytes: &'a mut [u8] = core::mem::take(&mut self.0);
        bytes
    }
}

impl Drop for Unverified<'_> {
    fn drop(&mut self) {
        wipe(self.0);
    }
}

impl fmt::Debug for Unverified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unverified({} bytes)", self.0.len())
    }
}

/// A message whose front is encrypted. Its IV is spent: dropping it wipes what was written.
#[must_use]
pub struct Begun<'k, 'd, const ROUNDS: usize> {
    key: &'k TwoWay<ROUNDS>,
    chain: [u8; 16],
    dst: &'d mut [u8],
    /// Bytes of the message so far.
    front: usize,
}

impl<const ROUNDS: usize> Begun<'_, '_, ROUNDS> {
    /// Bytes of the front that were encrypted ahead.
    pub const fn ready(&self) -> usize {
        self.front - self.front % 16
    }

    /// Pads and encrypts the message with this rest, and returns the bytes of the ciphertext.
    ///
    /// # Errors
    ///
    /// [`CbcError::Short`] if the ciphertext does not fit. The destination is wiped then.
    pub fn finish(mut self, rest: &[u8]) -> Result<usize, CbcError> {
        let (ready, len) = (self.ready(), self.front + rest.len());
        let (needed, given) = (ciphertext_len(len), self.dst.len());
        let Some(new) = self.dst.get_mut(ready..needed) else {
            return Err(CbcError::Short { needed, given });
        };
        let (message, padding) = new.split_at_mut(len - ready);
        message[self.front - ready..].copy_from_slice(rest);
        padding.fill(padding.len() as u8);
        self.key.encrypt_chain(&mut self.chain, new.as_chunks_mut().0);
        self.front = 0;
        Ok(needed)
    }
}

impl<const ROUNDS: usize> Drop for Begun<'_, '_, ROUNDS> {
    fn drop(&mut self) {
        wipe(&mut self.chain);
        if let Some(front) = self.dst.get_mut(..self.front) {
            wipe(front);
        }
    }
}

impl<const ROUNDS: usize> fmt::Debug for Begun<'_, '_, ROUNDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Begun({} bytes)", self.front)
    }
}

/// Length of the ciphertext of a message: one to sixteen bytes more.
pub const fn ciphertext_len(plaintext: usize) -> usize {
    plaintext - plaintext % 16 + 16
}

macro_rules! cbc {
    ($name:ident, $bits:literal, $bytes:literal, $rounds:literal) => {
        #[doc = concat!("AES-", $bits, "-CBC with PKCS#7 padding. It authenticates nothing.")]
        ///
        /// ```
        #[doc = concat!("use antedate_aead::unauthenticated::{", stringify!($name), ", Iv, ciphertext_len};")]
        ///
        #[doc = concat!("let cbc = ", stringify!($name), "::new(&[7; ", $bytes, "]);")]
        /// let iv = [0x3c; 16]; // from a random generator
        /// let mut sealed = [0; 32];
        /// assert_eq!(ciphertext_len(20), 32);
        /// cbc.encrypt(Iv::assume_unpredictable(iv), b"twenty bytes of text", &mut sealed)?;
        ///
        /// // The ciphertext was authenticated by other means.
        /// let mut out = [0; 32];
        /// let message = cbc.decrypt(&iv, &sealed, &mut out)?.assume_authentic();
        /// assert_eq!(message, b"twenty bytes of text");
        /// # Ok::<(), antedate_aead::unauthenticated::CbcError>(())
        /// ```
        pub struct $name(TwoWay<$rounds>);

        impl $name {
            /// Expands a key for the best backend of this CPU.
            pub fn new(key: &[u8; $bytes]) -> Self {
                Self::with_backend(key, Backend::detect())
            }

            /// Expands a key for a given backend, for tests.
            #[doc(hidden)]
            pub fn with_backend(key: &[u8; $bytes], backend: Backend) -> Self {
                Self(TwoWay::new(key, backend))
            }

            /// Pads and encrypts `src` into the first [`ciphertext_len`] bytes of `dst`, and
            /// returns their number.
            pub fn encrypt(&self, iv: Iv, src: &[u8], dst: &mut [u8]) -> Result<usize, CbcError> {
                let (needed, given) = (ciphertext_len(src.len()), dst.len());
                let dst = dst.get_mut(..needed).ok_or(CbcError::Short { needed, given })?;
                let (message, padding) = dst.split_at_mut(src.len());
                message.copy_from_slice(src);
                padding.fill(padding.len() as u8);
                let mut chain = iv.0;
                self.0.encrypt_chain(&mut chain, dst.as_chunks_mut().0);
                Ok(needed)
            }

            /// Encrypts the whole blocks of a message's front, before the rest is known (a template,
            /// hiller2018 section IV-B). `dst` takes the message of any length.
            ///
            /// ```
            #[doc = concat!("# use antedate_aead::unauthenticated::{", stringify!($name), ", Iv};")]
            #[doc = concat!("# let cbc = ", stringify!($name), "::new(&[7; ", $bytes, "]);")]
            /// let (iv, mut sealed) = ([0x3c; 16], [0; 48]);
            /// let iv = Iv::assume_unpredictable(iv);
            /// let begun = cbc.begin(iv, b"a header of the device, then ", &mut sealed)?;
            /// // The reading is there.
            /// assert_eq!(begun.finish(b"21.5")?, 48);
            /// # Ok::<(), antedate_aead::unauthenticated::CbcError>(())
            /// ```
            pub fn begin<'k, 'd>(
                &'k self,
                iv: Iv,
                front: &[u8],
                dst: &'d mut [u8],
            ) -> Result<Begun<'k, 'd, $rounds>, CbcError> {
                let (needed, given) = (ciphertext_len(front.len()), dst.len());
                let place = dst.get_mut(..front.len()).filter(|_| needed <= given);
                let place = place.ok_or(CbcError::Short { needed, given })?;
                place.copy_from_slice(front);
                let mut chain = iv.0;
                self.0.encrypt_chain(&mut chain, place.as_chunks_mut().0);
                Ok(Begun { key: &self.0, chain, dst, front: front.len() })
            }

            /// Decrypts `src` into `dst`, which has at least the length of `src`, and removes the
            /// padding. On failure the destination is zeroed.
            pub fn decrypt<'a>(
                &self,
                iv: &[u8; 16],
                src: &[u8],
                dst: &'a mut [u8],
            ) -> Result<Unverified<'a>, CbcError> {
                let (needed, given) = (src.len(), dst.len());
                let dst = dst.get_mut(..needed).ok_or(CbcError::Short { needed, given })?;
                dst.copy_from_slice(src);
                let (blocks, []) = dst.as_chunks_mut::<16>() else {
                    wipe(dst);
                    return Err(CbcError::Malformed);
                };
                let mut chain = *iv;
                self.0.decrypt_chain(&mut chain, blocks);
                let Some(padding) = blocks.last().and_then(padding) else {
                    wipe(dst);
                    return Err(CbcError::Malformed);
                };
                let (message, padding) = dst.split_at_mut(needed - padding);
                wipe(padding);
                Ok(Unverified(message))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

cbc!(Aes128Cbc, "128", 16, 10);
#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
cbc!(Aes256Cbc, "256", 32, 14);

/// Length of the padding of a last block, 1 to 16. Runs in constant time.
fn padding(block: &[u8; 16]) -> Option<usize> {
    let count = block[15];
    // 1 where the value is outside of 1 to 16.
    let mut wrong = (count.wrapping_sub(1) & 0xf0) | (count.wrapping_sub(1) >> 7);
    for (i, byte) in block.iter().enumerate() {
        // All ones for the last `count` bytes: 15 - i < count.
        let within = (15 - i as u8).wrapping_sub(count.min(16)) >> 7;
        wrong |= (byte ^ count) & within.wrapping_neg();
    }
    (core::hint::black_box(wrong) == 0).then_some(count.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_one_to_sixteen_equal_bytes() {
        for count in 0..=255u8 {
            let mut block = [0xaa; 16];
            let len = usize::from(count.min(16));
            block[16 - len..].fill(count);
            block[15] = count;
            let right = (1..=16).contains(&count);
            assert_eq!(padding(&block), right.then_some(len), "{count}");
            for at in 16 - len..15 {
                let mut changed = block;
                changed[at] ^= 0x10;
                assert_eq!(padding(&changed), None, "{count}, byte {at}");
            }
        }
    }
}
