//! Templates as the suites see them: holes cut into pieces, one for each block of 16 bytes that a hole touches.
//!
//! A suite prepares the template's packet as if its holes were filled with zeros, and keeps a weight for each piece: what
//! the piece's bytes must be multiplied with in a polynomial MAC, or the block they are in for a block cipher. At the
//! deadline it goes over the pieces alone, so the time depends on where the holes are, and on nothing else.

use crate::{
    Template,
    engine::{Bytes, Engine},
};
use zeroize::Zeroize;

#[cfg(target_pointer_width = "64")]
pub(crate) use crate::filling::FillingOne;
pub(crate) use crate::filling::{Filling, Reading};

/// What of a hole lies in one block.
///
/// Its fields hold together: the bytes `from..from + len` of a value of `value_len` bytes go to `start..start + len`
/// of a block. Where all values are given as one string, the piece's bytes begin at
/// `joined`. Only [`Piece::cut`] makes one.
#[derive(Clone, Copy, Default)]
pub struct Piece {
    hole: u32,
    value_len: u32,
    from: u32,
    joined: u32,
    at: u32,
    start: u8,
    len: u8,
    in_payload: bool,
    lead: bool,
}

impl Piece {
    /// Cuts a hole into pieces; the holes before it have so many bytes.
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

    /// By part and place.
    fn order(&self) -> (bool, u32, u8) {
        (self.in_payload, self.at, self.start)
    }

    /// The number of the block, counted over associated data and payload.
    pub(crate) fn block(&self, shape: &Shape) -> usize {
        self.at() / 16 + if self.in_payload { shape.aad_blocks() } else { 0 }
    }

    /// The piece's bytes at their places in a block, zeros around them.
    #[inline]
    pub(crate) fn block_of(&self, bytes: &[u8]) -> u128 {
        // A whole block is the usual case, and 128 bits are much to move on a small CPU.
        if let Ok(all) = bytes.try_into() {
            return u128::from_le_bytes(all);
        }
        gather(bytes) << (8 * self.start())
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

    /// The block of the payload that the piece is all of, if it is.
    #[cfg(not(target_pointer_width = "16"))]
    #[inline]
    pub(crate) fn whole_block<'a>(&self, payload: &'a mut [u8]) -> Option<&'a mut [u8; 16]> {
        if self.len < 16 || !self.in_payload {
            return None;
        }
        payload.get_mut(self.at()..)?.first_chunk_mut()
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
pub(crate) fn gather(bytes: &[u8]) -> u128 {
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

/// XORs into the block that begins at `at`, and gives what it is then.
#[inline]
pub(crate) fn xor_block(bytes: &mut [u8], at: usize, with: u128) -> u128 {
    bytes[at..].first_chunk_mut::<16>().map_or(0, |block| {
        let now = u128::from_le_bytes(*block) ^ with;
        *block = now.to_le_bytes();
        now
    })
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

/// A piece and its weight. They are used together, so they share a line of the cache.
#[derive(Clone, Copy, Default)]
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
pub struct Spot<W> {
    pub(crate) weight: W,
    pub(crate) piece: Piece,
}

/// How far a packet is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Stage {
    /// Nothing secret is here.
    Empty,
    /// A nonce is here, and some work is done for it.
    Begun,
    /// Only the holes are left to do.
    Ready,
    /// As `Ready`, and there is one hole, a whole block of the payload.
    ReadyForOne,
    /// The packet is sealed.
    Sealed,
}

/// What a slot has of a template's packet besides its ciphertext: at the deadline nothing else is read.
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
pub struct Head<S: SparseEngine, const N: usize> {
    /// The MAC of the packet with zeros in its holes.
    pub(crate) sum: S::Sum,
    /// The tag of the packet that was sealed.
    pub(crate) tag: S::TagBytes,
    /// The pieces in use, and the holes they come from.
    pub(crate) count: u32,
    pub(crate) holes: u32,
    /// The bytes of all holes.
    pub(crate) joined: u32,
    /// What the body must have, for the payload's pieces to be whole blocks of it.
    pub(crate) reach: u32,
    /// Whether the first piece is that of the first value's first byte.
    pub(crate) in_turn: bool,
    pub(crate) stage: Stage,
    pub(crate) spots: [Spot<S::Weight>; N],
}

impl<S: SparseEngine, const N: usize> Head<S, N> {
    /// A head without a packet.
    pub(crate) fn new() -> Self {
        Self {
            sum: S::Sum::default(),
            tag: S::TagBytes::ZERO,
            count: 0,
            holes: 0,
            joined: 0,
            reach: 0,
            in_turn: false,
            stage: Stage::Empty,
            spots: [Spot::default(); N],
        }
    }

    /// Takes a template's holes; returns the pieces they are cut into if those are too many.
    pub(crate) fn fit(&mut self, template: &Template<'_>) -> Result<(), usize> {
        let mut count = 0;
        // By `for_each`: the compiler has the pieces in registers then, and not in an iterator's state that is written by words and
        // read by vectors.
        template.pieces().for_each(|piece| {
            if let Some(places) = self.spots.get_mut(..=count) {
                // Holes may come in any order; most are in that of the packet.
                let mut place = count;
                while place > 0 && places[place - 1].piece.order() > piece.order() {
                    places[place].piece = places[place - 1].piece;
                    place -= 1;
                }
                places[place].piece = piece;
            }
            count += 1;
        });
        let spots = self.spots.get_mut(..count).ok_or(count)?;
        let mut before = None;
        (self.joined, self.reach) = (0, 0);
        for Spot { piece, .. } in spots.iter_mut() {
            let block = (piece.in_payload, piece.at);
            piece.lead = before != Some(block);
            before = Some(block);
            self.joined += u32::from(piece.len);
            if piece.in_payload {
                self.reach = piece.at + 16;
            }
        }
        self.in_turn = spots.first().is_some_and(|spot| spot.piece.joined == 0);
        (self.count, self.holes) = (count as u32, template.holes().len() as u32);
        Ok(())
    }

    /// Only the holes are left to do. The body has so much room.
    pub(crate) fn ready(&mut self, room: usize) {
        let one = matches!(self.spots(), [Spot { piece, .. }] if piece.in_payload && piece.len == 16);
        let one = cfg!(target_pointer_width = "64") && one && self.reach as usize <= room;
        self.stage = if one { Stage::ReadyForOne } else { Stage::Ready };
    }

    /// The pieces and their weights, in the order of the packet.
    #[inline]
    pub(crate) fn spots(&self) -> &[Spot<S::Weight>] {
        &self.spots[..N.min(self.count as usize)]
    }

    /// The pieces with their weights, in the order of the packet.
    #[inline]
    pub(crate) fn weighted(&self) -> impl Iterator<Item = (&Piece, &S::Weight)> {
        self.spots().iter().map(|spot| (&spot.piece, &spot.weight))
    }

    /// The pieces, in the order of the packet.
    #[inline]
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.spots().iter().map(|spot| &spot.piece)
    }

    /// Wipes the sum and the weights.
    #[inline]
    pub(crate) fn wipe(&mut self) {
        self.sum.zeroize();
        let count = N.min(self.count as usize);
        self.spots[..count].iter_mut().for_each(|spot| spot.weight.zeroize());
    }
}

/// Values for the holes.
pub trait Values: Copy {
    /// Whether each hole has a value of its length.
    fn fit<S: SparseEngine, const N: usize>(self, head: &Head<S, N>) -> bool;

    /// The piece's bytes.
    fn bytes(&self, piece: &Piece) -> &[u8];

    /// The value, if there is one and it is a whole block.
    #[cfg(target_pointer_width = "64")]
    fn one_block(&self) -> Option<&[u8; 16]>;

    /// The first byte of the first value.
    #[cfg(target_arch = "x86_64")]
    fn first(&self) -> *const u8;

    /// Where the piece's bytes begin.
    ///
    /// # Safety
    /// The values fit the head that the piece is of.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn at(&self, piece: &Piece) -> *const u8;
}

/// A value for each hole.
#[derive(Clone, Copy)]
pub(crate) struct Apart<'a>(pub(crate) &'a [&'a [u8]]);

impl Values for Apart<'_> {
    #[inline(always)]
    fn fit<S: SparseEngine, const N: usize>(self, head: &Head<S, N>) -> bool {
        let fits = |piece: &Piece| self.0.get(piece.hole()).is_some_and(|v| v.len() == piece.value_len());
        self.0.len() == head.holes as usize && head.pieces().all(fits)
    }

    #[inline]
    fn bytes(&self, piece: &Piece) -> &[u8] {
        &self.0[piece.hole()][piece.from()..][..piece.len()]
    }

    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn one_block(&self) -> Option<&[u8; 16]> {
        let [value] = self.0 else { return None };
        (*value).try_into().ok()
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    fn first(&self) -> *const u8 {
        self.0.first().map_or(core::ptr::null(), |value| value.as_ptr())
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn at(&self, piece: &Piece) -> *const u8 {
        // SAFETY: the values fit (caller), so the piece's hole has one.
        unsafe { self.0.get_unchecked(piece.hole()) }.as_ptr().wrapping_add(piece.from())
    }
}

/// The values of all holes, one behind the other.
#[derive(Clone, Copy)]
pub(crate) struct Joined<'a>(pub(crate) &'a [u8]);

impl Values for Joined<'_> {
    #[inline(always)]
    fn fit<S: SparseEngine, const N: usize>(self, head: &Head<S, N>) -> bool {
        self.0.len() == head.joined as usize
    }

    #[inline]
    fn bytes(&self, piece: &Piece) -> &[u8] {
        &self.0[piece.joined as usize..][..piece.len()]
    }

    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn one_block(&self) -> Option<&[u8; 16]> {
        self.0.try_into().ok()
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    fn first(&self) -> *const u8 {
        self.0.as_ptr()
    }

    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn at(&self, piece: &Piece) -> *const u8 {
        self.0.as_ptr().wrapping_add(piece.joined as usize)
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

    /// Prepares a whole packet of a template at once: what [`absorb`](Self::absorb), [`close`](Self::close) and
    /// [`weigh`](Self::weigh) do one after the other. False if the suite has no shorter way than that, and nothing was done.
    #[cfg(target_arch = "x86_64")]
    fn prepare_whole(
        _key: &Self::Key,
        _nonce: &Self::NonceBytes,
        _sum: &mut Self::Sum,
        _spots: &mut [Spot<Self::Weight>],
        _template: &Template<'_>,
        _body: &mut [u8],
    ) -> bool {
        false
    }

    /// Encrypts a stretch of the template's packet, whatever is in its holes, and adds it to the MAC. Stretches come in
    /// the order of the packet.
    fn absorb(
        key: &Self::Key,
        once: &Self::OneTime,
        sum: &mut Self::Sum,
        spots: &[Spot<Self::Weight>],
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
    fn fill<V: Values, const N: usize>(key: &Self::Key, filling: Filling<'_, Self, V, N>);

    /// As [`fill`](Self::fill), for one value that is a whole block, which is the usual packet: nothing is looked up before its
    /// multiplication begins. False if the suite has no shorter way, and nothing was done.
    #[inline(always)]
    #[cfg(target_pointer_width = "64")]
    fn fill_one<const N: usize>(_filling: FillingOne<'_, Self, N>) -> bool {
        false
    }

    /// Decrypts what lies in pieces (with [`BY_BLOCK`](Self::BY_BLOCK) all of their blocks) and returns the tag that
    /// the packet should have. All else was found to be as prepared.
    fn check<const N: usize>(key: &Self::Key, reading: Reading<'_, Self, N>) -> Self::TagBytes;
}
