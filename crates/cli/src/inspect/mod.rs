//! `antedate inspect CAPTURE`: a line for each protected frame of a capture, and an audit that finds
//! nonces used twice.

mod audit;
#[cfg(feature = "dtls")]
mod content;
#[cfg(feature = "dtls")]
mod dtls;
mod goose;
mod ip;
mod lines;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(any(feature = "dtls", feature = "mqtt"))]
mod payload;
#[cfg(feature = "mqtt")]
mod publish;
mod radio;
mod radio_keys;
mod reader;
mod stats;
#[cfg(feature = "mqtt")]
mod stream;
mod tunnel;
mod why;

use std::path::{Path, PathBuf};
use std::time::Duration;

use antedate_gateway::config::cak::CakFile;
use antedate_gateway::config::keys::KeyFile;
use antedate_host::fault::Fault;
use antedate_host::hex::hex;
use antedate_host::process;
use antedate_lab::tap::pcap::Pcap;
use antedate_wire::EthernetAddress;
use clap::Args;
use serde::Serialize;

use self::audit::{Number, Stream, alarm};
use self::lines::{How, Lines};
use self::radio_keys::RadioKeys;
use self::reader::{Opened, Protected, Reader, Seen, Sender, bare, ethertype};
use self::stats::{Counted, Packet};
use crate::capture::{Live, Source};
use crate::failure::{Done, Failure};
use crate::hardened;
use crate::output::{self, Kind};

#[derive(Args)]
#[command(after_help = "\
With keys, packet numbers of authentic frames are compared; without, those of all frames, and a
number with two contents may be a forgery.
Exit status: 0 no packet number has two contents, 1 one has, 2 a file has a fault.
Examples:
  antedate inspect plant.pcapng
  antedate inspect plant.pcapng --cak /etc/antedate/cak --write plain.pcap
  antedate inspect plant.pcap --keys keys.toml --quiet
  antedate inspect plant.pcap.gz --keys keys.toml --why
  antedate inspect radio.pcapng --radio-keys radio.toml
  antedate inspect site.pcap --wireguard-keys keys.log --write plain.pcap
  antedate inspect bay.pcap --goose-key key
  antedate inspect devices.pcap --dtls-psk psk --write plain.pcap
  antedate inspect devices.pcap --dtls-keys keys.log
  antedate inspect broker.pcap --mqtt-keys line4.toml
  antedate inspect plant.pcap --stats
  antedate inspect --interface eth0 --cak /etc/antedate/cak --seconds 10
  ssh box tcpdump -i eth0 -U -w - | antedate inspect -
  antedate inspect plant.pcap --json > frames.jsonl")]
pub(crate) struct Inspect {
    /// The capture of Ethernet or IEEE 802.15.4 frames (pcap or pcapng, plain or packed by gzip), or
    /// - for standard input.
    #[arg(value_name = "CAPTURE", required_unless_present = "interface")]
    file: Option<PathBuf>,
    /// Listen at this interface of Ethernet instead, in both directions, until Ctrl-C.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "radio_keys"])]
    interface: Option<String>,
    /// Listen for so many seconds.
    #[arg(long, value_name = "N", requires = "interface", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Static keys: the gateways' key_file.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Pre-shared keys of key agreement: the gateways' cak_file. Keys that a recorded MKPDU
    /// distributes are unwrapped.
    #[arg(long, value_name = "FILE")]
    cak: Option<PathBuf>,
    /// Keys and devices of IEEE 802.15.4.
    #[arg(long, value_name = "FILE", group = "kind", conflicts_with_all = ["keys", "cak", "why", "write"])]
    radio_keys: Option<PathBuf>,
    /// Keys of WireGuard sessions: the log of `antedate gateway run --keylog`, in Wireshark's format.
    #[arg(long, value_name = "FILE", group = "kind", conflicts_with_all = ["keys", "cak", "why"])]
    wireguard_keys: Option<PathBuf>,
    /// The key of GOOSE and sampled values, authenticated or encrypted: as for `goose subscribe`.
    #[arg(long, value_name = "FILE", group = "kind", conflicts_with_all = ["keys", "cak", "why", "write"])]
    goose_key: Option<PathBuf>,
    /// Identities and pre-shared keys of DTLS: the file of `antedate dtls`. It opens suites without
    /// ephemeral keys.
    #[cfg(feature = "dtls")]
    #[arg(long, value_name = "FILE", group = "kind", conflicts_with_all = ["keys", "cak", "why"])]
    dtls_psk: Option<PathBuf>,
    /// Master secrets of DTLS 1.2 connections: the key log of either end (`SSLKEYLOGFILE`,
    /// `antedate dtls --keylog`), for suites with ephemeral keys or certificates.
    #[cfg(feature = "dtls")]
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "keys", "cak", "why", "radio_keys", "wireguard_keys", "goose_key"
    ])]
    dtls_keys: Option<PathBuf>,
    /// A group's keys, for MQTT without TLS: its file, or its manager's. May be given several times.
    #[cfg(feature = "mqtt")]
    #[arg(long, value_name = "FILE", group = "kind", conflicts_with_all = ["keys", "cak", "why", "write"])]
    mqtt_keys: Vec<PathBuf>,
    /// The number of that key in the messages.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "goose_key")]
    goose_key_number: u32,
    /// Try the known deviations of senders on refused frames, and name the one that fits: key,
    /// association, suite, order of octets, start of the counter, cut ICV, addresses.
    #[arg(long)]
    why: bool,
    /// Write the frames that were opened, and unprotected ones, to FILE, for Wireshark.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print JSON: an object for each frame, and a last one with the streams.
    #[arg(long)]
    json: bool,
    /// Print the streams alone.
    #[arg(long)]
    quiet: bool,
    /// Print a table of senders, receivers and kinds, with frames, octets and intervals, instead of a
    /// line for each frame.
    #[arg(long, conflicts_with = "quiet")]
    stats: bool,
}

/// A frame as JSON.
#[derive(Debug, Default, Serialize)]
struct Line {
    seconds: f64,
    octets: usize,
    source: String,
    destination: String,
    /// The VLANs in clear, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vlans: Vec<u16>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sci: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    an: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Number>,
    /// The EtherType of the frame, or of the one within.
    #[serde(skip_serializing_if = "Option::is_none")]
    ethertype: Option<String>,
    verdict: String,
}

/// A secure channel under one key.
#[derive(Debug, Serialize)]
struct Channel {
    sci: String,
    an: u8,
    /// The key's identifier, if an MKPDU named it.
    key: Option<String>,
    #[serde(flatten)]
    numbers: Stream,
}

impl Channel {
    fn new(((sci, an, key), numbers): (Sender, Stream)) -> Self {
        Self { sci: sci.to_string(), an: an.number(), key: key.map(|key| hex(&key)), numbers }
    }
}

/// The end of the output.
#[derive(Debug, Serialize)]
struct Summary {
    frames: u64,
    opened: u64,
    refused: u64,
    streams: Vec<Channel>,
}

impl Inspect {
    pub(crate) fn run(self) -> Done {
        if let Some(warning) = hardened::close_memory() {
            output::tell(format_args!("antedate: {warning}"));
        }
        let source = self.source();
        let how = How { json: self.json, quiet: self.quiet, stats: self.stats, live: source.is_live() };
        if self.radio_keys.is_some() || source.is_radio() {
            return self.radio(&source, how);
        }
        let plain = || self.write.as_deref().map(create).transpose();
        if let Some(log) = &self.wireguard_keys {
            return tunnel::inspect(&source, log, plain()?, how);
        }
        if let Some(key) = &self.goose_key {
            return goose::inspect(&source, (key, self.goose_key_number), how);
        }
        #[cfg(feature = "dtls")]
        if self.dtls_psk.is_some() || self.dtls_keys.is_some() {
            let keys = dtls::Keys::load(self.dtls_psk.as_deref(), self.dtls_keys.as_deref())?;
            return dtls::inspect(&source, keys, plain()?, how);
        }
        #[cfg(feature = "mqtt")]
        if !self.mqtt_keys.is_empty() {
            return mqtt::inspect(&source, mqtt::load(&self.mqtt_keys)?, how);
        }
        let mut reader = Reader::new();
        if self.why {
            reader.explain();
        }
        // What a pipe or an interface will bring is not known before.
        let is_known = source.lasts();
        source.look_ahead(|frame| reader.expect(frame));
        if let Some(file) = &self.keys {
            reader.add_keys(&KeyFile::load(file, process::user())?);
        }
        if let Some(file) = &self.cak {
            reader.add_caks(CakFile::load(file, process::user())?.list());
        }
        let mut lines = Lines::new(how, plain()?);
        let mut summary = Summary { frames: 0, opened: 0, refused: 0, streams: Vec::new() };
        source.read(|seconds, frame| {
            let (untagged, tags) = bare(frame);
            if !is_known {
                reader.expect(&untagged);
            }
            let seen = reader.see(&untagged);
            summary.frames += 1;
            let within = match &seen {
                Seen::Protected(Protected { opened: Some(Ok(within)), .. }) => within.frame(),
                Seen::Other(_) => Some(frame),
                _ => None,
            };
            let is_opened = matches!(seen, Seen::Protected(Protected { opened: Some(Ok(_)), .. }));
            summary.opened += u64::from(is_opened);
            let is_refused =
                matches!(seen, Seen::Malformed(..) | Seen::Protected(Protected { opened: Some(Err(_)), .. }));
            summary.refused += u64::from(is_refused);
            if !how.quiet {
                lines.print(&line(seconds, frame, &tags, &seen));
            }
            if let Some(within) = within {
                lines.write(seconds, within);
            }
        })?;
        summary.streams = reader.audit.streams().map(Channel::new).collect();
        let reused = summary.streams.iter().map(|stream| stream.numbers.alarms()).sum();
        lines.end(&summary, reused)
    }
}

impl Inspect {
    fn source(&self) -> Source {
        match (&self.interface, &self.file) {
            (Some(interface), _) => Source::Live(Live {
                interface: interface.clone(),
                length: self.seconds.map(Duration::from_secs),
            }),
            (None, Some(file)) => Source::of_file(file),
            (None, None) => Source::Input,
        }
    }

    /// A capture of IEEE 802.15.4.
    fn radio(&self, source: &Source, how: How) -> Done {
        let given = [
            #[cfg(feature = "dtls")]
            ("--dtls-psk", self.dtls_psk.is_some()),
            #[cfg(feature = "dtls")]
            ("--dtls-keys", self.dtls_keys.is_some()),
            #[cfg(feature = "mqtt")]
            ("--mqtt-keys", !self.mqtt_keys.is_empty()),
            ("--keys", self.keys.is_some()),
            ("--cak", self.cak.is_some()),
            ("--wireguard-keys", self.wireguard_keys.is_some()),
            ("--goose-key", self.goose_key.is_some()),
            ("--why", self.why),
            ("--write", self.write.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            let what = format!("{option} is for Ethernet, and the capture is of IEEE 802.15.4");
            return Err(Failure::usage(what, "give --radio-keys FILE, or nothing"));
        }
        let keys = self.radio_keys.as_deref().map(RadioKeys::load).transpose()?;
        radio::inspect(source, keys.unwrap_or_default(), how)
    }
}

fn create(file: &Path) -> Result<Pcap, Failure> {
    output::writable("--write", Kind::Capture, file)?;
    Ok(Pcap::create(file)
        .map_err(|error| Fault::of_io(file, "write here", &error, "give --write another file"))?)
}

fn line(seconds: f64, frame: &[u8], tags: &[u16], seen: &Seen) -> Line {
    let address = |at: usize| {
        let octets = frame.get(at..).and_then(<[u8]>::first_chunk).copied();
        octets.map_or_else(String::new, |octets| EthernetAddress(octets).to_string())
    };
    let name = |ethertype: u16| format!("{ethertype:04x}");
    let within = |opened: &Opened| ethertype(&bare(opened.frame()?).0);
    let base = Line {
        seconds,
        octets: frame.len(),
        source: address(6),
        destination: address(0),
        vlans: tags.iter().map(|tag| tag & 0x0fff).collect(),
        ..Line::default()
    };
    match seen {
        Seen::Protected(Protected { sci, an, number, order, is_encrypted, opened, why }) => Line {
            kind: "macsec",
            sci: sci.map(|sci| sci.to_string()),
            an: Some(an.number()),
            number: Some(*number),
            order: Some(*order),
            ethertype: opened.as_ref().and_then(|opened| within(opened.as_ref().ok()?)).map(name),
            verdict: match opened {
                Some(Ok(Opened::Whole(_))) => "authentic".to_owned(),
                Some(Ok(Opened::Piece)) => "authentic, a fragment".to_owned(),
                Some(Ok(Opened::Completed(frame))) => {
                    format!("authentic, the last fragment of {} octets", frame.len())
                }
                Some(Err(reason)) => refused(reason, why.as_deref()),
                None if *is_encrypted => "encrypted".to_owned(),
                None => "not encrypted, not checked".to_owned(),
            },
            ..base
        },
        Seen::Malformed(reason, why) => {
            Line { kind: "macsec", verdict: refused(reason, why.as_deref()), ..base }
        }
        Seen::Mkpdu { sci, message, key, proven } => Line {
            kind: "mka",
            sci: Some(sci.to_string()),
            number: Some(u64::from(*message)),
            verdict: match (proven, key) {
                (Some(false), _) => "refused: of another CAK, or forged".to_owned(),
                (_, Some((key, an))) => {
                    format!("distributes key {} for AN {}", hex(&key.octets()), an.number())
                }
                (Some(true), None) => "authentic".to_owned(),
                (None, None) => "not checked".to_owned(),
            },
            ..base
        },
        Seen::Other(ethertype) => Line {
            kind: "plain",
            ethertype: ethertype.map(name),
            verdict: "not protected".to_owned(),
            ..base
        },
    }
}

fn refused(reason: impl std::fmt::Display, why: Option<&str>) -> String {
    match why {
        Some(why) => format!("refused: {reason}; it fits so: {why}"),
        None => format!("refused: {reason}"),
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
            within: self.ethertype.as_deref(),
            verdict: &self.verdict,
        }
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            seconds,
            octets,
            source,
            destination,
            vlans,
            kind,
            sci,
            an,
            number,
            order,
            ethertype,
            verdict,
        } = self;
        write!(f, "{seconds:>13.6} {source} > {destination} {octets:>4} {kind:<6}")?;
        vlans.iter().try_for_each(|vlan| write!(f, " VLAN {vlan}"))?;
        if let Some(sci) = sci {
            write!(f, " {sci}")?;
        }
        if let Some(an) = an {
            write!(f, " AN {an}")?;
        }
        if let Some(number) = number {
            write!(f, " {} {number}", if *kind == "mka" { "MN" } else { "PN" })?;
        }
        order.iter().try_for_each(|order| write!(f, "{order}"))?;
        if let Some(ethertype) = ethertype {
            write!(f, " [{ethertype}]")?;
        }
        write!(f, " {verdict}")
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { frames, opened, refused, streams } = self;
        writeln!(f, "{frames} frames, {opened} opened, {refused} refused")?;
        for Channel { sci, an, key, numbers } in streams {
            let key = key.as_deref().map(|key| format!(" key {key}")).unwrap_or_default();
            writeln!(f, "{sci} AN {an}{key}: {numbers}")?;
        }
        alarm(streams.iter().map(|stream| &stream.numbers)).map_or(Ok(()), |alarm| writeln!(f, "{alarm}"))
    }
}
