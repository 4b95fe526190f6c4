//! The flows of one direction, in a fixed number of places.
//!
//! A new flow waits in the nursery until some similar intervals have shown its cycle, so that frames
//! which come once take no place. A flow that goes on never loses its place. When all are taken, a
//! new one gets the place of the silent flow with the fewest frames: whoever wants to displace a
//! flow that stopped has to send as long as that did.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use super::WATCHDOG;
use super::beat::Beat;
use super::identity::Identity;
use crate::config::policy::Class;
use crate::run::counters::Counter;
use crate::sys::thread;

/// Flows of one direction.
pub const PLACES: usize = 128;
/// Entries of the index, a power of two of at least twice the places.
const INDEX: usize = 256;
/// Flows whose cycle is not known yet.
const NURSERY: usize = 64;
/// Similar intervals in a row that make a cycle.
const STEADY: u64 = 4;
/// Valid cycles: 50 µs to a minute.
const CYCLES: std::ops::RangeInclusive<u64> = 50_000..=60_000_000_000;

/// A flow in the nursery.
#[derive(Debug, Default)]
struct New {
    identity: [Counter; 2],
    last: Counter,
    interval: Counter,
    steadiness: Counter,
}

/// The flows of one direction. One thread calls [`Table::hear`].
pub struct Table {
    pub(super) places: Box<[Beat]>,
    /// For each hash: a place plus one, or 0.
    index: Box<[AtomicU8; INDEX]>,
    nursery: Box<[New]>,
    /// Cycles without a frame that a consumer tolerates. 0: flows are not watched.
    watchdog: Counter,
    /// How often a flow with a cycle found no place.
    pub(super) no_room: Counter,
}

impl Default for Table {
    fn default() -> Self {
        let watchdog = Counter::new();
        watchdog.set(WATCHDOG);
        Self {
            places: (0..PLACES).map(|_| Beat::default()).collect(),
            index: Box::new([const { AtomicU8::new(0) }; INDEX]),
            nursery: (0..NURSERY).map(|_| New::default()).collect(),
            watchdog,
            no_room: Counter::new(),
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("watchdog", &self.watchdog).finish_non_exhaustive()
    }
}

impl Table {
    /// The flows of several threads, for readers. Of a flow that moved from one to another, the
    /// newer place. At most [`PLACES`], of which the others count as without room.
    #[must_use]
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let whole = Self::default();
        let mut beats: Vec<&Beat> = Vec::new();
        for part in parts {
            whole.watch(part.watchdog());
            whole.no_room.add(part.no_room.get());
            beats.extend(part.places.iter().filter(|beat| beat.identity().0[1] != 0));
        }
        beats.sort_by_key(|beat| (beat.identity().0, std::cmp::Reverse(beat.last.get())));
        beats.dedup_by_key(|beat| beat.identity().0);
        whole.places.iter().zip(&beats).for_each(|(place, beat)| place.show(beat));
        whole.no_room.add(beats.len().saturating_sub(PLACES) as u64);
        whole
    }

    /// Sets the cycles without a frame that a consumer tolerates. 0: flows are not watched.
    pub fn watch(&self, cycles: u64) {
        self.watchdog.set(cycles);
    }

    /// See [`Self::watch`].
    #[must_use]
    pub fn watchdog(&self) -> u64 {
        self.watchdog.get()
    }

    /// Counts a frame that the policy passed. `now` is its time, or 0 if nobody has read the clock.
    #[inline]
    pub fn hear(&self, now: u64, class: Class, frame: &[u8]) {
        let watchdog = self.watchdog.get();
        if watchdog == 0 {
            return;
        }
        let Some(identity) = Identity::of(class, frame) else { return };
        let now = if now == 0 { thread::now() } else { now };
        match self.find(identity) {
            Some(beat) => {
                let end = frame.last_chunk().copied().map_or(0, u32::from_be_bytes);
                beat.hear(now, end, watchdog);
            }
            None => self.welcome(now, identity, watchdog),
        }
    }

    #[inline]
    fn find(&self, identity: Identity) -> Option<&Beat> {
        let mut at = identity.hash() >> 56;
        loop {
            let place = self.index.get(at as usize)?.load(Ordering::Relaxed);
            let beat = self.places.get(usize::from(place.checked_sub(1)?))?;
            if beat.identity() == identity {
                return Some(beat);
            }
            // The index is at most half full, so that this ends.
            at = (at + 1) % INDEX as u64;
        }
    }

    /// Learns the cycle of a flow without a place.
    #[cold]
    #[inline(never)]
    fn welcome(&self, now: u64, identity: Identity, watchdog: u64) {
        let Some(new) = self.nursery.get((identity.hash() >> 48) as usize % NURSERY) else { return };
        let known = Identity([new.identity[0].get(), new.identity[1].get()]);
        let since = now.saturating_sub(new.last.get());
        if known != identity {
            // Once it has two equal intervals it stays while it goes on.
            if new.steadiness.get() > 0 && since <= new.interval.get().saturating_mul(watchdog) {
                return;
            }
            new.identity[0].set(identity.0[0]);
            new.identity[1].set(identity.0[1]);
            new.interval.set(0);
        }
        new.last.set(now);
        if known != identity || !CYCLES.contains(&since) {
            return new.steadiness.set(0);
        }
        let mean = new.interval.get();
        // More tolerant than a known cycle: a late frame is followed by an early one.
        if since.abs_diff(mean) > mean / 2 {
            new.interval.set(since);
            return new.steadiness.set(0);
        }
        new.interval.set(mean - mean / 4 + since / 4);
        new.steadiness.count();
        if new.steadiness.get() >= STEADY {
            new.steadiness.set(0);
            match self.place(now, watchdog) {
                Some(place) => self.settle(place, now, identity, new.interval.get()),
                None => self.no_room.count(),
            }
        }
    }

    /// A free place, or that of the silent flow with the fewest frames.
    fn place(&self, now: u64, watchdog: u64) -> Option<usize> {
        let silent =
            |beat: &Beat| now.saturating_sub(beat.last.get()) > beat.cycle.get().saturating_mul(watchdog);
        let all = self.places.iter().enumerate().filter(|(_, beat)| silent(beat));
        all.min_by_key(|(_, beat)| beat.frames.get()).map(|(place, _)| place)
    }

    /// Gives a place to a flow, and makes the index again.
    fn settle(&self, place: usize, now: u64, identity: Identity, cycle: u64) {
        if let Some(beat) = self.places.get(place) {
            beat.begin(identity, now, cycle);
        }
        self.index.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
        for (number, beat) in (1..).zip(&self.places) {
            let identity = beat.identity();
            if identity.0[1] == 0 {
                continue;
            }
            let first = (identity.hash() >> 56) as usize;
            let free = (0..INDEX).filter_map(|step| self.index.get((first + step) % INDEX));
            if let Some(entry) = free.into_iter().find(|entry| entry.load(Ordering::Relaxed) == 0) {
                entry.store(number, Ordering::Relaxed);
            }
        }
    }
}
