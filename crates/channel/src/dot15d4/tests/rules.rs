//! Each refusal has its name, and changes only its counter.

use std::vec::Vec;

use antedate_wire::dot15d4::{FormatError, FrameVersion};
use proptest::prelude::*;

use super::super::*;
use super::setup::*;

use NonceKind::{Asn as Slots, FrameCounter};
use SecurityLevel::{EncMic32, EncMic64};

#[test]
fn frame_counters_rise_and_never_repeat() {
    let (mut a, mut b) = pair(FrameCounter);
    let frames: Vec<_> =
        (0..4).map(|i| secure(&mut a, &header(i), &[i; 5], EncMic32, None).unwrap()).collect();
    assert_eq!(a.numbers(&INDEX_1).unwrap().0, 4);
    assert_eq!(unsecure(&mut b, &frames[0], None), Ok([0; 5].to_vec()));
    assert_eq!(unsecure(&mut b, &frames[2], None), Ok([2; 5].to_vec()));
    // An overtaken frame is late: counters only go up (clause 9.2.3).
    assert_eq!(unsecure(&mut b, &frames[1], None), Err(Status::CounterError));
    assert_eq!(unsecure(&mut b, &frames[2], None), Err(Status::CounterError));
    assert_eq!(unsecure(&mut b, &frames[3], None), Ok([3; 5].to_vec()));
    assert_eq!((b.received().secured, b.received().counter_error), (3, 2));
    assert_eq!(b.heard(&INDEX_1), [(A, 4)]);
}

#[test]
fn acknowledgment_outdates_no_retransmission() {
    let (mut a, mut b) = pair(FrameCounter);
    let ack = |sequence| {
        let addressing = Addressing::within(PAN, Address::Extended(B), Address::Extended(A));
        Header::enhanced_ack(Some(sequence), addressing)
    };
    let acknowledge = |a: &mut Security| {
        let mut out = [0; 80];
        let len = a.secure(&ack(9), &[0x02, 0x0f, 0, 0], &[], at(EncMic32), None, &mut out).unwrap();
        out[..len].to_vec()
    };
    let frames: Vec<_> = (0..2).map(|i| secure(&mut a, &header(i), b"x", EncMic32, None).unwrap()).collect();
    let acks = [acknowledge(&mut a), acknowledge(&mut a)];
    let last = secure(&mut a, &header(2), b"x", EncMic32, None).unwrap();
    assert!(unsecure(&mut b, &acks[1], None).is_ok());
    // Its counter is below that of the acknowledgment.
    assert!(unsecure(&mut b, &frames[1], None).is_ok());
    for old in [&frames[0], &frames[1], &acks[0], &acks[1]] {
        assert_eq!(unsecure(&mut b, old, None), Err(Status::CounterError));
    }
    assert_eq!(b.heard(&INDEX_1), [(A, 4)]);
    assert!(unsecure(&mut b, &last, None).is_ok());
    assert_eq!(unsecure(&mut b, &acks[1], None), Err(Status::CounterError));
    // After a restart none of them is accepted again.
    let mut restarted = Security::new(config(B, Policy::uniform(Levels::AUTHENTICATED)));
    restarted.add_device(device(A));
    let fresh = KeyConfig::fresh(INDEX_1, LinkKey::new(KEY), FrameCounter);
    restarted.install_key(KeyConfig { heard: b.heard(&INDEX_1), ..fresh }).unwrap();
    for old in frames.iter().chain(&acks).chain([&last]) {
        assert_eq!(unsecure(&mut restarted, old, None), Err(Status::CounterError));
    }
}

#[test]
fn slot_has_one_frame_of_a_device() {
    let (mut a, mut b) = pair(Slots);
    let addressing = Addressing::within(PAN, Address::Extended(B), Address::Extended(A));
    let header_of_ack = Header::enhanced_ack(Some(9), addressing);
    let mut out = [0; 80];
    let protection = at(EncMic32);
    let len = a.secure(&header_of_ack, &[0x02, 0x0f, 0, 0], &[], protection, asn(7), &mut out).unwrap();
    assert!(unsecure(&mut b, &out[..len], asn(7)).is_ok());
    // A sender without memory would repeat the nonce.
    let frame = secure(&mut pair(Slots).0, &header(1), b"x", EncMic32, asn(7)).unwrap();
    assert_eq!(unsecure(&mut b, &frame, asn(7)), Err(Status::CounterError));
}

#[test]
fn key_index_0_names_no_key() {
    let key = KeyIdentifier::Index;
    for (none, one) in [
        (key(0), key(1)),
        (KeyIdentifier::Source4([1, 2, 3, 4], 0), KeyIdentifier::Source4([1, 2, 3, 4], 1)),
        (KeyIdentifier::Source8([9; 8], 0), KeyIdentifier::Source8([9; 8], 1)),
    ] {
        for nonces in [FrameCounter, Slots] {
            let mut a = Security::new(config(A, Policy::default()));
            let mut install = |of| {
                let lookup = KeyLookup::Identified(of);
                a.install_key(KeyConfig::fresh(lookup, LinkKey::new(KEY), nonces))
            };
            assert_eq!(install(none), Err(InstallError::KeyIndex), "{none:?}");
            assert_eq!(install(one), Ok(()));
            let mut out = [0; 90];
            let of = |key| Protection { level: EncMic32, key };
            let refused = a.secure(&header(1), &[], b"x", of(none), asn(5), &mut out);
            assert_eq!(refused, Err(Status::UnavailableKey));
            let len = a.secure(&header(1), &[], b"x", of(one), asn(5), &mut out).unwrap();
            let mut b = Security::new(config(B, Policy::uniform(Levels::AUTHENTICATED)));
            b.add_device(device(A));
            b.install_key(KeyConfig::fresh(KeyLookup::Identified(one), LinkKey::new(KEY), nonces)).unwrap();
            let index = antedate_wire::dot15d4::Frame::parse(&out[..len]).unwrap().mac_header().len() - 1;
            let mut named_0 = out;
            named_0[index] = 0;
            assert_eq!(unsecure(&mut b, &named_0[..len], asn(5)), Err(Status::UnavailableKey));
            assert_eq!(b.received().unavailable_key, 1);
            assert!(unsecure(&mut b, &out[..len], asn(5)).is_ok());
        }
    }
    // A change of the key does not lead there either.
    let change = |index| KeyChange {
        index,
        key: LinkKey::new([7; 16]),
        from: asn(20).unwrap(),
        until: asn(30).unwrap(),
    };
    let (mut a, _) = pair(Slots);
    assert_eq!(a.begin_change(INDEX_1, change(0), u64::MAX), Err(InstallError::KeyIndex));
    assert!(a.begin_change(INDEX_1, change(255), u64::MAX).is_ok());
}

#[test]
fn numbers_end_at_reservation_and_maximum() {
    let mut a = Security::new(config(A, Policy::default()));
    let last = u64::from(u32::MAX) - 1;
    let fresh = KeyConfig::fresh(INDEX_1, LinkKey::new(KEY), FrameCounter);
    a.install_key(KeyConfig { next: last, limit: last, ..fresh }).unwrap();
    assert_eq!(secure(&mut a, &header(1), b"x", EncMic32, None), Err(Status::CounterError));
    a.reserve_until(&INDEX_1, u64::MAX);
    assert!(secure(&mut a, &header(1), b"x", EncMic32, None).is_ok());
    assert_eq!(secure(&mut a, &header(1), b"x", EncMic32, None), Err(Status::CounterError));
    assert_eq!(a.numbers(&INDEX_1), Some((u64::from(u32::MAX), u64::from(u32::MAX))));
}

#[test]
fn slots_for_sending_only_increase() {
    let (mut a, _) = pair(Slots);
    assert!(secure(&mut a, &header(1), b"x", EncMic32, asn(100)).is_ok());
    assert_eq!(secure(&mut a, &header(2), b"y", EncMic32, asn(100)), Err(Status::CounterError));
    assert_eq!(secure(&mut a, &header(2), b"y", EncMic32, asn(99)), Err(Status::CounterError));
    assert_eq!(secure(&mut a, &header(2), b"y", EncMic32, None), Err(Status::UnsupportedSecurity));
    assert!(secure(&mut a, &header(2), b"y", EncMic32, asn(101)).is_ok());
    // A replayed beacon tells a restarted device an old slot.
    let mut restarted = Security::new(config(A, Policy::default()));
    let fresh = KeyConfig::fresh(INDEX_1, LinkKey::new(KEY), Slots);
    restarted.install_key(KeyConfig { next: 1000, limit: 2000, ..fresh }).unwrap();
    for (slot, expected) in [(101, false), (999, false), (1000, true), (1999, true), (2000, false)] {
        let result = secure(&mut restarted, &header(3), b"z", EncMic32, asn(slot));
        assert_eq!(result.is_ok(), expected, "{slot}");
    }
}

#[test]
fn frame_is_accepted_once_in_its_slot() {
    let (mut a, mut b) = pair(Slots);
    let frame = secure(&mut a, &header(1), b"x", EncMic64, asn(7)).unwrap();
    assert_eq!(unsecure(&mut b, &frame, asn(8)), Err(Status::SecurityError));
    assert_eq!(unsecure(&mut b, &frame, None), Err(Status::UnsupportedSecurity));
    assert_eq!(unsecure(&mut b, &frame, asn(7)), Ok(b"x".to_vec()));
    assert_eq!(unsecure(&mut b, &frame, asn(7)), Err(Status::CounterError));
}

#[test]
fn refusals_have_standard_names_and_counts() {
    let (mut a, mut b) = pair(FrameCounter);
    let good = secure(&mut a, &header(1), b"data", EncMic32, None).unwrap();
    let mut expected = Counters::default();
    let refused = |b: &mut Security, frame: &[u8]| unsecure(b, frame, None).unwrap_err();

    let mut frame = good.clone();
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(refused(&mut b, &frame), Status::SecurityError);
    expected.security_error += 1;

    // The key index is the last octet of the header.
    let key_at = header(1).buffer_len() + 5;
    frame = good.clone();
    frame[key_at] = 2;
    assert_eq!(refused(&mut b, &frame), Status::UnavailableKey);
    expected.unavailable_key += 1;

    b.remove_device(A);
    assert_eq!(refused(&mut b, &good), Status::UnavailableDevice);
    expected.unavailable_device += 1;
    b.add_device(device(A));

    frame = good.clone();
    frame[key_at - 5] &= !7;
    assert_eq!(refused(&mut b, &frame), Status::UnsupportedSecurity);
    frame[key_at - 5] |= 4;
    assert_eq!(refused(&mut b, &frame), Status::UnsupportedSecurity);
    expected.unsupported_security += 2;

    // Secured by the edition of 2003.
    frame = good.clone();
    frame[1] &= !0x30;
    assert_eq!(refused(&mut b, &frame), Status::UnsupportedLegacy);
    expected.unsupported_legacy += 1;

    assert_eq!(refused(&mut b, &good[..key_at + 4]), Status::Malformed(FormatError::TooShort));
    assert_eq!(refused(&mut b, &[]), Status::Malformed(FormatError::TooShort));
    expected.invalid_parameter += 2;

    frame = good.clone();
    frame[key_at - 4..key_at].fill(0xff);
    assert_eq!(refused(&mut b, &frame), Status::CounterError);
    expected.counter_error += 1;

    let mut plain = std::vec![0; 40];
    header(2).emit(&mut plain).unwrap();
    assert_eq!(refused(&mut b, &plain), Status::ImproperSecurityLevel);
    expected.improper_security_level += 1;

    assert_eq!(b.unsecure(&good, None, None, &mut [0; 3]), Err(Status::FrameTooLong));
    expected.frame_too_long += 1;

    assert_eq!(*b.received(), expected);
    assert_eq!(expected.refused(), 11);
    assert_eq!(unsecure(&mut b, &good, None), Ok(b"data".to_vec()));
}

#[test]
fn policies_are_enforced() {
    let ack =
        Header::enhanced_ack(Some(1), Addressing::within(PAN, Address::Extended(B), Address::Extended(A)));
    let policy = Policy::default()
        .with(FrameType::Data, Some(LevelRule { allowed: Levels::ENCRYPTED, exempt_devices: true }))
        .with(FrameType::Ack, Some(LevelRule::only(Levels::of(&[SecurityLevel::None]))));
    let mut b = Security::new(config(B, policy));
    b.add_device(device(A));
    let fresh = KeyConfig::fresh(INDEX_1, LinkKey::new(KEY), FrameCounter);
    b.install_key(KeyConfig { usage: Usage::of(&[FrameType::Data]), ..fresh }).unwrap();
    let (mut a, _) = pair(FrameCounter);
    let below = secure(&mut a, &header(1), b"x", SecurityLevel::Mic128, None).unwrap();
    assert_eq!(unsecure(&mut b, &below, None), Err(Status::ImproperSecurityLevel));
    // Unsecured data is accepted from an exempt device only.
    let plain = secure(&mut a, &header(2), b"x", SecurityLevel::None, None).unwrap();
    assert_eq!(unsecure(&mut b, &plain, None), Err(Status::ImproperSecurityLevel));
    b.add_device(Device { exempt: true, ..device(A) });
    assert_eq!(unsecure(&mut b, &plain, None), Ok(b"x".to_vec()));
    // A kind of frame without a rule.
    let command = Header { frame_type: FrameType::Command, ..header(3) };
    let plain = secure(&mut a, &command, b"x", SecurityLevel::None, None).unwrap();
    assert_eq!(unsecure(&mut b, &plain, None), Err(Status::UnavailableSecurityLevel));
    // A key for data only, on both sides.
    let mut out = [0; 80];
    let len = a.secure(&ack, &[0x02, 0x0f, 0, 0], &[], at(EncMic32), None, &mut out).unwrap();
    assert_eq!(unsecure(&mut b, &out[..len], None), Err(Status::ImproperSecurityLevel));
    b.config.policy = Policy::uniform(Levels::AUTHENTICATED);
    assert_eq!(unsecure(&mut b, &out[..len], None), Err(Status::ImproperKeyType));
    assert_eq!(
        b.secure(&ack, &[0x02, 0x0f, 0, 0], &[], at(EncMic32), None, &mut out),
        Err(Status::ImproperKeyType)
    );
}

#[test]
fn key_takes_nonces_of_one_kind() {
    let (mut counted, _) = pair(FrameCounter);
    let (_, mut slotted) = pair(Slots);
    let frame = secure(&mut counted, &header(1), b"x", EncMic32, None).unwrap();
    assert_eq!(unsecure(&mut slotted, &frame, asn(5)), Err(Status::ImproperKeyType));
    let (mut slots, mut counters) = (security(A, B, Slots), security(B, A, FrameCounter));
    let frame = secure(&mut slots, &header(1), b"x", EncMic32, asn(5)).unwrap();
    assert_eq!(unsecure(&mut counters, &frame, asn(5)), Err(Status::ImproperKeyType));
}

#[test]
fn level_4_is_off_by_default() {
    let (mut a, mut b) = pair(FrameCounter);
    assert_eq!(
        secure(&mut a, &header(1), b"data", SecurityLevel::Enc, None),
        Err(Status::UnsupportedSecurity)
    );
    a.config.enc_without_mic = true;
    let frame = secure(&mut a, &header(1), b"data", SecurityLevel::Enc, None).unwrap();
    assert!(!frame.windows(4).any(|window| window == b"data"));
    assert_eq!(unsecure(&mut b, &frame, None), Err(Status::UnsupportedSecurity));
    b.config.enc_without_mic = true;
    b.config.policy = Policy::uniform(Levels::of(&[SecurityLevel::Enc]));
    assert_eq!(unsecure(&mut b, &frame, None), Ok(b"data".to_vec()));
}

#[test]
fn keys_are_never_installed_twice() {
    let (mut a, _) = pair(Slots);
    let other = INDEX_1.with_index(2);
    let install =
        |a: &mut Security, lookup, key| a.install_key(KeyConfig::fresh(lookup, LinkKey::new(key), Slots));
    assert_eq!(install(&mut a, other, KEY), Err(InstallError::KeyInUse));
    assert_eq!(install(&mut a, INDEX_1, [7; 16]), Err(InstallError::LookupInUse));
    assert!(a.remove_key(&INDEX_1) && !a.remove_key(&INDEX_1));
    assert_eq!(install(&mut a, INDEX_1, KEY), Err(InstallError::KeyUsedBefore));
    assert_eq!(install(&mut a, INDEX_1, [7; 16]), Ok(()));
    assert_eq!(secure(&mut a, &header(1), b"x", EncMic32, asn(1)).map(|frame| frame.len()), Ok(28));
}

#[test]
fn implicit_keys_are_found_by_peer() {
    let peer = |of: ExtendedAddress| KeyLookup::Peer(PAN, Address::Extended(of));
    let mut a = Security::new(config(A, Policy::default()));
    let mut b = Security::new(config(B, Policy::uniform(Levels::ENCRYPTED)));
    b.add_device(device(A));
    a.install_key(KeyConfig::fresh(peer(B), LinkKey::new(KEY), FrameCounter)).unwrap();
    b.install_key(KeyConfig::fresh(peer(A), LinkKey::new(KEY), FrameCounter)).unwrap();
    let protection = Protection { level: EncMic32, key: KeyIdentifier::Implicit };
    // By extended addresses, and by a short one in the device table.
    for src in [Address::Extended(A), Address::Short(ShortAddress(0x0a))] {
        let header = Header::data(1, Addressing::within(PAN, Address::Extended(B), src));
        let mut out = [0; 100];
        let len = a.secure(&header, &[], b"hello", protection, None, &mut out).unwrap();
        assert_eq!(unsecure(&mut b, &out[..len], None), Ok(b"hello".to_vec()));
    }
    let mut stranger = header(1);
    stranger.addressing.dst = Address::Short(ShortAddress(77));
    assert_eq!(a.secure(&stranger, &[], b"x", protection, None, &mut [0; 90]), Err(Status::UnavailableKey));
}

#[test]
fn unsendable_frame_uses_no_number() {
    let (mut a, _) = pair(FrameCounter);
    assert_eq!(secure(&mut a, &header(1), &[0; 110], EncMic32, None), Err(Status::FrameTooLong));
    assert_eq!(a.secure(&header(1), &[], b"x", at(EncMic32), None, &mut [0; 20]), Err(Status::FrameTooLong));
    let older = Header { version: FrameVersion::V2003, ..header(1) };
    assert_eq!(secure(&mut a, &older, b"x", EncMic32, None), Err(Status::InvalidHeader));
    let without = Header { ies: true, ..header(1) };
    assert_eq!(secure(&mut a, &without, b"x", EncMic32, None), Err(Status::InvalidHeader));
    let key = KeyIdentifier::Index(9);
    let unknown = Protection { level: EncMic32, key };
    assert_eq!(a.secure(&header(1), &[], b"x", unknown, None, &mut [0; 90]), Err(Status::UnavailableKey));
    assert_eq!(a.numbers(&INDEX_1), Some((0, u64::from(u32::MAX))));
    assert_eq!((a.sent().refused(), a.sent().secured), (5, 0));
}

#[test]
fn key_change_keeps_both_keys_valid() {
    let (mut a, mut b) = pair(Slots);
    let change =
        KeyChange { index: 2, key: LinkKey::new([7; 16]), from: asn(20).unwrap(), until: asn(30).unwrap() };
    let message = change.to_octets();
    let frame = secure(&mut a, &header(1), &message, EncMic32, asn(10)).unwrap();
    let told = unsecure(&mut b, &frame, asn(10)).unwrap();
    let heard = KeyChange::parse(&told).unwrap();
    let at_a = a.begin_change(INDEX_1, change, u64::MAX).unwrap();
    let at_b = b.begin_change(INDEX_1, heard, u64::MAX).unwrap();
    assert_eq!((at_a, at_b.new), (at_b, INDEX_1.with_index(2)));
    for slot in 11..40 {
        let slot = asn(slot).unwrap();
        // The sender changes late, as a busy one would.
        let key = at_a.sending(Asn::new(slot.number().saturating_sub(5)).unwrap()).identifier();
        let mut out = [0; 90];
        let protection = Protection { level: EncMic32, key };
        let len = a.secure(&header(2), &[], b"data", protection, Some(slot), &mut out).unwrap();
        assert_eq!(unsecure(&mut b, &out[..len], Some(slot)), Ok(b"data".to_vec()), "{slot}");
        assert_eq!(b.finish_change(&at_b, slot), slot.number() >= 30);
    }
    assert_eq!(b.keys().collect::<Vec<_>>(), [INDEX_1.with_index(2)]);
    assert!(KeyChange::parse(&message[1..]).is_none() && KeyChange::parse(&[0; KEY_CHANGE_LEN]).is_none());
}

#[test]
fn next_key_inherits_the_usage() {
    let mut security = Security::new(config(A, Policy::uniform(Levels::AUTHENTICATED)));
    let fresh = KeyConfig::fresh(INDEX_1, LinkKey::new(KEY), Slots);
    security.install_key(KeyConfig { usage: Usage::of(&[FrameType::Data]), ..fresh }).unwrap();
    let change =
        KeyChange { index: 2, key: LinkKey::new([7; 16]), from: asn(20).unwrap(), until: asn(30).unwrap() };
    let change = security.begin_change(INDEX_1, change, u64::MAX).unwrap();
    for key in [change.old, change.new] {
        let protection = Protection { level: EncMic32, key: key.identifier() };
        let mut send = |frame_type, slot| {
            let header = Header { frame_type, ..header(1) };
            security.secure(&header, &[], &[1], protection, asn(slot), &mut [0; 90]).map(drop)
        };
        assert_eq!(send(FrameType::Data, 1), Ok(()));
        assert_eq!(send(FrameType::Command, 2), Err(Status::ImproperKeyType), "{key:?}");
    }
}

proptest! {
    #[test]
    fn secured_frame_comes_back_unchanged(
        payload in prop::collection::vec(any::<u8>(), 0..80),
        level in 1usize..8, slots: bool, number in 1u32..1_000_000, sequence: u8,
        short: [bool; 2], one_pan: bool,
    ) {
        let level = SecurityLevel::ALL[level];
        let (mut a, mut b) = pair(if slots { Slots } else { FrameCounter });
        a.config.enc_without_mic = true;
        b.config.enc_without_mic = true;
        b.config.policy = Policy::uniform(Levels::of(&[level]));
        let address = |of: ExtendedAddress, short| if short {
            Address::Short(ShortAddress(u16::from(of.0[7])))
        } else {
            Address::Extended(of)
        };
        let mut header = header(sequence);
        header.addressing = Addressing::within(PAN, address(B, short[0]), address(A, short[1]));
        if !one_pan && (short[0] || short[1]) {
            header.addressing.src_pan = Some(PAN);
        }
        let slot = asn(number.into());
        let frame = secure(&mut a, &header, &payload, level, slot).unwrap();
        prop_assert_eq!(unsecure(&mut b, &frame, slot), Ok(payload));
    }
}
