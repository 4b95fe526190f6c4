use std::fs;
use std::path::PathBuf;

use antedate_channel::mqtt::{Dropped, Publisher, Reserved};
use antedate_host::private_file::create;

use super::*;

/// A manager's file with these members, each with a public key.
fn file(directory: &Path, members: &[(&str, [u8; 32])]) -> PathBuf {
    let members = members.iter().map(|(name, public)| Member {
        name: (*name).to_owned(),
        public: Some(*public),
        publish: true,
        verify: None,
    });
    let group = new_group("line4", Algorithm::AesCcm16_64_128, vec!["plant/#".into()], members.collect())
        .expect("a group");
    let file = directory.join("manager.toml");
    create(&file, &group.to_text(false)).expect("written");
    file
}

/// A device's secret and its public key.
fn device() -> ([u8; 32], [u8; 32]) {
    ([9; 32], rotation::device_public(&[9; 32]))
}

#[test]
fn rotations_of_a_group_exclude_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let (secret, public) = device();
    let file = file(directory.path(), &[("press7", public)]);
    let mut one = Manager::open(&file).expect("held");
    assert!(Manager::open(&file).expect_err("held by another").to_string().contains("another"));
    assert_eq!(one.rotate(&[], 60).expect("rotated"), 2);
    assert!(Manager::open(&file).is_err(), "not published yet");
    let message = one.announce().expect("a message");
    drop(one);
    // The published key is the one in the file.
    let manager = Manager::open(&file).expect("held");
    let key = manager.group().manager.expect("a manager");
    let rotation = rotation::open("line4", &message, &key, b"press7", &secret).expect("for this device");
    let key = manager.group().keys.last().expect("a key");
    assert_eq!((rotation.epoch, &rotation.secret), (key.epoch, &key.secret));
}

#[test]
fn files_beside_a_managers_file_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file(directory.path(), &[("press7", device().1)]);
    let other = file.with_extension("new");
    create(&other, "the only copy").expect("written");
    Manager::open(&file).expect("held").rotate(&[], 60).expect("rotated");
    assert_eq!(fs::read_to_string(&other).expect("a file"), "the only copy");
    assert_eq!(GroupFile::load(&file).expect("a group").keys.len(), 2);
}

/// The epochs in a file.
fn epochs(file: &Path) -> Vec<u32> {
    GroupFile::load(file).expect("a group").keys.iter().map(|key| key.epoch).collect()
}

#[test]
fn revoked_members_envelope_is_not_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file(directory.path(), &[("press7", device().1), ("press8", [3; 32])]);
    Manager::open(&file).expect("held").rotate(&[], 60).expect("rotated");
    assert_eq!(epochs(&file), [1, 2], "still read for a while");
    let old = GroupFile::load(&file).expect("a group").to_group();
    let material = old.material(2, b"press8").expect("press8 may publish");
    let mut publisher = Publisher::new(&material, Reserved::new(1, u64::MAX));
    let mut envelope = Vec::new();
    publisher.seal("plant/a", b"on", &mut envelope).expect("sealed");
    let open = || {
        let mut group = GroupFile::load(&file).expect("a group").to_group();
        group.open("plant/a", &envelope, &mut Vec::new())
    };
    assert!(open().is_ok(), "before");
    // Under the old key press7 could use press8's name, so the name does not matter.
    Manager::open(&file).expect("held").rotate(&["press7".into()], 60).expect("revoked");
    assert_eq!(epochs(&file), [3]);
    assert!(matches!(open(), Err(Dropped::OldEpoch { .. } | Dropped::UnknownEpoch { .. })), "{:?}", open());
    Manager::open(&file).expect("held").rotate(&[], 60).expect("rotated");
    assert_eq!(epochs(&file), [3, 4]);
    Manager::open(&file).expect("held").rotate(&[], 0).expect("rotated");
    assert_eq!(epochs(&file), [5], "no grace, no key");
}

#[test]
fn repeated_rotation_has_its_first_grace() {
    let directory = tempfile::tempdir().expect("a directory");
    let (secret, public) = device();
    let file = file(directory.path(), &[("press7", public), ("press8", [3; 32])]);
    let grace = || {
        let manager = Manager::open(&file).expect("held");
        let key = manager.group().manager.expect("a manager");
        let message = manager.announce().expect("a message");
        rotation::open("line4", &message, &key, b"press7", &secret).expect("for this device").grace
    };
    assert_eq!(grace(), GRACE, "of a new group");
    Manager::open(&file).expect("held").rotate(&[], 5).expect("rotated");
    assert_eq!(grace(), 5);
    Manager::open(&file).expect("held").rotate(&["press8".into()], GRACE).expect("revoked");
    assert_eq!(grace(), 0, "a revocation lets nothing be read any more");
}

#[test]
fn group_without_a_manager_rotates_in_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file(directory.path(), &[]);
    let mut one = Manager::open(&file).expect("held");
    assert!(Manager::open(&file).is_err(), "held by another");
    assert_eq!(one.rotate(&[], GRACE).expect("rotated"), 2);
    assert_eq!(epochs(&file), [1, 2], "until all have the new file");
    assert_eq!(one.rotate(&[], GRACE).expect("rotated"), 3);
    assert_eq!(epochs(&file), [2, 3]);
    let said = one.announce().expect_err("nothing to publish").to_string();
    assert!(said.contains("no manager") && said.contains("copy the file"), "{said}");
    assert!(!one.group().to_text(false).contains("grace"));
}

#[test]
fn members_file_is_not_rotated() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file(directory.path(), &[("press7", device().1)]);
    let members = directory.path().join("line4.toml");
    let text = GroupFile::load(&file).expect("a group").to_text(true);
    create(&members, &text).expect("written");
    let said = Manager::open(&members).expect_err("refused").to_string();
    assert!(said.contains("not the manager's file") && said.contains("where the group was made"), "{said}");
    assert_eq!(fs::read_to_string(&members).expect("a file"), *text);
}
