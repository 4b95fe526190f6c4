//! The reason of each refusal, and the bounds of a publisher.

use antedate_aead::{NonceSequence, TemplateError};

use super::super::publisher::associated;
use super::super::{counter, extension};
use super::*;

/// A frame that a holder of the key may seal: any PDU, key number, sender and number.
fn sealed(form: Form, period: KeyPeriod, sender: [u8; 6], number: u64, pdu: &[u8]) -> Vec<u8> {
    let mut frame = [&[1; 6][..], &SENDER, &[0x88, 0xb8]].concat();
    let mut header = [0; goose::HEADER_LEN];
    let length = (goose::HEADER_LEN + pdu.len()) as u16;
    goose::Repr { appid: 0x1000, length, reserved1: EXTENSION_LEN as u16, reserved2: 0 }
        .emit(&mut header)
        .unwrap();
    let crc = extension::crc(antedate_wire::EtherType::Goose, &header);
    header[6..].copy_from_slice(&crc.to_be_bytes());
    frame.extend(header);
    let (mut aad, period) = (Vec::new(), period.emit());
    associated(&mut aad, &[&frame], &period, form, pdu);
    let plain = if form == Form::Encrypted { pdu } else { &[] };
    let mut text = vec![0; plain.len()];
    let nonce = counter::nonce(sender, number);
    let tag = key().seal(antedate_aead::Nonce::assume_unique(nonce), &aad, plain, &mut text);
    frame.extend(if form == Form::Encrypted { &text } else { pdu });
    frame.extend(extension::emit(&period, &nonce, tag.as_bytes()));
    frame
}

fn pdu() -> Vec<u8> {
    let values = values(1);
    let mut out = vec![0; 512];
    let len = message(&values).emit(&mut out, &mut |_| ()).unwrap();
    out[goose::HEADER_LEN..len].to_vec()
}

fn changed(frame: &[u8], at: usize) -> Vec<u8> {
    let mut changed = frame.to_vec();
    changed[at] ^= 1;
    changed
}

#[test]
fn each_refusal_has_its_reason() {
    for form in FORMS {
        let good = sealed(form, PERIOD, SENDER, 5, &pdu());
        assert!(subscriber(form, 0).receive(&good).is_ok());
        let mac = good.len() - 1;
        let other_key = KeyPeriod { key: PERIOD.key + 1, ..PERIOD };
        let huge = vec![0; CAPACITY + 1];
        let cases = [
            (good[..13].to_vec(), Dropped::Malformed),
            (changed(&good, 13), Dropped::Malformed),
            (good[..mac].to_vec(), Dropped::Malformed),
            (good[..20].to_vec(), Dropped::Malformed),
            (changed(&good, mac - 16), Dropped::Malformed),
            (changed(&good, 19), Dropped::Unprotected),
            (changed(&good, 20), Dropped::Crc),
            (changed(&good, 21), Dropped::Crc),
            (changed(&good, 14), Dropped::Crc),
            (sealed(form, other_key, SENDER, 5, &pdu()), Dropped::UnknownKey),
            (sealed(form, PERIOD, [0, 0, 0, 0, 0, 8], 5, &pdu()), Dropped::UnknownSender),
            (sealed(form, PERIOD, SENDER, 0, &pdu()), Dropped::Late),
            (sealed(form, PERIOD, SENDER, END, &pdu()), Dropped::Late),
            (changed(&good, mac), Dropped::Unauthentic),
            (changed(&good, 0), Dropped::Unauthentic),
            (changed(&good, 11), Dropped::UnknownSender),
            (changed(&good, 22), Dropped::Unauthentic),
            (changed(&good, good.len() - EXTENSION_LEN), Dropped::Unauthentic),
            (sealed(form, PERIOD, SENDER, 5, &huge), Dropped::Malformed),
            (sealed(form, PERIOD, SENDER, 5, &pdu()[1..]), Dropped::Pdu),
            (sealed(form, PERIOD, SENDER, 5, &[]), Dropped::Pdu),
        ];
        for (at, (frame, expected)) in cases.into_iter().enumerate() {
            let mut subscriber = subscriber(form, 0);
            assert_eq!(subscriber.receive(&frame), Err(expected), "{form:?}, case {at}");
            let mut counters = Counters::default();
            let counter = match expected {
                Dropped::Malformed => &mut counters.malformed,
                Dropped::Unprotected => &mut counters.unprotected,
                Dropped::Crc => &mut counters.crc,
                Dropped::UnknownKey => &mut counters.unknown_key,
                Dropped::UnknownSender => &mut counters.unknown_sender,
                Dropped::Late => &mut counters.late,
                Dropped::Unauthentic => &mut counters.unauthentic,
                _ => &mut counters.pdu,
            };
            *counter = 1;
            assert_eq!(*subscriber.counters(), counters, "{form:?}, case {at}");
            // An authentic number counts even if its PDU does not.
            assert_eq!(next_number(&subscriber), if expected == Dropped::Pdu { 6 } else { 1 }, "case {at}");
        }
    }
}

#[test]
fn longest_pdu_is_authenticated() {
    for form in FORMS {
        let mut subscriber = subscriber(form, 0);
        let frame = sealed(form, PERIOD, SENDER, 5, &vec![0; CAPACITY]);
        assert_eq!(subscriber.receive(&frame), Err(Dropped::Pdu));
    }
}

#[test]
fn window_tells_late_from_duplicate() {
    let frames: Vec<_> =
        (0..9).map(|number| sealed(Form::Authenticated, PERIOD, SENDER, number, &pdu())).collect();
    let mut wide = subscriber(Form::Authenticated, 4);
    for (number, expected) in [
        (7, Ok(())),
        (7, Err(Dropped::Duplicate)),
        (4, Ok(())),
        (4, Err(Dropped::Duplicate)),
        (3, Err(Dropped::Late)),
        (8, Ok(())),
    ] {
        assert_eq!(wide.receive(&frames[number]).map(drop), expected, "{number}");
    }
    assert_eq!((wide.counters().duplicate, wide.counters().late, next_number(&wide)), (2, 1, 9));
    let mut narrow = subscriber(Form::Authenticated, 0);
    assert!(narrow.receive(&frames[7]).is_ok());
    assert_eq!(narrow.receive(&frames[6]), Err(Dropped::Late));
}

#[test]
fn state_and_sequence_skip_zero() {
    let layout = layout(Form::Authenticated);
    let mut publisher = publisher(&layout);
    (publisher.st_num, publisher.sq_num) = (u32::MAX - 1, 0);
    for expected in [(u32::MAX, 0), (1, 0), (2, 0)] {
        event(&mut publisher, 1);
        assert_eq!((publisher.st_num, publisher.sq_num), expected);
    }
    publisher.sq_num = u32::MAX - 1;
    for expected in [u32::MAX, 1, 2] {
        let frame = repeat(&mut publisher);
        let read = Message::parse(&frame[14..]).unwrap();
        assert_eq!((read.st_num, read.sq_num, publisher.sq_num), (2, expected, expected));
    }
    // An event begins again.
    event(&mut publisher, 1);
    assert_eq!((publisher.st_num, publisher.sq_num), (3, 0));
}

#[test]
fn buffer_must_hold_the_frame() {
    let layout = layout(Form::Encrypted);
    let mut publisher = publisher(&layout);
    let mut out = vec![0; layout.frame_len()];
    let short = out.len() - 1;
    assert_eq!(publisher.event([0; 8], LIFETIME, &values(1), &mut out[..short]), Err(PublishError::Buffer));
    assert_eq!(publisher.event([0; 8], LIFETIME, &values(1), &mut out), Ok(layout.frame_len()));
    assert_eq!(publisher.repeat(LIFETIME, &mut out[..short]), Err(PublishError::Buffer));
    assert_eq!((publisher.sq_num, publisher.counter_mut().left()), (0, 9998), "no number was spent");
    assert_eq!(publisher.repeat(LIFETIME, &mut out), Ok(layout.frame_len()));
    assert_eq!(publisher.counter_mut().left(), 9997);
}

#[test]
fn unpreparable_message_has_no_layout() {
    let address = EthernetAddress([2; 6]);
    let of = |values: &[Value<'_>]| {
        let layout = Layout::new(address, address, &message(values), Form::Encrypted, PERIOD)?;
        Publisher::new(key(), Counter::new(SENDER, 1, 9), &layout).map(drop)
    };
    // Each value touches a block or two of its own.
    assert_eq!(of(&[Value::Boolean(true); 60]), Ok(()));
    let many = of(&[Value::Boolean(true); 200]);
    assert!(matches!(many, Err(LayoutError::Template(TemplateError::TooManyBlocks { .. }))), "{many:?}");
    let wide = of(&[Value::Integer(1 << 20, 2)]);
    assert!(matches!(wide, Err(LayoutError::Message(_))), "{wide:?}");
}

#[test]
fn numbers_end_at_their_limit() {
    let mut counter = Counter::new(SENDER, 5, 7);
    let take = |counter: &mut Counter| counter.next().map(|(number, _)| number);
    assert_eq!((take(&mut counter), take(&mut counter)), (Ok(5), Ok(6)));
    assert_eq!((take(&mut counter), counter.left()), (Err(NumberError::NotReserved), 0));
    counter.reserve_until(6);
    assert_eq!(take(&mut counter), Err(NumberError::NotReserved), "a limit does not fall");
    counter.reserve_until(8);
    assert_eq!((counter.left(), take(&mut counter)), (1, Ok(7)));
    let mut last = Counter::new(SENDER, END - 1, u64::MAX);
    assert_eq!((take(&mut last), take(&mut last)), (Ok(END - 1), Err(NumberError::Exhausted)));
}

#[test]
fn lifetime_and_tag_are_in_the_frame() {
    use antedate_wire::VlanTagStack;
    use antedate_wire::vlan::{Tci, VlanId};
    for form in FORMS {
        let layout = layout(form).tagged(Tci::new(4, false, VlanId::PRIORITY));
        let (mut publisher, mut subscriber) = (publisher(&layout), subscriber(form, 0));
        let mut out = vec![0; layout.frame_len()];
        let len = publisher.event([1; 8], 40, &values(1), &mut out).unwrap();
        assert_eq!(len, layout.frame_len());
        let stack = VlanTagStack::parse(&out).unwrap();
        assert_eq!((stack.tags().len(), stack.tags()[0].tci.priority(), stack.vlan()), (1, 4, None));
        let first = subscriber.receive(&out).map(|message| message.publisher.time_allowed_to_live);
        assert_eq!(first, Ok(40));
        publisher.repeat(70_000, &mut out).unwrap();
        let read = subscriber.receive(&out).unwrap();
        assert_eq!((read.publisher.time_allowed_to_live, read.sq_num), (70_000, 1));
        assert_eq!(read.all_data, Values::Given(&values(1)));
    }
}

#[test]
fn publishers_with_one_key_are_told_apart() {
    let frames =
        |sender| (1..4).map(move |number| sealed(Form::Authenticated, PERIOD, sender, number, &pdu()));
    // The addresses of a frame are authenticated, so each has one of its own.
    let other = |frame: Vec<u8>, sender: [u8; 6]| {
        let mut frame = frame;
        frame[6..12].copy_from_slice(&sender);
        frame
    };
    let mut subscriber = subscriber(Form::Authenticated, 0);
    for frame in frames(SENDER) {
        assert!(subscriber.receive(&frame).is_ok());
    }
    let moved: Vec<_> = frames(SENDER).map(|frame| other(frame, [9; 6])).collect();
    assert_eq!(subscriber.receive(&moved[0]), Err(Dropped::UnknownSender));
    assert_eq!(subscriber.publishers().count(), 1, "a forger has no window");

    let mut full = self::subscriber(Form::Authenticated, 0);
    (0..MAX_PUBLISHERS).for_each(|number| full.refuse_below(PERIOD.key, [number as u8, 1, 1, 1, 1, 1], 5));
    full.refuse_below(PERIOD.key, [0xff; 6], 5);
    assert_eq!(full.publishers().count(), MAX_PUBLISHERS);
    assert_eq!(full.receive(&frames(SENDER).next().unwrap()), Err(Dropped::UnknownSender));
}
