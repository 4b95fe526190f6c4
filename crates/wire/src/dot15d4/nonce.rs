//! The CCM* nonce (clause 9.3.3): the sender, and a number used once per sender and key.

use super::{Asn, ExtendedAddress, PanId, SecurityLevel, ShortAddress};

/// Octets of a nonce.
pub const NONCE_LEN: usize = 13;

/// The sender named in a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// its extended address
    Extended(ExtendedAddress),
    /// its PAN and short address: a TSCH frame with a short source address uses these
    Short(PanId, ShortAddress),
}

impl Source {
    /// The eight octets at the beginning of a nonce.
    pub const fn octets(self) -> [u8; 8] {
        match self {
            Self::Extended(address) => address.0,
            Self::Short(pan, address) => {
                // The company identifier of IEEE 802.15, a zero, PAN and address (clause 9.3.3.2).
                let ([a, b], [c, d]) = (pan.0.to_be_bytes(), address.0.to_be_bytes());
                [0xba, 0x55, 0xec, 0, a, b, c, d]
            }
        }
    }
}

/// The nonce of a frame with a frame counter.
pub const fn counted(source: ExtendedAddress, counter: u32, level: SecurityLevel) -> [u8; NONCE_LEN] {
    let [a, b, c, d, e, f, g, h] = source.0;
    let [i, j, k, l] = counter.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, level.number()]
}

/// The nonce of a frame sent in a slot.
pub const fn slotted(source: Source, asn: Asn) -> [u8; NONCE_LEN] {
    let [a, b, c, d, e, f, g, h] = source.octets();
    let [i, j, k, l, m] = asn.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_those_of_the_standard() {
        // Annex C.2.1.1: the extended address, the frame counter, the level.
        let source = ExtendedAddress([0xac, 0xde, 0x48, 0, 0, 0, 0, 1]);
        assert_eq!(
            counted(source, 5, SecurityLevel::Mic64),
            [0xac, 0xde, 0x48, 0, 0, 0, 0, 1, 0, 0, 0, 5, 2]
        );
        let short = Source::Short(PanId(0xabcd), ShortAddress(1));
        assert_eq!(
            slotted(short, Asn::MAX),
            [0xba, 0x55, 0xec, 0, 0xab, 0xcd, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff]
        );
    }
}
