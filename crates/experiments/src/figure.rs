//! The figure of an experiment's result: a chart for each quantity, the cases as lanes.
//!
//! Minimum, quartiles and maximum of a quantity make boxes. Other quantities make bars, in decades
//! if they differ much. A result without numbers shows its goals.

use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Lane, Quartiles, Texts};
use serde::Deserialize;

use crate::{Check, ExperimentError, Report, Row, failed};

/// Names and colours of the series.
const SERIES: [(&str, usize); 3] = [("the paper", 4), ("unmodified, here", 0), ("antedated", 2)];
/// The most lanes of a chart; the others are in the table and in `--json`.
const LANES: usize = 60;
/// Values that differ by more than this factor are drawn in decades.
const WIDE: f64 = 30.0;
/// The statistics of a box, as experiments name them.
const FIVE: [&[&str]; 5] = [&["min"], &["p25"], &["median", "p50"], &["p75"], &["max"]];

/// A result of `antedate lab NAME --json`.
#[derive(Deserialize)]
struct Found {
    experiment: String,
    rows: Vec<Row>,
    #[serde(default)]
    checks: Vec<Check>,
}

/// The same, or as `antedate report` stores it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Report { report: Found },
    Bare(Found),
}

/// The figure of a result: the paper's, if the experiment draws it, or a chart for each quantity.
///
/// # Errors
///
/// The result has neither a number nor a goal.
pub fn of(report: &Report) -> Result<String, ExperimentError> {
    match &report.figure {
        Some(figure) => Ok(figure.clone()),
        None => draw(report.experiment, &report.rows, &report.checks),
    }
}

/// The figure of a result that `antedate lab NAME --json` or `antedate report` wrote.
///
/// # Errors
///
/// The text is no result of experiment `name`, or it has neither a number nor a goal.
pub fn of_result(name: &str, text: &str) -> Result<String, ExperimentError> {
    let (Stored::Report { report: found } | Stored::Bare(found)) =
        serde_json::from_str(text).map_err(|_| "it is no result of `antedate lab --json`")?;
    if found.experiment != name {
        return Err(format!("it is a result of {}", found.experiment).into());
    }
    draw(name, &found.rows, &found.checks).map_err(failed)
}

fn draw(name: &str, rows: &[Row], checks: &[Check]) -> Result<String, ExperimentError> {
    let mut charts = Vec::new();
    let mut done: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| numbers(row).iter().flatten().any(|value| value.is_finite())) {
        let (stem, unit) = (stem(&row.metric).unwrap_or(&row.metric), row.unit.as_str());
        if done.contains(&(stem, unit)) {
            continue;
        }
        done.push((stem, unit));
        charts.extend(boxes(rows, stem, unit));
        charts.extend(bars(rows, stem, unit));
    }
    if charts.is_empty() {
        charts.extend(goals(checks));
    }
    if charts.is_empty() {
        return Err("the result has no number to draw".into());
    }
    let title = format!("antedate lab {name}");
    let description = "A chart for each quantity. The numbers are in the table and in --json.";
    Ok(chart::column(&Texts { title: &title, axis: "", description }, &charts))
}

const fn numbers(row: &Row) -> [Option<f64>; 3] {
    [row.paper, row.baseline, row.antedated]
}

/// The quantity of a metric that names a statistic of [`FIVE`].
fn stem(metric: &str) -> Option<&str> {
    FIVE.into_iter().flatten().find_map(|name| Some(metric.strip_suffix(name)?.trim_end_matches([' ', ','])))
}

fn heading(stem: &str, unit: &str) -> String {
    if unit.is_empty() { stem.to_owned() } else { format!("{stem} ({unit})") }
}

/// The scale for values.
fn kind(values: impl Iterator<Item = f64> + Clone) -> Kind {
    let (low, high) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
    if low > 0.0 && high > WIDE * low { Kind::Logarithmic } else { Kind::Linear }
}

/// The heading of a chart, and how many lanes it leaves out.
fn told(stem: &str, unit: &str, lanes: usize) -> String {
    let heading = heading(stem, unit);
    match lanes.saturating_sub(LANES) {
        0 => heading,
        more => format!("{heading}; {more} more cases are in the table"),
    }
}

/// Boxes of the cases that have all five statistics of a quantity.
fn boxes(rows: &[Row], of: &str, unit: &str) -> Option<(String, String)> {
    let mut lanes: Vec<Quartiles> = Vec::new();
    let mut cases: Vec<&str> = Vec::new();
    let own = |row: &&Row| row.unit == unit && stem(&row.metric) == Some(of);
    for row in rows.iter().filter(own) {
        if cases.contains(&row.case.as_str()) {
            continue;
        }
        cases.push(&row.case);
        for (at, (series, hue)) in SERIES.iter().enumerate() {
            let value = |names: &[&str]| {
                let is = |other: &&Row| {
                    other.case == row.case && names.iter().any(|name| other.metric.ends_with(name))
                };
                numbers(rows.iter().filter(own).find(is)?)[at].filter(|value| value.is_finite())
            };
            let five: Vec<f64> = FIVE.into_iter().filter_map(value).collect();
            if let Ok(five) = <[f64; 5]>::try_from(five) {
                lanes.push((format!("{}, {series}", row.case), five, *hue));
            }
        }
    }
    if lanes.is_empty() {
        return None;
    }
    let heading = told(of, unit, lanes.len());
    lanes.truncate(LANES);
    let kind = kind(lanes.iter().flat_map(|(_, five, _)| *five).collect::<Vec<_>>().into_iter());
    let texts = Texts { title: &heading, axis: unit, description: "Boxes from quartile to quartile." };
    let drawn = chart::boxes(&texts, kind, &SERIES, &lanes);
    Some((heading, drawn))
}

/// Bars of the cases that boxes do not show.
fn bars(rows: &[Row], of: &str, unit: &str) -> Option<(String, String)> {
    let whole = |case: &str| {
        let has = |names: &&[&str]| {
            names.iter().any(|name| {
                rows.iter().any(|row| {
                    row.case == case
                        && row.unit == unit
                        && stem(&row.metric) == Some(of)
                        && row.metric.ends_with(name)
                })
            })
        };
        FIVE.iter().all(has)
    };
    let mut lanes: Vec<Lane> = Vec::new();
    for row in rows.iter().filter(|row| row.unit == unit) {
        let name = match stem(&row.metric) {
            _ if row.metric == of => row.case.clone(),
            Some(stem) if stem == of && !whole(&row.case) => format!("{}, {}", row.case, row.metric),
            _ => continue,
        };
        let values = numbers(row).map(|value| value.filter(|value| value.is_finite()));
        if values.iter().any(Option::is_some) {
            lanes.push((name, values.to_vec()));
        }
    }
    if lanes.is_empty() {
        return None;
    }
    let heading = told(of, unit, lanes.len());
    lanes.truncate(LANES);
    // A series without numbers takes no space.
    let has = |at: &usize| lanes.iter().any(|(_, values)| values[*at].is_some());
    let kept: Vec<usize> = (0..SERIES.len()).filter(has).collect();
    let series: Vec<(&str, usize)> = kept.iter().map(|at| SERIES[*at]).collect();
    let lanes: Vec<Lane> =
        lanes.into_iter().map(|(name, values)| (name, kept.iter().map(|at| values[*at]).collect())).collect();
    let kind = kind(lanes.iter().flat_map(|(_, values)| values.iter().flatten().copied()));
    let texts = Texts { title: &heading, axis: unit, description: "A bar for each case." };
    let drawn = chart::bars(&texts, kind, &series, &lanes);
    Some((heading, drawn))
}

/// Goals that were met, and those that were not.
fn goals(checks: &[Check]) -> Option<(String, String)> {
    let lanes: Vec<Lane> = checks
        .iter()
        .take(LANES)
        .map(|check| (check.what.clone(), vec![check.met.then_some(1.0), (!check.met).then_some(1.0)]))
        .collect();
    let texts = Texts { title: "Goals", axis: "", description: "A bar for each goal." };
    let drawn = chart::bars(&texts, Kind::Linear, &[("met", 2), ("not met", 1)], &lanes);
    (!lanes.is_empty()).then(|| (told("goals", "", checks.len()), drawn))
}

#[cfg(test)]
mod tests;
