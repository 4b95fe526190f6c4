//! A port that sends frames one by one, or joins them to super-frames where the port accepts those
//! ([`crate::frames::joiner`]).

use std::io;

use crate::frames::joiner::{Joined, Joiner};
use crate::frames::offload;
use crate::frames::port::{not_sent, put, put_patient, settle};
use crate::run::counters::PathCounters;
use crate::sys::age::Bounds;
use crate::sys::interface::Interface;
use crate::sys::packet::Received;
use crate::sys::segmenter::Segmenter;
use crate::sys::sender::Sender;
use crate::sys::thread;
use crate::sys::xdp::Xdp;

/// A port with a joiner.
#[derive(Debug)]
pub struct Delivery {
    sender: Sender,
    segmenter: Segmenter,
    joiner: Joiner,
    /// The arrival of the first held segment.
    since: u64,
    /// Whether super-frames and single frames stay in order.
    joins: bool,
    max_age: Bounds,
}

impl Delivery {
    /// Opens the interface. With `bypass` frames skip its queueing discipline. Segments that were
    /// held past their bound are dropped.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`).
    pub fn open(interface: &Interface, bypass: bool, max_age: Bounds) -> io::Result<Self> {
        Ok(Self {
            sender: Sender::open(interface, bypass)?,
            segmenter: Segmenter::open(interface, bypass)?,
            joiner: Joiner::new(),
            since: 0,
            joins: true,
            max_age,
        })
    }

    /// Runs half of a send, see [`Sender::rehearse`].
    #[inline]
    pub fn rehearse(&mut self) {
        self.sender.rehearse();
    }

    /// Drops segments that were held for longer from now on.
    pub const fn bound(&mut self, max_age: Bounds) {
        self.max_age = max_age;
    }

    /// Sends single frames by this socket too. Unless both stay `in_order`, segments are no longer
    /// joined to super-frames, which a packet socket sends.
    pub fn attach(&mut self, xdp: Xdp, in_order: bool) {
        self.sender.attach(xdp, in_order);
        self.joins = in_order;
    }

    /// The sender of single frames.
    #[must_use]
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Sends a frame at once, before held segments.
    #[inline]
    pub fn put(&self, counters: &PathCounters, frame: &[u8]) {
        put(counters, &self.sender, frame);
    }

    /// Sends a frame with the next ones, or by [`Self::flush`], where the port sends several at
    /// once.
    #[inline]
    pub fn put_patient(&self, counters: &PathCounters, frame: &[u8]) {
        put_patient(counters, &self.sender, false, None, frame);
    }

    /// Sends a frame in order: at once, or with others by [`Self::flush`].
    #[inline]
    pub fn join(&mut self, counters: &PathCounters, frame: &[u8]) {
        if !(self.joins && self.segmenter.takes()) {
            return self.put_patient(counters, frame);
        }
        if self.joiner.is_empty() {
            self.since = thread::coarse_now();
        } else {
            if self.joiner.add(frame) {
                return;
            }
            self.flush_joined(counters);
            self.since = thread::coarse_now();
        }
        if !self.joiner.add(frame) {
            self.put_patient(counters, frame);
        }
    }

    /// Sends all that is held. To be called before the thread waits.
    #[inline]
    pub fn flush(&mut self, counters: &PathCounters) {
        self.flush_joined(counters);
        settle(counters, &self.sender);
    }

    /// Sends the held segments.
    #[inline]
    fn flush_joined(&mut self, counters: &PathCounters) {
        let Some(Joined { frame, count, offload, headers }) = self.joiner.take() else { return };
        // The process may have stood still meanwhile.
        if self.max_age.is_stale(thread::coarse_now() - self.since) {
            return counters.stale.add(count as u64);
        }
        if count == 1 {
            return put_patient(counters, &self.sender, false, None, frame);
        }
        self.sender.kick();
        match self.segmenter.send([&*frame].into_iter(), offload, headers) {
            Ok(true) => {
                counters.joined.add(count as u64);
                counters.sent.add(count as u64);
                counters.octets_sent.add((frame.len() + (count - 1) * headers) as u64);
            }
            Ok(false) => {
                let mut scratch = offload::scratch(headers, offload);
                let received = Received::alone(frame, offload);
                let _ = offload::finish(received, &mut scratch, |frame| {
                    put_patient(counters, &self.sender, false, None, frame.frame())
                });
            }
            Err(error) => (0..count).for_each(|_| not_sent(counters, &error)),
        }
    }
}
