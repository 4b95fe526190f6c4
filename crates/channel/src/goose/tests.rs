//! A publisher and a subscriber, with a faulty network between them.

mod age;
mod hmac;
mod keys;
mod routed;
mod rules;
mod sampler;
mod supervision;

use super::*;
use crate::world::Rng;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use antedate_aead::{Aes128Gcm, Key};
use antedate_wire::EthernetAddress;
use antedate_wire::goose::{self, Message, Value, Values};
use std::vec;
use std::vec::Vec;

const KEY: [u8; 16] = *b"sixteen byte key";
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// In milliseconds.
const LIFETIME: u32 = 500;
const PERIOD: KeyPeriod = KeyPeriod { key: 7, since: 1_790_000_000, minutes_left: 60 };

fn message<'a>(values: &'a [Value<'a>]) -> Message<'a> {
    Message {
        appid: 0x1000,
        publisher: goose::Publisher {
            gocb_ref: b"antedateLD0/LLN0$GO$gcbTrip",
            time_allowed_to_live: 500,
            dat_set: b"antedateLD0/LLN0$dsTrip",
            go_id: Some(b"antedate"),
        },
        t: [0; 8],
        st_num: 0,
        sq_num: 0,
        simulation: false,
        conf_rev: 3,
        nds_com: false,
        all_data: Values::Given(values),
    }
}

fn values(event: i32) -> [Value<'static>; 3] {
    [Value::Boolean(event % 2 == 1), Value::int32(event), Value::Float32(event as f32 / 2.0)]
}

fn layout(form: Form) -> Layout {
    let destination = EthernetAddress([0x01, 0x0c, 0xcd, 0x01, 0x00, 0x01]);
    let source = EthernetAddress(SENDER);
    Layout::new(destination, source, &message(&values(0)), form, PERIOD).unwrap()
}

fn key() -> Key<Aes128Gcm> {
    Key::new(&KEY).unwrap()
}

fn publisher(layout: &Layout) -> Publisher<'_, Aes128Gcm> {
    Publisher::new(key(), Counter::new(SENDER, 1, 10_000), layout).unwrap()
}

fn subscriber(form: Form, window: u32) -> Subscriber<Aes128Gcm> {
    Subscriber::new(key(), PERIOD.key, form, window)
}

fn next_number(subscriber: &Subscriber<Aes128Gcm>) -> u64 {
    subscriber.publishers().find(|(_, sender, _)| *sender == SENDER).map_or(1, |(_, _, next)| next)
}

/// A new process with what the old one has stored.
fn restarted(old: &Subscriber<Aes128Gcm>, form: Form, window: u32) -> Subscriber<Aes128Gcm> {
    let mut new = subscriber(form, window);
    old.publishers().for_each(|(key, sender, lowest)| new.refuse_below(key, sender, lowest));
    new
}

const FORMS: [Form; 2] = [Form::Authenticated, Form::Encrypted];

fn event(publisher: &mut Publisher<'_, Aes128Gcm>, event: i32) -> Vec<u8> {
    let mut out = vec![0; 512];
    let len = publisher.event([event as u8; 8], LIFETIME, &values(event), &mut out).unwrap();
    out.truncate(len);
    out
}

fn repeat(publisher: &mut Publisher<'_, Aes128Gcm>) -> Vec<u8> {
    let mut out = vec![0; 512];
    let len = publisher.repeat(LIFETIME, &mut out).unwrap();
    out.truncate(len);
    out
}

#[test]
fn events_and_repeats_keep_their_numbers() {
    for form in FORMS {
        let layout = layout(form);
        let (mut publisher, mut subscriber) = (publisher(&layout), subscriber(form, 0));
        for number in 1..20 {
            publisher.idle(if number % 3 == 0 { 5 } else { u32::MAX });
            let frame = event(&mut publisher, number);
            let got = subscriber.receive(&frame).unwrap();
            assert_eq!((got.st_num, got.sq_num, got.t), (number as u32, 0, [number as u8; 8]));
            assert_eq!(got.all_data, Values::Given(&values(number)));
            for again in 1..4 {
                publisher.idle(u32::MAX);
                let frame = repeat(&mut publisher);
                let got = subscriber.receive(&frame).unwrap();
                assert_eq!((got.st_num, got.sq_num, got.t), (number as u32, again, [number as u8; 8]));
            }
        }
        assert_eq!(*subscriber.counters(), Counters { delivered: 76, ..Counters::default() });
    }
}

#[test]
fn prepared_frame_matches_another_gcm() {
    for form in FORMS {
        let layout = layout(form);
        let (mut early, mut late) = (publisher(&layout), publisher(&layout));
        early.idle(u32::MAX);
        assert!(early.prepared() > 0);
        let frame = event(&mut early, 5);
        assert_eq!(frame, event(&mut late, 5));

        // RustCrypto's AES-GCM, over the octets that the documentation names.
        let (plain, extension) = frame.split_at(frame.len() - EXTENSION_LEN);
        let (head, pdu) = plain.split_at(14 + goose::HEADER_LEN);
        let nonce: [u8; 12] = extension[11..23].try_into().unwrap();
        let mut aad = [head, &extension[..10]].concat();
        let mut sealed = extension[25..].to_vec();
        match form {
            Form::Authenticated => aad.extend(pdu),
            Form::Encrypted => {
                sealed.splice(0..0, pdu.iter().copied());
            }
        }
        let gcm = aes_gcm::Aes128Gcm::new(&KEY.into());
        let opened = gcm.decrypt(&nonce.into(), Payload { msg: &sealed, aad: &aad }).unwrap();
        let pdu = if form == Form::Encrypted { &opened[..] } else { pdu };
        assert_eq!(Message::parse_pdu(0x1000, pdu).map(|message| message.st_num), Ok(1));
    }
}

#[test]
fn plain_subscriber_reads_gmac_form() {
    let layout = layout(Form::Authenticated);
    let frame = event(&mut publisher(&layout), 9);
    let read = Message::parse(&frame[14..]).unwrap();
    assert_eq!((read.st_num, read.all_data), (1, Values::Given(&values(9))));
    let header = goose::Repr::parse(&frame[14..]).unwrap();
    assert_eq!(usize::from(header.length) + 14 + EXTENSION_LEN, frame.len());
    assert_eq!((layout.frame_len(), layout.known_len()), (frame.len(), frame.len() - EXTENSION_LEN - 30));
}

#[test]
fn replayed_frame_is_not_delivered() {
    for (form, window) in [(Form::Authenticated, 0), (Form::Encrypted, 0), (Form::Authenticated, 64)] {
        let layout = layout(form);
        let (mut publisher, mut subscriber) = (publisher(&layout), subscriber(form, window));
        let frames: Vec<_> = (1..50).map(|number| event(&mut publisher, number)).collect();
        frames.iter().for_each(|frame| assert!(subscriber.receive(frame).is_ok()));
        for frame in &frames {
            let why = subscriber.receive(frame).unwrap_err();
            assert!(matches!(why, Dropped::Late | Dropped::Duplicate), "{why:?}");
        }
        let counters = subscriber.counters();
        assert_eq!((counters.delivered, counters.late + counters.duplicate), (49, 49));
        // Also after a restart that remembers the number.
        let mut restarted = restarted(&subscriber, form, window);
        assert!(frames.iter().all(|frame| restarted.receive(frame).is_err()));
        assert!(restarted.receive(&event(&mut publisher, 50)).is_ok());
    }
}

#[test]
fn every_changed_bit_is_refused() {
    for form in FORMS {
        let layout = layout(form);
        let frame = event(&mut publisher(&layout), 3);
        let mut subscriber = subscriber(form, 0);
        for bit in 0..8 * frame.len() {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(subscriber.receive(&changed).is_err(), "bit {bit}");
        }
        for len in 0..frame.len() {
            assert!(subscriber.receive(&frame[..len]).is_err(), "{len}");
        }
        let refused = *subscriber.counters();
        assert_eq!(refused.delivered, 0);
        let Counters { malformed, unprotected, crc, unknown_key, unknown_sender, late, unauthentic, .. } =
            refused;
        assert_eq!(
            malformed + unprotected + crc + unknown_key + unknown_sender + late + unauthentic,
            9 * frame.len() as u64,
            "{refused:?}"
        );
        assert!(subscriber.receive(&frame).is_ok(), "no forgery has marked a number");
    }
}

#[test]
fn vlan_tags_and_padding_are_accepted() {
    let layout = layout(Form::Authenticated);
    let frame = event(&mut publisher(&layout), 3);
    let tagged = [&frame[..12], &[0x81, 0, 0x80, 5], &frame[12..], &[0; 9]].concat();
    for frame in [&frame, &tagged] {
        let got = subscriber(Form::Authenticated, 0).receive(frame).map(|message| message.appid);
        assert_eq!(got, Ok(0x1000));
    }
    assert_eq!(subscriber(Form::Encrypted, 0).receive(&frame), Err(Dropped::Unauthentic));
    let mut plain = vec![0; 14 + 200];
    plain[..14].copy_from_slice(&frame[..14]);
    let len = message(&values(1)).emit(&mut plain[14..], &mut |_| ()).unwrap();
    assert_eq!(subscriber(Form::Authenticated, 0).receive(&plain[..14 + len]), Err(Dropped::Unprotected));
}

#[test]
fn refused_publish_spends_no_number() {
    let layout = layout(Form::Authenticated);
    let mut publisher = Publisher::new(key(), Counter::new(SENDER, 1, 2), &layout).unwrap();
    let mut out = vec![0; 512];
    assert_eq!(publisher.repeat(LIFETIME, &mut out), Err(PublishError::NoEvent));
    for wrong in [
        &[Value::Boolean(true)][..],
        &[Value::Boolean(true), Value::int32(1), Value::int32(1)],
        &[Value::Boolean(true), Value::uint32(1), Value::Float32(1.0)],
        &[Value::Boolean(true), Value::int16(1), Value::Float32(1.0)],
    ] {
        assert_eq!(publisher.event([0; 8], LIFETIME, wrong, &mut out), Err(PublishError::Values));
    }
    assert_eq!(publisher.event([0; 8], LIFETIME, &values(1), &mut out[..50]), Err(PublishError::Buffer));
    assert!(publisher.event([0; 8], LIFETIME, &values(1), &mut out).is_ok());
    assert_eq!(
        publisher.event([0; 8], LIFETIME, &values(2), &mut out),
        Err(PublishError::Number(NumberError::NotReserved))
    );
    assert_eq!((publisher.st_num, publisher.sq_num), (1, 0));
    publisher.counter_mut().reserve_until(3);
    let len = publisher.repeat(LIFETIME, &mut out).unwrap();
    let mut subscriber = subscriber(Form::Authenticated, 0);
    let got = subscriber.receive(&out[..len]).unwrap();
    assert_eq!(
        (got.st_num, got.sq_num, got.all_data),
        (1, 1, Values::Given(&values(1))),
        "the first event, not the second"
    );
    assert_eq!(next_number(&subscriber), 3);
    let mut last = Counter::new(SENDER, END, u64::MAX);
    assert_eq!(antedate_aead::NonceSequence::next(&mut last).map(drop), Err(NumberError::Exhausted));
}

#[test]
fn bad_wire_delivers_states_in_order() {
    let layout = layout(Form::Encrypted);
    let (mut publisher, mut subscriber) = (publisher(&layout), subscriber(Form::Encrypted, 0));
    let mut rng = Rng::new(8);
    let (mut wire, mut seen): (Vec<Vec<u8>>, Vec<(u32, u32)>) = (vec![], vec![]);
    for number in 1..2000 {
        publisher.idle(rng.below(40) as u32);
        let frame = if number == 1 || rng.happens(300) {
            event(&mut publisher, number)
        } else {
            repeat(&mut publisher)
        };
        if !rng.happens(100) {
            wire.push(frame);
        }
        if rng.happens(700) && !wire.is_empty() {
            let at = rng.below(wire.len());
            let frame = if rng.happens(100) { wire[at].clone() } else { wire.remove(at) };
            if let Ok(message) = subscriber.receive(&frame) {
                seen.push((message.st_num, message.sq_num));
            }
        }
    }
    assert!(seen.len() > 20 && seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(subscriber.counters().unauthentic, 0);
}
