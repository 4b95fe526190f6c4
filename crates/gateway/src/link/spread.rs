//! Which workers send, with agreed keys: all of them, each in a channel of its own, while each
//! member takes as many channels. Otherwise the first one alone.
//!
//! The keys are installed for all channels in any case, so that only the kernel's choice of a ring
//! changes. Exchanging its program waits for the kernel, so no forwarding thread does it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use crate::link::channels::BothPorts;
use crate::run::lock;
use crate::sys::fanout::share;

/// The rings of the field port, and how frames are shared among them.
#[derive(Debug, Default)]
pub struct Spread(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A socket of the group. `None` where one worker has all frames for ever.
    group: Option<OwnedFd>,
    shared: bool,
}

impl Spread {
    /// Follows ports that were opened, with the present choice.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn over(&self, ports: &[BothPorts]) -> io::Result<()> {
        let Some((out, _)) = ports.first().filter(|_| ports.len() > 1) else { return Ok(()) };
        let mut state = lock(&self.0);
        let group = out.from.rest().try_clone_to_owned()?;
        share(group.as_fd(), state.shared)?;
        state.group = Some(group);
        Ok(())
    }

    /// Has all workers send, or the first one alone. Returns whether that changes something.
    ///
    /// # Errors
    /// When the kernel refuses. Nothing has changed then.
    pub fn set(&self, shared: bool) -> io::Result<bool> {
        let mut state = lock(&self.0);
        if state.shared == shared {
            return Ok(false);
        }
        if let Some(group) = &state.group {
            share(group.as_fd(), shared)?;
        }
        state.shared = shared;
        Ok(true)
    }
}
