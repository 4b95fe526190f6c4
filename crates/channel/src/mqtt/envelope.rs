//! The envelope's format ([`antedate_wire::mqtt`]) with the algorithms of this crate.

use alloc::vec::Vec;

use antedate_wire::mqtt;
pub use antedate_wire::mqtt::{Envelope, EnvelopeError};

use super::Algorithm;

/// The constant parts of a publisher's envelopes in one epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The epoch.
    pub epoch: u32,
    /// The publisher, at most [`PUBLISHER_MAX`](super::PUBLISHER_MAX) bytes.
    pub publisher: Vec<u8>,
}

impl Head {
    /// The protected header.
    pub fn protected(&self) -> Vec<u8> {
        let (bytes, len) = mqtt::protected(self.algorithm.number());
        bytes[..len].to_vec()
    }

    /// The protected header with the time of sealing in seconds since 1970.
    pub fn timed(&self, time: u32) -> Vec<u8> {
        let (bytes, len) = mqtt::timed(self.algorithm.number(), time);
        bytes[..len].to_vec()
    }

    /// Writes an envelope except its ciphertext, which must follow.
    pub fn put(&self, sequence: u64, ciphertext: usize, out: &mut Vec<u8>) {
        let head =
            mqtt::Head { algorithm: self.algorithm.number(), epoch: self.epoch, publisher: &self.publisher };
        let mut bytes = [0; mqtt::HEAD_MAX];
        // The buffer fits the longest.
        let len = head.emit(sequence, ciphertext, &mut bytes).unwrap_or_default();
        out.reserve(len + ciphertext);
        out.extend_from_slice(&bytes[..len]);
    }
}

/// The Enc_structure (RFC 9052 section 5.3), the cipher's associated data: protected header, topic,
/// publisher, epoch and sequence number.
pub fn associated_data(
    protected: &[u8],
    topic: &str,
    publisher: &[u8],
    epoch: u32,
    sequence: u64,
) -> Vec<u8> {
    let mut bytes = alloc::vec![0; mqtt::associated_data_max(protected.len(), topic.len(), publisher.len())];
    // The buffer fits the longest.
    let len = mqtt::associated_data(protected, topic, publisher, epoch, sequence, &mut bytes);
    bytes.truncate(len.unwrap_or_default());
    bytes
}
