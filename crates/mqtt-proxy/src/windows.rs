//! What each application has received.
//!
//! A number passes once for each client identifier. With QoS 1 and 2 it counts once the application
//! has acknowledged it, so that a message is sent again after a lost connection. A retained message
//! comes with each subscription: it passes again unless the broker has sent a later retained one of
//! its publisher on its topic, so nobody can go back to an earlier value.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use antedate_channel::mqtt::Opened;
use antedate_channel::replay::{MAX_WINDOW, ReplayError, ReplayWindow};
use antedate_mqtt::guard::{Bound, Guard};

/// The most pairs of publisher and topic of an application.
const STREAMS_MAX: usize = 1 << 16;
/// The most applications that are remembered after their end. A lasting session's are on the disk.
const CLIENTS_MAX: usize = 1024;
/// The most retained messages whose number is in memory.
const RETAINED_MAX: usize = 1 << 18;

/// Why a message does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The number was received before, or is behind the window.
    Replay(ReplayError),
    /// There are too many pairs of publisher and topic.
    Crowded,
}

/// A pair of publisher, in an epoch, and topic.
type Place = (u32, Arc<[u8]>, String);

/// A publisher in an epoch.
type Sender = (u32, Arc<[u8]>);

struct Stream {
    opened: Opened,
    topic: String,
    window: ReplayWindow,
    /// Whether the store does not know its last number.
    dirty: bool,
}

/// The messages that one application has received.
#[derive(Default)]
pub(crate) struct Received {
    client_id: String,
    /// Whether a session outlives its connections, so that the store has the numbers.
    lasting: bool,
    /// The index in `streams`.
    known: HashMap<Sender, HashMap<String, usize>>,
    streams: Vec<Stream>,
}

/// The place of a stream and a number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Number {
    stream: usize,
    sequence: u64,
}

impl Received {
    fn stream(&mut self, guard: &Guard, opened: &Opened, topic: &str) -> Result<usize, Refused> {
        let sender = self.known.entry((opened.epoch, Arc::clone(&opened.publisher))).or_default();
        if let Some(at) = sender.get(topic) {
            return Ok(*at);
        }
        if self.streams.len() >= STREAMS_MAX {
            return Err(Refused::Crowded);
        }
        let lowest =
            if self.lasting { guard.lowest(topic, &place(&self.client_id, topic), opened) } else { 1 };
        sender.insert(topic.to_owned(), self.streams.len());
        let window = ReplayWindow::new(lowest.max(1), MAX_WINDOW);
        self.streams.push(Stream { opened: opened.clone(), topic: topic.to_owned(), window, dirty: false });
        Ok(self.streams.len() - 1)
    }

    /// Marks a number that its application has.
    pub(crate) fn mark(&mut self, number: Number) {
        if let Some(stream) = self.streams.get_mut(number.stream)
            && stream.window.check(number.sequence).is_ok()
        {
            stream.window.mark(number.sequence);
            stream.dirty = self.lasting;
        }
    }

    /// Numbers that the store does not know.
    fn take_bounds(&mut self, bounds: &mut Vec<Bound>) {
        for stream in self.streams.iter_mut().filter(|stream| stream.dirty) {
            stream.dirty = false;
            bounds.push(Bound {
                topic: stream.topic.clone(),
                place: place(&self.client_id, &stream.topic),
                opened: stream.opened.clone(),
                next: stream.window.next(),
            });
        }
    }
}

/// The name of a reader and a topic in the store.
fn place(client_id: &str, topic: &str) -> String {
    format!("{client_id}\0{topic}")
}

/// What one connection has handed to its application, which has not acknowledged it.
#[derive(Default)]
pub(crate) struct Handed {
    by_id: HashMap<u16, Number>,
    numbers: HashSet<Number>,
}

impl Handed {
    fn hand(&mut self, id: u16, number: Number) {
        if let Some(before) = self.by_id.insert(id, number) {
            self.numbers.remove(&before);
        }
        self.numbers.insert(number);
    }

    /// The application has acknowledged a packet.
    pub(crate) fn take(&mut self, id: u16) -> Option<Number> {
        let number = self.by_id.remove(&id)?;
        self.numbers.remove(&number);
        Some(number)
    }
}

/// All applications.
#[derive(Default)]
pub(crate) struct Clients {
    by_id: HashMap<String, Rc<RefCell<Received>>>,
    /// Identifiers in the order of their last connection.
    order: VecDeque<String>,
    /// The numbers of the last retained messages.
    retained: HashMap<Place, (u64, bool)>,
}

/// A received message.
pub(crate) struct Arrival<'m> {
    pub(crate) topic: &'m str,
    pub(crate) opened: &'m Opened,
    pub(crate) retain: bool,
    /// The packet identifier, 0 with QoS 0.
    pub(crate) id: u16,
}

impl Clients {
    /// The messages of an application that connects.
    pub(crate) fn connect(&mut self, client_id: &str, lasting: bool) -> Rc<RefCell<Received>> {
        let fresh = || {
            Rc::new(RefCell::new(Received {
                client_id: client_id.to_owned(),
                lasting,
                ..Received::default()
            }))
        };
        // The broker gives a new name to each client without one.
        if client_id.is_empty() {
            return fresh();
        }
        self.order.retain(|known| known != client_id);
        self.order.push_back(client_id.to_owned());
        let received = Rc::clone(self.by_id.entry(client_id.to_owned()).or_insert_with(fresh));
        received.borrow_mut().lasting |= lasting;
        let mut tries = self.order.len();
        while self.by_id.len() > CLIENTS_MAX && tries > 0 {
            tries -= 1;
            let Some(oldest) = self.order.pop_front() else { break };
            let idle = self.by_id.get(&oldest).is_some_and(|received| {
                Rc::strong_count(received) == 1
                    && !received.borrow().streams.iter().any(|stream| stream.dirty)
            });
            if idle {
                self.by_id.remove(&oldest);
            } else {
                self.order.push_back(oldest);
            }
        }
        received
    }

    /// Judges an authentic message. One that passes counts as received at once with QoS 0, and
    /// otherwise once the application acknowledges it.
    pub(crate) fn judge(
        &mut self,
        guard: &Guard,
        received: &mut Received,
        handed: &mut Handed,
        arrival: &Arrival<'_>,
    ) -> Result<(), Refused> {
        let Arrival { topic, opened, retain, id } = *arrival;
        let stream = received.stream(guard, opened, topic)?;
        let number = Number { stream, sequence: opened.sequence };
        let window = received.streams.get(stream).map(|stream| &stream.window).ok_or(Refused::Crowded)?;
        let fresh = match handed.numbers.contains(&number) {
            true => Err(ReplayError::Duplicate),
            false => window.check(opened.sequence),
        };
        if retain {
            let last = self.last_retained(guard, topic, opened);
            if fresh.is_err() && opened.sequence < last.0 {
                return Err(Refused::Replay(ReplayError::Late));
            }
            if opened.sequence > last.0 {
                *last = (opened.sequence, true);
            }
        } else {
            fresh.map_err(Refused::Replay)?;
        }
        match id {
            0 => received.mark(number),
            id => handed.hand(id, number),
        }
        Ok(())
    }

    fn last_retained(&mut self, guard: &Guard, topic: &str, opened: &Opened) -> &mut (u64, bool) {
        if self.retained.len() >= RETAINED_MAX {
            // The store has those that were written.
            self.retained.retain(|_, (_, dirty)| *dirty);
        }
        let key = (opened.epoch, Arc::clone(&opened.publisher), topic.to_owned());
        self.retained
            .entry(key)
            .or_insert_with(|| (guard.lowest(topic, &place("", topic), opened).saturating_sub(1), false))
    }

    /// Numbers that the store does not know.
    pub(crate) fn take_bounds(&mut self) -> Vec<Bound> {
        let mut bounds = Vec::new();
        for received in self.by_id.values() {
            received.borrow_mut().take_bounds(&mut bounds);
        }
        for ((epoch, publisher, topic), (number, dirty)) in &mut self.retained {
            if std::mem::take(dirty) {
                let opened =
                    Opened { publisher: Arc::clone(publisher), epoch: *epoch, sequence: *number, time: None };
                let (place, next) = (place("", topic), *number + 1);
                bounds.push(Bound { topic: topic.clone(), place, opened, next });
            }
        }
        bounds
    }
}
