//! VXLAN headers (RFC 7348 section 5): the virtual network of an Ethernet frame in a UDP datagram.

use core::fmt;

use crate::bytes::{array, at_least};
use crate::{Error, Result};

/// Octets of the header.
pub const HEADER_LEN: usize = 8;
/// The UDP port of VXLAN (IANA).
pub const PORT: u16 = 4789;
/// The flag of a valid network identifier. All others are sent as zero and ignored on receipt.
const FLAG_VNI: u8 = 0x08;

mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const VNI: usize = 4;
}

/// The identifier of a virtual network (VNI): 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vni(u32);

impl Vni {
    /// The largest number.
    pub const MAX: u32 = (1 << 24) - 1;

    /// The identifier of a number, if the number has 24 bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The three octets on the wire.
    pub const fn octets(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }

    /// The identifier of three octets.
    pub const fn from_octets(octets: [u8; 3]) -> Self {
        let [a, b, c] = octets;
        Self(u32::from_be_bytes([0, a, b, c]))
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The header for a network.
pub const fn header(vni: Vni) -> [u8; HEADER_LEN] {
    let [a, b, c] = vni.octets();
    [FLAG_VNI, 0, 0, 0, a, b, c, 0]
}

/// The network and the Ethernet frame of a UDP payload.
pub fn parse(payload: &[u8]) -> Result<(Vni, &[u8])> {
    at_least(payload, HEADER_LEN)?;
    if payload[field::FLAGS] & FLAG_VNI == 0 {
        return Err(Error::Value);
    }
    Ok((Vni::from_octets(array(payload, field::VNI)), &payload[HEADER_LEN..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips() {
        let vni = Vni::new(0x00ab_cdef).unwrap();
        let mut payload = [0; 10];
        payload[..8].copy_from_slice(&header(vni));
        assert_eq!(payload[..8], [0x08, 0, 0, 0, 0xab, 0xcd, 0xef, 0]);
        assert_eq!(parse(&payload), Ok((vni, &[0, 0][..])));
        // Reserved bits are ignored on receipt.
        payload[0] = 0xff;
        payload[7] = 0xff;
        assert_eq!(parse(&payload).map(|(vni, _)| vni.number()), Ok(0x00ab_cdef));
    }

    #[test]
    fn header_without_network_is_refused() {
        assert_eq!(parse(&[0; 8]), Err(Error::Value));
        assert_eq!(parse(&header(Vni::default())[..7]), Err(Error::Truncated));
        assert_eq!(Vni::new(1 << 24), None);
    }
}
