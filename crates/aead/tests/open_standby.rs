//! Opening a packet expected with its associated data and length.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{bytes, key};
use antedate_aead::{
    Aes128Ccm8, Aes256Ccm, AuthenticationError, Backend, CoseCcm16_64_128, Fronted, Nonce, OpenStandby,
};
use proptest::prelude::*;

const AAD: usize = 48;
const CAP: usize = 128;

/// A nonce of any length.
fn nonce_of<const N: usize>(number: u64) -> [u8; N] {
    let mut nonce = [0; N];
    nonce[N - 8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// The expected packet, the actual one, the progress of the preparation, and the change made in
/// transit.
#[derive(Debug, Clone)]
struct Case {
    expected: (u64, usize, usize),
    sent: (u64, usize, usize),
    /// The receiver uses different associated data of the same length.
    moved: bool,
    budget: u32,
    forged: Option<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let packet = || (0..3u64, 0..60usize, 0..150usize);
    let same = (packet(), any::<bool>(), packet()).prop_map(|(a, same, b)| (a, if same { a } else { b }));
    (same, 0..5u8, 0..30u32, prop::option::of(0..200usize)).prop_map(
        |((expected, sent), moved, budget, forged)| Case {
            expected,
            sent,
            moved: moved == 0,
            budget,
            forged,
        },
    )
}

/// The result is the plain cipher's, and after a refusal the genuine packet opens.
fn check<S: Fronted<NonceBytes = [u8; N]>, const N: usize>(case: &Case) {
    for backend in Backend::available() {
        let plain_key = key::<S>(1, backend);
        let mut standby = OpenStandby::<S, _, AAD, CAP>::new(key(1, backend), nonce_of);
        let (number, aad_len, len) = case.expected;
        standby.expect(number, &bytes(aad_len, 3), len);
        let fits = aad_len <= AAD && (1..=CAP).contains(&len);
        let done = standby.idle(case.budget);
        assert!(done <= case.budget && (fits || done == 0));
        if fits && done < case.budget {
            assert!(standby.is_ready() && standby.idle(1) == 0);
        }

        let (number, aad_len, len) = case.sent;
        let (aad, plain) = (bytes(aad_len, 3), bytes(len, 4));
        let mut packet = vec![0; len];
        let tag = plain_key.seal(Nonce::assume_unique(nonce_of(number)), &aad, &plain, &mut packet);
        let mut tag = *tag.as_bytes();
        let genuine = (packet.clone(), tag);
        let received = if case.moved && aad_len > 0 { bytes(aad_len, 5) } else { aad.clone() };
        if let Some(at) = case.forged {
            match packet.get_mut(at) {
                Some(byte) => *byte ^= 1,
                None => tag.as_mut()[at % 8] ^= 0x80,
            }
        }
        let refused = case.forged.is_some() || received != aad;
        let mut out = vec![0xee; len];
        let verdict = standby.open(number, &received, &packet, &mut out, &tag);
        assert_eq!(verdict, if refused { Err(AuthenticationError) } else { Ok(()) });
        assert_eq!(out, if refused { vec![0; len] } else { plain.clone() });

        if refused && case.expected == case.sent && fits && done < case.budget {
            assert!(standby.is_ready(), "what is prepared stays for the genuine packet");
        }
        let (packet, tag) = genuine;
        assert_eq!(standby.open(number, &aad, &packet, &mut out, &tag), Ok(()));
        assert_eq!(out, plain);
        assert!(case.expected != case.sent || !standby.is_ready());
    }
}

proptest! {
    #[test]
    fn verdict_matches_plain_cipher(case in case()) {
        check::<Aes128Ccm8, 12>(&case);
        check::<Aes256Ccm, 12>(&case);
        check::<CoseCcm16_64_128, 13>(&case);
    }
}

#[test]
fn same_packet_is_prepared_once() {
    let backend = Backend::detect();
    let mut standby =
        OpenStandby::<Aes128Ccm8, fn(u64) -> [u8; 12], AAD, CAP>::new(key(1, backend), nonce_of);
    assert_eq!(standby.idle(9), 0, "nothing is expected");
    standby.expect(7, b"press 7", 20);
    // S0, one unit of key stream, B0 and the associated data.
    assert_eq!(standby.idle(99), 4);
    standby.expect(7, b"press 7", 20);
    assert!(standby.is_ready());
    for (number, aad, len) in [(8, &b"press 7"[..], 20), (7, b"press 8", 20), (7, b"press 7", 21)] {
        standby.expect(7, b"press 7", 20);
        standby.idle(99);
        assert!(standby.is_ready());
        standby.expect(number, aad, len);
        assert!(!standby.is_ready());
        assert_eq!(standby.idle(99), 4);
    }
    standby.expect(9, &[0; AAD + 1], 20);
    assert_eq!(standby.idle(99), 0, "too long to be kept");
}
