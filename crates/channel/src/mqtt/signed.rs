//! Payloads that are signed by their publisher, inside the envelope.
//!
//! ```text
//! plaintext = COSE_Sign1 (RFC 9052 section 4.2), untagged: [ << {1: -8} >>, {}, payload, signature ]
//! external_aad = << ["antedate-mqtt payload", group, topic, publisher (bytes), epoch, sequence number] >>
//! ```
//!
//! Every member can derive every publisher's key, and so seal in another's name. It cannot sign for
//! another (Ed25519). The signature covers topic, epoch and number, so a member cannot take another's
//! signed payload to another place or number either.

use alloc::vec::Vec;
use core::ops::Range;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use hkdf::Hkdf;
use minicbor::{Decoder, Encoder};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The protected header {1: -8}, EdDSA.
const EDDSA: &[u8] = &[0xa1, 0x01, 0x27];

/// The most bytes by which a signed payload is longer.
pub const LONGER: usize = 80;

/// The place of a signed payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedPlace<'a> {
    /// The group's name.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The publisher's name.
    pub publisher: &'a [u8],
    /// The epoch.
    pub epoch: u32,
    /// The sequence number.
    pub sequence: u64,
}

impl SignedPlace<'_> {
    /// The Sig_structure (RFC 9052 section 4.4).
    fn to_be_signed(self, payload: &[u8]) -> Vec<u8> {
        let mut external = Vec::new();
        // Writing to a vector cannot fail, here and below.
        let _ = Encoder::new(&mut external)
            .array(6)
            .and_then(|e| e.str("antedate-mqtt payload"))
            .and_then(|e| e.str(self.group))
            .and_then(|e| e.str(self.topic))
            .and_then(|e| e.bytes(self.publisher))
            .and_then(|e| e.u32(self.epoch))
            .and_then(|e| e.u64(self.sequence));
        let mut bytes = Vec::with_capacity(payload.len() + external.len() + 32);
        let _ = Encoder::new(&mut bytes)
            .array(4)
            .and_then(|e| e.str("Signature1"))
            .and_then(|e| e.bytes(EDDSA))
            .and_then(|e| e.bytes(&external))
            .and_then(|e| e.bytes(payload));
        bytes
    }

    /// Signs a payload with a [`signing_secret`].
    #[must_use]
    pub fn sign(self, secret: &[u8; 32], payload: &[u8]) -> Vec<u8> {
        let signature = SigningKey::from_bytes(secret).sign(&self.to_be_signed(payload));
        let mut message = Vec::with_capacity(payload.len() + LONGER);
        let _ = Encoder::new(&mut message)
            .array(4)
            .and_then(|e| e.bytes(EDDSA))
            .and_then(|e| e.map(0))
            .and_then(|e| e.bytes(payload))
            .and_then(|e| e.bytes(&signature.to_bytes()));
        message
    }

    /// The place of the payload in a signed message. `None` if it is none, or the signature is not
    /// of this key.
    #[must_use]
    pub fn verify(self, public: &[u8; 32], message: &[u8]) -> Option<Range<usize>> {
        let mut decoder = Decoder::new(message);
        if decoder.array().ok()? != Some(4)
            || decoder.bytes().ok()? != EDDSA
            || decoder.map().ok()? != Some(0)
        {
            return None;
        }
        let payload = decoder.bytes().ok()?;
        let end = decoder.position();
        let signature = Signature::from_slice(decoder.bytes().ok()?).ok()?;
        if decoder.position() != message.len() {
            return None;
        }
        let public = VerifyingKey::from_bytes(public).ok()?;
        public.verify_strict(&self.to_be_signed(payload), &signature).ok()?;
        Some(end - payload.len()..end)
    }
}

/// The Ed25519 secret of a device: HKDF with SHA-256 from its own secret.
#[must_use]
pub fn signing_secret(device: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut secret = Zeroizing::new([0; 32]);
    // So short an expansion cannot fail.
    let _ = Hkdf::<Sha256>::new(None, device).expand(b"antedate-mqtt signing", &mut *secret);
    secret
}

/// Whether a public key of a signer can verify at all: it is a point of the curve, and not of small
/// order.
#[must_use]
pub fn is_verifying_key(public: &[u8; 32]) -> bool {
    VerifyingKey::from_bytes(public).is_ok_and(|key| !key.is_weak())
}

#[cfg(test)]
mod tests {
    use super::super::rotation::manager_public;
    use super::*;

    const PLACE: SignedPlace<'_> =
        SignedPlace { group: "line4", topic: "plant/valve", publisher: b"press7", epoch: 3, sequence: 9 };

    #[test]
    fn signature_holds_for_its_place_alone() {
        let secret = signing_secret(&[7; 32]);
        let public = manager_public(&secret);
        let message = PLACE.sign(&secret, b"open");
        let range = PLACE.verify(&public, &message).expect("signed");
        assert_eq!(&message[range], b"open");
        assert!(message.len() <= 4 + LONGER);
        for other in [
            SignedPlace { group: "line5", ..PLACE },
            SignedPlace { topic: "plant/pump", ..PLACE },
            SignedPlace { publisher: b"press8", ..PLACE },
            SignedPlace { epoch: 4, ..PLACE },
            SignedPlace { sequence: 10, ..PLACE },
        ] {
            assert_eq!(other.verify(&public, &message), None, "{other:?}");
        }
        let stranger = manager_public(&signing_secret(&[8; 32]));
        assert_eq!(PLACE.verify(&stranger, &message), None);
        for at in 0..message.len() {
            let mut damaged = message.clone();
            damaged[at] ^= 1;
            assert_eq!(PLACE.verify(&public, &damaged), None, "octet {at}");
            assert_eq!(PLACE.verify(&public, &message[..at]), None);
        }
        assert_eq!(PLACE.verify(&public, &[&message[..], &[0]].concat()), None);
    }

    #[test]
    fn weak_keys_are_no_keys() {
        // The neutral element, and a point of order two.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut second = [0xff; 32];
        (second[0], second[31]) = (0xec, 0x7f);
        assert!(!is_verifying_key(&neutral) && !is_verifying_key(&second));
        assert!(is_verifying_key(&manager_public(&[7; 32])));
    }
}
