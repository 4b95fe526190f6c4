//! Our subscriber reads the sampled values of libiec61850, by the book's SCL file.

use super::super::python;
use super::scl;
use crate::net;
use crate::place;
use serde_json::Value;
use std::path::Path;
use xtask::shell::{Run, antedate, until};

const SECONDS: u64 = 1;
/// Frames a second by 9-2LE.
const RATE: u64 = 4000;

pub(super) fn run(interpreter: &Path) -> Result<String, String> {
    let mut subscriber = net::inside("subscriber", antedate());
    subscriber.args([
        "sampled",
        "subscribe",
        "eth0",
        "--plain",
        "--control-block",
        "MSVCB01",
        "--seconds",
        "60",
    ]);
    subscriber.arg("--scl").arg(scl());
    let mut subscriber = subscriber.background(&place::run()?.join("sampled-theirs.log"))?;
    until("our subscriber", 60.0, || match subscriber.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => subscriber.output().contains("listening").then_some(Ok(())),
    })??;
    let mut publisher = net::inside("publisher", interpreter);
    publisher.arg(python::script("goose/samples.py")).args(["eth0", &SECONDS.to_string()]);
    publisher.read(60)?;
    let count = SECONDS * RATE;
    let read = || {
        let output = subscriber.output();
        let lines: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let sum = |key: &str| lines.iter().filter_map(|line| line[key].as_u64()).sum::<u64>();
        let last = lines.iter().rev().find(|line| line["values"].is_object()).cloned();
        (["frames", "samples", "lost", "refused", "other"].map(sum), last.unwrap_or_default())
    };
    let all = until("all frames of libiec61850", 30.0, || (read().0[0] >= count).then_some(()));
    let (sums, last) = read();
    let value = &last["values"]["antedateMUMU01/TVTR4.VolSv.instMag.i"];
    // The last sample, and the last of eight channels.
    let right = *value == (count - 1) * 10 + 7 && last["values"]["antedateMUMU01/TVTR4.VolSv.q"] == "good";
    if all.is_err() || sums != [count, count, 0, 0, 0] || !right {
        return Err(format!("of {count} sampled values of libiec61850 came {sums:?}, the last {last}"));
    }
    subscriber.stop(10)?;
    Ok(format!("{count} of {count} sampled values of libiec61850 read by ours"))
}
