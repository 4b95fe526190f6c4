//! The cipher suites of IEEE 802.1AE-2018 clause 14, suites of our own for CPUs with slow AES-GCM
//! (Lackorzynski et al. 2020, section V), and nonces from packet numbers.

use core::fmt;
use core::str::FromStr;

use antedate_wire::Sci;

/// A cipher suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CipherSuite {
    /// GCM-AES-128, the default (clause 14.5)
    GcmAes128,
    /// GCM-AES-256 (clause 14.6)
    GcmAes256,
    /// GCM-AES-XPN-128: packet numbers of 64 bits (clause 14.7)
    GcmAesXpn128,
    /// GCM-AES-XPN-256: packet numbers of 64 bits (clause 14.8)
    GcmAesXpn256,
    /// ChaCha20-Poly1305 (RFC 8439), with the nonces of GCM-AES-256. Not in the standard.
    ChaCha20Poly1305,
    /// AEGIS-128L (draft-irtf-cfrg-aegis-aead), with nonces of sixteen octets. Not in the standard.
    Aegis128L,
    /// Ascon-AEAD128 (NIST SP 800-232), with nonces of sixteen octets. Not in the standard.
    AsconAead128,
    /// AES-128-OCB3 (RFC 7253), with the nonces of GCM-AES-128. Not in the standard.
    Aes128Ocb3,
    /// MORUS-1280-128, to reproduce the paper only. It protects nothing.
    Morus1280,
}

impl CipherSuite {
    /// All suites.
    pub const ALL: [Self; 9] = [
        Self::GcmAes128,
        Self::GcmAes256,
        Self::GcmAesXpn128,
        Self::GcmAesXpn256,
        Self::ChaCha20Poly1305,
        Self::Aegis128L,
        Self::AsconAead128,
        Self::Aes128Ocb3,
        Self::Morus1280,
    ];

    /// Octets of a SAK.
    pub const fn key_len(self) -> usize {
        match self {
            Self::GcmAes128
            | Self::GcmAesXpn128
            | Self::Aegis128L
            | Self::AsconAead128
            | Self::Aes128Ocb3
            | Self::Morus1280 => 16,
            Self::GcmAes256 | Self::GcmAesXpn256 | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Whether the suite is in the standard, so that other implementations may know it.
    pub const fn is_standard(self) -> bool {
        matches!(self, Self::GcmAes128 | Self::GcmAes256 | Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }

    /// Whether the suite exists only to reproduce a paper.
    pub const fn is_research(self) -> bool {
        matches!(self, Self::Morus1280)
    }

    /// Whether `cipher = "auto"` offers the suite without its name in `auto_ciphers`: the standard's
    /// and the two that are the fastest on some CPU.
    pub const fn is_offered_unasked(self) -> bool {
        self.is_standard() || matches!(self, Self::ChaCha20Poly1305 | Self::Aegis128L)
    }

    /// Whether the suite protects some frames by [flow tables](super::Transmit::set_flows).
    pub const fn has_flow_tables(self) -> bool {
        matches!(self, Self::GcmAes128 | Self::GcmAes256 | Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }

    /// Whether the suite has packet numbers of 64 bits, a salt and short SCIs.
    pub const fn is_xpn(self) -> bool {
        matches!(self, Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }

    /// The name that Linux uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GcmAes128 => "gcm-aes-128",
            Self::GcmAes256 => "gcm-aes-256",
            Self::GcmAesXpn128 => "gcm-aes-xpn-128",
            Self::GcmAesXpn256 => "gcm-aes-xpn-256",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::Aegis128L => "aegis-128l",
            Self::AsconAead128 => "ascon-aead128",
            Self::Aes128Ocb3 => "aes-128-ocb3",
            Self::Morus1280 => "morus-1280-128",
        }
    }

    /// The identifier, an EUI-64: that of table 14-1, or a locally administered one.
    pub const fn identifier(self) -> [u8; 8] {
        match self {
            Self::GcmAes128 => standard(1),
            Self::GcmAes256 => standard(2),
            Self::GcmAesXpn128 => standard(3),
            Self::GcmAesXpn256 => standard(4),
            Self::ChaCha20Poly1305 => private(1),
            Self::Aegis128L => private(2),
            Self::Morus1280 => private(3),
            Self::AsconAead128 => private(4),
            Self::Aes128Ocb3 => private(5),
        }
    }

    /// The suite with this identifier.
    pub fn from_identifier(identifier: [u8; 8]) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.identifier() == identifier)
    }

    /// The first packet number that is never used: 2^32-1, or 2^64-1 with XPN.
    ///
    /// The standard allows this number too. Leaving it out makes "one after the last" a packet
    /// number as well.
    pub const fn packet_number_end(self) -> u64 {
        if self.is_xpn() { u64::MAX } else { u32::MAX as u64 }
    }
}

/// An identifier of table 14-1.
const fn standard(last: u8) -> [u8; 8] {
    [0x00, 0x80, 0xc2, 0x00, 0x01, 0x00, 0x00, last]
}

/// An identifier of our own: "ante" after an octet that marks it locally administered.
const fn private(last: u8) -> [u8; 8] {
    [0x02, b'a', b'n', b't', b'e', 0x00, 0x00, last]
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
        Self::ALL.into_iter().find(|suite| suite.name() == text).ok_or(UnknownCipherSuiteError)
    }
}

/// A cipher's nonce: the twelve octets of the standard, or these after four zeros.
pub(super) trait Width: Sized {
    /// A nonce that no frame has without XPN.
    const ZERO: Self;

    /// Converts a nonce to this width.
    fn widen(nonce: [u8; 12]) -> Self;
}

impl Width for [u8; 12] {
    const ZERO: Self = [0; 12];

    #[inline]
    fn widen(nonce: [u8; 12]) -> Self {
        nonce
    }
}

impl Width for [u8; 16] {
    const ZERO: Self = [0; 16];

    #[inline]
    fn widen(nonce: [u8; 12]) -> Self {
        let mut wide = [0; 16];
        wide[4..].copy_from_slice(&nonce);
        wide
    }
}

/// Makes nonces from packet numbers under one key and secure channel.
///
/// Without XPN a nonce is the SCI, then 32 bits of packet number (clause 14.5). With XPN it is the
/// SSCI, then 64 bits of packet number, combined with the salt by XOR (clause 14.7). Both are fixed
/// octets whose last eight are combined with the packet number by XOR.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NonceRule {
    base: [u8; 12],
    mask: u64,
}

impl NonceRule {
    pub(super) fn from_sci(sci: Sci) -> Self {
        let mut base = [0; 12];
        base[..8].copy_from_slice(&sci.0);
        Self { base, mask: u64::from(u32::MAX) }
    }

    pub(super) fn from_salt(salt: [u8; 12], ssci: u32) -> Self {
        let mut base = salt;
        for (octet, ssci) in base.iter_mut().zip(ssci.to_be_bytes()) {
            *octet ^= ssci;
        }
        Self { base, mask: u64::MAX }
    }

    #[inline]
    pub(super) fn nonce(&self, packet_number: u64) -> [u8; 12] {
        let [a, b, c, d, low @ ..] = self.base;
        let low = u64::from_be_bytes(low) ^ (packet_number & self.mask);
        let [e, f, g, h, i, j, k, l] = low.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }
}

impl fmt::Debug for NonceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NonceRule(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn suite_names_are_parsed_back() {
        for suite in CipherSuite::ALL {
            assert_eq!(suite.to_string().parse(), Ok(suite));
            assert_eq!(CipherSuite::from_identifier(suite.identifier()), Some(suite));
            let standards = suite.identifier().starts_with(&[0x00, 0x80, 0xc2]);
            assert_eq!(suite.is_standard(), standards, "our own suites carry our own identifiers");
            let same = CipherSuite::ALL.into_iter().filter(|other| other.identifier() == suite.identifier());
            assert_eq!(same.count(), 1, "{suite}: an identifier names one suite");
        }
        assert_eq!("gcm-aes-192".parse::<CipherSuite>(), Err(UnknownCipherSuiteError));
    }

    #[test]
    fn nonces_follow_the_standard() {
        let rule = NonceRule::from_sci(Sci([0x12, 0x15, 0x35, 0x24, 0xc0, 0x89, 0x5e, 0x81]));
        assert_eq!(rule.nonce(0xb2c2_8465), *b"\x12\x15\x35\x24\xc0\x89\x5e\x81\xb2\xc2\x84\x65");
        let rule = NonceRule::from_salt([0xff; 12], 2);
        assert_eq!(rule.nonce(1), *b"\xff\xff\xff\xfd\xff\xff\xff\xff\xff\xff\xff\xfe");
        assert_eq!(rule.nonce(1 << 32), *b"\xff\xff\xff\xfd\xff\xff\xff\xfe\xff\xff\xff\xff");
    }
}
