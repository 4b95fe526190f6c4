//! The threads of a gateway that stands by. One looks at the group and says hello. The other looks at
//! the ports, where it may wait for the kernel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use antedate_hardening::confine;
use antedate_host::fault::Fault;
use antedate_wire::Sci;

use crate::config::Checked;
use crate::config::standby::StandbySettings;
use crate::link::message::Shown;
use crate::link::pair::Pair;
use crate::link::standby::{Ports, Seen, Unable};
use crate::run::runs::Runs;
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;
use crate::run::{lock, setup, status};
use crate::sys::interface::Interface;
use crate::sys::links::carrier;
use crate::sys::thread::now;

/// Nanoseconds for which no other gateway is there before it is told: one that is restarted is soon
/// back.
const ALONE: u64 = 5_000_000_000;
/// The same after the start.
const ALONE_AT_START: u64 = 30_000_000_000;

/// What the threads share with others.
#[derive(Debug, Default)]
pub struct View {
    /// The members that key agreement knows to be live.
    pub members: Mutex<Vec<Sci>>,
    seen: Mutex<Option<(StandbySettings, Seen)>>,
    field: AtomicBool,
    uplink: AtomicBool,
    /// When another gateway was there last, or the time at which it is missed at the start.
    accompanied: AtomicU64,
}

impl View {
    /// Its part of the status.
    #[must_use]
    pub fn document(&self) -> status::Standby {
        let seen = lock(&self.seen);
        let Some((settings, seen)) = &*seen else { return status::Standby::default() };
        let other = |(sci, active, able): &(Sci, bool, bool)| status::StandbyOther {
            sci: sci.to_string(),
            active: *active,
            able: *able,
        };
        status::Standby {
            active: seen.active,
            cause: seen.unable.map(|unable| unable.words().to_owned()).unwrap_or_default(),
            group: settings.group,
            priority: settings.priority,
            others: seen.others.iter().map(other).collect(),
            takeovers: seen.takeovers,
            refused: seen.refused,
        }
    }
}

/// Starts the threads.
pub(super) fn start(
    checked: &Checked,
    pair: Arc<Pair>,
    view: Arc<View>,
    watch: Arc<Watch>,
    shown: Arc<Shown>,
) -> Result<Option<Runs>, Fault> {
    let Some(settings) = checked.config.standby else { return Ok(None) };
    let priority = checked.config.run.priority;
    let mut ports = Looks {
        field: checked.field.clone(),
        uplinks: checked.uplinks().into_iter().cloned().collect(),
        pair: Arc::clone(&pair),
        view: Arc::clone(&view),
    };
    ports.round();
    view.accompanied.store(now() + ALONE_AT_START - ALONE, Ordering::Relaxed);
    // Twice in the time between two hellos.
    let pause = settings.hello / 2;
    let looks = move |stop: &AtomicBool| {
        confine::keep_none();
        while !stop.load(Ordering::Acquire) {
            ports.round();
            thread::sleep(pause);
        }
    };
    let says = Says { settings, pair, view, watch, shown, before: None, again: false };
    let mut runs = Runs::default();
    let begun = runs
        .add("standby", priority, move |stop| says.run(stop))
        .and_then(|()| runs.add("standby-ports", priority, looks));
    begun.map_err(|error| Fault::of_thread(&checked.config.file, &error))?;
    Ok(Some(runs))
}

struct Looks {
    field: Interface,
    uplinks: Vec<Interface>,
    pair: Arc<Pair>,
    view: Arc<View>,
}

impl Looks {
    fn round(&mut self) {
        // They keep their index under a new name.
        self.field.still_there();
        self.uplinks.iter_mut().for_each(|uplink| _ = uplink.still_there());
        // One that is gone has no link.
        let is_up = |port: &Interface| carrier(port.index).unwrap_or(false);
        let (field, uplink) = (is_up(&self.field), self.uplinks.iter().any(is_up));
        let before = (
            self.view.field.swap(field, Ordering::Relaxed),
            self.view.uplink.swap(uplink, Ordering::Relaxed),
        );
        if before != (field, uplink) {
            self.pair.look_at_once();
        }
    }
}

struct Says {
    settings: StandbySettings,
    pair: Arc<Pair>,
    view: Arc<View>,
    watch: Arc<Watch>,
    shown: Arc<Shown>,
    /// What was seen last.
    before: Option<Seen>,
    /// Whether the machines are announced once more: a frame may have been lost.
    again: bool,
}

impl Says {
    fn run(mut self, stop: &AtomicBool) {
        setup::frames_only();
        self.pair.wake(thread::current());
        let interval = self.settings.hello.as_nanos() as u64;
        while !stop.load(Ordering::Acquire) {
            let looked = now();
            self.round(Ports {
                field: self.view.field.load(Ordering::Relaxed),
                uplink: self.view.uplink.load(Ordering::Relaxed),
                keys: self.shown.encoding.get() != 0,
            });
            let due = self.pair.due(looked + interval);
            thread::park_timeout(Duration::from_nanos(due.saturating_sub(now())));
        }
        // The others need not wait for its hellos.
        let _ = self.pair.look(Ports { field: false, uplink: false, keys: false }, &[]);
    }

    fn round(&mut self, ports: Ports) {
        let members = lock(&self.view.members).clone();
        let seen = self.pair.look(ports, &members);
        let was_active = self.before.as_ref().is_some_and(|before| before.active);
        if seen.active && (!was_active || self.again) {
            self.pair.announce();
        }
        self.again = seen.active && !was_active;
        self.tell(&seen, was_active);
        *lock(&self.view.seen) = Some((self.settings, seen.clone()));
        self.before = Some(seen);
    }

    fn tell(&self, seen: &Seen, was_active: bool) {
        match (seen.active, was_active, seen.unable) {
            (true, false, _) => {
                tracing::info!(group = self.settings.group, "forwards: no other gateway of the group does")
            }
            (false, true, Some(Unable::Listens)) => {
                tracing::warn!("was kept from its hellos, and forwards no more; see run.priority");
            }
            (false, true, Some(unable)) => tracing::warn!("forwards no more: {}", unable.words()),
            (false, true, None) => tracing::info!("stands by: another gateway of the group forwards"),
            _ => {}
        }
        let now = now();
        if !seen.others.is_empty() {
            self.view.accompanied.store(now, Ordering::Relaxed);
        }
        let alone = now > self.view.accompanied.load(Ordering::Relaxed) + ALONE;
        self.watch.holds(Trouble::NoStandby, "", alone.then_some("no hello comes"));
        let stranger = seen.stranger.then_some("a gateway of another group says hello there");
        self.watch.holds(Trouble::FieldLoop, "field", stranger);
    }
}
