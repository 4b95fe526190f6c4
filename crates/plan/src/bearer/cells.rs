//! Cells of a TSCH slotframe: how long frames wait for them, and how likely they arrive in time.
//!
//! A schedule lists for each hop the slot offsets of its cells. Without one the cells of a hop may
//! lie anywhere, and the longest wait is that of adjacent cells. A frame that becomes ready at the
//! beginning of a cell has missed it. A hop begins when all frames of the message have arrived.

/// Cells of each hop, in slot offsets, in rising order.
pub(crate) struct Cells<'a> {
    pub(crate) slots: u32,
    pub(crate) hops: &'a [Vec<u32>],
}

/// Slots until the last of `frames` frames is over, with `cells` adjacent ones in a slotframe of
/// `slots`. `waits`: they become ready at the beginning of the worst slot; else at its end.
pub(crate) fn anywhere(slots: u32, cells: u32, frames: u64, waits: bool) -> f64 {
    let (slots, cells) = (u64::from(slots), u64::from(cells).max(1));
    let full = frames.saturating_sub(1) / cells;
    let rest = frames - full * cells;
    (full * slots + slots - cells + rest + u64::from(waits)) as f64
}

/// The most that [`anywhere`] exceeds a constant rate of cells, for any number of frames.
pub(crate) fn anywhere_latency(slots: u32, cells: u32, waits: bool) -> f64 {
    let share = f64::from(slots) / f64::from(cells.max(1));
    anywhere(slots, cells, 1, waits) - share
}

impl Cells<'_> {
    /// The cell after slot `after` and the `index`th behind it, as an absolute slot.
    fn after(&self, hop: usize, after: i64, index: u64) -> i64 {
        let Some(cells) = self.hops.get(hop).filter(|cells| !cells.is_empty()) else { return after };
        let slots = i64::from(self.slots);
        let (frame, offset) = (after.div_euclid(slots), after.rem_euclid(slots));
        let first = cells.partition_point(|cell| i64::from(*cell) <= offset) as u64 + index;
        let many = cells.len() as u64;
        let cell = cells.get((first % many) as usize).copied().unwrap_or_default();
        (frame + (first / many) as i64) * slots + i64::from(cell)
    }

    /// The slots after which the worst wait of a message begins: those of the first hop's cells.
    fn worst_begins(&self) -> impl Iterator<Item = i64> + '_ {
        self.hops.first().into_iter().flatten().map(|cell| i64::from(*cell))
    }

    /// The longest time from a message of `frames` frames to its arrival, in slots.
    pub(crate) fn longest(&self, frames: u64) -> f64 {
        let arrival = |begin: i64| {
            let last =
                (0..self.hops.len()).fold(begin, |slot, hop| self.after(hop, slot, frames.saturating_sub(1)));
            last + 1 - begin
        };
        self.worst_begins().map(arrival).max().unwrap_or(0) as f64
    }

    /// The longest time in which one hop sends `frames` frames, in slots.
    fn longest_at(&self, hop: usize, frames: u64) -> f64 {
        let cells = self.hops.get(hop).map(Vec::as_slice).unwrap_or_default();
        let one = |cell: &u32| self.after(hop, i64::from(*cell), frames - 1) + 1 - i64::from(*cell);
        cells.iter().map(one).max().unwrap_or(0) as f64
    }

    /// The most that a hop's cells stay behind a constant rate, in slots.
    pub(crate) fn latency_at(&self, hop: usize) -> f64 {
        let many = self.hops.get(hop).map_or(1, Vec::len) as u64;
        let share = f64::from(self.slots) / many as f64;
        let behind = (1..=many).map(|frames| self.longest_at(hop, frames) - frames as f64 * share);
        behind.fold(0.0, f64::max)
    }

    /// For the worst begin: the share of messages of `frames` frames that arrive within each number
    /// of slots, where each transmission fails with probability `loss` and is repeated in the next
    /// cell. Ends where `enough` have arrived, or after `most` slots.
    pub(crate) fn arrivals(&self, frames: usize, loss: f64, enough: f64, most: u64) -> Vec<f64> {
        let mut worst: Vec<f64> = Vec::new();
        for begin in self.worst_begins() {
            let one = self.arrivals_from(begin, frames, loss, enough, most);
            // The shorter one has enough; the longer one says less from there on.
            let both = worst.len().max(one.len());
            let at = |of: &[f64], slot: usize| of.get(slot).or(of.last()).copied().unwrap_or(1.0);
            worst = (0..both)
                .map(
                    |slot| {
                        if worst.is_empty() { at(&one, slot) } else { at(&worst, slot).min(at(&one, slot)) }
                    },
                )
                .collect();
        }
        worst
    }

    fn arrivals_from(&self, begin: i64, frames: usize, loss: f64, enough: f64, most: u64) -> Vec<f64> {
        let frames = frames.max(1);
        // The probability of each state: the hop, and its frames still to send.
        let mut left = vec![vec![0.0f64; frames + 1]; self.hops.len()];
        if let Some(first) = left.first_mut() {
            first[frames] = 1.0;
        }
        let (mut arrived, mut by) = (0.0f64, vec![0.0]);
        let slots = i64::from(self.slots);
        for slot in 1..=most as i64 {
            let offset = (begin + slot).rem_euclid(slots) as u32;
            // From the last hop, so that no frame passes two hops in a slot.
            for hop in (0..self.hops.len()).rev() {
                if self.hops[hop].binary_search(&offset).is_err() {
                    continue;
                }
                for frame in 1..=frames {
                    let moved = left[hop][frame] * (1.0 - loss);
                    left[hop][frame] -= moved;
                    match (frame, left.get_mut(hop + 1)) {
                        (1, Some(next)) => next[frames] += moved,
                        (1, None) => arrived += moved,
                        _ => left[hop][frame - 1] += moved,
                    }
                }
            }
            // The slot has to end.
            by.push(arrived);
            if arrived >= enough {
                break;
            }
        }
        // by[n]: arrived n slots after the begin's end, that is, n + 1 slots after its begin.
        by.insert(0, 0.0);
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers of a linear congruence.
    fn generator() -> impl FnMut(u64) -> u64 {
        let mut state = 5u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    fn random_cells(random: &mut impl FnMut(u64) -> u64, slots: u32, hops: usize) -> Vec<Vec<u32>> {
        let hop = |_| {
            let mut cells: Vec<u32> = (0..1 + random(4)).map(|_| random(u64::from(slots)) as u32).collect();
            cells.sort_unstable();
            cells.dedup();
            cells
        };
        (0..hops).map(hop).collect()
    }

    #[test]
    fn one_cell_waits_a_whole_slotframe() {
        let hops = [vec![3]];
        let cells = Cells { slots: 10, hops: &hops };
        assert_eq!(cells.longest(1), 11.0);
        assert_eq!(cells.longest(2), 21.0);
        assert_eq!(anywhere(10, 1, 1, true), 11.0);
    }

    #[test]
    fn order_of_the_hops_cells_counts() {
        let good = [vec![0], vec![1], vec![2]];
        let bad = [vec![2], vec![1], vec![0]];
        assert_eq!(Cells { slots: 10, hops: &good }.longest(1), 13.0);
        assert_eq!(Cells { slots: 10, hops: &bad }.longest(1), 29.0);
    }

    /// A walk slot by slot from every beginning never takes longer, and one takes as long.
    #[test]
    fn walked_schedules_reach_the_bound() {
        let mut random = generator();
        for _ in 0..2000 {
            let slots = 5 + random(30) as u32;
            let many = 1 + random(3) as usize;
            let hops = random_cells(&mut random, slots, many);
            let cells = Cells { slots, hops: &hops };
            let frames = 1 + random(4);
            let mut longest = 0;
            for begin in 0..i64::from(slots) {
                let (mut slot, mut hop, mut left) = (begin, 0, frames);
                while hop < hops.len() {
                    slot += 1;
                    if hops[hop].contains(&((slot % i64::from(slots)) as u32)) {
                        left -= 1;
                        if left == 0 {
                            (hop, left) = (hop + 1, frames);
                        }
                    }
                }
                longest = longest.max(slot + 1 - begin);
            }
            assert_eq!(cells.longest(frames), longest as f64, "{hops:?} of {slots}");
            // Cells that may lie anywhere are never sooner.
            let bound: f64 = hops
                .iter()
                .enumerate()
                .map(|(hop, cells)| anywhere(slots, cells.len() as u32, frames, hop == 0))
                .sum();
            assert!(longest as f64 <= bound, "{hops:?} of {slots}: {longest} of {bound}");
            // Any number of frames of one hop keeps the rate after the latency.
            for more in 1..20 {
                let share = f64::from(slots) / hops[0].len() as f64;
                let kept = cells.latency_at(0) + more as f64 * share;
                assert!(cells.longest_at(0, more) <= kept + 1e-9);
                let many = hops[0].len() as u32;
                let kept = anywhere_latency(slots, many, true) + more as f64 * share;
                assert!(anywhere(slots, many, more, true) <= kept + 1e-9, "{slots} {many} {more}");
            }
        }
    }

    /// The shares agree with messages that are thrown onto the schedule.
    #[test]
    fn losses_agree_with_thrown_messages() {
        let mut random = generator();
        let hops = [vec![1, 7, 8], vec![4, 9]];
        let cells = Cells { slots: 12, hops: &hops };
        let by = cells.arrivals_from(1, 2, 0.3, 0.999, 10_000);
        let thrown = 20_000;
        let mut came = vec![0u32; by.len()];
        for _ in 0..thrown {
            let (mut slot, mut hop, mut left) = (1i64, 0, 2);
            while hop < hops.len() {
                slot += 1;
                if hops[hop].contains(&((slot % 12) as u32)) && random(10) >= 3 {
                    left -= 1;
                    if left == 0 {
                        (hop, left) = (hop + 1, 2);
                    }
                }
            }
            if let Some(came) = came.get_mut(slot as usize) {
                *came += 1;
            }
        }
        let mut sum = 0;
        for (slots, (came, by)) in came.iter().zip(&by).enumerate() {
            sum += came;
            let seen = f64::from(sum) / f64::from(thrown);
            assert!((seen - by).abs() < 0.02, "{slots} slots: {seen} of {by}");
        }
        // Without losses all arrive at the bound.
        let sure = cells.arrivals(2, 0.0, 1.0, 1000);
        assert_eq!(sure.iter().position(|share| *share >= 1.0), Some(cells.longest(2) as usize));
    }
}
