//! The threads that say hello, for link loss forwarding and for an uplink that waits. With such a one
//! a second thread looks at the links of both uplinks, where it may wait for the kernel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::Duration;

use antedate_hardening::confine;
use antedate_host::fault::Fault;

use crate::config::Checked;
use crate::link::echo::Desk;
use crate::link::ways::{Lame, Pilot, Seen};
use crate::run::loss::port::View;
use crate::run::runs::Runs;
use crate::run::setup;
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;
use crate::sys::interface::Interface;
use crate::sys::links::carrier;
use crate::sys::thread::now;

/// Nanoseconds for which an uplink carries nothing before it is told: one may be repaired soon, or its
/// gateway restarted.
const LAME: u64 = 5_000_000_000;

/// Starts the threads.
pub(super) fn start(
    checked: &Checked,
    desk: Arc<Desk>,
    view: Arc<View>,
    watch: Arc<Watch>,
) -> Result<Option<Runs>, Fault> {
    let Some(interval) = checked.config.hello() else { return Ok(None) };
    let priority = checked.config.run.priority;
    let mut runs = Runs::default();
    let begun = match desk.pilot.clone() {
        None => runs.add("hello", priority, move |stop| {
            setup::frames_only();
            while !stop.load(Acquire) {
                desk.say_hello(interval, view.tells_field_down());
                thread::sleep(interval);
            }
        }),
        Some(pilot) => {
            let ports: Vec<_> = checked.uplinks().into_iter().cloned().collect();
            let names = ports.iter().map(|port| port.name.clone()).collect();
            let mut looks = Looks { ports, pilot: Arc::clone(&pilot) };
            looks.round();
            let says = Says { interval, desk, pilot, view, watch, names, lame: [None; 2] };
            runs.add("hello", priority, move |stop| says.run(stop)).and_then(|()| {
                runs.add("uplinks", priority, move |stop| {
                    confine::keep_none();
                    while !stop.load(Acquire) {
                        looks.round();
                        thread::sleep(interval / 2);
                    }
                })
            })
        }
    };
    begun.map_err(|error| Fault::of_thread(&checked.config.file, &error))?;
    Ok(Some(runs))
}

struct Looks {
    ports: Vec<Interface>,
    pilot: Arc<Pilot>,
}

impl Looks {
    fn round(&mut self) {
        // They keep their index under a new name. One that is gone has no link.
        let mut up = self.ports.iter_mut().map(|port| {
            port.still_there();
            carrier(port.index).unwrap_or(false)
        });
        self.pilot.links([(); 2].map(|()| up.next().unwrap_or(false)));
    }
}

struct Says {
    interval: Duration,
    desk: Arc<Desk>,
    pilot: Arc<Pilot>,
    view: Arc<View>,
    watch: Arc<Watch>,
    /// The uplinks as they were named at the start.
    names: Vec<String>,
    /// Since when either is lame.
    lame: [Option<u64>; 2],
}

impl Says {
    fn run(mut self, stop: &AtomicBool) {
        setup::frames_only();
        self.pilot.wake(thread::current());
        let interval = self.interval.as_nanos() as u64;
        let mut next = 0;
        while !stop.load(Acquire) {
            let at = now();
            let (before, seen) = self.pilot.look(at);
            let told = (before.second_carries, &before.heard) != (seen.second_carries, &seen.heard);
            if at >= next || told {
                let down = self.view.tells_field_down();
                self.desk.say_hello_by_each(self.interval, down, seen.second_carries, &seen.heard);
                next = at + interval;
            }
            self.tell(&before, &seen, at);
            thread::park_timeout(Duration::from_nanos(next.saturating_sub(now())));
        }
    }

    fn tell(&mut self, before: &Seen, seen: &Seen, now: u64) {
        if before.second_carries != seen.second_carries {
            let uplink = self.names.get(usize::from(seen.second_carries));
            let (name, cause) =
                (uplink.map_or("", String::as_str), seen.cause.map_or("", |cause| cause.words()));
            tracing::warn!(uplink = name, "frames leave by this uplink now: {cause}");
        }
        for (at, name) in self.names.iter().enumerate() {
            let lame = seen.lame[at];
            let since = lame.map(|_| self.lame[at].unwrap_or(now));
            self.lame[at] = since;
            let lasts = since.is_some_and(|since| now >= since + LAME);
            let detail = lame.filter(|_| lasts).map(|lame| match lame {
                Lame::Link => "it has no link".to_owned(),
                Lame::Unheard(sci) => format!("no hello of {sci} comes by it"),
                Lame::Deaf(sci) => format!("{sci} hears no hello by it"),
            });
            self.watch.holds(Trouble::SilentUplink, name, detail.as_deref());
        }
    }
}
