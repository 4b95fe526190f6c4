//! Packets prepared for a front equal those of the plain cipher, at any stage of preparation.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{bytes, key};
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use antedate_aead::{
    Aegis128L, Aes128Ccm, Aes128Ccm8, Aes256Ccm8, AesCcm, AsconAead128, Backend, BlockCipher, CcmStar32,
    Front, FrontError, FrontSlot, FrontStandby, Fronted, Key, Nonce, NonceSequence, Opener, PrepareError,
    Sealer, Suite, Tag, research::Morus1280,
};
use proptest::{collection::vec, prelude::*};

/// A chip's AES with its own formats for chains and masks.
struct Chip(aes::Aes128);

impl Chip {
    const CHAIN: [u8; 16] = [0x3c; 16];
    const MASK: [u8; 16] = [0xa7; 16];
}

fn xor(block: &mut [u8], with: &[u8]) {
    block.iter_mut().zip(with).for_each(|(a, b)| *a ^= b);
}

impl BlockCipher for Chip {
    const KEY_LEN: usize = 16;

    fn new(key: &[u8]) -> Self {
        Self(aes::Aes128::new_from_slice(key).unwrap())
    }

    fn encrypt(&self, block: &mut [u8; 16]) {
        self.0.encrypt_block(block.into());
    }

    fn fold(&self, chain: &mut [u8; 16]) {
        xor(chain, &Self::CHAIN);
    }

    fn advance(&self, chain: &mut [u8; 16]) {
        xor(chain, &Self::CHAIN);
        self.encrypt(chain);
        xor(chain, &Self::CHAIN);
    }

    fn fold_mask(&self, mask: &mut [u8; 16]) {
        xor(mask, &Self::MASK);
    }

    fn finish<const TAG: usize>(&self, chain: &[u8; 16], mask: &[u8; 16], tag: &mut [u8; TAG]) {
        let mut block = *chain;
        xor(&mut block, &Self::CHAIN);
        self.encrypt(&mut block);
        xor(&mut block, mask);
        xor(&mut block, &Self::MASK);
        tag.copy_from_slice(&block[..TAG]);
    }
}

type ChipCcm = AesCcm<Chip, 13, 8>;

/// A counter, stored at the end of the nonce.
struct Counter(u64);

fn nonce_of<B: AsMut<[u8]> + Default>(number: u64) -> B {
    let mut nonce = B::default();
    let bytes = nonce.as_mut();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&(number as u32).to_be_bytes());
    nonce
}

impl<B: AsMut<[u8]> + Default> NonceSequence<B> for Counter {
    type Error = &'static str;

    fn next(&mut self) -> Result<(u64, Nonce<B>), Self::Error> {
        self.0 += 1;
        Ok((self.0 - 1, Nonce::assume_unique(nonce_of(self.0 - 1))))
    }
}

fn one_shot<S: Suite>(key: &Key<S>, number: u64, aad: &[u8], plain: &[u8]) -> (Vec<u8>, Tag<S::TagBytes>)
where
    S::NonceBytes: Default,
{
    let mut out = vec![0; plain.len()];
    let tag = key.seal(Nonce::assume_unique(nonce_of(number)), aad, plain, &mut out);
    (out, tag)
}

struct Case {
    aad: Vec<u8>,
    front: Vec<u8>,
    rest: Vec<u8>,
    /// Other possible payload lengths.
    others: Vec<usize>,
    /// Index of the true length among them, if present.
    place: Option<usize>,
    steps: Vec<u32>,
    field: bool,
}

fn check<S: Fronted>(case: &Case)
where
    S::NonceBytes: Default,
    S::TagBytes: Copy,
{
    let len = case.front.len() + case.rest.len();
    let mut lengths: Vec<usize> = case.others.iter().map(|other| case.front.len() + 1 + other).collect();
    lengths.retain(|&other| other != len);
    lengths.dedup_by(|a, b| a == b);
    lengths.sort_unstable();
    lengths.dedup();
    if let (Some(place), false) = (case.place, case.rest.is_empty()) {
        lengths.insert(place.min(lengths.len()), len);
    }
    if lengths.is_empty() {
        lengths.push(case.front.len() + 7);
    }
    let mut aad = case.aad.clone();
    let field = case.field && aad.len() >= 5;
    let mut declared = Front::new(&case.aad, &case.front, &lengths).unwrap();
    if field {
        declared = declared.with_length_field(3..5).unwrap();
        aad[3..5].copy_from_slice(&(len as u16).to_be_bytes());
    }
    let plain = [&case.front[..], &case.rest].concat();
    for backend in Backend::available() {
        let what = format!("{} on {backend:?}, {len} bytes of {lengths:?}", S::NAME);
        let plain_key = key::<S>(3, backend);
        let (expected, expected_tag) = one_shot(&plain_key, 0, &aad, &plain);
        let mut slot = FrontSlot::<S, 512, 4>::new();
        let mut sealer = Sealer::<S, _>::new(key(3, backend), Counter(0));
        let mut prepared = sealer.prepare_front(&declared, &mut slot).unwrap();
        case.steps.iter().for_each(|&step| assert!(prepared.step(step) <= step));
        if case.steps.len() % 2 == 1 {
            while prepared.step(1) > 0 {}
            assert!(prepared.is_ready());
        }
        let sealed = prepared.seal(&case.rest).unwrap();
        assert_eq!(
            (sealed.ciphertext(), sealed.tag(), sealed.number()),
            (&expected[..], expected_tag, 0),
            "{what}"
        );
        drop(sealed);

        let opener = Opener::<S, _>::new(key(3, backend), nonce_of::<S::NonceBytes>);
        let mut waiting = opener.expect_front(0, &declared, &mut slot).unwrap();
        case.steps.iter().for_each(|&step| _ = waiting.step(step));
        let mut out = vec![1; len];
        let tag = *expected_tag.as_bytes();
        let mut forged = tag;
        let last = forged.as_ref().len() - 1;
        forged.as_mut()[last] ^= 0x80;
        let mut waiting = waiting.open(&aad, &expected, &mut out, &forged).unwrap_err().0;
        assert!(out.iter().all(|&byte| byte == 0), "{what}");
        // A packet that does not start with the front opens like any other.
        if let Some(byte) = case.front.len().checked_sub(1) {
            let mut other = plain.clone();
            other[byte] ^= 4;
            let (sealed, tag) = one_shot(&plain_key, 0, &aad, &other);
            waiting.open(&aad, &sealed, &mut out, tag.as_bytes()).unwrap();
            assert_eq!(out, other, "{what}");
            waiting = opener.expect_front(0, &declared, &mut slot).unwrap();
            while waiting.step(3) > 0 {}
        }
        waiting.open(&aad, &expected, &mut out, &tag).unwrap();
        assert_eq!(out, plain, "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn fronts_match_plain_cipher(
        aad in vec(any::<u8>(), 0..70),
        front in vec(any::<u8>(), 0..200),
        rest in vec(any::<u8>(), 0..120),
        others in vec(0usize..120, 0..3),
        place in proptest::option::of(0usize..4),
        steps in vec(0u32..20, 0..5),
        field in any::<bool>(),
    ) {
        let case = Case { aad, front, rest, others, place, steps, field };
        check::<Aes128Ccm8>(&case);
        check::<Aes256Ccm8>(&case);
        check::<CcmStar32>(&case);
        check::<Aes128Ccm>(&case);
        check::<ChipCcm>(&case);
        check::<Aegis128L>(&case);
        check::<Morus1280>(&case);
        check::<AsconAead128>(&case);
    }
}

/// Each rest of up to two blocks after each front of up to two, fully prepared.
#[test]
fn every_offset_in_a_block_matches() {
    for front in 0..34 {
        for rest in 1..34 {
            let (front, rest) = (bytes(front, 7), bytes(rest, 9));
            let case = Case {
                aad: bytes(14, 1),
                front,
                rest,
                others: vec![],
                place: Some(0),
                steps: vec![100],
                field: false,
            };
            check::<Aes128Ccm8>(&case);
            check::<ChipCcm>(&case);
            check::<AsconAead128>(&case);
        }
    }
}

/// The same for suites with 32-byte blocks.
#[test]
fn every_offset_in_long_block_matches() {
    for front in 0..66 {
        for rest in (1..66).step_by(3) {
            let (front, rest) = (bytes(front, 7), bytes(rest, 9));
            let (others, steps) = (vec![], vec![100]);
            let case = Case { aad: bytes(40, 1), front, rest, others, place: None, steps, field: false };
            check::<Aegis128L>(&case);
            check::<Morus1280>(&case);
        }
    }
}

#[test]
fn chip_matches_software() {
    let (aad, plain) = (bytes(20, 1), bytes(100, 2));
    let chip = Key::<ChipCcm>::new(&crate::common::key_bytes::<ChipCcm>(3)).unwrap();
    let software = key::<AesCcm<antedate_aead::Aes128, 13, 8>>(3, Backend::Portable);
    assert_eq!(one_shot(&chip, 5, &aad, &plain), one_shot(&software, 5, &aad, &plain));
    let mut sealer = Sealer::new(chip, Counter(5));
    let mut slot = antedate_aead::Slot::<ChipCcm, 112>::new();
    let mut prepared = sealer.prepare(&mut slot).unwrap();
    assert_eq!(prepared.step(100), 8);
    let mut out = vec![0; 100];
    let tag = prepared.seal(&aad, &plain, &mut out);
    assert_eq!((out, tag), one_shot(&software, 5, &aad, &plain));
}

#[test]
fn flipped_bit_leaves_no_plaintext() {
    let (aad, front, rest) = (bytes(14, 1), bytes(20, 2), bytes(13, 3));
    let plain = [&front[..], &rest].concat();
    let lengths = [33, 40];
    let declared = Front::new(&aad, &front, &lengths).unwrap();
    for backend in Backend::available() {
        let (sealed, tag) = one_shot(&key::<Aes128Ccm8>(3, backend), 0, &aad, &plain);
        let packet = [&aad[..], &sealed, tag.as_bytes()].concat();
        let opener = Opener::<Aes128Ccm8, _>::new(key(3, backend), nonce_of::<[u8; 12]>);
        let mut slot = FrontSlot::<Aes128Ccm8, 64, 2>::new();
        for bit in 0..=8 * packet.len() {
            let mut packet = packet.clone();
            if let Some(byte) = packet.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let mut expected = opener.expect_front(0, &declared, &mut slot).unwrap();
            expected.step(100);
            let mut out = vec![1; 33];
            let verdict =
                expected.open(&packet[..14], &packet[14..47], &mut out, &packet[47..].try_into().unwrap());
            let genuine = bit == 8 * packet.len();
            assert_eq!(verdict.is_ok(), genuine, "bit {bit}");
            assert_eq!(out, if genuine { plain.clone() } else { vec![0; 33] });
        }
    }
}

#[test]
fn bad_front_names_cause_and_costs_no_nonce() {
    let field =
        |field| Front::new(&[0; 4], &[], &[]).unwrap().with_length_field(field).unwrap_err().to_string();
    assert_eq!(field(2..5), "bytes 2 to 5 are no length field in 4 bytes of associated data");
    assert_eq!(field(2..2), "bytes 2 to 2 are no length field in 4 bytes of associated data");
    assert_eq!(Front::new(&[], &[1], &[2, 3, 2]).unwrap_err(), FrontError::Repeated { first: 0, second: 2 });
    let mut sealer = Sealer::<Aes128Ccm8, _>::new(key(0, Backend::detect()), Counter(4));
    let mut slot = FrontSlot::<Aes128Ccm8, 64, 2>::new();
    let mut refused = |lengths: &[usize]| {
        let front = Front::new(b"aad", b"front", lengths).unwrap();
        sealer.prepare_front(&front, &mut slot).unwrap_err()
    };
    assert_eq!(refused(&[]), PrepareError::Template(FrontError::NoLength));
    let too_many = FrontError::TooManyLengths { given: 3, capacity: 2 };
    assert_eq!(refused(&[6, 7, 8]), PrepareError::Template(too_many));
    let error = refused(&[6, 65]);
    assert_eq!(error.to_string(), "the payload has 65 bytes, but the slot takes 64");
    let front = Front::new(b"aad", b"front", &[6]).unwrap();
    assert_eq!(sealer.prepare_front(&front, &mut slot).unwrap().number(), 4);
}

#[test]
fn oversized_rest_returns_packet_unspent() {
    let mut sealer = Sealer::<Aes128Ccm8, _>::new(key(0, Backend::detect()), Counter(4));
    let mut slot = FrontSlot::<Aes128Ccm8, 64, 1>::new();
    let front = Front::new(b"aad", b"front", &[9]).unwrap();
    let mut prepared = sealer.prepare_front(&front, &mut slot).unwrap();
    prepared.step(100);
    let oversize = prepared.seal(&[1; 60]).unwrap_err();
    assert_eq!(oversize.to_string(), "the payload has 65 bytes, but the slot takes 64");
    let plain = [&b"front"[..], &[1; 60]].concat();
    let mut out = [0; 65];
    let tag = oversize.prepared.seal_other(b"aad", &plain, &mut out);
    assert_eq!((out.to_vec(), tag), one_shot(&key::<Aes128Ccm8>(0, Backend::detect()), 4, b"aad", &plain));
}

#[test]
fn left_packet_is_sealed_once_later() {
    let mut standby =
        FrontStandby::<Aes128Ccm8, _, 64, 1>::new(key(0, Backend::detect()), crate::common::Counter(3, 6));
    let [front, other] = [&b"force "[..], b"force: "].map(|text| Front::new(b"a", text, &[20]).unwrap());
    assert!(standby.resume_front(&front).is_none(), "nothing was left");
    standby.prepare_front(&front).unwrap().leave();
    while standby.resume_front(&front).is_some_and(|mut prepared| {
        let done = prepared.step(1);
        prepared.leave();
        done > 0
    }) {}
    let sealed = standby.resume_front(&front).unwrap().seal(b"of 81.5 tonnes").unwrap();
    let mut out = [0; 20];
    let nonce = Nonce::assume_unique(crate::common::nonce_of(3));
    let tag = key::<Aes128Ccm8>(0, Backend::detect()).seal(nonce, b"a", b"force of 81.5 tonnes", &mut out);
    assert_eq!((sealed.ciphertext(), sealed.tag().as_bytes()), (&out[..], tag.as_bytes()));
    drop(sealed);
    assert!(standby.resume_front(&front).is_none(), "it was sealed");
    standby.prepare_front(&front).unwrap().leave();
    assert!(standby.resume_front(&other).is_none(), "that was another front");
    assert!(standby.resume_front(&front).is_none(), "it is burnt");
}

#[test]
fn misfit_and_exhaustion_keep_left_packet() {
    let mut standby =
        FrontStandby::<Aes128Ccm8, _, 64, 1>::new(key(0, Backend::detect()), crate::common::Counter(3, 4));
    let [front, long] = [&[20][..], &[65]].map(|lengths| Front::new(b"a", b"force ", lengths).unwrap());
    standby.prepare_front(&front).unwrap().leave();
    let error = standby.prepare_front(&long).unwrap_err();
    assert_eq!(error, PrepareError::Template(FrontError::TooLong { len: 65, capacity: 64 }));
    let error = standby.prepare_front(&front).unwrap_err();
    assert_eq!(error, PrepareError::Sequence("the counter is at its end"));
    let sealed = standby.resume_front(&front).unwrap().seal(b"of 81.5 tonnes").unwrap();
    assert_eq!(sealed.number(), 3);
}
