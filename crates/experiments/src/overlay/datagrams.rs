//! Round trips of UDP datagrams, one at a time, between the machines of a path: also over WireGuard
//! alone, which carries no Ethernet (table I).

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antedate_lab::histogram::Times;
use antedate_lab::sys::clock::{monotonic_ns, sleep_until};
use antedate_lab::sys::sched;

use super::paths::{Contender, Path};
use crate::link::ENDS;
use crate::{ExperimentError, Options, Report, Row, failed};

/// Octets of a datagram whose Ethernet frame has 64, without frame check sequence.
const PAYLOAD: usize = 64 - 14 - 20 - 8;
const PORT: u16 = 7;
/// Pause between two round trips.
const PAUSE_NS: u64 = 200_000;
/// A datagram that is not back by then is lost.
const PATIENCE: Duration = Duration::from_millis(50);
/// Tries until the first datagram comes back: handshake and neighbours.
const FIRST: usize = 100;

impl Path {
    /// Measures round trips of datagrams. Returns the number of lost ones.
    fn datagrams(&self, count: u64, times: &mut Times) -> Result<u64, ExperimentError> {
        let to = self.addresses()?;
        let bind = |at: String| move || UdpSocket::bind(at);
        let echo = self.chain.device.run(bind(format!("0.0.0.0:{PORT}"))).and_then(|socket| socket);
        let echo = echo.map_err(failed)?;
        let ping = self.chain.plc.run(bind("0.0.0.0:0".into())).and_then(|socket| socket).map_err(failed)?;
        ping.connect((to.as_str(), PORT)).map_err(failed)?;
        for socket in [&echo, &ping] {
            socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&echo, &self.cpus[1..], &done));
            let measured = scope.spawn(|| measure(&ping, &self.cpus[..1], count, times)).join();
            done.store(true, Ordering::Relaxed);
            measured.map_err(|_| "the meter stopped")?
        })
    }
}

/// A machine's thread, as those of the other meters. Without the permission it has more noise.
fn as_machine(cpus: &[usize]) {
    let _ = sched::pin(cpus);
    let _ = sched::fifo(ENDS);
    sched::tighten_timers();
}

fn answer(socket: &UdpSocket, cpus: &[usize], done: &AtomicBool) {
    as_machine(cpus);
    let mut buffer = [0; PAYLOAD];
    while !done.load(Ordering::Relaxed) {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
}

fn measure(
    socket: &UdpSocket,
    cpus: &[usize],
    count: u64,
    times: &mut Times,
) -> Result<u64, ExperimentError> {
    as_machine(cpus);
    if !(0..FIRST).any(|_| matches!(round_trip(socket), Ok(Some(_)))) {
        return Err("no datagram comes back".into());
    }
    for _ in 0..count / 10 {
        round_trip(socket)?;
    }
    let mut lost = 0;
    for _ in 0..count {
        match round_trip(socket)? {
            Some(ns) => times.record(ns),
            None => lost += 1,
        }
        sleep_until(monotonic_ns() + PAUSE_NS);
    }
    Ok(lost)
}

/// Nanoseconds until a datagram is back, if it comes back.
fn round_trip(socket: &UdpSocket) -> Result<Option<u64>, ExperimentError> {
    let sent = monotonic_ns();
    let mut data = [0x5a; PAYLOAD];
    data[..8].copy_from_slice(&sent.to_be_bytes());
    // A neighbour that is not known yet is an error of the socket.
    if socket.send(&data).is_err() {
        sleep_until(monotonic_ns() + PATIENCE.as_nanos() as u64);
        return Ok(None);
    }
    let mut back = [0; PAYLOAD];
    loop {
        match socket.recv(&mut back) {
            Ok(_) if back[..8] == data[..8] => return Ok(Some(monotonic_ns() - sent)),
            // One that was counted as lost.
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                return Ok(None);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Adds the rows of all contenders that this machine has.
pub(super) fn run(
    report: &mut Report,
    options: &Options,
    all: &[Contender],
    (rounds, count): (usize, u64),
) -> Result<(), ExperimentError> {
    let all: Vec<Contender> = all.iter().copied().filter(|contender| contender.missing().is_none()).collect();
    let mut times = vec![Times::default(); all.len()];
    let mut lost = vec![0; all.len()];
    for round in 0..rounds {
        for turn in 0..all.len() {
            // Every second round goes backwards, so the order favours no contender.
            let at = if round % 2 == 0 { turn } else { all.len() - 1 - turn };
            options.progress(
                round * all.len() + turn,
                rounds * all.len(),
                &format!("UDP, {}", all[at].name()),
            );
            lost[at] += Path::build(all[at])?.datagrams(count, &mut times[at])?;
        }
    }
    options.progress(1, 1, "");
    for ((contender, times), lost) in all.iter().zip(&times).zip(&lost) {
        let values = [
            ("min", times.percentile_us(0.0)),
            ("p25", times.percentile_us(25.0)),
            ("median", times.percentile_us(50.0)),
            ("p75", times.percentile_us(75.0)),
            ("p99.9", times.percentile_us(99.9)),
            ("max", times.max_us()),
        ];
        for (name, value) in values {
            let row = Row::new(contender.name(), format!("UDP round trip {name}"), "µs");
            let row = if contender.is_ours() { row.antedated(value) } else { row.baseline(value) };
            report.row(row.note(super::noted(report, contender.note())));
        }
        report.check(format!("{}: no datagram was lost ({lost})", contender.name()), *lost == 0);
    }
    Ok(())
}
