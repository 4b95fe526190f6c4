//! Frames a second in one direction, as RFC 2544 (section 26.1) asks: the highest rate without a loss,
//! that with a loss of 0.1 %, and the arrivals of a flood.
//!
//! The interface of the device counts arrivals. A trial that lost frames is repeated once: a stall of
//! the machine takes frames of any contender.

use super::Plan;
use super::goals::Goal;
use super::paths::{Contender, FOR_RATES, Path, Waiting};
use super::placement::{FOR_TCP, Placement};
use crate::net;
use serde_json::{Value, json};
use std::time::Duration;
use xtask::shell::{Run, antedate};

/// The shares of frames that may be lost.
const SHARES: [f64; 2] = [0.0, 0.001];
/// Trials of a search: it ends within 2 % of the flood's rate.
const TRIALS: usize = 6;
/// The frames by which placements are compared.
const SMALL: u32 = 64;

/// A number of equal frames, sent at a fixed rate.
#[derive(Clone, Copy)]
struct Trial {
    /// Frames that left the controller in a second.
    sent: f64,
    /// Frames that arrived in a second.
    arrived: f64,
    /// The share of frames that did not arrive.
    lost: f64,
}

/// Measures each length of frames with each contender in its best placement.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut rows: Vec<Value> = Vec::new();
    println!(
        "   {:>5}  {:26} {:>12} {:>12} {:>12}   placement",
        "bytes", "", "no loss", "0.1 % lost", "of a flood"
    );
    for contender in FOR_RATES {
        let mut best = (0.0, FOR_TCP[0]);
        for placement in FOR_TCP {
            let _path = Path::build(contender, placement, Waiting::Default)?;
            let arrived = trial(placement, SMALL, 0, plan.rate_seconds)?.arrived;
            if arrived > best.0 {
                best = (arrived, placement);
            }
        }
        let placement = best.1;
        let _path = Path::build(contender, placement, Waiting::Default)?;
        for frame_bytes in plan.rate_sizes {
            let offer = |rate: f64| trial(placement, *frame_bytes, rate as u64, plan.rate_seconds);
            let flood = offer(0.0)?;
            let [lossless, thousandth] = {
                let mut known = Vec::new();
                let mut found = [0.0; 2];
                for (found, share) in found.iter_mut().zip(SHARES) {
                    *found = search(share, flood.sent, &mut known, offer)?;
                }
                found
            };
            println!(
                "   {frame_bytes:5}  {:26} {lossless:12.0} {thousandth:12.0} {:12.0}   {placement}",
                contender.to_string(),
                flood.arrived
            );
            rows.push(json!({
                "contender": contender.to_string(), "frame_bytes": frame_bytes, "placement": placement.to_string(),
                "unit": "frames a second", "lossless": lossless, "loss_0_1_percent": thousandth,
                "flood_sent": flood.sent, "flood_arrived": flood.arrived,
            }));
        }
    }
    let of = |contender: Contender, key: &str| {
        let row = rows
            .iter()
            .find(|row| row["contender"] == contender.to_string().as_str() && row["frame_bytes"] == SMALL);
        row.and_then(|row| row[key].as_f64()).unwrap_or(f64::NAN)
    };
    let (ours, bridges) = (of(Contender::Macsec, "flood_arrived"), of(Contender::Bridges, "flood_arrived"));
    let million = ours / 1e6;
    goals.push(Goal::at_least(
        "million frames a second of 64 bytes, macsec".into(),
        0.5,
        million,
        &format!("{million:.3}, of a flood"),
    ));
    let ring = of(Contender::MacsecRing, "flood_arrived");
    goals.push(Goal::printed(
        "frames of 64 bytes of a flood, macsec by AF_XDP / ring".into(),
        ours / ring,
        &format!("{ours:.0} / {ring:.0} a second, {:.0} / {:.0} ns a frame", 1e9 / ours, 1e9 / ring),
    ));
    for (what, key) in [("of a flood", "flood_arrived"), ("without loss", "lossless")] {
        let (ours, theirs) = (of(Contender::Macsec, key), of(Contender::OpenVpn, key));
        goals.push(Goal::printed(
            format!("frames of 64 bytes {what}, macsec / OpenVPN"),
            ours / theirs,
            &format!("{ours:.0} / {theirs:.0} a second"),
        ));
    }
    goals.push(Goal::printed(
        "frames of 64 bytes of a flood, macsec / bridges".into(),
        ours / bridges,
        &format!("{ours:.0} / {bridges:.0} a second"),
    ));
    Ok(rows.into())
}

/// The highest rate at which no more than this share is lost. `known`: all trials so far.
fn search(
    share: f64,
    most: f64,
    known: &mut Vec<Trial>,
    mut offer: impl FnMut(f64) -> Result<Trial, String>,
) -> Result<f64, String> {
    let (mut good, mut bad) = (0.0, most);
    for trial in known.iter() {
        if trial.lost <= share {
            good = f64::max(good, trial.sent);
        }
    }
    for _ in 0..TRIALS {
        if bad - good <= most / 50.0 {
            break;
        }
        let rate = (good + bad) / 2.0;
        let mut trial = offer(rate)?;
        if trial.lost > share {
            trial = offer(rate)?;
        }
        known.push(trial);
        if trial.lost <= share {
            good = trial.sent.max(good);
            // The sender keeps no higher rate.
            bad = if trial.sent < rate * 0.98 { good } else { bad };
        } else {
            bad = rate;
        }
    }
    Ok(good)
}

/// Sends frames at a rate (0: as fast as possible) for so many seconds.
fn trial(placement: Placement, frame_bytes: u32, rate: u64, seconds: f64) -> Result<Trial, String> {
    let before = arrived()?;
    let (sent, took) = flood(placement, frame_bytes, rate, seconds)?;
    // Frames in queues arrive after the last one was sent.
    let mut after = arrived()?;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        let now = arrived()?;
        if now == after {
            break;
        }
        after = now;
    }
    let came = (after - before) as f64;
    if sent <= 0.0 || took <= 0.0 {
        return Err("the flood sent nothing".into());
    }
    Ok(Trial { sent: sent / took, arrived: came / took, lost: (1.0 - came / sent).max(0.0) })
}

/// Floods; returns the number of frames and the seconds.
fn flood(placement: Placement, frame_bytes: u32, rate: u64, seconds: f64) -> Result<(f64, f64), String> {
    let options = flood_options(placement, frame_bytes, rate, seconds);
    let said = net::inside("plc", antedate()).arg("lab-flood").arg(options).read(seconds as u64 + 30)?;
    flood_report(&said)
}

/// Options of `lab-flood` towards the device.
pub(super) fn flood_options(placement: Placement, frame_bytes: u32, rate: u64, seconds: f64) -> String {
    flood_options_to(placement, &net::mac(0x02), frame_bytes, rate, seconds)
}

/// As [`flood_options`], towards any machine.
pub(super) fn flood_options_to(
    placement: Placement,
    destination: &str,
    frame_bytes: u32,
    rate: u64,
    seconds: f64,
) -> String {
    let cpus: Vec<usize> = placement.core(0).into_iter().collect();
    json!({
        "interface": "eth0", "destination": destination, "frame_bytes": frame_bytes, "rate": rate,
        "seconds": seconds, "realtime": { "wanted": false, "cpus": cpus },
    })
    .to_string()
}

/// The number of frames that left, and the seconds, of `lab-flood`'s report.
pub(super) fn flood_report(said: &str) -> Result<(f64, f64), String> {
    let last = said.lines().last().unwrap_or_default();
    let report: Value = serde_json::from_str(last).map_err(|e| format!("lab-flood: {e}: {last}"))?;
    let number = |key: &str| report[key].as_f64().ok_or_else(|| format!("lab-flood: no {key}: {last}"));
    Ok((number("sent")?, number("seconds")?))
}

/// Frames that arrived at the device since it is there.
pub(super) fn arrived() -> Result<u64, String> {
    arrived_at("dev")
}

/// As [`arrived`], at a machine in this namespace.
pub(super) fn arrived_at(space: &str) -> Result<u64, String> {
    let said = net::inside(space, "ip").args(["-j", "-s", "link", "show", "dev", "eth0"]).read(10)?;
    let value: Value = serde_json::from_str(&said).map_err(|e| format!("ip: {e}: {said}"))?;
    value[0]["stats64"]["rx"]["packets"].as_u64().ok_or_else(|| format!("ip: no count of packets: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that carries so many frames a second and loses the rest, with a sender up to a rate.
    fn path(carries: f64, sends: f64) -> impl FnMut(f64) -> Result<Trial, String> {
        move |rate| {
            let sent = rate.min(sends);
            let arrived = sent.min(carries);
            Ok(Trial { sent, arrived, lost: 1.0 - arrived / sent })
        }
    }

    #[test]
    fn search_finds_the_rate_of_the_path() {
        for carries in [20_000.0, 345_678.0, 990_000.0] {
            let found = search(0.0, 1e6, &mut Vec::new(), path(carries, 1e6)).expect("a rate");
            assert!(found <= carries && found > carries - 2e4, "{found} of {carries}");
        }
        // A loss of 0.1 % is allowed.
        let mut known = Vec::new();
        let found = search(0.001, 1e6, &mut known, path(500_000.0, 1e6)).expect("a rate");
        assert!(found > 480_000.0 && !known.is_empty(), "{found}");
        // The sender is the limit.
        let found = search(0.0, 1e6, &mut Vec::new(), path(1e6, 3e5)).expect("a rate");
        assert!((2.9e5..=3e5).contains(&found), "{found}");
    }

    #[test]
    fn report_of_a_flood_is_read() {
        assert_eq!(flood_report("{\"sent\":10,\"refused\":0,\"seconds\":0.5}\n"), Ok((10.0, 0.5)));
        assert!(flood_report("error").is_err() && flood_report("{}").is_err());
    }
}
