//! Reads `[policy]`.

use std::ops::RangeInclusive;

use antedate_host::document::{Field, Section};
use antedate_wire::EtherType;

use super::{U16_MAX, all, number};
use crate::config::Lines;
use crate::config::policy::{Action, AddressMatch, Direction, Policy, Rule, Traffic, Vlan};

/// EtherType of Profinet (IEC 61158-6-10).
const PROFINET: u16 = 0x8892;
const ETHERTYPES: [(&str, u16); 9] = [
    ("profinet", PROFINET),
    ("lldp", 0x88cc),
    ("arp", 0x0806),
    ("ipv4", 0x0800),
    ("ipv6", 0x86dd),
    ("goose", 0x88b8),
    ("sv", 0x88ba),
    ("ethercat", 0x88a4),
    ("mrp", 0x88e3),
];

pub(super) fn policy(mut section: Section<'_, '_>, lines: &mut Lines) -> Policy {
    lines.note("policy", section.line());
    let names = section.get("allow").and_then(|field| field.array()).unwrap_or_default();
    let mut allow = Vec::new();
    for name in names {
        let Some(traffic) = name.one_of("a kind of traffic", &Traffic::NAMES) else { continue };
        if allow.contains(&traffic) {
            name.fault(format!("\"{}\" is named twice", traffic.name()), "remove one of the two");
        }
        allow.push(traffic);
    }
    let rules = section.get("rule").and_then(|field| field.array()).unwrap_or_default();
    let rules = rules.iter().filter_map(rule).collect();
    section.finish();
    Policy { rules, allow }
}

fn rule(field: &Field<'_, '_>) -> Option<Rule> {
    let mut section = field.section()?;
    let action = section
        .required("action", "write action = \"allow\" or action = \"deny\"")
        .and_then(|field| field.one_of("an action", &[("allow", Action::Allow), ("deny", Action::Deny)]));
    let directions = [("in", Direction::In), ("out", Direction::Out), ("both", Direction::Both)];
    let direction = section.get("direction").map(|field| field.one_of("a direction", &directions));
    let kind = section.get("ethertype");
    let ethertype = kind.as_ref().map(number_of);
    let source = section.get("source").map(|field| address_match(&field));
    let destination = section.get("destination").map(|field| address_match(&field));
    let vlan = section.get("vlan").map(|field| match field.as_string() {
        Some(_) => field.one_of("a VLAN", &[("untagged", Vlan::Untagged)]),
        None => number(&field, 0..=4094).map(Vlan::Id),
    });
    let frame_id = section.get("frame_id").map(|field| range(&field));
    if let (Some(Some(other)), Some(kind), Some(Some(_))) = (&ethertype, &kind, &frame_id)
        && *other != PROFINET
    {
        kind.fault("only Profinet has frame IDs", "write ethertype = \"profinet\", or remove frame_id");
    }
    section.finish();
    let frame_id = all(frame_id)?;
    let ethertype = all(ethertype)?.or(frame_id.as_ref().map(|_| PROFINET)).map(EtherType::from);
    Some(Rule {
        line: field.line(),
        direction: all(direction)?.unwrap_or(Direction::Both),
        ethertype,
        source: all(source)?,
        destination: all(destination)?,
        vlan: all(vlan)?,
        frame_id,
        action: action?,
    })
}

/// An EtherType by name or number.
pub(super) fn ethertype(field: &Field<'_, '_>) -> Option<EtherType> {
    number_of(field).map(EtherType::from)
}

fn number_of(field: &Field<'_, '_>) -> Option<u16> {
    match field.as_string() {
        Some(_) => field.one_of("the name of an EtherType", &ETHERTYPES),
        None => number(field, 0x0600..=U16_MAX),
    }
}

fn address_match(field: &Field<'_, '_>) -> Option<AddressMatch> {
    let text = field.string()?;
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, prefix.parse().ok()),
        None => (text, Some(48)),
    };
    let found =
        address.parse().ok().zip(prefix).and_then(|(address, prefix)| AddressMatch::new(address, prefix));
    if found.is_none() {
        field.fault(
            format!("\"{text}\" is not an address"),
            "give \"02:00:5e:10:00:01\", or its first bits with the others zero: \"01:0e:cf:00:00:00/24\"",
        );
    }
    found
}

/// A frame ID, or the first and the last of a range.
pub(super) fn range(field: &Field<'_, '_>) -> Option<RangeInclusive<u16>> {
    if !field.is_array() {
        return number(field, 0..=U16_MAX).map(|id| id..=id);
    }
    let ends = field.array()?;
    let [first, last] = ends.as_slice() else {
        field.fault("must be the first and the last frame ID", "write e.g. frame_id = [0x8000, 0xbfff]");
        return None;
    };
    let (first, last) = (number(first, 0..=U16_MAX)?, number(last, 0..=U16_MAX)?);
    if first > last {
        field.fault("begins behind its end", format!("write frame_id = [{last:#06x}, {first:#06x}]"));
        return None;
    }
    Some(first..=last)
}
