//! The table of cyclic flows.

use antedate_gateway::run::status::{DataStatus, Flow};

/// The names of the columns.
pub(super) fn head() -> String {
    let [flow, cycle, jitter, longest] = ["flow", "cycle", "jitter", "longest"];
    let [margin, missed, expired, status] = ["margin", "missed", "expired", "status"];
    format!(
        "{:3} {flow:39} {cycle:>9} {jitter:>9} {longest:>10} {margin:>7} {missed:>8} {expired:>8}  {status}",
        ""
    )
}

/// A flow in a line.
pub(super) fn row(flow: &Flow) -> String {
    let Flow { direction, protocol, id, source, missed_cycles, watchdog_expired, .. } = flow;
    let name = format!("{protocol} {id:4} {source}");
    format!(
        "{direction:3} {name:39} {:>9} {:>9} {:>10} {:>5.0} % {missed_cycles:>8} {watchdog_expired:>8}  {}",
        time(flow.cycle_us),
        time(flow.jitter_us),
        time(flow.longest_us),
        flow.margin_percent,
        state(flow)
    )
}

/// `12 µs`, `1.290 ms`, `2.001 s`.
fn time(micro: f64) -> String {
    match micro {
        ..999.5 => format!("{micro:.0} µs"),
        ..999_500.0 => format!("{:.3} ms", micro / 1e3),
        _ => format!("{:.3} s", micro / 1e6),
    }
}

fn state(flow: &Flow) -> String {
    if flow.stopped {
        return format!("STOPPED {:.1} s ago", flow.silent_seconds);
    }
    let Some(DataStatus { run, valid, problem, primary, .. }) = &flow.data_status else {
        return String::new();
    };
    let run = if *run { "run" } else { "STOP" };
    let rest = [(!valid, ", INVALID"), (*problem, ", PROBLEM"), (!primary, ", backup")];
    rest.into_iter().filter(|(holds, _)| *holds).fold(run.to_owned(), |all, (_, word)| all + word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow {
            direction: "in".into(),
            protocol: "profinet-rt".into(),
            id: "8002".into(),
            source: "02:00:5e:00:00:02".into(),
            cycle_us: 4_000.2,
            jitter_us: 31.4,
            longest_us: 6_120.0,
            margin_percent: 49.0,
            missed_cycles: 2,
            data_status: Some(DataStatus { run: true, valid: true, primary: true, ..DataStatus::default() }),
            ..Flow::default()
        }
    }

    #[test]
    fn row_fits_the_head() {
        let row = row(&flow());
        assert_eq!(
            row,
            "in  profinet-rt 8002 02:00:5e:00:00:02       4.000 ms     31 µs   6.120 ms    49 %        2        0  run"
        );
        // The numbers end below the names.
        let head = head();
        for column in ["cycle", "jitter", "longest", "margin", "missed", "expired"] {
            let end = head.find(column).unwrap() + column.len();
            assert!(row.chars().nth(end) == Some(' ') && row.chars().nth(end - 1) != Some(' '), "{column}");
        }
    }

    #[test]
    fn trouble_of_a_flow_is_loud() {
        let mut flow = flow();
        flow.data_status = Some(DataStatus { problem: true, ..DataStatus::default() });
        assert!(row(&flow).ends_with("STOP, INVALID, PROBLEM, backup"));
        (flow.stopped, flow.silent_seconds) = (true, 3.25);
        assert!(row(&flow).ends_with("STOPPED 3.2 s ago"), "{}", row(&flow));
        flow.cycle_us = 2_000_000.0;
        (flow.protocol, flow.id, flow.data_status, flow.stopped) =
            ("ethercat".into(), String::new(), None, false);
        assert!(row(&flow).contains("2.000 s"));
    }
}
