//! Nonces from numbers that the caller gives, each once.

use antedate_aead::{Nonce, NonceSequence};

/// An array of bytes that is a nonce.
pub(crate) trait Array: Copy + AsMut<[u8]> + 'static {
    /// From as many bytes.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl<const N: usize> Array for [u8; N] {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

/// The nonce of a packet: the initial value, with the number (8 bytes, big-endian) XORed into its end. A salt followed by
/// zeros gives salt and number (DTLS 1.2, RFC 6655), an address followed by zeros gives address and slot number
/// (IEEE 802.15.4 TSCH), and a full value gives what TLS 1.3 has.
pub(crate) fn nonce<B: Array>(initial: &B, number: u64) -> B {
    let mut nonce = *initial;
    for (byte, part) in nonce.as_mut().iter_mut().rev().zip(number.to_le_bytes()) {
        *byte ^= part;
    }
    nonce
}

/// Gives out the number that was asked for, if it is above all that were given before.
pub(crate) struct Numbers<B> {
    initial: B,
    asked: Option<u64>,
    /// The lowest number that was not given; `None` after the last there is.
    fresh: Option<u64>,
}

/// The number was given before, or nobody asked.
#[derive(Debug)]
pub(crate) struct Spent;

impl<B> Numbers<B> {
    pub(crate) fn new(initial: B) -> Self {
        Self { initial, asked: None, fresh: Some(0) }
    }

    /// Asks for a number.
    pub(crate) fn ask(&mut self, number: u64) -> Result<(), Spent> {
        self.asked = self.fresh.is_some_and(|fresh| number >= fresh).then_some(number);
        self.asked.map(|_| ()).ok_or(Spent)
    }
}

impl<B: Array> NonceSequence<B> for Numbers<B> {
    type Error = Spent;

    fn next(&mut self) -> Result<(u64, Nonce<B>), Spent> {
        let number = self.asked.take().ok_or(Spent)?;
        self.fresh = number.checked_add(1);
        Ok((number, Nonce::assume_unique(nonce(&self.initial, number))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_once_and_none_below_it_after() {
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
    fn a_nonce_is_the_initial_value_with_the_number_in_its_end() {
        assert_eq!(nonce(b"salt\0\0\0\0\0\0\0\0", 0x0102), *b"salt\0\0\0\0\0\0\x01\x02");
        assert_eq!(
            nonce(&[0xff; 13], 1),
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]
        );
        assert_eq!(nonce(&[0; 7], u64::MAX), [0xff; 7]);
    }
}
