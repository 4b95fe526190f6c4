//! Templates as the suites see them: holes cut into pieces, one for each block of 16 bytes that a hole touches.
//!
//! A suite prepares the template's packet as if its holes were filled with zeros, and keeps a weight for each piece: what
//! the piece's bytes must be multiplied with in a polynomial MAC, or the block they are in for a block cipher. At the
//! deadline it goes over the pieces alone, so the time depends on where the holes are, and on nothing else.

use crate::engine::Engine;
use zeroize::Zeroize;

/// What of a hole lies in one block.
///
/// Its fields hold together: the bytes `from..from + len` of a value of `value_len` bytes go to `start..start + len`
/// of a block, which `mask` has a bit each for. Only [`Piece::cut`] makes one.
#[derive(Clone, Copy, Default)]
pub struct Piece {
    hole: u32,
    value_len: u32,
    from: u32,
    at: u32,
    mask: u32,
    start: u8,
    len: u8,
    in_payload: bool,
    lead: bool,
}

impl Piece {
    /// Cuts a hole into pieces.
    pub(crate) fn cut(
        hole: u32,
        in_payload: bool,
        range: core::ops::Range<u32>,
    ) -> impl Iterator<Item = Self> {
        let value_len = range.end - range.start;
        (range.start / 16..range.end.div_ceil(16)).map(move |block| {
            let at = 16 * block;
            let (start, end) = (range.start.max(at) - at, (range.end - at).min(16));
            let len = end - start;
            let mask = (0xffff >> (16 - len)) << start;
            let from = at + start - range.start;
            let (start, len) = (start as u8, len as u8);
            Self { hole, value_len, from, at, mask, start, len, in_payload, lead: true }
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

    /// The first of the value's bytes that are in this piece.
    #[inline]
    pub(crate) fn from(&self) -> usize {
        self.from as usize
    }

    /// Where the block begins in its part.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at as usize
    }

    /// Where the piece begins in its block.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start.into()
    }

    /// Bytes of the piece.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    /// A bit for each byte of the block that the piece has.
    #[inline]
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn mask(&self) -> u16 {
        self.mask as u16
    }

    /// Whether it is of the payload, and not of the associated data.
    #[inline]
    pub(crate) fn in_payload(&self) -> bool {
        self.in_payload
    }

    /// Whether it is the first piece of its block. (Pieces are in the order of the packet.)
    #[inline]
    pub(crate) fn lead(&self) -> bool {
        self.lead
    }

    pub(crate) fn set_lead(&mut self, lead: bool) {
        self.lead = lead;
    }

    /// By part and place.
    pub(crate) fn order(&self) -> (bool, u32, u8) {
        (self.in_payload, self.at, self.start)
    }

    /// The number of the block, counted over associated data and payload.
    pub(crate) fn block(&self, shape: &Shape) -> usize {
        self.at() / 16 + if self.in_payload { shape.aad_blocks() } else { 0 }
    }

    /// The piece's bytes of its value at their places in a block, zeros around them.
    #[inline]
    pub(crate) fn of(&self, value: &[u8]) -> u128 {
        // A whole block is the usual case, and 128 bits are much to move on a small CPU.
        if let (16, Some(all)) = (self.len, value.get(self.from()..).and_then(<[u8]>::first_chunk)) {
            return u128::from_le_bytes(*all);
        }
        gather(&value[self.from()..][..self.len()]) << (8 * self.start())
    }

    /// The piece's bytes of its part of a packet at their places in a block, zeros around them.
    #[inline]
    pub(crate) fn of_part(&self, part: &[u8]) -> u128 {
        gather(&part[self.at() + self.start()..][..self.len()]) << (8 * self.start())
    }

    /// The whole block of a part that the piece is in, zeros behind the part's end.
    #[inline]
    pub(crate) fn around(&self, part: &[u8]) -> u128 {
        gather(&part[self.at()..part.len().min(self.at() + 16)])
    }

    /// Puts the piece's bytes of a block to their place in a part of a packet.
    #[inline]
    pub(crate) fn put(&self, block: u128, part: &mut [u8]) {
        let bytes = (block >> (8 * self.start())).to_le_bytes();
        part[self.at() + self.start()..][..self.len()].copy_from_slice(&bytes[..self.len()]);
    }

    /// All bits of the piece's bytes.
    #[inline]
    pub(crate) fn bits(&self) -> u128 {
        if self.len == 16 {
            return u128::MAX;
        }
        (u128::MAX >> (128 - 8 * self.len())) << (8 * self.start())
    }
}

/// Up to 16 bytes as a little-endian number. The way depends on how many they are.
#[inline]
fn gather(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    if let Some(all) = bytes.first_chunk::<16>() {
        u128::from_le_bytes(*all)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << (8 * (len - 8))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u128::from(
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4)),
        )
    } else {
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

/// The block that begins at `at`, as a little-endian number.
#[inline]
pub(crate) fn block(bytes: &[u8], at: usize) -> u128 {
    bytes[at..].first_chunk().map_or(0, |block| u128::from_le_bytes(*block))
}

/// XORs into the block that begins at `at`.
#[inline]
pub(crate) fn xor_block(bytes: &mut [u8], at: usize, with: u128) {
    if let Some(block) = bytes[at..].first_chunk_mut::<16>() {
        *block = (u128::from_le_bytes(*block) ^ with).to_le_bytes();
    }
}

/// The bytes of the two parts of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub(crate) aad: usize,
    pub(crate) payload: usize,
}

impl Shape {
    pub(crate) fn aad_blocks(&self) -> usize {
        self.aad.div_ceil(16)
    }

    /// The distance of a block from the end of a MAC that ends with one block of lengths; that one has distance 1.
    pub(crate) fn distance(&self, block: usize) -> usize {
        self.aad_blocks() + self.payload.div_ceil(16) + 1 - block
    }
}

/// A stretch of a packet: blocks of the associated data, and behind them blocks of the payload. Only the last block of
/// a part may be short.
pub struct Stretch<'a> {
    /// The associated data, and the number of its first block.
    pub(crate) aad: &'a [u8],
    pub(crate) aad_from: usize,
    /// The payload, and the number of its first block.
    pub(crate) payload: &'a [u8],
    pub(crate) payload_from: usize,
    /// Where the ciphertext is to be, and the cipherstream is; whole units of 64 bytes that cover the payload.
    pub(crate) body: &'a mut [u8],
}

/// What a slot has of a template's packet besides its ciphertext.
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
pub(crate) struct Head<S: SparseEngine, const N: usize> {
    /// The MAC of the packet with zeros in its holes.
    pub(crate) sum: S::Sum,
    /// The tag of the packet that was sealed.
    pub(crate) tag: S::TagBytes,
    /// The pieces in use, and the holes they come from.
    pub(crate) count: usize,
    pub(crate) holes: usize,
    pub(crate) weights: [S::Weight; N],
    pub(crate) pieces: [Piece; N],
}

impl<S: SparseEngine, const N: usize> Head<S, N> {
    /// The pieces, in the order of the packet.
    #[inline]
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.count.min(N)]
    }

    /// The pieces with their weights.
    #[inline]
    pub(crate) fn weighted(&self) -> impl Iterator<Item = (&Piece, &S::Weight)> {
        self.pieces().iter().zip(&self.weights)
    }

    /// Wipes the sum and the weights.
    #[inline]
    pub(crate) fn wipe(&mut self) {
        self.sum.zeroize();
        let count = self.count.min(N);
        self.weights[..count].iter_mut().for_each(Zeroize::zeroize);
    }
}

/// Values for the holes of a packet, checked to fit: each piece has its value, and each of the payload its block.
pub struct Filling<'a, S: SparseEngine, const N: usize> {
    head: &'a mut Head<S, N>,
    values: &'a [&'a [u8]],
    body: &'a mut [u8],
}

impl<'a, S: SparseEngine, const N: usize> Filling<'a, S, N> {
    /// Returns `None` if a value is missing, too much, or of another length than its hole.
    #[inline]
    pub(crate) fn new(head: &'a mut Head<S, N>, values: &'a [&'a [u8]], body: &'a mut [u8]) -> Option<Self> {
        let mut fits = values.len() == head.holes;
        for piece in head.pieces() {
            let there = values.get(piece.hole()).is_some_and(|value| value.len() == piece.value_len());
            fits &= there & (piece.at() + 16 <= body.len() || !piece.in_payload());
        }
        fits.then_some(Self { head, values, body })
    }

    /// The head, the values and the body.
    #[inline]
    pub(crate) fn parts(self) -> (&'a mut Head<S, N>, &'a [&'a [u8]], &'a mut [u8]) {
        (self.head, self.values, self.body)
    }
}

/// A packet that came and has the template's lengths.
pub struct Reading<'a, S: SparseEngine, const N: usize> {
    head: &'a Head<S, N>,
    aad: &'a [u8],
    src: &'a [u8],
    body: &'a [u8],
    dst: &'a mut [u8],
}

impl<'a, S: SparseEngine, const N: usize> Reading<'a, S, N> {
    /// Returns `None` if the parts are shorter than a piece needs.
    #[inline]
    pub(crate) fn new(
        head: &'a Head<S, N>,
        aad: &'a [u8],
        src: &'a [u8],
        body: &'a [u8],
        dst: &'a mut [u8],
    ) -> Option<Self> {
        let mut fits = src.len() == dst.len();
        for piece in head.pieces() {
            let part = if piece.in_payload() { src.len() } else { aad.len() };
            fits &= piece.at() + piece.start() + piece.len() <= part;
            fits &= piece.at() + 16 <= body.len() || !piece.in_payload();
        }
        fits.then_some(Self { head, aad, src, body, dst })
    }

    /// The head, the associated data, the ciphertext, the body, and where the plaintext goes.
    #[inline]
    #[allow(clippy::type_complexity)]
    pub(crate) fn parts(self) -> (&'a Head<S, N>, &'a [u8], &'a [u8], &'a [u8], &'a mut [u8]) {
        (self.head, self.aad, self.src, self.body, self.dst)
    }
}

/// A suite whose packets can be prepared for a template with holes anywhere.
pub trait SparseEngine: Engine {
    /// The MAC of what is known.
    type Sum: Default + Zeroize;
    /// What is kept for a piece.
    type Weight: Default + Copy + Zeroize;

    /// Whether a hole changes the whole ciphertext block that it touches, and not its own bytes alone.
    const BY_BLOCK: bool;

    /// Encrypts a stretch of the template's packet, whatever is in its holes, and adds it to the MAC. Stretches come in
    /// the order of the packet.
    fn absorb(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &mut Self::Sum,
        pieces: &[Piece],
        stretch: Stretch<'_>,
    );

    /// Ends the MAC, when all blocks are absorbed.
    fn close(key: &Self::Key, once: &Self::OneTime, sum: &mut Self::Sum, shape: &Shape);

    /// The piece's weight, after `close`. Takes out of the sum and the body what the template had in the piece, whose
    /// whole block is given (see [`Piece::around`]), so that the piece holds zeros from now on.
    fn weigh(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &mut Self::Sum,
        shape: &Shape,
        piece: &Piece,
        block: u128,
        body: &mut [u8],
    ) -> Self::Weight;

    /// Puts values into the packet and writes its tag; wipes the sum and the weights.
    fn fill<const N: usize>(key: &Self::Key, filling: Filling<'_, Self, N>);

    /// Decrypts what lies in pieces (with [`BY_BLOCK`](Self::BY_BLOCK) all of their blocks) and returns the tag that
    /// the packet should have. All else was found to be as prepared.
    fn check<const N: usize>(key: &Self::Key, reading: Reading<'_, Self, N>) -> Self::TagBytes;
}
