//! Flows in a table: learning, missed cycles, places under junk.

use super::beat::FORGOTTEN;
use super::report::at;
use super::{PLACES, Table};
use crate::config::policy::{Class, Traffic};
use crate::run::status::Flow;

const RT: Class = Class::Named(Traffic::ProfinetRt);
const MS: u64 = 1_000_000;
const NOW: u64 = 1_000_000_000 * MS;

/// A cyclic frame of this source, with a data status.
fn frame(source: u32, status: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 1];
    frame.extend(source.to_be_bytes());
    frame.extend([0x88, 0x92, 0x80, 0x01]);
    frame.resize(60, 0);
    frame[56..].copy_from_slice(&[0x12, 0x34, status, 0]);
    frame
}

/// A flow of `count` frames in a cycle, up to `end`.
fn cycle(table: &Table, source: u32, count: u64, cycle: u64, end: u64) {
    let frame = frame(source, 0x35);
    (0..count).rev().for_each(|left| table.hear(end - left * cycle, RT, &frame));
}

fn flows(table: &Table) -> Vec<Flow> {
    at(NOW, [table, &Table::default()]).unwrap().flows
}

fn only(table: &Table) -> Flow {
    let flows = flows(table);
    assert_eq!(flows.len(), 1, "{flows:?}");
    flows.into_iter().next().unwrap()
}

#[test]
fn cycle_is_learnt_with_its_status() {
    let table = Table::default();
    cycle(&table, 7, 1_000, MS, NOW);
    let flow = only(&table);
    assert_eq!(
        (flow.direction.as_str(), flow.protocol.as_str(), flow.id.as_str()),
        ("out", "profinet-rt", "8001")
    );
    assert_eq!(flow.source, "02:01:00:00:00:07");
    assert!((999.0..1001.0).contains(&flow.cycle_us) && flow.jitter_us < 1.0, "{flow:?}");
    assert_eq!((flow.frames, flow.missed_cycles, flow.watchdog_expired), (994, 0, 0));
    assert_eq!(flow.intervals.iter().map(|bucket| bucket.count).sum::<u64>(), 994);
    let status = flow.data_status.as_ref().unwrap();
    assert!(status.run && status.valid && status.primary && !status.problem);
    assert_eq!(status.cycle_counter, 0x1234);
    assert!(!flow.has_bus_error(), "{flow:?}");
}

#[test]
fn cycle_is_learnt_through_jitter() {
    let table = Table::default();
    let frame = frame(7, 0x35);
    for beat in 0..200u64 {
        // Each third frame is late by 40 %.
        let late = if beat % 3 == 0 { 400_000 } else { 0 };
        table.hear(NOW - (200 - beat) * MS + late, RT, &frame);
    }
    let flow = only(&table);
    assert!((900.0..1_100.0).contains(&flow.cycle_us), "{flow:?}");
    assert!((150.0..400.0).contains(&flow.jitter_us) && flow.missed_cycles == 0, "{flow:?}");
}

#[test]
fn bad_data_status_is_a_bus_error() {
    for (status, bad) in [(0x35, false), (0x25, true), (0x31, true), (0x15, true)] {
        let table = Table::default();
        cycle(&table, 7, 10, 1_000 * MS, NOW);
        table.hear(NOW, RT, &frame(7, status));
        assert_eq!(only(&table).has_bus_error(), bad, "{status:02x}");
    }
}

#[test]
fn gaps_count_missed_cycles() {
    let table = Table::default();
    cycle(&table, 7, 100, MS, NOW - 110 * MS);
    cycle(&table, 7, 1, MS, NOW - 108 * MS);
    assert_eq!(only(&table).missed_cycles, 0, "it may be another cycle");
    cycle(&table, 7, 1, MS, NOW - 107 * MS);
    assert_eq!((only(&table).missed_cycles, only(&table).watchdog_expired), (1, 0));
    cycle(&table, 7, 100, MS, NOW);
    let flow = only(&table);
    assert_eq!((flow.missed_cycles, flow.watchdog_expired), (8, 1), "{flow:?}");
    assert!((flow.longest_us - 8_000.0).abs() < 1.0 && flow.margin_percent == 0.0, "{flow:?}");
}

#[test]
fn margin_is_left_of_the_watchdog() {
    let table = Table::default();
    cycle(&table, 7, 100, 1_000 * MS, NOW - 2_400 * MS);
    cycle(&table, 7, 1, 1_000 * MS, NOW);
    let flow = only(&table);
    assert!((15.0..25.0).contains(&flow.margin_percent) && !flow.stopped, "{flow:?}");
    table.watch(200);
    assert!(only(&table).margin_percent > 90.0);
}

#[test]
fn another_cycle_is_learnt_again() {
    let table = Table::default();
    cycle(&table, 7, 100, MS, NOW - 1_000 * MS);
    cycle(&table, 7, 100, 4 * MS, NOW);
    let flow = only(&table);
    assert!((3_900.0..4_100.0).contains(&flow.cycle_us), "{flow:?}");
    assert!((4_000.0..4_001.0).contains(&flow.longest_us), "{flow:?}");
    // The silence between them was missed, the rest was no fault.
    assert_eq!((flow.missed_cycles, flow.watchdog_expired), (603, 1), "{flow:?}");
}

#[test]
fn burst_is_no_cycle() {
    let table = Table::default();
    cycle(&table, 7, 100, 4 * MS, NOW - 1_000 * MS);
    // A hundred milliseconds were held up somewhere, and arrive together.
    let frame = frame(7, 0x35);
    for late in 0..25 {
        table.hear(NOW - 900 * MS + late * 60_000, RT, &frame);
    }
    cycle(&table, 7, 200, 4 * MS, NOW - 100 * MS);
    let flow = only(&table);
    assert!((3_900.0..4_100.0).contains(&flow.cycle_us), "{flow:?}");
    assert_eq!((flow.missed_cycles, flow.watchdog_expired), (24, 1), "{flow:?}");
}

#[test]
fn shorter_cycle_is_learnt_when_it_lasts() {
    let table = Table::default();
    cycle(&table, 7, 100, 4 * MS, NOW - 100 * MS);
    cycle(&table, 7, 100, MS, NOW);
    let flow = only(&table);
    assert!((990.0..1_010.0).contains(&flow.cycle_us) && flow.missed_cycles == 0, "{flow:?}");
}

#[test]
fn cycle_of_a_first_burst_is_no_fault() {
    let table = Table::default();
    // What waited before the gateway began.
    cycle(&table, 7, 6, MS / 10, NOW - 1_000 * MS);
    cycle(&table, 7, 100, 4 * MS, NOW - 600 * MS);
    let flow = only(&table);
    assert!((3_900.0..4_100.0).contains(&flow.cycle_us), "{flow:?}");
    assert_eq!((flow.missed_cycles, flow.watchdog_expired), (0, 0), "{flow:?}");
}

#[test]
fn silent_flow_stops_and_is_forgotten() {
    let table = Table::default();
    cycle(&table, 7, 100, MS, NOW - 10 * MS);
    let flow = only(&table);
    assert!(flow.stopped && flow.has_bus_error() && flow.margin_percent == 0.0, "{flow:?}");
    let document = at(NOW + FORGOTTEN, [&table, &Table::default()]).unwrap();
    assert_eq!(document.flows, []);
    // It comes back as a new one: the hour is no missed cycle.
    cycle(&table, 7, 1, MS, NOW + FORGOTTEN);
    let document = at(NOW + FORGOTTEN, [&table, &Table::default()]).unwrap();
    assert_eq!((document.flows[0].missed_cycles, document.flows[0].stopped), (0, false));
}

#[test]
fn one_time_frames_take_no_place() {
    let table = Table::default();
    let real = frame(7, 0x35);
    for beat in 0..2_000u64 {
        let now = NOW - (2_000 - beat) * MS;
        table.hear(now, RT, &real);
        // Fifty invented senders a cycle, each once.
        for junk in 0..50 {
            table.hear(now + junk * 1_000, RT, &frame(1_000 + beat as u32 * 50 + junk as u32, 0x35));
        }
    }
    let flow = only(&table);
    assert_eq!(flow.missed_cycles, 0);
    assert!(flow.frames > 1_000, "{flow:?}");
}

#[test]
fn invented_cycles_displace_no_flow() {
    let table = Table::default();
    let wanted = PLACES as u32 / 2;
    let begin = NOW - 1_000 * MS;
    for real in 0..wanted {
        cycle(&table, real, 300, MS, begin);
    }
    let known = |flows: &[Flow]| flows.iter().filter(|flow| flow.frames > 200).count();
    assert_eq!(known(&flows(&table)), wanted as usize);
    // Far more invented flows than places, while the real ones go on.
    for round in 0..20u32 {
        let now = begin + u64::from(round) * 20 * MS;
        for junk in 0..40 {
            cycle(&table, 10_000 + round * 40 + junk, 8, MS, now + 10 * MS);
        }
        for real in 0..wanted {
            cycle(&table, real, 20, MS, now + 20 * MS);
        }
    }
    let flows = flows(&table);
    assert_eq!(known(&flows), wanted as usize);
    assert!(flows.len() <= PLACES);
}

#[test]
fn full_table_says_so() {
    let table = Table::default();
    for flow in 0..PLACES as u32 {
        cycle(&table, flow, 10, 1_000 * MS, NOW);
    }
    cycle(&table, 9_999, 30, 1_000 * MS, NOW);
    let document = at(NOW, [&table, &Table::default()]).unwrap();
    assert_eq!((document.flows.len(), document.limit), (PLACES, 2 * PLACES as u64));
    assert!(document.no_room > 0 && document.flows.iter().all(|flow| flow.source != "02:01:00:00:27:0f"));
}

#[test]
fn junk_is_no_flow() {
    let table = Table::default();
    let mut random = 1u64;
    for length in (0..80).cycle().take(100_000) {
        let junk: Vec<u8> = (0..length)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        for kind in [Traffic::ProfinetRt, Traffic::Goose, Traffic::SampledValues, Traffic::Ethercat] {
            table.hear(random % 1_000 * MS + 1, Class::Named(kind), &junk);
        }
    }
    assert!(flows(&table).len() <= PLACES);
}

#[test]
fn unwatched_flows_cost_no_place() {
    let table = Table::default();
    table.watch(0);
    cycle(&table, 7, 100, MS, NOW);
    assert_eq!(at(NOW, [&table, &table]), None);
    table.watch(3);
    assert!(flows(&table).is_empty());
}
