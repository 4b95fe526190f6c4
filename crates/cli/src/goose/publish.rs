//! `antedate goose publish`: values of an SCL file's control block, or of a demonstration.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use antedate_aead::Aes128Gcm;
use antedate_channel::goose::{Counter, Form, KeyPeriod, Layout, Pace, Publisher};
use antedate_goose::clock::{ACCURACY, NOT_SYNCHRONIZED};
use antedate_goose::control::Control;
use antedate_goose::values::Board;
use antedate_lab::sys::clock::is_synchronized;
use antedate_lab::sys::signal;
use antedate_wire::EthernetAddress;
use antedate_wire::goose::Value;
use antedate_wire::vlan::{Tci, VlanId};
use clap::Args;
use input::{Input, Next};

use super::block::{Block, example};
use super::carrier::{Outgoing, Peer};
use super::keeping::{Numbers, Secret};
use super::timely::Cause;
use super::{confine, key, now, open, state};
use crate::failure::{Done, Failure};
use crate::output;

mod input;

#[derive(Args)]
pub(crate) struct Publish {
    /// The interface
    interface: String,
    #[command(flatten)]
    block: Block,
    /// A file with 32 hexadecimal digits, readable by its owner only
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The key's number in the messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    key_number: u32,
    /// A directory for the reserved numbers
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
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
    /// Routed GOOSE, encrypted: datagrams to this address or multicast group, port 102 unless given.
    /// The interface's address is still the publisher's part of the IV
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with = "encrypt")]
    to: Option<Peer>,
    /// The messages are of a test device
    #[arg(long)]
    simulation: bool,
    /// The control block needs commissioning
    #[arg(long)]
    needs_commissioning: bool,
    /// The clock is synchronised, whatever the kernel says: by a PTP daemon, for example
    #[arg(long)]
    trust_clock: bool,
    /// Without an SCL file: events to publish, each a boolean, an INT32 and a time
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "scl")]
    events: u32,
    /// Without an SCL file: repetitions of each
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "scl")]
    repeats: u32,
    /// Without an SCL file: milliseconds between messages
    #[arg(long, value_name = "MS", default_value_t = 20, conflicts_with = "scl")]
    interval: u64,
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("goose: {error}"), "this is a fault of the program")
}

impl Publish {
    pub(super) fn run(self) -> Done {
        let of_file = self.block.of_file()?;
        let control = match &of_file {
            Some(control) => control,
            None => &example()?,
        };
        let form = if self.encrypt { Form::Encrypted } else { Form::Authenticated };
        let board = Board::new(control).map_err(|error| {
            Failure::usage(format!("{}: {error}", control.reference), "name another control block")
        })?;
        let socket = open(&self.interface)?;
        let source = socket.address();
        let layout = self.layout(control, &board, source, form)?;
        let socket = match self.to {
            Some(to) => Outgoing::routed(to)?,
            None => Outgoing::Ethernet(socket),
        };
        let secret = Secret::load(&self.key)?;
        let numbers = Numbers::open(
            &self.state,
            (&self.key, &secret),
            source,
            state(self.first, self.state_moved),
            self.volatile_state,
        )?;
        let counter = Counter::new(source, numbers.first(), numbers.limit());
        let publisher = Publisher::new(key(&secret)?, counter, &layout).map_err(|error| failed(&error))?;
        let synchronized = self.trust_clock || is_synchronized();
        signal::install();
        confine(vec![self.state.clone()]);
        let frame = vec![0; layout.frame_len()];
        let quality = if synchronized { ACCURACY } else { ACCURACY | NOT_SYNCHRONIZED };
        let (sent, slowest) = (0, Duration::ZERO);
        let sender = Sender { verb: &self, socket, numbers, publisher, frame, quality, sent, slowest };
        if of_file.is_some() { sender.values(control, board) } else { sender.demonstration(&layout) }
    }

    /// The layout of the control block's messages.
    fn layout(
        &self,
        control: &Control,
        board: &Board<'_>,
        source: [u8; 6],
        form: Form,
    ) -> Result<Layout, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        let period = KeyPeriod { key: self.key_number, since, minutes_left: u16::MAX };
        let at = control.address;
        let made = board.with([0; 8], |values| {
            let mut message = control.message(values);
            message.simulation = self.simulation;
            message.nds_com = self.needs_commissioning;
            match self.to {
                Some(_) => Layout::routed(&message, period),
                None => Layout::new(at.destination, EthernetAddress(source), &message, form, period),
            }
        });
        let layout = made.map_err(|error| {
            Failure::usage(
                format!("{}: {error}", control.reference),
                "its data set must fit a frame of Ethernet: divide it",
            )
        })?;
        let vlan = VlanId::new(at.vlan).unwrap_or(VlanId::PRIORITY);
        Ok(layout.tagged(Tci::new(at.priority, false, vlan)))
    }
}

/// A publisher with its socket and its numbers.
struct Sender<'a> {
    verb: &'a Publish,
    socket: Outgoing,
    numbers: Numbers,
    publisher: Publisher<'a, Aes128Gcm>,
    frame: Vec<u8>,
    /// The quality of times.
    quality: u8,
    sent: u64,
    slowest: Duration,
}

impl Sender<'_> {
    /// Reserves numbers, and prepares the next messages.
    fn prepare(&mut self) -> Done {
        if self.numbers.top_up(self.publisher.counter_mut().left(), &self.verb.state)? {
            self.publisher.counter_mut().reserve_until(self.numbers.limit());
        }
        self.publisher.idle(u32::MAX);
        Ok(())
    }

    /// Makes a message: an event, or a repetition without values. Returns its length.
    fn message(&mut self, lifetime: u32, values: Option<&[Value<'_>]>) -> Result<usize, Failure> {
        let begun = Instant::now();
        let len = match values {
            Some(values) => self.publisher.event(now(self.quality), lifetime, values, &mut self.frame),
            None => self.publisher.repeat(lifetime, &mut self.frame),
        };
        let len = len.map_err(|error| failed(&error))?;
        self.slowest = self.slowest.max(begun.elapsed());
        self.sent += 1;
        Ok(len)
    }

    fn close(mut self) -> Done {
        Ok(self.numbers.close(self.publisher.counter_mut().left(), &self.verb.state)?)
    }

    /// Publishes events of its own.
    fn demonstration(mut self, layout: &Layout) -> Done {
        for event in 1..=self.verb.events {
            for again in 0..=self.verb.repeats {
                self.prepare()?;
                pause(Duration::from_millis(self.verb.interval));
                if signal::stopping() {
                    return self.close();
                }
                let values = [
                    Value::Boolean(event % 2 == 1),
                    Value::int32(event as i32 * 1000 - 7),
                    Value::UtcTime(now(self.quality)),
                ];
                let len = self.message(2000, (again == 0).then_some(&values[..]))?;
                self.socket.send(&self.frame[..len]).map_err(|error| {
                    Failure::usage(
                        format!("{}: {error}", self.verb.interface),
                        "the interface must be up and take full frames",
                    )
                })?;
            }
        }
        let (sent, slowest) = (self.sent, self.slowest);
        self.close()?;
        output::print(&format!(
            "{sent} messages of {} bytes, {} of them known before an event; the slowest was made in {:.1} us\n",
            layout.frame_len(),
            layout.known_len(),
            slowest.as_secs_f64() * 1e6
        ))
    }

    /// Publishes the values of standard input.
    fn values(mut self, control: &Control, mut board: Board<'_>) -> Done {
        let mut pace = Pace::new(control.address.min_time, control.address.max_time);
        let mut input = Input::start().map_err(|error| failed(&error))?;
        let (begun, mut unsent, mut refused, mut waits) = (Instant::now(), Cause::default(), 0u64, false);
        let clock = || begun.elapsed().as_millis() as u64;
        loop {
            self.prepare()?;
            let until = pace.due().unwrap_or(u64::MAX);
            let len = match input.next(Duration::from_millis(until.saturating_sub(clock()))) {
                Next::End => break,
                Next::Line(line) => match board.take(&line, now(self.quality)) {
                    Ok(changed) => {
                        let missing = board.missing();
                        if !missing.is_empty() {
                            if !std::mem::replace(&mut waits, true) {
                                output::tell(format_args!("INFO waits for {}", missing.join(", ")));
                            }
                            continue;
                        }
                        if !changed && pace.due().is_some() {
                            continue;
                        }
                        let lifetime = pace.event(clock());
                        board.with(now(self.quality), |values| self.message(lifetime, Some(values)))?
                    }
                    Err(error) => {
                        refused += 1;
                        output::tell(format_args!("antedate: line {}: {error}", input.line()));
                        continue;
                    }
                },
                Next::TooLong => {
                    refused += 1;
                    output::tell(format_args!("antedate: line {} is too long", input.line()));
                    continue;
                }
                Next::Nothing if clock() >= until => {
                    let lifetime = pace.repeat(clock());
                    self.message(lifetime, None)?
                }
                Next::Nothing => continue,
            };
            // A link that is down comes back, and the event is repeated then.
            match self.socket.send(&self.frame[..len]) {
                Err(error) => unsent.warn(format_args!(
                    "{}: {error}: messages are lost until the interface is up",
                    self.verb.interface
                )),
                Ok(()) => unsent.look(format_args!("{}: messages are sent again", self.verb.interface)),
            }
        }
        let lines = input.line();
        self.close()?;
        if refused > 0 {
            return Err(Failure::Verdict(format!("{refused} of {lines} lines were refused")));
        }
        Ok(())
    }
}

/// Sleeps in short steps, because a sleep continues after a signal.
fn pause(mut rest: Duration) {
    while !rest.is_zero() && !signal::stopping() {
        let part = rest.min(Duration::from_millis(100));
        std::thread::sleep(part);
        rest -= part;
    }
}
