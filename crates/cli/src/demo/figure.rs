//! `antedate demo --figure`: the delays of a demonstration.

use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Lane, Quartiles, Texts};
use antedate_lab::demo::redundant;
use antedate_lab::demo::verdict::Report;

/// Boxes of the delays, from the minimum to the maximum.
pub(super) fn of_delays(report: &Report) -> String {
    let all = [
        ("round trip", &report.round_trip_us),
        ("way to the device", &report.to_device_us),
        ("way to the controller", &report.to_plc_us),
        ("interval at the device", &report.device_interval_us),
        ("interval at the controller", &report.plc_interval_us),
    ];
    let came = all.into_iter().filter(|(_, of)| of.count > 0);
    let lanes: Vec<Quartiles> =
        came.map(|(name, of)| (name.to_owned(), [of.min, of.p25, of.p50, of.p75, of.max], 2)).collect();
    let title = format!("Delays of {} s at a cycle of {} µs", report.seconds, report.cycle_us);
    let texts = Texts {
        title: &title,
        axis: "time (µs), in decades; beside it the median",
        description: "Boxes of quartiles, with whiskers to the minimum and the maximum.",
    };
    chart::boxes(&texts, Kind::Logarithmic, &[("undisturbed operation", 2)], &lanes)
}

/// Bars of the longest time without a frame, and of the frames lost, by fault.
pub(super) fn of_gaps(report: &redundant::Report) -> String {
    let lanes = |value: fn(&redundant::Strokes) -> Option<f64>| -> Vec<Lane> {
        report.faults.iter().map(|(fault, of)| (fault.words().to_owned(), vec![value(of)])).collect()
    };
    let title = format!("Faults of a redundant plant at a cycle of {} µs", report.cycle_us);
    let texts = |axis| Texts { title: &title, axis, description: "A bar for each fault." };
    let gaps = lanes(|of| of.gaps_ms.last().copied());
    let lost = lanes(|of| Some(of.lost as f64));
    let gaps = chart::bars(&texts("time (ms)"), Kind::Linear, &[("longest time without a frame", 1)], &gaps);
    let lost = chart::bars(&texts("frames"), Kind::Linear, &[("frames lost, of both directions", 0)], &lost);
    chart::column(&texts(""), &[("Times without a frame".into(), gaps), ("Frames lost".into(), lost)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_lab::histogram::Times;

    #[test]
    fn delays_and_gaps_are_drawn() {
        let mut times = Times::default();
        (1..100).for_each(|n| times.record(n * 1_000));
        let report = Report { round_trip_us: times.summary(), ..Report::default() };
        let svg = of_delays(&report);
        assert!(svg.contains("round trip") && !svg.contains("interval at"), "nothing came there: {svg}");
        let mut report = redundant::Report::default();
        let strokes = redundant::Strokes { times: 2, lost: 7, gaps_ms: vec![3.0, 4.5], wrong: 0 };
        report.faults.insert(redundant::Fault::Kill, strokes);
        let svg = of_gaps(&report);
        assert!(svg.contains("gateway killed") && svg.contains(">4.5<") && svg.contains(">7<"), "{svg}");
    }
}
