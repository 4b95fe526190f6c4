//! The receive rings of a port. Frames with deadlines have one of their own, which is looked at
//! before nearly each other frame: a flood of the others fills their ring alone.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use super::age::Bounds;
use super::filter::{Filter, Lane};
use super::interface::Interface;
use super::packet::{Next, Received, Receiver, SLOTS};
use super::thread::Woken;

/// Slots of the ring of frames with deadlines: 16 ms of the 32 frames each millisecond of a dense
/// cell.
pub(super) const URGENT_SLOTS: usize = SLOTS / 2;
/// Frames with deadlines in a row while another waits. Who floods that ring, as anybody on the uplink
/// can, does not silence the rest.
const IN_A_ROW: u32 = 8;

/// A port's rings, or those of two ports with the same frames.
#[derive(Debug)]
pub struct Lanes {
    urgent: Receiver,
    rest: Receiver,
    turns: Turns,
    /// The second port.
    twin: Option<Box<Lanes>>,
    /// Whether the last frame came by the second port.
    by_twin: bool,
    /// Frames taken from this port.
    taken: u64,
}

/// Whose turn it is.
#[derive(Debug, Default)]
struct Turns {
    /// Whether the last frame was urgent.
    urgent: bool,
    /// Urgent frames since the last other one.
    in_a_row: u32,
}

impl Turns {
    /// Whether the next frame is an urgent one, if there are some, and others.
    #[inline]
    fn next(&mut self, urgent: bool, rest: impl FnOnce() -> bool) -> bool {
        self.urgent = urgent && (self.in_a_row < IN_A_ROW || !rest());
        self.in_a_row = if self.urgent { self.in_a_row.saturating_add(1) } else { 0 };
        self.urgent
    }
}

impl Lanes {
    /// Rings of one port of several.
    pub(super) fn of(urgent: Receiver, rest: Receiver) -> Self {
        Self { urgent, rest, turns: Turns::default(), twin: None, by_twin: false, taken: 0 }
    }

    /// Opens both rings on the interface, as [`Receiver::open`] does one.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`), or when the kernel refuses an option.
    pub fn open(interface: &Interface, head: usize, bounds: Bounds) -> io::Result<Self> {
        let open = |lane, slots| {
            let ring = Receiver::open_lane(interface, head, slots, &Filter::lane(lane))?;
            io::Result::Ok(ring.bounded(bounds))
        };
        Ok(Self::of(open(Lane::Urgent, URGENT_SLOTS)?, open(Lane::Rest, SLOTS)?))
    }

    /// Receives on this interface too.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn and(mut self, second: &Interface, head: usize, bounds: Bounds) -> io::Result<Self> {
        self.twin = Some(Box::new(Self::open(second, head, bounds)?));
        Ok(self)
    }

    /// The ring of frames without a deadline.
    #[must_use]
    pub fn rest(&self) -> BorrowedFd<'_> {
        self.rest.as_fd()
    }

    /// Both rings: that of frames with a deadline, and the other one.
    #[must_use]
    pub fn groups(&self) -> [BorrowedFd<'_>; 2] {
        [self.urgent.as_fd(), self.rest.as_fd()]
    }

    fn both(&mut self) -> [&mut Receiver; 2] {
        [&mut self.urgent, &mut self.rest]
    }

    /// Drops older frames from now on, see [`Receiver::bound`].
    pub fn bound(&mut self, bounds: Bounds) {
        self.both().into_iter().for_each(|ring| ring.bound(bounds));
        if let Some(twin) = &mut self.twin {
            twin.bound(bounds);
        }
    }

    /// Frames taken so far from each port.
    #[must_use]
    pub fn taken(&self) -> [u64; 2] {
        [self.taken, self.twin.as_ref().map_or(0, |twin| twin.taken)]
    }

    /// Whether a frame is ready. Costs two memory reads a port.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        self.urgent.ready() || self.rest.ready() || self.twin.as_ref().is_some_and(|twin| twin.ready())
    }

    /// The next frame with a deadline, or else the next other one, to be returned with
    /// [`Self::release`].
    #[inline]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
    pub fn peek(&mut self) -> Next<'_> {
        if self.twin.is_some() {
            return self.peek_by_turns();
        }
        self.peek_here()
    }

    #[inline]
    fn peek_here(&mut self) -> Next<'_> {
        let urgent = self.urgent.ready();
        if self.turns.next(urgent, || self.rest.ready()) { self.urgent.peek() } else { self.rest.peek() }
    }

    /// The ports by turns, so that a flood of one does not silence the other.
    #[inline(never)]
    fn peek_by_turns(&mut self) -> Next<'_> {
        let own = self.urgent.ready() || self.rest.ready();
        let other = self.twin.as_ref().is_some_and(|twin| twin.ready());
        self.by_twin = other && (!own || !self.by_twin);
        if !self.by_twin {
            return self.peek_here();
        }
        match self.twin.as_mut().map_or(Next::Empty, |twin| twin.peek_here()) {
            Next::Frame(received) => Next::Frame(Received { by_second: true, ..received }),
            other => other,
        }
    }

    /// Returns the slot of the last [`Self::peek`] to the kernel.
    #[inline]
    pub fn release(&mut self) {
        if let Some(twin) = self.twin.as_mut().filter(|_| self.by_twin) {
            return twin.release();
        }
        self.taken += 1;
        if self.turns.urgent { self.urgent.release() } else { self.rest.release() }
    }

    /// Drops all frames in the rings.
    pub fn discard(&mut self) {
        self.both().into_iter().for_each(Receiver::discard);
        if let Some(twin) = &mut self.twin {
            twin.discard();
        }
    }

    /// Frames dropped for their age since the last call.
    pub fn take_stale(&mut self) -> u64 {
        let own: u64 = self.both().into_iter().map(|ring| ring.take_stale()).sum();
        own + self.twin.as_mut().map_or(0, |twin| twin.take_stale())
    }

    /// Frames that the kernel dropped since the last call because a ring was full: those with
    /// deadlines, and the others.
    #[must_use]
    pub fn overruns(&self) -> [u64; 2] {
        let [urgent, rest] = self.twin.as_ref().map_or([0; 2], |twin| twin.overruns());
        [self.urgent.overruns() + urgent, self.rest.overruns() + rest]
    }

    /// The descriptors to wait for. -1: none.
    #[must_use]
    pub fn descriptors(&self) -> [RawFd; 4] {
        let [a, b, ..] = self.twin.as_ref().map_or([-1; 4], |twin| twin.descriptors());
        [self.urgent.as_raw_fd(), self.rest.as_raw_fd(), a, b]
    }

    /// Clears the errors that a wait found, in the order of [`Self::descriptors`]: a link that went
    /// down leaves one.
    pub fn take_errors(&self, woken: &[Woken]) {
        for (ring, woken) in [&self.urgent, &self.rest].into_iter().zip(woken) {
            if *woken == Woken::Error {
                let _ = ring.take_error();
            }
        }
        if let (Some(twin), Some(woken)) = (&self.twin, woken.get(2..)) {
            twin.take_errors(woken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_lane_starves() {
        let mut turns = Turns::default();
        let taken: Vec<_> = (0..27).map(|_| turns.next(true, || true)).collect();
        assert_eq!(taken.iter().filter(|urgent| !**urgent).count(), 3);
        assert!(taken.chunks(9).all(|nine| nine[..8].iter().all(|urgent| *urgent)));
        // Alone, each has all turns.
        assert!((0..100).all(|_| turns.next(true, || false)));
        assert!((0..100).all(|_| !turns.next(false, || true)));
        assert!(turns.next(true, || true), "an urgent one waits for one frame at most");
    }
}
