//! AEGIS-128L (draft-irtf-cfrg-aegis-aead section 3) with AES-NI: one instruction per block and
//! round. AVX-512 adds masked tails and two-operation key stream blocks.

use super::aegis_sse2;
use crate::{
    Backend,
    backend::portable::aegis::{C0, C1, RATE, State},
    buffers::Buffers,
};
use core::arch::x86_64::*;

/// Proof that the CPU supports the instructions; only `new` constructs it.
#[derive(Clone, Copy)]
pub(crate) enum Kernels {
    /// Available on every x86-64 CPU.
    Sse2,
    Ni(()),
    Avx512(()),
}

/// The payload of a packet, or the rest of it: `len` bytes.
struct Payload {
    src: *const u8,
    dst: *mut u8,
    len: usize,
}

impl Kernels {
    /// Kernels exist for every backend.
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        match backend.min(super::detect()) {
            Backend::Portable | Backend::Ssse3 => Some(Self::Sse2),
            Backend::AesNi | Backend::Vaes => Some(Self::Ni(())),
            Backend::Avx512 => Some(Self::Avx512(())),
        }
    }

    /// State after absorbing key and nonce.
    pub(crate) fn start(self, state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
        // SAFETY: `self` proves CPU support.
        unsafe {
            match self {
                Self::Sse2 => aegis_sse2::start(state, key, nonce),
                Self::Ni(()) => ni::start(state, key, nonce),
                Self::Avx512(()) => avx512::start(state, key, nonce),
            }
        }
    }

    /// Absorbs associated data, padded with zeros.
    pub(crate) fn absorb(self, state: &mut State, aad: &[u8]) {
        // SAFETY: `self` proves CPU support.
        unsafe {
            match self {
                Self::Sse2 => aegis_sse2::absorb(state, aad),
                Self::Ni(()) => ni::absorb(state, aad),
                Self::Avx512(()) => avx512::absorb(state, aad),
            }
        }
    }

    /// Encrypts bytes before the end of the packet, a whole number of [`RATE`].
    pub(crate) fn block(self, state: &mut State, data: &mut [u8]) {
        if matches!(self, Self::Sse2) {
            // SAFETY: every x86-64 CPU has SSE2.
            return unsafe { aegis_sse2::block(state, data) };
        }
        let dst = data.as_mut_ptr();
        let payload = Payload { src: dst, dst, len: data.len() };
        // SAFETY: `self` proves CPU support; the pointers come from the slice.
        unsafe {
            match self {
                // Handled above.
                Self::Sse2 => {}
                Self::Ni(()) => ni::block(state, &payload),
                Self::Avx512(()) => avx512::block(state, &payload),
            }
        }
    }

    /// Absorbs associated data, encrypts or decrypts the rest of a packet, and returns the tag.
    /// `lengths` are the whole packet's, in bytes.
    pub(crate) fn finish<const SEAL: bool>(
        self,
        state: &State,
        aad: &[u8],
        buffers: Buffers<'_>,
        lengths: (usize, usize),
    ) -> [u8; 16] {
        if matches!(self, Self::Sse2) {
            // SAFETY: every x86-64 CPU has SSE2.
            return unsafe { aegis_sse2::finish::<SEAL>(state, aad, buffers, lengths) };
        }
        let payload = match buffers {
            Buffers::Apart(src, dst) => {
                assert_eq!(src.len(), dst.len());
                Payload { src: src.as_ptr(), dst: dst.as_mut_ptr(), len: dst.len() }
            }
            Buffers::InPlace(buffer) => {
                let dst = buffer.as_mut_ptr();
                Payload { src: dst, dst, len: buffer.len() }
            }
        };
        // SAFETY: `self` proves CPU support; the pointers come from the buffers.
        unsafe {
            match self {
                // Handled above.
                Self::Sse2 => [0; 16],
                Self::Ni(()) => ni::finish::<SEAL>(state, aad, &payload, lengths),
                Self::Avx512(()) => avx512::finish::<SEAL>(state, aad, &payload, lengths),
            }
        }
    }
}

/// Kernels for one instruction set. `part` and `put` load and store up to 16 bytes; `and_xor` is a
/// + b c.
macro_rules! kernels {
    ($features:literal) => {
        type Blocks = [__m128i; 8];

        #[inline]
        #[target_feature(enable = $features)]
        fn load(state: &State) -> Blocks {
            let at = core::ptr::from_ref(state).cast::<__m128i>();
            // SAFETY: the state has eight blocks.
            core::array::from_fn(|i| unsafe { _mm_loadu_si128(at.add(i)) })
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store(state: &mut State, s: &Blocks) {
            let at = core::ptr::from_mut(state).cast::<__m128i>();
            for (i, block) in s.iter().enumerate() {
                // SAFETY: the state has eight blocks.
                unsafe { _mm_storeu_si128(at.add(i), *block) };
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn from(bytes: &[u8; 16]) -> __m128i {
            // SAFETY: the buffer has 16 bytes.
            unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn update(s: &mut Blocks, m0: __m128i, m1: __m128i) {
            let last = s[7];
            s[7] = _mm_aesenc_si128(s[6], s[7]);
            s[6] = _mm_aesenc_si128(s[5], s[6]);
            s[5] = _mm_aesenc_si128(s[4], s[5]);
            s[4] = _mm_aesenc_si128(s[3], _mm_xor_si128(s[4], m1));
            s[3] = _mm_aesenc_si128(s[2], s[3]);
            s[2] = _mm_aesenc_si128(s[1], s[2]);
            s[1] = _mm_aesenc_si128(s[0], s[1]);
            s[0] = _mm_aesenc_si128(last, _mm_xor_si128(s[0], m0));
        }

        /// z0 and z1.
        #[inline]
        #[target_feature(enable = $features)]
        fn stream(s: &Blocks) -> (__m128i, __m128i) {
            (_mm_xor_si128(s[6], and_xor(s[1], s[2], s[3])), _mm_xor_si128(s[2], and_xor(s[5], s[6], s[7])))
        }

        #[inline]
        #[target_feature(enable = $features)]
        pub(super) unsafe fn start(state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
            let (key, nonce) = (from(key), from(nonce));
            let (c0, c1) = (from(&C0), from(&C1));
            let mixed = _mm_xor_si128(key, nonce);
            let (key0, key1) = (_mm_xor_si128(key, c0), _mm_xor_si128(key, c1));
            let mut s = [mixed, c1, c0, c1, mixed, key0, key1, key0];
            for _ in 0..10 {
                update(&mut s, nonce, key);
            }
            store(state, &s);
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn associated(s: &mut Blocks, aad: &[u8]) {
            for chunk in aad.chunks(RATE) {
                let at = chunk.as_ptr();
                let first = chunk.len().min(16);
                // SAFETY: both parts are within the chunk.
                unsafe { update(s, part(at, first), part(at.wrapping_add(first), chunk.len() - first)) };
            }
        }

        #[target_feature(enable = $features)]
        pub(super) unsafe fn absorb(state: &mut State, aad: &[u8]) {
            let mut s = load(state);
            associated(&mut s, aad);
            store(state, &s);
        }

        /// Processes whole updates.
        ///
        /// # Safety
        /// The pointers are valid for the payload's length.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn whole<const SEAL: bool>(s: &mut Blocks, payload: &Payload) -> usize {
            let mut done = 0;
            while payload.len - done >= RATE {
                let (z0, z1) = stream(s);
                // SAFETY: 32 bytes from `done` on are within the payload.
                unsafe {
                    let src = payload.src.add(done).cast::<__m128i>();
                    let dst = payload.dst.add(done).cast::<__m128i>();
                    let (x0, x1) = (_mm_loadu_si128(src), _mm_loadu_si128(src.add(1)));
                    let (y0, y1) = (_mm_xor_si128(x0, z0), _mm_xor_si128(x1, z1));
                    _mm_storeu_si128(dst, y0);
                    _mm_storeu_si128(dst.add(1), y1);
                    if SEAL { update(s, x0, x1) } else { update(s, y0, y1) }
                }
                done += RATE;
            }
            done
        }

        /// # Safety
        /// The pointers are valid for the payload's length.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn block(state: &mut State, payload: &Payload) {
            let mut s = load(state);
            // SAFETY: guaranteed by the caller.
            let done = unsafe { whole::<true>(&mut s, payload) };
            debug_assert_eq!(done, payload.len);
            store(state, &s);
        }

        /// # Safety
        /// The pointers are valid for the payload's length.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn finish<const SEAL: bool>(
            state: &State,
            aad: &[u8],
            payload: &Payload,
            (aad_len, payload_len): (usize, usize),
        ) -> [u8; 16] {
            let mut s = load(state);
            associated(&mut s, aad);
            // SAFETY: guaranteed by the caller.
            let done = unsafe { whole::<SEAL>(&mut s, payload) };
            let left = payload.len - done;
            if left > 0 {
                let (z0, z1) = stream(&s);
                let (first, second) = (left.min(16), left.saturating_sub(16));
                // SAFETY: both parts are within the payload. Bytes after a part's end are zero in
                // the message.
                unsafe {
                    let (src, dst) = (payload.src.add(done), payload.dst.add(done));
                    let (x0, x1) = (part(src, first), part(src.add(first), second));
                    let (y0, y1) = (_mm_xor_si128(x0, z0), _mm_xor_si128(x1, z1));
                    let y0 = put(dst, first, y0);
                    let y1 = put(dst.add(first), second, y1);
                    if SEAL { update(&mut s, x0, x1) } else { update(&mut s, y0, y1) }
                }
            }
            let t = _mm_xor_si128(s[2], _mm_set_epi64x(8 * payload_len as i64, 8 * aad_len as i64));
            for _ in 0..7 {
                update(&mut s, t, t);
            }
            let [s0, s1, s2, s3, s4, s5, s6, _] = s;
            let (a, b) = (_mm_xor_si128(s0, s1), _mm_xor_si128(s2, s3));
            let (c, d) = (_mm_xor_si128(s4, s5), _mm_xor_si128(a, b));
            let sum = _mm_xor_si128(_mm_xor_si128(c, s6), d);
            let mut tag = [0; 16];
            // SAFETY: the buffer has 16 bytes.
            unsafe { _mm_storeu_si128(tag.as_mut_ptr().cast(), sum) };
            tag
        }
    };
}

mod ni {
    use super::*;

    kernels!("sse4.1,aes");

    #[inline]
    #[target_feature(enable = "sse2")]
    fn and_xor(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
        _mm_xor_si128(a, _mm_and_si128(b, c))
    }

    /// Up to 16 bytes, padded with zeros.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 16.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn part(at: *const u8, len: usize) -> __m128i {
        let mut bytes = [0u8; 16];
        // SAFETY: both pointers are valid for `len` bytes.
        unsafe {
            at.copy_to_nonoverlapping(bytes.as_mut_ptr(), len);
            _mm_loadu_si128(bytes.as_ptr().cast())
        }
    }

    /// Stores the first bytes of a block, and returns the block with the others zeroed.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 16.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn put(at: *mut u8, len: usize, block: __m128i) -> __m128i {
        let mut bytes = [0u8; 16];
        // SAFETY: both pointers are valid for `len` bytes.
        unsafe {
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), block);
            bytes[len..].fill(0);
            bytes.as_ptr().copy_to_nonoverlapping(at, len);
            let kept = _mm_loadu_si128(bytes.as_ptr().cast());
            crate::bytes::wipe(&mut bytes);
            kept
        }
    }
}

mod avx512 {
    use super::*;

    kernels!("aes,avx512f,avx512bw,avx512vl,bmi2");

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn and_xor(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
        _mm_ternarylogic_epi64::<0x78>(a, b, c)
    }

    #[inline]
    #[target_feature(enable = "bmi2")]
    fn mask(len: usize) -> __mmask16 {
        _bzhi_u32(0xffff, len as u32) as __mmask16
    }

    /// Up to 16 bytes, padded with zeros.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 16.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,bmi2")]
    unsafe fn part(at: *const u8, len: usize) -> __m128i {
        // SAFETY: masked-out bytes are not accessed.
        unsafe { _mm_maskz_loadu_epi8(mask(len), at.cast()) }
    }

    /// Stores the first bytes of a block, and returns the block with the others zeroed.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 16.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,bmi2")]
    unsafe fn put(at: *mut u8, len: usize, block: __m128i) -> __m128i {
        // SAFETY: masked-out bytes are not accessed.
        unsafe { _mm_mask_storeu_epi8(at.cast(), mask(len), block) };
        _mm_maskz_mov_epi8(mask(len), block)
    }
}
