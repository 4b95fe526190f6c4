//! The operator's directory.

use super::*;
use antedate_host::private_file;

use crate::bearer::Bearers;
use crate::document::Settings;

use crate::identity::{self, Identity, Seed};
use std::os::unix::fs::MetadataExt;

fn fleet() -> (tempfile::TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    let servers = ["nats://127.0.0.1:4222".to_owned()];
    let home = Home::create(&directory.path().join("fleet"), "plant", &servers, 1, "").unwrap();
    (directory, home)
}

fn wanted(home: &Home, id: &str) -> Settings {
    home.wanted(&mut Bearers::default(), id).unwrap()
}

fn join(home: &mut Home, name: &str, octet: u8) -> String {
    let keys = Identity::of(Seed::of([octet; 32])).public();
    home.devices.insert(keys.id(), Member::new(name, "gateway", "line4", keys));
    home.save().unwrap();
    keys.id()
}

#[test]
fn secrets_are_for_their_owner() {
    let (_directory, home) = fleet();
    for name in [SIGNING, READING, OPERATOR, INVITATION, DEVICES, TOKENS] {
        let about = fs::metadata(home.directory().join(name)).unwrap();
        assert_eq!(about.mode() & 0o077, 0, "{name}");
    }
    let place = home.directory().to_owned();
    assert!(Home::open(&place).unwrap_err().what.contains("at work"));
    assert_eq!(Home::look(&place).unwrap().fleet, home.fleet);
    drop(home);
    let home = Home::open(&place).unwrap();
    assert_eq!(home.access().unwrap().user, "operator");
    drop(home);
    assert!(Home::create(&place, "plant", &[], 1, "").unwrap_err().what.contains("already"));
}

#[test]
fn signing_key_may_be_elsewhere() {
    let (directory, home) = fleet();
    let moved = directory.path().join("usb.key");
    fs::rename(home.directory().join(SIGNING), &moved).unwrap();
    assert!(home.signing(None).unwrap_err().what.contains("not on this machine"));
    assert!(home.signing(Some(&moved)).is_ok());
    let other = directory.path().join("other.key");
    Signing::generate().unwrap().write_new(&other).unwrap();
    assert!(home.signing(Some(&other)).unwrap_err().what.contains("another fleet"));
}

#[test]
fn members_are_found_by_name_or_code() {
    let (_directory, mut home) = fleet();
    let id = join(&mut home, "press", 1);
    for who in ["press", &id, &identity::code(&id)] {
        assert_eq!(home.find(who).unwrap(), id);
    }
    assert!(home.find("hall").unwrap_err().what.contains("no device"));
}

#[test]
fn members_of_a_cell_get_one_cak() {
    let (_directory, mut home) = fleet();
    home.set_role("gateway", "gateway.toml", "# ${name}\n").unwrap();
    let (a, b) = (join(&mut home, "press", 1), join(&mut home, "hall", 2));
    let (a, b) = (wanted(&home, &a), wanted(&home, &b));
    assert_eq!(a.files["cak"], b.files["cak"]);
    assert_eq!(
        (a.files["gateway.toml"].as_str(), b.files["gateway.toml"].as_str()),
        ("# press\n", "# hall\n")
    );
    assert!(home.set_role("../x", "a", "").is_err() && home.set_role("x", "a/b", "").is_err());
}

#[test]
fn backup_brings_the_fleet_back() {
    let (directory, mut home) = fleet();
    home.set_role("gateway", "gateway.toml", "# ${name}\n").unwrap();
    let id = join(&mut home, "press", 1);
    let settings = wanted(&home, &id);
    home.set_published(&id, &settings).unwrap();
    let file = directory.path().join("backup.json");
    private_file::create(&file, &home.pack(false).unwrap()).unwrap();
    let restored = Home::unpack(&file, &directory.path().join("again")).unwrap();
    assert_eq!((&restored.devices, wanted(&restored, &id)), (&home.devices, settings.clone()));
    assert_eq!(restored.published(&id), Some(settings));
    assert!(restored.signing(None).is_err(), "the signing key is not in it");
    assert!(Home::unpack(&file, home.directory()).unwrap_err().what.contains("already"));
    // A backup that somebody made up.
    let evil = r#"{"backup_of": "x", "made": 1, "files": {"../evil": "AA==", "fleet.json": "AA=="}}"#;
    private_file::create(&directory.path().join("evil"), evil).unwrap();
    let place = directory.path().join("third");
    assert!(Home::unpack(&directory.path().join("evil"), &place).unwrap_err().what.contains("damaged"));
    assert!(!place.exists() && !directory.path().join("evil.json").exists());
}

#[test]
fn lost_hub_leaves_the_other_groups_whole() {
    let (_directory, mut home) = fleet();
    let [hub, spoke] = [("hall", 1), ("press", 2)].map(|(name, octet)| join(&mut home, name, octet));
    for id in [&hub, &spoke] {
        let member = home.devices.get_mut(id).unwrap();
        (member.overlay, member.dtls) = ("wan".into(), "sensors".into());
    }
    let values = [("hub", "yes"), ("endpoint", "192.0.2.1:51820"), ("listener", "yes")];
    home.devices.get_mut(&hub).unwrap().values = values.map(|(key, value)| (key.into(), value.into())).into();
    home.set_role("gateway", "gateway.toml", "${tunnel}").unwrap();
    let before = wanted(&home, &spoke);
    home.set_published(&spoke, &before).unwrap();
    assert!(before.files.contains_key(&format!("psk-{hub}")));
    home.devices.get_mut(&hub).unwrap().revoked = 1;
    let after = wanted(&home, &spoke);
    assert!(!after.files.contains_key(&format!("psk-{hub}")) && after.files.contains_key("wg.key"));
    assert_ne!(after.files["dtls.psk"], before.files["dtls.psk"]);
    assert_eq!(wanted(&home, &spoke), after, "one change");
    // A fault of another group withholds no CAK.
    home.devices.get_mut(&spoke).unwrap().values.insert("tunnel".into(), "x".into());
    assert!(home.wanted(&mut Bearers::default(), &spoke).is_err());
    let mut keys = home.cell("line4").unwrap().unwrap();
    keys.replace(5).unwrap();
    home.set_cell("line4", &keys).unwrap();
    let files = home.with_cell(&spoke).unwrap().unwrap().files;
    assert!(files["cak"] == keys.text() && files["cak"] != before.files["cak"]);
    home.forget_published(&spoke).unwrap();
    assert_eq!((home.published(&spoke), home.with_cell(&spoke).unwrap()), (None, None));
}

#[test]
fn who_moves_leaves_a_cell_that_must_change() {
    let (_directory, mut home) = fleet();
    let (press, hall) = (join(&mut home, "press", 1), join(&mut home, "hall", 2));
    home.set_role("gateway", "gateway.toml", "# ${name}\n").unwrap();
    wanted(&home, &press);
    assert!(home.left_cells().unwrap().is_empty());
    home.devices.get_mut(&press).unwrap().cell = "line5".into();
    wanted(&home, &press);
    let left = home.left_cells().unwrap();
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [("line4".to_owned(), vec!["press".to_owned()])]);
    // As a change does it.
    let mut keys = home.cell("line4").unwrap().unwrap();
    keys.begin(2).unwrap();
    home.set_cell("line4", &keys).unwrap();
    let both = wanted(&home, &hall);
    keys = home.cell("line4").unwrap().unwrap();
    keys.complete();
    home.set_cell("line4", &keys).unwrap();
    assert!(home.left_cells().unwrap().is_empty() && wanted(&home, &hall) != both);
    // Who is revoked is a member no more.
    home.devices.get_mut(&hall).unwrap().revoked = 3;
    assert_eq!(home.left_cells().unwrap()["line4"], ["hall"]);
}

#[test]
fn other_certificates_are_for_all_that_come() {
    let (_directory, mut home) = fleet();
    assert!(!home.fleet.certificates_changed);
    assert_eq!(fs::read_to_string(home.access_with("next").unwrap().certificates.unwrap()).unwrap(), "next");
    home.set_certificates("next").unwrap();
    let invitation = Invitation::load(&home.directory().join(INVITATION)).unwrap();
    assert_eq!((invitation.certificates.as_str(), home.fleet.certificates.as_str()), ("next", "next"));
    assert_eq!(fs::read_to_string(home.access().unwrap().certificates.unwrap()).unwrap(), "next");
    let place = home.directory().to_owned();
    drop(home);
    assert!(Home::open(&place).unwrap().fleet.certificates_changed);
}
