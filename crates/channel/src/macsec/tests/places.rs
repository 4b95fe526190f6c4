//! Protecting and validating in place give the same result as with a separate output buffer.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::setup::{SCI, frame, protect, receive, transmit, transmit_config, validate};
use crate::macsec::*;

/// Free octets before and after a frame.
const ROOM: usize = 24;

fn protect_here(transmit: &mut Transmit, frame: &[u8]) -> Result<Vec<u8>, ProtectError> {
    let mut place = [&[0xaa; ROOM][..], frame, &[0xaa; ROOM]].concat();
    transmit.protect_in_place(&mut place, ROOM..ROOM + frame.len()).map(|protected| protected.to_vec())
}

/// The result, and the buffer's contents after it.
fn accept_here(receive: &mut Receive, frame: &[u8]) -> (Result<Vec<u8>, Discard>, Vec<u8>) {
    let mut place = frame.to_vec();
    let accepted = receive.accept(|| 0, &mut place, &mut []);
    (accepted.map(|opened| opened.expect("there are no fragments").to_vec()), place)
}

fn configurations() -> impl Strategy<Value = TransmitConfig> {
    let modes = [SciMode::Explicit, SciMode::EndStation, SciMode::PointToPoint];
    (prop::sample::select(CipherSuite::ALL.to_vec()), prop::sample::select(modes.to_vec()), any::<bool>())
        .prop_map(|(suite, sci_mode, confidentiality)| {
            let sci = if sci_mode == SciMode::EndStation { Sci([2, 2, 2, 2, 2, 2, 0, 1]) } else { SCI };
            TransmitConfig { sci, sci_mode, confidentiality, ..transmit_config(suite) }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 600 }))]

    #[test]
    fn in_place_protection_is_the_same(
        config in configurations(),
        validate_frames in prop::sample::select(
            vec![ValidateFrames::Strict, ValidateFrames::Check, ValidateFrames::Disabled],
        ),
        lens in prop::collection::vec(prop_oneof![0usize..80, 0usize..1700], 1..8),
        // Preparation steps between the frames, and for some frames an octet to change.
        steps in 0u32..40,
        changed in prop::collection::vec(prop::option::of((0usize..1700, 1u8..)), 8),
    ) {
        let [mut apart, mut here] = [transmit(config), transmit(config)];
        let receiving = ReceiveConfig { validate: validate_frames, ..ReceiveConfig::new(config.suite) };
        let [mut opened_apart, mut opened_here] = [receive(receiving), receive(receiving)];
        for (len, change) in lens.iter().zip(changed) {
            let frame = frame(*len);
            let protected = protect(&mut apart, &frame);
            prop_assert_eq!(&protected, &protect_here(&mut here, &frame));
            let Ok(protected) = protected else { continue };
            let mut came = vec![protected.clone()];
            if let Some((at, bits)) = change {
                let mut changed = protected.clone();
                let at = at % changed.len();
                changed[at] ^= bits;
                came.insert(0, changed);
            }
            for came in came {
                let expected = validate(&mut opened_apart, &came);
                let (accepted, left) = accept_here(&mut opened_here, &came);
                prop_assert_eq!(&expected, &accepted);
                let user_data = &frame[12..];
                if accepted.is_err() && config.confidentiality && user_data.len() > 16 {
                    prop_assert!(!left.windows(16).any(|part| part == &user_data[..16]), "{:02x?}", left);
                }
            }
            apart.idle(steps);
            here.idle(steps);
            opened_apart.idle(steps);
            opened_here.idle(steps);
        }
        prop_assert_eq!(apart.counters(), here.counters());
        prop_assert_eq!(opened_apart.counters(), opened_here.counters());
    }
}

#[test]
fn flow_tables_work_in_place() {
    let config = transmit_config(CipherSuite::GcmAes128);
    let [mut apart, mut here] = [transmit(config), transmit(config)];
    for transmit in [&mut apart, &mut here] {
        transmit.set_flows(vec![FlowShape { begins: vec![0x88, 0x92], holes: vec![20..28, 90..92] }]);
    }
    for number in 0..50u64 {
        let mut frame = frame(100);
        frame[32..40].copy_from_slice(&number.to_be_bytes());
        assert_eq!(protect(&mut apart, &frame), protect_here(&mut here, &frame));
        while apart.idle(50) > 0 {}
        while here.idle(50) > 0 {}
    }
    assert_eq!(apart.counters(), here.counters());
    assert!(here.counters().out_by_tables > 30, "{:?}", here.counters());
}

#[test]
fn lack_of_space_costs_no_packet_number() {
    let mut transmit = transmit(transmit_config(CipherSuite::GcmAes128));
    let frame = frame(60);
    let numbers = transmit.encoding();
    // One octet too few before the frame, and one too few after it.
    let mut place = [&[0; 15][..], &frame, &[0; 16]].concat();
    let refused = transmit.protect_in_place(&mut place, 15..15 + frame.len());
    assert_eq!(refused, Err(ProtectError::OutputTooSmall));
    let mut place = [&[0; 16][..], &frame, &[0; 15]].concat();
    let refused = transmit.protect_in_place(&mut place, 16..16 + frame.len());
    assert_eq!(refused, Err(ProtectError::OutputTooSmall));
    assert_eq!(transmit.protect_in_place(&mut place, 16..20), Err(ProtectError::TooShort));
    assert_eq!(transmit.protect_in_place(&mut place, 16..2000), Err(ProtectError::OutputTooSmall));
    assert_eq!(transmit.encoding(), numbers);
    place.push(0);
    let len = place.len();
    assert_eq!(transmit.protect_in_place(&mut place, 16..16 + frame.len()).map(|out| out.len()), Ok(len));
}

#[test]
fn only_usual_frames_take_the_short_path() {
    let short = |transmit: &mut Transmit, frame: &[u8], around: [usize; 2]| {
        let mut place = [&vec![0xaa; around[0]][..], frame, &vec![0xaa; around[1]]].concat();
        let (before, numbers) = (place.clone(), transmit.encoding());
        let done = transmit.try_usual(&mut place, around[0]..around[0] + frame.len());
        assert!(done.is_some() || (place == before && transmit.encoding() == numbers));
        done.map(|len| place[around[0] - 16..][..len].to_vec())
    };
    let prepared = |config| {
        let mut transmit = transmit(config);
        while transmit.idle(50) > 0 {}
        transmit
    };
    let plain = frame(60);
    for suite in CipherSuite::ALL {
        let config = transmit_config(suite);
        let mut other_way = transmit(config);
        let mut unprepared = transmit(config);
        assert_eq!(short(&mut unprepared, &plain, [16, 16]), None, "{suite}: nothing is prepared");
        let mut usual = prepared(config);
        for refused in [[15, 16], [16, 15]] {
            assert_eq!(short(&mut usual, &plain, refused), None, "{suite}: there is no room");
        }
        assert_eq!(short(&mut usual, &plain[..13], [16, 16]), None, "{suite}: it is too short");
        assert_eq!(short(&mut usual, &frame(1700), [16, 16]), None, "{suite}: it is too long");
        if suite.is_standard() {
            for plain in [&plain[..], &plain[..14], &frame(1500)] {
                assert_eq!(
                    short(&mut usual, plain, [16, 16]),
                    protect(&mut other_way, plain).ok(),
                    "{suite}"
                );
            }
            assert_eq!(usual.counters().out_prepared, 3);
        } else {
            assert_eq!(short(&mut usual, &plain, [16, 16]), None, "{suite}: it has no short way");
        }
        for unusual in [
            TransmitConfig { confidentiality: false, ..config },
            TransmitConfig { sci_mode: SciMode::PointToPoint, ..config },
        ] {
            assert_eq!(short(&mut prepared(unusual), &plain, [16, 16]), None, "{unusual:?}");
        }
    }
    let mut by_tables = prepared(transmit_config(CipherSuite::GcmAes128));
    by_tables.set_flows(vec![FlowShape { begins: vec![0x88, 0x92], holes: vec![20..28, 30..32] }]);
    assert_eq!(short(&mut by_tables, &plain, [16, 16]), None, "there are flow tables");
    by_tables.set_flows(vec![]);
    assert!(short(&mut by_tables, &plain, [16, 16]).is_some());
}
