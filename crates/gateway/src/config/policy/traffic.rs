//! The names of `policy.allow`, and the conditions that each stands for.

use antedate_wire::EtherType;

use super::conditions::{Conditions, Dcp, Ranges};

const TCP: u64 = 6;
const UDP: u64 = 17;

/// A named kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Traffic {
    /// All that a Profinet device needs to connect and to exchange data.
    Profinet,
    /// Cyclic Profinet data of RT class 1.
    ProfinetRt,
    /// DCP Identify, Get, Hello and their answers.
    ProfinetDcpRead,
    /// DCP Set of anything.
    ProfinetDcpSet,
    /// DCP Set of the IP parameters.
    ProfinetDcpSetIp,
    /// DCP Set of the name of the station.
    ProfinetDcpSetName,
    /// DCP Set that makes the station blink.
    ProfinetDcpSignal,
    /// DCP Set that resets the station to factory settings.
    ProfinetDcpReset,
    /// Profinet alarms, high and low.
    ProfinetAlarm,
    /// Profinet's remote procedure calls: connection, parameters, records.
    ProfinetRpc,
    /// Profinet clock synchronization.
    Ptcp,
    /// Link layer discovery.
    Lldp,
    /// Address resolution.
    Arp,
    /// Every IPv4 packet.
    Ipv4,
    /// Every IPv6 packet.
    Ipv6,
    /// ICMP and ICMPv6, neighbour discovery among them.
    Icmp,
    /// Addresses from a server, IPv4 and IPv6.
    Dhcp,
    /// IEC 61850-8-1 GOOSE.
    Goose,
    /// IEC 61850-9-2 sampled values.
    SampledValues,
    /// EtherCAT.
    Ethercat,
    /// Media redundancy (IEC 62439-2).
    Mrp,
    /// Precision time, over Ethernet and UDP (IEEE 1588, 802.1AS).
    Ptp,
    /// Spanning trees (IEEE 802.1D, 802.1Q).
    Rstp,
    /// SERCOS III.
    Sercos,
    /// Ethernet POWERLINK.
    Powerlink,
    /// CC-Link IE.
    CcLinkIe,
    /// Seamless redundancy (IEC 62439-3).
    HsrPrp,
    /// EtherNet/IP.
    EthernetIp,
    /// OPC UA.
    OpcUa,
    /// Every well-formed frame.
    All,
}

impl Traffic {
    /// All kinds, with their names in the configuration, in the order of the enum.
    pub const NAMES: [(&'static str, Self); 30] = [
        ("profinet", Self::Profinet),
        ("profinet-rt", Self::ProfinetRt),
        ("profinet-dcp-read", Self::ProfinetDcpRead),
        ("profinet-dcp-set", Self::ProfinetDcpSet),
        ("profinet-dcp-set-ip", Self::ProfinetDcpSetIp),
        ("profinet-dcp-set-name", Self::ProfinetDcpSetName),
        ("profinet-dcp-signal", Self::ProfinetDcpSignal),
        ("profinet-dcp-reset", Self::ProfinetDcpReset),
        ("profinet-alarm", Self::ProfinetAlarm),
        ("profinet-rpc", Self::ProfinetRpc),
        ("ptcp", Self::Ptcp),
        ("lldp", Self::Lldp),
        ("arp", Self::Arp),
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("icmp", Self::Icmp),
        ("dhcp", Self::Dhcp),
        ("goose", Self::Goose),
        ("sv", Self::SampledValues),
        ("ethercat", Self::Ethercat),
        ("mrp", Self::Mrp),
        ("ptp", Self::Ptp),
        ("rstp", Self::Rstp),
        ("sercos", Self::Sercos),
        ("powerlink", Self::Powerlink),
        ("cc-link-ie", Self::CcLinkIe),
        ("hsr-prp", Self::HsrPrp),
        ("ethernet-ip", Self::EthernetIp),
        ("opc-ua", Self::OpcUa),
        ("all", Self::All),
    ];

    /// Other names of some kinds.
    pub const ALIASES: [(&'static str, Self); 1] = [("sampled-values", Self::SampledValues)];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// The kinds that this one consists of. Empty if it has conditions of its own.
    #[must_use]
    pub fn parts(self) -> &'static [Self] {
        use Traffic::*;
        match self {
            Profinet => {
                &[ProfinetRt, ProfinetAlarm, ProfinetDcpRead, ProfinetDcpSetIp, ProfinetRpc, Arp, Lldp]
            }
            _ => &[],
        }
    }

    /// Whether its frames go to a group that no switch forwards (IEEE 802.1Q-2018, table 8-1): LLDP,
    /// the link delays of Profinet, and spanning trees.
    #[must_use]
    pub const fn ends_at_switches(self) -> bool {
        matches!(self, Self::Lldp | Self::Ptcp | Self::Rstp)
    }

    /// The rules that the name stands for: a frame passes if it fulfils all conditions of one.
    #[must_use]
    pub fn rules(self) -> Vec<Conditions> {
        use Traffic::*;
        match self {
            Profinet => self.parts().iter().flat_map(|part| part.rules()).collect(),
            ProfinetRt => vec![profinet(Ranges(vec![0x8000..=0xfbff]))],
            ProfinetDcpRead => vec![dcp(Dcp::READ)],
            ProfinetDcpSet => {
                let sets = [Dcp::SET_IP, Dcp::SET_NAME, Dcp::SIGNAL, Dcp::RESET, Dcp::SET_OTHER];
                vec![dcp(sets.into_iter().fold(Dcp::default(), Dcp::and))]
            }
            ProfinetDcpSetIp => vec![dcp(Dcp::SET_IP)],
            ProfinetDcpSetName => vec![dcp(Dcp::SET_NAME)],
            ProfinetDcpSignal => vec![dcp(Dcp::SIGNAL)],
            ProfinetDcpReset => vec![dcp(Dcp::RESET)],
            ProfinetAlarm => vec![profinet(Ranges::list(&[0xfc01, 0xfe01]))],
            // A server may answer from another port than 34964, and takes further calls there.
            ProfinetRpc => {
                vec![port(UDP, &[34964]), Conditions { profinet_rpc: true, ..Conditions::default() }]
            }
            Ptcp => vec![profinet(Ranges(vec![0x0000..=0x00ff, 0xff00..=0xff43]))],
            Lldp => vec![ethertype(EtherType::Lldp)],
            Arp => vec![ethertype(EtherType::Arp)],
            Ipv4 => vec![ethertype(EtherType::Ipv4)],
            Ipv6 => vec![ethertype(EtherType::Ipv6)],
            Icmp => vec![
                Conditions { ip_protocol: Ranges::one(1), ..ethertype(EtherType::Ipv4) },
                Conditions { ip_protocol: Ranges::one(58), ..ethertype(EtherType::Ipv6) },
            ],
            Dhcp => vec![
                Conditions { ethertype: number(EtherType::Ipv4), ..port(UDP, &[67, 68]) },
                Conditions { ethertype: number(EtherType::Ipv6), ..port(UDP, &[546, 547]) },
            ],
            Goose => vec![ethertype(EtherType::Goose)],
            SampledValues => vec![ethertype(EtherType::SampledValues)],
            Ethercat => vec![ethertype(EtherType::EtherCat)],
            Mrp => vec![ethertype(EtherType::Mrp)],
            Ptp => vec![ethertype(EtherType::Ptp), port(UDP, &[319, 320])],
            Rstp => {
                vec![Conditions { dsap: Ranges::one(0x42), ssap: Ranges::one(0x42), ..Conditions::default() }]
            }
            Sercos => vec![ethertype(EtherType::Sercos)],
            Powerlink => vec![ethertype(EtherType::Powerlink)],
            CcLinkIe => vec![ethertype(EtherType::CcLinkIe)],
            HsrPrp => vec![ethertype(EtherType::Prp), ethertype(EtherType::Hsr)],
            EthernetIp => vec![
                port(TCP, &[44818]),
                port(UDP, &[2222, 44818]),
                // Multicast data needs the groups.
                Conditions { ip_protocol: Ranges::one(2), ..ethertype(EtherType::Ipv4) },
                ethertype(EtherType::Arp),
            ],
            OpcUa => vec![
                port(TCP, &[4840]),
                port(UDP, &[4840]),
                ethertype(EtherType::Uadp),
                Conditions { ip_protocol: Ranges::one(58), ..ethertype(EtherType::Ipv6) },
                ethertype(EtherType::Arp),
            ],
            All => vec![Conditions::default()],
        }
    }
}

fn number(ethertype: EtherType) -> Ranges {
    Ranges::one(ethertype.number().into())
}

fn ethertype(ethertype: EtherType) -> Conditions {
    Conditions { ethertype: number(ethertype), ..Conditions::default() }
}

/// Frame IDs as in IEC 61158-6-10, 4.2.3.1.
fn profinet(frame_id: Ranges) -> Conditions {
    Conditions { frame_id, ..Conditions::default() }
}

fn dcp(services: Dcp) -> Conditions {
    Conditions { dcp: Some(services), ..Conditions::default() }
}

/// A port at either end.
fn port(protocol: u64, ports: &[u64]) -> Conditions {
    Conditions { ip_protocol: Ranges::one(protocol), port: Ranges::list(ports), ..Conditions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_enum() {
        for (index, (name, traffic)) in Traffic::NAMES.iter().enumerate() {
            assert_eq!((*traffic as usize, traffic.name()), (index, *name));
        }
    }
}
