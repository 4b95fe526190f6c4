//! Attacks on the way between the two sides of the DTLS proxy, with a device that asks a server every
//! few milliseconds.
//!
//! The attacker relays all datagrams, so it can copy, change, hold back and add them. A request
//! carries its number, so what comes out twice, or was never asked, is seen at the server.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{CipherSuite, Client, Connection, Settings};
use antedate_dtls::status;
use antedate_lab::ns::Namespace;
use antedate_lab::process::{Place, Process, executable};
use serde_json::Value;

use super::Finding;
use crate::{ExperimentError, Options, failed};

/// The attacks' names.
pub(super) const NAMES: [&str; 6] =
    ["dtls-replay", "dtls-forgery", "dtls-alerts", "dtls-move", "dtls-hellos", "dtls-downgrade"];

/// Time of an attack, and as long before it without one.
const TIME: Duration = Duration::from_secs(3);
const QUICK_TIME: Duration = Duration::from_millis(400);
/// Interval of the requests, and bound of an answer.
const PERIOD: Duration = Duration::from_millis(4);
const PATIENCE: Duration = Duration::from_secs(10);
/// Ports: of the server, the DTLS server's side, the attacker, and the devices' side; of the
/// attacker's second way with the devices' side of a newcomer.
const SERVER: u16 = 4_001;
const LISTEN: u16 = 4_002;
const WAY: u16 = 4_003;
const CONNECT: u16 = 4_004;
const SECOND_WAY: u16 = 4_005;
const SECOND_CONNECT: u16 = 4_006;
/// An unprotected fatal alert, unexpected_message (RFC 6347, 4.1.2.7).
const ALERT: [u8; 15] = [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 10];
/// Content types of records: handshake, application data, with a connection ID.
const HANDSHAKE: u8 = 22;
/// The most devices of a way.
const CLIENTS: usize = 4;
/// Half-open handshakes from the attacker's address.
const HELLOS: usize = 200;
const KEYS: &str = "turbine:000102030405060708090a0b0c0d0e0f\n";
const LONGEST: usize = 2_048;

const fn at(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port)
}

/// A datagram's way between the two sides, under the attacker's hands.
struct Way {
    front: UdpSocket,
    /// A socket for each client, in their order.
    backs: Vec<UdpSocket>,
    clients: Vec<SocketAddr>,
    /// Datagrams of the client, the last ones.
    recorded: Vec<Vec<u8>>,
    /// Puts the weakest suite in place of all in each ClientHello.
    weakens: bool,
    /// Each so many datagrams of the client, one comes from the stranger's address.
    diverts: Option<u64>,
    count: u64,
}

struct Site {
    listen: Process,
    connects: Vec<Process>,
    server: UdpSocket,
    device: UdpSocket,
    way: Way,
    second: Way,
    /// The attacker's other address.
    stranger: UdpSocket,
    next: u64,
    /// The request that waits for its answer, and since when.
    asked: Option<(u64, Instant)>,
    unanswered: u64,
    /// Requests that were served, and what came out that was not asked or came twice.
    served: HashSet<u64>,
    came_out: u64,
    /// Octets from and to the stranger.
    strangers: [u64; 2],
    logged: [usize; 2],
    files: PathBuf,
    space: Namespace,
}

impl Drop for Site {
    fn drop(&mut self) {
        for connect in &mut self.connects {
            let _ = connect.kill();
        }
        let _ = self.listen.kill();
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn socket(space: &Namespace, port: u16) -> Result<UdpSocket, ExperimentError> {
    let open = || {
        let socket = UdpSocket::bind(at(port))?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    };
    space.run(open).and_then(|socket| socket).map_err(failed)
}

fn received(socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
    let mut buffer = [0; LONGEST];
    socket.recv_from(&mut buffer).ok().map(|(len, from)| (buffer[..len].to_vec(), from))
}

/// Overwrites the suites of a ClientHello (RFC 6347, 4.2.1) by the weakest one.
fn weakened(datagram: &mut [u8]) {
    const RANDOM_END: usize = 13 + 12 + 2 + 32;
    let after = |octets: &[u8], at: usize| octets.get(at).map(|len| at + 1 + usize::from(*len));
    if datagram.first() != Some(&HANDSHAKE) || datagram.get(13) != Some(&1) {
        return;
    }
    let suites = after(datagram, RANDOM_END).and_then(|cookie| after(datagram, cookie));
    let Some(begin) = suites else { return };
    let Some(len) = datagram.get(begin..begin + 2).map(|len| u16::from_be_bytes([len[0], len[1]])) else {
        return;
    };
    let weakest = CipherSuite::PskAes128Ccm8.number().to_be_bytes();
    let suites = datagram.get_mut(begin + 2..begin + 2 + usize::from(len)).unwrap_or_default();
    suites.chunks_exact_mut(2).for_each(|suite| suite.copy_from_slice(&weakest));
}

impl Way {
    fn open(space: &Namespace, port: u16) -> Result<Self, ExperimentError> {
        Ok(Self {
            front: socket(space, port)?,
            backs: (0..CLIENTS).map(|_| socket(space, 0)).collect::<Result<_, _>>()?,
            clients: Vec::new(),
            recorded: Vec::new(),
            weakens: false,
            diverts: None,
            count: 0,
        })
    }

    /// Passes on what has come. Returns the octets that went by the stranger.
    fn relay(&mut self, stranger: &UdpSocket) -> u64 {
        let mut diverted = 0;
        while let Some((mut datagram, from)) = received(&self.front) {
            let known = self.clients.iter().position(|client| *client == from);
            let client = known.unwrap_or(self.clients.len()).min(CLIENTS - 1);
            if known.is_none() && self.clients.len() < CLIENTS {
                self.clients.push(from);
            }
            if self.weakens {
                weakened(&mut datagram);
            }
            self.count += 1;
            let away = client == 0 && self.diverts.is_some_and(|every| self.count.is_multiple_of(every));
            let socket = if away { stranger } else { &self.backs[client] };
            diverted += if away { datagram.len() as u64 } else { 0 };
            let _ = socket.send_to(&datagram, at(LISTEN));
            if client == 0 && datagram.first() != Some(&HANDSHAKE) {
                self.recorded.push(datagram);
            }
        }
        let old = self.recorded.len().saturating_sub(100);
        self.recorded.drain(..old);
        for (client, back) in self.clients.iter().zip(&self.backs) {
            while let Some((datagram, _)) = received(back) {
                let _ = self.front.send_to(&datagram, client);
            }
        }
        diverted
    }
}

impl Site {
    fn build() -> Result<Self, ExperimentError> {
        let space = Namespace::create("dtls")?;
        space.batch(&["link set dev lo up".into()])?;
        let files = crate::files("antedate-lab-").with_extension("dtls");
        let _ = fs::remove_dir_all(&files);
        DirBuilder::new().mode(0o700).create(&files)?;
        let keys = files.join("psk");
        fs::write(&keys, KEYS)?;
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o600))?;
        let start = |side: &str, name: &str, listen: u16, to: u16| {
            let [listen, to] = [listen, to].map(|port| at(port).to_string());
            let [keys, status] = [&keys, &files.join(name)].map(|path| path.to_string_lossy().into_owned());
            let place = Place { namespace: Some(space.file()), cpus: &[] };
            let words = ["dtls", side, "--listen", &listen, "--to", &to, "--psk", &keys, "--status", &status];
            let few: &[&str] = if side == "listen" { &["--max-handshakes", "64"] } else { &[] };
            let quick = ["--retransmit-ms", "50", "--give-up-ms", "1000"];
            Process::start(name, &executable()?, &[&words[..], &quick, few].concat(), &place)
        };
        let site = Self {
            listen: start("listen", "listen", LISTEN, SERVER)?,
            connects: vec![
                start("connect", "connect", CONNECT, WAY)?,
                start("connect", "second", SECOND_CONNECT, SECOND_WAY)?,
            ],
            server: socket(&space, SERVER)?,
            device: socket(&space, 0)?,
            way: Way::open(&space, WAY)?,
            second: Way::open(&space, SECOND_WAY)?,
            stranger: socket(&space, 0)?,
            next: 0,
            asked: None,
            unanswered: 0,
            served: HashSet::new(),
            came_out: 0,
            strangers: [0; 2],
            logged: [0; 2],
            files,
            space,
        };
        site.started()
    }

    /// The site, once a request is answered.
    fn started(mut self) -> Result<Self, ExperimentError> {
        let end = Instant::now() + PATIENCE;
        while !self.served.contains(&self.next.saturating_sub(1)) || self.next < 10 {
            self.turn();
            if Instant::now() > end {
                let errors = [&mut self.listen, &mut self.connects[0]].map(|one| one.errors().join("; "));
                return Err(format!("no request passes the DTLS proxies: {}", errors.join("; ")).into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(self)
    }

    /// Passes on what has come, serves the server, and asks if it is time.
    fn turn(&mut self) {
        self.strangers[0] += self.way.relay(&self.stranger);
        self.second.relay(&self.stranger);
        while let Some((request, from)) = received(&self.server) {
            let number = request.first_chunk().map(|number| u64::from_be_bytes(*number));
            let genuine = number.filter(|number| request.len() == 8 && *number < self.next);
            match genuine.map(|number| self.served.insert(number)) {
                Some(true) => _ = self.server.send_to(&request, from),
                // It came twice, or nobody asked.
                _ => self.came_out += 1,
            }
        }
        while let Some((answer, _)) = received(&self.device) {
            if self.asked.is_some_and(|(number, _)| answer == number.to_be_bytes()) {
                self.asked = None;
            }
        }
        while let Some((datagram, _)) = received(&self.stranger) {
            self.strangers[1] += datagram.len() as u64;
        }
        if self.asked.is_none_or(|(_, since)| since.elapsed() >= PERIOD) {
            self.unanswered += u64::from(self.asked.is_some());
            let _ = self.device.send_to(&self.next.to_be_bytes(), at(CONNECT));
            self.asked = Some((self.next, Instant::now()));
            self.next += 1;
        }
    }

    /// Lets the site run, with a call of `act` each millisecond.
    fn run(&mut self, time: Duration, mut act: impl FnMut(&mut Self) -> u64) -> u64 {
        let (end, mut due, mut sent) = (Instant::now() + time, Instant::now(), 0);
        while Instant::now() < end {
            self.turn();
            if Instant::now() >= due {
                sent += act(self);
                due = Instant::now() + Duration::from_millis(1);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        sent
    }

    /// All counters of both sides by name.
    fn counters(&self) -> Result<Vec<(String, u64)>, ExperimentError> {
        let mut all: Vec<(String, u64)> = Vec::new();
        for name in ["listen", "connect", "second"] {
            let document = status::ask(&self.files.join(name)).map_err(failed)?;
            for part in ["counters", "refused", "failures"] {
                for (counter, count) in document.get(part).and_then(Value::as_object).into_iter().flatten() {
                    let count = count.as_u64().unwrap_or(0);
                    match all.iter_mut().find(|(known, _)| known == counter) {
                        Some((_, sum)) => *sum += count,
                        None => all.push((counter.clone(), count)),
                    }
                }
            }
        }
        Ok(all)
    }

    fn warnings(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (process, seen) in [&mut self.listen, &mut self.connects[0]].into_iter().zip(&mut self.logged) {
            let lines = process.errors();
            warnings.extend(lines.iter().skip(*seen).filter(|line| line.contains("WARN")).cloned());
            *seen = lines.len();
        }
        warnings
    }

    /// Half-open handshakes, each from a port of its own, and a device that is new meanwhile.
    fn hellos(&mut self) -> Result<u64, ExperimentError> {
        let client = || Client { identity: b"stranger".to_vec(), key: vec![0; 16].into() };
        let mut random = |out: &mut [u8]| out.fill(0x5a);
        let mut begun = Vec::new();
        for _ in 0..HELLOS {
            let socket = socket(&self.space, 0)?;
            let mut connection = Connection::connect(Settings::default(), client(), 0, &mut random);
            if let Some(hello) = connection.transmit() {
                let _ = socket.send_to(&hello, at(LISTEN));
            }
            begun.push((socket, connection));
            self.turn();
        }
        let newcomer = socket(&self.space, 0)?;
        let end = Instant::now() + PATIENCE / 2;
        let (mut sent, mut answered) = (0, false);
        let mut number = None;
        while Instant::now() < end && !answered {
            for (socket, connection) in &mut begun {
                while let Some((datagram, _)) = received(socket) {
                    connection.handle(&datagram, 0, &(), &mut |_| ());
                    while let Some(hello) = connection.transmit() {
                        sent += u64::from(socket.send_to(&hello, at(LISTEN)).is_ok());
                    }
                }
            }
            if number.is_none() {
                number = Some(self.next);
                self.next += 1;
                let _ = newcomer.send_to(&(self.next - 1).to_be_bytes(), at(CONNECT));
            }
            self.turn();
            answered = received(&newcomer).is_some();
            std::thread::sleep(Duration::from_micros(100));
        }
        if answered { Ok(sent) } else { Err("a new device gets no session meanwhile".into()) }
    }

    /// A client whose offer was weakened on the way: no data may pass.
    fn downgrade(&mut self, time: Duration) -> Result<u64, ExperimentError> {
        self.second.weakens = true;
        let newcomer = socket(&self.space, 0)?;
        let number = self.next;
        self.next += 1;
        let before = self.second.count;
        let _ = newcomer.send_to(&number.to_be_bytes(), at(SECOND_CONNECT));
        // Both sides give up after a second.
        self.run(time.max(Duration::from_millis(1_500)), |_| 0);
        self.came_out += u64::from(self.served.contains(&number));
        Ok(self.second.count - before)
    }

    fn attack(&mut self, name: &str, time: Duration) -> Result<u64, ExperimentError> {
        let mut turn = 0;
        let pick = |site: &Self, turn: usize| {
            let recorded = &site.way.recorded;
            recorded.get(turn % recorded.len().max(1)).cloned().unwrap_or_default()
        };
        Ok(match name {
            "dtls-replay" => self.run(time, |site| {
                turn += 1;
                u64::from(site.way.backs[0].send_to(&pick(site, turn), at(LISTEN)).is_ok())
            }),
            "dtls-forgery" => self.run(time, |site| {
                turn += 1;
                let mut record = pick(site, turn);
                // A later number, and another octet of the ciphertext.
                record[8] = record[8].wrapping_add(1);
                let last = record.len() - 1 - turn % 8;
                record[last] ^= 1 << (turn % 8);
                u64::from(site.way.backs[0].send_to(&record, at(LISTEN)).is_ok())
            }),
            "dtls-alerts" => self.run(time, |site| {
                let client = site.way.clients.first().copied().unwrap_or(at(CONNECT));
                u64::from(site.way.backs[0].send_to(&ALERT, at(LISTEN)).is_ok())
                    + u64::from(site.way.front.send_to(&ALERT, client).is_ok())
            }),
            "dtls-move" => {
                self.way.diverts = Some(5);
                let before = self.strangers;
                self.run(time, |_| 0);
                self.way.diverts = None;
                let [sent, got] = [0, 1].map(|at| self.strangers[at] - before[at]);
                if got > 3 * sent {
                    return Err(format!("a strange address got {got} octets for {sent}").into());
                }
                sent
            }
            "dtls-hellos" => self.hellos()?,
            _ => self.downgrade(time)?,
        })
    }
}

/// Runs the attacks that are asked for.
pub(super) fn run(options: &Options, asked: impl Fn(&str) -> bool) -> Result<Vec<Finding>, ExperimentError> {
    let chosen: Vec<&'static str> = NAMES.into_iter().filter(|name| asked(name)).collect();
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let time = if options.quick { QUICK_TIME } else { TIME };
    let mut site = Site::build()?;
    let mut findings = Vec::new();
    for (done, name) in chosen.iter().enumerate() {
        options.progress(done, chosen.len(), name);
        let start = [site.unanswered, site.next];
        site.run(time, |_| 0);
        let (before, between, came_out) = (site.counters()?, [site.unanswered, site.next], site.came_out);
        site.warnings();
        let attacked = site.attack(name, time);
        let share = |from: [u64; 2], to: [u64; 2]| 1_000 * (to[0] - from[0]) / (to[1] - from[1]).max(1);
        let unanswered = Some([share(start, between), share(between, [site.unanswered, site.next])]);
        // What is under way arrives.
        site.run(Duration::from_millis(100), |_| 0);
        let expected: &[&str] = match *name {
            "dtls-replay" => &["replayed", "late"],
            "dtls-forgery" => &["forged"],
            "dtls-alerts" => &["unprotected_alert"],
            "dtls-move" => &["moves"],
            "dtls-hellos" => &["crowded_handshakes"],
            _ => &["failed_handshakes"],
        };
        let mut grown = Vec::new();
        for (counter, count) in site.counters()? {
            let was = before.iter().find(|(known, _)| *known == counter).map_or(0, |(_, was)| *was);
            let honest = ["protected", "opened", "handshakes", "held"].contains(&counter.as_str());
            if count > was && !honest {
                grown.push((counter, count - was));
            }
        }
        let counted = grown
            .iter()
            .filter(|(counter, _)| expected.contains(&counter.as_str()))
            .map(|(_, more)| more)
            .sum();
        let seen: Vec<String> = grown.iter().map(|(counter, more)| format!("{counter} {more}")).collect();
        let (sent, fault) = match attacked {
            Ok(sent) => (sent, String::new()),
            Err(error) => (0, format!(", and {error}")),
        };
        findings.push(Finding {
            name,
            sent,
            counted,
            seen: seen.join(", "),
            came_out: site.came_out - came_out,
            unanswered,
            warning: site.warnings().into_iter().next().unwrap_or_else(|| "no warning".into()),
            fault,
        });
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weakened_hello_offers_the_weakest_suite() {
        let client = Client { identity: b"turbine".to_vec(), key: vec![0; 16].into() };
        let mut connection = Connection::connect(Settings::default(), client, 0, &mut |out| out.fill(1));
        let hello = connection.transmit().expect("a hello");
        let (mut changed, weakest) = (hello.clone(), CipherSuite::PskAes128Ccm8.number().to_be_bytes());
        weakened(&mut changed);
        assert_ne!(changed, hello);
        let count = CipherSuite::ALL.iter().filter(|suite| suite.is_psk()).count();
        assert!(changed.windows(2 * count).any(|suites| suites == weakest.repeat(count)));
        // Other records stay as they are.
        let mut data = vec![23; 80];
        weakened(&mut data);
        assert_eq!(data, [23; 80]);
    }
}
