//! A group's last rotation over restarts of a member, without a broker that repeats it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use antedate_channel::mqtt::rotation::RotationError;
use antedate_channel::mqtt::{Algorithm, Dropped};
use antedate_host::hex::hex;
use antedate_mqtt::file::{Device, GroupFile, Member};
use antedate_mqtt::guard::{Guard, SealError, Verdict};
use antedate_mqtt::manage::{self, Manager};
use antedate_mqtt::store::Store;
use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};

const TOPIC: &str = "plant/force";
const KEYS: &str = "antedate/keys/line4";

fn device(name: &str) -> Device {
    Device { name: name.into(), secret: manage::random().expect("random") }
}

fn again(device: &Device) -> Device {
    Device { name: device.name.clone(), secret: device.secret.clone() }
}

/// The manager of a group of these devices.
fn group(directory: &Path, devices: &[&Device]) -> Manager {
    let member = |one: &&Device| Member {
        name: one.name.clone(),
        public: Some(one.public()),
        publish: true,
        verify: None,
    };
    let members = devices.iter().map(member).collect();
    let group =
        manage::new_group("line4", Algorithm::A128Gcm, vec!["plant/#".into()], members).expect("a group");
    let file = directory.join("manager.toml");
    fs::write(&file, group.to_text(false)).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours alone");
    Manager::open(&file).expect("a manager")
}

/// A member that starts from its state directory.
fn start(manager: &Manager, device: &Device, state: &Path) -> Guard {
    let file =
        GroupFile::parse(Path::new("line4.toml"), &manager.group().to_text(true)).expect("the members' file");
    Guard::new(vec![file], Some(again(device)), Some(Store::open(state).expect("the state")), None)
}

fn hear(guard: &mut Guard, message: &[u8]) -> Verdict {
    guard.open(KEYS, message, &mut Vec::new())
}

fn epoch(guard: &mut Guard) -> u32 {
    guard.seal(TOPIC, b"x", &mut Vec::new()).expect("sealed").0
}

#[test]
fn restarted_member_has_its_newest_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, state) = (device("press7"), directory.path().join("state"));
    Store::create(&state).expect("created");
    let mut manager = group(directory.path(), &[&press7]);
    let first = manager.announce().expect("announced");

    let mut guard = start(&manager, &press7, &state);
    assert!(matches!(guard.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoKey(_))));
    assert!(matches!(hear(&mut guard, &first), Verdict::Rotated { epoch: 1, .. }));
    drop(guard);
    let mut guard = start(&manager, &press7, &state);
    assert_eq!(epoch(&mut guard), 1, "without the broker");
    assert!(matches!(hear(&mut guard, &first), Verdict::Known { epoch: 1, .. }));

    manager.rotate(&[], 60).expect("rotated");
    let second = manager.announce().expect("announced");
    assert!(matches!(hear(&mut guard, &second), Verdict::Rotated { epoch: 2, .. }));
    assert!(matches!(hear(&mut guard, &first), Verdict::Known { epoch: 1, .. }));
    drop(guard);
    let mut guard = start(&manager, &press7, &state);
    assert_eq!(epoch(&mut guard), 2, "an older message does not take the place of a newer one");
    drop(guard);

    // Nor from the directory itself, nor a changed one.
    let kept = state.join("rotation-line4");
    assert_eq!(fs::read(&kept).expect("kept"), second);
    fs::write(&kept, &first).expect("written");
    let mut guard = start(&manager, &press7, &state);
    assert!(matches!(guard.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoKey(_))));
    drop(guard);
    let mut changed = second.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    fs::write(&kept, &changed).expect("written");
    let mut guard = start(&manager, &press7, &state);
    assert!(!guard.has_keys());
    assert!(matches!(hear(&mut guard, &second), Verdict::Rotated { epoch: 2, .. }));
    assert_eq!(fs::read(&kept).expect("kept"), second, "what is authentic takes its place");
}

#[test]
fn revoked_device_publishes_nothing_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, press8) = (device("press7"), device("press8"));
    let state = directory.path().join("state");
    Store::create(&state).expect("created");
    let mut manager = group(directory.path(), &[&press7, &press8]);
    let mut guard = start(&manager, &press7, &state);
    hear(&mut guard, &manager.announce().expect("announced"));
    drop(guard);

    manager.rotate(&["press7".into()], 0).expect("revoked");
    let without = manager.announce().expect("announced");
    let mut guard = start(&manager, &press7, &state);
    assert_eq!(epoch(&mut guard), 1, "nobody has said so yet");
    assert!(matches!(hear(&mut guard, &without), Verdict::NoRotation(RotationError::NotMember)));
    assert!(matches!(guard.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoKey(_))));
}

#[test]
fn old_rotation_without_a_member_is_superseded() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, press8) = (device("press7"), device("press8"));
    let state = directory.path().join("state");
    Store::create(&state).expect("created");
    let older = group(directory.path(), &[&press8]).announce().expect("announced");
    let text = fs::read_to_string(directory.path().join("manager.toml")).expect("the file");
    let member = format!("\n[[member]]\nname = \"press7\"\npublic = \"{}\"\n", hex(&press7.public()));
    fs::write(directory.path().join("manager.toml"), text + &member).expect("written");
    let mut manager = Manager::open(&directory.path().join("manager.toml")).expect("a manager");
    manager.rotate(&[], 60).expect("rotated");
    let newest = manager.announce().expect("announced");
    hear(&mut start(&manager, &press7, &state), &newest);

    let mut guard = start(&manager, &press7, &state);
    assert!(matches!(hear(&mut guard, &older), Verdict::NoRotation(RotationError::NotMember)));
    assert!(matches!(guard.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoKey(_))));
    assert!(matches!(hear(&mut guard, &newest), Verdict::Known { epoch: 2, .. }));
    assert_eq!(epoch(&mut guard), 2);
}

#[test]
fn other_key_for_the_current_epoch_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, state) = (device("press7"), directory.path().join("state"));
    Store::create(&state).expect("created");
    let (file, mut manager) = (directory.path().join("manager.toml"), group(directory.path(), &[&press7]));
    let backup = fs::read(&file).expect("the file");
    let mut guard = start(&manager, &press7, &state);
    manager.rotate(&[], 60).expect("rotated");
    hear(&mut guard, &manager.announce().expect("announced"));
    drop(manager);
    fs::write(&file, &backup).expect("written");
    let mut manager = Manager::open(&file).expect("a manager");
    manager.rotate(&[], 60).expect("rotated");
    let other = manager.announce().expect("announced");
    assert!(matches!(hear(&mut guard, &other), Verdict::NoRotation(RotationError::OtherKey)));
    manager.rotate(&[], 60).expect("rotated");
    let third = manager.announce().expect("announced");
    assert!(matches!(hear(&mut guard, &third), Verdict::Rotated { epoch: 3, .. }));
}

/// The first envelope of a started member.
fn sealed(guard: &mut Guard) -> Vec<u8> {
    let mut envelope = Vec::new();
    guard.seal(TOPIC, b"x", &mut envelope).expect("sealed");
    envelope
}

fn open(guard: &mut Guard, envelope: &[u8]) -> Verdict {
    guard.open(TOPIC, envelope, &mut Vec::new())
}

#[test]
fn grace_of_the_former_epoch_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, scada) = (device("press7"), device("scada"));
    let [own, other] = ["scada", "press7"].map(|name| directory.path().join(name));
    [&own, &other].iter().for_each(|state| Store::create(state).expect("created"));
    let mut manager = group(directory.path(), &[&press7, &scada]);
    let first = manager.announce().expect("announced");
    let mut publisher = start(&manager, &press7, &other);
    hear(&mut publisher, &first);
    let old = [(); 3].map(|()| sealed(&mut publisher));

    let mut guard = start(&manager, &scada, &own);
    hear(&mut guard, &first);
    manager.rotate(&[], 60).expect("rotated");
    hear(&mut guard, &manager.announce().expect("announced"));
    assert!(matches!(open(&mut guard, &old[0]), Verdict::Opened(_)), "within its grace");
    guard.flush().expect("durable");
    drop(guard);
    let mut guard = start(&manager, &scada, &own);
    assert_eq!(epoch(&mut guard), 2);
    assert!(matches!(open(&mut guard, &old[1]), Verdict::Opened(_)), "still within it");
    assert!(matches!(
        open(&mut guard, &old[0]),
        Verdict::Refused(Dropped::Repeated { .. } | Dropped::Late { .. })
    ));
    guard.flush().expect("durable");
    drop(guard);

    // The grace runs on while the member is stopped, and a clock set back does not prolong it.
    let set = |when| {
        let kept = fs::File::options().write(true).open(own.join("rotation-line4")).expect("kept");
        kept.set_modified(when).expect("its time");
    };
    let now = SystemTime::now();
    for when in [now + Duration::from_secs(3600), now - Duration::from_secs(61)] {
        set(when);
        let mut guard = start(&manager, &scada, &own);
        assert!(matches!(open(&mut guard, &old[2]), Verdict::Refused(Dropped::OldEpoch { .. })));
        drop(guard);
        set(now);
        let mut guard = start(&manager, &scada, &own);
        assert!(matches!(open(&mut guard, &old[2]), Verdict::Refused(Dropped::OldEpoch { .. })), "for good");
    }
}

#[test]
fn revoked_epoch_is_not_read_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, scada) = (device("press7"), device("scada"));
    let [one, two, other] = ["one", "two", "press7"].map(|name| directory.path().join(name));
    [&one, &two, &other].iter().for_each(|state| Store::create(state).expect("created"));
    let mut manager = group(directory.path(), &[&press7, &scada]);
    let first = manager.announce().expect("announced");
    let mut revoked = start(&manager, &press7, &other);
    hear(&mut revoked, &first);
    for state in [&one, &two] {
        hear(&mut start(&manager, &scada, state), &first);
    }
    manager.rotate(&["press7".into()], 60).expect("revoked");
    let second = manager.announce().expect("announced");
    manager.rotate(&[], 60).expect("rotated");
    let third = manager.announce().expect("announced");
    // With the revocation received, or only a later rotation.
    for (state, messages) in [(one, &[&third][..]), (two, &[&second, &third])] {
        let mut guard = start(&manager, &scada, &state);
        assert_eq!(epoch(&mut guard), 1);
        for message in messages {
            assert!(matches!(hear(&mut guard, message), Verdict::Rotated { .. }));
            let refused = open(&mut guard, &sealed(&mut revoked));
            assert!(matches!(refused, Verdict::Refused(Dropped::OldEpoch { epoch: 1, .. })), "{refused:?}");
            // The key of a former epoch is kept for its grace alone.
            let has_grace = messages.len() > 1 && *message == &third;
            assert_eq!(state.join("former-line4").exists(), has_grace);
        }
        drop(guard);
        let mut guard = start(&manager, &scada, &state);
        assert_eq!(epoch(&mut guard), 3);
        let refused = open(&mut guard, &sealed(&mut revoked));
        assert!(matches!(refused, Verdict::Refused(Dropped::OldEpoch { epoch: 1, .. })), "{refused:?}");
    }
}

#[test]
fn bounds_of_an_epoch_are_forgotten_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, scada) = (device("press7"), device("scada"));
    let [own, other] = ["scada", "press7"].map(|name| directory.path().join(name));
    [&own, &other].iter().for_each(|state| Store::create(state).expect("created"));
    let mut manager = group(directory.path(), &[&press7, &scada]);
    let mut publisher = start(&manager, &press7, &other);
    // While nothing else has the database open.
    let bounds = || {
        const LOWEST: TableDefinition<'_, [u8; 32], u64> = TableDefinition::new("lowest");
        let database = Database::open(own.join("received.redb")).expect("the database");
        let transaction = database.begin_read().expect("readable");
        transaction.open_table(LOWEST).expect("the table").len().expect("its length")
    };
    for (grace, left) in [(0, 0), (60, 3)] {
        let message = manager.announce().expect("announced");
        hear(&mut publisher, &message);
        let mut guard = start(&manager, &scada, &own);
        hear(&mut guard, &message);
        for topic in ["plant/a", "plant/b", "plant/c"] {
            let mut envelope = Vec::new();
            publisher.seal(topic, b"x", &mut envelope).expect("sealed");
            assert!(matches!(guard.open(topic, &envelope, &mut Vec::new()), Verdict::Opened(_)));
        }
        guard.close().expect("durable");
        assert_eq!(bounds(), 3);
        manager.rotate(&[], grace).expect("rotated");
        hear(&mut start(&manager, &scada, &own), &manager.announce().expect("announced"));
        assert_eq!(bounds(), left, "{grace}");
    }
    // The grace ends while the member is stopped.
    let kept = fs::File::options().write(true).open(own.join("rotation-line4")).expect("kept");
    kept.set_modified(SystemTime::now() - Duration::from_secs(61)).expect("its time");
    drop(start(&manager, &scada, &own));
    assert_eq!((bounds(), own.join("former-line4").exists()), (0, false));
}

#[test]
fn checked_message_does_not_count_as_received() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, scada) = (device("press7"), device("scada"));
    let [own, other] = ["scada", "press7"].map(|name| directory.path().join(name));
    [&own, &other].iter().for_each(|state| Store::create(state).expect("created"));
    let manager = group(directory.path(), &[&press7, &scada]);
    let (mut publisher, mut guard) = (start(&manager, &press7, &other), start(&manager, &scada, &own));
    for one in [&mut publisher, &mut guard] {
        hear(one, &manager.announce().expect("announced"));
    }
    let envelopes = [(); 2000].map(|()| sealed(&mut publisher));
    // Receiving the last one would make the first one late; receiving the first one would bound its
    // topic.
    for envelope in [&envelopes[1999], &envelopes[0], &envelopes[0]] {
        assert_eq!(guard.check(TOPIC, envelope), Ok(()));
    }
    assert!(matches!(open(&mut guard, &envelopes[0]), Verdict::Opened(_)));
    assert_eq!(guard.check(TOPIC, &envelopes[1999]), Ok(()));
    assert!(matches!(open(&mut guard, &envelopes[1]), Verdict::Opened(_)));
    assert!(matches!(guard.check(TOPIC, &envelopes[1]), Err(Dropped::Repeated { .. })));
    assert!(matches!(guard.check("plant/elsewhere", &envelopes[2]), Err(Dropped::Moved { .. })));
}

/// The number of keys with sequence numbers in the state.
fn keys_known(state: &Path) -> usize {
    let text = fs::read_to_string(state.join("packet-numbers")).expect("the state");
    text.lines().filter(|line| line.starts_with("transmit ")).count()
}

#[test]
fn state_does_not_grow_with_rotations() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, state) = (device("press7"), directory.path().join("state"));
    Store::create(&state).expect("created");
    let mut manager = group(directory.path(), &[&press7]);
    let mut guard = start(&manager, &press7, &state);
    hear(&mut guard, &manager.announce().expect("announced"));
    for round in 0..50 {
        assert_eq!(epoch(&mut guard), round + 1);
        guard.idle();
        match round % 5 {
            0 => {
                drop(guard);
                guard = start(&manager, &press7, &state);
            }
            1 => {
                guard.close().expect("closed");
                guard = start(&manager, &press7, &state);
            }
            _ => {}
        }
        manager.rotate(&[], if round % 2 == 0 { 60 } else { 0 }).expect("rotated");
        let message = manager.announce().expect("announced");
        assert!(matches!(hear(&mut guard, &message), Verdict::Rotated { .. }));
        // As an application that prepares before the next publish.
        guard.idle();
        assert_eq!(keys_known(&state), 0);
    }
    assert_eq!(epoch(&mut guard), 51);
    assert_eq!(keys_known(&state), 1);
}

#[test]
fn key_with_forgotten_numbers_seals_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (press7, state) = (device("press7"), directory.path().join("state"));
    Store::create(&state).expect("created");
    let mut manager = group(directory.path(), &[&press7]);
    let old = manager.group().to_text(false);
    let first = manager.announce().expect("announced");
    let mut guard = start(&manager, &press7, &state);
    hear(&mut guard, &first);
    assert_eq!(epoch(&mut guard), 1);
    manager.rotate(&[], 60).expect("rotated");
    manager.rotate(&[], 60).expect("rotated");
    hear(&mut guard, &manager.announce().expect("announced"));
    assert_eq!((epoch(&mut guard), keys_known(&state)), (3, 1));
    drop(guard);

    // An old rotation in the directory, and one from the broker.
    fs::write(state.join("rotation-line4"), &first).expect("written");
    fs::write(state.join("former-line4"), &first).expect("written");
    let refused = |guard: &mut Guard| guard.seal(TOPIC, b"x", &mut Vec::new()).expect_err("refused");
    assert!(matches!(refused(&mut start(&manager, &press7, &state)), SealError::NoKey(_)));
    fs::remove_file(state.join("rotation-line4")).expect("removed");
    let mut guard = start(&manager, &press7, &state);
    assert!(matches!(hear(&mut guard, &first), Verdict::Known { epoch: 1, newest: 3, .. }));
    assert!(matches!(refused(&mut guard), SealError::NoKey(_)));
    drop(guard);

    // The manager's old file, one without a manager, and one with the old key and another manager.
    let lines = |drop: &[&str]| -> String {
        let kept = old.lines().filter(|line| !drop.iter().any(|start| line.starts_with(start)));
        kept.map(|line| format!("{line}\n")).collect()
    };
    let other = device("other").secret;
    let signing = format!("signing_key = \"{}\"\n", hex(&*other));
    let remade = signing + &lines(&["manager", "signing_key"]);
    for text in [old.to_string(), lines(&["manager", "signing_key"]), remade.clone()] {
        let file = GroupFile::parse(Path::new("old.toml"), &text).expect("a group file");
        let store = Store::open(&state).expect("the state");
        let mut guard = Guard::new(vec![file], Some(again(&press7)), Some(store), None);
        let SealError::State(fault) = refused(&mut guard) else { panic!("another reason") };
        assert!(fault.what.contains("of epoch 1, but epoch 3 began here"), "{fault:?}");
    }

    // A recreated manager brings the old key as its own, until a later epoch.
    let file = directory.path().join("remade.toml");
    fs::write(&file, remade).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours alone");
    let mut manager = Manager::open(&file).expect("a manager");
    let mut guard = start(&manager, &press7, &state);
    for now in 1..5 {
        let message = manager.announce().expect("announced");
        assert!(matches!(hear(&mut guard, &message), Verdict::Rotated { epoch, .. } if epoch == now));
        if now < 3 {
            assert!(matches!(refused(&mut guard), SealError::State(_)));
        } else {
            assert_eq!(epoch(&mut guard), now);
        }
        manager.rotate(&[], 0).expect("rotated");
    }
}

#[test]
fn killed_publisher_repeats_no_number() {
    let cases = [(60, 1), (0, 2)].map(|(grace, left)| (0..3).map(move |step| (grace, left, step)));
    for (grace, left, step) in cases.into_iter().flatten() {
        let directory = tempfile::tempdir().expect("a directory");
        let (press7, state) = (device("press7"), directory.path().join("state"));
        Store::create(&state).expect("created");
        let mut manager = group(directory.path(), &[&press7]);
        let signer = manager.group().manager.expect("a manager");
        let mut guard = start(&manager, &press7, &state);
        hear(&mut guard, &manager.announce().expect("announced"));
        let (_, used) = guard.seal(TOPIC, b"x", &mut Vec::new()).expect("sealed");
        drop(guard);
        manager.rotate(&[], grace).expect("rotated");
        let second = manager.announce().expect("announced");
        // The steps that were done before the kill.
        let store = Store::open(&state).expect("the state");
        if step > 0 {
            store.keep_rotation("line4", &second, grace > 0).expect("kept");
        }
        if step > 1 {
            store.reached("line4", &signer, 2).expect("durable");
        }
        drop(store);
        let mut guard = start(&manager, &press7, &state);
        let (epoch, number) = guard.seal(TOPIC, b"x", &mut Vec::new()).expect("sealed");
        assert!((epoch == 1 && number > used && step == 0) || (epoch == 2 && number == 1));
        hear(&mut guard, &second);
        guard.seal(TOPIC, b"x", &mut Vec::new()).expect("sealed");
        // Without the old key its record stays.
        assert_eq!(keys_known(&state), if step == 0 { 1 } else { left }, "{grace} {step}");
    }
}
