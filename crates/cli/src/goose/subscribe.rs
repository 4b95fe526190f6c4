//! `antedate goose subscribe`: messages as lines of JSON.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use antedate_aead::Aes128Gcm;
use antedate_channel::goose::{Dropped, Form, Subscriber};
use antedate_goose::clock::ACCURACY;
use antedate_lab::sys::signal;
use antedate_wire::goose::{Message, Repr};
use antedate_wire::{EtherType, VlanTagStack};
use clap::Args;

use super::block::Block;
use super::keeping::Secret;
use super::keeping::heard::Heard;
use super::timely::{Cause, Timely};
use super::watch::Watch;
use super::{confine, key, lines, now, open, state};
use crate::failure::{Done, Failure};
use crate::output;

#[derive(Args)]
pub(crate) struct Subscribe {
    /// The interface
    interface: String,
    #[command(flatten)]
    block: Block,
    /// A file with 32 hexadecimal digits, readable by its owner only
    #[arg(long, value_name = "FILE", required_unless_present = "plain")]
    key: Option<PathBuf>,
    /// The key's number in the messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    key_number: u32,
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

/// What a message must pass before it is printed.
struct Judges {
    subscriber: Option<Subscriber<Aes128Gcm>>,
    watch: Option<Watch>,
    timely: Option<Timely>,
    dropped: Cause,
}

/// A message to print.
struct Printed {
    line: String,
    source: [u8; 6],
    st_num: u32,
}

impl Judges {
    /// The line of a frame's message, if it may be delivered.
    fn line(&mut self, frame: &[u8]) -> Option<Printed> {
        let stack = VlanTagStack::parse(frame).ok().filter(|stack| stack.ethertype == EtherType::Goose)?;
        let source: [u8; 6] = *frame.get(6..)?.first_chunk()?;
        if let Some(watch) = &self.watch {
            let header = Repr::parse(&frame[stack.payload..]).ok()?;
            if !watch.is_addressed(&frame[..6], header.appid) {
                return None;
            }
        }
        let message = match &mut self.subscriber {
            None => Message::parse(&frame[stack.payload..]).ok()?,
            Some(subscriber) => match subscriber.receive(frame) {
                Ok(message) => message,
                Err(why) => {
                    // Other publishers' messages are no fault, unless they have our address.
                    if self.watch.is_some() {
                        self.dropped.warn(format_args!("messages are refused: {}", reason(why)));
                    }
                    return None;
                }
            },
        };
        let values = match &mut self.watch {
            Some(watch) => watch.heard(source, &message)?,
            None => lines::unnamed(&message),
        };
        if self.timely.as_mut().is_some_and(|timely| !timely.passes(&message, now(ACCURACY))) {
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
        Dropped::UnknownKey => "they name another key; see --key-number",
        Dropped::UnknownSender => "their IV is not of their address, or there are too many publishers",
        Dropped::Late | Dropped::Duplicate => "they were received before: repeated, or overtaken on the way",
        Dropped::Unauthentic => "they are not authentic: forged, or of another key, or --encrypt differs",
        Dropped::Pdu => "their PDU is invalid",
        _ => "for another reason",
    }
}

impl Subscribe {
    pub(super) fn run(self) -> Done {
        let watch = self.block.of_file()?.map(Watch::new);
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let socket = open(&self.interface)?;
        let (mut subscriber, mut heard) = (None, None);
        if let Some(file) = &self.key {
            let secret = Secret::load(file)?;
            let made = subscriber.insert(Subscriber::new(key(&secret)?, self.key_number, form, 0));
            if let Some(directory) = &self.state {
                let word = state(self.first, self.state_moved);
                let before = heard.insert(Heard::open(directory, &secret, word, self.volatile_state)?);
                before
                    .publishers()
                    .into_iter()
                    .for_each(|(sender, lowest)| made.refuse_below(sender, lowest));
            }
        }
        let timely = self.max_age.map(Timely::new);
        let mut judges = Judges { subscriber, watch, timely, dropped: Cause::default() };
        signal::install();
        confine(self.state.iter().cloned().collect());
        output::print("{\"listening\":true}\n")?;
        let mut frame = vec![0; 2048];
        let (mut delivered, mut last, mut read, mut known) = (0, Instant::now(), true, None);
        let mut down = Cause::default();
        while read && !signal::stopping() && self.count.is_none_or(|count| delivered < count) {
            if !self.wait && last.elapsed() > Duration::from_secs(self.patience) {
                break;
            }
            if let Some(watch) = &mut judges.watch
                && !watch.tell()?
            {
                break;
            }
            judges.dropped.look("messages are accepted again");
            let received = match socket.wait(10_000_000) {
                Ok(true) => socket.receive(&mut frame, false),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            let len = match received {
                Ok(Some(len)) => len,
                Ok(None) => continue,
                // A link comes back.
                Err(error) if self.wait => {
                    down.warn(format_args!("{}: {error}", self.interface));
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
                Err(error) => {
                    let what = format!("{}: {error}", self.interface);
                    return Err(Failure::usage(what, "the interface must stay up; --wait waits for it"));
                }
            };
            let Some(message) = judges.line(&frame[..len]) else { continue };
            (delivered, last) = (delivered + 1, Instant::now());
            if let Some(watch) = &mut judges.watch {
                read = watch.tell()?;
            }
            read = read && output::print_while_read(&message.line)?;
            // Delivered first, because a disk may take longer than a trip has.
            if let (Some(heard), Some(subscriber)) = (&mut heard, &judges.subscriber) {
                let is_event = known.replace((message.source, message.st_num)) != known;
                heard.record(subscriber.publishers(), is_event)?;
            }
        }
        if let Some(subscriber) = &judges.subscriber {
            if let Some(heard) = &mut heard {
                heard.record(subscriber.publishers(), true)?;
            }
            output::tell(format_args!("{:?}", subscriber.counters()));
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
