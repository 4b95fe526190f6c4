//! The bounds of a group, and its epochs.

use core::ops::Range;
use std::format;
use std::string::ToString;
use std::vec::Vec;

use super::setup::{SECRET, TOPIC, group, publisher, sealed};
use crate::mqtt::group::{RECENT, STREAMS_MAX};
use crate::mqtt::{
    Algorithm, Dropped, Group, Numbers, PayloadTemplate, PayloadTemplateError, Reserved, topic,
};

#[test]
fn remembered_streams_are_bounded() {
    let mut group = group(Algorithm::A128Gcm);
    let mut a = publisher(&group, b"a");
    let mut out = Vec::new();
    group.open(TOPIC, &sealed(&mut a, TOPIC, b"1"), &mut out).unwrap();
    assert_eq!(group.streams, 1);
    group.streams = STREAMS_MAX - 1;
    group.open("last", &sealed(&mut a, "last", b"2"), &mut out).unwrap();
    assert_eq!(group.streams, STREAMS_MAX);
    // A further topic, and a further publisher, are authentic and not remembered.
    let mut b = publisher(&group, b"b");
    for (topic, message) in [("new", sealed(&mut a, "new", b"3")), (TOPIC, sealed(&mut b, TOPIC, b"1"))] {
        assert_eq!(group.check_from(topic, &message, |_| 1).map(drop), Err(Dropped::Crowded));
        assert_eq!(group.open(topic, &message, &mut out), Err(Dropped::Crowded));
        assert!(out.is_empty());
    }
    // Known ones go on.
    assert!(group.open(TOPIC, &sealed(&mut a, TOPIC, b"4"), &mut out).is_ok());
    assert_eq!(group.streams, STREAMS_MAX);
}

#[test]
fn retired_epoch_leaves_nothing() {
    let mut reader = group(Algorithm::A128Gcm);
    let mut out = Vec::new();
    let mut old = publisher(&reader, b"a");
    let mut other = publisher(&reader, b"b");
    for (from, topic) in [(&mut old, TOPIC), (&mut other, "b")] {
        let message = sealed(from, topic, b"old");
        reader.open(topic, &message, &mut out).unwrap();
    }
    let opened = reader.open("more", &sealed(&mut old, "more", b"old"), &mut out).unwrap();
    assert_eq!(reader.received(&opened, "more").map(|(_, next)| next), Some(3));
    reader.install(2, &[7; 32]);
    let mut new = publisher(&reader, b"a");
    let first = sealed(&mut new, TOPIC, b"new");
    reader.open(TOPIC, &first, &mut out).unwrap();
    assert_eq!((reader.streams, reader.recent.len()), (4, 4));
    // An older epoch than all ends nothing.
    assert!(reader.retire_before(1).is_empty());
    assert_eq!(reader.streams, 4);
    let mut over: Vec<_> = reader.retire_before(2).iter().map(|material| material.publisher()).collect();
    over.sort();
    assert_eq!(over, ["a", "b"]);
    assert_eq!((reader.streams, reader.recent.len()), (1, 0));
    assert!(reader.epochs().eq([2]));
    assert!(reader.received(&opened, "more").is_none());
    // Number 1 of the old epoch is not that of the new one, whose place was the third.
    let mut again = publisher(&group(Algorithm::A128Gcm), b"a");
    let late = Err(Dropped::OldEpoch { epoch: 1, newest: 2 });
    assert_eq!(reader.open(TOPIC, &sealed(&mut again, TOPIC, b"old"), &mut out), late);
    assert_eq!(reader.open(TOPIC, &first, &mut out), Err(Dropped::Repeated { sequence: 1 }));
    let opened = reader.open(TOPIC, &sealed(&mut new, TOPIC, b"new"), &mut out).unwrap();
    assert_eq!(reader.received(&opened, TOPIC).map(|(_, next)| next), Some(3));
    assert!(reader.material(1, b"a").is_none() && reader.material(2, b"a").is_some());
}

#[test]
fn places_of_a_retired_epoch_are_cleared() {
    // The old epoch's publisher has the first place. After its end the new one's has it.
    let mut reader = group(Algorithm::A128Gcm);
    let mut out = Vec::new();
    let mut old = publisher(&reader, b"a");
    let unheard = sealed(&mut old, TOPIC, b"1");
    reader.open(TOPIC, &sealed(&mut old, TOPIC, b"2"), &mut out).unwrap();
    reader.install(2, &[7; 32]);
    let mut new = publisher(&reader, b"a");
    reader.open(TOPIC, &sealed(&mut new, TOPIC, b"1"), &mut out).unwrap();
    reader.retire_before(2);
    assert_eq!(reader.open(TOPIC, &unheard, &mut out), Err(Dropped::OldEpoch { epoch: 1, newest: 2 }));
}

#[test]
fn unlisted_publisher_is_refused_at_once() {
    let mut group = group(Algorithm::A128Gcm);
    let (mut a, mut b) = (publisher(&group, b"a"), publisher(&group, b"b"));
    let mut out = Vec::new();
    for from in [&mut a, &mut b] {
        let message = sealed(from, TOPIC, b"x");
        group.open(TOPIC, &message, &mut out).unwrap();
    }
    // Its messages were the last ones, and their place is known.
    group.allow([b"a".to_vec()]);
    let denied = group.open(TOPIC, &sealed(&mut b, TOPIC, b"x"), &mut out);
    assert_eq!(denied, Err(Dropped::NotPublisher { publisher: "b".into() }));
    assert!(group.open(TOPIC, &sealed(&mut a, TOPIC, b"x"), &mut out).is_ok());
}

#[test]
fn installed_secret_stays() {
    let mut group = Group::new("line 4", Algorithm::A128Gcm);
    assert_eq!((group.newest(), group.has(1, &SECRET)), (None, false));
    group.install(3, &SECRET);
    group.install(3, &[1; 32]);
    group.install(2, &[2; 32]);
    assert!(group.has(3, &SECRET) && !group.has(3, &[1; 32]) && group.has(2, &[2; 32]));
    let mut near = SECRET;
    near[31] ^= 1;
    assert!(!group.has(3, &near) && !group.has(2, &SECRET));
    assert_eq!((group.newest(), group.epochs().collect::<Vec<_>>()), (Some(3), [2, 3].into()));
}

#[test]
fn epoch_is_told_before_and_after() {
    let seal = |epoch: u32| {
        let mut group = Group::new("line 4", Algorithm::A128Gcm);
        group.install(epoch, &SECRET);
        sealed(&mut publisher(&group, b"a"), TOPIC, b"x")
    };
    let mut out = Vec::new();
    let mut empty = Group::new("line 4", Algorithm::A128Gcm);
    assert_eq!(empty.open(TOPIC, &seal(1), &mut out), Err(Dropped::UnknownEpoch { epoch: 1, newest: None }));
    let mut group = empty;
    group.install(5, &SECRET);
    assert_eq!(group.open(TOPIC, &seal(4), &mut out), Err(Dropped::OldEpoch { epoch: 4, newest: 5 }));
    let unknown = Err(Dropped::UnknownEpoch { epoch: 6, newest: Some(5) });
    assert_eq!(group.open(TOPIC, &seal(6), &mut out), unknown);
    assert!(group.open(TOPIC, &seal(5), &mut out).is_ok());
}

#[test]
fn checking_a_message_marks_nothing() {
    let mut group = group(Algorithm::A128Gcm);
    let mut a = publisher(&group, b"a");
    let (first, second) = (sealed(&mut a, TOPIC, b"x"), sealed(&mut a, TOPIC, b"y"));
    let mut out = Vec::new();
    for _ in 0..2 {
        assert_eq!(group.check_from(TOPIC, &first, |_| 1).map(drop), Ok(()));
        assert_eq!(group.streams, 0);
    }
    assert_eq!(
        group.check_from(TOPIC, &first, |_| 2).map(drop),
        Err(Dropped::Late { sequence: 1, lowest: 2 })
    );
    assert!(group.open(TOPIC, &first, &mut out).is_ok());
    for _ in 0..2 {
        assert_eq!(group.check_from(TOPIC, &second, |_| 1).map(drop), Ok(()));
        let again = Err(Dropped::Repeated { sequence: 1 });
        assert_eq!(group.check_from(TOPIC, &first, |_| 1).map(drop), again);
    }
    assert!(group.open(TOPIC, &second, &mut out).is_ok());
    let mut wrong = sealed(&mut a, TOPIC, b"z");
    *wrong.last_mut().unwrap() ^= 1;
    let forged = Err(Dropped::Unauthentic { publisher: "a".into(), epoch: 1 });
    assert_eq!(group.check_from(TOPIC, &wrong, |_| 1).map(drop), forged);
}

#[test]
fn lowest_number_is_asked_once_a_stream() {
    let mut group = group(Algorithm::A128Gcm);
    let mut a = publisher(&group, b"a");
    let (mut out, mut asked) = (Vec::new(), 0);
    for topic in [TOPIC, TOPIC, "other", TOPIC, "other"] {
        let message = sealed(&mut a, topic, b"x");
        group
            .open_from(topic, &message, &mut out, |_| {
                asked += 1;
                0
            })
            .unwrap();
    }
    assert_eq!(asked, 2);
}

#[test]
fn last_streams_are_prepared() {
    let mut group = group(Algorithm::A128Gcm);
    let mut publishers: Vec<_> = (0..RECENT + 3).map(|n| publisher(&group, &[b'a' + n as u8])).collect();
    let mut out = Vec::new();
    for round in 0..2 {
        for a in &mut publishers {
            let message = sealed(a, TOPIC, b"sixteen octets..");
            group.open(TOPIC, &message, &mut out).unwrap();
        }
        assert_eq!(group.recent.len(), RECENT, "{round}");
        // Each of the remembered ones is prepared, once.
        let mut done = 0;
        loop {
            match group.idle(1) {
                0 => break,
                steps => done += steps,
            }
        }
        assert!(done >= RECENT as u32, "{done}");
    }
    assert_eq!(group.idle(0), 0);
}

#[test]
fn only_authentic_algorithms_are_explained() {
    // With CBC alone anything opens, so nothing explains a refusal.
    for (algorithm, explained) in [(Algorithm::A128Gcm, true), (Algorithm::Aes128CbcHmacSha256, true)] {
        let mut group = group(algorithm);
        let mut a = publisher(&group, b"a");
        let mut out = Vec::new();
        group.open(TOPIC, &sealed(&mut a, TOPIC, b"x"), &mut out).unwrap();
        let moved = group.open("other", &sealed(&mut a, TOPIC, b"y"), &mut out);
        assert_eq!(matches!(moved, Err(Dropped::Moved { .. })), explained, "{moved:?}");
        assert!(out.is_empty());
    }
    let mut group = group(Algorithm::Aes128CbcUnauthenticated);
    let mut a = publisher(&group, b"a");
    let mut out = Vec::new();
    group.open(TOPIC, &sealed(&mut a, TOPIC, b"x"), &mut out).unwrap();
    let mut cut = sealed(&mut a, TOPIC, b"y");
    cut.pop();
    let refused = group.open(TOPIC, &cut, &mut out);
    assert!(refused.is_err(), "{refused:?}");
    assert!(out.is_empty());
}

#[test]
fn refusals_name_what_came() {
    let mut group = group(Algorithm::A128Gcm);
    let (mut a, mut b) = (publisher(&group, b"a"), publisher(&group, b"b"));
    let mut out = Vec::new();
    for from in [&mut a, &mut b] {
        let message = sealed(from, TOPIC, b"x");
        group.open(TOPIC, &message, &mut out).unwrap();
    }
    let other = super::setup::group(Algorithm::A256Gcm);
    let message = sealed(&mut publisher(&other, b"a"), TOPIC, b"x");
    let expected = Dropped::Algorithm { given: 3, expected: Algorithm::A128Gcm };
    assert_eq!(group.open(TOPIC, &message, &mut out), Err(expected));
    let mut message = sealed(&mut a, TOPIC, b"x");
    assert_eq!(group.open("a/+", &message, &mut out), Err(Dropped::Topic(topic::TopicError::Wildcard)));
    let at = message.iter().position(|byte| *byte == b'a').unwrap();
    message[at] = b'b';
    let expected = Dropped::Impersonated { named: "b".into(), by: "a".into() };
    assert_eq!(group.open(TOPIC, &message, &mut out), Err(expected));
    assert!(matches!(group.open(TOPIC, b"21.5", &mut out), Err(Dropped::NotEnvelope(_))));
}

#[test]
fn template_faults_are_named() {
    use PayloadTemplateError::{Hole, NoHole, Order, Topic};
    let of = |topic: &str, holes: &[Range<usize>]| PayloadTemplate::new(topic, b"abcdef", holes);
    let one = |start: usize, end: usize| [Range { start, end }];
    assert_eq!(of("a/#", &one(1, 2)).unwrap_err(), Topic(topic::TopicError::Wildcard));
    assert_eq!(of(TOPIC, &[]).unwrap_err(), NoHole);
    for (holes, expected) in [
        (&[1..3, 2..4][..], Some(false)),
        (&[3..4, 1..2], Some(false)),
        (&[1..3, 3..4], None),
        (&[1..2, 4..6], None),
        (&one(4, 7), Some(true)),
        (&one(2, 2), Some(true)),
    ] {
        let made = of(TOPIC, holes).map(drop);
        match expected {
            None => assert_eq!(made, Ok(()), "{holes:?}"),
            Some(false) => assert_eq!(made, Err(Order), "{holes:?}"),
            Some(true) => assert!(matches!(made, Err(Hole(_))), "{holes:?}"),
        }
    }
    let texts = [Topic(topic::TopicError::Empty), NoHole, Order].map(|fault| fault.to_string());
    assert!(texts.iter().all(|text| text.len() > 10), "{texts:?}");
}

#[test]
fn template_takes_values_of_its_lengths() {
    let template = PayloadTemplate::marked(TOPIC, b"@@-@").unwrap();
    for (values, fits) in [
        (&[&b"ab"[..], b"c"][..], true),
        (&[b"ab"], false),
        (&[b"ab", b"c", b""], false),
        (&[b"ab", b""], false),
        (&[b"abc", b"c"], false),
    ] {
        assert_eq!(template.fits(values), fits, "{values:?}");
        let filled: usize = template.fill(values).len();
        assert_eq!(template.filled_len(values), filled);
    }
    assert_eq!(template.fill(&[b"abc"]), b"abc-");
}

#[test]
fn material_names_have_bounded_length() {
    let group = group(Algorithm::A128Gcm);
    for (len, fits) in [(0, false), (1, true), (64, true), (65, false)] {
        assert_eq!(group.material(1, &[b'a'; 65][..len]).is_some(), fits, "{len}");
    }
    assert_eq!(format!("{:?}", group.material(1, b"a").unwrap()), "Material(aes-128-gcm, epoch 1, ..)");
}

#[test]
fn reserved_numbers_begin_at_one() {
    let mut numbers = Reserved::new(0, 3);
    assert_eq!((numbers.next(), numbers.left()), (1, 2));
    assert_eq!((numbers.take(), numbers.take()), (Ok(1), Ok(2)));
    assert!(numbers.take().is_err());
    numbers.raise(2);
    assert!(numbers.take().is_err(), "a limit does not fall");
    numbers.raise(4);
    assert_eq!((numbers.left(), numbers.take()), (1, Ok(3)));
}

#[test]
fn shed_publishers_go_on_by_record() {
    let mut group = group(Algorithm::A128Gcm);
    let mut publishers = [b"a", b"b", b"c"].map(|name| publisher(&group, name));
    let first: Vec<Vec<u8>> = publishers.iter_mut().map(|one| sealed(one, "t", b"1")).collect();
    for message in &first {
        group.open("t", message, &mut Vec::new()).expect("opened");
    }
    group.open("u", &sealed(&mut publishers[0], "u", b"2"), &mut Vec::new()).expect("opened");
    assert_eq!(group.streams(), 4);
    group.shed(4);
    assert_eq!(group.streams(), 4);
    // The first publisher spoke last, and has two.
    group.shed(3);
    assert_eq!(group.streams(), 3);
    let mut open = |message: &[u8]| group.open_from("t", message, &mut Vec::new(), |_| 2);
    assert_eq!(open(&first[2]), Err(Dropped::Repeated { sequence: 1 }));
    assert_eq!(open(&first[1]), Err(Dropped::Late { sequence: 1, lowest: 2 }));
    open(&sealed(&mut publishers[1], "t", b"3")).expect("opened");
    group.shed(0);
    assert_eq!(group.streams(), 0);
}
