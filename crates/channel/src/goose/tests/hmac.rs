//! HMAC-SHA256-128, beside the hash alone (RFC 2104).

use super::*;
use sha2::{Digest, Sha256};

const HMAC_KEY: [u8; HMAC_KEY_LEN] = [0x5a; HMAC_KEY_LEN];

fn hmac_publisher(layout: &Layout) -> Publisher<'_, Aes128Gcm> {
    Publisher::new(HmacKey::new(&HMAC_KEY), Counter::new(SENDER, 1, 10_000), layout).unwrap()
}

fn hmac_subscriber() -> Subscriber<Aes128Gcm> {
    Subscriber::new(HmacKey::new(&HMAC_KEY), PERIOD.key, Form::Authenticated, 0)
}

#[test]
fn signed_frame_matches_the_definition() {
    let layout = layout(Form::Authenticated);
    let frame = event(&mut hmac_publisher(&layout), 5);
    assert_eq!(frame.len(), layout.frame_len());
    let (plain, extension) = frame.split_at(frame.len() - EXTENSION_LEN);
    let (head, pdu) = plain.split_at(14 + goose::HEADER_LEN);
    let covered = [head, &extension[..10], pdu, &extension[11..23]].concat();
    let pad = |octet: u8| {
        let mut block = [octet; 64];
        block.iter_mut().zip(HMAC_KEY).for_each(|(pad, key)| *pad ^= key);
        block
    };
    let inner = Sha256::digest([&pad(0x36)[..], &covered].concat());
    let outer = Sha256::digest([&pad(0x5c)[..], &inner].concat());
    assert_eq!(extension[25..], outer[..16]);
}

#[test]
fn signed_events_and_repeats_arrive_once() {
    let layout = layout(Form::Authenticated);
    let (mut publisher, mut subscriber) = (hmac_publisher(&layout), hmac_subscriber());
    for number in 1..20 {
        publisher.idle(u32::MAX);
        assert_eq!(publisher.prepared(), 0);
        for frame in [event(&mut publisher, number), repeat(&mut publisher)] {
            let got = subscriber.receive(&frame).unwrap();
            assert_eq!((got.st_num, got.all_data), (number as u32, Values::Given(&values(number))));
            assert_eq!(subscriber.receive(&frame), Err(Dropped::Late));
        }
    }
    assert_eq!(publisher.counter_mut().left(), 10_000 - 1 - 38);
}

#[test]
fn every_changed_bit_of_a_signed_frame_is_refused() {
    let layout = layout(Form::Authenticated);
    let frame = event(&mut hmac_publisher(&layout), 3);
    let mut subscriber = hmac_subscriber();
    for bit in 0..8 * frame.len() {
        let mut changed = frame.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(subscriber.receive(&changed).is_err(), "bit {bit}");
    }
    assert!(subscriber.receive(&frame).is_ok());
}

#[test]
fn algorithms_are_not_mixed() {
    let layout = layout(Form::Authenticated);
    let signed = event(&mut hmac_publisher(&layout), 3);
    let authenticated = event(&mut publisher(&layout), 3);
    assert_eq!(subscriber(Form::Authenticated, 0).receive(&signed), Err(Dropped::Unauthentic));
    assert_eq!(hmac_subscriber().receive(&authenticated), Err(Dropped::Unauthentic));
    // A key of each: the number in the message tells which.
    let mut both = subscriber(Form::Authenticated, 0);
    assert!(both.accept(HmacKey::new(&HMAC_KEY), PERIOD.key + 1));
    let next = layout_of(PERIOD.key + 1);
    assert!(both.receive(&authenticated).is_ok());
    let frame = event(&mut hmac_publisher(&next), 4);
    assert!(both.receive(&frame).is_ok());
    // An encrypted message has no HMAC.
    let mut encrypted = Subscriber::<Aes128Gcm>::new(HmacKey::new(&HMAC_KEY), PERIOD.key, Form::Encrypted, 0);
    assert_eq!(encrypted.receive(&signed), Err(Dropped::Unauthentic));
    for layout in [super::layout(Form::Encrypted), Layout::routed(&message(&values(0)), PERIOD).unwrap()] {
        let made = Publisher::<Aes128Gcm>::new(HmacKey::new(&HMAC_KEY), Counter::new(SENDER, 1, 2), &layout);
        assert_eq!(made.err(), Some(LayoutError::Encrypted));
    }
}

fn layout_of(key: u32) -> Layout {
    let destination = EthernetAddress([0x01, 0x0c, 0xcd, 0x01, 0x00, 0x01]);
    let period = KeyPeriod { key, ..PERIOD };
    Layout::new(destination, EthernetAddress(SENDER), &message(&values(0)), Form::Authenticated, period)
        .unwrap()
}

#[test]
fn group_changes_its_algorithm() {
    let before = layout(Form::Authenticated);
    let mut first = publisher(&before);
    let old = event(&mut first, 1);
    let after = layout_of(PERIOD.key + 1);
    let mut second = hmac_publisher(&after).continued(&first.into_last()).unwrap();
    let new = repeat(&mut second);
    let mut subscriber = subscriber(Form::Authenticated, 0);
    assert!(subscriber.accept(HmacKey::new(&HMAC_KEY), PERIOD.key + 1));
    assert!(subscriber.receive(&old).is_ok());
    assert_eq!(subscriber.receive(&new).map(|message| (message.st_num, message.sq_num)), Ok((1, 1)));
    assert!(subscriber.receive(&old).is_err());
}
