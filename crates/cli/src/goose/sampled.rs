//! `antedate sampled`: protected sampled values (IEC 61850-9-2) on an interface.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use antedate_aead::Aes128Gcm;
use antedate_channel::goose::{Counter, Form, KeyPeriod, Layout, Sample, Sampler, Subscriber};
use antedate_host::fault::Fault;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_lab::sys::signal;
use antedate_wire::sampled::{Asdu, Asdus, Message};
use antedate_wire::vlan::{Tci, VlanId};
use antedate_wire::{EtherType, EthernetAddress, VlanTagStack};
use clap::{Args, Subcommand};

use super::keeping::{Numbers, Secret};
use super::{confine, key, state};
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

#[derive(Args)]
pub(crate) struct Publish {
    /// The interface
    interface: String,
    /// A file with 32 hexadecimal digits, readable by its owner only
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
    /// Frames in a second
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rate: u32,
    /// Sets of samples in a frame: 1 in 9-2LE, 2 in IEC 61869-9 with 4800 samples in a second
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    asdus: u8,
    /// The stream's identifier
    #[arg(long, value_name = "NAME", default_value = "antedateMU01")]
    sv_id: String,
    /// The application identifier
    #[arg(long, value_name = "N", default_value_t = 0x4000)]
    appid: u16,
    /// Ends after so many seconds
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u32,
}

#[derive(Args)]
pub(crate) struct Subscribe {
    /// The interface
    interface: String,
    /// A file with 32 hexadecimal digits, readable by its owner only
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
    /// Samples in a second, after which their number begins again
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=65_536))]
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

/// Octets of a data set of 9-2LE.
const SET: usize = 64;
/// The destination that IEC 61850-9-2 recommends for the first stream.
const DESTINATION: EthernetAddress = EthernetAddress([0x01, 0x0c, 0xcd, 0x04, 0x00, 0x00]);
/// The priority that IEC 61850-9-2 recommends.
const PRIORITY: u8 = 4;
/// Sleeping ends so long before a frame is due; the rest is waited for awake.
const AWAKE: Duration = Duration::from_micros(80);

/// Four currents and four voltages of three phases at 50 Hz, with good quality.
fn waveform(number: u32, rate: u32) -> [u8; SET] {
    let mut set = [0; SET];
    let turn = f64::from(number) * 50.0 / f64::from(rate);
    for (at, place) in set.chunks_exact_mut(8).enumerate() {
        let (amplitude, phase) = (if at < 4 { 100_000.0 } else { 1_000_000.0 }, (at % 4) as f64 / 3.0);
        // The fourth is the sum of the three.
        let value =
            if at % 4 == 3 { 0.0 } else { amplitude * (core::f64::consts::TAU * (turn - phase)).sin() };
        place[..4].copy_from_slice(&(value as i32).to_be_bytes());
    }
    set
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
    pub(super) fn run(self) -> Done {
        let socket = open(&self.interface)?;
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let set = [0; SET];
        let asdu = Asdu {
            sv_id: self.sv_id.as_bytes(),
            dat_set: None,
            smp_cnt: 0,
            conf_rev: 1,
            refr_tm: None,
            smp_synch: 0,
            smp_rate: None,
            sample: &set,
            smp_mod: None,
        };
        let asdus = vec![asdu; usize::from(self.asdus)];
        let message = Message { appid: self.appid, simulation: false, asdus: Asdus::Given(&asdus) };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        let period = KeyPeriod { key: self.key_number, since, minutes_left: u16::MAX };
        let source = EthernetAddress(socket.address());
        let layout = Layout::sampled(DESTINATION, source, &message, form, period).map_err(|error| {
            Failure::usage(format!("the frame: {error}"), "give fewer --asdus or a shorter --sv-id")
        })?;
        let layout = layout.tagged(Tci::new(PRIORITY, false, VlanId::PRIORITY));
        signal::install();
        let (Some(file), Some(directory)) = (&self.key, &self.state) else {
            confine(Vec::new(), Vec::new());
            return self.paced(&socket, &mut Plain { head: plain(&message, source)?, message });
        };
        let secret = Secret::load(file)?;
        let word = state(self.first, self.state_moved);
        let numbers = Numbers::open(directory, (file, &secret), &[], source.0, word, self.volatile_state)?;
        let counter = Counter::new(source.0, numbers.first(), numbers.limit());
        let sampler = Sampler::new(key(&secret)?, counter, &layout).map_err(|error| failed(&error))?;
        confine(vec![directory.clone()], Vec::new());
        let mut protected = Protected { sampler, reserving: Reserving::start(numbers, directory.clone()) };
        let sent = self.paced(&socket, &mut protected);
        protected.tell();
        protected.reserving.close()?;
        sent
    }

    /// Sends the frames of a stream when they are due.
    fn paced(&self, socket: &PacketSocket, stream: &mut dyn Stream) -> Done {
        let (period, each) = (Duration::from_secs(1) / self.rate, u32::from(self.asdus));
        let samples = self.rate * each;
        let mut frame = vec![0; 2048];
        let (mut late, mut made) = (0u64, Vec::with_capacity((self.rate * self.seconds.min(60)) as usize));
        let begun = Instant::now();
        let mut number = 0;
        while number < self.rate * self.seconds && !signal::stopping() {
            stream.prepare(number);
            let due = begun + period * number;
            thread::sleep(due.saturating_duration_since(Instant::now()).saturating_sub(AWAKE));
            while Instant::now() < due {
                core::hint::spin_loop();
            }
            let sets: Vec<[u8; SET]> =
                (0..each).map(|at| waveform((number * each + at) % samples, samples)).collect();
            let now: Vec<Sample<'_>> = (0..each)
                .zip(&sets)
                .map(|(at, octets)| Sample {
                    smp_cnt: ((number * each + at) % samples) as u16,
                    refr_tm: [0; 8],
                    smp_synch: 0,
                    octets,
                })
                .collect();
            let deadline = Instant::now();
            let len = stream.frame(&now, &mut frame)?;
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
    fn prepare(&mut self, number: u32);
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
    fn prepare(&mut self, number: u32) {
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
fn plain(message: &Message<'_>, source: EthernetAddress) -> Result<Vec<u8>, Failure> {
    let tci = Tci::new(PRIORITY, false, VlanId::PRIORITY).0.to_be_bytes();
    let ethertype = EtherType::SampledValues.number().to_be_bytes();
    let head = [&DESTINATION.0[..], &source.0, &[0x81, 0], &tci, &ethertype].concat();
    if head.len() + message.buffer_len() > 1518 {
        return Err(Failure::usage("the frame is too long", "give fewer --asdus or a shorter --sv-id"));
    }
    Ok(head)
}

impl Stream for Plain<'_> {
    fn prepare(&mut self, _: u32) {}

    fn frame(&mut self, samples: &[Sample<'_>], out: &mut [u8]) -> Result<usize, Failure> {
        let asdus: Vec<Asdu<'_>> = self
            .message
            .asdus
            .iter()
            .zip(samples)
            .map(|(asdu, sample)| Asdu { smp_cnt: sample.smp_cnt, sample: sample.octets, ..asdu })
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
    longest: Duration,
}

impl Subscribe {
    pub(super) fn run(self) -> Done {
        let socket = open(&self.interface)?;
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let mut subscriber = match &self.key {
            Some(file) => Some(Subscriber::new(key(&Secret::load(file)?)?, self.key_number, form, 0)),
            None => None,
        };
        signal::install();
        confine(Vec::new(), Vec::new());
        output::print("{\"listening\":true}\n")?;
        let (begun, mut told, mut before) = (Instant::now(), 0, None);
        let (mut second, mut expected, mut frame) = (Second::default(), None, vec![0; 2048]);
        while told < self.seconds && !signal::stopping() {
            let received = match socket.wait(10_000_000) {
                Ok(true) => socket.receive(&mut frame, false),
                other => other.map(|_| None),
            };
            let received = received.map_err(|error| {
                Failure::usage(format!("{}: {error}", self.interface), "the interface must stay up")
            })?;
            if let Some(len) = received {
                let now = Instant::now();
                match read(subscriber.as_mut(), &frame[..len]) {
                    None => second.refused += 1,
                    Some(message) => {
                        second.frames += 1;
                        let gap = before.replace(now).map_or(Duration::ZERO, |before| now - before);
                        second.longest = second.longest.max(gap);
                        for asdu in message.asdus.iter() {
                            let number = u32::from(asdu.smp_cnt);
                            let due = expected.replace((number + 1) % self.samples).unwrap_or(number);
                            second.lost += u64::from((number + self.samples - due) % self.samples);
                            second.samples += 1;
                        }
                    }
                }
            }
            if begun.elapsed() >= Duration::from_secs(u64::from(told) + 1) {
                told += 1;
                let Second { frames, samples, lost, refused, longest } = core::mem::take(&mut second);
                let line = serde_json::json!({
                    "frames": frames, "samples": samples, "lost": lost, "refused": refused,
                    "longest_gap_us": longest.as_micros() as u64,
                });
                if !output::print_while_read(&format!("{line}\n"))? {
                    break;
                }
            }
        }
        if let Some(subscriber) = &subscriber {
            output::tell(format_args!("{:?}", subscriber.counters()));
        }
        Ok(())
    }
}

/// A frame's message, if it may be delivered.
fn read<'a>(subscriber: Option<&'a mut Subscriber<Aes128Gcm>>, frame: &'a [u8]) -> Option<Message<'a>> {
    match subscriber {
        Some(subscriber) => subscriber.receive_sampled(frame).ok(),
        None => Message::parse(frame.get(VlanTagStack::parse(frame).ok()?.payload..)?).ok(),
    }
}
