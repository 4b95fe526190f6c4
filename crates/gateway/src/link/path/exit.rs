//! The part of a direction without the cipher: policy, offloads, and the gateways beside this one.

use std::mem;
use std::sync::Arc;

use antedate_wire::Sci;
use antedate_wire::echo::is_between_gateways;
use antedate_wire::probe::is_probe;
use antedate_wire::standby::is_standby;

use crate::config::policy::Class;
use crate::config::uplink::OuterTag;
use crate::frames::gate::{Gate, Way};
use crate::frames::offload;
use crate::frames::port::{admit, flow};
use crate::link::clock::Clock;
use crate::link::echo::Desk;
use crate::link::loops::Guard;
use crate::link::machines::Side;
use crate::link::message::Ports;
use crate::link::pair::Pair;
use crate::link::standby::Via;
use crate::run::counters::PathCounters;
use crate::sys::packet::{Next, Received};

/// The most frames of one direction in a turn.
const TURN: usize = 16;
/// Octets of the longest protected frame: super-frames of 64 KiB never leave as one, jumbo frames
/// of 9018 bytes with a SecTAG may.
const MAX_PROTECTED_LEN: usize = 16 * 1024;

/// The part of a direction without the cipher.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) way: Way,
    pub(super) gate: Arc<Gate>,
    pub(super) counters: Arc<PathCounters>,
    /// Output of the cipher where it does not work in place.
    pub(super) built: Box<[u8]>,
    /// Segments of super-frames.
    pub(super) scratch: Box<[u8]>,
    /// Whether the current frame is too old for a cyclic one.
    pub(super) late: bool,
    /// The time of the current frame, or 0 if nobody has read the clock.
    pub(super) at: u64,
    /// Whether the current frame leaves at once, without others.
    pub(super) at_once: bool,
    /// The own SCI, which no received frame has.
    pub(super) own: Option<Sci>,
    /// The VLAN tags in front of SecTAGs.
    pub(super) outer: Option<Box<OuterTag>>,
    /// A frame to a link-local group in its form on the way. `None`: they have no other.
    pub(super) carried: Option<Box<[u8]>>,
    /// The gateways that stand by for one another, if this is one of them.
    pub(super) pair: Option<Arc<Pair>>,
    /// The guard against loops, if any, and the place of probes.
    pub(super) guard: Option<(Arc<Guard>, Arc<Desk>)>,
    /// The transparent clock, if any, and the arrival of the current frame.
    pub(super) clock: Option<Box<Clock>>,
    pub(super) arrived: u64,
    /// Whether the current frame came by the second of two ports.
    pub(super) by_second: bool,
}

pub(super) fn buffer() -> Box<[u8]> {
    vec![0; MAX_PROTECTED_LEN].into_boxed_slice()
}

/// Runs at most [`TURN`] frames of the ring to completion with `handle`. Returns their number.
#[inline]
pub(super) fn turn<To>(
    ports: &mut Ports<To>,
    exit: &mut Exit,
    mut heard: impl FnMut(u32) -> u64,
    mut handle: impl FnMut(&mut Exit, Received<'_>, &mut To, usize) -> Result<usize, offload::UnsupportedError>,
) -> usize {
    let Ports { from, to, mtu } = ports;
    let mut count = 0;
    while count < TURN {
        match from.peek() {
            Next::Empty => break,
            Next::Truncated => exit.counters.truncated.count(),
            Next::Frame(received) => {
                exit.at = heard(flow(received.frame()));
                (exit.late, exit.arrived, exit.by_second) =
                    (received.late, received.arrived, received.by_second);
                exit.counters.received.count();
                exit.counters.octets_received.add(received.frame().len() as u64);
                let (checksum, segmentation) =
                    (received.offload.needs_checksum, received.offload.segmentation != 0);
                let result = handle(exit, received, to, *mtu);
                exit.offloaded(result, checksum, segmentation);
            }
        }
        from.release();
        count += 1;
    }
    count
}

impl Exit {
    pub(super) fn new(way: Way, gate: Arc<Gate>, counters: Arc<PathCounters>) -> Self {
        Self {
            way,
            gate,
            counters,
            built: buffer(),
            scratch: buffer(),
            late: false,
            at: 0,
            at_once: false,
            own: None,
            outer: None,
            carried: None,
            pair: None,
            guard: None,
            clock: None,
            arrived: 0,
            by_second: false,
        }
    }

    #[cold]
    pub(super) fn replace_gate(&mut self, gate: Arc<Gate>) -> Arc<Gate> {
        gate.take_over(self.way, &self.gate);
        mem::replace(&mut self.gate, gate)
    }

    /// Passes on the frame or its segments, completed (see [`offload::finish`]).
    #[inline]
    pub(super) fn finished(
        &mut self,
        received: Received<'_>,
        mut each: impl FnMut(&mut Self, Received<'_>),
    ) -> Result<usize, offload::UnsupportedError> {
        // Taken out, so that `each` can borrow the rest.
        let mut scratch = mem::take(&mut self.scratch);
        let result = offload::finish(received, &mut scratch, |frame| each(self, frame));
        self.scratch = scratch;
        result
    }

    pub(super) fn offloaded(
        &self,
        result: Result<usize, offload::UnsupportedError>,
        checksum: bool,
        segmentation: bool,
    ) {
        match result {
            Err(offload::UnsupportedError) => self.counters.unsupported_offload.count(),
            Ok(_) if segmentation => self.counters.super_frames.count(),
            Ok(_) if checksum => self.counters.checksums_completed.count(),
            Ok(_) => {}
        }
    }

    #[inline]
    pub(super) fn passes(&self, frame: &[u8]) -> bool {
        self.class(frame).is_some()
    }

    /// The class of a frame that passes.
    #[inline]
    pub(super) fn class(&self, frame: &[u8]) -> Option<Class> {
        if is_between_gateways(frame) {
            self.heard_gateway(frame);
            return None;
        }
        if is_blocked(self.pair.as_deref(), self.guard.as_ref(), Side::Near, frame) {
            self.counters.blocked.count();
            return None;
        }
        admit(&self.gate, self.way, &self.counters, (self.late, self.at), frame)
    }

    /// Takes a frame of another gateway by the field: one of a gateway that stands by, or none. A
    /// machine is no gateway.
    #[cold]
    pub(super) fn heard_gateway(&self, frame: &[u8]) {
        match (&self.pair, &self.guard) {
            (Some(pair), _) if is_standby(frame) => pair.heard(Via::Field, frame),
            (_, Some((_, desk))) if is_probe(frame) => desk.heard_probe(Via::Field, frame),
            _ => self.counters.refused[Class::Malformed.index()].count(),
        }
    }

    pub(super) fn said(&self) {
        if let Some(pair) = &self.pair {
            pair.said();
        }
    }
}

/// Whether another gateway forwards the frames of machines, or this one opens a loop.
#[inline]
pub(super) fn is_blocked(
    pair: Option<&Pair>,
    guard: Option<&(Arc<Guard>, Arc<Desk>)>,
    side: Side,
    frame: &[u8],
) -> bool {
    guard.is_some_and(|(guard, _)| guard.blocks()) || pair.is_some_and(|pair| !pair.passes(side, frame))
}
