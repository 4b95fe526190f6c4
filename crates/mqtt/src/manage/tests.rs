use std::fs;
use std::path::PathBuf;

use super::*;
use crate::disk::create;

/// A manager's file with these members, each with a public key.
fn file(directory: &Path, members: &[(&str, [u8; 32])]) -> PathBuf {
    let members = members.iter().map(|(name, public)| Member {
        name: (*name).to_owned(),
        public: Some(*public),
        publish: true,
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
fn nobody_rotates_while_a_rotation_is_not_published() {
    let directory = tempfile::tempdir().expect("a directory");
    let (secret, public) = device();
    let file = file(directory.path(), &[("press7", public)]);
    let mut one = Manager::open(&file).expect("held");
    assert!(Manager::open(&file).expect_err("held by another").to_string().contains("another"));
    assert_eq!(one.rotate(&[]).expect("rotated"), 2);
    assert!(Manager::open(&file).is_err(), "not published yet");
    let message = one.announce(60).expect("a message");
    drop(one);
    // What is published is what the file has.
    let manager = Manager::open(&file).expect("held");
    let key = manager.group().manager.expect("a manager");
    let rotation = rotation::open("line4", &message, &key, b"press7", &secret).expect("for this device");
    let (epoch, secret) = manager.group().keys.last().expect("a key");
    assert_eq!((rotation.epoch, &rotation.secret), (*epoch, secret));
}

#[test]
fn what_lies_beside_a_managers_file_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file(directory.path(), &[("press7", device().1)]);
    let other = file.with_extension("new");
    create(&other, "the only copy").expect("written");
    Manager::open(&file).expect("held").rotate(&[]).expect("rotated");
    assert_eq!(fs::read_to_string(&other).expect("a file"), "the only copy");
    assert_eq!(GroupFile::load(&file).expect("a group").keys.len(), 2);
}
