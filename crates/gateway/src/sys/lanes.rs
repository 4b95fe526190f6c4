//! The two receive rings of a port. Frames with deadlines have one of their own, which is looked at
//! before each other frame: a flood of the others fills their ring alone.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::age::Bounds;
use super::filter::{Filter, Lane};
use super::interface::Interface;
use super::packet::{Next, Receiver, SLOTS};

/// Slots of the ring of frames with deadlines: 16 ms of the 32 frames each millisecond of a dense
/// cell.
const URGENT_SLOTS: usize = SLOTS / 2;

/// A port's rings.
#[derive(Debug)]
pub struct Lanes {
    urgent: Receiver,
    rest: Receiver,
    /// Whether the last [`Self::peek`] was of the first.
    took_urgent: bool,
}

impl Lanes {
    /// Opens both rings on the interface, as [`Receiver::open`] does one.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`), or when the kernel refuses an option.
    pub fn open(interface: &Interface, head: usize, bounds: Bounds) -> io::Result<Self> {
        let open = |lane, slots| {
            let ring = Receiver::open_lane(interface, head, slots, &Filter::lane(lane))?;
            io::Result::Ok(ring.bounded(bounds))
        };
        Ok(Self {
            urgent: open(Lane::Urgent, URGENT_SLOTS)?,
            rest: open(Lane::Rest, SLOTS)?,
            took_urgent: false,
        })
    }

    fn both(&mut self) -> [&mut Receiver; 2] {
        [&mut self.urgent, &mut self.rest]
    }

    /// Drops older frames from now on, see [`Receiver::bound`].
    pub fn bound(&mut self, bounds: Bounds) {
        self.both().into_iter().for_each(|ring| ring.bound(bounds));
    }

    /// Whether a frame is ready. Costs two memory reads.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        self.urgent.ready() || self.rest.ready()
    }

    /// The next frame with a deadline, or else the next other one, to be returned with
    /// [`Self::release`].
    #[inline]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
    pub fn peek(&mut self) -> Next<'_> {
        self.took_urgent = self.urgent.ready();
        if self.took_urgent { self.urgent.peek() } else { self.rest.peek() }
    }

    /// Returns the slot of the last [`Self::peek`] to the kernel.
    #[inline]
    pub fn release(&mut self) {
        if self.took_urgent { self.urgent.release() } else { self.rest.release() }
    }

    /// Drops all frames in the rings.
    pub fn discard(&mut self) {
        self.both().into_iter().for_each(Receiver::discard);
    }

    /// Frames dropped for their age since the last call.
    pub fn take_stale(&mut self) -> u64 {
        self.both().into_iter().map(|ring| ring.take_stale()).sum()
    }

    /// Frames that the kernel dropped since the last call because a ring was full: those with
    /// deadlines, and the others.
    #[must_use]
    pub fn overruns(&self) -> [u64; 2] {
        [self.urgent.overruns(), self.rest.overruns()]
    }

    /// The descriptors to wait for.
    #[must_use]
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.urgent.as_raw_fd(), self.rest.as_raw_fd()]
    }

    /// Clears errors of the sockets: a link that went down leaves one, which would end every wait at
    /// once.
    pub fn take_errors(&self) {
        for ring in [&self.urgent, &self.rest] {
            if !ring.ready() {
                let _ = ring.take_error();
            }
        }
    }
}
