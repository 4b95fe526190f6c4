//! A cluster of three NATS servers, configured by `antedate fleet init`. Each has a namespace and a
//! line of its own, which can be cut.

use crate::net;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::shell::{Background, Run, antedate, program, until};

/// Names, ports for clients, for the other servers and for monitoring.
const NODES: [(&str, u16, u16, u16); 3] =
    [("n1", 4231, 6231, 8231), ("n2", 4232, 6232, 8232), ("n3", 4233, 6233, 8233)];

/// The network of the servers. This machine has the last address.
const NETWORK: &str = "10.9.0";

/// The address of a server.
fn address(index: usize) -> String {
    format!("{NETWORK}.{}", index + 1)
}

/// The namespaces of the servers, on a bridge of this machine.
fn lines() -> Result<(), String> {
    net::ip(&["link", "add", "nats", "type", "bridge", "stp_state", "0", "forward_delay", "0"])?;
    net::ip(&["addr", "add", &format!("{NETWORK}.254/24"), "dev", "nats"])?;
    net::ip(&["link", "set", "nats", "up"])?;
    for (index, (name, ..)) in NODES.iter().enumerate() {
        let line = format!("nats-{name}");
        net::namespace(name)?;
        net::ip(&["link", "add", "name", &line, "type", "veth", "peer", "name", "eth0", "netns", name])?;
        net::ip(&["link", "set", &line, "master", "nats", "up"])?;
        net::ip(&["-n", name, "addr", "add", &format!("{}/24", address(index)), "dev", "eth0"])?;
        net::ip(&["-n", name, "link", "set", "eth0", "up"])?;
    }
    Ok(())
}

/// An authority, in a file `NAME.pem`, with its key. Certificates name it `CN=NAME`.
fn authority(tls: &Path, name: &str) -> Result<(), String> {
    let (key, out, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
    openssl(tls, &["req", "-x509", "-keyout", &key, "-out", &out, "-subj", &subject])
}

fn openssl(tls: &Path, words: &[&str]) -> Result<(), String> {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    program("openssl").current_dir(tls).args(words).args(key).read(60).map(drop)
}

/// A certificate of each server by an authority.
fn certificates(tls: &Path, by: &str) -> Result<(), String> {
    NODES.iter().enumerate().try_for_each(|(index, (name, ..))| certificate(tls, by, name, &address(index)))
}

/// A certificate for a server at an address.
pub(super) fn certificate(tls: &Path, by: &str, name: &str, address: &str) -> Result<(), String> {
    let (ca, ca_key) = (format!("{by}.pem"), format!("{by}.key"));
    let (subject, file) = (format!("/CN={name}"), |end: &str| format!("{name}.{end}"));
    let (secret, out) = (file("key"), file("pem"));
    let place = format!("subjectAltName=IP:{address}");
    let own = [
        "req",
        "-x509",
        "-CA",
        &ca,
        "-CAkey",
        &ca_key,
        "-keyout",
        &secret,
        "-out",
        &out,
        "-subj",
        &subject,
        "-addext",
        &place,
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ];
    openssl(tls, &own)
}

/// The servers, of which some may be down.
pub(super) struct Cluster {
    dir: PathBuf,
    nodes: [Option<Background>; 3],
}

impl Cluster {
    /// Makes the fleet in `dir/fleet`, starts the servers, and sets them up.
    pub(super) fn start(dir: &Path, secured: bool) -> Result<Self, String> {
        let mut init = program(antedate());
        init.args(["fleet", "init", "--name", "plant", "--directory"]).arg(dir.join("fleet"));
        init.arg("--data").arg(dir.join("data"));
        for (index, (name, client, cluster, _)) in NODES.iter().enumerate() {
            init.args(["--node", &format!("{name}={}:{client}/{cluster}", address(index))]);
        }
        lines()?;
        if secured {
            let tls = dir.join("tls");
            std::fs::create_dir_all(&tls).map_err(|e| e.to_string())?;
            authority(&tls, "ca")?;
            certificates(&tls, "ca")?;
            init.arg("--certificates").arg(dir.join("tls/ca.pem")).arg("--tls").arg(dir.join("tls"));
        }
        init.read(90)?;
        let mut cluster = Self { dir: dir.to_owned(), nodes: [None, None, None] };
        for index in 0..NODES.len() {
            cluster.revive(index)?;
        }
        until("the streams of the fleet", super::PATIENCE, || fleet(dir, &["setup"]).ok())?;
        Ok(cluster)
    }

    /// Starts a server that is down.
    pub(super) fn revive(&mut self, index: usize) -> Result<(), String> {
        let (name, _, _, monitor) = NODES[index];
        let mut server = net::inside(name, "/usr/sbin/nats-server");
        server.arg("--config").arg(self.dir.join(format!("fleet/nats/{name}.conf")));
        server.args(["--http_port", &monitor.to_string()]);
        self.nodes[index] = Some(server.background(&self.dir.join(format!("{name}.log")))?);
        Ok(())
    }

    /// Starts the servers again, one after the other, with the files that there are now.
    pub(super) fn restart(&mut self, dir: &Path) -> Result<(), String> {
        for index in 0..NODES.len() {
            self.kill(index);
            self.revive(index)?;
            until("three servers", super::PATIENCE, || fleet(dir, &["setup"]).ok())?;
        }
        Ok(())
    }

    /// Another authority for TLS: all know both, the servers get other certificates one by one, and all
    /// know the new one alone.
    pub(super) fn change_authority(&mut self, dir: &Path) -> Result<String, String> {
        let tls = dir.join("tls");
        let file = |name: &str| tls.join(name).display().to_string();
        let read = |name: &str| std::fs::read_to_string(tls.join(name)).map_err(|e| e.to_string());
        authority(&tls, "next")?;
        if fleet(dir, &["set", "certificates", &file("next.pem")]).is_ok() {
            return Err("certificates that fit no server were taken".into());
        }
        let both = read("ca.pem")? + &read("next.pem")?;
        std::fs::write(tls.join("both.pem"), &both).map_err(|e| e.to_string())?;
        // Devices that have just found another server miss no document for long, so one call suffices.
        let tell = |name: &str| {
            fleet(dir, &["set", "certificates", &file(name)])?;
            fleet(dir, &["renew", "--within", "401"]).map_err(|e| format!("certificates of {name}: {e}"))
        };
        tell("both.pem")?;
        std::fs::write(tls.join("ca.pem"), &both).map_err(|e| e.to_string())?;
        certificates(&tls, "next")?;
        self.restart(dir)?;
        let said = tell("next.pem")?;
        let known = std::fs::read_to_string(dir.join("press/certificates.pem")).map_err(|e| e.to_string())?;
        if known != read("next.pem")? {
            return Err(format!("the press does not have the new authority alone:\n{said}"));
        }
        Ok("another authority for TLS: told to all devices, and then the servers' certificates".into())
    }

    /// Kills a server without a word.
    pub(super) fn kill(&mut self, index: usize) {
        self.nodes[index] = None;
    }

    /// Cuts a server's line, or mends it. Nobody is told: datagrams vanish.
    pub(super) fn cut(&self, index: usize, is_cut: bool) -> Result<(), String> {
        let line = format!("nats-{}", NODES[index].0);
        // The port leaves the bridge, and keeps its carrier.
        let port = if is_cut { vec!["nomaster"] } else { vec!["master", "nats"] };
        net::ip(&[vec!["link", "set", line.as_str()], port].concat())
    }

    /// Sums of a server's counters over all that run.
    pub(super) fn sum(&self, key: &str) -> Result<f64, String> {
        let mut sum = 0.0;
        for (index, node) in self.nodes.iter().enumerate() {
            if node.is_some() {
                sum += get(index, "/varz")?[key].as_f64().unwrap_or(0.0);
            }
        }
        Ok(sum)
    }

    /// Seconds of CPU time that all servers have used, and octets of memory of the largest.
    pub(super) fn load(&self) -> Result<(f64, f64), String> {
        let (mut seconds, mut memory) = (0.0, 0.0_f64);
        for node in self.nodes.iter().flatten() {
            let read = |file: &str| {
                let path = format!("/proc/{}/{file}", node.pid());
                std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))
            };
            let stat = read("stat")?;
            // After the name, which may have spaces: fields 3 and on, of which 14 and 15 are ticks.
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
            let ticks = |at: usize| fields.get(at - 3).and_then(|text| text.parse::<f64>().ok());
            seconds += (ticks(14).unwrap_or(0.0) + ticks(15).unwrap_or(0.0)) / 100.0;
            let pages = read("statm")?.split_whitespace().nth(1).and_then(|text| text.parse::<f64>().ok());
            memory = memory.max(pages.unwrap_or(0.0) * 4096.0);
        }
        Ok((seconds, memory))
    }

    /// Octets that each server stores.
    pub(super) fn stored(&self) -> Result<f64, String> {
        get(0, "/jsz").map(|jsz| jsz["storage"].as_f64().unwrap_or(0.0))
    }
}

fn get(index: usize, path: &str) -> Result<Value, String> {
    let body = document(&address(index), NODES[index].3, path)?;
    serde_json::from_str(&body).map_err(|e| format!("{}: {e}: {body}", NODES[index].0))
}

/// A document of a server.
pub(super) fn document(host: &str, port: u16, path: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((host, port))?;
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
    program(antedate()).arg("fleet").args(words).arg("--directory").arg(dir.join("fleet")).read(300)
}
