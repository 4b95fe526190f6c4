//! Datagrams of WireGuard: a line for each, opened with a key log, and the frames of VXLAN within.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use antedate_channel::wireguard::{KeyLogEntry, Overheard};
use antedate_gateway::config::tunnel_keys::decode;
use antedate_host::fault::Fault;
use antedate_host::private_file;
use antedate_host::process;
use antedate_lab::tap::pcap::Pcap;
use antedate_wire::vxlan;
use antedate_wire::wireguard::{Initiation, Message, Transport};
use serde::Serialize;
use zeroize::Zeroizing;

use super::audit::{Audit, Number, Stream, alarm};
use super::ip::{datagram, udp_of};
use super::lines::{How, Lines};
use super::reader::{bare, ethertype};
use super::stats::{Counted, Packet};
use crate::capture::Source;
use crate::failure::Done;

/// Octets of the longest key log: a day's handshakes of some hundred peers.
const LOG_MAX: usize = 32 << 20;
/// The most handshakes that wait for their answer, and the most sessions.
const MOST: usize = 4096;
const REMEDY: &str = "name the file that `antedate gateway run --keylog` wrote";

/// A session and the direction: from its initiator, or to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    session: usize,
    from_initiator: bool,
}

/// A direction of a session, in the last lines.
#[derive(Debug, Serialize)]
struct Session {
    initiator: u32,
    responder: u32,
    from_initiator: bool,
    #[serde(flatten)]
    numbers: Stream,
}

/// A datagram as JSON.
#[derive(Debug, Default, Serialize)]
struct Line {
    seconds: f64,
    octets: usize,
    source: String,
    destination: String,
    kind: &'static str,
    /// The index of the session at the receiver, of transport data.
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vni: Option<u32>,
    /// The EtherType of the frame within.
    #[serde(skip_serializing_if = "Option::is_none")]
    ethertype: Option<String>,
    verdict: String,
}

/// The end of the output.
#[derive(Debug, Default, Serialize)]
struct Summary {
    frames: u64,
    datagrams: u64,
    opened: u64,
    refused: u64,
    streams: Vec<Session>,
}

/// Prints the datagrams of a capture of Ethernet, and the audit. Frames within go to `plain`.
pub(super) fn inspect(source: &Source, log: &Path, plain: Option<Pcap>, how: How) -> Done {
    let mut reader = Reader { log: load(log)?, ..Reader::default() };
    let mut lines = Lines::new(how, plain);
    source.read(|seconds, frame| {
        let Some((line, within)) = reader.see(frame) else { return };
        lines.print(&Line { seconds, ..line });
        if let Some(within) = within {
            lines.write(seconds, &within);
        }
    })?;
    let summary = reader.end();
    let reused = summary.streams.iter().map(|stream| stream.numbers.alarms()).sum();
    lines.end(&summary, reused)
}

/// Reads a key log, which only its owner may read.
fn load(file: &Path) -> Result<Vec<KeyLogEntry>, Fault> {
    let mut text = Zeroizing::new(vec![0; LOG_MAX + 1]);
    let length = private_file::read(file, process::user(), &mut text)?;
    let text = text.get(..length).and_then(|octets| std::str::from_utf8(octets).ok());
    let entries =
        entries(text.ok_or_else(|| Fault::of_file(file, "is not text, so it is no key log", REMEDY))?);
    let fault =
        |(line, what): (usize, &str)| Fault { line: Some(line), ..Fault::of_file(file, what, REMEDY) };
    let entries = entries.map_err(fault)?;
    if entries.is_empty() { Err(Fault::of_file(file, "has no session", REMEDY)) } else { Ok(entries) }
}

/// The sessions of a key log, in the format of Wireshark's dissector: an ephemeral key belongs to
/// the static keys above it, and a preshared key to the ephemeral key above it.
fn entries(text: &str) -> Result<Vec<KeyLogEntry>, (usize, &'static str)> {
    let mut entries: Vec<KeyLogEntry> = Vec::new();
    let (mut local, mut remote) = (None, None);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or((number, "is no line of a key log"))?;
        let key = decode(value).map(Zeroizing::new).ok_or((number, "has no key of 32 octets in Base64"))?;
        match name.trim() {
            "LOCAL_STATIC_PRIVATE_KEY" => local = Some(key),
            "REMOTE_STATIC_PUBLIC_KEY" => remote = Some(*key),
            "LOCAL_EPHEMERAL_PRIVATE_KEY" => {
                let (Some(local), Some(remote)) = (&local, remote) else {
                    return Err((number, "has no static keys above it"));
                };
                entries.push(KeyLogEntry {
                    local_static: local.clone(),
                    local_ephemeral: key,
                    remote_static: remote,
                    preshared: Zeroizing::default(),
                });
            }
            "PRESHARED_KEY" => match entries.last_mut() {
                Some(entry) => entry.preshared = key,
                None => return Err((number, "has no ephemeral key above it")),
            },
            _ => return Err((number, "is no line of a key log")),
        }
    }
    Ok(entries)
}

/// Keys, handshakes and sessions.
#[derive(Default)]
struct Reader {
    log: Vec<KeyLogEntry>,
    /// Initiations by the index of their sender.
    begun: BTreeMap<u32, Initiation>,
    sessions: Vec<Overheard>,
    audit: Audit<Way>,
    summary: Summary,
}

impl Reader {
    /// A frame of the capture: its line, and the frame within. `None`: it is no WireGuard.
    fn see(&mut self, frame: &[u8]) -> Option<(Line, Option<Vec<u8>>)> {
        self.summary.frames += 1;
        let (frame, _) = bare(frame);
        let (ends, datagram) = datagram(&frame)?;
        let message = Message::parse(datagram).ok()?;
        self.summary.datagrams += 1;
        let line = Line {
            octets: datagram.len(),
            source: ends[0].to_string(),
            destination: ends[1].to_string(),
            ..Line::default()
        };
        Some(match message {
            Message::Initiation(initiation) => {
                if self.begun.len() >= MOST {
                    self.begun.pop_first();
                }
                self.begun.insert(initiation.sender, initiation);
                (Line { kind: "initiation", verdict: "begins a handshake".into(), ..line }, None)
            }
            Message::Response(response) => {
                let begun = self.begun.get(&response.receiver);
                let read = |entry| Overheard::read(entry, begun?, &response);
                let verdict = match self.log.iter().rev().find_map(read) {
                    Some(session) if self.sessions.len() < MOST => {
                        self.sessions.push(session);
                        "a session whose keys are logged"
                    }
                    Some(_) => "one session more than this command follows",
                    None if begun.is_none() => "its initiation is not in the capture",
                    None => "of another session than those of the log",
                };
                (Line { kind: "response", verdict: verdict.into(), ..line }, None)
            }
            Message::CookieReply(_) => {
                (Line { kind: "cookie", verdict: "the sender is under load".into(), ..line }, None)
            }
            Message::Transport(transport) => self.transport(&transport, line),
        })
    }

    fn transport(&mut self, transport: &Transport<'_>, line: Line) -> (Line, Option<Vec<u8>>) {
        let (receiver, number) = (Some(transport.receiver), Some(transport.counter));
        let line = Line { kind: "data", receiver, number, ..line };
        let known: Vec<usize> = (0..self.sessions.len())
            .rev()
            .filter(|at| self.sessions.get(*at).is_some_and(|session| session.is_of(transport)))
            .collect();
        let open = |at: &usize| Some((*at, self.sessions.get(*at)?.open(transport)?));
        let Some((session, (packet, from_initiator))) = known.iter().find_map(open) else {
            self.summary.refused += u64::from(!known.is_empty());
            let verdict = if known.is_empty() {
                "encrypted: its handshake is not in the capture, or not in the log"
            } else {
                "refused: wrong tag"
            };
            return (Line { verdict: verdict.into(), ..line }, None);
        };
        self.summary.opened += 1;
        let content = (transport.packet, transport.tag);
        let (_, order) = self.audit.note(Way { session, from_initiator }, |_| transport.counter, content);
        let line = Line { order: Some(order), ..line };
        let (verdict, within) = match packet.first() {
            None => ("authentic, a keepalive", None),
            // No version of IP: Antedate's own messages.
            Some(first) if first >> 6 == 2 => {
                ("authentic, a message or a piece of a frame between Antedates", None)
            }
            Some(_) => match inner(&packet) {
                Some(within) => ("authentic", Some(within)),
                None => ("authentic, no VXLAN", None),
            },
        };
        let vni = within.as_ref().map(|(vni, _)| *vni);
        let within = within.map(|(_, frame)| frame.to_vec());
        let name = |frame: &Vec<u8>| Some(format!("{:04x}", ethertype(&bare(frame).0)?));
        let ethertype = within.as_ref().and_then(name);
        (Line { vni, ethertype, verdict: verdict.into(), ..line }, within)
    }

    fn end(self) -> Summary {
        let sessions = &self.sessions;
        let named = |(Way { session, from_initiator }, numbers): (Way, Stream)| {
            let known = sessions.get(session);
            let [initiator, responder] =
                known.map_or([0; 2], |session| [session.initiator, session.responder]);
            Session { initiator, responder, from_initiator, numbers }
        };
        Summary { streams: self.audit.streams().map(named).collect(), ..self.summary }
    }
}

/// The network and the frame of VXLAN in a packet of the tunnel.
fn inner(octets: &[u8]) -> Option<(u32, &[u8])> {
    let (_, content) = udp_of(octets)?;
    let (vni, frame) = vxlan::parse(content).ok()?;
    let [a, b, c] = vni.octets();
    (frame.len() >= 14).then_some((u32::from_be_bytes([0, a, b, c]), frame))
}

impl Packet for Line {
    fn counted(&self) -> Counted<'_> {
        Counted {
            seconds: self.seconds,
            octets: self.octets,
            source: &self.source,
            destination: &self.destination,
            kind: self.kind,
            within: self.ethertype.as_deref(),
            verdict: &self.verdict,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seconds,
            octets,
            source,
            destination,
            kind,
            receiver,
            number,
            order,
            vni,
            ethertype,
            verdict,
        } = self;
        write!(f, "{seconds:>13.6} {source} > {destination} {octets:>4} {kind:<10}")?;
        if let (Some(receiver), Some(number)) = (receiver, number) {
            write!(f, " {receiver:08x} #{number}")?;
        }
        order.iter().try_for_each(|order| write!(f, "{order}"))?;
        vni.iter().try_for_each(|vni| write!(f, " VNI {vni}"))?;
        ethertype.iter().try_for_each(|ethertype| write!(f, " [{ethertype}]"))?;
        write!(f, " {verdict}")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, datagrams, opened, refused, streams } = self;
        writeln!(f, "{frames} frames, {datagrams} of WireGuard, {opened} opened, {refused} refused")?;
        for Session { initiator, responder, from_initiator, numbers } in streams {
            let [from, to] = if *from_initiator { [initiator, responder] } else { [responder, initiator] };
            writeln!(f, "session {from:08x} > {to:08x}: {numbers}")?;
        }
        alarm(streams.iter().map(|stream| &stream.numbers)).map_or(Ok(()), |alarm| writeln!(f, "{alarm}"))
    }
}

#[cfg(test)]
mod tests {
    use antedate_gateway::config::tunnel_keys::encode;

    use super::*;

    fn log(names: &[(&str, u8)]) -> String {
        names.iter().map(|(name, key)| format!("{name} = {}\n", &*encode(&[*key; 32]))).collect()
    }

    #[test]
    fn key_log_is_read_as_wireshark_does() {
        let whole = [
            ("LOCAL_STATIC_PRIVATE_KEY", 1),
            ("REMOTE_STATIC_PUBLIC_KEY", 2),
            ("LOCAL_EPHEMERAL_PRIVATE_KEY", 3),
            ("PRESHARED_KEY", 4),
            ("LOCAL_EPHEMERAL_PRIVATE_KEY", 5),
        ];
        let read = entries(&format!("# a comment\n\n{}", log(&whole))).unwrap();
        let first =
            |e: &KeyLogEntry| (e.local_static[0], e.remote_static[0], e.local_ephemeral[0], e.preshared[0]);
        let keys: Vec<_> = read.iter().map(first).collect();
        assert_eq!(keys, [(1, 2, 3, 4), (1, 2, 5, 0)]);
        for (text, line) in [
            (log(&whole[2..]), 1),
            (log(&whole[3..4]), 1),
            (log(&[("OTHER", 1)]), 1),
            (format!("{}LOCAL_STATIC_PRIVATE_KEY = AAAA\n", log(&whole[..2])), 3),
            ("no line".into(), 1),
        ] {
            assert_eq!(entries(&text).err().map(|(line, _)| line), Some(line), "{text}");
        }
    }
}
