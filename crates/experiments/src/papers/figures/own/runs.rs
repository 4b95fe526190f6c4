//! Figures of our own experiments and of the engine's benchmark, if they have run.

use antedate_figure::chart::Lane;
use antedate_figure::race::{self, Latency};

use super::super::super::results::{Bench, Results, Stored};
use super::super::{Figure, csv};

/// Our own experiments, with the names of their figures.
const EXPERIMENTS: [(&str, &str); 3] =
    [("nonces", super::NONCES), ("attack", super::ATTACK), ("soak", super::SOAK)];

/// The figures of those that have run.
pub(super) fn all(results: &Results) -> Vec<Figure> {
    let experiments =
        EXPERIMENTS.iter().filter_map(|(experiment, name)| of_experiment(name, results.get(experiment)?));
    experiments.chain(results.bench().and_then(of_bench)).collect()
}

/// The figure of `antedate lab NAME --figure`.
fn of_experiment(name: &str, stored: &Stored) -> Option<Figure> {
    let experiment = stored.report.experiment.as_str();
    let text = serde_json::to_string(&stored.report).ok()?;
    let svg = crate::figure::of_result(experiment, &text).ok()?;
    let shows = crate::find(experiment).map_or("", |found| found.shows);
    let goals = stored
        .report
        .checks
        .iter()
        .map(|goal| (goal.what.clone(), vec![Some(f64::from(u8::from(goal.met)))]));
    let rows = stored
        .report
        .rows
        .iter()
        .map(|row| (format!("{}: {} ({})", row.case, row.metric, row.unit), vec![row.any()]));
    let table: Vec<Lane> = rows.chain(goals).collect();
    Some(Figure {
        name: name.into(),
        paper: String::new(),
        title: format!("{experiment}: {shows}"),
        svg,
        csv: csv(&["what", "value; a goal that was met is 1"], &[], &table),
    })
}

/// The engine beside other implementations.
fn of_bench(bench: &Bench) -> Option<Figure> {
    let title = "The engine beside other implementations: the time of sealing at the deadline";
    let latencies: Vec<Latency<'_>> = bench
        .rows
        .iter()
        .map(|row| Latency {
            cipher: &row.cipher,
            len: row.payload,
            who: &row.who,
            what: &row.what,
            ns: row.median_ns,
        })
        .collect();
    let lane = |row: &Latency<'_>| {
        (format!("{}, {}, {}", row.cipher, row.who, row.what), vec![Some(row.len as f64), Some(row.ns)])
    };
    let table: Vec<Lane> = latencies.iter().map(lane).collect();
    Some(Figure {
        name: super::RACE.into(),
        paper: String::new(),
        title: title.into(),
        svg: race::figure(title, &latencies)?,
        csv: csv(&["series", "payload (bytes)", "median (ns)"], &[], &table),
    })
}
