//! A node and frames of neighbours that differ from it.

use std::vec::Vec;

use antedate_wire::dot15d4::Frame;
use antedate_wire::dot15d4::ie::{Following, HeaderElementId, HeaderWriter};

use super::super::tsch::*;
use super::super::*;
use super::setup::*;

const C: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0c]);

/// A node that listens in every slot.
fn listener(security: Security) -> Node {
    let cell = Cell { slot: 0, channel_offset: 0, kind: CellKind::Receive, neighbour: None };
    let schedule = Schedule::new([Slotframe { length: 1, cells: [cell].to_vec() }].to_vec(), [11].to_vec());
    Node::new(security, schedule.unwrap(), NodeConfig::new(at(LEVEL)), Asn::new(9).unwrap(), 1)
}

/// The result of a frame in a slot: whether it was delivered, and its acknowledgment.
fn hear(node: &mut Node, slot: u64, frame: &[u8]) -> (bool, Option<Vec<u8>>) {
    while node.idle(100) > 0 {}
    node.begin(asn(slot).unwrap());
    let reaction = node.received(frame, 2120).unwrap();
    let said = (reaction.delivered.is_some(), reaction.ack.map(<[u8]>::to_vec));
    node.end();
    said
}

#[test]
fn acknowledgment_is_secured_like_its_frame() {
    let other = KeyIdentifier::Index(2);
    let rule = LevelRule { allowed: Levels::AUTHENTICATED, exempt_devices: true };
    let mut ends = [security(A, B, NonceKind::Asn), security(B, A, NonceKind::Asn)];
    for end in &mut ends {
        let lookup = KeyLookup::Identified(other);
        end.install_key(KeyConfig::fresh(lookup, LinkKey::new([8; 16]), NonceKind::Asn)).unwrap();
        end.config.policy =
            Policy::default().with(FrameType::Data, Some(rule)).with(FrameType::Ack, Some(rule));
    }
    let [mut a, mut b] = ends;
    b.add_device(Device { exempt: true, ..device(A) });
    a.add_device(Device { exempt: true, ..device(B) });
    let mut node = listener(b);
    let protections = [
        at(LEVEL),
        at(SecurityLevel::Mic128),
        Protection { level: SecurityLevel::EncMic64, key: other },
        Protection { level: SecurityLevel::None, key: KeyIdentifier::Implicit },
    ];
    // Twice each: the second one is expected, and its acknowledgment prepared.
    for (i, protection) in protections.into_iter().flat_map(|of| [of, of]).enumerate() {
        let (slot, mut frame) = (10 + i as u64, [0; 127]);
        let len = a.secure(&header(i as u8), &[], b"x", protection, asn(slot), &mut frame).unwrap();
        let (delivered, ack) = hear(&mut node, slot, &frame[..len]);
        let ack = ack.expect("it wanted one");
        let security = Frame::parse(&ack).unwrap().header.security;
        let expected =
            (protection.level != SecurityLevel::None).then_some((protection.level, protection.key));
        assert!(delivered);
        assert_eq!(security.map(|security| (security.level, security.key)), expected);
        // The frame's sender reads it.
        assert!(a.unsecure(&ack, asn(slot), Some(B), &mut frame).is_ok(), "{protection:?}");
    }
    assert_eq!((node.counters().prepared[2], node.counters().unprepared[2]), (3, 3));
}

#[test]
fn unknown_accepted_device_is_acknowledged() {
    let mut b = security(B, A, NonceKind::Asn);
    let open = LevelRule::only(Levels::of(&[SecurityLevel::None]));
    b.config.policy = Policy::default().with(FrameType::Command, Some(open));
    let mut node = listener(b);
    let addressing = Addressing::within(PAN, Address::Extended(B), Address::Extended(C));
    let request = Header { frame_type: FrameType::Command, ..Header::data(1, addressing) };
    let mut frame = std::vec![0; 80];
    let len = request.emit(&mut frame).unwrap();
    frame.truncate(len);
    frame.extend([1, 0x80]);
    let (delivered, ack) = hear(&mut node, 10, &frame);
    let ack = ack.expect("it wanted one");
    let header = Frame::parse(&ack).unwrap().header;
    assert!(delivered);
    assert_eq!((header.addressing.dst, header.security), (Address::Extended(C), None));
}

#[test]
fn retransmission_is_always_recognised() {
    let mut a = security(A, B, NonceKind::Asn);
    let mut node = listener(security(B, A, NonceKind::Asn));
    let everybody = Address::Short(ShortAddress::BROADCAST);
    let beacon = |number| Header {
        frame_type: FrameType::Beacon,
        ack_request: false,
        addressing: Addressing::within(PAN, everybody, Address::Extended(A)),
        ..header(number)
    };
    // Beacons have sequence numbers of their own, which overlap those of data.
    let frames = [(header(5), true), (beacon(77), true), (header(5), false), (header(77), true)];
    for (i, (header, fresh)) in frames.into_iter().enumerate() {
        let slot = 10 + i as u64;
        let frame = secure(&mut a, &header, b"x", LEVEL, asn(slot)).unwrap();
        let (delivered, ack) = hear(&mut node, slot, &frame);
        assert_eq!((delivered, ack.is_some()), (fresh, header.ack_request), "{i}");
    }
    // Also after a header that is too long to be predicted.
    let mut ies = [0; 44];
    let mut writer = HeaderWriter::new(&mut ies);
    writer.push(HeaderElementId::Vendor, &[0; 40]).unwrap();
    let len = writer.finish(Following::Payload).unwrap();
    for (slot, fresh) in [(20, true), (21, false)] {
        let (long, mut frame) = (Header { ies: true, ..header(9) }, [0; 127]);
        let len = a.secure(&long, &ies[..len], b"x", at(LEVEL), asn(slot), &mut frame).unwrap();
        assert_eq!(hear(&mut node, slot, &frame[..len]).0, fresh);
    }
    assert_eq!((node.counters().delivered, node.counters().duplicates), (4, 2));
}

#[test]
fn unsecured_forgery_hides_no_secured_frame() {
    let (mut a, mut b) = (security(A, B, NonceKind::Asn), security(B, A, NonceKind::Asn));
    let rule = LevelRule { allowed: Levels::AUTHENTICATED, exempt_devices: true };
    b.config.policy = Policy::default().with(FrameType::Data, Some(rule)).with(FrameType::Ack, Some(rule));
    b.add_device(Device { exempt: true, ..device(A) });
    let mut node = listener(b);
    // The number is that of the next frame, which is easy to guess. Then the device's own frame is
    // repeated, because its acknowledgment was lost.
    let frames = [(10, SecurityLevel::None, true), (11, LEVEL, true), (12, LEVEL, false)];
    for (slot, level, fresh) in frames {
        let frame = secure(&mut a, &header(6), b"x", level, asn(slot)).unwrap();
        assert_eq!(hear(&mut node, slot, &frame).0, fresh, "{slot}");
    }
}

#[test]
fn restarted_sender_is_not_taken_for_itself() {
    // A listener with a slotframe of one slot expects retransmissions for 14 slots.
    let mut node = listener(security(B, A, NonceKind::Asn));
    for (slot, sequence, payload, fresh) in [
        (10, 6, &b"before"[..], true),
        (11, 6, b"before", false),
        // Its first number may be any.
        (12, 6, b"after!", true),
        (13, 6, b"after", true),
        (14, 7, b"after", true),
        (28, 7, b"after", false),
        // The same reading, long after.
        (43, 7, b"after", true),
    ] {
        let mut restarted = security(A, B, NonceKind::Asn);
        let frame = secure(&mut restarted, &header(sequence), payload, LEVEL, asn(slot)).unwrap();
        let (delivered, ack) = hear(&mut node, slot, &frame);
        assert_eq!((delivered, ack.is_some()), (fresh, true), "{slot}");
    }
    assert_eq!((node.counters().delivered, node.counters().duplicates), (5, 2));
}

#[test]
fn frame_for_another_pan_is_not_ours() {
    let other = PanId(0x1234);
    let (short, everybody) =
        (Address::Short(ShortAddress(u16::from(B.0[7]))), Address::Short(ShortAddress::BROADCAST));
    let to = |pan, dst| (Some(pan), dst, Some(PAN));
    // A node of the PAN, and one in no PAN yet.
    for (own, all) in [(PAN, false), (PanId::BROADCAST, true)] {
        let (mut a, mut b) = (security(A, B, NonceKind::Asn), security(B, A, NonceKind::Asn));
        b.config.pan = own;
        let mut node = listener(b);
        for (i, ((dst_pan, dst, src_pan), ours)) in [
            (to(PAN, short), true),
            (to(other, short), all),
            (to(other, everybody), all),
            (to(PanId::BROADCAST, everybody), true),
            ((None, Address::Absent, Some(PAN)), true),
            ((None, Address::Absent, Some(other)), all),
        ]
        .into_iter()
        .enumerate()
        {
            let slot = 10 + i as u64;
            let addressing = Addressing { dst_pan, dst, src_pan, src: Address::Extended(A) };
            let header = Header { ack_request: dst == short, addressing, ..header(i as u8) };
            let frame = secure(&mut a, &header, b"x", LEVEL, asn(slot)).unwrap();
            let (delivered, ack) = hear(&mut node, slot, &frame);
            assert_eq!((delivered, ack.is_some()), (ours, ours && dst == short), "{own:?} {i}");
        }
        assert_eq!(node.counters().not_ours, if all { 0 } else { 3 });
    }
}

#[test]
fn overlong_frame_does_not_block_the_queue() {
    let cell = Cell { slot: 0, channel_offset: 0, kind: CellKind::Transmit, neighbour: Some(B) };
    let schedule = Schedule::new([Slotframe { length: 1, cells: [cell].to_vec() }].to_vec(), [11].to_vec());
    let security = security(A, B, NonceKind::Asn);
    let config = NodeConfig::new(at(LEVEL));
    let mut node = Node::new(security, schedule.unwrap(), config, Asn::new(9).unwrap(), 1);
    // The longest frame that fits.
    assert!((0..127).rev().any(|len| node.send(Some(B), &std::vec![1; len], 0).is_ok()));
    node.send(Some(B), b"short", 0).unwrap();
    node.set_protection(at(SecurityLevel::EncMic128));
    assert!(matches!(node.begin(asn(10).unwrap()), Action::Transmit { .. }));
    assert_eq!((node.waiting(), node.counters().given_up), (1, 1));
}

/// A node with three frames for a neighbour, and cells to it that are alternately dedicated and
/// shared (odd slots).
fn sender(backoff: (u8, u8), max_retries: u8) -> Node {
    let cell = |slot, kind| Cell { slot, channel_offset: 0, kind, neighbour: Some(B) };
    let cells = [cell(0, CellKind::Transmit), cell(1, CellKind::Shared)].to_vec();
    let schedule = Schedule::new([Slotframe { length: 2, cells }].to_vec(), [11].to_vec());
    let config = NodeConfig { backoff, max_retries, ..NodeConfig::new(at(LEVEL)) };
    let security = security(A, B, NonceKind::Asn);
    let mut node = Node::new(security, schedule.unwrap(), config, Asn::new(9).unwrap(), 1);
    for _ in 0..3 {
        node.send(Some(B), b"x", 0).unwrap();
    }
    node
}

/// Whether a frame is sent in a slot. It is not acknowledged.
fn unheard(node: &mut Node, slot: u64) -> bool {
    let sent = matches!(node.begin(asn(slot).unwrap()), Action::Transmit { .. });
    node.end();
    sent
}

/// Whether a frame is sent in a slot. It is acknowledged.
fn hears(node: &mut Node, slot: u64) -> bool {
    let Action::Transmit { frame, .. } = node.begin(asn(slot).unwrap()) else { return false };
    let frame = frame.to_vec();
    let (_, ack) = hear(&mut listener(security(B, A, NonceKind::Asn)), slot, &frame);
    let (outcome, _) = node.acknowledged(Heard::Frame(&ack.expect("it wanted one")));
    assert!(matches!(outcome, Outcome::Acknowledged(..)), "{outcome:?}");
    node.end();
    true
}

#[test]
fn dedicated_cell_failure_gives_no_backoff() {
    let mut node = sender((31, 31), 255);
    for slot in (10..100).step_by(2) {
        assert!(unheard(&mut node, slot));
    }
    assert!(unheard(&mut node, 101), "the first shared cell is free");
    assert!(!unheard(&mut node, 103), "the backoff after it is counted in shared cells");
    assert!(unheard(&mut node, 104), "and does not keep from dedicated ones");
    assert!(!unheard(&mut node, 105), "which leave it as it is");
}

#[test]
fn backoff_ends_on_success_or_empty_queue() {
    let mut node = sender((31, 31), 255);
    assert!(unheard(&mut node, 11) && !unheard(&mut node, 13));
    assert!(hears(&mut node, 14));
    assert!(!unheard(&mut node, 15), "more waits, so the backoff goes on");
    assert!(hears(&mut node, 16) && hears(&mut node, 18));
    node.send(Some(B), b"x", 0).unwrap();
    assert!(unheard(&mut node, 19), "nothing waited");

    let mut node = sender((0, 31), 255);
    let mut shared = (11..).step_by(2);
    let mut next = || shared.next().unwrap();
    for _ in 0..8 {
        while !unheard(&mut node, next()) {}
    }
    while !hears(&mut node, next()) {}
    assert!(unheard(&mut node, next()) && unheard(&mut node, next()), "the exponent is the least again");

    let mut node = sender((31, 31), 0);
    assert!(unheard(&mut node, 11) && !unheard(&mut node, 13), "what is given up hands it on");
    assert_eq!((node.waiting(), node.counters().given_up), (2, 1));
}

#[test]
fn backoff_outlives_an_overlong_frame() {
    for long_first in [true, false] {
        let mut node = sender((31, 31), 255);
        assert!([10, 12, 14].into_iter().all(|slot| hears(&mut node, slot)));
        for long in [long_first, !long_first] {
            let lens = if long { 0..127 } else { 5..6 };
            assert!(lens.rev().any(|len| node.send(Some(B), &std::vec![1; len], 0).is_ok()));
        }
        assert!(unheard(&mut node, 15) && !unheard(&mut node, 17));
        node.set_protection(at(SecurityLevel::EncMic128));
        assert!(!unheard(&mut node, 19), "what is left waits as long");
        assert_eq!((node.waiting(), node.counters().given_up), (1, 1));
    }
}

#[test]
fn any_backoff_exponent_gives_a_backoff() {
    for exponents in [(31, 255), (254, 255)] {
        let mut node = sender(exponents, 255);
        let mut shared = (11..).step_by(2);
        for _ in 0..4 {
            while !unheard(&mut node, shared.next().unwrap()) {}
        }
        let slots = shared.next().unwrap();
        assert!((1000..1_000_000).contains(&slots), "{slots}");
    }
}

#[test]
fn acknowledgment_tells_the_time() {
    let offset = NodeConfig::new(at(LEVEL)).timeslot.tx_offset;
    for (came, expected) in [(offset, 0), (offset - 120, 120), (offset + 30, -30), (offset + 3000, -2048)] {
        let mut node = listener(security(B, A, NonceKind::Asn));
        let frame = secure(&mut security(A, B, NonceKind::Asn), &header(1), b"x", LEVEL, asn(10)).unwrap();
        node.begin(asn(10).unwrap());
        let ack = node.received(&frame, came).unwrap().ack.unwrap();
        let correction = Frame::parse(ack).unwrap().header_ies().time_correction().unwrap();
        assert_eq!((correction.microseconds, correction.nack), (expected, false), "{came}");
    }
}
