//! Energy of a slot (figures 7 and 8 of sciancalepore2016), from the datasheets' currents
//! ([`crate::platform`]).
//!
//! A node sends for TsMaxTx and receives for TsMaxAck, or the reverse, and its CPU works for the
//! rest of the slot. The paper estimates its figures in the same way and prints only the largest
//! savings of its engines; this model reproduces them to a few percent ([`slot`]'s tests).

use serde::Serialize;

use crate::platform::Platform;
use crate::timeslot::{TS_MAX_ACK, TS_MAX_TX};

/// Milliseconds of a day.
pub(crate) const DAY_MS: f64 = 86_400_000.0;

/// Energy at both ends of a cell, in microjoules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Energy {
    /// the sender of the frame
    pub sender: f64,
    /// the receiver of the frame
    pub receiver: f64,
}

impl Energy {
    /// The sum of both ends.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sender + self.receiver
    }
}

/// The energy of a full slot of `duration` milliseconds. `before` is the CPU time of sender and
/// receiver ahead of the slot, in milliseconds.
#[must_use]
pub fn slot(platform: &Platform, duration: f64, before: [f64; 2]) -> Energy {
    let Platform { volts, tx_ma, rx_ma, cpu_ma, radio_idle_ma, wait_ma, .. } = *platform;
    let air = TS_MAX_TX + TS_MAX_ACK;
    let rest = (duration - air).max(0.0) * (cpu_ma + radio_idle_ma) + air * wait_ma;
    // Milliamperes, milliseconds and volts give microjoules.
    let one = |tx: f64, rx: f64, before: f64| volts * (tx_ma * tx + rx_ma * rx + rest + cpu_ma * before);
    Energy { sender: one(TS_MAX_TX, TS_MAX_ACK, before[0]), receiver: one(TS_MAX_ACK, TS_MAX_TX, before[1]) }
}

/// The energy of listening in an idle slot for TsRxWait (2.2 ms, the standard's default), in
/// microjoules.
#[must_use]
pub fn idle_listening(platform: &Platform) -> f64 {
    const TS_RX_WAIT: f64 = 2.2;
    let handling = platform.tx_offset * (platform.cpu_ma + platform.radio_idle_ma);
    platform.volts * (TS_RX_WAIT * (platform.listen_ma + platform.wait_ma) + handling)
}

/// The energy of sleeping for some milliseconds, in microjoules.
#[must_use]
pub fn asleep(platform: &Platform, milliseconds: f64) -> f64 {
    platform.volts * platform.sleep_ma * milliseconds
}

/// The saving of `less` against `more`, in percent.
#[must_use]
pub fn saving(more: f64, less: f64) -> f64 {
    if more > 0.0 { 100.0 * (more - less) / more } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{CC2538, TELOSB};

    /// Savings of hybrid and hardware in percent, from the slots of figures 5 and 6 at ENC-MIC-128
    /// (section 5.4).
    fn savings(platform: &Platform, slots: [f64; 3]) -> [f64; 2] {
        let [software, hybrid, hardware] = slots.map(|slot_ms| slot(platform, slot_ms, [0.0; 2]).sender);
        [saving(software, hybrid), saving(software, hardware)]
    }

    fn near(found: [f64; 2], printed: [f64; 2], percent: f64) {
        for (found, printed) in found.into_iter().zip(printed) {
            assert!((found - printed).abs() <= percent, "{found:.1} and not {printed}");
        }
    }

    #[test]
    fn the_papers_slots_save_as_printed() {
        near(savings(&CC2538, [33.66, 12.27, 9.34]), [58.0, 66.0], 3.0);
        // With the CPU current of the mote's own datasheet, which names no clock.
        let mote = Platform { cpu_ma: 1.8, wait_ma: 0.0, ..TELOSB };
        near(savings(&mote, [94.49, 55.51, 27.65]), [27.0, 47.0], 1.0);
    }

    #[test]
    fn shorter_slot_saves_and_preparation_costs() {
        let [long, short] = [20.0, 15.0].map(|slot_ms| slot(&TELOSB, slot_ms, [0.0; 2]));
        assert!(short.sender < long.sender && short.receiver < long.receiver);
        let before = slot(&TELOSB, 15.0, [5.0, 0.0]);
        assert!((before.sender - short.sender - 3.0 * 4.0 * 5.0).abs() < 1e-9);
        assert!(idle_listening(&TELOSB) < short.receiver && asleep(&TELOSB, 1.0) < 1.0);
    }
}
