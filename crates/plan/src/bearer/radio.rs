//! Frames and cells of a packet on TSCH.

use super::cells::anywhere_latency;
use super::{Cells, Journey, Tsch, anywhere};

/// Bytes of payload in a TSCH frame with ENC-MIC-32.
const PAYLOAD: usize = 65;
/// Air time of a frame and its acknowledgment (table III of sciancalepore2016).
const AIR_MS: f64 = crate::timeslot::TS_MAX_TX + crate::timeslot::TS_MAX_ACK;
/// Slots after which the search for a share of arrivals ends.
const MOST_SLOTS: u64 = 1_000_000;

impl Tsch {
    fn cells(&self) -> Option<Cells<'_>> {
        (!self.schedule.is_empty()).then(|| Cells { slots: self.slots, hops: &self.schedule })
    }

    fn frames(bytes: usize) -> usize {
        bytes.div_ceil(PAYLOAD).max(1)
    }

    pub(super) fn hops(&self) -> usize {
        if self.schedule.is_empty() { self.hops as usize } else { self.schedule.len() }
    }

    fn cells_of(&self, hop: usize) -> f64 {
        self.schedule.get(hop).map_or(f64::from(self.cells), |cells| cells.len() as f64)
    }

    pub(crate) fn fault(&self) -> Option<&'static str> {
        let fits = u64::from(self.cells) * u64::from(self.hops) <= u64::from(self.slots);
        let listed = |hop: &Vec<u32>| {
            !hop.is_empty()
                && hop.windows(2).all(|pair| pair[0] < pair[1])
                && hop.last().is_some_and(|last| *last < self.slots)
        };
        if self.slots == 0 || self.cells == 0 || self.hops == 0 || !fits {
            Some("tsch: all hops' cells must fit the slotframe, and there must be one")
        } else if self.slots > 65_536 || self.schedule.len() > 64 {
            Some("tsch: a slotframe has at most 65536 slots, and a schedule 64 hops")
        } else if !self.slot_ms.is_finite() || self.slot_ms <= 0.0 {
            Some("tsch: slot_ms must be more than 0")
        } else if !self.schedule.iter().all(listed) {
            Some("tsch: schedule lists for each hop its cells' slot offsets, rising, below slots")
        } else if !(0.0..0.95).contains(&self.loss) {
            Some("tsch: loss must be between 0 and 0.95")
        } else if self.loss > 0.0 && self.schedule.is_empty() {
            Some("tsch: loss needs the schedule")
        } else if !(0.0..1.0).contains(&self.quantile) {
            Some("tsch: quantile must be between 0 and 1, and below 1")
        } else {
            None
        }
    }

    /// Slots from a message to its arrival that the stated share keeps.
    pub(crate) fn slots_of(&self, frames: usize) -> f64 {
        match self.cells() {
            Some(cells) if self.loss > 0.0 => {
                let by = cells.arrivals(frames, self.loss, self.quantile, MOST_SLOTS);
                by.iter().position(|share| *share >= self.quantile).map_or(f64::INFINITY, |at| at as f64)
            }
            Some(cells) => cells.longest(frames as u64),
            None => {
                let further = f64::from(self.hops) - 1.0;
                anywhere(self.slots, self.cells, frames as u64, true)
                    + further * anywhere(self.slots, self.cells, frames as u64, false)
            }
        }
    }

    pub(super) fn journey(&self, bytes: usize) -> Journey {
        let frames = Self::frames(bytes);
        let sending = frames as f64;
        let sent = sending * self.hops() as f64 / (1.0 - self.loss);
        Journey {
            transmission_ms: self.slot_ms * sending,
            propagation_ms: 0.0,
            forwarding_ms: self.slot_ms * (self.slots_of(frames) - sending).max(0.0),
            air_ms: 2.0 * sent * AIR_MS,
        }
    }

    /// The share of messages that arrive within a time, for the worst begin; none without losses.
    pub(super) fn arriving(&self, bytes: usize, within_ms: f64) -> Option<f64> {
        let cells = self.cells().filter(|_| self.loss > 0.0)?;
        let slots = (within_ms / self.slot_ms).floor().clamp(0.0, MOST_SLOTS as f64);
        let by = cells.arrivals(Self::frames(bytes), self.loss, 1.0, slots as u64);
        by.get(slots as usize).or(by.last()).copied()
    }

    /// Time for which a packet occupies a hop, in ms, at the mean rate of its cells.
    pub(super) fn occupied_ms(&self, bytes: usize, hop: usize) -> f64 {
        let share = f64::from(self.slots) / self.cells_of(hop);
        Self::frames(bytes) as f64 * share * self.slot_ms / (1.0 - self.loss)
    }

    /// The time by which a hop's cells may stay behind that rate, in ms.
    pub(super) fn behind_ms(&self, hop: usize) -> f64 {
        let slots = match self.cells() {
            Some(cells) => cells.latency_at(hop),
            None => anywhere_latency(self.slots, self.cells, true),
        };
        self.slot_ms * slots
    }

    /// Networks with more cells for each hop.
    pub(super) fn better(&self) -> Vec<Self> {
        // Where further cells of a schedule lie is the network's to say.
        if !self.schedule.is_empty() {
            return Vec::new();
        }
        let most = self.slots / self.hops.max(1);
        let more = |cells: &u32| cells.checked_mul(2).map(|cells| cells.min(most));
        let mut better = Vec::new();
        let mut cells = self.cells;
        while let Some(next) = more(&cells).filter(|next| *next > cells) {
            cells = next;
            better.push(Self { cells, ..self.clone() });
        }
        better
    }
}
