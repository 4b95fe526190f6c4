//! Routed messages, beside another GCM.

use super::*;
use antedate_wire::routed::{Datagram, ELEMENT_LEN, Element, HEADER_LEN, Header, Kind, SIGNATURE_LEN, sign};

fn routed_layout() -> Layout {
    Layout::routed(&message(&values(0)), PERIOD).unwrap()
}

fn receiver(freshness: Freshness) -> RoutedSubscriber<Aes128Gcm> {
    RoutedSubscriber::new(key(), PERIOD.key, freshness)
}

/// A datagram of another implementation: any IV, any number.
fn theirs(number: u32, iv: [u8; 12], kind: Kind, message: &Message<'_>) -> Vec<u8> {
    let mut apdu = vec![0; message.buffer_len()];
    message.emit(&mut apdu, &mut |_| {}).unwrap();
    let apdu = &apdu[goose::HEADER_LEN..];
    let mut payload = vec![0; ELEMENT_LEN];
    Element { kind, simulation: true, appid: 0x1000 }.emit(apdu.len(), &mut payload).unwrap();
    payload.extend(apdu);
    let mut out = vec![0; HEADER_LEN];
    let header = Header { kind: Kind::Goose, number, since: 0, minutes_left: 0, key: PERIOD.key, iv };
    header.emit(payload.len(), &mut out).unwrap();
    let cipher = aes_gcm::Aes128Gcm::new(&KEY.into());
    let sealed = cipher.encrypt(&iv.into(), Payload { msg: &payload, aad: &out }).unwrap();
    let (text, tag) = sealed.split_at(payload.len());
    out.extend(text);
    let end = out.len();
    out.resize(end + SIGNATURE_LEN, 0);
    sign(&mut out[end..], tag.try_into().unwrap());
    out
}

#[test]
fn routed_datagram_matches_another_gcm() {
    let layout = routed_layout();
    let mut publisher = publisher(&layout);
    for number in 1..10 {
        publisher.idle(if number % 2 == 0 { 3 } else { u32::MAX });
        let datagram = event(&mut publisher, number);
        assert_eq!(datagram.len(), layout.frame_len());
        let Datagram { header, associated, payload, mac } = Datagram::parse(&datagram).unwrap();
        assert_eq!((header.number, &header.iv[..6]), (number as u32, &SENDER[..]));
        assert_eq!((header.key, header.since), (PERIOD.key, PERIOD.since));
        let cipher = aes_gcm::Aes128Gcm::new(&KEY.into());
        let sealed = [payload, mac].concat();
        let plain = cipher.decrypt(&header.iv.into(), Payload { msg: &sealed, aad: associated }).unwrap();
        let (element, apdu, rest) = Element::parse(&plain).unwrap();
        assert_eq!((element.kind, element.appid, rest.len()), (Kind::Goose, 0x1000, 0));
        let got = Message::parse_pdu(element.appid, apdu).unwrap();
        assert_eq!((got.st_num, got.all_data), (number as u32, Values::Given(&values(number))));
    }
}

#[test]
fn routed_events_and_repeats_arrive_once() {
    let layout = routed_layout();
    let (mut publisher, mut receiver) = (publisher(&layout), receiver(Freshness::Counter));
    for number in 1..10 {
        let datagram = event(&mut publisher, number);
        let got = receiver.receive(&datagram).unwrap();
        assert_eq!((got.st_num, got.sq_num, got.simulation), (number as u32, 0, false));
        assert_eq!(receiver.receive(&datagram), Err(Dropped::Late));
        let again = repeat(&mut publisher);
        assert_eq!(receiver.receive(&again).map(|got| got.sq_num), Ok(1));
        assert_eq!(receiver.receive(&datagram), Err(Dropped::Late));
    }
    // A new process refuses what the old one had.
    let last = event(&mut publisher, 10);
    receiver.receive(&last).unwrap();
    let mut new = RoutedSubscriber::new(key(), PERIOD.key, Freshness::Counter);
    receiver.publishers().for_each(|(key, sender, lowest)| new.refuse_below(key, sender, lowest));
    assert_eq!(new.receive(&last), Err(Dropped::Late));
    assert!(new.receive(&event(&mut publisher, 11)).is_ok());
}

#[test]
fn changed_datagram_is_dropped() {
    let layout = routed_layout();
    let datagram = event(&mut publisher(&layout), 1);
    let mut receiver = receiver(Freshness::Counter);
    for at in 0..datagram.len() {
        let mut changed = datagram.clone();
        changed[at] ^= 1;
        assert!(receiver.receive(&changed).is_err(), "{at}");
    }
    assert_eq!(receiver.counters().delivered, 0);
    assert!(receiver.receive(&datagram).is_ok());
    let mut other = RoutedSubscriber::new(key(), 8, Freshness::Counter);
    assert_eq!(other.receive(&datagram), Err(Dropped::UnknownKey));
}

#[test]
fn random_ivs_are_judged_by_number() {
    let values = values(3);
    let message = message(&values);
    let mut receiver = receiver(Freshness::Number);
    let datagram = theirs(5, [0xa5; 12], Kind::Goose, &message);
    assert_eq!(receiver.receive(&datagram).map(|got| got.simulation), Ok(true));
    assert_eq!(receiver.receive(&datagram), Err(Dropped::Duplicate));
    assert_eq!(receiver.receive(&theirs(4, [9; 12], Kind::Goose, &message)), Err(Dropped::Late));
    assert!(receiver.receive(&theirs(6, [8; 12], Kind::Goose, &message)).is_ok());
    // Another control block has its own numbers.
    let mut other = message;
    other.publisher.gocb_ref = b"other";
    assert!(receiver.receive(&theirs(1, [7; 12], Kind::Goose, &other)).is_ok());
    // An authentic element of another kind.
    assert_eq!(receiver.receive(&theirs(7, [6; 12], Kind::Sampled, &message)), Err(Dropped::Pdu));
}
