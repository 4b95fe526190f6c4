//! Frames compared with the crates `aes-gcm`, `chacha20poly1305`, `aegis`, `ascon-aead` and `ocb3`,
//! and with MORUS written from its specification. Nonce and associated data are built here from the
//! standard's text.

#[path = "../../../../aead/tests/common/morus.rs"]
mod morus;

use super::super::*;
use super::setup::*;
use crate::fragment::Marks;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use chacha20poly1305::ChaCha20Poly1305;
use proptest::prelude::*;
use std::vec::Vec;

fn seal(suite: CipherSuite, key: &[u8], nonce: [u8; 12], aad: &[u8], msg: &[u8]) -> Vec<u8> {
    let payload = Payload { msg, aad };
    match (suite, key.len()) {
        (CipherSuite::Aegis128L, _) => {
            let cipher = aegis::aegis128l::Aegis128L::<16>::new(key.try_into().unwrap(), &widened(nonce));
            joined(cipher.encrypt(msg, aad))
        }
        (CipherSuite::AsconAead128, _) => {
            let cipher = ascon_aead::AsconAead128::new_from_slice(key).unwrap();
            cipher.encrypt(&widened(nonce).into(), payload).unwrap()
        }
        (CipherSuite::Aes128Ocb3, _) => {
            let cipher = ocb3::Ocb3::<aes::Aes128, ocb3::consts::U12>::new_from_slice(key).unwrap();
            cipher.encrypt(&nonce.into(), payload).unwrap()
        }
        (CipherSuite::Morus1280, _) => {
            joined(morus::seal(key.try_into().unwrap(), &widened(nonce), aad, msg))
        }
        (CipherSuite::ChaCha20Poly1305, _) => {
            ChaCha20Poly1305::new_from_slice(key).unwrap().encrypt(&nonce.into(), payload).unwrap()
        }
        (_, 16) => Aes128Gcm::new_from_slice(key).unwrap().encrypt(&nonce.into(), payload).unwrap(),
        _ => Aes256Gcm::new_from_slice(key).unwrap().encrypt(&nonce.into(), payload).unwrap(),
    }
}

/// The nonce of the private suites with 16 octets: four zeros first.
fn widened(nonce: [u8; 12]) -> [u8; 16] {
    let mut wide = [0; 16];
    wide[4..].copy_from_slice(&nonce);
    wide
}

fn joined((sealed, tag): (Vec<u8>, [u8; 16])) -> Vec<u8> {
    [&sealed[..], &tag].concat()
}

fn by_the_text(config: TransmitConfig, key: &[u8], pn: u64, frame: &[u8]) -> Vec<u8> {
    let (addresses, data) = frame.split_at(12);
    let mut header = addresses.to_vec();
    header.extend([0x88, 0xe5]);
    let mode = match config.sci_mode {
        SciMode::Explicit => 0x20,
        SciMode::EndStation => 0x40,
        SciMode::PointToPoint => 0,
    };
    header.push(mode | if config.confidentiality { 0x0c } else { 0 });
    header.push(if data.len() < 48 { data.len() as u8 } else { 0 });
    header.extend((pn as u32).to_be_bytes());
    if config.sci_mode == SciMode::Explicit {
        header.extend(config.sci.0);
    }
    let mut nonce = [0; 12];
    if config.suite.is_xpn() {
        nonce[..4].copy_from_slice(&config.ssci.unwrap().to_be_bytes());
        nonce[4..].copy_from_slice(&pn.to_be_bytes());
        nonce.iter_mut().zip(SALT).for_each(|(octet, salt)| *octet ^= salt);
    } else {
        nonce[..8].copy_from_slice(&config.sci.0);
        nonce[8..].copy_from_slice(&(pn as u32).to_be_bytes());
    }
    if config.confidentiality {
        let sealed = seal(config.suite, key, nonce, &header, data);
        [header, sealed].concat()
    } else {
        let clear = [header, data.to_vec()].concat();
        let icv = seal(config.suite, key, nonce, &clear, &[]);
        [clear, icv].concat()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn frames_match_the_cipher_alone(
        suite in prop::sample::select(&CipherSuite::ALL[..]),
        sci_mode in prop::sample::select(&[SciMode::Explicit, SciMode::EndStation, SciMode::PointToPoint][..]),
        confidentiality: bool,
        start in prop_oneof![1u64..1000, Just((1 << 32) - 40)],
        frames in prop::collection::vec((0usize..1700, 0u32..60), 1..12),
    ) {
        let config = TransmitConfig { sci_mode, confidentiality, ..transmit_config(suite) };
        let mut transmit = Transmit::new(config).unwrap();
        transmit.install(A0, &sak(suite, 0), start, u64::MAX).unwrap();
        let mut receive = receive(ReceiveConfig::new(suite));
        receive.set_lowest_acceptable_pn(SCI, A0, start);
        let key: Vec<u8> = (0..suite.key_len() as u8).collect();
        for (i, (len, steps)) in frames.into_iter().enumerate() {
            let frame = frame(len);
            transmit.idle(steps);
            receive.idle(steps);
            let protected = protect(&mut transmit, &frame).unwrap();
            prop_assert_eq!(&protected, &by_the_text(config, &key, start + i as u64, &frame));
            let mut padded = protected.clone();
            padded.resize(protected.len().max(60), 0);
            prop_assert_eq!(validate(&mut receive, &padded), Ok(frame));
        }
    }
}

/// Each fragment is a frame of IEEE 802.1AE, with marks in the reserved bits of its SL octet.
#[test]
fn fragments_are_opened_by_aes_gcm() {
    let mut transmit = transmit(transmit_config(CipherSuite::GcmAes128));
    let (whole, mut out, mut pieces) = (frame(1000), [0; 10_000], Vec::new());
    let push = |piece: &[u8]| pieces.push(piece.to_vec());
    let count = transmit.protect_split(&whole, 14 + 200 + 32, Marks::Both, &mut out, push).unwrap();
    let key: Vec<u8> = (0..16).collect();
    let mut joined = whole[..14].to_vec();
    for (i, piece) in pieces.iter().enumerate() {
        let (header, sealed) = piece.split_at(28);
        let length = if sealed.len() - 16 < 48 { sealed.len() as u8 - 16 } else { 0 };
        let marks = if i < count - 1 { 0x80 } else { 0 } | if i > 0 { 0x40 } else { 0 };
        let number = (1 + i as u32).to_be_bytes();
        let tag = [&[0x88, 0xe5, 0x2c, length | marks], &number[..], &SCI.0].concat();
        assert_eq!(header, [&whole[..12], &tag].concat());
        let nonce: [u8; 12] = [&SCI.0[..], &number].concat().try_into().unwrap();
        let payload = Payload { msg: sealed, aad: header };
        let plain = Aes128Gcm::new_from_slice(&key).unwrap().decrypt(&nonce.into(), payload).unwrap();
        assert_eq!(plain[..2], whole[12..14]);
        joined.extend(&plain[2..]);
    }
    assert!(count > 4);
    assert_eq!(joined, whole);
}
