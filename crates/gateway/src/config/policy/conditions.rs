//! The conditions of a rule, in the terms of the configuration.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use antedate_wire::EthernetAddress;

/// The VLAN of an untagged frame, in [`Conditions::vlan`].
pub const UNTAGGED: u64 = 4096;

/// Values of a header field. Empty: any value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(pub Vec<RangeInclusive<u64>>);

impl Ranges {
    /// One value.
    #[must_use]
    pub fn one(value: u64) -> Self {
        Self(vec![value..=value])
    }

    /// Several values.
    #[must_use]
    pub fn list(values: &[u64]) -> Self {
        Self(values.iter().map(|value| *value..=*value).collect())
    }

    /// Whether there is no condition.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the value fulfils the condition.
    #[must_use]
    pub fn contains(&self, value: u64) -> bool {
        self.is_any() || self.0.iter().any(|range| range.contains(&value))
    }
}

/// A prefix of an address: `01:0e:cf:00:00:00/24`, or all 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressMatch {
    /// The address, with zeros after the prefix.
    pub address: EthernetAddress,
    /// Number of leading bits, 0 to 48.
    pub prefix: u8,
}

impl AddressMatch {
    /// `None` if the prefix is too long, or bits behind it are set.
    #[must_use]
    pub fn new(address: EthernetAddress, prefix: u8) -> Option<Self> {
        let rest = (1u64 << 48u32.checked_sub(prefix.into())?) - 1;
        (bits(address) & rest == 0).then_some(Self { address, prefix })
    }

    /// The addresses with this prefix, as numbers of 48 bits.
    #[must_use]
    pub fn range(&self) -> RangeInclusive<u64> {
        let first = bits(self.address);
        first..=first | ((1 << (48 - self.prefix.min(48))) - 1)
    }
}

/// An address as a number of 48 bits.
#[inline]
#[must_use]
pub fn bits(address: EthernetAddress) -> u64 {
    let [a, b, c, d, e, f] = address.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// A prefix of an IP address: `10.0.0.0/8`, `fd00::/8`, or the whole address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPrefix {
    /// The address, with zeros after the prefix.
    pub address: IpAddr,
    /// Number of leading bits.
    pub prefix: u8,
}

impl IpPrefix {
    /// `None` if the prefix is too long, or bits behind it are set.
    #[must_use]
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let made = Self { address, prefix };
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= longest && made.first() & made.rest() == 0).then_some(made)
    }

    /// The addresses with this prefix, as numbers of 32 or 128 bits.
    #[must_use]
    pub fn range(&self) -> RangeInclusive<u128> {
        self.first()..=self.first() | self.rest()
    }

    fn first(&self) -> u128 {
        match self.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    fn rest(&self) -> u128 {
        let longest = if self.address.is_ipv4() { 32 } else { 128 };
        let bits = u32::from(longest - self.prefix.min(longest));
        u128::MAX.checked_shr(128 - bits).unwrap_or(0)
    }
}

/// Services of Profinet's DCP, as a set. Set is divided by the subject of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dcp(pub u8);

impl Dcp {
    /// Identify, Get, Hello and their answers.
    pub const READ: Self = Self(1);
    /// Set of the IP parameters.
    pub const SET_IP: Self = Self(1 << 1);
    /// Set of the name of the station.
    pub const SET_NAME: Self = Self(1 << 2);
    /// Set that makes the station blink.
    pub const SIGNAL: Self = Self(1 << 3);
    /// Set that resets the station to factory settings.
    pub const RESET: Self = Self(1 << 4);
    /// Set of anything else, or malformed.
    pub const SET_OTHER: Self = Self(1 << 5);
    /// Number of sets.
    pub const SETS: usize = 1 << 6;

    /// Names of the services in the configuration.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("read", Self::READ),
        ("set-ip", Self::SET_IP),
        ("set-name", Self::SET_NAME),
        ("signal", Self::SIGNAL),
        ("reset", Self::RESET),
        ("set-other", Self::SET_OTHER),
    ];

    /// All of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether both have a service in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all services of `other` are in this set.
    #[must_use]
    pub const fn holds(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Conditions on the headers of a frame. All must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The EtherType, behind VLAN tags. Below 0x0600: LLC.
    pub ethertype: Ranges,
    /// The source address: one of these. Empty: any.
    pub source: Vec<AddressMatch>,
    /// The destination address: one of these. Empty: any.
    pub destination: Vec<AddressMatch>,
    /// The VLAN of the tags, 0 to 4094, or [`UNTAGGED`]. Tags with VLAN 0 count if no tag has
    /// another.
    pub vlan: Ranges,
    /// The priority of the tags.
    pub priority: Ranges,
    /// The Profinet frame ID.
    pub frame_id: Ranges,
    /// The services of Profinet's DCP.
    pub dcp: Option<Dcp>,
    /// The destination service access point of LLC.
    pub dsap: Ranges,
    /// The source service access point of LLC.
    pub ssap: Ranges,
    /// Organization and protocol of SNAP, 40 bits.
    pub snap: Ranges,
    /// The protocol of an IP packet, behind the extension headers of IPv6.
    pub ip_protocol: Ranges,
    /// The source address of an IP packet: one of these. Empty: any.
    pub source_ip: Vec<IpPrefix>,
    /// The destination address of an IP packet: one of these. Empty: any.
    pub destination_ip: Vec<IpPrefix>,
    /// The source port of TCP, UDP, UDP-Lite, SCTP or DCCP.
    pub source_port: Ranges,
    /// The destination port.
    pub destination_port: Ranges,
    /// The source or the destination port.
    pub port: Ranges,
    /// Whether the IP packet is a fragment behind the first.
    pub later_fragment: Option<bool>,
    /// Whether the UDP datagram is DCE/RPC to an interface of Profinet.
    pub profinet_rpc: bool,
}

impl Conditions {
    /// Whether one is on the headers of LLC.
    #[must_use]
    pub fn is_llc(&self) -> bool {
        !(self.dsap.is_any() && self.ssap.is_any() && self.snap.is_any())
    }

    /// Whether one is on Profinet's header.
    #[must_use]
    pub fn is_profinet(&self) -> bool {
        !self.frame_id.is_any() || self.dcp.is_some()
    }

    /// Whether one is on the header of an IP packet or behind it.
    #[must_use]
    pub fn is_ip(&self) -> bool {
        let ports = [&self.source_port, &self.destination_port, &self.port, &self.ip_protocol];
        ports.iter().any(|ranges| !ranges.is_any())
            || !self.source_ip.is_empty()
            || !self.destination_ip.is_empty()
            || self.later_fragment.is_some()
            || self.profinet_rpc
    }
}

/// The text of the keys in a rule of the configuration, separated by commas.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut numbers = |key: &str, ranges: &Ranges, digits: usize| {
            let number = |value: u64| match digits {
                0 => value.to_string(),
                digits => format!("{value:#0width$x}", width = digits + 2),
            };
            let text = |range: &RangeInclusive<u64>| match (*range.start(), *range.end()) {
                (UNTAGGED, UNTAGGED) if key == "vlan" => "\"untagged\"".to_owned(),
                (first, last) if first < last => format!("\"{}-{}\"", number(first), number(last)),
                // Two numbers in brackets are the ends of a range of frame IDs.
                (one, _) if key == "frame_id" && ranges.0.len() > 1 => format!("\"{}\"", number(one)),
                (one, _) => number(one),
            };
            let texts: Vec<String> = ranges.0.iter().map(text).collect();
            match texts.as_slice() {
                [] => {}
                [one] => parts.push(format!("{key} = {one}")),
                all => parts.push(format!("{key} = [{}]", all.join(", "))),
            }
        };
        numbers("ethertype", &self.ethertype, 4);
        numbers("vlan", &self.vlan, 0);
        numbers("priority", &self.priority, 0);
        numbers("frame_id", &self.frame_id, 4);
        numbers("dsap", &self.dsap, 2);
        numbers("ssap", &self.ssap, 2);
        numbers("snap", &self.snap, 10);
        numbers("ip_protocol", &self.ip_protocol, 0);
        numbers("source_port", &self.source_port, 0);
        numbers("destination_port", &self.destination_port, 0);
        numbers("port", &self.port, 0);
        let mut strings = |key: &str, texts: Vec<String>| match texts.as_slice() {
            [] => {}
            [one] => parts.push(format!("{key} = \"{one}\"")),
            all => parts.push(format!("{key} = [\"{}\"]", all.join("\", \""))),
        };
        let mac = |match_: &AddressMatch| match match_.prefix {
            48 => match_.address.to_string(),
            prefix => format!("{}/{prefix}", match_.address),
        };
        let ip = |match_: &IpPrefix| format!("{}/{}", match_.address, match_.prefix);
        strings("source", self.source.iter().map(mac).collect());
        strings("destination", self.destination.iter().map(mac).collect());
        strings("source_ip", self.source_ip.iter().map(ip).collect());
        strings("destination_ip", self.destination_ip.iter().map(ip).collect());
        let services = Dcp::NAMES.iter().filter(|(_, one)| self.dcp.is_some_and(|set| set.meets(*one)));
        strings("dcp", services.map(|(name, _)| (*name).to_owned()).collect());
        if let Some(later) = self.later_fragment {
            parts.push(format!("later_fragment = {later}"));
        }
        if self.profinet_rpc {
            parts.push("profinet_rpc = true".to_owned());
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_prefix_is_a_range() {
        let dcp = AddressMatch::new(EthernetAddress([1, 0x0e, 0xcf, 0, 0, 0]), 24).unwrap();
        assert_eq!(dcp.range(), 0x010e_cf00_0000..=0x010e_cfff_ffff);
        assert_eq!(AddressMatch::new(EthernetAddress([0; 6]), 0).unwrap().range(), 0..=0xffff_ffff_ffff);
        let one = AddressMatch::new(EthernetAddress([2, 0, 0, 0, 0, 1]), 48).unwrap();
        assert_eq!(one.range(), 0x0200_0000_0001..=0x0200_0000_0001);
    }

    #[test]
    fn bits_after_prefix_are_refused() {
        assert_eq!(AddressMatch::new(EthernetAddress([1, 0x0e, 0xcf, 0, 0, 1]), 24), None);
        assert_eq!(AddressMatch::new(EthernetAddress([0; 6]), 49), None);
        let ip = |text: &str, prefix| IpPrefix::new(text.parse().unwrap(), prefix);
        assert_eq!((ip("10.0.0.1", 24), ip("10.0.0.0", 33), ip("fd00::1", 64)), (None, None, None));
        assert_eq!(ip("10.1.0.0", 16).unwrap().range(), 0x0a01_0000..=0x0a01_ffff);
        assert_eq!(ip("0.0.0.0", 0).unwrap().range(), 0..=0xffff_ffff);
        assert_eq!(ip("::", 0).unwrap().range(), 0..=u128::MAX);
        assert_eq!(ip("::1", 128).unwrap().range(), 1..=1);
    }

    #[test]
    fn conditions_are_written_as_keys() {
        let conditions = Conditions {
            ethertype: Ranges::one(0x8892),
            vlan: Ranges(vec![UNTAGGED..=UNTAGGED, 1..=7]),
            frame_id: Ranges::list(&[0xfc01, 0xfe01]),
            dcp: Some(Dcp::READ.and(Dcp::RESET)),
            destination: vec![AddressMatch::new(EthernetAddress([1, 0, 0, 0, 0, 0]), 8).unwrap()],
            ..Conditions::default()
        };
        assert_eq!(
            conditions.to_string(),
            "ethertype = 0x8892, vlan = [\"untagged\", \"1-7\"], frame_id = [\"0xfc01\", \"0xfe01\"], \
             destination = \"01:00:00:00:00:00/8\", dcp = [\"read\", \"reset\"]"
        );
    }
}
