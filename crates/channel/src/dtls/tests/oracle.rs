//! Each record equals that of RustCrypto's ciphers octet by octet, prepared or not.

use std::vec;
use std::vec::Vec;

use aes_gcm::aead::{KeyInit, Payload};
use ccm::consts::{U8, U12, U16};

use super::super::{Aead, ConnectionId, ContentType};
use super::{cid, keys, pair};

type Ccm<A, T> = ccm::Ccm<A, T, U12>;

fn encrypt<C: KeyInit + aes_gcm::aead::Aead>(
    key: &[u8],
    nonce: &[u8; 12],
    msg: &[u8],
    aad: &[u8],
) -> Vec<u8> {
    let cipher = C::new_from_slice(key).unwrap();
    let nonce = aes_gcm::aead::Nonce::<C>::try_from(&nonce[..]).unwrap();
    cipher.encrypt(&nonce, Payload { msg, aad }).unwrap()
}

/// The record according to the standards, implemented independently.
fn expected(aead: Aead, cid: &ConnectionId, number: u64, kind: u8, plaintext: &[u8]) -> Vec<u8> {
    let mut nonce = keys(aead).rule().nonce(0);
    let number_octets = number.to_be_bytes();
    if aead == Aead::ChaCha20Poly1305 {
        nonce[4..].iter_mut().zip(number_octets).for_each(|(a, b)| *a ^= b);
    } else {
        nonce[4..].copy_from_slice(&number_octets);
    }
    let (mut inner, mut aad) = (plaintext.to_vec(), Vec::new());
    if cid.is_empty() {
        aad.extend(number_octets);
        aad.extend([kind, 0xfe, 0xfd]);
    } else {
        inner.push(kind);
        aad.extend([0xff; 8]);
        aad.extend([25, cid.len() as u8, 25, 0xfe, 0xfd]);
        aad.extend(number_octets);
        aad.extend(cid.as_slice());
    }
    aad.extend((inner.len() as u16).to_be_bytes());
    let keys = keys(aead);
    let seal = match aead {
        Aead::Aes128Ccm8 => encrypt::<Ccm<aes::Aes128, U8>>,
        Aead::Aes128Ccm => encrypt::<Ccm<aes::Aes128, U16>>,
        Aead::Aes256Ccm8 => encrypt::<Ccm<aes::Aes256, U8>>,
        Aead::Aes256Ccm => encrypt::<Ccm<aes::Aes256, U16>>,
        Aead::Aes128Gcm => encrypt::<aes_gcm::Aes128Gcm>,
        Aead::Aes256Gcm => encrypt::<aes_gcm::Aes256Gcm>,
        Aead::ChaCha20Poly1305 => encrypt::<chacha20poly1305::ChaCha20Poly1305>,
    };
    let sealed = seal(keys.key(), &nonce, &inner, &aad);
    let mut record = vec![if cid.is_empty() { kind } else { 25 }, 0xfe, 0xfd];
    record.extend(number_octets);
    record.extend(cid.as_slice());
    record.extend(((aead.explicit_len() + sealed.len()) as u16).to_be_bytes());
    record.extend(&number_octets[..aead.explicit_len()]);
    record.extend(sealed);
    record
}

#[test]
fn records_match_standard_ciphers() {
    for aead in Aead::ALL {
        for cid in [ConnectionId::EMPTY, cid(b"\xc1\xd0"), cid(&[7; 32])] {
            let (mut writer, _) = pair(aead, cid);
            for (i, len) in [0, 1, 15, 16, 17, 100, 1471, 1472, 1473, 4000].into_iter().enumerate() {
                // None, some or all of the next records are prepared.
                writer.idle([0, 3, 10_000][i % 3]);
                let plaintext: Vec<u8> = (0..len).map(|i| i as u8).collect();
                let mut out = vec![0; len + writer.overhead()];
                let written = writer.protect(ContentType::ApplicationData, &plaintext, &mut out).unwrap();
                let expected = expected(aead, &cid, 1 << 48 | i as u64, 23, &plaintext);
                assert!(out[..written] == expected, "{aead:?}, {cid:?}, {len}");
            }
        }
    }
}
