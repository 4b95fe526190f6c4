use super::*;
use crate::template::{front, known, moved, touched};
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

fn fixed(value: i64) -> Fixed {
    Fixed { value, digits: 2, width: 8 }
}

fn emit(repr: &Repr<'_>) -> (Vec<u8>, Vec<Hole>) {
    let (mut out, mut holes) = (vec![0; 2048], vec![]);
    let len = repr.emit(&mut out, &mut |hole| holes.push(hole)).unwrap();
    out.truncate(len);
    (out, holes)
}

fn measurement(ts: u64, values: &[i64]) -> (Vec<u8>, Vec<Hole>) {
    let values: Vec<_> = values.iter().map(|value| fixed(*value)).collect();
    let time: Vec<_> =
        (0..values.len() as i64).map(|i| Fixed { value: 20 * i, digits: 0, width: 3 }).collect();
    let series = [Series { name: "temperature", unit: Some("Cel"), values: &values }];
    let list = [Measurement { ts: Time(ts), time: &time, series: &series }];
    emit(&Repr { device: "a4927dad-58d4-4580-b460-79cefd56775b", body: Body::Measurements(&list) })
}

#[test]
fn text_matches_the_specification() {
    let (bytes, _) = measurement(1_022_743_810_123, &[4542, -5, 0]);
    assert_eq!(
        core::str::from_utf8(&bytes),
        Ok("{\"content-spec\":\"urn:spec://eclipse.org/unide/measurement-message#v3\",\"device\":{\"id\":\
            \"a4927dad-58d4-4580-b460-79cefd56775b\"},\"measurements\":[{\"context\":{\"temperature\":{\"unit\":\"Cel\"}},\
            \"ts\":\"2002-05-30T07:30:10.123Z\",\"series\":{\"time\":[  0, 20, 40],\
            \"temperature\":[   45.42,   -0.05,    0.00]}}]}")
    );
    let read = Message::parse(&bytes);
    assert!(read.is_ok_and(|message| message.kind == Kind::Measurement && message.entries == 1));
}

#[test]
fn measurement_is_mostly_known() {
    let (bytes, holes) = measurement(1_022_743_810_123, &[4542, 4640, 4424]);
    let ranges = || holes.iter().map(|hole| hole.range.clone());
    // A time of 24, three offsets of 3, three values of 8.
    assert_eq!((bytes.len(), known(bytes.len(), ranges())), (292, 292 - 57));
    assert_eq!(front(bytes.len(), ranges()), 189);
    assert_eq!(touched(ranges()), 10);
    let (other, places) = measurement(1_022_743_830_987, &[-99_999, 12, 3]);
    assert_eq!(places, holes);
    let moved: Vec<_> = moved(&[&bytes, &other], 0).unwrap().collect();
    assert!(moved.iter().all(|m| holes.iter().any(|h| h.range.start <= m.start && m.end <= h.range.end)));
}

#[test]
fn machine_message_ends_in_its_holes() {
    let notice = Notice {
        ts: Time(0),
        code: "190ABT",
        severity: Some("HIGH"),
        title: Some("control board damaged"),
        origin: None,
    };
    let (bytes, holes) = emit(&Repr { device: "press-7", body: Body::Notices(&[notice]) });
    let ranges = || holes.iter().map(|hole| hole.range.clone());
    assert_eq!((bytes.len(), known(bytes.len(), ranges()), front(bytes.len(), ranges())), (205, 175, 161));
    assert!(bytes.ends_with(b"\"ts\":\"1970-01-01T00:00:00.000Z\",\"code\":\"190ABT\"}]}"));
    assert!(Message::parse(&bytes).is_ok_and(|m| m.kind == Kind::Machine && m.device == b"press-7"));
}

#[test]
fn times_follow_the_calendar() {
    for (ms, text) in [
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (Time::LAST, "9999-12-31T23:59:59.999Z"),
    ] {
        assert_eq!(Time(ms).text().as_ref().map(|t| core::str::from_utf8(t).unwrap()), Ok(text));
    }
    assert_eq!(Time(Time::LAST + 1).text(), Err(Error::Value));
}

#[test]
fn oversized_values_are_refused() {
    let mut out = [0; WIDEST];
    assert_eq!(fixed(9_999_999).text(&mut out), Ok(&b"99999.99"[..]));
    assert_eq!(fixed(-9_999_999).text(&mut out), Err(Error::Length));
    assert_eq!(Fixed { value: 0, digits: 10, width: 20 }.text(&mut out), Err(Error::Value));
    assert_eq!(
        Fixed { value: i64::MIN, digits: 0, width: 20 }.text(&mut out),
        Ok(&b"-9223372036854775808"[..])
    );
    let wrong = Repr { device: "a\"b", body: Body::Notices(&[]) };
    assert_eq!(wrong.emit(&mut [0; 512], &mut |_| ()), Err(Error::Value));
}

#[test]
fn incomplete_messages_are_refused() {
    let spec = "\"content-spec\":\"urn:spec://eclipse.org/unide/machine-message#v3\"";
    let good =
        std::format!("{{{spec},\"device\":{{\"id\":\"d\"}},\"messages\":[{{\"ts\":\"t\",\"code\":\"c\"}}]}}");
    assert!(Message::parse(good.as_bytes()).is_ok());
    for (from, to) in [
        ("#v3", "#v2"),
        ("\"id\"", "\"di\""),
        ("\"ts\"", "\"st\""),
        ("\"code\"", "\"edoc\""),
        ("\"c\"", "7"),
        ("\"d\"", "\"\""),
        ("messages", "measurements"),
        ("{\"ts\":\"t\",\"code\":\"c\"}", ""),
        ("}]}", "}]}}"),
        ("}]}", "}],\"device\":{\"id\":\"e\"}}"),
    ] {
        assert_ne!(good, good.replace(from, to));
        assert_eq!(Message::parse(good.replace(from, to).as_bytes()), Err(Error::Value), "{from} {to}");
    }
    for len in 0..good.len() {
        assert!(Message::parse(&good.as_bytes()[..len]).is_err(), "{len}");
    }
    let (measured, _) = measurement(0, &[1, 2]);
    let short = std::string::String::from_utf8(measured).unwrap().replace("[  0, 20]", "[0]");
    assert_eq!(Message::parse(short.as_bytes()), Err(Error::Value), "as many times as values");
}

proptest! {
    #[test]
    fn layout_is_independent_of_values(ts in 0..=Time::LAST, values in prop::collection::vec(-999_999i64..=9_999_999, 3)) {
        let (bytes, holes) = measurement(ts, &values);
        prop_assert_eq!(&holes, &measurement(0, &[0, 0, 0]).1);
        prop_assert!(Message::parse(&bytes).is_ok());
        let text = core::str::from_utf8(&bytes[holes[4].range.clone()]).unwrap();
        let number: f64 = text.trim().parse().unwrap();
        prop_assert_eq!((number * 100.0).round() as i64, values[0]);
    }

    #[test]
    fn parser_never_panics(at in 0usize..292, octet: u8) {
        let (mut bytes, _) = measurement(0, &[1, 2, 3]);
        bytes[at] = octet;
        let _ = Message::parse(&bytes);
        let _ = Message::parse(octet.to_string().as_bytes());
    }
}
