//! Poly1305 with AVX-512 IFMA: eight blocks at once, in limbs of 44, 44 and 42 bits (see the portable one).
//!
//! The blocks are led by as many empty ones as make whole groups of eight. Of a chunk of up to four groups each is
//! multiplied by its own powers of r and the sum is reduced once; in the last chunk these are the powers of each lane,
//! before it those of the first, so that the lanes stay apart until the end.

use crate::backend::portable::poly1305::{self, Limbs};
use core::arch::x86_64::*;
use zeroize::Zeroize;

/// r^32 to r^1, limb by limb.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Powers([[u64; 32]; 3]);

impl Zeroize for Powers {
    fn zeroize(&mut self) {
        self.0 = [[0; 32]; 3];
        zeroize::optimization_barrier(&self.0);
    }
}

type Vectors = [__m512i; 3];

/// Unreduced sums of the products' lower and upper 52 bits.
struct Sum {
    low: Vectors,
    high: Vectors,
}

#[inline]
#[target_feature(enable = "avx512f")]
fn times_20(x: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_slli_epi64::<4>(x), _mm512_slli_epi64::<2>(x))
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let zero = _mm512_setzero_si512();
        Self { low: [zero; 3], high: [zero; 3] }
    }

    /// Adds `h r`. All limbs are below 2^47, and 20 times a limb of r below 2^49.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add(&mut self, h: Vectors, r: Vectors) {
        let (s1, s2) = (times_20(r[1]), times_20(r[2]));
        let rows = [[r[0], s2, s1], [r[1], r[0], s2], [r[2], r[1], r[0]]];
        for (k, row) in rows.into_iter().enumerate() {
            for (a, b) in h.into_iter().zip(row) {
                self.low[k] = _mm512_madd52lo_epu64(self.low[k], a, b);
                self.high[k] = _mm512_madd52hi_epu64(self.high[k], a, b);
            }
        }
    }

    /// The upper halves weigh 2^52 = 2^8 2^44, so they go to the next limb; those of the last limb weigh 2^8 2^132,
    /// which is 20 2^8.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn value(&self) -> Vectors {
        let (mask_44, mask_42) = (_mm512_set1_epi64((1 << 44) - 1), _mm512_set1_epi64((1 << 42) - 1));
        let d0 = _mm512_add_epi64(self.low[0], times_20(_mm512_slli_epi64::<8>(self.high[2])));
        let d1 = _mm512_add_epi64(self.low[1], _mm512_slli_epi64::<8>(self.high[0]));
        let d2 = _mm512_add_epi64(self.low[2], _mm512_slli_epi64::<8>(self.high[1]));
        let d1 = _mm512_add_epi64(d1, _mm512_srli_epi64::<44>(d0));
        let d2 = _mm512_add_epi64(d2, _mm512_srli_epi64::<44>(d1));
        let over = _mm512_srli_epi64::<42>(d2);
        let over = _mm512_add_epi64(over, _mm512_slli_epi64::<2>(over));
        let d0 = _mm512_add_epi64(_mm512_and_si512(d0, mask_44), over);
        [d0, _mm512_and_si512(d1, mask_44), _mm512_and_si512(d2, mask_42)]
    }
}

impl Powers {
    /// Sets the powers of the last `groups` groups, one to four.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and IFMA.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) unsafe fn set(&mut self, r: &Limbs, groups: usize) {
        let mut power = *r;
        for i in (24..32).rev() {
            for (limb, value) in self.0.iter_mut().zip(power.0) {
                limb[i] = value;
            }
            power = power.times(r);
        }
        power.zeroize();
        let eighth = self.broadcast(3);
        for group in (4 - groups..3).rev() {
            let mut sum = Sum::new();
            sum.add(self.lanes(group + 1), eighth);
            for (limb, value) in self.0.iter_mut().zip(sum.value()) {
                // SAFETY: a group has eight words.
                unsafe { _mm512_storeu_si512(limb[8 * group..][..8].as_mut_ptr().cast(), value) };
            }
        }
    }

    /// The powers of a group's lanes; group 3 is the last.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lanes(&self, group: usize) -> Vectors {
        // SAFETY: a group has eight words.
        [0, 1, 2].map(|i| unsafe { _mm512_loadu_si512(self.0[i][8 * group..][..8].as_ptr().cast()) })
    }

    /// The power of a group's first lane, in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn broadcast(&self, group: usize) -> Vectors {
        [0, 1, 2].map(|i| _mm512_set1_epi64(self.0[i][8 * group] as i64))
    }
}

/// The bytes from `at` on, with zeros where there are none.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn window(bytes: &[u8], at: isize) -> __m512i {
    let len = bytes.len() as isize;
    if at <= -64 || at >= len {
        return _mm512_setzero_si512();
    }
    let skipped = (-at).max(0);
    let there = (len - at).min(64);
    let mask = (u64::MAX << skipped) & (u64::MAX >> (64 - there));
    // SAFETY: the mask covers only bytes of the slice, and what is masked out is not touched.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().wrapping_offset(at).cast()) }
}

/// The tag of RFC 8439 section 2.8 with the one-time key (r, s).
///
/// # Safety
/// The CPU has AVX-512 F, BW and IFMA.
#[target_feature(enable = "avx512f,avx512bw,avx512ifma")]
pub(super) unsafe fn tag(powers: &Powers, s: &[u8; 16], aad: &[u8], payload: &[u8]) -> [u8; 16] {
    let aad_end = aad.len().next_multiple_of(16) as isize;
    let payload_end = aad_end + payload.len().next_multiple_of(16) as isize;
    let groups = (payload_end as usize / 16 + 1).div_ceil(8);
    // Bytes of the empty blocks in front.
    let front = 128 * groups as isize - payload_end - 16;
    let lengths = _mm_set_epi64x(payload.len() as i64, aad.len() as i64);
    let (even, odd) =
        (_mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1));
    let mask_44 = _mm512_set1_epi64((1 << 44) - 1);

    let group = |index: usize| -> Vectors {
        let at = 128 * index as isize - front;
        let half = |at: isize| {
            let x = window(aad, at);
            if at + 64 > aad_end { _mm512_or_si512(x, window(payload, at - aad_end)) } else { x }
        };
        let (a, mut b) = (half(at), half(at + 64));
        if index + 1 == groups {
            b = _mm512_inserti32x4::<3>(b, lengths);
        }
        let (low, high) = (_mm512_permutex2var_epi64(a, even, b), _mm512_permutex2var_epi64(a, odd, b));
        let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
        let present: __mmask8 = if index == 0 { 0xffu8 << (front / 16) } else { 0xff };
        [
            _mm512_and_si512(low, mask_44),
            _mm512_and_si512(middle, mask_44),
            _mm512_add_epi64(_mm512_srli_epi64::<24>(high), _mm512_maskz_set1_epi64(present, 1 << 40)),
        ]
    };

    let mut h = [_mm512_setzero_si512(); 3];
    let mut done = 0;
    while done < groups {
        // The first chunk is the odd one.
        let chunk = (groups - done - 1) % 4 + 1;
        let last = done + chunk == groups;
        let mut sum = Sum::new();
        for i in 0..chunk {
            let mut m = group(done + i);
            if i == 0 {
                m = [0, 1, 2].map(|k| _mm512_add_epi64(m[k], h[k]));
            }
            let place = 4 - chunk + i;
            sum.add(m, if last { powers.lanes(place) } else { powers.broadcast(place) });
        }
        h = sum.value();
        done += chunk;
    }
    let limbs = Limbs(h.map(|limb| _mm512_reduce_add_epi64(limb) as u64));
    poly1305::finish(&limbs, s)
}
