//! The MAC and the weights of a packet with holes.

use super::{piece::Piece, template::Template};
use crate::bytes::{Bytes, Tagged};
use zeroize::Zeroize;

/// A MAC of a packet with holes: a sum over the known bytes, and a weight for each piece.
pub trait WeightedMac: Tagged {
    /// The MAC of the known bytes.
    type Sum: Default + Zeroize;
    /// The factor of a piece, or its block for a block cipher.
    type Weight: Default + Copy + Zeroize;
}

/// A piece and its weight. They are used together, so they share a cache line.
#[derive(Clone, Copy, Default)]
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
pub struct Spot<W> {
    pub(crate) weight: W,
    pub(crate) piece: Piece,
}

/// The state of a template's packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Stage {
    /// The slot holds no secret.
    Empty,
    /// The slot has a nonce, and some work is done.
    Begun,
    /// Only the holes are left.
    Ready,
    /// As `Ready`, with one hole that is a whole block of the payload.
    ReadyForOne,
    /// The packet is sealed.
    Sealed,
}

/// A template's packet without its ciphertext. Filling the holes reads nothing else.
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
pub struct Head<S: WeightedMac, const N: usize> {
    /// The MAC of the packet with zeros in its holes.
    pub(crate) sum: S::Sum,
    /// The tag of the sealed packet.
    pub(crate) tag: S::TagBytes,
    /// The pieces in use, and their holes.
    pub(crate) count: u32,
    pub(crate) holes: u32,
    /// The bytes of all holes.
    pub(crate) joined: u32,
    /// Least length of the body, for whole blocks at the payload's pieces.
    pub(crate) reach: u32,
    /// Whether the first piece starts with the first byte of the first value.
    pub(crate) in_turn: bool,
    pub(crate) stage: Stage,
    pub(crate) spots: [Spot<S::Weight>; N],
}

impl<S: WeightedMac, const N: usize> Head<S, N> {
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

    /// Takes a template's holes. If they have too many pieces, returns the number of pieces.
    pub(crate) fn fit(&mut self, template: &Template<'_>) -> Result<(), usize> {
        let mut count = 0;
        // With `for_each` the compiler keeps the pieces in registers. An iterator's state would be
        // written by words and read by vectors.
        template.pieces().for_each(|piece| {
            if let Some(places) = self.spots.get_mut(..=count) {
                // Holes may come in any order; most come in the packet's.
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

    /// Marks the packet as ready; the body has `room` bytes.
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
