//! Filling the holes of ChaCha20-Poly1305 on any CPU: the work left at the deadline.

use super::poly1305::Limbs;
#[cfg(not(target_pointer_width = "64"))]
use super::poly1305::Sum;
#[cfg(target_pointer_width = "64")]
use super::poly1305_weights::Sum;
use crate::holes::{Head, Spot, Values, WeightedMac, block_at};
#[cfg(not(target_pointer_width = "16"))]
use crate::holes::{Piece, xor_block_at};
use zeroize::Zeroize;

#[cfg(not(target_pointer_width = "64"))]
pub(crate) use super::poly1305::Limbs as Weight;
#[cfg(target_pointer_width = "64")]
pub(crate) use super::poly1305_weights::Weight;

/// The polynomial of a prepared packet, and s.
#[derive(Clone, Default)]
pub struct Prepared {
    pub(crate) polynomial: Limbs,
    pub(crate) s: [u8; 16],
    #[cfg(target_arch = "x86_64")]
    pub(crate) avx512: Option<crate::backend::cpu::x86::Avx512>,
}

impl Zeroize for Prepared {
    #[inline]
    fn zeroize(&mut self) {
        // One after the other: a small CPU writes each in line, but would call a function for both.
        self.polynomial = Limbs::default();
        zeroize::optimization_barrier(&self.polynomial);
        self.s = [0; 16];
        zeroize::optimization_barrier(self);
    }
}

/// The MAC of ChaCha20-Poly1305 with holes.
pub(crate) trait Mac: WeightedMac<Sum = Prepared, Weight = Weight, TagBytes = [u8; 16]> {}

impl<S: WeightedMac<Sum = Prepared, Weight = Weight, TagBytes = [u8; 16]>> Mac for S {}

/// `SparseEngine::fill` on any CPU. Wipes each weight after use.
#[cfg(not(target_pointer_width = "16"))]
#[inline(never)]
pub(crate) fn fill<S: Mac, V: Values, const N: usize>(head: &mut Head<S, N>, values: V, body: &mut [u8]) {
    fill_in_turn(head, values, body);
}

/// `SparseEngine::fill_one` on any 64-bit CPU.
#[cfg(target_pointer_width = "64")]
#[inline]
pub(crate) fn fill_one<S: Mac, const N: usize>(
    head: &mut Head<S, N>,
    value: &[u8; 16],
    body: &mut [u8],
) -> bool {
    let Some(Spot { piece, weight }) = head.spots.first_mut() else { return false };
    let Some(block) = piece.whole_block(body) else { return false };
    let mut sum = Sum::from(&head.sum.polynomial);
    sum.fill(weight, value, block);
    head.tag = sum.tag(&head.sum.s);
    head.sum.zeroize();
    true
}

/// Like [`fill`], for inlining into functions with more target features.
#[cfg(not(target_pointer_width = "16"))]
#[inline(always)]
pub(crate) fn fill_in_turn<S: Mac, V: Values, const N: usize>(
    head: &mut Head<S, N>,
    values: V,
    body: &mut [u8],
) {
    let mut sum = Sum::from(&head.sum.polynomial);
    let count = head.count as usize;
    // Loops over the array and not a slice of it, so that a slot for one piece has no loop.
    for (i, Spot { piece, weight }) in head.spots.iter_mut().enumerate() {
        if i >= count {
            break;
        }
        if N >= 64 {
            sum.make_room(i);
        }
        let bytes = values.bytes(piece);
        // Usually a whole block.
        if let (16, Some(value), Some(block)) = (bytes.len(), bytes.first_chunk(), piece.whole_block(body)) {
            sum.fill(weight, value, block);
        } else {
            fill_part(&mut sum, weight, piece, bytes, body);
        }
    }
    head.tag = sum.tag(&head.sum.s);
    head.sum.zeroize();
}

/// `Sum::fill` for a piece that is not a whole block of payload.
#[cfg(not(target_pointer_width = "16"))]
#[inline(never)]
fn fill_part(sum: &mut Sum, weight: &mut Weight, piece: &Piece, bytes: &[u8], body: &mut [u8]) {
    let mut value = piece.block_of(bytes);
    if piece.in_payload() {
        value = xor_block_at(body, piece.at(), value) & piece.bits();
    }
    add(sum, value, weight);
    weight.zeroize();
}

/// Like the other `fill`, byte by byte and in place, for a CPU that shifts one bit at a time: moves
/// no 128-bit numbers.
#[cfg(target_pointer_width = "16")]
#[inline(never)]
pub(crate) fn fill<S: Mac, V: Values, const N: usize>(head: &mut Head<S, N>, values: V, body: &mut [u8]) {
    let Head { sum, spots, count, tag, .. } = head;
    for Spot { piece, weight } in &spots[..N.min(*count as usize)] {
        let (mut block, bytes) = (super::poly1305::Block::default(), values.bytes(piece));
        let place = &mut block.0[piece.start()..][..bytes.len()];
        if piece.in_payload() {
            let there = &mut body[piece.at() + piece.start()..][..bytes.len()];
            for ((to, there), byte) in place.iter_mut().zip(there).zip(bytes) {
                *there ^= *byte;
                *to = *there;
            }
        } else {
            place.copy_from_slice(bytes);
        }
        sum.polynomial.add_block(&block, weight);
    }
    sum.polynomial.tag_to(&sum.s, tag);
    head.wipe();
}

/// `SparseEngine::check` on any CPU.
#[inline(never)]
pub(crate) fn check<S: Mac, const N: usize>(
    head: &Head<S, N>,
    aad: &[u8],
    src: &[u8],
    body: &[u8],
    dst: &mut [u8],
) -> [u8; 16] {
    check_here(head, aad, src, body, dst)
}

/// Like [`check`], for inlining into functions with more target features.
#[inline(always)]
pub(crate) fn check_here<S: Mac, const N: usize>(
    head: &Head<S, N>,
    aad: &[u8],
    src: &[u8],
    body: &[u8],
    dst: &mut [u8],
) -> [u8; 16] {
    let mut sum = Sum::from(&head.sum.polynomial);
    for (i, Spot { piece, weight }) in head.spots().iter().enumerate() {
        if N >= 64 {
            sum.make_room(i);
        }
        let value = piece.of_part(if piece.in_payload() { src } else { aad });
        if piece.in_payload() {
            piece.put(value ^ block_at(body, piece.at()), dst);
        }
        add(&mut sum, value, weight);
    }
    sum.tag(&head.sum.s)
}

/// Adds a value, without the bit 2^128, times its weight.
#[inline(always)]
fn add(sum: &mut Sum, value: u128, weight: &Weight) {
    #[cfg(target_pointer_width = "64")]
    sum.add(value, weight);
    #[cfg(not(target_pointer_width = "64"))]
    sum.add(&Limbs::split(value), weight);
}
