//! The consumer: a thread that sleeps on the socket, so pacing never delays a reception.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use antedate_wire::{EtherType, EthernetAddress};

use super::acyclic::Acyclic;
use super::cyclic::{self, Expected, Incoming};
use super::meter::{Refusal, Sample};
use super::process_data::ProcessData;
use super::shared::{Samples, Shared};
use super::watchdog::{Event, Watchdog};
use crate::sys::clock::monotonic_ns;
use crate::sys::packet::PacketSocket;

/// Interval at which the stop flag is read without traffic.
const LONGEST_WAIT_NS: u64 = 20_000_000;

/// The peer, from discovery (controller) or its first frame (device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its address.
    pub(super) address: EthernetAddress,
    /// Run number of the controller.
    pub(super) run: u16,
}

pub(super) struct Consumer<'a> {
    pub(super) socket: &'a PacketSocket,
    /// The peer is filled in when known.
    pub(super) expected: Expected,
    /// Expected run; a device takes it from the controller's first frame.
    pub(super) run: Option<u16>,
    pub(super) acyclic: Acyclic,
    pub(super) watchdog: Watchdog,
    pub(super) shared: &'a Shared,
    pub(super) samples: Samples<'a>,
    /// Receives the peer once, when it is known.
    pub(super) found: Sender<Peer>,
}

impl Consumer<'_> {
    /// Receives until `done` returns true or the socket fails.
    pub(super) fn consume(mut self, done: impl Fn() -> bool) -> std::io::Result<()> {
        let mut buffer = vec![0; 2048];
        while !done() {
            let now = monotonic_ns();
            let wait = self.watchdog.deadline_ns().map_or(LONGEST_WAIT_NS, |at| at.saturating_sub(now));
            let there = self.socket.wait(wait.min(LONGEST_WAIT_NS))?;
            let begun = monotonic_ns();
            let received = if there { self.socket.receive(&mut buffer, false)? } else { None };
            let now = monotonic_ns();
            match received.map(|len| &buffer[..len]) {
                Some(frame) => self.frame(now, now - begun, frame),
                None => {
                    let event = self.watchdog.expire(now);
                    self.report(now, event);
                }
            }
            self.acyclic.poll(now);
            self.acyclic_frames();
        }
        self.acyclic.release();
        self.acyclic_frames();
        Ok(())
    }

    /// Sends what the connection has to send, and notes its state.
    fn acyclic_frames(&mut self) {
        while let Some(frame) = self.acyclic.take() {
            if self.socket.send(&frame).is_err() {
                self.samples.push(Sample::SendFailed);
            }
        }
        self.shared.set_connection(self.acyclic.counts());
        if let Some(address) = self.acyclic.found()
            && self.expected.peer.replace(address).is_none()
        {
            // The main thread may have ended.
            let _ = self.found.send(Peer { address, run: self.run.unwrap_or_default() });
        }
    }

    fn frame(&mut self, now: u64, took_ns: u64, frame: &[u8]) {
        match cyclic::read(frame, &self.expected) {
            Incoming::Data(data) => match self.run {
                Some(run) if run != data.run => self.samples.push(Sample::Refused(Refusal::Foreign)),
                Some(_) => self.data(now, took_ns, data),
                None => {
                    let Some(address) =
                        frame.get(6..12).and_then(|octets| EthernetAddress::from_bytes(octets).ok())
                    else {
                        return;
                    };
                    if !self.acyclic.accepts(address) {
                        return self.samples.push(Sample::Refused(Refusal::Foreign));
                    }
                    self.run = Some(data.run);
                    self.expected.peer = Some(address);
                    // The main thread may have ended.
                    let _ = self.found.send(Peer { address, run: data.run });
                    self.data(now, took_ns, data);
                }
            },
            Incoming::Acyclic(kind) => {
                if !self.acyclic.hear(now, frame) {
                    self.samples.push(Sample::Refused(match kind {
                        EtherType::Profinet => Refusal::Damaged,
                        other => Refusal::Unexpected(other.number()),
                    }));
                }
            }
            Incoming::Announcement => {
                self.shared.announcements.fetch_add(1, Ordering::Relaxed);
            }
            Incoming::Refused(why) => self.samples.push(Sample::Refused(why)),
        }
    }

    fn data(&mut self, now: u64, took_ns: u64, data: ProcessData) {
        self.shared.received(data.sent_ns, now);
        self.samples.push(Sample::Frame { at_ns: now, took_ns, data });
        let (error, recovered) = self.watchdog.feed(now);
        self.shared.consuming.store(true, Ordering::Relaxed);
        self.report(now, error);
        self.report(now, recovered);
        if data.stopping {
            self.watchdog.stop();
            self.shared.peer_stopped.store(true, Ordering::Relaxed);
        }
    }

    fn report(&self, now: u64, event: Option<Event>) {
        if let Some(event) = event {
            self.shared.consuming.store(matches!(event, Event::Recovered { .. }), Ordering::Relaxed);
            self.samples.push(Sample::Watchdog { at_ns: now, event });
        }
    }
}
