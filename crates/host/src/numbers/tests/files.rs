//! The file system around the state file: links, pipes, locks of others.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::mpsc;

use super::super::disk::{Directory, Disk};
use super::*;

const NEW: &str = "packet-numbers.new";

#[test]
fn link_in_place_of_the_new_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    symlink(&victim, directory.path().join(NEW)).unwrap();
    let mut disk = Directory::lock(directory.path()).unwrap();
    disk.create_new().unwrap();
    disk.write_new(b"records").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    assert!(fs::symlink_metadata(directory.path().join(NEW)).unwrap().is_file());
}

#[test]
fn longer_old_content_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(NEW), "left by a killed process").unwrap();
    let mut disk = Directory::lock(directory.path()).unwrap();
    let origin = disk.create_new().unwrap();
    disk.write_new(b"short").unwrap();
    disk.sync_new().unwrap();
    disk.replace().unwrap();
    assert_eq!(disk.read().unwrap(), Some(Stored { bytes: b"short".to_vec(), origin }));
}

#[test]
fn nothing_written_cannot_be_made_durable() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Directory::lock(directory.path()).unwrap();
    assert_eq!(disk.sync_new().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.write_new(b"records").unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.create_new().unwrap();
    disk.write_new(b"records").unwrap();
    disk.sync_new().unwrap();
    assert!(disk.sync_new().is_err(), "each file is made durable once");
}

#[test]
fn pipe_in_place_of_the_file_blocks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(directory.path().join(NAME)).status().unwrap();
    assert!(made.success());
    let (said, heard) = mpsc::channel();
    let path = directory.path().to_owned();
    thread::spawn(move || said.send(kind(NumberFile::open(&path))));
    let fault = heard.recv_timeout(Duration::from_secs(20)).expect("an answer");
    assert!(fault.contains("the state file is damaged"), "{fault}");
}

#[test]
fn unreadable_file_is_not_a_missing_one() {
    let directory = tempfile::tempdir().unwrap();
    symlink(NAME, directory.path().join(NAME)).unwrap();
    let disk = Directory::lock(directory.path()).unwrap();
    assert!(disk.read().is_err());
    fs::remove_file(directory.path().join(NAME)).unwrap();
    assert!(disk.read().unwrap().is_none());
}

#[test]
fn unknown_place_is_an_error_and_not_a_move() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    fs::create_dir(&path).unwrap();
    let disk = Directory::lock(&path).unwrap();
    assert!(disk.is_in_place().unwrap());
    fs::rename(&path, parent.path().join("moved")).unwrap();
    assert!(!disk.is_in_place().unwrap());
    symlink("state", &path).unwrap();
    assert!(disk.is_in_place().is_err());
}

#[test]
fn state_of_an_exiting_process_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let held = NumberFile::create(&path).unwrap();
    let exiting = thread::spawn(move || {
        thread::sleep(PAUSE * 2);
        drop(held);
    });
    assert!(NumberFile::open(&path).is_ok());
    exiting.join().unwrap();
}

#[test]
fn directory_without_a_lock_is_not_in_use() {
    let fault = lock(Path::new("/nonexistent/antedate")).unwrap_err();
    assert!(matches!(fault.kind, NumbersErrorKind::Io { doing: "lock the directory", .. }), "{fault}");
}

#[test]
fn each_fault_has_its_remedy() {
    let remedy = |kind| NumbersError::new(Path::new("state"), kind).remedy();
    for (kind, beginning) in [
        (NumbersErrorKind::KeyInUse, "stop it"),
        (NumbersErrorKind::Moved, "put back"),
        (NumbersErrorKind::Exchanged, "put back"),
        (NumbersErrorKind::Version, "use the version"),
    ] {
        let shown = remedy(kind).unwrap_or_default();
        assert!(shown.starts_with(beginning), "{shown}");
    }
    let error = io::Error::from_raw_os_error(libc::EMFILE);
    let shown = remedy(NumbersErrorKind::Io { doing: "read it", error });
    assert_eq!(shown.as_deref(), Some(crate::fault::MORE_FILES));
}
