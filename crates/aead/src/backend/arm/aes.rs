//! AES (FIPS 197) with AESE and AESD, which add a round key before they substitute and shift.

use super::Extension;
use crate::backend::portable::{
    aes::{Aes as Sliced, RoundKeys},
    pieces,
};
use core::arch::aarch64::{
    uint8x16_t, vaesdq_u8, vaeseq_u8, vaesimcq_u8, vaesmcq_u8, veorq_u8, vld1q_u8, vreinterpretq_u8_u32,
    vreinterpretq_u32_u8, vsetq_lane_u32, vst1q_u8,
};
use zeroize::Zeroize;

/// Blocks in flight: as many as the sliced cipher takes, and enough to cover the instructions'
/// latency.
const FOUR: usize = 4;

/// Round keys of one direction.
type Schedule = [[u8; 16]; 15];

/// An expanded key for encryption and decryption.
#[repr(align(8))]
pub(crate) struct Aes {
    forth: Schedule,
    /// Keys of the equivalent inverse cipher (section 5.3.5), in order of use; the inner ones
    /// through InvMixColumns.
    back: Schedule,
    /// Zeros up to the size of a sliced key, which may occupy the same memory: no byte of an
    /// expanded key keeps old contents.
    _rest: [Schedule; 2],
    rounds: usize,
}

const _: () = assert!(size_of::<Aes>() == size_of::<Sliced>());

impl Drop for Aes {
    fn drop(&mut self) {
        self.forth.zeroize();
        self.back.zeroize();
    }
}

impl Aes {
    pub(crate) fn new(_: Extension, key: &RoundKeys) -> Self {
        let none = [[0; 16]; 15];
        let mut aes = Self { forth: key.blocks, back: none, _rest: [none; 2], rounds: key.rounds };
        // SAFETY: the extension is present.
        unsafe { aes.turn() };
        aes
    }

    #[target_feature(enable = "aes")]
    fn turn(&mut self) {
        for (round, back) in self.back.iter_mut().enumerate().take(self.rounds + 1) {
            let key = load(&self.forth[self.rounds - round]);
            store(if round == 0 || round == self.rounds { key } else { vaesimcq_u8(key) }, back);
        }
    }

    /// Encrypts blocks.
    pub(crate) fn encrypt(&self, blocks: &mut [[u8; 16]]) {
        // SAFETY: a key exists only with the extension.
        unsafe { self.some::<false>(blocks) }
    }

    /// Decrypts blocks.
    pub(crate) fn decrypt(&self, blocks: &mut [[u8; 16]]) {
        // SAFETY: a key exists only with the extension.
        unsafe { self.some::<true>(blocks) }
    }

    /// XORs the key stream of counter blocks (NIST SP 800-38D section 7.1): the nonce, then a
    /// 32-bit counter that starts at `counter`.
    pub(crate) fn xor_counters(&self, nonce: &[u8; 12], counter: u32, data: &mut [u8]) {
        // SAFETY: a key exists only with the extension.
        unsafe { self.counters(nonce, counter, data) }
    }

    #[target_feature(enable = "aes")]
    fn counters(&self, nonce: &[u8; 12], mut counter: u32, data: &mut [u8]) {
        let Some((last, inner)) = self.forth.get(..=self.rounds).and_then(<[_]>::split_last) else { return };
        let mut first = [0; 16];
        first[..12].copy_from_slice(nonce);
        let first = vreinterpretq_u32_u8(load(&first));
        // Counter blocks are built in registers: a vector load over narrower stores would stall.
        let block = |n: u32| vreinterpretq_u8_u32(vsetq_lane_u32::<3>(n.to_be(), first));
        let mut next = || {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| counter.wrapping_add(i));
            counter = counter.wrapping_add(FOUR as u32);
            through::<false, FOUR>(inner, last, [block(a), block(b), block(c), block(d)])
        };
        let (fours, rest) = data.as_chunks_mut::<64>();
        for four in fours {
            for (state, block) in next().into_iter().zip(four.as_chunks_mut().0) {
                store(veorq_u8(state, load(block)), block);
            }
        }
        if !rest.is_empty() {
            let mut stream = [[0; 16]; FOUR];
            for (state, block) in next().into_iter().zip(&mut stream) {
                store(state, block);
            }
            pieces::xor(rest, stream.as_flattened());
            stream.zeroize();
        }
    }

    #[target_feature(enable = "aes")]
    fn some<const BACK: bool>(&self, blocks: &mut [[u8; 16]]) {
        let keys = if BACK { &self.back } else { &self.forth };
        let Some((last, inner)) = keys.get(..=self.rounds).and_then(<[_]>::split_last) else { return };
        let (fours, rest) = blocks.as_chunks_mut::<FOUR>();
        fours.iter_mut().for_each(|four| at_once::<BACK, FOUR>(inner, last, four));
        rest.as_chunks_mut::<1>().0.iter_mut().for_each(|one| at_once::<BACK, 1>(inner, last, one));
    }
}

/// `N` blocks in memory.
#[target_feature(enable = "aes")]
fn at_once<const BACK: bool, const N: usize>(
    inner: &[[u8; 16]],
    last: &[u8; 16],
    blocks: &mut [[u8; 16]; N],
) {
    let mut states = [load(last); N];
    for (state, block) in states.iter_mut().zip(&*blocks) {
        *state = load(block);
    }
    for (state, block) in through::<BACK, N>(inner, last, states).into_iter().zip(blocks) {
        store(state, block);
    }
}

/// `N` blocks, round by round. The last key is added after the last round.
#[inline]
#[target_feature(enable = "aes")]
fn through<const BACK: bool, const N: usize>(
    inner: &[[u8; 16]],
    last: &[u8; 16],
    mut states: [uint8x16_t; N],
) -> [uint8x16_t; N] {
    let Some((closing, opening)) = inner.split_last() else { return states };
    for key in opening {
        let key = load(key);
        for state in &mut states {
            // The two instructions stay adjacent: many CPUs fuse them.
            *state =
                if BACK { vaesimcq_u8(vaesdq_u8(*state, key)) } else { vaesmcq_u8(vaeseq_u8(*state, key)) };
        }
    }
    let (closing, last) = (load(closing), load(last));
    for state in &mut states {
        let done = if BACK { vaesdq_u8(*state, closing) } else { vaeseq_u8(*state, closing) };
        *state = veorq_u8(done, last);
    }
    states
}

#[target_feature(enable = "neon")]
fn load(block: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the buffer has 16 bytes.
    unsafe { vld1q_u8(block.as_ptr()) }
}

#[target_feature(enable = "neon")]
fn store(vector: uint8x16_t, block: &mut [u8; 16]) {
    // SAFETY: the buffer has 16 bytes.
    unsafe { vst1q_u8(block.as_mut_ptr(), vector) }
}
