//! Frames of GOOSE and sampled values: a line for each, checked and opened with the group's key, and
//! the audit of their numbers.

use std::fmt;
use std::path::Path;

use antedate_channel::goose::{Dropped, Form, Subscriber};
use antedate_wire::goose::{Message, Repr};
use antedate_wire::{EtherType, EthernetAddress, VlanTagStack, sampled};
use serde::Serialize;

use super::audit::{Audit, Number, Stream, alarm};
use super::lines::{How, Lines};
use super::stats::{Counted, Packet};
use crate::capture::Source;
use crate::failure::{Done, Failure};
use crate::goose;
use crate::goose::Secret;

/// A publisher's numbers, in the last lines.
#[derive(Debug, Serialize)]
struct Publisher {
    source: String,
    #[serde(flatten)]
    numbers: Stream,
}

/// A frame as JSON.
#[derive(Debug, Default, Serialize)]
struct Line {
    seconds: f64,
    octets: usize,
    source: String,
    destination: String,
    kind: &'static str,
    appid: String,
    /// The control block, or the stream of sampled values.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// The event, of GOOSE.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<u32>,
    /// The message of the event, or the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u32>,
    /// The number of the IV.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Number>,
    verdict: String,
}

/// The end of the output.
#[derive(Debug, Default, Serialize)]
struct Summary {
    frames: u64,
    messages: u64,
    authentic: u64,
    refused: u64,
    streams: Vec<Publisher>,
}

/// Prints the messages of a capture of Ethernet, and the audit.
pub(super) fn inspect(source: &Source, (key, key_number): (&Path, u32), how: How) -> Done {
    let secret = Secret::load(key)?;
    let mut reader = Reader { secret, key_number, audit: Audit::default(), summary: Summary::default() };
    let mut lines = Lines::new(how, None);
    let mut failed = None;
    source.read(|seconds, frame| match reader.see(frame) {
        Ok(Some(line)) => lines.print(&Line { seconds, ..line }),
        Ok(None) => {}
        Err(error) => failed = Some(error),
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let summary = reader.end();
    let reused = summary.streams.iter().map(|stream| stream.numbers.alarms()).sum();
    lines.end(&summary, reused)
}

struct Reader {
    secret: Secret,
    key_number: u32,
    audit: Audit<[u8; 6]>,
    summary: Summary,
}

/// What a message tells of itself.
struct Told {
    name: String,
    state: Option<u32>,
    sequence: u32,
}

impl Told {
    fn of_goose(message: &Message<'_>) -> Self {
        let name = text(message.publisher.gocb_ref);
        Self { name, state: Some(message.st_num), sequence: message.sq_num }
    }

    fn of_sampled(message: &sampled::Message<'_>) -> Option<Self> {
        let first = message.asdus.iter().next()?;
        Some(Self { name: text(first.sv_id), state: None, sequence: first.smp_cnt.into() })
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// A message with its extension, whose length is the low half of Reserved1: nothing protects octets behind
/// it.
fn without_padding(message: &[u8]) -> &[u8] {
    let half = |at: usize| {
        message.get(at..at + 2).map_or(0, |two| usize::from(u16::from_be_bytes([two[0], two[1]])))
    };
    message.get(..half(2) + (half(4) & 0xff)).unwrap_or(message)
}

impl Reader {
    /// A frame of the capture. `None`: it is neither GOOSE nor sampled values.
    fn see(&mut self, frame: &[u8]) -> Result<Option<Line>, Failure> {
        self.summary.frames += 1;
        let Ok(stack) = VlanTagStack::parse(frame) else { return Ok(None) };
        let kind = match stack.ethertype {
            EtherType::Goose => "goose",
            EtherType::SampledValues => "sampled",
            _ => return Ok(None),
        };
        let Some((destination, source)) = ends(frame) else { return Ok(None) };
        self.summary.messages += 1;
        let rest = frame.get(stack.payload..).unwrap_or_default();
        let appid = Repr::parse(rest).map_or_else(|_| "?".to_owned(), |repr| format!("{:04x}", repr.appid));
        let line = Line {
            octets: frame.len(),
            source: EthernetAddress(source).to_string(),
            destination: EthernetAddress(destination).to_string(),
            kind,
            appid,
            ..Line::default()
        };
        let mut refused = Dropped::Malformed;
        // Nothing in a frame tells the form. A frame that is replayed or late is opened too.
        for form in [Form::Authenticated, Form::Encrypted] {
            let key = goose::key(&self.secret)?;
            let mut subscriber = Subscriber::new(key, self.key_number, form, 0);
            let told = if kind == "goose" {
                subscriber.receive(frame).map(|message| Some(Told::of_goose(&message)))
            } else {
                subscriber.receive_sampled(frame).map(|message| Told::of_sampled(&message))
            };
            match told {
                Ok(told) => {
                    let number =
                        subscriber.publishers().next().map_or(0, |(_, _, next)| next.saturating_sub(1));
                    let content = (destination, without_padding(rest));
                    return Ok(Some(self.authentic(line, form, told, (source, number), content)));
                }
                Err(why) => refused = why,
            }
        }
        let verdict = match refused {
            Dropped::Unprotected => "not protected".to_owned(),
            why => {
                self.summary.refused += 1;
                format!("refused: {}", reason(why))
            }
        };
        let clear = if kind == "goose" {
            Message::parse(rest).ok().map(|message| Told::of_goose(&message))
        } else {
            sampled::Message::parse(rest).ok().and_then(|message| Told::of_sampled(&message))
        };
        Ok(Some(named(Line { verdict, ..line }, clear)))
    }

    fn authentic(
        &mut self,
        line: Line,
        form: Form,
        told: Option<Told>,
        (source, number): ([u8; 6], u64),
        content: ([u8; 6], &[u8]),
    ) -> Line {
        self.summary.authentic += 1;
        let (_, order) = self.audit.note(source, |_| number, content);
        let verdict = match form {
            Form::Authenticated => "authentic",
            Form::Encrypted => "authentic, was encrypted",
        };
        named(Line { number: Some(number), order: Some(order), verdict: verdict.into(), ..line }, told)
    }

    fn end(self) -> Summary {
        let named = |(source, numbers)| Publisher { source: EthernetAddress(source).to_string(), numbers };
        Summary { streams: self.audit.streams().map(named).collect(), ..self.summary }
    }
}

fn ends(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    Some((frame.first_chunk().copied()?, frame.get(6..)?.first_chunk().copied()?))
}

fn named(line: Line, told: Option<Told>) -> Line {
    match told {
        Some(Told { name, state, sequence }) => Line { name, state, sequence: Some(sequence), ..line },
        None => line,
    }
}

const fn reason(why: Dropped) -> &'static str {
    match why {
        Dropped::Malformed => "malformed",
        Dropped::Unprotected => "not protected",
        Dropped::Crc => "the CRC of its header is wrong",
        Dropped::UnknownKey => "it names another key number",
        Dropped::UnknownSender => "its IV is not of its source address",
        Dropped::Late => "a number that is never used",
        Dropped::Duplicate => "its number was received before",
        Dropped::Unauthentic => "wrong MAC: forged, changed, or of another key",
        Dropped::Pdu => "authentic, and its PDU is invalid",
        _ => "for another reason",
    }
}

impl Packet for Line {
    fn counted(&self) -> Counted<'_> {
        Counted {
            seconds: self.seconds,
            octets: self.octets,
            source: &self.source,
            destination: &self.destination,
            kind: self.kind,
            within: Some(&self.appid),
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
            appid,
            name,
            state,
            sequence,
            number,
            order,
            verdict,
        } = self;
        write!(f, "{seconds:>13.6} {source} > {destination} {octets:>4} {kind:<7} {appid}")?;
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        state.iter().try_for_each(|state| write!(f, " state {state}"))?;
        sequence.iter().try_for_each(|sequence| write!(f, " sequence {sequence}"))?;
        number.iter().try_for_each(|number| write!(f, " IV {number}"))?;
        order.iter().try_for_each(|order| write!(f, "{order}"))?;
        write!(f, " {verdict}")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, messages, authentic, refused, streams } = self;
        writeln!(
            f,
            "{frames} frames, {messages} of GOOSE or sampled values, {authentic} authentic, {refused} refused"
        )?;
        for Publisher { source, numbers } in streams {
            writeln!(f, "{source}: {numbers}")?;
        }
        alarm(streams.iter().map(|stream| &stream.numbers)).map_or(Ok(()), |alarm| writeln!(f, "{alarm}"))
    }
}
