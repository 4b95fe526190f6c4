//! AES-OCB3 (RFC 7253) with 96-bit nonces and 128-bit tags, from the sliced AES or the table AES.
//!
//! Blocks are numbers in memory order; where the standard shifts and doubles, the first byte is the
//! most significant. The offset of block i is the nonce's offset plus the L values for the bits of
//! i's Gray code. Consecutive codes differ in bit ntz(i), the standard's step. The closed form
//! gives any block's offset directly.

use super::ocb3_holes::{self, Mac};
#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
use crate::backend::fours::Aes;
use crate::backend::portable::pieces;
#[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
use crate::backend::table::cipher::BothWays as Aes;
use crate::{
    buffers::Buffers,
    holes::{Filling, Reading, Values},
};
use zeroize::Zeroize;

/// L_0 to L_31: packets of up to 2^32 blocks.
pub(crate) const MASKS: usize = 32;

/// L_*, L_$ and L_i (section 4.1).
pub(crate) struct Masks {
    pub(crate) star: u128,
    pub(crate) dollar: u128,
    pub(crate) l: [u128; MASKS],
}

impl Drop for Masks {
    fn drop(&mut self) {
        self.star.zeroize();
        self.dollar.zeroize();
        self.l.zeroize();
    }
}

impl Masks {
    /// Derives all masks from L_*, the encryption of the zero block.
    pub(crate) fn new(star: u128) -> Self {
        let dollar = double(star);
        let mut masks = Self { star, dollar, l: [0; MASKS] };
        let mut next = dollar;
        for mask in &mut masks.l {
            next = double(next);
            *mask = next;
        }
        masks
    }

    /// Difference between the offset of block `i` (from 1) and the nonce's offset; 0 for 0.
    pub(crate) fn offset(&self, i: usize) -> u128 {
        let mut gray = i ^ (i >> 1);
        let mut sum = 0;
        while gray != 0 {
            sum ^= self.step(gray);
            gray &= gray - 1;
        }
        sum
    }

    /// Difference between the offsets of blocks `from` and `to`.
    pub(crate) fn between(&self, from: usize, to: usize) -> u128 {
        self.offset(from) ^ self.offset(to)
    }

    /// L_ntz(i).
    #[inline]
    pub(crate) fn step(&self, i: usize) -> u128 {
        self.l[i.trailing_zeros() as usize % MASKS]
    }
}

/// The product with x in GF(2^128) (section 2).
fn double(x: u128) -> u128 {
    let x = u128::from_be(x);
    ((x << 1) ^ ((x >> 127) * 0x87)).to_be()
}

/// The block that gives the nonce's offset, and its rotation in bits (section 4.2).
#[inline]
pub(crate) fn nonce_block(nonce: &[u8; 12]) -> ([u8; 16], u32) {
    let mut block = [0; 16];
    // The first field, the tag length modulo 128, is zero.
    block[3] = 1;
    block[4..].copy_from_slice(nonce);
    let bottom = block[15] & 0x3f;
    block[15] &= 0xc0;
    (block, bottom.into())
}

/// The nonce's offset from the encrypted nonce block.
#[inline]
pub(crate) fn nonce_offset(top: u128, bottom: u32) -> u128 {
    let top = u128::from_be(top);
    let stretch = (top >> 64) as u64 ^ (top >> 56) as u64;
    ((top << bottom) | u128::from(stretch >> 1 >> (63 - bottom))).to_be()
}

/// Pads a partial final block with a one bit and zeros.
pub(crate) fn padded(bytes: &[u8]) -> u128 {
    let mut block = [0; 16];
    block[..bytes.len()].copy_from_slice(bytes);
    block[bytes.len()] = 0x80;
    u128::from_ne_bytes(block)
}

pub struct Key {
    aes: Aes,
    pub(crate) masks: Masks,
}

impl Key {
    pub(crate) fn new(aes: Aes) -> Self {
        let mut blocks = [[0; 16]];
        aes.encrypt_some(&mut blocks);
        let masks = Masks::new(u128::from_ne_bytes(blocks[0]));
        blocks.zeroize();
        Self { aes, masks }
    }

    /// Encrypts blocks independently.
    pub(crate) fn encrypt(&self, blocks: &mut [u128]) {
        self.each(blocks, Aes::encrypt_some);
    }

    /// Decrypts blocks independently.
    pub(crate) fn decrypt(&self, blocks: &mut [u128]) {
        self.each(blocks, Aes::decrypt_some);
    }

    fn each(&self, blocks: &mut [u128], direction: impl Fn(&Aes, &mut [[u8; 16]])) {
        let mut four = [[0; 16]; 4];
        for chunk in blocks.chunks_mut(4) {
            for (bytes, block) in four.iter_mut().zip(&*chunk) {
                *bytes = block.to_ne_bytes();
            }
            direction(&self.aes, &mut four[..chunk.len()]);
            for (block, bytes) in chunk.iter_mut().zip(&four) {
                *block = u128::from_ne_bytes(*bytes);
            }
        }
        four.zeroize();
    }

    /// The nonce's offset.
    pub(crate) fn offset(&self, nonce: &[u8; 12]) -> u128 {
        let (block, bottom) = nonce_block(nonce);
        let mut blocks = [u128::from_ne_bytes(block)];
        self.encrypt(&mut blocks);
        nonce_offset(blocks[0], bottom)
    }

    /// Encrypts one block.
    pub(crate) fn encrypt_one(&self, block: u128) -> u128 {
        let mut blocks = [block];
        self.encrypt(&mut blocks);
        blocks[0]
    }

    /// Contribution of block `index` (from 0) of associated data to HASH; the last block may be
    /// partial.
    pub(crate) fn associated(&self, index: usize, bytes: &[u8]) -> u128 {
        self.encrypt_one(match <[u8; 16]>::try_from(bytes) {
            Ok(block) => u128::from_ne_bytes(block) ^ self.masks.offset(index + 1),
            Err(_) => padded(bytes) ^ self.masks.offset(index) ^ self.masks.star,
        })
    }

    /// Encrypts a partial last block after a block with this offset, and returns its part of the
    /// checksum.
    pub(crate) fn last(&self, offset: u128, src: &[u8], dst: &mut [u8]) -> u128 {
        let pad = self.encrypt_one(offset ^ self.masks.star).to_ne_bytes();
        for ((byte, plain), pad) in dst.iter_mut().zip(src).zip(pad) {
            *byte = plain ^ pad;
        }
        padded(src)
    }

    /// Encrypts whole blocks that follow `before` others and `offset`, and returns their sum.
    pub(crate) fn stretch(&self, mut offset: u128, before: usize, src: &[u8], dst: &mut [u8]) -> u128 {
        let (src, dst) = (src.as_chunks::<16>().0, dst.as_chunks_mut::<16>().0);
        let (mut checksum, mut done) = (0, before);
        for (src, dst) in src.chunks(4).zip(dst.chunks_mut(4)) {
            let (mut offsets, mut blocks) = ([0; 4], [0; 4]);
            for (i, bytes) in src.iter().enumerate() {
                done += 1;
                offset ^= self.masks.step(done);
                let block = u128::from_ne_bytes(*bytes);
                checksum ^= block;
                (offsets[i], blocks[i]) = (offset, block ^ offset);
            }
            self.encrypt(&mut blocks[..src.len()]);
            for (i, bytes) in dst.iter_mut().enumerate() {
                *bytes = (blocks[i] ^ offsets[i]).to_ne_bytes();
            }
        }
        checksum
    }

    /// Writes values into a prepared packet.
    pub(crate) fn fill<S: Mac, V: Values, const N: usize>(&self, filling: Filling<'_, S, V, N>) {
        ocb3_holes::fill(filling, |blocks| self.encrypt(blocks));
    }

    /// Reads the values of a received packet and returns the expected tag.
    pub(crate) fn check<S: Mac, const N: usize>(&self, reading: Reading<'_, S, N>) -> [u8; 16] {
        ocb3_holes::check(reading, |blocks| self.encrypt(blocks), |blocks| self.decrypt(blocks))
    }

    /// Processes a packet from the nonce's offset, and returns its expected tag (sections 4.2 and
    /// 4.3).
    pub(crate) fn packet<const SEAL: bool>(
        &self,
        offset: u128,
        aad: &[&[u8]],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        let data = buffers.into_in_place();
        let (mut offset, mut checksum, mut done) = (offset, 0, 0);
        let (whole, rest) = data.as_chunks_mut::<16>();
        for chunk in whole.chunks_mut(4) {
            let mut offsets = [0; 4];
            let mut blocks = [0; 4];
            for (i, bytes) in chunk.iter().enumerate() {
                done += 1;
                offset ^= self.masks.step(done);
                offsets[i] = offset;
                blocks[i] = u128::from_ne_bytes(*bytes);
                if SEAL {
                    checksum ^= blocks[i];
                }
                blocks[i] ^= offset;
            }
            let some = &mut blocks[..chunk.len()];
            if SEAL {
                self.encrypt(some)
            } else {
                self.decrypt(some)
            }
            for (i, bytes) in chunk.iter_mut().enumerate() {
                let block = blocks[i] ^ offsets[i];
                if !SEAL {
                    checksum ^= block;
                }
                *bytes = block.to_ne_bytes();
            }
        }
        if !rest.is_empty() {
            offset ^= self.masks.star;
            let mut pad = [offset];
            self.encrypt(&mut pad);
            if SEAL {
                checksum ^= padded(rest);
            }
            pieces::xor(rest, &pad[0].to_ne_bytes());
            if !SEAL {
                checksum ^= padded(rest);
            }
        }
        let mut tag = [checksum ^ offset ^ self.masks.dollar];
        self.encrypt(&mut tag);
        (tag[0] ^ hash(&self.masks, aad, |blocks| self.encrypt(blocks))).to_ne_bytes()
    }
}

/// HASH (section 4.1) of pieces read as one string, with any AES. Encrypts four blocks at once.
pub(crate) fn hash(masks: &Masks, pieces: &[&[u8]], encrypt: impl Fn(&mut [u128])) -> u128 {
    let mut sum = 0;
    let (mut offset, mut done) = (0, 0);
    let mut waiting = [0; 4];
    pieces::staged::<64>(pieces, |part| {
        for four in part.chunks(64) {
            let count = four.len().div_ceil(16);
            for (block, bytes) in waiting.iter_mut().zip(four.chunks(16)) {
                *block = match <[u8; 16]>::try_from(bytes) {
                    Ok(bytes) => {
                        done += 1;
                        offset ^= masks.step(done);
                        u128::from_ne_bytes(bytes) ^ offset
                    }
                    Err(_) => padded(bytes) ^ offset ^ masks.star,
                };
            }
            encrypt(&mut waiting[..count]);
            sum = waiting[..count].iter().fold(sum, |sum, block| sum ^ block);
        }
    });
    waiting.zeroize();
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_form_matches_stepwise_offsets() {
        let masks = Masks::new(0x0123_4567_89ab_cdef_8899_aabb_ccdd_eeff);
        let mut offset = 0;
        for i in 1..5000 {
            offset ^= masks.step(i);
            assert_eq!(masks.offset(i), offset, "block {i}");
        }
    }

    #[test]
    fn doubling_reduces_by_the_polynomial() {
        assert_eq!(double((1u128 << 127).to_be()), 0x87u128.to_be());
        assert_eq!(double(3u128.to_be()), 6u128.to_be());
    }
}
