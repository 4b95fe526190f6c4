//! How secure channel identifiers and octet strings are written in configuration and key files.

use antedate_wire::{EthernetAddress, Sci};

/// An SCI (IEEE 802.1AE-2018, 9.9) as `ip macsec` writes it, 16 hexadecimal digits, or as address and port,
/// `02:00:5e:10:00:01/1`.
#[must_use]
pub fn parse_sci(text: &str) -> Option<Sci> {
    match text.split_once('/') {
        Some((address, port)) => Some(Sci::new(address.parse::<EthernetAddress>().ok()?, port.parse().ok()?)),
        None => text.strip_prefix("0x").unwrap_or(text).parse().ok(),
    }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    push_hex(&mut digits, bytes);
    digits
}

/// Appends hexadecimal digits, without a copy elsewhere if `out` has the room.
pub fn push_hex(out: &mut String, bytes: &[u8]) {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
    for byte in bytes {
        out.push(digit(byte >> 4));
        out.push(digit(byte & 15));
    }
}

/// Fills `out` from exactly twice as many hexadecimal digits. Nothing is copied elsewhere, so keys pass through here.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sci_is_read_in_both_forms() {
        let sci = Sci([2, 0, 0x5e, 0x10, 0, 1, 0, 1]);
        for text in ["02005e1000010001", "0x02005E1000010001", "02:00:5e:10:00:01/1"] {
            assert_eq!(parse_sci(text), Some(sci), "{text}");
        }
        for text in [
            "",
            "02005e100001",
            "02:00:5e:10:00:01",
            "02:00:5e:10:00:01/65536",
            "zz005e1000010001",
            "é2005e100001000",
        ] {
            assert_eq!(parse_sci(text), None, "{text}");
        }
    }

    #[test]
    fn hexadecimal_digits_come_back_as_they_went() {
        let mut bytes = [0; 3];
        assert!(parse_hex("0aFf80", &mut bytes));
        assert_eq!(hex(&bytes), "0aff80");
        for wrong in ["0aff8", "0aff8000", "0aff8g", "+aff80"] {
            assert!(!parse_hex(wrong, &mut bytes), "{wrong}");
        }
    }
}
