//! The thread of link loss forwarding. It looks at the ports, and takes the field port down or sets it
//! up, where it waits for the kernel for tens of milliseconds. Another one says hello.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use antedate_host::fault::Fault;

use super::hellos::Far;
use super::{Cause, Loss, Seen, Step};
use crate::config::{Checked, Keyed};
use crate::run::lock;
use crate::run::runs::Runs;
use crate::run::setup;
use crate::run::status;
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;
use crate::sys::interface::{Interface, set_up};
use crate::sys::links::carrier;
use crate::sys::thread::now;

/// What the threads share with others.
#[derive(Debug, Default)]
pub struct View {
    lowered: Mutex<Option<Cause>>,
    times: AtomicU64,
    /// Whether to tell the others that the field port has no link.
    tells_field_down: AtomicBool,
}

impl View {
    /// Whether to tell the others that the field port has no link.
    pub(crate) fn tells_field_down(&self) -> bool {
        self.tells_field_down.load(Ordering::Relaxed)
    }

    /// Its part of the status.
    #[must_use]
    pub fn document(&self) -> status::LinkLoss {
        let lowered = *lock(&self.lowered);
        status::LinkLoss {
            lowered: lowered.is_some(),
            cause: lowered.map(|cause| cause.words().to_owned()).unwrap_or_default(),
            times: self.times.load(Ordering::Relaxed),
        }
    }
}

/// Starts the thread. `far` tells the state of the far ends at a time.
pub(crate) fn start(
    checked: &Checked,
    far: impl Fn(u64) -> Far + Send + 'static,
    view: Arc<View>,
    watch: Arc<Watch>,
) -> Result<Option<Runs>, Fault> {
    let Some(settings) = checked.config.link_loss else { return Ok(None) };
    let (file, priority) = (&checked.config.file, checked.config.run.priority);
    let Some(interval) = checked.config.hello() else { return Ok(None) };
    // An earlier process may have left it down.
    set_up(&checked.field.name, true).map_err(|error| {
        let remedy = "run as root, or give the program the capability CAP_NET_ADMIN";
        checked.config.at("link_loss", Fault::of_io(file, "set the field port up and down", &error, remedy))
    })?;
    let port = Port {
        interval,
        loss: Loss::new(&settings, now()),
        field: checked.field.clone(),
        uplinks: uplinks(checked),
        far,
        view,
        watch,
        refused: false,
    };
    let mut runs = Runs::default();
    let looks = move |stop: &AtomicBool| {
        setup::interfaces_only();
        port.run(stop);
    };
    runs.add("link-loss", priority, looks).map_err(|error| Fault::of_thread(file, &error))?;
    Ok(Some(runs))
}

/// The interfaces of all uplinks.
fn uplinks(checked: &Checked) -> Vec<Interface> {
    let mut uplinks: Vec<_> = checked.uplinks().into_iter().cloned().collect();
    if let Keyed::Overlay { overlay, .. } = &checked.protection
        && let Some(second) = &overlay.second_uplink
    {
        uplinks.extend(Interface::find(&second.interface));
    }
    uplinks
}

struct Port<Ends> {
    /// Time between two looks.
    interval: Duration,
    loss: Loss,
    field: Interface,
    uplinks: Vec<Interface>,
    far: Ends,
    view: Arc<View>,
    watch: Arc<Watch>,
    /// Whether the last change was refused, so that a lasting refusal is one line.
    refused: bool,
}

impl<Ends: Fn(u64) -> Far> Port<Ends> {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            self.round();
            thread::sleep(self.interval);
        }
        if self.loss.lowered().is_some() {
            self.set(true);
        }
    }

    fn round(&mut self) {
        // They keep their index under a new name.
        self.field.still_there();
        self.uplinks.iter_mut().for_each(|uplink| _ = uplink.still_there());
        // One that is gone has no link.
        let is_up = |port: &Interface| carrier(port.index).unwrap_or(false);
        let now = now();
        let far = (self.far)(now);
        let seen = Seen { uplink: self.uplinks.iter().any(is_up), field: is_up(&self.field), far };
        match self.loss.step(seen, now) {
            Some(Step::Lower(_)) => {
                self.set(false);
                self.view.times.fetch_add(1, Ordering::Relaxed);
            }
            Some(Step::Raise) => self.set(true),
            None => {}
        }
        let lowered = self.loss.lowered();
        let before = std::mem::replace(&mut *lock(&self.view.lowered), lowered);
        if before.is_some() || lowered.is_some() {
            self.watch.holds(Trouble::FieldLowered, "", lowered.map(Cause::words));
        }
        let seen = Seen { field: is_up(&self.field), ..seen };
        let tells = self.loss.tells_field_down(seen, now);
        self.view.tells_field_down.store(tells, Ordering::Relaxed);
    }

    fn set(&mut self, up: bool) {
        let set = set_up(&self.field.name, up);
        let before = std::mem::replace(&mut self.refused, set.is_err());
        if let (Err(error), false) = (set, before) {
            let (name, direction) = (&self.field.name, if up { "up" } else { "down" });
            tracing::error!(interface = %name, %error, "the field port cannot be set {direction}");
        }
    }
}
