//! AES-128-OCB3 against RFC 7253 and the RustCrypto crate, on every backend of this CPU.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{Counter, bytes, key, key_bytes, nonce_of};
use antedate_aead::{Aes128Ocb3, Backend, Key, Nonce, OpenPool, Opener, SealPool, Sealer, Slot};
use proptest::{collection::vec, prelude::*};

fn one_shot(backend: Backend, aad: &[u8], plain: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let mut out = vec![0; plain.len()];
    let tag = key::<Aes128Ocb3>(3, backend).seal(Nonce::assume_unique(nonce_of(0)), aad, plain, &mut out);
    (out, *tag.as_bytes())
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// The first table of RFC 7253 appendix A: the nonce's last byte, the number of bytes 00, 01, 02,
/// ... of associated data and of plaintext, and the ciphertext with the tag.
const SAMPLES: [(u8, usize, usize, &str); 16] = [
    (0x00, 0, 0, "785407BFFFC8AD9EDCC5520AC9111EE6"),
    (0x01, 8, 8, "6820B3657B6F615A5725BDA0D3B4EB3A257C9AF1F8F03009"),
    (0x02, 8, 0, "81017F8203F081277152FADE694A0A00"),
    (0x03, 0, 8, "45DD69F8F5AAE72414054CD1F35D82760B2CD00D2F99BFA9"),
    (0x04, 16, 16, "571D535B60B277188BE5147170A9A22C3AD7A4FF3835B8C5701C1CCEC8FC3358"),
    (0x05, 16, 0, "8CF761B6902EF764462AD86498CA6B97"),
    (0x06, 0, 16, "5CE88EC2E0692706A915C00AEB8B2396F40E1C743F52436BDF06D8FA1ECA343D"),
    (0x07, 24, 24, "1CA2207308C87C010756104D8840CE1952F09673A448A122C92C62241051F57356D7F3C90BB0E07F"),
    (0x08, 24, 0, "6DC225A071FC1B9F7C69F93B0F1E10DE"),
    (0x09, 0, 24, "221BD0DE7FA6FE993ECCD769460A0AF2D6CDED0C395B1C3CE725F32494B9F914D85C0B1EB38357FF"),
    (
        0x0a,
        32,
        32,
        "BD6F6C496201C69296C11EFD138A467ABD3C707924B964DEAFFC40319AF5A48540FBBA186C5553C68AD9F592A79A4240",
    ),
    (0x0b, 32, 0, "FE80690BEE8A485D11F32965BC9D2A32"),
    (
        0x0c,
        0,
        32,
        "2942BFC773BDA23CABC6ACFD9BFD5835BD300F0973792EF46040C53F1432BCDFB5E1DDE3BC18A5F840B52E653444D5DF",
    ),
    (
        0x0d,
        40,
        40,
        "D5CA91748410C1751FF8A2F618255B68A0A12E093FF454606E59F9C1D0DDC54B65E8628E568BAD7AED07BA06A4A69483A7035490C5769E60",
    ),
    (0x0e, 40, 0, "C5CD9D1850C141E358649994EE701B68"),
    (
        0x0f,
        0,
        40,
        "4412923493C57D5DE0D700F753CCE0D1D2D95060122E9F15A5DDBFC5787E50B5CC55EE507BCB084E479AD363AC366B95A98CA5F3000B1479",
    ),
];

#[test]
fn rfc_7253_samples_match() {
    let counting: Vec<u8> = (0..40).collect();
    for backend in Backend::available() {
        let key = Key::<Aes128Ocb3>::with_backend(&counting[..16], backend).unwrap();
        for (last, aad, plain, expected) in SAMPLES {
            let mut nonce = [0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0];
            nonce[11] = last;
            let mut sealed = vec![0; plain];
            let tag =
                key.seal(Nonce::assume_unique(nonce), &counting[..aad], &counting[..plain], &mut sealed);
            sealed.extend(tag.as_bytes());
            assert_eq!(sealed, hex(expected), "nonce ..{last:02x} on {backend:?}");
            let mut opened = vec![0; plain];
            key.open(nonce, &counting[..aad], &sealed[..plain], &mut opened, tag.as_bytes()).unwrap();
            assert_eq!(opened, counting[..plain]);
        }
    }
}

/// The second test of appendix A: 384 packets, whose ciphertexts are the associated data of the
/// last.
#[test]
fn rfc_7253_iteration_matches() {
    for backend in Backend::available() {
        let mut bytes = [0; 16];
        bytes[15] = 128;
        let key = Key::<Aes128Ocb3>::with_backend(&bytes, backend).unwrap();
        let nonce = |number: u32| {
            let mut nonce = [0; 12];
            nonce[8..].copy_from_slice(&number.to_be_bytes());
            Nonce::assume_unique(nonce)
        };
        let mut all = Vec::new();
        for i in 0..128 {
            let zeros = vec![0; i];
            for (which, (aad, plain)) in [(i, i), (0, i), (i, 0)].into_iter().enumerate() {
                let mut out = vec![0; plain];
                let number = nonce(3 * i as u32 + which as u32 + 1);
                let tag = key.seal(number, &zeros[..aad], &zeros[..plain], &mut out);
                all.extend(out);
                all.extend(tag.as_bytes());
            }
        }
        assert_eq!(all.len(), 22_400);
        let tag = key.seal(nonce(385), &all, &[], &mut []);
        assert_eq!(tag.as_bytes()[..], hex("67E944D23256C5E0B6C61FA22FDF1EA2"), "{backend:?}");
    }
}

#[test]
fn rustcrypto_agrees_for_all_lengths() {
    use ocb3::aead::{AeadInOut, KeyInit, consts::U12};
    let bytes_of_key: [u8; 16] = key_bytes::<Aes128Ocb3>(7).try_into().unwrap();
    let oracle = ocb3::Ocb3::<aes::Aes128, U12>::new(&bytes_of_key.into());
    let lengths = (0..600).chain([1000, 1023, 1024, 1486, 1500, 1536, 4096, 9001, 65_536]);
    for (i, length) in lengths.enumerate() {
        let aad = bytes([0, 28, 20, 12, 16, 48, 64, 255, 200, 600][i % 10] + i % 3, 90);
        let plain = bytes(length, 3);
        let nonce = nonce_of(i as u64);
        let mut theirs = plain.clone();
        let their_tag =
            oracle.encrypt_inout_detached(&nonce.into(), &aad, theirs[..].as_mut().into()).unwrap();
        for backend in Backend::available() {
            let key = Key::<Aes128Ocb3>::with_backend(&bytes_of_key, backend).unwrap();
            let mut ours = vec![0; length];
            let tag = key.seal(Nonce::assume_unique(nonce), &aad, &plain, &mut ours);
            assert_eq!(ours, theirs, "{length} bytes, {backend:?}");
            assert_eq!(tag.as_bytes()[..], their_tag[..], "{length} bytes, {backend:?}");
            key.open_in_place(nonce, &aad, &mut ours, tag.as_bytes()).unwrap();
            assert_eq!(ours, plain);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn all_paths_and_backends_agree(
        aad in vec(any::<u8>(), 0..700),
        plain in vec(any::<u8>(), 0..1200),
        steps in vec(0u32..3, 0..3),
    ) {
        let portable = one_shot(Backend::Portable, &aad, &plain);
        for backend in Backend::available() {
            assert_eq!(one_shot(backend, &aad, &plain), portable, "{backend:?}");
            let mut seal = SealPool::<Aes128Ocb3, _, 2, 0>::new(key(3, backend), Counter(0, 9));
            let mut open = OpenPool::<Aes128Ocb3, _, 2, 0>::new(key(3, backend), nonce_of);
            for &step in &steps {
                seal.idle(step);
                open.idle(step);
            }
            let mut out = plain.clone();
            let tag = seal.next().unwrap().seal_in_place(&aad, &mut out);
            assert_eq!((&out, tag.as_bytes()), (&portable.0, &portable.1), "{backend:?}");
            let mut forged = portable.1;
            forged[plain.len() % 16] ^= 4;
            let mut opened = vec![1; plain.len()];
            assert!(open.open(0, &aad, &out, &mut opened, &forged).is_err());
            assert!(opened.iter().all(|&byte| byte == 0));
            open.open(0, &aad, &out, &mut opened, tag.as_bytes()).unwrap();
            assert_eq!(opened, plain);
        }
    }

    #[test]
    fn associated_pieces_read_as_one_string(aad in vec(any::<u8>(), 0..400), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(aad.len() + 1);
        for backend in Backend::available() {
            let whole = one_shot(backend, &aad, &[]).1;
            let mut slot = Slot::<Aes128Ocb3, 0>::new();
            let mut sealer = Sealer::<Aes128Ocb3, _>::new(key(3, backend), Counter(0, 9));
            let pieces = [&aad[..cut], &[], &aad[cut..]];
            assert_eq!(*sealer.prepare(&mut slot).unwrap().authenticate(&pieces).as_bytes(), whole);
        }
    }
}

#[test]
fn flipped_bit_leaves_no_plaintext() {
    let (aad, plain) = (bytes(20, 1), bytes(41, 2));
    for backend in Backend::available() {
        let (sealed, tag) = one_shot(backend, &aad, &plain);
        let packet = [&aad[..], &sealed, &tag].concat();
        let opener = Opener::<Aes128Ocb3, _>::new(key(3, backend), nonce_of);
        let mut slot = Slot::<Aes128Ocb3, 0>::new();
        for bit in 0..=8 * packet.len() {
            let mut packet = packet.clone();
            if let Some(byte) = packet.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            let genuine = bit == 8 * packet.len();
            let (aad, sealed) = (&packet[..20], &packet[20..61]);
            let tag: &[u8; 16] = packet[61..].try_into().unwrap();
            for budget in 0..2 {
                let mut out = vec![1; 41];
                let mut expected = opener.expect(0, &mut slot);
                expected.step(budget);
                assert_eq!(expected.open(aad, sealed, &mut out, tag).is_ok(), genuine, "bit {bit}");
                assert_eq!(out, if genuine { plain.clone() } else { vec![0; 41] });
            }
        }
    }
}
