//! The payload ciphers, by their COSE numbers.

use core::fmt;

/// The algorithm of a group's payloads. The numbers are those of the COSE registry (RFC 9053
/// section 4). Algorithms without a registered number have one of the private-use range (below
/// -65536).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// AES-CCM-16-64-128 (10): the least overhead, a tag of 8 bytes, payloads up to 65,535 bytes.
    /// Longer ones are sealed by AES-GCM ([`Algorithm::for_long`]).
    AesCcm16_64_128,
    /// AES-GCM with a key of 128 bits (1).
    A128Gcm,
    /// AES-GCM with a key of 256 bits (3).
    A256Gcm,
    /// ChaCha20-Poly1305 (24).
    ChaCha20Poly1305,
    /// AES-OCB3 with a key of 128 bits (private use, -65537).
    Aes128Ocb3,
    /// AES-CBC, then HMAC-SHA-256 truncated to 16 bytes, combined as in RFC 7518 section 5.2.3
    /// (private use, -65538).
    Aes128CbcHmacSha256,
    /// AES-CBC without authentication, as in katsikeas2017 (private use, -65539).
    Aes128CbcUnauthenticated,
    /// Consecutive single blocks of AES, as in katsikeas2017, for measurement only (private use,
    /// -65540).
    Aes128BlocksUnauthenticated,
}

/// No algorithm has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownAlgorithmError;

impl fmt::Display for UnknownAlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is no algorithm; known: ")?;
        for (i, one) in Algorithm::ALL.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            f.write_str(one.name())?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownAlgorithmError {}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 8] = [
        Self::AesCcm16_64_128,
        Self::A128Gcm,
        Self::A256Gcm,
        Self::ChaCha20Poly1305,
        Self::Aes128Ocb3,
        Self::Aes128CbcHmacSha256,
        Self::Aes128CbcUnauthenticated,
        Self::Aes128BlocksUnauthenticated,
    ];

    /// The name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesCcm16_64_128 => "aes-ccm-16-64-128",
            Self::A128Gcm => "aes-128-gcm",
            Self::A256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::Aes128Ocb3 => "aes-128-ocb3",
            Self::Aes128CbcHmacSha256 => "aes-128-cbc-hmac-sha-256",
            Self::Aes128CbcUnauthenticated => "aes-128-cbc-unauthenticated",
            Self::Aes128BlocksUnauthenticated => "aes-128-blocks-unauthenticated",
        }
    }

    /// The number in the protected header.
    pub const fn number(self) -> i64 {
        match self {
            Self::AesCcm16_64_128 => 10,
            Self::A128Gcm => 1,
            Self::A256Gcm => 3,
            Self::ChaCha20Poly1305 => 24,
            Self::Aes128Ocb3 => -65_537,
            Self::Aes128CbcHmacSha256 => -65_538,
            Self::Aes128CbcUnauthenticated => -65_539,
            Self::Aes128BlocksUnauthenticated => -65_540,
        }
    }

    /// The algorithm with this number.
    pub fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }

    /// Bytes of a publisher's key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::A256Gcm | Self::ChaCha20Poly1305 | Self::Aes128CbcHmacSha256 => 32,
            _ => 16,
        }
    }

    /// Bytes of a publisher's nonce base. It has the length of a nonce. With CBC it is a key that
    /// turns numbers into initialisation vectors, which must be unpredictable (NIST SP 800-38A
    /// appendix C).
    pub const fn base_len(self) -> usize {
        match self {
            Self::AesCcm16_64_128 => 13,
            Self::A128Gcm | Self::A256Gcm | Self::ChaCha20Poly1305 | Self::Aes128Ocb3 => 12,
            _ => 16,
        }
    }

    /// Whether a payload is authenticated. Unauthenticated payloads are not protected against
    /// changes.
    pub const fn is_authenticated(self) -> bool {
        !matches!(self, Self::Aes128CbcUnauthenticated | Self::Aes128BlocksUnauthenticated)
    }

    /// The algorithm of payloads beyond [`max_payload`](Self::max_payload), which have a key of
    /// their own. Its tag is no shorter.
    pub const fn for_long(self) -> Option<Self> {
        match self {
            Self::AesCcm16_64_128 => Some(Self::A128Gcm),
            _ => None,
        }
    }

    /// The longest payload under this algorithm.
    pub const fn max_payload(self) -> usize {
        match self {
            Self::AesCcm16_64_128 => 0xffff,
            // MQTT limits a whole packet to 268,435,455 bytes.
            _ => 0x0fff_0000,
        }
    }

    /// Bytes of the ciphertext, tag included, of a payload of `payload` bytes.
    pub const fn sealed_len(self, payload: usize) -> usize {
        match self {
            Self::AesCcm16_64_128 => payload + 8,
            Self::A128Gcm | Self::A256Gcm | Self::ChaCha20Poly1305 | Self::Aes128Ocb3 => payload + 16,
            Self::Aes128CbcHmacSha256 => payload - payload % 16 + 32,
            Self::Aes128CbcUnauthenticated | Self::Aes128BlocksUnauthenticated => payload - payload % 16 + 16,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::str::FromStr for Algorithm {
    type Err = UnknownAlgorithmError;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithmError> {
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or(UnknownAlgorithmError)
    }
}
