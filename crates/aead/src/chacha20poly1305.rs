//! ChaCha20-Poly1305 (RFC 8439 section 2.8).
//!
//! The nonce gives the cipherstream and, from block 0 of it, the one-time key (r, s) of Poly1305. The deadline sees an
//! XOR and a polynomial in r.

use crate::{
    Backend, Suite,
    backend::portable::{
        chacha20, pieces,
        poly1305::{self, Limbs, Poly1305, Sum},
    },
    buffers::Buffers,
    engine::{Engine, wipe},
};
use zeroize::Zeroize;

/// ChaCha20-Poly1305 with a key of 256 bits.
#[derive(Clone, Copy, Debug)]
pub struct ChaCha20Poly1305;

impl Suite for ChaCha20Poly1305 {
    const NAME: &'static str = "chacha20-poly1305";
    const KEY_LEN: usize = 32;
}

/// The key as words, and the backend that works with it.
pub struct Expanded {
    words: [u32; 8],
}

impl Drop for Expanded {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

/// The one-time key of Poly1305.
#[derive(Default)]
pub struct OneTime {
    r: Limbs,
    s: [u8; 16],
}

impl Zeroize for OneTime {
    fn zeroize(&mut self) {
        self.r.zeroize();
        self.s.zeroize();
    }
}

impl Drop for OneTime {
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl Expanded {
    fn once(&self, nonce: &[u8; 12]) -> OneTime {
        let mut once = OneTime::default();
        ChaCha20Poly1305::prepare_once(self, nonce, &mut once);
        once
    }

    fn xor(&self, nonce: &[u8; 12], data: &mut [u8]) {
        let mut block = [0; 64];
        for (i, chunk) in data.chunks_mut(64).enumerate() {
            chacha20::block(&self.words, 1 + i as u32, nonce, &mut block);
            pieces::xor(chunk, &block);
        }
        block.zeroize();
    }
}

impl OneTime {
    fn tag(&self, aad: &[&[u8]], ciphertext: &[u8]) -> [u8; 16] {
        let mut poly = Poly1305::new(&self.r);
        let aad_len = pieces::padded(aad, |block| poly.block(block));
        pieces::padded(&[ciphertext], |block| poly.block(block));
        poly.block(&lengths(aad_len, ciphertext.len()));
        poly1305::finish(&poly.value(), &self.s)
    }
}

/// The last block of the MAC: both lengths in bytes.
fn lengths(aad: usize, payload: usize) -> [u8; 16] {
    ((aad as u128) | (payload as u128) << 64).to_le_bytes()
}

impl Engine for ChaCha20Poly1305 {
    type Key = Expanded;
    type OneTime = OneTime;
    type Sum = Limbs;
    type Weight = Limbs;

    fn expand(key: &[u8], _backend: Backend) -> Expanded {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Expanded { words }
    }

    fn prepare_once(key: &Expanded, nonce: &[u8; 12], once: &mut OneTime) {
        let mut block = [[0; 16]; 2];
        chacha20::block(&key.words, 0, nonce, block.as_flattened_mut());
        once.r = Limbs::clamped(&block[0]);
        once.s = block[1];
        block.zeroize();
    }

    fn prepare_stream(key: &Expanded, nonce: &[u8; 12], first: usize, out: &mut [u8]) {
        chacha20::stream(&key.words, 1 + first as u32, nonce, out);
    }

    fn seal(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        let data = buffers.into_in_place();
        key.xor(nonce, data);
        key.once(nonce).tag(&[aad], data)
    }

    fn open(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        let data = buffers.into_in_place();
        let tag = key.once(nonce).tag(&[aad], data);
        key.xor(nonce, data);
        tag
    }

    fn seal_prepared(
        _key: &Expanded,
        once: &OneTime,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        let data = buffers.into_in_place();
        pieces::xor(data, stream);
        wipe(stream);
        once.tag(&[aad], data)
    }

    fn open_prepared(
        _key: &Expanded,
        once: &OneTime,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        let data = buffers.into_in_place();
        let tag = once.tag(&[aad], data);
        pieces::xor(data, stream);
        tag
    }

    fn authenticate(_key: &Expanded, once: &OneTime, aad: &[&[u8]]) -> [u8; 16] {
        once.tag(aad, &[])
    }

    fn length_block(aad: usize, payload: usize) -> [u8; 16] {
        lengths(aad, payload)
    }

    // A touched block is left out: what XOR does to a number is no difference that could be added.
    fn absorb(_key: &Expanded, once: &OneTime, sum: &mut Limbs, block: &[u8; 16], touched: bool) {
        let block = if touched { Limbs::default() } else { Limbs::block(block) };
        *sum = sum.plus(&block).times(&once.r);
    }

    fn weigh(_key: &Expanded, once: &OneTime, distance: usize) -> Limbs {
        once.r.to_the(distance)
    }

    fn settle(
        _key: &Expanded,
        once: &OneTime,
        sum: &Limbs,
        weights: &[Limbs],
        _deltas: &[[u8; 16]],
        blocks: &[[u8; 16]],
    ) -> [u8; 16] {
        let mut products = Sum::default();
        for (block, weight) in blocks.iter().zip(weights) {
            products.add(&Limbs::block(block), weight);
        }
        poly1305::finish(&products.value().plus(sum), &once.s)
    }
}
