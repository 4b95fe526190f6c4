//! Envelopes in both directions, and the reason of each refusal.

use std::borrow::ToOwned;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::setup::{SECRET, TOPIC, group, publisher, sealed};
use crate::mqtt::envelope::{Envelope, EnvelopeError, associated_data};
use crate::mqtt::{
    Algorithm, Dropped, Group, Material, NoNumberError, PayloadTemplate, PublishError, Publisher, Reserved,
    topic,
};

#[test]
fn every_algorithm_opens_a_message_once() {
    for algorithm in Algorithm::ALL {
        let mut group = group(algorithm);
        let mut publisher = publisher(&group, b"press 7");
        let mut out = Vec::new();
        for len in [0, 1, 15, 16, 17, 48, 255, 1024, 5000] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let message = sealed(&mut publisher, TOPIC, &payload);
            let opened = group
                .open(TOPIC, &message, &mut out)
                .unwrap_or_else(|why| panic!("{algorithm} {len}: {why}"));
            assert_eq!((&out, &*opened.publisher, opened.epoch), (&payload, &b"press 7"[..], 1));
            let sequence = opened.sequence;
            assert_eq!(
                group.open(TOPIC, &message, &mut out),
                Err(Dropped::Repeated { sequence }),
                "{algorithm} {len}"
            );
            assert!(out.is_empty());
        }
    }
}

#[test]
fn ccm_adds_at_most_32_bytes() {
    let group = group(Algorithm::AesCcm16_64_128);
    let material = group.material(1, b"8 bytes.").expect("material");
    for (number, most) in [(1, 30), (0xffff, 31), (0xff_ffff, 32)] {
        let mut publisher = Publisher::new(&material, Reserved::new(number, u64::MAX));
        for len in [16, 48, 64, 247] {
            let message = sealed(&mut publisher, TOPIC, &vec![0; len]);
            assert!(message.len() - len <= most, "number {number}, {len} bytes: {}", message.len() - len);
            publisher = Publisher::new(&material, Reserved::new(number, u64::MAX));
        }
    }
}

#[test]
fn envelope_has_the_standard_bytes() {
    let mut group = group(Algorithm::AesCcm16_64_128);
    let message = sealed(&mut publisher(&group, b"p7"), TOPIC, b"21.5");
    // [ << {1: 10} >>, {4: h'01' 'p7', 6: h'01'}, 12 bytes ]
    assert_eq!(
        message[..16],
        [0x83, 0x43, 0xa1, 1, 10, 0xa2, 4, 0x43, 1, b'p', b'7', 6, 0x41, 1, 0x4c, message[15]]
    );
    let aad = associated_data(&[0xa1, 1, 10], "t", b"p", 2, 3);
    let external = b"\x84\x61t\x41p\x02\x48\0\0\0\0\0\0\0\x03";
    assert_eq!(aad, [b"\x83\x68Encrypt0\x43\xa1\x01\x0a\x4f", &external[..]].concat());
    // The CBOR tag may precede it.
    let mut tagged = vec![0xd0];
    tagged.extend_from_slice(&message);
    assert!(group.open(TOPIC, &tagged, &mut Vec::new()).is_ok());
}

/// A group with one message received from each of two publishers, and a third message not yet
/// received.
fn world() -> (Group, Vec<u8>, Vec<u8>) {
    let mut group = group(Algorithm::A128Gcm);
    let (mut a, mut b) = (publisher(&group, b"a"), publisher(&group, b"b"));
    let mut out = Vec::new();
    let first = sealed(&mut a, TOPIC, b"first");
    group.open(TOPIC, &first, &mut out).expect("genuine");
    group.open(TOPIC, &sealed(&mut b, TOPIC, b"b's"), &mut out).expect("genuine");
    group.open("plant/other", &sealed(&mut a, "plant/other", b"other"), &mut out).expect("genuine");
    let next = sealed(&mut a, TOPIC, b"next");
    (group, first, next)
}

#[test]
fn each_refusal_has_its_reason() {
    let (mut group, first, next) = world();
    let mut out = Vec::new();
    let mut refused = |group: &mut Group, topic: &str, message: &[u8]| {
        let why = group.open(topic, message, &mut out).expect_err("refused");
        assert!(out.is_empty() && !why.remedy().is_empty());
        (why.name(), why.to_string())
    };
    // The topic moved, to a known and an unknown one.
    let moved = ("moved", format!("sealed for the topic {TOPIC:?} and moved here"));
    assert_eq!(refused(&mut group, "plant/other", &next), moved);
    assert_eq!(refused(&mut group, "plant/unheard", &next), moved);
    // The sequence repeated.
    let repeated = ("repeated", "sequence number 1 was received before".to_owned());
    assert_eq!(refused(&mut group, TOPIC, &first), repeated);
    // The publisher changed.
    let mut changed = next.clone();
    let at = changed.iter().position(|byte| *byte == b'a').expect("the name");
    changed[at] = b'b';
    let (name, text) = refused(&mut group, TOPIC, &changed);
    assert_eq!((name, text.as_str()), ("impersonated", "names \"b\" as its publisher, but \"a\" sealed it"));
    // A stranger's key.
    let mut stranger = Group::new("line 4", Algorithm::A128Gcm);
    stranger.install(1, &[9; 32]);
    let foreign = sealed(&mut publisher(&stranger, b"c"), TOPIC, b"x");
    assert_eq!(refused(&mut group, TOPIC, &foreign).0, "unauthentic");
    // Plaintext of another client.
    for plain in [&b"21.5"[..], b"", b"{\"t\":1}", &[0x83, 0x40]] {
        assert_eq!(refused(&mut group, TOPIC, plain).0, "not-envelope");
    }
    // Another algorithm.
    let other = super::setup::group(Algorithm::A256Gcm);
    assert_eq!(refused(&mut group, TOPIC, &sealed(&mut publisher(&other, b"a"), TOPIC, b"x")).0, "algorithm");
    // A future epoch, and an ended one.
    let mut later = super::setup::group(Algorithm::A128Gcm);
    later.install(2, &SECRET);
    assert_eq!(
        refused(&mut group, TOPIC, &sealed(&mut publisher(&later, b"a"), TOPIC, b"x")).0,
        "unknown-epoch"
    );
    group.install(2, &[3; 32]);
    group.retire_before(2);
    let old = ("old-epoch", "epoch 1 is over, 2 is in use".to_owned());
    assert_eq!(refused(&mut group, TOPIC, &next), old);
    // A publisher without permission.
    group.allow([b"a".to_vec()]);
    let denied = sealed(&mut publisher(&group, b"b"), TOPIC, b"x");
    assert_eq!(refused(&mut group, TOPIC, &denied).0, "not-publisher");
    assert_eq!(refused(&mut group, "plant/#", &denied).0, "topic");
    // Genuine messages are still accepted.
    let genuine = sealed(&mut publisher(&group, b"a"), TOPIC, b"on");
    assert!(group.open(TOPIC, &genuine, &mut out).is_ok());
}

#[test]
fn forged_epoch_or_number_is_refused() {
    let (mut group, _, next) = world();
    let envelope = Envelope::parse(&next).expect("an envelope");
    assert_eq!((envelope.epoch, envelope.sequence), (1, 3));
    let mut out = Vec::new();
    for at in 0..next.len() {
        for bit in 0..8 {
            let mut changed = next.clone();
            changed[at] ^= 1 << bit;
            assert!(group.open(TOPIC, &changed, &mut out).is_err(), "byte {at} bit {bit}");
        }
        assert!(group.open(TOPIC, &next[..at], &mut out).is_err(), "cut at {at}");
    }
    assert!(group.open(TOPIC, &next, &mut out).is_ok());
}

#[test]
fn numbers_never_repeat_and_run_out() {
    let group = group(Algorithm::ChaCha20Poly1305);
    let material = group.material(1, b"a").expect("material");
    let mut publisher = Publisher::new(&material, Reserved::new(5, 8));
    let mut out = Vec::new();
    assert_eq!(publisher.seal("a/#", b"", &mut out), Err(PublishError::Topic(topic::TopicError::Wildcard)));
    let mut numbers: Vec<u64> =
        (0..3).map(|_| publisher.seal(TOPIC, b"x", &mut out).expect("a number")).collect();
    assert_eq!(publisher.seal(TOPIC, b"x", &mut out), Err(PublishError::Number(NoNumberError)));
    publisher.numbers_mut().raise(9);
    numbers.push(publisher.seal(TOPIC, b"x", &mut out).expect("a number"));
    assert_eq!(numbers, [5, 6, 7, 8]);
}

#[test]
fn overlong_payload_uses_no_number() {
    let group = group(Algorithm::A128Gcm);
    let mut publisher = publisher(&group, b"a");
    let (long, mut out) = (vec![0; 0x0fff_0001], Vec::new());
    assert_eq!(
        publisher.seal(TOPIC, &long, &mut out),
        Err(PublishError::TooLong { len: 0x0fff_0001, max: 0x0fff_0000 })
    );
    assert!(out.is_empty());
    assert_eq!(publisher.seal(TOPIC, b"x", &mut out), Ok(1));
}

#[test]
fn long_payload_of_a_ccm_group_is_gcm() {
    let mut group = group(Algorithm::AesCcm16_64_128);
    let mut other = super::setup::group(Algorithm::A128Gcm);
    let mut publisher = publisher(&group, b"a");
    let (mut numbers, mut out) = (Vec::new(), Vec::new());
    for round in 0..3_u8 {
        let short = sealed(&mut publisher, TOPIC, &[round; 0xffff]);
        numbers.push(group.open(TOPIC, &short, &mut out).expect("opened").sequence);
        // A prepared number is burnt, and not used under both keys.
        while publisher.idle(u32::MAX) > 0 {}
        let long = vec![round; 0x1_0000];
        let message = sealed(&mut publisher, TOPIC, &long);
        let envelope = Envelope::parse(&message).expect("an envelope");
        let sequence = envelope.sequence;
        assert_eq!(envelope.algorithm, Algorithm::A128Gcm.number());
        // The same as of a group of that algorithm: readers need no other derivation.
        assert_eq!(other.open(TOPIC, &message, &mut out).map(|opened| opened.sequence), Ok(sequence));
        let mut forged = message.clone();
        if let Some(last) = forged.last_mut() {
            *last ^= 1;
        }
        assert!(matches!(group.open(TOPIC, &forged, &mut out), Err(Dropped::Unauthentic { .. })));
        assert!(matches!(group.open("other", &message, &mut out), Err(Dropped::Unauthentic { .. })));
        assert!(out.is_empty());
        assert_eq!(group.open(TOPIC, &message, &mut out).map(|opened| opened.sequence), Ok(sequence));
        assert_eq!(out, long);
        assert_eq!(group.open(TOPIC, &message, &mut out), Err(Dropped::Repeated { sequence }));
        numbers.push(sequence);
        while group.idle(64) == 64 {}
        let mut message = Vec::new();
        numbers.push(publisher.seal_at(99, TOPIC, &long, &mut message).expect("sealed"));
        assert_eq!(group.open(TOPIC, &message, &mut out).map(|opened| opened.time), Ok(Some(99)));
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[test]
fn short_payload_has_one_algorithm() {
    let (mut group, gcm) = (group(Algorithm::AesCcm16_64_128), group(Algorithm::A128Gcm));
    let mut publisher = publisher(&gcm, b"a");
    let message = sealed(&mut publisher, TOPIC, &[0; 0xffff]);
    let refused = group.open(TOPIC, &message, &mut Vec::new());
    assert_eq!(refused, Err(Dropped::Algorithm { given: 1, expected: Algorithm::AesCcm16_64_128 }));
    let message = sealed(&mut publisher, TOPIC, &[0; 0x1_0000]);
    assert!(group.open(TOPIC, &message, &mut Vec::new()).is_ok());
}

#[test]
fn restart_refuses_recorded_numbers() {
    let (_, first, next) = world();
    let mut after = group(Algorithm::A128Gcm);
    let mut out = Vec::new();
    let lowest = |material: &Material| {
        assert_eq!(material.publisher(), "a");
        3
    };
    assert_eq!(
        after.open_from(TOPIC, &first, &mut out, lowest),
        Err(Dropped::Late { sequence: 1, lowest: 3 })
    );
    let opened = after.open_from(TOPIC, &next, &mut out, lowest).expect("new");
    assert_eq!(after.received(&opened, TOPIC).map(|(_, next)| next), Some(4));
}

#[test]
fn retained_message_is_late_per_topic_only() {
    let mut group = group(Algorithm::A128Gcm);
    let mut a = publisher(&group, b"a");
    let retained = sealed(&mut a, "plant/name", b"press");
    let mut out = Vec::new();
    for _ in 0..3000 {
        let message = sealed(&mut a, TOPIC, b"x");
        group.open(TOPIC, &message, &mut out).expect("genuine");
    }
    assert!(group.open("plant/name", &retained, &mut out).is_ok());
}

#[test]
fn every_publisher_has_its_own_key() {
    let material = |group: &str, algorithm, epoch, name: &[u8]| {
        Material::derive(group, algorithm, epoch, &SECRET, name).expect("material").key().to_vec()
    };
    let one = material("g", Algorithm::A128Gcm, 1, b"a");
    assert_ne!(one, material("g", Algorithm::A128Gcm, 1, b"b"));
    assert_ne!(one, material("g", Algorithm::A128Gcm, 2, b"a"));
    assert_ne!(one, material("h", Algorithm::A128Gcm, 1, b"a"));
    assert_ne!(one, material("g", Algorithm::Aes128Ocb3, 1, b"a"));
    assert!(Material::derive("g", Algorithm::A128Gcm, 1, &SECRET, b"").is_none());
    assert!(Material::derive("g", Algorithm::A128Gcm, 1, &SECRET, &[b'a'; 65]).is_none());
}

#[test]
fn malformed_envelope_names_its_fault() {
    let parse = |text: &[u8]| Envelope::parse(text).expect_err("no envelope");
    let parts = |kid: &[u8], number: &[u8]| {
        let mut bytes = vec![0x83, 0x43, 0xa1, 1, 1, 0xa2, 4, 0x40 + kid.len() as u8];
        bytes.extend_from_slice(kid);
        bytes.extend_from_slice(&[6, 0x40 + number.len() as u8]);
        bytes.extend_from_slice(number);
        bytes.push(0x40);
        bytes
    };
    assert!(Envelope::parse(&parts(b"\x01a", b"\x01")).is_ok());
    assert_eq!(parse(&parts(b"\x01", b"\x01")), EnvelopeError::Parameter("kid"));
    assert_eq!(parse(&parts(b"\x81\x00a", b"\x01")), EnvelopeError::Parameter("kid"), "an epoch in two ways");
    assert_eq!(
        parse(&parts(b"\xff\xff\xff\xff\x1fa", b"\x01")),
        EnvelopeError::Parameter("kid"),
        "beyond 32 bits"
    );
    assert_eq!(parse(&parts(b"\x01a", b"")), EnvelopeError::Parameter("Partial IV"));
    assert_eq!(
        parse(&parts(b"\x01a", b"\0\x01")),
        EnvelopeError::Parameter("Partial IV"),
        "a number in two ways"
    );
    assert_eq!(parse(&parts(b"\x01a", &[1; 9])), EnvelopeError::Parameter("Partial IV"));
    let mut trailing = parts(b"\x01a", b"\x01");
    trailing.push(0);
    assert_eq!(parse(&trailing), EnvelopeError::Trailing);
    let critical = [0x83, 0x46, 0xa2, 1, 1, 2, 0x81, 4, 0xa2, 4, 0x42, 1, b'a', 6, 0x41, 1, 0x40];
    assert_eq!(parse(&critical), EnvelopeError::Critical);
    assert_eq!(parse(b"hello"), EnvelopeError::Format);
}

const JSON: &[u8] =
    br#"{"machine":"press 7","time":@@@@@@@@@@,"values":{"force":@@@@@@,"unit":"kN"},"ok":@}"#;

/// Prepares until only the values are missing.
fn ready(publisher: &mut Publisher<Reserved>, template: &PayloadTemplate) {
    assert!(publisher.antedate(template, 1) > 0);
    while publisher.antedate(template, 1) > 0 {}
}

#[test]
fn rehearsal_uses_no_number() {
    let template = PayloadTemplate::marked(TOPIC, JSON).expect("a template");
    let values: [&[u8]; 3] = [b"1700000000", b"  81.5", b"1"];
    for algorithm in Algorithm::ALL {
        let group = group(algorithm);
        let (mut rehearsing, mut plain) = (publisher(&group, b"a"), publisher(&group, b"a"));
        let material = Material::derive("rehearsal", algorithm, 1, &[9; 32], b"a").expect("material");
        let mut stand_in = Publisher::new(&material, Reserved::new(1, 1000));
        let mut scratch = Vec::new();
        rehearsing.rehearse(&mut stand_in, &mut scratch);
        assert!(scratch.is_empty(), "nobody knows what comes next");
        for (number, len) in [(1, 30), (2, 30), (3, 30), (4, 2000)] {
            let payload = vec![number as u8; len];
            assert_eq!(sealed(&mut rehearsing, TOPIC, &payload), sealed(&mut plain, TOPIC, &payload));
            rehearsing.idle(u32::MAX);
            plain.idle(u32::MAX);
            rehearsing.rehearse(&mut stand_in, &mut scratch);
            let size = algorithm.sealed_len(len.min(1024));
            assert!((size..size + 40).contains(&scratch.len()), "{algorithm}: {}", scratch.len());
        }
        for _ in 0..2 {
            rehearsing.antedate(&template, u32::MAX);
            rehearsing.rehearse(&mut stand_in, &mut scratch);
            let mut out = Vec::new();
            assert!(rehearsing.seal_values(&template, &values, &mut out).is_ok());
            assert_eq!(out, sealed(&mut plain, TOPIC, &template.fill(&values)), "{algorithm}");
        }
    }
}

#[test]
fn antedated_publish_has_ordinary_bytes() {
    let template = PayloadTemplate::marked(TOPIC, JSON).expect("a template");
    let values: [&[u8]; 3] = [b"1700000000", b"  81.5", b"1"];
    for algorithm in Algorithm::ALL.into_iter().take(5) {
        let mut group = group(algorithm);
        let (mut early, mut plain) = (publisher(&group, b"a"), publisher(&group, b"a"));
        for (number, steps) in [(1, 0), (2, 1), (3, 3), (4, 1000)] {
            early.antedate(&template, steps);
            let mut out = Vec::new();
            assert_eq!(early.seal_values(&template, &values, &mut out), Ok(number));
            assert_eq!(out, sealed(&mut plain, TOPIC, &template.fill(&values)), "{algorithm} {steps}");
            group.open(TOPIC, &out, &mut Vec::new()).expect("genuine");
        }
        // Values of other lengths: the ordinary path, with the number already taken.
        let mut out = Vec::new();
        let other: [&[u8]; 3] = [b"17", b"81.55555", b"0"];
        ready(&mut early, &template);
        assert_eq!(early.seal_values(&template, &other, &mut out), Ok(5), "{algorithm}");
        assert_eq!(out, sealed(&mut plain, TOPIC, &template.fill(&other)), "{algorithm}");
        // The previous publish is prepared again.
        assert!(early.idle(u32::MAX) > 0);
        assert_eq!(early.idle(u32::MAX), 0);
        // Another publish comes first: the number is burnt.
        out.clear();
        assert_eq!(early.seal(TOPIC, b"x", &mut out), Ok(7));
        assert_eq!(early.seal_values(&template, &values, &mut out), Ok(8));
    }
}

#[test]
fn preparation_serves_its_length_and_topic() {
    for algorithm in Algorithm::ALL {
        let mut group = group(algorithm);
        let mut publisher = publisher(&group, b"a");
        let (mut last, mut opened) = (0, Vec::new());
        for (topic, len) in [
            ("t", 20),
            ("t", 20),
            ("t", 20),
            ("u", 20),
            ("u", 20),
            ("u", 20),
            ("u", 21),
            ("u", 0),
            ("u", 0),
            ("u", 0),
            ("t", 1024),
            ("t", 1024),
            ("t", 1024),
            ("t", 1025),
            ("t", 1025),
            ("t", 1025),
        ] {
            let payload: Vec<u8> = (0..len).map(|i| (i + len) as u8).collect();
            let mut out = Vec::new();
            let number = publisher.seal(topic, &payload, &mut out).expect("sealed");
            assert!(number > last && number <= last + 2, "{algorithm}");
            assert_eq!(group.open(topic, &out, &mut opened).expect("genuine").sequence, number);
            assert_eq!(opened, payload, "{algorithm}");
            last = number;
            // All of it, and some of it.
            publisher.idle(if len % 3 == 0 { 3 } else { u32::MAX });
            group.idle(if len % 3 == 1 { 3 } else { u32::MAX });
        }
    }
}

#[test]
fn numbers_are_sent_in_order() {
    let template = PayloadTemplate::marked(TOPIC, JSON).expect("a template");
    let values: [&[u8]; 3] = [b"1700000000", b"  81.5", b"1"];
    for algorithm in Algorithm::ALL.into_iter().take(5) {
        let mut group = group(algorithm);
        let mut publisher = publisher(&group, b"a");
        let (mut last, mut payload) = (0, Vec::new());
        let mut random = 1u32;
        for _ in 0..200 {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
            let mut out = Vec::new();
            let expected = match (random >> 16) % 4 {
                0 => {
                    publisher.seal(TOPIC, b"an ordinary one", &mut out).expect("sealed");
                    b"an ordinary one".to_vec()
                }
                1 => {
                    publisher.seal_values(&template, &values, &mut out).expect("sealed");
                    template.fill(&values)
                }
                2 => {
                    publisher.idle(random >> 29);
                    continue;
                }
                _ => {
                    publisher.antedate(&template, random >> 29);
                    continue;
                }
            };
            let opened = group.open(TOPIC, &out, &mut payload).expect("genuine");
            assert!(opened.sequence > last, "{algorithm}: {} after {last}", opened.sequence);
            assert_eq!(payload, expected);
            last = opened.sequence;
        }
        assert!(last > 90);
    }
}

#[test]
fn sparkplug_frame_is_a_template() {
    // A payload of the Sparkplug B protobuf: timestamp (of fixed width, because it counts
    // milliseconds), one metric with a double, and a sequence number.
    let frame = [
        &[0x08][..],
        &[0x80 | 1, 0x81, 0x82, 0x83, 0x84, 0x31], // timestamp
        &[0x12, 0x11, 0x0a, 0x05],
        b"force",
        &[0x20, 0x0a, 0x69],
        &[0; 8], // metric: name, datatype Double, value
        &[0x18, 0x05],
    ]
    .concat();
    let value = frame.len() - 10..frame.len() - 2;
    let template =
        PayloadTemplate::new("spBv1.0/plant/DDATA/edge/press7", &frame, &[1..7, value]).expect("a template");
    let mut group = group(Algorithm::A256Gcm);
    let mut publisher = publisher(&group, b"edge");
    let mut out = Vec::new();
    let time = [0x91, 0x92, 0x93, 0x94, 0x95, 0x32];
    ready(&mut publisher, &template);
    publisher.seal_values(&template, &[&time, &81.5f64.to_le_bytes()], &mut out).expect("sealed");
    let mut payload = Vec::new();
    group.open(template.topic(), &out, &mut payload).expect("genuine");
    assert_eq!(payload, template.fill(&[&time, &81.5f64.to_le_bytes()]));
}

#[test]
fn empty_topic_is_refused() {
    let mut publisher = publisher(&group(Algorithm::A128Gcm), b"a");
    assert!(matches!(publisher.seal("", b"x", &mut Vec::new()), Err(PublishError::Topic(_))));
    assert_eq!(publisher.seal(TOPIC, b"x", &mut Vec::new()), Ok(1));
}

#[test]
fn unpreparable_template_uses_no_number() {
    let group = group(Algorithm::A128Gcm);
    let mut gcm = publisher(&group, b"a");
    let long = PayloadTemplate::new(TOPIC, &[b' '; 1025], std::slice::from_ref(&(3..4))).expect("a template");
    assert_eq!(gcm.antedate(&long, u32::MAX), 0);
    let text = "@ ".repeat(40);
    let many = PayloadTemplate::marked(TOPIC, text.as_bytes()).expect("a template");
    assert_eq!(gcm.antedate(&many, u32::MAX), 0);
    let cbc = super::setup::group(Algorithm::Aes128CbcHmacSha256);
    let small = PayloadTemplate::marked(TOPIC, b"@").expect("a template");
    assert_eq!(publisher(&cbc, b"a").antedate(&small, u32::MAX), 0);
    assert_eq!(gcm.seal(TOPIC, b"x", &mut Vec::new()), Ok(1));
    // Neither does the previous publish, for which a preparation would exist.
    assert_eq!((gcm.antedate(&long, u32::MAX), gcm.antedate(&many, u32::MAX)), (0, 0));
    assert_eq!(gcm.seal(TOPIC, b"x", &mut Vec::new()), Ok(2));
    // They are sealed nevertheless.
    let mut group = super::setup::group(Algorithm::A128Gcm);
    let (mut out, mut payload) = (Vec::new(), Vec::new());
    for template in [&long, &many] {
        let values: Vec<&[u8]> = template.holes().iter().map(|_| &b"7"[..]).collect();
        out.clear();
        gcm.seal_values(template, &values, &mut out).expect("sealed");
        group.open(TOPIC, &out, &mut payload).expect("genuine");
        assert_eq!(payload, template.fill(&values));
    }
    assert!(PayloadTemplate::marked(TOPIC, b"no hole").is_err());
    assert!(PayloadTemplate::new(TOPIC, b"abc", &[1..3, 0..1]).is_err());
    assert!(PayloadTemplate::new(TOPIC, b"abc", std::slice::from_ref(&(1..4))).is_err());
    assert!(PayloadTemplate::new("a/+", b"abc", std::slice::from_ref(&(1..3))).is_err());
}

proptest! {
    #[test]
    fn any_payload_is_recovered(
        algorithm in prop::sample::select(&Algorithm::ALL[..]),
        name in prop::collection::vec(any::<u8>(), 1..=64),
        topic in "[a-z/]{1,40}",
        number in 1u64..u64::MAX - 1,
        payload in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut group = group(algorithm);
        let material = group.material(1, &name).expect("material");
        let mut publisher = Publisher::new(&material, Reserved::new(number, u64::MAX));
        let message = sealed(&mut publisher, &topic, &payload);
        let mut out = Vec::new();
        let opened = group.open(&topic, &message, &mut out);
        prop_assert_eq!(opened.map(|opened| (opened.publisher.to_vec(), opened.sequence)), Ok((name, number)));
        prop_assert_eq!(out, payload);
    }

    #[test]
    fn any_template_gives_ordinary_bytes(
        algorithm in prop::sample::select(&Algorithm::ALL[..5]),
        text in "[a-z]{0,40}(@{1,20}[a-z]{1,60}){1,6}@{0,9}",
        steps in 0u32..60,
        fill in any::<u8>(),
    ) {
        let template = PayloadTemplate::marked(TOPIC, text.as_bytes()).expect("a template");
        let group = group(algorithm);
        let (mut early, mut plain) = (publisher(&group, b"a"), publisher(&group, b"a"));
        let values: Vec<Vec<u8>> = template.holes().iter().map(|hole| vec![fill; hole.len()]).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        early.antedate(&template, steps);
        let mut out = Vec::new();
        early.seal_values(&template, &values, &mut out).expect("sealed");
        prop_assert_eq!(out, sealed(&mut plain, TOPIC, &template.fill(&values)));
    }

    #[test]
    fn any_bytes_are_parsed_consistently(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(envelope) = Envelope::parse(&bytes) {
            prop_assert!(envelope.publisher.len() <= 64 && !envelope.publisher.is_empty());
        }
        let text = String::from_utf8_lossy(&bytes);
        let _ = (topic::check_filter(&text), topic::check_name(&text));
    }
}

#[test]
fn time_of_sealing_is_authentic() {
    for algorithm in Algorithm::ALL {
        let mut group = group(algorithm);
        let mut publisher = publisher(&group, b"p7");
        let mut out = Vec::new();
        for time in [0, 23, 0xffff, 1_800_000_000, u32::MAX] {
            let mut message = Vec::new();
            publisher.seal_at(time, TOPIC, b"OPEN", &mut message).expect("sealed");
            let opened =
                group.open(TOPIC, &message, &mut out).unwrap_or_else(|why| panic!("{algorithm}: {why}"));
            assert_eq!((opened.time, &out[..]), (Some(time), &b"OPEN"[..]), "{algorithm}");
            // The next one without a time is as ever.
            let opened = group.open(TOPIC, &sealed(&mut publisher, TOPIC, b"x"), &mut out).expect("opened");
            assert_eq!(opened.time, None);
        }
    }
    let mut group = group(Algorithm::AesCcm16_64_128);
    let mut message = Vec::new();
    publisher(&group, b"p7").seal_at(1_800_000_000, TOPIC, b"21.5", &mut message).expect("sealed");
    // [ << {1: 10, 15: {6: 1800000000}} >>, {4: h'01' 'p7', 6: h'01'}, 12 bytes ]
    let start = b"\x83\x4b\xa2\x01\x0a\x0f\xa1\x06\x1a\x6b\x49\xd2\x00\xa2\x04\x43\x01p7\x06\x41\x01\x4c";
    assert_eq!(message.strip_prefix(start).map(<[u8]>::len), Some(12), "{message:02x?}");
    message[12] += 1;
    let why = group.open(TOPIC, &message, &mut Vec::new()).expect_err("another time");
    assert_eq!(why.name(), "unauthentic");
}

#[test]
fn time_has_one_place_in_an_envelope() {
    let parse = |protected: &[u8], unprotected: &[u8]| {
        let head = [0x83, 0x40 + u8::try_from(protected.len()).expect("short")];
        let message = [&head[..], protected, unprotected, b"\x41c"].concat();
        Envelope::parse(&message).map(|envelope| envelope.time)
    };
    let kid = b"\xa2\x04\x42\x01p\x06\x41\x01";
    assert_eq!(parse(b"\xa1\x01\x0a", kid), Ok(None));
    assert_eq!(parse(b"\xa2\x01\x0a\x0f\xa1\x06\x07", kid), Ok(Some(7)));
    // Other claims say nothing here.
    assert_eq!(parse(b"\xa2\x01\x0a\x0f\xa2\x61a\x01\x05\x02", kid), Ok(None));
    assert_eq!(parse(b"\xa2\x01\x0a\x0f\xa2\x06\x07\x06\x08", kid), Err(EnvelopeError::Parameter("iat")));
    assert_eq!(parse(b"\xa2\x01\x0a\x0f\xa1\x06\x20", kid), Err(EnvelopeError::Parameter("iat")));
    let twice = b"\xa3\x01\x0a\x0f\xa1\x06\x07\x0f\xa1\x06\x08";
    assert_eq!(parse(twice, kid), Err(EnvelopeError::Parameter("CWT Claims")));
    let outside = b"\xa3\x04\x42\x01p\x06\x41\x01\x0f\xa1\x06\x07";
    assert_eq!(parse(b"\xa1\x01\x0a", outside), Err(EnvelopeError::Parameter("CWT Claims")));
}
