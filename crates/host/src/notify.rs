//! Messages to a service manager that started this process (sd_notify(3)).

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The life of a daemon, as its service manager sees it. Without a service manager that asks for
/// messages, nothing is sent.
#[derive(Debug)]
pub struct Life {
    /// Interval of the signs, if the service manager's watchdog waits for them.
    every: Option<Duration>,
    last: Instant,
    refused: bool,
}

impl Life {
    /// Says that the daemon has started.
    #[must_use]
    pub fn begin() -> Self {
        // A quarter, so that a sign that is late is no missing one.
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 4);
        let mut life = Self { every, last: Instant::now(), refused: false };
        life.say(&NotifyState::Ready);
        life
    }

    /// Interval of the signs, if any are awaited.
    #[must_use]
    pub const fn every(&self) -> Option<Duration> {
        self.every
    }

    /// Gives a sign if one is due. Called while the daemon does its work, not merely runs.
    pub fn sign(&mut self) {
        if self.every.is_some_and(|every| self.last.elapsed() >= every) {
            self.last = Instant::now();
            self.say(&NotifyState::Watchdog);
        }
    }

    fn say(&mut self, state: &NotifyState<'_>) {
        if let Err(error) = sd_notify::notify(std::slice::from_ref(state))
            && !std::mem::replace(&mut self.refused, true)
        {
            tracing::warn!(%error, "the service manager cannot be told that this daemon lives, and may end it; see NotifyAccess and RestrictAddressFamilies=AF_UNIX of the unit");
        }
    }
}

impl Drop for Life {
    /// Says that the daemon stops.
    fn drop(&mut self) {
        self.say(&NotifyState::Stopping);
    }
}
