//! Cyclic data of a foreign controller: its output comes back as the input, so that it can see its
//! own data on both ways.

use antedate_wire::profinet::{self, CyclicFrame, CyclicRepr, DataStatus, Ioxs};
use serde::{Deserialize, Serialize};

use super::connection::{Io, Part};

/// Counters of the exchange. Field names are stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Frames of the controller.
    pub outputs: u64,
    /// Of these, with valid data of a running controller.
    pub outputs_valid: u64,
    /// Frames missing before one that came, by the cycle counter.
    pub outputs_missing: u64,
    /// Frames of a wrong length.
    pub damaged: u64,
    /// Frames sent to the controller.
    pub inputs: u64,
    /// Cycles in which this station was too late to send.
    pub inputs_skipped: u64,
    /// The longest time between two frames of the controller in microseconds.
    pub longest_gap_us: u64,
}

/// The exchange of one connection.
#[derive(Clone, Debug)]
pub struct Exchange {
    io: Io,
    hold_ns: u64,
    last_ns: Option<u64>,
    last_counter: u16,
    due_ns: u64,
    /// The newest data of slot 1, and whether it is valid.
    data: Vec<u8>,
    valid: bool,
}

fn cycle_ns(units: u32) -> u64 {
    u64::from(units) * profinet::CYCLE_UNIT_NS
}

impl Exchange {
    /// The exchange of a connection made now.
    #[must_use]
    pub fn new(io: &Io, now_ns: u64) -> Self {
        let hold_ns = cycle_ns(io.output.update_units()) * u64::from(io.output.data_hold);
        Self {
            io: io.clone(),
            hold_ns,
            last_ns: None,
            last_counter: 0,
            due_ns: now_ns,
            data: Vec::new(),
            valid: false,
        }
    }

    /// Takes the payload of a cyclic frame of the controller.
    pub fn output(&mut self, now_ns: u64, payload: &[u8], counts: &mut Counts) {
        let Ok(frame) = CyclicFrame::new_checked(payload) else { return counts.damaged += 1 };
        if frame.frame_id() != self.io.output.frame_id {
            return;
        }
        if frame.c_sdu().len() != usize::from(self.io.output.data_len) {
            return counts.damaged += 1;
        }
        counts.outputs += 1;
        let units = self.io.output.update_units();
        if let Some(last) = self.last_ns {
            let gap = now_ns.saturating_sub(last);
            counts.longest_gap_us = counts.longest_gap_us.max(gap / 1_000);
            let ahead = u32::from(frame.cycle_counter().wrapping_sub(self.last_counter));
            counts.outputs_missing += u64::from((ahead / units).saturating_sub(1));
        }
        self.last_ns = Some(now_ns);
        self.last_counter = frame.cycle_counter();
        let status = frame.data_status();
        let own = self.io.output_parts.iter().find(|part| is_data(part));
        let part = own.filter(|part| frame.c_sdu()[part.status_at()] == Ioxs::GOOD.0);
        self.valid = status.is_valid() && status.is_run() && part.is_some();
        counts.outputs_valid += u64::from(self.valid);
        if let Some(part) = part.filter(|_| self.valid) {
            self.data.clear();
            self.data.extend_from_slice(&frame.c_sdu()[usize::from(part.object.offset)..part.status_at()]);
        }
    }

    /// Whether the controller's data came too late: the connection ends.
    #[must_use]
    pub fn is_expired(&self, now_ns: u64) -> bool {
        self.last_ns.is_some_and(|last| now_ns.saturating_sub(last) > self.hold_ns)
    }

    /// When the next frame is due.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The payload of the frame that is due. Its data is good once both ends operate.
    pub fn input(&mut self, now_ns: u64, operating: bool, counts: &mut Counts) -> Option<Vec<u8>> {
        if self.due_ns > now_ns {
            return None;
        }
        let units = self.io.input.update_units();
        let cycle_ns = cycle_ns(units);
        // Past cycles are skipped: no burst.
        let skipped = (now_ns - self.due_ns) / cycle_ns;
        counts.inputs_skipped += skipped;
        counts.inputs += 1;
        self.due_ns += (skipped + 1) * cycle_ns;
        let repr = CyclicRepr {
            frame_id: self.io.input.frame_id,
            c_sdu_len: usize::from(self.io.input.data_len),
            cycle_counter: profinet::cycle_counter(now_ns, units as u16),
            data_status: DataStatus::OPERATIONAL,
            transfer_status: 0,
        };
        let mut payload = vec![0; repr.buffer_len()];
        let mut frame = repr.emit(&mut payload).ok()?;
        let c_sdu = frame.c_sdu_mut();
        let good = |is_good: bool| if is_good { Ioxs::GOOD.0 } else { Ioxs::BAD.0 };
        for part in &self.io.input_parts {
            c_sdu[part.status_at()] = good(if part.object.consumer { self.valid } else { operating });
            if is_data(part) {
                let data = &mut c_sdu[usize::from(part.object.offset)..part.status_at()];
                data.iter_mut().zip(&self.data).for_each(|(octet, &value)| *octet = value);
            }
        }
        Some(payload)
    }
}

/// Whether the part is the process data of slot 1.
fn is_data(part: &Part) -> bool {
    !part.object.consumer && (part.object.slot, part.object.subslot) == (1, 1)
}
