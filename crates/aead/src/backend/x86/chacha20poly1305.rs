//! ChaCha20-Poly1305 on x86-64 with AVX-512.

use super::{avx512, chacha20, poly1305};
use crate::{
    Backend,
    backend::portable::{pieces, poly1305::Limbs},
    buffers::Buffers,
};

pub(crate) use poly1305::Powers;

/// The proof that the CPU has AVX-512 F, BW and IFMA, and BMI2.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(super::detect()) >= Backend::Avx512).then_some(Self(()))
    }

    /// Cipherstream from block `counter` on; `out` is a whole number of blocks.
    pub(crate) fn stream(self, key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
        // SAFETY: `self` is the proof.
        unsafe { chacha20::stream(key, counter, nonce, out.as_chunks_mut::<64>().0) }
    }

    /// The powers of r for a packet of so many blocks.
    pub(crate) fn powers(self, r: &Limbs, powers: &mut Powers, blocks: usize) {
        // SAFETY: `self` is the proof.
        unsafe { powers.set(r, blocks.div_ceil(8).clamp(1, 4)) }
    }

    pub(crate) fn tag(self, powers: &Powers, s: &[u8; 16], aad: &[u8], payload: &[u8]) -> [u8; 16] {
        // SAFETY: `self` is the proof.
        unsafe { poly1305::tag(powers, s, aad, payload) }
    }

    /// XORs the stream, which is wiped; it covers the payload and is a whole number of units.
    pub(crate) fn xor_wiped<'a>(self, stream: &mut [u8], buffers: Buffers<'a>) -> &'a mut [u8] {
        let used = buffers.len().next_multiple_of(64);
        assert!(used <= stream.len());
        let (src, dst) = Self::pointers(buffers);
        // SAFETY: `self` is the proof, the pointers are to equally long buffers, and the stream covers them.
        unsafe {
            avx512::xor::<true>(src, dst.as_mut_ptr(), dst.len(), stream.as_mut_ptr());
            avx512::wipe(&mut stream[used..]);
        }
        dst
    }

    /// XORs the stream, which stays; it covers the payload and is a whole number of units.
    pub(crate) fn xor(self, stream: &[u8], buffers: Buffers<'_>) {
        assert!(buffers.len().next_multiple_of(64) <= stream.len());
        let (src, dst) = Self::pointers(buffers);
        // SAFETY: `self` is the proof, the pointers are to equally long buffers, and the stream covers them.
        unsafe { avx512::xor::<false>(src, dst.as_mut_ptr(), dst.len(), stream.as_ptr().cast_mut()) }
    }

    pub(crate) fn wipe(self, bytes: &mut [u8]) {
        // SAFETY: `self` is the proof.
        unsafe { avx512::wipe(bytes) }
    }

    /// XORs the cipherstream to `data`, which begins at block 1. If `first` is given, block 0 is made in the same pass
    /// and its beginning, r and s, goes there.
    pub(crate) fn one_shot(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        data: &mut [u8],
        mut first: Option<&mut [u8; 32]>,
    ) {
        let mut stream = [[0u8; 64]; 16];
        let mut rest = data;
        let mut counter = u32::from(first.is_none());
        loop {
            let skipped = usize::from(first.is_some());
            let blocks = (rest.len().div_ceil(64) + skipped).min(16);
            let part = &mut stream[..blocks];
            self.stream(key, counter, nonce, part.as_flattened_mut());
            if let Some(first) = first.take() {
                first.copy_from_slice(&part[0][..32]);
            }
            let (now, later) = rest.split_at_mut(rest.len().min(64 * (blocks - skipped)));
            pieces::xor(now, part[skipped..].as_flattened());
            rest = later;
            counter += blocks as u32;
            if rest.is_empty() {
                break;
            }
        }
        self.wipe(stream.as_flattened_mut());
    }

    fn pointers(buffers: Buffers<'_>) -> (*const u8, &mut [u8]) {
        match buffers {
            Buffers::Apart(src, dst) => {
                assert_eq!(src.len(), dst.len());
                (src.as_ptr(), dst)
            }
            Buffers::InPlace(buffer) => (buffer.as_ptr(), buffer),
        }
    }
}
