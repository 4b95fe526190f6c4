//! A sensor that only prepares packets and seals them with AES-128-CCM_8: its image shows the code
//! size.

use crate::{AAD, Counter};
use antedate_aead::{Aes128Ccm8, Front, FrontSlot, Key, Sealer};
use core::hint::black_box;

/// The first byte of the tag of a 127-byte packet, or `None` on failure.
#[inline(never)]
pub fn seal(key: &[u8; 16], front: &[u8], rest: &[u8]) -> Option<u8> {
    let lengths = [front.len() + rest.len()];
    let front = Front::new(&AAD, front, &lengths).ok()?;
    let mut sealer = Sealer::new(Key::<Aes128Ccm8>::new(key).ok()?, Counter(0));
    let mut slot = FrontSlot::<Aes128Ccm8, 128, 1>::new();
    let mut prepared = sealer.prepare_front(&front, &mut slot).ok()?;
    while prepared.step(1) > 0 {}
    let sealed = prepared.seal(rest).ok()?;
    black_box(sealed.ciphertext());
    Some(sealed.tag().as_bytes()[0])
}

/// The program; returns whether it succeeded.
pub fn run() -> bool {
    let data = black_box([5; 127]);
    seal(&black_box([7; 16]), &data[..112], &data[112..]).is_some()
}

/// The same without cryptography, to subtract.
pub fn nothing() -> bool {
    let data = black_box([5; 127]);
    data[3] == 5 && black_box([7u8; 16])[1] == 7
}
