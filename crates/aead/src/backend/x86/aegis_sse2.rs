//! AEGIS-128L (draft-irtf-cfrg-aegis-aead section 3) in constant time with SSE2. The state's eight
//! blocks are bit-sliced in eight vectors, so an update runs the S-box circuit once.
//!
//! Plane `k` holds bit `k` of every state byte. Row `r`, column `c` of all eight blocks is byte `4
//! r + c` of the vector, with block `b` in bit `b`. ShiftRows rotates 32-bit lanes, MixColumns
//! combines lanes, and rotating each byte by one bit passes each block's round to the next block.

use crate::{
    backend::portable::{
        aegis::{C0, C1, RATE, State},
        aes::sub_bytes,
    },
    buffers::Buffers,
};
use core::{
    arch::x86_64::*,
    ops::{BitAnd, BitXor, Not},
};

#[derive(Clone, Copy)]
struct Plane(__m128i);

type Planes = [Plane; 8];

impl BitXor for Plane {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }
}

impl BitAnd for Plane {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Self(unsafe { _mm_and_si128(self.0, other.0) })
    }
}

impl Not for Plane {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Self(unsafe { _mm_xor_si128(self.0, _mm_set1_epi8(-1)) })
    }
}

impl Plane {
    const ZERO: Self = {
        // SAFETY: any sixteen bytes are a valid vector.
        Self(unsafe { core::mem::transmute::<[u8; 16], __m128i>([0; 16]) })
    };

    #[inline]
    #[target_feature(enable = "sse2")]
    fn or(self, other: Self) -> Self {
        Self(_mm_or_si128(self.0, other.0))
    }

    /// Keeps these bits of each byte.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn only(self, bits: u8) -> Self {
        Self(_mm_and_si128(self.0, _mm_set1_epi8(bits as i8)))
    }

    /// Shifts 16-bit lanes; callers use [`only`](Self::only) to drop bits that crossed a byte.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn down<const BITS: i32>(self) -> Self {
        Self(_mm_srli_epi16::<BITS>(self.0))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn up<const BITS: i32>(self) -> Self {
        Self(_mm_slli_epi16::<BITS>(self.0))
    }

    /// Rotates the lane of each row by its number of columns.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn rows_shifted(self) -> Self {
        let row = |lanes: [i32; 4]| Self(_mm_set_epi32(lanes[3], lanes[2], lanes[1], lanes[0]));
        let x = self.0;
        let by_1 = Self(_mm_or_si128(_mm_srli_epi32::<8>(x), _mm_slli_epi32::<24>(x)));
        let by_2 = Self(_mm_shufflehi_epi16::<0b10_11_00_01>(x));
        let by_3 = Self(_mm_or_si128(_mm_srli_epi32::<24>(x), _mm_slli_epi32::<8>(x)));
        (self & row([-1, 0, 0, 0]))
            .or(by_1 & row([0, -1, 0, 0]))
            .or((by_2 & row([0, 0, -1, 0])).or(by_3 & row([0, 0, 0, -1])))
    }

    /// Rotates each byte by one bit: passes every block's share to the next block.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn to_the_next(self) -> Self {
        let carried = _mm_cmpgt_epi8(_mm_setzero_si128(), self.0);
        Self(_mm_sub_epi8(_mm_add_epi8(self.0, self.0), carried))
    }

    /// Transposes four by four bytes: a block to rows in lanes, or back.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn transposed(self) -> Self {
        let once = |x: __m128i| _mm_unpacklo_epi8(x, _mm_srli_si128::<8>(x));
        Self(once(once(self.0)))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(bytes: &[u8; 16]) -> Self {
        // SAFETY: the buffer has 16 bytes.
        Self(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        // SAFETY: the buffer has 16 bytes.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), self.0) };
        bytes
    }
}

/// Evaluates `$body` for each plane, with its number as a constant.
macro_rules! planes {
    ($k:ident => $body:expr) => {
        [
            {
                const $k: i32 = 0;
                $body
            },
            {
                const $k: i32 = 1;
                $body
            },
            {
                const $k: i32 = 2;
                $body
            },
            {
                const $k: i32 = 3;
                $body
            },
            {
                const $k: i32 = 4;
                $body
            },
            {
                const $k: i32 = 5;
                $body
            },
            {
                const $k: i32 = 6;
                $body
            },
            {
                const $k: i32 = 7;
                $body
            },
        ]
    };
}

/// Places two message blocks at S0 and S4.
#[inline]
#[target_feature(enable = "sse2")]
fn message(first: Plane, second: Plane) -> Planes {
    let (v, w) = (first.transposed(), second.transposed());
    let low = v.only(0x0f).or(w.up::<4>().only(0xf0));
    let high = v.down::<4>().only(0x0f).or(w.only(0xf0));
    planes!(K => if K < 4 { low.down::<{ K & 3 }>().only(0x11) } else { high.down::<{ K & 3 }>().only(0x11) })
}

/// Extracts the two blocks at S0 and S4.
#[inline]
#[target_feature(enable = "sse2")]
fn blocks(planes: &Planes) -> [Plane; 2] {
    let nibble = |at: usize| {
        let of = |k: usize| planes[at + k].only(0x11);
        of(0).or(of(1).up::<1>()).or(of(2).up::<2>().or(of(3).up::<3>()))
    };
    let (low, high) = (nibble(0), nibble(4));
    let first = low.only(0x0f).or(high.up::<4>().only(0xf0));
    let second = low.down::<4>().only(0x0f).or(high.only(0xf0));
    [first.transposed(), second.transposed()]
}

/// `Update`.
#[inline]
#[target_feature(enable = "sse2")]
fn update(s: &mut Planes, message: &Planes) {
    let mut x = *s;
    sub_bytes(&mut x);
    let x = x.map(|plane| plane.rows_shifted());
    let next = x.map(|plane| Plane(_mm_shuffle_epi32::<0b00_11_10_01>(plane.0)));
    let t: Planes = core::array::from_fn(|k| x[k] ^ next[k]);
    let doubled = [t[7], t[0] ^ t[7], t[1], t[2] ^ t[7], t[3] ^ t[7], t[4], t[5], t[6]];
    for k in 0..8 {
        let across = Plane(_mm_shuffle_epi32::<0b01_00_11_10>(t[k].0));
        s[k] = s[k] ^ (doubled[k] ^ next[k] ^ across).to_the_next() ^ message[k];
    }
}

/// z0 and z1 in the places of S0 and S4: S6 + S1 + S2 S3, and S2 + S5 + S6 S7.
#[inline]
#[target_feature(enable = "sse2")]
fn stream(s: &Planes) -> Planes {
    s.map(|x| {
        let third = x.down::<6>().only(0x01).or(x.up::<2>().only(0x10));
        ((x.down::<2>() & x.down::<3>()) ^ x.down::<1>()).only(0x11) ^ third
    })
}

#[target_feature(enable = "sse2")]
fn load(state: &State) -> Planes {
    let at = core::ptr::from_ref(state).cast::<__m128i>();
    // SAFETY: the state has 128 bytes.
    core::array::from_fn(|k| Plane(unsafe { _mm_loadu_si128(at.add(k)) }))
}

#[target_feature(enable = "sse2")]
fn store(state: &mut State, s: &Planes) {
    let at = core::ptr::from_mut(state).cast::<__m128i>();
    for (k, plane) in s.iter().enumerate() {
        // SAFETY: the state has 128 bytes, and any bytes are a valid state.
        unsafe { _mm_storeu_si128(at.add(k), plane.0) };
    }
}

/// State after absorbing key and nonce (`Init`).
#[target_feature(enable = "sse2")]
pub(super) fn start(state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
    let [key, nonce, c0, c1] = [key, nonce, &C0, &C1].map(|bytes| Plane::load(bytes));
    let all =
        [key ^ nonce, c1, c0, c1, key ^ nonce, key ^ c0, key ^ c1, key ^ c0].map(|block| block.transposed());
    let mut s = [Plane::ZERO; 8];
    for (b, block) in all.into_iter().enumerate() {
        let bits: Planes = planes!(K => block.down::<K>().only(0x01));
        for (plane, mut bit) in s.iter_mut().zip(bits) {
            for _ in 0..b {
                bit = Plane(_mm_add_epi8(bit.0, bit.0));
            }
            *plane = plane.or(bit);
        }
    }
    let message = message(nonce, key);
    for _ in 0..10 {
        update(&mut s, &message);
    }
    store(state, &s);
}

/// [`RATE`] bytes of a packet, as two blocks.
#[inline]
#[target_feature(enable = "sse2")]
fn parts(bytes: &[u8; RATE]) -> [Plane; 2] {
    let ([a, b], _) = bytes.as_chunks::<16>() else { return [Plane::ZERO; 2] };
    [Plane::load(a), Plane::load(b)]
}

#[inline]
#[target_feature(enable = "sse2")]
fn take(s: &mut Planes, aad: &[u8]) {
    for chunk in aad.chunks(RATE) {
        let mut padded = [0; RATE];
        padded[..chunk.len()].copy_from_slice(chunk);
        let [a, b] = parts(&padded);
        update(s, &message(a, b));
    }
}

/// Absorbs associated data, padded with zeros (`Absorb`).
#[target_feature(enable = "sse2")]
pub(super) fn absorb(state: &mut State, aad: &[u8]) {
    let mut s = load(state);
    take(&mut s, aad);
    store(state, &s);
}

#[inline]
#[target_feature(enable = "sse2")]
fn crypt<const SEAL: bool>(s: &mut Planes, data: &mut [u8]) {
    for chunk in data.chunks_mut(RATE) {
        let len = chunk.len();
        let mut bytes = [0; RATE];
        bytes[..len].copy_from_slice(chunk);
        let ([a, b], [y, z]) = (parts(&bytes), blocks(&stream(s)));
        let (c, d) = (a ^ y, b ^ z);
        let (head, tail) = bytes.split_at_mut(16);
        head.copy_from_slice(&c.bytes());
        tail.copy_from_slice(&d.bytes());
        chunk.copy_from_slice(&bytes[..len]);
        let plain = if SEAL {
            [a, b]
        } else {
            bytes[len..].fill(0);
            parts(&bytes)
        };
        update(s, &message(plain[0], plain[1]));
    }
}

/// Encrypts bytes before the end of the packet, a whole number of [`RATE`].
#[target_feature(enable = "sse2")]
pub(super) fn block(state: &mut State, data: &mut [u8]) {
    let mut s = load(state);
    crypt::<true>(&mut s, data);
    store(state, &s);
}

/// See [`super::aegis::Kernels::finish`].
#[target_feature(enable = "sse2")]
pub(super) fn finish<const SEAL: bool>(
    state: &State,
    aad: &[u8],
    buffers: Buffers<'_>,
    (aad_len, len): (usize, usize),
) -> [u8; 16] {
    let mut s = load(state);
    take(&mut s, aad);
    crypt::<SEAL>(&mut s, buffers.into_in_place());
    let lengths = u128::from(8 * aad_len as u64) | u128::from(8 * len as u64) << 64;
    let lengths = Plane::load(&lengths.to_le_bytes());
    let lengths = message(lengths, lengths);
    // S2 and the lengths, in both places.
    let last: Planes =
        core::array::from_fn(|k| lengths[k] ^ s[k].down::<2>().only(0x01).or(s[k].up::<2>().only(0x10)));
    for _ in 0..7 {
        update(&mut s, &last);
    }
    let sums = s.map(|x| {
        x ^ x.down::<1>() ^ x.down::<2>() ^ x.down::<3>() ^ x.down::<4>() ^ x.down::<5>() ^ x.down::<6>()
    });
    blocks(&sums)[0].bytes()
}

#[cfg(test)]
mod tests {
    use super::super::aegis::Kernels;
    use super::*;
    use crate::Backend;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_match_scalar_code(
            key: [u8; 16], nonce: [u8; 16], aad in prop::collection::vec(any::<u8>(), 0..80),
            plain in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let lengths = (aad.len(), plain.len());
            let (mut scalar, mut ours) = (State::default(), State::default());
            scalar.start(&key, &nonce);
            let kernels = Kernels::new(Backend::Portable).unwrap();
            kernels.start(&mut ours, &key, &nonce);
            let (mut a, mut b) = (plain.clone(), plain.clone());
            let tag = scalar.finish::<true>(&aad, &mut a, lengths);
            prop_assert_eq!(kernels.finish::<true>(&ours, &aad, Buffers::InPlace(&mut b), lengths), tag);
            prop_assert_eq!(&a, &b);
            prop_assert_eq!(kernels.finish::<false>(&ours, &aad, Buffers::InPlace(&mut b), lengths), tag);
            prop_assert_eq!(&b, &plain);
            a.copy_from_slice(&plain);
            let whole = plain.len() / RATE * RATE;
            scalar.absorb(&aad);
            scalar.crypt::<true>(&mut a[..whole]);
            kernels.absorb(&mut ours, &aad);
            kernels.block(&mut ours, &mut b[..whole]);
            prop_assert_eq!(&a, &b);
            let (mut last, mut same) = ([7; 5], [7; 5]);
            let tag = scalar.finish::<true>(&[], &mut last, lengths);
            prop_assert_eq!(kernels.finish::<true>(&ours, &[], Buffers::InPlace(&mut same), lengths), tag);
            prop_assert_eq!(last, same);
        }
    }
}
