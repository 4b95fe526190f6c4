use antedate_wire::EthernetAddress;

use super::*;
use crate::control::{Address, Content};

const EXAMPLE: &str = include_str!("../../../../docs/examples/goose/antedate.scd");

fn read(text: &str) -> Result<Vec<Listed>, Fault> {
    parse(Path::new("station.scd"), text)
}

#[test]
fn example_has_two_control_blocks() {
    let all = read(EXAMPLE).expect("an SCL file");
    let names: Vec<_> = all.iter().map(|one| (one.ied.as_str(), one.name.as_str(), one.line)).collect();
    assert_eq!(names, [("antedate", "gcbTrip", 48), ("antedate", "gcbPosition", 49)]);
    let control = select(Path::new("station.scd"), all, Some("antedate/gcbPosition")).expect("usable");
    assert_eq!(control.reference, "antedateLD0/LLN0$GO$gcbPosition");
    assert_eq!(control.dat_set, "antedateLD0/LLN0$dsPosition");
    assert_eq!((control.go_id.as_str(), control.conf_rev), ("antedate-position", 7));
    let address = Address {
        destination: EthernetAddress([0x01, 0x0c, 0xcd, 0x01, 0x00, 0x02]),
        appid: 0x1001,
        vlan: 0,
        priority: 6,
        min_time: 4,
        max_time: 500,
    };
    assert_eq!(control.address, address);
    assert_eq!(control.entries.len(), 3);
    assert!(matches!(&control.entries[0].content, Content::Structure(parts) if parts.len() == 3));
    let leaves: Vec<&str> = control.leaves().iter().map(|(name, _)| *name).collect();
    assert_eq!(
        leaves,
        [
            "antedateLD0/XCBR1.Pos.stVal",
            "antedateLD0/XCBR1.Pos.q",
            "antedateLD0/XCBR1.Pos.t",
            "antedateLD0/MMXU1.TotW.mag.f",
            "antedateLD0/XCBR1.Beh.stVal"
        ]
    );
}

#[test]
fn control_block_must_be_named() {
    let select = |wanted| {
        let path = Path::new("station.scd");
        super::select(path, read(EXAMPLE).expect("an SCL file"), wanted).map_err(|fault| fault.to_string())
    };
    let several = select(None).expect_err("two");
    assert!(several.contains("antedate/gcbTrip, antedate/gcbPosition"), "{several}");
    let unknown = select(Some("gcbTrap")).expect_err("none");
    assert!(unknown.contains("no control block `gcbTrap`") && unknown.contains("goose list"), "{unknown}");
    for name in ["gcbTrip", "antedate/gcbTrip", "antedateLD0/LLN0$GO$gcbTrip"] {
        assert_eq!(select(Some(name)).map(|control| control.conf_rev), Ok(3), "{name}");
    }
}

/// Each fault of a file: a change of the example, the line that is told, and words of the fault.
const FAULTS: &[(&str, &str, usize, &str)] = &[
    ("01-0C-CD-01-00-01", "01-0C-CD-01-00", 11, "is not six octets"),
    ("01-0C-CD-01-00-01", "00-0C-CD-01-00-01", 11, "is no group address"),
    (">1000</P>", ">5000</P>", 12, "is no APPID of GOOSE"),
    (">1000</P>", ">x</P>", 12, "is no APPID of GOOSE"),
    (">000</P>", ">fff</P>", 13, "is no VLAN"),
    (">4</P>", ">8</P>", 14, "is no priority"),
    ("<P type=\"APPID\">1000</P>", "", 9, "the GSE has no APPID"),
    ("<P type=\"MAC-Address\">01-0C-CD-01-00-01</P>", "", 9, "the GSE has no MAC-Address"),
    (">20</MinTime>", ">2 s</MinTime>", 16, "MinTime `2 s` is no time"),
    (">20</MinTime>", ">0</MinTime>", 16, "MinTime `0` is no time"),
    (">20</MinTime>", ">2000</MinTime>", 9, "MaxTime is 1000 ms and MinTime 2000 ms"),
    ("cbName=\"gcbTrip\"", "cbName=\"other\"", 48, "it has no address"),
    ("confRev=\"3\"", "confRev=\"three\"", 48, "confRev `three` is not a number"),
    ("appID=\"antedate\"", "", 48, "<GSEControl> has no appID"),
    ("datSet=\"dsTrip\"", "", 48, "the control block has no data set"),
    ("datSet=\"dsTrip\"", "datSet=\"dsTrap\"", 48, "did you mean `dsTrip`?"),
    (
        "doName=\"Ind1\" daName=\"stVal\" fc=\"ST\"",
        "doName=\"Ind1\" daName=\"stVl\" fc=\"ST\"",
        39,
        "has no DA `stVl`",
    ),
    (
        "doName=\"Ind1\" daName=\"stVal\" fc=\"ST\"",
        "doName=\"Ind2\" daName=\"stVal\" fc=\"ST\"",
        39,
        "has no DO `Ind2`",
    ),
    (
        "doName=\"Ind1\" daName=\"stVal\" fc=\"ST\"",
        "doName=\"Ind1\" daName=\"stVal\" fc=\"MX\"",
        39,
        "constraint ST, not MX",
    ),
    (
        "doName=\"Ind1\" daName=\"stVal\" fc=\"ST\"",
        "doName=\"Ind1\" fc=\"CO\"",
        39,
        "no data attribute with fc=\"CO\"",
    ),
    ("doName=\"Ind1\" daName=\"stVal\" fc=\"ST\"", "daName=\"stVal\" fc=\"ST\"", 39, "<FCDA> has no doName"),
    (
        "doName=\"Ind1\" daName=\"stVal\" fc=\"ST\"",
        "doName=\"Ind1\" daName=\"stVal\" fc=\"ST\" ix=\"1\"",
        39,
        "FCDA with ix, an element of the array `Ind1.stVal`",
    ),
    (
        "<FCDA ldInst=\"LD0\" lnClass=\"GGIO\"",
        "<FCDA ldInst=\"LD9\" lnClass=\"GGIO\"",
        39,
        "no logical device `LD9`",
    ),
    (
        "<FCDA ldInst=\"LD0\" lnClass=\"GGIO\"",
        "<FCDA ldInst=\"LD0\" lnClass=\"GAPC\"",
        39,
        "no logical node `GAPC1`",
    ),
    (
        "<FCDA ldInst=\"LD0\" lnClass=\"GGIO\"",
        "<Val ldInst=\"LD0\" lnClass=\"GGIO\"",
        39,
        "<Val> in a data set",
    ),
    ("lnType=\"GGIO\"", "lnType=\"GGI0\"", 51, "there is no LNodeType `GGI0`"),
    ("<DO name=\"Ind1\" type=\"SPS\"/>", "<DO name=\"Ind1\" type=\"SPX\"/>", 64, "there is no DOType `SPX`"),
    ("bType=\"BOOLEAN\"", "bType=\"INT128\"", 81, "the type INT128, which is not supported"),
    ("bType=\"BOOLEAN\"", "bType=\"Struct\" type=\"None\"", 81, "there is no DAType `None`"),
    ("bType=\"BOOLEAN\"", "bType=\"Enum\" type=\"None\"", 81, "there is no EnumType `None`"),
    ("bType=\"BOOLEAN\"", "bType=\"BOOLEAN\" count=\"4\"", 81, "GGIO1.Ind1.stVal` is an array (count=\"4\")"),
];

#[test]
fn each_fault_has_line_and_remedy() {
    for (from, to, line, words) in FAULTS {
        assert!(EXAMPLE.contains(from), "{from}");
        let all = read(&EXAMPLE.replacen(from, to, 1)).expect("still an SCL file");
        let first = all.into_iter().next().expect("a control block");
        let fault = first.control.expect_err(words);
        assert!(fault.to_string().contains(words), "{to}: {fault}");
        assert_eq!(fault.line, Some(*line), "{to}: {fault}");
        assert!(!fault.remedy.is_empty(), "{fault}");
    }
}

#[test]
fn array_on_the_way_is_refused() {
    // The second control block names `mag.f`; `count` may name a data attribute with the number.
    let text = EXAMPLE.replacen("<DA name=\"mag\"", "<DA count=\"numHar\" name=\"mag\"", 1);
    let fault = read(&text).expect("an SCL file").remove(1).control.expect_err("an array");
    assert!(fault.what.contains("MMXU1.TotW.mag` is an array (count=\"numHar\")"), "{fault}");
    assert!(fault.remedy.contains("leave it out"), "{fault}");
}

#[test]
fn fault_does_not_hinder_other_control_blocks() {
    let all = read(&EXAMPLE.replacen("confRev=\"3\"", "confRev=\"x\"", 1)).expect("an SCL file");
    let usable: Vec<bool> = all.iter().map(|one| one.control.is_ok()).collect();
    assert_eq!(usable, [false, true]);
}

#[test]
fn other_files_are_refused() {
    for (text, line, words) in [
        ("", Some(1), "is not well-formed XML"),
        ("<SCL>\n<IED>\n</SCL>", Some(3), "is not well-formed XML"),
        ("<html/>", Some(1), "a root of <html>, not <SCL>"),
        ("<!DOCTYPE SCL [<!ENTITY a \"b\">]>\n<SCL>&a;</SCL>", Some(1), "is not well-formed XML"),
    ] {
        let fault = read(text).expect_err(words);
        assert!(fault.what.contains(words) && fault.line == line, "{fault}");
        assert!(!fault.remedy.is_empty());
    }
    let deep = format!("<SCL>\n{}", "<a>".repeat(100_000));
    let fault = read(&deep).expect_err("deep");
    assert!(fault.what.contains("nests elements") && fault.line == Some(2), "{fault}");
    let long = " ".repeat(MAX_LEN + 1);
    assert!(read(&long).is_err_and(|fault| fault.what.contains("longer than 64 MiB")));
}

#[test]
fn type_that_contains_itself_is_refused() {
    let inside = "<BDA name=\"f\" bType=\"FLOAT32\"/>";
    let again = "<BDA name=\"f\" bType=\"Struct\" type=\"AnalogueValue\"/>";
    let all = read(&EXAMPLE.replacen(inside, again, 1)).expect("an SCL file");
    let fault = all.into_iter().nth(1).expect("the second").control.expect_err("endless");
    assert!(fault.what.contains("contain themselves"), "{fault}");
    let wide = format!("{again}{again}").replace("name=\"f\" ", "name=\"f\" x=\"1\" ");
    let all = read(&EXAMPLE.replacen(inside, &wide, 1)).expect("an SCL file");
    assert!(all.into_iter().nth(1).expect("the second").control.is_err());
    let many = "<BDA name=\"f\" bType=\"FLOAT32\"/>".repeat(600);
    let text = EXAMPLE.replacen(inside, &many, 1).replacen("daName=\"mag.f\"", "daName=\"mag\"", 1);
    let all = read(&text).expect("an SCL file");
    let fault = all.into_iter().nth(1).expect("the second").control.expect_err("too many");
    assert!(fault.what.contains("more than 512 data attributes"), "{fault}");
}

#[test]
fn absent_tag_has_the_standards_values() {
    let text = EXAMPLE
        .replacen("<P type=\"VLAN-ID\">000</P>", "", 1)
        .replacen("<P type=\"VLAN-PRIORITY\">4</P>", "", 1)
        .replacen("<MinTime unit=\"s\" multiplier=\"m\">20</MinTime>", "", 1)
        .replacen("<MaxTime unit=\"s\" multiplier=\"m\">1000</MaxTime>", "", 1);
    let control = read(&text).expect("an SCL file").remove(0).control.expect("usable");
    let Address { vlan, priority, min_time, max_time, .. } = control.address;
    assert_eq!((vlan, priority, min_time, max_time), (0, 4, 4, 1000));
}
