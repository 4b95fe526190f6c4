//! The thread of parallel gateways: says its probe, and decides who blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use antedate_host::fault::Fault;
use antedate_wire::ring::Kind;

use super::runs::Runs;
use crate::config::Checked;
use crate::link::echo::Desk;
use crate::link::message::{Message, Shown};
use crate::run::mailbox::Mailbox;
use crate::run::setup;
use crate::run::status;
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;
use crate::sys::thread::now;

/// Nanoseconds for which a ring is open before it is told: a gateway that is restarted is soon back.
const OPEN: u64 = 3_000_000_000;

/// What the thread shares with others.
#[derive(Debug, Default)]
pub struct View {
    blocks: AtomicBool,
    closed: AtomicBool,
    changes: AtomicU64,
}

impl View {
    /// Its part of the status.
    #[must_use]
    pub fn document(&self) -> status::Ring {
        status::Ring {
            blocks: self.blocks.load(Ordering::Relaxed),
            closed: self.closed.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        }
    }
}

/// The parts of the gateway that the thread needs.
pub(super) struct Around {
    pub(super) desk: Arc<Desk>,
    pub(super) view: Arc<View>,
    pub(super) watch: Arc<Watch>,
    pub(super) shown: Arc<Shown>,
    pub(super) mailboxes: Vec<Arc<Mailbox<Message>>>,
}

/// Starts the thread.
pub(super) fn start(checked: &Checked, around: Around) -> Result<Option<Runs>, Fault> {
    let Some(settings) = checked.config.ring else { return Ok(None) };
    let priority = checked.config.run.priority;
    let interval = settings.probe(priority);
    around.view.blocks.store(true, Ordering::Relaxed);
    let mut runs = Runs::default();
    let work = move |stop: &AtomicBool| {
        setup::frames_only();
        let mut was_closed = None;
        while !stop.load(Ordering::Acquire) {
            around.round(&mut was_closed);
            thread::sleep(interval);
        }
    };
    runs.add("ring", priority, work).map_err(|error| Fault::of_thread(&checked.config.file, &error))?;
    Ok(Some(runs))
}

impl Around {
    /// `was_closed`: when the ring was closed last, if ever.
    fn round(&self, was_closed: &mut Option<u64>) {
        let Self { desk, view, watch, shown, mailboxes } = self;
        let Some(parallel) = &desk.parallel else { return };
        let now = now();
        if shown.encoding.get() == 0 {
            // Without a key it hears no probe, and passes none.
            parallel.ring.begin_anew(now);
        }
        desk.say_of_ring(Kind::Probe);
        if let Some(blocks) = parallel.ring.decide(now) {
            mailboxes.iter().for_each(|mailbox| mailbox.post(Message::Block(blocks)));
            view.blocks.store(blocks, Ordering::Relaxed);
            view.changes.fetch_add(1, Ordering::Relaxed);
            if blocks {
                tracing::info!("blocks: a parallel gateway forwards, or there is no key");
            } else {
                tracing::info!("forwards: no parallel gateway does");
                desk.say_of_ring(Kind::Changed);
                desk.announce();
            }
        }
        let closed = parallel.ring.closed(now);
        view.closed.store(closed, Ordering::Relaxed);
        if closed {
            *was_closed = Some(now);
        }
        let open = was_closed.is_some_and(|at| now > at + OPEN);
        watch.holds(Trouble::RingOpen, "", open.then_some("no probe comes back"));
    }
}
