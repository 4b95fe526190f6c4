//! `antedate goose publish`: values of an SCL file's control block, or of a demonstration.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use antedate_aead::Aes128Gcm;
use antedate_channel::goose::{Counter, Form, KeyPeriod, Last, Layout, Pace, Publisher};
use antedate_goose::clock::{ACCURACY, NOT_SYNCHRONIZED};
use antedate_goose::control::Control;
use antedate_goose::values::Board;
use antedate_host::control::Socket;
use antedate_lab::sys::clock::is_synchronized;
use antedate_lab::sys::signal;
use antedate_wire::EthernetAddress;
use antedate_wire::goose::Value;
use antedate_wire::vlan::{Tci, VlanId};
use clap::Args;
use input::{Input, Next};

use super::block::{Block, example};
use super::carrier::{Outgoing, Peer};
use super::keeping::Numbers;
use super::keeping::mark::Mark;
use super::keys::{Dated, Keys, today};
use super::timely::Cause;
use super::{confine, key, now, open, socket, state};
use crate::failure::{Done, Failure};
use crate::output;

mod input;

#[derive(Args)]
pub(crate) struct Publish {
    /// The interface
    interface: String,
    #[command(flatten)]
    block: Block,
    /// Takes the lines of values from writers at this Unix socket, for the user and the group (0660)
    #[arg(long, value_name = "PATH", requires = "scl")]
    socket: Option<PathBuf>,
    /// Repeats the last values when no writer is at the socket, too
    #[arg(long, requires = "socket")]
    keep_repeating: bool,
    /// A file with a key (32 hexadecimal digits; 64 and hmac-sha256-128), or with a line
    /// NUMBER BEGIN KEY for each key of a group;
    /// readable by its owner only
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The number of a single key in the messages (1)
    #[arg(long, value_name = "N")]
    key_number: Option<u32>,
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
        let keys = Keys::load(&self.key, self.key_number, self.encrypt || self.to.is_some())?;
        let dated = keys.current(today())?;
        let period = keys.period(dated, today());
        // A control block that cannot be published spends no number.
        let layout = self.layout(control, &board, source, form, period)?;
        let socket = match self.to {
            Some(to) => Outgoing::routed(to)?,
            None => Outgoing::Ethernet(socket),
        };
        let group: Vec<_> = keys.all().iter().map(|key| &key.secret).collect();
        let numbers = Numbers::open(
            &self.state,
            (&self.key, &dated.secret),
            &group,
            source,
            state(self.first, self.state_moved),
            self.volatile_state,
        )?;
        let number = dated.number;
        let writers = match &self.socket {
            Some(path) => Some(socket::bind(path)?),
            None => None,
        };
        let synchronized = self.trust_clock || is_synchronized();
        signal::install();
        let locks = antedate_host::numbers::KeyLock::directories();
        let places = socket::directory(self.socket.as_deref()).into_iter().chain(locks);
        let writes = [self.state.clone(), Mark::file(&self.key)].into_iter().chain(places);
        confine(writes.collect(), keys.reads());
        let frame = vec![0; layout.frame_len()];
        let quality = if synchronized { ACCURACY } else { ACCURACY | NOT_SYNCHRONIZED };
        let mut sender = Sender {
            verb: &self,
            source,
            socket,
            keys,
            number,
            numbers,
            frame,
            quality,
            sent: 0,
            slowest: Duration::ZERO,
            unchanged: Cause::default(),
        };
        let mut job = match of_file.is_some() {
            true => Job::Values(Box::new(Values::start(control, board, writers)?)),
            false => Job::Demonstration(board, 1, 0),
        };
        let mut last: Option<Last> = None;
        // Each turn publishes with one key.
        loop {
            let dated = sender.dated()?;
            let period = sender.keys.period(dated, today());
            let layout = self.layout(control, job.board(), source, form, period)?;
            let counter = Counter::new(source, sender.numbers.first(), sender.numbers.limit());
            let made =
                Publisher::new(key(&dated.secret)?, counter, &layout).map_err(|error| failed(&error))?;
            let mut publisher = match &last {
                Some(last) => {
                    made.continued(last).ok_or_else(|| failed(&"the layout of another key differs"))?
                }
                None => made,
            };
            let turn = match &mut job {
                Job::Values(values) => sender.values(&mut publisher, values)?,
                Job::Demonstration(_, event, again) => sender.demonstration(&mut publisher, event, again)?,
            };
            if let Turn::End = turn {
                let left = publisher.counter_mut().left();
                return sender.close(left, &job, &layout);
            }
            last = Some(publisher.into_last());
        }
    }

    /// The layout of the control block's messages.
    fn layout(
        &self,
        control: &Control,
        board: &Board<'_>,
        source: [u8; 6],
        form: Form,
        period: KeyPeriod,
    ) -> Result<Layout, Failure> {
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

/// Why publishing with a key ended.
enum Turn {
    /// Another key is in use now.
    Key,
    End,
}

/// What is published.
enum Job<'c> {
    /// The values of standard input or of a socket.
    Values(Box<Values<'c>>),
    /// Events of its own: the next one, and how often it was repeated.
    Demonstration(Board<'c>, u32, u32),
}

impl<'c> Job<'c> {
    const fn board(&self) -> &Board<'c> {
        match self {
            Self::Values(values) => &values.board,
            Self::Demonstration(board, ..) => board,
        }
    }
}

/// The values of a control block, and their repetitions.
struct Values<'c> {
    board: Board<'c>,
    pace: Pace,
    input: Input,
    begun: Instant,
    unsent: Cause,
    /// No writer is at the socket.
    orphan: Cause,
    /// Nothing is repeated before the next line.
    silent: bool,
    refused: u64,
    waits: bool,
}

impl<'c> Values<'c> {
    fn start(control: &Control, board: Board<'c>, writers: Option<Socket>) -> Result<Self, Failure> {
        Ok(Self {
            board,
            pace: Pace::new(control.address.min_time, control.address.max_time),
            input: Input::start(writers).map_err(|error| failed(&error))?,
            begun: Instant::now(),
            unsent: Cause::default(),
            orphan: Cause::default(),
            silent: false,
            refused: 0,
            waits: false,
        })
    }

    fn clock(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

/// A socket with the keys and numbers of its publisher.
struct Sender<'a> {
    verb: &'a Publish,
    source: [u8; 6],
    socket: Outgoing,
    keys: Keys,
    /// The number of the key in use.
    number: u32,
    numbers: Numbers,
    frame: Vec<u8>,
    /// The quality of times.
    quality: u8,
    sent: u64,
    slowest: Duration,
    unchanged: Cause,
}

type Gcm<'t> = Publisher<'t, Aes128Gcm>;

impl Sender<'_> {
    /// The key in use.
    fn dated(&self) -> Result<&Dated, Failure> {
        let key = self.keys.all().iter().find(|key| key.number == self.number);
        key.ok_or_else(|| failed(&"the key in use is gone"))
    }

    /// Reserves numbers, and prepares the next messages. True if another key is in use now.
    fn prepare(&mut self, publisher: &mut Gcm<'_>) -> Result<bool, Failure> {
        if self.numbers.top_up(publisher.counter_mut().left(), &self.verb.state)? {
            publisher.counter_mut().reserve_until(self.numbers.limit());
        }
        publisher.idle(u32::MAX);
        if !self.keys.look() {
            return Ok(false);
        }
        let Ok(next) = self.keys.current(today()) else { return Ok(false) };
        // A clock that was set back brings no key back.
        if next.number <= self.number {
            return Ok(false);
        }
        let left = publisher.counter_mut().left();
        match self.numbers.change(&self.verb.state, (self.keys.file(), &next.secret), self.source, left) {
            Ok(()) => {
                output::tell(format_args!(
                    "INFO key {} is in use, which begins at {}; before it was key {}",
                    next.number,
                    next.said(),
                    self.number
                ));
                self.number = next.number;
                Ok(true)
            }
            Err(fault) => {
                let (next, now) = (next.number, self.number);
                self.unchanged.warn(format_args!("key {next} is not in use, and key {now} stays: {fault}"));
                Ok(false)
            }
        }
    }

    /// Makes a message: an event, or a repetition without values. Returns its length.
    fn message(
        &mut self,
        publisher: &mut Gcm<'_>,
        lifetime: u32,
        values: Option<&[Value<'_>]>,
    ) -> Result<usize, Failure> {
        let begun = Instant::now();
        let len = match values {
            Some(values) => publisher.event(now(self.quality), lifetime, values, &mut self.frame),
            None => publisher.repeat(lifetime, &mut self.frame),
        };
        let len = len.map_err(|error| failed(&error))?;
        self.slowest = self.slowest.max(begun.elapsed());
        self.sent += 1;
        Ok(len)
    }

    fn close(self, left: u64, job: &Job<'_>, layout: &Layout) -> Done {
        let (sent, slowest, verb) = (self.sent, self.slowest, self.verb);
        self.numbers.close(left, &verb.state)?;
        match job {
            Job::Values(values) if values.refused > 0 => {
                let (refused, lines) = (values.refused, values.input.count());
                Err(Failure::Verdict(format!("{refused} of {lines} lines were refused")))
            }
            Job::Values(_) => Ok(()),
            Job::Demonstration(_, event, _) if *event <= verb.events => Ok(()),
            Job::Demonstration(..) => output::print(&format!(
                "{sent} messages of {} bytes, {} of them known before an event; the slowest was made in {:.1} us\n",
                layout.frame_len(),
                layout.known_len(),
                slowest.as_secs_f64() * 1e6
            )),
        }
    }

    /// Publishes events of its own, until a signal comes or all were published.
    fn demonstration(
        &mut self,
        publisher: &mut Gcm<'_>,
        event: &mut u32,
        again: &mut u32,
    ) -> Result<Turn, Failure> {
        while *event <= self.verb.events {
            if self.prepare(publisher)? {
                return Ok(Turn::Key);
            }
            pause(Duration::from_millis(self.verb.interval));
            if signal::stopping() {
                return Ok(Turn::End);
            }
            let values = [
                Value::Boolean(*event % 2 == 1),
                Value::int32(*event as i32 * 1000 - 7),
                Value::UtcTime(now(self.quality)),
            ];
            let len = self.message(publisher, 2000, (*again == 0).then_some(&values[..]))?;
            self.socket.send(&self.frame[..len]).map_err(|error| {
                Failure::usage(
                    format!("{}: {error}", self.verb.interface),
                    "the interface must be up and take full frames",
                )
            })?;
            (*event, *again) =
                if *again < self.verb.repeats { (*event, *again + 1) } else { (*event + 1, 0) };
        }
        Ok(Turn::End)
    }

    /// Publishes the values of the input.
    fn values(&mut self, publisher: &mut Gcm<'_>, on: &mut Values<'_>) -> Result<Turn, Failure> {
        loop {
            if self.prepare(publisher)? {
                return Ok(Turn::Key);
            }
            let is_orphan = !self.verb.keep_repeating && on.pace.due().is_some() && on.input.is_orphan();
            if is_orphan && !std::mem::replace(&mut on.silent, true) {
                on.orphan.warn(
                    "no writer is at the socket: nothing is repeated until one gives values; \
                     --keep-repeating goes on",
                );
            }
            let until = on.pace.due().filter(|_| !on.silent).unwrap_or(u64::MAX);
            // A repetition that is due waits for no line: writers may have more of them than time.
            let next = match on.clock() >= until {
                true => Next::Nothing,
                false => on.input.next(Duration::from_millis(until.saturating_sub(on.clock()))),
            };
            let len = match next {
                Next::End => return Ok(Turn::End),
                Next::Line(line) => match on.board.take(&line, now(self.quality)) {
                    Ok(changed) => {
                        let missing = on.board.missing();
                        if !missing.is_empty() {
                            if !std::mem::replace(&mut on.waits, true) {
                                output::tell(format_args!("INFO waits for {}", missing.join(", ")));
                            }
                            continue;
                        }
                        let was_silent = std::mem::take(&mut on.silent);
                        if changed || on.pace.due().is_none() {
                            let lifetime = on.pace.event(on.clock());
                            on.board.with(now(self.quality), |values| {
                                self.message(publisher, lifetime, Some(values))
                            })?
                        } else if was_silent {
                            let lifetime = on.pace.repeat(on.clock());
                            self.message(publisher, lifetime, None)?
                        } else {
                            continue;
                        }
                    }
                    Err(error) => {
                        on.refused += 1;
                        on.input.refuse(&error.to_string());
                        continue;
                    }
                },
                Next::TooLong => {
                    on.refused += 1;
                    on.input.refuse("is longer than 64 KiB, or no UTF-8");
                    continue;
                }
                Next::Nothing if on.clock() >= until => {
                    let lifetime = on.pace.repeat(on.clock());
                    self.message(publisher, lifetime, None)?
                }
                Next::Nothing => continue,
            };
            // A link that is down comes back, and the event is repeated then.
            match self.socket.send(&self.frame[..len]) {
                Err(error) => on.unsent.warn(format_args!(
                    "{}: {error}: messages are lost until the interface is up",
                    self.verb.interface
                )),
                Ok(()) => on.unsent.look(format_args!("{}: messages are sent again", self.verb.interface)),
            }
        }
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
