//! Whole messages.

use super::*;
use crate::template::{self, Hole, What};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const VALUES: [Value<'static>; 3] = [
    Value::Boolean(true),
    Value::int32(-7),
    Value::Structure(Values::Given(&[Value::Float32(50.01), Value::Unsigned(3, 3)])),
];

fn message() -> Message<'static> {
    Message {
        appid: 0x1000,
        publisher: Publisher {
            gocb_ref: b"antedateLD0/LLN0$GO$gcbTrip",
            time_allowed_to_live: 500,
            dat_set: b"antedateLD0/LLN0$dsTrip",
            go_id: Some(b"antedate"),
        },
        t: [0x5f, 0x5e, 0x10, 0, 0, 0, 0, 0x0a],
        st_num: 1,
        sq_num: 0,
        simulation: false,
        conf_rev: 3,
        nds_com: false,
        all_data: Values::Given(&VALUES),
    }
}

fn emit(message: &Message<'_>) -> (Vec<u8>, Vec<Hole>) {
    let (mut out, mut holes) = (vec![0; message.buffer_len()], vec![]);
    assert_eq!(message.emit(&mut out, &mut |hole| holes.push(hole)), Ok(out.len()));
    (out, holes)
}

#[test]
fn message_round_trips() {
    let (bytes, _) = emit(&message());
    assert_eq!(Message::parse(&bytes), Ok(message()));
    assert_eq!(Publisher::parse(&bytes), Ok(message().publisher));
}

#[test]
fn holes_match_the_changing_bytes() {
    let (bytes, holes) = emit(&message());
    let ranges = || holes.iter().map(|hole| hole.range.clone());
    // t 8, stNum 4, sqNum 4, then a boolean, five octets of INT32, four of FLOAT32 and three of INT16U.
    assert_eq!((bytes.len(), template::known(bytes.len(), ranges())), (152, 152 - 29));
    assert_eq!(template::front(bytes.len(), ranges()), 84, "control block, data set and identifier");
    assert_eq!(template::touched(ranges()), 9);
    let whats: Vec<What> = holes.iter().map(|hole| hole.what).collect();
    assert_eq!(whats[..3], [What::Time, What::State, What::Sequence]);
    assert_eq!(whats[3..], [0, 1, 2, 3].map(What::Value));
}

#[test]
fn layout_is_independent_of_values() {
    let (first, holes) = emit(&message());
    for (st_num, value) in [(u32::MAX, i32::MIN), (0, 0), (0x80, i32::MAX)] {
        let values = [
            Value::Boolean(false),
            Value::int32(value),
            Value::Structure(Values::Given(&[Value::Float32(f32::MAX), Value::Unsigned(u16::MAX.into(), 3)])),
        ];
        let changed =
            Message { st_num, sq_num: st_num, t: [0xff; 8], all_data: Values::Given(&values), ..message() };
        let (second, places) = emit(&changed);
        assert_eq!(places, holes);
        let moved: Vec<_> = template::moved(&[&first, &second], 0).unwrap().collect();
        assert!(moved.iter().all(|range| {
            holes.iter().any(|hole| hole.range.start <= range.start && range.end <= hole.range.end)
        }));
    }
}

#[test]
fn wrong_lengths_and_counts_are_refused() {
    let (good, _) = emit(&message());
    for len in 0..good.len() {
        assert!(Message::parse(&good[..len]).is_err(), "{len}");
    }
    // The PDU's length in the indefinite form, and in two octets instead of one.
    let at = HEADER_LEN;
    for (head, error) in [(&[0x61, 0x80][..], Error::Value), (&[0x61, 0x82, 0, 0x97], Error::Value)] {
        let mut bytes = good[..at].to_vec();
        bytes.extend(head);
        bytes.extend(&good[at + 3..]);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(Message::parse(&bytes), Err(error));
    }
    let mut more = good.clone();
    let entries = good.windows(3).position(|window| window == [0x8a, 5, 0]).unwrap();
    more[entries + 6] = 4;
    assert_eq!(Message::parse(&more), Err(Error::Value), "four entries announced, three there");
}

#[test]
fn deep_structures_are_refused() {
    let mut data = vec![0x83, 1, 0];
    for _ in 0..40 {
        data.splice(0..0, [0xa2, data.len() as u8]);
    }
    let values = [Value::Structure(Values::Read(&data[2..]))];
    let deep = Message { all_data: Values::Given(&values), ..message() };
    let mut out = vec![0; 512];
    let len = deep.emit(&mut out, &mut |_| ()).unwrap();
    assert_eq!(Message::parse(&out[..len]), Err(Error::Value));
}

fn value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        any::<i8>().prop_map(|value| Value::Integer(value.into(), 2)),
        any::<i16>().prop_map(Value::int16),
        any::<i32>().prop_map(Value::int32),
        any::<i64>().prop_map(|value| Value::Integer(value, 9)),
        any::<u8>().prop_map(|value| Value::Unsigned(value.into(), 2)),
        any::<u16>().prop_map(|value| Value::Unsigned(value.into(), 3)),
        any::<u32>().prop_map(Value::uint32),
        any::<u64>().prop_map(|value| Value::Unsigned(value, 9)),
        any::<i32>().prop_map(|value| Value::Float32(value as f32)),
        any::<i32>().prop_map(|value| Value::Float64(f64::from(value))),
        any::<[u8; 8]>().prop_map(Value::UtcTime),
        Just(Value::Bits(&[0xc0, 0x80], 3)),
        Just(Value::Visible(b"closed")),
        Just(Value::Mms(b"ge\xc3\xb6ffnet")),
        Just(Value::Octets(&[1, 2, 3])),
        Just(Value::BinaryTime(&[0, 0, 1, 2, 3, 4])),
    ]
}

proptest! {
    #[test]
    fn any_data_set_round_trips(values in prop::collection::vec(value(), 0..40), st_num: u32, sq_num: u32, nds_com: bool) {
        let message = Message { st_num, sq_num, nds_com, all_data: Values::Given(&values), ..message() };
        let (bytes, holes) = emit(&message);
        prop_assert_eq!(Message::parse(&bytes), Ok(message));
        prop_assert_eq!(holes.len(), 3 + values.len());
    }

    #[test]
    fn parser_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 8..80), at in 0usize..150, octet: u8) {
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        let _ = Message::parse(&bytes);
        let (mut good, _) = emit(&message());
        good[at] = octet;
        let _ = Message::parse(&good);
    }
}
