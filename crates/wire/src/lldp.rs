//! LLDP (IEEE 802.1AB-2016 clause 8): identification of the neighbour on a link.
//!
//! A PDU is a sequence of TLVs: chassis identifier, port identifier and time to live in this order,
//! then optional ones, then an end. Profinet adds TLVs of the organisation 00-0E-CF (IEC
//! 61158-6-10).

use crate::bytes::{at_least, be16, put16};
use crate::ethernet::Address;
use crate::{Error, Result};

wire_enum! {
    /// The type of a TLV.
    pub enum TlvType(u8) {
        /// the last TLV
        End = 0,
        /// chassis identifier
        ChassisId = 1,
        /// port identifier
        PortId = 2,
        /// time to live
        Ttl = 3,
        /// port description
        PortDescription = 4,
        /// system name
        SystemName = 5,
        /// system description
        SystemDescription = 6,
        /// system capabilities
        SystemCapabilities = 7,
        /// management address
        ManagementAddress = 8,
        /// organisation-specific
        Organization = 127,
    }
}

wire_enum! {
    /// The subtypes of Profinet's own TLVs.
    pub enum ProfinetSubtype(u8) {
        /// measured delays of the port
        Delay = 1,
        /// port status
        PortStatus = 2,
        /// alias
        Alias = 3,
        /// media redundancy port status
        MrpPortStatus = 4,
        /// the MAC address of the chassis
        ChassisMac = 5,
        /// clock synchronisation status
        PtcpStatus = 6,
    }
}

/// The organisation of Profinet.
pub const OUI_PROFINET: [u8; 3] = [0x00, 0x0e, 0xcf];

/// Octets of a TLV's type and length.
const TLV_HEADER_LEN: usize = 2;
/// The longest value of a TLV: its length has nine bits.
const MAX_VALUE_LEN: usize = 511;
/// The longest identifier of a chassis or port.
const MAX_ID_LEN: usize = 255;

/// One TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// the type
    pub kind: TlvType,
    /// the value
    pub value: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// Organisation, subtype and information of an organisation-specific TLV.
    pub fn organization(&self) -> Option<([u8; 3], u8, &'a [u8])> {
        match (self.kind, self.value) {
            (TlvType::Organization, [a, b, c, subtype, information @ ..]) => {
                Some(([*a, *b, *c], *subtype, information))
            }
            _ => None,
        }
    }

    /// Subtype and information of a Profinet TLV.
    pub fn profinet(&self) -> Option<(ProfinetSubtype, &'a [u8])> {
        match self.organization() {
            Some((OUI_PROFINET, subtype, information)) => Some((subtype.into(), information)),
            _ => None,
        }
    }
}

/// The TLVs of a PDU, up to its end TLV or the end of the bytes. Ends after an error.
#[derive(Debug, Clone)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// The TLVs of `pdu`, the octets behind the EtherType.
    pub const fn new(pdu: &'a [u8]) -> Self {
        Self { rest: pdu }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = core::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        if rest.len() < TLV_HEADER_LEN {
            return Some(Err(Error::Truncated));
        }
        let head = be16(rest, 0);
        let kind = TlvType::from_number((head >> 9) as u8);
        let len = usize::from(head & 0x1ff);
        let Some((value, behind)) = rest[TLV_HEADER_LEN..].split_at_checked(len) else {
            return Some(Err(Error::Length));
        };
        if kind == TlvType::End {
            return None;
        }
        self.rest = behind;
        Some(Ok(Tlv { kind, value }))
    }
}

/// The identifier of a chassis or a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Id<'a> {
    /// a MAC address
    Mac(Address),
    /// a locally assigned name; Profinet's name of station and `port-001.name`
    Local(&'a [u8]),
    /// another kind: subtype and octets
    Other(u8, &'a [u8]),
}

/// Subtypes of the identifiers (IEEE 802.1AB tables 8-2 and 8-3). Those of MAC addresses differ.
const CHASSIS_MAC: u8 = 4;
const PORT_MAC: u8 = 3;
const LOCAL: u8 = 7;

impl<'a> Id<'a> {
    fn parse(value: &'a [u8], mac_subtype: u8) -> Result<Self> {
        let (subtype, id) = value.split_first().ok_or(Error::Length)?;
        if id.is_empty() || id.len() > MAX_ID_LEN {
            return Err(Error::Length);
        }
        Ok(match *subtype {
            LOCAL => Self::Local(id),
            mac if mac == mac_subtype => Self::Mac(Address::from_bytes(id).map_err(|_| Error::Length)?),
            other => Self::Other(other, id),
        })
    }

    fn parts(&self, mac_subtype: u8) -> (u8, &[u8]) {
        match self {
            Self::Mac(address) => (mac_subtype, address.as_bytes()),
            Self::Local(name) => (LOCAL, name),
            Self::Other(subtype, id) => (*subtype, id),
        }
    }
}

/// The mandatory TLVs of a PDU, and the octets of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr<'a> {
    /// the machine
    pub chassis_id: Id<'a>,
    /// its port
    pub port_id: Id<'a>,
    /// validity in seconds
    pub ttl: u16,
    /// the optional TLVs as on the wire, without the end; see [`Tlvs::new`]
    pub optional: &'a [u8],
}

impl<'a> Repr<'a> {
    /// Reads the octets behind the EtherType, and checks that every TLV is complete.
    pub fn parse(pdu: &'a [u8]) -> Result<Self> {
        let mut tlvs = Tlvs::new(pdu);
        let mut mandatory = |kind| match tlvs.next() {
            Some(Ok(tlv)) if tlv.kind == kind => Ok(tlv.value),
            Some(Err(error)) => Err(error),
            _ => Err(Error::Value),
        };
        let chassis_id = Id::parse(mandatory(TlvType::ChassisId)?, CHASSIS_MAC)?;
        let port_id = Id::parse(mandatory(TlvType::PortId)?, PORT_MAC)?;
        let ttl = mandatory(TlvType::Ttl)?;
        at_least(ttl, 2).map_err(|_| Error::Length)?;
        let behind = tlvs.rest;
        let mut len = 0;
        for tlv in tlvs {
            len += TLV_HEADER_LEN + tlv?.value.len();
        }
        Ok(Self { chassis_id, port_id, ttl: be16(ttl, 0), optional: behind.get(..len).unwrap_or_default() })
    }

    /// The TLVs behind the mandatory ones.
    pub const fn optional_tlvs(&self) -> Tlvs<'a> {
        Tlvs::new(self.optional)
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let id = |id: &Id<'_>, subtype| TLV_HEADER_LEN + 1 + id.parts(subtype).1.len();
        let ends = TLV_HEADER_LEN + 2 + TLV_HEADER_LEN;
        id(&self.chassis_id, CHASSIS_MAC) + id(&self.port_id, PORT_MAC) + ends + self.optional.len()
    }

    /// Writes the PDU, end included, to the front of `buffer` and returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize> {
        let mut at = 0;
        for (kind, id, mac_subtype) in
            [(TlvType::ChassisId, &self.chassis_id, CHASSIS_MAC), (TlvType::PortId, &self.port_id, PORT_MAC)]
        {
            let (subtype, id) = id.parts(mac_subtype);
            if id.is_empty() || id.len() > MAX_ID_LEN {
                return Err(Error::Length);
            }
            at += emit_tlv(buffer.get_mut(at..).unwrap_or_default(), kind, &[&[subtype], id])?;
        }
        let ttl = self.ttl.to_be_bytes();
        at += emit_tlv(buffer.get_mut(at..).unwrap_or_default(), TlvType::Ttl, &[&ttl])?;
        let optional = buffer.get_mut(at..at + self.optional.len()).ok_or(Error::Truncated)?;
        optional.copy_from_slice(self.optional);
        at += self.optional.len();
        at += emit_tlv(buffer.get_mut(at..).unwrap_or_default(), TlvType::End, &[])?;
        Ok(at)
    }
}

/// Writes a TLV with a value in several pieces to the front of `buffer` and returns its length.
pub fn emit_tlv(buffer: &mut [u8], kind: TlvType, value: &[&[u8]]) -> Result<usize> {
    let len = value.iter().map(|piece| piece.len()).sum::<usize>();
    if len > MAX_VALUE_LEN {
        return Err(Error::Length);
    }
    at_least(buffer, TLV_HEADER_LEN + len)?;
    put16(buffer, 0, u16::from(kind.number() & 0x7f) << 9 | len as u16);
    let mut at = TLV_HEADER_LEN;
    for piece in value {
        buffer[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Ok(at)
}

/// Writes a Profinet TLV to the front of `buffer` and returns its length.
pub fn emit_profinet(buffer: &mut [u8], subtype: ProfinetSubtype, information: &[u8]) -> Result<usize> {
    emit_tlv(buffer, TlvType::Organization, &[&OUI_PROFINET, &[subtype.number()], information])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pdu_round_trips() {
        let mut own = [0; 32];
        let own_len = emit_profinet(&mut own, ProfinetSubtype::PortStatus, &[0, 0, 0, 0]).unwrap();
        let repr = Repr {
            chassis_id: Id::Local(b"device"),
            port_id: Id::Mac(Address([2, 0, 0, 0, 0, 1])),
            ttl: 20,
            optional: &own[..own_len],
        };
        let mut pdu = [0xaa; 64];
        let len = repr.emit(&mut pdu).unwrap();
        assert_eq!(len, repr.buffer_len());
        assert_eq!(pdu[..3], [0x02, 0x07, 0x07]);
        assert_eq!(pdu[len - 2..len], [0, 0]);
        let read = Repr::parse(&pdu).unwrap();
        assert_eq!(read, repr);
        let tlv = read.optional_tlvs().next().unwrap().unwrap();
        assert_eq!(tlv.profinet(), Some((ProfinetSubtype::PortStatus, &[0u8; 4][..])));
    }

    #[test]
    fn truncated_or_unordered_pdu_is_refused() {
        let good = [2, 3, 7, b'a', b'b', 4, 2, 7, b'p', 6, 2, 0, 20, 0, 0];
        assert!(Repr::parse(&good).is_ok());
        for len in 0..13 {
            assert!(Repr::parse(&good[..len]).is_err(), "{len}");
        }
        let swapped = [4, 2, 7, b'p', 2, 3, 7, b'a', b'b', 6, 2, 0, 20, 0, 0];
        assert_eq!(Repr::parse(&swapped), Err(Error::Value));
        let too_long = [2, 3, 7, b'a', b'b', 4, 2, 7, b'p', 6, 2, 0, 20, 0xfe, 5, 1, 2];
        assert_eq!(Repr::parse(&too_long), Err(Error::Length));
    }

    #[test]
    fn short_buffer_is_refused() {
        let repr = Repr { chassis_id: Id::Local(b"a"), port_id: Id::Local(b"b"), ttl: 1, optional: &[] };
        for len in 0..repr.buffer_len() {
            assert_eq!(repr.emit(&mut [0; 64][..len]), Err(Error::Truncated), "{len}");
        }
        assert_eq!(Repr { port_id: Id::Local(b""), ..repr }.emit(&mut [0; 64]), Err(Error::Length));
    }

    proptest! {
        #[test]
        fn parser_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            Tlvs::new(&bytes).flatten().for_each(|tlv| { let _ = tlv.profinet(); });
            let mandatory = [2, 3, 7, b'a', b'b', 4, 2, 7, b'p', 6, 2, 0, 20];
            if let Ok(repr) = Repr::parse(&[&mandatory[..], &bytes].concat()) {
                let mut out = [0; 128];
                let len = repr.emit(&mut out).unwrap();
                prop_assert_eq!(Repr::parse(&out[..len]), Ok(repr));
            }
        }
    }
}
