//! `antedate gateway ping [PEER]`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use antedate_gateway::config::keys::channels;
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
    /// The peer: its name, SCI, address on the uplink, or address in the tunnel of an overlay.
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
    /// Whether it was asked over the second uplink.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    second_uplink: bool,
    sent: u32,
    answered: u32,
    /// Of the answered echoes, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_us: Option<RoundTrip>,
    /// Octets of the longest frame in one piece, there and back.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<Longest>,
    /// Whether a stock end of an overlay answered an echo request in the tunnel.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stock: bool,
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
    /// `None`: the other end does not answer with a chosen length.
    #[serde(skip_serializing_if = "Option::is_none")]
    back: Option<u64>,
}

/// A peer on one uplink.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    peer: String,
    second: bool,
}

impl Ping {
    pub(crate) fn run(self) -> Done {
        let socket = &self.running.socket;
        let reply = ask(socket, Any::Status {})?;
        let Some(status) = reply.status else {
            return Err(Fault::of_file(socket, reply.message, reply.remedy).into());
        };
        let peers = targets(&status, self.peer.as_deref());
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
        let silent: Vec<_> = rows.iter().filter(|row| row.answered == 0).map(Row::name).collect();
        if silent.is_empty() {
            Ok(())
        } else {
            Err(Failure::Verdict(format!("no answer: {}", silent.join(", "))))
        }
    }
}

/// The peers to ask: the named one or all, on each uplink.
fn targets(status: &Status, asked: Option<&str>) -> Vec<Target> {
    let first = |peer: String| Target { peer, second: false };
    let Some(overlay) = &status.overlay else {
        return asked
            .map_or_else(|| peers(status), |peer| vec![peer.to_owned()])
            .into_iter()
            .map(first)
            .collect();
    };
    let is = |name: &str, address: &str| asked.is_none_or(|asked| asked == name || asked == address);
    let chosen = overlay.peers.iter().filter(|peer| is(&peer.name, &peer.address));
    let mut targets = Vec::new();
    for peer in chosen {
        targets.push(first(peer.name.clone()));
        if overlay.second_uplink.is_some() && !peer.second_endpoint.is_empty() {
            targets.push(Target { peer: peer.name.clone(), second: true });
        }
    }
    match asked {
        // The gateway says that it has no such peer.
        Some(asked) if targets.is_empty() => vec![first(asked.to_owned())],
        _ => targets,
    }
}

/// All peers of a gateway with MACsec.
fn peers(status: &Status) -> Vec<String> {
    let Some(macsec) = &status.macsec else { return Vec::new() };
    if let Some(agreement) = &macsec.agreement {
        let live = agreement.members.iter().filter(|member| member.live);
        return live.map(|member| member.sci.clone()).collect();
    }
    let sci = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
    let all: Vec<u64> = macsec.receive.iter().map(|sa| sci(&sa.sci)).collect();
    // The express channel of a gateway differs in the highest bit of the port.
    let usual = |text: &str| sci(text) & EXPRESS == 0 || !all.contains(&(sci(text) ^ EXPRESS));
    let members = macsec.receive.iter().filter(|sa| usual(&sa.sci) && !channels::is_further(&sa.member));
    let mut names: Vec<String> = members.map(|sa| sa.member.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn row(socket: &Path, target: &Target, count: u32) -> Result<Row, Failure> {
    let Target { peer, second } = target;
    let echo = |octets: u64, answer: u64| -> Result<Result<Echo, (String, String)>, Failure> {
        let [octets, answer_octets] =
            [octets, answer].map(|octets| u16::try_from(octets).unwrap_or(u16::MAX));
        let request = Request { peer: peer.clone(), octets, answer_octets, second_uplink: *second };
        let reply = ask(socket, Any::Ping(request))?;
        Ok(reply.echo.ok_or((reply.message, reply.remedy)))
    };
    let mut row = Row { peer: peer.clone(), second_uplink: *second, ..Row::default() };
    let (mut took, mut longest, mut sized) = (Vec::new(), 0, false);
    for number in 0..count {
        row.sent += 1;
        match echo(0, 0)? {
            Ok(answer) => {
                took.push(answer.round_trip_us);
                (longest, sized) = (answer.longest, answer.answer_octets > 0);
                row.stock = answer.stock;
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
        let mut returns = |octets| Ok(echo(0, octets)?.is_ok_and(|answer| answer.answer_octets == octets));
        let back = if sized { Some(search(longest, &mut returns)?) } else { None };
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

impl Row {
    /// The peer, and the uplink if it is the second.
    fn name(&self) -> String {
        let on = if self.second_uplink { ", second uplink" } else { "" };
        format!("{}{on}", self.peer)
    }
}

fn page(rows: &[Row]) -> String {
    let mut page = String::new();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = write!(page, "{}: {} of {} echoes answered", row.name(), row.answered, row.sent);
        if let Some(RoundTrip { min, median, p99 }) = row.round_trip_us {
            let _ =
                write!(page, ", round trip {min:.0} µs at least, median {median:.0} µs, 99 % {p99:.0} µs");
        }
        if let Some(Longest { there, back }) = row.longest {
            let _ = write!(page, ", longest frame in one piece {there} octets there");
            if let Some(back) = back {
                let _ = write!(page, ", {back} back");
            }
        }
        page.push('\n');
        if row.stock {
            page.push_str(
                "    a stock end: it answered echo requests in the tunnel; the way back is not measured\n",
            );
        } else if row.longest.is_some_and(|longest| longest.back.is_none()) {
            page.push_str("    an earlier Antedate: the way back is not measured\n");
        }
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
    fn further_channels_are_no_peers() {
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
            sa("0200000000010002", "hall#2"),
            sa("0200000000028001", "press"),
        ];
        let status = Status { macsec: Some(Macsec { receive, ..Macsec::default() }), ..Status::default() };
        let first = |peer: &str| Target { peer: peer.into(), second: false };
        assert_eq!(targets(&status, None), [first("hall"), first("press")]);
        assert_eq!(targets(&status, Some("elsewhere")), [first("elsewhere")]);
    }

    #[test]
    fn overlay_peers_are_asked_on_each_uplink() {
        use antedate_gateway::run::status::{Overlay, OverlayPeer, SecondUplink};
        let peer = |name: &str, second: &str| OverlayPeer {
            name: name.into(),
            address: format!("address of {name}"),
            second_endpoint: second.into(),
            ..OverlayPeer::default()
        };
        let peers = vec![peer("hall", "198.51.100.2:51820"), peer("press", "")];
        let overlay = Overlay { peers, second_uplink: Some(SecondUplink::default()), ..Overlay::default() };
        let status = Status { overlay: Some(overlay), ..Status::default() };
        let target = |peer: &str, second| Target { peer: peer.into(), second };
        let hall = [target("hall", false), target("hall", true)];
        assert_eq!(targets(&status, None), [&hall[..], &[target("press", false)]].concat());
        assert_eq!(targets(&status, Some("address of hall")), hall);
        assert_eq!(targets(&status, Some("lab")), [target("lab", false)]);
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
        let longest = Some(Longest { there: 1514, back: Some(1400) });
        let round_trip_us = Some(RoundTrip { min: 80.0, median: 90.4, p99: 120.0 });
        let good = Row { peer: "a".into(), sent: 3, answered: 3, round_trip_us, longest, ..Row::default() };
        let fault = "b is no Antedate gateway, and has no echo".to_owned();
        let bad = Row { peer: "b".into(), sent: 3, fault, remedy: "see".into(), ..Row::default() };
        let longest = Some(Longest { there: 1404, back: None });
        let stock = Row { peer: "c".into(), sent: 3, answered: 3, longest, stock: true, ..Row::default() };
        let old =
            Row { peer: "d".into(), sent: 3, answered: 3, longest, second_uplink: true, ..Row::default() };
        let page = page(&[good, bad, stock, old]);
        assert!(
            page.contains("a: 3 of 3 echoes answered, round trip 80 µs at least, median 90 µs, 99 % 120 µs")
        );
        assert!(page.contains("longest frame in one piece 1514 octets there, 1400 back\n"), "{page}");
        assert!(page.contains("b: 0 of 3 echoes answered\n    b is no Antedate"), "{page}");
        assert!(
            page.contains(
                "c: 3 of 3 echoes answered, longest frame in one piece 1404 octets there\n    a stock end"
            ),
            "{page}"
        );
        assert!(
            page.contains("d, second uplink: 3 of 3") && page.contains("there\n    an earlier Antedate"),
            "{page}"
        );
    }
}
