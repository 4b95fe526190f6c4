//! The types of `[policy]`: the frames that may pass. All others are refused.
//!
//! Rules are tried in the order of the file, and the first match decides. Without a match, the
//! kinds of `allow` pass.

use std::ops::RangeInclusive;

use antedate_wire::{EtherType, EthernetAddress};

/// The frames that may pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Rules in the order of the file. The first match decides.
    pub rules: Vec<Rule>,
    /// Kinds of traffic that pass in both directions.
    pub allow: Vec<Traffic>,
}

impl Policy {
    /// Whether every frame is refused.
    #[must_use]
    pub fn passes_nothing(&self) -> bool {
        self.allow.is_empty() && self.rules.iter().all(|rule| rule.action == Action::Deny)
    }
}

/// A named kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Traffic {
    /// Cyclic Profinet data of RT class 1 and UDP-less RT: frame IDs 0x8000 to 0xfbff.
    ProfinetRt,
    /// DCP Identify, Get, Hello and their answers.
    ProfinetDcpRead,
    /// DCP Set: renames devices and changes their addresses.
    ProfinetDcpSet,
    /// Profinet alarms, high and low: frame IDs 0xfc01 and 0xfe01.
    ProfinetAlarm,
    /// Link layer discovery, 0x88cc.
    Lldp,
    /// 0x0806.
    Arp,
    /// 0x0800.
    Ipv4,
    /// 0x86dd.
    Ipv6,
    /// IEC 61850-8-1 GOOSE, 0x88b8.
    Goose,
    /// IEC 61850-9-2 sampled values, 0x88ba.
    SampledValues,
    /// 0x88a4.
    Ethercat,
    /// Media redundancy, 0x88e3.
    Mrp,
    /// Profinet clock synchronization: frame IDs 0x0000 to 0x00ff and 0xff00 to 0xff43.
    Ptcp,
    /// Every well-formed frame.
    All,
}

impl Traffic {
    /// All kinds, with their names in the configuration.
    pub const NAMES: [(&'static str, Self); 14] = [
        ("profinet-rt", Self::ProfinetRt),
        ("profinet-dcp-read", Self::ProfinetDcpRead),
        ("profinet-dcp-set", Self::ProfinetDcpSet),
        ("profinet-alarm", Self::ProfinetAlarm),
        ("lldp", Self::Lldp),
        ("arp", Self::Arp),
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("goose", Self::Goose),
        ("sv", Self::SampledValues),
        ("ethercat", Self::Ethercat),
        ("mrp", Self::Mrp),
        ("ptcp", Self::Ptcp),
        ("all", Self::All),
    ];

    /// Whether its frames go to 01-80-C2-00-00-0E, which no switch forwards (IEEE 802.1Q-2018, table
    /// 8-1): LLDP, and the link delays of Profinet.
    #[must_use]
    pub const fn ends_at_switches(self) -> bool {
        matches!(self, Self::Lldp | Self::Ptcp)
    }

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, traffic)| *traffic == self).map_or("", |(name, _)| name)
    }
}

/// `[[policy.rule]]`: all given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its line in the file, its name in counters and logs.
    pub line: usize,
    /// The direction of the frame.
    pub direction: Direction,
    /// The EtherType, after VLAN tags.
    pub ethertype: Option<EtherType>,
    /// The source address.
    pub source: Option<AddressMatch>,
    /// The destination address.
    pub destination: Option<AddressMatch>,
    /// The VLAN.
    pub vlan: Option<Vlan>,
    /// The Profinet frame ID. Implies EtherType 0x8892.
    pub frame_id: Option<RangeInclusive<u16>>,
    /// The decision for a matching frame.
    pub action: Action,
}

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the uplink to the machines.
    In,
    /// From the machines to the uplink.
    Out,
    /// Either.
    Both,
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
    /// Whether the address has this prefix.
    #[must_use]
    pub fn matches(&self, address: EthernetAddress) -> bool {
        bits(address) & mask(self.prefix) == bits(self.address)
    }

    pub(super) fn new(address: EthernetAddress, prefix: u8) -> Option<Self> {
        (prefix <= 48 && bits(address) & !mask(prefix) == 0).then_some(Self { address, prefix })
    }
}

fn bits(address: EthernetAddress) -> u64 {
    address.0.iter().fold(0, |bits, octet| bits << 8 | u64::from(*octet))
}

fn mask(prefix: u8) -> u64 {
    let all = (1u64 << 48) - 1;
    all & !(all >> prefix.min(48))
}

/// The VLAN of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vlan {
    /// Untagged.
    Untagged,
    /// This VLAN, 0 (priority only) to 4094.
    Id(u16),
}

/// The decision for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It is dropped and counted.
    Deny,
}

/// The kind of a frame, for policy and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A kind with a name in the configuration.
    Named(Traffic),
    /// Any other kind.
    Other,
    /// Too short, or from a group address.
    Malformed,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = Traffic::NAMES.len() + 1;

    /// Names of all classes, in the order of [`Self::index`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        let named = Traffic::NAMES
            .iter()
            .map(|(name, traffic)| if *traffic == Traffic::All { "other" } else { name });
        named.chain(["malformed"])
    }

    /// The index of its counter, below [`Self::COUNT`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Named(traffic) => traffic as usize,
            // No frame has the class `all`, so its index is free for the others.
            Self::Other => Traffic::All as usize,
            Self::Malformed => Traffic::NAMES.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_compares_only_its_bits() {
        let dcp = AddressMatch::new(EthernetAddress([1, 0x0e, 0xcf, 0, 0, 0]), 24).unwrap();
        assert!(dcp.matches(EthernetAddress([1, 0x0e, 0xcf, 9, 9, 9])));
        assert!(!dcp.matches(EthernetAddress([1, 0x0e, 0xce, 9, 9, 9])));
        let any = AddressMatch::new(EthernetAddress([0; 6]), 0).unwrap();
        assert!(any.matches(EthernetAddress([0xff; 6])));
        let one = AddressMatch::new(EthernetAddress([2, 0, 0, 0, 0, 1]), 48).unwrap();
        assert!(!one.matches(EthernetAddress([2, 0, 0, 0, 0, 2])));
    }

    #[test]
    fn bits_after_prefix_are_refused() {
        assert_eq!(AddressMatch::new(EthernetAddress([1, 0x0e, 0xcf, 0, 0, 1]), 24), None);
        assert_eq!(AddressMatch::new(EthernetAddress([0; 6]), 49), None);
    }
}
