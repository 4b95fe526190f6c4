//! AES-GCM (NIST SP 800-38D section 7) from the sliced AES and the table-free GHASH.

use super::{
    aes::{Aes, RoundKeys},
    ghash::{self, Ghash, Power, Sum},
    pieces,
};
use crate::{buffers::Buffers, engine::wipe};
use zeroize::Zeroize;

pub struct Key {
    aes: Aes,
    h: Power,
}

impl Drop for Key {
    fn drop(&mut self) {
        self.h.zeroize();
    }
}

impl Key {
    pub(crate) fn new(round_keys: &RoundKeys) -> Self {
        let aes = Aes::new(round_keys);
        let h = Power::new(hash_key(&aes));
        Self { aes, h }
    }

    /// E(J0), which masks the tag, as it lies in memory.
    pub(crate) fn mask(&self, nonce: &[u8; 12], out: &mut u128) {
        let mut blocks = [counter_block(nonce, 1), [0; 16], [0; 16], [0; 16]];
        self.aes.encrypt(&mut blocks);
        *out = u128::from_ne_bytes(blocks[0]);
    }

    /// Payload cipherstream from the 64-byte unit `first` on.
    pub(crate) fn stream(&self, nonce: &[u8; 12], first: usize, out: &mut [u8]) {
        out.fill(0);
        self.xor(nonce, first, out);
    }

    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        let data = buffers.into_in_place();
        self.xor(nonce, 0, data);
        let mut mask = 0;
        self.mask(nonce, &mut mask);
        self.tag(&mask, &[aad], data)
    }

    pub(crate) fn open(&self, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        let data = buffers.into_in_place();
        let mut mask = 0;
        self.mask(nonce, &mut mask);
        let tag = self.tag(&mask, &[aad], data);
        self.xor(nonce, 0, data);
        tag
    }

    pub(crate) fn seal_prepared(
        &self,
        mask: &u128,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        let data = buffers.into_in_place();
        pieces::xor(data, stream);
        wipe(stream);
        *tag = self.tag(mask, &[aad], data);
    }

    pub(crate) fn open_prepared(
        &self,
        mask: &u128,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        let data = buffers.into_in_place();
        *tag = self.tag(mask, &[aad], data);
        pieces::xor(data, stream);
    }

    pub(crate) fn authenticate(&self, mask: &u128, aad: &[&[u8]]) -> [u8; 16] {
        self.tag(mask, aad, &[])
    }

    /// The field's product with H.
    pub(crate) fn times(&self, element: u128) -> u128 {
        self.h.times(element)
    }

    /// H^k as a multiplier.
    pub(crate) fn power(&self, k: usize) -> Power {
        ghash::power(&self.h, k)
    }

    /// The sum of the blocks' products with the powers.
    pub(crate) fn products(&self, blocks: &[[u8; 16]], powers: &[Power]) -> u128 {
        let mut sum = Sum::default();
        for (block, power) in blocks.iter().zip(powers) {
            sum.add(u128::from_be_bytes(*block), power);
        }
        sum.value()
    }

    pub(crate) fn wipe(&self, bytes: &mut [u8]) {
        wipe(bytes);
    }

    fn xor(&self, nonce: &[u8; 12], first: usize, data: &mut [u8]) {
        let mut blocks = [[0; 16]; 4];
        for (i, chunk) in data.chunks_mut(64).enumerate() {
            let counter = 2u32.wrapping_add(4 * (first + i) as u32);
            blocks = core::array::from_fn(|k| counter_block(nonce, counter.wrapping_add(k as u32)));
            self.aes.encrypt(&mut blocks);
            pieces::xor(chunk, blocks.as_flattened());
        }
        blocks.zeroize();
    }

    fn tag(&self, mask: &u128, aad: &[&[u8]], ciphertext: &[u8]) -> [u8; 16] {
        let mut hash = Ghash::new(&self.h);
        let aad_len = pieces::padded(aad, |block| hash.block(block));
        pieces::padded(&[ciphertext], |block| hash.block(block));
        hash.block(&lengths(aad_len, ciphertext.len()));
        (u128::from_ne_bytes(hash.value().to_be_bytes()) ^ mask).to_ne_bytes()
    }
}

/// H, the encryption of the zero block.
pub(crate) fn hash_key(aes: &Aes) -> u128 {
    let mut blocks = [[0; 16]; 4];
    aes.encrypt(&mut blocks);
    let h = u128::from_be_bytes(blocks[0]);
    blocks.zeroize();
    h
}

pub(crate) fn counter_block(nonce: &[u8; 12], counter: u32) -> [u8; 16] {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&counter.to_be_bytes());
    block
}

/// The last block of the hash: both lengths in bits.
pub(crate) fn lengths(aad: usize, payload: usize) -> [u8; 16] {
    (((aad as u128 * 8) << 64) | (payload as u128 * 8)).to_be_bytes()
}
