//! ChaCha20-Poly1305 on x86-64 with AVX-512.

use super::{
    Avx512, avx512, chacha20,
    chacha20_avx2::Avx2,
    poly1305::{self, HASH, OPEN, Part, SEAL},
};
use crate::{
    backend::portable::{
        poly1305::{Limbs, finish},
        poly1305_holes::{self as holes, Mac},
    },
    buffers::Buffers,
    bytes::wipe,
    holes::{Filling, FillingOne, Head, Reading, Values},
};
use core::{arch::x86_64::*, mem::MaybeUninit};
use zeroize::Zeroize;

pub(crate) use poly1305::Powers;

/// Units of key stream computed at a time, besides the first block, which gives the MAC's key.
/// Whole groups of Poly1305.
pub(super) const UNITS: usize = 24;

/// Bytes of associated data and payload up to which an unprepared packet uses [`Avx2`], which
/// hashes block by block: computing powers of r would cost more than they save.
const IN_TURN: usize = 272;

/// Key stream on the stack.
#[repr(C, align(64))]
struct Stream([MaybeUninit<[u8; 64]>; 1 + UNITS]);

pub(super) fn uninit(bytes: &mut [u8]) -> &mut [MaybeUninit<[u8; 64]>] {
    let units = bytes.as_chunks_mut::<64>().0;
    // SAFETY: the layouts are equal, and `chacha20` writes all of the slice.
    unsafe { &mut *(core::ptr::from_mut(units) as *mut [MaybeUninit<[u8; 64]>]) }
}

impl Avx512 {
    /// Key stream from block `counter`; `out` is a whole number of blocks.
    pub(crate) fn stream(self, key: &[u32; 8], counter: u32, nonce: &[u8; 12], out: &mut [u8]) {
        // SAFETY: `self` proves CPU support.
        unsafe { chacha20::stream(key, counter, nonce, None, uninit(out)) }
    }

    /// Computes a packet's one-time key with all powers of r it may need, and its first units of
    /// key stream, in one run.
    pub(crate) fn prepare(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        (r, s, powers): (&mut Limbs, &mut [u8; 16], &mut Powers),
        out: &mut [u8],
    ) {
        let mut first = MaybeUninit::uninit();
        // SAFETY: `self` proves CPU support; the first block is written before it is read.
        unsafe {
            chacha20::stream(key, 0, nonce, Some(&mut first), uninit(out));
            once(first.assume_init_mut(), r, s);
            powers.set(r);
        }
    }

    /// r^k.
    pub(crate) fn power(self, powers: &Powers, k: usize) -> Limbs {
        let (r32, one) = (powers.power(32).unwrap_or_default(), Limbs([1, 0, 0]));
        match (k / 32, k % 32) {
            (0, rest) => powers.power(rest).unwrap_or(one),
            (many, 0) => r32.to_the(many),
            (many, rest) => r32.to_the(many).times(&powers.power(rest).unwrap_or(one)),
        }
    }

    /// The tag of an encrypted payload.
    pub(crate) fn tag(self, powers: &Powers, s: &[u8; 16], aad: &[u8], payload: &[u8]) -> [u8; 16] {
        let whole = Part {
            so_far: Limbs::default(),
            aad,
            src: payload.as_ptr(),
            dst: core::ptr::null_mut(),
            len: payload.len(),
            stream: core::ptr::null_mut(),
            lengths: Some((aad.len() as u64, payload.len() as u64)),
        };
        // SAFETY: `self` proves CPU support; the payload is only read.
        unsafe { finish(&poly1305::part::<HASH, false>(powers, &whole), s) }
    }

    /// XORs the stream into the payload and returns the tag. The stream is a whole number of units,
    /// covers the payload, and is wiped.
    pub(crate) fn seal_prepared(
        self,
        powers: &Powers,
        s: &[u8; 16],
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        let used = buffers.len().next_multiple_of(64);
        assert!(used <= stream.len());
        let whole = Self::whole(aad, buffers, stream.as_mut_ptr());
        // SAFETY: `self` proves CPU support, the pointers are to buffers of equal length, and the
        // stream covers them.
        unsafe {
            let sum = poly1305::part::<SEAL, true>(powers, &whole);
            avx512::wipe(&mut stream[used..]);
            finish(&sum, s)
        }
    }

    /// XORs the stream into the payload and returns the tag. The stream is a whole number of units,
    /// covers the payload, and is kept.
    pub(crate) fn open_prepared(
        self,
        powers: &Powers,
        s: &[u8; 16],
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
    ) -> [u8; 16] {
        assert!(buffers.len().next_multiple_of(64) <= stream.len());
        let whole = Self::whole(aad, buffers, stream.as_ptr().cast_mut());
        // SAFETY: `self` proves CPU support, the pointers are to buffers of equal length, and the
        // stream covers them; the stream is not written.
        unsafe { finish(&poly1305::part::<OPEN, false>(powers, &whole), s) }
    }

    fn whole<'a>(aad: &'a [u8], buffers: Buffers<'_>, stream: *mut u8) -> Part<'a> {
        let (src, dst, len) = buffers.into_pointers();
        let lengths = Some((aad.len() as u64, len as u64));
        Part { so_far: Limbs::default(), aad, src, dst, len, stream, lengths }
    }

    /// Adds a stretch to a MAC, and encrypts it with the key stream in its body.
    pub(crate) fn absorb(
        self,
        powers: &Powers,
        so_far: &mut Limbs,
        aad: &[u8],
        payload: &[u8],
        body: &mut [u8],
    ) {
        assert!(payload.len().next_multiple_of(64) <= body.len());
        let (src, dst, len) = (payload.as_ptr(), body.as_mut_ptr(), payload.len());
        let part = Part { so_far: *so_far, aad, src, dst, len, stream: dst, lengths: None };
        // SAFETY: `self` proves CPU support; the body covers the payload in whole units.
        *so_far = unsafe { poly1305::part::<SEAL, false>(powers, &part) }.times(&Limbs([1, 0, 0]));
    }

    pub(crate) fn seal(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        if aad.len().saturating_add(buffers.len()) <= IN_TURN {
            return Avx2::from(self).seal(key, nonce, aad, buffers);
        }
        let (src, dst, len) = buffers.into_pointers();
        // SAFETY: `self` proves CPU support, and the pointers are to buffers of equal length.
        unsafe { one_shot::<SEAL>(key, nonce, aad, src, dst, len) }
    }

    pub(crate) fn open(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        if aad.len().saturating_add(buffers.len()) <= IN_TURN {
            return Avx2::from(self).open(key, nonce, aad, buffers);
        }
        let (src, dst, len) = buffers.into_pointers();
        // SAFETY: `self` proves CPU support, and the pointers are to buffers of equal length.
        unsafe { one_shot::<OPEN>(key, nonce, aad, src, dst, len) }
    }

    /// Writes values into a prepared packet.
    #[inline(always)]
    pub(crate) fn fill_poly1305<S: Mac, V: Values, const N: usize>(self, filling: Filling<'_, S, V, N>) {
        let (head, values, body) = filling.parts();
        // SAFETY: `self` proves CPU support.
        unsafe { fill(head, values, body) }
    }

    /// Writes a value into a prepared packet that has one hole, a whole block.
    #[inline(always)]
    pub(crate) fn fill_one_poly1305<S: Mac, const N: usize>(self, filling: FillingOne<'_, S, N>) -> bool {
        let (head, value, body) = filling.parts();
        // SAFETY: `self` proves CPU support.
        unsafe { fill_one(head, value, body) }
    }

    /// Reads the values of a received packet and returns the expected tag.
    #[inline(always)]
    pub(crate) fn check_poly1305<S: Mac, const N: usize>(self, reading: Reading<'_, S, N>) -> [u8; 16] {
        let (head, aad, src, body, dst) = reading.parts();
        // SAFETY: `self` proves CPU support.
        unsafe { check(head, aad, src, body, dst) }
    }
}

/// Takes the one-time key from the first block, and wipes the block.
pub(super) fn once(first: &mut [u8; 64], r: &mut Limbs, s: &mut [u8; 16]) {
    if let ([bytes, last], _) = first[..32].as_chunks::<16>() {
        *r = Limbs::clamped(bytes);
        *s = *last;
    }
    wipe(first);
}

/// An unprepared packet: XOR and MAC in one pass over each piece of key stream.
///
/// # Safety
/// The CPU has AVX-512 F, BW, VL and IFMA, and BMI2; the pointers are valid for `len` bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma,bmi2")]
unsafe fn one_shot<const WAY: u8>(
    key: &[u32; 8],
    nonce: &[u8; 12],
    aad: &[u8],
    src: *const u8,
    dst: *mut u8,
    len: usize,
) -> [u8; 16] {
    let mut stream = Stream([const { MaybeUninit::uninit() }; 1 + UNITS]);
    let start: *mut u8 = stream.0.as_mut_ptr().cast();
    let mut now = len.min(64 * UNITS);
    let mut powers = Powers::none();
    let lengths = Some((aad.len() as u64, len as u64));
    // SAFETY: the CPU supports the instructions. The first block is written before it is read; so
    // are the following units that cover `now` bytes, and the pointers are valid for `now` bytes.
    unsafe {
        chacha20::stream(key, 0, nonce, None, &mut stream.0[..1 + now.div_ceil(64)]);
        let mut r = Limbs::clamped(&start.cast::<[u8; 16]>().read());
        let s = start.add(16).cast::<[u8; 16]>().read();
        powers.set(&r);
        let mut part = Part {
            so_far: Limbs::default(),
            aad,
            src,
            dst,
            len: now,
            stream: start.add(64),
            lengths: lengths.filter(|_| now == len),
        };
        part.so_far = poly1305::part::<WAY, true>(&powers, &part);
        let mut done = now;
        while done < len {
            now = (len - done).min(64 * UNITS);
            let units = &mut stream.0[1..1 + now.div_ceil(64)];
            chacha20::stream(key, 1 + (done / 64) as u32, nonce, None, units);
            part = Part {
                aad: &[],
                src: src.add(done),
                dst: dst.add(done),
                len: now,
                lengths: lengths.filter(|_| done + now == len),
                ..part
            };
            part.so_far = poly1305::part::<WAY, true>(&powers, &part);
            done += now;
        }
        let tag = finish(&part.so_far, &s);
        start.cast::<__m512i>().write(_mm512_setzero_si512());
        core::arch::asm!("/* {} */", in(reg) start, options(nostack, preserves_flags));
        powers.zeroize();
        r.zeroize();
        tag
    }
}

/// The portable kernel compiled for MULX (BMI2), whose products go to any register.
///
/// # Safety
/// The CPU has BMI2.
#[target_feature(enable = "bmi2")]
unsafe fn fill<S: Mac, V: Values, const N: usize>(head: &mut Head<S, N>, values: V, body: &mut [u8]) {
    holes::fill_in_turn(head, values, body);
}

/// Like [`fill`].
///
/// # Safety
/// The CPU has BMI2.
#[target_feature(enable = "bmi2")]
unsafe fn fill_one<S: Mac, const N: usize>(head: &mut Head<S, N>, value: &[u8; 16], body: &mut [u8]) -> bool {
    holes::fill_one(head, value, body)
}

/// The portable check, compiled as [`fill`] is.
///
/// # Safety
/// The CPU has BMI2.
#[target_feature(enable = "bmi2")]
unsafe fn check<S: Mac, const N: usize>(
    head: &Head<S, N>,
    aad: &[u8],
    src: &[u8],
    body: &[u8],
    dst: &mut [u8],
) -> [u8; 16] {
    holes::check_here(head, aad, src, body, dst)
}
