//! The DTLS proxy with few and with many sessions: a pair of both sides for each number of sessions,
//! devices before it and an echo server behind it, on the loopback interface.
//!
//! All pairs stand at once, and take turns in many short rounds of round trips, one at a time. In one
//! series five devices speak, and in another all of them in turn. All run on one core: to wake a thread
//! on another core of a virtual machine costs as much as the rest of a round trip, so the scheduler's
//! choice of cores would decide.

use super::goals::Goal;
use super::{Plan, cpu, median};
use serde_json::{Value, json};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use xtask::shell::{Background, Run, antedate, cache, program, until};

/// Octets of a datagram.
const OCTETS: usize = 64;
/// Devices whose handshakes run at once.
const AT_ONCE: usize = 20;
/// Devices of the series in which few speak.
const FEW: usize = 5;
/// The numbers of sessions that have goals.
const COMPARED: [usize; 2] = [10, 4000];
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Descriptors of a process beside those of its sessions.
const OTHERS: usize = 64;

/// Measures each number of sessions.
pub(crate) fn run(plan: Plan, goals: &mut Vec<Goal>) -> Result<Value, String> {
    let most = descriptors()?;
    let _one = OneCore::take()?;
    // Three sockets a session, each with a port.
    fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535").map_err(|e| e.to_string())?;
    let echo = Echo::start()?;
    let (mut pairs, mut devices) = (Vec::new(), OTHERS);
    for sessions in plan.dtls_sessions {
        devices += sessions;
        if devices > most {
            println!("   {sessions} sessions are left out: a process may open {most} files here (ulimit -n)");
            continue;
        }
        let pair = Pair::start(*sessions, echo.at)?;
        println!(
            "   {sessions:6} sessions: a handshake costs {:.0} and {:.0} us of CPU, a session {:.1} and {:.1} KiB",
            pair.handshake_us[0], pair.handshake_us[1], pair.session_kib[0], pair.session_kib[1]
        );
        pairs.push(pair);
    }
    let mut series: Vec<[Series; 2]> = pairs.iter().map(|_| Default::default()).collect();
    for _ in 0..plan.dtls_rounds {
        for (pair, series) in pairs.iter_mut().zip(&mut series) {
            for (series, speakers) in series.iter_mut().zip([FEW, pair.devices.len()]) {
                pair.round(plan.dtls_round_trips, speakers, series)?;
            }
        }
    }
    println!(
        "   {:>8} {:>8} {:>18} {:>10} {:>10}",
        "sessions", "speak", "CPU us, two sides", "median us", "p99"
    );
    let mut rows = Vec::new();
    for (pair, series) in pairs.iter().zip(&mut series) {
        for (series, speak) in series.iter_mut().zip(["few", "all"]) {
            series.trips_us.sort_by(f64::total_cmp);
            let [listen, connect] = [0, 1].map(|side| median(series.cpu_us.iter().map(|cpu| cpu[side])));
            let (p50, p99) = (series.percentile(0.5), series.percentile(0.99));
            println!(
                "   {:8} {speak:>8} {listen:8.1} {connect:9.1} {p50:10.1} {p99:10.1}",
                pair.devices.len()
            );
            rows.push(json!({
                "sessions": pair.devices.len(), "speak": speak, "listen_cpu_us": listen, "connect_cpu_us": connect,
                "p50_us": p50, "p99_us": p99, "listen_session_kib": pair.session_kib[0],
                "connect_session_kib": pair.session_kib[1], "listen_handshake_us": pair.handshake_us[0],
                "connect_handshake_us": pair.handshake_us[1],
            }));
        }
    }
    judge(&rows, goals);
    Ok(rows.into())
}

/// This thread on one core, with the threads and processes that it starts.
struct OneCore {
    thread: String,
    /// The cores before.
    before: String,
}

impl OneCore {
    fn take() -> Result<Self, String> {
        let link = fs::read_link("/proc/thread-self").map_err(|e| format!("/proc/thread-self: {e}"))?;
        let thread = link.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string("/proc/thread-self/status").map_err(|e| e.to_string())?;
        let before = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let before = before.ok_or("no Cpus_allowed_list in /proc/thread-self/status")?.trim().to_owned();
        let core = before.split(['-', ',']).next().unwrap_or("0").to_owned();
        let taken = Self { thread, before };
        taken.pin(&core)?;
        Ok(taken)
    }

    fn pin(&self, cores: &str) -> Result<(), String> {
        program("taskset").args(["-pc", cores, &self.thread]).read(10).map(drop)
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        let _ = self.pin(&self.before);
    }
}

/// The goals, where both numbers of sessions were measured.
fn judge(rows: &[Value], goals: &mut Vec<Goal>) {
    let row =
        |sessions: usize, speak: &str| rows.iter().find(|r| r["sessions"] == sessions && r["speak"] == speak);
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    let cpu = |row: &Value| number(row, "listen_cpu_us") + number(row, "connect_cpu_us");
    let [few, many] = COMPARED;
    for (speak, bound) in [("few", Some(1.1)), ("all", None)] {
        let (Some(with_few), Some(with_many)) = (row(few, speak), row(many, speak)) else { continue };
        let ratio = cpu(with_many) / cpu(with_few);
        let detail = format!("{:.1} and {:.1} us", cpu(with_many), cpu(with_few));
        let name = format!("DTLS, CPU a round trip, {many} sessions / {few}, {speak} speak");
        goals.push(match bound {
            Some(bound) => Goal::at_most(name, bound, ratio, &detail),
            None => Goal::printed(name, ratio, &detail),
        });
    }
    if let Some(row) = row(many, "few") {
        let sides = ["listen_session_kib", "connect_session_kib"].map(|key| number(row, key));
        let detail = format!("listen {:.1}, connect {:.1}", sides[0], sides[1]);
        let name = format!("DTLS, resident KiB a session, {many} sessions");
        goals.push(Goal::at_most(name, 8.0, sides[0].max(sides[1]), &detail));
    }
}

/// The round trips of one series.
#[derive(Default)]
struct Series {
    /// CPU time of a round trip at `listen` and `connect`, of each round.
    cpu_us: Vec<[f64; 2]>,
    trips_us: Vec<f64>,
}

impl Series {
    /// Of sorted round trips.
    fn percentile(&self, part: f64) -> f64 {
        let at = (self.trips_us.len() as f64 * part) as usize;
        self.trips_us.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Both sides of the proxy, and the devices.
struct Pair {
    listen: Background,
    connect: Background,
    devices: Vec<UdpSocket>,
    /// The device that speaks next.
    next: usize,
    /// What a session costs at `listen` and `connect`.
    session_kib: [f64; 2],
    handshake_us: [f64; 2],
}

impl Pair {
    /// Starts both sides, and lets each device speak once.
    fn start(sessions: usize, echo: SocketAddr) -> Result<Self, String> {
        let key = key()?;
        let most = (sessions + 16).to_string();
        let side = |verb: &str, to: SocketAddr, more: &[&str]| {
            let at = free()?;
            let mut command = program(antedate());
            command.args(["dtls", verb, "--listen", &at.to_string(), "--to", &to.to_string(), "--psk"]);
            command.arg(&key).args(["--max-sessions", &most, "--idle-seconds", "3600"]).args(more);
            let mut process =
                command.background(&cache("bench")?.join(format!("dtls-{verb}-{sessions}.log")))?;
            until("the DTLS proxy", 10.0, || match process.alive() {
                Err(e) => Some(Err(e)),
                Ok(()) => process.output().contains(" to ").then_some(Ok(())),
            })??;
            Ok::<_, String>((process, at))
        };
        let (listen, at) = side("listen", echo, &[])?;
        let (connect, at) = side("connect", at, &["--identity", "d1"])?;
        let mut pair = Self {
            listen,
            connect,
            devices: Vec::new(),
            next: 0,
            session_kib: [0.0; 2],
            handshake_us: [0.0; 2],
        };
        let before = (pair.resident_kib()?, pair.busy_us());
        while pair.devices.len() < sessions {
            let begun = pair.devices.len();
            for _ in begun..sessions.min(begun + AT_ONCE) {
                let device = UdpSocket::bind("127.0.0.1:0").map_err(|e| format!("a device's socket: {e}"))?;
                let ready = device.set_read_timeout(Some(PATIENCE)).and_then(|()| device.connect(at));
                ready.and_then(|()| device.send(&[1; OCTETS])).map_err(|e| e.to_string())?;
                pair.devices.push(device);
            }
            for device in pair.devices.get(begun..).unwrap_or_default() {
                let answer = device.recv(&mut [0; 2 * OCTETS]);
                answer.map_err(|e| format!("no answer in session {begun} of {sessions}: {e}"))?;
            }
        }
        // What is prepared in idle time belongs to the handshake too.
        sleep(Duration::from_millis(500));
        let after = (pair.resident_kib()?, pair.busy_us());
        let each = |after: [f64; 2], before: [f64; 2]| {
            [0, 1].map(|side| (after[side] - before[side]) / sessions as f64)
        };
        (pair.session_kib, pair.handshake_us) = (each(after.0, before.0), each(after.1, before.1));
        Ok(pair)
    }

    /// Round trips one at a time, by the first so many devices in turn.
    fn round(&mut self, trips: usize, speakers: usize, series: &mut Series) -> Result<(), String> {
        let before = self.busy_us();
        for _ in 0..trips {
            self.next += 1;
            let Some(device) = self.devices.get(self.next % speakers.min(self.devices.len())) else {
                continue;
            };
            let began = Instant::now();
            let mut answer = [0; 2 * OCTETS];
            let done = device.send(&[2; OCTETS]).and_then(|_| device.recv(&mut answer));
            done.map_err(|e| format!("no answer with {} sessions: {e}", self.devices.len()))?;
            series.trips_us.push(began.elapsed().as_nanos() as f64 / 1000.0);
        }
        let after = self.busy_us();
        series.cpu_us.push([0, 1].map(|side| (after[side] - before[side]) / trips as f64));
        Ok(())
    }

    fn busy_us(&self) -> [f64; 2] {
        [&self.listen, &self.connect].map(|side| cpu::busy_ns(side.pid()) as f64 / 1000.0)
    }

    fn resident_kib(&self) -> Result<[f64; 2], String> {
        let of = |side: &Background| {
            let status =
                fs::read_to_string(format!("/proc/{}/status", side.pid())).map_err(|e| e.to_string())?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            kib.ok_or_else(|| "no VmRSS".to_string())
        };
        Ok([of(&self.listen)?, of(&self.connect)?])
    }
}

/// A port that was free.
fn free() -> Result<SocketAddr, String> {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(|e| e.to_string())
}

/// The file of the identity `d1`, with a fresh key.
fn key() -> Result<PathBuf, String> {
    let path = cache("bench")?.join("dtls-psk");
    let _ = fs::remove_file(&path);
    let mut secret = [0; 16];
    let random =
        fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut secret));
    random.map_err(|e| e.to_string())?;
    let digits: String = secret.iter().map(|octet| format!("{octet:02x}")).collect();
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written =
        file.and_then(|mut file| std::io::Write::write_all(&mut file, format!("d1:{digits}\n").as_bytes()));
    written.map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// Raises this process's bound of open files, and with it that of its children, and returns it.
fn descriptors() -> Result<usize, String> {
    let limits = fs::read_to_string("/proc/self/limits").map_err(|e| e.to_string())?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard: usize = line
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .ok_or("no bound of open files in /proc/self/limits")?;
    let me = std::process::id().to_string();
    program("prlimit").args(["--pid", &me, &format!("--nofile={hard}:{hard}")]).bounded(5)?;
    Ok(hard)
}

/// The devices' server: sends each datagram back.
struct Echo {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start() -> Result<Self, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
        socket.set_read_timeout(Some(Duration::from_millis(100))).map_err(|e| e.to_string())?;
        let (at, stop) = (socket.local_addr().map_err(|e| e.to_string())?, Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = spawn(move || {
            let mut datagram = [0; 2 * OCTETS];
            while !stopped.load(Ordering::Acquire) {
                if let Ok((len, from)) = socket.recv_from(&mut datagram) {
                    let _ = socket.send_to(datagram.get(..len).unwrap_or_default(), from);
                }
            }
        });
        Ok(Self { at, stop, thread: Some(thread) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_sessions_are_judged_by_few() {
        let row = |sessions: usize, speak: &str, cpu: f64| {
            json!({ "sessions": sessions, "speak": speak, "listen_cpu_us": cpu, "connect_cpu_us": 10.0,
                    "listen_session_kib": 5.0, "connect_session_kib": 9.0 })
        };
        let judged = |rows: &[Value]| {
            let mut goals = Vec::new();
            judge(rows, &mut goals);
            goals.iter().map(|goal| (goal.json()["value"].as_f64(), goal.missed())).collect::<Vec<_>>()
        };
        let rows =
            [row(10, "few", 10.0), row(10, "all", 10.0), row(4000, "few", 11.0), row(4000, "all", 30.0)];
        assert_eq!(judged(&rows), [(Some(1.05), false), (Some(2.0), false), (Some(9.0), true)]);
        assert!(judged(&rows[..2]).is_empty());
        assert!(judged(&[row(10, "few", 10.0), row(4000, "few", 13.0)])[0].1);
    }
}
