//! Packet numbers and their nonces: six octets of sender, six of counter.

use antedate_aead::{Nonce, NonceSequence};

use crate::sequence::NumberError;

/// The first number that does not fit. The last that does is not used either: it has no successor, so
/// a replay window could not refuse it.
pub const END: u64 = (1 << 48) - 1;

/// Assigns each number once. The sender is the publisher's address, so that publishers with one key
/// never have the same nonce.
#[derive(Debug)]
pub struct Counter {
    sender: [u8; 6],
    next: u64,
    limit: u64,
}

impl Counter {
    /// The durably reserved numbers from `next` to below `limit`. After a restart, `next` is the
    /// previous limit.
    pub const fn new(sender: [u8; 6], next: u64, limit: u64) -> Self {
        Self { sender, next, limit }
    }

    /// Raises the limit. A lower limit than before changes nothing.
    pub fn reserve_until(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    pub(super) const fn sender(&self) -> [u8; 6] {
        self.sender
    }

    /// The remaining numbers below the limit.
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }
}

/// The nonce of a number.
pub(super) fn nonce(sender: [u8; 6], number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..6].copy_from_slice(&sender);
    nonce[6..].copy_from_slice(&number.to_be_bytes()[2..]);
    nonce
}

impl NonceSequence for Counter {
    type Error = NumberError;

    fn next(&mut self) -> Result<(u64, Nonce), NumberError> {
        let number = self.next;
        if number >= END {
            return Err(NumberError::Exhausted);
        }
        if number >= self.limit {
            return Err(NumberError::NotReserved);
        }
        self.next = number + 1;
        Ok((number, Nonce::assume_unique(nonce(self.sender, number))))
    }
}
