//! ChaCha20-Poly1305 with AVX2 and BMI2, for CPUs below the AVX-512 backend.

use super::{
    chacha20_avx2::{Avx2, Block},
    chacha20poly1305::{UNITS, once},
    chacha20poly1305_beside as beside,
    poly1305::{HASH, OPEN, Powers, SEAL},
    poly1305_powers::{self, Part, Source, Table},
};
use crate::{
    backend::portable::poly1305::{Limbs, Sum},
    buffers::Buffers,
    bytes::wipe,
};
use core::mem::MaybeUninit;

/// Units of a prepared packet computed with the first block, and copied.
const TOGETHER: usize = 8;

/// Key stream on the stack.
#[repr(C, align(64))]
struct Stream([Block; 1 + UNITS]);

impl Avx2 {
    /// Takes the one-time key from the first block, wipes the block, and computes the powers of r.
    fn once(
        self,
        first: &mut [u8; 64],
        (r, s, powers): (&mut Limbs, &mut [u8; 16], &mut Powers),
        template: Option<usize>,
    ) {
        once(first, r, s);
        let table = powers.table_mut();
        // SAFETY: `self` proves CPU support.
        unsafe {
            match template {
                Some(len) => table.set(r, len >= poly1305_powers::WORTH),
                None => table.set_all(r),
            }
        }
    }

    /// Computes a packet's one-time key and its first units of key stream, in as few passes as
    /// possible. A `template` of that many bytes needs fewer powers than a packet.
    pub(crate) fn prepare(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        once: (&mut Limbs, &mut [u8; 16], &mut Powers),
        template: Option<usize>,
        out: &mut [u8],
    ) {
        let (units, _) = out.as_chunks_mut::<64>();
        let (begin, rest) = units.split_at_mut(units.len().min(TOGETHER));
        let mut made = [[0; 64]; 1 + TOGETHER];
        let made = &mut made[..1 + begin.len()];
        self.stream(key, 0, nonce, made.as_flattened_mut());
        begin.copy_from_slice(&made[1..]);
        wipe(made[1..].as_flattened_mut());
        self.once(&mut made[0], once, template);
        self.stream(key, 1 + TOGETHER as u32, nonce, rest.as_flattened_mut());
    }

    /// Overwrites all powers with zeros.
    pub(crate) fn wipe(self, powers: &mut Powers) {
        // SAFETY: `self` proves CPU support.
        unsafe { powers.table_mut().wipe() };
    }

    /// The tag of an encrypted payload.
    pub(crate) fn tag(self, powers: &Powers, s: &[u8; 16], aad: &[u8], payload: &[u8]) -> [u8; 16] {
        let (src, len) = (payload.as_ptr(), payload.len());
        let lengths = Some((aad.len() as u64, len as u64));
        let nothing = core::ptr::null_mut();
        let whole = Part { so_far: None, aad, src, dst: nothing, len, stream: nothing, lengths };
        // SAFETY: `self` proves CPU support; the payload is only read.
        unsafe { poly1305_powers::part::<HASH, false>(Source::All(powers.table()), &whole) }.tag(s)
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
        let used = buffers.len().next_multiple_of(16);
        assert!(buffers.len().next_multiple_of(64) <= stream.len());
        let whole = whole(aad, buffers, stream.as_mut_ptr());
        // SAFETY: `self` proves CPU support, the pointers are to buffers of equal length, and the
        // stream covers them.
        let sum = unsafe { poly1305_powers::part::<SEAL, true>(Source::All(powers.table()), &whole) };
        wipe(&mut stream[used..]);
        zeroize::optimization_barrier(stream);
        sum.tag(s)
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
        let whole = whole(aad, buffers, stream.as_ptr().cast_mut());
        // SAFETY: `self` proves CPU support, the pointers are to buffers of equal length, and the
        // stream covers them; the stream is not written.
        unsafe { poly1305_powers::part::<OPEN, false>(Source::All(powers.table()), &whole) }.tag(s)
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
        let part = Part { so_far: Some(*so_far), aad, src, dst, len, stream: dst, lengths: None };
        // SAFETY: `self` proves CPU support; the body covers the payload in whole units.
        *so_far =
            unsafe { poly1305_powers::part::<SEAL, false>(Source::Once(powers.table()), &part) }.value();
    }

    pub(crate) fn seal(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        // SAFETY: `self` proves CPU support, and the buffers are of equal length.
        unsafe { one_shot::<SEAL>(self, key, nonce, aad, buffers.into_pointers()) }
    }

    pub(crate) fn open(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        // SAFETY: `self` proves CPU support, and the buffers are of equal length.
        unsafe { one_shot::<OPEN>(self, key, nonce, aad, buffers.into_pointers()) }
    }
}

fn whole<'a>(aad: &'a [u8], buffers: Buffers<'_>, stream: *mut u8) -> Part<'a> {
    let (src, dst, len) = buffers.into_pointers();
    let lengths = Some((aad.len() as u64, len as u64));
    Part { so_far: None, aad, src, dst, len, stream, lengths }
}

/// An unprepared packet: XOR and MAC in one pass over each piece of key stream.
///
/// # Safety
/// The CPU has AVX2 and BMI2; the pointers are valid for the given length.
#[target_feature(enable = "avx2,bmi2")]
unsafe fn one_shot<const WAY: u8>(
    avx2: Avx2,
    key: &[u32; 8],
    nonce: &[u8; 12],
    aad: &[u8],
    (src, dst, len): (*const u8, *mut u8, usize),
) -> [u8; 16] {
    if avx2.is_worth_a_mac_beside(len) {
        // SAFETY: guaranteed by the caller, and a packet takes this path only from a pass's bytes.
        return unsafe { beside::one_shot::<WAY>(avx2, key, nonce, aad, (src, dst, len)) };
    }
    let mut stream = Stream([const { MaybeUninit::uninit() }; 1 + UNITS]);
    let start: *mut u8 = stream.0.as_mut_ptr().cast();
    let mut now = len.min(64 * UNITS);
    avx2.blocks(key, 0, nonce, &mut stream.0[..1 + now.div_ceil(64)]);
    // SAFETY: the first block is initialised.
    let (mut r, s) = unsafe {
        (Limbs::clamped(&start.cast::<[u8; 16]>().read()), start.add(16).cast::<[u8; 16]>().read())
    };
    let mut table = None;
    let source = if len >= poly1305_powers::WORTH {
        let table = table.insert(Table::default());
        table.set(&r, true);
        Source::Once(table)
    } else {
        Source::Short(&r)
    };
    let (mut so_far, mut aad_now, mut done) = (None, aad, 0);
    let sum: Sum = loop {
        let last = done + now == len;
        let part = Part {
            so_far,
            aad: aad_now,
            src: src.wrapping_add(done),
            dst: dst.wrapping_add(done),
            len: now,
            stream: start.wrapping_add(64),
            lengths: last.then_some((aad.len() as u64, len as u64)),
        };
        // SAFETY: the CPU supports the instructions. The units after the first block that cover
        // `now` bytes are initialised, and the pointers are valid for `now` bytes from `done`.
        let sum = unsafe { poly1305_powers::part::<WAY, true>(source, &part) };
        // SAFETY: the bytes after the blocks that `part` wiped are within the last unit, which is
        // initialised.
        unsafe {
            let wiped = now.next_multiple_of(16);
            core::ptr::write_bytes(start.add(64 + wiped), 0, now.next_multiple_of(64) - wiped);
        }
        if last {
            break sum;
        }
        (so_far, aad_now, done) = (Some(sum.value()), &[], done + now);
        now = (len - done).min(64 * UNITS);
        avx2.blocks(key, 1 + (done / 64) as u32, nonce, &mut stream.0[1..1 + now.div_ceil(64)]);
    };
    let tag = sum.tag(&s);
    // SAFETY: the first block is the stream's. The assembly keeps the compiler from removing the
    // wipe.
    unsafe {
        core::ptr::write_bytes(start, 0, 64);
        core::arch::asm!("/* {} */", in(reg) start, options(nostack, preserves_flags));
    }
    if let Some(table) = &mut table {
        table.wipe();
    }
    zeroize::Zeroize::zeroize(&mut r);
    tag
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{
        Backend, ChaCha20Poly1305,
        backend::{
            portable::poly1305::{Poly1305, finish},
            x86::Avx512,
        },
        suites::{
            chacha20poly1305::{Expanded, OneTime},
            engine::Engine,
        },
    };
    use proptest::prelude::*;
    use std::{vec, vec::Vec};

    fn octets(most: usize) -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..most),
            (0..most).prop_map(|len| vec![0xff; len]),
            (0..most).prop_map(|len| vec![0; len]),
        ]
    }

    fn padded(bytes: &[u8]) -> Vec<u8> {
        let mut whole = bytes.to_vec();
        whole.resize(bytes.len().next_multiple_of(16), 0);
        whole
    }

    /// RFC 8439 section 2.8 as a whole, with the scalar code.
    fn expected(r: &Limbs, s: &[u8; 16], aad: &[u8], payload: &[u8]) -> [u8; 16] {
        let mut slow = Poly1305::new(r);
        for block in [padded(aad), padded(payload)].concat().as_chunks::<16>().0 {
            slow.block(block);
        }
        slow.block(&(aad.len() as u128 | (payload.len() as u128) << 64).to_le_bytes());
        finish(&slow.value(), s)
    }

    macro_rules! are_those_of_blocks_in_turn {
        ($kernel:expr, $powers:expr, $r:expr, $s:expr, $aad:expr, $payload:expr) => {
            let tag = $kernel.tag(&$powers, &$s, &$aad, &$payload);
            prop_assert_eq!(tag, expected(&$r, &$s, &$aad, &$payload));

            // The computation of a template, in two stretches.
            let cut = $payload.len() / 128 * 64;
            let mut sum = Limbs::default();
            let mut body = vec![0; $payload.len().next_multiple_of(64)];
            let (first, rest) = body.split_at_mut(cut);
            $kernel.absorb(&$powers, &mut sum, &$aad, &$payload[..cut], first);
            $kernel.absorb(&$powers, &mut sum, &[], &$payload[cut..], rest);
            let mut slow = Poly1305::new(&$r);
            for block in [padded(&$aad), padded(&$payload)].concat().as_chunks::<16>().0 {
                slow.block(block);
            }
            prop_assert_eq!(finish(&sum, &$s), finish(&slow.value(), &$s));
        };
    }

    proptest! {
        #[test]
        fn tags_match_blockwise_hashing(
            r in prop_oneof![any::<[u8; 16]>(), Just([0xff; 16]), Just([0; 16])],
            s: [u8; 16],
            aad in octets(400),
            payload in octets(1700),
        ) {
            let Some(avx2) = Avx2::new(Backend::AesNi) else { return Ok(()) };
            let r = Limbs::clamped(&r);
            let mut powers = Powers::default();
            // SAFETY: the CPU has AVX2.
            unsafe { powers.table_mut().set_all(&r) };
            are_those_of_blocks_in_turn!(avx2, powers, r, s, aad, payload);

            avx2.wipe(&mut powers);
            prop_assert!(powers.table().is_wiped());
        }

        #[test]
        fn avx512_tags_match_blockwise_hashing(
            r in prop_oneof![any::<[u8; 16]>(), Just([0xff; 16]), Just([0; 16])],
            s: [u8; 16],
            aad in octets(400),
            payload in octets(1700),
        ) {
            let Some(wide) = Avx512::new(Backend::Avx512) else { return Ok(()) };
            let r = Limbs::clamped(&r);
            let mut powers = Powers::default();
            // SAFETY: the CPU has the AVX-512 kernels' instructions.
            unsafe { powers.set(&r) };
            are_those_of_blocks_in_turn!(wide, powers, r, s, aad, payload);
        }
    }

    #[test]
    fn packets_match_portable_code() {
        let key = [0x5a; 32];
        let portable = ChaCha20Poly1305::expand(&key, Backend::Portable);
        for backend in [Backend::AesNi, Backend::Avx512].into_iter().filter(|&one| one <= Backend::detect()) {
            same_packets(&ChaCha20Poly1305::expand(&key, backend), &portable);
        }
    }

    fn same_packets(ours: &Expanded, portable: &Expanded) {
        let nonce = b"twelve bytes";
        for len in 0..2100 {
            let aad = vec![7; len * 7 % 61];
            let plain: Vec<u8> = (0..len + 3).map(|i| (i * i) as u8).collect();
            let mut sealed = plain.clone();
            let tag = ChaCha20Poly1305::seal(portable, nonce, &aad, Buffers::InPlace(&mut sealed[3..]));

            // Separate buffers, at an odd address.
            let mut out = vec![0xee; len + 6];
            let apart = Buffers::Apart(&plain[3..], &mut out[3..][..len]);
            assert_eq!(ChaCha20Poly1305::seal(ours, nonce, &aad, apart), tag, "{len}");
            assert_eq!(
                (&out[..3], &out[3..][..len], &out[len + 3..]),
                (&[0xee; 3][..], &sealed[3..], &[0xee; 3][..])
            );
            let apart = Buffers::Apart(&sealed[3..], &mut out[1..][..len]);
            assert_eq!(ChaCha20Poly1305::open(ours, nonce, &aad, apart), tag, "{len}");
            assert_eq!(out[1..][..len], plain[3..]);

            // In place.
            let mut data = plain.clone();
            assert_eq!(ChaCha20Poly1305::seal(ours, nonce, &aad, Buffers::InPlace(&mut data[3..])), tag);
            assert_eq!(data, sealed);
            assert_eq!(ChaCha20Poly1305::open(ours, nonce, &aad, Buffers::InPlace(&mut data[3..])), tag);
            assert_eq!(data, plain);

            // Prepared, with excess stream.
            let mut stream = vec![1; len.next_multiple_of(64) + len % 3 * 64];
            let (mut once, mut apart) = (OneTime::default(), [0; 16]);
            ChaCha20Poly1305::prepare_with_stream(ours, nonce, &mut once, &mut stream, None);
            let kept = stream.clone();
            let buffers = Buffers::Apart(&sealed[3..], &mut out[2..][..len]);
            ChaCha20Poly1305::open_prepared(ours, nonce, &once, &stream, &aad, buffers, &mut apart);
            assert_eq!((apart, &out[2..][..len], &stream), (tag, &plain[3..], &kept), "{len}");
            let buffers = Buffers::InPlace(&mut data[3..]);
            ChaCha20Poly1305::seal_prepared(ours, nonce, &once, &mut stream, &aad, buffers, &mut apart);
            assert_eq!((apart, &data), (tag, &sealed), "{len}");
            assert!(stream.iter().all(|byte| *byte == 0));
        }
    }
}
