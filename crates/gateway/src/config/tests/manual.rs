//! Compares the manual with the parser.

use serde_json::Value;

use super::*;
use crate::run::status::{
    Agreement, AgreementCak, AgreementKey, AgreementMember, DataStatus, Flow, Flows, Interval, LinkLoss,
    Macsec, MacsecUplink, Overlay, OverlayPeer, PathMtu, ReceiveSa, ReleaseClock, SecondUplink, Standby,
    StandbyOther, Status, Thread, TransmitSa, Warning,
};

const MANUAL: &str = concat!(
    include_str!("../../../../../docs/src/gateway.md"),
    include_str!("../../../../../docs/src/overlay.md"),
    include_str!("../../../../../docs/src/monitoring.md")
);

/// Every whole configuration of the book, and those of the package.
#[test]
fn manual_examples_are_legal() {
    let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
    let chapters = std::fs::read_dir(book).unwrap();
    let texts = chapters.map(|chapter| std::fs::read_to_string(chapter.unwrap().path()).unwrap_or_default());
    let texts: Vec<String> = texts.collect();
    let blocks = texts.iter().flat_map(|text| text.split("```toml\n").skip(1));
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    // A template of a fleet has values to fill in.
    let blocks = blocks.filter(|block| block.contains("[field]") && !block.contains("${"));
    let packaged = [
        include_str!("../../../../../packaging/etc/antedate/gateway.toml"),
        include_str!("../../../../../packaging/etc/antedate/overlay.toml"),
    ];
    let examples: Vec<&str> = blocks.chain(packaged).collect();
    assert!(examples.len() >= 5);
    for example in examples {
        let config = parse(example).unwrap();
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    }
}

/// The parser lists its keys in the fault of an unknown key.
#[test]
fn manual_has_every_key() {
    let text = "[field]\n[uplink]\n[macsec]\n[overlay]\n[overlay.second_uplink]\n[[overlay.peer]]\n[policy]\n[[policy.rule]]\n[run]\n[state]\n[control]\n[metrics]\n[page]\n[link_loss]\n[standby]\n[loop_detection]\n[second_uplink]\n[ptp]\n"
        .replace("]\n", "]\nqqqqqqqqqqqqqqqq = 0\n");
    let found = parse(&text).unwrap_err();
    let mut known = 0;
    for line in found.lines().filter_map(|line| line.split_once("known in [")) {
        let (section, keys) = line.1.split_once("]: ").unwrap_or_default();
        let section = section.trim_end_matches("[0]");
        for key in keys.split(", ").filter(|key| !["rule", "peer", "second_uplink"].contains(key)) {
            assert!(MANUAL.contains(&format!("`{section}.{key}`")), "`{section}.{key}` is not in the manual");
            known += 1;
        }
    }
    assert!(known >= 50, "{known} of:\n{found}");
}

/// The table of `policy.allow` has a row for each name, with the rules that it stands for.
#[test]
fn manual_has_every_kind_of_traffic() {
    for (name, traffic) in Traffic::NAMES {
        let stands_for: Vec<String> = match traffic.parts() {
            [] => traffic.rules().iter().map(|rule| format!("`{rule}`")).collect(),
            parts => parts.iter().map(|part| format!("`{}`", part.name())).collect(),
        };
        let stands_for = match traffic {
            Traffic::All => "everything that is a well-formed frame".to_owned(),
            _ => stands_for.join(" or "),
        };
        let row = MANUAL.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let end = format!("| {stands_for} |");
        assert!(row.is_some_and(|row| row.ends_with(&end)), "`{name}` must end with: {end}\n{row:?}");
    }
    for (name, traffic) in Traffic::ALIASES {
        assert!(MANUAL.contains(&format!("`{name}` is another name of `{}`", traffic.name())), "{name}");
    }
}

/// A rule reads back the text of its conditions.
#[test]
fn conditions_read_back_their_text() {
    for (name, traffic) in Traffic::NAMES {
        for conditions in traffic.rules() {
            let lines: String = split_keys(&conditions.to_string()).join("\n");
            let text = format!("{SMALLEST}[[policy.rule]]\naction = \"allow\"\n{lines}\n");
            let read = parse(&text).unwrap_or_else(|faults| panic!("{name}: {lines}\n{faults}"));
            assert_eq!(read.policy.rules[0].conditions, conditions, "{name}");
        }
    }
}

/// The keys of `a = 1, b = [2, 3]`, one each.
fn split_keys(text: &str) -> Vec<String> {
    let (mut keys, mut depth) = (vec![String::new()], 0i32);
    for letter in text.chars() {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        match letter {
            ',' if depth == 0 => keys.push(String::new()),
            other => keys.last_mut().unwrap().push(other),
        }
    }
    keys
}

#[test]
fn manual_has_every_status_name() {
    let macsec = Macsec {
        transmit: vec![TransmitSa::default()],
        receive: vec![ReceiveSa::default()],
        agreement: Some(Agreement {
            keys: vec![AgreementKey::default()],
            members: vec![AgreementMember::default()],
            caks: vec![AgreementCak::default()],
            ..Agreement::default()
        }),
        path: Some(PathMtu::default()),
        second_uplink: Some(MacsecUplink::default()),
        ..Macsec::default()
    };
    let overlay = Overlay {
        peers: vec![OverlayPeer::default()],
        second_uplink: Some(SecondUplink::default()),
        release_clock: Some(ReleaseClock::default()),
        ..Overlay::default()
    };
    let threads = vec![Thread::default()];
    let warnings = vec![Warning::default()];
    let flow = Flow {
        data_status: Some(DataStatus::default()),
        intervals: vec![Interval::default()],
        ..Flow::default()
    };
    let flows = Some(Flows { flows: vec![flow], ..Flows::default() });
    let (macsec, overlay) = (Some(macsec), Some(overlay));
    let standby = Some(Standby { others: vec![StandbyOther::default()], ..Standby::default() });
    let link_loss = Some(LinkLoss::default());
    let status =
        Status { standby, link_loss, macsec, overlay, threads, warnings, flows, ..Status::default() };
    let (_, chapter) = MANUAL.split_once("## The state as JSON").unwrap();
    let (chapter, _) = chapter.split_once("\n# ").unwrap();
    let (mut values, mut known) = (vec![serde_json::to_value(&status).unwrap()], 0);
    while let Some(value) = values.pop() {
        match value {
            Value::Object(names) => {
                for (name, value) in names {
                    assert!(chapter.contains(&format!("`{name}`")), "`{name}` is not in the manual");
                    values.push(value);
                    known += 1;
                }
            }
            Value::Array(all) => values.extend(all),
            _ => {}
        }
    }
    assert!(known > 100, "{known}");
}
