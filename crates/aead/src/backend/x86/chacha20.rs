//! ChaCha20 (RFC 8439 section 2.3) with AVX-512: a vector holds one row of four blocks' states, or
//! one word of sixteen.

use core::{arch::x86_64::*, mem::MaybeUninit};

/// Four rows of four blocks each.
type Rows = [__m512i; 4];

#[inline]
#[target_feature(enable = "avx512f")]
fn quarter_rounds<const W: usize>(sets: &mut [Rows; W]) {
    for [a, b, c, d] in sets.iter_mut() {
        *a = _mm512_add_epi32(*a, *b);
        *d = _mm512_rol_epi32::<16>(_mm512_xor_si512(*d, *a));
        *c = _mm512_add_epi32(*c, *d);
        *b = _mm512_rol_epi32::<12>(_mm512_xor_si512(*b, *c));
        *a = _mm512_add_epi32(*a, *b);
        *d = _mm512_rol_epi32::<8>(_mm512_xor_si512(*d, *a));
        *c = _mm512_add_epi32(*c, *d);
        *b = _mm512_rol_epi32::<7>(_mm512_xor_si512(*b, *c));
    }
}

/// Memory for one block.
type Place = MaybeUninit<[u8; 64]>;

/// `4 W` blocks from `counter`, or as many as there are places.
#[inline]
#[target_feature(enable = "avx512f")]
fn blocks<'p, const W: usize>(
    key: &[u32; 8],
    counter: u32,
    nonce: &[u8; 12],
    places: &mut impl Iterator<Item = &'p mut Place>,
) {
    let row = |w: [u32; 4]| {
        _mm512_broadcast_i32x4(_mm_set_epi32(w[3] as i32, w[2] as i32, w[1] as i32, w[0] as i32))
    };
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let n = |i: usize| u32::from_le_bytes([nonce[i], nonce[i + 1], nonce[i + 2], nonce[i + 3]]);
    let each = _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0);
    let mut start = [[_mm512_setzero_si512(); 4]; W];
    for (i, set) in start.iter_mut().enumerate() {
        let counters = row([counter.wrapping_add(4 * i as u32), n(0), n(4), n(8)]);
        *set = [
            row(crate::backend::portable::chacha20::CONSTANTS),
            row([k0, k1, k2, k3]),
            row([k4, k5, k6, k7]),
            _mm512_add_epi32(counters, each),
        ];
    }
    let mut sets = start;
    for _ in 0..10 {
        quarter_rounds(&mut sets);
        // Row b stays: it is ready last, and the next quarter rounds begin with it.
        for [a, _, c, d] in &mut sets {
            *a = _mm512_shuffle_epi32::<0b10_01_00_11>(*a);
            *c = _mm512_shuffle_epi32::<0b00_11_10_01>(*c);
            *d = _mm512_shuffle_epi32::<0b01_00_11_10>(*d);
        }
        quarter_rounds(&mut sets);
        for [a, _, c, d] in &mut sets {
            *a = _mm512_shuffle_epi32::<0b00_11_10_01>(*a);
            *c = _mm512_shuffle_epi32::<0b10_01_00_11>(*c);
            *d = _mm512_shuffle_epi32::<0b01_00_11_10>(*d);
        }
    }
    for (set, start) in sets.iter().zip(&start) {
        for block in turned(core::array::from_fn(|i| _mm512_add_epi32(set[i], start[i]))) {
            let Some(place) = places.next() else { return };
            // SAFETY: a block has 64 bytes.
            unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), block) };
        }
    }
}

/// Lane j of row i becomes lane i of block j.
#[inline]
#[target_feature(enable = "avx512f")]
fn turned([a, b, c, d]: Rows) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
    let (cd_low, cd_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}

/// Sixteen blocks from `counter`, or as many as there are places: a word of each to a vector, which
/// saves the shuffles between rounds.
#[inline]
#[target_feature(enable = "avx512f")]
fn sixteen<'p>(
    key: &[u32; 8],
    counter: u32,
    nonce: &[u8; 12],
    places: &mut impl Iterator<Item = &'p mut Place>,
) {
    let each = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let n = |i: usize| u32::from_le_bytes([nonce[i], nonce[i + 1], nonce[i + 2], nonce[i + 3]]);
    let all = |word: u32| _mm512_set1_epi32(word as i32);
    let start: [__m512i; 16] = core::array::from_fn(|i| match i {
        0..4 => all(crate::backend::portable::chacha20::CONSTANTS[i]),
        4..12 => all(key[i - 4]),
        12 => _mm512_add_epi32(all(counter), each),
        _ => all(n(4 * (i - 13))),
    });
    let mut x = start;
    for _ in 0..10 {
        for shift in [0, 1] {
            let mut columns: [Rows; 4] =
                core::array::from_fn(|i| core::array::from_fn(|row| x[4 * row + (i + shift * row) % 4]));
            quarter_rounds(&mut columns);
            for (i, column) in columns.into_iter().enumerate() {
                for (row, word) in column.into_iter().enumerate() {
                    x[4 * row + (i + shift * row) % 4] = word;
                }
            }
        }
    }
    // Words 4 i to 4 i + 3 of every fourth block.
    let rows: [Rows; 4] = core::array::from_fn(|i| {
        let [a, b, c, d]: Rows = core::array::from_fn(|j| _mm512_add_epi32(x[4 * i + j], start[4 * i + j]));
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    });
    let blocks: [Rows; 4] = core::array::from_fn(|j| turned(core::array::from_fn(|i| rows[i][j])));
    for i in 0..16 {
        let Some(place) = places.next() else { return };
        // SAFETY: a block has 64 bytes.
        unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), blocks[i % 4][i / 4]) };
    }
}

/// Key stream from block `counter`; the first block may have a separate place.
///
/// # Safety
/// The CPU has AVX-512F. (All places are written.)
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn stream(
    key: &[u32; 8],
    counter: u32,
    nonce: &[u8; 12],
    first: Option<&mut Place>,
    out: &mut [Place],
) {
    let all = usize::from(first.is_some()) + out.len();
    let places = &mut first.into_iter().chain(out);
    for done in (0..all).step_by(16) {
        let counter = counter.wrapping_add(done as u32);
        match all - done {
            0..=4 => blocks::<1>(key, counter, nonce, places),
            5..=8 => blocks::<2>(key, counter, nonce, places),
            9..=12 => blocks::<3>(key, counter, nonce, places),
            _ => sixteen(key, counter, nonce, places),
        }
    }
}
