//! Numbers, nonces and bytes of the packets.

use antedate_aead::{Nonce, NonceSequence};

/// Numbers from 0 on.
pub(crate) struct Counter(pub(crate) u64);

impl<B: AsMut<[u8]> + Default> NonceSequence<B> for Counter {
    type Error = &'static str;

    fn next(&mut self) -> Result<(u64, Nonce<B>), Self::Error> {
        self.0 += 1;
        Ok((self.0 - 1, Nonce::assume_unique(nonce_of(self.0 - 1))))
    }
}

/// The nonce of a number, which is public.
pub(crate) fn nonce_of<B: AsMut<[u8]> + Default>(number: u64) -> B {
    let mut nonce = B::default();
    let bytes = nonce.as_mut();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&(number as u32).to_be_bytes());
    nonce
}

/// Numbers that look random (SplitMix64, Steele, Lea and Flood, 2014): which class, which bytes.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }
}
