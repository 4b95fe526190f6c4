//! Four tables of 16-bit words, 2 KB, for MSP430.
//!
//! A column of the state is two words: rows 0 and 1, rows 2 and 3. A byte contributes two words to
//! its column. MixColumns treats all rows alike, so the contributions of rows 2 and 3 are those of
//! rows 0 and 1 with the words swapped.
//!
//! On the MSP430 the rounds are assembly (`narrow.s`), which keeps the whole state in registers.
//! The Rust version serves host tests of the tables, the key format and the folding; the lab's
//! simulator tests the assembly.

use super::{S_BOX, double};
use zeroize::Zeroize;

/// A byte's contribution to its column, two rows a word: 2s s, s 3s, 3s 2s, s s.
#[repr(C, align(2))]
pub(crate) struct Tables([[u16; 256]; 4]);

static TABLES: Tables = {
    let mut tables = [[0; 256]; 4];
    let mut i = 0;
    while i < 256 {
        let (s, twice) = (S_BOX[i], double(S_BOX[i]));
        tables[0][i] = u16::from_le_bytes([twice, s]);
        tables[1][i] = u16::from_le_bytes([s, twice ^ s]);
        tables[2][i] = u16::from_le_bytes([twice ^ s, twice]);
        tables[3][i] = u16::from_le_bytes([s, s]);
        i += 1;
    }
    Tables(tables)
};

/// An expanded key, in the order in which the assembly reads it.
#[repr(C, align(2))]
pub(crate) struct Aes128 {
    /// Round key 0.
    first: [u8; 16],
    /// Round keys 1 to 10, and the sum of keys 10 and 0; columns in reverse order.
    keys: [[u8; 16]; 11],
    /// Round key 10.
    last: [u8; 16],
}

impl Drop for Aes128 {
    fn drop(&mut self) {
        self.first.zeroize();
        self.keys.as_flattened_mut().zeroize();
        self.last.zeroize();
    }
}

fn substitute(byte: u8) -> u8 {
    TABLES.0[3][usize::from(byte)] as u8
}

/// Reverses the order of the columns.
fn turned(block: &[u8; 16]) -> [u8; 16] {
    let mut to = [0; 16];
    for (i, byte) in block.iter().enumerate() {
        to[i ^ 12] = *byte;
    }
    to
}

impl Aes128 {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let mut this = Self { first: *key, keys: [[0; 16]; 11], last: *key };
        let Self { first, keys, last: block } = &mut this;
        let mut rcon = 1u8;
        for key in &mut keys[..10] {
            for at in 0..16 {
                let add = match at {
                    0..4 => substitute(block[12 + (at + 1) % 4]),
                    _ => block[at - 4],
                };
                block[at] ^= add;
            }
            // The constant goes to the first byte, and through it to the first byte of each column.
            for column in block.as_chunks_mut::<4>().0 {
                column[0] ^= rcon;
            }
            rcon = double(rcon);
            *key = turned(block);
        }
        keys[10] = turned(first);
        let (ten, both) = keys.split_at_mut(10);
        xor_in(&mut both[0], &ten[9]);
        this
    }

    /// Encrypts a block.
    #[inline]
    pub(crate) fn encrypt(&self, block: &mut [u8; 16]) {
        rounds::encrypt(self, block);
    }

    /// Adds round key 0 to a chain, the form that `advance` and `finish` take.
    #[inline]
    pub(crate) fn fold(&self, chain: &mut [u8; 16]) {
        xor_in(chain, &self.first);
    }

    /// Adds the last round key to the mask of a tag.
    #[inline]
    pub(crate) fn fold_mask(&self, mask: &mut [u8; 16]) {
        xor_in(mask, &self.last);
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

#[cfg(not(target_arch = "msp430"))]
use crate::backend::blocks::xor_in;
#[cfg(target_arch = "msp430")]
pub(crate) use rounds::{sum, xor_in};

#[cfg(target_arch = "msp430")]
#[allow(unsafe_code, reason = "calls assembly")]
mod rounds {
    use super::{Aes128, TABLES};
    use crate::backend::blocks::Block as Sum;
    use core::arch::global_asm;

    global_asm!(include_str!("narrow.s"), tables = sym TABLES);

    unsafe extern "C" {
        fn antedate_aes_encrypt(key: *const Aes128, block: *mut Block);
        fn antedate_aes_advance(key: *const Aes128, block: *mut Block);
        fn antedate_aes_finish(key: *const Aes128, chain: *const Block, mask: *const Block, tag: *mut Half);
        fn antedate_xor(block: *mut [u8; 16], with: *const [u8; 16]);
        fn antedate_sum(to: *mut Sum, a: *const Block, b: *const Block);
    }

    /// XORs one block into another.
    #[inline]
    pub(crate) fn xor_in(block: &mut [u8; 16], with: &[u8; 16]) {
        // SAFETY: both pointers are valid for 16 bytes; the function checks the alignment itself.
        unsafe { antedate_xor(block, with) }
    }

    /// The sum of two blocks.
    #[inline]
    pub(crate) fn sum(a: &[u8; 16], b: &[u8; 16]) -> Sum {
        let (a_at, b_at) = (&raw const *a, &raw const *b);
        let mut to = Sum([0; 16]);
        if even(a_at) && even(b_at) {
            let mut to = core::mem::MaybeUninit::<Sum>::uninit();
            // SAFETY: the pointers are valid and even. The function reads 16 bytes of each and
            // writes all of `to`.
            unsafe {
                antedate_sum(to.as_mut_ptr(), a_at.cast(), b_at.cast());
                return to.assume_init();
            }
        }
        to.0 = *a;
        xor_in(&mut to.0, b);
        to
    }

    #[repr(C, align(2))]
    #[derive(Clone, Copy)]
    struct Block([u8; 16]);

    #[repr(C, align(2))]
    #[derive(Clone, Copy)]
    struct Half([u8; 8]);

    /// The CPU reads words at even addresses only. Nearly all blocks have one; others are copied.
    fn even<T>(bytes: *const T) -> bool {
        bytes.addr() & 1 == 0
    }

    #[inline]
    pub(super) fn encrypt(key: &Aes128, block: &mut [u8; 16]) {
        in_place(key, block, antedate_aes_encrypt);
    }

    #[inline]
    pub(super) fn advance(key: &Aes128, chain: &mut [u8; 16]) {
        in_place(key, chain, antedate_aes_advance);
    }

    #[inline(never)]
    fn in_place(key: &Aes128, block: &mut [u8; 16], work: unsafe extern "C" fn(*const Aes128, *mut Block)) {
        let place: *mut [u8; 16] = block;
        if even(place) {
            // SAFETY: key and block are valid, and the block is at an even address and 16 bytes
            // long. Both functions read the key, read and write the block, and preserve the
            // registers that the ABI requires.
            unsafe { work(key, place.cast()) }
        } else {
            let mut copy = Block(*block);
            // SAFETY: as above; the copy is at an even address.
            unsafe { work(key, &raw mut copy) }
            *block = copy.0;
            crate::bytes::wipe(&mut copy.0);
        }
    }

    #[inline]
    pub(super) fn finish(key: &Aes128, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; 8]) {
        let (chain_at, mask_at, tag_at) = (&raw const *chain, &raw const *mask, &raw mut *tag);
        if even(chain_at) && even(mask_at) && even(tag_at) {
            // SAFETY: the pointers are valid and even, for the 16, 16 and 8 bytes that the function
            // reads and writes.
            unsafe { antedate_aes_finish(key, chain_at.cast(), mask_at.cast(), tag_at.cast()) }
        } else {
            let (mut chain, mut mask, mut half) = (Block(*chain), Block(*mask), Half([0; 8]));
            // SAFETY: as above.
            unsafe { antedate_aes_finish(key, &raw const chain, &raw const mask, &raw mut half) }
            *tag = half.0;
            crate::bytes::wipe(&mut chain.0);
            crate::bytes::wipe(&mut mask.0);
        }
    }
}

/// The same functions in Rust.
#[cfg(not(target_arch = "msp430"))]
mod rounds {
    use super::{Aes128, TABLES, substitute, turned, xor_in};

    /// The byte of a row that ShiftRows moves to column `c`.
    fn shifted(x: &[u8; 16], c: usize, row: usize) -> u8 {
        x[4 * ((c + row) % 4) + row]
    }

    fn middle(key: &Aes128, mut x: [u8; 16]) -> [u8; 16] {
        for key in &key.keys[..9] {
            let mut next = turned(key);
            for (i, word) in next.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let part = |row: usize, table: usize| TABLES.0[table][usize::from(shifted(&x, i / 2, row))];
                let sum = match i % 2 {
                    0 => part(0, 0) ^ part(1, 2) ^ part(2, 1) ^ part(3, 3),
                    _ => part(0, 1) ^ part(1, 3) ^ part(2, 0) ^ part(3, 2),
                };
                *word = (u16::from_le_bytes(*word) ^ sum).to_le_bytes();
            }
            x = next;
        }
        x
    }

    fn last(x: &[u8; 16]) -> [u8; 16] {
        core::array::from_fn(|i| substitute(shifted(x, i / 4, i % 4)))
    }

    pub(super) fn encrypt(key: &Aes128, block: &mut [u8; 16]) {
        xor_in(block, &key.first);
        *block = last(&middle(key, *block));
        xor_in(block, &turned(&key.keys[9]));
    }

    pub(super) fn advance(key: &Aes128, chain: &mut [u8; 16]) {
        *chain = last(&middle(key, *chain));
        xor_in(chain, &turned(&key.keys[10]));
    }

    pub(super) fn finish(key: &Aes128, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; 8]) {
        let whole = last(&middle(key, *chain));
        for (byte, (a, b)) in tag.iter_mut().zip(whole.iter().zip(mask)) {
            *byte = a ^ b;
        }
    }
}
