//! Signatures: ECDSA on P-256 with SHA-256 (RFC 8422 section 5.10), the one of RFC 7252 section
//! 9.1.3.2. Signing takes the same time for any key and message, and its nonces are deterministic
//! (RFC 6979), by the crate `p256`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use p256::ecdsa;
use p256::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};

/// Octets of a SubjectPublicKeyInfo of P-256 with an uncompressed point.
pub const SPKI_LEN: usize = 91;
/// Octets of an uncompressed point.
const POINT_LEN: usize = 65;
/// What stands before the point (RFC 5480 section 2): id-ecPublicKey, secp256r1, a bit string.
const SPKI_FRONT: [u8; SPKI_LEN - POINT_LEN] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// These octets are no private key of P-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnusableKeyError;

impl fmt::Display for UnusableKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no private key of P-256")
    }
}

impl core::error::Error for UnusableKeyError {}

/// A private key. Copies share one place in memory, which is wiped with the last one.
#[derive(Clone)]
pub struct SigningKey(Arc<ecdsa::SigningKey>);

impl SigningKey {
    /// The key of a secret number, 32 octets.
    ///
    /// # Errors
    /// [`UnusableKeyError`] if the number is zero, or not below the order of the curve.
    pub fn new(secret: &[u8; 32]) -> Result<Self, UnusableKeyError> {
        let key = ecdsa::SigningKey::from_slice(secret).map_err(|_| UnusableKeyError)?;
        Ok(Self(Arc::new(key)))
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(*self.0.verifying_key())
    }

    /// Signs a message with this SHA-256 digest. The signature is in DER.
    pub(in crate::dtls) fn sign(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        let signature: ecdsa::Signature = self.0.sign_prehash(digest).ok()?;
        Some(signature.to_der().as_bytes().to_vec())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// A public key: a point on P-256 that is not the one at infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(ecdsa::VerifyingKey);

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo in DER. `None` if it is of another kind, or the point is not on
    /// the curve.
    #[must_use]
    pub fn from_spki(spki: &[u8]) -> Option<Self> {
        let point = spki.strip_prefix(&SPKI_FRONT)?;
        if point.len() != POINT_LEN {
            return None;
        }
        ecdsa::VerifyingKey::from_sec1_bytes(point).ok().map(Self)
    }

    /// The SubjectPublicKeyInfo in DER.
    #[must_use]
    pub fn spki(&self) -> [u8; SPKI_LEN] {
        let mut out = [0; SPKI_LEN];
        let (front, point) = out.split_at_mut(SPKI_FRONT.len());
        front.copy_from_slice(&SPKI_FRONT);
        point.copy_from_slice(self.0.to_sec1_point(false).as_bytes());
        out
    }

    /// Whether a signature in DER is this key's for a message with this digest of 32 octets or
    /// more. Of each signature there is a second one with a negative second number; both verify, as
    /// in every implementation of TLS. Nothing is gained by it: the Finished protects the octets.
    pub(in crate::dtls) fn verifies(&self, digest: &[u8], signature: &[u8]) -> bool {
        ecdsa::Signature::from_der(signature)
            .is_ok_and(|signature| self.0.verify_prehash(digest, &signature).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn digest(message: &[u8]) -> [u8; 32] {
        Sha256::digest(message).into()
    }

    fn octets(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    /// RFC 6979 section A.2.5, P-256 with SHA-256, the message "sample".
    #[test]
    fn signature_has_the_known_value() {
        let secret = octets("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721");
        let key = SigningKey::new(&secret.try_into().unwrap()).unwrap();
        let signature = key.sign(&digest(b"sample")).unwrap();
        let parsed = ecdsa::Signature::from_der(&signature).unwrap();
        let r = octets("EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716");
        assert_eq!(parsed.split_bytes().0[..], r[..]);
        let s = octets("F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8");
        let is_s = |of: &ecdsa::Signature| of.split_bytes().1[..] == s[..];
        let other = ecdsa::Signature::from_scalars(parsed.r().to_bytes(), (-*parsed.s()).to_bytes()).unwrap();
        assert!(is_s(&parsed) || is_s(&other));
        let public = key.public();
        assert!(public.verifies(&digest(b"sample"), &signature));
        assert!(public.verifies(&digest(b"sample"), other.to_der().as_bytes()), "the second signature");
        assert!(!public.verifies(&digest(b"samplf"), &signature));
    }

    #[test]
    fn malformed_signatures_are_refused() {
        let key = SigningKey::new(&[7; 32]).unwrap();
        let good = key.sign(&digest(b"m")).unwrap();
        let longer = [&good[..], &[0]].concat();
        let zero = [0x30, 6, 2, 1, 0, 2, 1, 0];
        let mut form = good.clone();
        form[0] = 0x31;
        for wrong in [&good[1..], &good[..good.len() - 1], &longer, &zero, &form, &[]] {
            assert!(!key.public().verifies(&digest(b"m"), wrong));
        }
    }

    #[test]
    fn public_key_survives_its_encoding() {
        let public = SigningKey::new(&[7; 32]).unwrap().public();
        let spki = public.spki();
        assert_eq!(PublicKey::from_spki(&spki), Some(public));
        let mut beside = spki;
        beside[SPKI_LEN - 1] ^= 1;
        let mut curve = spki;
        curve[22] = 0x22;
        let compressed = [&SPKI_FRONT[..], &[2 + (spki[SPKI_LEN - 1] & 1)], &spki[27..59]].concat();
        let infinity = [&SPKI_FRONT[..], &[0]].concat();
        let longer = [&spki[..], &[0]].concat();
        for wrong in [&beside[..], &curve, &compressed, &infinity, &longer, &spki[..90], &[]] {
            assert_eq!(PublicKey::from_spki(wrong), None);
        }
    }

    #[test]
    fn impossible_secrets_are_refused() {
        assert_eq!(SigningKey::new(&[0; 32]).map(drop), Err(UnusableKeyError));
        assert_eq!(SigningKey::new(&[0xff; 32]).map(drop), Err(UnusableKeyError));
        assert_eq!(std::format!("{:?}", SigningKey::new(&[7; 32]).unwrap()), "SigningKey(..)");
        assert!(std::format!("{UnusableKeyError}").contains("P-256"));
    }
}
