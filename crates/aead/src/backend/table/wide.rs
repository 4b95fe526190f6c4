//! One 1 KB table, for Cortex-M3 and later without a data cache.
//!
//! On the target the rounds are assembly (`wide.s`): the state fits the registers, but a compiler
//! spills it. The Rust version serves host tests; the assembly is tested in QEMU.

use super::{S_BOX, double};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use zeroize::Zeroize;

/// A row 0 byte's contribution to its column in SubBytes and MixColumns, as a little-endian word:
/// 2s, s, s, 3s.
///
/// Atomic, though nothing writes to it: so it lies in RAM (`.data`) and takes 1 KB of it. What many
/// chips have before their flash, caches and buffers of whole lines, would make the time of a look-up
/// depend on its address.
static TABLE: [AtomicU32; 256] = {
    let mut table = [const { AtomicU32::new(0) }; 256];
    let mut i = 0;
    while i < 256 {
        let s = S_BOX[i];
        table[i] = AtomicU32::new(u32::from_le_bytes([double(s), s, s, double(s) ^ s]));
        i += 1;
    }
    table
};

/// An expanded key: the round keys as little-endian words, and the sum of the last and the first.
pub(crate) struct Aes128 {
    keys: [[u32; 4]; 12],
}

impl Drop for Aes128 {
    fn drop(&mut self) {
        self.keys.as_flattened_mut().zeroize();
    }
}

/// The S-box, read from the table.
fn substitute(byte: u8) -> u8 {
    (TABLE[usize::from(byte)].load(Relaxed) >> 8) as u8
}

fn words(block: &[u8; 16]) -> [u32; 4] {
    let (bytes, _) = block.as_chunks::<4>();
    core::array::from_fn(|i| u32::from_le_bytes(bytes[i]))
}

/// XORs words into bytes.
fn add(block: &mut [u8; 16], words: &[u32; 4]) {
    for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = (u32::from_le_bytes(*bytes) ^ word).to_le_bytes();
    }
}

impl Aes128 {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let mut keys = [[0; 4]; 12];
        keys[0] = words(key);
        let mut rcon = 1u8;
        for i in 1..11 {
            let before = keys[i - 1];
            let mut word = u32::from_le_bytes(before[3].to_le_bytes().map(substitute)).rotate_right(8);
            word ^= u32::from(rcon);
            for c in 0..4 {
                word ^= before[c];
                keys[i][c] = word;
            }
            rcon = double(rcon);
        }
        keys[11] = core::array::from_fn(|c| keys[10][c] ^ keys[0][c]);
        Self { keys }
    }

    /// Encrypts a block.
    #[inline]
    pub(crate) fn encrypt(&self, block: &mut [u8; 16]) {
        rounds::encrypt(self, block);
    }

    /// Adds round key 0 to a chain, the form that `advance` and `finish` take.
    #[inline]
    pub(crate) fn fold(&self, chain: &mut [u8; 16]) {
        add(chain, &self.keys[0]);
    }

    /// Adds the last round key to the mask of a tag.
    #[inline]
    pub(crate) fn fold_mask(&self, mask: &mut [u8; 16]) {
        add(mask, &self.keys[10]);
    }

    /// Encrypts a folded chain and folds the result.
    #[inline]
    pub(crate) fn advance(&self, chain: &mut [u8; 16]) {
        rounds::advance(self, chain);
    }

    /// The first 8 bytes of a folded chain's encryption, XORed with a folded mask.
    #[inline]
    pub(crate) fn finish(&self, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; 8]) {
        rounds::finish(self, chain, mask, tag);
    }
}

#[cfg(all(target_arch = "arm", target_os = "none"))]
#[allow(unsafe_code, reason = "calls assembly")]
mod rounds {
    use super::{Aes128, TABLE};
    use core::arch::global_asm;

    global_asm!(include_str!("wide.s"), table = sym TABLE);

    unsafe extern "C" {
        fn antedate_aes_encrypt(first: *const [u32; 4], block: *mut [u8; 16], last: *const [u32; 4]);
        fn antedate_aes_advance(second: *const [u32; 4], block: *mut [u8; 16], last: *const [u32; 4]);
        fn antedate_aes_finish(
            second: *const [u32; 4],
            chain: *const [u8; 16],
            mask: *const [u8; 16],
            tag: *mut [u8; 8],
        );
    }

    #[inline]
    pub(super) fn encrypt(key: &Aes128, block: &mut [u8; 16]) {
        let keys = key.keys.as_ptr();
        // SAFETY: the function reads ten round keys from `keys` and the last one after them, all
        // within the array. It reads and writes the 16 bytes of the block, with loads that may be
        // unaligned, and preserves the registers that the ABI requires.
        unsafe { antedate_aes_encrypt(keys, block, keys.add(10)) }
    }

    #[inline]
    pub(super) fn advance(key: &Aes128, chain: &mut [u8; 16]) {
        let keys = key.keys.as_ptr();
        // SAFETY: as in `encrypt`, from the second round key; the twelfth is within the array.
        unsafe { antedate_aes_advance(keys.add(1), chain, keys.add(11)) }
    }

    #[inline]
    pub(super) fn finish(key: &Aes128, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; 8]) {
        // SAFETY: as in `advance`; the function reads the chain and half of the mask, and writes 8
        // bytes.
        unsafe { antedate_aes_finish(key.keys.as_ptr().add(1), chain, mask, tag) }
    }
}

/// The same functions in Rust, for host tests.
#[cfg(not(all(target_arch = "arm", target_os = "none")))]
mod rounds {
    use super::{Aes128, Relaxed, TABLE, add, substitute, words};

    fn byte(x: &[u32; 4], c: usize, row: usize) -> u8 {
        x[(c + row) % 4].to_le_bytes()[row]
    }

    fn middle(key: &Aes128, mut x: [u32; 4]) -> [u32; 4] {
        for key in &key.keys[1..10] {
            x = core::array::from_fn(|c| {
                let entry = |row: usize| TABLE[usize::from(byte(&x, c, row))].load(Relaxed);
                let part = |row: usize| entry(row).rotate_left(8 * row as u32);
                key[c] ^ part(0) ^ part(1) ^ part(2) ^ part(3)
            });
        }
        x
    }

    fn last(x: &[u32; 4]) -> [u8; 16] {
        core::array::from_fn(|i| substitute(byte(x, i / 4, i % 4)))
    }

    pub(super) fn encrypt(key: &Aes128, block: &mut [u8; 16]) {
        add(block, &key.keys[0]);
        *block = last(&middle(key, words(block)));
        add(block, &key.keys[10]);
    }

    pub(super) fn advance(key: &Aes128, chain: &mut [u8; 16]) {
        *chain = last(&middle(key, words(chain)));
        add(chain, &key.keys[11]);
    }

    pub(super) fn finish(key: &Aes128, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; 8]) {
        let whole = last(&middle(key, words(chain)));
        for (byte, (a, b)) in tag.iter_mut().zip(whole.iter().zip(mask)) {
            *byte = a ^ b;
        }
    }
}
