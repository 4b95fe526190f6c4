//! The holes of AES-OCB3, for any AES: the blocks that holes touch, and the tag.

use crate::holes::{Filling, Reading, Values, WeightedMac};
use zeroize::Zeroize;

/// The MAC of a prepared packet.
#[derive(Default)]
pub struct Sum {
    /// The XOR of the plaintext blocks with zeros in the holes, and in the end with the tag's
    /// offset: the input of the tag's encryption.
    pub(crate) checksum: u128,
    /// HASH of the associated data's blocks without holes.
    pub(crate) hash: u128,
}

impl Zeroize for Sum {
    #[inline]
    fn zeroize(&mut self) {
        (self.checksum, self.hash) = (0, 0);
        zeroize::optimization_barrier(self);
    }
}

/// The weight of a piece. The block belongs to its first piece.
#[derive(Clone, Copy, Default)]
pub struct Weight {
    /// The cipher's input with zeros in the holes. For a partial last block of the payload, the
    /// plaintext and its padding, which need no encryption. For a further piece of a block, the
    /// template's bytes in it.
    pub(crate) input: u128,
    /// The block's offset, added to the cipher's output. For a partial last block, the difference
    /// of `input` and the ciphertext.
    pub(crate) offset: u128,
    /// 1 if the cipher is needed, else 0. As wide as the other fields, so that there is no unwiped
    /// padding.
    pub(crate) ciphered: u128,
}

impl Zeroize for Weight {
    #[inline]
    fn zeroize(&mut self) {
        *self = Self::default();
        zeroize::optimization_barrier(self);
    }
}

/// The MAC of AES-OCB3 with holes.
pub(crate) trait Mac: WeightedMac<Sum = Sum, Weight = Weight, TagBytes = [u8; 16]> {}

impl<S: WeightedMac<Sum = Sum, Weight = Weight, TagBytes = [u8; 16]>> Mac for S {}

/// Length of the block that begins at `at` in a part of `len` bytes.
pub(crate) fn bytes_in_block(at: usize, len: usize) -> usize {
    (len - at).min(16)
}

/// The padding mark after the last byte of a partial block.
pub(crate) fn mark(bytes: usize) -> u128 {
    (0x80u128 << (8 * bytes)).to_le()
}

/// Puts values into a packet block by block, with any cipher.
#[inline]
pub(crate) fn fill<S: Mac, V: Values, const N: usize>(
    filling: Filling<'_, S, V, N>,
    encrypt: impl Fn(&mut [u128]),
) {
    let (head, values, body) = filling.parts();
    // The tag depends on the values alone, so it is encrypted with the first block.
    let mut checksum = head.sum.checksum;
    for piece in head.pieces().filter(|piece| piece.in_payload()) {
        checksum ^= piece.block_of(values.bytes(piece)).to_le();
    }
    let (mut hash, mut tag) = (head.sum.hash, None);
    let mut pieces = head.weighted().peekable();
    while let Some((piece, weight)) = pieces.next() {
        let mut input = weight.input ^ piece.block_of(values.bytes(piece)).to_le();
        while let Some((piece, weight)) = pieces.next_if(|(piece, _)| !piece.lead()) {
            input ^= weight.input ^ piece.block_of(values.bytes(piece)).to_le();
        }
        if weight.ciphered == 1 {
            if tag.is_none() {
                let mut both = [input, checksum];
                encrypt(&mut both);
                (input, tag) = (both[0], Some(both[1]));
            } else {
                let mut one = [input];
                encrypt(&mut one);
                input = one[0];
            }
        }
        if piece.in_payload() {
            body[piece.at()..][..16].copy_from_slice(&(input ^ weight.offset).to_ne_bytes());
        } else {
            hash ^= input;
        }
    }
    let tag = tag.unwrap_or_else(|| {
        let mut one = [checksum];
        encrypt(&mut one);
        one[0]
    });
    drop(pieces);
    head.tag = (tag ^ hash).to_ne_bytes();
    head.wipe();
}

/// Decrypts the blocks with holes, with any cipher, and returns the packet's tag.
#[inline]
pub(crate) fn check<S: Mac, const N: usize>(
    reading: Reading<'_, S, N>,
    encrypt: impl Fn(&mut [u128]),
    decrypt: impl Fn(&mut [u128]),
) -> [u8; 16] {
    let (head, aad, src, _, dst) = reading.parts();
    let (mut checksum, mut hash) = (head.sum.checksum, head.sum.hash);
    let mut pieces = head.weighted().peekable();
    while let Some((piece, weight)) = pieces.next() {
        // With the template's bytes of the other pieces, so that the XOR leaves zeros in all holes.
        let mut known = weight.input;
        while let Some((_, weight)) = pieces.next_if(|(piece, _)| !piece.lead()) {
            known ^= weight.input;
        }
        let part = if piece.in_payload() { src } else { aad };
        let bytes = bytes_in_block(piece.at(), part.len());
        let block = piece.around(part).to_le();
        if !piece.in_payload() {
            let padding = if bytes < 16 { mark(bytes) } else { 0 };
            let mut one = [block ^ padding ^ weight.offset];
            encrypt(&mut one);
            hash ^= one[0];
            continue;
        }
        let mut one = [block ^ weight.offset];
        let mut mask = 0;
        if weight.ciphered == 1 {
            decrypt(&mut one);
            mask = weight.offset;
        }
        checksum ^= one[0] ^ known;
        dst[piece.at()..][..bytes].copy_from_slice(&(one[0] ^ mask).to_ne_bytes()[..bytes]);
    }
    let mut tag = [checksum];
    encrypt(&mut tag);
    (tag[0] ^ hash).to_ne_bytes()
}
