//! The rate of one TCP connection by iperf3 between the machines of a link.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use antedate_lab::process::{Place, Process};
use serde_json::Value;

use super::Link;
use crate::{ExperimentError, failed};

/// The command that installs it.
pub(crate) const INSTALL: &str = "apt-get install iperf3";
const PROGRAM: &str = "iperf3";
/// Addresses of the machines: the sender's and the receiver's.
const ADDRESSES: [&str; 2] = ["10.7.0.1", "10.7.0.2"];
/// Octets of the headers of IPv4 and TCP without options.
const HEADERS: u32 = 40;

/// Whether this machine has it.
pub(crate) fn is_here() -> bool {
    let mut command = Command::new(PROGRAM);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Link {
    /// Mbit/s that arrive at the far machine, in full frames of `payload` octets. The link is of no
    /// other use afterwards.
    pub(crate) fn iperf3(mut self, payload: u32, seconds: u32) -> Result<f64, ExperimentError> {
        self.end_answers();
        let machines = [&self.chain.plc, &self.chain.device];
        for (machine, address) in machines.into_iter().zip(ADDRESSES) {
            let lines =
                [format!("addr add {address}/24 dev eth0"), format!("link set dev eth0 mtu {payload}")];
            machine.batch(&lines).map_err(failed)?;
        }
        let [sender, receiver] = machines.map(|machine| Place { namespace: Some(machine.file()), cpus: &[] });
        let server = ["-s", "-1", "--forceflush", "-B", ADDRESSES[1]];
        let mut server =
            Process::start("iperf3, server", &PROGRAM.into(), &server, &receiver).map_err(failed)?;
        let end = Instant::now() + Duration::from_secs(10);
        while !server.next_line(Duration::from_secs(5)).is_some_and(|line| line.contains("listening")) {
            if !server.is_running() || Instant::now() > end {
                return Err(format!("iperf3 does not listen: {}", server.errors().join("; ")).into());
            }
        }
        let segment = (payload - HEADERS).to_string();
        let time = seconds.to_string();
        let client = ["-c", ADDRESSES[1], "-t", &time, "-M", &segment, "-J"];
        let mut client =
            Process::start("iperf3, client", &PROGRAM.into(), &client, &sender).map_err(failed)?;
        // Its status repeats what it says.
        client.finish(Duration::from_secs(u64::from(seconds) + 30));
        let said = client.end().join("\n");
        rate(&said).ok_or_else(|| format!("iperf3 measured nothing: {said}").into())
    }
}

/// Mbit/s at the receiver.
fn rate(said: &str) -> Option<f64> {
    let found: Value = serde_json::from_str(said).ok()?;
    let bits = found["end"]["sum_received"]["bits_per_second"].as_f64()?;
    (bits > 0.0).then_some(bits / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_of_the_receiver() {
        let said = r#"{"end":{"sum_sent":{"bits_per_second":2e9},"sum_received":{"bits_per_second":1.5e9}}}"#;
        assert_eq!(rate(said), Some(1500.0));
        for wrong in
            ["", "{}", r#"{"error":"no route"}"#, r#"{"end":{"sum_received":{"bits_per_second":0}}}"#]
        {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }
}
