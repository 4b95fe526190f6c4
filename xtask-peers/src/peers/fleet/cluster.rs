//! A cluster of three NATS servers on loopback, configured by `antedate fleet init`.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::shell::{Background, Run, antedate, program, until};

/// Names, ports for clients, for the other servers and for monitoring.
const NODES: [(&str, u16, u16, u16); 3] =
    [("n1", 4231, 6231, 8231), ("n2", 4232, 6232, 8232), ("n3", 4233, 6233, 8233)];

/// The servers, of which some may be down.
pub(super) struct Cluster {
    dir: PathBuf,
    nodes: [Option<Background>; 3],
}

impl Cluster {
    /// Makes the fleet in `dir/fleet`, starts the servers, and sets them up.
    pub(super) fn start(dir: &Path) -> Result<Self, String> {
        let mut init = program(antedate());
        init.args(["fleet", "init", "--name", "plant", "--directory"]).arg(dir.join("fleet"));
        init.arg("--data").arg(dir.join("data"));
        for (name, client, cluster, _) in NODES {
            init.args(["--node", &format!("{name}=127.0.0.1:{client}/{cluster}")]);
        }
        init.read(20)?;
        let mut cluster = Self { dir: dir.to_owned(), nodes: [None, None, None] };
        for index in 0..NODES.len() {
            cluster.revive(index)?;
        }
        until("the streams of the fleet", 60.0, || fleet(dir, &["setup"]).ok())?;
        Ok(cluster)
    }

    /// Starts a server that is down.
    pub(super) fn revive(&mut self, index: usize) -> Result<(), String> {
        let (name, _, _, monitor) = NODES[index];
        let mut server = program("/usr/sbin/nats-server");
        server.arg("--config").arg(self.dir.join(format!("fleet/nats/{name}.conf")));
        server.args(["--http_port", &monitor.to_string()]);
        self.nodes[index] = Some(server.background(&self.dir.join(format!("{name}.log")))?);
        Ok(())
    }

    /// Kills a server without a word.
    pub(super) fn kill(&mut self, index: usize) {
        self.nodes[index] = None;
    }

    /// Holds a server, as a cut of its lines does for all others, or lets it go on.
    pub(super) fn hold(&self, index: usize, held: bool) -> Result<(), String> {
        let Some(node) = &self.nodes[index] else { return Ok(()) };
        let signal = if held { "-STOP" } else { "-CONT" };
        program("kill").args([signal, &node.pid().to_string()]).read(5).map(drop)
    }

    /// Sums of a server's counters over all that run.
    pub(super) fn sum(&self, key: &str) -> Result<f64, String> {
        let mut sum = 0.0;
        for (index, node) in self.nodes.iter().enumerate() {
            if node.is_some() {
                sum += get(NODES[index].3, "/varz")?[key].as_f64().unwrap_or(0.0);
            }
        }
        Ok(sum)
    }

    /// Octets that each server stores.
    pub(super) fn stored(&self) -> Result<f64, String> {
        get(NODES[0].3, "/jsz").map(|jsz| jsz["storage"].as_f64().unwrap_or(0.0))
    }
}

fn get(port: u16, path: &str) -> Result<Value, String> {
    let body = document(port, path)?;
    serde_json::from_str(&body).map_err(|e| format!("port {port}: {e}: {body}"))
}

/// A document of a server on this machine.
pub(super) fn document(port: u16, path: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = ask().map_err(|e| format!("port {port}: {e}"))?;
    Ok(text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
}

/// Calls `antedate fleet` for the fleet in `dir/fleet`.
pub(super) fn fleet(dir: &Path, words: &[&str]) -> Result<String, String> {
    program(antedate()).arg("fleet").args(words).arg("--directory").arg(dir.join("fleet")).read(200)
}
