//! `antedate fleet init`, `setup`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use antedate_fleet::authority::Signing;
use antedate_fleet::engine::Engine;
use antedate_fleet::home::{Home, INVITATION, SIGNING, make_directory};
use antedate_fleet::now;
use antedate_fleet::server::{Node, Trust, configuration};
use antedate_host::fault::Fault;
use antedate_host::replace::replace;
use clap::Args;

use super::{Place, block_on, connect};
use crate::failure::{Done, Failure, ValueError};
use crate::output;

#[derive(Args)]
pub(crate) struct Init {
    #[command(flatten)]
    place: Place,
    /// The fleet's name.
    #[arg(long, value_name = "NAME", default_value = "fleet")]
    name: String,
    /// A NATS server: its name, its address, and its ports for clients and for the other servers. Of
    /// a cluster, give three. [default: one on this machine]
    #[arg(long = "node", value_name = "NAME=HOST[:PORT[/PORT]]", value_parser = node)]
    nodes: Vec<Address>,
    /// The directory of a server's data on its machine.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats")]
    data: PathBuf,
    /// Certificates of authorities, by which devices check the servers (PEM).
    #[arg(long, value_name = "FILE")]
    certificates: Option<PathBuf>,
    /// The directory on each server with its certificate NAME.pem, its key NAME.key, and ca.pem
    /// with FILE's certificates: for clients and between servers. Without it, the servers' `tls`
    /// sections are yours to write.
    #[arg(long, value_name = "DIR", requires = "certificates")]
    tls: Option<PathBuf>,
    /// Days for which a device's pass for NATS is valid. Each document renews it, and so does `renew`.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=400))]
    pass_days: Option<u64>,
    /// Days after which a device forgets its keys unless a document has come: 15 at least, so that a
    /// weekly `renew` may fail once. [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=400))]
    keys_days: Option<u64>,
    /// Start nats-server on this machine, for a first look. Ends with Ctrl-C.
    #[arg(long = "try", conflicts_with_all = ["nodes", "data", "certificates", "tls"])]
    try_it: bool,
}

/// Two weekly renewals, and a day.
const KEYS_DAYS_MIN: u64 = 15;

/// A server as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    name: String,
    host: String,
    port: u16,
    cluster: u16,
}

fn node(text: &str) -> Result<Address, ValueError> {
    let form = || {
        ValueError::new("write NAME=HOST, NAME=HOST:PORT or NAME=HOST:PORT/PORT, e.g. n1=10.0.0.1:4222/6222")
    };
    let (name, place) = text.split_once('=').ok_or_else(form)?;
    let (place, cluster) = place.split_once('/').unwrap_or((place, "6222"));
    let (host, port) = place.rsplit_once(':').unwrap_or((place, "4222"));
    let number = |digits: &str| digits.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(form);
    let is_legal = |text: &str| {
        !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-._".contains(&octet))
    };
    if !is_legal(name) || !is_legal(host) {
        return Err(form());
    }
    Ok(Address {
        name: name.to_owned(),
        host: host.to_owned(),
        port: number(port)?,
        cluster: number(cluster)?,
    })
}

impl Init {
    pub(crate) fn run(mut self) -> Done {
        let directory = self.place.directory.clone();
        if self.try_it && directory.join("fleet.json").exists() {
            return run_server(&directory);
        }
        if self.keys_days.is_some_and(|days| days < KEYS_DAYS_MIN) {
            return Err(Failure::usage(
                format!(
                    "--keys-days below {KEYS_DAYS_MIN}: keys would end if one weekly `fleet renew` failed"
                ),
                format!("give {KEYS_DAYS_MIN} or more, and call `antedate fleet renew` each week by a timer"),
            ));
        }
        let pem = match &self.certificates {
            None => String::new(),
            Some(file) => fs::read_to_string(file).map_err(|error| {
                Fault::of_io(file, "read the certificates", &error, "give a file of certificates (PEM)")
            })?,
        };
        if self.nodes.is_empty() {
            self.nodes.push(Address {
                name: "n1".into(),
                host: "127.0.0.1".into(),
                port: 4222,
                cluster: 6222,
            });
        }
        let scheme = if pem.is_empty() { "nats" } else { "tls" };
        let servers: Vec<String> =
            self.nodes.iter().map(|node| format!("{scheme}://{}:{}", node.host, node.port)).collect();
        // Two servers are no safer than one: a stream needs most of its copies.
        let replicas = if self.nodes.len() >= 3 { 3 } else { 1 };
        let mut home = Home::create(&directory, &self.name, &servers, replicas, &pem)?;
        home.set_validity(self.pass_days, self.keys_days)?;
        let signing = home.signing(None)?;
        let data = if self.try_it { absolute(&directory)?.join("nats") } else { self.data.clone() };
        let files = self.write_servers(&directory, &signing, &data)?;
        output::print(&format!(
            "{}: the fleet \"{}\" and its keys\n  {SIGNING}       makes policy: keep a copy where no network is\n  \
             {INVITATION}  for the devices: it can ask for membership and nothing else\n  {}\n  authority {}\n",
            directory.display(),
            self.name,
            files.join("\n  "),
            home.authority()?.fingerprint()
        ))?;
        drop(home);
        if self.try_it {
            return run_server(&directory);
        }
        output::print(&format!(
            "Then: start nats-server -c FILE on each server, and call\n  antedate fleet setup --directory {}\n",
            directory.display()
        ))
    }

    fn write_servers(
        &self,
        directory: &Path,
        signing: &Signing,
        data: &Path,
    ) -> Result<Vec<String>, Failure> {
        let trust = Trust::of(signing, &self.name, now(), &[]);
        let place = directory.join("nats");
        make_directory(&place)?;
        let mut files = Vec::new();
        for node in &self.nodes {
            let others = self.nodes.iter().filter(|other| other.name != node.name);
            let is_cluster = self.nodes.len() > 1;
            let server = Node {
                name: node.name.clone(),
                listen: format!("{}:{}", node.host, node.port),
                cluster: if is_cluster { format!("{}:{}", node.host, node.cluster) } else { String::new() },
                tls: self.tls.clone(),
                routes: others.map(|other| format!("{}:{}", other.host, other.cluster)).collect(),
            };
            let data = if is_cluster { data.join(&node.name) } else { data.to_owned() };
            let file = place.join(format!("{}.conf", node.name));
            replace(&file, configuration(&self.name, &trust, &server, &data).as_bytes())?;
            files.push(format!(
                "nats/{}.conf     for the NATS server {} at {}",
                node.name, node.name, server.listen
            ));
        }
        Ok(files)
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    Ok(fs::canonicalize(path)
        .map_err(|error| Fault::of_io(path, "find the directory", &error, "give another"))?)
}

/// A started server, which ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server of a first look, and waits for its end.
fn run_server(directory: &Path) -> Done {
    let program = ["/usr/sbin/nats-server", "nats-server"]
        .into_iter()
        .find(|program| !program.starts_with('/') || Path::new(program).exists());
    let program = program.unwrap_or("nats-server");
    let log = directory.join("nats/log");
    let started = Command::new(program)
        .arg("--config")
        .arg(directory.join("nats/n1.conf"))
        .arg("--log")
        .arg(&log)
        .stdin(Stdio::null())
        .spawn();
    let mut server = Server(started.map_err(|error| {
        let what = format!("{program} cannot be started: {error}");
        Fault::of_file(directory, what, "install it: sudo apt-get install nats-server")
    })?);
    let begin = Instant::now();
    loop {
        if let Ok(Some(status)) = server.0.try_wait() {
            let what = format!("{program} ended: {status}");
            return Err(Fault::of_file(&log, what, "see this log; is another server on port 4222?").into());
        }
        // For each command, since commands of another terminal need the directory.
        let home = Home::open(directory)?;
        let made = block_on(async {
            let engine = connect(&home).await?;
            Ok(engine.set_up(home.fleet.replicas).await?)
        });
        match made {
            Ok(()) => break,
            Err(failure) if begin.elapsed() > Duration::from_secs(15) => return Err(failure),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
    let place = directory.display();
    output::print(&format!(
        "NATS runs at 127.0.0.1:4222, its log is {}. In another terminal:\n\
         \n  antedate agent enrol --invitation {place}/{INVITATION} --state agent --name press\n  \
         antedate fleet enrol --directory {place}                lists its code\n  \
         antedate fleet enrol CODE --name press --role gateway --directory {place}\n\nCtrl-C ends the server.\n",
        log.display()
    ))?;
    let status = server.0.wait();
    output::tell(format_args!(
        "nats-server ended: {}",
        status.map_or_else(|e| e.to_string(), |s| s.to_string())
    ));
    Ok(())
}

#[derive(Args)]
pub(crate) struct Setup {
    #[command(flatten)]
    place: Place,
}

impl Setup {
    pub(crate) fn run(self) -> Done {
        let home = self.place.open()?;
        block_on(async {
            let engine: Engine = connect(&home).await?;
            Ok(engine.set_up(home.fleet.replicas).await?)
        })?;
        output::print(&format!(
            "the streams of \"{}\" are there, with {} copies of each message\n",
            home.fleet.name, home.fleet.replicas
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_has_two_ports() {
        let address =
            |host: &str, port, cluster| Address { name: "n1".into(), host: host.into(), port, cluster };
        assert_eq!(node("n1=10.0.0.1"), Ok(address("10.0.0.1", 4222, 6222)));
        assert_eq!(node("n1=a.example:4333"), Ok(address("a.example", 4333, 6222)));
        assert_eq!(node("n1=127.0.0.1:4333/6333"), Ok(address("127.0.0.1", 4333, 6333)));
        for wrong in ["n1", "=a", "n1=", "n1=a:x", "n1=a:0", "n1=a:1/0", "n1=\"a", "n 1=a"] {
            assert!(node(wrong).is_err(), "{wrong}");
        }
    }
}
