//! OpenSSL as server and client of our DTLS, over a good and a bad wire, with pre-shared keys and
//! certificates; pion/dtls too, with connection IDs. Wireshark reads our records with the key.

pub(super) mod certificates;
mod moves;
pub(super) mod partners;
mod pion;
mod relay;
mod scandium;
mod talk;
mod wolfssl;

use crate::place;
use relay::{Faults, Relay};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, antedate, program, until};

const IDENTITY: &str = "h3";
const KEY: &str = "000102030405060708090a0b0c0d0e0f";
/// Messages each way in a case.
const MESSAGES: usize = 40;
/// OpenSSL's name of the suite, and the registry's.
const SUITES: [(&str, &str); 5] = [
    ("PSK-AES128-CCM8", "TLS_PSK_WITH_AES_128_CCM_8"),
    ("PSK-AES128-CCM", "TLS_PSK_WITH_AES_128_CCM"),
    ("PSK-AES128-GCM-SHA256", "TLS_PSK_WITH_AES_128_GCM_SHA256"),
    ("PSK-CHACHA20-POLY1305", "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-PSK-CHACHA20-POLY1305", "TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256"),
];
const BAD_WIRE: Faults = Faults { lose: 80, duplicate: 100, delay: 150, replay: 150 };

pub(crate) fn prepare() -> Result<(), Stop> {
    pion::build()?;
    Ok(())
}

/// Runs all suites on a good wire, the first one on a bad wire too, a restarted server, and
/// pion/dtls.
pub(crate) fn run() -> StepResult {
    let place = Place::new()?;
    let mut notes = Vec::new();
    for (index, suite) in SUITES.into_iter().enumerate() {
        let capture = (index == 0).then(|| Capture::start(&place)).transpose()?;
        client_is_openssl(&place, suite, Faults::default())?;
        server_is_openssl(&place, suite, Faults::default())?;
        if let Some(capture) = capture {
            notes.push(capture.read()?);
        }
    }
    notes.insert(0, format!("OpenSSL both ways with {} suites", SUITES.len()));
    notes.push(format!("bad wire: {}", client_is_openssl(&place, SUITES[0], BAD_WIRE)?));
    notes.push(server_is_openssl(&place, SUITES[0], BAD_WIRE)?);
    notes.push(certificates::openssl(&place)?);
    let capture = Capture::start(&place)?;
    notes.push(restarted(&place)?);
    notes.push(format!("with connection IDs {}", capture.read()?));
    if !pion::is_there()? {
        return Err(Stop::Skipped(format!(
            "pion/dtls, whose modules cannot be fetched here; all else passed: {}",
            notes.join("; ")
        )));
    }
    notes.push(pion::client(&place)?);
    notes.push(pion::server(&place)?);
    Ok(notes.join("; "))
}

/// Files of the cases.
struct Place {
    dir: PathBuf,
    psk: PathBuf,
    /// Certificates or raw public keys in place of the pre-shared key.
    signed: Option<certificates::Signed>,
}

impl Place {
    fn new() -> Result<Self, String> {
        Self::with_key("dtls-psk", KEY)
    }

    /// With another key, in a file of its own.
    fn with_key(file: &str, key: &str) -> Result<Self, String> {
        let dir = place::run()?;
        let psk = dir.join(file);
        let _ = std::fs::remove_file(&psk);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&psk);
        let text = format!("{IDENTITY}:{key}\n");
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| format!("{}: {e}", psk.display()))?;
        Ok(Self { dir, psk, signed: None })
    }

    fn with_signed(&self, signed: certificates::Signed) -> Self {
        Self { dir: self.dir.clone(), psk: self.psk.clone(), signed: Some(signed) }
    }

    /// Starts our side and waits until it listens.
    fn ours(&self, verb: &str, listen: SocketAddr, to: SocketAddr, more: &[&str]) -> Result<Ours, String> {
        let status = self.dir.join(format!("dtls-{verb}.sock"));
        let mut command = program(antedate());
        command.args(["dtls", verb, "--listen", &listen.to_string(), "--to", &to.to_string()]);
        match &self.signed {
            Some(signed) => command.args(signed.ours(verb)),
            None => command.arg("--psk").arg(&self.psk),
        };
        command.args(["--retransmit-ms", "100"]).arg("--status").arg(&status).args(more);
        let mut process = command.background(&self.dir.join(format!("dtls-{verb}.log")))?;
        until("our side", 10.0, || match process.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => process.output().contains(" to ").then_some(Ok(())),
        })??;
        Ok(Ours { process, status })
    }

    /// Starts an OpenSSL program. Without `-nbio` it would wait for more data after a dropped
    /// record, and read nothing in the meantime.
    fn openssl(&self, words: &[&str], suite: &str) -> Result<(Background, ChildStdin), String> {
        let mut command = program("openssl");
        let cipher = format!("{suite}:@SECLEVEL=0");
        command.args(words);
        match &self.signed {
            Some(signed) => command.args(signed.theirs(words[0])),
            None if words[0] == "s_server" => {
                command.args(["-nocert", "-psk", KEY, "-psk_identity", IDENTITY])
            }
            None => command.args(["-psk", KEY, "-psk_identity", IDENTITY]),
        };
        command.args(["-dtls1_2", "-cipher", &cipher, "-quiet", "-nbio"]);
        command.piped(&self.dir.join(format!("openssl-{}.log", words[0])))
    }
}

struct Ours {
    process: Background,
    status: PathBuf,
}

impl Ours {
    fn status(&self) -> Result<serde_json::Value, String> {
        let text = program(antedate()).args(["dtls", "status"]).arg(&self.status).read(10)?;
        serde_json::from_str(&text).map_err(|e| format!("no state: {e}\n{text}"))
    }

    fn stop(self) -> Result<(), String> {
        let (status, output) = self.process.stop(5)?;
        if status.success() { Ok(()) } else { Err(format!("our side ended with {status}:\n{output}")) }
    }
}

/// A free port of the loopback interface; no other process in this sandbox takes it.
fn free() -> Result<SocketAddr, String> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    socket.local_addr().map_err(|e| e.to_string())
}

fn device() -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    socket.set_read_timeout(Some(Duration::from_millis(10))).map_err(|e| e.to_string())?;
    Ok(socket)
}

/// A server behind ours that returns each message behind `echo `.
struct Echo {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Echo {
    fn start() -> Result<Self, String> {
        let socket = device()?;
        let at = socket.local_addr().map_err(|e| e.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&[b"echo ", &buffer[..len]].concat(), from);
                }
            }
        });
        Ok(Self { at, stop })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Checks that each line with the prefix came at most once, and on a good wire that all came.
/// Returns their count.
fn judge(what: &str, came: &str, prefix: &str, faults: Faults) -> Result<usize, String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    // Lines that OpenSSL read together became one datagram, and came back behind one `echo `.
    let said = came.lines().map(|line| line.strip_prefix("echo ").unwrap_or(line));
    said.filter(|line| line.starts_with(prefix)).for_each(|line| *lines.entry(line).or_default() += 1);
    if let Some((line, count)) = lines.iter().find(|(_, count)| **count > 1) {
        return Err(format!("{what}: `{line}` came {count} times"));
    }
    let enough = if faults.lose == 0 { MESSAGES } else { MESSAGES / 2 };
    if lines.len() < enough {
        return Err(format!("{what}: {} of {MESSAGES} messages came:\n{came}", lines.len()));
    }
    Ok(lines.len())
}

/// Waits until all messages came, at most 3 s.
fn settle(mut count: impl FnMut() -> usize) {
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end && count() < MESSAGES {
        sleep(Duration::from_millis(20));
    }
}

fn client_is_openssl(place: &Place, suite: (&str, &str), faults: Faults) -> Result<String, String> {
    let echo = Echo::start()?;
    let server = place.ours("listen", free()?, echo.at, &["--suite", suite.1])?;
    let at = listening(&server)?;
    let relay = Relay::to(at, faults, 7)?;
    let to = relay.at.to_string();
    let (mut client, mut stdin) = place.openssl(&["s_client", "-connect", &to], suite.0)?;
    let what = format!("s_client, {}", suite.0);
    until(&what, 30.0, || match client.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => established(&server).then_some(Ok(())),
    })??;
    for i in 0..MESSAGES {
        // One write, so that OpenSSL sends one datagram.
        stdin.write_all(format!("message {i}\n").as_bytes()).map_err(|e| format!("{what}: {e}"))?;
        sleep(Duration::from_millis(10));
    }
    settle(|| client.output().matches("message ").count());
    let came = judge(&what, &client.output(), "message", faults)
        .map_err(|e| format!("{e}\n{:#}", server.status().unwrap_or_default()))?;
    let refused = replays(&server, faults)?;
    drop(stdin);
    let _ = client.stop(5);
    server.stop()?;
    Ok(format!(
        "{} datagrams disturbed, {came} of {MESSAGES} messages came back, {refused} replays refused",
        relay.done()
    ))
}

fn server_is_openssl(place: &Place, suite: (&str, &str), faults: Faults) -> Result<String, String> {
    let at = free()?;
    let accept = at.to_string();
    let (mut server, mut stdin) = place.openssl(&["s_server", "-accept", &accept], suite.0)?;
    sleep(Duration::from_millis(300));
    server.alive()?;
    let relay = Relay::to(at, faults, 11)?;
    let client = place.ours("connect", free()?, relay.at, &["--suite", suite.1])?;
    let device = device()?;
    device.connect(listening(&client)?).map_err(|e| e.to_string())?;
    let what = format!("s_server, {}", suite.0);
    let mut answers = String::new();
    let mut buffer = [0; 2000];
    let mut receive = |answers: &mut String| {
        while let Ok(len) = device.recv(&mut buffer) {
            answers.push_str(&String::from_utf8_lossy(&buffer[..len]));
        }
    };
    for i in 0..MESSAGES {
        // The first messages wait for the handshake.
        device.send(format!("message {i}\n").as_bytes()).map_err(|e| format!("{what}: {e}"))?;
        sleep(Duration::from_millis(5));
    }
    until(&what, 30.0, || match server.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => established(&client).then_some(Ok(())),
    })??;
    for i in 0..MESSAGES {
        stdin.write_all(format!("answer {i}\n").as_bytes()).map_err(|e| format!("{what}: {e}"))?;
        sleep(Duration::from_millis(10));
        receive(&mut answers);
    }
    settle(|| {
        receive(&mut answers);
        answers.matches("answer ").count().min(server.output().matches("message ").count())
    });
    let state = |e: String| format!("{e}\n{:#}", client.status().unwrap_or_default());
    let forth = judge(&what, &server.output(), "message", faults).map_err(state)?;
    let back = judge(&what, &answers, "answer", faults).map_err(state)?;
    let refused = replays(&client, faults)?;
    client.stop()?;
    drop(stdin);
    let _ = server.stop(5);
    Ok(format!("to s_server {forth}, from it {back} of {MESSAGES}, {refused} replays refused"))
}

/// Our program on both sides; the server restarts in between, and no message of the device is lost.
fn restarted(place: &Place) -> Result<String, String> {
    // Wireshark reads it with the pre-shared key, so without an ephemeral one.
    let readable = ["--suite", SUITES[0].1];
    let echo = Echo::start()?;
    let at = free()?;
    let mut server = place.ours("listen", at, echo.at, &readable)?;
    let client = place.ours("connect", free()?, at, &[&["--resend"], &readable[..]].concat())?;
    let device = device()?;
    device.connect(listening(&client)?).map_err(|e| e.to_string())?;
    let mut buffer = [0; 2000];
    let mut slowest = Duration::ZERO;
    for i in 0..MESSAGES {
        if i == MESSAGES / 2 {
            server.process.stop(5)?;
            // As after a crash: the other side gets no notice.
            server = place.ours("listen", at, echo.at, &readable)?;
        }
        let said = format!("message {i}\n");
        let began = Instant::now();
        device.send(said.as_bytes()).map_err(|e| e.to_string())?;
        let answer = until("an answer", 5.0, || {
            let len = device.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
        });
        let answer = answer.map_err(|e| {
            format!(
                "message {i}: {e}\n{:#}\n{:#}",
                client.status().unwrap_or_default(),
                server.status().unwrap_or_default()
            )
        })?;
        if answer != format!("echo {said}") {
            return Err(format!("message {i}: `{answer}` came back"));
        }
        slowest = slowest.max(began.elapsed());
        sleep(Duration::from_millis(10));
    }
    client.stop()?;
    server.stop()?;
    Ok(format!(
        "server restarted: {MESSAGES} of {MESSAGES} answered, the slowest in {} ms",
        slowest.as_millis()
    ))
}

/// The address on which our side listens, from its output.
fn listening(ours: &Ours) -> Result<SocketAddr, String> {
    let output = ours.process.output();
    let word = output.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok());
    word.ok_or_else(|| format!("no address in:\n{output}"))
}

fn established(ours: &Ours) -> bool {
    let state = ours.status().unwrap_or_default();
    state["sessions"].as_array().is_some_and(|all| all.iter().any(|s| s["phase"] == "established"))
}

/// Counts refused replays, and fails if a bad wire caused none.
fn replays(ours: &Ours, faults: Faults) -> Result<u64, String> {
    let state = ours.status()?;
    let refused = &state["refused"];
    let count = refused["replayed"].as_u64().unwrap_or(0) + refused["late"].as_u64().unwrap_or(0);
    if faults.replay > 0 && count == 0 {
        return Err(format!("nothing that was replayed was refused:\n{state:#}"));
    }
    Ok(count)
}

/// A capture of the loopback interface in a file.
struct Capture {
    process: Background,
    file: PathBuf,
}

impl Capture {
    fn start(place: &Place) -> Result<Self, String> {
        let file = place.dir.join("dtls.pcap");
        let mut command = program("dumpcap");
        command.args(["-q", "-i", "lo", "-w"]).arg(&file);
        let mut process = command.background(&place.dir.join("dumpcap-dtls.log"))?;
        until("dumpcap", 10.0, || match process.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => process.output().contains("File: ").then_some(Ok(())),
        })??;
        Ok(Self { process, file })
    }

    /// Checks that Wireshark, with the key, finds each of our messages in the records.
    fn read(self) -> Result<String, String> {
        // Waits for the packets in the kernel's buffer, which dumpcap drops when it ends.
        sleep(Duration::from_millis(1500));
        self.process.stop(5)?;
        let decrypted = dissect(&self.file)?;
        let missing = (0..MESSAGES).find(|i| !decrypted.contains(&format!("message {i}\n")));
        match missing {
            None => Ok(format!("tshark decrypts all {MESSAGES} messages")),
            Some(i) => Err(format!("Wireshark does not find message {i} in {}", self.file.display())),
        }
    }
}

/// The plaintext of all records that Wireshark could decrypt.
fn dissect(file: &Path) -> Result<String, String> {
    let mut tshark = program("tshark");
    let key = format!("dtls.psk:{KEY}");
    // Recognizes DTLS records on all ports.
    tshark.args(["-n", "-o", &key, "--enable-heuristic", "dtls_udp", "-Y", "dtls", "-T", "fields"]);
    let text = tshark.args(["-e", "data.data", "-r"]).arg(file).read(120)?;
    let octets: Vec<u8> = text
        .lines()
        .flat_map(|line| line.split(','))
        .flat_map(|field| field.as_bytes().chunks(2))
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    Ok(String::from_utf8_lossy(&octets).into_owned())
}
