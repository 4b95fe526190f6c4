//! AES and CCM_8 over it with many keys and packets, for a look from outside at each instruction
//! and each access to memory: `cargo xtask firmware` compares them between the rounds.

use crate::{AAD, Mote, Wrong, cost, report, right};
use antedate_aead::research::SingleBlockAes128;
use antedate_aead::{AesCcm, BlockCipher, Key, Nonce};
use core::hint::black_box;

/// Rounds. The first two have secrets of zeros and of ones.
const ROUNDS: u32 = 24;
/// Octets of a packet: whole blocks, and a part of one.
const LEN: usize = 40;
/// The secrets of a round.
const SECRETS: usize = 16 + 64 + LEN;

/// Prints a line for each measurement, in the order of the rounds.
pub fn measure_traces<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    let mut random = 0x2545_f491_u32;
    for round in 0..ROUNDS {
        let mut secrets = [if round == 0 { 0 } else { 0xff }; SECRETS];
        if round > 1 {
            for octet in &mut secrets {
                // Marsaglia's xorshift.
                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                *octet = (random >> 24) as u8;
            }
        }
        one_round::<M, A>(&secrets)?;
    }
    Ok(())
}

/// Never inlined, so that each round has its values at the same addresses.
#[inline(never)]
fn one_round<M: Mote, A: BlockCipher>(secrets: &[u8; SECRETS]) -> Result<(), Wrong> {
    let (key, rest) = secrets.split_first_chunk::<16>().ok_or(Wrong::Fit)?;
    let (blocks, payload) = rest.split_first_chunk::<64>().ok_or(Wrong::Fit)?;
    let (cost, aes) = cost!(M, A::new(black_box(key)));
    report::<M>("key", &[], "", cost);
    let mut blocks = *blocks;
    let plain = blocks;
    let (cost, ()) = cost!(M, aes.encrypt_all(black_box(blocks.as_chunks_mut().0)));
    report::<M>("blocks", &[], "", cost);
    // An AES that shares nothing with the measured one but the circuit of SubBytes.
    let inverse = SingleBlockAes128::new(key);
    blocks.as_chunks_mut().0.iter_mut().for_each(|block| inverse.decrypt(block));
    right(blocks == plain)?;
    let key = Key::<AesCcm<A, 12, 8>>::new(black_box(key)).map_err(|_| Wrong::Fit)?;
    let mut packet = [0; LEN];
    packet.copy_from_slice(payload);
    let nonce = *b"a nonce only";
    let (cost, tag) = cost!(M, key.seal_in_place(Nonce::assume_unique(nonce), &AAD, black_box(&mut packet)));
    report::<M>("seal", &[], "", cost);
    let (cost, opened) = cost!(M, key.open_in_place(nonce, &AAD, black_box(&mut packet), tag.as_bytes()));
    report::<M>("open", &[], "", cost);
    right(opened.is_ok() && packet == *payload)
}
