//! Which worker has the frames to which machines: the kernel chooses the ring of a frame from the
//! field. Exchanging its program takes some milliseconds, so no forwarding thread does it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;

use crate::overlay::state::Machines;
use crate::sys::fanout::{MACHINES, direct};
use crate::sys::lanes::Lanes;

/// The rings of the field port, and the machines whose frames other workers than the first have.
pub(super) struct Spread {
    /// A socket of each group of rings.
    groups: [OwnedFd; 2],
    came: mpsc::Receiver<Machines>,
    machines: Machines,
    /// More machines than fit were told to the operator.
    told: bool,
}

impl Spread {
    /// Over these rings, one pair for each worker. `None` with one worker.
    pub(super) fn over(lanes: &[&Lanes], came: mpsc::Receiver<Machines>) -> io::Result<Option<Self>> {
        let Some(groups) = groups(lanes)? else { return Ok(None) };
        Ok(Some(Self { groups, came, machines: Vec::new(), told: false }))
    }

    /// Goes on over other rings.
    pub(super) fn replace(&mut self, lanes: &[&Lanes]) -> io::Result<()> {
        if let Some(groups) = groups(lanes)? {
            self.groups = groups;
        }
        self.apply()
    }

    /// Follows the machines that were learned, have moved or are gone.
    pub(super) fn follow(&mut self) {
        let Some(mut machines) = self.came.try_iter().last() else { return };
        machines.sort_unstable();
        if machines == self.machines {
            return;
        }
        self.machines = machines;
        if self.machines.len() > MACHINES && !self.told {
            self.told = true;
            tracing::warn!(
                machines = self.machines.len(),
                most = MACHINES,
                "frames to further machines behind other workers' peers take the way through the first worker"
            );
        }
        if let Err(error) = self.apply() {
            tracing::error!(%error, "the kernel does not share out the frames: the first worker passes them on");
        }
    }

    fn apply(&self) -> io::Result<()> {
        direct(self.groups.each_ref().map(AsFd::as_fd), &self.machines)
    }
}

fn groups(lanes: &[&Lanes]) -> io::Result<Option<[OwnedFd; 2]>> {
    let Some(first) = lanes.first().filter(|_| lanes.len() > 1) else { return Ok(None) };
    let [urgent, rest] = first.groups();
    Ok(Some([urgent.try_clone_to_owned()?, rest.try_clone_to_owned()?]))
}
