//! AEGIS-128L (draft-irtf-cfrg-aegis-aead section 3) in constant time; the state stays bit-sliced
//! throughout.
//!
//! Two sets of planes (see [`super::aes`]) hold the state's eight blocks, S0 to S3 and S4 to S7.
//! One round of all eight runs the S-box circuit twice. A shift by one bit passes each block's
//! result to the next block.

use super::aes::{mix_columns, pack, shift_rows, sub_bytes, unpack};
use zeroize::Zeroize;

/// Bytes per update.
pub(crate) const RATE: usize = 32;

/// The Fibonacci sequence modulo 256 (C0 and C1 in section 2.1 of the draft).
pub(crate) const C0: [u8; 16] = *b"\x00\x01\x01\x02\x03\x05\x08\x0d\x15\x22\x37\x59\x90\xe9\x79\x62";
pub(crate) const C1: [u8; 16] = *b"\xdb\x3d\x18\x55\x6d\xc2\x2f\xf1\x20\x11\x31\x42\x73\xb5\x28\xdd";

/// Every fourth bit: one block's share of the planes.
const FIRST: u64 = 0x1111_1111_1111_1111;

type Planes = [u64; 8];

/// The state. Other backends store it as eight blocks.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub struct State {
    /// S0 to S3.
    low: Planes,
    /// S4 to S7.
    high: Planes,
}

impl Zeroize for State {
    fn zeroize(&mut self) {
        self.low.zeroize();
        self.high.zeroize();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.zeroize();
    }
}

fn xor(a: &[u8; 16], b: &[u8; 16]) -> [u8; 16] {
    core::array::from_fn(|i| a[i] ^ b[i])
}

impl State {
    /// State after absorbing key and nonce (`Init`).
    pub(crate) fn start(&mut self, key: &[u8; 16], nonce: &[u8; 16]) {
        let mixed = xor(key, nonce);
        self.low = pack(&[mixed, C1, C0, C1]);
        self.high = pack(&[mixed, xor(key, &C0), xor(key, &C1), xor(key, &C0)]);
        let message = pack(&[*nonce, *key, [0; 16], [0; 16]]);
        for _ in 0..10 {
            self.update(&message);
        }
    }

    /// `Update`, with the message's two blocks in the first two places.
    fn update(&mut self, message: &Planes) {
        let (mut low, mut high) = (self.low, self.high);
        for x in [&mut low, &mut high] {
            sub_bytes(x);
            shift_rows(x);
            mix_columns(x);
        }
        for k in 0..8 {
            self.low[k] ^= ((low[k] & !(FIRST << 3)) << 1) | ((high[k] >> 3) & FIRST);
            self.high[k] ^= ((high[k] & !(FIRST << 3)) << 1) | ((low[k] >> 3) & FIRST);
            self.low[k] ^= message[k] & FIRST;
            self.high[k] ^= (message[k] >> 1) & FIRST;
        }
    }

    /// z0 and z1 in the first two places.
    fn stream(&self) -> Planes {
        core::array::from_fn(|k| {
            let (low, high) = (self.low[k], self.high[k]);
            // S6 + S1 + S2 S3, and S2 + S5 + S6 S7.
            let first = (high >> 2) ^ (low >> 1) ^ ((low >> 2) & (low >> 3));
            let second = (low >> 2) ^ (high >> 1) ^ ((high >> 2) & (high >> 3));
            (first & FIRST) | ((second & FIRST) << 1)
        })
    }

    /// z0 and z1 as bytes.
    fn stream_bytes(&self) -> [u8; RATE] {
        let mut blocks = [[0; 16]; 4];
        unpack(&mut self.stream(), &mut blocks);
        let mut bytes = [0; RATE];
        bytes.copy_from_slice(&blocks.as_flattened()[..RATE]);
        blocks.zeroize();
        bytes
    }

    fn message(bytes: &[u8; RATE]) -> Planes {
        let mut blocks = [[0; 16]; 4];
        blocks.as_flattened_mut()[..RATE].copy_from_slice(bytes);
        let planes = pack(&blocks);
        blocks.zeroize();
        planes
    }

    /// Absorbs associated data, padded with zeros (`Absorb`).
    pub(crate) fn absorb(&mut self, aad: &[u8]) {
        for chunk in aad.chunks(RATE) {
            let mut block = [0; RATE];
            block[..chunk.len()].copy_from_slice(chunk);
            self.update(&Self::message(&block));
        }
    }

    /// Absorbs associated data, encrypts or decrypts the rest of the packet, and returns the tag.
    /// `lengths` are the whole packet's.
    pub(crate) fn finish<const SEAL: bool>(
        &self,
        aad: &[u8],
        data: &mut [u8],
        lengths: (usize, usize),
    ) -> [u8; 16] {
        let mut state = self.clone();
        state.absorb(aad);
        state.crypt::<SEAL>(data);
        state.tag(lengths)
    }

    /// Encrypts or decrypts. Only a packet's last call may have a length that is not a multiple of
    /// the rate.
    pub(crate) fn crypt<const SEAL: bool>(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(RATE) {
            let mut plain = [0; RATE];
            let mut stream = self.stream_bytes();
            if SEAL {
                plain[..chunk.len()].copy_from_slice(chunk);
            }
            for (byte, pad) in chunk.iter_mut().zip(&stream) {
                *byte ^= pad;
            }
            if !SEAL {
                plain[..chunk.len()].copy_from_slice(chunk);
            }
            self.update(&Self::message(&plain));
            stream.zeroize();
            plain.zeroize();
        }
    }

    /// The 128-bit tag (`Finalize`).
    fn tag(&mut self, (aad, payload): (usize, usize)) -> [u8; 16] {
        let mut lengths = [0; RATE];
        lengths[..8].copy_from_slice(&(8 * aad as u64).to_le_bytes());
        lengths[8..16].copy_from_slice(&(8 * payload as u64).to_le_bytes());
        let lengths = Self::message(&lengths);
        // S2 and the lengths, in both places.
        let message = core::array::from_fn(|k| {
            let t = ((self.low[k] >> 2) ^ lengths[k]) & FIRST;
            t | (t << 1)
        });
        for _ in 0..7 {
            self.update(&message);
        }
        let mut sum = core::array::from_fn(|k| {
            let (low, high) = (self.low[k], self.high[k]);
            low ^ (low >> 1) ^ (low >> 2) ^ (low >> 3) ^ high ^ (high >> 1) ^ (high >> 2)
        });
        let mut blocks = [[0; 16]; 4];
        unpack(&mut sum, &mut blocks);
        let tag = blocks[0];
        blocks.zeroize();
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The draft's appendix on AEGIS-128L, "Update Test Vector".
    #[test]
    fn update_matches_draft_vector() {
        let blocks = |text: [u128; 4]| pack(&text.map(u128::to_be_bytes));
        let mut state = State {
            low: blocks([
                0x9b7e60b24cc873ea894ecc07911049a3,
                0x330be08f35300faa2ebf9a7b0d274658,
                0x7bbd5bd2b049f7b9b515cf26fbe7756c,
                0xc35a00f55ea86c3886ec5e928f87db18,
            ]),
            high: blocks([
                0x9ebccafce87cab446396c4334592c91f,
                0x58d83e31f256371e60fc6bb257114601,
                0x1639b56ea322c88568a176585bc915de,
                0x640818ffb57dc0fbc2e72ae93457e39a,
            ]),
        };
        state.update(&blocks([0x033e6975b94816879e42917650955aa0, 0xfcc1968a46b7e97861bd6e89af6aa55f, 0, 0]));
        assert_eq!(
            state.low,
            blocks([
                0x596ab773e4433ca0127c73f60536769d,
                0x790394041a3d26ab697bde865014652d,
                0x38cf49e4b65248acd533041b64dd0611,
                0x16d8e58748f437bfff1797f780337cee,
            ])
        );
        assert_eq!(
            state.high,
            blocks([
                0x9689ecdf08228c74d7e3360cca53d0a5,
                0xa21746bb193a569e331e1aa985d0d729,
                0x09d714e6fcf9177a8ed1cde7e3d259a6,
                0x61279ba73167f0ab76f0a11bf203bdff,
            ])
        );
    }
}
