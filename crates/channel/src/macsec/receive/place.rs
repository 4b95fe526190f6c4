//! Where a frame lies that is validated, and where what it holds is put.

use core::ops::Range;

use antedate_aead::AuthenticationError;
use antedate_wire::macsec::{ICV_LEN, Mpdu, TAG_LEN_LONG};

use crate::macsec::pool::Open;

use super::ADDRESSES_LEN;

/// How far the parts of a protected frame reach: addresses and SecTAG, then the secure data, then the ICV.
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

    /// Those of a frame of so many octets whose SecTAG has an SCI, if it is long enough.
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

/// Where a frame lies that is validated, and where what it holds is put.
pub(super) trait Place {
    /// The frame as it came, until something was put.
    fn frame(&self) -> &[u8];

    /// Whether there is room for so many octets.
    fn holds(&self, octets: usize) -> bool;

    /// Decrypts the secure data if it is authentic. Otherwise nothing of it is there.
    fn open(&mut self, pool: &mut Open, number: u64, parts: Parts) -> Result<(), AuthenticationError>;

    /// As [`open`](Self::open), and expects the packet behind this one next if it is authentic.
    #[inline]
    fn open_next(&mut self, pool: &mut Open, number: u64, parts: Parts) -> Result<(), AuthenticationError> {
        self.open(pool, number, parts)?;
        pool.expect_from(number.saturating_add(1));
        Ok(())
    }

    /// Puts the secure data as it is.
    fn deliver(&mut self, parts: Parts);

    /// Puts the addresses in front of the data, and tells where the whole is.
    fn address(&mut self, parts: Parts) -> Range<usize>;

    /// Where the whole is then.
    fn opened_at(&self, parts: Parts) -> Range<usize>;

    /// Puts a frame without SecTAG, and tells where it is.
    fn untagged(&mut self) -> Range<usize>;
}

/// A frame, and another place for what it holds.
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

/// A frame that gives its place to what it holds.
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
        // What is written over is the SecTAG; the addresses are as long as the shorter one and four octets more.
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
