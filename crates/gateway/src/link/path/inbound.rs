//! From the uplink to the machines.

use std::io;
use std::sync::Arc;

use antedate_channel::macsec::Receive;
use antedate_wire::echo::is_between_gateways;
use antedate_wire::link_local::is_carried;
use antedate_wire::ptp::Place;
use antedate_wire::vlan::Tci;
use antedate_wire::{Sci, link_local};

use super::Validator;
use super::exit::{Exit, is_blocked, turn};
use crate::config::policy::{Class, Traffic};
use crate::config::uplink::OuterTag;
use crate::frames::delivery::Delivery;
use crate::frames::gate::{Gate, Way};
use crate::frames::port::{admit, exceeds, source_bits};
use crate::link::clock::Clock;
use crate::link::echo::Desk;
use crate::link::loops::Guard;
use crate::link::machines::Side;
use crate::link::message::Ports;
use crate::link::outer::without_outer_tags;
use crate::link::pair::Pair;
use crate::link::warm::accept;
use crate::run::counters::PathCounters;

/// From the uplink to the machines.
#[derive(Debug)]
pub struct Inbound {
    /// Its ports.
    pub ports: Ports<Delivery>,
    /// Its secure channels.
    pub validator: Validator,
    /// Takes echoes.
    pub desk: Option<Arc<Desk>>,
    exit: Exit,
}

impl Inbound {
    /// A direction with these counters.
    #[must_use]
    pub fn new(
        ports: Ports<Delivery>,
        gate: Arc<Gate>,
        counters: Arc<PathCounters>,
        validator: Validator,
    ) -> Self {
        let exit = Exit::new(Way::In, gate, counters);
        Self { ports, validator, desk: None, exit }
    }

    /// Handles a bounded number of frames. Calls `heard` with the flow of each. Returns their
    /// number.
    #[inline]
    pub fn turn(&mut self, heard: impl FnMut(u32) -> u64) -> usize {
        let Self { ports, validator, desk, exit } = self;
        let done = turn(ports, exit, heard, |exit, received, to, mtu| match validator {
            Validator::Macsec(receive) => {
                exit.inbound(received.into_frame(), receive, desk.as_deref(), to, mtu);
                Ok(1)
            }
            Validator::Plain => exit.finished(received, |exit, frame| {
                let frame = frame.into_frame();
                if let Some(class) = exit.class(frame) {
                    let Exit { counters, clock, arrived, .. } = exit;
                    deliver_timed(clock.as_deref_mut(), *arrived, counters, to, mtu, class, frame);
                }
            }),
        });
        if done > 0 {
            ports.to.flush(&exit.counters);
        }
        done
    }

    /// Applies another policy. Returns the one before.
    #[must_use]
    pub fn replace_gate(&mut self, gate: Arc<Gate>) -> Arc<Gate> {
        self.exit.replace_gate(gate)
    }

    /// Uses other ports: the interface was replaced.
    pub fn replace_ports(&mut self, ports: Ports<Delivery>) {
        self.ports = ports;
        if self.exit.clock.is_some() {
            // As at the start, on another interface.
            let _ = Clock::follow(self.ports.to.sender());
        }
    }

    /// Corrects PTP messages.
    ///
    /// # Errors
    /// When the kernel stamps no departures.
    pub fn keep_time(&mut self) -> io::Result<()> {
        Clock::follow(self.ports.to.sender())?;
        self.exit.clock = Some(Box::new(Clock::new()));
        Ok(())
    }

    /// Counts frames whose outer VLAN tag has another priority than these.
    pub fn compare_outside(&mut self, outer: &OuterTag) {
        self.exit.outer = Some(Box::new(outer.clone()));
    }

    /// Accepts frames to link-local groups in the form that switches forward.
    pub fn take_link_local(&mut self) {
        self.exit.carried = Some(Box::default());
    }

    /// Forwards while none of these gateways does.
    pub fn stand_by(&mut self, pair: Arc<Pair>) {
        self.exit.pair = Some(pair);
    }

    /// Passes no frame while this gateway opens a loop.
    pub fn guard(&mut self, guard: Arc<Guard>, desk: Arc<Desk>) {
        self.exit.guard = Some((guard, desk));
    }

    /// Sends a hello of this gateway to the field.
    #[cold]
    pub fn say_hello(&mut self, frame: &[u8]) {
        self.to_field(frame);
        self.exit.said();
    }

    /// Sends a frame of this gateway to the machines.
    #[cold]
    pub fn to_field(&mut self, frame: &[u8]) {
        self.ports.to.put(&self.exit.counters, frame);
    }

    /// Counts frames with this SCI, the gateway's own.
    pub const fn watch_for(&mut self, own: Sci) {
        self.exit.own = Some(own);
    }

    /// Does at most `budget` steps of preparation. Returns the number of steps; 0 when all is
    /// prepared.
    pub fn idle(&mut self, budget: u32) -> u32 {
        match &mut self.validator {
            Validator::Macsec(receive) => receive.idle(budget),
            Validator::Plain => 0,
        }
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<PathCounters> {
        &self.exit.counters
    }
}

impl Exit {
    #[inline]
    fn inbound(
        &mut self,
        frame: &mut [u8],
        receive: &mut Receive,
        desk: Option<&Desk>,
        to: &mut Delivery,
        mtu: usize,
    ) {
        let (frame, hint) = without_outer_tags(frame);
        let Self {
            gate,
            counters,
            way,
            built,
            late,
            at,
            own,
            outer,
            carried,
            clock,
            arrived,
            pair,
            guard,
            by_second,
            ..
        } = self;
        // The channel counts refused frames by reason.
        let Some(opened) = accept(receive, frame, &mut built[..]) else {
            return note_source(counters, receive, *own, frame);
        };
        let opened = if !is_between_gateways(opened) {
            opened
        } else if !is_carried(opened) {
            return desk.map_or((), |desk| desk.heard_by(*by_second, opened));
        } else if let Some(frame) = restored(carried.is_some(), opened) {
            frame
        } else {
            return counters.refused[Class::Malformed.index()].count();
        };
        if is_blocked(pair.as_deref(), guard.as_ref(), Side::Far, opened) {
            return counters.blocked.count();
        }
        if let (Some(hint), Some(outer)) = (hint, outer) {
            compare(counters, outer, hint, opened);
        }
        if let Some(class) = admit(gate, *way, counters, (*late, *at), opened) {
            deliver_timed(clock.as_deref_mut(), *arrived, counters, to, mtu, class, opened);
        }
    }
}

/// A frame of another gateway to a link-local group. `None` if this one does not take them.
#[inline(never)]
fn restored(takes: bool, carried: &mut [u8]) -> Option<&mut [u8]> {
    link_local::restore(carried).ok().filter(|_| takes)
}

/// Counts a frame whose outer tag has another priority than its own one demands.
#[inline(never)]
fn compare(counters: &PathCounters, outer: &OuterTag, hint: Tci, opened: &[u8]) {
    let wanted = outer.of(opened).map_or(0, |tag| tag.tci.priority());
    if hint.priority() != wanted {
        counters.outer_priorities_differ.count();
    }
}

/// Notes the source of the last frame that looks forged, for the log. Its sender chose it.
#[cold]
#[inline(never)]
fn note_source(counters: &PathCounters, receive: &Receive, own: Option<Sci>, frame: &[u8]) {
    // A SecTAG with an explicit SCI (IEEE 802.1AE-2018, 9.3). Frames that this machine sends do not
    // come back to it.
    let explicit =
        frame.get(12..14) == Some(&[0x88, 0xe5]) && frame.get(14).is_some_and(|tci| tci & 0x20 != 0);
    if let Some(Sci(own)) = own
        && explicit
        && frame.get(20..28) == Some(&own)
    {
        counters.own_sci.count();
    }
    let of = receive.counters();
    let forged = of.in_pkts_not_valid + of.in_pkts_bad_tag + of.in_pkts_no_sci + of.in_pkts_not_using_sa;
    if forged != counters.forged.get() {
        counters.forged.set(forged);
        counters.forger.set(source_bits(frame));
    }
}

/// As [`deliver`], with PTP messages through the transparent clock, if there is one.
#[inline]
fn deliver_timed(
    clock: Option<&mut Clock>,
    arrived: u64,
    counters: &PathCounters,
    to: &mut Delivery,
    mtu: usize,
    class: Class,
    frame: &mut [u8],
) {
    let Some((clock, place)) = clock.and_then(|clock| Some((clock, Place::find(frame)?))) else {
        return deliver(counters, to, mtu, class, frame);
    };
    let Some(passing) = clock.corrected(counters, place, frame, arrived) else { return };
    if exceeds(frame, mtu) {
        return counters.too_long.count();
    }
    clock.put(&passing, counters, to.sender(), None, frame);
}

/// Sends a frame to the machines, if it fits the port's MTU. TCP segments of a turn leave joined;
/// no other frame waits for them.
#[inline]
fn deliver(counters: &PathCounters, to: &mut Delivery, mtu: usize, class: Class, frame: &[u8]) {
    if exceeds(frame, mtu) {
        return counters.too_long.count();
    }
    match class {
        Class::Named(Traffic::Ipv4 | Traffic::Ipv6) => to.join(counters, frame),
        _ if class.is_cyclic() => to.put(counters, frame),
        _ => to.put_patient(counters, frame),
    }
}
