//! Hexadecimal digits in configuration, key and state files.

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    push_hex(&mut digits, bytes);
    digits
}

/// Appends hexadecimal digits. Makes no other copy if the capacity of `out` suffices.
pub fn push_hex(out: &mut String, bytes: &[u8]) {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
    for byte in bytes {
        out.push(digit(byte >> 4));
        out.push(digit(byte & 15));
    }
}

/// Fills `out` from exactly twice as many hexadecimal digits. Makes no other copy, so it is
/// suitable for keys.
#[must_use]
pub fn parse_hex(digits: &str, out: &mut [u8]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits = digits.as_bytes();
    digits.len() == 2 * out.len()
        && digits.chunks_exact(2).zip(out).all(|(pair, byte)| match *pair {
            [high, low] => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => {
                    *byte = high << 4 | low;
                    true
                }
                _ => false,
            },
            _ => false,
        })
}

/// Whether a key has only zeros, as a placeholder or an erased memory has.
#[must_use]
pub fn is_zero(key: &[u8]) -> bool {
    key.iter().fold(0, |all, octet| all | octet) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_set_bit_is_a_key() {
        assert!(is_zero(&[0; 16]));
        assert!((0..16).all(|at| !is_zero(&core::array::from_fn::<u8, 16, _>(|i| u8::from(i == at)))));
    }

    #[test]
    fn hex_round_trips() {
        let mut bytes = [0; 3];
        assert!(parse_hex("0aFf80", &mut bytes));
        assert_eq!(hex(&bytes), "0aff80");
        for wrong in ["0aff8", "0aff8000", "0aff8g", "+aff80"] {
            assert!(!parse_hex(wrong, &mut bytes), "{wrong}");
        }
    }
}
