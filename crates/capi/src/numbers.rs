//! Nonces from the caller's numbers, each number once.

use antedate_aead::{Nonce, NonceSequence};

/// A byte array for a nonce or a tag.
pub(crate) trait Array: Copy + AsMut<[u8]> + 'static {
    /// Converts a slice of the same length.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl<const N: usize> Array for [u8; N] {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

/// The nonce of a packet: the initial value, with the number (8 bytes, big-endian) XORed into its
/// end. A salt and zeros give salt and number (DTLS 1.2, RFC 6655). An address and zeros give
/// address and slot number (IEEE 802.15.4 TSCH). A full value gives the nonces of TLS 1.3.
pub(crate) fn nonce<B: Array>(initial: &B, number: u64) -> B {
    let mut nonce = *initial;
    for (byte, part) in nonce.as_mut().iter_mut().rev().zip(number.to_le_bytes()) {
        *byte ^= part;
    }
    nonce
}

/// Gives out a requested number if it is above all earlier ones.
pub(crate) struct Numbers<B> {
    initial: B,
    asked: Option<u64>,
    /// The lowest unused number; `None` after the last.
    fresh: Option<u64>,
}

/// The number was given out before, or none was requested.
#[derive(Debug)]
pub(crate) struct SpentError;

impl<B> Numbers<B> {
    pub(crate) fn new(initial: B) -> Self {
        Self { initial, asked: None, fresh: Some(0) }
    }

    /// Requests a number.
    pub(crate) fn ask(&mut self, number: u64) -> Result<(), SpentError> {
        self.asked = self.fresh.is_some_and(|fresh| number >= fresh).then_some(number);
        self.asked.map(|_| ()).ok_or(SpentError)
    }
}

impl<B: Array> NonceSequence<B> for Numbers<B> {
    type Error = SpentError;

    fn next(&mut self) -> Result<(u64, Nonce<B>), SpentError> {
        let number = self.asked.take().ok_or(SpentError)?;
        self.fresh = number.checked_add(1);
        Ok((number, Nonce::assume_unique(nonce(&self.initial, number))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_only_increase() {
        let mut numbers = Numbers::new([0; 12]);
        assert!(numbers.next().is_err(), "nobody asked");
        for (number, given) in
            [(5, true), (5, false), (4, false), (6, true), (u64::MAX, true), (u64::MAX, false)]
        {
            assert_eq!(numbers.ask(number).is_ok(), given, "{number}");
            assert_eq!(numbers.next().is_ok_and(|(is, _)| is == number), given, "{number}");
        }
    }

    #[test]
    fn nonce_ends_in_the_number() {
        assert_eq!(nonce(b"salt\0\0\0\0\0\0\0\0", 0x0102), *b"salt\0\0\0\0\0\0\x01\x02");
        assert_eq!(
            nonce(&[0xff; 13], 1),
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]
        );
        assert_eq!(nonce(&[0; 7], u64::MAX), [0xff; 7]);
    }
}
