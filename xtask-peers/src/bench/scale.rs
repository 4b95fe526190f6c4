//! The cost of a frame by the number of workers, and the rate that follows for a machine with a core
//! for each.
//!
//! A machine with few cores shows no higher rate with more workers, as sender, receiver and both
//! gateways share them. It shows the CPU time of a frame, and that time is all the model has:
//! frames a second = cores / CPU time of a frame. The rate with all cores busy stands beside the
//! measured one. Far below it something else than CPU time is the limit, and the model does not
//! hold.

use super::cpu::busy_ns;
use super::goals::Goal;
use super::paths::Path;
use super::rates::arrived;
use super::{Plan, median};
use crate::net;
use crate::traffic::transfer;
use serde_json::{Value, json};

/// Numbers of workers, and whether the keys are agreed upon: the kernel then finds the flow of a frame
/// by another program.
const WORKERS: [(usize, bool); 4] = [(1, false), (2, false), (4, false), (4, true)];
/// Flows of UDP, which a hash spreads over the workers.
const FLOWS: &str = "16";
/// Payload of a datagram in octets: a frame of 128 octets.
const PAYLOAD: &str = "86";
const SECONDS: &str = "2";

/// One flood.
struct Flood {
    /// Frames that arrived in a second.
    rate: f64,
    /// CPU time of a gateway's threads for each frame that arrived, in nanoseconds: the sending
    /// gateway and the receiving one.
    gateways: [f64; 2],
    /// Busy CPU time of the whole machine for each frame that arrived, in nanoseconds.
    machine: f64,
    /// The busiest worker's share of the frames that the sending gateway sent.
    busiest: f64,
}

/// Measures in each round each number of workers.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut floods: Vec<Vec<Flood>> = WORKERS.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.scale_rounds {
        for ((workers, agreed), floods) in WORKERS.into_iter().zip(&mut floods) {
            floods.push(flood(workers, agreed)?);
        }
    }
    println!(
        "   {:>7} {:>6} {:>12} {:>12} {:>14} {:>14} {:>9} {:>16}",
        "workers", "keys", "frames/s", "cores busy", "sender ns", "receiver ns", "busiest", "a core for each"
    );
    let mut rows = Vec::new();
    for ((workers, agreed), floods) in WORKERS.into_iter().zip(&floods) {
        let keys = if agreed { "agreed" } else { "static" };
        let of = |get: fn(&Flood) -> f64| median(floods.iter().map(get));
        let (rate, machine, busiest) = (of(|f| f.rate), of(|f| f.machine), of(|f| f.busiest));
        let gateways = [of(|f| f.gateways[0]), of(|f| f.gateways[1])];
        let modelled = cores as f64 * 1e9 / machine;
        let slower = f64::max(gateways[0], gateways[1]);
        // The busiest worker ends the sum: the others wait for its flows.
        let each = 1e9 / slower / busiest.max(1.0 / workers as f64);
        println!(
            "   {workers:7} {keys} {rate:12.0} {modelled:12.0} {:14.0} {:14.0} {busiest:9.2} {each:16.0}",
            gateways[0], gateways[1]
        );
        goals.push(Goal::printed(
            format!("frames a second with {workers} worker(s), {keys} keys, measured / all cores busy"),
            rate / modelled,
            &format!("{rate:.0} / {modelled:.0}"),
        ));
        rows.push(json!({
            "workers": workers, "keys": keys, "unit": "frames a second", "rate": rate, "modelled": modelled,
            "gateway_ns": gateways, "machine_ns": machine, "busiest_share": busiest, "core_for_each": each,
        }));
    }
    let cost = |at: usize| rows[at]["gateway_ns"][0].as_f64().unwrap_or(f64::NAN);
    goals.push(Goal::printed(
        "CPU time of a frame in the sending gateway, 4 workers / 1".into(),
        cost(2) / cost(0),
        &format!("{:.0} / {:.0} ns", cost(2), cost(0)),
    ));
    goals.push(Goal::printed(
        "CPU time of a frame in the sending gateway, 4 workers, agreed keys / static".into(),
        cost(3) / cost(2),
        &format!("{:.0} / {:.0} ns", cost(3), cost(2)),
    ));
    Ok(rows.into())
}

fn flood(workers: usize, agreed: bool) -> Result<Flood, String> {
    let path = Path::with_workers(workers, agreed)?;
    net::address("plc", "eth0", "10.7.0.1/24", None)?;
    net::address("dev", "eth0", "10.7.0.2/24", None)?;
    let busy = || -> Vec<u64> { path.gateways().iter().map(|gateway| busy_ns(gateway.pid())).collect() };
    let (before, machine, sent) = (busy(), machine_ns()?, shares(&path)?);
    let first = arrived()?;
    let done = transfer("10.7.0.2", &["-u", "-b", "0", "-l", PAYLOAD, "-P", FLOWS, "-t", SECONDS])?;
    // Without the time in which iperf3 starts and ends.
    let seconds = done["end"]["sum"]["seconds"].as_f64().ok_or("iperf3: no seconds in its report")?;
    let frames = (arrived()? - first) as f64;
    let after = busy();
    let each = |at: usize| (after[at] - before[at]) as f64 / frames;
    let sent: Vec<f64> = shares(&path)?.iter().zip(&sent).map(|(after, before)| after - before).collect();
    let busiest = sent.iter().copied().fold(0.0, f64::max) / sent.iter().sum::<f64>();
    Ok(Flood {
        rate: frames / seconds,
        gateways: [each(0), each(1)],
        machine: (machine_ns()? - machine) as f64 / frames,
        busiest,
    })
}

/// Frames that the sending gateway has sent in each of its channels.
fn shares(path: &Path) -> Result<Vec<f64>, String> {
    let status = path.gateways()[0].status()?;
    let channels = status["macsec"]["transmit"].as_array().cloned().unwrap_or_default();
    let sent = channels.iter().filter_map(|channel| channel["next_pn"].as_f64());
    let sent: Vec<f64> = sent.collect();
    if sent.is_empty() { Err(format!("no packet numbers in the status:\n{status:#}")) } else { Ok(sent) }
}

/// Busy nanoseconds of all CPUs since the machine's start (`/proc/stat`, in ticks of 10 ms).
fn machine_ns() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/stat").map_err(|e| format!("/proc/stat: {e}"))?;
    busy_of(&text).ok_or_else(|| format!("/proc/stat: no line of all CPUs:\n{text}"))
}

/// All columns but the idle ones; those of guests are in the first ones already (proc(5)).
fn busy_of(text: &str) -> Option<u64> {
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _wait, irq, soft, steal] = ticks[..] else { return None };
    Some((user + nice + system + irq + soft + steal) * 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_no_busy_time() {
        let text = "cpu  1 2 3 400 50 6 7 8 9 10\ncpu0 1 2 3 400 50 6 7 8 9 10\n";
        assert_eq!(busy_of(text), Some(27 * 10_000_000));
        assert_eq!(busy_of("cpu  1 2\n"), None);
        assert_eq!(busy_of("intr 1"), None);
    }
}
