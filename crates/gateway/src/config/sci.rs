//! Secure channel identifiers in configuration and key files.

use antedate_wire::{EthernetAddress, Sci};

/// Parses an SCI (IEEE 802.1AE-2018, 9.9): 16 hexadecimal digits as in `ip macsec`, or address and
/// port, `02:00:5e:10:00:01/1`.
#[must_use]
pub fn parse_sci(text: &str) -> Option<Sci> {
    match text.split_once('/') {
        Some((address, port)) => Some(Sci::new(address.parse::<EthernetAddress>().ok()?, port.parse().ok()?)),
        None => text.strip_prefix("0x").unwrap_or(text).parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_sci_are_read() {
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
}
