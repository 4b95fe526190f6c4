//! The exposure of the example units, as systemd rates it.

use std::path::Path;
use std::process::Command;

#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

/// The highest rating, in tenths of 10.
const THRESHOLD: u32 = 15;

#[test]
fn units_are_rated_at_most_1_5() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let examples = examples.canonicalize().expect("the examples");
    let version = Command::new("systemd-analyze").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    // Files are rated from version 250 on.
    let number = version.ok().and_then(|text| text.split_whitespace().nth(1)?.parse::<u32>().ok());
    if number.is_none_or(|number| number < 250) {
        return skip::skipped("exposure of the units: no systemd-analyze of version 250 or later");
    }
    let files = std::fs::read_dir(examples).expect("the examples").flatten().map(|entry| entry.path());
    let units: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "service")).collect();
    assert!(units.len() >= 5, "{units:?}");
    for unit in units {
        let mut rate = Command::new("systemd-analyze");
        rate.args(["security", "--offline=yes", &format!("--threshold={THRESHOLD}")]).arg(&unit);
        let rated = rate.output().expect("it runs");
        let text = String::from_utf8_lossy(&rated.stdout);
        assert!(text.contains("Overall exposure level"), "{}: {rated:?}", unit.display());
        assert!(rated.status.success(), "{}: {}", unit.display(), text.lines().last().unwrap_or_default());
    }
}
