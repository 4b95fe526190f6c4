//! Figures of our own: round trips of all paths, what each cipher leaves for the deadline, and our
//! own experiments (`runs`).

mod runs;

use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Curve, Lane, Texts};

use super::super::results::Results;
use super::{Figure, csv};

/// Their names.
pub(super) const ROUND_TRIPS: &str = "own-round-trips";
pub(super) const DISTRIBUTIONS: &str = "own-round-trip-distributions";
pub(super) const LATENCIES: &str = "own-latencies";
pub(super) const RACE: &str = "own-engine-beside-others";
pub(super) const NONCES: &str = "own-nonces";
pub(super) const ATTACK: &str = "own-attack";
pub(super) const SOAK: &str = "own-soak";

pub(super) fn all(results: &Results) -> Vec<Figure> {
    let measured = [round_trips(results), distributions(results), latencies(results)];
    measured.into_iter().flatten().chain(runs::all(results)).collect()
}

/// Minimum, quartiles and maximum of the round trips on each path.
fn round_trips(results: &Results) -> Option<Figure> {
    const FIVE: [&str; 5] = ["min", "p25", "median", "p75", "max"];
    let stored = results.get("overlay-paths")?;
    let minima = stored.report.rows.iter().filter(|line| line.metric == "round trip min");
    let mut lanes = Vec::new();
    for minimum in minima {
        let value =
            |name: &str| results.line("overlay-paths", &minimum.case, &format!("round trip {name}"))?.any();
        let five: Vec<f64> = FIVE.iter().filter_map(|name| value(name)).collect();
        if let Ok(five) = <[f64; 5]>::try_from(five) {
            lanes.push((minimum.case.clone(), five, if minimum.antedated.is_some() { 2 } else { 0 }));
        }
    }
    if lanes.is_empty() {
        return None;
    }
    let title = "Round trips on all paths of this machine";
    let texts = Texts {
        title,
        axis: "round trip (µs), in decades; beside it the median",
        description: "Boxes of quartiles, with whiskers to the minimum and the maximum.",
    };
    let series = [("others", 0), ("Antedate", 2)];
    let table: Vec<Lane> =
        lanes.iter().map(|(name, five, _)| (name.clone(), five.map(Some).to_vec())).collect();
    Some(Figure {
        name: ROUND_TRIPS.into(),
        paper: String::new(),
        title: title.into(),
        svg: chart::boxes(&texts, Kind::Logarithmic, &series, &lanes),
        csv: csv(&["path", FIVE[0], FIVE[1], FIVE[2], FIVE[3], FIVE[4]], &[], &table),
    })
}

/// The most paths of the distributions: as many as there are colours.
const PATHS: usize = 7;

/// The share of round trips that took longer than a time, on axes in decades.
fn distributions(results: &Results) -> Option<Figure> {
    const SHARES: [(&str, f64); 5] =
        [("p25", 0.75), ("median", 0.5), ("p75", 0.25), ("p99", 0.01), ("p99.9", 0.001)];
    let stored = results.get("overlay-paths")?;
    let minima = stored.report.rows.iter().filter(|line| line.metric == "round trip min");
    let mut paths: Vec<(&str, Vec<[f64; 2]>)> = Vec::new();
    for minimum in minima {
        let point = |(name, share): (&str, f64)| {
            let line = results.line("overlay-paths", &minimum.case, &format!("round trip {name}"))?;
            Some([line.any()?, share])
        };
        let points: Vec<[f64; 2]> = minimum
            .any()
            .map(|first| [first, 1.0])
            .into_iter()
            .chain(SHARES.into_iter().filter_map(point))
            .collect();
        if points.len() > SHARES.len() {
            paths.push((&minimum.case, points));
        }
    }
    if paths.is_empty() {
        return None;
    }
    let table: Vec<Lane> = paths
        .iter()
        .flat_map(|(name, points)| {
            points.iter().map(|[time, share]| ((*name).to_owned(), vec![Some(*time), Some(*share)]))
        })
        .collect();
    let curves: Vec<Curve<'_>> = paths
        .iter()
        .take(PATHS)
        .enumerate()
        .map(|(at, (name, points))| (*name, at, points.clone()))
        .collect();
    let title = "Distribution of the round trips on all paths of this machine";
    let texts = Texts {
        title,
        axis: "share of round trips that take longer, in decades",
        description: "A curve for each path, from all round trips at its minimum to one in a thousand.",
    };
    Some(Figure {
        name: DISTRIBUTIONS.into(),
        paper: String::new(),
        title: title.into(),
        svg: chart::curves(&texts, "round trip (µs)", [Kind::Logarithmic; 2], &curves),
        csv: csv(&["path", "round trip (µs)", "share that takes longer"], &[], &table),
    })
}

/// A suite: its name, and the latencies of unmodified and antedated packets by length.
type Suite<'a> = (&'a str, Vec<[f64; 2]>, Vec<[f64; 2]>);

/// The time of sealing at the deadline with one new block, over the length.
fn latencies(results: &Results) -> Option<Figure> {
    let stored = results.get("aead")?;
    let mut suites: Vec<Suite<'_>> = Vec::new();
    for line in stored.report.rows.iter().filter(|line| line.metric == "latency") {
        let mut parts = line.case.split(", ");
        let (Some(suite), Some(bytes), Some(new)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let len = bytes.strip_suffix(" bytes").and_then(|len| len.parse::<f64>().ok());
        let (Some(len), Some(unmodified), Some(online)) = (len, line.baseline, line.antedated) else {
            continue;
        };
        if !new.starts_with("1 of ") {
            continue;
        }
        let at = match suites.iter().position(|(name, ..)| *name == suite) {
            Some(at) => at,
            None => {
                suites.push((suite, Vec::new(), Vec::new()));
                suites.len() - 1
            }
        };
        suites[at].1.push([len, unmodified]);
        suites[at].2.push([len, online]);
    }
    if suites.is_empty() {
        return None;
    }
    // The suites that people choose from; all are in the numbers.
    const SHOWN: [&str; 3] = ["AES-128-GCM", "ChaCha20-Poly1305", "AES-128-CCM-8"];
    let names: Vec<[String; 2]> = suites
        .iter()
        .map(|(suite, ..)| [format!("{suite}, unmodified"), format!("{suite}, antedated")])
        .collect();
    let mut curves: Vec<Curve<'_>> = Vec::new();
    let mut table: Vec<Lane> = Vec::new();
    for ((suite, unmodified, online), names) in suites.iter().zip(&names) {
        for (points, name) in [unmodified, online].into_iter().zip(names) {
            if SHOWN.iter().any(|shown| shown.eq_ignore_ascii_case(suite)) && curves.len() < 6 {
                curves.push((name.as_str(), curves.len(), points.clone()));
            }
            table.extend(points.iter().map(|[len, ns]| (name.clone(), vec![Some(*len), Some(*ns)])));
        }
    }
    let title = "Sealing at the deadline on this machine, one block of 16 bytes new";
    let texts = Texts {
        title,
        axis: "latency (ns), in decades",
        description: "Curves of the unmodified and the antedated ciphers over the payload's length.",
    };
    Some(Figure {
        name: LATENCIES.into(),
        paper: String::new(),
        title: title.into(),
        svg: chart::curves(&texts, "payload (bytes)", [Kind::Linear, Kind::Logarithmic], &curves),
        csv: csv(&["cipher", "payload (bytes)", "latency (ns)"], &[], &table),
    })
}
