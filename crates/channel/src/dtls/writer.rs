//! Protecting records.

use core::fmt;

use antedate_wire::dtls::{Aad, ContentType, HEADER_LEN, Header, MAX_PLAINTEXT, SEQUENCE_END, VERSION_1_2};

use super::pool::Seal;
use super::{Aead, ConnectionId, DirectionKeys};

/// The reason for not protecting a record. No number was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectError {
    /// the plaintext exceeds the maximum length
    TooLong,
    /// the record does not fit the output
    OutputTooSmall,
    /// all sequence numbers of the epoch are used: a new handshake is due
    Exhausted,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the plaintext is longer than a record holds",
            Self::OutputTooSmall => "the record does not fit the output",
            Self::Exhausted => "all sequence numbers of the epoch are used up",
        })
    }
}

impl core::error::Error for ProtectError {}

/// The sending side of an epoch.
pub struct Writer {
    pool: Seal,
    aead: Aead,
    cid: ConnectionId,
    next: u64,
}

impl Writer {
    /// Protects records of an epoch from sequence number `first`. `cid` is the peer's connection
    /// ID. `None` if the keys do not fit their cipher, which [`DirectionKeys`] rules out.
    ///
    /// The keys must be fresh: no record was ever protected with them from `first` on.
    pub fn new(keys: &DirectionKeys, epoch: u16, first: u64, cid: ConnectionId) -> Option<Self> {
        Self::sized(keys, epoch, first, cid, true)
    }

    /// As [`new`](Self::new), with the memory of [`set_large`](Self::set_large).
    pub(super) fn sized(
        keys: &DirectionKeys,
        epoch: u16,
        first: u64,
        cid: ConnectionId,
        large: bool,
    ) -> Option<Self> {
        let pool = Seal::new(keys, epoch, first, large)?;
        let next = u64::from(epoch) << 48 | first.min(SEQUENCE_END);
        Some(Self { pool, aead: keys.aead(), cid, next })
    }

    /// Octets that a record adds to its plaintext.
    pub const fn overhead(&self) -> usize {
        let inner = if self.cid.is_empty() { 0 } else { 1 };
        HEADER_LEN + self.cid.len() + self.aead.explicit_len() + inner + self.aead.tag_len()
    }

    /// Protects a record into `out` and returns its length.
    #[inline]
    pub fn protect(
        &mut self,
        content_type: ContentType,
        plaintext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, ProtectError> {
        if plaintext.len() > MAX_PLAINTEXT {
            return Err(ProtectError::TooLong);
        }
        let total = plaintext.len() + self.overhead();
        let out = out.get_mut(..total).ok_or(ProtectError::OutputTooSmall)?;
        let cid = self.cid;
        let outer = if cid.is_empty() { content_type } else { ContentType::Tls12Cid };
        let (header, body) = out.split_at_mut(HEADER_LEN + cid.len());
        let fragment_len = body.len();
        let (explicit, body) = body.split_at_mut(self.aead.explicit_len());
        let (text, tag) = body.split_at_mut(body.len() - self.aead.tag_len());
        let (content, inner) = text.split_at_mut(plaintext.len());
        content.copy_from_slice(plaintext);
        inner.fill(content_type.number());
        let len = text.len();
        let sealed = self.pool.seal(text, tag, |number| {
            let place = Header { content_type: outer, version: VERSION_1_2, number };
            // The header has its length and the fragment is short enough, as checked above.
            let _ = place.emit(cid.as_slice(), fragment_len, header);
            explicit.copy_from_slice(number.to_be_bytes().get(..explicit.len()).unwrap_or_default());
            Aad::new(&place, &cid, len)
        });
        match sealed {
            Ok(number) => {
                self.next = number.wrapping_add(1);
                Ok(total)
            }
            Err(_) => {
                // Wipe the copied plaintext.
                out.fill(0);
                Err(ProtectError::Exhausted)
            }
        }
    }

    /// Epoch and sequence number of the next record.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Does at most `budget` preparation steps of about 64 octets. Returns the number done.
    #[inline]
    pub fn idle(&mut self, budget: u32) -> u32 {
        self.pool.idle(budget)
    }

    /// Prepared records.
    pub fn prepared(&self) -> usize {
        self.pool.prepared()
    }

    /// Changes the memory for prepared records: 13 KiB for [`SLOTS`](super::SLOTS) of them and an
    /// expanded key of up to 5 KiB, or nothing but the key, which is then expanded for each record.
    /// What was prepared is wiped, and its numbers are not used.
    pub fn set_large(&mut self, large: bool) {
        self.pool.set_large(large);
    }

    /// Sets the length of plaintexts to prepare for.
    pub fn set_reach(&mut self, octets: usize) {
        self.pool.set_reach(octets.saturating_add(1));
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({:?}, next {:#x}, {} prepared)", self.aead, self.next, self.prepared())
    }
}
