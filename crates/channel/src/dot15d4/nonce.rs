//! The CCM* nonce (clause 9.3.3): the sender, and a number used once per sender and key.

use antedate_wire::dot15d4::{Asn, ExtendedAddress, PanId, SecurityLevel, ShortAddress};

/// Octets of a nonce.
pub(super) const NONCE_LEN: usize = 13;

/// The number in a nonce after the source address. The two kinds must not be mixed under one key: a
/// slot number can equal a frame counter followed by a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NonceKind {
    /// frame counter and security level
    FrameCounter,
    /// absolute slot number (TSCH)
    Asn,
}

/// The sender named in a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Extended(ExtendedAddress),
    /// A TSCH frame with a short source address uses that.
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
