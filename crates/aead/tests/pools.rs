//! Prepared packets equal those of the plain cipher, at any stage of preparation.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{Counter, bytes, key, nonce_of};
use antedate_aead::{
    Aegis128L, Aes128Ccm, Aes128Gcm, Aes128Ocb3, Aes256Gcm, AuthenticationError, Backend, ChaCha20Poly1305,
    Nonce, NonceSequence, OpenPool, SealPool, Suite, Usual, research::Morus1280,
};

fn prepared_is_one_shot<S: Usual>() {
    for backend in Backend::available() {
        let plain_key = key::<S>(1, backend);
        let mut seal = SealPool::<S, _, 4, 256>::new(key(1, backend), Counter(0, u64::MAX));
        let mut open = OpenPool::<S, _, 4, 256>::new(key(1, backend), nonce_of);
        for round in 0..700usize {
            let (aad, plain) = (bytes(round % 37, 5), bytes(round * 7 % 301, round as u8));
            seal.set_reach(round * 5 % 300);
            seal.idle((round % 11) as u32);
            open.set_reach(round * 3 % 300);
            open.expect_from(round as u64);
            open.idle((round % 9) as u32);

            let mut expected = vec![0; plain.len()];
            let nonce = Nonce::assume_unique(nonce_of(round as u64));
            let expected_tag = plain_key.seal(nonce, &aad, &plain, &mut expected);

            let packet = seal.next().unwrap();
            assert_eq!(packet.number(), round as u64);
            let mut sealed = vec![0; plain.len()];
            let tag = packet.seal(&aad, &plain, &mut sealed);
            assert_eq!((&sealed, tag), (&expected, expected_tag), "{} round {round} {backend:?}", S::NAME);

            let mut out = vec![1; plain.len()];
            let mut forged = *tag.as_bytes();
            forged[round % 16] ^= 1 << (round % 8);
            assert_eq!(open.open(round as u64, &aad, &sealed, &mut out, &forged), Err(AuthenticationError));
            assert!(out.iter().all(|&byte| byte == 0));
            assert_eq!(open.open(round as u64, &aad, &sealed, &mut out, tag.as_bytes()), Ok(()));
            assert_eq!(out, plain);
            // An opened packet can be opened again: refusing replays is the channel's task.
            assert_eq!(open.open_in_place(round as u64, &aad, &mut sealed, tag.as_bytes()), Ok(()));
        }
    }
}

#[test]
fn prepared_packets_equal_one_shot_packets() {
    prepared_is_one_shot::<Aes128Gcm>();
    prepared_is_one_shot::<Aes256Gcm>();
    prepared_is_one_shot::<ChaCha20Poly1305>();
}

fn pools_equal_one_shot<S: Suite<TagBytes = [u8; 16]>>(nonce_of: impl Fn(u64) -> S::NonceBytes + Copy)
where
    Numbers<S>: NonceSequence<S::NonceBytes, Error = ()>,
{
    for backend in Backend::available() {
        let mut seal = SealPool::<S, _, 4, 640>::new(key(1, backend), Numbers::<S>::new());
        let mut open = OpenPool::<S, _, 4, 640>::new(key(1, backend), nonce_of);
        let plain_key = key::<S>(1, backend);
        for round in 0..60usize {
            open.expect_from(round as u64);
            seal.idle((round % 13) as u32);
            open.idle((round % 11) as u32);
            let (aad, plain) = (bytes(round % 37, 5), bytes(round * 17 % 641, round as u8));

            seal.touch(plain.len());
            open.touch(plain.len());

            let packet = seal.next().unwrap();
            assert_eq!(packet.number(), round as u64, "touching uses no nonce");
            let mut sealed = vec![0; plain.len()];
            let tag = packet.seal(&aad, &plain, &mut sealed);
            let mut expected = vec![0; plain.len()];
            let nonce = Nonce::assume_unique(nonce_of(round as u64));
            assert!(plain_key.seal(nonce, &aad, &plain, &mut expected) == tag);
            assert_eq!(sealed, expected, "{} round {round} {backend:?}", S::NAME);
            let mut out = vec![1; plain.len()];
            assert_eq!(open.open(round as u64, &aad, &sealed, &mut out, tag.as_bytes()), Ok(()));
            assert_eq!(out, plain);
        }
    }
}

/// Counts from 0.
struct Numbers<S>(u64, std::marker::PhantomData<S>);

impl<S> Numbers<S> {
    fn new() -> Self {
        Self(0, std::marker::PhantomData)
    }
}

impl<S: Suite<NonceBytes = B>, B: Wide> NonceSequence<B> for Numbers<S> {
    type Error = ();

    fn next(&mut self) -> Result<(u64, Nonce<B>), ()> {
        self.0 += 1;
        Ok((self.0 - 1, Nonce::assume_unique(B::of(self.0 - 1))))
    }
}

trait Wide {
    fn of(number: u64) -> Self;
}

impl Wide for [u8; 12] {
    fn of(number: u64) -> Self {
        nonce_of(number)
    }
}

impl Wide for [u8; 16] {
    fn of(number: u64) -> Self {
        (u128::from(number) | 7 << 100).to_be_bytes()
    }
}

#[test]
fn pools_of_each_suite_equal_one_shot() {
    pools_equal_one_shot::<Aes128Gcm>(Wide::of);
    pools_equal_one_shot::<Aes256Gcm>(Wide::of);
    pools_equal_one_shot::<ChaCha20Poly1305>(Wide::of);
    pools_equal_one_shot::<Aes128Ccm>(Wide::of);
    pools_equal_one_shot::<Aes128Ocb3>(Wide::of);
    pools_equal_one_shot::<Aegis128L>(Wide::of);
    pools_equal_one_shot::<Morus1280>(Wide::of);
}

fn pieces_are_one<S: Usual>() {
    for backend in Backend::available() {
        let data = bytes(200, 1);
        for cut in 0..200 {
            let mut seal = SealPool::<S, _, 2, 64>::new(key(2, backend), Counter(0, 9));
            let mut open = OpenPool::<S, _, 2, 64>::new(key(2, backend), nonce_of);
            if cut % 2 == 0 {
                seal.idle(1);
                open.idle(1);
            }
            let tag = seal.next().unwrap().authenticate(&[&data[..cut], &[], &data[cut..]]);
            let whole = key::<S>(2, backend).seal(Nonce::assume_unique(nonce_of(0)), &data, &[], &mut []);
            assert_eq!(tag, whole);
            assert_eq!(
                open.verify(0, &[&data[..99], &data[99..199]], tag.as_bytes()),
                Err(AuthenticationError)
            );
            assert_eq!(open.verify(0, &[&data[..99], &data[99..]], tag.as_bytes()), Ok(()));
        }
    }
}

#[test]
fn associated_pieces_read_as_one_string() {
    pieces_are_one::<Aes128Gcm>();
    pieces_are_one::<Aes256Gcm>();
    pieces_are_one::<ChaCha20Poly1305>();
}

#[test]
fn dropped_packet_burns_its_nonce() {
    let mut pool = SealPool::<Aes128Gcm, _, 2, 64>::new(key(0, Backend::detect()), Counter(5, 8));
    pool.idle(100);
    assert_eq!(pool.prepared(), 2);
    drop(pool.next().unwrap());
    core::mem::forget(pool.next().unwrap());
    assert_eq!(pool.next().unwrap().number(), 7);
    assert_eq!(pool.next().err(), Some("the counter is at its end"));
    assert_eq!(pool.idle(9), 0);
}

#[test]
fn idle_stops_at_budget_or_when_ready() {
    let mut pool = SealPool::<Aes256Gcm, _, 3, 128>::new(key(0, Backend::detect()), Counter(0, 1000));
    assert_eq!(pool.idle(1), 1);
    assert_eq!(pool.idle(4), 4);
    assert_eq!(pool.prepared(), 1);
    assert_eq!(pool.idle(100), 4);
    assert_eq!(pool.prepared(), 3);
    assert_eq!(pool.idle(100), 0);
}

#[test]
fn later_number_frees_older_slots() {
    let mut pool = OpenPool::<Aes128Gcm, _, 4, 64>::new(key(0, Backend::detect()), nonce_of);
    assert_eq!(pool.idle(100), 8);
    assert_eq!(pool.idle(100), 0);
    pool.expect_from(3);
    assert_eq!(pool.prepared(), 1);
    assert_eq!(pool.idle(100), 6);
    pool.expect_from(1_000_000);
    assert_eq!(pool.prepared(), 0);
    assert_eq!(pool.idle(100), 8);
    pool.expect_from(7);
    assert_eq!(pool.idle(100), 8);
    pool.expect_from(u64::MAX);
    assert_eq!(pool.idle(100), 0);
}

#[test]
fn next_needs_number_and_preparation() {
    for backend in Backend::available() {
        let plain_key = key::<Aes128Gcm>(1, backend);
        let mut seal = SealPool::<Aes128Gcm, _, 4, 256>::new(key(1, backend), Counter(5, u64::MAX));
        assert!(seal.next_ready(5, 0).is_none(), "nothing is prepared");
        while seal.idle(9) > 0 {}
        assert!(seal.next_ready(4, 0).is_none() && seal.next_ready(6, 0).is_none());
        assert!(seal.next_ready(5, 257).is_none(), "it is longer than a slot");
        for (number, len) in (5..).zip([256usize, 0, 33, 64]) {
            let (aad, plain) = (bytes(28, 5), bytes(len, 9));
            let mut expected = vec![0; len];
            let nonce = Nonce::assume_unique(nonce_of(number));
            let expected_tag = plain_key.seal(nonce, &aad, &plain, &mut expected);
            expected.extend_from_slice(expected_tag.as_bytes());
            let mut sealed = plain;
            sealed.resize(len + 16, 0);
            seal.next_ready(number, len).unwrap().seal_in_place(&aad, &mut sealed);
            assert_eq!(sealed, expected, "{number} {backend:?}");
        }
        assert!(seal.next_ready(9, 0).is_none());
        assert_eq!(seal.next().unwrap().number(), 9);
    }
}

#[test]
fn opened_packet_is_no_longer_expected() {
    for backend in Backend::available() {
        let mut open = OpenPool::<Aes128Gcm, _, 4, 256>::new(key(1, backend), nonce_of);
        let sealed = |number: u64, len: usize| {
            let (plain, mut sealed) = (bytes(len, 3), vec![0; len]);
            let nonce = Nonce::assume_unique(nonce_of(number));
            let tag = key::<Aes128Gcm>(1, backend).seal(nonce, b"head", &plain, &mut sealed);
            (plain, sealed, *tag.as_bytes())
        };
        // Prepared or not, longer than a slot, and one that arrives early.
        for (number, len, steps) in
            [(0, 40, 0), (1, 256, 99), (2, 257, 99), (3, 0, 99), (6, 70, 99), (7, 64, 3)]
        {
            open.idle(steps);
            let (plain, mut packet, tag) = sealed(number, len);
            packet.extend_from_slice(&tag);
            let mut forged = packet.clone();
            forged[len + 3] ^= 1;
            assert_eq!(open.open_next_in_place(number, b"head", &mut forged), Err(AuthenticationError));
            assert!(forged[..len].iter().all(|&byte| byte == 0));
            assert_eq!(open.open_next_in_place(number, b"head", &mut packet), Ok(()), "{number}");
            assert_eq!(packet[..len], plain);
        }
        // Exactly the four after the last one are prepared.
        while open.idle(9) > 0 {}
        assert_eq!(open.prepared(), 4);
        let units = (64 / 64 + 1) * 4;
        open.set_reach(64);
        open.expect_from(12);
        assert_eq!(open.idle(99), units, "{backend:?}");
    }
}

/// Seals and opens a packet followed by its tag, in a buffer whose other bytes must not change.
fn seals_and_opens_in_one_piece<const CAP: usize>(backend: Backend, lens: &[usize], aad_lens: &[usize]) {
    let plain_key = key::<Aes256Gcm>(3, backend);
    let mut seal = Box::new(SealPool::<Aes256Gcm, _, 2, CAP>::new(key(3, backend), Counter(0, u64::MAX)));
    let mut open = Box::new(OpenPool::<Aes256Gcm, _, 2, CAP>::new(key(3, backend), nonce_of));
    let mut number = 0;
    for &len in lens {
        for &aad_len in aad_lens {
            let (aad, plain) = (bytes(aad_len, 5), bytes(len, 9));
            let mut sealed = vec![0; len];
            let tag = plain_key.seal(Nonce::assume_unique(nonce_of(number)), &aad, &plain, &mut sealed);
            sealed.extend_from_slice(tag.as_bytes());
            while seal.idle(99) > 0 || open.idle(99) > 0 {}
            let mut buffer = vec![0xaa; len + 16 + 2 * 64];
            let at = 64..64 + len + 16;
            buffer[64..64 + len].copy_from_slice(&plain);
            seal.next_ready(number, len).unwrap().seal_in_place(&aad, &mut buffer[at.clone()]);
            let what = format!("{len} bytes, {aad_len} associated, {backend:?}");
            assert_eq!(buffer[at.clone()], sealed, "{what}");
            for bit in [0, 127] {
                buffer[64 + len + bit / 8] ^= 1 << (bit % 8);
                let forged = open.open_next_in_place(number, &aad, &mut buffer[at.clone()]);
                assert_eq!(forged, Err(AuthenticationError), "{what}");
                assert!(buffer[64..64 + len].iter().all(|&byte| byte == 0), "{what}");
                buffer[at.clone()].copy_from_slice(&sealed);
            }
            assert_eq!(open.open_next_in_place(number, &aad, &mut buffer[at.clone()]), Ok(()), "{what}");
            assert_eq!(buffer[64..64 + len], plain, "{what}");
            assert_eq!(buffer[64 + len..][..16], *tag.as_bytes(), "{what}");
            assert!(buffer[..64].iter().chain(&buffer[at.end..]).all(|&byte| byte == 0xaa), "{what}");
            number += 1;
        }
    }
}

#[test]
fn one_piece_packet_matches_plain_cipher() {
    for backend in Backend::available() {
        let lens: Vec<usize> = (0..=193).collect();
        seals_and_opens_in_one_piece::<256>(backend, &lens, &[0, 1, 16, 28, 32, 33]);
        seals_and_opens_in_one_piece::<256>(backend, &[0, 15, 16, 64, 94], &(0..=40).collect::<Vec<_>>());
        // Around the longest payload that one fold covers.
        let lens: Vec<usize> = (1498..=1503).chain(1741..=1746).chain([1792, 2047, 2048]).collect();
        seals_and_opens_in_one_piece::<2048>(backend, &lens, &[20, 28, 100]);
    }
}

#[test]
#[should_panic(expected = "another length")]
fn packet_of_other_length_is_not_sealed() {
    let mut seal = SealPool::<Aes128Gcm, _, 2, 64>::new(key(1, Backend::detect()), Counter(0, u64::MAX));
    seal.idle(9);
    seal.next_ready(0, 40).unwrap().seal_in_place(b"", &mut [0; 57]);
}

#[test]
fn input_shorter_than_tag_is_not_authentic() {
    for backend in Backend::available() {
        let mut open = OpenPool::<Aes128Gcm, _, 2, 64>::new(key(1, backend), nonce_of);
        open.idle(9);
        assert_eq!(open.open_next_in_place(0, b"", &mut [0; 15]), Err(AuthenticationError));
        assert_eq!(open.open_next_in_place(0, b"", &mut []), Err(AuthenticationError));
    }
}
