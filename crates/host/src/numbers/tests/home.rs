//! A file and its place: copies, restored files, and what is no copy.

use std::process::Command;

use super::*;

const KEY: &[u8] = b"key";
const OLDER: &str = "the state file is older than the one that was written last on this machine";

/// A directory for a state, whose witness is removed in the end.
struct Desk {
    desk: tempfile::TempDir,
    path: PathBuf,
}

impl Desk {
    /// A state that reserved 100 numbers.
    fn new() -> Self {
        let desk = tempfile::tempdir().unwrap();
        let path = desk.path().join("state");
        let desk = Self { desk, path };
        let mut state = NumberFile::create(&desk.path).unwrap();
        state.reserve(&[(key(), 100)]).unwrap();
        desk
    }

    fn other(&self, name: &str) -> PathBuf {
        self.desk.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path.join(NAME)
    }

    /// A run that reserves up to a limit.
    fn run(&self, limit: u64) {
        NumberFile::open(&self.path).unwrap().reserve(&[(key(), limit)]).unwrap();
    }

    fn next(&self) -> u64 {
        NumberFile::open(&self.path).unwrap().next(&key()).unwrap()
    }

    /// What both say who look at the state at rest.
    fn said(&self) -> String {
        let said = kind(NumberFile::open(&self.path));
        assert_eq!(kind(inspect(&self.path)), said);
        said
    }

    fn home(&self) -> Home {
        Records::parse(&fs::read(self.file()).unwrap()).unwrap().home.unwrap()
    }

    /// As after a restart of the machine.
    fn forget_witness(&self) {
        for directory in ["/run/lock", "/var/lock", "/dev/shm"] {
            let name = format!("antedate-state-{}", crate::hex::hex(&self.home().state));
            let _ = fs::remove_file(Path::new(directory).join(name));
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if self.file().exists() && !std::thread::panicking() {
            self.forget_witness();
        }
    }
}

fn key() -> KeyId {
    KeyId::new("kind", KEY)
}

fn copy(from: &Path, to: &Path, options: &[&str]) {
    assert!(Command::new("cp").args(options).arg(from).arg(to).status().unwrap().success());
}

#[test]
fn copies_at_rest_are_refused() {
    let desk = Desk::new();
    let backup = desk.other("backup");
    copy(&desk.path, &backup, &["-a"]);
    desk.run(200);
    let last = desk.other("last");
    fs::rename(&desk.path, &last).unwrap();
    // The older directory, restored with its times.
    copy(&backup, &desk.path, &["-a"]);
    assert_eq!(desk.said(), OLDER);
    desk.forget_witness();
    assert_eq!(desk.said(), COPIED, "also after a restart of the machine");
    // A copy of the last one, which may be in use elsewhere.
    fs::remove_dir_all(&desk.path).unwrap();
    copy(&last, &desk.path, &["-a"]);
    assert_eq!(desk.said(), COPIED);
    // The last one itself.
    fs::remove_dir_all(&desk.path).unwrap();
    fs::rename(&last, &desk.path).unwrap();
    assert_eq!(desk.next(), 200);
}

#[test]
fn file_written_over_in_place_is_refused() {
    let desk = Desk::new();
    let backup = desk.other("backup");
    copy(&desk.file(), &backup, &["-a"]);
    for limit in [200, 300, 400] {
        desk.run(limit);
        let right = fs::read(desk.file()).unwrap();
        // The same inode, and then the same times.
        copy(&backup, &desk.file(), &["--preserve=timestamps"]);
        assert_eq!(desk.said(), OLDER);
        desk.forget_witness();
        assert_eq!(desk.said(), COPIED);
        fs::write(desk.file(), right).unwrap();
        assert_eq!(desk.next(), limit);
    }
}

#[test]
fn last_file_may_have_another_name_meanwhile() {
    let desk = Desk::new();
    let moved = desk.other("moved");
    fs::rename(&desk.path, &moved).unwrap();
    assert_eq!(NumberFile::open(&moved).unwrap().next(&key()).unwrap(), 100);
    fs::rename(&moved, &desk.path).unwrap();
    fs::rename(desk.file(), &moved).unwrap();
    fs::rename(&moved, desk.file()).unwrap();
    assert_eq!(desk.next(), 100);
}

#[test]
fn older_file_under_another_name_is_refused() {
    let desk = Desk::new();
    let kept = desk.other("kept");
    // A second name keeps the file as it was, as a snapshot does.
    fs::hard_link(desk.file(), &kept).unwrap();
    desk.run(200);
    let last = desk.other("last");
    fs::rename(desk.file(), &last).unwrap();
    fs::rename(&kept, desk.file()).unwrap();
    assert_eq!(desk.said(), OLDER);
    assert_eq!(kind(NumberFile::settle(&desk.path)), OLDER, "whatever the operator says");
    fs::rename(&last, desk.file()).unwrap();
    assert_eq!(desk.next(), 200);
}

#[test]
fn moved_state_settles_when_told() {
    let desk = Desk::new();
    let old = desk.other("old");
    fs::rename(&desk.path, &old).unwrap();
    copy(&old, &desk.path, &["-a"]);
    fs::remove_dir_all(&old).unwrap();
    assert_eq!(desk.said(), COPIED);
    let state = NumberFile::settle(&desk.path).unwrap();
    assert_eq!(state.next(&key()).unwrap(), 100);
    drop(state);
    assert_eq!(desk.next(), 100);
    desk.run(200);
    assert_eq!(desk.next(), 200);
}

#[test]
fn file_of_another_machine_is_refused() {
    let desk = Desk::new();
    let bytes = fs::read(desk.file()).unwrap();
    let mut records = Records::parse(&bytes).unwrap();
    let Some(home) = &mut records.home else { panic!("no home") };
    if home.origin.machine.is_none() {
        return;
    }
    home.origin.machine = Some([9; 16]);
    fs::write(desk.file(), records.to_bytes()).unwrap();
    assert!(desk.said().starts_with("the state file was written on another machine"), "{}", desk.said());
    drop(NumberFile::settle(&desk.path).unwrap());
    assert_eq!(desk.next(), 100);
}

#[test]
fn file_of_an_earlier_version_gets_a_home() {
    let desk = Desk::new();
    let mut records = Records::parse(&fs::read(desk.file()).unwrap()).unwrap();
    desk.forget_witness();
    records.home = None;
    fs::write(desk.file(), records.to_bytes()).unwrap();
    assert!(fs::read(desk.file()).unwrap().starts_with(b"antedate packet numbers 1\ntransmit"));
    let mut state = NumberFile::open(&desk.path).unwrap();
    assert!(state.is_homeless());
    state.reserve(&[(key(), 200)]).unwrap();
    drop(state);
    assert!(!NumberFile::open(&desk.path).unwrap().is_homeless());
    assert_eq!((desk.next(), desk.home().writes), (200, 1));
}

#[test]
fn second_run_reads_the_first_ones_witness() {
    let desk = Desk::new();
    let writes = || super::super::home::Witness::of(&desk.home().state).writes();
    assert_eq!((desk.home().writes, writes()), (2, 2));
    desk.run(200);
    assert_eq!((desk.home().writes, writes()), (3, 3));
    super::super::home::Witness::of(&desk.home().state).note(1);
    assert_eq!(writes(), 3, "it never falls");
}
