//! Blocks of 16 bytes, XORed as the words that a small CPU has.

/// XORs one block into another.
#[inline]
pub(crate) fn xor_in(block: &mut [u8; 16], with: &[u8; 16]) {
    let (words, _) = block.as_chunks_mut::<4>();
    for (word, other) in words.iter_mut().zip(with.as_chunks::<4>().0) {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(*other)).to_ne_bytes();
    }
}
