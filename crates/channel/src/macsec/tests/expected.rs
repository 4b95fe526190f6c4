//! The expected frame, whose SecTAG is compared, has the same result as a frame whose SecTAG is
//! parsed.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::setup::{A0, A1, SCI, frame, protect, sak, transmit_config};
use crate::fragment::{Limits, Marks};
use crate::macsec::*;

/// A channel whose next packet number is `next`, and two that receive from it.
fn ends(config: TransmitConfig, receiving: ReceiveConfig, next: u64) -> (Transmit, [Receive; 2]) {
    let mut transmit = Transmit::new(config).unwrap();
    let receive = || {
        let mut receive = Receive::new(receiving);
        receive.add_peer(SCI, Some(1)).unwrap();
        for (an, seed) in [(A0, 0), (A1, 1)] {
            receive.install(SCI, an, &sak(config.suite, seed), next).unwrap();
        }
        receive
    };
    for (an, seed) in [(A0, 0), (A1, 1)] {
        transmit.install(an, &sak(config.suite, seed), next, u64::MAX).unwrap();
    }
    (transmit, [receive(), receive()])
}

/// The result of a frame, the buffer's contents after it, and the channel's counters.
fn seen(
    receive: &mut Receive,
    frame: &[u8],
    validate: impl FnOnce(&mut Receive, &[u8], &mut [u8]) -> Result<usize, Discard>,
) -> (Result<usize, Discard>, Vec<u8>, ReceiveCounters, Vec<ReceiveSaStatus>) {
    let mut out = vec![0; frame.len()];
    let result = validate(receive, frame, &mut out);
    (result, out, *receive.counters(), receive.status().collect::<Vec<_>>())
}

#[test]
fn next_frame_is_expected_at_any_length() {
    for suite in CipherSuite::ALL {
        let (mut transmit, [mut receive, _]) = ends(transmit_config(suite), ReceiveConfig::new(suite), 1);
        for len in [1, 2, 33, 34, 46, 50, 1500] {
            let plain = frame(len);
            let sealed = protect(&mut transmit, &plain).unwrap();
            let mut out = vec![0; plain.len()];
            assert_eq!(receive.validate_expected(&sealed, &mut out), Some(Ok(plain.len())));
            assert_eq!(out, plain);
            assert_eq!(receive.validate_expected(&sealed, &mut out), None, "it has come");
        }
        assert_eq!(receive.counters().in_pkts_ok, 7);
    }
}

#[test]
fn expected_frame_is_accepted_in_place() {
    for suite in CipherSuite::ALL {
        let (mut transmit, [mut receive, _]) = ends(transmit_config(suite), ReceiveConfig::new(suite), 1);
        for len in [1, 2, 33, 50, 1500] {
            let plain = frame(len);
            let sealed = protect(&mut transmit, &plain).unwrap();
            let mut forged = sealed.clone();
            forged[40 % sealed.len()] ^= 1;
            assert_eq!(receive.accept(|| 0, &mut forged, &mut []), Err(Discard::NotValid));
            let mut place = sealed.clone();
            assert_eq!(receive.accept(|| 0, &mut place, &mut []), Ok(Some(&mut plain.clone()[..])));
            // Peers may send fragments from the third frame on.
            if len == 2 {
                assert!(receive.set_fragments(SCI, Some(Marks::Both), Limits::default()));
            }
            assert_eq!(receive.accept(|| 0, &mut sealed.clone(), &mut []), Err(Discard::Late), "it has come");
        }
        let counters = receive.counters();
        assert_eq!((counters.in_pkts_ok, counters.in_pkts_not_valid), (5, 5), "{suite}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 100 } else { 1000 }))]

    #[test]
    fn comparing_equals_parsing_a_sectag(
        suite in prop::sample::select(CipherSuite::ALL.to_vec()),
        confidentiality in prop::bool::weighted(0.9),
        validate in prop::sample::select(
            vec![ValidateFrames::Strict, ValidateFrames::Check, ValidateFrames::Disabled],
        ),
        (replay_protect, replay_window) in (any::<bool>(), 0u32..8),
        next in prop_oneof![Just(1u64), Just(u64::from(u32::MAX) - 4), Just(u64::MAX - 6)],
        // For each frame: its length, the number of lost frames before it, and whether it is
        // protected by the other association.
        frames in prop::collection::vec((0usize..120, prop_oneof![4 => Just(0usize), 1 => 1usize..4], prop::bool::weighted(0.1)), 1..12),
        // A changed octet of the SecTAG or of the whole frame, or extra octets after it. The
        // genuine frame follows.
        changes in prop::collection::vec(
            prop::option::of((prop_oneof![12usize..29, 0usize..200], 1u8.., any::<bool>())), 12,
        ),
        steps in 0u32..40,
        // Repeated frames.
        again in prop::collection::vec(prop::option::of(0usize..12), 12),
    ) {
        let config = TransmitConfig { confidentiality, ..transmit_config(suite) };
        let receiving = ReceiveConfig { validate, replay_protect, replay_window, ..ReceiveConfig::new(suite) };
        let next = next.min(suite.packet_number_end() - 6);
        let (mut transmit, [mut compares, mut reads]) = ends(config, receiving, next);
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for (index, (len, lost, switch)) in frames.into_iter().enumerate() {
            if switch {
                let other = if transmit.encoding().is_some_and(|(an, _)| an == A0) { A1 } else { A0 };
                let _ = transmit.set_encoding_sa(other);
            }
            for _ in 0..lost {
                let _ = protect(&mut transmit, &frame(len));
            }
            let Ok(genuine) = protect(&mut transmit, &frame(len)) else { break };
            let mut come = Vec::new();
            if let Some((at, bits, longer)) = changes[index] {
                let mut changed = genuine.clone();
                let at = at % changed.len();
                if longer { changed.extend(vec![bits; at + 1]) } else { changed[at] ^= bits }
                come.push(changed);
            }
            come.push(genuine.clone());
            sent.push(genuine);
            come.extend(again[index].and_then(|which| sent.get(which)).cloned());
            for frame in &come {
                compares.idle(steps);
                reads.idle(steps);
                let one = seen(&mut compares, frame, |receive, frame, out| receive.validate(frame, out));
                let other = seen(&mut reads, frame, |receive, frame, out| receive.validate_unexpected(frame, out));
                prop_assert_eq!(one, other);
            }
        }
    }
}
