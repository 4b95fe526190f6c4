//! A SecTAG with all but two fields known.

use antedate_wire::macsec::{SecTag, TAG_LEN_LONG, Tci};

use super::{An, Sci};

/// A SecTAG with short length and packet number left open.
pub(super) const fn open(tci: Tci, an: An, sci: Option<Sci>) -> SecTag {
    SecTag { tci, an, short_length: 0, more_fragments: false, continued: false, packet_number: 0, sci }
}

/// A SecTAG as stored in memory, with short length and packet number left open.
#[derive(Clone, Copy)]
pub(super) struct Template(u128);

impl Template {
    /// The template of the [`open`] SecTAG with these fields.
    pub(super) fn new(tci: Tci, an: An, sci: Option<Sci>) -> Self {
        let mut octets = [0; TAG_LEN_LONG];
        // The buffer holds the longest SecTAG, so this cannot fail.
        let _ = open(tci, an, sci).emit(&mut octets);
        Self(u128::from_le_bytes(octets))
    }

    /// Fills in the octet of short length and flags, and the lower 32 bits of the packet number. A
    /// SecTAG without SCI is the first half.
    ///
    /// Returned in one piece, as it will be loaded: a load over several smaller stores waits for
    /// them.
    #[inline]
    pub(super) fn filled(self, short_length: u8, packet_number: u64) -> [u8; TAG_LEN_LONG] {
        let short_length = u128::from(short_length) << 24;
        let packet_number = u128::from((packet_number as u32).swap_bytes()) << 32;
        (self.0 | short_length | packet_number).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_wire::macsec::TAG_LEN_SHORT;

    #[test]
    fn filled_template_is_the_sectag() {
        for sci in [Some(Sci([0x12, 0x15, 0x35, 0x24, 0xc0, 0x89, 0x5e, 0x81])), None] {
            for (short_length, packet_number) in [(0, 0xb2c2_8465), (42, 1), (47, u32::MAX)] {
                let (an, tci) = (An::ALL[2], Tci::NONE.with_encryption(true).with_changed_text(true));
                let tci = tci.with_end_station(sci.is_none());
                let tag = SecTag { short_length, packet_number, ..open(tci, an, sci) };
                let (mut wanted, len) = ([0; TAG_LEN_LONG], tag.buffer_len());
                tag.emit(&mut wanted).unwrap();
                let number = u64::from(packet_number) | 7 << 32;
                assert_eq!(Template::new(tci, an, sci).filled(short_length, number)[..len], wanted[..len]);
                assert!(sci.is_some() || len == TAG_LEN_SHORT);
            }
        }
    }
}
