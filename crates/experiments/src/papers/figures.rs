//! The figures: the papers' with our numbers beside them, as their files describe them, and our own.

mod own;
mod scenarios;

use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Lane, Texts};
use antedate_plan::timeslot::{TS_MAX_ACK, TS_MAX_TX};
use serde::Deserialize;

use super::join::Comparison;
use super::printed::Paper;
use super::results::Results;

/// A drawing and its numbers.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of its files, without ending.
    pub name: String,
    /// Short name of the paper. Empty for a figure of our own.
    pub paper: String,
    /// Its title.
    pub title: String,
    /// The drawing.
    pub svg: String,
    /// The numbers: a line for each lane, with a header.
    pub csv: String,
}

/// A figure of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Name of its files, behind the paper's.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) kind: Form,
    pub(super) axis: String,
    /// Beginning of the items whose rows it shows.
    pub(super) item: String,
    /// The metric of these rows.
    #[serde(default)]
    pub(super) metric: String,
    /// Only rows whose case contains this.
    #[serde(default)]
    pub(super) case: String,
    /// In decades.
    #[serde(default)]
    pub(super) logarithmic: bool,
}

/// The form of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Form {
    /// A bar for each number.
    Bars,
    /// A box for each five of minimum, quartiles and maximum.
    Boxes,
    /// Timeslots to scale.
    Slots,
}

/// The names of the figures that no paper's file describes.
pub(super) const OWN: [&str; 8] = [
    scenarios::NAME,
    own::ROUND_TRIPS,
    own::DISTRIBUTIONS,
    own::LATENCIES,
    own::RACE,
    own::NONCES,
    own::ATTACK,
    own::SOAK,
];

/// Names and colours of the series.
const SERIES: [(&str, usize); 3] = [("the paper", 4), ("unmodified, here", 0), ("antedated", 2)];

/// Draws all figures that have numbers. Also returns the others' names, with reasons.
pub(super) fn all(papers: &[Paper], results: &Results, rows: &[Comparison]) -> (Vec<Figure>, Vec<String>) {
    let (mut drawn, mut not) = (Vec::new(), Vec::new());
    for paper in papers {
        for wanted in &paper.figures {
            let name = format!("{}-{}", paper.name, wanted.name);
            match of_paper(&name, &paper.name, wanted, rows) {
                Some(figure) => drawn.push(figure),
                None => not.push(format!("{name}: no row of {} has a number of ours", wanted.item)),
            }
        }
    }
    drawn.extend(scenarios::figure(results));
    drawn.extend(own::all(results));
    (drawn, not)
}

fn of_paper(name: &str, paper: &str, wanted: &Wanted, rows: &[Comparison]) -> Option<Figure> {
    let shown: Vec<&Comparison> = rows
        .iter()
        .filter(|row| row.paper == paper && row.item.starts_with(&wanted.item))
        .filter(|row| wanted.metric.is_empty() || row.metric == wanted.metric)
        .filter(|row| row.case.contains(&wanted.case))
        .collect();
    shown.iter().find(|row| row.found().is_some())?;
    let description = format!("{} The numbers are in {name}.csv and in the table.", wanted.title);
    let texts = Texts { title: &wanted.title, axis: &wanted.axis, description: &description };
    let kind = if wanted.logarithmic { Kind::Logarithmic } else { Kind::Linear };
    let (svg, csv) = match wanted.kind {
        Form::Bars => bars(&texts, kind, &shown, &wanted.item),
        Form::Boxes => boxes(&texts, kind, &shown),
        Form::Slots => slots(&texts, &shown),
    };
    Some(Figure { name: name.into(), paper: paper.into(), title: wanted.title.clone(), svg, csv })
}

/// The three numbers of a row.
fn numbers(row: &Comparison) -> Vec<Option<f64>> {
    vec![row.paper_value, row.baseline, row.ours]
}

/// The name of a row's lane: its case, and the rest of its item where another row has the same case.
fn lane(row: &Comparison, rows: &[&Comparison], item: &str) -> String {
    let rest = row.item.strip_prefix(item).unwrap_or_default().trim_start_matches(", ");
    if rest.is_empty() || rows.iter().filter(|other| other.case == row.case).count() < 2 {
        return row.case.clone();
    }
    format!("{}, {rest}", row.case)
}

fn bars(texts: &Texts<'_>, kind: Kind, rows: &[&Comparison], item: &str) -> (String, String) {
    // A row without a number is in the table, with the reason.
    let has_number = |row: &&&Comparison| numbers(row).iter().any(Option::is_some);
    let lanes: Vec<Lane> =
        rows.iter().filter(has_number).map(|row| (lane(row, rows, item), numbers(row))).collect();
    // A series without numbers takes no space.
    let has = |at: &usize| lanes.iter().any(|(_, values)| values.get(*at).is_some_and(Option::is_some));
    let kept: Vec<usize> = (0..SERIES.len()).filter(has).collect();
    let series: Vec<(&str, usize)> = kept.iter().map(|at| SERIES[*at]).collect();
    let lanes: Vec<Lane> =
        lanes.into_iter().map(|(name, values)| (name, kept.iter().map(|at| values[*at]).collect())).collect();
    (chart::bars(texts, kind, &series, &lanes), csv(&["case"], &series, &lanes))
}

/// Five rows of a case follow one another: minimum, quartiles, maximum.
fn boxes(texts: &Texts<'_>, kind: Kind, rows: &[&Comparison]) -> (String, String) {
    const FIVE: [&str; 5] = ["minimum", "lower quartile", "median", "upper quartile", "maximum"];
    let mut cases: Vec<&str> = Vec::new();
    for row in rows {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    let mut lanes = Vec::new();
    for case in cases {
        for (at, (series, hue)) in SERIES.iter().enumerate() {
            let value = |statistic: &&str| {
                let row = rows.iter().find(|row| row.case == case && row.statistic == *statistic)?;
                numbers(row)[at]
            };
            let five: Vec<f64> = FIVE.iter().filter_map(value).collect();
            if let Ok(five) = <[f64; 5]>::try_from(five) {
                lanes.push((format!("{case}, {series}"), five, *hue));
            }
        }
    }
    let header = ["case", FIVE[0], FIVE[1], FIVE[2], FIVE[3], FIVE[4]];
    let table: Vec<Lane> =
        lanes.iter().map(|(name, five, _)| (name.clone(), five.map(Some).to_vec())).collect();
    let shown = |(_, hue): &&(&str, usize)| lanes.iter().any(|(_, _, of)| of == hue);
    let series: Vec<(&str, usize)> = SERIES.iter().filter(shown).copied().collect();
    (chart::boxes(texts, kind, &series, &lanes), csv(&header, &[], &table))
}

/// Three rows of a case make a slot: TsTxOffset, TsTxAckDelay, TsSlotDuration.
fn slots(texts: &Texts<'_>, rows: &[&Comparison]) -> (String, String) {
    let parts = [
        ("TsTxOffset", 0),
        ("TsMaxTx", 4),
        ("TsTxAckDelay", 2),
        ("TsMaxAck", 3),
        ("behind it, with sec4", 5),
    ];
    let mut lanes: Vec<(String, Vec<f64>)> = Vec::new();
    for row in rows.iter().filter(|row| row.metric == "TsSlotDuration") {
        for (at, (series, _)) in SERIES.iter().enumerate() {
            let value = |metric: &str| {
                let row = rows.iter().find(|other| other.case == row.case && other.metric == metric)?;
                numbers(row)[at]
            };
            let times = (value("TsTxOffset"), value("TsTxAckDelay"), value("TsSlotDuration"));
            let (Some(offset), Some(ack), Some(slot)) = times else { continue };
            // Two printed durations are shorter than their parts.
            let rest = (slot - offset - ack - TS_MAX_TX - TS_MAX_ACK).max(0.0);
            lanes.push((format!("{}, {series}", row.case), vec![offset, TS_MAX_TX, ack, TS_MAX_ACK, rest]));
        }
    }
    let table: Vec<Lane> =
        lanes.iter().map(|(name, of)| (name.clone(), of.iter().copied().map(Some).collect())).collect();
    (chart::parts(texts, &parts, &lanes), csv(&["case"], &parts, &table))
}

/// A table of lanes as comma-separated values (RFC 4180). The first line names the columns.
fn csv(header: &[&str], series: &[(&str, usize)], lanes: &[Lane]) -> String {
    let columns = header.iter().copied().chain(series.iter().map(|(name, _)| *name));
    let mut text = columns.map(field).collect::<Vec<_>>().join(",");
    text.push_str("\r\n");
    for (name, values) in lanes {
        text.push_str(&field(name));
        for value in values {
            text.push(',');
            if let Some(value) = value {
                text.push_str(&value.to_string());
            }
        }
        text.push_str("\r\n");
    }
    text
}

/// A field. Quotes are doubled, and a spreadsheet takes no text for a formula.
fn field(text: &str) -> String {
    let text = text.replace('"', "\"\"");
    let formula = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{formula}{text}\"")
    } else {
        format!("{formula}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_fields_are_quoted() {
        let lanes =
            [("MIC-32, \"x\"".to_owned(), vec![Some(1.5), None]), ("=1+1".into(), vec![None, Some(2.0)])];
        let text = csv(&["case"], &SERIES[..2], &lanes);
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(
            lines,
            ["case,the paper,\"unmodified, here\"", "\"MIC-32, \"\"x\"\"\",1.5,", "'=1+1,,2", ""]
        );
    }
}
