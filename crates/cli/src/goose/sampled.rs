//! `antedate sampled`: protected sampled values (IEC 61850-9-2) on an interface.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use antedate_aead::Aes128Gcm;
use antedate_channel::goose::{
    Counter, Counters, Form, Freshness, GroupKey, KeyPeriod, Layout, RoutedSubscriber, Sample, Sampler,
    Subscriber,
};
use antedate_goose::clock::{ACCURACY, NOT_SYNCHRONIZED};
use antedate_goose::scl;
use antedate_goose::stream::Stream as Configured;
use antedate_host::fault::Fault;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_lab::sys::signal;
use antedate_wire::goose::Repr;
use antedate_wire::sampled::{Asdu, Asdus, Message};
use antedate_wire::vlan::{Tci, VlanId};
use antedate_wire::{EtherType, EthernetAddress, VlanTagStack};
use clap::{Args, Subcommand};

use super::carrier::{Incoming, Outgoing, Peer};
use super::keeping::{Numbers, Secret};
use super::timely::Cause;
use super::{confine, key, now, state};
use crate::failure::{Done, Failure};
use crate::hardened;
use crate::output;

/// Verbs of sampled values.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Publish a merging unit's waveform: eight values with their qualities, as 9-2LE has them
    ///
    /// Prints how long protection took at the deadline, and how many frames were late by a period.
    #[command(
        after_help = "Example:\n  sudo antedate sampled publish eth0 --key key --state numbers --first --rate 4000 --seconds 10"
    )]
    Publish(Publish),
    /// Count a stream's frames, with the lost and the refused ones, each second
    #[command(after_help = "Example:\n  sudo antedate sampled subscribe eth0 --key key --seconds 10")]
    Subscribe(Subscribe),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        if let Some(warning) = hardened::close_memory() {
            output::tell(format_args!("antedate: {warning}"));
        }
        match self {
            Self::Publish(verb) => verb.run(),
            Self::Subscribe(verb) => verb.run(),
        }
    }
}

/// A stream of an SCL file.
#[derive(Args)]
struct Source {
    /// An ICD, CID or SCD file (IEC 61850-6) with the control block of sampled values
    #[arg(long, value_name = "FILE")]
    scl: Option<PathBuf>,
    /// The control block, as NAME, IED/NAME or its reference, if the file has several
    #[arg(long, value_name = "NAME", requires = "scl")]
    control_block: Option<String>,
    /// The nominal frequency in hertz, of which the file tells samples in a period
    #[arg(long, value_name = "HZ", default_value_t = 50, requires = "scl", value_parser = clap::value_parser!(u16).range(1..=400))]
    frequency: u16,
}

impl Source {
    /// The stream with its samples in a second, if there is a file.
    fn of_file(&self) -> Result<Option<(Configured, u32)>, Failure> {
        let Some(file) = &self.scl else { return Ok(None) };
        let stream = scl::select(file, scl::read_streams(file)?, self.control_block.as_deref())?;
        let samples = stream.rate.per_second(self.frequency);
        if samples > 65_536 || samples < u32::from(stream.asdus) {
            return Err(Failure::usage(
                format!("{}: {samples} samples in a second, {} in a frame", stream.reference, stream.asdus),
                "smpCnt counts at most 65,536; look at smpRate, nofASDU and --frequency",
            ));
        }
        Ok(Some((stream, samples)))
    }
}

/// Has a stream of 9-2LE.
const EXAMPLE: &str = include_str!("../../../../docs/examples/goose/merging-unit.scd");

#[derive(Args)]
pub(crate) struct Publish {
    /// The interface
    interface: String,
    /// A file with a key (32 hexadecimal digits; 64 and hmac-sha256-128), readable by its owner only
    #[arg(long, value_name = "FILE", required_unless_present = "plain")]
    key: Option<PathBuf>,
    /// The key's number in the frames
    #[arg(long, value_name = "N", default_value_t = 1)]
    key_number: u32,
    /// A directory for the reserved numbers
    #[arg(long, value_name = "DIR", required_unless_present = "plain")]
    state: Option<PathBuf>,
    /// This interface's address never published with this key: creates the state
    #[arg(long)]
    first: bool,
    /// The state was moved here, once. Only if it is the last one, and no copy of it was used since
    #[arg(long, conflicts_with = "first")]
    state_moved: bool,
    /// The state may lie in memory (tmpfs). Only if the key is made anew at each start of the machine
    #[arg(long)]
    volatile_state: bool,
    /// Encrypt as well
    #[arg(long)]
    encrypt: bool,
    /// Without protection, to compare with
    #[arg(long, conflicts_with_all = ["key", "state", "encrypt", "first"])]
    plain: bool,
    #[command(flatten)]
    source: Source,
    /// Routed, encrypted: datagrams to this address or multicast group, port 102 unless given. The
    /// interface's address is still the publisher's part of the IV
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with_all = ["encrypt", "plain"])]
    to: Option<Peer>,
    /// Without an SCL file: frames in a second
    #[arg(long, value_name = "N", default_value_t = 4000, conflicts_with = "scl", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rate: u32,
    /// Without an SCL file: sets of samples in a frame: 1 in 9-2LE, 2 in IEC 61869-9 with 4800 samples
    /// in a second
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "scl", value_parser = clap::value_parser!(u8).range(1..=8))]
    asdus: u8,
    /// Without an SCL file: the stream's identifier
    #[arg(long, value_name = "NAME", default_value = "antedateMU01", conflicts_with = "scl")]
    sv_id: String,
    /// Without an SCL file: the application identifier
    #[arg(long, value_name = "N", default_value_t = 0x4000, conflicts_with = "scl")]
    appid: u16,
    /// Ends after so many seconds
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u32,
}

#[derive(Args)]
pub(crate) struct Subscribe {
    /// The interface
    #[arg(required_unless_present = "routed", conflicts_with = "routed")]
    interface: Option<String>,
    /// Routed: datagrams to this address of the machine or multicast group, port 102 unless given
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with_all = ["encrypt", "plain"])]
    routed: Option<Peer>,
    #[command(flatten)]
    source: Source,
    /// A file with a key (32 hexadecimal digits; 64 and hmac-sha256-128), readable by its owner only
    #[arg(long, value_name = "FILE", required_unless_present = "plain")]
    key: Option<PathBuf>,
    /// The key's number in the frames
    #[arg(long, value_name = "N", default_value_t = 1)]
    key_number: u32,
    /// Frames are encrypted as well
    #[arg(long)]
    encrypt: bool,
    /// Reads unprotected frames
    #[arg(long, conflicts_with_all = ["key", "encrypt"])]
    plain: bool,
    /// Without an SCL file: samples in a second, after which their number begins again
    #[arg(long, value_name = "N", default_value_t = 4000, conflicts_with = "scl", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    samples: u32,
    /// Ends after so many seconds
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u32,
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("sampled values: {error}"), "this is a fault of the program")
}

fn open(interface: &str) -> Result<PacketSocket, Failure> {
    let protocol = EtherType::SampledValues.number();
    PacketSocket::open(interface, Options { protocol, promiscuous: true, ..Options::default() }).map_err(
        |error| {
            let remedy = "name an interface that is up, as root or with CAP_NET_RAW";
            Failure::usage(format!("{interface}: {error}"), remedy)
        },
    )
}

/// Sleeping ends so long before a frame is due; the rest is waited for awake.
const AWAKE: Duration = Duration::from_micros(80);

/// Four currents and four voltages of three phases at 50 Hz, by their place.
fn waveform(at: usize, number: u32, samples: u32) -> f64 {
    let turn = f64::from(number) * 50.0 / f64::from(samples);
    let (amplitude, phase) = (if at < 4 { 100_000.0 } else { 1_000_000.0 }, (at % 4) as f64 / 3.0);
    // The fourth is the sum of the three.
    if at % 4 == 3 { 0.0 } else { amplitude * (core::f64::consts::TAU * (turn - phase)).sin() }
}

/// Reserves numbers on a thread of its own: a disk may take longer than a period.
struct Reserving {
    left: Sender<u64>,
    limit: Arc<AtomicU64>,
    thread: JoinHandle<Result<(), Fault>>,
}

impl Reserving {
    fn start(mut numbers: Numbers, directory: PathBuf) -> Self {
        let limit = Arc::new(AtomicU64::new(numbers.limit()));
        let (left, asked): (_, Receiver<u64>) = channel();
        let told = Arc::clone(&limit);
        let thread = thread::spawn(move || {
            let mut last = numbers.limit() - numbers.first();
            while let Ok(left) = asked.recv() {
                last = left;
                if numbers.top_up(left, &directory)? {
                    // What was reserved now is left too.
                    last += numbers.limit() - told.load(Ordering::Acquire);
                    told.store(numbers.limit(), Ordering::Release);
                }
            }
            numbers.close(last, &directory)
        });
        Self { left, limit, thread }
    }

    /// Ends the thread, which writes the exact next number.
    fn close(self) -> Done {
        drop(self.left);
        match self.thread.join() {
            Ok(closed) => Ok(closed?),
            Err(_) => Err(failed(&"the thread that reserves numbers ended")),
        }
    }
}

impl Publish {
    /// The stream with its samples in a second: of the file, or of the options.
    fn stream(&self) -> Result<(Configured, u32), Failure> {
        if let Some(of_file) = self.source.of_file()? {
            return Ok(of_file);
        }
        let path = Path::new("docs/examples/goose/merging-unit.scd");
        let example = scl::select(path, scl::parse_streams(path, EXAMPLE)?, Some("MSVCB01"))?;
        let (sv_id, appid, asdus) = (self.sv_id.clone(), self.appid, self.asdus);
        Ok((Configured { sv_id, appid, asdus, ..example }, self.rate * u32::from(asdus)))
    }

    pub(super) fn run(self) -> Done {
        let (stream, samples) = self.stream()?;
        let socket = open(&self.interface)?;
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let set = vec![0; stream.sample_len()];
        let (rate, unit) = stream.rate.octets();
        let asdu = Asdu {
            sv_id: stream.sv_id.as_bytes(),
            dat_set: stream.has_dat_set.then_some(stream.dat_set.as_bytes()),
            smp_cnt: 0,
            conf_rev: stream.conf_rev,
            refr_tm: stream.has_time.then_some([0; 8]),
            smp_synch: 0,
            smp_rate: stream.has_rate.then_some(rate),
            sample: &set,
            smp_mod: stream.has_rate.then_some(unit),
        };
        let asdus = vec![asdu; usize::from(stream.asdus)];
        let message = Message { appid: stream.appid, simulation: false, asdus: Asdus::Given(&asdus) };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        let period = KeyPeriod { key: self.key_number, since, minutes_left: u16::MAX };
        let source = EthernetAddress(socket.address());
        let made = match self.to {
            Some(_) => Layout::routed_sampled(&message, period),
            None => Layout::sampled(stream.destination, source, &message, form, period),
        };
        let layout = made.map_err(|error| {
            let remedy = "give fewer sets of samples in a frame, a smaller data set or shorter names";
            Failure::usage(format!("the frame: {error}"), remedy)
        })?;
        let vlan = VlanId::new(stream.vlan).unwrap_or(VlanId::PRIORITY);
        let tci = Tci::new(stream.priority, false, vlan);
        let layout = layout.tagged(tci);
        let socket = match self.to {
            Some(to) => Outgoing::routed(to)?,
            None => Outgoing::Ethernet(socket),
        };
        let paced = Paced { of: &stream, samples, seconds: self.seconds, interface: &self.interface };
        signal::install();
        let (Some(file), Some(directory)) = (&self.key, &self.state) else {
            confine(Vec::new(), Vec::new());
            return paced.run(&socket, &mut Plain { head: plain(&message, &stream, source, tci)?, message });
        };
        let secret = Secret::load(file)?;
        let word = state(self.first, self.state_moved);
        let numbers = Numbers::open(directory, (file, &secret), &[], source.0, word, self.volatile_state)?;
        let key = group_key(&secret, self.encrypt || self.to.is_some())?;
        let counter = Counter::new(source.0, numbers.first(), numbers.limit());
        let sampler = Sampler::new(key, counter, &layout).map_err(|error| failed(&error))?;
        confine(vec![directory.clone()], Vec::new());
        let mut protected = Protected { sampler, reserving: Reserving::start(numbers, directory.clone()) };
        let sent = paced.run(&socket, &mut protected);
        protected.tell();
        protected.reserving.close()?;
        sent
    }
}

/// The key of a file that fits the form.
fn group_key(secret: &Secret, is_encrypted: bool) -> Result<GroupKey<Aes128Gcm>, Failure> {
    match key(secret)? {
        GroupKey::Hmac(_) if is_encrypted => Err(Failure::usage(
            "sampled values: a key of hmac-sha256-128 does not encrypt",
            "give a key of AES (32 hexadecimal digits), or leave --encrypt away; routed messages are encrypted",
        )),
        key => Ok(key),
    }
}

/// A stream at its pace.
struct Paced<'a> {
    of: &'a Configured,
    samples: u32,
    seconds: u32,
    interface: &'a str,
}

impl Paced<'_> {
    /// Sends the frames of a stream when they are due.
    fn run(&self, socket: &Outgoing, stream: &mut dyn Stream) -> Done {
        let (samples, each) = (self.samples, u32::from(self.of.asdus));
        let due_at =
            |number: u64| Duration::from_nanos(number * u64::from(each) * 1_000_000_000 / u64::from(samples));
        let (period, frames) = (due_at(1), u64::from(samples) * u64::from(self.seconds) / u64::from(each));
        let mut frame = vec![0; 2048];
        let (mut late, mut made) = (0u64, Vec::with_capacity(frames.min(1_200_000) as usize));
        let mut sets = vec![Vec::new(); each as usize];
        let begun = Instant::now();
        let mut number = 0u64;
        while number < frames && !signal::stopping() {
            stream.prepare(number);
            let due = begun + due_at(number);
            thread::sleep(due.saturating_duration_since(Instant::now()).saturating_sub(AWAKE));
            while Instant::now() < due {
                core::hint::spin_loop();
            }
            let time = now(NOT_SYNCHRONIZED | ACCURACY);
            let count = |at: u32| ((number * u64::from(each) + u64::from(at)) % u64::from(samples)) as u32;
            for (at, set) in (0..each).zip(&mut sets) {
                self.of.signal(time, |place| waveform(place, count(at), samples), set);
            }
            let latest: Vec<Sample<'_>> = (0..each)
                .zip(&sets)
                .map(|(at, octets)| Sample { smp_cnt: count(at) as u16, refr_tm: time, smp_synch: 0, octets })
                .collect();
            let deadline = Instant::now();
            let len = stream.frame(&latest, &mut frame)?;
            made.push(deadline.elapsed());
            socket.send(&frame[..len]).map_err(|error| {
                Failure::usage(format!("{}: {error}", self.interface), "the interface must be up")
            })?;
            late += u64::from(due.elapsed() > period);
            number += 1;
        }
        made.sort_unstable();
        let at = |share: f64| {
            let place = (made.len() as f64 * share) as usize;
            made.get(place.min(made.len().saturating_sub(1))).map_or(0.0, |one| one.as_secs_f64() * 1e6)
        };
        let (frames, seconds) = (made.len(), begun.elapsed().as_secs_f64());
        let line = serde_json::json!({
            "frames": frames, "seconds": seconds, "late": late,
            "made_median_us": at(0.5), "made_p999_us": at(0.999), "made_longest_us": at(1.0),
        });
        output::print(&format!("{line}\n"))
    }
}

/// What makes frames.
trait Stream {
    /// Does what can be done before the next samples exist.
    fn prepare(&mut self, number: u64);
    fn frame(&mut self, samples: &[Sample<'_>], out: &mut [u8]) -> Result<usize, Failure>;
}

struct Protected<'a> {
    sampler: Sampler<'a, Aes128Gcm>,
    reserving: Reserving,
}

impl Protected<'_> {
    fn tell(&mut self) {
        // A thread that ended says why when it is joined.
        let _ = self.reserving.left.send(self.sampler.counter_mut().left());
    }
}

impl Stream for Protected<'_> {
    fn prepare(&mut self, number: u64) {
        let limit = self.reserving.limit.load(Ordering::Acquire);
        self.sampler.counter_mut().reserve_until(limit);
        if number.is_multiple_of(1024) {
            self.tell();
        }
        self.sampler.idle(u32::MAX);
    }

    fn frame(&mut self, samples: &[Sample<'_>], out: &mut [u8]) -> Result<usize, Failure> {
        self.sampler.publish(samples, out).map_err(|error| failed(&error))
    }
}

struct Plain<'a> {
    head: Vec<u8>,
    message: Message<'a>,
}

/// Addresses, tag and EtherType of unprotected frames.
fn plain(
    message: &Message<'_>,
    stream: &Configured,
    source: EthernetAddress,
    tci: Tci,
) -> Result<Vec<u8>, Failure> {
    let tci = tci.0.to_be_bytes();
    let ethertype = EtherType::SampledValues.number().to_be_bytes();
    let head = [&stream.destination.0[..], &source.0, &[0x81, 0], &tci, &ethertype].concat();
    if head.len() + message.buffer_len() > 1518 {
        return Err(Failure::usage(
            "the frame is too long",
            "give fewer sets of samples in a frame, or shorter names",
        ));
    }
    Ok(head)
}

impl Stream for Plain<'_> {
    fn prepare(&mut self, _: u64) {}

    fn frame(&mut self, samples: &[Sample<'_>], out: &mut [u8]) -> Result<usize, Failure> {
        let asdus: Vec<Asdu<'_>> = self
            .message
            .asdus
            .iter()
            .zip(samples)
            .map(|(asdu, sample)| Asdu {
                smp_cnt: sample.smp_cnt,
                refr_tm: asdu.refr_tm.map(|_| sample.refr_tm),
                sample: sample.octets,
                ..asdu
            })
            .collect();
        let message = Message { asdus: Asdus::Given(&asdus), ..self.message };
        out[..self.head.len()].copy_from_slice(&self.head);
        let len = message.emit(&mut out[self.head.len()..], &mut |_| {}).map_err(|error| failed(&error))?;
        Ok(self.head.len() + len)
    }
}

/// Frames of a second.
#[derive(Default)]
struct Second {
    frames: u64,
    samples: u64,
    lost: u64,
    refused: u64,
    /// Of another configuration than the file's.
    other: u64,
    /// Of the last sample.
    values: Option<serde_json::Map<String, serde_json::Value>>,
    longest: Duration,
}

impl Subscribe {
    pub(super) fn run(self) -> Done {
        let expected_stream = self.source.of_file()?;
        let modulus = expected_stream.as_ref().map_or(self.samples, |(_, samples)| *samples);
        let interface = self.interface.clone().unwrap_or_default();
        let mut incoming = match self.routed {
            Some(at) => Incoming::routed(at)?,
            None => Incoming::Ethernet(open(&interface)?),
        };
        let place = self.routed.map_or(interface, |at| at.to_string());
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let secret = self.key.as_deref().map(Secret::load).transpose()?;
        let mut opener = match (&secret, self.routed) {
            (None, _) => Opener::Plain,
            (Some(secret), Some(_)) => match group_key(secret, true)? {
                GroupKey::Gcm(key) => {
                    Opener::Routed(RoutedSubscriber::new(key, self.key_number, Freshness::Counter))
                }
                GroupKey::Hmac(_) => return Err(failed(&"a key of HMAC does not encrypt")),
            },
            (Some(secret), None) => {
                let key = group_key(secret, self.encrypt)?;
                Opener::Ethernet(Subscriber::new(key, self.key_number, form, 0))
            }
        };
        signal::install();
        confine(Vec::new(), Vec::new());
        output::print("{\"listening\":true}\n")?;
        let (begun, mut told, mut before) = (Instant::now(), 0, None);
        let (mut second, mut expected, mut frame) = (Second::default(), None, vec![0; 2048]);
        let mut others = Cause::default();
        while told < self.seconds && !signal::stopping() {
            let received = incoming
                .next(&mut frame)
                .map_err(|error| Failure::usage(format!("{place}: {error}"), "the interface must stay up"))?;
            // Frames of other streams count no less for the time.
            'frame: {
                let Some(len) = received else { break 'frame };
                let now = Instant::now();
                let addressed = expected_stream.as_ref().filter(|_| self.routed.is_none());
                if addressed.is_some_and(|(stream, _)| !is_addressed(stream, &frame[..len])) {
                    break 'frame;
                }
                match opener.read(&frame[..len]) {
                    None => second.refused += 1,
                    Some(message) => {
                        if let Some((stream, _)) = &expected_stream {
                            if let Err(why) = compare(stream, &message) {
                                second.other += 1;
                                others
                                    .warn(format_args!("{}: another configuration: {why}", stream.reference));
                                break 'frame;
                            }
                            let last = message.asdus.iter().last();
                            second.values = last.and_then(|asdu| stream.show(asdu.sample));
                        }
                        second.frames += 1;
                        let gap = before.replace(now).map_or(Duration::ZERO, |before| now - before);
                        second.longest = second.longest.max(gap);
                        for asdu in message.asdus.iter() {
                            let number = u32::from(asdu.smp_cnt);
                            let due = expected.replace((number + 1) % modulus).unwrap_or(number);
                            second.lost += u64::from((number + modulus - due) % modulus);
                            second.samples += 1;
                        }
                    }
                }
            }
            if begun.elapsed() >= Duration::from_secs(u64::from(told) + 1) {
                told += 1;
                let Second { frames, samples, lost, refused, other, values, longest } =
                    core::mem::take(&mut second);
                let mut line = serde_json::json!({
                    "frames": frames, "samples": samples, "lost": lost, "refused": refused,
                    "longest_gap_us": longest.as_micros() as u64,
                });
                if expected_stream.is_some() {
                    line["other"] = other.into();
                    line["values"] = values.into();
                }
                if !output::print_while_read(&format!("{line}\n"))? {
                    break;
                }
            }
        }
        if let Some(counters) = opener.counters() {
            output::tell(format_args!("{counters:?}"));
        }
        Ok(())
    }
}

/// What opens frames.
enum Opener {
    Plain,
    Ethernet(Subscriber<Aes128Gcm>),
    Routed(RoutedSubscriber<Aes128Gcm>),
}

impl Opener {
    /// A frame's message, if it may be delivered.
    fn read<'a>(&'a mut self, frame: &'a [u8]) -> Option<Message<'a>> {
        match self {
            Self::Plain => Message::parse(frame.get(VlanTagStack::parse(frame).ok()?.payload..)?).ok(),
            Self::Ethernet(subscriber) => subscriber.receive_sampled(frame).ok(),
            Self::Routed(subscriber) => subscriber.receive_sampled(frame).ok(),
        }
    }

    const fn counters(&self) -> Option<&Counters> {
        match self {
            Self::Plain => None,
            Self::Ethernet(subscriber) => Some(subscriber.counters()),
            Self::Routed(subscriber) => Some(subscriber.counters()),
        }
    }
}

/// Whether a frame is to the address and APPID of a stream.
fn is_addressed(stream: &Configured, frame: &[u8]) -> bool {
    let payload = VlanTagStack::parse(frame).ok().and_then(|stack| frame.get(stack.payload..));
    let header = payload.and_then(|payload| Repr::parse(payload).ok());
    frame.starts_with(&stream.destination.0) && header.is_some_and(|header| header.appid == stream.appid)
}

/// Why a message is not of a stream, as configured.
fn compare(stream: &Configured, message: &Message<'_>) -> Result<(), Other> {
    let count = message.asdus.iter().count();
    if count != usize::from(stream.asdus) {
        return Err(Other("sets of samples in a frame", count as u64, stream.asdus.into()));
    }
    for asdu in message.asdus.iter() {
        let len = stream.sample_len();
        if asdu.sv_id != stream.sv_id.as_bytes() {
            return Err(Other(
                "octets of svID, or the svID",
                asdu.sv_id.len() as u64,
                stream.sv_id.len() as u64,
            ));
        }
        if asdu.conf_rev != stream.conf_rev {
            return Err(Other("confRev", asdu.conf_rev.into(), stream.conf_rev.into()));
        }
        if asdu.sample.len() != len {
            return Err(Other("octets of a sample", asdu.sample.len() as u64, len as u64));
        }
    }
    Ok(())
}

/// What differs: its name, and both numbers.
#[derive(Debug, thiserror::Error)]
#[error("{0}: {1}, and {2} in the file")]
struct Other(&'static str, u64, u64);
