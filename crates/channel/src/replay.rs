//! The replay window: which packet numbers may still come.
//!
//! A number is checked before the packet is authenticated, which is cheap, and marked only afterwards: a forger
//! who could mark numbers could shut out the genuine packets.
//!
//! The bounds are those of IEEE 802.1AE-2018 clause 10.6.5: with `next` one above the highest number received and a
//! window of `w`, what is below `next - w` is late. That standard lets a number *within* the window come any
//! number of times; here it comes once. A sender never gives a number twice, so this refuses nothing genuine but
//! copies that the network made.

/// The widest window.
pub const MAX_WINDOW: u32 = 1024;

const WORDS: usize = MAX_WINDOW as usize / 64;

/// Why a number is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// below the lowest acceptable number
    Late,
    /// received before
    Duplicate,
}

/// A window over packet numbers of 32 or 64 bits, in constant memory. The numbers lie in front of the marks, near what its owner keeps there.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct ReplayWindow {
    /// One above the highest number marked.
    next: u64,
    /// No number below this one is acceptable, whatever the window.
    floor: u64,
    window: u64,
    /// Bit `n % 1024` tells whether `n` was marked, for the 1024 numbers below `next`.
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// A window that has seen nothing and accepts from `lowest` on. `window` is cut to [`MAX_WINDOW`].
    pub const fn new(lowest: u64, window: u32) -> Self {
        let window = if window > MAX_WINDOW { MAX_WINDOW } else { window };
        Self { next: lowest, floor: lowest, window: window as u64, seen: [0; WORDS] }
    }

    /// One above the highest number marked: what is expected next.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The lowest number that is not late.
    #[inline]
    pub const fn lowest(&self) -> u64 {
        let lowest = self.next.saturating_sub(self.window);
        if lowest > self.floor { lowest } else { self.floor }
    }

    /// May `number` still come? Changes nothing. The number 2^64-1, which has no successor, may not.
    #[inline]
    pub const fn check(&self, number: u64) -> Result<(), Refusal> {
        if number >= self.next && number != u64::MAX {
            return Ok(());
        }
        if number < self.lowest() || number == u64::MAX {
            return Err(Refusal::Late);
        }
        let (word, bit) = Self::place(number);
        if self.seen[word] & bit == 0 { Ok(()) } else { Err(Refusal::Duplicate) }
    }

    /// Marks an authenticated packet's number, which [`check`](Self::check) has let pass.
    #[inline(always)]
    pub fn mark(&mut self, number: u64) {
        if number == self.next && number != u64::MAX {
            let (word, bit) = Self::place(number);
            self.seen[word] |= bit;
            self.next = number + 1;
        } else {
            self.mark_anew(number);
        }
    }

    /// As [`mark`](Self::mark), for the number that is [`next`](Self::next).
    #[inline(always)]
    pub fn mark_next(&mut self) {
        self.mark(self.next);
    }

    /// As [`mark`](Self::mark), wherever the number lies.
    #[inline(never)]
    fn mark_anew(&mut self, number: u64) {
        let Some(after) = number.checked_add(1) else { return };
        if number >= self.next {
            self.forget(self.next, after);
            self.next = after;
        }
        if self.next - number <= u64::from(MAX_WINDOW) {
            let (word, bit) = Self::place(number);
            self.seen[word] |= bit;
        }
    }

    /// Accepts nothing below `lowest` any more. A lower value than before changes nothing.
    pub fn raise_lowest(&mut self, lowest: u64) {
        self.floor = self.floor.max(lowest);
        if lowest > self.next {
            self.forget(self.next, lowest);
            self.next = lowest;
        }
    }

    /// Takes the marks of the numbers that had the places of `from..to` before.
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= u64::from(MAX_WINDOW) {
            self.seen = [0; WORDS];
            return;
        }
        let mut number = from;
        while number < to {
            let (word, bit) = Self::place(number);
            if bit == 1 && to - number >= 64 {
                self.seen[word] = 0;
                number += 64;
            } else {
                self.seen[word] &= !bit;
                number += 1;
            }
        }
    }

    const fn place(number: u64) -> (usize, u64) {
        ((number / 64) as usize % WORDS, 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn take(window: &mut ReplayWindow, number: u64) -> Result<(), Refusal> {
        window.check(number).map(|()| window.mark(number))
    }

    #[test]
    fn without_a_window_numbers_must_rise() {
        let mut window = ReplayWindow::new(1, 0);
        assert_eq!(take(&mut window, 0), Err(Refusal::Late));
        assert_eq!(take(&mut window, 1), Ok(()));
        assert_eq!(take(&mut window, 1), Err(Refusal::Late));
        assert_eq!(take(&mut window, 5), Ok(()));
        assert_eq!(take(&mut window, 4), Err(Refusal::Late));
        assert_eq!((window.next(), window.lowest()), (6, 6));
    }

    #[test]
    fn within_the_window_each_number_comes_once_in_any_order() {
        let mut window = ReplayWindow::new(1, 4);
        assert_eq!(take(&mut window, 10), Ok(()));
        assert_eq!(window.lowest(), 7);
        for number in [8, 7, 9] {
            assert_eq!(take(&mut window, number), Ok(()));
            assert_eq!(take(&mut window, number), Err(Refusal::Duplicate));
        }
        assert_eq!(take(&mut window, 6), Err(Refusal::Late));
    }

    #[test]
    fn checking_marks_nothing() {
        let window = ReplayWindow::new(1, 32);
        assert_eq!(window.check(77), Ok(()));
        assert_eq!(window.check(77), Ok(()));
        assert_eq!(window.next(), 1);
    }

    #[test]
    fn the_ends_of_32_and_of_64_bits_are_reached_without_wrapping() {
        let mut window = ReplayWindow::new(u64::from(u32::MAX) - 1, MAX_WINDOW);
        assert_eq!(take(&mut window, u64::from(u32::MAX)), Ok(()));
        assert_eq!(take(&mut window, u64::from(u32::MAX)), Err(Refusal::Duplicate));
        assert_eq!(take(&mut window, 0), Err(Refusal::Late));
        let mut window = ReplayWindow::new(u64::MAX - 2, 1);
        assert_eq!(take(&mut window, u64::MAX - 1), Ok(()));
        assert_eq!(take(&mut window, u64::MAX), Err(Refusal::Late));
        assert_eq!(take(&mut window, u64::MAX - 2), Err(Refusal::Late));
    }

    #[test]
    fn a_raised_floor_shuts_out_what_the_window_would_take() {
        let mut window = ReplayWindow::new(1, 100);
        take(&mut window, 50).unwrap();
        window.raise_lowest(40);
        assert_eq!(window.check(39), Err(Refusal::Late));
        assert_eq!(window.check(40), Ok(()));
        window.raise_lowest(30);
        assert_eq!(window.lowest(), 40);
        window.raise_lowest(1000);
        assert_eq!((window.lowest(), window.next()), (1000, 1000));
    }

    proptest! {
        #[test]
        fn the_window_is_the_one_with_unlimited_memory(
            start in prop_oneof![Just(1u64), Just(u64::from(u32::MAX) - 500), Just(1 << 40)],
            size in 0u32..=MAX_WINDOW,
            steps in prop::collection::vec((-1300i64..1300, any::<bool>()), 1..300),
        ) {
            let mut window = ReplayWindow::new(start, size);
            let (mut seen, mut next) = (BTreeSet::new(), start);
            for (step, authentic) in steps {
                let number = next.saturating_add_signed(step);
                let lowest = start.max(next.saturating_sub(u64::from(size)));
                let expected = if number < lowest {
                    Err(Refusal::Late)
                } else if seen.contains(&number) {
                    Err(Refusal::Duplicate)
                } else {
                    Ok(())
                };
                prop_assert_eq!(window.check(number), expected);
                if expected.is_ok() && authentic {
                    window.mark(number);
                    seen.insert(number);
                    next = next.max(number + 1);
                }
                prop_assert_eq!(window.next(), next);
            }
        }
    }
}
