//! Frames compared with the `aes-gcm` and `chacha20poly1305` crates. Nonce and associated data are
//! built here from the standard's text.

use super::super::*;
use super::setup::*;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use antedate_aead::{Key, Nonce, Suite};
use chacha20poly1305::ChaCha20Poly1305;
use proptest::prelude::*;
use std::vec::Vec;

fn seal(suite: CipherSuite, key: &[u8], nonce: [u8; 12], aad: &[u8], msg: &[u8]) -> Vec<u8> {
    let payload = Payload { msg, aad };
    match (suite, key.len()) {
        // Other tests compare these ciphers with other implementations. This test is about the
        // frame.
        (CipherSuite::Aegis128L, _) => seal_wide::<antedate_aead::Aegis128L>(key, nonce, aad, msg),
        (CipherSuite::Morus1280, _) => seal_wide::<antedate_aead::research::Morus1280>(key, nonce, aad, msg),
        (CipherSuite::ChaCha20Poly1305, _) => {
            ChaCha20Poly1305::new_from_slice(key).unwrap().encrypt(&nonce.into(), payload).unwrap()
        }
        (_, 16) => Aes128Gcm::new_from_slice(key).unwrap().encrypt(&nonce.into(), payload).unwrap(),
        _ => Aes256Gcm::new_from_slice(key).unwrap().encrypt(&nonce.into(), payload).unwrap(),
    }
}

fn seal_wide<S: Suite<NonceBytes = [u8; 16], TagBytes = [u8; 16]>>(
    key: &[u8],
    nonce: [u8; 12],
    aad: &[u8],
    msg: &[u8],
) -> Vec<u8> {
    let mut wide = [0; 16];
    wide[4..].copy_from_slice(&nonce);
    let mut sealed = msg.to_vec();
    let tag = Key::<S>::new(key).unwrap().seal(Nonce::assume_unique(wide), aad, msg, &mut sealed);
    sealed.extend(tag.as_bytes());
    sealed
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
