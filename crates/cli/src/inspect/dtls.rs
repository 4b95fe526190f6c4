//! Records of DTLS 1.2: a line for each, opened with pre-shared keys or logged master secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use antedate_channel::dtls::{
    CipherSuite, ContentType, Keyring as _, KnownKeys, Overheard, OverheardHandshake, Psk, Record,
};
use antedate_dtls::psk::PskFile;
use antedate_host::fault::Fault;
use antedate_host::hex::parse_hex;
use antedate_host::{private_file, process};
use antedate_lab::tap::pcap::Pcap;
use antedate_wire::dtls::handshake::{Alert, Fragment};
use antedate_wire::dtls::{MAX_PLAINTEXT, VERSION_1_2};
use serde::Serialize;
use zeroize::Zeroizing;

use super::audit::{Audit, Number, Stream, alarm};
use super::content::with_content;
use super::ip::{Ends, datagram};
use super::lines::{How, Lines};
use super::payload::Payload;
use super::reader::bare;
use super::stats::{Counted, Packet};
use crate::capture::Source;
use crate::failure::Done;

/// Octets of the longest key log.
const LOG_MAX: usize = 32 << 20;
/// The most pairs of ends, and the most connections.
const MOST: usize = 4096;
const REMEDY: &str = "name the key log of one end, with lines CLIENT_RANDOM RANDOM SECRET";

/// The files with keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    psk: Option<PskFile>,
    /// Master secrets by the client's random.
    log: BTreeMap<[u8; 32], Zeroizing<[u8; 48]>>,
}

impl Keys {
    pub(super) fn load(psk: Option<&Path>, log: Option<&Path>) -> Result<Self, Fault> {
        let psk = psk.map(PskFile::load).transpose()?;
        let log = log.map(load_log).transpose()?.unwrap_or_default();
        Ok(Self { psk, log })
    }
}

impl KnownKeys for Keys {
    fn psk(&self, identity: &[u8]) -> Option<Psk> {
        self.psk.as_ref()?.key(identity)
    }

    fn master(&self, client_random: &[u8; 32]) -> Option<Zeroizing<[u8; 48]>> {
        self.log.get(client_random).cloned()
    }
}

/// Reads a key log in the format of NSS, which only its owner may read.
fn load_log(file: &Path) -> Result<BTreeMap<[u8; 32], Zeroizing<[u8; 48]>>, Fault> {
    let mut text = Zeroizing::new(vec![0; LOG_MAX + 1]);
    let length = private_file::read(file, process::user(), &mut text)?;
    let text = text.get(..length).and_then(|octets| std::str::from_utf8(octets).ok());
    let log = entries(text.ok_or_else(|| Fault::of_file(file, "is not text, so it is no key log", REMEDY))?);
    let log = log.map_err(|line| Fault {
        line: Some(line),
        ..Fault::of_file(file, "is no line of a key log", REMEDY)
    })?;
    if log.is_empty() { Err(Fault::of_file(file, "has no master secret", REMEDY)) } else { Ok(log) }
}

/// The master secrets of a key log. Lines of TLS 1.3 have other labels, and are passed over.
fn entries(text: &str) -> Result<BTreeMap<[u8; 32], Zeroizing<[u8; 48]>>, usize> {
    let mut log = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(label), Some(random), Some(secret), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(number);
        };
        if label != "CLIENT_RANDOM" {
            continue;
        }
        let (mut key, mut value) = ([0; 32], Zeroizing::new([0; 48]));
        if !parse_hex(random, &mut key) || !parse_hex(secret, &mut value[..]) {
            return Err(number);
        }
        log.insert(key, value);
    }
    Ok(log)
}

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    connection: usize,
    from_client: bool,
}

/// A direction of a connection, in the last lines.
#[derive(Debug, Serialize)]
struct Direction {
    /// The ends of the handshake.
    client: String,
    server: String,
    from_client: bool,
    suite: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    identity: String,
    #[serde(flatten)]
    numbers: Stream,
}

/// A record as JSON.
#[derive(Debug, Default, Serialize)]
struct Line {
    seconds: f64,
    /// Of the whole record.
    octets: usize,
    source: String,
    destination: String,
    kind: String,
    epoch: u16,
    sequence: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    cid: String,
    /// The order of the number in its nonce.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Number>,
    verdict: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload>,
}

/// The end of the output.
#[derive(Debug, Default, Serialize)]
struct Summary {
    frames: u64,
    records: u64,
    opened: u64,
    refused: u64,
    streams: Vec<Direction>,
}

/// Prints the records of a capture of Ethernet, and the audit. Datagrams with the opened data go to
/// `plain`.
pub(super) fn inspect(source: &Source, keys: Keys, plain: Option<Pcap>, how: How) -> Done {
    let mut reader = Reader { keys, ..Reader::default() };
    let mut lines = Lines::new(how, plain);
    source.read(|seconds, frame| {
        let (frame, _) = bare(frame);
        for line in reader.see(&frame) {
            if let Some(content) = &line.payload
                && let Some(frame) = with_content(&frame, content.octets())
            {
                lines.write(seconds, &frame);
            }
            lines.print(&Line { seconds, ..line });
        }
    })?;
    let summary = reader.end();
    let reused = summary.streams.iter().map(|stream| stream.numbers.alarms()).sum();
    lines.end(&summary, reused)
}

/// A connection whose keys are known.
struct Known {
    client: SocketAddr,
    server: SocketAddr,
    overheard: Overheard,
}

/// Keys, handshakes and connections.
#[derive(Default)]
struct Reader {
    keys: Keys,
    /// By client and server.
    handshakes: BTreeMap<Ends, OverheardHandshake>,
    connections: Vec<Known>,
    audit: Audit<Way>,
    summary: Summary,
    scratch: Vec<u8>,
}

impl Reader {
    /// The lines of a frame's records; none if it has no DTLS.
    fn see(&mut self, frame: &[u8]) -> Vec<Line> {
        self.summary.frames += 1;
        let Some((ends, content)) = datagram(frame) else { return Vec::new() };
        let mut lines = Vec::new();
        let mut rest = content;
        // A datagram may begin with the messages that give the keys of its last record.
        while !rest.is_empty() {
            let base =
                Line { source: ends[0].to_string(), destination: ends[1].to_string(), ..Line::default() };
            let cid_len = self.cid_len(rest);
            if rest.first() == Some(&ContentType::Tls12Cid.number()) && cid_len.is_none() {
                if rest.get(1..3) == Some(&VERSION_1_2.to_be_bytes()) {
                    self.summary.records += 1;
                    let (octets, kind) = (rest.len(), name(ContentType::Tls12Cid));
                    let verdict = "encrypted, with a connection ID of no known handshake".into();
                    lines.push(Line { octets, kind, verdict, ..base });
                }
                break;
            }
            let Ok((record, behind)) = Record::parse(rest, cid_len.unwrap_or(0)) else { break };
            // Another protocol may have octets like these.
            if matches!(record.content_type, ContentType::Unknown(_)) {
                break;
            }
            let line = self.record(&record, ends, base_of(base, &record));
            lines.push(line);
            rest = behind;
        }
        lines
    }

    /// The length of the connection ID of the record in front, if it is of a known connection.
    fn cid_len(&self, rest: &[u8]) -> Option<usize> {
        let behind = rest.get(11..)?;
        let cids = |known: &Known| [true, false].map(|way| known.overheard.cid(way));
        let cids = self.connections.iter().rev().flat_map(cids);
        let mut cids = cids.filter(|cid| !cid.is_empty() && behind.starts_with(cid.as_slice()));
        cids.next().map(|cid| cid.len())
    }

    fn record(&mut self, record: &Record<'_>, ends: Ends, line: Line) -> Line {
        self.summary.records += 1;
        match (record.epoch, record.content_type) {
            (0, ContentType::Handshake) => self.handshake(record, ends, line),
            (0, ContentType::Alert) => {
                Line { verdict: format!("not protected: {}", alert(record.fragment)), ..line }
            }
            (0, _) => Line { verdict: "not protected".into(), ..line },
            _ => self.protected(record, ends, line),
        }
    }

    fn handshake(&mut self, record: &Record<'_>, [from, to]: Ends, line: Line) -> Line {
        let mut kinds = Vec::new();
        let mut rest = record.fragment;
        while let Ok((fragment, behind)) = Fragment::parse(rest) {
            rest = behind;
            let part = if fragment.octets.len() < fragment.length { " (a part)" } else { "" };
            kinds.push(format!("{:?}{part}", fragment.kind));
        }
        let is_hello = kinds.first().is_some_and(|kind| kind.starts_with("ClientHello"));
        let ways = [([from, to], true), ([to, from], false)];
        let known = ways.into_iter().find(|(ends, _)| self.handshakes.contains_key(ends));
        let (ends, from_client) = match known {
            Some(known) if !is_hello => known,
            _ => ([from, to], true),
        };
        let mut verdict = kinds.join(", ");
        if known.is_none() && !is_hello {
            verdict += ", of a handshake whose begin is not in the capture";
            return Line { verdict, ..line };
        }
        if self.handshakes.len() >= MOST && !self.handshakes.contains_key(&ends) {
            self.handshakes.pop_first();
        }
        let handshake = self.handshakes.entry(ends).or_default();
        match handshake.hear(record.fragment, from_client, &self.keys) {
            Some(Ok(_)) if self.connections.len() >= MOST => {
                verdict += "; one connection more than this command follows";
            }
            Some(Ok(overheard)) => {
                let [client, server] = ends;
                verdict += &format!("; its keys are known, {}", suite(overheard.suite()));
                self.connections.push(Known { client, server, overheard });
            }
            Some(Err(why)) => verdict += &format!("; it stays closed: {why}"),
            None => {}
        }
        Line { verdict, ..line }
    }

    fn protected(&mut self, record: &Record<'_>, [from, to]: Ends, line: Line) -> Line {
        let mut refused = false;
        let with_cid = record.content_type == ContentType::Tls12Cid;
        self.scratch.resize(MAX_PLAINTEXT + 1, 0);
        // The newest connection first: another handshake of the same ends replaced the former one.
        for (connection, known) in self.connections.iter_mut().enumerate().rev() {
            for from_client in [true, false] {
                let ends =
                    if from_client { [known.client, known.server] } else { [known.server, known.client] };
                let is_it = match with_cid {
                    true => known.overheard.cid(from_client).as_slice() == record.cid,
                    false => ends == [from, to],
                };
                if !is_it {
                    continue;
                }
                let Ok(opened) = known.overheard.open(record, from_client, &mut self.scratch) else {
                    refused = true;
                    continue;
                };
                self.summary.opened += 1;
                let number = shown(known.overheard.spoken(record), record.epoch);
                let content = (record.number(), record.fragment);
                let (_, order) = self.audit.note(Way { connection, from_client }, |_| number, content);
                let content = self.scratch.get(..opened.len).unwrap_or_default();
                let payload = opened.content_type == ContentType::ApplicationData;
                let payload = payload.then(|| Payload::new(content));
                let what = match opened.content_type {
                    ContentType::Alert => alert(content),
                    ContentType::Handshake => {
                        Fragment::parse(content).map(|(f, _)| format!("{:?}", f.kind)).unwrap_or_default()
                    }
                    _ => String::new(),
                };
                let verdict =
                    if what.is_empty() { "authentic".to_owned() } else { format!("authentic, {what}") };
                let kind = name(opened.content_type);
                return Line { kind, order: Some(order), verdict, payload, ..line };
            }
        }
        self.summary.refused += u64::from(refused);
        let verdict = match (refused, with_cid) {
            (true, _) => "refused: wrong tag",
            (false, true) => "encrypted, with a connection ID of no known handshake",
            (false, false) => "encrypted: its handshake is not in the capture, or its key is not known",
        };
        Line { verdict: verdict.into(), ..line }
    }

    fn end(self) -> Summary {
        let connections = &self.connections;
        let named = |(Way { connection, from_client }, numbers): (Way, Stream)| {
            let known = connections.get(connection)?;
            Some(Direction {
                client: known.client.to_string(),
                server: known.server.to_string(),
                from_client,
                suite: suite(known.overheard.suite()),
                identity: String::from_utf8_lossy(known.overheard.identity()).into_owned(),
                numbers,
            })
        };
        Summary { streams: self.audit.streams().filter_map(named).collect(), ..self.summary }
    }
}

fn base_of(base: Line, record: &Record<'_>) -> Line {
    Line {
        octets: record.len(),
        kind: name(record.content_type),
        epoch: record.epoch,
        sequence: record.sequence,
        cid: antedate_host::hex::hex(record.cid),
        ..base
    }
}

/// The number in a nonce without the epoch that most senders put in front of it.
const fn shown(spoken: u64, epoch: u16) -> u64 {
    if spoken >> 48 == epoch as u64 { spoken & ((1 << 48) - 1) } else { spoken }
}

fn name(content_type: ContentType) -> String {
    match content_type {
        ContentType::ChangeCipherSpec => "change",
        ContentType::Alert => "alert",
        ContentType::Handshake => "handshake",
        ContentType::ApplicationData => "data",
        ContentType::Tls12Cid => "cid",
        ContentType::Unknown(_) => "unknown",
    }
    .into()
}

/// The description of an alert.
fn alert(octets: &[u8]) -> String {
    Alert::parse(octets).map_or_else(|_| "malformed".into(), |alert| format!("{:?}", alert.description))
}

fn suite(number: u16) -> String {
    CipherSuite::from_number(number).map_or_else(|| format!("suite {number:04x}"), |suite| suite.to_string())
}

impl Packet for Line {
    fn counted(&self) -> Counted<'_> {
        Counted {
            seconds: self.seconds,
            octets: self.octets,
            source: &self.source,
            destination: &self.destination,
            kind: &self.kind,
            within: None,
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
            epoch,
            sequence,
            cid,
            order,
            verdict,
            payload,
        } = self;
        write!(f, "{seconds:>13.6} {source} > {destination} {octets:>4} {kind:<9} {epoch}/{sequence}")?;
        if !cid.is_empty() {
            write!(f, " CID {cid}")?;
        }
        order.iter().try_for_each(|order| write!(f, "{order}"))?;
        write!(f, " {verdict}")?;
        payload.iter().try_for_each(|payload| write!(f, ": {payload}"))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, records, opened, refused, streams } = self;
        writeln!(f, "{frames} frames, {records} records of DTLS, {opened} opened, {refused} refused")?;
        for Direction { client, server, from_client, suite, identity, numbers } in streams {
            let [from, to] = if *from_client { [client, server] } else { [server, client] };
            let identity = if identity.is_empty() { String::new() } else { format!(", {identity}") };
            writeln!(f, "{from} > {to} ({suite}{identity}): {numbers}")?;
        }
        alarm(streams.iter().map(|stream| &stream.numbers)).map_or(Ok(()), |alarm| writeln!(f, "{alarm}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_log_is_read_as_nss_writes_it() {
        let line = |label: &str| format!("{label} {} {}\n", "ab".repeat(32), "cd".repeat(48));
        let log = entries(&format!("# a comment\n\n{}{}", line("CLIENT_RANDOM"), line("EXPORTER_SECRET")));
        let log = log.unwrap();
        assert_eq!(log.len(), 1);
        assert_eq!(log.get(&[0xab; 32]).map(|secret| secret[..] == [0xcd; 48]), Some(true));
        for text in ["CLIENT_RANDOM ab cd", "CLIENT_RANDOM", &format!("x\n{}", line("CLIENT_RANDOM"))] {
            assert_eq!(entries(text).err(), Some(1), "{text}");
        }
    }
}
