//! Which reply counts as the acknowledgment of the frame sent, and what a node queues.

use std::vec::Vec;

use antedate_wire::dot15d4::ie::{Following, HeaderWriter, TimeCorrection};

use super::super::tsch::*;
use super::super::*;
use super::setup::*;

const C: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0c]);

/// A node of device A with one cell in each slot.
fn node(kind: CellKind, change: impl FnOnce(&mut NodeConfig)) -> Node {
    let cell = Cell { slot: 0, channel_offset: 0, kind, neighbour: None };
    let schedule =
        Schedule::new([Slotframe { length: 1, cells: [cell].to_vec() }].to_vec(), [11].to_vec()).unwrap();
    let mut security = security(A, B, NonceKind::Asn);
    security.add_device(device(C));
    let mut config = NodeConfig::new(at(LEVEL));
    change(&mut config);
    Node::new(security, schedule, config, Asn::new(9).unwrap(), 1)
}

/// What differs in a reply.
#[derive(Clone)]
struct Reply {
    by: ExtendedAddress,
    to: Address,
    sequence: Option<u8>,
    frame_type: FrameType,
    correction: Option<(i16, bool)>,
    slot: u64,
    protection: Protection,
}

const OTHER_KEY: KeyIdentifier = KeyIdentifier::Index(2);

/// Installs a second key.
fn two_keys(mut security: Security) -> Security {
    let lookup = KeyLookup::Identified(OTHER_KEY);
    security.install_key(KeyConfig::fresh(lookup, LinkKey::new([2; 16]), NonceKind::Asn)).unwrap();
    security
}

impl Reply {
    fn octets(&self) -> Vec<u8> {
        let mut peer = two_keys(security(self.by, A, NonceKind::Asn));
        peer.config.enc_without_mic = true;
        let mut ies = [0; 16];
        let mut writer = HeaderWriter::new(&mut ies);
        if let Some((microseconds, nack)) = self.correction {
            writer.time_correction(TimeCorrection::new(microseconds, nack)).unwrap();
        }
        let len = writer.finish(Following::Nothing).unwrap();
        let addressing = Addressing::within(PAN, self.to, Address::Extended(self.by));
        let header = Header {
            frame_type: self.frame_type,
            ies: len > 0,
            ..Header::enhanced_ack(self.sequence, addressing)
        };
        let mut out = [0; 127];
        let len = peer.secure(&header, &ies[..len], &[], self.protection, asn(self.slot), &mut out).unwrap();
        out[..len].to_vec()
    }
}

/// Sends a frame to B in slot 10, and returns its ticket and sequence number.
fn sent_to_b(node: &mut Node) -> (Ticket, u8) {
    let ticket = node.send(Some(B), b"data", 0).unwrap();
    let Action::Transmit { frame, ack: true, .. } = node.begin(asn(10).unwrap()) else { panic!("no frame") };
    let sequence = antedate_wire::dot15d4::Frame::parse(frame).unwrap().header.sequence.unwrap();
    (ticket, sequence)
}

fn good(sequence: u8) -> Reply {
    Reply {
        by: B,
        to: Address::Extended(A),
        sequence: Some(sequence),
        frame_type: FrameType::Ack,
        correction: Some((-30, false)),
        slot: 10,
        protection: at(LEVEL),
    }
}

#[test]
fn weaker_acknowledgment_is_refused() {
    let unsecured = Protection { level: SecurityLevel::None, key: KeyIdentifier::Implicit };
    let of = |level, key| Protection { level, key };
    let (one, two) = (KeyIdentifier::Index(1), OTHER_KEY);
    let (level, key) = (Some(Status::ImproperSecurityLevel), Some(Status::ImproperKeyType));
    for (sent, came, expected) in [
        (at(LEVEL), at(LEVEL), None),
        (at(LEVEL), unsecured, level),
        (at(SecurityLevel::Mic32), unsecured, level),
        (at(SecurityLevel::EncMic128), at(SecurityLevel::Mic32), level),
        (at(SecurityLevel::EncMic128), at(SecurityLevel::EncMic32), level),
        (at(SecurityLevel::EncMic32), at(SecurityLevel::Mic32), level),
        (at(SecurityLevel::EncMic32), at(SecurityLevel::Enc), level),
        (at(LEVEL), of(LEVEL, two), key),
        (of(LEVEL, two), of(LEVEL, one), key),
        (of(LEVEL, two), of(LEVEL, two), None),
        // An unsecured frame demands nothing.
        (unsecured, unsecured, None),
        (unsecured, at(LEVEL), None),
    ] {
        let mut node = node(CellKind::Transmit, |config| config.protection = sent);
        let security = node.security_mut();
        // A joining device has no key: its acknowledgments pass this policy.
        let every = LevelRule::only(Levels::of(&SecurityLevel::ALL));
        security.config.policy = security.config.policy.with(FrameType::Ack, Some(every));
        security.config.enc_without_mic = true;
        let lookup = KeyLookup::Identified(two);
        security.install_key(KeyConfig::fresh(lookup, LinkKey::new([2; 16]), NonceKind::Asn)).unwrap();
        while node.idle(100) > 0 {}
        let (ticket, sequence) = sent_to_b(&mut node);
        let octets = Reply { protection: came, ..good(sequence) }.octets();
        // The protection of the next frame does not matter to this one.
        node.set_protection(at(SecurityLevel::Mic64));
        let outcome = node.acknowledged(Heard::Frame(&octets));
        let accepted = Outcome::Acknowledged(ticket, -30);
        let refused = if expected.is_none() { accepted } else { Outcome::Again(ticket) };
        assert_eq!(outcome, (refused, expected), "{sent:?} {came:?}");
        let received = node.security().received();
        assert_eq!(received.refused(), u64::from(expected.is_some()), "{sent:?} {came:?}");
        let levels = u64::from(expected == level);
        assert_eq!(received.improper_security_level, levels, "{sent:?} {came:?}");
    }
}

#[test]
fn overheard_acknowledgment_is_not_delivered() {
    for protection in [at(LEVEL), Protection { level: SecurityLevel::None, key: KeyIdentifier::Implicit }] {
        for to in [Address::Extended(A), Address::Extended(C)] {
            let mut node = node(CellKind::Receive, |_| {});
            let policy = node.security().config().policy;
            let every = LevelRule::only(Levels::of(&SecurityLevel::ALL));
            node.security_mut().config.policy = policy.with(FrameType::Ack, Some(every));
            node.begin(asn(10).unwrap());
            let octets = Reply { to, protection, ..good(9) }.octets();
            let reaction = node.received(&octets, 2120).unwrap();
            assert_eq!((reaction.delivered, reaction.ack), (None, None), "{protection:?}");
            assert_eq!((node.counters().foreign_acks, node.counters().delivered), (1, 0));
        }
    }
}

#[test]
fn only_the_right_reply_acknowledges() {
    type Change = fn(&mut Reply);
    let cases: [(&str, Change, bool, Option<Status>); 9] = [
        ("right", |_| {}, true, None),
        ("without a number", |reply| reply.sequence = None, true, None),
        ("to our short address", |reply| reply.to = Address::Short(ShortAddress(0x0a)), true, None),
        ("another number", |reply| reply.sequence = reply.sequence.map(|of| of ^ 1), false, None),
        ("no acknowledgment", |reply| reply.frame_type = FrameType::Data, false, None),
        ("another device's", |reply| reply.by = C, false, None),
        ("to another", |reply| reply.to = Address::Extended(C), false, None),
        ("to another short one", |reply| reply.to = Address::Short(ShortAddress(9)), false, None),
        ("of another slot", |reply| reply.slot = 11, false, Some(Status::SecurityError)),
    ];
    for (name, change, fits, status) in cases {
        let mut node = node(CellKind::Transmit, |_| {});
        let (ticket, sequence) = sent_to_b(&mut node);
        let mut reply = good(sequence);
        change(&mut reply);
        let octets = reply.octets();
        let (outcome, refused) = node.acknowledged(Heard::Frame(&octets));
        let expected = if fits { Outcome::Acknowledged(ticket, -30) } else { Outcome::Again(ticket) };
        assert_eq!((outcome, refused), (expected, status), "{name}");
        let counters = node.counters();
        let foreign = !fits && status.is_none();
        assert_eq!(
            (counters.acknowledged, counters.foreign_acks),
            (u64::from(fits), u64::from(foreign)),
            "{name}"
        );
        assert_eq!(node.waiting(), usize::from(!fits), "{name}");
        // One reply a frame.
        assert_eq!(node.acknowledged(Heard::Frame(&octets)), (Outcome::Nothing, None), "{name}");
    }
}

#[test]
fn frame_is_given_up_after_its_retries() {
    for retries in [0, 3] {
        let mut node = node(CellKind::Transmit, |config| config.max_retries = retries);
        let ticket = node.send(Some(B), b"data", 0).unwrap();
        for attempt in 0..=retries {
            assert!(matches!(node.begin(asn(10 + u64::from(attempt)).unwrap()), Action::Transmit { .. }));
            let expected = if attempt < retries { Outcome::Again(ticket) } else { Outcome::GivenUp(ticket) };
            assert_eq!(node.acknowledged(Heard::Silence), (expected, None), "{attempt} of {retries}");
        }
        assert_eq!((node.waiting(), node.counters().given_up), (0, 1));
        assert_eq!(node.begin(asn(20).unwrap()), Action::Sleep);
    }
}

#[test]
fn broadcast_needs_no_acknowledgment() {
    let mut node = node(CellKind::Transmit, |_| {});
    let ticket = node.send(None, b"to all", 0).unwrap();
    assert!(matches!(node.begin(asn(10).unwrap()), Action::Transmit { ack: false, .. }));
    assert_eq!(node.acknowledged(Heard::Silence), (Outcome::Sent(ticket), None));
    assert_eq!(node.waiting(), 0);
}

#[test]
fn queue_tells_why_it_refuses() {
    let mut node = node(CellKind::Transmit, |config| config.queue = 2);
    assert_eq!(node.send(Some(B), b"ab", 3), Err(QueueError::Late));
    // The longest payload: 127 octets without header, MIC and FCS.
    let longest = (1..127).rev().find(|len| node.fits(FrameType::Data, false, Some(B), *len)).unwrap();
    assert_eq!(node.send(Some(B), &[0; 127][..longest + 1], 0), Err(QueueError::TooLong));
    let first = node.send(Some(B), &[0; 127][..longest], 2).unwrap();
    assert_eq!(node.update(first, b"123"), Err(QueueError::Late));
    assert_eq!(node.update(first, b"1"), Err(QueueError::Late));
    assert_eq!(node.update(first, b"12"), Ok(()));
    node.send(None, b"ab", 2).unwrap();
    assert_eq!(node.send(Some(B), b"x", 0), Err(QueueError::Full));
    assert!(matches!(
        node.begin(asn(10).unwrap()),
        Action::Transmit { frame, .. } if frame.len() + 2 == 127
    ));
    assert_eq!(node.update(first, b"34"), Err(QueueError::Gone));
    node.acknowledged(Heard::Silence);
    // A retransmission is the same frame.
    assert_eq!(node.update(first, b"34"), Err(QueueError::Gone));
    for slot in 11..14 {
        node.begin(asn(slot).unwrap());
        node.acknowledged(Heard::Silence);
    }
    assert_eq!((node.update(first, b"12"), node.waiting()), (Err(QueueError::Gone), 1));
}

#[test]
fn impossible_schedules_are_refused() {
    let cell = |slot| Cell { slot, channel_offset: 0, kind: CellKind::Receive, neighbour: None };
    let of = |length, slot, channels: &[u8]| {
        let frame = Slotframe { length, cells: [cell(slot)].to_vec() };
        Schedule::new([frame].to_vec(), channels.to_vec()).map(drop)
    };
    assert_eq!(of(0, 0, &[11]), Err(ScheduleError::EmptySlotframe));
    assert_eq!(of(3, 3, &[11]), Err(ScheduleError::CellBeyondEnd));
    assert_eq!(of(3, 2, &[]), Err(ScheduleError::NoChannel));
    assert_eq!(of(3, 2, &[11]), Ok(()));
}

#[test]
fn longer_protection_gives_up_what_no_longer_fits() {
    let mut node = node(CellKind::Transmit, |_| {});
    let longest = (1..127).rev().find(|len| node.fits(FrameType::Data, false, Some(B), *len)).unwrap();
    node.send(Some(B), &[0; 127][..longest], 0).unwrap();
    node.send(Some(B), b"short", 0).unwrap();
    node.send(Some(B), &[0; 127][..longest], 0).unwrap();
    node.set_protection(at(SecurityLevel::EncMic64));
    assert_eq!((node.waiting(), node.counters().given_up), (1, 2));
}

#[test]
fn frame_for_another_is_not_delivered() {
    let mut peer = security(B, A, NonceKind::Asn);
    let broadcast = Address::Short(ShortAddress::BROADCAST);
    for (pan, dst, ours, ack) in [
        (PAN, Address::Extended(A), true, true),
        (PAN, Address::Short(ShortAddress(0x0a)), true, true),
        (PAN, Address::Extended(C), false, false),
        (PAN, Address::Short(ShortAddress(9)), false, false),
        (PAN, broadcast, true, false),
        (PanId(0x1234), Address::Extended(A), false, false),
        (PanId::BROADCAST, Address::Extended(A), true, true),
    ] {
        let mut node = node(CellKind::Receive, |_| {});
        let addressing = Addressing::within(pan, dst, Address::Extended(B));
        let header = Header { ack_request: true, ..Header::data(1, addressing) };
        let slot = 20 + peer.sent().secured;
        let frame = secure(&mut peer, &header, b"x", LEVEL, asn(slot)).unwrap();
        node.begin(asn(slot).unwrap());
        let reaction = node.received(&frame, 2120).unwrap();
        let said = (reaction.delivered.is_some(), reaction.ack.is_some());
        assert_eq!(said, (ours, ack), "{pan:?} {dst:?}");
        assert_eq!(node.counters().not_ours, u64::from(!ours), "{pan:?} {dst:?}");
    }
}
