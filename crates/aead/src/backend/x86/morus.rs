//! MORUS-1280-128 (submission to CAESAR, version 2, section 2), one 256-bit vector to a register of
//! the state.

use crate::{
    Backend,
    backend::portable::morus::{CONSTANTS, RATE, State},
    buffers::Buffers,
};
use core::arch::x86_64::*;

/// Proof that the CPU supports the instructions; only `new` constructs it.
#[derive(Clone, Copy)]
pub(crate) enum Kernels {
    Avx2(()),
    Avx512(()),
}

/// The payload of a packet, or the rest of it: `len` bytes.
struct Payload {
    src: *const u8,
    dst: *mut u8,
    len: usize,
}

impl Kernels {
    /// Returns `None` unless the backend belongs to x86-64 and the CPU supports it.
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        match backend.min(super::detect()) {
            Backend::AesNi | Backend::Vaes if super::has_avx2_and_avx512f().0 => Some(Self::Avx2(())),
            Backend::Avx512 => Some(Self::Avx512(())),
            _ => None,
        }
    }

    /// State after absorbing key and nonce.
    pub(crate) fn start(self, state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
        // SAFETY: `self` proves CPU support.
        unsafe {
            match self {
                Self::Avx2(()) => avx2::start(state, key, nonce),
                Self::Avx512(()) => avx512::start(state, key, nonce),
            }
        }
    }

    /// Absorbs associated data, padded with zeros.
    pub(crate) fn absorb(self, state: &mut State, aad: &[u8]) {
        // SAFETY: `self` proves CPU support.
        unsafe {
            match self {
                Self::Avx2(()) => avx2::absorb(state, aad),
                Self::Avx512(()) => avx512::absorb(state, aad),
            }
        }
    }

    /// Encrypts bytes before the end of the packet, a whole number of [`RATE`].
    pub(crate) fn block(self, state: &mut State, data: &mut [u8]) {
        let dst = data.as_mut_ptr();
        let payload = Payload { src: dst, dst, len: data.len() };
        // SAFETY: `self` proves CPU support; the pointers come from the slice.
        unsafe {
            match self {
                Self::Avx2(()) => avx2::block(state, &payload),
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
                Self::Avx2(()) => avx2::finish::<SEAL>(state, aad, &payload, lengths),
                Self::Avx512(()) => avx512::finish::<SEAL>(state, aad, &payload, lengths),
            }
        }
    }
}

/// Kernels for one instruction set. `part` and `put` load and store up to 32 bytes; `round`
/// computes a register's new value, each 64-bit word rotated left.
macro_rules! kernels {
    ($features:literal) => {
        type Registers = [__m256i; 5];

        #[inline]
        #[target_feature(enable = $features)]
        fn load(state: &State) -> Registers {
            let at = core::ptr::from_ref(state).cast::<__m256i>();
            // SAFETY: the state has five registers.
            core::array::from_fn(|i| unsafe { _mm256_loadu_si256(at.add(i)) })
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store(state: &mut State, s: &Registers) {
            let at = core::ptr::from_mut(state).cast::<__m256i>();
            for (i, register) in s.iter().enumerate() {
                // SAFETY: the state has five registers.
                unsafe { _mm256_storeu_si256(at.add(i), *register) };
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn update(s: &mut Registers, m: __m256i) {
            let [s0, s1, s2, s3, s4] = *s;
            let s0 = round::<13, 51>(s0, s1, s2, s3, _mm256_setzero_si256());
            let s3 = _mm256_permute4x64_epi64::<0b10_01_00_11>(s3);
            let s1 = round::<46, 18>(s1, s2, s3, s4, m);
            let s4 = _mm256_permute4x64_epi64::<0b01_00_11_10>(s4);
            let s2 = round::<38, 26>(s2, s3, s4, s0, m);
            let s0 = _mm256_permute4x64_epi64::<0b00_11_10_01>(s0);
            let s3 = round::<7, 57>(s3, s4, s0, s1, m);
            let s1 = _mm256_permute4x64_epi64::<0b01_00_11_10>(s1);
            let s4 = round::<4, 60>(s4, s0, s1, s2, m);
            let s2 = _mm256_permute4x64_epi64::<0b10_01_00_11>(s2);
            *s = [s0, s1, s2, s3, s4];
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn stream(s: &Registers) -> __m256i {
            let turned = _mm256_permute4x64_epi64::<0b00_11_10_01>(s[1]);
            _mm256_xor_si256(_mm256_xor_si256(s[0], _mm256_and_si256(s[2], s[3])), turned)
        }

        #[target_feature(enable = $features)]
        pub(super) unsafe fn start(state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
            // SAFETY: each array has the bytes that are loaded.
            let (key, nonce, constants) = unsafe {
                (
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(key.as_ptr().cast())),
                    _mm256_zextsi128_si256(_mm_loadu_si128(nonce.as_ptr().cast())),
                    _mm256_loadu_si256(CONSTANTS.as_ptr().cast()),
                )
            };
            let zero = _mm256_setzero_si256();
            let mut s = [nonce, key, _mm256_set1_epi64x(-1), zero, constants];
            for _ in 0..16 {
                update(&mut s, zero);
            }
            s[1] = _mm256_xor_si256(s[1], key);
            store(state, &s);
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn associated(s: &mut Registers, aad: &[u8]) {
            for chunk in aad.chunks(RATE) {
                // SAFETY: the chunk has at most 32 bytes.
                update(s, unsafe { part(chunk.as_ptr(), chunk.len()) });
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
        unsafe fn whole<const SEAL: bool>(s: &mut Registers, payload: &Payload) -> usize {
            let mut done = 0;
            while payload.len - done >= RATE {
                // SAFETY: 32 bytes from `done` on are within the payload.
                unsafe {
                    let x = _mm256_loadu_si256(payload.src.add(done).cast());
                    let y = _mm256_xor_si256(x, stream(s));
                    _mm256_storeu_si256(payload.dst.add(done).cast(), y);
                    update(s, if SEAL { x } else { y });
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
                // SAFETY: `left` bytes from `done` are within the payload, fewer than 32. The bytes
                // after them are zero in the message.
                unsafe {
                    let x = part(payload.src.add(done), left);
                    let y = put(payload.dst.add(done), left, _mm256_xor_si256(x, stream(&s)));
                    update(&mut s, if SEAL { x } else { y });
                }
            }
            s[4] = _mm256_xor_si256(s[4], s[0]);
            let lengths = _mm256_set_epi64x(0, 0, 8 * payload_len as i64, 8 * aad_len as i64);
            for _ in 0..10 {
                update(&mut s, lengths);
            }
            let mut tag = [0; 16];
            // SAFETY: the buffer has 16 bytes.
            unsafe { _mm_storeu_si128(tag.as_mut_ptr().cast(), _mm256_castsi256_si128(stream(&s))) };
            tag
        }
    };
}

mod avx2 {
    use super::*;

    kernels!("avx2");

    #[inline]
    #[target_feature(enable = "avx2")]
    fn round<const L: i32, const R: i32>(
        a: __m256i,
        b: __m256i,
        c: __m256i,
        d: __m256i,
        m: __m256i,
    ) -> __m256i {
        let sum = _mm256_xor_si256(_mm256_xor_si256(a, _mm256_and_si256(b, c)), _mm256_xor_si256(d, m));
        _mm256_or_si256(_mm256_slli_epi64::<L>(sum), _mm256_srli_epi64::<R>(sum))
    }

    /// Up to 32 bytes, padded with zeros.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 32.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn part(at: *const u8, len: usize) -> __m256i {
        let mut bytes = [0u8; 32];
        // SAFETY: both pointers are valid for `len` bytes.
        unsafe {
            at.copy_to_nonoverlapping(bytes.as_mut_ptr(), len);
            _mm256_loadu_si256(bytes.as_ptr().cast())
        }
    }

    /// Stores the first bytes, and returns the vector with the others zeroed.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 32.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn put(at: *mut u8, len: usize, block: __m256i) -> __m256i {
        let mut bytes = [0u8; 32];
        // SAFETY: both pointers are valid for `len` bytes.
        unsafe {
            _mm256_storeu_si256(bytes.as_mut_ptr().cast(), block);
            bytes[len..].fill(0);
            bytes.as_ptr().copy_to_nonoverlapping(at, len);
            let kept = _mm256_loadu_si256(bytes.as_ptr().cast());
            crate::bytes::wipe(&mut bytes);
            kept
        }
    }
}

mod avx512 {
    use super::*;

    kernels!("avx512f,avx512bw,avx512vl,bmi2");

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn round<const L: i32, const R: i32>(
        a: __m256i,
        b: __m256i,
        c: __m256i,
        d: __m256i,
        m: __m256i,
    ) -> __m256i {
        let sum = _mm256_ternarylogic_epi64::<0x78>(_mm256_xor_si256(a, m), b, c);
        _mm256_rol_epi64::<L>(_mm256_xor_si256(sum, d))
    }

    #[inline]
    #[target_feature(enable = "bmi2")]
    fn mask(len: usize) -> __mmask32 {
        _bzhi_u32(u32::MAX, len as u32)
    }

    /// Up to 32 bytes, padded with zeros.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 32.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,bmi2")]
    unsafe fn part(at: *const u8, len: usize) -> __m256i {
        // SAFETY: masked-out bytes are not accessed.
        unsafe { _mm256_maskz_loadu_epi8(mask(len), at.cast()) }
    }

    /// Stores the first bytes, and returns the vector with the others zeroed.
    ///
    /// # Safety
    /// `at` is valid for `len` bytes, and `len` is at most 32.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,bmi2")]
    unsafe fn put(at: *mut u8, len: usize, block: __m256i) -> __m256i {
        // SAFETY: masked-out bytes are not accessed.
        unsafe { _mm256_mask_storeu_epi8(at.cast(), mask(len), block) };
        _mm256_maskz_mov_epi8(mask(len), block)
    }
}
