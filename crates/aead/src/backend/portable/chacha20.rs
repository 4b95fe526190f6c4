//! ChaCha20 (RFC 8439 section 2.3): additions, rotations and XOR only, constant-time on every CPU.

use zeroize::Zeroize;

/// "expand 32-byte k" as little-endian words.
pub(crate) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// One block of key stream, cut to at most 64 bytes.
pub(crate) fn block(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
    let mut state = [0u32; 16];
    state[..4].copy_from_slice(&CONSTANTS);
    state[4..12].copy_from_slice(key);
    state[12] = counter;
    for (word, bytes) in state[13..].iter_mut().zip(nonce.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut x = state;
    for _ in 0..10 {
        quarter(&mut x, 0, 4, 8, 12);
        quarter(&mut x, 1, 5, 9, 13);
        quarter(&mut x, 2, 6, 10, 14);
        quarter(&mut x, 3, 7, 11, 15);
        quarter(&mut x, 0, 5, 10, 15);
        quarter(&mut x, 1, 6, 11, 12);
        quarter(&mut x, 2, 7, 8, 13);
        quarter(&mut x, 3, 4, 9, 14);
    }
    for (bytes, (a, b)) in out.chunks_mut(4).zip(x.iter().zip(&state)) {
        bytes.copy_from_slice(&a.wrapping_add(*b).to_le_bytes()[..bytes.len()]);
    }
    state.zeroize();
    x.zeroize();
}

fn quarter(x: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(16);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(12);
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(8);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(7);
}

/// Key stream from block `counter`. Unused where the base architecture has vectors.
#[cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    allow(dead_code, reason = "these CPUs have vector code")
)]
pub(crate) fn stream(key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
    for (i, chunk) in out.chunks_mut(64).enumerate() {
        block(key, counter.wrapping_add(i as u32), nonce, chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_matches_rfc_8439_vector() {
        let key = core::array::from_fn(|i| u32::from_le_bytes(core::array::from_fn(|k| (4 * i + k) as u8)));
        let mut out = [0; 64];
        block(&key, 1, &[0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0], &mut out);
        assert_eq!(out[..8], [0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15]);
        assert_eq!(out[52..], [0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e]);
    }
}
