//! Counter mode alone, CCM's encryption: hiller2018's antedated encryption (section VI-A, figure
//! 5).

use crate::{LONGEST, Mote, Wrong, cost, is_payload, payload, report, right};
use antedate_aead::BlockCipher;
use core::hint::black_box;

/// Sizes with numbers in the paper's text.
const SIZES: [usize; 5] = [16, 48, 80, 200, 1000];

/// Key stream from counter block 1.
#[inline(never)]
fn stream<A: BlockCipher>(aes: &A, nonce: &[u8; 13], out: &mut [u8]) {
    let (blocks, _) = out.as_chunks_mut::<16>();
    for (i, block) in blocks.iter_mut().enumerate() {
        block[0] = 1;
        block[1..14].copy_from_slice(nonce);
        block[14..].copy_from_slice(&(i as u16 + 1).to_be_bytes());
        aes.encrypt(block);
    }
}

#[inline(never)]
fn xor(data: &mut [u8], stream: &[u8]) {
    for (byte, pad) in data.iter_mut().zip(stream) {
        *byte ^= pad;
    }
}

/// Encryption without preparation.
#[inline(never)]
fn encrypt<A: BlockCipher>(aes: &A, nonce: &[u8; 13], data: &mut [u8]) {
    let mut block = [0; 16];
    for (i, chunk) in data.chunks_mut(16).enumerate() {
        block[0] = 1;
        block[1..14].copy_from_slice(nonce);
        block[14..].copy_from_slice(&(i as u16 + 1).to_be_bytes());
        aes.encrypt(&mut block);
        xor(chunk, &block);
    }
}

#[inline(never)]
pub(crate) fn all<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    let aes = A::new(&[7; 16]);
    let nonce = black_box([9; 13]);
    let (mut data, mut prepared) = ([0; LONGEST], [0; LONGEST]);
    for size in SIZES {
        payload(&mut data);
        let (unmodified, ()) = cost!(M, encrypt(&aes, &nonce, &mut data[..black_box(size)]));
        report::<M>("ctr", &[size], "seal", unmodified);
        let blocks = size.next_multiple_of(16);
        let (preparing, ()) = cost!(M, stream(&aes, &nonce, &mut prepared[..black_box(blocks)]));
        report::<M>("ctr", &[size], "prepare", preparing);
        // XOR with the same bytes again removes the encryption.
        let (cost, ()) = cost!(M, xor(&mut data[..black_box(size)], &prepared));
        report::<M>("ctr", &[size], "online", cost);
        right(is_payload(&data))?;
    }
    Ok(())
}
