//! The cipher suites, by their names and numbers in the IANA registry.

use core::fmt;
use core::str::FromStr;

/// The protection of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-128-CCM with tags of eight octets (RFC 6655)
    Aes128Ccm8,
    /// AES-128-CCM (RFC 6655)
    Aes128Ccm,
    /// AES-256-CCM with tags of eight octets (RFC 6655)
    Aes256Ccm8,
    /// AES-256-CCM (RFC 6655)
    Aes256Ccm,
    /// AES-128-GCM (RFC 5288)
    Aes128Gcm,
    /// AES-256-GCM (RFC 5288)
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 7905)
    ChaCha20Poly1305,
}

impl Aead {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Aes128Ccm8,
        Self::Aes128Ccm,
        Self::Aes256Ccm8,
        Self::Aes256Ccm,
        Self::Aes128Gcm,
        Self::Aes256Gcm,
        Self::ChaCha20Poly1305,
    ];

    /// Octets of a key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Ccm8 | Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes256Ccm8 | Self::Aes256Ccm | Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Octets of nonce from the key exchange: the implicit part, or with ChaCha20-Poly1305 the
    /// value combined with the number.
    pub const fn iv_len(self) -> usize {
        match self {
            Self::ChaCha20Poly1305 => 12,
            _ => 4,
        }
    }

    /// Octets of nonce in each record.
    pub const fn explicit_len(self) -> usize {
        match self {
            Self::ChaCha20Poly1305 => 0,
            _ => 8,
        }
    }

    /// Octets of a tag.
    pub const fn tag_len(self) -> usize {
        match self {
            Self::Aes128Ccm8 | Self::Aes256Ccm8 => 8,
            _ => 16,
        }
    }
}

/// How two sides agree on keys, and prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyExchange {
    /// a pre-shared key alone (RFC 4279)
    Psk,
    /// a pre-shared key and ephemeral keys (RFC 5489)
    EcdhePsk,
    /// ephemeral keys, and signatures with certificates or raw public keys (RFC 8422)
    EcdheEcdsa,
}

/// The hash function of the key derivation and of the Finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-256
    Sha256,
    /// SHA-384
    Sha384,
}

macro_rules! suites {
    ($( $(#[$meta:meta])* $name:ident = $number:literal, $iana:literal, $aead:ident, $exchange:ident; )*) => {
        /// A cipher suite of the handshake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum CipherSuite { $( $(#[$meta])* $name, )* }

        impl CipherSuite {
            /// All of them in order of preference: forward secrecy first, then long tags.
            pub const ALL: &'static [Self] = &[$( Self::$name, )*];

            /// The number.
            pub const fn number(self) -> u16 {
                match self { $( Self::$name => $number, )* }
            }

            /// The name.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $iana, )* }
            }

            /// The protection of its records.
            pub const fn aead(self) -> Aead {
                match self { $( Self::$name => Aead::$aead, )* }
            }

            /// The key exchange.
            pub const fn exchange(self) -> KeyExchange {
                match self { $( Self::$name => KeyExchange::$exchange, )* }
            }
        }
    };
}

suites! {
    /// RFC 5289
    EcdheEcdsaAes128GcmSha256 = 0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", Aes128Gcm, EcdheEcdsa;
    /// RFC 7251
    EcdheEcdsaAes128Ccm = 0xc0ac, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM", Aes128Ccm, EcdheEcdsa;
    /// RFC 7905
    EcdheEcdsaChacha20Poly1305Sha256 = 0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", ChaCha20Poly1305, EcdheEcdsa;
    /// RFC 5289, with SHA-384
    EcdheEcdsaAes256GcmSha384 = 0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", Aes256Gcm, EcdheEcdsa;
    /// RFC 7251; mandatory for CoAP with certificates or raw public keys (RFC 7252 section 9.1.3)
    EcdheEcdsaAes128Ccm8 = 0xc0ae, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", Aes128Ccm8, EcdheEcdsa;
    /// RFC 8442
    EcdhePskAes128GcmSha256 = 0xd001, "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256", Aes128Gcm, EcdhePsk;
    /// RFC 8442
    EcdhePskAes128CcmSha256 = 0xd005, "TLS_ECDHE_PSK_WITH_AES_128_CCM_SHA256", Aes128Ccm, EcdhePsk;
    /// RFC 7905
    EcdhePskChacha20Poly1305Sha256 = 0xccac, "TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256", ChaCha20Poly1305, EcdhePsk;
    /// RFC 8442
    EcdhePskAes128Ccm8Sha256 = 0xd003, "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256", Aes128Ccm8, EcdhePsk;
    /// RFC 5487
    PskAes128GcmSha256 = 0x00a8, "TLS_PSK_WITH_AES_128_GCM_SHA256", Aes128Gcm, Psk;
    /// RFC 6655
    PskAes128Ccm = 0xc0a4, "TLS_PSK_WITH_AES_128_CCM", Aes128Ccm, Psk;
    /// RFC 7905
    PskChacha20Poly1305Sha256 = 0xccab, "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256", ChaCha20Poly1305, Psk;
    /// with a key of 256 bits
    PskAes256Ccm = 0xc0a5, "TLS_PSK_WITH_AES_256_CCM", Aes256Ccm, Psk;
    /// mandatory for constrained devices (RFC 7925)
    PskAes128Ccm8 = 0xc0a8, "TLS_PSK_WITH_AES_128_CCM_8", Aes128Ccm8, Psk;
    /// with a key of 256 bits and tags of eight octets
    PskAes256Ccm8 = 0xc0a9, "TLS_PSK_WITH_AES_256_CCM_8", Aes256Ccm8, Psk;
}

impl CipherSuite {
    /// Whether ephemeral keys are agreed on, so that recordings stay secret if a long-lived key
    /// leaks.
    pub const fn is_ecdhe(self) -> bool {
        !matches!(self.exchange(), KeyExchange::Psk)
    }

    /// Whether a pre-shared key is needed.
    pub const fn is_psk(self) -> bool {
        !matches!(self.exchange(), KeyExchange::EcdheEcdsa)
    }

    /// The hash function.
    pub const fn hash(self) -> Hash {
        match self {
            Self::EcdheEcdsaAes256GcmSha384 => Hash::Sha384,
            _ => Hash::Sha256,
        }
    }

    /// The suite with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|suite| suite.number() == number)
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No cipher suite has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCipherSuiteError;

impl fmt::Display for UnknownCipherSuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such cipher suite; there are")?;
        let mut between = " ";
        for suite in CipherSuite::ALL {
            write!(f, "{between}{suite}")?;
            between = ", ";
        }
        Ok(())
    }
}

impl core::error::Error for UnknownCipherSuiteError {}

impl FromStr for CipherSuite {
    type Err = UnknownCipherSuiteError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|suite| suite.name() == text).ok_or(UnknownCipherSuiteError)
    }
}
