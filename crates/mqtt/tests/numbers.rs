//! A number file of an earlier version (`vectors/numbers/README.md`).

use std::fs;
use std::path::{Path, PathBuf};

use antedate_channel::mqtt::{Group, Material, Numbers};
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::store::Store;

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/numbers/mqtt")
}

fn group(name: &str) -> (GroupFile, Group) {
    let file = vectors().join(name);
    let text = fs::read_to_string(&file).expect("a group file");
    let file = GroupFile::parse(&file, &text).expect("a group");
    let group = file.to_group();
    (file, group)
}

fn material(group: &Group, epoch: u32, publisher: &[u8]) -> Material {
    group.material(epoch, publisher).expect("key material")
}

/// A copy of the state directory.
fn state() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::copy(vectors().join("packet-numbers"), directory.path().join("packet-numbers")).expect("copied");
    directory
}

#[test]
fn earlier_file_gives_its_numbers_and_bounds() {
    let (directory, (_, line4), (hall_file, hall)) = (state(), group("line4.toml"), group("hall.toml"));
    let store = Store::open(directory.path()).expect("opened");
    for (name, group, epoch, next) in [("line4", &line4, 1, 4), ("hall", &hall, 3, 3)] {
        let mut numbers = store.numbers(name, &material(group, epoch, b"press7")).expect("numbers");
        assert_eq!(numbers.take(), Ok(next), "{name}");
    }
    for (group, epoch, topic, lowest) in
        [(&line4, 1, "plant/line4/scada/set", 4), (&hall, 3, "plant/hall/scada", 2), (&hall, 3, "other", 1)]
    {
        let (epoch_key, scada) = (material(group, epoch, b"\0"), material(group, epoch, b"scada"));
        assert_eq!(store.lowest(&epoch_key, &scada, topic), lowest, "{topic}");
    }
    assert_eq!(store.epoch("hall", &hall_file.manager.expect("a manager")), 3);
    assert_eq!(store.epoch("line4", &hall_file.manager.expect("a manager")), 0);
}

#[test]
fn earlier_file_is_written_back_unchanged() {
    let (directory, (_, line4)) = (state(), group("line4.toml"));
    let file = directory.path().join("packet-numbers");
    let golden = fs::read(&file).expect("read");
    let store = Store::open(directory.path()).expect("opened");
    let mut numbers = store.numbers("line4", &material(&line4, 1, b"press7")).expect("numbers");
    numbers.reserve(100).expect("reserved");
    assert_ne!(fs::read(&file).expect("read"), golden, "the reservation is on the disk");
    store.close([&numbers]).expect("closed");
    let records = |octets: &[u8]| {
        let text = String::from_utf8_lossy(octets).into_owned();
        let lines = text.lines().filter(|line| line.starts_with("transmit") || line.starts_with("receive"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let written = fs::read(&file).expect("read");
    assert!(written.starts_with(b"antedate packet numbers 2\nhome "));
    assert_eq!(records(&written), records(&golden));
}
