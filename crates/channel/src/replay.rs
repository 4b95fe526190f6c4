//! The replay window.
//!
//! A number is checked before the packet is authenticated, which is cheap, and marked only
//! afterwards. Otherwise a forger could mark numbers and shut out genuine packets.
//!
//! The bounds are those of IEEE 802.1AE-2018 clause 10.6.5: with `next` one above the highest
//! number received and a window of `w`, numbers below `next - w` are late. The standard accepts a
//! number *within* the window any number of times; here it is accepted once. A sender never repeats
//! a number, so this refuses only copies.

/// The widest window of the default size.
pub const MAX_WINDOW: u32 = width(WORDS);

/// Words of 64 numbers in a window of the default size.
const WORDS: usize = 16;

/// The widest window of this many words.
const fn width(words: usize) -> u32 {
    words as u32 * 64
}

/// The reason for refusing a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayError {
    /// below the lowest acceptable number
    Late,
    /// received before
    Duplicate,
}

/// A window over packet numbers of 32 or 64 bits, in constant memory of `SIZE` words. The numbers
/// precede the marks, so they share a cache line with the owner's hot fields.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct ReplayWindow<const SIZE: usize = WORDS> {
    /// One above the highest number marked.
    next: u64,
    /// The lowest acceptable number, whatever the window.
    floor: u64,
    window: u64,
    /// Bit `n` modulo the widest window tells whether `n` was marked, for as many numbers below
    /// `next`.
    seen: [u64; SIZE],
}

impl<const SIZE: usize> ReplayWindow<SIZE> {
    /// The widest window.
    pub const WIDEST: u32 = width(SIZE);

    /// An empty window that accepts numbers from `lowest`. `window` is clamped to the
    /// [widest](Self::WIDEST).
    pub const fn new(lowest: u64, window: u32) -> Self {
        let window = if window > Self::WIDEST { Self::WIDEST } else { window };
        Self { next: lowest, floor: lowest, window: window as u64, seen: [0; SIZE] }
    }

    /// The next expected number: one above the highest one marked.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The lowest number that is not late.
    #[inline]
    pub const fn lowest(&self) -> u64 {
        let lowest = self.next.saturating_sub(self.window);
        if lowest > self.floor { lowest } else { self.floor }
    }

    /// Checks whether `number` is acceptable, without marking it. 2^64-1 is not: it has no
    /// successor.
    #[inline]
    pub const fn check(&self, number: u64) -> Result<(), ReplayError> {
        if number >= self.next && number != u64::MAX {
            return Ok(());
        }
        if number < self.lowest() || number == u64::MAX {
            return Err(ReplayError::Late);
        }
        let (word, bit) = Self::place(number);
        if self.seen[word] & bit == 0 { Ok(()) } else { Err(ReplayError::Duplicate) }
    }

    /// Marks the number of an authenticated packet that passed [`check`](Self::check).
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

    /// Marks the number [`next`](Self::next).
    #[inline(always)]
    pub fn mark_next(&mut self) {
        self.mark(self.next);
    }

    /// Marks any number, as [`mark`](Self::mark) does.
    #[inline(never)]
    fn mark_anew(&mut self, number: u64) {
        let Some(after) = number.checked_add(1) else { return };
        if number >= self.next {
            self.forget(self.next, after);
            self.next = after;
        }
        if self.next - number <= u64::from(Self::WIDEST) {
            let (word, bit) = Self::place(number);
            self.seen[word] |= bit;
        }
    }

    /// Raises the lowest acceptable number. A lower value than before changes nothing.
    pub fn raise_lowest(&mut self, lowest: u64) {
        self.floor = self.floor.max(lowest);
        if lowest > self.next {
            self.forget(self.next, lowest);
            self.next = lowest;
        }
    }

    /// Clears the marks in the places of the numbers `from..to`.
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= u64::from(Self::WIDEST) {
            self.seen = [0; SIZE];
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
        ((number / 64) as usize % SIZE, 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn take<const SIZE: usize>(window: &mut ReplayWindow<SIZE>, number: u64) -> Result<(), ReplayError> {
        window.check(number).map(|()| window.mark(number))
    }

    #[test]
    fn numbers_rise_without_a_window() {
        let mut window = ReplayWindow::<WORDS>::new(1, 0);
        assert_eq!(take(&mut window, 0), Err(ReplayError::Late));
        assert_eq!(take(&mut window, 1), Ok(()));
        assert_eq!(take(&mut window, 1), Err(ReplayError::Late));
        assert_eq!(take(&mut window, 5), Ok(()));
        assert_eq!(take(&mut window, 4), Err(ReplayError::Late));
        assert_eq!((window.next(), window.lowest()), (6, 6));
    }

    #[test]
    fn window_accepts_each_number_once() {
        let mut window = ReplayWindow::<WORDS>::new(1, 4);
        assert_eq!(take(&mut window, 10), Ok(()));
        assert_eq!(window.lowest(), 7);
        for number in [8, 7, 9] {
            assert_eq!(take(&mut window, number), Ok(()));
            assert_eq!(take(&mut window, number), Err(ReplayError::Duplicate));
        }
        assert_eq!(take(&mut window, 6), Err(ReplayError::Late));
    }

    #[test]
    fn oldest_number_of_the_window_is_marked() {
        for (size, width) in [(1, 1), (2, 2), (64, 64), (1023, 1023), (1024, 1024), (5000, 1024)] {
            let mut window = ReplayWindow::<WORDS>::new(1, size);
            take(&mut window, 5000).unwrap();
            let oldest = 5001 - width;
            assert_eq!(window.lowest(), oldest);
            assert_eq!(window.check(oldest - 1), Err(ReplayError::Late), "{size}");
            if width > 1 {
                assert_eq!(take(&mut window, oldest), Ok(()), "{size}");
            }
            assert_eq!(window.check(oldest), Err(ReplayError::Duplicate), "{size}");
            // Its place is free for the number that follows the window.
            assert_eq!(take(&mut window, 5001), Ok(()));
            assert_eq!(window.check(oldest), Err(ReplayError::Late));
            assert_eq!(
                window.check(oldest + 1024),
                if oldest + 1024 < 5002 { Err(ReplayError::Duplicate) } else { Ok(()) }
            );
        }
    }

    #[test]
    fn jump_forgets_only_what_it_passes() {
        for jump in [1, 2, 63, 64, 65, 127, 128, 1021, 1022, 1023, 1024, 1025, 5000] {
            for start in [2000, 2047, 2048, 2049] {
                let mut window = ReplayWindow::<WORDS>::new(1, MAX_WINDOW);
                let mut seen: BTreeSet<u64> = (start..start + 3).collect();
                seen.iter().for_each(|number| window.mark(*number));
                window.mark(start + 2 + jump);
                seen.insert(start + 2 + jump);
                for number in window.lowest()..window.next() + 2 {
                    let expected = if seen.contains(&number) { Err(ReplayError::Duplicate) } else { Ok(()) };
                    assert_eq!(window.check(number), expected, "{number} after {jump} from {start}");
                }
            }
        }
    }

    #[test]
    fn mark_outside_the_window_is_lost() {
        let mut window = ReplayWindow::<WORDS>::new(1, MAX_WINDOW);
        window.mark(3000);
        // 2990 is in the place of this number.
        window.mark(2990 - 1024);
        assert_eq!(window.check(2990), Ok(()));
        // The last number has no successor.
        window.mark(u64::MAX);
        assert_eq!(window.next(), 3001);
        let mut window = ReplayWindow::<WORDS>::new(u64::MAX, 1);
        window.mark_next();
        assert_eq!((window.next(), window.check(u64::MAX)), (u64::MAX, Err(ReplayError::Late)));
    }

    #[test]
    fn raised_floor_frees_the_places_below() {
        let mut window = ReplayWindow::<WORDS>::new(1, MAX_WINDOW);
        (100..110).for_each(|number| window.mark(number));
        window.raise_lowest(110);
        assert_eq!((window.lowest(), window.next()), (110, 110));
        window.raise_lowest(1120);
        assert_eq!((window.lowest(), window.next()), (1120, 1120));
        for number in 1124..1134 {
            assert_eq!(take(&mut window, number), Ok(()));
        }
    }

    #[test]
    fn next_number_is_marked() {
        let mut window = ReplayWindow::<WORDS>::new(0, MAX_WINDOW);
        for number in 0..3 {
            window.mark_next();
            assert_eq!((window.next(), window.check(number)), (number + 1, Err(ReplayError::Duplicate)));
        }
    }

    #[test]
    fn window_from_zero_has_room_below_a_jump() {
        for jump in [5, 64, 100, 1023] {
            let mut window = ReplayWindow::<WORDS>::new(0, MAX_WINDOW);
            assert_eq!(take(&mut window, jump), Ok(()));
            (0..jump).for_each(|number| assert_eq!(take(&mut window, number), Ok(()), "{number}"));
        }
    }

    #[test]
    fn checking_marks_nothing() {
        let window = ReplayWindow::<WORDS>::new(1, 32);
        assert_eq!(window.check(77), Ok(()));
        assert_eq!(window.check(77), Ok(()));
        assert_eq!(window.next(), 1);
    }

    #[test]
    fn numbers_end_without_wrapping() {
        let mut window = ReplayWindow::<WORDS>::new(u64::from(u32::MAX) - 1, MAX_WINDOW);
        assert_eq!(take(&mut window, u64::from(u32::MAX)), Ok(()));
        assert_eq!(take(&mut window, u64::from(u32::MAX)), Err(ReplayError::Duplicate));
        assert_eq!(take(&mut window, 0), Err(ReplayError::Late));
        let mut window = ReplayWindow::<WORDS>::new(u64::MAX - 2, 1);
        assert_eq!(take(&mut window, u64::MAX - 1), Ok(()));
        assert_eq!(take(&mut window, u64::MAX), Err(ReplayError::Late));
        assert_eq!(take(&mut window, u64::MAX - 2), Err(ReplayError::Late));
    }

    #[test]
    fn raised_floor_overrides_the_window() {
        let mut window = ReplayWindow::<WORDS>::new(1, 100);
        take(&mut window, 50).unwrap();
        window.raise_lowest(40);
        assert_eq!(window.check(39), Err(ReplayError::Late));
        assert_eq!(window.check(40), Ok(()));
        window.raise_lowest(30);
        assert_eq!(window.lowest(), 40);
        window.raise_lowest(1000);
        assert_eq!((window.lowest(), window.next()), (1000, 1000));
    }

    #[test]
    fn wide_window_remembers_each_number() {
        let mut window = ReplayWindow::<128>::new(0, u32::MAX);
        let width = u64::from(ReplayWindow::<128>::WIDEST);
        assert_eq!(width, 8192);
        for number in (0..3 * width).rev().step_by(7) {
            window.mark(3 * width);
            let expected = if number > 2 * width { Ok(()) } else { Err(ReplayError::Late) };
            assert_eq!(take(&mut window, number), expected, "{number}");
            assert!(take(&mut window, number).is_err(), "{number} again");
        }
    }

    proptest! {
        #[test]
        fn window_agrees_with_unlimited_memory(
            start in prop_oneof![Just(1u64), Just(u64::from(u32::MAX) - 500), Just(1 << 40)],
            size in 0u32..=MAX_WINDOW,
            steps in prop::collection::vec((-1300i64..1300, any::<bool>()), 1..300),
        ) {
            let mut window = ReplayWindow::<WORDS>::new(start, size);
            let (mut seen, mut next) = (BTreeSet::new(), start);
            for (step, authentic) in steps {
                let number = next.saturating_add_signed(step);
                let lowest = start.max(next.saturating_sub(u64::from(size)));
                let expected = if number < lowest {
                    Err(ReplayError::Late)
                } else if seen.contains(&number) {
                    Err(ReplayError::Duplicate)
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
