//! Profinet's remote procedure calls among UDP datagrams: connectionless DCE/RPC (C706, chapter 12)
//! to an interface of Profinet (IEC 61158-6-10) or to the endpoint mapper.
//!
//! The endpoint mapper has UDP port 34964. A server may answer from any other port, and then takes
//! the next calls there, so that the interface, and not the port, tells these datagrams.

/// Octets of the header of connectionless DCE/RPC.
pub const RPC_HEADER_LEN: usize = 80;
/// The last type of a PDU: acknowledgement of a cancellation.
const LAST_TYPE: u8 = 10;
/// The interfaces of device, controller, supervisor and parameter server differ in the last octet
/// of the first group, 1 to 4: dea00001-6c97-11d1-8271-00a02442df7d.
const FIRST: u32 = 0xdea0_0001;
const LAST: u32 = 0xdea0_0004;
const PROFINET: (u16, u16, [u8; 8]) = (0x6c97, 0x11d1, [0x82, 0x71, 0x00, 0xa0, 0x24, 0x42, 0xdf, 0x7d]);
/// The endpoint mapper: e1af8308-5d1f-11c9-91a4-08002b14a0fa.
const MAPPER: (u32, (u16, u16, [u8; 8])) =
    (0xe1af_8308, (0x5d1f, 0x11c9, [0x91, 0xa4, 0x08, 0x00, 0x2b, 0x14, 0xa0, 0xfa]));

mod field {
    pub(super) const VERSION: usize = 0;
    pub(super) const TYPE: usize = 1;
    pub(super) const DATA_REPRESENTATION: usize = 4;
    pub(super) const INTERFACE: usize = 24;
}

/// Whether the payload of a UDP datagram is a call, or an answer, of an interface of Profinet or
/// of the endpoint mapper.
pub fn is_rpc(payload: &[u8]) -> bool {
    let Some(header) = payload.first_chunk::<RPC_HEADER_LEN>() else { return false };
    if header[field::VERSION] != 4 || header[field::TYPE] > LAST_TYPE {
        return false;
    }
    let Some(uuid) = header[field::INTERFACE..].first_chunk::<16>() else { return false };
    let [a, b, c, d, e, f, g, h, node @ ..] = *uuid;
    // The first three groups have the sender's order of octets.
    let (first, rest) = if header[field::DATA_REPRESENTATION] & 0x10 != 0 {
        (u32::from_le_bytes([a, b, c, d]), (u16::from_le_bytes([e, f]), u16::from_le_bytes([g, h]), node))
    } else {
        (u32::from_be_bytes([a, b, c, d]), (u16::from_be_bytes([e, f]), u16::from_be_bytes([g, h]), node))
    };
    ((FIRST..=LAST).contains(&first) && rest == PROFINET) || (first, rest) == MAPPER
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a request to the device's interface, from a little-endian sender.
    fn header() -> [u8; RPC_HEADER_LEN] {
        let mut header = [0; RPC_HEADER_LEN];
        (header[0], header[1], header[4]) = (4, 0, 0x10);
        header[24..40].copy_from_slice(&[
            0x01, 0x00, 0xa0, 0xde, 0x97, 0x6c, 0xd1, 0x11, 0x82, 0x71, 0x00, 0xa0, 0x24, 0x42, 0xdf, 0x7d,
        ]);
        header
    }

    #[test]
    fn interfaces_are_known_in_both_orders() {
        for (interface, known) in [(0, false), (1, true), (2, true), (3, true), (4, true), (5, false)] {
            let mut little = header();
            little[24] = interface;
            let mut big = little;
            big[4] = 0;
            big[24..32].copy_from_slice(&[0xde, 0xa0, 0x00, interface, 0x6c, 0x97, 0x11, 0xd1]);
            assert_eq!((is_rpc(&little), is_rpc(&big)), (known, known), "{interface}");
            big[4] = 0x10;
            assert!(!is_rpc(&big), "the other order");
        }
        let mut mapper = header();
        mapper[4] = 0;
        mapper[24..40].copy_from_slice(&[
            0xe1, 0xaf, 0x83, 0x08, 0x5d, 0x1f, 0x11, 0xc9, 0x91, 0xa4, 0x08, 0x00, 0x2b, 0x14, 0xa0, 0xfa,
        ]);
        assert!(is_rpc(&mapper));
    }

    #[test]
    fn other_datagrams_are_not_calls() {
        assert!(is_rpc(&header()) && is_rpc(&[&header()[..], &[0; 9]].concat()));
        assert!(!is_rpc(&header()[..79]) && !is_rpc(&[]));
        for (at, value) in [(0, 5), (1, 11), (24, 9), (31, 0), (39, 0x7c)] {
            let mut other = header();
            other[at] = value;
            assert!(!is_rpc(&other), "{at}");
        }
    }
}
