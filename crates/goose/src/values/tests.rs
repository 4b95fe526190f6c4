use std::path::Path;

use serde_json::json;

use super::*;
use crate::{clock, scl};

const EXAMPLE: &str = include_str!("../../../../docs/examples/goose/antedate.scd");

fn control(name: &str) -> Control {
    let path = Path::new("antedate.scd");
    scl::select(path, scl::parse(path, EXAMPLE).expect("an SCL file"), Some(name)).expect("a control block")
}

fn now(seconds: u64) -> [u8; 8] {
    clock::octets(seconds, 0, clock::ACCURACY)
}

/// What a subscriber shows of the board's values, by way of a message.
fn shown(control: &Control, board: &Board<'_>) -> Map<String, Json> {
    board.with(now(9), |values| {
        let message = control.message(values);
        let mut out = vec![0; message.buffer_len()];
        message.emit(&mut out, &mut |_| ()).expect("written");
        let read = antedate_wire::goose::Message::parse(&out).expect("read");
        show(control, &read.all_data).expect("of these types")
    })
}

#[test]
fn values_are_shown_as_taken() {
    let control = control("gcbPosition");
    let mut board = Board::new(&control).expect("no strings");
    assert_eq!(board.missing().len(), 3, "position, power, behaviour: {:?}", board.missing());
    let line = json!({
        "antedateLD0/XCBR1.Pos.stVal": "on",
        "XCBR1.Pos.q": "questionable oldData test",
        "MMXU1.TotW.mag.f": -1.5,
        "XCBR1.Beh.stVal": "test/blocked",
    });
    assert_eq!(board.take(&line.to_string(), now(5)), Ok(true));
    assert!(board.missing().is_empty());
    let shown = shown(&control, &board);
    assert_eq!(
        Json::from(shown),
        json!({
            "antedateLD0/XCBR1.Pos.stVal": "on",
            "antedateLD0/XCBR1.Pos.q": "questionable oldData test",
            "antedateLD0/XCBR1.Pos.t": clock::show(now(5)),
            "antedateLD0/MMXU1.TotW.mag.f": -1.5,
            "antedateLD0/XCBR1.Beh.stVal": "test/blocked",
        })
    );
}

#[test]
fn only_changes_are_events() {
    let control = control("gcbTrip");
    let mut board = Board::new(&control).expect("no strings");
    let trip = |value| json!({ "GGIO1.Ind1.stVal": value, "GGIO1.IntIn1.stVal": 7 }).to_string();
    assert_eq!(board.take(&trip(true), now(1)), Ok(true));
    assert_eq!(board.take(&trip(true), now(2)), Ok(false));
    assert_eq!(shown(&control, &board)["antedateLD0/GGIO1.Ind1.t"], clock::show(now(1)));
    assert_eq!(board.take(&trip(false), now(3)), Ok(true));
    assert_eq!(shown(&control, &board)["antedateLD0/GGIO1.Ind1.t"], clock::show(now(3)));
    assert_eq!(board.take(r#"{"GGIO1.IntIn1.stVal": 8}"#, now(4)), Ok(true));
    assert_eq!(
        shown(&control, &board)["antedateLD0/GGIO1.Ind1.t"],
        clock::show(now(3)),
        "of another data object"
    );
    assert_eq!(board.take(r#"{"GGIO1.Ind1.t": "2026-09-21T14:13:20Z"}"#, now(5)), Ok(true));
}

#[test]
fn wrong_line_changes_nothing() {
    let control = control("gcbTrip");
    let mut board = Board::new(&control).expect("no strings");
    let mut refused = |line: &str| board.take(line, now(1)).expect_err("refused");
    assert!(matches!(refused("{"), LineError::Json(_)));
    assert!(matches!(refused("[1]"), LineError::Object(_)));
    let unknown = refused(r#"{"GGIO1.Ind1.stVal": true, "GGIO1.Ind1.stVl": true}"#);
    assert!(matches!(unknown, LineError::Unknown(..)), "{unknown:?}");
    assert!(unknown.to_string().ends_with("did you mean `GGIO1.Ind1.stVal`?"), "{unknown}");
    for (line, expected) in [
        (r#"{"GGIO1.Ind1.stVal": 1}"#, "it must be true or false"),
        (r#"{"GGIO1.IntIn1.stVal": 2147483648}"#, "it must be a whole number of 32 bits"),
        (r#"{"GGIO1.IntIn1.stVal": 1.5}"#, "it must be a whole number"),
        (r#"{"GGIO1.Ind1.t": 12}"#, "it must be a time as in"),
    ] {
        let error = refused(line);
        assert!(matches!(error, LineError::Type(..)) && error.to_string().contains(expected), "{error}");
    }
    assert_eq!(board.missing().len(), 2);
}

#[test]
fn short_names_may_be_ambiguous() {
    let mut control = control("gcbTrip");
    let mut second = control.entries[0].clone();
    second.name = "antedateLD1/GGIO1.Ind1.stVal".into();
    control.entries.push(second);
    let mut board = Board::new(&control).expect("no strings");
    assert_eq!(
        board.take(r#"{"GGIO1.Ind1.stVal": true}"#, now(1)),
        Err(LineError::Ambiguous("GGIO1.Ind1.stVal".into()))
    );
    assert_eq!(board.take(r#"{"antedateLD1/GGIO1.Ind1.stVal": true}"#, now(1)), Ok(true));
}

#[test]
fn strings_are_read_but_not_published() {
    let mut control = control("gcbTrip");
    control.entries = vec![Entry { name: "LD/LN.DO.d".into(), content: Content::Leaf(Type::Text) }];
    assert_eq!(Board::new(&control).err(), Some(VariableError("LD/LN.DO.d".into())));
    let values = [Value::Visible(b"closed")];
    let shown = show(&control, &Values::Given(&values)).expect("a string");
    assert_eq!(Json::from(shown), json!({ "LD/LN.DO.d": "closed" }));
}

#[test]
fn other_values_are_told() {
    let control = control("gcbTrip");
    let show = |values: &[Value<'_>]| super::show(&control, &Values::Given(values));
    assert_eq!(show(&[Value::Boolean(true)]), Err(ValuesError::Entries(1, 3)));
    let wrong = [Value::Boolean(true), Value::Boolean(true), Value::UtcTime([0; 8])];
    assert_eq!(show(&wrong), Err(ValuesError::Type("antedateLD0/GGIO1.IntIn1.stVal".into())));
    // The shortest encodings of other implementations.
    let short = [Value::Boolean(true), Value::Integer(-7, 1), Value::UtcTime([0; 8])];
    assert!(show(&short).is_ok());
    let wide = [Value::Boolean(true), Value::Integer(1 << 40, 6), Value::UtcTime([0; 8])];
    assert_eq!(show(&wide), Err(ValuesError::Type("antedateLD0/GGIO1.IntIn1.stVal".into())));
}
