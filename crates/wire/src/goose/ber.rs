//! Strict reading of the basic encoding rules (ITU-T X.690) for GOOSE: a tag of one octet, and a
//! definite length in its shortest form, of at most two octets.

use crate::{Error, Result};

/// Tag and value of the element at the front, and the octets behind it.
///
/// # Errors
/// [`Error::Value`] for an indefinite length, a length that is not in its shortest form, or one of
/// three or more octets. [`Error::Length`] for a length past the end.
pub(crate) fn element(bytes: &[u8]) -> Result<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first().ok_or(Error::Truncated)?;
    let (&first, rest) = rest.split_first().ok_or(Error::Truncated)?;
    let (len, rest) = match (first, rest) {
        (0..=0x7f, rest) => (usize::from(first), rest),
        (0x81, [len @ 0x80..=0xff, rest @ ..]) => (usize::from(*len), rest),
        (0x82, [high @ 1..=0xff, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        (0x81, []) | (0x82, [] | [_]) => return Err(Error::Truncated),
        _ => return Err(Error::Value),
    };
    let (value, rest) = rest.split_at_checked(len).ok_or(Error::Length)?;
    Ok((tag, value, rest))
}

/// The value of the element at the front, which must have this tag, and the octets behind it.
pub(crate) fn expect(bytes: &[u8], tag: u8) -> Result<(&[u8], &[u8])> {
    let (found, value, rest) = element(bytes)?;
    if found == tag { Ok((value, rest)) } else { Err(Error::Value) }
}

/// Octets of tag and length for a value of `len` octets.
pub(crate) const fn head_len(len: usize) -> usize {
    match len {
        0..=0x7f => 2,
        0x80..=0xff => 3,
        _ => 4,
    }
}

/// Tag and length for a value of `len` octets, and the used part of the array.
pub(crate) fn head(tag: u8, len: usize) -> Result<([u8; 4], usize)> {
    let [high, low] = u16::try_from(len).map_err(|_| Error::Length)?.to_be_bytes();
    Ok(match len {
        0..=0x7f => ([tag, low, 0, 0], 2),
        0x80..=0xff => ([tag, 0x81, low, 0], 3),
        _ => ([tag, 0x82, high, low], 4),
    })
}

/// An integer of at most eight octets and one of sign. Redundant leading octets are allowed, since
/// GOOSE's fixed-length encodings have them.
pub(crate) fn signed(value: &[u8]) -> Result<i64> {
    let (&first, rest) = value.split_first().ok_or(Error::Length)?;
    let sign = if first & 0x80 == 0 { 0 } else { -1i64 };
    let value = match (value.len(), rest) {
        (0..=8, _) => value,
        // The ninth octet may only repeat the sign.
        (9, [second, ..]) if i64::from(first as i8) == sign && i64::from(*second as i8 >> 7) == sign => rest,
        _ => return Err(Error::Length),
    };
    Ok(value.iter().fold(sign, |number, octet| number << 8 | i64::from(*octet)))
}

/// A non-negative integer of at most eight octets and one of sign.
pub(crate) fn unsigned(value: &[u8]) -> Result<u64> {
    match value {
        [] => Err(Error::Length),
        [first, ..] if first & 0x80 != 0 => Err(Error::Value),
        [0, rest @ ..] if rest.len() <= 8 => Ok(fold(rest)),
        value if value.len() <= 8 => Ok(fold(value)),
        _ => Err(Error::Length),
    }
}

fn fold(value: &[u8]) -> u64 {
    value.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_one_form() {
        assert_eq!(element(&[0x83, 1, 7, 9]), Ok((0x83, &[7][..], &[9][..])));
        let mut long = [0; 3 + 200];
        (long[1], long[2]) = (0x81, 200);
        assert!(element(&long).is_ok_and(|(_, value, rest)| value.len() == 200 && rest.is_empty()));
        for (bytes, error) in [
            (&[0x83, 0x80, 0, 0][..], Error::Value),
            (&[0x83, 0x81, 1, 7], Error::Value),
            (&[0x83, 0x82, 0, 1, 7], Error::Value),
            (&[0x83, 0x83, 0, 0, 1, 7], Error::Value),
            (&[0x83, 0x84, 0, 0, 0, 1, 7], Error::Value),
            (&[0x83, 0x82, 1], Error::Truncated),
            (&[0x83], Error::Truncated),
            (&[0x83, 2, 7], Error::Length),
        ] {
            assert_eq!(element(bytes), Err(error), "{bytes:02x?}");
        }
    }

    #[test]
    fn fixed_length_integers_are_read() {
        assert_eq!(signed(&[0xff, 0xff, 0xff, 0xff, 0xf9]), Ok(-7));
        assert_eq!(signed(&[0, 0, 0, 0, 7]), Ok(7));
        assert_eq!(signed(&[0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]), Ok(i64::MIN));
        assert_eq!(signed(&[0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0]), Err(Error::Length));
        assert_eq!(signed(&[]), Err(Error::Length));
        assert_eq!(unsigned(&[0, 0xff, 0xff, 0xff, 0xff]), Ok(u64::from(u32::MAX)));
        assert_eq!(unsigned(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Ok(u64::MAX));
        assert_eq!(unsigned(&[0x80]), Err(Error::Value));
        assert_eq!(unsigned(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), Err(Error::Length));
    }

    #[test]
    fn heads_round_trip() {
        for len in [0, 1, 127, 128, 255, 256, 1400] {
            let (octets, used) = head(0x61, len).unwrap();
            assert_eq!(used, head_len(len));
            let mut bytes = octets[..used].to_vec();
            bytes.resize(used + len, 0);
            assert!(element(&bytes).is_ok_and(|(tag, value, _)| tag == 0x61 && value.len() == len));
        }
        assert!(head(0x61, 65536).is_err());
    }
}
