//! The request to read a file again.

use std::sync::atomic::{AtomicU8, Ordering};

/// SIGHUP, for a daemon that reads a file again on it. Until the daemon watches it, the signal
/// changes nothing.
#[derive(Debug, Default)]
pub struct Hangup(AtomicU8);

impl Hangup {
    const WATCHED: u8 = 1;
    const RAISED: u8 = 2;

    /// The daemon looks at it from now on.
    pub fn watch(&self) {
        self.0.store(Self::WATCHED, Ordering::Release);
    }

    /// Whether the signal came since the last call.
    pub fn take(&self) -> bool {
        self.0.compare_exchange(Self::RAISED, Self::WATCHED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Notes the signal. Returns whether the daemon looks at it.
    pub fn raise(&self) -> bool {
        let watched = |state| (state != 0).then_some(Self::RAISED);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, watched).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hangup_is_taken_once_when_watched() {
        let hangup = Hangup::default();
        assert!(!hangup.raise() && !hangup.take(), "nobody looks at it");
        hangup.watch();
        assert!(!hangup.take());
        assert!(hangup.raise() && hangup.raise());
        assert!(hangup.take() && !hangup.take());
    }
}
