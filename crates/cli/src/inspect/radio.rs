//! Frames of IEEE 802.15.4: a line for each, opened with the keys of a file, and the audit of their
//! frame counters and slots.

use std::fmt;

use antedate_channel::dot15d4::{
    Address, Asn, Config, Device, ExtendedAddress, FrameType, KeyConfig, KeyIdentifier, KeyLookup, Levels,
    NonceKind, PanId, Policy, Security, SecurityLevel, Status,
};
use antedate_host::hex::hex;
use antedate_wire::dot15d4::capture::{Captured, LinkType};
use antedate_wire::dot15d4::{Frame, MAX_FRAME_LEN};
use serde::Serialize;

use super::audit::{Audit, Number, Stream, alarm};
use super::lines::{How, Lines};
use super::radio_keys::{RadioDevice, RadioKey, RadioKeys};
use super::stats::{Counted, Packet};
use crate::capture::Source;
use crate::failure::Done;

/// A sender under one key and, with frame counters, at one level, which is a part of the nonce.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sender {
    source: String,
    key: String,
    level: Option<SecurityLevel>,
}

/// A sender in the last lines.
#[derive(Debug, Serialize)]
struct Talker {
    source: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'static str>,
    #[serde(flatten)]
    numbers: Stream,
}

/// A frame as JSON.
#[derive(Debug, Default, Serialize)]
struct Line {
    seconds: f64,
    octets: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pan: Option<String>,
    source: String,
    destination: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'static str>,
    /// The key as the frame names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The frame counter, or the slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Number>,
    /// The MAC payload of an unsecured or opened frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    verdict: String,
}

/// The end of the output.
#[derive(Debug, Default, Serialize)]
struct Summary {
    frames: u64,
    opened: u64,
    refused: u64,
    streams: Vec<Talker>,
}

/// Prints the frames of a capture, and the audit.
pub(super) fn inspect(source: &Source, keys: RadioKeys, how: How) -> Done {
    let mut reader = Reader { keys, audit: Audit::default(), summary: Summary::default() };
    let mut lines = Lines::new(how, None);
    source.read_radio(|seconds, link, packet| {
        lines.print(&Line { seconds, ..reader.see(link, packet) });
    })?;
    let summary = reader.end();
    let reused = summary.streams.iter().map(|talker| talker.numbers.alarms()).sum();
    lines.end(&summary, reused)
}

/// Keys, devices, and the numbers of the senders.
struct Reader {
    keys: RadioKeys,
    audit: Audit<Sender>,
    summary: Summary,
}

/// The outcome of the keys on a secured frame.
enum Opened {
    /// The payload, and the sender.
    Payload(Vec<u8>, ExtendedAddress),
    /// The reason why not.
    Refused(String),
}

impl Reader {
    fn see(&mut self, link: LinkType, packet: &[u8]) -> Line {
        self.summary.frames += 1;
        let captured = Captured::parse(link, packet);
        let parsed = captured.and_then(|captured| Ok((captured, Frame::parse(captured.frame)?)));
        let (captured, frame) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                self.summary.refused += 1;
                let verdict = format!("refused: {error}");
                let unknown = || "?".to_owned();
                let (source, destination) = (unknown(), unknown());
                return Line {
                    octets: packet.len(),
                    source,
                    destination,
                    kind: "?",
                    verdict,
                    ..Line::default()
                };
            }
        };
        let header = &frame.header;
        let addressing = &header.addressing;
        let pan = addressing.source_pan().or(addressing.destination_pan());
        let line = Line {
            octets: captured.frame.len(),
            channel: captured.channel,
            pan: pan.map(|pan| pan.to_string()),
            source: addressing.src.to_string(),
            destination: addressing.dst.to_string(),
            kind: match header.frame_type {
                FrameType::Beacon => "beacon",
                FrameType::Data => "data",
                FrameType::Ack => "ack",
                FrameType::Command => "command",
            },
            sequence: header.sequence,
            ..Line::default()
        };
        let Some(security) = header.security else {
            let payload = Some(hex(frame.payload())).filter(|payload| !payload.is_empty());
            return Line { payload, verdict: "not secured".into(), ..line };
        };
        let number = match (security.asn_in_nonce, security.frame_counter) {
            (true, _) => captured.asn.map(Asn::number),
            (false, counter) => counter.map(u64::from),
        };
        let line =
            Line { level: Some(security.level.name()), key: Some(named(security.key)), number, ..line };
        let mut source = addressing.src.to_string();
        let (verdict, payload) = if self.keys.keys.is_empty() {
            ("not checked".to_owned(), None)
        } else {
            match self.open(&frame, &captured) {
                Opened::Payload(payload, sender) => {
                    self.summary.opened += 1;
                    source = sender.to_string();
                    let authentic = security.level.mic_len() > 0;
                    (
                        if authentic { "authentic" } else { "decrypted, without a MIC" }.to_owned(),
                        Some(payload),
                    )
                }
                Opened::Refused(why) => {
                    self.summary.refused += 1;
                    // A forged frame proves nothing about its sender's numbers.
                    return Line { verdict: format!("refused: {why}"), ..line };
                }
            }
        };
        let order = number.map(|number| {
            let level = (!security.asn_in_nonce).then_some(security.level);
            let sender = Sender { source, key: named(security.key), level };
            self.audit.note(sender, |_| number, frame.octets()).1
        });
        Line { order, payload: payload.map(|payload| hex(&payload)), verdict, ..line }
    }

    /// Tries the keys of the frame's name, and the devices of its source address.
    fn open(&self, frame: &Frame<'_>, captured: &Captured<'_>) -> Opened {
        let header = &frame.header;
        let Some(security) = header.security else { return Opened::Refused("not secured".into()) };
        let keys: Vec<&RadioKey> =
            self.keys.keys.iter().filter(|key| key.name.is_none_or(|name| name == security.key)).collect();
        if keys.is_empty() {
            return Opened::Refused("no key of this name in the file".into());
        }
        if security.asn_in_nonce && captured.asn.is_none() {
            return Opened::Refused(
                "its nonce has the slot, which the capture does not tell (link type 283 does)".into(),
            );
        }
        let (source, pan) = (header.addressing.src, header.addressing.source_pan());
        let own;
        let devices: Vec<&RadioDevice> = match source {
            Address::Extended(extended) => {
                own = RadioDevice { extended, short: None, pan: None };
                vec![&own]
            }
            Address::Short(short) => {
                let fits = |device: &&RadioDevice| {
                    device.short == Some(short)
                        && (device.pan.is_none() || pan.is_none() || device.pan == pan)
                };
                self.keys.devices.iter().filter(fits).collect()
            }
            Address::Absent => self.keys.devices.iter().collect(),
        };
        if devices.is_empty() {
            return Opened::Refused("the file has no device of this source address".into());
        }
        let mut last = Status::SecurityError;
        for device in devices {
            for key in &keys {
                match attempt(key, device, frame, captured) {
                    Ok(payload) => return Opened::Payload(payload, device.extended),
                    Err(status) => last = status,
                }
            }
        }
        Opened::Refused(match last {
            Status::SecurityError => "the MIC is wrong: another key or sender, or a changed frame".into(),
            other => other.to_string(),
        })
    }

    fn end(self) -> Summary {
        let talker = |(Sender { source, key, level }, numbers): (Sender, Stream)| Talker {
            source,
            key,
            level: level.map(SecurityLevel::name),
            numbers,
        };
        Summary { streams: self.audit.streams().map(talker).collect(), ..self.summary }
    }
}

/// Opens a frame as a receiver that has this key and knows this device, and has heard nothing.
fn attempt(
    key: &RadioKey,
    device: &RadioDevice,
    frame: &Frame<'_>,
    captured: &Captured<'_>,
) -> Result<Vec<u8>, Status> {
    let header = &frame.header;
    let security = header.security.ok_or(Status::UnsupportedSecurity)?;
    let pan = header.addressing.source_pan().or(device.pan).unwrap_or(PanId(0xffff));
    let mut receiver = Security::new(Config {
        extended: ExtendedAddress([0; 8]),
        pan,
        short: None,
        policy: Policy::uniform(Levels::of(&SecurityLevel::ALL)),
        enc_without_mic: true,
    });
    let RadioDevice { extended, short, .. } = *device;
    receiver.add_device(Device { pan, extended, short, exempt: false });
    let lookup = match security.key {
        KeyIdentifier::Implicit => {
            let source = match header.addressing.src {
                Address::Absent => Address::Extended(extended),
                source => source,
            };
            KeyLookup::Peer(pan, source)
        }
        name => KeyLookup::Identified(name),
    };
    let nonces = if security.asn_in_nonce { NonceKind::Asn } else { NonceKind::FrameCounter };
    receiver.install_key(KeyConfig::fresh(lookup, key.key(), nonces)).map_err(|_| Status::UnavailableKey)?;
    let mut out = [0; MAX_FRAME_LEN];
    let received = receiver.unsecure(captured.frame, captured.asn, Some(extended), &mut out)?;
    Ok(out.get(..received.len).unwrap_or_default().to_vec())
}

/// The name of a key in a frame.
fn named(key: KeyIdentifier) -> String {
    match key {
        KeyIdentifier::Implicit => "implicit".into(),
        KeyIdentifier::Index(index) => format!("{index}"),
        KeyIdentifier::Source4(source, index) => format!("{}/{index}", hex(&source)),
        KeyIdentifier::Source8(source, index) => format!("{}/{index}", hex(&source)),
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
            within: None,
            verdict: &self.verdict,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, octets, channel, source, destination, kind, .. } = self;
        write!(f, "{seconds:>13.6}")?;
        if let Some(channel) = channel {
            write!(f, " ch {channel}")?;
        }
        if let Some(pan) = &self.pan {
            write!(f, " {pan}")?;
        }
        write!(f, " {source} > {destination} {octets:>3} {kind:<7}")?;
        if let Some(sequence) = self.sequence {
            write!(f, " #{sequence}")?;
        }
        if let (Some(level), Some(key)) = (self.level, &self.key) {
            write!(f, " {level} key {key}")?;
        }
        if let Some(number) = self.number {
            write!(f, " PN {number}")?;
        }
        if let Some(order) = self.order {
            write!(f, "{order}")?;
        }
        write!(f, " {}", self.verdict)?;
        self.payload.iter().try_for_each(|payload| write!(f, ": {payload}"))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, opened, refused, streams } = self;
        writeln!(f, "{frames} frames, {opened} opened, {refused} refused")?;
        for Talker { source, key, level, numbers } in streams {
            let level = level.map(|level| format!(" {level}")).unwrap_or_default();
            writeln!(f, "{source} key {key}{level}: {numbers}")?;
        }
        alarm(streams.iter().map(|talker| &talker.numbers)).map_or(Ok(()), |alarm| writeln!(f, "{alarm}"))
    }
}
