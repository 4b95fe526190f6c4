//! The measurements as a result that `antedate report` takes (`results/l2tp.json`).

use super::{BULK_SIZES, Path, SIZES, Times};
use serde_json::{Value, json};
use std::path::Path as File;

/// The statistics of round trips, as the experiment `fragmentation` names them.
const PERCENTILES: [(&str, f64); 5] =
    [("min", 0.0), ("p25", 25.0), ("p50", 50.0), ("p75", 75.0), ("max", 100.0)];
const NOTE: &str = "emulated: a QEMU guest, a nanosecond for each instruction; baseline: L2TPv3 over the kernel's MACsec; \
    antedated: our gateways, which fragment in MACsec, in the same guest";

/// What was measured over one path.
#[derive(Default)]
pub(super) struct Measured {
    /// Round trips of each size.
    pub(super) times: [Times; SIZES.len()],
    /// Mbit/s of one TCP connection in frames of each size, of each block.
    pub(super) rates: [Vec<f64>; BULK_SIZES.len()],
}

impl Measured {
    /// The mean rate of a size of [`BULK_SIZES`].
    pub(super) fn rate(&self, size: usize) -> f64 {
        let rates = &self.rates[size];
        rates.iter().sum::<f64>() / rates.len() as f64
    }
}

/// The rows: those of each size over L2TP and over our gateways.
fn rows(tunnel: &Measured, ours: &Measured) -> Vec<Value> {
    let row = |case: String, metric: &str, unit: &str, [baseline, antedated]: [Option<f64>; 2]| {
        json!({ "case": case, "metric": metric, "unit": unit, "paper": null, "baseline": baseline,
            "antedated": antedated, "note": NOTE })
    };
    let mut rows = Vec::new();
    for (at, size) in SIZES.iter().enumerate() {
        let case = format!("{size} B, beside L2TP");
        let both = |of: &dyn Fn(&Times) -> f64| [tunnel, ours].map(|path| Some(of(&path.times[at])));
        let [theirs, mean] = both(&Times::mean);
        rows.push(row(case.clone(), "round trip mean", "µs", [theirs, mean]));
        for (name, percent) in PERCENTILES {
            let metric = format!("round trip {name}");
            rows.push(row(case.clone(), &metric, "µs", both(&|times| times.percentile(percent))));
        }
        let ratio = theirs.zip(mean).map(|(theirs, ours)| theirs / ours);
        rows.push(row(case, "mean round trip of L2TP over ours", "times", [None, ratio]));
    }
    for (at, size) in BULK_SIZES.iter().enumerate() {
        let case = format!("{size} B, beside L2TP");
        let [theirs, rate] = [tunnel, ours].map(|path| path.rate(at));
        rows.push(row(case.clone(), "throughput by iperf3", "Mbit/s", [Some(theirs), Some(rate)]));
        rows.push(row(case.clone(), "throughput over that with L2TP", "times", [None, Some(rate / theirs)]));
        let more = f64::from(u8::from(rate > theirs));
        rows.push(row(case, "more throughput than with L2TP", "yes = 1", [None, Some(more)]));
    }
    rows
}

/// Writes the result.
pub(super) fn write(file: &File, kernel: &str, measured: &[Measured; Path::ALL.len()]) -> Result<(), String> {
    let [_, tunnel, ours] = measured;
    let machine =
        json!({ "cpu": "QEMU guest that counts instructions", "cores": 1, "kernel": kernel, "load": "" });
    let result = json!({ "experiment": "l2tp", "paper": "lackorzynski2020", "machine": machine,
        "antedate": env!("CARGO_PKG_VERSION"), "rows": rows(tunnel, ours), "checks": [] });
    std::fs::write(file, result.to_string()).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_compare_both_paths() {
        let path = |ns: u64, rate: f64| Measured {
            times: std::array::from_fn(|_| Times(vec![(ns, 3), (2 * ns, 1)])),
            rates: std::array::from_fn(|_| vec![rate, rate]),
        };
        let rows = rows(&path(2_000, 100.0), &path(1_000, 150.0));
        let of = |case: &str, metric: &str| {
            rows.iter().find(|row| row["case"] == case && row["metric"] == metric).expect("a row").clone()
        };
        let mean = of("1500 B, beside L2TP", "round trip mean");
        assert_eq!((mean["baseline"].as_f64(), mean["antedated"].as_f64()), (Some(2.5), Some(1.25)));
        assert_eq!(of("46 B, beside L2TP", "round trip max")["antedated"], 2.0);
        assert_eq!(of("2936 B, beside L2TP", "throughput over that with L2TP")["antedated"], 1.5);
        assert_eq!(of("1468 B, beside L2TP", "more throughput than with L2TP")["antedated"], 1.0);
        let file = std::env::temp_dir().join(format!("antedate-l2tp-{}", std::process::id()));
        write(&file, "6", &[Measured::default(), path(2, 1.0), path(1, 1.0)]).expect("written");
        let text = std::fs::read_to_string(&file).expect("a result");
        std::fs::remove_file(file).expect("removed");
        assert!(text.contains("\"l2tp\"") && text.contains("emulated"));
    }
}
