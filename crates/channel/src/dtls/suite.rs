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

macro_rules! suites {
    ($( $(#[$meta:meta])* $name:ident = $number:literal, $iana:literal, $aead:ident, $ecdhe:literal; )*) => {
        /// A cipher suite of the handshake. All of them use SHA-256.
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

            /// Whether an ephemeral key is combined with the pre-shared one, so that recordings
            /// stay secret if the latter leaks.
            pub const fn is_ecdhe(self) -> bool {
                match self { $( Self::$name => $ecdhe, )* }
            }
        }
    };
}

suites! {
    /// RFC 8442
    EcdhePskAes128GcmSha256 = 0xd001, "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256", Aes128Gcm, true;
    /// RFC 8442
    EcdhePskAes128CcmSha256 = 0xd005, "TLS_ECDHE_PSK_WITH_AES_128_CCM_SHA256", Aes128Ccm, true;
    /// RFC 7905
    EcdhePskChacha20Poly1305Sha256 = 0xccac, "TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256", ChaCha20Poly1305, true;
    /// RFC 8442
    EcdhePskAes128Ccm8Sha256 = 0xd003, "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256", Aes128Ccm8, true;
    /// RFC 5487
    PskAes128GcmSha256 = 0x00a8, "TLS_PSK_WITH_AES_128_GCM_SHA256", Aes128Gcm, false;
    /// RFC 6655
    PskAes128Ccm = 0xc0a4, "TLS_PSK_WITH_AES_128_CCM", Aes128Ccm, false;
    /// RFC 7905
    PskChacha20Poly1305Sha256 = 0xccab, "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256", ChaCha20Poly1305, false;
    /// with a key of 256 bits
    PskAes256Ccm = 0xc0a5, "TLS_PSK_WITH_AES_256_CCM", Aes256Ccm, false;
    /// mandatory for constrained devices (RFC 7925)
    PskAes128Ccm8 = 0xc0a8, "TLS_PSK_WITH_AES_128_CCM_8", Aes128Ccm8, false;
    /// with a key of 256 bits and tags of eight octets
    PskAes256Ccm8 = 0xc0a9, "TLS_PSK_WITH_AES_256_CCM_8", Aes256Ccm8, false;
}

impl CipherSuite {
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
