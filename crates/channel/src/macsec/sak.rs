//! The SAK, from a key file or from key agreement.

use core::fmt;

use antedate_aead::{Key, Nonce, Suite};
use zeroize::Zeroize;

use super::CipherSuite;
use super::suite::Width;
use crate::secret::Boxed;

pub(crate) const MAX_KEY_LEN: usize = 32;

/// A secure association key with its suite and, for an XPN suite, its salt. It cannot be copied,
/// its `Debug` shows no secret, a move leaves nothing behind, and dropping it wipes it.
///
/// ```compile_fail
/// use antedate_channel::macsec::{CipherSuite, Sak};
/// let sak = Sak::new(CipherSuite::GcmAes128, &[1; 16], None).unwrap();
/// let copy = sak.clone(); // a key is not copied
/// ```
pub struct Sak {
    suite: CipherSuite,
    key: Boxed<MAX_KEY_LEN>,
    salt: [u8; 12],
}

/// The reason why octets are not a SAK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SakError {
    /// the length is not that of the suite's keys
    KeyLength {
        /// octets of the suite's keys
        expected: usize,
        /// octets given
        given: usize,
    },
    /// an XPN suite needs a salt
    SaltMissing,
    /// a suite without XPN has no salt
    SaltUnexpected,
}

impl fmt::Display for SakError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength { expected, given } => {
                write!(f, "the key has {given} octets, it must have {expected}")
            }
            Self::SaltMissing => f.write_str("an XPN cipher suite needs a salt of 12 octets"),
            Self::SaltUnexpected => f.write_str("only an XPN cipher suite has a salt"),
        }
    }
}

impl core::error::Error for SakError {}

impl Sak {
    /// Makes a SAK of its octets, with a salt exactly for an XPN suite.
    pub fn new(suite: CipherSuite, key: &[u8], salt: Option<[u8; 12]>) -> Result<Self, SakError> {
        if key.len() != suite.key_len() {
            return Err(SakError::KeyLength { expected: suite.key_len(), given: key.len() });
        }
        let salt = match (suite.is_xpn(), salt) {
            (true, None) => return Err(SakError::SaltMissing),
            (false, Some(_)) => return Err(SakError::SaltUnexpected),
            (_, salt) => salt.unwrap_or_default(),
        };
        let mut sak = Self { suite, key: Boxed::default(), salt };
        sak.key[..key.len()].copy_from_slice(key);
        Ok(sak)
    }

    /// The key's suite.
    pub const fn suite(&self) -> CipherSuite {
        self.suite
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key[..self.suite.key_len()]
    }

    pub(super) const fn salt(&self) -> [u8; 12] {
        self.salt
    }
}

impl Drop for Sak {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

impl fmt::Debug for Sak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sak({}, ..)", self.suite)
    }
}

/// Sixteen octets that identify a key when it is installed again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The tag of an empty message under an all-zero nonce. Without XPN no frame has that nonce,
    /// because packet number 0 is not used. With XPN it may coincide with a frame's, which is
    /// harmless because this tag is never disclosed.
    pub(super) fn of<S: Suite<TagBytes = [u8; 16]>>(key: &Key<S>) -> Self
    where
        S::NonceBytes: Width,
    {
        let nonce = Nonce::assume_unique(<S::NonceBytes as Width>::ZERO);
        Self(*key.seal(nonce, &[], &[], &mut []).as_bytes())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}
