//! The common parts of one publisher's envelopes on one topic: all but numbers and ciphertexts.
//!
//! Both sides keep them between messages, so that no envelope is encoded or parsed item by item
//! when a message is due. Other forms take the ordinary path.

use alloc::string::String;
use alloc::vec::Vec;

use antedate_wire::mqtt;

use super::envelope::{Head, associated_data};

/// An envelope around its number, and its associated data.
#[derive(Default)]
pub(super) struct Layout {
    topic: String,
    /// The envelope up to its sequence number.
    start: Vec<u8>,
    /// Bytes of the sequence number, without leading zeros.
    digits: usize,
    /// The associated data, which ends with the number.
    aad: Vec<u8>,
}

/// Bytes of a number without leading zeros.
const fn digits(number: u64) -> usize {
    8 - number.leading_zeros() as usize / 8
}

impl Layout {
    /// Sets the topic, for all numbers of the same length as this one.
    pub(super) fn renew(&mut self, head: &Head, protected: &[u8], topic: &str, number: u64) {
        let start = &mut self.start;
        start.clear();
        head.put(number, 0, start);
        self.digits = digits(number);
        // The empty ciphertext's head is one byte.
        start.truncate(start.len().saturating_sub(self.digits + 1));
        // The array's head, and the usual header as a string with a head of one byte.
        let usual = 2 + head.protected().len();
        let (string, string_len) = mqtt::string_head(protected.len());
        let header = string.iter().take(string_len).chain(protected).copied();
        start.splice(1..usual.min(start.len()), header);
        self.topic.clear();
        self.topic.push_str(topic);
        self.aad = associated_data(protected, topic, &head.publisher, head.epoch, number);
    }

    /// The topic.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// Whether it is for a topic.
    #[inline]
    pub(super) fn is_of(&self, topic: &str) -> bool {
        self.topic == topic
    }

    /// Whether it is for a topic and a number.
    #[inline]
    pub(super) fn fits(&self, topic: &str, number: u64) -> bool {
        self.is_of(topic) && self.digits == digits(number)
    }

    /// The associated data for a number that fits.
    #[inline]
    pub(super) fn associated_data(&mut self, number: u64) -> &[u8] {
        if let Some(end) = self.aad.last_chunk_mut() {
            *end = number.to_be_bytes();
        }
        &self.aad
    }

    /// Writes an envelope except its ciphertext, which must follow. The number must fit.
    #[inline]
    pub(super) fn put(&self, number: u64, ciphertext: usize, out: &mut Vec<u8>) {
        let (string, string_len) = mqtt::string_head(ciphertext);
        out.reserve(self.start.len() + self.digits + string_len + ciphertext);
        out.extend_from_slice(&self.start);
        out.extend_from_slice(&number.to_be_bytes()[8 - self.digits..]);
        out.extend_from_slice(&string[..string_len]);
    }

    /// The number and the ciphertext of a message with this layout.
    #[inline]
    pub(super) fn read<'m>(&self, message: &'m [u8]) -> Option<(u64, &'m [u8])> {
        let rest = message.strip_prefix(self.start.as_slice())?;
        let (digits, rest) = rest.split_at_checked(self.digits)?;
        // A leading zero would be a second way to write a number.
        if digits.first().is_none_or(|first| *first == 0) {
            return None;
        }
        let mut number = [0; 8];
        number[8 - self.digits..].copy_from_slice(digits);
        Some((u64::from_be_bytes(number), mqtt::only_string(rest)?))
    }
}
