//! Packet numbers (IEEE 802.1AE-2018 clauses 10.5.2 and 10.6.2): giving out each one once, and recovering the
//! upper half of an extended one.

use antedate_aead::{Nonce, NonceSequence};

use super::suite::{NonceRule, Width};

/// Why there is no next packet number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// The suite has no more.
    Exhausted,
    /// There are more, but nothing says durably that they may be used.
    NotReserved,
}

/// The packet numbers of a transmit association, with their nonces.
#[derive(Debug)]
pub(super) struct PacketNumbers {
    rule: NonceRule,
    next: u64,
    /// Numbers below this one may be given out.
    limit: u64,
    end: u64,
}

impl PacketNumbers {
    pub(super) fn new(rule: NonceRule, next: u64, limit: u64, end: u64) -> Self {
        Self { rule, next, limit: limit.min(end), end }
    }

    /// Raises the limit; a lower one than before changes nothing, for what is durable stays so.
    pub(super) fn reserve_until(&mut self, limit: u64) {
        self.limit = self.limit.max(limit.min(self.end));
    }

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) const fn end(&self) -> u64 {
        self.end
    }
}

impl<B: Width> NonceSequence<B> for PacketNumbers {
    type Error = Spent;

    #[inline]
    fn next(&mut self) -> Result<(u64, Nonce<B>), Spent> {
        let number = self.next;
        if number >= self.limit {
            return Err(if number >= self.end { Spent::Exhausted } else { Spent::NotReserved });
        }
        self.next = number + 1;
        Ok((number, Nonce::assume_unique(B::widen(self.rule.nonce(number)))))
    }
}

/// The extended packet number whose lower half is `low`, near the lowest acceptable one (clause 10.6.2): the upper
/// half is that of `lowest`, or one more if the lower half must have wrapped in between. None past the last number.
#[inline]
pub(super) const fn recover(lowest: u64, low: u32) -> Option<u64> {
    const UPPER_HALF: u32 = 1 << 31;
    let wrapped = lowest as u32 & UPPER_HALF != 0 && low & UPPER_HALF == 0;
    let number = (lowest & !(u32::MAX as u64)) | low as u64;
    if wrapped { number.checked_add(1 << 32) } else { Some(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_wire::Sci;
    use proptest::prelude::*;

    fn numbers(next: u64, limit: u64, end: u64) -> PacketNumbers {
        PacketNumbers::new(NonceRule::from_sci(Sci([0; 8])), next, limit, end)
    }

    fn next(numbers: &mut PacketNumbers) -> Result<u64, Spent> {
        NonceSequence::<[u8; 12]>::next(numbers).map(|(number, _)| number)
    }

    #[test]
    fn numbers_stop_at_the_reservation_and_go_on_when_it_is_raised() {
        let mut numbers = numbers(1, 3, 100);
        let mut following = || next(&mut numbers);
        assert_eq!(
            [following(), following(), following(), following()],
            [Ok(1), Ok(2), Err(Spent::NotReserved), Err(Spent::NotReserved)]
        );
        numbers.reserve_until(2);
        assert_eq!(next(&mut numbers), Err(Spent::NotReserved));
        numbers.reserve_until(4);
        assert_eq!(next(&mut numbers), Ok(3));
    }

    #[test]
    fn the_end_is_final_whatever_is_reserved() {
        for end in [u64::from(u32::MAX), u64::MAX] {
            let mut numbers = numbers(end - 1, u64::MAX, end);
            assert_eq!(next(&mut numbers), Ok(end - 1));
            numbers.reserve_until(u64::MAX);
            assert_eq!(next(&mut numbers), Err(Spent::Exhausted));
            assert_eq!(next(&mut numbers), Err(Spent::Exhausted));
        }
    }

    #[test]
    fn nothing_is_recovered_past_the_last_number() {
        assert_eq!(recover(u64::MAX - 5, 3), None);
        assert_eq!(recover(u64::MAX - 5, u32::MAX), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn the_upper_half_is_recovered_within_a_quarter_of_the_range(lowest in 0u64..(1 << 62), ahead in 0u64..(1 << 31)) {
            prop_assert_eq!(recover(lowest, (lowest + ahead) as u32), Some(lowest + ahead));
        }
    }
}
