//! The policy on the data path: the class of a frame, and whether it passes.
//!
//! Reads headers only. A frame of uncertain kind is [`Class::Other`]; only `all` or a rule lets it
//! pass. A frame that is not well-formed is [`Class::Malformed`] and never passes.

use antedate_wire::{EtherType, EthernetAddress, VlanTagStack, ethernet};

use crate::config::policy::{Action, Class, Direction, Policy, Rule, Traffic, Vlan};

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the machines to the uplink.
    Out,
    /// From the uplink to the machines.
    In,
}

/// The decision on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The class of the frame.
    pub class: Class,
    /// Whether it passes.
    pub passes: bool,
    /// The index in [`Policy::rules`] of the rule that decided, if any.
    pub rule: Option<usize>,
}

/// Decides which frames pass, in each direction.
#[derive(Debug, Clone)]
pub struct Gate {
    rules: Vec<Rule>,
    allowed: [bool; Class::COUNT],
}

impl Gate {
    /// A gate with this policy.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        let mut allowed = [false; Class::COUNT];
        for traffic in &policy.allow {
            allowed[*traffic as usize] = true;
            if *traffic == Traffic::All {
                allowed = [true; Class::COUNT];
            }
        }
        allowed[Class::Malformed.index()] = false;
        Self { rules: policy.rules.clone(), allowed }
    }

    /// Decides on a frame.
    #[inline]
    #[must_use]
    pub fn decide(&self, way: Way, frame: &[u8]) -> Verdict {
        let Some(head) = Head::of(frame) else {
            return Verdict { class: Class::Malformed, passes: false, rule: None };
        };
        let class = head.class();
        if !self.rules.is_empty() {
            for (index, rule) in self.rules.iter().enumerate() {
                if head.matches(rule, way) {
                    return Verdict { class, passes: rule.action == Action::Allow, rule: Some(index) };
                }
            }
        }
        Verdict { class, passes: self.allowed[class.index()], rule: None }
    }
}

/// The headers that the policy reads.
struct Head<'a> {
    destination: EthernetAddress,
    source: EthernetAddress,
    vlan: Option<u16>,
    ethertype: EtherType,
    payload: &'a [u8],
}

impl<'a> Head<'a> {
    #[inline]
    fn of(frame: &'a [u8]) -> Option<Self> {
        let destination = EthernetAddress(*frame.first_chunk()?);
        let source = EthernetAddress(*frame.get(6..)?.first_chunk()?);
        if source.is_multicast() {
            return None;
        }
        // Most frames are untagged and skip the parser of tag stacks.
        let (header, payload) = frame.split_at_checked(ethernet::HEADER_LEN)?;
        let ethertype = EtherType::from_number(u16::from_be_bytes(*header.last_chunk()?));
        if !ethertype.is_vlan() {
            return Some(Self { destination, source, vlan: None, ethertype, payload });
        }
        Self::tagged(destination, source, frame)
    }

    /// Parses a frame with VLAN tags.
    #[inline(never)]
    fn tagged(destination: EthernetAddress, source: EthernetAddress, frame: &'a [u8]) -> Option<Self> {
        let stack = VlanTagStack::parse(frame).ok()?;
        // A tag with VLAN 0 carries a priority only. The VLAN is that of the next tag, if any.
        let mut ids = stack.tags().iter().map(|tag| tag.tci.id());
        let vlan = ids.clone().find(|id| *id != 0).or_else(|| ids.next());
        Some(Self {
            destination,
            source,
            vlan,
            ethertype: stack.ethertype,
            payload: frame.get(stack.payload..)?,
        })
    }

    fn half(&self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(*self.payload.get(at..)?.first_chunk()?))
    }

    #[inline]
    fn class(&self) -> Class {
        match self.ethertype {
            EtherType::Profinet => self.profinet(),
            EtherType::Lldp => Class::Named(Traffic::Lldp),
            EtherType::Arp => Class::Named(Traffic::Arp),
            EtherType::Ipv4 => Class::Named(Traffic::Ipv4),
            EtherType::Ipv6 => Class::Named(Traffic::Ipv6),
            EtherType::Goose => Class::Named(Traffic::Goose),
            EtherType::SampledValues => Class::Named(Traffic::SampledValues),
            EtherType::EtherCat => Class::Named(Traffic::Ethercat),
            EtherType::Mrp => Class::Named(Traffic::Mrp),
            _ => Class::Other,
        }
    }

    /// Frame IDs as in IEC 61158-6-10, 4.2.3.1.
    #[inline]
    fn profinet(&self) -> Class {
        match self.half(0) {
            Some(0x8000..=0xfbff) => Class::Named(Traffic::ProfinetRt),
            Some(0xfc01 | 0xfe01) => Class::Named(Traffic::ProfinetAlarm),
            // The service ID: 3 Get, 4 Set, 5 Identify, 6 Hello.
            Some(0xfefc..=0xfeff) => match self.payload.get(2) {
                Some(3 | 5 | 6) => Class::Named(Traffic::ProfinetDcpRead),
                Some(4) => Class::Named(Traffic::ProfinetDcpSet),
                _ => Class::Other,
            },
            Some(0x0000..=0x00ff | 0xff00..=0xff43) => Class::Named(Traffic::Ptcp),
            _ => Class::Other,
        }
    }

    fn matches(&self, rule: &Rule, way: Way) -> bool {
        let direction = match rule.direction {
            Direction::Both => true,
            Direction::In => way == Way::In,
            Direction::Out => way == Way::Out,
        };
        let vlan = || match rule.vlan {
            None => true,
            Some(Vlan::Untagged) => self.vlan.is_none(),
            Some(Vlan::Id(id)) => self.vlan == Some(id),
        };
        let frame_id = || {
            rule.frame_id.as_ref().is_none_or(|range| {
                self.ethertype == EtherType::Profinet && self.half(0).is_some_and(|id| range.contains(&id))
            })
        };
        direction
            && rule.ethertype.is_none_or(|ethertype| ethertype == self.ethertype)
            && rule.source.is_none_or(|source| source.matches(self.source))
            && rule.destination.is_none_or(|destination| destination.matches(self.destination))
            && vlan()
            && frame_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in tags {
            f.extend([0x81, 0x00]);
            f.extend(tag.to_be_bytes());
        }
        f.extend(ethertype.to_be_bytes());
        f.extend(payload);
        f.resize(f.len().max(60), 0);
        f
    }

    fn gate(allow: &[Traffic], rules: Vec<Rule>) -> Gate {
        Gate::new(&Policy { rules, allow: allow.to_vec() })
    }

    fn rule() -> Rule {
        Rule {
            line: 1,
            direction: Direction::Both,
            ethertype: None,
            source: None,
            destination: None,
            vlan: None,
            frame_id: None,
            action: Action::Allow,
        }
    }

    #[test]
    fn each_kind_is_recognized() {
        let all = gate(&[], vec![]);
        for (ethertype, payload, expected) in [
            (0x8892, &[0x80, 0x01][..], Class::Named(Traffic::ProfinetRt)),
            (0x8892, &[0xfe, 0xfe, 5, 0], Class::Named(Traffic::ProfinetDcpRead)),
            (0x8892, &[0xfe, 0xfd, 3, 0], Class::Named(Traffic::ProfinetDcpRead)),
            (0x8892, &[0xfe, 0xfd, 4, 0], Class::Named(Traffic::ProfinetDcpSet)),
            (0x8892, &[0xfe, 0xfd, 9, 0], Class::Other),
            (0x8892, &[0xfe, 0x01], Class::Named(Traffic::ProfinetAlarm)),
            (0x8892, &[0xff, 0x40], Class::Named(Traffic::Ptcp)),
            (0x8892, &[0x20, 0x00], Class::Other),
            (0x88cc, &[], Class::Named(Traffic::Lldp)),
            (0x0800, &[], Class::Named(Traffic::Ipv4)),
            (0x88e5, &[], Class::Other),
            (0x0026, &[0x42, 0x42, 3], Class::Other),
        ] {
            for tags in [&[][..], &[0xc000], &[1, 2]] {
                assert_eq!(
                    all.decide(Way::Out, &frame(tags, ethertype, payload)).class,
                    expected,
                    "{ethertype:04x}"
                );
            }
        }
    }

    #[test]
    fn only_named_kinds_pass() {
        let g = gate(&[Traffic::ProfinetRt, Traffic::ProfinetDcpRead], vec![]);
        assert!(g.decide(Way::In, &frame(&[], 0x8892, &[0x80, 0])).passes);
        assert!(g.decide(Way::In, &frame(&[], 0x8892, &[0xfe, 0xfd, 3, 0])).passes);
        assert!(!g.decide(Way::In, &frame(&[], 0x8892, &[0xfe, 0xfd, 4, 0])).passes, "DCP Set");
        assert!(!g.decide(Way::In, &frame(&[], 0x0800, &[])).passes);
    }

    #[test]
    fn all_passes_everything_well_formed() {
        let g = gate(&[Traffic::All], vec![]);
        assert!(g.decide(Way::Out, &frame(&[], 0x1234, &[])).passes);
        assert!(g.decide(Way::Out, &frame(&[], 0x0806, &[])).passes);
        let mut from_group = frame(&[], 0x0800, &[]);
        from_group[6] |= 1;
        for bad in [&[0; 13][..], &[], &from_group, &[0x02, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x81, 0][..]] {
            let verdict = g.decide(Way::Out, bad);
            assert_eq!((verdict.class, verdict.passes), (Class::Malformed, false));
        }
    }

    #[test]
    fn first_matching_rule_decides() {
        let deny = Rule {
            frame_id: Some(0x8000..=0x80ff),
            action: Action::Deny,
            direction: Direction::In,
            ..rule()
        };
        let vlan = Rule { vlan: Some(Vlan::Id(5)), ethertype: Some(EtherType::Ipv4), ..rule() };
        let g = gate(&[Traffic::ProfinetRt], vec![deny, vlan]);
        let cyclic = frame(&[], 0x8892, &[0x80, 0x10]);
        assert_eq!(g.decide(Way::In, &cyclic).rule, Some(0));
        assert!(!g.decide(Way::In, &cyclic).passes);
        assert!(g.decide(Way::Out, &cyclic).passes, "the rule is for the other direction");
        assert!(g.decide(Way::Out, &frame(&[0x2005], 0x0800, &[])).passes);
        assert!(!g.decide(Way::Out, &frame(&[], 0x0800, &[])).passes);
    }

    #[test]
    fn outermost_nonzero_vlan_counts() {
        let deny =
            |vlan| gate(&[Traffic::Ipv4], vec![Rule { vlan: Some(vlan), action: Action::Deny, ..rule() }]);
        for (tags, vlan) in [
            (&[][..], Vlan::Untagged),
            (&[0xc000], Vlan::Id(0)),
            (&[0xc007], Vlan::Id(7)),
            (&[0xc000, 7], Vlan::Id(7)),
            (&[5, 7], Vlan::Id(5)),
            (&[0xc000, 0], Vlan::Id(0)),
        ] {
            for other in [Vlan::Untagged, Vlan::Id(0), Vlan::Id(5), Vlan::Id(7)] {
                let passes = deny(other).decide(Way::Out, &frame(tags, 0x0800, &[])).passes;
                assert_eq!(passes, other != vlan, "{tags:x?} {other:?}");
            }
        }
    }

    #[test]
    fn each_class_has_its_own_counter() {
        let names: Vec<_> = Class::names().collect();
        assert_eq!(names.len(), Class::COUNT);
        assert_eq!(names[Class::Other.index()], "other");
        assert_eq!(names[Class::Malformed.index()], "malformed");
        assert_eq!(names[Class::Named(Traffic::Lldp).index()], "lldp");
    }
}
