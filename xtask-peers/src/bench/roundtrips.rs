//! Round trips of layer-2 frames: all contenders, 64 and 1500 bytes, paced and back to back.

use super::figure::PERCENTILES;
use super::goals::Goal;
use super::meter::{LOADS, Load, Manner, Series, round_trips};
use super::paths::{ALL, Contender, Path, Waiting};
use super::placement::{PLACEMENTS, Placement};
use super::{Plan, median};
use serde_json::{Value, json};

/// The placement of each contender for each manner of load.
struct Places(Vec<(Contender, Manner, Placement)>);

impl Places {
    /// The best placement of the contender.
    fn of(&self, contender: Contender, manner: Manner) -> Placement {
        // Our daemon has the same placement with and without protection: the best one with
        // protection.
        let contender = if contender == Contender::Plain { Contender::Macsec } else { contender };
        let found = self.0.iter().find(|(c, m, _)| (*c, *m) == (contender, manner));
        found.map_or(PLACEMENTS[0], |(_, _, place)| *place)
    }
}

/// How the gateways wait under this manner of load.
pub(super) fn waiting(manner: Manner) -> Waiting {
    if manner == Manner::Paced { Waiting::Cyclic } else { Waiting::Fastest }
}

/// The short frames of a manner of load.
fn short(manner: Manner) -> Load {
    LOADS.into_iter().find(|load| load.manner() == manner).unwrap_or(LOADS[0])
}

/// Tries each placement with each contender, and takes the lowest product of median and p99.9 of
/// 64-byte frames, so that a long tail counts against a placement.
fn placements(plan: Plan) -> Result<Places, String> {
    let mut places = Vec::new();
    for contender in [Contender::Bridges, Contender::Macsec, Contender::OpenVpn] {
        for manner in Manner::ALL {
            let count = 2 * if manner == Manner::Paced { plan.paced } else { plan.dense };
            let mut tries = vec![Vec::new(); PLACEMENTS.len()];
            for _ in 0..plan.tries {
                for (placement, tries) in PLACEMENTS.into_iter().zip(&mut tries) {
                    let _path = Path::build(contender, placement, waiting(manner))?;
                    tries.push(round_trips(placement, short(manner), count)?);
                }
            }
            let mut best = (f64::INFINITY, PLACEMENTS[0]);
            let mut said = String::new();
            for (placement, tries) in PLACEMENTS.into_iter().zip(tries) {
                let all = Series::pooled(&tries);
                let (middle, tail) = (all.percentile(50.0), all.percentile(99.9));
                said.push_str(&format!("  {placement} {middle:.1} / {tail:.1}"));
                if middle * tail < best.0 {
                    best = (middle * tail, placement);
                }
            }
            println!("   {:26} {:34} {said} us", contender.to_string(), short(manner).to_string());
            places.push((contender, manner, best.1));
        }
    }
    Ok(Places(places))
}

struct Row {
    contender: Contender,
    load: Load,
    placement: Placement,
    rounds: Vec<Series>,
}

impl Row {
    fn pooled(&self) -> Series {
        Series::pooled(&self.rounds)
    }

    fn json(&self) -> Value {
        let all = self.pooled();
        let of_rounds = |percent| self.rounds.iter().map(|s| s.percentile(percent)).collect::<Vec<_>>();
        json!({
            "contender": self.contender.to_string(), "load": self.load.to_string(), "frame_bytes": self.load.frame_bytes, "interval_us": self.load.interval_us,
            "placement": self.placement.to_string(), "unit": "us", "p50": all.percentile(50.0), "p99": all.percentile(99.0),
            "p99_9": all.percentile(99.9), "max": all.percentile(100.0),
            "percentiles": PERCENTILES.map(|percent| (percent, all.percentile(percent))),
            "round_trips": all.answered(), "sent": all.sent, "lost": all.lost,
            "p50_of_rounds": of_rounds(50.0), "p99_of_rounds": of_rounds(99.0),
        })
    }
}

/// Measures, and compares with the goals.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let places = placements(plan)?;
    let mut rows: Vec<Row> = Vec::new();
    for load in LOADS {
        for contender in ALL {
            let placement = places.of(contender, load.manner());
            rows.push(Row { contender, load, placement, rounds: Vec::new() });
        }
    }
    for round in 0..plan.rounds + plan.rounds_of_two {
        let alone = round >= plan.rounds;
        let mut order = if alone { vec![Contender::Plain, Contender::Macsec] } else { ALL.to_vec() };
        // Every other round runs in reverse order, so that no contender always comes first.
        if round % 2 == 1 {
            order.reverse();
        }
        for manner in Manner::ALL.into_iter().filter(|manner| !alone || *manner != Manner::Polled) {
            for &contender in &order {
                let placement = places.of(contender, manner);
                let _path = Path::build(contender, placement, waiting(manner))?;
                for row in rows.iter_mut().filter(|r| r.contender == contender && r.load.manner() == manner) {
                    let count = if manner == Manner::Paced { plan.paced } else { plan.dense };
                    row.rounds.push(round_trips(placement, row.load, count)?);
                }
            }
        }
        println!("   round {} of {}", round + 1, plan.rounds + plan.rounds_of_two);
    }
    println!("\n   {:34} {:26} {:>9} {:>9} {:>9}  placement", "", "", "median", "p99", "p99.9");
    for row in &rows {
        let all = row.pooled();
        println!(
            "   {:34} {:26} {:9.2} {:9.2} {:9.2}  {}",
            row.load.to_string(),
            row.contender.to_string(),
            all.percentile(50.0),
            all.percentile(99.0),
            all.percentile(99.9),
            row.placement
        );
    }
    compare(&rows, goals);
    Ok(rows.iter().map(Row::json).collect())
}

/// The median with protection compared with none: this ratio or these microseconds, whichever is
/// more.
const MEDIAN_TO_NONE: (f64, f64) = (1.05, 0.5);

/// Medians have goals. Tails are printed without a verdict: the machine decides them.
fn compare(rows: &[Row], goals: &mut Vec<Goal>) {
    let with_goals = || LOADS.into_iter().filter(|load| !load.ends_poll);
    let pair = |load: Load, other: Contender| {
        let find = |contender| rows.iter().find(|row| row.contender == contender && row.load == load);
        let name = move |what: &str| format!("macsec / {other}, {load}, {what}");
        Some((Pair { ours: find(Contender::Macsec)?, theirs: find(other)? }, name))
    };
    for (pair, name) in with_goals().filter_map(|load| pair(load, Contender::Plain)) {
        let measured = (pair.of_rounds(50.0, |a, b| a / b), pair.of_rounds(50.0, |a, b| a - b));
        let goal = Goal::at_most_or(name("median"), MEDIAN_TO_NONE, measured, &pair.detail(50.0));
        goals.push(goal.on_this_machine());
    }
    for (other, bound) in [(Contender::Bridges, 2.5), (Contender::OpenVpn, 0.5)] {
        let loads = with_goals().filter(|load| other == Contender::OpenVpn || load.frame_bytes == 64);
        for (pair, name) in loads.filter_map(|load| pair(load, other)) {
            let measured = pair.of_rounds(50.0, |a, b| a / b);
            goals.push(Goal::at_most(name("median"), bound, measured, &pair.detail(50.0)).on_this_machine());
        }
    }
    for load in with_goals() {
        for other in [Contender::Plain, Contender::Bridges, Contender::OpenVpn] {
            for (percent, what) in [(99.0, "p99"), (99.9, "p99.9")] {
                let Some((pair, name)) = pair(load, other) else { continue };
                goals.push(Goal::printed(name(what), pair.tail(percent), &pair.detail(percent)));
            }
        }
    }
}

/// Our row and another contender's under one load.
struct Pair<'a> {
    ours: &'a Row,
    theirs: &'a Row,
}

impl Pair<'_> {
    /// The median over the rounds. A round measures both within seconds, so slow changes of the
    /// machine's load cancel out.
    fn of_rounds(&self, percent: f64, compare: impl Fn(f64, f64) -> f64) -> f64 {
        let rounds = self.ours.rounds.iter().zip(&self.theirs.rounds);
        median(rounds.map(|(a, b)| compare(a.percentile(percent), b.percentile(percent))))
    }

    /// The ratio of a tail: by rounds up to p99; above p99, where a round has too few round trips,
    /// of all rounds pooled.
    fn tail(&self, percent: f64) -> f64 {
        if percent > 99.0 {
            let (ours, theirs) = self.pooled(percent);
            ours / theirs
        } else {
            self.of_rounds(percent, |a, b| a / b)
        }
    }

    /// The percentiles of the rounds common to both, pooled.
    fn pooled(&self, percent: f64) -> (f64, f64) {
        let common = self.ours.rounds.len().min(self.theirs.rounds.len());
        let of = |row: &Row| Series::pooled(&row.rounds[..common]).percentile(percent);
        (of(self.ours), of(self.theirs))
    }

    fn detail(&self, percent: f64) -> String {
        let (ours, theirs) = self.pooled(percent);
        format!("all rounds {ours:.2} / {theirs:.2} us")
    }
}
