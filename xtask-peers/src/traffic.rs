//! Traffic between the ends of [`net::cell`]: iperf3, and the reports of the lab's stations.

use crate::net;
use crate::place;
use serde_json::Value;
use xtask::shell::{Run, until};

/// Runs iperf3 from `plc` to `dev`; returns the client's JSON.
pub(crate) fn transfer(address: &str, words: &[&str]) -> Result<Value, String> {
    let log = place::run()?.join("iperf3.log");
    let mut command = net::inside("dev", "iperf3");
    command.args(["--server", "--one-off", "--forceflush"]);
    let mut process = command.background(&log)?;
    until("the iperf3 server", 10.0, || match process.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => process.output().contains("listening").then_some(Ok(())),
    })??;
    let mut command = net::inside("plc", "iperf3");
    let text =
        command.args(["--json", "--connect-timeout", "5000", "--client", address]).args(words).read(60)?;
    process.finish(20)?;
    serde_json::from_str(&text).map_err(|e| format!("iperf3: {e}"))
}

/// The report of `antedate lab-station`: the last line of its output, or its field `result`.
///
/// # Errors
///
/// If less than half of the peer's frames came: a station that hears nothing counts no bus errors
/// either.
pub(crate) fn station_report(text: &str, cycle_us: u32, seconds: f64) -> Result<Value, String> {
    let last = text.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(last).map_err(|e| format!("lab-station: {e}: {last}"))?;
    let report = value.get("result").cloned().unwrap_or(value);
    let count = |name: &str| report[name].as_u64().unwrap_or(0);
    let (came, missed, due) =
        (count("received"), count("missed"), (seconds * 1e6 / f64::from(cycle_us)) as u64);
    if came == 0 || came + missed < due / 2 {
        let who = report["role"].as_str().unwrap_or_default();
        return Err(format!("to the station `{who}` {came} of {due} frames came"));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn silent_station_is_no_result() {
        let said = |received: u64, missed: u64| {
            json!({ "event": "result", "role": "plc", "received": received, "missed": missed, "bus_errors": 0 }).to_string()
        };
        assert!(station_report(&said(1_000, 0), 1_000, 1.0).is_ok());
        assert!(station_report(&said(10, 990), 1_000, 1.0).is_ok(), "what was missed is told");
        for (received, missed) in [(0, 0), (0, 1_000), (400, 0)] {
            let why = station_report(&said(received, missed), 1_000, 1.0).expect_err("no result");
            assert!(why.contains(&format!("{received} of 1000 frames")), "{why}");
        }
    }
}
