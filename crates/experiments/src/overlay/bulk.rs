//! The rate of one TCP connection over a path, and the evidence of a failed one.

use crate::{ExperimentError, failed};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use super::paths::Path;
use antedate_lab::sys::clock::monotonic_ns;

impl Path {
    /// Mbit/s of one TCP connection from the controller's machine to the device's. A failure leaves
    /// a file with the state of both ends.
    pub(super) fn tcp(&self, seconds: f64) -> Result<f64, ExperimentError> {
        self.connection(seconds).map_err(|error| format!("{error} ({})", self.keep_evidence()).into())
    }

    /// Writes the state of gateways, daemons and kernel to a file. Returns its name in words.
    fn keep_evidence(&self) -> String {
        let mut found = String::new();
        for (at, gateway) in self.gateways.iter().enumerate() {
            let status = gateway.status().and_then(|status| serde_json::to_string_pretty(&status).ok());
            let _ = writeln!(found, "== gateway {}\n{}", at + 1, status.unwrap_or_default());
        }
        let spaces = [&self.chain.plc, &self.chain.gateway_a, &self.chain.gateway_b, &self.chain.device];
        for space in spaces {
            for asked in ["wg show", "ss -tinmoa", "nstat -asz", "ip -s -s link"] {
                let mut command = Command::new("ip");
                // A daemon that spins answers no question.
                command.args(["netns", "exec", space.name(), "timeout", "5"]).args(asked.split(' '));
                let told = command.output();
                let told = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
                let _ = writeln!(found, "== {}: {asked}\n{}", space.name(), told.unwrap_or_default());
            }
        }
        let file = std::env::temp_dir().join(format!("antedate-lab-overlay-failed-{}.txt", monotonic_ns()));
        match fs::write(&file, found) {
            Ok(()) => format!("what the ends knew is in {}", file.display()),
            Err(error) => format!("what the ends knew could not be written to {}: {error}", file.display()),
        }
    }

    fn connection(&self, seconds: f64) -> Result<f64, ExperimentError> {
        let to = format!("{}:5201", self.addresses()?);
        let listener = self.chain.device.run(|| TcpListener::bind(&to)).map_err(failed)?.map_err(failed)?;
        let begin = || {
            TcpStream::connect_timeout(&to.parse().map_err(failed)?, Duration::from_secs(10)).map_err(failed)
        };
        let mut sender = self.chain.plc.run(begin).map_err(failed)??;
        let (mut receiver, _) = listener.accept().map_err(failed)?;
        sender.set_write_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
        receiver.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
        std::thread::scope(|scope| {
            let send = scope.spawn(move || {
                let (block, end) =
                    (vec![0x5a; 128 * 1024], Instant::now() + Duration::from_secs_f64(seconds));
                while Instant::now() < end {
                    sender.write_all(&block)?;
                }
                sender.shutdown(std::net::Shutdown::Write)
            });
            let (mut block, mut octets, start) = (vec![0; 256 * 1024], 0, Instant::now());
            loop {
                match receiver.read(&mut block).map_err(failed)? {
                    0 => break,
                    count => octets += count,
                }
            }
            let passed = start.elapsed().as_secs_f64();
            send.join().map_err(|_| "the sender stopped")?.map_err(failed)?;
            Ok(octets as f64 * 8.0 / passed / 1e6)
        })
    }
}
