//! `antedate mqtt seal` and `open`: payloads of any application, without a network.
//!
//! One payload, or many in frames:
//!
//! ```text
//! request:   topic's length (2 octets), topic, content's length (4 octets), content
//! answer:    status (1 octet), content's length (4 octets), content
//! ```
//!
//! Lengths are big-endian. Each request has one answer, in order.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};

use antedate_mqtt::guard::{Guard, SealError, Verdict};
use clap::Args;

use super::options::Protection;
use crate::failure::{Done, Failure};
use crate::output;

/// Seal.
#[derive(Args)]
#[command(
    after_help = "Example:\n  printf 81.5 | antedate mqtt seal --keys line4.toml --state /var/lib/antedate/press7 --publisher press7 \\\n    -t plant/line4/press7/force > envelope"
)]
pub(crate) struct Seal {
    #[command(flatten)]
    protection: Protection,
    /// The publisher's name, unique in the group [default: the device's]
    #[arg(long, value_name = "NAME", value_parser = super::keygen::name)]
    publisher: Option<String>,
    #[command(flatten)]
    input: Input,
}

/// Open.
#[derive(Args)]
#[command(
    after_help = "Example:\n  antedate mqtt open --keys line4.toml --state /var/lib/antedate/scada -t plant/line4/press7/force < envelope"
)]
pub(crate) struct Open {
    #[command(flatten)]
    protection: Protection,
    #[command(flatten)]
    input: Input,
}

/// Standard input.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// The topic; standard input is one payload, or one envelope to open
    #[arg(short = 't', long)]
    topic: Option<String>,
    /// Standard input has many, each in a frame: topic's length (2 octets), topic, length (4 octets),
    /// content. Answers: status (0 done, 1 refused, 2 a rotation), length (4 octets), content
    #[arg(long)]
    frames: bool,
}

/// The content is the envelope, or the opened payload.
const DONE: u8 = 0;
/// The content is the reason.
const REFUSED: u8 = 1;
/// The message was a rotation of the key. The content says so.
const ROTATION: u8 = 2;

/// The largest content: the limit of MQTT.
const CONTENT_MAX: u32 = 268_435_455;
/// Most requests that share one write of the state, and about the octets of their answers.
const BATCH_MAX: usize = 500;
const BATCH_OCTETS: usize = 1 << 20;

impl Seal {
    pub(crate) fn run(self) -> Done {
        let guard = self.protection.guard(self.publisher)?;
        self.protection.confine(None);
        Worker { guard, opens: false }.run(&self.input)
    }
}

impl Open {
    pub(crate) fn run(self) -> Done {
        let guard = self.protection.guard(None)?;
        self.protection.confine(None);
        Worker { guard, opens: true }.run(&self.input)
    }
}

struct Worker {
    guard: Guard,
    opens: bool,
}

impl Worker {
    fn run(mut self, input: &Input) -> Done {
        let stdin = BufReader::with_capacity(1 << 16, std::io::stdin().lock());
        let passed = match &input.topic {
            Some(topic) => self.single(topic, stdin)?,
            None => self.many(stdin)?,
        };
        // Payloads that nobody read do not count as received.
        if passed { Ok(self.guard.close()?) } else { Ok(()) }
    }

    /// One payload. Returns whether its reader is there.
    fn single(&mut self, topic: &str, mut input: impl Read) -> Result<bool, Failure> {
        let (mut content, mut out) = (Vec::new(), Vec::new());
        input.read_to_end(&mut content).map_err(|error| unread(&error))?;
        match self.one(topic, &content, &mut out)? {
            REFUSED => Err(Failure::Verdict(format!("{topic}: {}", String::from_utf8_lossy(&out)))),
            ROTATION => {
                output::tell(format_args!("antedate: {}", String::from_utf8_lossy(&out)));
                Ok(true)
            }
            _ => self.pass_on(&out),
        }
    }

    /// Frames until the end. Returns whether their reader is there.
    fn many(&mut self, mut input: BufReader<impl Read>) -> Result<bool, Failure> {
        let (mut request, mut content, mut answers) = (Request::default(), Vec::new(), Vec::new());
        let mut batch = 0;
        let ended = loop {
            match request.read(&mut input) {
                Ok(true) => {}
                ended => break ended,
            }
            content.clear();
            let status = match str::from_utf8(&request.topic) {
                Ok(topic) => self.one(topic, &request.content, &mut content)?,
                Err(_) => {
                    content.extend_from_slice(b"the topic is not UTF-8 (remedy: send it as MQTT does)");
                    REFUSED
                }
            };
            answers.push(status);
            answers.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
            answers.extend_from_slice(&content);
            batch += 1;
            // What has come already shares a write of the state. Nobody waits for a next request: it may
            // follow this answer.
            let full = batch >= BATCH_MAX || answers.len() >= BATCH_OCTETS;
            if full || input.buffer().is_empty() {
                if !self.pass_on(&answers)? {
                    return Ok(false);
                }
                answers.clear();
                batch = 0;
            }
        };
        // Those before a fault of the input have their answers.
        let passed = self.pass_on(&answers)?;
        ended.map(|_| passed)
    }

    /// Seals or opens one. `out` gets the result or the reason.
    fn one(&mut self, topic: &str, content: &[u8], out: &mut Vec<u8>) -> Result<u8, Failure> {
        if !self.opens {
            return match self.guard.seal(topic, content, out) {
                Ok(_) => Ok(DONE),
                // The next ones would fail as well.
                Err(error @ (SealError::State(_) | SealError::NoState | SealError::NoName)) => {
                    Err(error.into())
                }
                Err(error) => {
                    out.clear();
                    out.extend_from_slice(format!("{error} (remedy: {})", error.remedy()).as_bytes());
                    Ok(REFUSED)
                }
            };
        }
        let (status, text) = match self.guard.open(topic, content, out) {
            Verdict::Opened(_) => return Ok(DONE),
            Verdict::Plain => (
                REFUSED,
                "the topic is of no group, so nothing protects it (remedy: name its group file with --keys)"
                    .to_owned(),
            ),
            Verdict::Refused(why) => (REFUSED, format!("{}: {why} (remedy: {})", why.name(), why.remedy())),
            Verdict::NoRotation(why) => (REFUSED, format!("no rotation: {why}")),
            Verdict::Rotated { group, epoch } => (ROTATION, format!("group {group}: epoch {epoch} begins")),
            Verdict::Known { group, epoch, newest } => (
                ROTATION,
                format!("group {group}: the rotation to epoch {epoch} is known, {newest} is the newest"),
            ),
        };
        out.clear();
        out.extend_from_slice(text.as_bytes());
        Ok(status)
    }

    /// Writes results, which count as received from then on. Returns whether their reader is there.
    fn pass_on(&mut self, text: &[u8]) -> Result<bool, Failure> {
        let mut unwritten = None;
        let write = || {
            let mut out = std::io::stdout().lock();
            out.write_all(text).and_then(|()| out.flush()).map_err(|error| {
                let kind = error.kind();
                unwritten = Some(error);
                kind.into()
            })
        };
        self.guard.check_store()?;
        let passed = self.guard.deliver(write);
        if let Some(error) = unwritten {
            return output::unwritten(&error).map(|()| false);
        }
        passed?;
        Ok(true)
    }
}

#[derive(Default)]
struct Request {
    topic: Vec<u8>,
    content: Vec<u8>,
}

impl Request {
    /// Reads the next frame. `false`: the input ended before it.
    fn read(&mut self, input: &mut impl BufRead) -> Result<bool, Failure> {
        if input.fill_buf().map_err(|error| unread(&error))?.is_empty() {
            return Ok(false);
        }
        let (mut short, mut long) = ([0; 2], [0; 4]);
        input.read_exact(&mut short).map_err(|error| unread(&error))?;
        fill(&mut self.topic, u16::from_be_bytes(short).into(), input)?;
        input.read_exact(&mut long).map_err(|error| unread(&error))?;
        let len = u32::from_be_bytes(long);
        if len > CONTENT_MAX {
            return Err(Failure::usage(
                format!("standard input: a frame of {len} octets, and MQTT has at most {CONTENT_MAX}"),
                "write frames as `antedate mqtt seal --help` describes them",
            ));
        }
        fill(&mut self.content, len, input)?;
        Ok(true)
    }
}

/// Reads so many octets. The memory grows with those that come, not with those announced.
fn fill(into: &mut Vec<u8>, len: u32, input: &mut impl BufRead) -> Done {
    into.clear();
    let read = input.take(len.into()).read_to_end(into).map_err(|error| unread(&error))?;
    if read < len as usize { Err(unread(&ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

fn unread(error: &std::io::Error) -> Failure {
    let what = match error.kind() {
        ErrorKind::UnexpectedEof => "it ends within a frame".to_owned(),
        _ => error.to_string(),
    };
    Failure::usage(format!("standard input: {what}"), "give whole frames or one payload")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(topic: &[u8], content: &[u8]) -> Vec<u8> {
        let topic_len = u16::try_from(topic.len()).expect("short").to_be_bytes();
        let len = u32::try_from(content.len()).expect("short").to_be_bytes();
        [&topic_len[..], topic, &len, content].concat()
    }

    #[test]
    fn frames_are_read_until_the_end() {
        let input = [frame(b"a/b", b"payload"), frame(b"", b"")].concat();
        let (mut rest, mut request) = (input.as_slice(), Request::default());
        assert!(request.read(&mut rest).expect("a frame"));
        assert_eq!((request.topic.as_slice(), request.content.as_slice()), (&b"a/b"[..], &b"payload"[..]));
        assert!(request.read(&mut rest).expect("an empty frame") && request.content.is_empty());
        assert!(!request.read(&mut rest).expect("the end"));
        for len in 1..frame(b"a/b", b"payload").len() {
            assert!(request.read(&mut &input[..len]).is_err(), "{len} octets are no frame");
        }
        let huge = [&[0, 0][..], &u32::MAX.to_be_bytes()].concat();
        assert!(request.read(&mut huge.as_slice()).is_err());
    }
}
