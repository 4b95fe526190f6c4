//! Packet numbers (IEEE 802.1AE-2018 clauses 10.5.2 and 10.6.2): assigns each one once, and
//! recovers the upper half of an extended one.

use antedate_aead::{Nonce, NonceSequence};

use super::suite::{NonceRule, Width};
use crate::sequence::NumberError;

/// The packet numbers of a transmit association, with their nonces.
#[derive(Debug)]
pub(super) struct PacketNumbers {
    rule: NonceRule,
    next: u64,
    /// Numbers below this one may be assigned.
    limit: u64,
    end: u64,
}

impl PacketNumbers {
    pub(super) fn new(rule: NonceRule, next: u64, limit: u64, end: u64) -> Self {
        Self { rule, next, limit: limit.min(end), end }
    }

    /// Raises the limit. A lower limit changes nothing: a durable reservation stays.
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
    type Error = NumberError;

    #[inline]
    fn next(&mut self) -> Result<(u64, Nonce<B>), NumberError> {
        let number = self.next;
        if number >= self.limit {
            return Err(if number >= self.end { NumberError::Exhausted } else { NumberError::NotReserved });
        }
        self.next = number + 1;
        Ok((number, Nonce::assume_unique(B::widen(self.rule.nonce(number)))))
    }
}

/// Recovers the extended packet number with lower half `low`, near the lowest acceptable one
/// (clause 10.6.2). The upper half is that of `lowest`, or one more if the lower half must have
/// wrapped. Returns `None` past the last number.
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

    fn next(numbers: &mut PacketNumbers) -> Result<u64, NumberError> {
        NonceSequence::<[u8; 12]>::next(numbers).map(|(number, _)| number)
    }

    #[test]
    fn numbers_stop_at_the_reservation() {
        let mut numbers = numbers(1, 3, 100);
        let mut following = || next(&mut numbers);
        assert_eq!(
            [following(), following(), following(), following()],
            [Ok(1), Ok(2), Err(NumberError::NotReserved), Err(NumberError::NotReserved)]
        );
        numbers.reserve_until(2);
        assert_eq!(next(&mut numbers), Err(NumberError::NotReserved));
        numbers.reserve_until(4);
        assert_eq!(next(&mut numbers), Ok(3));
    }

    #[test]
    fn reservation_never_passes_the_end() {
        for end in [u64::from(u32::MAX), u64::MAX] {
            let mut numbers = numbers(end - 1, u64::MAX, end);
            assert_eq!(next(&mut numbers), Ok(end - 1));
            numbers.reserve_until(u64::MAX);
            assert_eq!(next(&mut numbers), Err(NumberError::Exhausted));
            assert_eq!(next(&mut numbers), Err(NumberError::Exhausted));
        }
    }

    #[test]
    fn no_number_is_recovered_past_the_end() {
        assert_eq!(recover(u64::MAX - 5, 3), None);
        assert_eq!(recover(u64::MAX - 5, u32::MAX), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn upper_half_is_recovered_nearby(lowest in 0u64..(1 << 62), ahead in 0u64..(1 << 31)) {
            prop_assert_eq!(recover(lowest, (lowest + ahead) as u32), Some(lowest + ahead));
        }
    }
}
