//! TCP through the path: iperf3 with the ends' offloads on, 1500-byte MTU in the field.

use super::goals::Goal;
use super::paths::{self, Contender, Path, Waiting};
use super::placement::{FOR_TCP, Placement};
use super::{Plan, median};
use crate::net;
use crate::traffic::transfer;
use serde_json::{Value, json};

const CONTENDERS: [Contender; paths::FOR_TCP.len()] = paths::FOR_TCP;

/// Measures the receiver's rate in Gbit/s, in each round for each contender, each in its best
/// placement.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut places = Vec::new();
    for contender in CONTENDERS {
        let mut best = (0.0, FOR_TCP[0]);
        for placement in FOR_TCP {
            let rate = rate(contender, placement, 1)?;
            println!("   {:26} {:12} {rate:6.2} Gbit/s", contender.to_string(), placement.to_string());
            if rate > best.0 {
                best = (rate, placement);
            }
        }
        places.push(best.1);
    }
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); CONTENDERS.len()];
    for _ in 0..plan.tcp_rounds {
        for ((contender, placement), rates) in CONTENDERS.into_iter().zip(&places).zip(&mut rates) {
            rates.push(rate(contender, *placement, plan.tcp_seconds)?);
        }
    }
    let middle: Vec<f64> = rates.iter().map(|r| median(r.iter().copied())).collect();
    for (contender, rate) in CONTENDERS.iter().zip(&middle) {
        println!("   {:26} {rate:6.2} Gbit/s", contender.to_string());
    }
    let of = |c: Contender| CONTENDERS.iter().position(|a| *a == c).map_or(f64::NAN, |at| middle[at]);
    let (ours, theirs) = (of(Contender::Macsec), of(Contender::OpenVpn));
    // A ratio to a rate of zero is not a number.
    let ratio = if theirs > 0.0 { ours / theirs } else { f64::NAN };
    let detail = format!("{ours:.2} / {theirs:.2} Gbit/s");
    goals.push(Goal::at_least("TCP, macsec / OpenVPN".into(), 2.0, ratio, &detail));
    let ring = of(Contender::MacsecRing);
    goals.push(Goal::printed(
        "TCP, macsec by AF_XDP / ring".into(),
        ours / ring,
        &format!("{ours:.2} / {ring:.2} Gbit/s"),
    ));
    let row = |at: usize| {
        json!({ "contender": CONTENDERS[at].to_string(), "unit": "Gbit/s", "rate": middle[at], "rounds": rates[at],
                "placement": places[at].to_string() })
    };
    Ok((0..CONTENDERS.len()).map(row).collect())
}

fn rate(contender: Contender, placement: Placement, seconds: u32) -> Result<f64, String> {
    let _path = Path::build(contender, placement, Waiting::Default)?;
    net::address("plc", "eth0", "10.7.0.1/24", None)?;
    net::address("dev", "eth0", "10.7.0.2/24", None)?;
    let done = transfer("10.7.0.2", &["-t", &seconds.to_string()])?;
    Ok(done["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e9)
}
