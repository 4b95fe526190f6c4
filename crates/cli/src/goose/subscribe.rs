//! `antedate goose subscribe`: messages as lines of JSON.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use antedate_aead::Aes128Gcm;
use antedate_channel::goose::{Counters, Dropped, Form, Freshness, RoutedSubscriber, Subscriber};
use antedate_goose::clock::ACCURACY;
use antedate_lab::sys::signal;
use antedate_wire::goose::{Message, Repr};
use antedate_wire::routed::IV;
use antedate_wire::{EtherType, VlanTagStack};
use clap::Args;

use super::block::Block;
use super::carrier::{Incoming, Peer};
use super::keeping::Secret;
use super::keeping::heard::Heard;
use super::keys::{Keys, today};
use super::socket::Sink;
use super::timely::{Cause, Timely};
use super::watch::Watch;
use super::{confine, encrypting, key, lines, now, open, socket, state};
use crate::failure::{Done, Failure};
use crate::output;

#[derive(Args)]
pub(crate) struct Subscribe {
    /// The interface
    #[arg(required_unless_present = "routed", conflicts_with = "routed")]
    interface: Option<String>,
    /// Routed GOOSE: datagrams to this address of the machine or multicast group, port 102 unless given
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with_all = ["encrypt", "plain"])]
    routed: Option<Peer>,
    /// Routed GOOSE of publishers whose IVs are random: repeated messages are told by the SPDU number
    #[arg(long, requires = "routed", conflicts_with = "state")]
    random_iv: bool,
    #[command(flatten)]
    block: Block,
    /// Gives the lines to all readers at this Unix socket, for the user and the group (0660), instead of
    /// standard output
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// A file with a key (32 hexadecimal digits; 64 and hmac-sha256-128), or with a line
    /// NUMBER BEGIN KEY for each key of a group;
    /// readable by its owner only
    #[arg(long, value_name = "FILE", required_unless_present = "plain")]
    key: Option<PathBuf>,
    /// The number of a single key in the messages (1)
    #[arg(long, value_name = "N", conflicts_with = "plain")]
    key_number: Option<u32>,
    /// Accepts a key of a group so many seconds before its begin, and after that of the next one
    #[arg(long, value_name = "S", default_value_t = 300, conflicts_with = "plain", value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    overlap: u64,
    /// Messages are encrypted as well
    #[arg(long)]
    encrypt: bool,
    /// Reads unprotected messages
    #[arg(long, conflicts_with_all = ["key", "encrypt", "state"])]
    plain: bool,
    /// A directory for the numbers that were heard: recorded messages are refused after a restart too
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Nothing was heard before: creates the state
    #[arg(long, requires = "state")]
    first: bool,
    /// The state was moved here, once
    #[arg(long, requires = "state", conflicts_with = "first")]
    state_moved: bool,
    /// The state may lie in memory (tmpfs). Recordings are accepted after a restart of the machine
    #[arg(long, requires = "state")]
    volatile_state: bool,
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
    /// Waits for messages for ever
    #[arg(long, conflicts_with = "patience")]
    wait: bool,
}

/// What opens messages.
enum Opener {
    Plain,
    Ethernet(Subscriber<Aes128Gcm>),
    Routed(RoutedSubscriber<Aes128Gcm>),
}

impl Opener {
    fn counters(&self) -> Option<&Counters> {
        match self {
            Self::Plain => None,
            Self::Ethernet(subscriber) => Some(subscriber.counters()),
            Self::Routed(subscriber) => Some(subscriber.counters()),
        }
    }

    fn publishers(&self) -> Vec<(u32, [u8; 6], u64)> {
        match self {
            Self::Plain => Vec::new(),
            Self::Ethernet(subscriber) => subscriber.publishers().collect(),
            Self::Routed(subscriber) => subscriber.publishers().collect(),
        }
    }

    fn refuse_below(&mut self, key: u32, sender: [u8; 6], lowest: u64) {
        match self {
            Self::Plain => {}
            Self::Ethernet(subscriber) => subscriber.refuse_below(key, sender, lowest),
            Self::Routed(subscriber) => subscriber.refuse_below(key, sender, lowest),
        }
    }

    fn keys(&self) -> Vec<u32> {
        match self {
            Self::Plain => Vec::new(),
            Self::Ethernet(subscriber) => subscriber.keys().collect(),
            Self::Routed(subscriber) => subscriber.keys().collect(),
        }
    }

    fn accept(&mut self, secret: &Secret, number: u32) -> Result<bool, Failure> {
        Ok(match self {
            Self::Plain => false,
            Self::Ethernet(subscriber) => subscriber.accept(key(secret)?, number),
            Self::Routed(subscriber) => subscriber.accept(encrypting(secret)?, number),
        })
    }

    fn forget(&mut self, number: u32) {
        match self {
            Self::Plain => {}
            Self::Ethernet(subscriber) => subscriber.forget(number),
            Self::Routed(subscriber) => subscriber.forget(number),
        }
    }

    /// Follows the keys of a group: those that begin are accepted, and those whose time is over refused.
    fn follow(&mut self, keys: &Keys, overlap: u64, heard: Option<&Heard>) -> Done {
        let (now, known) = (today(), self.keys());
        let accepted: Vec<_> = keys.accepted(now, overlap).collect();
        // The keys follow each other, so one before the known ones is over.
        let last = known.last().copied().unwrap_or_default();
        for dated in accepted.iter().filter(|dated| known.is_empty() || dated.number > last) {
            if !self.accept(&dated.secret, dated.number)? {
                continue;
            }
            for (sender, lowest) in heard.map(|heard| heard.publishers(&dated.secret)).unwrap_or_default() {
                self.refuse_below(dated.number, sender, lowest);
            }
            output::tell(format_args!(
                "INFO key {} is accepted, which begins at {}",
                dated.number,
                dated.said()
            ));
        }
        for number in known.into_iter().filter(|number| accepted.iter().all(|dated| dated.number != *number))
        {
            self.forget(number);
            output::tell(format_args!("INFO key {number} is no longer accepted"));
        }
        Ok(())
    }
}

/// The publishers that were heard, with their keys.
fn heard_of<'k>(keys: Option<&'k Keys>, opener: &Opener) -> Vec<(&'k Secret, [u8; 6], u64)> {
    let all = keys.map(Keys::all).unwrap_or_default();
    let of = |(number, sender, next)| {
        let dated = all.iter().find(|dated| dated.number == number)?;
        Some((&dated.secret, sender, next))
    };
    opener.publishers().into_iter().filter_map(of).collect()
}

/// What a message must pass before it is printed.
struct Judges {
    opener: Opener,
    watch: Option<Watch>,
    timely: Option<Timely>,
    dropped: Cause,
    random_iv: bool,
}

/// A message to print.
struct Printed {
    line: String,
    source: [u8; 6],
    st_num: u32,
}

impl Judges {
    /// Whether a frame is to be looked at, and its source. A datagram's is the first half of its
    /// IV, unless it is random.
    fn source(&self, message: &[u8]) -> Option<([u8; 6], usize)> {
        match self.opener {
            Opener::Routed(_) if self.random_iv => return Some(([0; 6], 0)),
            Opener::Routed(_) => return Some((message.get(IV)?.first_chunk().copied()?, 0)),
            _ => {}
        }
        let stack = VlanTagStack::parse(message).ok().filter(|stack| stack.ethertype == EtherType::Goose)?;
        if let Some(watch) = &self.watch {
            let header = Repr::parse(&message[stack.payload..]).ok()?;
            if !watch.is_addressed(&message[..6], header.appid) {
                return None;
            }
        }
        Some((*message.get(6..)?.first_chunk()?, stack.payload))
    }

    /// The line of a message, if it may be delivered.
    fn line(&mut self, received: &[u8]) -> Option<Printed> {
        let (source, payload) = self.source(received)?;
        let Self { opener, watch, timely, dropped, .. } = self;
        let opened = match opener {
            Opener::Plain => Ok(Message::parse(&received[payload..]).ok()?),
            Opener::Ethernet(subscriber) => subscriber.receive(received),
            Opener::Routed(subscriber) => subscriber.receive(received),
        };
        let message = match opened {
            Ok(message) => message,
            Err(why) => {
                // Other publishers' messages are no fault, unless they have our address.
                if watch.is_some() {
                    dropped.warn(format_args!("messages are refused: {}", reason(why)));
                }
                return None;
            }
        };
        let values = match watch {
            Some(watch) => watch.heard(source, &message)?,
            None => lines::unnamed(&message),
        };
        if timely.as_mut().is_some_and(|timely| !timely.passes(&message, now(ACCURACY))) {
            return None;
        }
        Some(Printed { line: lines::line(&message, source, &values), source, st_num: message.st_num })
    }
}

const fn reason(why: Dropped) -> &'static str {
    match why {
        Dropped::Malformed => "they are malformed",
        Dropped::Unprotected => "they are not protected",
        Dropped::Crc => "the CRC of their header is wrong",
        Dropped::UnknownKey => {
            "they name a key that is not accepted; see --key-number, or the file of the keys, --overlap and the clock"
        }
        Dropped::UnknownSender => "their IV is not of their address, or there are too many publishers",
        Dropped::Late | Dropped::Duplicate => "they were received before: repeated, or overtaken on the way",
        Dropped::Unauthentic => "they are not authentic: forged, or of another key, or --encrypt differs",
        Dropped::Pdu => "their PDU is invalid",
        _ => "for another reason",
    }
}

fn unknown() -> Failure {
    Failure::usage("goose: no key is accepted now", "look at the clock, and at the times of the keys")
}

impl Subscribe {
    pub(super) fn run(self) -> Done {
        let watch = self.block.of_file()?.map(Watch::new);
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let mut incoming = match (self.routed, &self.interface) {
            (Some(at), _) => Incoming::routed(at)?,
            (None, interface) => Incoming::Ethernet(open(interface.as_deref().unwrap_or_default())?),
        };
        let (mut opener, mut heard, mut keys) = (Opener::Plain, None, None);
        if let Some(file) = &self.key {
            let keys = keys.insert(Keys::load(file, self.key_number, self.encrypt || self.routed.is_some())?);
            let accepted = keys.accepted(today(), self.overlap).next();
            let Some(first) = accepted else {
                return Err(keys.current(today()).err().map_or_else(unknown, Into::into));
            };
            let (number, secret) = (first.number, &first.secret);
            let freshness = if self.random_iv { Freshness::Number } else { Freshness::Counter };
            opener = match self.routed {
                Some(_) => Opener::Routed(RoutedSubscriber::new(encrypting(secret)?, number, freshness)),
                None => Opener::Ethernet(Subscriber::new(key(secret)?, number, form, 0)),
            };
            if let Some(directory) = &self.state {
                let word = state(self.first, self.state_moved);
                let before = heard.insert(Heard::open(directory, word, self.volatile_state)?);
                for (sender, lowest) in before.publishers(&first.secret) {
                    opener.refuse_below(number, sender, lowest);
                }
            }
            opener.follow(keys, self.overlap, heard.as_ref())?;
        }
        let timely = self.max_age.map(Timely::new);
        let (dropped, random_iv) = (Cause::default(), self.random_iv);
        let mut judges = Judges { opener, watch, timely, dropped, random_iv };
        let place = self.routed.map_or(self.interface.clone().unwrap_or_default(), |at| at.to_string());
        signal::install();
        let mut sink = Sink::new(self.socket.as_deref())?;
        let writes = self.state.iter().cloned().chain(socket::directory(self.socket.as_deref()));
        confine(writes.collect(), keys.as_ref().map(Keys::reads).unwrap_or_default());
        output::print("{\"listening\":true}\n")?;
        let mut frame = vec![0; 2048];
        let (mut delivered, mut last, mut read, mut known) = (0, Instant::now(), true, None);
        let mut down = Cause::default();
        while read && !signal::stopping() && self.count.is_none_or(|count| delivered < count) {
            if !self.wait && last.elapsed() > Duration::from_secs(self.patience) {
                break;
            }
            if let Some(watch) = &mut judges.watch
                && !watch.tell(&mut sink)?
            {
                break;
            }
            sink.turn();
            judges.dropped.look("messages are accepted again");
            if let Some(keys) = &mut keys
                && keys.look()
            {
                judges.opener.follow(keys, self.overlap, heard.as_ref())?;
            }
            let received = incoming.next(&mut frame);
            let len = match received {
                Ok(Some(len)) => len,
                Ok(None) => continue,
                // A link comes back.
                Err(error) if self.wait => {
                    down.warn(format_args!("{place}: {error}"));
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
                Err(error) => {
                    let what = format!("{place}: {error}");
                    return Err(Failure::usage(what, "the interface must stay up; --wait waits for it"));
                }
            };
            let Some(message) = judges.line(&frame[..len]) else { continue };
            (delivered, last) = (delivered + 1, Instant::now());
            if let Some(watch) = &mut judges.watch {
                read = watch.tell(&mut sink)?;
            }
            read = read && sink.print(&message.line)?;
            // Delivered first, because a disk may take longer than a trip has.
            if let Some(heard) = &mut heard {
                let is_event = known.replace((message.source, message.st_num)) != known;
                heard.record(heard_of(keys.as_ref(), &judges.opener).into_iter(), is_event)?;
            }
        }
        if let Some(heard) = &mut heard {
            heard.record(heard_of(keys.as_ref(), &judges.opener).into_iter(), true)?;
        }
        if let Some(counters) = judges.opener.counters() {
            output::tell(format_args!("{counters:?}"));
        }
        if let Some(timely) = &judges.timely {
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
