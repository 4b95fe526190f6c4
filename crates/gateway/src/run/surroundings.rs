//! Watches the host around a running gateway ([`crate::config::host`]).

use std::time::{Duration, Instant};

use crate::config::host::{Finding, Host, Port, examine};
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;
use crate::sys::interface::Interface;
use crate::sys::links::Changes;

/// The interval of looks without a notice, for settings that give none.
const LOOK: Duration = Duration::from_secs(30);

/// The findings, and when to look again.
#[derive(Debug)]
pub struct Surroundings {
    /// `None` without notices of the kernel.
    changes: Option<Changes>,
    looked: Instant,
    /// Those of the start were told by then.
    first: Vec<Finding>,
    now: Vec<Finding>,
    /// Whether the uplink's frames have the addresses of machines.
    transparent: bool,
}

impl Surroundings {
    /// Begins to watch.
    #[must_use]
    pub fn new(field: &Interface, uplink: &Interface, transparent: bool) -> Self {
        let changes = Changes::open().ok();
        let first = look(field, uplink, transparent);
        Self { changes, looked: Instant::now(), first, now: Vec::new(), transparent }
    }

    /// Tells the watch of the findings that the start did not have.
    pub fn follow(&mut self, field: &Interface, uplink: &Interface, watch: &Watch) {
        let changed = self.changes.as_ref().is_some_and(Changes::any);
        if changed || self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let found = look(field, uplink, self.transparent);
            for over in self.now.iter().filter(|finding| !found.contains(finding)) {
                watch.holds(Trouble::Host, &over.what, None);
                watch.forget(&over.what);
            }
            // One that is over may come back.
            self.first.retain(|finding| found.contains(finding));
            self.now = found;
        }
        for new in self.now.iter().filter(|finding| !self.first.contains(finding)) {
            watch.holds(Trouble::Host, &new.what, Some(&new.remedy));
        }
    }
}

fn look(field: &Interface, uplink: &Interface, transparent: bool) -> Vec<Finding> {
    let host = Host::look(&[field, uplink].map(|port| (port.index, port.name.as_str())));
    examine(&host, Port::of(field, uplink, transparent))
}
