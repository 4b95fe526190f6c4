//! Round trips of layer-2 frames: every contender, 64 and 1500 bytes, paced and back to back.

use super::Plan;
use super::goals::Goal;
use super::meter::{LOADS, Load, Series, round_trips};
use super::paths::{ALL, Contender, PLACEMENTS, Path, Placement, Waiting};
use serde_json::{Value, json};

/// The placement of each contender, back to back and paced.
struct Places(Vec<(Contender, [Placement; 2])>);

impl Places {
    /// The one that suits the contender under that load.
    fn of(&self, contender: Contender, paced: bool) -> Placement {
        let found = self.0.iter().find(|(c, _)| *c == contender);
        found.map_or(PLACEMENTS[0], |(_, places)| places[usize::from(paced)])
    }
}

/// How the gateways wait under that load.
fn waiting(load: Load) -> Waiting {
    if load.interval_us > 0 { Waiting::Cyclic } else { Waiting::Fastest }
}

/// Tries each placement with each contender for a moment; the one with the lowest product of median and p99 of 64-byte
/// frames is taken, so that a placement with a long tail is not the best one.
/// Our daemon has the same placement with and without protection: the one that suits it with protection.
fn placements(plan: Plan) -> Result<Places, String> {
    let mut places = Vec::new();
    for contender in [Contender::Bridges, Contender::Macsec, Contender::OpenVpn] {
        let mut best = [(f64::INFINITY, PLACEMENTS[0]); 2];
        for placement in PLACEMENTS {
            let mut said = String::new();
            for (paced, load) in [LOADS[0], LOADS[2]].into_iter().enumerate() {
                let _path = Path::build(contender, placement, waiting(load))?;
                let count = if paced == 1 { plan.paced.min(1_000) } else { plan.dense.min(5_000) };
                let series = round_trips(placement, load, count)?;
                let (median, p99) = (series.percentile(50.0), series.percentile(99.0));
                said.push_str(&format!("  {median:8.1} / {p99:8.1} us"));
                if median * p99 < best[paced].0 {
                    best[paced] = (median * p99, placement);
                }
            }
            println!("   {:26} {:24} {said}", contender.to_string(), placement.to_string());
        }
        let chosen = best.map(|(_, placement)| placement);
        places.push((contender, chosen));
        if contender == Contender::Macsec {
            places.push((Contender::Plain, chosen));
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
            "contender": self.contender.to_string(), "frame_bytes": self.load.frame_bytes, "interval_us": self.load.interval_us,
            "placement": self.placement.to_string(), "unit": "us", "p50": all.percentile(50.0), "p99": all.percentile(99.0),
            "p99_9": all.percentile(99.9), "max": all.percentile(100.0),
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
            let placement = places.of(contender, load.interval_us > 0);
            rows.push(Row { contender, load, placement, rounds: Vec::new() });
        }
    }
    for round in 0..plan.rounds {
        for contender in ALL {
            for paced in [false, true] {
                let placement = places.of(contender, paced);
                let load = if paced { LOADS[2] } else { LOADS[0] };
                let _path = Path::build(contender, placement, waiting(load))?;
                for row in
                    rows.iter_mut().filter(|r| r.contender == contender && (r.load.interval_us > 0) == paced)
                {
                    let count = if paced { plan.paced } else { plan.dense };
                    row.rounds.push(round_trips(placement, row.load, count)?);
                }
            }
        }
        println!("   round {} of {}", round + 1, plan.rounds);
    }
    println!("\n   {:26} {:26} {:>9} {:>9} {:>9}  placement", "", "", "median", "p99", "p99.9");
    for row in &rows {
        let all = row.pooled();
        println!(
            "   {:26} {:26} {:9.2} {:9.2} {:9.2}  {}",
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

fn compare(rows: &[Row], goals: &mut Vec<Goal>) {
    let mut ratio = |load: Load, other: Contender, percent: f64, bound: f64| {
        let find = |c| rows.iter().find(|r| r.contender == c && r.load == load);
        let (Some(ours), Some(theirs)) = (find(Contender::Macsec), find(other)) else { return };
        let (ours, theirs) = (ours.pooled().percentile(percent), theirs.pooled().percentile(percent));
        let what = if percent == 50.0 { "median".to_string() } else { format!("p{percent}") };
        let detail = format!("{ours:.2} / {theirs:.2} us");
        goals.push(Goal::at_most(format!("macsec / {other}, {load}, {what}"), bound, ours / theirs, &detail));
    };
    for load in LOADS {
        ratio(load, Contender::Plain, 50.0, 1.03);
        ratio(load, Contender::Plain, 99.0, 1.03);
    }
    for load in LOADS.into_iter().filter(|l| l.frame_bytes == 64) {
        ratio(load, Contender::Bridges, 50.0, 2.5);
    }
    for load in LOADS {
        ratio(load, Contender::OpenVpn, 50.0, 0.5);
        ratio(load, Contender::OpenVpn, 99.9, 0.7);
    }
}
