//! Cores of the processes of a path.

use crate::net;
use std::fmt;
use std::process::Command;

/// The cores of the processes of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cores {
    /// The scheduler decides.
    Free,
    /// Everything on core 0.
    One,
    /// PLC and its gateway on core 0, device and its gateway on core 1.
    Split,
}

/// The cores of a path's processes, and whether idle cores stay awake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    pub(crate) cores: Cores,
    /// A spinner of the lowest priority keeps the cores from sleeping, which is expensive in a
    /// virtual machine.
    pub(crate) awake: bool,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cores {
            Cores::Free => "not pinned",
            Cores::One => "one core",
            Cores::Split => "split",
        })?;
        f.write_str(if self.awake { ", kept awake" } else { "" })
    }
}

const fn place(cores: Cores, awake: bool) -> Placement {
    Placement { cores, awake }
}

/// The placements tried for round trips.
pub(crate) const PLACEMENTS: [Placement; 4] = [
    place(Cores::One, false),
    place(Cores::One, true),
    place(Cores::Split, false),
    place(Cores::Split, true),
];

/// The placements tried for TCP, whose ends are iperf3 and whose cores never sleep.
pub(crate) const FOR_TCP: [Placement; 3] =
    [place(Cores::Free, false), place(Cores::One, false), place(Cores::Split, false)];

impl Placement {
    /// The core of the controller's side (0) or the device's side (1), if it is pinned.
    pub(crate) fn core(self, side: usize) -> Option<usize> {
        match self.cores {
            Cores::Free => None,
            Cores::One => Some(0),
            Cores::Split => Some(side),
        }
    }

    /// A program of one side in the given namespace, on its core.
    pub(crate) fn program(self, space: &str, side: usize, name: &str) -> Command {
        match self.core(side) {
            Some(core) => {
                let mut command = net::inside(space, "taskset");
                command.args(["-c", &core.to_string(), name]);
                command
            }
            None => net::inside(space, name),
        }
    }
}
