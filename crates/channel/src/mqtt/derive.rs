//! A publisher's key and nonce base, from the secret of its group's epoch.
//!
//! HKDF with SHA-256 (RFC 5869) without salt, as OSCORE derives its sender keys (RFC 8613 section
//! 3.2.1):
//!
//! ```text
//! info = << [publisher (bytes), [group (text), epoch], algorithm, "Key" or "IV", length] >>
//! ```
//!
//! The nonce is the base XOR the sequence number, right-aligned (RFC 9052 section 3.1, Partial IV).

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

use hkdf::Hkdf;
use minicbor::Encoder;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::envelope::Head;
use super::{Algorithm, PUBLISHER_MAX, SECRET_LEN};

/// The material of a publisher in a group: its key, its nonce base, and the head of its envelopes.
pub struct Material {
    pub(super) head: Head,
    pub(super) key: Zeroizing<Vec<u8>>,
    pub(super) base: Zeroizing<Vec<u8>>,
    /// The material of long payloads, if they have another algorithm.
    pub(super) long: Option<Box<Material>>,
}

impl Material {
    /// Derives the material. `None` if the publisher's name is empty or longer than
    /// [`PUBLISHER_MAX`].
    pub fn derive(
        group: &str,
        algorithm: Algorithm,
        epoch: u32,
        secret: &[u8; SECRET_LEN],
        publisher: &[u8],
    ) -> Option<Self> {
        if !(1..=PUBLISHER_MAX).contains(&publisher.len()) {
            return None;
        }
        let hkdf = Hkdf::<Sha256>::new(None, secret);
        let expand = |kind: &str, len: usize| {
            let mut info = Vec::with_capacity(64 + group.len() + publisher.len());
            let mut encoder = Encoder::new(&mut info);
            // Writing to a vector cannot fail, and neither can so short an expansion.
            let _ = encoder
                .array(5)
                .and_then(|e| e.bytes(publisher))
                .and_then(|e| e.array(2))
                .and_then(|e| e.str(group))
                .and_then(|e| e.u32(epoch))
                .and_then(|e| e.i64(algorithm.number()))
                .and_then(|e| e.str(kind))
                .and_then(|e| e.u64(len as u64));
            let mut out = Zeroizing::new(alloc::vec![0; len]);
            let _ = hkdf.expand(&info, &mut out);
            out
        };
        let (key, base) = (expand("Key", algorithm.key_len()), expand("IV", algorithm.base_len()));
        let long = algorithm.for_long();
        let long = long.and_then(|long| Self::derive(group, long, epoch, secret, publisher)).map(Box::new);
        Some(Self { head: Head { algorithm, epoch, publisher: publisher.to_vec() }, key, base, long })
    }

    /// The head of the envelopes.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The key, for recording its used numbers or for a device that seals by itself.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The nonce base.
    pub fn base(&self) -> &[u8] {
        &self.base
    }

    /// The publisher's name as text, for messages.
    pub fn publisher(&self) -> String {
        String::from_utf8_lossy(&self.head.publisher).into_owned()
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Material({}, epoch {}, ..)", self.head.algorithm, self.head.epoch)
    }
}

/// The nonce of a sequence number.
pub(super) fn nonce<const LEN: usize>(base: &[u8], sequence: u64) -> [u8; LEN] {
    let mut nonce = [0; LEN];
    nonce.copy_from_slice(base);
    for (byte, number) in nonce[LEN - 8..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= number;
    }
    nonce
}
