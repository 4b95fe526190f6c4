//! Packets from separately prepared nonces and flows equal those of the plain cipher.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{Counter, bytes, key, nonce_of};
use antedate_aead::{
    Aes128Gcm, Aes256Gcm, Backend, Flow, FlowPool, Hole, LENGTHS, Linear, Nonce, SealPool, Template,
    TemplateError,
};

type Pool<S> = FlowPool<S, Counter, 4, 1600>;

fn pool<S: Linear<NonceBytes = [u8; 12]>>(backend: Backend) -> Pool<S> {
    FlowPool::new(SealPool::new(key(1, backend), Counter(0, u64::MAX)))
}

/// Holes of a flow of MACsec frames: the packet number in the SecTAG, and some bytes of the data.
fn holes(len: usize) -> Vec<Hole> {
    let mut holes = vec![Hole::Aad(16..20)];
    for range in [2..3, 14..19, 40..40 + len / 20, len - 4..len] {
        if range.end <= len && range.start < range.end && (range.end == len || range.end < len - 4) {
            holes.push(Hole::Payload(range));
        }
    }
    holes
}

fn joined_is_one_shot<S: Linear<NonceBytes = [u8; 12]>>() {
    for backend in Backend::available() {
        let plain_key = key::<S>(1, backend);
        for len in [17, 46, 48, 63, 64, 65, 240, 511, 512, 513, 1024, 1500] {
            let (aad, payload, holes) = (bytes(28, 5), bytes(len, 9), holes(len));
            let template = Template::new(&aad, &payload, &holes).unwrap();
            let flow = Flow::<S, 32, 1536, 16>::new(&plain_key, &template).unwrap();
            let mut pool = pool::<S>(backend);
            assert!(pool.add_length(len));
            for round in 0..60u64 {
                let (mut aad, mut payload) = (aad.clone(), payload.clone());
                for hole in &holes {
                    let (part, range) = match hole {
                        Hole::Aad(range) => (&mut aad, range),
                        Hole::Payload(range) => (&mut payload, range),
                    };
                    part[range.clone()]
                        .iter_mut()
                        .for_each(|byte| *byte = byte.wrapping_mul(round as u8 + 3) ^ 0x5a);
                }
                let whole = round % 3 == 0;
                pool.idle(if whole { u32::MAX } else { (round % 40) as u32 });
                let strange = round % 7 == 6;
                payload[5] ^= u8::from(strange);
                let mut expected = vec![0; len];
                let nonce = Nonce::assume_unique(nonce_of(round));
                let expected_tag = plain_key.seal(nonce, &aad, &payload, &mut expected);
                let mut sealed = vec![0; len];
                let packet = pool.next().unwrap();
                assert_eq!(packet.number(), round);
                let (tag, joined) = packet.seal(&flow, &aad, &payload, &mut sealed);
                assert_eq!(
                    (&sealed, tag),
                    (&expected, expected_tag),
                    "{} {len} {round} {backend:?}",
                    S::NAME
                );
                if whole {
                    assert_eq!(joined, !strange, "{} {len} round {round} {backend:?}", S::NAME);
                }
            }
        }
    }
}

#[test]
fn joined_halves_match_plain_cipher() {
    joined_is_one_shot::<Aes128Gcm>();
    joined_is_one_shot::<Aes256Gcm>();
}

#[test]
fn flows_of_several_lengths_share_nonces() {
    let backend = Backend::detect();
    let plain_key = key::<Aes128Gcm>(1, backend);
    let lengths = [46, 60, 100, 200, 300];
    let mut pool = pool::<Aes128Gcm>(backend);
    for (index, len) in lengths.into_iter().enumerate() {
        assert_eq!(pool.add_length(len), index < LENGTHS, "{len}");
    }
    assert!(pool.add_length(46) && !pool.add_length(1601));
    let aad = bytes(28, 1);
    for round in 0..50usize {
        let len = lengths[round % lengths.len()];
        let payload = bytes(len, round as u8);
        let holes = [Hole::Aad(16..20), Hole::Payload(0..len)];
        let template = Template::new(&aad, &payload, &holes).unwrap();
        let flow = Flow::<Aes128Gcm, 32, 320, 24>::new(&plain_key, &template).unwrap();
        while pool.idle(7) > 0 {}
        let mut sealed = vec![0; len];
        let packet = pool.next().unwrap();
        let number = packet.number();
        let (tag, joined) = packet.seal(&flow, &aad, &payload, &mut sealed);
        let mut expected = vec![0; len];
        let nonce = Nonce::assume_unique(nonce_of(number));
        assert_eq!((plain_key.seal(nonce, &aad, &payload, &mut expected), &expected), (tag, &sealed));
        assert_eq!(joined, len != 300, "there is no room for a fifth length");
    }
}

#[test]
fn short_slot_serves_no_longer_packet() {
    let backend = Backend::detect();
    let plain_key = key::<Aes128Gcm>(1, backend);
    let lengths = [46, 200, 1000];
    let aad = bytes(28, 1);
    for order in 0..3usize {
        let mut pool = pool::<Aes128Gcm>(backend);
        // Lengths become known before or after the slots are prepared; the longest length shrinks
        // and grows again.
        for round in 0..60usize {
            if round == 10 * order {
                lengths.into_iter().for_each(|len| assert!(pool.add_length(len)));
            }
            pool.set_reach([64, 1600, 256][round / 7 % 3]);
            let len = lengths[round * (order + 1) % lengths.len()];
            let payload = bytes(len, round as u8);
            let template = Template::new(&aad, &payload, &[Hole::Aad(16..20)]).unwrap();
            let flow = Flow::<Aes128Gcm, 32, 1024, 24>::new(&plain_key, &template).unwrap();
            pool.idle([u32::MAX, 3, 17][round % 3]);
            let mut sealed = vec![0; len];
            let packet = pool.next().unwrap();
            let number = packet.number();
            let (tag, _) = packet.seal(&flow, &aad, &payload, &mut sealed);
            let mut expected = vec![0; len];
            let nonce = Nonce::assume_unique(nonce_of(number));
            assert_eq!((plain_key.seal(nonce, &aad, &payload, &mut expected), &expected), (tag, &sealed));
        }
    }
}

#[test]
fn oversized_flow_is_refused_with_size() {
    let key = key::<Aes128Gcm>(1, Backend::detect());
    let (aad, payload) = ([0; 28], [0; 100]);
    let holes = [Hole::Payload(0..100)];
    let template = Template::new(&aad, &payload, &holes).unwrap();
    let error = Flow::<Aes128Gcm, 32, 64, 8>::new(&key, &template).unwrap_err();
    assert_eq!(error, TemplateError::TooLong { len: 100, capacity: 64 });
    let error = Flow::<Aes128Gcm, 32, 128, 6>::new(&key, &template).unwrap_err();
    assert_eq!(error, TemplateError::TooManyBlocks { touched: 7, capacity: 6 });
}
