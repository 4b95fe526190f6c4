//! `antedate gateway ping [PEER]`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use antedate_gateway::run::control::{Echo, Ping as Request, Request as Any, ask};
use antedate_gateway::run::status::Status;
use antedate_host::fault::Fault;
use clap::Args;
use serde::Serialize;

use super::Running;
use crate::failure::{Done, Failure};
use crate::output;

/// The pause between echoes.
const PAUSE: Duration = Duration::from_millis(100);
/// The bit of an SCI that an express channel inverts.
const EXPRESS: u64 = 0x8000;
/// Tries of a length before it counts as not carried.
const TRIES: usize = 2;

#[derive(Args)]
pub(crate) struct Ping {
    /// The peer: its SCI, its address on the uplink, or its name in the key file.
    /// All by default.
    #[arg(value_name = "PEER")]
    peer: Option<String>,
    #[command(flatten)]
    running: Running,
    /// Number of echoes for the round trip.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Write the result as JSON to FILE, or to standard output without one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// The result for one peer.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Row {
    peer: String,
    sent: u32,
    answered: u32,
    /// Of the answered echoes, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_us: Option<RoundTrip>,
    /// Octets of the longest frame in one piece, there and back.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<Longest>,
    /// Why there is no answer, and the remedy.
    #[serde(skip_serializing_if = "String::is_empty")]
    fault: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct RoundTrip {
    min: f64,
    median: f64,
    p99: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Longest {
    there: u64,
    back: u64,
}

impl Ping {
    pub(crate) fn run(self) -> Done {
        let socket = &self.running.socket;
        let reply = ask(socket, Any::Status {})?;
        let Some(status) = reply.status else {
            return Err(Fault::of_file(socket, reply.message, reply.remedy).into());
        };
        let peers = self.peer.map_or_else(|| peers(&status), |peer| vec![peer]);
        if peers.is_empty() {
            let fault = Fault::of_file(
                socket,
                "there is no other gateway to ask",
                "see `antedate gateway status`, and the manual's chapter \"When it does not work\"",
            );
            return Err(fault.into());
        }
        let mut rows = Vec::new();
        for peer in peers {
            rows.push(row(socket, &peer, self.count)?);
        }
        match &self.json {
            Some(file) => output::json(file, &rows)?,
            None => output::print(&page(&rows))?,
        }
        let silent: Vec<_> =
            rows.iter().filter(|row| row.answered == 0).map(|row| row.peer.as_str()).collect();
        if silent.is_empty() {
            Ok(())
        } else {
            Err(Failure::Verdict(format!("no answer: {}", silent.join(", "))))
        }
    }
}

/// All peers of a gateway.
fn peers(status: &Status) -> Vec<String> {
    if let Some(overlay) = &status.overlay {
        return overlay.peers.iter().map(|peer| peer.name.clone()).collect();
    }
    let Some(macsec) = &status.macsec else { return Vec::new() };
    if let Some(agreement) = &macsec.agreement {
        let live = agreement.members.iter().filter(|member| member.live);
        return live.map(|member| member.sci.clone()).collect();
    }
    let sci = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
    let all: Vec<u64> = macsec.receive.iter().map(|sa| sci(&sa.sci)).collect();
    // The express channel of a gateway differs in the highest bit of the port.
    let usual = |text: &str| sci(text) & EXPRESS == 0 || !all.contains(&(sci(text) ^ EXPRESS));
    let members = macsec.receive.iter().filter(|sa| usual(&sa.sci));
    let mut names: Vec<String> = members.map(|sa| sa.member.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn row(socket: &Path, peer: &str, count: u32) -> Result<Row, Failure> {
    let echo = |octets: u64, answer: u64| -> Result<Result<Echo, (String, String)>, Failure> {
        let [octets, answer_octets] =
            [octets, answer].map(|octets| u16::try_from(octets).unwrap_or(u16::MAX));
        let request = Request { peer: peer.to_owned(), octets, answer_octets };
        let reply = ask(socket, Any::Ping(request))?;
        Ok(reply.echo.ok_or((reply.message, reply.remedy)))
    };
    let mut row = Row { peer: peer.to_owned(), ..Row::default() };
    let (mut took, mut longest) = (Vec::new(), 0);
    for number in 0..count {
        row.sent += 1;
        match echo(0, 0)? {
            Ok(answer) => {
                took.push(answer.round_trip_us);
                longest = answer.longest;
            }
            Err(why) => (row.fault, row.remedy) = why,
        }
        // The first three decide whether anyone is there.
        if took.is_empty() && number == 2 {
            return Ok(row);
        }
        thread::sleep(PAUSE);
    }
    row.answered = took.len() as u32;
    row.round_trip_us = round_trip(took);
    if row.answered > 0 && longest > 0 {
        let there =
            search(longest, |octets| Ok(echo(octets, 0)?.is_ok_and(|answer| answer.octets == octets)))?;
        let back =
            search(
                longest,
                |octets| Ok(echo(0, octets)?.is_ok_and(|answer| answer.answer_octets == octets)),
            )?;
        row.longest = Some(Longest { there, back });
    }
    Ok(row)
}

/// The greatest length up to `longest` that is carried.
fn search(longest: u64, mut carried: impl FnMut(u64) -> Result<bool, Failure>) -> Result<u64, Failure> {
    let mut tried = |octets| -> Result<bool, Failure> {
        for _ in 0..TRIES {
            if carried(octets)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    if tried(longest)? {
        return Ok(longest);
    }
    // A short echo was answered.
    let (mut low, mut high) = (60, longest.max(61));
    while high - low > 1 {
        let middle = low.midpoint(high);
        if tried(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

fn round_trip(mut took: Vec<f64>) -> Option<RoundTrip> {
    took.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| took.get((took.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    Some(RoundTrip { min: at(0)?, median: at(50)?, p99: at(99)? })
}

fn page(rows: &[Row]) -> String {
    let mut page = String::new();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = write!(page, "{}: {} of {} echoes answered", row.peer, row.answered, row.sent);
        if let Some(RoundTrip { min, median, p99 }) = row.round_trip_us {
            let _ =
                write!(page, ", round trip {min:.0} µs at least, median {median:.0} µs, 99 % {p99:.0} µs");
        }
        if let Some(Longest { there, back }) = row.longest {
            let _ = write!(page, ", longest frame in one piece {there} octets there, {back} back");
        }
        page.push('\n');
        if !row.fault.is_empty() {
            let _ = writeln!(page, "    {}\n    remedy: {}", row.fault, row.remedy);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_carried_frame_is_found() {
        for carried in [60, 61, 100, 1399, 1513, 1514] {
            let mut asked = 0;
            let found = search(1514, |octets| {
                asked += 1;
                Ok(octets <= carried)
            });
            assert!(found.is_ok_and(|found| found == carried), "{carried}");
            assert!(asked <= 26, "{asked}");
        }
    }

    #[test]
    fn express_channels_are_no_peers() {
        use antedate_gateway::run::status::{Macsec, ReceiveSa};
        let sa = |sci: &str, member: &str| ReceiveSa {
            sci: sci.into(),
            member: member.into(),
            an: 0,
            lowest_pn: 1,
        };
        let receive = vec![
            sa("0200000000010001", "hall"),
            sa("0200000000018001", "hall-express"),
            sa("0200000000028001", "press"),
        ];
        let status = Status { macsec: Some(Macsec { receive, ..Macsec::default() }), ..Status::default() };
        assert_eq!(peers(&status), ["hall", "press"]);
    }

    #[test]
    fn round_trips_are_ranked() {
        let of = |took: &[f64]| round_trip(took.to_vec());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(RoundTrip { min: 1.0, median: 2.0, p99: 3.0 }));
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(of(&hundred), Some(RoundTrip { min: 1.0, median: 50.0, p99: 99.0 }));
    }

    #[test]
    fn page_names_faults() {
        let longest = Some(Longest { there: 1514, back: 1400 });
        let round_trip_us = Some(RoundTrip { min: 80.0, median: 90.4, p99: 120.0 });
        let good = Row { peer: "a".into(), sent: 3, answered: 3, round_trip_us, longest, ..Row::default() };
        let fault = "b is no Antedate gateway, and has no echo".to_owned();
        let bad = Row { peer: "b".into(), sent: 3, fault, remedy: "see".into(), ..Row::default() };
        let page = page(&[good, bad]);
        assert!(
            page.contains("a: 3 of 3 echoes answered, round trip 80 µs at least, median 90 µs, 99 % 120 µs")
        );
        assert!(page.contains("longest frame in one piece 1514 octets there, 1400 back\n"), "{page}");
        assert!(page.contains("b: 0 of 3 echoes answered\n    b is no Antedate"), "{page}");
    }
}
