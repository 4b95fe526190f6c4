//! Sequence numbers: their source, and their nonces.

use alloc::vec::Vec;
use core::fmt;

use antedate_aead::{Nonce, NonceSequence};
use zeroize::Zeroizing;

use super::derive::{Material, nonce};

/// A source of sequence numbers. No number repeats in any run of the program, which keeps nonces
/// unique. Each number is above the last one, because receivers treat lower ones as replays. None
/// is 0.
pub trait Numbers {
    /// The reason for the lack of a number.
    type Error;

    /// The next number.
    ///
    /// # Errors
    /// There is no number. Nothing is sealed then.
    fn take(&mut self) -> Result<u64, Self::Error>;
}

impl<N: Numbers> Numbers for &mut N {
    type Error = N::Error;

    fn take(&mut self) -> Result<u64, N::Error> {
        (**self).take()
    }
}

/// Reserved numbers. The caller has made the upper bound durable, so that it survives a crash.
#[derive(Debug)]
pub struct Reserved {
    next: u64,
    limit: u64,
}

/// The reservation is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoNumberError;

impl fmt::Display for NoNumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no sequence number is reserved")
    }
}

impl core::error::Error for NoNumberError {}

impl Reserved {
    /// The numbers from `next` to below `limit`. Zero is not used.
    pub const fn new(next: u64, limit: u64) -> Self {
        Self { next: if next == 0 { 1 } else { next }, limit }
    }

    /// The next number.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The remaining numbers.
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    /// Raises the limit after a reservation. A lower limit changes nothing.
    pub const fn raise(&mut self, limit: u64) {
        if limit > self.limit {
            self.limit = limit;
        }
    }
}

impl Numbers for Reserved {
    type Error = NoNumberError;

    fn take(&mut self) -> Result<u64, NoNumberError> {
        if self.next >= self.limit {
            return Err(NoNumberError);
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// The engine's nonce sequence: base and number.
pub(super) struct Nonces<N> {
    base: Zeroizing<Vec<u8>>,
    pub(super) numbers: N,
    /// The next number, if the associated data needed it before the nonce.
    announced: Option<u64>,
}

impl<N: Numbers> Nonces<N> {
    pub(super) fn new(material: &Material, numbers: N) -> Self {
        Self { base: material.base.clone(), numbers, announced: None }
    }

    /// Fixes the number of the next nonce.
    pub(super) fn announce(&mut self) -> Result<u64, N::Error> {
        match self.announced {
            Some(number) => Ok(number),
            None => Ok(*self.announced.insert(self.numbers.take()?)),
        }
    }
}

impl<N: Numbers, const LEN: usize> NonceSequence<[u8; LEN]> for Nonces<N> {
    type Error = N::Error;

    fn next(&mut self) -> Result<(u64, Nonce<[u8; LEN]>), N::Error> {
        let number = match self.announced.take() {
            Some(number) => number,
            None => self.numbers.take()?,
        };
        Ok((number, Nonce::assume_unique(nonce(&self.base, number))))
    }
}
