//! Packet numbers and their nonces: four octets of sender, eight of counter.

use antedate_aead::{Nonce, NonceSequence};

use crate::sequence::NumberError;

/// Assigns each number once. Two senders with one key need different `sender` octets.
#[derive(Debug)]
pub struct Counter {
    sender: [u8; 4],
    next: u64,
    limit: u64,
}

impl Counter {
    /// The durably reserved numbers from `next` to below `limit`. After a restart, `next` is the
    /// previous limit.
    pub const fn new(sender: [u8; 4], next: u64, limit: u64) -> Self {
        Self { sender, next, limit }
    }

    /// Raises the limit. A lower limit than before changes nothing.
    pub fn reserve_until(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    pub(super) const fn sender(&self) -> [u8; 4] {
        self.sender
    }

    /// The remaining numbers below the limit.
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }
}

/// The nonce of a number.
pub(super) fn nonce(sender: [u8; 4], number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&sender);
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

impl NonceSequence for Counter {
    type Error = NumberError;

    fn next(&mut self) -> Result<(u64, Nonce), NumberError> {
        let number = self.next;
        // The last number has no successor, so a replay window could not refuse it.
        if number == u64::MAX {
            return Err(NumberError::Exhausted);
        }
        if number >= self.limit {
            return Err(NumberError::NotReserved);
        }
        self.next = number + 1;
        Ok((number, Nonce::assume_unique(nonce(self.sender, number))))
    }
}
