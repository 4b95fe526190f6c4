//! `cargo xtask bench builds`: round trips through two builds of the gateway, in turns.
//!
//! Each round runs both builds, with and without MACsec, in alternating order, so that changes of
//! the machine's load affect both alike. A ratio is the median of the rounds' ratios, with its
//! standard error.

use super::meter::{LOADS, Load, Manner, Series, round_trips};
use super::paths::{Contender, Daemon, Path};
use super::placement::{PLACEMENTS, Placement};
use super::{figure, median, roundtrips};
use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Lane, Texts};
use serde_json::{Value, json};
use std::path::PathBuf;
use xtask::sandbox;
use xtask::setup::{self, Purpose};
use xtask::shell::build_antedate;

/// Arguments of `cargo xtask bench builds`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program of the build before
    #[arg(long, value_name = "FILE")]
    before: PathBuf,
    /// The program of the build after; left out, that of this tree, which is built first
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,
    /// Rounds of both builds
    #[arg(long, value_name = "NUMBER", default_value_t = 24)]
    rounds: usize,
    /// Write the numbers to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the medians to this file (SVG)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// Round trips of a series: back to back, and one each millisecond.
const COUNTS: [(Manner, u64); 2] = [(Manner::Dense, 2_000), (Manner::Paced, 850)];
/// PLC and its gateway on one core, device and its gateway on the other.
const PLACEMENT: Placement = PLACEMENTS[2];

/// The rounds of one load and protection: before and after.
struct Row {
    load: Load,
    contender: Contender,
    rounds: Vec<[Series; 2]>,
}

/// Measures both builds. There is no verdict.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    let Arguments { before, after, rounds, json, figure } = arguments;
    figure::free(figure.as_deref())?;
    for file in [Some(before), after.as_ref()].into_iter().flatten() {
        if !file.is_file() {
            return Err(format!("{}: there is no such program", file.display()));
        }
    }
    if !sandbox::inside() {
        setup::ensure(Purpose::Bench)?;
        build_antedate()?;
    }
    if let Some(done) = sandbox::enter()? {
        return Ok(done);
    }
    let programs = [Some(before.as_path()), after.as_deref()];
    let mut rows: Vec<Row> = Vec::new();
    for load in LOADS.into_iter().filter(|load| !load.ends_poll) {
        for contender in [Contender::Plain, Contender::Macsec] {
            rows.push(Row { load, contender, rounds: Vec::new() });
        }
    }
    for round in 0..*rounds {
        for (manner, count) in COUNTS {
            for contender in [Contender::Plain, Contender::Macsec] {
                let mut order = [0, 1];
                if round % 2 == 1 {
                    order.reverse();
                }
                let mine = |row: &&mut Row| row.contender == contender && row.load.manner() == manner;
                rows.iter_mut().filter(mine).for_each(|row| row.rounds.push(Default::default()));
                for build in order {
                    let waiting = roundtrips::waiting(manner);
                    let daemon = Daemon { program: programs[build], ..Daemon::default() };
                    let _path = Path::build_with(daemon, contender, PLACEMENT, waiting)?;
                    for row in rows.iter_mut().filter(mine) {
                        let series = round_trips(PLACEMENT, row.load, count)?;
                        if let Some(last) = row.rounds.last_mut() {
                            last[build] = series;
                        }
                    }
                }
            }
        }
        println!("   round {} of {rounds}", round + 1);
    }
    print(&rows);
    if let Some(file) = json {
        let text = format!("{:#}\n", rows.iter().map(Row::json).collect::<Value>());
        std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    if let Some(file) = figure {
        figure::write(file, &drawn(&rows))?;
    }
    Ok(true)
}

/// Bars of both builds' medians.
fn drawn(rows: &[Row]) -> String {
    let lane = |row: &Row| {
        let medians = row.pooled().map(|series| Some(series.percentile(50.0)));
        (format!("{}, {}", row.load, row.contender), medians.to_vec())
    };
    let lanes: Vec<Lane> = rows.iter().map(lane).collect();
    let texts = Texts {
        title: "Round trips through two builds of the gateway",
        axis: "median round trip (µs)",
        description: "A group for each load and contender, a bar for each build.",
    };
    chart::bars(&texts, Kind::Linear, &[("before", 0), ("after", 2)], &lanes)
}

fn print(rows: &[Row]) {
    println!("\n   {:22} {:16} {:>17} {:>17} {:>15}", "", "", "median us", "p99 us", "after / before");
    for row in rows {
        let [before, after] = row.pooled();
        let (ratio, error) = row.ratio(50.0);
        println!(
            "   {:22} {:16} {:8.2} {:8.2} {:8.2} {:8.2} {ratio:7.3} ± {error:.3}",
            row.load.to_string(),
            row.contender.to_string(),
            before.percentile(50.0),
            after.percentile(50.0),
            before.percentile(99.0),
            after.percentile(99.0),
        );
    }
}

impl Row {
    fn pooled(&self) -> [Series; 2] {
        [0, 1].map(|build| Series::pooled(self.rounds.iter().map(|round| &round[build])))
    }

    /// The median of the rounds' ratios, and its standard error.
    fn ratio(&self, percent: f64) -> (f64, f64) {
        let ratios: Vec<f64> =
            self.rounds.iter().map(|[a, b]| b.percentile(percent) / a.percentile(percent)).collect();
        (median(ratios.iter().copied()), error_of_median(&ratios))
    }

    fn json(&self) -> Value {
        let of = |series: &Series| json!({ "p50_us": series.percentile(50.0), "p99_us": series.percentile(99.0), "lost": series.lost });
        let ([before, after], (ratio, error)) = (self.pooled(), self.ratio(50.0));
        json!({ "load": self.load.to_string(), "contender": self.contender.to_string(), "rounds": self.rounds.len(),
                "before": of(&before), "after": of(&after), "median_ratio": ratio, "standard_error": error })
    }
}

/// The standard error of the median of `values`, from their interquartile range, which resists
/// disturbed rounds.
fn error_of_median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get((share * (sorted.len().max(1) - 1) as f64).round() as usize).copied();
    match (at(0.25), at(0.75)) {
        // The standard deviation of a normal distribution is 0.741 interquartile ranges; the
        // standard error of a median is 1.253 times that of the mean.
        (Some(low), Some(high)) => 1.253 * 0.741 * (high - low) / (sorted.len() as f64).sqrt(),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_does_not_widen_the_error() {
        let calm: Vec<f64> = (0..101).map(|i| 1.0 + f64::from(i % 11) / 1_000.0).collect();
        let mut disturbed = calm.clone();
        disturbed[50] = 9.0;
        assert!(error_of_median(&calm) > 0.0);
        assert!((error_of_median(&disturbed) / error_of_median(&calm) - 1.0).abs() < 0.2);
        assert!(error_of_median(&[]).is_nan());
    }
}
