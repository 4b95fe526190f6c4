//! A device and what somebody may show it.

use super::*;
use crate::authority::{Reading, Signing};
use crate::identity::Seed;
use crate::report::Health;

const NOW: u64 = 1_800_000_000;

/// A gateway that refuses files with the word "faulty".
#[derive(Default)]
struct Reader {
    reloads: usize,
}

impl Gateway for Reader {
    fn reload(&mut self, directory: &Path) -> Result<String, NotTaken> {
        self.reloads += 1;
        let text = fs::read_to_string(directory.join("gateway.toml")).unwrap_or_default();
        if text.contains("faulty") { Err(NotTaken("unknown key".into())) } else { Ok("taken over".into()) }
    }

    fn health(&mut self) -> Health {
        Health::default()
    }
}

struct Place {
    directory: tempfile::TempDir,
    desk: Desk,
    gateway: Reader,
}

fn signing(octet: u8) -> Signing {
    Signing::of(Seed::of([octet; 32]))
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let desk = open(directory.path());
    Place { directory, desk, gateway: Reader::default() }
}

fn open(directory: &Path) -> Desk {
    let authority = Authority::of(&signing(9), &Reading::of(Seed::of([8; 32])));
    Desk::open(State::of(directory), Identity::of(Seed::of([1; 32])), authority).unwrap()
}

fn sealed(version: u64, files: &[(&str, &str)], signing: &Signing) -> Vec<u8> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    of_body(version, Body::Settings(Settings { files, ..Settings::default() }), signing)
}

fn of_body(version: u64, body: Body, signing: &Signing) -> Vec<u8> {
    let keys = Identity::of(Seed::of([1; 32])).public();
    let document = Document { device: keys.id(), version, not_before: NOW - 10, expires: NOW + 10, body };
    document.seal(signing, &keys).unwrap()
}

impl Place {
    fn show(&mut self, message: &[u8]) -> Outcome {
        self.desk.consider(message, NOW, &mut self.gateway).unwrap()
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.directory.path().join("files").join(name)).ok()
    }
}

#[test]
fn files_come_change_and_go() {
    let mut place = place();
    let first = sealed(1, &[("gateway.toml", "one"), ("cak", "key")], &signing(9));
    assert!(matches!(place.show(&first), Outcome::Applied { version: 1, .. }));
    assert_eq!(place.show(&first), Outcome::Unchanged);
    assert_eq!(place.gateway.reloads, 1);
    let second = sealed(2, &[("gateway.toml", "two")], &signing(9));
    assert!(matches!(place.show(&second), Outcome::Applied { version: 2, .. }));
    assert_eq!((place.file("gateway.toml").as_deref(), place.file("cak")), (Some("two"), None));
}

#[test]
fn stolen_password_changes_nothing() {
    let mut place = place();
    let right = sealed(5, &[("gateway.toml", "right")], &signing(9));
    place.show(&right);
    // Another key, an older version, another document with this version, a half.
    let forged = sealed(6, &[("gateway.toml", "evil")], &signing(7));
    assert_eq!(place.show(&forged), Outcome::Refused(DocumentError::Signature));
    let old = sealed(4, &[("gateway.toml", "old")], &signing(9));
    assert_eq!(place.show(&old), Outcome::Refused(DocumentError::Old { version: 4, taken: 5 }));
    let other = sealed(5, &[("gateway.toml", "other")], &signing(9));
    assert_eq!(place.show(&other), Outcome::Refused(DocumentError::Differs { version: 5 }));
    assert_eq!(place.show(&right[..right.len() / 2]), Outcome::Refused(DocumentError::Format));
    let welcome = crate::document::Welcome { name: "x".into(), role: "y".into(), pass: "z".into() };
    let welcome = of_body(9, Body::Welcome(welcome), &signing(9));
    assert!(matches!(place.show(&welcome), Outcome::Refused(DocumentError::UnknownKind(_))));
    assert_eq!(place.file("gateway.toml").as_deref(), Some("right"));
    assert_eq!((place.gateway.reloads, place.desk.kept().settings), (1, 5));
}

#[test]
fn clock_in_1970_takes_nothing_new() {
    let mut place = place();
    let message = sealed(1, &[("gateway.toml", "one")], &signing(9));
    let early = place.desk.consider(&message, 12, &mut place.gateway).unwrap();
    assert!(matches!(&early, Outcome::Refused(DocumentError::Future { now: 12, .. })), "{early:?}");
    place.show(&message);
    // What is in force stays in force.
    assert!(!place.desk.restore().unwrap());
    let late = place.desk.consider(&sealed(2, &[], &signing(9)), NOW + 10, &mut place.gateway).unwrap();
    assert!(matches!(late, Outcome::Refused(DocumentError::Expired { .. })));
    assert_eq!(place.file("gateway.toml").as_deref(), Some("one"));
}

#[test]
fn device_away_for_a_year_takes_the_newest() {
    let mut place = place();
    place.show(&sealed(1, &[("gateway.toml", "one")], &signing(9)));
    let keys = Identity::of(Seed::of([1; 32])).public();
    let files = BTreeMap::from([("gateway.toml".to_owned(), "two".to_owned())]);
    let body = Body::Settings(Settings { files, ..Settings::default() });
    let expires = NOW + crate::document::VALID;
    let second = Document { device: keys.id(), version: 2, not_before: NOW - 10, expires, body };
    let second = second.seal(&signing(9), &keys).unwrap();
    let day = 86_400;
    // It starts after a year without NATS: what is in force is there, and then the newest one comes.
    let mut desk = open(place.directory.path());
    assert!(!desk.restore().unwrap() && place.file("gateway.toml").as_deref() == Some("one"));
    let late = desk.consider(&second, NOW + 400 * day, &mut place.gateway).unwrap();
    assert!(matches!(late, Outcome::Refused(DocumentError::Expired { .. })), "{late:?}");
    let taken = desk.consider(&second, NOW + 365 * day, &mut place.gateway).unwrap();
    assert!(matches!(taken, Outcome::Applied { version: 2, .. }), "{taken:?}");
    assert_eq!(place.file("gateway.toml").as_deref(), Some("two"));
}

#[test]
fn group_reads_files_and_nothing_else() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let state = State::of(directory.path());
    state.identity(true).unwrap();
    let authority = Authority::of(&signing(9), &Reading::of(Seed::of([8; 32])));
    let identity = || Identity::of(Seed::of([1; 32]));
    let mut desk = Desk::open(state.clone().shared(), identity(), authority).unwrap();
    let first = sealed(1, &[("cak", "key")], &signing(9));
    desk.consider(&first, NOW, &mut Reader::default()).unwrap();
    let mode = |name: &str| fs::metadata(directory.path().join(name)).unwrap().mode() & 0o777;
    assert_eq!([mode(""), mode("files"), mode("files/cak")], [0o710, 0o710, 0o640]);
    assert_eq!([mode("identity.key"), mode("kept.json")], [0o600, 0o600]);
    // A file with other rights is set right at the next start.
    fs::set_permissions(
        directory.path().join("files/cak"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let desk = Desk::open(state.shared(), identity(), authority).unwrap();
    assert!(!desk.restore().unwrap() && mode("files/cak") == 0o640);
}

#[test]
fn refused_files_are_taken_back() {
    let mut place = place();
    place.show(&sealed(1, &[("gateway.toml", "one"), ("cak", "a")], &signing(9)));
    let faulty = sealed(2, &[("gateway.toml", "faulty"), ("more", "b")], &signing(9));
    let Outcome::Failed { version: 2, why } = place.show(&faulty) else { panic!("not refused") };
    assert_eq!(why, "unknown key");
    assert_eq!(
        (place.file("gateway.toml").as_deref(), place.file("cak").as_deref()),
        (Some("one"), Some("a"))
    );
    assert_eq!(place.file("more"), None);
    // It stays at NATS, and is not tried again.
    assert_eq!(place.show(&faulty), Outcome::Unchanged);
    let kept = place.desk.kept();
    assert_eq!((kept.taken, kept.settings, kept.failed), (2, 1, 2));
    assert!(matches!(
        place.show(&sealed(3, &[("gateway.toml", "three")], &signing(9))),
        Outcome::Applied { .. }
    ));
    assert_eq!(place.desk.kept().failed, 0);
    let name = sealed(4, &[("../evil", "x")], &signing(9));
    assert!(matches!(place.show(&name), Outcome::Failed { .. }));
    assert!(!place.directory.path().join("evil").exists());
}

#[test]
fn crash_between_files_is_mended() {
    let mut place = place();
    place.show(&sealed(1, &[("gateway.toml", "one"), ("cak", "a")], &signing(9)));
    fs::write(place.directory.path().join("files/cak"), "half of ano").unwrap();
    let desk = open(place.directory.path());
    assert!(desk.restore().unwrap());
    assert_eq!(place.file("cak").as_deref(), Some("a"));
    assert!(!desk.restore().unwrap());
    // The version survives the restart.
    assert_eq!(desk.kept().taken, 1);
}

#[test]
fn revoked_device_forgets_its_keys() {
    let mut place = place();
    place.show(&sealed(1, &[("gateway.toml", "one"), ("cak", "secret"), ("psk", "secret")], &signing(9)));
    let revocation = of_body(2, Body::Revocation, &signing(9));
    assert_eq!(place.show(&revocation), Outcome::Revoked);
    assert_eq!(place.file("psk"), None);
    assert!(place.file("cak").unwrap().starts_with("mka_cak="));
    let kept = fs::read_to_string(place.directory.path().join("kept.json")).unwrap();
    assert!(kept.contains("\"revoked\": true") && kept.contains("\"message\": \"\""), "{kept}");
    // Its last settings do not come back.
    let old = sealed(1, &[("cak", "secret")], &signing(9));
    assert!(matches!(place.show(&old), Outcome::Refused(DocumentError::Old { .. })));
    assert_eq!(place.show(&revocation), Outcome::Unchanged);
}

#[test]
fn device_forgets_until_all_is_gone() {
    let mut place = place();
    place.show(&sealed(1, &[("gateway.toml", "one"), ("cak", "secret"), ("wg.key", "secret")], &signing(9)));
    let config = place.directory.path().join("files/gateway.toml");
    fs::write(&config, "faulty").unwrap();
    // The state of a gateway of the same user.
    fs::create_dir(place.directory.path().join("files/state")).unwrap();
    let revocation = of_body(2, Body::Revocation, &signing(9));
    let fault = place.desk.consider(&revocation, NOW, &mut place.gateway).unwrap_err();
    assert!(fault.what.contains("goes on with its keys"), "{fault}");
    let cak = place.file("cak").unwrap();
    assert!(!place.desk.is_revoked() && place.file("wg.key").is_some() && !cak.contains("secret"));
    // Each look tries again, and writes no other key each time.
    assert!(place.desk.finish(&mut place.gateway).is_err() && place.file("cak").unwrap() == cak);
    assert_eq!(place.show(&revocation), Outcome::Unchanged);
    // Nor does a power cut end it.
    place.desk = open(place.directory.path());
    assert!(place.desk.finish(&mut place.gateway).is_err() && !place.desk.is_revoked());
    fs::write(&config, "one").unwrap();
    assert!(place.desk.finish(&mut place.gateway).unwrap() && place.desk.is_revoked());
    assert_eq!(place.file("wg.key"), None);
    // What was left when the power went after the record is removed at the next start.
    fs::write(place.directory.path().join("files/wg.key"), "secret").unwrap();
    place.desk = open(place.directory.path());
    assert!(!place.desk.is_revoked() && place.desk.finish(&mut place.gateway).unwrap());
    assert_eq!((place.file("wg.key"), place.desk.finish(&mut place.gateway).unwrap()), (None, false));
}

/// A gateway beside which the agent's records cannot be written any more.
struct FullDisk<'a> {
    records: &'a Path,
}

impl Gateway for FullDisk<'_> {
    fn reload(&mut self, _: &Path) -> Result<String, NotTaken> {
        if self.records.is_file() {
            fs::remove_file(self.records).unwrap();
            fs::create_dir(self.records).unwrap();
        }
        Ok("taken over".into())
    }

    fn health(&mut self) -> Health {
        Health::default()
    }
}

#[test]
fn settings_without_a_record_go_back() {
    let Place { directory, mut desk, mut gateway } = place();
    let one = sealed(1, &[("gateway.toml", "one")], &signing(9));
    desk.consider(&one, NOW, &mut gateway).unwrap();
    let records = directory.path().join("kept.json");
    assert!(records.is_file());
    let two = sealed(2, &[("gateway.toml", "two")], &signing(9));
    assert!(desk.consider(&two, NOW, &mut FullDisk { records: &records }).is_err());
    let file = State::of(directory.path()).files().join("gateway.toml");
    assert_eq!(fs::read_to_string(file).unwrap(), "one");
    assert_eq!(desk.kept().settings, 1);
}

#[test]
fn pass_is_renewed_by_settings() {
    let mut place = place();
    let authority = Authority::of(&signing(9), &Reading::of(Seed::of([8; 32])));
    let member = crate::agent::state::Membership {
        fleet: "plant".into(),
        servers: Vec::new(),
        authority: authority.into(),
        certificates: String::new(),
        name: "press".into(),
        role: "gateway".into(),
        pass: "old".into(),
    };
    place.desk.state.set_membership(&member).unwrap();
    let settings = Settings { pass: "new".into(), ..Settings::default() };
    place.show(&of_body(1, Body::Settings(settings), &signing(9)));
    assert_eq!(place.desk.pass(), "new");
    assert_eq!(place.desk.state.membership().unwrap().unwrap().pass, "new");
    // One with faulty files brings it too.
    let files = BTreeMap::from([("gateway.toml".to_owned(), "faulty".to_owned())]);
    let settings = Settings { files, pass: "newer".into(), ..Settings::default() };
    let outcome = place.show(&of_body(2, Body::Settings(settings), &signing(9)));
    assert!(matches!(outcome, Outcome::Failed { .. }) && place.desk.pass() == "newer");
    // A document without one leaves it.
    place.show(&sealed(3, &[], &signing(9)));
    assert_eq!(place.desk.state.membership().unwrap().unwrap().pass, "newer");
}

#[test]
fn certificates_are_renewed_by_settings() {
    let mut place = place();
    let authority = Authority::of(&signing(9), &Reading::of(Seed::of([8; 32])));
    let member = crate::agent::state::Membership {
        fleet: "plant".into(),
        servers: Vec::new(),
        authority: authority.into(),
        certificates: "first".into(),
        name: "press".into(),
        role: "gateway".into(),
        pass: "old".into(),
    };
    place.desk.state.set_membership(&member).unwrap();
    // Where the library reads them at each connection.
    let file = place.desk.state.certificates("first").unwrap().unwrap();
    let now = |place: &Place| {
        let known = place.desk.state.membership().unwrap().unwrap();
        (known.certificates, std::fs::read_to_string(&file).unwrap())
    };
    let settings = Settings { certificates: "second".into(), ..Settings::default() };
    place.show(&of_body(1, Body::Settings(settings), &signing(9)));
    assert_eq!(now(&place), ("second".into(), "second".into()));
    place.show(&sealed(2, &[], &signing(9)));
    assert_eq!(now(&place), ("second".into(), "second".into()));
    assert_eq!(place.desk.state.membership().unwrap().unwrap().pass, "old");
}

#[test]
fn keys_end_without_a_newer_document() {
    let mut place = place();
    let files = [("cak", "the key"), ("wg.key", "the key"), ("psk-x", "the key"), ("gateway.toml", "one")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let settings = Settings { files, until: NOW + 100, ..Settings::default() };
    place.show(&of_body(1, Body::Settings(settings), &signing(9)));
    assert!(!place.desk.expire(NOW + 99, &mut place.gateway).unwrap() && !place.desk.has_ended());
    assert!(place.desk.expire(NOW + 100, &mut place.gateway).unwrap() && place.desk.has_ended());
    assert!(!place.desk.expire(NOW + 101, &mut place.gateway).unwrap(), "once");
    assert_eq!((place.file("gateway.toml").as_deref(), place.file("wg.key")), (Some("one"), None));
    for name in ["cak", "psk-x"] {
        assert!(!place.file(name).unwrap().contains("the key"), "{name}");
    }
    // The next document brings keys again.
    place.show(&sealed(2, &[("cak", "another key")], &signing(9)));
    assert_eq!((place.file("cak").as_deref(), place.desk.has_ended()), (Some("another key"), false));
}
