//! Each kind of chart, compared with the image that was looked at. After an intended change the test
//! with `ANTEDATE_GOLDEN=write` writes the images anew, and they are looked at again.

use antedate_figure::axis::Kind;
use antedate_figure::chart::{Texts, bars, boxes, column, curves, parts};
use std::fs;
use std::path::Path;

const TEXTS: Texts<'_> =
    Texts { title: "A figure", axis: "time (ms)", description: "Names with < and & are escaped." };

fn compare(name: &str, drawn: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("ANTEDATE_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&file, drawn).expect("written");
    }
    let golden = fs::read_to_string(&file).expect("a golden image");
    assert!(golden == drawn, "{name} is drawn otherwise:\n{drawn}");
}

#[test]
fn bars_match_their_image() {
    let lanes = [
        ("MIC-32 & more".to_owned(), vec![Some(23.5), Some(9.3), None]),
        ("<none>".into(), vec![Some(6.71), Some(f64::NAN), Some(-1.5)]),
    ];
    let series = [("the paper", 4), ("unmodified", 0), ("antedated", 2)];
    compare("bars.svg", &bars(&TEXTS, Kind::Linear, &series, &lanes));
}

#[test]
fn boxes_match_their_image() {
    let lanes = [
        ("bridges".to_owned(), [5.0, 6.0, 6.2, 7.0, 90.0], 4),
        ("ours".into(), [12.0, 13.0, 13.4, 15.0, 400.0], 2),
    ];
    compare("boxes.svg", &boxes(&TEXTS, Kind::Logarithmic, &[("the paper", 4), ("ours", 2)], &lanes));
}

#[test]
fn parts_match_their_image() {
    let lanes =
        [("software".to_owned(), vec![6.44, 4.256, 14.8]), ("hardware".into(), vec![1.28, 4.256, 1.12])];
    compare("parts.svg", &parts(&TEXTS, &[("TsTxOffset", 0), ("TsMaxTx", 4), ("TsTxAckDelay", 2)], &lanes));
}

#[test]
fn curves_match_their_image() {
    let all = [
        ("CCM_8", 0, vec![[16.0, 1.0], [200.0, 6.0], [1000.0, 32.3]]),
        ("antedated", 2, vec![[16.0, 0.4], [1000.0, 16.0]]),
    ];
    compare("curves.svg", &curves(&TEXTS, "payload (bytes)", [Kind::Linear, Kind::Logarithmic], &all));
}

#[test]
fn column_matches_its_image() {
    let long = "A name that is far too long to stand beside the bars of its lane, and stands above them";
    let lanes = [(long.to_owned(), vec![Some(2.0)]), ("short".into(), vec![Some(1.0)])];
    let first = bars(&TEXTS, Kind::Linear, &[("ours", 2)], &lanes);
    let second = boxes(&TEXTS, Kind::Linear, &[], &[(long.to_owned(), [1.0, 2.0, 3.0, 4.0, 5.0], 2)]);
    let third = parts(&TEXTS, &[("one", 0), ("two", 2)], &[(long.to_owned(), vec![1.0, 2.0])]);
    let charts = [("Bars & more".to_owned(), first), ("Boxes".into(), second), ("Parts".into(), third)];
    compare("column.svg", &column(&TEXTS, &charts));
}
