//! Names of keys as NATS writes them: a prefix, the key and a CRC-16, in base 32 (RFC 4648) without
//! padding.

use zeroize::Zeroizing;

/// The kind of a key, which is its first letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `O`
    Operator,
    /// `A`
    Account,
    /// `U`
    User,
}

impl Kind {
    const fn prefix(self) -> u8 {
        match self {
            Self::Operator => 14 << 3,
            Self::Account => 0,
            Self::User => 20 << 3,
        }
    }
}

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The name of a public key.
#[must_use]
pub fn public(kind: Kind, key: &[u8; 32]) -> String {
    let mut octets = vec![kind.prefix()];
    octets.extend_from_slice(key);
    checked(octets)
}

/// The secret of a key as NATS writes it: `S`, the kind's letter, and the seed.
#[must_use]
pub fn seed(kind: Kind, secret: &[u8; 32]) -> Zeroizing<String> {
    const SEED: u8 = 18 << 3;
    let mut octets = vec![SEED | (kind.prefix() >> 5), (kind.prefix() & 31) << 3];
    octets.extend_from_slice(secret);
    Zeroizing::new(checked(octets))
}

fn checked(mut octets: Vec<u8>) -> String {
    let crc = crc16(&octets);
    octets.extend_from_slice(&crc.to_le_bytes());
    base32(&octets)
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0.
fn crc16(octets: &[u8]) -> u16 {
    octets.iter().fold(0, |crc, octet| {
        (0..8).fold(crc ^ (u16::from(*octet) << 8), |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Base 32 without padding.
#[must_use]
pub fn base32(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len().div_ceil(5) * 8);
    let (mut bits, mut count) = (0u32, 0);
    let mut letter = |index: u32| {
        text.push(char::from(ALPHABET.get((index & 31) as usize).copied().unwrap_or_default()));
    };
    for octet in octets {
        bits = (bits << 8) | u32::from(*octet);
        count += 8;
        while count >= 5 {
            count -= 5;
            letter(bits >> count);
        }
    }
    if count > 0 {
        letter(bits << (5 - count));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_matches_rfc_4648() {
        for (octets, text) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(base32(octets.as_bytes()), text);
        }
    }

    #[test]
    fn crc_matches_its_check_value() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn names_begin_with_their_letter() {
        let key = [9; 32];
        for (kind, letter) in [(Kind::Operator, "O"), (Kind::Account, "A"), (Kind::User, "U")] {
            let name = public(kind, &key);
            assert!(name.starts_with(letter) && name.len() == 56, "{name}");
        }
    }
}
