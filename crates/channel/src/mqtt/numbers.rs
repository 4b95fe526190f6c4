//! Sequence numbers: where they come from, and the nonces that they make.

use alloc::vec::Vec;
use core::fmt;

use antedate_aead::{Nonce, NonceSequence};
use zeroize::Zeroizing;

use super::derive::{Material, nonce};

/// Where sequence numbers come from. A number that was given is never given again, in no run of the program: that is what keeps
/// nonces apart. Each is above the last one, for receivers take what is below for a replay, and none is 0.
pub trait Numbers {
    /// Why there is none.
    type Error;

    /// The next number.
    ///
    /// # Errors
    /// When there is none: then nothing is sealed.
    fn take(&mut self) -> Result<u64, Self::Error>;
}

impl<N: Numbers> Numbers for &mut N {
    type Error = N::Error;

    fn take(&mut self) -> Result<u64, N::Error> {
        (**self).take()
    }
}

/// Numbers that were reserved before: whoever made it has written the upper bound to where it survives a crash.
#[derive(Debug)]
pub struct Reserved {
    next: u64,
    limit: u64,
}

/// The reservation is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoNumber;

impl fmt::Display for NoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no sequence number is reserved")
    }
}

impl core::error::Error for NoNumber {}

impl Reserved {
    /// The numbers from `next` on and below `limit`. Zero is no number.
    pub const fn new(next: u64, limit: u64) -> Self {
        Self { next: if next == 0 { 1 } else { next }, limit }
    }

    /// The next one.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// How many are left.
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    /// Adds the numbers up to a higher limit, once they are reserved. A lower one changes nothing.
    pub const fn raise(&mut self, limit: u64) {
        if limit > self.limit {
            self.limit = limit;
        }
    }
}

impl Numbers for Reserved {
    type Error = NoNumber;

    fn take(&mut self) -> Result<u64, NoNumber> {
        if self.next >= self.limit {
            return Err(NoNumber);
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// The engine's sequence: base and number.
pub(super) struct Nonces<N> {
    base: Zeroizing<Vec<u8>>,
    pub(super) numbers: N,
    /// The next number, where the associated data had to be made of it before the nonce was asked for.
    announced: Option<u64>,
}

impl<N: Numbers> Nonces<N> {
    pub(super) fn new(material: &Material, numbers: N) -> Self {
        Self { base: material.base.clone(), numbers, announced: None }
    }

    /// The number that the next nonce will have.
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
