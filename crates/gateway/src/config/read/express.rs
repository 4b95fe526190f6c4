//! Reads `[express]`.

use antedate_host::document::{Field, Section};
use antedate_wire::EtherType;

use super::policy::{ethertype, range, traffic};
use super::{all, number};
use crate::config::policy::Traffic;
use crate::config::{Express, Lines, Rate};

/// Default length of the longest fragment in octets: 21 µs of Fast Ethernet.
const FRAGMENT: usize = 256;

/// `None`: the section is faulty. `Some(None)`: there is no section.
pub(super) fn express(mut section: Section<'_, '_>, lines: &mut Lines) -> Option<Option<Express>> {
    lines.note("express", section.line());
    if !section.is_present() {
        section.finish();
        return Some(None);
    }
    let each = |fields: Vec<Field<'_, '_>>| -> Option<Vec<Traffic>> { fields.iter().map(traffic).collect() };
    let kinds = section.get("traffic").map(|field| field.array().and_then(each));
    let vlan_priority = section.get("vlan_priority").map(|field| number(&field, 1..=7));
    let ethertypes = section
        .get("ethertypes")
        .map(|field| field.array()?.iter().map(ethertype).collect::<Option<Vec<EtherType>>>());
    let frame_ids = section.get("frame_ids").map(|field| range(&field));
    let fragment = section.get("fragment").map(|field| number(&field, FRAGMENT as u64..=9216));
    let rate = section.get("rate_mbit");
    if rate.is_none() {
        section.fault(
            "rate_mbit",
            "is missing",
            "write the rate of the slowest link on the way, e.g. rate_mbit = 100, or \"link\" for that of the interface",
        );
    }
    let rate = rate.and_then(|field| {
        lines.note("express.rate_mbit", Some(field.line()));
        match field.as_string() {
            Some(_) => field.one_of("a rate", &[("link", Rate::OfLink)]),
            None => number(&field, 1..=400_000).map(Rate::Mbit),
        }
    });
    section.finish();
    let written = Express {
        traffic: all(kinds)?.unwrap_or_default(),
        vlan_priority: all(vlan_priority)?,
        ethertypes: all(ethertypes)?.unwrap_or_default(),
        frame_ids: all(frame_ids)?,
        fragment: all(fragment)?.unwrap_or(FRAGMENT),
        rate: rate?,
    };
    Some(Some(written))
}
