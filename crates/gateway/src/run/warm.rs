//! Preparation and rehearsal: the work of a forwarding thread while no frame is ready.
//!
//! After a pause a frame finds its code, key stream and tables in distant caches. The
//! countermeasures are in [`Warm`], [`crate::sys::warm`] and `antedate_channel::macsec::warm`; the
//! data path does not depend on them. The chapter *Tuning* of the book gives reason and gain of
//! each.

/// Preparation and rehearsal of a data path.
pub(crate) trait Warm {
    /// The most frames before the next preparation, [`HASTE`] at most: half of the prepared packet numbers.
    fn haste(&self) -> usize {
        HASTE
    }

    /// Prepares as much as memory allows, before the first frame. Returns the number of steps that
    /// delay a frame no longer than permitted.
    fn steps(&mut self) -> u32;

    /// Does at most `steps` steps of preparation. Returns the steps done: 0 when all is prepared.
    fn prepare(&mut self, steps: u32) -> u32;

    /// Rehearses the next frame, after `looks` polls of the ports without one.
    fn rehearse(&mut self, _looks: u32) {}
}

/// Polls without a frame between two rehearsals of a direction, some 30 to 100 µs. A frame waits
/// for the end of a rehearsal, and more frequent ones gain nothing.
pub(crate) const REHEARSAL: u32 = 64;
/// The count of polls after a frame. It skips the rehearsals at the start of the count, as a frame
/// leaves the caches warm. After a sleep the count begins at 0.
pub(crate) const JUST_SEEN: u32 = 4;
/// Polls without a frame after which a polling thread prepares, and then once between two
/// rehearsals: the check takes 25 ns of a poll.
pub(crate) const LULL: u32 = 16;
/// Frames without such a lull after which it prepares anyway: half of the prepared packet numbers.
pub(crate) const HASTE: usize = antedate_channel::macsec::SLOTS / 2;
/// Parts of a preparation, with a poll of the ports after each, before a polling thread yields.
pub(crate) const PARTS: u32 = 16;

/// Half of the packet numbers to prepare, at least 1 and at most [`HASTE`].
pub(crate) fn haste_of(prepare: usize) -> usize {
    match prepare {
        // Without preparation there is nothing to refill.
        0 => HASTE,
        prepare => (prepare / 2).clamp(1, HASTE),
    }
}

#[cfg(test)]
mod tests {
    use antedate_channel::macsec::SLOTS;

    use super::*;

    #[test]
    fn preparation_never_runs_out() {
        assert_eq!([0, 1, 2, 3, 8].map(haste_of), [HASTE, 1, 1, 1, 4]);
        for prepare in 1..=2 * SLOTS {
            assert!((1..=prepare.min(SLOTS)).contains(&haste_of(prepare)), "{prepare}");
        }
    }
}
