mod cloned;
mod files;
mod home;
mod lives;
mod rules;

use std::os::unix::fs::PermissionsExt;

use super::medium::{Keep, Medium};
use super::*;

const OWN: Place = Place([2, 0, 0, 0, 0, 1, 0, 1]);

fn made() -> Medium {
    Medium::with_empty_file()
}

fn open(medium: &Medium) -> Result<NumberFile<Medium>, NumbersError> {
    NumberFile::on(Path::new("state"), medium.clone())
}

#[test]
fn directory_is_for_one_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    assert_eq!(kind(NumberFile::open(&path)), "there is no such directory");
    let state = NumberFile::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(path.join(NAME)).unwrap().mode() & 0o777, 0o600);
    assert_eq!(kind(NumberFile::open(&path)), "another process holds this state directory");
    assert_eq!(kind(NumberFile::create(&path)), "another process holds this state directory");
    assert!(inspect(&path).is_ok());
    drop(state);
    let mut state = NumberFile::open(&path).unwrap();
    let key = KeyId::new("kind", &[7]);
    state.reserve(&[(key, 100)]).unwrap();
    drop(state);
    assert_eq!(NumberFile::open(&path).unwrap().next(&key).unwrap(), 100);
    assert_eq!(kind(NumberFile::create(&path)), "there is a state file already");
}

#[test]
fn missing_or_damaged_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    drop(NumberFile::create(&path).unwrap());
    let file = path.join(NAME);
    fs::write(&file, "antedate packet numbers 1\n").unwrap();
    assert!(kind(NumberFile::open(&path)).starts_with("the state file is damaged"));
    assert_eq!(kind(NumberFile::create(&path)), "there is a state file already");
    fs::write(&file, "antedate packet numbers 9\n").unwrap();
    assert!(
        kind(NumberFile::open(&path))
            .starts_with("the state file has a format that this version does not know")
    );
    fs::remove_file(&file).unwrap();
    assert!(kind(NumberFile::open(&path)).starts_with("there is no state file, so nobody knows"));
    assert!(inspect(&path).is_err());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(kind(NumberFile::open(&path)).contains("(mode 0770)"));
    assert_eq!(kind(NumberFile::open(&file.with_file_name("../other"))), "there is no such directory");
}

#[test]
fn moved_directory_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let [path, away] = ["s", "away"].map(|name| directory.path().join(name));
    let mut state = NumberFile::create(&path).unwrap();
    let key = KeyId::new("kind", &[7]);
    state.reserve(&[(key, 100)]).unwrap();
    let moved = "the state directory was moved or exchanged while this process used it";
    fs::rename(&path, &away).unwrap();
    assert_eq!(kind(state.reserve(&[(key, 200)])), moved);
    // A copy in its place, which another process can lock.
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(away.join(NAME), path.join(NAME)).unwrap();
    assert_eq!(kind(NumberFile::open(&path)), COPIED);
    assert_eq!(kind(state.raise(&[(key, OWN, 5)])), moved);
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    state.reserve(&[(key, 300)]).unwrap();
    assert_eq!(kind(NumberFile::open(&path)), "another process holds this state directory");
    state.close(&[(key, 300)], &[]).unwrap();
    assert_eq!(NumberFile::open(&path).unwrap().next(&key).unwrap(), 300);
}

#[test]
fn exchanged_file_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let mut state = NumberFile::create(&path).unwrap();
    let (file, key) = (path.join(NAME), KeyId::new("kind", &[7]));
    let backup = fs::read(&file).unwrap();
    state.reserve(&[(key, 100)]).unwrap();
    let current = fs::read(&file).unwrap();
    let exchanged = "the state file was changed or removed while this process used it";
    fs::write(&file, &backup).unwrap();
    assert_eq!(kind(state.reserve(&[(key, 200)])), exchanged);
    fs::remove_file(&file).unwrap();
    assert_eq!(kind(state.reserve(&[(key, 200)])), exchanged);
    fs::write(&file, &current).unwrap();
    state.reserve(&[(key, 200)]).unwrap();
    state.reserve(&[(key, 300)]).unwrap();
}

const COPIED: &str =
    "the state file is a copy or was restored, so nobody knows which packet numbers were used";

fn kind<T>(result: Result<T, NumbersError>) -> String {
    result.map(drop).unwrap_err().kind.to_string()
}

#[test]
fn unwritable_directory_fails_the_check() {
    // Root can write anywhere, apart from a read-only file system.
    let error = NumberFile::create(Path::new("/proc/antedate")).unwrap_err();
    assert!(error.to_string().starts_with("/proc/antedate: cannot make the directory: "), "{error}");
}

#[test]
fn remedies_never_suggest_a_new_directory() {
    let remedy = |number| {
        let error = io::Error::from_raw_os_error(number);
        let kind = NumbersErrorKind::Io { doing: "write the state file", error };
        NumbersError { path: "state".into(), kind }.remedy().unwrap_or_default()
    };
    assert_eq!([libc::ENOSPC, libc::EDQUOT].map(remedy), ["make room on its medium"; 2]);
    for number in [libc::EROFS, libc::EACCES, libc::EIO] {
        assert!(remedy(number).starts_with("make it writable"), "{}", remedy(number));
    }
}

#[test]
fn full_medium_may_pass() {
    let fault = |number| {
        let error = io::Error::from_raw_os_error(number);
        let kind = NumbersErrorKind::Io { doing: "write the state file", error };
        NumbersError { path: "state".into(), kind }.into_fault(|_| String::new())
    };
    assert!([libc::ENOSPC, libc::EDQUOT].into_iter().all(|number| fault(number).passing));
    assert!([libc::EROFS, libc::EIO].into_iter().all(|number| !fault(number).passing));
}

#[test]
fn forgetting_keys_survives_power_cuts() {
    let key = |key: u8| KeyId::new("kind", &[key]);
    for (step, keep) in (0..4).flat_map(|step| [(step, Keep::Nothing), (step, Keep::Name)]) {
        let medium = made();
        let mut state = open(&medium).unwrap();
        state.reserve(&[(key(1), 7), (key(2), 8)]).unwrap();
        medium.cut_at(step, keep);
        state.forget_numbers(&[key(1)], (key(3), OWN, 5)).unwrap_err();
        medium.restart();
        let mut state = open(&medium).unwrap();
        let known = (state.next(&key(1)).unwrap(), state.bound(&key(3), OWN));
        assert!([(7, 1), (1, 5)].contains(&known), "{step} {keep:?}: {known:?}");
        assert_eq!(state.next(&key(2)).unwrap(), 8);
        state.forget_numbers(&[key(1)], (key(3), OWN, 5)).unwrap();
        state.forget_numbers(&[key(2)], (key(3), OWN, 4)).unwrap();
        let state = open(&medium).unwrap();
        let next = [1, 2].map(|one| state.next(&key(one)).unwrap());
        assert_eq!((next, state.bound(&key(3), OWN)), ([1, 1], 5), "and the bound never falls");
    }
}

#[test]
fn full_file_accepts_the_bound() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    let key = |number: u32| KeyId::new("kind", &number.to_be_bytes());
    let all: Vec<_> = (0..10_000).map(|number| (key(number), 2)).collect();
    state.reserve(&all).unwrap();
    state.reserve(&[(key(10_000), 2)]).unwrap_err();
    state.forget_numbers(&[key(3), key(4), key(10_000)], (key(0), OWN, 5)).unwrap();
    state.reserve(&[(key(10_000), 2)]).unwrap();
}

#[test]
fn test_medium_loses_unsynced_data() {
    // The property must catch a save without synchronization of the content, otherwise it proves
    // nothing.
    let medium = made();
    let mut disk = medium.clone();
    disk.create_new().unwrap();
    disk.write_new(b"a new content").unwrap();
    disk.replace().unwrap();
    disk.sync_directory().unwrap();
    medium.restart();
    assert!(open(&medium).is_err_and(|error| matches!(error.kind, NumbersErrorKind::Corrupt)));
}
