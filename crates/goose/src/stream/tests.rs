use std::path::Path;

use serde_json::json;

use super::*;
use crate::scl::{Listed, parse_streams, select};

const EXAMPLE: &str = include_str!("../../../../docs/examples/goose/merging-unit.scd");

fn read(text: &str) -> Vec<Listed<Stream>> {
    parse_streams(Path::new("unit.scd"), text).expect("an SCL file")
}

#[test]
fn example_has_two_streams() {
    let names: Vec<_> = read(EXAMPLE).iter().map(|one| format!("{}/{}", one.ied, one.name)).collect();
    assert_eq!(names, ["antedateMU/MSVCB01", "antedateMU/MSVCB02"]);
    let named = |name| select(Path::new("unit.scd"), read(EXAMPLE), Some(name)).expect("usable");
    let first = named("MSVCB01");
    assert_eq!(
        (first.reference.as_str(), first.sv_id.as_str()),
        ("antedateMUMU01/LLN0$MS$MSVCB01", "antedateMU01")
    );
    assert_eq!((first.appid, first.vlan, first.priority, first.conf_rev), (0x4000, 0, 4, 1));
    assert_eq!((first.rate, first.asdus, first.sample_len()), (Rate::PerPeriod(80), 1, 64));
    assert_eq!((first.rate.per_second(50), first.rate.octets()), (4000, (80, 0)));
    let second = named("antedateMU/MSVCB02");
    assert_eq!((second.rate, second.asdus), (Rate::PerSecond(4800), 2));
    assert_eq!((second.has_dat_set, second.has_time, second.has_rate), (true, true, true));
    assert_eq!((second.rate.per_second(50), second.rate.octets()), (4800, (4800, 1)));
    let unknown = select(Path::new("unit.scd"), read(EXAMPLE), Some("MSVCB03")).expect_err("none");
    assert!(
        unknown.to_string().contains("did you mean") || unknown.remedy.contains("goose list"),
        "{unknown}"
    );
}

/// Each fault of a file: a change of the example, and words of the fault.
const FAULTS: &[(&str, &str, &str)] = &[
    ("01-0C-CD-04-00-00", "00-0C-CD-04-00-00", "is no group address"),
    (">4000</P>", ">1000</P>", "is no APPID of sampled values"),
    ("<P type=\"APPID\">4000</P>", "", "the SMV has no APPID"),
    ("smvID=\"antedateMU01\"", "", "<SampledValueControl> has no smvID"),
    ("multicast=\"true\"", "multicast=\"false\"", "multicast is false"),
    ("smpRate=\"80\"", "smpRate=\"0\"", "smpRate `0` is no number from 1"),
    ("smpRate=\"80\"", "smpRate=\"80\" smpMod=\"SecPerSmp\"", "smpMod `SecPerSmp` is not supported"),
    ("nofASDU=\"1\"", "nofASDU=\"65\"", "nofASDU `65` is no number from 1 to 64"),
    ("nofASDU=\"1\"", "", "has no noASDU"),
    ("confRev=\"1\"", "confRev=\"one\"", "confRev `one` is not a number"),
    ("datSet=\"PhsMeas1\"", "datSet=\"PhsMeas\"", "there is no data set `PhsMeas`"),
    ("cbName=\"MSVCB01\"", "cbName=\"other\"", "it has no address"),
    ("bType=\"INT32\"", "bType=\"VisString64\"", "has no fixed place in samples"),
    ("bType=\"INT32\"", "bType=\"INT32\" count=\"3\"", "is an array (count=\"3\")"),
];

#[test]
fn each_fault_of_a_stream_has_a_remedy() {
    for (from, to, words) in FAULTS {
        assert!(EXAMPLE.contains(from), "{from}");
        let first = read(&EXAMPLE.replacen(from, to, 1)).into_iter().next().expect("a control block");
        let fault = first.control.expect_err(words);
        assert!(fault.to_string().contains(words), "{to}: {fault}");
        assert!(fault.line.is_some() && !fault.remedy.is_empty(), "{fault}");
    }
}

#[test]
fn samples_are_shown_by_names() {
    let stream = read(EXAMPLE).remove(0).control.expect("usable");
    let mut sample = Vec::new();
    stream.signal([0; 8], |place| -1000.0 * place as f64, &mut sample);
    assert_eq!(sample.len(), 64);
    // Questionable, old data, test, derived.
    sample[4..8].copy_from_slice(&[0, 0, 0x28, 0x83]);
    let shown = stream.show(&sample).expect("of its length");
    assert_eq!(shown.len(), 16);
    assert_eq!(shown["antedateMUMU01/TCTR1.AmpSv.instMag.i"], 0);
    assert_eq!(shown["antedateMUMU01/TCTR1.AmpSv.q"], "questionable oldData test derived");
    assert_eq!(shown["antedateMUMU01/TCTR2.AmpSv.instMag.i"], -1000);
    assert_eq!(shown["antedateMUMU01/TVTR4.VolSv.q"], "good");
    assert_eq!(stream.show(&sample[1..]), None);
    assert_eq!(stream.show(&[&sample[..], &[0]].concat()), None);
}

#[test]
fn each_type_has_its_width() {
    let names = vec![(1, "on".to_owned()), (-2, "off".to_owned())];
    for (of, octets, expected) in [
        (Type::Boolean, &[1][..], json!(true)),
        (Type::Integer(1), &[0xff], json!(-1)),
        (Type::Integer(2), &[0xff, 0], json!(-256)),
        (Type::Integer(8), &[0xff; 8], json!(-1)),
        (Type::Unsigned(3), &[0, 0xff, 0, 0], json!(0xff_0000)),
        (Type::Float32, &[0x3f, 0x80, 0, 0], json!(1.0)),
        (Type::Float64, &[0x3f, 0xf0, 0, 0, 0, 0, 0, 0], json!(1.0)),
        (Type::Float32, &[0x7f, 0xc0, 0, 0], json!(null)),
        (Type::Enum(names.clone()), &[0xff, 0xff, 0xff, 0xfe], json!("off")),
        (Type::Enum(names), &[0, 0, 0, 9], json!(9)),
        (Type::Pair(crate::types::DOUBLE_POINT), &[0, 0, 0, 2], json!("on")),
        (Type::Pair(crate::types::DOUBLE_POINT), &[0, 0, 0, 4], json!(4)),
    ] {
        assert_eq!(super::octets(&of), Some(octets.len()), "{of:?}");
        assert_eq!(shown(&of, octets), expected, "{of:?}");
    }
    assert_eq!([Type::Text, Type::Octets, Type::Integer(3)].map(|of| super::octets(&of)), [None; 3]);
}
