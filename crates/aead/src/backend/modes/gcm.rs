//! AES-GCM (NIST SP 800-38D section 7) from an AES on four blocks at once and a GHASH without
//! tables: the sliced and carry-less ones here, or a CPU's own.

use crate::backend::portable::{
    aes::RoundKeys,
    ghash::{self, Ghash, Multiplier, Power, Powers, Sum},
    pieces,
};
use crate::{
    Backend,
    backend::fours::Aes,
    buffers::Buffers,
    bytes::wipe,
    holes::{Filling, Piece, Reading, Spot, Stretch, Values, WeightedMac, block_at, xor_block_at},
};
use zeroize::Zeroize;

/// A prepared packet's hash, already XORed with the tag's mask, and the kernels that fill its
/// holes.
#[derive(Clone, Default)]
pub struct Predicted {
    pub(crate) hash: u128,
    #[cfg(target_arch = "x86_64")]
    pub(crate) holes: Option<crate::backend::cpu::x86::Holes>,
}

impl Zeroize for Predicted {
    #[inline]
    fn zeroize(&mut self) {
        self.hash.zeroize();
    }
}

/// AES-GCM with any key length.
pub(crate) trait Gcm: WeightedMac<Sum = Predicted, Weight = Power, TagBytes = [u8; 16]> {}

impl<S: WeightedMac<Sum = Predicted, Weight = Power, TagBytes = [u8; 16]>> Gcm for S {}

/// Plaintext of a piece. If the piece is in the payload, also writes it to its place.
#[inline]
pub(crate) fn value(piece: &Piece, aad: &[u8], src: &[u8], body: &[u8], dst: &mut [u8]) -> u128 {
    if !piece.in_payload() {
        return piece.of_part(aad);
    }
    let value = piece.of_part(src) ^ (block_at(body, piece.at()) & piece.bits());
    piece.put(value, dst);
    value
}

pub struct Key {
    aes: Aes,
    by: Multiplier,
    powers: Powers,
}

impl Key {
    pub(crate) fn new(round_keys: &RoundKeys, backend: Backend) -> Self {
        let aes = Aes::new(round_keys, backend);
        #[cfg(target_arch = "aarch64")]
        let extension = crate::backend::cpu::arm::Extension::new(backend);
        #[cfg(target_arch = "aarch64")]
        let by = extension.map_or(Multiplier::Integers, Multiplier::Arm);
        #[cfg(target_arch = "x86_64")]
        let by =
            crate::backend::cpu::x86::Ssse3::new(backend).map_or(Multiplier::Integers, Multiplier::Shuffles);
        #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
        let by = Multiplier::Integers;
        let powers = Powers::new(by, hash_key(&aes));
        Self { aes, by, powers }
    }

    /// E(J0), the tag's mask, in memory order.
    pub(crate) fn mask(&self, nonce: &[u8; 12], out: &mut u128) {
        let mut block = counter_block(nonce, 1);
        self.aes.encrypt_one(&mut block);
        *out = u128::from_ne_bytes(block);
    }

    /// Payload key stream from 64-byte unit `first`.
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

    /// The field product with H.
    pub(crate) fn times(&self, element: u128) -> u128 {
        self.powers.h.times(self.by, element)
    }

    /// H^k as a multiplier.
    pub(crate) fn power(&self, k: usize) -> Power {
        ghash::power(self.by, &self.powers.h, k)
    }

    /// The product of a block and a power.
    pub(crate) fn product(&self, block: u128, power: &Power) -> u128 {
        power.times(self.by, block)
    }

    /// Encrypts a stretch and adds it to a hash.
    pub(crate) fn absorb(&self, hash: &mut u128, stretch: Stretch<'_>) {
        let body = &mut stretch.body[..stretch.payload.len()];
        pieces::xor(body, stretch.payload);
        let mut running = Ghash::resume(self.by, &self.powers, *hash);
        running.padded(stretch.aad);
        running.padded(body);
        *hash = running.value();
    }

    /// Writes values into a prepared packet.
    #[inline(never)]
    pub(crate) fn fill<S: Gcm, V: Values, const N: usize>(&self, filling: Filling<'_, S, V, N>) {
        let (head, values, body) = filling.parts();
        let mut sum = Sum::new(self.by);
        for Spot { piece, weight: power } in head.spots() {
            let value = piece.block_of(values.bytes(piece));
            if piece.in_payload() {
                xor_block_at(body, piece.at(), value);
            }
            sum.add(value.swap_bytes(), power);
        }
        head.tag = (head.sum.hash ^ sum.value()).to_be_bytes();
        head.wipe();
    }

    /// Reads the values of a received packet and returns the expected tag.
    #[inline(never)]
    pub(crate) fn check<S: Gcm, const N: usize>(&self, reading: Reading<'_, S, N>) -> [u8; 16] {
        let (head, aad, src, body, dst) = reading.parts();
        let mut sum = Sum::new(self.by);
        for Spot { piece, weight: power } in head.spots() {
            sum.add(value(piece, aad, src, body, dst).swap_bytes(), power);
        }
        (head.sum.hash ^ sum.value()).to_be_bytes()
    }

    pub(crate) fn wipe(&self, bytes: &mut [u8]) {
        wipe(bytes);
    }

    fn xor(&self, nonce: &[u8; 12], first: usize, data: &mut [u8]) {
        #[cfg(target_arch = "aarch64")]
        if let Aes::Arm(aes) = &self.aes {
            return aes.xor_counters(nonce, 2u32.wrapping_add(4 * first as u32), data);
        }
        #[cfg(target_arch = "x86_64")]
        if let Aes::Shuffled(aes) = &self.aes {
            return aes.xor_counters(nonce, 2u32.wrapping_add(4 * first as u32), data);
        }
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
        let mut hash = Ghash::new(self.by, &self.powers);
        let aad_len = pieces::staged::<64>(aad, |part| hash.padded(part));
        hash.padded(ciphertext);
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
