//! `antedate plan --verify`: plans thirty points of the laboratory, and measures them.
//!
//! Eighteen are packets of emulated motes. Twelve are messages between applications of this machine:
//! nine sealed with each cipher, and three through two DTLS proxies. The planner gets what a user has:
//! this machine's engine, the way of messages of another length, and what the proxies add to it.

use std::path::Path;

use antedate_experiments::Options;
use antedate_experiments::planned::{self, Counted, Measured, RELAYED, SEALED};
use antedate_plan::bearer::{Bearer, Via};
use antedate_plan::budget::{self, Message, MessageAnswer, Scenario};
use antedate_plan::device::{self, Cipher, Device, Stack};
use serde::Serialize;

use super::calibrate::{self, stack};
use crate::failure::{Done, Failure};
use crate::output;

/// Allowed deviation of a median. A count of a mote may also exceed its plan by so much.
const WITHIN: f64 = 0.10;
/// Share of the messages that keep a bound.
const SHARE: f64 = 0.999;
/// Passes over the engine, and messages of each series: in full, and for a smoke test.
const FULL: (usize, usize) = (5, 4000);
const QUICK: (usize, usize) = (1, 250);
/// A short series on a busy machine says something only together with the others: allowed deviation at the
/// median of this machine's points, and share of all their messages that keep the bounds.
const QUICK_WITHIN: f64 = 0.25;
const QUICK_SHARE: f64 = 0.99;
/// Messages are so rare that none waits for another.
const PERIOD_MS: f64 = 1e6;

/// A point: the planner's word and the measurement, in microseconds.
#[derive(Serialize)]
struct Point {
    name: String,
    origin: &'static str,
    planned_us: f64,
    measured_us: f64,
    /// What the planner states for 99.9 % of the messages.
    planned_p999_us: f64,
    measured_p999_us: f64,
    /// What the planner states as the longest.
    bound_us: f64,
    /// Share of the messages above the bound.
    above: f64,
}

impl Point {
    fn off(&self) -> f64 {
        (self.planned_us - self.measured_us) / self.measured_us
    }
}

/// The answer for a single kind of message.
fn plan(
    device: &Device,
    receiver: Option<&Device>,
    bearer: &Bearer,
    cipher: Option<Cipher>,
    antedated: bool,
    (size, known): (usize, usize),
) -> Result<MessageAnswer, Failure> {
    let message = Message {
        name: "message".into(),
        size,
        period_ms: PERIOD_MS,
        deadline_ms: PERIOD_MS,
        known,
        front: known,
        new_blocks: (size - known).div_ceil(16),
    };
    let messages = [message];
    let scenario = Scenario {
        device,
        receiver,
        bearer,
        cipher,
        antedated,
        work: &[],
        messages: &messages,
        advise: false,
    };
    let refused =
        |what: String| Failure::usage(format!("plan --verify: {what}"), "this is a fault of the program");
    let answer = budget::answer(&scenario).map_err(|fault| refused(fault.what))?;
    answer.messages.into_iter().next().ok_or_else(|| refused("no answer".into()))
}

/// A packet of a mote.
fn of_mote(counted: &Counted) -> Result<Point, Failure> {
    let Counted { device, cipher, antedated, size, known, opened, counts } = *counted;
    let mote = device::find(device)
        .ok_or_else(|| Failure::usage(format!("no mote {device}"), "this is a fault of the program"))?;
    let answer = plan(&mote, opened.then_some(&mote), &Bearer::None, Some(cipher), antedated, (size, known))?;
    let (planned_us, measured_us) = (1000.0 * answer.latency_ms, 1000.0 * mote.ms(counts));
    let bound_us = planned_us * (1.0 + WITHIN);
    let how = if antedated { format!("{known} known") } else { "not prepared".to_owned() };
    Ok(Point {
        name: format!("{device}, {}, {size} B, {how}", cipher.name()),
        origin: "emulated",
        planned_us,
        measured_us,
        planned_p999_us: planned_us,
        measured_p999_us: measured_us,
        bound_us,
        above: f64::from(u8::from(measured_us > bound_us)),
    })
}

/// The delay that a share of the messages keeps.
fn at(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}

/// A series of messages of this machine, planned by medians, and by the delays of all shares.
fn of_host(name: String, mut delays: Vec<f64>, [usual, whole]: [MessageAnswer; 2]) -> Point {
    delays.sort_by(f64::total_cmp);
    let bound_us = 1000.0 * whole.worst_ms.unwrap_or(f64::INFINITY);
    let above = delays.iter().filter(|delay| **delay > bound_us).count();
    Point {
        name,
        origin: "executed",
        planned_us: 1000.0 * usual.latency_ms,
        measured_us: at(&delays, 0.5),
        planned_p999_us: 1000.0 * whole.latency_ms,
        measured_p999_us: at(&delays, SHARE),
        bound_us,
        above: above as f64 / delays.len().max(1) as f64,
    }
}

/// Only the median of measured delays.
fn median(delays: &[(f64, f64)]) -> Vec<(f64, f64)> {
    delays.first().map(|(_, delay)| (1.0, *delay)).into_iter().collect()
}

/// The messages of this machine.
fn of_machine(engine: Device, measured: Measured) -> Result<Vec<Point>, Failure> {
    let Measured { direct_us, proxies_us, sealed_us, relayed_us } = measured;
    // What is left without the engine is the operating system's and the record layer's, with caches as
    // they are after a pause.
    let planned::Sealed { cipher, size } = planned::CALIBRATED;
    let cost = plan(&engine, Some(&engine), &Bearer::Loopback, Some(cipher), true, (size, 0))?;
    let cost_us = 1000.0 * cost.latency_ms;
    let less = |delays: Vec<f64>, by: f64| -> Vec<(f64, f64)> {
        stack::shares(delays).into_iter().map(|(share, delay)| (share, (delay - by).max(0.0))).collect()
    };
    let way = less(direct_us, cost_us);
    let middle = way.first().map_or(0.0, |(_, delay)| *delay);
    // A datagram through the proxies has the same way, and is not sealed by the applications.
    let added = less(proxies_us, middle);
    let with = |send_us: Vec<(f64, f64)>| Device {
        stack: Some(Stack { send_us, receive_us: vec![(1.0, 0.0)] }),
        ..engine.clone()
    };
    let (usual, whole) = (with(median(&way)), with(way));
    let mut points = Vec::new();
    for (sealed, delays) in SEALED.iter().zip(sealed_us) {
        let answer = |device: &Device| {
            plan(device, Some(device), &Bearer::Loopback, Some(sealed.cipher), true, (sealed.size, 0))
        };
        let answers = [answer(&usual)?, answer(&whole)?];
        let name = format!("this machine, {}, {} B", sealed.cipher.name(), sealed.size);
        points.push(of_host(name, delays, answers));
    }
    for (size, delays) in RELAYED.into_iter().zip(relayed_us) {
        let answer = |device: &Device, added_us: Vec<(f64, f64)>| {
            let (via, over) = (Via::DtlsProxy, Box::new(Bearer::Loopback));
            let bearer = Bearer::Relayed { via, added_us, each_us: None, quantile: SHARE, over };
            plan(device, Some(device), &bearer, None, true, (size, 0))
        };
        let answers = [answer(&usual, median(&added))?, answer(&whole, added.clone())?];
        points.push(of_host(format!("through DTLS proxies, {size} B"), delays, answers));
    }
    Ok(points)
}

fn table(points: &[Point]) -> String {
    let wide = points.iter().map(|point| point.name.len()).max().unwrap_or(0);
    let mut text = format!(
        "{:<wide$}  {:<8}  {:>11}  {:>11}  {:>6}  {:>11}  {:>11}  {:>11}\n",
        "times in us", "", "planned", "measured", "off", "p99.9 plan", "p99.9", "bound"
    );
    for point in points {
        text.push_str(&format!(
            "{:<wide$}  {:<8}  {:>11.2}  {:>11.2}  {:>4.1} %  {:>11.2}  {:>11.2}  {:>11.2}\n",
            point.name,
            point.origin,
            point.planned_us,
            point.measured_us,
            100.0 * point.off(),
            point.planned_p999_us,
            point.measured_p999_us,
            point.bound_us,
        ));
    }
    text
}

/// Points that are off, and those with messages above their bound.
fn judge(points: &[Point], quick: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let (motes, host): (Vec<&Point>, Vec<&Point>) =
        points.iter().partition(|point| point.origin == "emulated");
    let each = if quick { motes } else { points.iter().collect() };
    for point in each {
        if point.off().abs() > WITHIN {
            faults.push(format!("{}: off by {:.1} %", point.name, 100.0 * point.off()));
        }
        if point.above > 1.0 - SHARE {
            faults.push(format!("{}: {:.2} % above the bound", point.name, 100.0 * point.above));
        }
    }
    if quick {
        let mut offs: Vec<f64> = host.iter().map(|point| point.off().abs()).collect();
        offs.sort_by(f64::total_cmp);
        let above = host.iter().map(|point| point.above).sum::<f64>() / host.len().max(1) as f64;
        if at(&offs, 0.5) > QUICK_WITHIN {
            faults.push(format!(
                "this machine: off by {:.1} % at the median of the points",
                100.0 * at(&offs, 0.5)
            ));
        }
        if above > 1.0 - QUICK_SHARE {
            faults.push(format!("this machine: {:.2} % of all messages above their bound", 100.0 * above));
        }
    }
    faults
}

/// The result as JSON.
#[derive(Serialize)]
struct Verified<'a> {
    verified: usize,
    quick: bool,
    points: &'a [Point],
    faults: &'a [String],
}

pub(super) fn run(quick: bool, json: Option<&Path>) -> Done {
    let (passes, count) = if quick { QUICK } else { FULL };
    let options = Options { quick, ..Options::default() };
    // The message has its own remedy.
    let failed = |what| Failure::usage(format!("plan --verify: {what}"), "");
    let mut points =
        planned::counted(&options).map_err(failed)?.iter().map(of_mote).collect::<Result<Vec<_>, _>>()?;
    let (engine, _) = calibrate::engine(passes, false)?;
    points.extend(of_machine(engine, planned::measure(&options, count).map_err(failed)?)?);
    let faults = judge(&points, quick);
    if json.is_none_or(|file| file.as_os_str() != "-") {
        let furthest = points.iter().map(|point| point.off().abs()).fold(0.0, f64::max);
        let word = if quick { "; a smoke test, no measurement" } else { "" };
        let text = format!(
            "{}{} points, the furthest off by {:.1} %{word}\n",
            table(&points),
            points.len(),
            100.0 * furthest
        );
        output::print(&text)?;
    }
    if let Some(file) = json {
        output::json(file, &Verified { verified: points.len(), quick, points: &points, faults: &faults })?;
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::Verdict(format!("plan --verify: {}; is the machine busy?", faults.join("; ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(planned_us: f64, measured_us: f64, above: f64) -> Point {
        Point {
            name: "one".into(),
            origin: "executed",
            planned_us,
            measured_us,
            planned_p999_us: planned_us,
            measured_p999_us: measured_us,
            bound_us: planned_us,
            above,
        }
    }

    #[test]
    fn points_off_and_above_are_faults() {
        assert!(judge(&[point(105.0, 100.0, 0.001)], false).is_empty());
        assert_eq!(judge(&[point(111.0, 100.0, 0.0)], false).len(), 1);
        assert_eq!(judge(&[point(89.0, 100.0, 0.002)], false).len(), 2);
    }

    #[test]
    fn short_series_are_judged_together() {
        let points = [point(130.0, 100.0, 0.0), point(101.0, 100.0, 0.001), point(99.0, 100.0, 0.0)];
        assert!(judge(&points, true).is_empty());
        let points = [point(130.0, 100.0, 0.0), point(126.0, 100.0, 0.04), point(99.0, 100.0, 0.0)];
        assert_eq!(judge(&points, true).len(), 2);
        let mote = Point { origin: "emulated", ..point(130.0, 100.0, 0.0) };
        assert_eq!(judge(&[mote, point(100.0, 100.0, 0.0)], true).len(), 1);
    }

    #[test]
    fn shares_are_those_of_sorted_delays() {
        let delays: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!([at(&delays, 0.5), at(&delays, SHARE), at(&delays, 1.0)], [500.0, 999.0, 1000.0]);
    }
}
