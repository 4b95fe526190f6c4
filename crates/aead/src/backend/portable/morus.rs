//! MORUS-1280-128 (submission to CAESAR, version 2, section 2), four 64-bit words to a register.
//!
//! The round function has no table, multiplication or branch, so it is constant-time.

use zeroize::Zeroize;

/// Bytes per update.
pub(crate) const RATE: usize = 32;

/// The Fibonacci sequence modulo 256: const0 and const1.
pub(crate) const CONSTANTS: [u8; 32] = *b"\x00\x01\x01\x02\x03\x05\x08\x0d\x15\x22\x37\x59\x90\xe9\x79\x62\
\xdb\x3d\x18\x55\x6d\xc2\x2f\xf1\x20\x11\x31\x42\x73\xb5\x28\xdd";

type Words = [u64; 4];

/// The state: five registers of 256 bits.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub struct State([Words; 5]);

impl Zeroize for State {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.zeroize();
    }
}

fn words(bytes: &[u8; RATE]) -> Words {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Up to 32 bytes, padded with zeros.
fn padded(bytes: &[u8]) -> Words {
    let mut block = [0; RATE];
    block[..bytes.len()].copy_from_slice(bytes);
    words(&block)
}

/// The register as a number, rotated left by 64 bits times `by`.
fn turned(x: Words, by: usize) -> Words {
    core::array::from_fn(|i| x[(i + 4 - by) % 4])
}

fn round(a: Words, b: Words, c: Words, d: Words, message: Words, left: u32) -> Words {
    core::array::from_fn(|i| (a[i] ^ (b[i] & c[i]) ^ d[i] ^ message[i]).rotate_left(left))
}

impl State {
    /// State after absorbing key and nonce (section 2.3).
    pub(crate) fn start(&mut self, key: &[u8; 16], nonce: &[u8; 16]) {
        let [low, high, ..] = padded(key);
        let key = [low, high, low, high];
        self.0 = [padded(nonce), key, [u64::MAX; 4], [0; 4], words(&CONSTANTS)];
        for _ in 0..16 {
            self.update([0; 4]);
        }
        for (word, key) in self.0[1].iter_mut().zip(key) {
            *word ^= key;
        }
    }

    /// StateUpdate (section 2.2).
    fn update(&mut self, m: Words) {
        let [mut s0, mut s1, mut s2, mut s3, mut s4] = self.0;
        s0 = round(s0, s1, s2, s3, [0; 4], 13);
        s3 = turned(s3, 1);
        s1 = round(s1, s2, s3, s4, m, 46);
        s4 = turned(s4, 2);
        s2 = round(s2, s3, s4, s0, m, 38);
        s0 = turned(s0, 3);
        s3 = round(s3, s4, s0, s1, m, 7);
        s1 = turned(s1, 2);
        s4 = round(s4, s0, s1, s2, m, 4);
        s2 = turned(s2, 1);
        self.0 = [s0, s1, s2, s3, s4];
    }

    fn stream(&self) -> Words {
        let [s0, s1, s2, s3, _] = self.0;
        let s1 = turned(s1, 3);
        core::array::from_fn(|i| s0[i] ^ s1[i] ^ (s2[i] & s3[i]))
    }

    /// Absorbs associated data, padded with zeros (section 2.4).
    pub(crate) fn absorb(&mut self, aad: &[u8]) {
        aad.chunks(RATE).for_each(|chunk| self.update(padded(chunk)));
    }

    /// Encrypts or decrypts (sections 2.5 and 2.7). Only a packet's last call may have a length
    /// that is not a multiple of the rate.
    pub(crate) fn crypt<const SEAL: bool>(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(RATE) {
            let stream = self.stream();
            let mut plain = [0; 4];
            if SEAL {
                plain = padded(chunk);
            }
            for (byte, pad) in chunk.iter_mut().zip(stream.iter().flat_map(|word| word.to_le_bytes())) {
                *byte ^= pad;
            }
            if !SEAL {
                plain = padded(chunk);
            }
            self.update(plain);
            plain.zeroize();
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

    /// The 128-bit tag (section 2.6).
    fn tag(&mut self, (aad, payload): (usize, usize)) -> [u8; 16] {
        let s0 = self.0[0];
        for (word, other) in self.0[4].iter_mut().zip(s0) {
            *word ^= other;
        }
        for _ in 0..10 {
            self.update([8 * aad as u64, 8 * payload as u64, 0, 0]);
        }
        let [low, high, ..] = self.stream();
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}
