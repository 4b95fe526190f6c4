//! The addresses of stack and heap are random per process, and decide which of a packet's lines
//! conflict in the cache and the store queue: some nanoseconds for one contender or another. So
//! everything is measured in several processes, and the median over them counts.

use crate::meter::Latency;
use crate::results::Measured;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Number of processes.
pub const LAYOUTS: usize = 5;

/// The argument of a process that only measures.
pub const ONE: &str = "--one-layout";

/// The output of such a process.
pub fn line(measured: &[Measured]) -> String {
    let parts = |m: &Measured| json!([m.latency.min, m.latency.median, m.latency.p99]);
    Value::from(measured.iter().map(parts).collect::<Vec<_>>()).to_string()
}

/// The same series from another process, in the same order.
pub fn another(arguments: &[String]) -> Result<Vec<Latency>, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = Command::new(program);
    let output = command.args(arguments).arg(ONE).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("another process of this program: {error}"))?;
    if !output.status.success() {
        return Err(format!("another process of this program: {}", output.status));
    }
    read(&output.stdout).ok_or_else(|| "another process of this program printed something else".into())
}

fn read(line: &[u8]) -> Option<Vec<Latency>> {
    let series: Value = serde_json::from_slice(line).ok()?;
    let latency = |parts: &Value| {
        let part = |i: usize| parts.get(i).and_then(Value::as_f64);
        Some(Latency { min: part(0)?, median: part(1)?, p99: part(2)? })
    };
    series.as_array()?.iter().map(latency).collect()
}

/// Replaces each value by the median over the processes.
pub fn join(measured: &mut [Measured], others: &[Vec<Latency>]) -> Result<(), String> {
    if others.iter().any(|other| other.len() != measured.len()) {
        return Err("the processes measured different things".into());
    }
    for (i, one) in measured.iter_mut().enumerate() {
        let own = one.latency;
        let median = |part: fn(&Latency) -> f64| {
            let mut parts: Vec<f64> = others.iter().map(|other| part(&other[i])).collect();
            parts.push(part(&own));
            parts.sort_by(f64::total_cmp);
            parts[parts.len() / 2]
        };
        one.latency =
            Latency { min: median(|l| l.min), median: median(|l| l.median), p99: median(|l| l.p99) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::What;

    #[test]
    fn median_of_processes_survives_printing() {
        let latency = |median: f64| Latency { min: 1.0, median, p99: 10.0 * median };
        let one =
            |median| Measured { cipher: "c", len: 16, who: "w", what: What::Seal, latency: latency(median) };
        let mut measured = [one(5.5), one(80.25)];
        let other = |medians: [f64; 2]| read(line(&medians.map(one)).as_bytes()).unwrap();
        join(&mut measured, &[other([9.5, 70.0]), other([5.0, 90.0])]).unwrap();
        assert_eq!(measured.each_ref().map(|m| m.latency.median), [5.5, 80.25]);
        join(&mut measured, &[other([4.0, 70.0]), other([5.0, 75.0])]).unwrap();
        assert_eq!(measured.each_ref().map(|m| m.latency.p99), [50.0, 750.0]);
        assert!(join(&mut measured, &[vec![latency(1.0)]]).is_err());
        assert!(read(b"[[1, 2]]").is_none());
    }
}
