//! A network of TSCH as RFC 8180 and RFC 9031 have it: beacons under K1, joining by the slot of a
//! beacon, other frames under K2, and what nodes send besides data.

use std::vec::Vec;

use antedate_wire::dot15d4::Frame;
use antedate_wire::dot15d4::advertisement::{Link, Repr, SlotframeRepr, Template};
use antedate_wire::dot15d4::capability::Capability;
use antedate_wire::dot15d4::sixtop::{Command, Message, MessageType};

use super::super::cojp::Configuration;
use super::super::tsch::*;
use super::super::*;
use super::setup::*;

const K1: KeyIdentifier = KeyIdentifier::Index(1);
const K2: KeyIdentifier = KeyIdentifier::Index(2);
const LINKS: [Link; 1] = [Link { slot: 0, channel_offset: 0, options: 0x0f }];
const SLOTFRAMES: [SlotframeRepr<'_>; 1] = [SlotframeRepr { handle: 0, length: 11, links: &LINKS }];
const UNSECURED: Protection = Protection { level: SecurityLevel::None, key: KeyIdentifier::Implicit };

fn beacon() -> Repr<'static> {
    Repr::minimal(0, &SLOTFRAMES)
}

/// Beacons have a MIC, all else is encrypted. Exempt devices may send data, commands and
/// acknowledgments unsecured.
fn policy() -> Policy {
    let exempt = Some(LevelRule { allowed: Levels::ENCRYPTED, exempt_devices: true });
    Policy::uniform(Levels::ENCRYPTED)
        .with(FrameType::Beacon, Some(LevelRule::only(Levels::of(&[SecurityLevel::Mic32]))))
        .with(FrameType::Data, exempt)
        .with(FrameType::Command, exempt)
        .with(FrameType::Ack, exempt)
}

fn install(security: &mut Security, key: KeyIdentifier, octets: [u8; 16], usage: Usage) {
    let fresh = KeyConfig::fresh(KeyLookup::Identified(key), LinkKey::new(octets), NonceKind::Asn);
    security.install_key(KeyConfig { usage, ..fresh }).unwrap();
}

/// A node with K1, and with K2 if it has joined; its cell of eleven is shared.
fn node(own: ExtendedAddress, peer: ExtendedAddress, joined: bool, asn: u64) -> Node {
    let mut security = Security::new(config(own, policy()));
    security.add_device(Device { exempt: !joined, ..device(peer) });
    install(&mut security, K1, WELL_KNOWN_K1, Usage::of(&[FrameType::Beacon]));
    if joined {
        install(&mut security, K2, KEY, Usage::of(&[FrameType::Data, FrameType::Command, FrameType::Ack]));
    }
    let cell = Cell { slot: 0, channel_offset: 0, kind: CellKind::Shared, neighbour: None };
    let schedule = Schedule::new(
        [Slotframe { length: 11, cells: [cell].to_vec() }].to_vec(),
        Schedule::HOPPING.to_vec(),
    );
    let config = NodeConfig {
        beacons: Protection { level: SecurityLevel::Mic32, key: K1 },
        ..NodeConfig::new(if joined { Protection { level: LEVEL, key: K2 } } else { UNSECURED })
    };
    Node::new(security, schedule.unwrap(), config, Asn::new(asn).unwrap(), 1)
}

/// What the receiver's layer above gets.
#[derive(Debug, PartialEq)]
struct Got {
    frame_type: FrameType,
    elements: Vec<u8>,
    payload: Vec<u8>,
}

/// A slot. Returns the frame on the air, what came out of it, and its outcome.
fn slot(asn: u64, from: &mut Node, to: &mut Node) -> (Vec<u8>, Option<Got>, Outcome) {
    while from.idle(100) + to.idle(100) > 0 {}
    let asn = Asn::new(asn).unwrap();
    assert!(matches!(to.begin(asn), Action::Listen { .. }));
    let Action::Transmit { frame, ack, .. } = from.begin(asn) else { panic!("nothing was sent") };
    let frame = frame.to_vec();
    let reaction = to.received(&frame, 2_100).unwrap();
    let got = reaction.delivered.map(|of| Got {
        frame_type: of.frame_type,
        elements: of.elements.to_vec(),
        payload: of.payload.to_vec(),
    });
    assert_eq!(reaction.ack.is_some(), ack);
    let reply = reaction.ack.map(<[u8]>::to_vec);
    let (outcome, refused) = from.acknowledged(reply.as_deref().map_or(Heard::Silence, Heard::Frame));
    assert_eq!(refused, None);
    from.end();
    to.end();
    (frame, got, outcome)
}

fn frame_of(to: Option<ExtendedAddress>, payload: &[u8]) -> Outgoing<'_> {
    Outgoing { command: false, elements: false, to, payload, late: 0 }
}

#[test]
fn device_joins_by_a_beacon() {
    let mut root = node(A, B, true, 1_099);
    root.beacon(&beacon()).unwrap();
    while root.idle(100) > 0 {}
    let Action::Transmit { frame, ack: false, .. } = root.begin(Asn::new(1_100).unwrap()) else {
        panic!("no beacon");
    };
    assert_eq!(Frame::parse(frame).unwrap().header.level(), SecurityLevel::Mic32);
    // The pledge knows K1 alone, no device and no slot.
    let mut pledge = Security::new(Config { pan: PanId::BROADCAST, short: None, ..config(B, policy()) });
    install(&mut pledge, K1, WELL_KNOWN_K1, Usage::of(&[FrameType::Beacon]));
    let invitation = pledge.invitation(frame).unwrap();
    assert_eq!((invitation.from, invitation.pan, invitation.asn().number()), (A, PAN, 1_100));
    let advertised = &invitation.advertisement;
    let schedule = Schedule::advertised(advertised, Schedule::HOPPING.to_vec()).unwrap();
    assert_eq!(advertised.template.as_ref().and_then(Timeslot::advertised), Some(Timeslot::DEFAULT));
    pledge.set_pan(invitation.pan, None);
    pledge.add_device(invitation.device(true));
    let config = NodeConfig::new(UNSECURED);
    let mut joining = Node::new(pledge, schedule, config, invitation.asn(), 5);
    root.end();
    assert_eq!(root.counters().prepared[0], 1, "the beacon was prepared");

    // Unsecured to the join proxy, which lets this device do so until it has its keys.
    root.security_mut().add_device(Device { short: None, exempt: true, ..device(B) });
    joining.send_frame(frame_of(Some(A), &cojp::join_request(PAN))).unwrap();
    let (_, got, outcome) = slot(1_111, &mut joining, &mut root);
    assert_eq!(got.unwrap().payload, cojp::join_request(PAN));
    assert!(matches!(outcome, Outcome::Acknowledged(..)));

    // The registrar's answer has K2, in the usage of RFC 9031 for K2 alone, and a short address.
    let mut answer = Vec::from([0xa2, 2, 0x83, 2, 12, 0x50]);
    answer.extend(KEY);
    answer.extend([3, 0x81, 0x42, 0, 0x77]);
    let protections = Configuration::parse(&answer).unwrap().apply(joining.security_mut(), u64::MAX);
    joining.set_protection(protections.unwrap().others.unwrap());
    joining.security_mut().add_device(device(A));
    root.security_mut().add_device(Device { short: Some(ShortAddress(0x77)), ..device(B) });
    for round in 0..3 {
        joining.send(Some(A), b"temperature", 0).unwrap();
        let (frame, got, _) = slot(1_122 + 11 * round, &mut joining, &mut root);
        let header = Frame::parse(&frame).unwrap().header;
        assert_eq!(header.security.map(|of| (of.level, of.key)), Some((LEVEL, K2)));
        assert_eq!(got.unwrap().payload, b"temperature");
    }
    // The first one was unknown to the receiver.
    assert_eq!((root.counters().prepared[1], joining.counters().prepared[0]), (2, 3));
}

#[test]
fn forged_invitations_are_refused() {
    let heard = |change: fn(&mut Vec<u8>), pledge: fn(&mut Security)| {
        let mut root = node(A, B, true, 1_099);
        root.beacon(&beacon()).unwrap();
        let Action::Transmit { frame, .. } = root.begin(Asn::new(1_100).unwrap()) else { panic!() };
        let mut frame = frame.to_vec();
        change(&mut frame);
        let mut security = Security::new(config(B, policy()));
        install(&mut security, K1, WELL_KNOWN_K1, Usage::of(&[FrameType::Beacon]));
        pledge(&mut security);
        let result = security.invitation(&frame).map(|_| ());
        assert_eq!(security.received().refused() + security.received().passed(), 1);
        result
    };
    let same = |_: &mut Security| {};
    assert_eq!(heard(|_| {}, same), Ok(()));
    // The slot, the MIC, a data frame.
    let slot = |frame: &mut Vec<u8>| {
        let at = frame.windows(2).position(|pair| pair == [6, 0x1a]).unwrap();
        frame[at + 2] ^= 1;
    };
    assert_eq!(heard(slot, same), Err(Status::SecurityError));
    assert_eq!(heard(|frame| *frame.last_mut().unwrap() ^= 1, same), Err(Status::SecurityError));
    assert!(matches!(heard(|frame| frame[0] ^= 1, same), Err(Status::Malformed(_))));
    assert!(matches!(heard(|frame| frame.truncate(30), same), Err(Status::Malformed(_))));
    // An old beacon: slots after it were used, or none is reserved.
    let later = |security: &mut Security| {
        let lookup = KeyLookup::Identified(KeyIdentifier::Index(7));
        let fresh = KeyConfig::fresh(lookup, LinkKey::new([7; 16]), NonceKind::Asn);
        security.install_key(KeyConfig { next: 1_101, limit: 2_000, ..fresh }).unwrap();
    };
    assert_eq!(heard(|_| {}, later), Err(Status::CounterError));
    let none_reserved = |security: &mut Security| {
        let lookup = KeyLookup::Identified(KeyIdentifier::Index(7));
        let fresh = KeyConfig::fresh(lookup, LinkKey::new([7; 16]), NonceKind::Asn);
        security.install_key(KeyConfig { limit: 1_100, ..fresh }).unwrap();
    };
    assert_eq!(heard(|_| {}, none_reserved), Err(Status::CounterError));
    let without_key = |security: &mut Security| {
        assert!(security.remove_key(&KeyLookup::Identified(K1)));
    };
    assert_eq!(heard(|_| {}, without_key), Err(Status::UnavailableKey));
    let other_use = |security: &mut Security| {
        security.remove_key(&KeyLookup::Identified(K1));
        install(security, K1, [9; 16], Usage::of(&[FrameType::Data]));
    };
    assert_eq!(heard(|_| {}, other_use), Err(Status::ImproperKeyType));
}

#[test]
fn encrypted_and_unsecured_beacons_are_not_read() {
    let mut root = node(A, B, true, 99);
    let levels = [SecurityLevel::EncMic32, SecurityLevel::None];
    for (at, (level, expected)) in
        levels.into_iter().zip([Status::UnsupportedSecurity, Status::ImproperSecurityLevel]).enumerate()
    {
        root.set_beacon_protection(Protection { level, key: K1 });
        root.beacon(&beacon()).unwrap();
        let Action::Transmit { frame, .. } = root.begin(Asn::new(110 + 11 * at as u64).unwrap()) else {
            panic!()
        };
        let mut pledge = security(B, A, NonceKind::Asn);
        if level == SecurityLevel::None {
            pledge.config.policy = policy();
        }
        assert_eq!(pledge.invitation(frame).err(), Some(expected));
        root.end();
    }
}

#[test]
fn beacons_are_prepared_with_their_slot() {
    let (mut root, mut leaf) = (node(A, B, true, 99), node(B, A, true, 99));
    for round in 0..10 {
        let asn = 110 + 11 * round;
        root.beacon(&beacon()).unwrap();
        let (frame, got, outcome) = slot(asn, &mut root, &mut leaf);
        let got = got.unwrap();
        let read = antedate_wire::dot15d4::advertisement::Advertisement::parse(&got.elements).unwrap();
        assert_eq!((got.frame_type, read.synchronization.asn.number()), (FrameType::Beacon, asn));
        assert_eq!(Frame::parse(&frame).unwrap().header.security.unwrap().key, K1);
        assert!(matches!(outcome, Outcome::Sent(_)));
        // Beacons have numbers of their own.
        root.send(None, b"to all", 0).unwrap();
        let (frame, ..) = slot(asn + 4_400, &mut root, &mut leaf);
        assert_eq!(Frame::parse(&frame).unwrap().header.security.unwrap().key, K2);
        leaf = node(B, A, true, 99);
        root = node(A, B, true, 99);
    }
    let mut missed = 0;
    for round in 0..20 {
        root.beacon(&beacon()).unwrap();
        slot(110 + 11 * round, &mut root, &mut leaf);
        missed = leaf.counters().unprepared[1];
    }
    assert_eq!((root.counters().prepared[0], root.counters().unprepared[0], missed), (20, 0, 1));
}

#[test]
fn custom_template_is_advertised() {
    let times = antedate_wire::dot15d4::advertisement::Times {
        cca: [1_800, 128],
        tx_offset: 1_300,
        rx_offset: 500,
        rx_ack_delay: 750,
        tx_ack_delay: 950,
        rx_wait: 1_600,
        ack_wait: 400,
        rx_tx: 192,
        max_ack: 2_400,
        max_tx: 4_256,
        length: 8_900,
    };
    let timeslot = Timeslot::advertised(&Template::Times(1, times)).unwrap();
    assert_eq!((timeslot.length, timeslot.rx_offset(), timeslot.rx_end()), (8_900, 500, 2_100));
    assert_eq!(Timeslot::advertised(&Template::Known(3)), None);
}

#[test]
fn commands_and_6p_are_delivered_apart() {
    let (mut a, mut b) = (node(A, B, true, 99), node(B, A, true, 99));
    let mut elements = [0; 40];
    let message = Message {
        kind: MessageType::Request,
        code: Command::Add.number(),
        function: 0,
        sequence: 3,
        fields: &[1, 0, 0, 2],
    };
    let len = message.emit(&mut elements).unwrap();
    let sixp = Outgoing { elements: true, ..frame_of(Some(B), &elements[..len]) };
    let disassociation = Outgoing { command: true, ..frame_of(Some(B), &[3, 2]) };
    for round in 0..3 {
        a.send_frame(sixp).unwrap();
        let (_, got, outcome) = slot(110 + 22 * round, &mut a, &mut b);
        let got = got.unwrap();
        let delivered = Delivered {
            from: None,
            frame_type: got.frame_type,
            elements: &got.elements,
            payload: &got.payload,
        };
        assert_eq!(Message::parse(delivered.ies()), Some(message));
        assert_eq!((got.frame_type, got.payload.len()), (FrameType::Data, 0));
        assert!(matches!(outcome, Outcome::Acknowledged(..)));
        a.send_frame(disassociation).unwrap();
        let (_, got, _) = slot(121 + 22 * round, &mut a, &mut b);
        let expected = Got { frame_type: FrameType::Command, elements: Vec::new(), payload: [3, 2].to_vec() };
        assert_eq!(got, Some(expected));
    }
    // The first of each form was unknown.
    assert_eq!((b.counters().prepared[1], b.counters().unprepared[1]), (4, 2));
    assert_eq!((a.counters().prepared[0], a.counters().prepared[3]), (6, 6));
}

#[test]
fn malformed_payloads_are_refused() {
    let (mut a, mut b) = (node(A, B, true, 99), node(B, A, true, 99));
    let elements = Outgoing { elements: true, ..frame_of(Some(B), &[9, 0x88, 1]) };
    assert_eq!(a.send_frame(elements), Err(QueueError::Malformed));
    let command = Outgoing { command: true, ..frame_of(Some(B), &[]) };
    assert_eq!(a.send_frame(command), Err(QueueError::Malformed));
    assert_eq!(a.waiting(), 0);
    // Authentic, and malformed inside: refused, not acknowledged.
    let header = Header { ies: true, ..header(1) };
    let mut sender = node(A, B, true, 99);
    let mut frame = [0; 127];
    let k2 = Protection { level: LEVEL, key: K2 };
    let len = sender
        .security_mut()
        .secure(&header, &[0x00, 0x3f], &[9, 0x88, 1], k2, asn(110), &mut frame)
        .unwrap();
    b.begin(Asn::new(110).unwrap());
    assert!(matches!(b.received(&frame[..len], 2_120), Err(Status::Malformed(_))));
    assert_eq!(b.security().received().refused(), 1);
}

#[test]
fn frame_not_accepted_is_sent_again() {
    let (mut a, mut b) = (node(A, B, true, 99), node(B, A, true, 99));
    a.send(Some(B), b"first", 0).unwrap();
    b.set_accepting(false);
    let (_, got, outcome) = slot(110, &mut a, &mut b);
    assert_eq!(got, None);
    assert!(matches!(outcome, Outcome::NotAccepted(_, 20)), "{outcome:?}");
    assert_eq!((a.counters().nacks, b.counters().not_accepted, a.waiting()), (1, 1, 1));
    b.set_accepting(true);
    let (_, got, outcome) = slot(121, &mut a, &mut b);
    assert_eq!(got.unwrap().payload, b"first");
    assert!(matches!(outcome, Outcome::Acknowledged(..)));
    // A retransmission of what was accepted is acknowledged, whatever there is room for.
    let again = a.send(Some(B), b"second", 0).unwrap();
    while a.idle(100) > 0 {}
    b.begin(Asn::new(132).unwrap());
    let Action::Transmit { frame, .. } = a.begin(Asn::new(132).unwrap()) else { panic!() };
    let frame = frame.to_vec();
    assert!(b.received(&frame, 2_120).unwrap().delivered.is_some());
    b.end();
    let mut failed = a.acknowledged(Heard::Silence).0;
    b.set_accepting(false);
    for asn in (143..400).step_by(11) {
        if let Action::Transmit { frame, .. } = a.begin(Asn::new(asn).unwrap()) {
            let frame = frame.to_vec();
            b.begin(Asn::new(asn).unwrap());
            let reply = b.received(&frame, 2_120).unwrap().ack.unwrap().to_vec();
            failed = a.acknowledged(Heard::Frame(&reply)).0;
            break;
        }
    }
    assert_eq!(failed, Outcome::Acknowledged(again, 0));
    // Refused to the end of the retries.
    a.send(Some(B), b"third", 0).unwrap();
    let outcomes: Vec<_> = (40..44).map(|round| slot(11 * round, &mut a, &mut b).2).collect();
    assert!(outcomes[..3].iter().all(|of| matches!(of, Outcome::NotAccepted(..))), "{outcomes:?}");
    assert!(matches!(outcomes[3], Outcome::GivenUp(_)));
}

#[test]
fn short_addresses_shorten_frames() {
    let mut lengths = Vec::new();
    for short in [false, true] {
        let (mut a, mut b) = (node(A, B, true, 99), node(B, A, true, 99));
        a.config.short_addresses = short;
        for round in 0..3 {
            a.send(Some(B), b"short", 0).unwrap();
            let (frame, got, outcome) = slot(110 + 11 * round, &mut a, &mut b);
            assert_eq!(got.unwrap().payload, b"short");
            assert!(matches!(outcome, Outcome::Acknowledged(..)));
            lengths.push(frame.len());
        }
        assert_eq!((b.counters().prepared[1], b.counters().prepared[2]), (2, 2));
        assert_eq!(a.counters().prepared[3], 3);
    }
    assert_eq!(lengths[0] - lengths[5], 12);
}

#[test]
fn only_exempt_device_turns_security_off() {
    for (exempt, configured, secured) in [(true, true, false), (true, false, true), (false, true, true)] {
        let (mut root, mut leaf) = (node(A, B, true, 99), node(B, A, false, 99));
        root.config.unsecured_neighbours = configured;
        root.security_mut().add_device(Device { exempt, ..device(B) });
        let request = Capability(Capability::LISTENS).to_request();
        leaf.send_frame(Outgoing { command: true, ..frame_of(Some(A), &request) }).unwrap();
        let asn = Asn::new(110).unwrap();
        root.begin(asn);
        let Action::Transmit { frame, .. } = leaf.begin(asn) else { panic!() };
        assert_eq!(root.received(frame, 2_120).is_ok(), exempt);
        root.end();
        root.send(Some(B), b"answer", 0).unwrap();
        let Action::Transmit { frame, .. } = root.begin(Asn::new(121).unwrap()) else { panic!() };
        let level = Frame::parse(frame).unwrap().header.level();
        assert_eq!(level != SecurityLevel::None, secured, "{exempt} {configured}");
    }
}
