//! The narrowest policy for a frame: a name of `allow`, or the conditions of a rule.

use antedate_wire::EtherType;

use super::head::{Head, LONGEST_LLC, NO_PORT, UNKNOWN_PROTOCOL};
use super::{Class, Gate, Way};
use crate::config::policy::{Conditions, IpPrefix, Policy, Ranges, Traffic};

const IGMP: u64 = 2;
/// What would pass a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A name of `policy.allow`.
    Named(Traffic),
    /// A rule of its own.
    Rule(Box<Conditions>),
    /// Nothing: the frame is malformed.
    Nothing,
}

/// Finds what would pass a frame.
#[derive(Debug)]
pub struct Narrowest {
    /// Kinds that consist of others, and those of a whole protocol family, are left out.
    named: Vec<(Traffic, Gate)>,
}

impl Default for Narrowest {
    fn default() -> Self {
        use Traffic::{All, EthernetIp, Ipv4, Ipv6, OpcUa, Profinet, ProfinetDcpSet};
        let is_narrow = |traffic: &Traffic| {
            !matches!(traffic, All | EthernetIp | Ipv4 | Ipv6 | OpcUa | Profinet | ProfinetDcpSet)
        };
        let narrow = Traffic::NAMES.into_iter().map(|(_, traffic)| traffic).filter(is_narrow);
        // These pass auxiliary protocols too, which have names or rules of their own.
        let order = narrow.chain([ProfinetDcpSet, EthernetIp, OpcUa]);
        let gate =
            |traffic| Gate::new(&Policy { allow: vec![traffic], rules: Vec::new(), ..Policy::default() });
        Self { named: order.map(|traffic| (traffic, gate(traffic))).collect() }
    }
}

impl Narrowest {
    /// What would pass this frame.
    #[must_use]
    pub fn of(&self, frame: &[u8]) -> Kind {
        let Some(head) = Head::of(frame).filter(|head| head.class() != Class::Malformed) else {
            return Kind::Nothing;
        };
        let igmp = head.is_ip() && head.ip().is_ok_and(|ip| ip.protocol == IGMP);
        let named = || self.named.iter().find(|(_, gate)| gate.decide(Way::Out, frame).passes);
        match named() {
            Some((traffic, _)) if !igmp => Kind::Named(*traffic),
            _ => conditions(&head).map_or(Kind::Nothing, |conditions| Kind::Rule(Box::new(conditions))),
        }
    }
}

fn conditions(head: &Head<'_>) -> Option<Conditions> {
    let default = Conditions::default;
    Some(match EtherType::from_number(head.ethertype) {
        EtherType::Unknown(0..=LONGEST_LLC) => {
            let llc = head.llc().ok()?;
            if llc.snap <= 0xff_ffff_ffff {
                return Some(Conditions { snap: Ranges::one(llc.snap), ..default() });
            }
            Conditions { dsap: Ranges::one(llc.dsap), ssap: Ranges::one(llc.ssap), ..default() }
        }
        // Neither LLC nor an EtherType: only `all` passes it.
        EtherType::Unknown(0..0x0600) => return None,
        EtherType::Profinet => Conditions { frame_id: Ranges::one(head.frame_id().ok()?), ..default() },
        EtherType::Ipv4 | EtherType::Ipv6 => {
            let ip = head.ip().ok()?;
            let of_version = Conditions { ethertype: Ranges::one(head.ethertype.into()), ..default() };
            if ip.is_later {
                let [from, to] = [ip.source, ip.destination].map(|address| vec![prefix(head, address)]);
                let protocol = (ip.protocol != UNKNOWN_PROTOCOL).then(|| Ranges::one(ip.protocol));
                return Some(Conditions {
                    ip_protocol: protocol.unwrap_or_default(),
                    source_ip: from,
                    destination_ip: to,
                    later_fragment: Some(true),
                    ..of_version
                });
            }
            // The server's, most likely: systems choose their own ports from a high range.
            let port = match ip.source_port.min(ip.destination_port) {
                NO_PORT => Ranges::default(),
                port => Ranges::one(port),
            };
            Conditions { ip_protocol: Ranges::one(ip.protocol), port, ..of_version }
        }
        _ => Conditions { ethertype: Ranges::one(head.ethertype.into()), ..default() },
    })
}

fn prefix(head: &Head<'_>, address: u128) -> IpPrefix {
    if head.ethertype == EtherType::Ipv4.number() {
        IpPrefix { address: std::net::Ipv4Addr::from_bits(address as u32).into(), prefix: 32 }
    } else {
        IpPrefix { address: std::net::Ipv6Addr::from_bits(address).into(), prefix: 128 }
    }
}
