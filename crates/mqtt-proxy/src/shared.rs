//! What all connections share: keys, received numbers, counters.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use antedate_channel::mqtt::topic;
use antedate_host::fault::Fault;
use antedate_mqtt::guard::Guard;
use tokio::sync::watch;

use crate::windows::Clients;

/// The pause between two lines of the log of one kind.
const SILENCE: Duration = Duration::from_secs(60);
/// The most kinds of refusals.
const KINDS_MAX: usize = 256;

/// An application, and a kind of refusal.
type Kind = (String, &'static str);

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sealed publishes.
    pub sealed: u64,
    /// Opened messages.
    pub opened: u64,
    /// Refused messages of either side.
    pub refused: u64,
    /// Connections of applications.
    pub connections: u64,
}

/// The state of a running proxy.
pub(crate) struct Shared {
    pub(crate) guard: RefCell<Guard>,
    pub(crate) clients: RefCell<Clients>,
    /// The login at the broker, in place of the applications'.
    pub(crate) login: Option<(String, String)>,
    /// Filters of topics that pass unprotected.
    plain: Vec<String>,
    counters: Cell<Counters>,
    /// Lines of the log: when the last one of a kind was, and events since.
    told: RefCell<HashMap<Kind, (Instant, u64)>>,
    /// Counts rotations.
    rotations: watch::Sender<u64>,
    /// The reason to stop.
    pub(crate) fault: RefCell<Option<Fault>>,
}

impl Shared {
    pub(crate) fn new(guard: Guard, plain: Vec<String>, login: Option<(String, String)>) -> Self {
        Self {
            guard: RefCell::new(guard),
            clients: RefCell::default(),
            login,
            plain,
            counters: Cell::default(),
            told: RefCell::default(),
            rotations: watch::Sender::new(0),
            fault: RefCell::default(),
        }
    }

    /// Whether payloads on a topic of no group pass unprotected.
    pub(crate) fn is_plain(&self, name: &str) -> bool {
        self.plain.iter().any(|filter| topic::matches(filter, name))
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        add(&mut counters);
        self.counters.set(counters);
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// Counts and logs a refused message: the first of an application and kind at once, then a line
    /// a minute with their number.
    pub(crate) fn refuse(&self, client_id: &str, kind: &'static str, topic: &str, why: &str) {
        self.count(|counters| counters.refused += 1);
        let mut told = self.told.borrow_mut();
        let key = (client_id.to_owned(), kind);
        if told.len() >= KINDS_MAX && !told.contains_key(&key) {
            told.clear();
        }
        let now = Instant::now();
        let times = match told.get_mut(&key) {
            Some((last, since)) if last.elapsed() < SILENCE => {
                *since += 1;
                return;
            }
            Some((last, since)) => {
                *last = now;
                std::mem::take(since) + 1
            }
            None => {
                told.insert(key, (now, 0));
                1
            }
        };
        let more = if times > 1 { format!(" ({times} messages since the last line)") } else { String::new() };
        tracing::warn!("client {client_id:?}, topic {topic:?}: {kind}{more}: {why}");
    }

    /// A rotation was followed.
    pub(crate) fn rotated(&self) {
        self.rotations.send_modify(|count| *count += 1);
    }

    /// A receiver of rotations from now on.
    pub(crate) fn rotations(&self) -> watch::Receiver<u64> {
        self.rotations.subscribe()
    }

    /// Makes received numbers durable.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        let bounds = self.clients.borrow_mut().take_bounds();
        self.guard.borrow().record(&bounds)
    }

    /// Ends the proxy.
    pub(crate) fn fail(&self, fault: Fault) {
        self.fault.borrow_mut().get_or_insert(fault);
        self.rotated();
    }
}
