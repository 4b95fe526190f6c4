//! Ethernet II frames (IEEE 802.3 clause 3.2.6): destination, source, EtherType.
//!
//! Frames have no preamble and no frame check sequence, as on a packet socket.

use core::fmt;
use core::str::FromStr;

use crate::bytes::{array, at_least, be16, put16};
use crate::{Error, Result};

/// Octets of destination, source and EtherType.
pub const HEADER_LEN: usize = 14;
/// The shortest frame on the wire without its frame check sequence. Shorter ones are padded.
pub const MIN_FRAME_LEN: usize = 60;

wire_enum! {
    /// The protocol of an Ethernet frame's payload.
    pub enum EtherType(u16) {
        /// IPv4
        Ipv4 = 0x0800,
        /// ARP
        Arp = 0x0806,
        /// Wake-on-LAN
        WakeOnLan = 0x0842,
        /// the customer tag of IEEE 802.1Q
        Vlan = 0x8100,
        /// IPv6
        Ipv6 = 0x86dd,
        /// a service tag of equipment older than IEEE 802.1ad
        OldServiceVlan = 0x9100,
        /// a service tag of equipment older than IEEE 802.1ad
        OldServiceVlan2 = 0x9200,
        /// a service tag of equipment older than IEEE 802.1ad
        OldServiceVlan3 = 0x9300,
        /// the Slow Protocols of IEEE 802.3 (link aggregation among them)
        SlowProtocols = 0x8809,
        /// EAP over LAN, which carries MACsec Key Agreement (IEEE 802.1X)
        Eapol = 0x888e,
        /// Profinet: real-time data and DCP
        Profinet = 0x8892,
        /// EtherCAT
        EtherCat = 0x88a4,
        /// the service tag of IEEE 802.1ad
        ServiceVlan = 0x88a8,
        /// Ethernet POWERLINK
        Powerlink = 0x88ab,
        /// OUI Extended protocols (IEEE 802), those between Antedate gateways among them
        OuiExtended = 0x88b7,
        /// GOOSE (IEC 61850-8-1)
        Goose = 0x88b8,
        /// GSE management (IEC 61850-8-1)
        GseManagement = 0x88b9,
        /// Sampled Values (IEC 61850-9-2)
        SampledValues = 0x88ba,
        /// LLDP (IEEE 802.1AB)
        Lldp = 0x88cc,
        /// SERCOS III
        Sercos = 0x88cd,
        /// the Media Redundancy Protocol (IEC 62439-2)
        Mrp = 0x88e3,
        /// MACsec (IEEE 802.1AE)
        Macsec = 0x88e5,
        /// the Precision Time Protocol (IEEE 1588, 802.1AS)
        Ptp = 0x88f7,
        /// PRP supervision (IEC 62439-3)
        Prp = 0x88fb,
        /// HSR (IEC 62439-3)
        Hsr = 0x892f,
        /// CC-Link IE
        CcLinkIe = 0x890f,
        /// OPC UA PubSub (UADP)
        Uadp = 0xb62c,
        /// the redundancy tag of IEEE 802.1CB
        Redundancy = 0xf1c1,
    }
}

impl EtherType {
    /// Whether a VLAN tag follows.
    pub const fn is_vlan(self) -> bool {
        matches!(
            self,
            Self::Vlan
                | Self::ServiceVlan
                | Self::OldServiceVlan
                | Self::OldServiceVlan2
                | Self::OldServiceVlan3
        )
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(other) => write!(f, "0x{other:04x}"),
            named => write!(f, "{named:?}"),
        }
    }
}

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(pub [u8; 6]);

impl Address {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// The nearest bridge only: LLDP's group address, also used by MKA between neighbours.
    pub const LLDP_NEAREST_BRIDGE: Self = Self([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
    /// The Port Access Entity group address (IEEE 802.1X), not forwarded by bridges.
    pub const PAE_GROUP: Self = Self([0x01, 0x80, 0xc2, 0x00, 0x00, 0x03]);

    /// An address from exactly six octets.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        bytes.try_into().map(Self).map_err(|_| Error::Truncated)
    }

    /// The six octets.
    pub const fn as_bytes(&self) -> &[u8; 6] {
        &self.0
    }

    /// Whether this is a group that no customer bridge forwards (IEEE 802.1Q-2018, tables 8-1 to 8-3):
    /// 01-80-C2-00-00-00 to -0F.
    pub const fn is_link_local(&self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f])
    }

    /// Whether this is a group address. Broadcast is one.
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 0x01 != 0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Address {
    type Err = Error;

    /// Reads six pairs of hexadecimal digits with colons or hyphens between them.
    fn from_str(text: &str) -> Result<Self> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut parts = text.split(separator);
        for octet in &mut octets {
            let part = parts.next().ok_or(Error::Value)?;
            if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(Error::Value);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| Error::Value)?;
        }
        if parts.next().is_some() { Err(Error::Value) } else { Ok(Self(octets)) }
    }
}

mod field {
    use core::ops::{Range, RangeFrom};

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: usize = 12;
    pub(super) const PAYLOAD: RangeFrom<usize> = 14..;
}

/// A view of an Ethernet frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// A view of `buffer`, if it holds the header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        at_least(buffer.as_ref(), HEADER_LEN)?;
        Ok(Self { buffer })
    }

    /// Returns the bytes.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The destination address.
    pub fn dst_addr(&self) -> Address {
        Address(array(self.buffer.as_ref(), field::DESTINATION.start))
    }

    /// The source address.
    pub fn src_addr(&self) -> Address {
        Address(array(self.buffer.as_ref(), field::SOURCE.start))
    }

    /// The outermost EtherType: that of a VLAN tag if there is one.
    pub fn ethertype(&self) -> EtherType {
        EtherType::from_number(be16(self.buffer.as_ref(), field::ETHERTYPE))
    }

    /// The octets behind the EtherType, padding included.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[field::PAYLOAD]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the destination address.
    pub fn set_dst_addr(&mut self, address: Address) {
        self.buffer.as_mut()[field::DESTINATION].copy_from_slice(&address.0);
    }

    /// Sets the source address.
    pub fn set_src_addr(&mut self, address: Address) {
        self.buffer.as_mut()[field::SOURCE].copy_from_slice(&address.0);
    }

    /// Sets the EtherType.
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        put16(self.buffer.as_mut(), field::ETHERTYPE, ethertype.number());
    }
}

/// An Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// destination address
    pub dst_addr: Address,
    /// source address
    pub src_addr: Address,
    /// protocol of the payload
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a header.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Self {
        Self { dst_addr: frame.dst_addr(), src_addr: frame.src_addr(), ethertype: frame.ethertype() }
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let mut frame = Frame::new_checked(buffer)?;
        frame.set_dst_addr(self.dst_addr);
        frame.set_src_addr(self.src_addr);
        frame.set_ethertype(self.ethertype);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const BYTES: [u8; 16] =
        [0x01, 0x0e, 0xcf, 0x00, 0x00, 0x00, 0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x88, 0x92, 0xfe, 0xfe];

    #[test]
    fn header_round_trips() {
        let frame = Frame::new_checked(&BYTES[..]).unwrap();
        let repr = Repr::parse(&frame);
        assert_eq!(repr.ethertype, EtherType::Profinet);
        assert!(repr.dst_addr.is_multicast() && !repr.src_addr.is_multicast());
        assert_eq!(frame.payload(), [0xfe, 0xfe]);
        let mut out = [0; 14];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, BYTES[..14]);
    }

    #[test]
    fn thirteen_octets_are_refused() {
        assert_eq!(Frame::new_checked(&BYTES[..13]).unwrap_err(), Error::Truncated);
    }

    #[test]
    fn every_ethertype_round_trips() {
        for number in 0..=u16::MAX {
            assert_eq!(EtherType::from_number(number).number(), number);
        }
        assert_eq!(EtherType::Unknown(0x1234).to_string(), "0x1234");
    }

    #[test]
    fn address_text_round_trips() {
        let address: Address = "01:80:C2:00:00:0e".parse().unwrap();
        assert_eq!(address, Address::LLDP_NEAREST_BRIDGE);
        assert_eq!(address.to_string(), "01:80:c2:00:00:0e");
        assert_eq!("02-00-00-00-00-01".parse(), Ok(Address([2, 0, 0, 0, 0, 1])));
        for wrong in ["", "01:80:c2:00:00", "01:80:c2:00:00:0e:11", "1:80:c2:00:00:0e", "+1:80:c2:00:00:0e"] {
            assert_eq!(wrong.parse::<Address>(), Err(Error::Value), "{wrong}");
        }
    }
}
