//! A port that sends frames one by one, or joins them to super-frames where the port accepts those
//! ([`crate::frames::joiner`]).

use std::io;

use crate::frames::joiner::{Joined, Joiner};
use crate::frames::offload;
use crate::frames::port::{not_sent, put};
use crate::run::counters::PathCounters;
use crate::sys::age::Bounds;
use crate::sys::interface::Interface;
use crate::sys::packet::{Received, Sender};
use crate::sys::segmenter::Segmenter;
use crate::sys::thread;

/// A port with a joiner.
#[derive(Debug)]
pub struct Delivery {
    sender: Sender,
    segmenter: Segmenter,
    joiner: Joiner,
    /// The arrival of the first held segment.
    since: u64,
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

    /// Sends a frame in order: at once, or joined to others by [`Self::flush`].
    #[inline]
    pub fn join(&mut self, counters: &PathCounters, frame: &[u8]) {
        if !self.segmenter.takes() {
            return self.put(counters, frame);
        }
        if self.joiner.is_empty() {
            self.since = thread::coarse_now();
        } else {
            if self.joiner.add(frame) {
                return;
            }
            self.flush(counters);
            self.since = thread::coarse_now();
        }
        if !self.joiner.add(frame) {
            self.put(counters, frame);
        }
    }

    /// Sends the held segments.
    #[inline]
    pub fn flush(&mut self, counters: &PathCounters) {
        let Some(Joined { frame, count, offload, headers }) = self.joiner.take() else { return };
        // The process may have stood still meanwhile.
        if self.max_age.is_stale(thread::coarse_now() - self.since) {
            return counters.stale.add(count as u64);
        }
        if count == 1 {
            return put(counters, &self.sender, frame);
        }
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
                    put(counters, &self.sender, frame.frame())
                });
            }
            Err(error) => (0..count).for_each(|_| not_sent(counters, &error)),
        }
    }
}
