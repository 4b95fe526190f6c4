//! A key stream that continues from packet to packet.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::bytes;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use antedate_aead::{
    Aes128, Aes256, Backend, BlockCipher,
    unauthenticated::{CounterBlock, CtrStream, OutOfStreamError, StreamEndedError},
};
use proptest::{collection::vec, prelude::*};

fn hex<const N: usize>(text: &str) -> [u8; N] {
    core::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// NIST SP 800-38A, F.5.1 and F.5.5.
#[test]
fn sp_800_38a_examples_match() {
    let plain: [u8; 64] = hex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
    );
    let first = CounterBlock(hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
    for backend in Backend::available() {
        for idle in 0..3 {
            let mut data = plain;
            let key = hex::<16>("2b7e151628aed2a6abf7158809cf4f3c");
            let mut stream = CtrStream::<Aes128, 3>::with_backend(&key, first, 4, backend).unwrap();
            stream.idle(idle);
            assert_eq!(stream.encrypt(&mut data), Ok(first));
            let expected = "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee";
            assert_eq!(data, hex::<64>(expected));
            let mut data = plain;
            let key = hex::<32>("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
            let mut stream = CtrStream::<Aes256, 8>::with_backend(&key, first, 4, backend).unwrap();
            stream.idle(idle);
            assert_eq!(stream.encrypt(&mut data), Ok(first));
            let expected = "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c52b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6";
            assert_eq!(data, hex::<64>(expected));
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Idle(u32),
    Packet(usize),
    Lost(usize),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Against AES alone: each packet takes the next blocks, and none twice.
    #[test]
    fn stream_continues_across_packets(
        events in vec(prop_oneof![
            (0u32..5).prop_map(Event::Idle),
            (0usize..150).prop_map(Event::Packet),
            (0usize..90).prop_map(Event::Lost),
        ], 1..30),
        first in any::<u64>(),
    ) {
        let key = [7; 16];
        let oracle = aes::Aes128::new_from_slice(&key).unwrap();
        let begin = CounterBlock((u128::from(first) << 3).to_be_bytes());
        for backend in Backend::available() {
            let mut sending = CtrStream::<Aes128, 6>::with_backend(&key, begin, 10_000, backend).unwrap();
            let mut receiving = CtrStream::<Aes128, 11>::with_backend(&key, begin, 10_000, backend).unwrap();
            let mut counter = u128::from(first) << 3;
            for event in &events {
                let (len, lost) = match event {
                    Event::Idle(budget) => {
                        sending.idle(*budget);
                        receiving.idle(budget / 2);
                        continue;
                    }
                    Event::Packet(len) => (*len, false),
                    Event::Lost(len) => (*len, true),
                };
                let plain = bytes(len, 5);
                let mut data = plain.clone();
                let begins = sending.encrypt(&mut data).unwrap();
                prop_assert_eq!(begins, CounterBlock(counter.to_be_bytes()));
                for (chunk, sealed) in plain.chunks(16).zip(data.chunks(16)) {
                    let mut pad = counter.to_be_bytes();
                    oracle.encrypt_block((&mut pad).into());
                    prop_assert!(chunk.iter().zip(sealed).zip(pad).all(|((a, b), c)| a ^ b == c));
                    counter += 1;
                }
                if !lost {
                    receiving.decrypt(begins, &mut data).unwrap();
                    prop_assert_eq!(data, plain);
                }
            }
        }
    }
}

#[test]
fn stream_end_spends_and_writes_nothing() {
    let mut stream = CtrStream::<Aes128, 4>::new(&[1; 16], CounterBlock([0xff; 16]), 100).unwrap();
    assert_eq!(stream.encrypt(&mut [0; 1]), Err(StreamEndedError { needed: 1, left: 0 }));
    let mut stream = CtrStream::<Aes128, 4>::new(&[1; 16], CounterBlock([0; 16]), 3).unwrap();
    // In units of as many blocks as this CPU's AES does at once.
    assert_eq!(stream.idle(9), 48usize.div_ceil(Aes128::UNIT) as u32);
    assert_eq!(stream.ready(), 48);
    let mut data = [5; 49];
    let error = stream.encrypt(&mut data).unwrap_err();
    assert_eq!(error.to_string(), "the packet needs 4 blocks of cipherstream, but 3 are left under this key");
    assert_eq!((data, stream.position()), ([5; 49], CounterBlock([0; 16])));
    assert!(stream.encrypt(&mut data[..48]).is_ok());
    assert_eq!(stream.idle(9), 0);
    assert_eq!(stream.encrypt(&mut []), Ok(CounterBlock(3u128.to_be_bytes())));
}

#[test]
fn decrypted_packet_is_not_decrypted_again() {
    let at = |number: u128| CounterBlock(number.to_be_bytes());
    let mut stream = CtrStream::<Aes128, 4>::new(&[1; 16], at(10), 20).unwrap();
    let mut data = [5; 17];
    assert_eq!(stream.decrypt(at(9), &mut data), Err(OutOfStreamError));
    assert_eq!(stream.decrypt(at(29), &mut data), Err(OutOfStreamError));
    assert_eq!(stream.decrypt(at(1 << 100), &mut data), Err(OutOfStreamError));
    assert_eq!((data, stream.position()), ([5; 17], at(10)));
    assert_eq!(stream.decrypt(at(12), &mut data), Ok(()));
    assert_eq!(stream.position(), at(14));
    assert_eq!(stream.decrypt(at(12), &mut data), Err(OutOfStreamError));
    assert_eq!(CtrStream::<Aes128, 4>::new(&[1; 15], at(0), 1).unwrap_err().expected, Aes128::KEY_LEN);
}
