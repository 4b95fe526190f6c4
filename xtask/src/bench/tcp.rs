//! TCP through the path: iperf3 with the ends' offloads on, 1500-byte MTU in the field.

use super::goals::Goal;
use super::paths::{ALL, Contender, Path, Waiting};
use super::roundtrips::Places;
use super::{Plan, median};
use crate::net;
use crate::peers::transfer;
use serde_json::{Value, json};

/// The receiver's rate in Gbit/s, in every round for every contender.
pub(crate) fn run(plan: Plan, places: &Places, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); ALL.len()];
    for _ in 0..plan.rounds {
        for (contender, rates) in ALL.into_iter().zip(&mut rates) {
            let _path = Path::build(contender, places.of(contender, false), Waiting::Fastest)?;
            net::address("plc", "eth0", "10.7.0.1/24", None)?;
            net::address("dev", "eth0", "10.7.0.2/24", None)?;
            let done = transfer("10.7.0.2", &["-t", &plan.tcp_seconds.to_string()])?;
            rates.push(done["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e9);
        }
    }
    let middle: Vec<f64> = rates.iter().map(|r| median(r.iter().copied())).collect();
    for (contender, rate) in ALL.iter().zip(&middle) {
        println!("   {:26} {rate:6.2} Gbit/s", contender.to_string());
    }
    let of = |c: Contender| ALL.iter().position(|a| *a == c).map_or(f64::NAN, |at| middle[at]);
    let (ours, theirs) = (of(Contender::Macsec), of(Contender::OpenVpn));
    let detail = format!("{ours:.2} / {theirs:.2} Gbit/s");
    goals.push(Goal::at_least("TCP, macsec / OpenVPN".into(), 2.0, ours / theirs, &detail));
    let row = |((contender, rates), rate): ((&Contender, &Vec<f64>), &f64)| {
        json!({ "contender": contender.to_string(), "unit": "Gbit/s", "rate": rate, "rounds": rates,
                "placement": places.of(*contender, false).to_string() })
    };
    Ok(ALL.iter().zip(&rates).zip(&middle).map(row).collect())
}
