//! Reads `[flows]`.

use std::ops::{Range, RangeInclusive};

use antedate_channel::macsec::{FLOW_BLOCKS, FlowShape, PREPARED_LEN};
use antedate_host::document::{Field, Section};
use antedate_host::hex::parse_hex;
use antedate_wire::template::touched;

use super::{all, number};
use crate::config::{FlowTables, Flows, Lines};
use crate::run::flows::WATCHDOG;

/// Offset of the EtherType in a frame.
const ETHERTYPE: usize = 12;
/// The last octet of the longest frame with prepared packet numbers.
const LAST: u64 = (ETHERTYPE + PREPARED_LEN - 1) as u64;
/// Valid watchdogs. Profinet's DataHoldFactor ends at 255 for a send clock of a millisecond.
const CYCLES: RangeInclusive<u64> = 2..=255;

/// The flows with tables, and the watchdog of all. `None` in place of either: it is faulty.
/// `Some(None)`: there are no flows with tables.
pub(super) fn flows(mut section: Section<'_, '_>, lines: &mut Lines) -> (Option<Option<Flows>>, Option<u64>) {
    lines.note("flows", section.line());
    if !section.is_present() {
        section.finish();
        return (Some(None), Some(WATCHDOG));
    }
    let watchdog = watchdog(&mut section);
    let tables = section.get("tables").map(|field| match field.as_string() {
        Some(_) => field.one_of("a choice", &[("auto", FlowTables::Auto)]),
        None => field.boolean().map(|on| if on { FlowTables::On } else { FlowTables::Off }),
    });
    let shapes = if tables.is_some() {
        Some(section.required("shape", "add [[flows.shape]] with begins and varies"))
    } else {
        section.get("shape").map(Some)
    };
    let shapes = shapes.map(|field| field?.array()?.iter().map(shape).collect());
    section.finish();
    let flows = match (all(tables), shapes) {
        (Some(_), None) => Some(None),
        (Some(tables), Some(Some(shapes))) => {
            Some(Some(Flows { tables: tables.unwrap_or(FlowTables::Auto), shapes }))
        }
        _ => None,
    };
    (flows, watchdog)
}

/// Cycles without a frame that a consumer tolerates. 0: flows are not watched.
fn watchdog(section: &mut Section<'_, '_>) -> Option<u64> {
    let watch = all(section.get("watch").map(|field| field.boolean()));
    let cycles = all(section.get("watchdog_cycles").map(|field| number(&field, CYCLES)));
    let (watch, cycles): (_, Option<u64>) = (watch?, cycles?);
    Some(if watch.unwrap_or(true) { cycles.unwrap_or(WATCHDOG) } else { 0 })
}

fn shape(field: &Field<'_, '_>) -> Option<FlowShape> {
    let mut section = field.section()?;
    let remedy = "write what the frames have from the EtherType on, e.g. begins = \"8892 8001\"";
    let begins = section.required("begins", remedy).and_then(|field| octets(&field));
    let remedy = "write the octets that vary, counted from the destination address, e.g. varies = [[20, 39], [60, 61]]";
    let varies = section.required("varies", remedy);
    let holes = varies.and_then(|field| holes(&field));
    section.finish();
    Some(FlowShape { begins: begins?, holes: holes? })
}

fn octets(field: &Field<'_, '_>) -> Option<Vec<u8>> {
    let digits: String = field.string()?.split_whitespace().collect();
    let mut octets = vec![0; digits.len() / 2];
    let octets = (octets.len() >= 2 && parse_hex(&digits, &mut octets)).then_some(octets);
    if octets.is_none() {
        field
            .fault("is not an EtherType and what follows it", "write hexadecimal digits, e.g. \"8892 8001\"");
    }
    octets
}

/// The varying octets, if a table can hold them.
fn holes(field: &Field<'_, '_>) -> Option<Vec<Range<usize>>> {
    let holes: Vec<Range<usize>> = field.array()?.iter().map(hole).collect::<Option<_>>()?;
    let overlaps = |(at, hole): (usize, &Range<usize>)| {
        holes.iter().take(at).any(|other| hole.start < other.end && other.start < hole.end)
    };
    if holes.iter().enumerate().any(overlaps) {
        field.fault("has an octet twice", "give each octet that varies once");
        return None;
    }
    // The packet number takes one block.
    let (blocks, room) = (touched(holes.iter().cloned()), FLOW_BLOCKS - 1);
    if blocks > room {
        field.fault(
            format!(
                "touches {blocks} blocks of 16 octets, counted from the EtherType and once for each stretch, and a table has room \
                 for {room}"
            ),
            "name fewer octets, join stretches of one block, or remove the shape",
        );
        return None;
    }
    Some(holes)
}

/// A hole from its first and last octet, counted from the EtherType.
fn hole(field: &Field<'_, '_>) -> Option<Range<usize>> {
    let bounds: Vec<usize> =
        field.array()?.iter().map(|bound| number(bound, 14..=LAST)).collect::<Option<_>>()?;
    match bounds[..] {
        [first, last] if first <= last => Some(first - ETHERTYPE..last + 1 - ETHERTYPE),
        _ => {
            field.fault("is not the first and the last octet that vary", "write two numbers, e.g. [20, 39]");
            None
        }
    }
}
