//! Random shapes: every way to a packet gives the plain cipher's packet, and every backend the
//! portable one's.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{Counter, key, nonce_of};
use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, Aes256Gcm, Backend, ChaCha20Poly1305, Hole, Nonce, OpenPool, Opener, SealPool,
    Sealer, Sparse, Template, TemplateSlot, Usual,
};
use proptest::{collection::vec, prelude::*};

fn one_shot<S: Usual>(backend: Backend, aad: &[u8], plain: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let mut out = vec![0; plain.len()];
    let tag = key::<S>(3, backend).seal(Nonce::assume_unique(nonce_of(0)), aad, plain, &mut out);
    (out, *tag.as_bytes())
}

/// Cuts each part into pieces, of which every second may be a hole.
fn holes(cuts: &[usize], aad: usize, payload: usize) -> Vec<Hole> {
    let mut holes = Vec::new();
    for (i, pair) in cuts.chunks_exact(2).enumerate() {
        let (part, hole): (usize, fn(_) -> _) =
            if i % 2 == 0 { (payload, Hole::Payload) } else { (aad, Hole::Aad) };
        if part == 0 {
            continue;
        }
        let start = pair[0] % part;
        let candidate = hole(start..(start + 1 + pair[1] % 20).min(part));
        let bytes = vec![0; aad.max(payload)];
        holes.push(candidate);
        if Template::new(&bytes[..aad], &bytes[..payload], &holes).is_err() {
            holes.pop();
        }
    }
    holes
}

fn pools<S: Usual>(aad: &[u8], plain: &[u8], steps: &[u32]) {
    let portable = one_shot::<S>(Backend::Portable, aad, plain);
    for backend in Backend::available() {
        assert_eq!(one_shot::<S>(backend, aad, plain), portable, "{backend:?}");
        let mut seal = SealPool::<S, _, 2, 3072>::new(key(3, backend), Counter(0, 9));
        let mut open = OpenPool::<S, _, 2, 3072>::new(key(3, backend), nonce_of);
        for &step in steps {
            seal.idle(step);
            open.idle(step);
        }
        let mut out = vec![0; plain.len()];
        let tag = seal.next().unwrap().seal(aad, plain, &mut out);
        assert_eq!((&out, *tag.as_bytes()), (&portable.0, portable.1), "{backend:?}");
        let mut opened = vec![0; plain.len()];
        open.open(0, aad, &out, &mut opened, tag.as_bytes()).unwrap();
        assert_eq!(opened, plain);
    }
}

fn templates<S: Usual + Sparse>(aad: &[u8], plain: &[u8], holes: &[Hole], steps: &[u32], noise: u8) {
    let portable = one_shot::<S>(Backend::Portable, aad, plain);
    let value = |hole: &Hole| match hole {
        Hole::Aad(range) => aad[range.clone()].to_vec(),
        Hole::Payload(range) => plain[range.clone()].to_vec(),
    };
    let values: Vec<Vec<u8>> = holes.iter().map(value).collect();
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    // The contents of holes do not matter.
    let (mut before_aad, mut before) = (aad.to_vec(), plain.to_vec());
    for hole in holes {
        match hole {
            Hole::Aad(range) => before_aad[range.clone()].fill(noise),
            Hole::Payload(range) => before[range.clone()].fill(noise),
        }
    }
    let template = Template::new(&before_aad, &before, holes).unwrap();
    for backend in Backend::available() {
        let mut sealer = Sealer::<S, _>::new(key(3, backend), Counter(0, 9));
        let mut slot = TemplateSlot::<S, 640, 16>::new();
        let mut prepared = sealer.prepare_template(&template, &mut slot).unwrap();
        let mut done = steps.iter().map(|&step| prepared.step(step)).sum::<u32>();
        if steps.len().is_multiple_of(2) {
            done += prepared.step(1000);
            assert!(prepared.is_ready() && done > 0);
        }
        let sealed = prepared.seal(&values).unwrap();
        assert_eq!(sealed.ciphertext(), portable.0, "{backend:?}");
        assert_eq!(*sealed.tag().as_bytes(), portable.1, "{backend:?}");
        drop(sealed);
        let mut sealer = Sealer::<S, _>::new(key(3, backend), Counter(0, 9));
        let mut prepared = sealer.prepare_template(&template, &mut slot).unwrap();
        prepared.step(steps.iter().sum::<u32>() + 12);
        let sealed = prepared.seal_joined(&values.concat()).unwrap();
        assert_eq!(sealed.ciphertext(), portable.0, "{backend:?}");
        assert_eq!(*sealed.tag().as_bytes(), portable.1, "{backend:?}");
        drop(sealed);

        let opener = Opener::<S, _>::new(key(3, backend), nonce_of);
        let mut expected = opener.expect_template(0, &template, &mut slot).unwrap();
        steps.iter().for_each(|&step| _ = expected.step(step));
        let mut out = vec![1; plain.len()];
        let mut forged = portable.1;
        forged[usize::from(noise % 16)] ^= 1;
        let expected = expected.open(aad, &portable.0, &mut out, &forged).unwrap_err().0;
        assert!(out.iter().all(|&byte| byte == 0));
        expected.open(aad, &portable.0, &mut out, &portable.1).unwrap();
        assert_eq!(out, plain);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pools_and_backends_agree_for_any_shape(
        aad in vec(any::<u8>(), 0..100),
        plain in vec(any::<u8>(), 0..2600),
        steps in vec(0u32..60, 0..4),
    ) {
        pools::<Aes128Gcm>(&aad, &plain, &steps);
        pools::<Aes256Gcm>(&aad, &plain, &steps);
        pools::<ChaCha20Poly1305>(&aad, &plain, &steps);
        pools::<Aes128Ocb3>(&aad, &plain, &steps);
    }

    #[test]
    fn long_associated_data_matches_portable(
        aad in vec(any::<u8>(), 1500..6000),
        plain in vec(any::<u8>(), 0..200),
    ) {
        pools::<Aes128Gcm>(&aad, &plain, &[7]);
        pools::<ChaCha20Poly1305>(&aad, &plain, &[7]);
    }

    #[test]
    fn templates_match_plain_cipher(
        aad in vec(any::<u8>(), 0..60),
        plain in vec(any::<u8>(), 0..400),
        cuts in vec(any::<usize>(), 0..16),
        steps in vec(0u32..30, 0..4),
        noise in any::<u8>(),
    ) {
        let holes = holes(&cuts, aad.len(), plain.len());
        templates::<Aes128Gcm>(&aad, &plain, &holes, &steps, noise);
        templates::<Aes256Gcm>(&aad, &plain, &holes, &steps, noise);
        templates::<ChaCha20Poly1305>(&aad, &plain, &holes, &steps, noise);
        templates::<Aes128Ocb3>(&aad, &plain, &holes, &steps, noise);
    }
}

fn flips<S: Usual + Sparse>() {
    let (aad, plain) = (crate::common::bytes(20, 1), crate::common::bytes(33, 2));
    for backend in Backend::available() {
        let (sealed, tag) = one_shot::<S>(backend, &aad, &plain);
        let packet = [&aad[..], &sealed, &tag].concat();
        let opener = Opener::<S, _>::new(key(3, backend), nonce_of);
        let holes = [Hole::Aad(3..6), Hole::Payload(9..30)];
        let template = Template::new(&aad, &plain, &holes).unwrap();
        let mut slot = TemplateSlot::<S, 64, 4>::new();
        let mut pool = OpenPool::<S, _, 1, 64>::new(key(3, backend), nonce_of);
        for bit in 0..=8 * packet.len() {
            let mut packet = packet.clone();
            if let Some(byte) = packet.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let genuine = bit == 8 * packet.len();
            let (aad, sealed) = (&packet[..20], &packet[20..53]);
            let tag: &[u8; 16] = packet[53..].try_into().unwrap();
            let mut out = vec![1; 33];
            assert_eq!(key::<S>(3, backend).open(nonce_of(0), aad, sealed, &mut out, tag).is_ok(), genuine);
            pool.idle(2);
            assert_eq!(pool.open(0, aad, sealed, &mut out, tag).is_ok(), genuine);
            let mut expected = opener.expect_template(0, &template, &mut slot).unwrap();
            expected.step(100);
            let verdict = expected.open(aad, sealed, &mut out, tag).is_ok();
            assert_eq!(verdict, genuine, "bit {bit}");
            assert_eq!(out, if genuine { plain.clone() } else { vec![0; 33] });
        }
    }
}

#[test]
fn flipped_bit_is_refused_on_every_path() {
    flips::<Aes128Gcm>();
    flips::<Aes256Gcm>();
    flips::<ChaCha20Poly1305>();
    flips::<Aes128Ocb3>();
}

/// Lists the backends that this crate's tests execute, for `cargo xtask test`.
#[test]
fn executed_backends_are_recorded() {
    let names: String = Backend::available().map(|backend| format!("{backend:?}\n")).collect();
    assert!(names.starts_with("Portable\n"));
    if let Some(file) = std::env::var_os("ANTEDATE_BACKENDS") {
        std::fs::write(file, names).unwrap();
    }
}

/// If detection failed, all tests over the backends would test only the portable one.
#[cfg(all(target_arch = "aarch64", target_os = "linux", target_endian = "little"))]
#[test]
fn cpu_instructions_are_detected() {
    use std::arch::is_aarch64_feature_detected as has;
    assert_eq!(Backend::detect() != Backend::Portable, has!("aes") && has!("pmull"));
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn cpu_instructions_are_detected() {
    use std::arch::is_x86_feature_detected as has;
    if env!("CARGO_PKG_NAME") != "antedate-aead" {
        // An emulated CPU.
        return;
    }
    let ssse3 = has!("ssse3");
    let aes_ni = has!("aes") && has!("pclmulqdq") && ssse3 && has!("sse4.1");
    let vaes = aes_ni && has!("avx2") && has!("vaes") && has!("vpclmulqdq");
    let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    let avx512 = vaes && wide && has!("avx512ifma") && has!("bmi1") && has!("bmi2");
    let expected = [true, ssse3, aes_ni, vaes, avx512].iter().filter(|has| **has).count();
    assert_eq!(Backend::available().count(), expected);
}
