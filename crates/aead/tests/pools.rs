//! Prepared packets are the packets of the plain cipher, however the preparation went.
#![allow(clippy::unwrap_used)]

mod common;

use antedate_aead::{
    Aes128Gcm, Aes256Gcm, Backend, ChaCha20Poly1305, Nonce, OpenPool, SealPool, Unauthentic, Usual,
};
use common::{Counter, bytes, key, nonce_of};

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
            assert_eq!(open.open(round as u64, &aad, &sealed, &mut out, &forged), Err(Unauthentic));
            assert!(out.iter().all(|&byte| byte == 0));
            assert_eq!(open.open(round as u64, &aad, &sealed, &mut out, tag.as_bytes()), Ok(()));
            assert_eq!(out, plain);
            // What was opened can be opened again: to refuse a replay is the channel's task.
            assert_eq!(open.open_in_place(round as u64, &aad, &mut sealed, tag.as_bytes()), Ok(()));
        }
    }
}

#[test]
fn prepared_packets_equal_one_shot_packets_after_any_amount_of_idle_time() {
    prepared_is_one_shot::<Aes128Gcm>();
    prepared_is_one_shot::<Aes256Gcm>();
    prepared_is_one_shot::<ChaCha20Poly1305>();
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
            assert_eq!(open.verify(0, &[&data[..99], &data[99..199]], tag.as_bytes()), Err(Unauthentic));
            assert_eq!(open.verify(0, &[&data[..99], &data[99..]], tag.as_bytes()), Ok(()));
        }
    }
}

#[test]
fn authenticated_pieces_are_read_as_one_string() {
    pieces_are_one::<Aes128Gcm>();
    pieces_are_one::<Aes256Gcm>();
    pieces_are_one::<ChaCha20Poly1305>();
}

#[test]
fn a_dropped_packet_burns_its_nonce() {
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
fn idle_stops_at_its_budget_and_when_all_is_ready() {
    let mut pool = SealPool::<Aes256Gcm, _, 3, 128>::new(key(0, Backend::detect()), Counter(0, 1000));
    assert_eq!(pool.idle(1), 1);
    assert_eq!(pool.idle(4), 4);
    assert_eq!(pool.prepared(), 1);
    assert_eq!(pool.idle(100), 4);
    assert_eq!(pool.prepared(), 3);
    assert_eq!(pool.idle(100), 0);
}

#[test]
fn expecting_a_later_number_frees_the_slots_of_older_ones() {
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
