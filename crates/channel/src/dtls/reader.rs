//! Opening records.

use core::fmt;

use antedate_wire::dtls::{Aad, ContentType, MAX_PLAINTEXT, Record, inner};

use super::pool::Open;
use super::{Aead, ConnectionId, DirectionKeys, Dropped};
use crate::replay::{self, MAX_WINDOW, ReplayWindow};

/// An opened record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// the content type
    pub content_type: ContentType,
    /// octets of content
    pub len: usize,
    /// it is newer than all before, so the sender's address may be learnt from it (RFC 9146 section
    /// 6)
    pub newest: bool,
}

/// The receiving side of an epoch.
pub struct Reader {
    pool: Open,
    aead: Aead,
    epoch: u16,
    cid: ConnectionId,
    window: ReplayWindow,
}

impl Reader {
    /// Opens records of an epoch. `cid` is our connection ID. `None` if the keys do not fit their
    /// cipher, which [`DirectionKeys`] rules out.
    pub fn new(keys: &DirectionKeys, epoch: u16, cid: ConnectionId) -> Option<Self> {
        Self::sized(keys, epoch, cid, true)
    }

    /// As [`new`](Self::new), with the memory of [`set_large`](Self::set_large).
    pub(super) fn sized(keys: &DirectionKeys, epoch: u16, cid: ConnectionId, large: bool) -> Option<Self> {
        let first = u64::from(epoch) << 48;
        let mut pool = Open::new(keys, large)?;
        pool.expect_from(first);
        Some(Self { pool, aead: keys.aead(), epoch, cid, window: ReplayWindow::new(first, MAX_WINDOW) })
    }

    /// Opens a record into `out`.
    ///
    /// Checks go from cheap to expensive: connection, epoch, replay window, length, and then the
    /// tag. The window is marked only after that.
    ///
    /// # Errors
    ///
    /// A refused record changes nothing here, and leaves zeros in `out`.
    #[inline]
    pub fn open(&mut self, record: &Record<'_>, out: &mut [u8]) -> Result<Opened, Dropped> {
        let with_cid = record.content_type == ContentType::Tls12Cid;
        if with_cid == self.cid.is_empty() || (with_cid && record.cid != self.cid.as_slice()) {
            return Err(Dropped::UnknownConnection);
        }
        if record.epoch != self.epoch {
            return Err(Dropped::Epoch);
        }
        let number = record.number();
        self.window.check(number).map_err(|refusal| match refusal {
            replay::ReplayError::Late => Dropped::Late,
            replay::ReplayError::Duplicate => Dropped::Replayed,
        })?;
        let short = Dropped::Short;
        let (explicit, body) = record.fragment.split_at_checked(self.aead.explicit_len()).ok_or(short)?;
        let text_len = body.len().checked_sub(self.aead.tag_len()).ok_or(short)?;
        let (ciphertext, tag) = body.split_at_checked(text_len).ok_or(short)?;
        if text_len > MAX_PLAINTEXT + usize::from(with_cid) {
            return Err(Dropped::Overlong);
        }
        // The nonce is the one in the record, even if we would have chosen another.
        let spoken = explicit.first_chunk().map_or(number, |octets| u64::from_be_bytes(*octets));
        let text = out.get_mut(..text_len).ok_or(Dropped::Overlong)?;
        text.copy_from_slice(ciphertext);
        let aad = Aad::new(&record.header(), &self.cid, text_len);
        self.pool.open(spoken, aad.as_slice(), text, tag).map_err(|_| Dropped::Forged)?;
        let newest = number >= self.window.next();
        self.window.mark(number);
        if newest {
            self.pool.expect_from(spoken.wrapping_add(1));
        }
        if !with_cid {
            return Ok(Opened { content_type: record.content_type, len: text_len, newest });
        }
        match inner(text) {
            Some((content_type, len)) => Ok(Opened { content_type, len, newest }),
            None => Err(Dropped::NoType),
        }
    }

    /// Does at most `budget` preparation steps of about 64 octets. Returns the number done.
    #[inline]
    pub fn idle(&mut self, budget: u32) -> u32 {
        self.pool.idle(budget)
    }

    /// Changes the memory for prepared records: 13 KiB for [`SLOTS`](super::SLOTS) of them and an
    /// expanded key of up to 5 KiB, or nothing but the key, which is then expanded for each record.
    /// What was prepared is wiped.
    pub fn set_large(&mut self, large: bool) {
        self.pool.set_large(large);
    }

    /// Sets the length of plaintexts to prepare for.
    pub fn set_reach(&mut self, octets: usize) {
        self.pool.set_reach(octets.saturating_add(1));
    }

    /// One above the highest epoch and sequence number received.
    pub const fn next(&self) -> u64 {
        self.window.next()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({:?}, epoch {}, next {:#x})", self.aead, self.epoch, self.next())
    }
}
