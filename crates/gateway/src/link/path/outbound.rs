//! From the machines to the uplink.

use std::io;
use std::sync::Arc;

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::{An, ProtectError, Transmit};
use antedate_wire::ethernet::HEADER_LEN as HEADER;
use antedate_wire::link_local::{self, is_for_carriage};
use antedate_wire::ptp::Place;
use antedate_wire::vlan::Tag;

use super::Protector;
use super::exit::{Exit, buffer, turn};
use crate::config::uplink::OuterTag;
use crate::frames::gate::{Gate, Way};
use crate::frames::port::{exceeds, not_sent, put_patient, put_tagged, send_tagged, settle};
use crate::link::clock::Clock;
use crate::link::echo::Desk;
use crate::link::express::{Bulk, Express};
use crate::link::loops::Guard;
use crate::link::message::Ports;
use crate::link::pair::Pair;
use crate::link::warm::protect_in_place;
use crate::run::counters::PathCounters;
use crate::sys::packet::{Offload, Received};
use crate::sys::sender::{Carries, Sender};
use crate::sys::thread;
use crate::sys::warm::hot;

/// From the machines to the uplink.
#[derive(Debug)]
pub struct Outbound {
    /// Its ports.
    pub ports: Ports<Sender>,
    /// Its secure channel.
    pub protector: Protector,
    /// The marks of fragments for frames longer than the uplink's MTU. `None`: no fragments.
    pub fragments: Option<Marks>,
    /// The express channel with the queue of bulk, if any.
    pub express: Option<Box<Express>>,
    exit: Exit,
    /// The uplink's MTU, and the path's if known.
    uplink_mtu: usize,
    path_mtu: Option<usize>,
}

impl Outbound {
    /// A direction with these counters.
    #[must_use]
    pub fn new(
        ports: Ports<Sender>,
        gate: Arc<Gate>,
        counters: Arc<PathCounters>,
        protector: Protector,
    ) -> Self {
        let exit = Exit::new(Way::Out, gate, counters);
        let uplink_mtu = ports.mtu;
        Self { ports, protector, fragments: None, express: None, exit, uplink_mtu, path_mtu: None }
    }

    /// Applies another policy. Returns the one before.
    #[must_use]
    pub fn replace_gate(&mut self, gate: Arc<Gate>) -> Arc<Gate> {
        self.exit.replace_gate(gate)
    }

    /// Uses other ports: the interface was replaced.
    pub fn replace_ports(&mut self, ports: Ports<Sender>) {
        self.uplink_mtu = ports.mtu;
        let carries = self.ports.to.carries();
        self.ports = ports;
        self.ports.to.carry_by(carries);
        self.set_path(self.path_mtu);
        if self.exit.clock.is_some() {
            // As at the start, on another interface.
            let _ = Clock::follow(&self.ports.to);
        }
    }

    /// Bounds frames by the path's MTU, or by the uplink's alone.
    pub fn set_path(&mut self, mtu: Option<usize>) {
        self.path_mtu = mtu;
        self.ports.mtu = mtu.map_or(self.uplink_mtu, |mtu| mtu.min(self.uplink_mtu));
    }

    /// Sends protected frames with these VLAN tags in front of the SecTAG.
    pub fn tag_outside(&mut self, outer: &OuterTag) {
        self.exit.outer = Some(Box::new(outer.clone()));
    }

    /// Sends frames to link-local groups in a form that switches forward.
    pub fn carry_link_local(&mut self) {
        self.exit.carried = Some(buffer());
    }

    /// Forwards while none of these gateways does.
    pub fn stand_by(&mut self, pair: Arc<Pair>) {
        self.exit.pair = Some(pair);
    }

    /// Passes no frame while this gateway opens a loop.
    pub fn guard(&mut self, guard: Arc<Guard>, desk: Arc<Desk>) {
        self.exit.guard = Some((guard, desk));
    }

    /// Sends frames of machines by these uplinks from now on.
    #[cold]
    pub const fn carry_by(&mut self, carries: Carries) {
        self.ports.to.carry_by(carries);
    }

    /// Protects and sends a hello of this gateway.
    #[cold]
    pub fn say_hello(&mut self, frame: &[u8]) {
        self.send_echo(frame);
        self.exit.said();
    }

    /// Corrects PTP messages.
    ///
    /// # Errors
    /// When the kernel stamps no departures.
    pub fn keep_time(&mut self) -> io::Result<()> {
        Clock::follow(&self.ports.to)?;
        self.exit.clock = Some(Box::new(Clock::new()));
        Ok(())
    }

    /// Protects and sends an echo as one frame, by all uplinks.
    #[cold]
    pub fn send_echo(&mut self, frame: &[u8]) {
        self.send_message(Carries::Both, frame);
    }

    /// Protects and sends a message of this gateway as one frame, by these uplinks. With an express
    /// channel it leaves there: the packet numbers of bulk that waits are taken already.
    #[cold]
    #[inline(never)]
    pub fn send_message(&mut self, by: Carries, frame: &[u8]) {
        let Self { ports, protector, express, exit, uplink_mtu, .. } = self;
        let tag = exit.tag(frame);
        let Exit { built, counters, .. } = exit;
        let transmit = match (express.as_mut(), protector) {
            (Some(express), _) => &mut *express.transmit,
            (None, Protector::Macsec(transmit)) => &mut **transmit,
            (None, Protector::Plain) => return,
        };
        // Without a key nobody hears it, and it is no frame of a machine that is lost.
        if transmit.encoding().is_none() || transmit.protected_len(frame.len()) > *uplink_mtu + HEADER {
            return;
        }
        match transmit.protect(frame, &mut built[..]) {
            Ok(length) => {
                // Not among the frames of the machines.
                if let Err(error) = send_tagged(&ports.to, by, tag, built.get(..length).unwrap_or_default()) {
                    not_sent(counters, &error);
                }
                if let Some(express) = express {
                    express.sent(thread::now(), length);
                }
            }
            Err(_) => counters.not_protected.count(),
        }
    }

    /// Handles a bounded number of frames. Calls `heard` with the flow of each. Returns their
    /// number.
    #[inline]
    pub fn turn(&mut self, heard: impl FnMut(u32) -> u64) -> usize {
        if self.express.is_some() {
            return self.turn_in_two_channels(heard);
        }
        let Self { ports, protector, fragments, exit, .. } = self;
        let done = turn(ports, exit, heard, |exit, received, to, mtu| {
            let fragments = *fragments;
            exit.finished(received, |exit, frame| {
                hot(|| exit.outbound(frame, protector, fragments, to, mtu));
            })
        });
        if done > 0 {
            settle(&exit.counters, &ports.to);
        }
        done
    }

    /// As [`Self::turn`], with express frames at once, and then the next fragment of bulk if the
    /// wire is idle.
    #[inline(never)]
    fn turn_in_two_channels(&mut self, heard: impl FnMut(u32) -> u64) -> usize {
        let Self { ports, protector, fragments, express, exit, .. } = self;
        let (Some(express), Protector::Macsec(transmit)) = (express, protector) else { return 0 };
        let longest = ports.mtu + HEADER;
        let done = turn(ports, exit, heard, |exit, received, to, _| {
            exit.finished(received, |exit, frame| exit.sorted(frame.into_frame(), express, to, longest))
        });
        let now = thread::now();
        let Exit { built, counters, .. } = exit;
        let bulk = Bulk { transmit, fragments: *fragments, longest, scratch: &mut built[..] };
        let pumped = express.pump(now, bulk, |tag, fragment| put_tagged(counters, &ports.to, tag, fragment));
        counters.stale.add(express.take_stale());
        match pumped {
            Ok(sent) => done + usize::from(sent),
            Err(ProtectError::Unsplittable) => {
                counters.too_long.count();
                done + 1
            }
            Err(_) => {
                counters.not_protected.count();
                done + 1
            }
        }
    }

    /// The time of the next fragment of bulk, if any.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        self.express.as_ref().and_then(|express| express.due())
    }

    /// The secure channels: the ordinary one, then the express one.
    pub fn channels(&mut self) -> impl Iterator<Item = &mut Transmit> {
        let Self { protector, express, .. } = self;
        let usual = match protector {
            Protector::Macsec(transmit) => Some(&mut **transmit),
            Protector::Plain => None,
        };
        usual.into_iter().chain(express.as_mut().map(|express| &mut *express.transmit))
    }

    /// The encoding association, and the next packet numbers of the ordinary and of the express
    /// channel.
    #[inline]
    #[must_use]
    pub fn encoding(&self) -> Option<(An, u64, Option<u64>)> {
        let Protector::Macsec(transmit) = &self.protector else { return None };
        let (an, next) = transmit.encoding()?;
        let express = self.express.as_ref().and_then(|express| express.transmit.encoding());
        Some((an, next, express.map(|(_, next)| next)))
    }

    /// Does at most `budget` steps of preparation. Returns the number of steps; 0 when all is
    /// prepared.
    pub fn idle(&mut self, budget: u32) -> u32 {
        if let Some(express) = &mut self.express {
            let done = express.transmit.idle(budget);
            if done > 0 {
                return done;
            }
        }
        match &mut self.protector {
            Protector::Macsec(transmit) => transmit.idle(budget),
            Protector::Plain => 0,
        }
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<PathCounters> {
        &self.exit.counters
    }
}

impl Exit {
    /// Sends an express frame at once, and queues any other.
    fn sorted(&mut self, frame: &mut [u8], express: &mut Express, to: &Sender, longest: usize) {
        if !self.passes(frame) {
            return;
        }
        // Nothing that waits has a residence that can be told before.
        if self.clock.is_some()
            && let Some(place) = Place::find(frame)
        {
            let transmit = Some(&mut *express.transmit);
            if let Some(length) = self.timed(place, frame, transmit, to, longest) {
                self.counters.express.count();
                express.sent(thread::now(), length);
            }
            return;
        }
        let tag = self.tag(frame);
        let is_express = express.picks(frame, longest);
        let mut carried = self.carried.take();
        let frame = carry(carried.as_deref_mut(), frame);
        self.sorted_as(is_express, tag, frame, express, to, longest);
        self.carried = carried;
    }

    /// As [`Self::sorted`], in the form on the way.
    #[inline]
    fn sorted_as(
        &mut self,
        is_express: bool,
        tag: Option<Tag>,
        frame: &[u8],
        express: &mut Express,
        to: &Sender,
        longest: usize,
    ) {
        if !is_express || express.transmit.protected_len(frame.len()) > longest {
            if !express.enqueue(thread::now(), tag, frame) {
                self.counters.bulk_full.count();
            }
            return;
        }
        match express.transmit.protect(frame, &mut self.built[..]) {
            Ok(length) => {
                if let Some(sealed) = self.built.get(..length) {
                    put_tagged(&self.counters, to, tag, sealed);
                    self.counters.express.count();
                    express.sent(thread::now(), length);
                }
            }
            Err(_) => self.counters.not_protected.count(),
        }
    }

    #[inline]
    fn outbound(
        &mut self,
        received: Received<'_>,
        protector: &mut Protector,
        fragments: Option<Marks>,
        to: &Sender,
        mtu: usize,
    ) {
        let frame = received.frame();
        let Some(class) = self.class(frame) else { return };
        self.at_once = class.is_cyclic();
        if self.clock.is_some()
            && let Some(place) = Place::find(frame)
        {
            let transmit = match protector {
                Protector::Plain => None,
                Protector::Macsec(transmit) => Some(&mut **transmit),
            };
            let _ = self.timed(place, received.into_frame(), transmit, to, mtu + HEADER);
            return;
        }
        let transmit = match protector {
            Protector::Plain => return self.send(to, mtu, frame),
            Protector::Macsec(transmit) => transmit,
        };
        let tag = self.tag(frame);
        if self.carried.is_some() && is_for_carriage(frame) {
            return self.outbound_carried(frame, tag, transmit, fragments, to, mtu);
        }
        self.protected(received, tag, transmit, fragments, to, mtu);
    }

    /// Sends a PTP message with its correction. Returns the octets of its form on the wire.
    #[cold]
    #[inline(never)]
    fn timed(
        &mut self,
        place: Place,
        frame: &mut [u8],
        transmit: Option<&mut Transmit>,
        to: &Sender,
        longest: usize,
    ) -> Option<usize> {
        let tag = self.tag(frame);
        let Self { built, counters, carried, clock, arrived, .. } = self;
        let clock = clock.as_deref_mut()?;
        let passing = clock.corrected(counters, place, frame, *arrived)?;
        let frame = carry(carried.as_deref_mut(), frame);
        let sealed = match transmit {
            None if exceeds(frame, longest - HEADER) => {
                counters.too_long.count();
                return None;
            }
            None => frame,
            Some(transmit) if transmit.protected_len(frame.len()) > longest => {
                counters.too_long.count();
                transmit.count_too_long();
                return None;
            }
            Some(transmit) => match transmit.protect(frame, &mut built[..]) {
                Ok(length) => built.get(..length)?,
                Err(_) => {
                    counters.not_protected.count();
                    return None;
                }
            },
        };
        clock.put(&passing, counters, to, tag, sealed);
        Some(sealed.len())
    }

    /// Sends a frame to a link-local group in its form on the way.
    #[inline(never)]
    fn outbound_carried(
        &mut self,
        frame: &[u8],
        tag: Option<Tag>,
        transmit: &mut Transmit,
        fragments: Option<Marks>,
        to: &Sender,
        mtu: usize,
    ) {
        // Taken out, so that the rest can be borrowed.
        let Some(mut carried) = self.carried.take() else { return };
        match link_local::carry(frame, &mut carried) {
            Ok(len) => {
                let frame = carried.get_mut(..len).unwrap_or_default();
                self.protected(Received::alone(frame, Offload::default()), tag, transmit, fragments, to, mtu);
            }
            Err(_) => self.counters.too_long.count(),
        }
        self.carried = Some(carried);
    }

    /// Protects a frame that the policy passed, and sends it.
    #[inline]
    fn protected(
        &mut self,
        received: Received<'_>,
        tag: Option<Tag>,
        transmit: &mut Transmit,
        fragments: Option<Marks>,
        to: &Sender,
        mtu: usize,
    ) {
        let frame = received.frame();
        // Checked before a packet number is spent.
        if transmit.protected_len(frame.len()) > mtu + HEADER {
            if let Some(marks) = fragments {
                return self.fragmented(frame, tag, transmit, marks, to, mtu + HEADER);
            }
            self.counters.too_long.count();
            return transmit.count_too_long();
        }
        // In place, if there is space around the frame: the cipher then touches no further memory.
        let around = transmit.protected_len(frame.len()) - frame.len();
        let Received { space, place, .. } = received;
        let has_room = around <= place.start.min(space.len() - place.end);
        let sealed = if has_room {
            protect_in_place(transmit, space, place)
        } else {
            let bytes = &mut self.built[..];
            let frame = space.get(place).unwrap_or_default();
            transmit.protect(frame, bytes).map(|length| bytes.get_mut(..length).unwrap_or_default())
        };
        match sealed {
            Ok(sealed) => put_patient(&self.counters, to, self.at_once, tag, sealed),
            Err(_) => self.counters.not_protected.count(),
        }
    }

    /// Sends a frame in fragments of at most `longest` octets.
    #[inline(never)]
    fn fragmented(
        &mut self,
        frame: &[u8],
        tag: Option<Tag>,
        transmit: &mut Transmit,
        marks: Marks,
        to: &Sender,
        longest: usize,
    ) {
        let Self { built, counters, at_once, .. } = self;
        let send = |fragment: &[u8]| put_patient(counters, to, *at_once, tag, fragment);
        match transmit.protect_split(frame, longest, marks, &mut built[..], send) {
            Ok(_) => {}
            Err(ProtectError::Unsplittable) => counters.too_long.count(),
            Err(_) => counters.not_protected.count(),
        }
    }

    /// The VLAN tag in front of a frame's SecTAG.
    #[inline]
    fn tag(&self, frame: &[u8]) -> Option<Tag> {
        self.outer.as_ref().and_then(|outer| outer.of(frame))
    }

    /// Sends a frame unprotected, if it fits the port's MTU.
    #[inline]
    fn send(&self, to: &Sender, mtu: usize, frame: &[u8]) {
        if exceeds(frame, mtu) {
            return self.counters.too_long.count();
        }
        put_patient(&self.counters, to, self.at_once, None, frame);
    }
}

/// The form of a frame on the way to other gateways.
fn carry<'a>(space: Option<&'a mut [u8]>, frame: &'a [u8]) -> &'a [u8] {
    let Some(space) = space.filter(|_| is_for_carriage(frame)) else { return frame };
    match link_local::carry(frame, space) {
        Ok(len) => space.get(..len).unwrap_or_default(),
        // Longer than any protected frame.
        Err(_) => frame,
    }
}
