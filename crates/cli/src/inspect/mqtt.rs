//! PUBLISH packets of MQTT in TCP: a line for each, and the payload of its envelope with the keys of
//! the group.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;

use antedate_channel::mqtt::{Dropped, Group};
use antedate_host::fault::{Fault, Faults};
use antedate_mqtt::file::GroupFile;
use antedate_wire::mqtt::Envelope;
use serde::Serialize;

use super::audit::{Audit, Number, Stream, alarm};
use super::ip::Ends;
use super::lines::{How, Lines};
use super::payload::Payload;
use super::publish::{self, Publish, Version};
use super::reader::bare;
use super::stats::{Counted, Packet};
use super::stream::{Came, Direction, segment};
use crate::capture::Source;
use crate::failure::Done;

/// The port of MQTT without TLS. A connection on another port is known by its CONNECT.
const PORT: u16 = 1883;
/// The most connections that are followed at a time.
const MOST: usize = 4096;
/// Octets of the longest packet that is put together.
const PACKET_MAX: usize = 16 << 20;

/// A group, and its keys.
pub(super) struct Keyed {
    file: GroupFile,
    group: Group,
}

/// Reads group files with keys.
pub(super) fn load(files: &[PathBuf]) -> Result<Vec<Keyed>, Faults> {
    let mut faults = Vec::new();
    let mut all = Vec::new();
    for file in files {
        match GroupFile::load(file) {
            Ok(group) if group.keys.is_empty() => faults.push(Fault::of_file(
                file,
                "has no [[key]]: rotations bring the keys of its members",
                "give the file of the group's manager",
            )),
            Ok(file) => all.push(Keyed { group: file.to_group(), file }),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(all) } else { Err(Faults::new(faults)) }
}

/// A publisher under the key of an epoch, in its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sender {
    group: String,
    publisher: String,
    epoch: u32,
}

/// The same, in the last lines.
#[derive(Debug, Serialize)]
struct Publisher {
    group: String,
    publisher: String,
    epoch: u32,
    #[serde(flatten)]
    numbers: Stream,
}

/// A PUBLISH as JSON.
#[derive(Debug, Default, Serialize)]
struct Line {
    seconds: f64,
    /// Of the payload on the wire.
    octets: usize,
    source: String,
    destination: String,
    topic: String,
    qos: u8,
    retained: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
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
    publishes: u64,
    opened: u64,
    refused: u64,
    streams: Vec<Publisher>,
}

/// Prints the publishes of a capture of Ethernet, and the audit.
pub(super) fn inspect(source: &Source, groups: Vec<Keyed>, how: How) -> Done {
    let mut reader = Reader { groups, ..Reader::default() };
    let mut lines = Lines::new(how, None);
    source.read(|seconds, frame| {
        for line in reader.see(&bare(frame).0) {
            lines.print(&Line { seconds, ..line });
        }
    })?;
    let summary = reader.end();
    let reused = summary.streams.iter().map(|stream| stream.numbers.alarms()).sum();
    lines.end(&summary, reused)
}

/// A direction of a connection.
#[derive(Default)]
struct Way {
    octets: Direction,
    /// Names of topics by their aliases, which hold in one direction.
    aliases: HashMap<u16, String>,
}

/// A connection; its ways by sender, the lower end first.
#[derive(Default)]
struct Connection {
    ways: [Way; 2],
    /// Its CONNECT was seen.
    version: Option<Version>,
}

/// Keys and connections.
#[derive(Default)]
struct Reader {
    groups: Vec<Keyed>,
    connections: BTreeMap<Ends, Connection>,
    audit: Audit<Sender>,
    summary: Summary,
}

impl Reader {
    /// The lines of a frame's packets: of those that end in it.
    fn see(&mut self, frame: &[u8]) -> Vec<Line> {
        self.summary.frames += 1;
        let Some(segment) = segment(frame) else { return Vec::new() };
        let [from, to] = segment.ends;
        let (ends, way) = if from <= to { ([from, to], 0) } else { ([to, from], 1) };
        let begins = publish::connect(segment.payload);
        let is_known = self.connections.contains_key(&ends);
        if !is_known && begins.is_none() && from.port() != PORT && to.port() != PORT {
            return Vec::new();
        }
        if !is_known && self.connections.len() >= MOST {
            self.connections.pop_first();
        }
        let connection = self.connections.entry(ends).or_default();
        let Some(place) = connection.ways.get_mut(way) else { return Vec::new() };
        if place.octets.take(&segment) == Came::Anew {
            place.aliases.clear();
        }
        connection.version = begins.or(connection.version);
        let (mut published, mut rest) = (Vec::new(), place.octets.octets.as_slice());
        let taken = loop {
            match publish::whole(rest) {
                Ok(Some(len)) => {
                    let (packet, behind) = rest.split_at(len);
                    published.extend(publish::read(packet, connection.version, &mut place.aliases));
                    rest = behind;
                }
                Ok(None) => break rest.len() <= PACKET_MAX,
                Err(publish::MalformedError) => break false,
            }
        };
        // The next segment may begin with a packet.
        let done = place.octets.octets.len() - if taken { rest.len() } else { 0 };
        place.octets.octets.drain(..done);
        let base = |publish: &Publish| Line {
            octets: publish.payload.len(),
            source: from.to_string(),
            destination: to.to_string(),
            topic: publish.topic.clone(),
            qos: publish.qos,
            retained: publish.retained,
            ..Line::default()
        };
        published.iter().map(|publish| self.publish(publish, base(publish))).collect()
    }

    fn publish(&mut self, publish: &Publish, line: Line) -> Line {
        self.summary.publishes += 1;
        let Publish { topic, payload, .. } = publish;
        if topic.is_empty() {
            return Line { verdict: "its topic's alias was given before the capture".into(), ..line };
        }
        let envelope = Envelope::parse(payload);
        let line = match &envelope {
            Ok(envelope) => Line {
                publisher: Some(String::from_utf8_lossy(envelope.publisher).into_owned()),
                epoch: Some(envelope.epoch),
                number: Some(envelope.sequence),
                ..line
            },
            Err(_) => line,
        };
        let Some(Keyed { file, group }) = self.groups.iter_mut().find(|keyed| keyed.file.covers(topic))
        else {
            let verdict = match envelope {
                Ok(_) => "an envelope of another group",
                Err(_) => "not protected",
            };
            return Line { verdict: verdict.into(), ..line };
        };
        if payload.is_empty() {
            return Line { verdict: "empty: takes a retained message away".into(), ..line };
        }
        let name = file.sealed_name(topic);
        let mut content = Vec::new();
        let opened = group.authenticate(&name, payload, &mut content);
        let opened = opened.and_then(|opened| file.verified(&name, &opened, &mut content).map(|()| opened));
        match opened {
            Ok(opened) => {
                self.summary.opened += 1;
                let sender = Sender {
                    group: file.group.clone(),
                    publisher: String::from_utf8_lossy(&opened.publisher).into_owned(),
                    epoch: opened.epoch,
                };
                let (_, order) = self.audit.note(sender, |_| opened.sequence, (&*name, payload));
                let verdict = if file.is_signed(&name) { "authentic, signed" } else { "authentic" };
                let payload = Some(Payload::new(&content));
                Line { order: Some(order), verdict: verdict.into(), payload, ..line }
            }
            Err(Dropped::NotEnvelope(why)) => {
                self.summary.refused += 1;
                Line { verdict: format!("refused: not protected on a protected topic ({why})"), ..line }
            }
            Err(why) => {
                self.summary.refused += 1;
                Line { verdict: format!("refused: {why}"), ..line }
            }
        }
    }

    fn end(self) -> Summary {
        let named =
            |(Sender { group, publisher, epoch }, numbers)| Publisher { group, publisher, epoch, numbers };
        Summary { streams: self.audit.streams().map(named).collect(), ..self.summary }
    }
}

impl Packet for Line {
    fn counted(&self) -> Counted<'_> {
        Counted {
            seconds: self.seconds,
            octets: self.octets,
            source: &self.source,
            destination: &self.destination,
            kind: "mqtt",
            within: Some(&self.topic),
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
            topic,
            qos,
            retained,
            publisher,
            epoch,
            number,
            order,
            verdict,
            payload,
        } = self;
        write!(f, "{seconds:>13.6} {source} > {destination} {octets:>4} {topic:?} QoS {qos}")?;
        if *retained {
            f.write_str(" retained")?;
        }
        if let (Some(publisher), Some(epoch), Some(number)) = (publisher, epoch, number) {
            write!(f, " {publisher:?} epoch {epoch} #{number}")?;
        }
        order.iter().try_for_each(|order| write!(f, "{order}"))?;
        write!(f, " {verdict}")?;
        payload.iter().try_for_each(|payload| write!(f, ": {payload}"))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, publishes, opened, refused, streams } = self;
        writeln!(f, "{frames} frames, {publishes} publishes, {opened} opened, {refused} refused")?;
        for Publisher { group, publisher, epoch, numbers } in streams {
            writeln!(f, "{publisher:?} of {group:?}, epoch {epoch}: {numbers}")?;
        }
        alarm(streams.iter().map(|stream| &stream.numbers)).map_or(Ok(()), |alarm| writeln!(f, "{alarm}"))
    }
}
