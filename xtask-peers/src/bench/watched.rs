//! Round trips of cyclic frames through gateways that are looked at, and through others in turns.

use super::goals::Goal;
use super::meter::{LOADS, Load, Manner, Series, round_trips_of};
use super::paths::{Contender, Daemon, Path};
use super::placement::{PLACEMENTS, Placement};
use super::{Plan, median, roundtrips};
use crate::net;
use serde_json::{Value, json};
use xtask::shell::{Background, Run, cache};

/// Those that look: viewers of each gateway's page. Beside them its metrics are read each second.
const VIEWERS: usize = 10;
/// Profinet frames, which are watched.
const KIND: &str = "profinet";
/// PLC and its gateway on one core, device and its gateway on the other.
const PLACEMENT: Placement = PLACEMENTS[2];

/// The gateways with nothing to look at, and with all.
const DAEMONS: [(&str, &str); 2] = [
    ("no page, metrics or watched flows", "[flows]\nwatch = false\n"),
    (
        "all three, 10 viewers",
        "[flows]\nwatch = true\n[page]\nlisten = \"127.0.0.1:9465\"\n[metrics]\nlisten = \"127.0.0.1:9464\"\n",
    ),
];

/// The viewers and the reader of the metrics in both gateways' namespaces, until dropped.
fn viewers() -> Result<Vec<Background>, String> {
    let log = cache("bench")?.join("viewers.log");
    let scrape = "while :; do curl --silent --fail --output /dev/null http://127.0.0.1:9464/metrics || exit 1; sleep 1; done";
    let mut all = Vec::new();
    for space in ["gwa", "gwb"] {
        for _ in 0..VIEWERS {
            let mut viewer = net::inside(space, "curl");
            viewer.args(["--silent", "--fail", "--no-buffer", "--output", "/dev/null"]);
            all.push(viewer.arg("http://127.0.0.1:9465/events").background(&log)?);
        }
        all.push(net::inside(space, "sh").args(["-c", scrape]).background(&log)?);
    }
    Ok(all)
}

/// Measures, and compares with the goal.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let loads = LOADS.into_iter().filter(|load| load.frame_bytes == 64 && !load.ends_poll);
    let mut rows: Vec<(Load, [Vec<Series>; 2])> = loads.map(|load| (load, Default::default())).collect();
    for round in 0..plan.rounds {
        for (load, series) in &mut rows {
            let count = if load.manner() == Manner::Paced { plan.paced } else { plan.dense };
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for which in order {
                let daemon = Daemon { sections: DAEMONS[which].1, ..Daemon::default() };
                let waiting = roundtrips::waiting(load.manner());
                let _path = Path::build_with(daemon, Contender::Macsec, PLACEMENT, waiting)?;
                let mut viewers = if which == 1 { viewers()? } else { Vec::new() };
                series[which].push(round_trips_of(KIND, PLACEMENT, *load, count)?);
                // One that has ended looked at nothing.
                viewers.iter_mut().try_for_each(Background::alive)?;
            }
        }
    }
    let mut told = Vec::new();
    for (load, series) in &rows {
        let of = |which: usize, percent| Series::pooled(&series[which]).percentile(percent);
        for (which, (name, _)) in DAEMONS.into_iter().enumerate() {
            let (p50, p99) = (of(which, 50.0), of(which, 99.0));
            println!("   {:26} {name:36} {p50:9.2} {p99:9.2} us", load.to_string());
            told.push(
                json!({ "load": load.to_string(), "daemon": name, "unit": "us", "p50": p50, "p99": p99 }),
            );
        }
        let ratios = series[1]
            .iter()
            .zip(&series[0])
            .map(|(with, without)| with.percentile(50.0) / without.percentile(50.0));
        let detail = format!("all rounds {:.2} / {:.2} us", of(1, 50.0), of(0, 50.0));
        let name = format!("looked at / not, {load}, median");
        goals.push(Goal::at_most(name, 1.01, median(ratios), &detail).on_this_machine());
    }
    Ok(told.into())
}
