//! IEEE 802.15.4: the parser, and frames that a device receives.

use std::hash::{DefaultHasher, Hasher};

use antedate_channel::dot15d4::cojp::Configuration;
use antedate_channel::dot15d4::tsch::{
    Action, Cell, CellKind, Heard, Node, NodeConfig, Outcome, Schedule, Slotframe, Timeslot,
};
use antedate_channel::dot15d4::{
    Address, Addressing, Asn, Config, Device, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup,
    Levels, LinkKey, NonceKind, PanId, Policy, Protection, Security, SecurityLevel,
};
use antedate_wire::dot15d4::advertisement::Advertisement;
use antedate_wire::dot15d4::capture::{Captured, LinkType};
use antedate_wire::dot15d4::ie::{NestedIes, PayloadIes, TimeCorrection};
use antedate_wire::dot15d4::sixtop::Message;
use antedate_wire::dot15d4::{Frame, MAX_HEADER_LEN};

/// A frame: its parts make up the whole, and its header is written back as read.
pub fn dot15d4_frame(data: &[u8]) {
    for link in [LinkType::Linux, LinkType::WithFcs, LinkType::Physical, LinkType::Tap] {
        if let Ok(captured) = Captured::parse(link, data) {
            assert!(data.windows(captured.frame.len().max(1)).any(|part| part.starts_with(captured.frame)));
        }
    }
    let Ok(frame) = Frame::parse(data) else { return };
    assert_eq!([frame.open(), frame.private(), frame.mic()].concat(), data);
    assert_eq!([frame.mac_header(), frame.payload(), frame.mic()].concat(), data);
    let mut out = [0; MAX_HEADER_LEN];
    let len = frame.header.emit(&mut out).expect("a header fits");
    assert_eq!(out[..len], data[..len]);
    if let Some(correction) = frame.header_ies().time_correction() {
        assert_eq!(TimeCorrection::parse(&correction.to_octets()), Some(correction));
    }
    if let Ok((ies, content)) = PayloadIes::split(frame.payload()) {
        assert!(content.len() <= frame.payload().len());
        let sixtop = Message::parse(ies.clone());
        if let Some(message) = sixtop {
            let mut out = [0; 2100];
            let len = message.emit(&mut out).expect("a message fits");
            let (again, _) = PayloadIes::split(&out[..len]).expect("elements");
            assert_eq!(Message::parse(again), sixtop);
        }
        ies.for_each(|ie| assert!(NestedIes::new(ie.content).count() <= ie.content.len()));
    }
}

/// Parameters of a joined device: keys are installed once.
pub fn cojp(data: &[u8]) {
    let Ok(configuration) = Configuration::parse(data) else { return };
    let keys = configuration.keys.len();
    let mut security = device(SENDER, RECEIVER, NonceKind::Asn, [1; 16]);
    if configuration.apply(&mut security, 100).is_ok() {
        assert_eq!(security.keys().count(), 1 + keys);
        assert!(
            keys == 0 || Configuration::parse(data).is_ok_and(|of| of.apply(&mut security, 100).is_err())
        );
    }
}

/// The payload of a beacon: its slotframes lie within it.
pub fn dot15d4_advertisement(data: &[u8]) {
    let Ok(read) = Advertisement::parse(data) else { return };
    let links: usize = read.slotframes().map(|of| of.links().count()).sum();
    assert!(read.slotframes().count() * 4 + links * 5 <= data.len());
    let hopping = Schedule::HOPPING.to_vec();
    if let Ok(schedule) = Schedule::advertised(&read, hopping) {
        let _ = schedule.next(read.synchronization.asn, |_| true);
    }
    if let Some(timeslot) = read.template.as_ref().and_then(Timeslot::advertised) {
        assert!(timeslot.rx_end() >= timeslot.rx_offset());
    }
}

const PAN: PanId = PanId(0xabcd);
const SENDER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 1]);
const RECEIVER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 2]);

fn device(own: ExtendedAddress, peer: ExtendedAddress, nonces: NonceKind, key: [u8; 16]) -> Security {
    let policy = Policy::uniform(Levels::AUTHENTICATED);
    let mut security =
        Security::new(Config { extended: own, pan: PAN, short: None, policy, enc_without_mic: false });
    security.add_device(Device { pan: PAN, extended: peer, short: None, exempt: false });
    let lookup = KeyLookup::Identified(KeyIdentifier::Index(1));
    let key = KeyConfig::fresh(lookup, LinkKey::new(key), nonces);
    security.install_key(key).expect("a first key");
    security
}

/// Frames from outside: the input itself, and a genuine frame changed by the input. Only the
/// genuine frame is delivered, once.
pub fn dot15d4_unsecure(data: &[u8]) {
    let [head, data @ ..] = data else { return };
    let nonces = if head & 8 == 0 { NonceKind::FrameCounter } else { NonceKind::Asn };
    let level = [1, 2, 3, 5, 6, 7, 5, 6][usize::from(head & 7)];
    let asn = Asn::new(u64::from(*head) << 8);
    let mut out = vec![0; data.len() + 256];
    // Nothing is ever secured under this receiver's key.
    let mut foreign = device(RECEIVER, SENDER, nonces, [8; 16]);
    assert!(foreign.unsecure(data, asn, Some(SENDER), &mut out).is_err(), "a forgery came out");
    assert_eq!(foreign.received().refused(), 1);
    assert!(foreign.invitation(data).is_err(), "a forged beacon came out");
    assert_eq!(foreign.received().refused(), 2);

    let mut sender = device(SENDER, RECEIVER, nonces, [9; 16]);
    let mut receiver = device(RECEIVER, SENDER, nonces, [9; 16]);
    let addressing = Addressing::within(PAN, Address::Extended(RECEIVER), Address::Extended(SENDER));
    let payload: Vec<u8> = (0..head >> 3).collect();
    let protection = Protection { level: SecurityLevel::from_bits(level), key: KeyIdentifier::Index(1) };
    let mut frame = [0; 127];
    let len = sender.secure(&Header::data(*head, addressing), &[], &payload, protection, asn, &mut frame);
    let frame = &frame[..len.expect("a short frame")];
    // Pairs of place and change, then nothing, or a length.
    let mut changed = frame.to_vec();
    let (pairs, length) = data.as_chunks::<2>();
    for [at, change] in pairs.iter().take(4) {
        let at = usize::from(*at) % changed.len();
        changed[at] ^= change;
    }
    if let [length] = length {
        changed.resize(usize::from(*length), 0);
    }
    let result = receiver.unsecure(&changed, asn, None, &mut out);
    assert!(changed == frame || result.is_err(), "a changed frame came out");
    if result.is_err() {
        assert!(receiver.unsecure(frame, asn, None, &mut out).is_ok(), "good traffic was disturbed");
    }
    assert_eq!(out[..payload.len()], payload);
    assert!(receiver.unsecure(frame, asn, None, &mut out).is_err(), "a frame came out twice");
    assert_eq!(receiver.received().passed(), 1);
}

/// A node with a dedicated cell in every slot.
/// A key that no other input has.
fn key_of(data: &[u8]) -> [u8; 16] {
    let half = |begin: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(begin);
        hasher.write(data);
        hasher.finish().to_ne_bytes()
    };
    std::array::from_fn(|at| [half(0), half(1)][at / 8][at % 8])
}

fn node(
    own: ExtendedAddress,
    peer: ExtendedAddress,
    kind: CellKind,
    level: SecurityLevel,
    key: [u8; 16],
) -> Node {
    let cell = Cell { slot: 0, channel_offset: 0, kind, neighbour: Some(peer) };
    let schedule = Schedule::new(vec![Slotframe { length: 1, cells: vec![cell] }], vec![11, 26]);
    let protection = Protection { level, key: KeyIdentifier::Index(1) };
    let asn = Asn::new(99).expect("a small number");
    let security = device(own, peer, NonceKind::Asn, key);
    Node::new(security, schedule.expect("a schedule"), NodeConfig::new(protection), asn, 1)
}

/// Slots of a sender and a receiver, with frames and acknowledgments that an attacker changes,
/// truncates, replays and injects, prepared or not. Only sent frames are delivered, none twice, and
/// only the slot's genuine acknowledgment counts.
pub fn dot15d4_node(data: &[u8]) {
    let [head, data @ ..] = data else { return };
    let level = SecurityLevel::from_bits([1, 2, 3, 5, 6, 7, 5, 6][usize::from(head & 7)]);
    // A key of this input alone: the fuzzer learns the frames of others from comparisons.
    let key = key_of(data);
    let mut sender = node(SENDER, RECEIVER, CellKind::Transmit, level, key);
    let mut receiver = node(RECEIVER, SENDER, CellKind::Receive, level, key);
    let (mut queued, mut delivered, mut old_ack) = (0u8, Vec::new(), Vec::new());
    let (rounds, _) = data.as_chunks::<4>();
    for (slot, [what, at, change, extra]) in rounds.iter().take(24).enumerate() {
        let asn = Asn::new(100 + slot as u64).expect("a small number");
        let damage = |octets: &mut Vec<u8>| {
            let at = usize::from(*at) % octets.len().max(1);
            octets.get_mut(at).into_iter().for_each(|octet| *octet ^= change);
        };
        if what & 1 == 0 {
            let payload = vec![queued; 1 + usize::from(*extra % 60)];
            queued += u8::from(sender.send(Some(RECEIVER), &payload, 0).is_ok());
        }
        if what & 2 == 0 {
            sender.idle((*extra).into());
            receiver.idle((*change).into());
        }
        receiver.begin(asn);
        let frame = match sender.begin(asn) {
            Action::Transmit { frame, .. } => frame.to_vec(),
            _ => Vec::new(),
        };
        if what & 8 != 0 {
            assert!(receiver.received(data, 2120).is_err(), "a forgery came in");
        }
        let mut ack = None;
        if !frame.is_empty() {
            let mut heard = frame.clone();
            if what & 4 != 0 {
                damage(&mut heard);
            }
            match receiver.received(&heard, 2100 + u32::from(*extra)) {
                Ok(reaction) => {
                    assert!(heard == frame, "a changed frame came in");
                    ack = reaction.ack.map(<[u8]>::to_vec);
                    delivered.extend(reaction.delivered.map(|delivered| delivered.payload[0]));
                }
                Err(_) => assert!(heard != frame, "a genuine frame was refused"),
            }
            assert!(receiver.received(&heard, 2120).is_err(), "a frame came in twice");
        }
        let mut heard = ack.clone().unwrap_or_default();
        if what & 16 != 0 {
            damage(&mut heard);
        }
        if what & 32 != 0 {
            heard.truncate((*at).into());
        }
        if what & 64 != 0 {
            heard.clone_from(&old_ack);
        }
        if what & 128 != 0 {
            heard.clone_from(&frame);
        }
        let genuine = ack.as_ref() == Some(&heard);
        let passed = sender.security().received().passed();
        let (outcome, refused) = sender.acknowledged(Heard::Frame(&heard));
        let acknowledged = matches!(outcome, Outcome::Acknowledged(..));
        assert_eq!(acknowledged, genuine, "{outcome:?}");
        assert!(acknowledged || refused.is_some() || outcome == Outcome::Nothing);
        assert_eq!(sender.security().received().passed() - passed, u64::from(genuine));
        sender.end();
        receiver.end();
        old_ack = ack.unwrap_or(old_ack);
    }
    assert!(delivered.is_sorted_by(|one, next| one < next), "{delivered:?}");
    assert!(delivered.iter().all(|serial| *serial < queued));
}
