//! Preparing and keeping warm: the work of a forwarding thread while no frame stands ready.
//!
//! A frame after a pause finds its code, key stream and tables in far caches. The countermeasures stand behind [`Warm`],
//! in [`crate::sys::warm`] and in `antedate_channel::macsec::warm`; the data path does not know them. The chapter
//! *Tuning* of the book has reason and gain of each.

/// Preparation and rehearsal of a data path.
pub(crate) trait Warm {
    /// The most frames before the next preparation, [`HASTE`] at most: half of the prepared packet numbers.
    fn haste(&self) -> usize {
        HASTE
    }

    /// Prepares all that there is room for, before the first frame. Returns the steps that take no longer than a frame may
    /// wait.
    fn steps(&mut self) -> u32;

    /// Does at most `steps` steps of preparation. Returns the steps done: 0 when all is prepared.
    fn prepare(&mut self, steps: u32) -> u32;

    /// Rehearses the next frame, after `looks` looks at the ports without one.
    fn rehearse(&mut self, _looks: u32) {}
}

/// Looks without a frame between two rehearsals of a direction, some 30 to 100 µs: a frame that comes meanwhile waits for the end of
/// a rehearsal, and more frequent ones gain nothing.
pub(crate) const REHEARSAL: u32 = 64;
/// The count of looks after a frame. It skips the rehearsals at the start of the count: a frame leaves all warm. After a
/// sleep the count begins at 0.
pub(crate) const JUST_SEEN: u32 = 4;
/// Looks without a frame after which a polling thread prepares, and then once between two rehearsals: the check takes 25 ns
/// of a look.
pub(crate) const LULL: u32 = 16;
/// Frames without such a lull after which it prepares all the same: half of the prepared packet numbers.
pub(crate) const HASTE: usize = antedate_channel::macsec::SLOTS / 2;
/// Parts of a preparation, with a look at the ports after each, before a polling thread offers its CPU to others.
pub(crate) const PARTS: u32 = 16;

/// Half of the packet numbers that are to be prepared, at least 1 and at most [`HASTE`].
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
