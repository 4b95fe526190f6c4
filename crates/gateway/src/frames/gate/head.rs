//! The fields of a frame that the policy reads.

use antedate_wire::ipv6;
use antedate_wire::profinet::is_rpc;
use antedate_wire::{EtherType, EthernetAddress, VlanTagStack, dcp, ethernet, vlan};

use crate::config::policy::conditions::bits;
use crate::config::policy::{Class, Dcp, Traffic};

/// The largest length of a frame with LLC (IEEE 802.3 clause 3.2.6).
pub(super) const LONGEST_LLC: u16 = 1500;
/// The priority of an untagged frame.
pub(super) const NO_PRIORITY: u64 = 8;
/// The protocol of a later fragment whose header chain is in the first.
pub(super) const UNKNOWN_PROTOCOL: u64 = 256;
/// The port of a protocol without ports.
pub(super) const NO_PORT: u64 = 65_536;
/// The port of a later fragment: it is in the first.
pub(super) const UNKNOWN_PORT: u64 = 65_537;
/// Whether a later fragment is of a call of Profinet.
pub(super) const UNKNOWN_RPC: u64 = 2;

/// A header ends before its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CutError;

type Result<T> = std::result::Result<T, CutError>;

/// The Ethernet header with its tags.
pub(super) struct Head<'a> {
    pub(super) destination: u64,
    pub(super) source: u64,
    tags: [u16; vlan::MAX_TAGS],
    tag_count: usize,
    pub(super) ethertype: u16,
    payload: &'a [u8],
}

/// The headers of an IP packet.
pub(super) struct Ip<'a> {
    pub(super) protocol: u64,
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) source_port: u64,
    pub(super) destination_port: u64,
    pub(super) is_later: bool,
    /// The payload of a UDP datagram, or of its first fragment.
    datagram: &'a [u8],
}

/// The headers of LLC and SNAP (IEEE 802).
pub(super) struct Llc {
    pub(super) dsap: u64,
    pub(super) ssap: u64,
    /// A number of more than 40 bits without SNAP.
    pub(super) snap: u64,
}

impl<'a> Head<'a> {
    #[inline]
    pub(super) fn of(frame: &'a [u8]) -> Option<Self> {
        let destination = EthernetAddress(*frame.first_chunk()?);
        let source = EthernetAddress(*frame.get(6..)?.first_chunk()?);
        if source.is_multicast() {
            return None;
        }
        let (destination, source) = (bits(destination), bits(source));
        // Most frames are untagged and skip the parser of tag stacks.
        let (header, payload) = frame.split_at_checked(ethernet::HEADER_LEN)?;
        let ethertype = u16::from_be_bytes(*header.last_chunk()?);
        let untagged =
            Self { destination, source, tags: [0; vlan::MAX_TAGS], tag_count: 0, ethertype, payload };
        if is_tag(ethertype) { untagged.tagged(frame) } else { Some(untagged) }
    }

    /// Parses a frame with VLAN tags.
    #[inline(never)]
    fn tagged(mut self, frame: &'a [u8]) -> Option<Self> {
        let stack = VlanTagStack::parse(frame).ok()?;
        for (place, tag) in self.tags.iter_mut().zip(stack.tags()) {
            *place = tag.tci.0;
        }
        self.tag_count = stack.tags().len();
        self.ethertype = stack.ethertype.number();
        self.payload = frame.get(stack.payload..)?;
        Some(self)
    }

    /// The tag control information of all tags, outermost first.
    #[inline]
    pub(super) fn tags(&self) -> &[u16] {
        self.tags.get(..self.tag_count).unwrap_or_default()
    }

    #[inline]
    fn half(&self, at: usize) -> Result<u16> {
        let octets = self.payload.get(at..).and_then(<[u8]>::first_chunk).ok_or(CutError)?;
        Ok(u16::from_be_bytes(*octets))
    }

    #[inline]
    pub(super) fn class(&self) -> Class {
        Class::Named(match EtherType::from_number(self.ethertype) {
            EtherType::Profinet => return self.profinet(),
            EtherType::Lldp => Traffic::Lldp,
            EtherType::Arp => Traffic::Arp,
            EtherType::Ipv4 => Traffic::Ipv4,
            EtherType::Ipv6 => Traffic::Ipv6,
            EtherType::Goose => Traffic::Goose,
            EtherType::SampledValues => Traffic::SampledValues,
            EtherType::EtherCat => Traffic::Ethercat,
            EtherType::Mrp => Traffic::Mrp,
            EtherType::Ptp => Traffic::Ptp,
            EtherType::Sercos => Traffic::Sercos,
            EtherType::Powerlink => Traffic::Powerlink,
            EtherType::CcLinkIe => Traffic::CcLinkIe,
            EtherType::Uadp => Traffic::OpcUa,
            EtherType::Prp => Traffic::HsrPrp,
            // VLAN tags are before those of redundancy (IEC 62439-3, IEEE 802.1CB). One behind them
            // would be a tag that no rule sees.
            EtherType::Hsr | EtherType::Redundancy if self.half(4).is_ok_and(is_tag) => {
                return Class::Malformed;
            }
            EtherType::Hsr => Traffic::HsrPrp,
            EtherType::Unknown(0..=LONGEST_LLC) if self.half(0) == Ok(0x4242) => Traffic::Rstp,
            _ => return Class::Other,
        })
    }

    /// Frame IDs as in IEC 61158-6-10, 4.2.3.1.
    #[inline]
    fn profinet(&self) -> Class {
        match self.half(0) {
            Ok(0x8000..=0xfbff) => Class::Named(Traffic::ProfinetRt),
            Ok(0xfc01 | 0xfe01) => Class::Named(Traffic::ProfinetAlarm),
            Ok(0xfefc..=0xfeff) => self.dcp_class(),
            Ok(0x0000..=0x00ff | 0xff00..=0xff43) => Class::Named(Traffic::Ptcp),
            _ => Class::Other,
        }
    }

    #[inline(never)]
    fn dcp_class(&self) -> Class {
        Class::Named(match self.dcp() {
            Ok(Dcp::READ) => Traffic::ProfinetDcpRead,
            Ok(Dcp::SET_IP) => Traffic::ProfinetDcpSetIp,
            Ok(Dcp::SET_NAME) => Traffic::ProfinetDcpSetName,
            Ok(Dcp::SIGNAL) => Traffic::ProfinetDcpSignal,
            Ok(Dcp::RESET) => Traffic::ProfinetDcpReset,
            Ok(Dcp(0)) | Err(CutError) => return Class::Other,
            Ok(_) => Traffic::ProfinetDcpSet,
        })
    }

    /// The frame ID.
    #[inline]
    pub(super) fn frame_id(&self) -> Result<u64> {
        self.half(0).map(u64::from)
    }

    /// The services of DCP. None for other frames.
    #[inline]
    pub(super) fn dcp(&self) -> Result<Dcp> {
        if matches!(self.half(0)?, 0xfefc..=0xfeff) { Ok(self.services()) } else { Ok(Dcp::default()) }
    }

    #[inline(never)]
    fn services(&self) -> Dcp {
        // The service ID: 3 Get, 4 Set, 5 Identify, 6 Hello.
        match self.payload.get(2) {
            Some(3 | 5 | 6) => Dcp::READ,
            Some(4) => set(self.payload),
            _ => Dcp::default(),
        }
    }

    #[inline(never)]
    pub(super) fn llc(&self) -> Result<Llc> {
        let [dsap, ssap] = self.half(0)?.to_be_bytes().map(u64::from);
        let snap = match (dsap, ssap, self.payload.get(3..)) {
            (0xaa, 0xaa, Some([a, b, c, d, e, ..])) => u64::from_be_bytes([0, 0, 0, *a, *b, *c, *d, *e]),
            (0xaa, 0xaa, _) => return Err(CutError),
            _ => u64::MAX,
        };
        Ok(Llc { dsap, ssap, snap })
    }

    /// Whether the EtherType is one of IP.
    pub(super) fn is_ip(&self) -> bool {
        matches!(EtherType::from_number(self.ethertype), EtherType::Ipv4 | EtherType::Ipv6)
    }

    /// The headers of an IP packet, from the EtherType's version.
    #[inline]
    pub(super) fn ip(&self) -> Result<Ip<'a>> {
        if self.ethertype == EtherType::Ipv4.number() {
            Ip::v4(self.payload).ok_or(CutError)
        } else {
            Ip::v6(self.payload).ok_or(CutError)
        }
    }
}

/// As [`EtherType::is_vlan`], without a look at all other EtherTypes.
#[inline]
fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300)
}

/// The class of all frames with this EtherType. `None`: other fields decide.
pub(super) fn class_of(ethertype: u16) -> Option<Class> {
    let head =
        Head { destination: 0, source: 0, tags: [0; vlan::MAX_TAGS], tag_count: 0, ethertype, payload: &[] };
    let is_open = matches!(
        EtherType::from_number(ethertype),
        EtherType::Profinet | EtherType::Hsr | EtherType::Redundancy | EtherType::Unknown(0..=LONGEST_LLC)
    );
    (!is_open).then(|| head.class())
}

/// The subjects of a Set, or of the answer to one.
fn set(payload: &[u8]) -> Dcp {
    let Ok(pdu) = dcp::Pdu::parse(payload) else { return Dcp::SET_OTHER };
    let is_request = pdu.header.service_type == dcp::ServiceType::Request;
    if !is_request && pdu.data.is_empty() {
        // A refusal without a subject changes nothing.
        return Dcp::READ;
    }
    let (mut subjects, mut steps) = (Dcp::default(), 0);
    for block in pdu.blocks() {
        let Ok(block) = block else { return Dcp::SET_OTHER };
        // The value of a result begins with the subject.
        let subject = match (block.option, block.value) {
            (dcp::Option::ControlResponse, [option, sub, ..]) if !is_request => {
                dcp::Option::from_number(u16::from_be_bytes([*option, *sub]))
            }
            (option, _) => option,
        };
        subjects = subjects.and(match subject {
            dcp::Option::IpParameter | dcp::Option::FullIpSuite => Dcp::SET_IP,
            dcp::Option::NameOfStation => Dcp::SET_NAME,
            dcp::Option::ControlSignal => Dcp::SIGNAL,
            dcp::Option::ControlFactoryReset | dcp::Option::ControlResetToFactory => Dcp::RESET,
            // They enclose the others.
            dcp::Option::ControlStart | dcp::Option::ControlStop => {
                steps += 1;
                Dcp::default()
            }
            _ => Dcp::SET_OTHER,
        });
    }
    if subjects == Dcp::default() || steps > 2 { Dcp::SET_OTHER } else { subjects }
}

impl<'a> Ip<'a> {
    /// IPv4 (RFC 791).
    #[inline]
    fn v4(packet: &'a [u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let headers = usize::from(header[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || headers < 20 {
            return None;
        }
        let payload = packet.get(..total)?.get(headers..)?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
        let ends = (word(12).into(), word(16).into());
        Self::behind(ends, header[9].into(), offset != 0, payload)
    }

    /// IPv6 (RFC 8200). A first fragment without all extension headers is refused (RFC 7112).
    #[inline(never)]
    fn v6(packet: &'a [u8]) -> Option<Self> {
        let view = ipv6::Packet::new_checked(packet).ok()?;
        let end = ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
        let packet = packet.get(..end)?;
        let ends = (view.src_addr().to_bits(), view.dst_addr().to_bits());
        let (mut next, mut at) = (*packet.get(6)?, ipv6::HEADER_LEN);
        for _ in 0..ipv6::MAX_EXTENSIONS {
            let length = match next {
                // Hop by hop, routing, destination options, mobility, HIP, Shim6.
                0 | 43 | 60 | 135 | 139 | 140 => (usize::from(*packet.get(at + 1)?) + 1) * 8,
                AUTHENTICATION => (usize::from(*packet.get(at + 1)?) + 2) * 4,
                FRAGMENT => {
                    let offset = u16::from_be_bytes([*packet.get(at + 2)?, *packet.get(at + 3)?]) >> 3;
                    if offset != 0 {
                        let next = *packet.get(at)?;
                        let is_header =
                            matches!(next, 0 | 43 | 60 | 135 | 139 | 140 | AUTHENTICATION | FRAGMENT);
                        let protocol = if is_header { UNKNOWN_PROTOCOL } else { next.into() };
                        return Self::behind(ends, protocol, true, packet.get(at + 8..)?);
                    }
                    8
                }
                protocol => return Self::behind(ends, protocol.into(), false, packet.get(at..)?),
            };
            next = *packet.get(at)?;
            at += length;
        }
        None
    }

    #[inline]
    fn behind(
        (source, destination): (u128, u128),
        protocol: u64,
        is_later: bool,
        payload: &'a [u8],
    ) -> Option<Self> {
        let mut found = Self {
            protocol,
            source,
            destination,
            source_port: NO_PORT,
            destination_port: NO_PORT,
            is_later,
            datagram: &[],
        };
        if is_later && (has_ports(protocol) || protocol == UNKNOWN_PROTOCOL) {
            (found.source_port, found.destination_port) = (UNKNOWN_PORT, UNKNOWN_PORT);
        } else if has_ports(protocol) {
            let [a, b, c, d] = *payload.first_chunk()?;
            found.source_port = u16::from_be_bytes([a, b]).into();
            found.destination_port = u16::from_be_bytes([c, d]).into();
            if protocol == UDP {
                found.datagram = payload.get(8..)?;
            }
        }
        Some(found)
    }

    /// Whether the datagram is a remote procedure call of Profinet.
    #[inline]
    pub(super) fn rpc(&self) -> u64 {
        match self.source_port {
            UNKNOWN_PORT => UNKNOWN_RPC,
            _ => is_rpc(self.datagram).into(),
        }
    }
}

const UDP: u64 = 17;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// TCP, UDP, DCCP, SCTP, UDP-Lite: their headers begin with two ports.
#[inline]
fn has_ports(protocol: u64) -> bool {
    matches!(protocol, 6 | UDP | 33 | 132 | 136)
}
