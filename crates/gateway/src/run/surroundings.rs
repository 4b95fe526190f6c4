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
    pub fn new(field: &Interface, uplinks: &[&Interface], transparent: bool) -> Self {
        let changes = Changes::open().ok();
        let first = look(field, uplinks, transparent);
        Self { changes, looked: Instant::now(), first, now: Vec::new(), transparent }
    }

    /// Tells the watch of the findings that the start did not have.
    pub fn follow(&mut self, field: &Interface, uplinks: &[&Interface], watch: &Watch) {
        let changed = self.changes.as_ref().is_some_and(Changes::any);
        if changed || self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let found = look(field, uplinks, self.transparent);
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

fn look(field: &Interface, uplinks: &[&Interface], transparent: bool) -> Vec<Finding> {
    let ports: Vec<_> = [&field].into_iter().chain(uplinks).map(|port| (port.index, &*port.name)).collect();
    let host = Host::look(&ports);
    let mut all: Vec<Finding> = Vec::new();
    for found in uplinks.iter().flat_map(|uplink| examine(&host, Port::of(field, uplink, transparent))) {
        // Those of the field are the same.
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all
}
