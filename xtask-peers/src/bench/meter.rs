//! The lab's meter and stations on a path of the benchmark: the same program for each contender.

use super::placement::Placement;
use crate::net;
use crate::traffic::station_report;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use xtask::shell::{Run, antedate, cache, until};

/// The traffic of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    /// Octets of a frame without its frame check sequence.
    pub(crate) frame_bytes: u32,
    /// Microseconds between requests; 0: back to back.
    pub(crate) interval_us: u32,
    /// The ends poll and yield instead of sleeping on their sockets.
    pub(crate) ends_poll: bool,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = if self.frame_bytes == 1514 { 1500 } else { self.frame_bytes };
        let pace = match self.interval_us {
            0 => "back to back".into(),
            us if us % 1000 == 0 => format!("every {} ms", us / 1000),
            us => format!("every {us} us"),
        };
        write!(f, "{size} bytes, {pace}{}", if self.ends_poll { ", ends poll" } else { "" })
    }
}

const fn load(frame_bytes: u32, interval_us: u32, ends_poll: bool) -> Load {
    Load { frame_bytes, interval_us, ends_poll }
}

/// The loads: 64-byte and full frames, paced and back to back, between ends that sleep on their
/// sockets as ordinary programs do; these have goals. The last load has ends that never sleep.
pub(crate) const LOADS: [Load; 5] = [
    load(64, 0, false),
    load(1514, 0, false),
    load(64, 1000, false),
    load(1514, 1000, false),
    load(64, 0, true),
];

/// The loads that share a path: the same pace and the same kind of ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// Back to back; the ends sleep.
    Dense,
    /// On a time grid; the ends sleep.
    Paced,
    /// Back to back; the ends poll.
    Polled,
}

impl Manner {
    pub(crate) const ALL: [Manner; 3] = [Manner::Dense, Manner::Paced, Manner::Polled];
}

impl Load {
    pub(crate) fn manner(self) -> Manner {
        match self {
            Load { ends_poll: true, .. } => Manner::Polled,
            Load { interval_us: 0, .. } => Manner::Dense,
            _ => Manner::Paced,
        }
    }
}

/// Round trips of one series, or of several pooled.
#[derive(Deserialize, Default, Clone, Debug)]
pub(crate) struct Series {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    /// Round-trip times in nanoseconds and their counts, in rising order of time.
    histogram_ns: Vec<(u64, u64)>,
}

impl Series {
    /// Merges the round trips of several series.
    pub(crate) fn pooled<'a>(all: impl IntoIterator<Item = &'a Series>) -> Series {
        let mut pooled = Series::default();
        let mut counts = BTreeMap::new();
        for series in all {
            pooled.sent += series.sent;
            pooled.lost += series.lost;
            for (ns, count) in &series.histogram_ns {
                *counts.entry(*ns).or_insert(0) += count;
            }
        }
        pooled.histogram_ns = counts.into_iter().collect();
        pooled
    }

    /// The number of answers.
    pub(crate) fn answered(&self) -> u64 {
        self.histogram_ns.iter().map(|(_, count)| count).sum()
    }

    /// The time in microseconds that `percent` of the round trips did not exceed. A lost round trip
    /// counts as longer than all others.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let all = self.answered() + self.lost;
        let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.histogram_ns.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        match at {
            Some((ns, _)) => *ns as f64 / 1e3,
            None if self.lost > 0 => f64::INFINITY,
            None => f64::NAN,
        }
    }
}

/// Drift of paced requests in nanoseconds per request, against the ticks of the kernel's timer (one
/// in 4 ms here), as the clock of a PLC drifts. On a grid of whole milliseconds, chance would
/// decide for a whole series whether each fourth request meets a tick or none does.
const DRIFT_NS: u32 = 1_000;

/// Measures at most `count` round trips from the PLC to the device and back.
pub(crate) fn round_trips(placement: Placement, load: Load, count: u64) -> Result<Series, String> {
    round_trips_of("experimental", placement, load, count)
}

/// As [`round_trips`], of frames of this kind (`antedate_lab::roundtrip::Kind`).
pub(crate) fn round_trips_of(
    kind: &str,
    placement: Placement,
    load: Load,
    count: u64,
) -> Result<Series, String> {
    // Real-time ends that never sleep would leave the gateways no CPU time; paced ends sleep
    // between the cycles, as the stations of a plant do.
    let wanted = load.manner() == Manner::Paced;
    let realtime = |side| json!({ "wanted": wanted, "cpus": cores(placement, side) });
    let log = cache("bench")?.join("echo.log");
    let echo = json!({ "interface": "eth0", "kind": kind, "poll": load.ends_poll, "realtime": realtime(1) });
    let mut echo = net::inside("dev", antedate()).arg("lab-echo").arg(echo.to_string()).background(&log)?;
    until("the responder", 10.0, || match echo.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => echo.output().contains("ready").then_some(Ok(())),
    })??;
    // A slow machine gets fewer round trips, no failure.
    let longest_s = 20 + (count * u64::from(load.interval_us) / 1_000_000) as u32;
    let ping = json!({
        "longest_s": longest_s, "kind": kind, "interface": "eth0", "destination": net::mac(0x02), "frame_bytes": load.frame_bytes, "interval_us": load.interval_us,
        "drift_ns": DRIFT_NS, "count": count, "warm_up": count.min(500), "histogram": true, "poll": load.ends_poll, "realtime": realtime(0),
    });
    let limit = 60 + 2 * u64::from(longest_s);
    let said = net::inside("plc", antedate()).arg("lab-ping").arg(ping.to_string()).read(limit)?;
    echo.stop(5)?;
    let last = said.lines().last().unwrap_or_default();
    let series: Series = serde_json::from_str(last).map_err(|e| format!("lab-ping: {e}: {last}"))?;
    if series.answered() == 0 {
        return Err(format!("{load}: no answer came: {last}"));
    }
    Ok(series)
}

fn cores(placement: Placement, side: usize) -> Vec<usize> {
    placement.core(side).into_iter().collect()
}

/// Runs the cyclic exchange of the two stations for `seconds`; returns the reports of PLC and
/// device.
pub(crate) fn cyclic(placement: Placement, cycle_us: u32, seconds: f64) -> Result<[Value; 2], String> {
    let station = |space, role, side, seconds: f64| {
        let options = json!({
            "role": role, "cycle_us": cycle_us, "seconds": seconds, "realtime": { "cpus": cores(placement, side) },
        });
        let mut command = net::inside(space, antedate());
        command.arg("lab-station").arg(options.to_string());
        command
    };
    let log = cache("bench")?.join("device.log");
    // The device has time left when the PLC ends: it stops with its peer.
    let device = station("dev", "device", 1, seconds + 5.0).background(&log)?;
    let plc = station("plc", "plc", 0, seconds).read(seconds as u64 + 40)?;
    let device = device.finish(30)?;
    Ok([station_report(&plc, cycle_us, seconds)?, station_report(&device, cycle_us, seconds)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_took_longer_than_all_that_came() {
        let series = |sent, lost| Series { sent, lost, histogram_ns: vec![(1_000, 90), (2_000, 8)] };
        assert_eq!(series(98, 0).percentile(99.0), 2.0);
        assert_eq!(series(100, 2).percentile(50.0), 1.0);
        assert_eq!(series(100, 2).percentile(98.0), 2.0);
        assert_eq!(series(100, 2).percentile(99.0), f64::INFINITY);
        assert!(Series::default().percentile(50.0).is_nan());
    }
}
