//! Filling the holes of AES-GCM with PCLMULQDQ: the work left at the deadline. Three variants:
//! SSSE3; AVX-512 masks, also on CPUs without VAES and VPCLMULQDQ; and GFNI as well, whose affine
//! maps fold without a product.

use super::{
    gcm_key::Key,
    ni::{fold, from, reversed},
    pieces::{up, up_reversed},
};
use crate::{
    backend::{
        modes::gcm::Gcm,
        portable::ghash::{FOLD, Power},
    },
    holes::{Head, Piece, Shape, Spot, Template, Values},
};
use core::arch::x86_64::*;

/// Constants for a tag, in one cache line.
#[repr(C, align(64))]
struct Constants {
    /// The shuffle that reverses the bytes of a block.
    turn: u128,
    /// The multiplier of the fold.
    fold: u128,
}

static CONSTANTS: Constants =
    Constants { turn: 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f, fold: FOLD as u128 };

/// Loads one of the constants from memory. For a constant with a single word, the compiler would go
/// through a general-purpose register, which takes longer.
#[inline]
#[target_feature(enable = "sse2")]
fn constant(constant: &'static u128) -> __m128i {
    // SAFETY: the static has 16 bytes.
    unsafe { core::ptr::read_volatile(core::ptr::from_ref(constant).cast()) }
}

/// Kernels for one instruction set. `load` loads a piece's bytes from the vector's first byte;
/// `take` XORs them with key stream and stores the result; `xor3` is the XOR of three; `clear`
/// wipes a weight; `tag` folds a sum and reverses its bytes.
macro_rules! kernels {
    ($features:literal) => {
        /// An unreduced sum (see the portable `ghash`).
        struct Sum {
            at_0: __m128i,
            at_64: __m128i,
        }

        impl Sum {
            /// Starts from the prepared sum.
            #[inline]
            #[target_feature(enable = $features)]
            fn new(prepared: u128) -> Self {
                Self { at_0: _mm_setzero_si128(), at_64: from(prepared) }
            }

            /// Adds the product of a byte-reversed block and a power.
            #[inline]
            #[target_feature(enable = $features)]
            fn add(&mut self, x: __m128i, power: &Power) {
                let (high, low) = (from(power.high), from(power.low));
                let (a, b) = (_mm_clmulepi64_si128::<0x01>(x, high), _mm_clmulepi64_si128::<0x00>(x, low));
                self.at_0 = xor3(self.at_0, a, b);
                let (a, b) = (_mm_clmulepi64_si128::<0x11>(x, high), _mm_clmulepi64_si128::<0x10>(x, low));
                self.at_64 = xor3(self.at_64, a, b);
            }

            /// Writes a value into a whole block of the payload, adds its product, and wipes the
            /// weight.
            ///
            /// # Safety
            /// `from` and `to` are valid for 16 bytes.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn add_block(&mut self, weight: &mut Power, from: *const u8, to: *mut u8) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let x = _mm_loadu_si128(from.cast());
                    self.add(_mm_shuffle_epi8(x, constant(&CONSTANTS.turn)), weight);
                    _mm_storeu_si128(to.cast(), _mm_xor_si128(_mm_loadu_si128(to.cast()), x));
                }
                clear(weight);
            }

            /// Folds the sum.
            #[inline]
            #[target_feature(enable = $features)]
            fn value(&self) -> __m128i {
                fold(self.at_0, self.at_64)
            }
        }

        /// Removes the template's contents in its pieces from a packet sealed with them, gives each
        /// piece its weight, and turns the tag into its MAC.
        ///
        /// # Safety
        /// The CPU supports the instructions; the pieces are the template's, and the body has each
        /// payload piece's whole block.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn take_out<const R: usize>(
            key: &Key<R>,
            spots: &mut [Spot<Power>],
            template: &Template<'_>,
            body: &mut [u8],
            tag: &[u8; 16],
            hash: &mut u128,
        ) {
            let mut sum = Sum::new(0);
            let shape = Shape { aad: template.aad().len(), payload: template.payload().len() };
            for Spot { piece, weight } in spots {
                let part = if piece.in_payload() { template.payload() } else { template.aad() };
                // SAFETY: the piece's bytes are within the part (caller).
                let x = unsafe { load(piece, part.as_ptr().add(piece.at() + piece.start())) };
                *weight = key.power(shape.distance(piece.block(&shape)));
                sum.add(up_reversed(x, piece.start()), weight);
                if piece.in_payload() {
                    // SAFETY: the body has 16 bytes from `at` (caller).
                    unsafe {
                        let at = body.as_mut_ptr().add(piece.at()).cast();
                        _mm_storeu_si128(at, _mm_xor_si128(_mm_loadu_si128(at), up(x, piece.start())));
                    }
                }
            }
            // SAFETY: a tag and a hash have 16 bytes.
            unsafe {
                let tag = reversed(_mm_loadu_si128(tag.as_ptr().cast()));
                _mm_storeu_si128(core::ptr::from_mut(hash).cast(), _mm_xor_si128(tag, sum.value()));
            }
        }

        /// Writes the value of a piece, which starts at `from`, into the packet, and wipes its
        /// weight.
        ///
        /// # Safety
        /// As for [`fill`]; `from` is valid for the piece's bytes.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn fill_piece(sum: &mut Sum, spot: &mut Spot<Power>, from: *const u8, body: &mut [u8]) {
            let Spot { piece, weight } = spot;
            // A whole block does not depend on shifts.
            if piece.len() == 16 && piece.in_payload() {
                // SAFETY: guaranteed by the caller; the body has 16 bytes from `at`.
                unsafe { sum.add_block(weight, from, body.as_mut_ptr().add(piece.at())) };
                return;
            }
            // SAFETY: guaranteed by the caller.
            let x = unsafe { load(piece, from) };
            sum.add(up_reversed(x, piece.start()), weight);
            if piece.in_payload() {
                // SAFETY: the body has 16 bytes from `at` (caller).
                unsafe {
                    let at = body.as_mut_ptr().add(piece.at()).cast();
                    _mm_storeu_si128(at, _mm_xor_si128(_mm_loadu_si128(at), up(x, piece.start())));
                }
            }
            clear(weight);
        }

        /// Writes values into a prepared packet.
        ///
        /// # Safety
        /// The CPU supports the instructions, and the three come from one
        /// [`Filling`](crate::holes::Filling): the values fit the head, and the body has each
        /// payload piece's whole block.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn fill<S: Gcm, V: Values, const N: usize>(
            head: &mut Head<S, N>,
            values: V,
            body: &mut [u8],
        ) {
            let mut sum = Sum::new(head.sum.hash);
            let spots = &mut head.spots[..N.min(head.count as usize)];
            // If the values are in turn, the first value's address needs no look-up, which saves
            // about five cycles.
            let (first, rest) = spots.split_at_mut(usize::from(head.in_turn).min(spots.len()));
            if let [first] = first {
                // SAFETY: the values fit, and the first piece's starts at the first byte.
                unsafe { fill_piece(&mut sum, first, values.first(), body) };
            }
            for spot in rest {
                // SAFETY: the values fit.
                unsafe {
                    let from = values.at(&spot.piece);
                    fill_piece(&mut sum, spot, from, body);
                }
            }
            finish(head, &sum);
        }

        /// Writes a value into a prepared packet with one hole, a whole block.
        ///
        /// # Safety
        /// The CPU supports the instructions, and the three come from one
        /// [`FillingOne`](crate::holes::FillingOne).
        #[inline]
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn fill_one<S: Gcm, const N: usize>(
            head: &mut Head<S, N>,
            value: &[u8; 16],
            body: &mut [u8],
        ) -> bool {
            let Some(Spot { piece, weight }) = head.spots.first_mut() else { return false };
            let mut sum = Sum::new(head.sum.hash);
            // SAFETY: the value has 16 bytes, and the body has 16 from `at` (caller).
            unsafe { sum.add_block(weight, value.as_ptr(), body.as_mut_ptr().add(piece.at())) };
            finish(head, &sum);
            true
        }

        /// Writes the tag and wipes the hash.
        #[inline]
        #[target_feature(enable = $features)]
        fn finish<S: Gcm, const N: usize>(head: &mut Head<S, N>, sum: &Sum) {
            // SAFETY: a tag and a hash have 16 bytes. The assembly keeps the compiler from removing
            // the wipe.
            unsafe {
                _mm_storeu_si128(head.tag.as_mut_ptr().cast(), tag(sum.at_0, sum.at_64));
                _mm_storeu_si128(core::ptr::from_mut(&mut head.sum.hash).cast(), _mm_setzero_si128());
                core::arch::asm!("/* {} */", in(reg) head, options(nostack, preserves_flags));
            }
        }

        /// Reads the values of a received packet and returns the expected tag.
        ///
        /// # Safety
        /// The CPU supports the instructions, and the five come from one
        /// [`Reading`](crate::holes::Reading): each piece's bytes are within their part, and the
        /// body has each payload piece's whole block.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn check<S: Gcm, const N: usize>(
            head: &Head<S, N>,
            aad: &[u8],
            src: &[u8],
            body: &[u8],
            dst: &mut [u8],
        ) -> [u8; 16] {
            let mut sum = Sum::new(head.sum.hash);
            for Spot { piece, weight } in head.spots() {
                let at = piece.at() + piece.start();
                // SAFETY: the piece's bytes are within their part; `dst` is as long as `src`, and
                // so is the body up to there (caller).
                let x = unsafe {
                    if piece.in_payload() {
                        take(piece, src.as_ptr().add(at), body.as_ptr().add(at), dst.as_mut_ptr().add(at))
                    } else {
                        load(piece, aad.as_ptr().add(at))
                    }
                };
                sum.add(up_reversed(x, piece.start()), weight);
            }
            let mut found = [0; 16];
            // SAFETY: a tag has 16 bytes.
            unsafe { _mm_storeu_si128(found.as_mut_ptr().cast(), tag(sum.at_0, sum.at_64)) };
            found
        }
    };
}

pub(super) mod ssse3 {
    use super::{super::partial, *};

    kernels!("sse4.1,ssse3,pclmulqdq");

    /// Loads the piece's bytes.
    ///
    /// # Safety
    /// `at` is valid for the piece's bytes.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    unsafe fn load(piece: &Piece, at: *const u8) -> __m128i {
        // SAFETY: guaranteed by the caller.
        unsafe { partial::load(at, piece.len(), 0) }
    }

    /// XORs the piece's bytes with key stream and stores the result.
    ///
    /// # Safety
    /// The pointers are valid for the piece's bytes.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    unsafe fn take(piece: &Piece, from: *const u8, pad: *const u8, to: *mut u8) -> __m128i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let x = _mm_xor_si128(load(piece, from), load(piece, pad));
            partial::store(to, piece.len(), x);
            x
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn xor3(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
        _mm_xor_si128(a, _mm_xor_si128(b, c))
    }

    #[inline]
    #[target_feature(enable = "ssse3,pclmulqdq")]
    pub(super) fn tag(at_0: __m128i, at_64: __m128i) -> __m128i {
        let folded = _mm_clmulepi64_si128::<0x00>(at_0, constant(&CONSTANTS.fold));
        let turned_over = _mm_shuffle_epi32::<0b01_00_11_10>(at_0);
        let tag = _mm_xor_si128(_mm_xor_si128(at_64, turned_over), folded);
        _mm_shuffle_epi8(tag, constant(&CONSTANTS.turn))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn clear(weight: &mut Power) {
        let at = core::ptr::from_mut(weight).cast::<__m128i>();
        // SAFETY: a power has 32 bytes.
        unsafe {
            _mm_storeu_si128(at, _mm_setzero_si128());
            _mm_storeu_si128(at.add(1), _mm_setzero_si128());
        }
    }
}

pub(super) mod masks {
    use super::*;

    pub(super) use super::super::pieces::load;
    use super::ssse3::tag;

    kernels!("avx512f,avx512bw,avx512vl,pclmulqdq,ssse3,bmi2");

    /// XORs the piece's bytes with key stream and stores the result.
    ///
    /// # Safety
    /// The pointers are valid for the piece's bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    pub(super) unsafe fn take(piece: &Piece, from: *const u8, pad: *const u8, to: *mut u8) -> __m128i {
        let bytes = _bzhi_u32(u32::MAX, piece.len() as u32) as __mmask16;
        // SAFETY: masked-out bytes are not accessed; for the others, guaranteed by the caller.
        unsafe {
            let x = _mm_xor_si128(
                _mm_maskz_loadu_epi8(bytes, from.cast()),
                _mm_maskz_loadu_epi8(bytes, pad.cast()),
            );
            _mm_mask_storeu_epi8(to.cast(), bytes, x);
            x
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn xor3(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
        _mm_ternarylogic_epi64::<0x96>(a, b, c)
    }

    #[inline]
    #[target_feature(enable = "avx")]
    pub(super) fn clear(weight: &mut Power) {
        // SAFETY: a power has 32 bytes.
        unsafe { _mm256_storeu_si256(core::ptr::from_mut(weight).cast(), _mm256_setzero_si256()) };
    }
}

pub(super) mod affine {
    use super::{
        masks::{clear, load, take, xor3},
        *,
    };

    kernels!("avx512f,avx512bw,avx512vl,pclmulqdq,ssse3,bmi2,gfni");

    /// Constants for a tag, in two cache lines.
    #[repr(C, align(64))]
    struct Maps {
        /// Selects the bytes of a sum at 1 that contribute to the same byte of the tag: from the
        /// lower word those the fold moves by at most a whole word, and the upper word, which it
        /// does not change.
        near: u128,
        /// Selects the bytes whose bits come down from the byte above.
        above: u128,
        /// The affine maps for the near bytes.
        fold_near: u128,
        /// The affine maps for the bytes above.
        fold_above: u128,
    }

    /// A word at 1 contributes `x^-64 = x^64 + x^63 + x^62 + x^57` times itself: up by a word, and
    /// from there down by 0, 1, 2 and 7 bits. The tag has the bytes in reverse.
    static MAPS: Maps = Maps {
        near: 0x0809_0a0b_0c0d_0e0f_0001_0203_0405_0607,
        above: 0x8080_8080_8080_8000_0102_0304_0506_0780,
        fold_near: map(&[0, 1, 2, 7]) | map(&[0]) << 64,
        fold_above: map(&[-7, -6, -1]) | map(&[-7, -6, -1]) << 64,
    };

    /// The matrix for GF2P8AFFINEQB in which each output bit is the sum of the input bits `higher`
    /// places up. Its rows are bytes, the lowest bit's row last (Intel SDM volume 2,
    /// GF2P8AFFINEQB).
    const fn map(higher: &[i32]) -> u128 {
        let (mut matrix, mut i) = (0, 0);
        while i < 64 {
            let (row, column) = (i / 8, i % 8);
            let mut k = 0;
            while k < higher.len() {
                if row + higher[k] == column {
                    matrix ^= 1 << (8 * (7 - row) + column);
                }
                k += 1;
            }
            i += 1;
        }
        matrix
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,ssse3,gfni")]
    fn tag(at_0: __m128i, at_64: __m128i) -> __m128i {
        let near = _mm_shuffle_epi8(at_0, constant(&MAPS.near));
        let above = _mm_shuffle_epi8(at_0, constant(&MAPS.above));
        xor3(
            _mm_gf2p8affine_epi64_epi8::<0>(near, constant(&MAPS.fold_near)),
            _mm_gf2p8affine_epi64_epi8::<0>(above, constant(&MAPS.fold_above)),
            _mm_shuffle_epi8(at_64, constant(&CONSTANTS.turn)),
        )
    }
}
