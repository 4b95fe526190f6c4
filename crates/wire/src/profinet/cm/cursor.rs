//! Big-endian reading and writing of blocks, one field after the other.

use super::{BlockType, VERSION};
use crate::bytes::put16;
use crate::{Error, Result};

/// Reads fields from the front of octets.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader of these octets.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The octets that are not yet read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next `len` octets.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next `N` octets.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// The next 16 bits.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }
}

/// Writes fields one behind the other.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// A writer to the front of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    /// Octets written.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.at
    }

    /// Whether nothing is written yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Writes octets.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.at + bytes.len();
        self.buffer.get_mut(self.at..end).ok_or(Error::Truncated)?.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Writes 16 bits.
    pub fn u16(&mut self, value: u16) -> Result<()> {
        self.put(&value.to_be_bytes())
    }

    /// Writes 32 bits.
    pub fn u32(&mut self, value: u32) -> Result<()> {
        self.put(&value.to_be_bytes())
    }

    /// Writes a block around its body.
    pub fn block(&mut self, kind: BlockType, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.u16(kind.number())?;
        let length_at = self.at;
        self.u16(0)?;
        self.put(&VERSION)?;
        body(self)?;
        let len = u16::try_from(self.at - length_at - 2).map_err(|_| Error::Length)?;
        put16(self.buffer, length_at, len);
        Ok(())
    }
}
