//! A hub of an overlay: the cost of a frame and the rate by its number of workers.
//!
//! A machine behind the hub floods the machines behind four spokes, one flow to each, so that each
//! worker has as many peers. As in [`super::scale`], the rate of a machine with a core for each worker
//! is modelled from the CPU time of a frame.

use super::cpu::busy_ns;
use super::goals::Goal;
use super::placement::FOR_TCP;
use super::rates::{arrived_at, flood_options_to, flood_report};
use super::{Plan, median};
use crate::daemon::{Gateway, Options};
use crate::net::{self, End};
use crate::peers::wireguard_go::keygen;
use crate::place;
use serde_json::{Value, json};
use std::fs;
use xtask::shell::{Run, antedate, until};

const WORKERS: [usize; 3] = [1, 2, 4];
const SPOKES: u8 = 4;
const FRAME: u32 = 128;
const SECONDS: f64 = 2.0;

/// Measures in each round each number of workers.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut floods: Vec<Vec<Flood>> = WORKERS.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.scale_rounds {
        for (workers, floods) in WORKERS.into_iter().zip(&mut floods) {
            floods.push(Star::build(workers)?.flood()?);
        }
    }
    println!(
        "   {:>7} {:>12} {:>10} {:>9} {:>9} {:>16}",
        "workers", "frames/s", "hub ns", "busiest", "passed on", "a core for each"
    );
    let mut rows = Vec::new();
    for (workers, floods) in WORKERS.into_iter().zip(&floods) {
        let of = |get: fn(&Flood) -> f64| median(floods.iter().map(get));
        let (rate, hub, busiest, passed) =
            (of(|f| f.rate), of(|f| f.hub), of(|f| f.busiest), of(|f| f.passed));
        let each = 1e9 / hub / busiest.max(1.0 / workers as f64);
        println!("   {workers:7} {rate:12.0} {hub:10.0} {busiest:9.2} {passed:9.4} {each:16.0}");
        rows.push(json!({
            "workers": workers, "unit": "frames a second", "rate": rate, "hub_ns": hub,
            "busiest_share": busiest, "passed_share": passed, "core_for_each": each,
        }));
    }
    let cost = |at: usize| rows[at]["hub_ns"].as_f64().unwrap_or(f64::NAN);
    goals.push(Goal::printed(
        "CPU time of a frame in an overlay's hub, 4 workers / 1".into(),
        cost(2) / cost(0),
        &format!("{:.0} / {:.0} ns", cost(2), cost(0)),
    ));
    Ok(rows.into())
}

/// One flood.
struct Flood {
    /// Frames that arrived in a second.
    rate: f64,
    /// CPU time of the hub for each frame that arrived, in nanoseconds.
    hub: f64,
    /// The busiest worker's share of the frames that the hub sent.
    busiest: f64,
    /// The share of frames that one worker passed to another.
    passed: f64,
}

/// A hub and its spokes, each with a machine, on one switch.
struct Star {
    hub: Gateway,
    _spokes: Vec<Gateway>,
    workers: usize,
}

fn spaces() -> impl Iterator<Item = String> {
    let spokes = (1..=SPOKES).flat_map(|spoke| [format!("gw{spoke}"), format!("dev{spoke}")]);
    ["plc", "gwa", "wire"].map(str::to_owned).into_iter().chain(spokes)
}

const fn end<'a>(space: &'a str, name: &'a str, octet: u8) -> End<'a> {
    End { space, name, octet }
}

fn remove() {
    for space in spaces() {
        let _ = net::ip(&["netns", "del", &space]);
    }
}

impl Star {
    fn build(workers: usize) -> Result<Self, String> {
        remove();
        for space in spaces() {
            net::namespace(&space)?;
        }
        let dir = place::run()?.join("hub-keys");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let keys =
            (0..=SPOKES).map(|place| keygen(&dir, &place.to_string())).collect::<Result<Vec<_>, _>>()?;
        net::link(end("plc", "eth0", 0x01), end("gwa", "field", 0xa1), net::FIELD_MTU)?;
        net::link(end("gwa", "uplink", 0xa2), end("wire", "p0", 0xa3), net::WIRE_MTU)?;
        net::address("gwa", "uplink", "192.0.2.1/24", None)?;
        let mut ports = vec!["p0".to_owned()];
        for spoke in 1..=SPOKES {
            let (gateway, device, port) = (format!("gw{spoke}"), format!("dev{spoke}"), format!("p{spoke}"));
            let field = end(&gateway, "field", 0xb0 + spoke);
            net::link(end(&device, "eth0", 0x10 + spoke), field, net::FIELD_MTU)?;
            net::link(
                end(&gateway, "uplink", 0xc0 + spoke),
                end("wire", &port, 0xd0 + spoke),
                net::WIRE_MTU,
            )?;
            net::address(&gateway, "uplink", &format!("192.0.2.{}/24", spoke + 1), None)?;
            ports.push(port);
        }
        net::bridge("wire", &ports.iter().map(String::as_str).collect::<Vec<_>>())?;
        let overlay = |place: u8, peers: &[u8]| {
            let mut text = format!(
                "[overlay]\nprivate_key_file = \"{}\"\naddress = \"10.66.0.{}\"\nvni = 42\n",
                dir.join(place.to_string()).display(),
                place + 1
            );
            for peer in peers {
                text.push_str(&format!(
                    "[[overlay.peer]]\nname = \"place{peer}\"\npublic_key = \"{}\"\naddress = \"10.66.0.{}\"\n\
                     endpoint = \"192.0.2.{}:51820\"\n",
                    keys[usize::from(*peer)],
                    peer + 1,
                    peer + 1
                ));
            }
            Some(text)
        };
        let spokes: Vec<u8> = (1..=SPOKES).collect();
        let options =
            |overlay, run: String| Options { overlay, run, allow: vec!["all"], ..Options::default() };
        let run = if workers > 1 { format!("workers = {workers}") } else { "threads = 1".to_owned() };
        let hub = Gateway::start("gwa", &options(overlay(0, &spokes), run))?;
        let others = spokes.iter().map(|spoke| {
            Gateway::start(&format!("gw{spoke}"), &options(overlay(*spoke, &[0]), String::new()))
        });
        let star = Self { hub, _spokes: others.collect::<Result<_, _>>()?, workers };
        star.learn()?;
        Ok(star)
    }

    /// Each machine speaks, until the hub and the spokes know where all are, and the hub's kernel which
    /// worker has them.
    fn learn(&self) -> Result<(), String> {
        until("the machines of all peers", 20.0, || {
            for spoke in 1..=SPOKES {
                let options = flood_options_to(FOR_TCP[0], &net::mac(0x01), FRAME, 20, 0.1);
                let device = format!("dev{spoke}");
                let mut command = net::inside(&device, antedate());
                if let Err(e) = command.arg("lab-flood").arg(options).read(10) {
                    return Some(Err(e));
                }
            }
            let status = match self.hub.status() {
                Ok(status) => status,
                Err(e) => return Some(Err(e)),
            };
            let peers = status["overlay"]["peers"].as_array().cloned().unwrap_or_default();
            let known = peers.iter().filter(|peer| peer["macs"].as_u64() == Some(1)).count();
            (known == usize::from(SPOKES)).then_some(Ok(()))
        })??;
        std::thread::sleep(std::time::Duration::from_millis(500));
        Ok(())
    }

    fn flood(&self) -> Result<Flood, String> {
        let arrived = || (1..=SPOKES).map(|spoke| arrived_at(&format!("dev{spoke}"))).sum::<Result<u64, _>>();
        let (before, busy, first, passed) =
            (self.sent()?, busy_ns(self.hub.pid()), arrived()?, self.passed()?);
        let mut senders = Vec::new();
        for spoke in 1..=SPOKES {
            let options = flood_options_to(FOR_TCP[0], &net::mac(0x10 + spoke), FRAME, 0, SECONDS);
            let mut command = net::inside("plc", antedate());
            command.arg("lab-flood").arg(options);
            senders.push(command.background(&place::run()?.join(format!("flood-{spoke}.log")))?);
        }
        let mut longest: f64 = 0.0;
        for sender in senders {
            let (_, seconds) = flood_report(&sender.finish(30)?)?;
            longest = longest.max(seconds);
        }
        let frames = (arrived()? - first) as f64;
        let busy = (busy_ns(self.hub.pid()) - busy) as f64;
        let mut each = vec![0.0; self.workers];
        for (peer, (after, before)) in self.sent()?.into_iter().zip(before).enumerate() {
            // New peers go to the workers in turn.
            each[peer % self.workers] += after - before;
        }
        let busiest = each.iter().copied().fold(0.0, f64::max) / each.iter().sum::<f64>();
        let passed = (self.passed()? - passed) / frames;
        Ok(Flood { rate: frames / longest, hub: busy / frames, busiest, passed })
    }

    /// Frames sent to each peer.
    fn sent(&self) -> Result<Vec<f64>, String> {
        let status = self.hub.status()?;
        let peers = status["overlay"]["peers"].as_array().cloned().unwrap_or_default();
        Ok(peers.iter().filter_map(|peer| peer["sent_frames"].as_f64()).collect())
    }

    fn passed(&self) -> Result<f64, String> {
        let status = self.hub.status()?;
        status["overlay"]["passed_frames"].as_f64().ok_or_else(|| format!("no passed_frames: {status:#}"))
    }
}

impl Drop for Star {
    fn drop(&mut self) {
        remove();
    }
}
