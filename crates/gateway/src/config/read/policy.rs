//! Reads `[policy]`.

use std::ops::RangeInclusive;

use antedate_host::document::{Field, Section};
use antedate_wire::EtherType;

use super::{U16_MAX, all, number};
use crate::config::Lines;
use crate::config::policy::conditions::UNTAGGED;
use crate::config::policy::{
    Action, AddressMatch, Conditions, Dcp, Direction, IpPrefix, Limit, MAX_RULES, Policy, Ranges, Rule,
    Traffic,
};

/// The highest bounds, by far above what a port carries.
const MOST_FRAMES: u64 = 1_000_000_000;
const MOST_OCTETS: u64 = 1_000_000_000_000;
const MOST_BURST: u64 = 1_000_000_000;
/// A full frame with two VLAN tags: a burst must hold it, or it never passes.
const LONGEST_FRAME: u64 = 1522;
/// EtherType of Profinet (IEC 61158-6-10).
const PROFINET: u64 = 0x8892;
const ETHERTYPES: [(&str, u64); 17] = [
    ("profinet", PROFINET),
    ("lldp", 0x88cc),
    ("arp", 0x0806),
    ("ipv4", 0x0800),
    ("ipv6", 0x86dd),
    ("goose", 0x88b8),
    ("sv", 0x88ba),
    ("ethercat", 0x88a4),
    ("mrp", 0x88e3),
    ("ptp", 0x88f7),
    ("sercos", 0x88cd),
    ("powerlink", 0x88ab),
    ("cc-link-ie", 0x890f),
    ("hsr", 0x892f),
    ("prp", 0x88fb),
    ("uadp", 0xb62c),
    ("gse-management", 0x88b9),
];
const PROTOCOLS: [(&str, u64); 8] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("icmpv6", 58),
    ("sctp", 132),
];

pub(super) fn policy(mut section: Section<'_, '_>, lines: &mut Lines) -> Policy {
    lines.note("policy", section.line());
    let names = section.get("allow").and_then(|field| field.array()).unwrap_or_default();
    let mut allow = Vec::new();
    for name in names {
        let Some(traffic) = traffic(&name) else { continue };
        if allow.contains(&traffic) {
            name.fault(format!("\"{}\" is named twice", traffic.name()), "remove one of the two");
        }
        allow.push(traffic);
    }
    let rules = section.get("rule").and_then(|field| field.array()).unwrap_or_default();
    if let Some(beyond) = rules.get(MAX_RULES) {
        beyond.fault(
            format!("a policy has at most {MAX_RULES} rules"),
            "join rules: most keys take lists and ranges",
        );
    }
    let rules = rules.iter().filter_map(rule).collect();
    let [broadcast_limit, multicast_limit, unknown_limit] =
        ["broadcast_limit", "multicast_limit", "unknown_limit"].map(|key| {
            section.get(key).and_then(|field| number(&field, 0..=MOST_FRAMES)).unwrap_or_default()
        });
    let burst = section.get("burst_frames").and_then(|field| {
        if broadcast_limit == 0 && multicast_limit == 0 && unknown_limit == 0 {
            field.fault(
                "is a burst without a bound",
                "give broadcast_limit, multicast_limit or unknown_limit too; a rule has its own burst_frames",
            );
        }
        number(&field, 1..=MOST_FRAMES)
    });
    section.finish();
    Policy { rules, allow, broadcast_limit, multicast_limit, unknown_limit, burst: burst.unwrap_or_default() }
}

/// A kind of traffic by one of its names.
pub(super) fn traffic(field: &Field<'_, '_>) -> Option<Traffic> {
    let text = field.as_string();
    match Traffic::ALIASES.iter().find(|(name, _)| text == Some(name)) {
        Some((_, traffic)) => Some(*traffic),
        None => field.one_of("a kind of traffic", &Traffic::NAMES),
    }
}

fn rule(field: &Field<'_, '_>) -> Option<Rule> {
    let mut section = field.section()?;
    let action = section
        .required("action", "write action = \"allow\" or action = \"deny\"")
        .and_then(|field| field.one_of("an action", &[("allow", Action::Allow), ("deny", Action::Deny)]));
    let directions = [("in", Direction::In), ("out", Direction::Out), ("both", Direction::Both)];
    let direction = section.get("direction").map(|field| field.one_of("a direction", &directions));
    let conditions = conditions(&mut section);
    let limit = limit(&mut section, action == Some(Action::Allow));
    section.finish();
    Some(Rule {
        line: field.line(),
        direction: all(direction)?.unwrap_or(Direction::Both),
        conditions: conditions?,
        action: action?,
        limit: limit?,
    })
}

/// Frames and octets that pass by a rule, a second and at once.
fn limit(section: &mut Section<'_, '_>, passes: bool) -> Option<Limit> {
    let fields = [
        ("frames_per_second", 1..=MOST_FRAMES),
        ("octets_per_second", 1..=MOST_OCTETS),
        ("burst_frames", 1..=MOST_FRAMES),
        ("burst_octets", LONGEST_FRAME..=MOST_BURST),
    ];
    let fields = fields.map(|(key, range)| section.get(key).map(|field| (field, range)));
    let [frames, octets, burst_frames, burst_octets] = &fields;
    for (rate, burst) in [(frames, burst_frames), (octets, burst_octets)] {
        if let (None, Some((field, _))) = (rate, burst) {
            field.fault("is a burst without a bound", "give frames or octets per second too");
        }
    }
    let [frames, octets, burst_frames, burst_octets] = fields.map(|field| {
        let Some((field, range)) = field else { return Some(0) };
        if !passes {
            let remedy = "remove the line, or write action = \"allow\"";
            field.fault("bounds frames that pass, and this rule passes none", remedy);
        }
        field.integer(range)
    });
    let (frames, octets, burst_frames, burst_octets) = (frames?, octets?, burst_frames?, burst_octets?);
    let [frames, burst_frames] = [u32::try_from(frames).ok()?, u32::try_from(burst_frames).ok()?];
    Some(Limit { frames, octets, burst_frames, burst_octets })
}

/// Reads all keys, so that all faults come together.
fn conditions(section: &mut Section<'_, '_>) -> Option<Conditions> {
    let kind = section.get("ethertype");
    let ethertype = kind.as_ref().map(ethertypes);
    let source = section.get("source").map(|field| several(&field, address_match));
    let destination = section.get("destination").map(|field| several(&field, address_match));
    let vlan = ranges(section, "vlan", "a VLAN", &[("untagged", UNTAGGED)], 4094);
    let priority = ranges(section, "priority", "a priority", &[], 7);
    let frame_id = section.get("frame_id").map(|field| frame_ids(&field));
    let dcp = section.get("dcp").map(|field| {
        let service = |field: &Field<'_, '_>| field.one_of("a service of DCP", &Dcp::NAMES);
        Some(several(&field, service)?.into_iter().fold(Dcp::default(), Dcp::and))
    });
    let dsap = ranges(section, "dsap", "an access point", &[], 0xff);
    let ssap = ranges(section, "ssap", "an access point", &[], 0xff);
    let snap = ranges(section, "snap", "a SNAP identifier", &[], 0xff_ffff_ffff);
    let ip_protocol = ranges(section, "ip_protocol", "an IP protocol", &PROTOCOLS, 0xff);
    let source_ip = section.get("source_ip").map(|field| several(&field, ip_prefix));
    let destination_ip = section.get("destination_ip").map(|field| several(&field, ip_prefix));
    let source_port = ranges(section, "source_port", "a port", &[], U16_MAX);
    let destination_port = ranges(section, "destination_port", "a port", &[], U16_MAX);
    let port = ranges(section, "port", "a port", &[], U16_MAX);
    let later_fragment = section.get("later_fragment").map(|field| field.boolean());
    let profinet_rpc = section.get("profinet_rpc").map(|field| field.boolean());
    if let Some(Some(false)) = profinet_rpc {
        section.fault("profinet_rpc", "can be true only", "remove the key, or deny in an earlier rule");
    }
    let conditions = Conditions {
        ethertype: all(ethertype)?.unwrap_or_default(),
        source: all(source)?.unwrap_or_default(),
        destination: all(destination)?.unwrap_or_default(),
        vlan: vlan?,
        priority: priority?,
        frame_id: all(frame_id)?.unwrap_or_default(),
        dcp: all(dcp)?,
        dsap: dsap?,
        ssap: ssap?,
        snap: snap?,
        ip_protocol: ip_protocol?,
        source_ip: all(source_ip)?.unwrap_or_default(),
        destination_ip: all(destination_ip)?.unwrap_or_default(),
        source_port: source_port?,
        destination_port: destination_port?,
        port: port?,
        later_fragment: all(later_fragment)?,
        profinet_rpc: all(profinet_rpc)?.unwrap_or(false),
    };
    let (what, remedy) = contradiction(&conditions)?;
    match (what, kind) {
        ("", _) => return Some(conditions),
        (what, Some(kind)) => kind.fault(what, remedy),
        (what, None) => section.fault("", what, remedy),
    }
    None
}

/// Conditions that no frame fulfils together. Empty: none.
fn contradiction(conditions: &Conditions) -> Option<(&'static str, &'static str)> {
    let versions = [&conditions.source_ip, &conditions.destination_ip]
        .map(|prefixes| prefixes.iter().map(|prefix| prefix.address.is_ipv4()).collect::<Vec<_>>());
    let fits = |v4: bool| versions.iter().all(|of| of.is_empty() || of.contains(&v4));
    let ethertype = &conditions.ethertype;
    let has_ip = (ethertype.contains(0x0800) && fits(true)) || (ethertype.contains(0x86dd) && fits(false));
    let layers = [conditions.is_profinet(), conditions.is_llc(), conditions.is_ip()];
    Some(if conditions.is_profinet() && !ethertype.contains(PROFINET) {
        ("only Profinet has frame IDs and DCP", "write ethertype = \"profinet\", or remove frame_id and dcp")
    } else if conditions.is_llc() && !ethertype.is_any() {
        ("frames with LLC have no EtherType", "remove it, or dsap, ssap and snap")
    } else if layers.iter().filter(|layer| **layer).count() > 1 {
        ("asks for headers that no frame has together", "write a rule for each: Profinet, LLC, IP")
    } else if conditions.is_ip() && !has_ip {
        (
            "no IP packet fulfils the conditions",
            "write \"ipv4\" or \"ipv6\", and addresses of the same version",
        )
    } else {
        ("", "")
    })
}

/// The values of a key: a number, a name, a range as `"5-9"`, or several of these in brackets.
fn ranges(
    section: &mut Section<'_, '_>,
    key: &'static str,
    what: &str,
    names: &[(&str, u64)],
    most: u64,
) -> Option<Ranges> {
    let Some(field) = section.get(key) else { return Some(Ranges::default()) };
    several(&field, |field| range_of(field, what, names, 0..=most)).map(Ranges)
}

/// The elements of an array that is not empty, or the only value.
fn several<T>(field: &Field<'_, '_>, read: impl Fn(&Field<'_, '_>) -> Option<T>) -> Option<Vec<T>> {
    if !field.is_array() {
        return Some(vec![read(field)?]);
    }
    let fields = field.array()?;
    if fields.is_empty() {
        field.fault("names nothing", "write at least one value, or remove the key");
        return None;
    }
    let read: Vec<Option<T>> = fields.iter().map(read).collect();
    read.into_iter().collect()
}

fn range_of(
    field: &Field<'_, '_>,
    what: &str,
    names: &[(&str, u64)],
    limits: RangeInclusive<u64>,
) -> Option<RangeInclusive<u64>> {
    let Some(text) = field.as_string() else { return field.integer(limits).map(|one| one..=one) };
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        if names.is_empty() {
            field.fault(format!("\"{text}\" is not {what}"), "write a number, or a range as \"5-9\"");
            return None;
        }
        return field.one_of(what, names).map(|one| one..=one);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Some(first), Some(last)) = (parsed(first), parsed(last)) else {
        field.fault(format!("\"{text}\" is not {what}"), "write a number, or a range as \"5-9\"");
        return None;
    };
    if first > last {
        field.fault("begins behind its end", format!("write \"{last}-{first}\""));
        return None;
    }
    if !limits.contains(&first) || !limits.contains(&last) {
        let (least, most) = limits.into_inner();
        field.fault(format!("{text} is out of range"), format!("give a whole number from {least} to {most}"));
        return None;
    }
    Some(first..=last)
}

/// A number in decimal or, behind `0x`, hexadecimal digits.
fn parsed(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn ethertypes(field: &Field<'_, '_>) -> Option<Ranges> {
    let all = several(field, ethertype_range)?;
    for range in &all {
        let tag = (0x0600..=0xffff)
            .find(|number| range.contains(&u64::from(*number)) && EtherType::from_number(*number).is_vlan());
        if let Some(tag) = tag.filter(|_| range.start() == range.end()) {
            field.fault(
                format!("{tag:#06x} is that of a VLAN tag, and the EtherType is behind the tags"),
                "use vlan or priority",
            );
            return None;
        }
    }
    Some(Ranges(all))
}

fn ethertype_range(field: &Field<'_, '_>) -> Option<RangeInclusive<u64>> {
    range_of(field, "the name of an EtherType", &ETHERTYPES, 0x0600..=U16_MAX)
}

/// An EtherType by name or number.
pub(super) fn ethertype(field: &Field<'_, '_>) -> Option<EtherType> {
    let number = match field.as_string() {
        Some(_) => field.one_of("the name of an EtherType", &ETHERTYPES)?,
        None => field.integer(0x0600..=U16_MAX)?,
    };
    u16::try_from(number).ok().map(EtherType::from)
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

fn ip_prefix(field: &Field<'_, '_>) -> Option<IpPrefix> {
    let text = field.string()?;
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let found = address.parse::<std::net::IpAddr>().ok().and_then(|address| {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        IpPrefix::new(address, prefix.map_or(Some(whole), |prefix| prefix.parse().ok())?)
    });
    if found.is_none() {
        field.fault(
            format!("\"{text}\" is not an IP address"),
            "give \"192.168.0.10\" or \"fd00::1\", or the first bits with the others zero: \"192.168.0.0/24\"",
        );
    }
    found
}

/// Frame IDs: as all ranges, and `[first, last]` for one range.
fn frame_ids(field: &Field<'_, '_>) -> Option<Ranges> {
    let is_number = |field: &Field<'_, '_>| field.as_string().is_none() && !field.is_array();
    if field.is_array() && field.array()?.iter().all(is_number) {
        return range(field).map(|ids| Ranges(vec![u64::from(*ids.start())..=u64::from(*ids.end())]));
    }
    several(field, |field| range_of(field, "a frame ID", &[], 0..=U16_MAX)).map(Ranges)
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
