//! Holes cut into pieces, one for each block of 16 bytes that a hole touches.

use crate::bytes::gather;

/// The bytes of a hole that are in one block.
///
/// The fields are consistent: the bytes `from..from + len` of a value of `value_len` bytes go to
/// `start..start + len` of a block. If all values come as one string, the piece's bytes start at
/// `joined`. Only [`Piece::cut`] makes a piece.
#[derive(Clone, Copy, Default)]
pub struct Piece {
    hole: u32,
    value_len: u32,
    from: u32,
    pub(super) joined: u32,
    pub(super) at: u32,
    start: u8,
    pub(super) len: u8,
    pub(super) in_payload: bool,
    pub(super) lead: bool,
}

impl Piece {
    /// Cuts a hole into pieces. `before` counts the bytes of the holes before it.
    pub(crate) fn cut(
        hole: u32,
        in_payload: bool,
        range: core::ops::Range<u32>,
        before: u32,
    ) -> impl Iterator<Item = Self> {
        let value_len = range.end - range.start;
        (range.start / 16..range.end.div_ceil(16)).map(move |block| {
            let at = 16 * block;
            let (start, end) = (range.start.max(at) - at, (range.end - at).min(16));
            let len = end - start;
            let from = at + start - range.start;
            let (start, len, joined) = (start as u8, len as u8, before + from);
            Self { hole, value_len, from, joined, at, start, len, in_payload, lead: true }
        })
    }

    /// The hole's index.
    #[inline]
    pub(crate) fn hole(&self) -> usize {
        self.hole as usize
    }

    /// Bytes of the whole hole.
    #[inline]
    pub(crate) fn value_len(&self) -> usize {
        self.value_len as usize
    }

    /// Offset of the piece in the hole's value.
    #[inline]
    pub(crate) fn from(&self) -> usize {
        self.from as usize
    }

    /// Offset of the block in its part.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at as usize
    }

    /// Offset of the piece in its block.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start.into()
    }

    /// Bytes of the piece.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether the piece is in the payload (else in the associated data).
    #[inline]
    pub(crate) fn in_payload(&self) -> bool {
        self.in_payload
    }

    /// Whether this is the first piece of its block. Pieces are in the packet's order.
    #[inline]
    pub(crate) fn lead(&self) -> bool {
        self.lead
    }

    /// The sort key: part, block, place.
    pub(super) fn order(&self) -> (bool, u32, u8) {
        (self.in_payload, self.at, self.start)
    }

    /// The number of the block, counted over associated data and payload.
    pub(crate) fn block(&self, shape: &Shape) -> usize {
        self.at() / 16 + if self.in_payload { shape.aad_blocks() } else { 0 }
    }

    /// The piece's bytes at their places in a block, with zeros around them.
    #[inline]
    pub(crate) fn block_of(&self, bytes: &[u8]) -> u128 {
        // A whole block is the usual case. Shifting 128 bits is slow on a small CPU.
        if let Ok(all) = bytes.try_into() {
            return u128::from_le_bytes(all);
        }
        gather(bytes) << (8 * self.start())
    }

    /// The piece's bytes of a packet's part, at their places in a block, with zeros around them.
    #[inline]
    pub(crate) fn of_part(&self, part: &[u8]) -> u128 {
        gather(&part[self.at() + self.start()..][..self.len()]) << (8 * self.start())
    }

    /// The whole block around the piece, with zeros after the part's end.
    #[inline]
    pub(crate) fn around(&self, part: &[u8]) -> u128 {
        gather(&part[self.at()..part.len().min(self.at() + 16)])
    }

    /// Copies the piece's bytes from a block into a part of a packet.
    #[inline]
    pub(crate) fn put(&self, block: u128, part: &mut [u8]) {
        let bytes = (block >> (8 * self.start())).to_le_bytes();
        part[self.at() + self.start()..][..self.len()].copy_from_slice(&bytes[..self.len()]);
    }

    /// The payload's block, if the piece covers all of it.
    #[cfg(not(target_pointer_width = "16"))]
    #[inline]
    pub(crate) fn whole_block<'a>(&self, payload: &'a mut [u8]) -> Option<&'a mut [u8; 16]> {
        if self.len < 16 || !self.in_payload {
            return None;
        }
        payload.get_mut(self.at()..)?.first_chunk_mut()
    }

    /// A mask of the piece's bytes.
    #[inline]
    pub(crate) fn bits(&self) -> u128 {
        if self.len == 16 {
            return u128::MAX;
        }
        (u128::MAX >> (128 - 8 * self.len())) << (8 * self.start())
    }
}

/// The block that begins at `at`, as a little-endian number.
#[inline]
pub(crate) fn block_at(bytes: &[u8], at: usize) -> u128 {
    bytes[at..].first_chunk().map_or(0, |block| u128::from_le_bytes(*block))
}

/// XORs into the block that begins at `at`, and returns the result.
#[inline]
pub(crate) fn xor_block_at(bytes: &mut [u8], at: usize, with: u128) -> u128 {
    bytes[at..].first_chunk_mut::<16>().map_or(0, |block| {
        let now = u128::from_le_bytes(*block) ^ with;
        *block = now.to_le_bytes();
        now
    })
}

/// Lengths of the two parts of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub(crate) aad: usize,
    pub(crate) payload: usize,
}

impl Shape {
    pub(crate) fn aad_blocks(&self) -> usize {
        self.aad.div_ceil(16)
    }

    /// Distance of a block from the end of a MAC that ends with a block of lengths, whose distance
    /// is 1.
    pub(crate) fn distance(&self, block: usize) -> usize {
        self.aad_blocks() + self.payload.div_ceil(16) + 1 - block
    }
}

/// A stretch of a packet: blocks of the associated data, then blocks of the payload. Only the last
/// block of a part may be short.
pub struct Stretch<'a> {
    /// The associated data, and the number of its first block.
    pub(crate) aad: &'a [u8],
    pub(crate) aad_from: usize,
    /// The payload, and the number of its first block.
    pub(crate) payload: &'a [u8],
    pub(crate) payload_from: usize,
    /// The key stream, and the place of the ciphertext: whole units of 64 bytes that cover the
    /// payload.
    pub(crate) body: &'a mut [u8],
}
