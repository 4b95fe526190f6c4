//! Preparation changes neither octets nor results, for any frame.

use core::iter::once;

use antedate_wire::dot15d4::Frame;
use proptest::prelude::*;

use super::super::tests::setup::{A, B, PAN};
use super::super::*;
use super::prepare::{FRAME, Inbound, Known, Outbound};

const LOOKUP: KeyLookup = KeyLookup::Identified(KeyIdentifier::Source4([1, 2, 3, 4], 5));
const SHORT: [ShortAddress; 2] = [ShortAddress(10), ShortAddress(11)];

fn device(own: usize) -> Security {
    let extended = [A, B];
    let policy = Policy::uniform(Levels::AUTHENTICATED);
    let (short, enc_without_mic) = (Some(SHORT[own]), false);
    let mut security =
        Security::new(Config { extended: extended[own], pan: PAN, short, policy, enc_without_mic });
    let peer = 1 - own;
    security.add_device(Device {
        pan: PAN,
        extended: extended[peer],
        short: Some(SHORT[peer]),
        exempt: false,
    });
    security.install_key(KeyConfig::fresh(LOOKUP, LinkKey::new([7; 16]), NonceKind::Asn)).unwrap();
    security
}

/// An address of a device: none, short or extended.
fn address(of: usize, mode: usize) -> Address {
    [Address::Absent, Address::Short(SHORT[of]), Address::Extended([A, B][of])][mode]
}

proptest! {
    #[test]
    fn preparation_agrees_at_every_level(
        level in prop::sample::select(&[1usize, 2, 3, 5, 6, 7][..]), dst in 0usize..3, src in 1usize..3,
        one_pan: bool, suppress: bool, command: bool, late in 0usize..40, budgets: [u8; 2],
        payload in prop::collection::vec(any::<u8>(), 1..60), slot in 1u64..1 << 40, damage in 0usize..400,
    ) {
        let protection = Protection {
            level: SecurityLevel::ALL[level],
            key: KeyIdentifier::Source4([1, 2, 3, 4], 5),
        };
        let asn = Asn::new(slot).unwrap();
        let mut addressing = Addressing::within(PAN, address(1, dst), address(0, src));
        if !one_pan && dst > 0 && (dst, src) != (2, 2) {
            addressing.src_pan = Some(PAN);
        }
        let header = Header {
            sequence: (!suppress).then_some(9),
            frame_type: if command { FrameType::Command } else { FrameType::Data },
            ..Header::data(9, addressing)
        };
        let late = late.min(payload.len());

        // Sending: the late octets differ from the prediction.
        let (mut plain, mut ahead) = (device(0), device(0));
        let mut expected = [0; 127];
        let len = plain.secure(&header, &[], &payload, protection, Some(asn), &mut expected).unwrap();
        let mut predicted = payload.clone();
        let at = predicted.len() - late;
        predicted[at..].fill(0x77);
        let mut outbound = Outbound::default();
        ahead.prepare(&header, &[], &predicted, late, protection, asn, &mut outbound.frame);
        outbound.frame.step_and_complete(&ahead, budgets[0].into());
        outbound.frame.step_and_complete(&ahead, 1);
        prop_assert!(ahead.release(asn, &payload[at..], &mut outbound.frame));
        let frame = outbound.frame.frame();
        prop_assert_eq!(frame, &expected[..len]);
        prop_assert_eq!((ahead.sent(), ahead.numbers(&LOOKUP)), (plain.sent(), plain.numbers(&LOOKUP)));

        // Receiving, also a damaged frame.
        let mut octets = frame.to_vec();
        if damage < len {
            octets[damage] ^= 1;
        }
        let known = Frame::parse(frame).unwrap();
        let front = known.mac_header().to_vec();
        let mut sample = front.clone();
        sample.resize(len, 0);
        let lengths = [known.before_mic().len()];
        let known = Known { level: protection.level, front: &front, open: known.open().len(), lengths: &lengths };
        let mut receivers = [device(1), device(1)];
        let mut inbound = Inbound::<2>::default();
        receivers[1].expect(&sample, None, asn, &known, &mut inbound.frame);
        inbound.frame.step(&receivers[1], budgets[1].into());
        let (mut out, mut out_of_prepared) = ([0; 127], [0; FRAME]);
        let [unprepared, prepared] = &mut receivers;
        let first = unprepared.unsecure(&octets, Some(asn), None, &mut out);
        let second = match Frame::parse(&octets) {
            Ok(frame) => {
                let expected = once(&mut inbound.frame);
                prepared.unsecure_prepared(&frame, asn, None, expected, &mut out_of_prepared)
            }
            Err(malformed) => {
                prepared.received.refuse(malformed.into());
                Err(malformed.into())
            }
        };
        let at = second.as_ref().map_or(0, |unsecured| unsecured.at);
        prop_assert_eq!(first, second.map(|unsecured| unsecured.received));
        prop_assert_eq!(first.is_ok(), damage >= len);
        let said = [&out[..payload.len()], &out_of_prepared[at..at + payload.len()]];
        prop_assert_eq!(said[0], said[1]);
        prop_assert_eq!(said[0] == &payload[..], first.is_ok());
        prop_assert_eq!(receivers[0].received(), receivers[1].received());
    }
}
