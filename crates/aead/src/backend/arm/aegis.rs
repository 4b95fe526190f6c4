//! AEGIS-128L (draft-irtf-cfrg-aegis-aead section 3). A round of a block is AESE with a zero key,
//! then AESMC.

use super::Extension;
use crate::{
    Backend,
    backend::portable::aegis::{C0, C1, RATE, State},
    buffers::Buffers,
};
use core::arch::aarch64::{
    uint8x16_t, vaeseq_u8, vaesmcq_u8, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vst1q_u8,
};
use zeroize::Zeroize;

/// Proof that the CPU supports the instructions.
#[derive(Clone, Copy)]
pub(crate) struct Kernels(Extension);

type Blocks = [uint8x16_t; 8];

impl Kernels {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        Extension::new(backend).map(Self)
    }

    /// State after absorbing key and nonce.
    pub(crate) fn start(self, state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
        // SAFETY: `self` proves CPU support.
        unsafe { start(state, key, nonce) }
    }

    /// Absorbs associated data, padded with zeros.
    pub(crate) fn absorb(self, state: &mut State, aad: &[u8]) {
        // SAFETY: as above.
        unsafe { absorb(state, aad) }
    }

    /// Encrypts bytes before the end of the packet, a whole number of [`RATE`].
    pub(crate) fn block(self, state: &mut State, data: &mut [u8]) {
        // SAFETY: as above.
        unsafe { crypt::<true>(state, data) }
    }

    /// Absorbs associated data, encrypts or decrypts the rest of a packet, and returns the tag.
    /// `lengths` are the whole packet's, in bytes.
    pub(crate) fn finish<const SEAL: bool>(
        self,
        state: &State,
        aad: &[u8],
        buffers: Buffers<'_>,
        lengths: (usize, usize),
    ) -> [u8; 16] {
        let mut state = state.clone();
        // SAFETY: as above.
        unsafe {
            absorb(&mut state, aad);
            crypt::<SEAL>(&mut state, buffers.into_in_place());
            tag(&mut state, lengths)
        }
    }
}

#[target_feature(enable = "aes")]
fn start(state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
    let [key, nonce, c0, c1] = [vector(key), vector(nonce), vector(&C0), vector(&C1)];
    let mixed = veorq_u8(key, nonce);
    let (with_0, with_1) = (veorq_u8(key, c0), veorq_u8(key, c1));
    let mut blocks = [mixed, c1, c0, c1, mixed, with_0, with_1, with_0];
    for _ in 0..10 {
        update(&mut blocks, [nonce, key]);
    }
    save(&blocks, state);
}

#[target_feature(enable = "aes")]
fn absorb(state: &mut State, aad: &[u8]) {
    let mut blocks = load(state);
    let (whole, rest) = aad.as_chunks::<RATE>();
    for chunk in whole {
        update(&mut blocks, pair(chunk));
    }
    if !rest.is_empty() {
        let mut last = [0; RATE];
        last[..rest.len()].copy_from_slice(rest);
        update(&mut blocks, pair(&last));
    }
    save(&blocks, state);
}

/// Encrypts or decrypts. Only a packet's last call may have a length that is not a multiple of the
/// rate.
#[target_feature(enable = "aes")]
fn crypt<const SEAL: bool>(state: &mut State, data: &mut [u8]) {
    let mut blocks = load(state);
    let (whole, rest) = data.as_chunks_mut::<RATE>();
    for chunk in whole {
        let (from, stream) = (pair(chunk), stream(&blocks));
        let to = [veorq_u8(from[0], stream[0]), veorq_u8(from[1], stream[1])];
        put(to, chunk);
        update(&mut blocks, if SEAL { from } else { to });
    }
    if !rest.is_empty() {
        let mut plain = [0; RATE];
        let mut last = [0; RATE];
        put(stream(&blocks), &mut last);
        if SEAL {
            plain[..rest.len()].copy_from_slice(rest);
        }
        rest.iter_mut().zip(&last).for_each(|(byte, pad)| *byte ^= pad);
        if !SEAL {
            plain[..rest.len()].copy_from_slice(rest);
        }
        update(&mut blocks, pair(&plain));
        plain.zeroize();
        last.zeroize();
    }
    save(&blocks, state);
}

/// The 128-bit tag (`Finalize`).
#[target_feature(enable = "aes")]
fn tag(state: &mut State, (aad, payload): (usize, usize)) -> [u8; 16] {
    let mut blocks = load(state);
    let lengths = u128::from(8 * aad as u64) | u128::from(8 * payload as u64) << 64;
    let message = veorq_u8(blocks[2], vector(&lengths.to_le_bytes()));
    for _ in 0..7 {
        update(&mut blocks, [message; 2]);
    }
    let [first, rest @ .., _] = blocks;
    let mut tag = [0; 16];
    let sum = rest.into_iter().fold(first, |sum, block| veorq_u8(sum, block));
    // SAFETY: the buffer has 16 bytes.
    unsafe { vst1q_u8(tag.as_mut_ptr(), sum) };
    tag
}

/// `Update`: each block takes the round of the one before it; the message goes into the first and
/// the fifth.
#[inline]
#[target_feature(enable = "aes")]
fn update(blocks: &mut Blocks, message: [uint8x16_t; 2]) {
    let zeros = vdupq_n_u8(0);
    let before = *blocks;
    for (i, block) in blocks.iter_mut().enumerate() {
        *block = veorq_u8(*block, vaesmcq_u8(vaeseq_u8(before[(i + 7) % 8], zeros)));
    }
    blocks[0] = veorq_u8(blocks[0], message[0]);
    blocks[4] = veorq_u8(blocks[4], message[1]);
}

/// z0 and z1.
#[inline]
#[target_feature(enable = "neon")]
fn stream(s: &Blocks) -> [uint8x16_t; 2] {
    [
        veorq_u8(veorq_u8(s[6], s[1]), vandq_u8(s[2], s[3])),
        veorq_u8(veorq_u8(s[2], s[5]), vandq_u8(s[6], s[7])),
    ]
}

#[inline]
#[target_feature(enable = "neon")]
fn vector(block: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the buffer has 16 bytes.
    unsafe { vld1q_u8(block.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn pair(chunk: &[u8; RATE]) -> [uint8x16_t; 2] {
    // SAFETY: the chunk has 32 bytes.
    unsafe { [vld1q_u8(chunk.as_ptr()), vld1q_u8(chunk.as_ptr().add(16))] }
}

#[inline]
#[target_feature(enable = "neon")]
fn put(blocks: [uint8x16_t; 2], chunk: &mut [u8; RATE]) {
    // SAFETY: the chunk has 32 bytes.
    unsafe {
        vst1q_u8(chunk.as_mut_ptr(), blocks[0]);
        vst1q_u8(chunk.as_mut_ptr().add(16), blocks[1]);
    }
}

const _: () = assert!(size_of::<State>() == size_of::<Blocks>());

#[inline]
#[target_feature(enable = "neon")]
fn load(state: &State) -> Blocks {
    let from = core::ptr::from_ref(state).cast::<u8>();
    // SAFETY: a state has the size of eight blocks, and any bytes are a valid vector.
    core::array::from_fn(|i| unsafe { vld1q_u8(from.add(16 * i)) })
}

#[inline]
#[target_feature(enable = "neon")]
fn save(blocks: &Blocks, state: &mut State) {
    let to = core::ptr::from_mut(state).cast::<u8>();
    for (i, block) in blocks.iter().enumerate() {
        // SAFETY: a state has the size of eight blocks, and any bytes are a valid state.
        unsafe { vst1q_u8(to.add(16 * i), *block) };
    }
}
