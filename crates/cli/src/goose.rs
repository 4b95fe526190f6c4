//! `antedate goose`: publish and subscribe to protected GOOSE on an interface.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use antedate_aead::{Aes128Gcm, Key};
use antedate_channel::goose::{Counter, Form, KeyPeriod, Layout, Publisher, Subscriber};
use antedate_hardening::confine::Needs;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_lab::sys::signal;
use antedate_wire::EthernetAddress;
use antedate_wire::goose::{self, Message, Value, Values};
use clap::{Args, Subcommand};
use keeping::{Numbers, Secret, State};
use timely::Timely;

use crate::failure::{Done, Failure};
use crate::hardened;
use crate::output;

mod keeping;
mod timely;

/// Verbs of GOOSE.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Publish events (a boolean, an INT32 and a time), prepared before they happen
    ///
    /// Authenticated with AES-GMAC; a subscriber without the security extension can read them too.
    #[command(after_help = "Example:\n  sudo antedate goose publish eth0 --key key --state state --first")]
    Publish(Publish),
    /// Print messages as lines of JSON
    #[command(
        after_help = "Examples:\n  sudo antedate goose subscribe eth0 --key key --max-age 20\n  sudo antedate goose subscribe eth0 --plain --count 10"
    )]
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
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// A directory for the reserved numbers
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The key was never used before: creates the state
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
    /// Events to publish
    #[arg(long, value_name = "N", default_value_t = 10)]
    events: u32,
    /// Retransmissions of each
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: u32,
    /// Milliseconds between messages
    #[arg(long, value_name = "MS", default_value_t = 20)]
    interval: u64,
}

#[derive(Args)]
pub(crate) struct Subscribe {
    /// The interface
    interface: String,
    /// A file with 32 hexadecimal digits, readable by its owner only
    #[arg(long, value_name = "FILE", required_unless_present = "plain")]
    key: Option<PathBuf>,
    /// Messages are encrypted as well
    #[arg(long)]
    encrypt: bool,
    /// Reads unprotected messages of any publisher
    #[arg(long, conflicts_with_all = ["key", "encrypt"])]
    plain: bool,
    /// Ends after this many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Refuses an event that is more milliseconds away from now: held back on the way. The clocks of
    /// both ends must be synchronised
    #[arg(long, value_name = "MS", conflicts_with = "plain", value_parser = clap::value_parser!(u32).range(1..))]
    max_age: Option<u32>,
    /// Ends after so many seconds without a message
    #[arg(long, value_name = "S", default_value_t = 5)]
    patience: u64,
}

const SENDER: [u8; 4] = [0, 0, 0, 1];
const KEY_NUMBER: u32 = 1;
const GROUP: [u8; 6] = [0x01, 0x0c, 0xcd, 0x01, 0x00, 0x01];
const ETHERTYPE: u16 = 0x88b8;

fn key(secret: &Secret) -> Result<Key<Aes128Gcm>, Failure> {
    Key::new(secret.as_bytes())
        .map_err(|error| Failure::usage(format!("goose: {error}"), "this is a fault of the program"))
}

fn open(interface: &str) -> Result<PacketSocket, Failure> {
    let options = Options { protocol: ETHERTYPE, promiscuous: true, ..Options::default() };
    PacketSocket::open(interface, options).map_err(|error| {
        Failure::usage(
            format!("{interface}: {error}"),
            "name an interface that is up, as root or with CAP_NET_RAW",
        )
    })
}

/// The time in GOOSE's form (IEC 61850-8-1, 8.1.3.7): seconds, a fraction of 24 bits, an accuracy
/// of 10 bits.
fn now() -> [u8; 8] {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(since.subsec_nanos()) << 24) / 1_000_000_000;
    let mut t = (since.as_secs() << 32 | fraction << 8).to_be_bytes();
    t[7] = 0x0a;
    t
}

/// Sleeps in short steps, because a sleep continues after a signal.
fn pause(mut rest: Duration) {
    while !rest.is_zero() && !signal::stopping() {
        let part = rest.min(Duration::from_millis(100));
        std::thread::sleep(part);
        rest -= part;
    }
}

/// Gives up the rights that are not needed once the socket and all files are open.
fn confine(writes: Vec<PathBuf>) {
    if let Some(warning) = hardened::confine(&Needs { writes, ..Needs::default() }) {
        output::tell(format_args!("antedate: {warning}"));
    }
}

impl Publish {
    const fn state(&self) -> State {
        match (self.first, self.state_moved) {
            (true, _) => State::New,
            (_, true) => State::Moved,
            _ => State::Last,
        }
    }

    fn run(self) -> Done {
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let socket = open(&self.interface)?;
        let values = |event: u32| {
            [Value::Boolean(event % 2 == 1), Value::int32(event as i32 * 1000 - 7), Value::UtcTime(now())]
        };
        let none = values(0);
        let message = Message {
            appid: 0x1000,
            publisher: goose::Publisher {
                gocb_ref: b"antedateLD0/LLN0$GO$gcbTrip",
                time_allowed_to_live: 2000,
                dat_set: b"antedateLD0/LLN0$dsTrip",
                go_id: Some(b"antedate"),
            },
            t: [0; 8],
            st_num: 1,
            sq_num: 0,
            simulation: false,
            conf_rev: 3,
            nds_com: false,
            all_data: Values::Given(&none),
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        let period = KeyPeriod { key: KEY_NUMBER, since, minutes_left: u16::MAX };
        let failed = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("goose: {error}"), "this is a fault of the program")
        };
        let layout =
            Layout::new(EthernetAddress(GROUP), EthernetAddress(socket.address()), &message, form, period)
                .map_err(|error| failed(&error))?;
        let secret = Secret::load(&self.key)?;
        let _alone = Secret::alone(&self.key)?;
        let mut numbers = Numbers::open(&self.state, &secret, self.state(), self.volatile_state)?;
        let counter = Counter::new(SENDER, numbers.first(), numbers.limit());
        let mut publisher =
            Publisher::new(key(&secret)?, counter, &layout).map_err(|error| failed(&error))?;
        signal::install();
        confine(vec![self.state.clone()]);
        let mut frame = vec![0; layout.frame_len()];
        let mut slowest = Duration::ZERO;
        let mut sent = 0u64;
        for event in 1..=self.events {
            for again in 0..=self.repeats {
                if numbers.top_up(publisher.counter_mut().left(), &self.state)? {
                    publisher.counter_mut().reserve_until(numbers.limit());
                }
                publisher.idle(u32::MAX);
                pause(Duration::from_millis(self.interval));
                if signal::stopping() {
                    return Ok(numbers.close(publisher.counter_mut().left(), &self.state)?);
                }
                let begun = Instant::now();
                let len = if again == 0 {
                    publisher.event(now(), &values(event), &mut frame)
                } else {
                    publisher.repeat(&mut frame)
                };
                let len = len.map_err(|error| failed(&error))?;
                slowest = slowest.max(begun.elapsed());
                socket.send(&frame[..len]).map_err(|error| {
                    Failure::usage(
                        format!("{}: {error}", self.interface),
                        "the interface must be up and take full frames",
                    )
                })?;
                sent += 1;
            }
        }
        numbers.close(publisher.counter_mut().left(), &self.state)?;
        output::print(&format!(
            "{sent} messages of {} bytes, {} of them known before an event; the slowest was made in {:.1} us\n",
            layout.frame_len(),
            layout.known_len(),
            slowest.as_secs_f64() * 1e6
        ))
    }
}

impl Subscribe {
    fn run(self) -> Done {
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let socket = open(&self.interface)?;
        let mut subscriber = match &self.key {
            Some(file) => Some(Subscriber::new(key(&Secret::load(file)?)?, KEY_NUMBER, SENDER, form, 1, 0)),
            None => None,
        };
        let mut timely = self.max_age.map(Timely::new);
        signal::install();
        confine(Vec::new());
        output::print("{\"listening\":true}\n")?;
        let mut frame = vec![0; 2048];
        let (mut delivered, mut last, mut read) = (0, Instant::now(), true);
        while read && !signal::stopping() && self.count.is_none_or(|count| delivered < count) {
            if last.elapsed() > Duration::from_secs(self.patience) {
                break;
            }
            let failed = |error: std::io::Error| {
                Failure::usage(format!("{}: {error}", self.interface), "the interface must stay up")
            };
            if !socket.wait(100_000_000).map_err(failed)? {
                continue;
            }
            let Some(len) = socket.receive(&mut frame, false).map_err(failed)? else { continue };
            let message = match &mut subscriber {
                Some(subscriber) => subscriber.receive(&frame[..len]).ok(),
                None => antedate_wire::VlanTagStack::parse(&frame[..len])
                    .ok()
                    .and_then(|stack| Message::parse(&frame[stack.payload..len]).ok()),
            };
            let Some(message) = message else { continue };
            if timely.as_mut().is_some_and(|timely| !timely.passes(&message, now())) {
                continue;
            }
            (delivered, last) = (delivered + 1, Instant::now());
            read = output::print_while_read(&line(&message))?;
        }
        if let Some(subscriber) = &subscriber {
            output::tell(format_args!("{:?}", subscriber.counters()));
        }
        if let Some(timely) = &timely {
            output::tell(format_args!("{:?}", timely.ages()));
        }
        match self.count {
            Some(count) if read && delivered < count => {
                Err(Failure::Verdict(format!("{delivered} of {count} messages came before the end")))
            }
            _ => Ok(()),
        }
    }
}

fn line(message: &Message<'_>) -> String {
    let values: Vec<serde_json::Value> = message.all_data.iter().map(value).collect();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let line = serde_json::json!({
        "control_block": text(message.publisher.gocb_ref),
        "state": message.st_num,
        "sequence": message.sq_num,
        "revision": message.conf_rev,
        "values": values,
    });
    format!("{line}\n")
}

fn value(value: Value<'_>) -> serde_json::Value {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    match value {
        Value::Boolean(value) => value.into(),
        Value::Integer(value, _) => value.into(),
        Value::Unsigned(value, _) => value.into(),
        Value::Float32(value) => value.into(),
        Value::Float64(value) => value.into(),
        Value::Visible(value) | Value::Mms(value) => text(value).into(),
        Value::Bits(value, _) | Value::Octets(value) | Value::BinaryTime(value) => value.into(),
        Value::UtcTime(value) => value.to_vec().into(),
        Value::Structure(values) | Value::Array(values) => values.iter().map(self::value).collect(),
    }
}
