//! The CCM* nonce (clause 9.3.3): who sends, and a number that this sender uses once under one key.

use antedate_wire::dot15d4::{Asn, ExtendedAddress, PanId, SecurityLevel, ShortAddress};

/// Octets of a nonce.
pub(super) const NONCE_LEN: usize = 13;

/// What follows the source address in a nonce. The two kinds must not meet under one key: a slot number is, octet by octet, also
/// a frame counter with a level behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NonceKind {
    /// frame counter and security level
    FrameCounter,
    /// absolute slot number (TSCH)
    Asn,
}

/// Who a nonce says has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Extended(ExtendedAddress),
    /// With TSCH a frame with a short source address names it by that.
    Short(PanId, ShortAddress),
}

impl Source {
    const fn octets(self) -> [u8; 8] {
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
pub(super) const fn counted(source: ExtendedAddress, counter: u32, level: SecurityLevel) -> [u8; NONCE_LEN] {
    let [a, b, c, d, e, f, g, h] = source.0;
    let [i, j, k, l] = counter.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, level.number()]
}

/// The nonce of a frame sent in a slot.
pub(super) const fn slotted(source: Source, asn: Asn) -> [u8; NONCE_LEN] {
    let [a, b, c, d, e, f, g, h] = source.octets();
    let [i, j, k, l, m] = asn.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m]
}
