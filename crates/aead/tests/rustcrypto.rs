//! Keys as ciphers of RustCrypto's `aead` traits, beside RustCrypto's own.
#![cfg(feature = "rustcrypto")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use aead::array::Array;
use aead::consts::{U4, U8, U12, U13, U16};
use aead::{AeadInOut, KeyInit};
use antedate_aead::{
    Aegis128L, Aes128Ccm, Aes128Ccm8, Aes128Gcm, Aes128Ocb3, Aes256Ccm, Aes256Gcm, AsconAead128, CcmStar32,
    CcmStar64, CcmStar128, ChaCha20Poly1305, Key,
};

/// A packet: ciphertext, then the tag.
fn seal<C: AeadInOut + KeyInit>(len: usize) -> Vec<u8> {
    let cipher = C::new(&Array::from_fn(|i| i as u8));
    let mut packet: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
    let nonce = Array::from_fn(|i| 0x40 + i as u8);
    let tag = cipher.encrypt_inout_detached(&nonce, b"header", packet[..].as_mut().into()).unwrap();
    packet.extend_from_slice(&tag);
    packet
}

/// Opens it, and refuses it when any byte is another.
fn opens<C: AeadInOut + KeyInit>(packet: &[u8], len: usize) {
    let cipher = C::new(&Array::from_fn(|i| i as u8));
    let nonce = Array::from_fn(|i| 0x40 + i as u8);
    let open = |packet: &[u8], aad: &[u8]| {
        let (sealed, tag) = packet.split_at(len);
        let mut out = vec![0xee; len];
        let both = aead::inout::InOutBuf::new(sealed, &mut out).unwrap();
        let verdict = cipher.decrypt_inout_detached(&nonce, aad, both, tag.try_into().unwrap());
        (verdict, out)
    };
    let plain: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
    assert_eq!(open(packet, b"header"), (Ok(()), plain));
    assert_eq!(open(packet, b"another"), (Err(aead::Error), vec![0; len]));
    for at in 0..packet.len() {
        let mut forged = packet.to_vec();
        forged[at] ^= 0x10;
        assert_eq!(open(&forged, b"header"), (Err(aead::Error), vec![0; len]), "byte {at}");
    }
}

fn agree<Ours: AeadInOut + KeyInit, Theirs: AeadInOut + KeyInit>() {
    for len in [0, 1, 15, 16, 17, 64, 100, 1500] {
        let packet = seal::<Ours>(len);
        assert_eq!(packet, seal::<Theirs>(len), "{len} bytes");
        if len < 100 {
            opens::<Ours>(&packet, len);
        }
    }
}

#[test]
fn suites_agree_with_rustcrypto() {
    type Ccm128<T, N> = ccm::Ccm<aes::Aes128, T, N>;
    agree::<Key<Aes128Gcm>, aes_gcm::Aes128Gcm>();
    agree::<Key<Aes256Gcm>, aes_gcm::Aes256Gcm>();
    agree::<Key<ChaCha20Poly1305>, chacha20poly1305::ChaCha20Poly1305>();
    agree::<Key<Aes128Ccm8>, Ccm128<U8, U12>>();
    agree::<Key<Aes128Ccm>, Ccm128<U16, U12>>();
    agree::<Key<Aes256Ccm>, ccm::Ccm<aes::Aes256, U16, U12>>();
    agree::<Key<CcmStar32>, Ccm128<U4, U13>>();
    agree::<Key<CcmStar64>, Ccm128<U8, U13>>();
    agree::<Key<CcmStar128>, Ccm128<U16, U13>>();
    agree::<Key<Aes128Ocb3>, ocb3::Ocb3<aes::Aes128, U12>>();
    agree::<Key<AsconAead128>, ascon_aead::AsconAead128>();
}

/// The crate `aegis` has no such traits, and `duplex.rs` compares it with `Key`'s own calls.
#[test]
fn aegis_opens_its_own_packets() {
    let packet = seal::<Key<Aegis128L>>(40);
    opens::<Key<Aegis128L>>(&packet, 40);
    let key = Key::<Aegis128L>::new(&std::array::from_fn::<u8, 16, _>(|i| i as u8)).unwrap();
    let nonce = std::array::from_fn(|i| 0x40 + i as u8);
    let mut plain = [0; 40];
    key.open(nonce, b"header", &packet[..40], &mut plain, packet[40..].try_into().unwrap()).unwrap();
    assert_eq!(plain[39], (39 * 7) as u8);
}

#[test]
fn too_long_payload_is_an_error() {
    let cipher = <Key<CcmStar64> as KeyInit>::new(&Array::from_fn(|_| 7));
    let mut payload = vec![0; 65_536];
    let nonce = Array::from_fn(|_| 0);
    let sealed = cipher.encrypt_inout_detached(&nonce, b"", payload[..].as_mut().into());
    assert_eq!(sealed, Err(aead::Error));
    assert!(cipher.encrypt_inout_detached(&nonce, b"", payload[1..].as_mut().into()).is_ok());
}
