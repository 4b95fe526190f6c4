//! The buffers of a frame under validation: its own, and that of its contents.

use core::ops::Range;

use antedate_aead::AuthenticationError;
use antedate_wire::macsec::{ICV_LEN, Mpdu, TAG_LEN_LONG};

use crate::macsec::pool::Open;

use super::ADDRESSES_LEN;

/// The lengths of a protected frame's parts: addresses and SecTAG, then secure data, then ICV.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// Octets of addresses and SecTAG.
    pub(super) header: usize,
    /// Octets of secure data.
    pub(super) data: usize,
}

impl Parts {
    pub(super) const fn of(mpdu: &Mpdu<'_>) -> Self {
        Self { header: mpdu.header.len(), data: mpdu.secure_data.len() }
    }

    /// The parts of a frame of `len` octets whose SecTAG has an SCI, if it is long enough.
    #[inline]
    pub(super) fn usual(len: usize) -> Option<Self> {
        let header = ADDRESSES_LEN + TAG_LEN_LONG;
        let data = len.checked_sub(header + ICV_LEN).filter(|data| *data > 0)?;
        Some(Self { header, data })
    }

    /// Octets of the frame without its SecTAG and ICV.
    pub(super) const fn opened(self) -> usize {
        ADDRESSES_LEN + self.data
    }

    const fn end(self) -> usize {
        self.header + self.data
    }
}

/// The buffers of a frame under validation: its own, and that of its contents.
pub(super) trait Place {
    /// The frame as received, until something is written.
    fn frame(&self) -> &[u8];

    /// Whether `octets` fit.
    fn holds(&self, octets: usize) -> bool;

    /// Decrypts the secure data if it is authentic. Otherwise nothing of it is output.
    fn open(&mut self, pool: &mut Open, number: u64, parts: Parts) -> Result<(), AuthenticationError>;

    /// Decrypts as [`open`](Self::open) does. If the packet is authentic, the following one is
    /// expected next.
    #[inline]
    fn open_next(&mut self, pool: &mut Open, number: u64, parts: Parts) -> Result<(), AuthenticationError> {
        self.open(pool, number, parts)?;
        pool.expect_from(number.saturating_add(1));
        Ok(())
    }

    /// Copies the secure data unchanged.
    fn deliver(&mut self, parts: Parts);

    /// Puts the addresses before the data, and returns the range of the whole.
    fn address(&mut self, parts: Parts) -> Range<usize>;

    /// The range of the whole frame after that.
    fn opened_at(&self, parts: Parts) -> Range<usize>;

    /// Copies a frame without SecTAG, and returns its range.
    fn untagged(&mut self) -> Range<usize>;
}

/// A frame with a separate output buffer.
pub(super) struct Apart<'a> {
    pub(super) frame: &'a [u8],
    pub(super) out: &'a mut [u8],
}

impl Place for Apart<'_> {
    #[inline]
    fn frame(&self) -> &[u8] {
        self.frame
    }

    #[inline]
    fn holds(&self, octets: usize) -> bool {
        octets <= self.out.len()
    }

    #[inline]
    fn open(&mut self, pool: &mut Open, number: u64, parts: Parts) -> Result<(), AuthenticationError> {
        let (header, rest) = self.frame.split_at(parts.header);
        let (data, rest) = rest.split_at(parts.data);
        let icv = rest.first_chunk::<ICV_LEN>().ok_or(AuthenticationError)?;
        pool.open(number, header, data, &mut self.out[ADDRESSES_LEN..parts.opened()], icv)
    }

    #[inline]
    fn deliver(&mut self, parts: Parts) {
        self.out[ADDRESSES_LEN..parts.opened()].copy_from_slice(&self.frame[parts.header..parts.end()]);
    }

    #[inline]
    fn address(&mut self, parts: Parts) -> Range<usize> {
        self.out[..ADDRESSES_LEN].copy_from_slice(&self.frame[..ADDRESSES_LEN]);
        self.opened_at(parts)
    }

    #[inline]
    fn opened_at(&self, parts: Parts) -> Range<usize> {
        0..parts.opened()
    }

    fn untagged(&mut self) -> Range<usize> {
        self.out[..self.frame.len()].copy_from_slice(self.frame);
        0..self.frame.len()
    }
}

/// A frame whose buffer is reused for its contents.
pub(super) struct InPlace<'a>(pub(super) &'a mut [u8]);

impl Place for InPlace<'_> {
    #[inline]
    fn frame(&self) -> &[u8] {
        self.0
    }

    #[inline]
    fn holds(&self, _: usize) -> bool {
        true
    }

    #[inline]
    fn open(&mut self, pool: &mut Open, number: u64, parts: Parts) -> Result<(), AuthenticationError> {
        let (header, rest) = self.0.split_at_mut(parts.header);
        let (data, rest) = rest.split_at_mut(parts.data);
        let icv = rest.first_chunk::<ICV_LEN>().ok_or(AuthenticationError)?;
        pool.open_in_place(number, header, data, icv)
    }

    #[inline(always)]
    fn open_next(&mut self, pool: &mut Open, number: u64, parts: Parts) -> Result<(), AuthenticationError> {
        let (header, rest) = self.0.split_at_mut_checked(parts.header).ok_or(AuthenticationError)?;
        let packet = rest.get_mut(..parts.data + ICV_LEN).ok_or(AuthenticationError)?;
        pool.open_next_in_place(number, header, packet)
    }

    #[inline]
    fn deliver(&mut self, _: Parts) {}

    #[inline]
    fn address(&mut self, parts: Parts) -> Range<usize> {
        // This overwrites the SecTAG. The addresses are four octets longer than the shorter SecTAG.
        let at = self.opened_at(parts);
        self.0.copy_within(..ADDRESSES_LEN, at.start);
        at
    }

    #[inline]
    fn opened_at(&self, parts: Parts) -> Range<usize> {
        parts.header - ADDRESSES_LEN..parts.end()
    }

    fn untagged(&mut self) -> Range<usize> {
        0..self.0.len()
    }
}
