//! The rules of a guard, beside its code.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use antedate_channel::mqtt::{Algorithm, Reserved};
use tempfile::TempDir;

use super::*;
use crate::file::Member;
use crate::manage::Manager;

const TOPIC: &str = "plant/force";

/// A new state directory.
fn state() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("state");
    Store::create(&place).expect("created");
    (directory, place)
}

/// A group with one key and no manager.
fn file() -> GroupFile {
    let group = manage::new_group("g", Algorithm::A128Gcm, vec!["plant/#".to_owned()], Vec::new());
    GroupFile::parse(Path::new("g"), &group.expect("a group").to_text(false)).expect("a group")
}

fn guard(file: GroupFile, place: &Path) -> Guard {
    Guard::new(vec![file], None, Some(Store::open(place).expect("opened")), Some("press7".to_owned()))
}

fn device() -> Device {
    Device { name: "press7".into(), secret: manage::random().expect("random") }
}

/// The manager of a group with this device.
fn manager(directory: &Path, device: &Device) -> Manager {
    let member =
        Member { name: device.name.clone(), public: Some(device.public()), publish: true, verify: None };
    let group = manage::new_group("g", Algorithm::A128Gcm, vec!["plant/#".into()], vec![member]);
    let path = directory.join("manager.toml");
    fs::write(&path, group.expect("a group").to_text(false)).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours alone");
    Manager::open(&path).expect("a manager")
}

/// A file of the manager's group: with its keys, or as the members have it.
fn of(manager: &Manager, for_members: bool) -> GroupFile {
    GroupFile::parse(Path::new("g"), &manager.group().to_text(for_members)).expect("a file")
}

fn rotated(guard: &mut Guard, manager: &mut Manager, grace: u32) -> u32 {
    manager.rotate(&[], grace).expect("rotated");
    let message = manager.announce().expect("announced");
    let topic = guard.groups[0].file.rotation_topic.clone();
    match guard.open(&topic, &message, &mut Vec::new()) {
        Verdict::Rotated { epoch, .. } => epoch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_topics_of_a_group_are_sealed() {
    let (_directory, place) = state();
    let mut guard = guard(file(), &place);
    for _ in 0..2 {
        for topic in ["", "other/force", "plants/force"] {
            assert!(!guard.covers(topic));
            let (mut out, sealed) = (Vec::new(), guard.seal(topic, b"x", &mut Vec::new()));
            assert!(matches!(sealed, Err(SealError::NoGroup(of)) if of == topic));
            assert!(matches!(guard.open(topic, b"clear", &mut out), Verdict::Plain));
            assert_eq!(out, b"clear");
        }
        assert!(guard.covers(TOPIC));
        assert!(guard.seal(TOPIC, b"x", &mut Vec::new()).is_ok());
        assert!(matches!(guard.open(TOPIC, b"clear", &mut Vec::new()), Verdict::Refused(_)));
    }
}

#[test]
fn each_fault_of_sealing_has_its_remedy() {
    let (_directory, place) = state();
    let text = || "x".to_owned();
    for (fault, says, remedy) in [
        (SealError::NoGroup(text()), "nothing protects it", "--keys"),
        (SealError::NoKey(text()), "has no key here yet", "antedate mqtt rotate"),
        (SealError::NoSigner(text()), "no device's key to sign with", "--device"),
        (SealError::NoName, "no publisher's name", "--publisher"),
        (SealError::NoState, "no state directory", "antedate mqtt init"),
        (SealError::Payload(text()), "x", "publish less"),
    ] {
        assert!(fault.to_string().contains(says), "{fault}");
        assert!(fault.remedy().contains(remedy), "{}", fault.remedy());
    }
    let nameless = &mut Guard::new(vec![file()], None, Some(Store::open(&place).expect("opened")), None);
    assert!(matches!(nameless.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoName)));
    let stateless = &mut Guard::new(vec![file()], None, None, Some("press7".into()));
    assert!(matches!(stateless.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoState)));
    assert!(stateless.has_keys());
}

#[test]
fn rotations_are_for_devices_of_a_manager() {
    let (directory, _) = state();
    let press7 = device();
    let again = || Device { name: press7.name.clone(), secret: press7.secret.clone() };
    let managed = manager(directory.path(), &press7);
    let topics = |file: GroupFile, device| Guard::new(vec![file], device, None, None).rotation_topics();
    let all = managed.group().rotation_topic.clone();
    let own = format!("{all}/press7");
    assert_eq!(topics(of(&managed, true), Some(again())), [all, own]);
    assert!(topics(of(&managed, true), None).is_empty());
    assert!(topics(file(), Some(again())).is_empty());
}

#[test]
fn prepared_values_are_sealed_with_their_number() {
    let (_directory, place) = state();
    let (mut guard, mut out) = (guard(file(), &place), Vec::new());
    assert_eq!(guard.seal(TOPIC, b"first", &mut Vec::new()).expect("sealed"), (1, 1));
    let template = PayloadTemplate::marked(TOPIC, b"force=@@@@ kN").expect("a template");
    guard.antedate(&template).expect("prepared");
    let publisher = guard.groups[0].publisher.as_mut().expect("a publisher");
    assert_eq!(publisher.antedate(&template, u32::MAX), 0, "nothing is left to prepare");
    let mut clear = Vec::new();
    assert_eq!(guard.seal_values(&template, &[b"12.7"], &mut out).expect("sealed"), (1, 2));
    assert!(matches!(guard.open(TOPIC, &out, &mut clear), Verdict::Opened(Opened { sequence: 2, .. })));
    assert_eq!(clear, b"force=12.7 kN");
}

#[test]
fn idle_time_prepares_the_next_publish() {
    let (_directory, place) = state();
    let (mut guard, mut envelope) = (guard(file(), &place), Vec::new());
    guard.seal(TOPIC, &[7; 100], &mut envelope).expect("sealed");
    assert!(matches!(guard.open(TOPIC, &envelope, &mut Vec::new()), Verdict::Opened(_)));
    guard.idle();
    let one = &mut guard.groups[0];
    assert_eq!(one.group.idle(u32::MAX), 0, "the next message is prepared");
    assert_eq!(one.publisher.as_mut().expect("a publisher").idle(u32::MAX), 0, "the next publish is");
    guard.rehearse();
    assert!(guard.groups[0].rehearsal.as_ref().is_some_and(|(_, out)| !out.is_empty()));
}

#[test]
fn reserved_numbers_are_never_used_again() {
    let (_directory, place) = state();
    let keys = file();
    let text = keys.to_text(false);
    let mut first = guard(keys, &place);
    first.reserve(TOPIC, 1_000_000).expect("reserved");
    assert!(first.reserve("other", 1).is_err());
    // As killed: nothing is closed.
    drop(first);
    let again = GroupFile::parse(Path::new("g"), &text).expect("a group");
    let (_, number) = guard(again, &place).seal(TOPIC, b"x", &mut Vec::new()).expect("sealed");
    assert_eq!(number, 1_000_001);
}

#[test]
fn failed_action_counts_nothing_as_received() {
    let (_directory, place) = state();
    let (mut guard, mut envelope) = (guard(file(), &place), Vec::new());
    guard.seal(TOPIC, b"x", &mut envelope).expect("sealed");
    guard.open(TOPIC, &envelope, &mut Vec::new());
    assert!(guard.deliver(|| Err(io::ErrorKind::BrokenPipe.into())).is_err());
    assert_eq!(guard.unwritten(), 1);
    guard.flush().expect("durable");
    assert_eq!(guard.unwritten(), 0);
}

#[test]
fn only_a_grace_keeps_the_former_rotation() {
    let (directory, place) = state();
    let press7 = device();
    let mut managed = manager(directory.path(), &press7);
    let store = Some(Store::open(&place).expect("opened"));
    let mut guard = Guard::new(vec![of(&managed, true)], Some(press7), store, None);
    let former = |guard: &Guard| guard.store.as_ref().expect("a store").former_rotation("g").is_some();
    for (grace, kept) in [(60, false), (60, true), (0, false)] {
        rotated(&mut guard, &mut managed, grace);
        assert_eq!(former(&guard), kept, "grace {grace}");
    }
}

#[test]
fn later_deadline_outlives_an_earlier_one() {
    let (_directory, place) = state();
    let mut guard = guard(file(), &place);
    let (now, later) = (Moment::now(), Moment::now() + Duration::from_secs(60));
    guard.groups[0].retire = vec![(now, 2), (later, 3), (now, 1)];
    guard.retire();
    assert_eq!(guard.groups[0].retire, [(later, 3)]);
}

#[test]
fn bounds_of_a_key_in_the_file_stay() {
    let (directory, place) = state();
    let press7 = device();
    let mut managed = manager(directory.path(), &press7);
    let store = Store::open(&place).expect("opened");
    let mut guard = Guard::new(vec![of(&managed, false)], Some(press7), Some(store), None);
    let mut envelope = Vec::new();
    guard.seal(TOPIC, b"x", &mut envelope).expect("sealed");
    assert!(matches!(guard.open(TOPIC, &envelope, &mut Vec::new()), Verdict::Opened(_)));
    guard.flush().expect("durable");
    let group = of(&managed, false).to_group();
    let [epoch_key, material] = [NO_PUBLISHER, b"press7"].map(|name| group.material(1, name).expect("keys"));
    let bound = |guard: &Guard| guard.store.as_ref().expect("a store").lowest(&epoch_key, &material, TOPIC);
    assert_eq!(bound(&guard), 2);
    assert_eq!(rotated(&mut guard, &mut managed, 0), 2);
    // The first key ended, and comes back with the next start.
    assert_eq!(bound(&guard), 2);
}

#[test]
fn unwritten_bounds_are_kept_per_topic() {
    let (_directory, place) = state();
    let topics = vec!["plant/#".to_owned()];
    let group = manage::new_group("g", Algorithm::A128Gcm, topics, Vec::new()).expect("a group");
    let file = GroupFile::parse(Path::new("g"), &group.to_text(false)).expect("a group");
    let material = group.to_group().material(1, b"press7").expect("a publisher");
    let mut publisher = Publisher::new(&material, Reserved::new(1, u64::MAX));
    let mut guard = Guard::new(vec![file], None, Some(Store::open(&place).expect("opened")), None);
    // A directory blocks the new file's name.
    let next = place.join("packet-numbers.new");
    fs::create_dir(&next).expect("a directory");
    for number in 0..100 {
        let (topic, mut envelope) = (["plant/a", "plant/b"][number % 2], Vec::new());
        publisher.seal(topic, b"x", &mut envelope).expect("sealed");
        assert!(matches!(guard.open(topic, &envelope, &mut Vec::new()), Verdict::Opened(_)));
        assert!(guard.flush().is_err());
    }
    let kept: usize = guard.groups.iter().map(|one| one.unwritten.pairs().count()).sum();
    assert_eq!((guard.unwritten(), kept), (100, 2));
    fs::remove_dir(&next).expect("removed");
    guard.flush().expect("durable");
    assert_eq!(guard.unwritten(), 0);
    let store = guard.store.as_ref().expect("a store");
    let epoch_key = group.to_group().material(1, NO_PUBLISHER).expect("a epoch_key");
    assert_eq!(["plant/a", "plant/b"].map(|topic| store.lowest(&epoch_key, &material, topic)), [100, 101]);
}

#[test]
fn messages_age_where_the_group_says_so() {
    let (_directory, place) = state();
    let group = manage::new_group("g", Algorithm::A128Gcm, vec!["plant/#".to_owned()], Vec::new());
    let group = GroupFile { max_ages: vec![("plant/valve".into(), 5)], ..group.expect("a group") };
    let fresh = || GroupFile::parse(Path::new("g"), &group.to_text(false)).expect("a group");
    let mut guard = guard(fresh(), &place);
    let mut out = Vec::new();
    let mut sent = Vec::new();
    guard.seal("plant/valve", b"OPEN", &mut sent).expect("sealed");
    let Verdict::Opened(opened) = guard.open("plant/valve", &sent, &mut out) else { panic!("refused") };
    assert!(opened.time.is_some_and(|time| now() - time < 5) && out == b"OPEN");
    let template = PayloadTemplate::marked("plant/valve", b"@@@").expect("a template");
    sent.clear();
    guard.antedate(&template).expect("nothing to prepare");
    guard.seal_values(&template, &[b" 12"], &mut sent).expect("sealed");
    assert!(matches!(guard.open("plant/valve", &sent, &mut out), Verdict::Opened(_)) && out == b" 12");
    sent.clear();
    guard.seal("plant/force", b"x", &mut sent).expect("sealed");
    let Verdict::Opened(opened) = guard.open("plant/force", &sent, &mut out) else { panic!("refused") };
    assert_eq!(opened.time, None, "other topics have no time");

    let material = fresh().to_group().material(1, b"plc").expect("material");
    let mut plc = Publisher::new(&material, Reserved::new(1, 100));
    let mut refusal = |at: Option<u32>, topic: &str| {
        let mut sent = Vec::new();
        let sealed = match at {
            Some(at) => plc.seal_at(at, topic, b"OPEN", &mut sent),
            None => plc.seal(topic, b"OPEN", &mut sent),
        };
        sealed.expect("sealed");
        let checked = guard.check(topic, &sent).err();
        let opened = match guard.open(topic, &sent, &mut out) {
            Verdict::Refused(refusal) => Some(refusal),
            _ => None,
        };
        assert_eq!(
            (checked.map(|refusal| refusal.name()), out.is_empty()),
            (opened.as_ref().map(Dropped::name), opened.is_some())
        );
        opened
    };
    assert_eq!(refusal(None, "plant/valve"), Some(Dropped::Undated));
    let stale = refusal(Some(now() - 60), "plant/valve");
    assert!(matches!(stale, Some(Dropped::Stale { age: 60..70, max_age: 5 })), "{stale:?}");
    let early = refusal(Some(now() + 60), "plant/valve");
    assert!(early.as_ref().is_some_and(|refusal| refusal.to_string().contains("in the future")), "{early:?}");
    assert_eq!(refusal(Some(now()), "plant/valve"), None);
    assert_eq!((refusal(Some(now() - 60), "plant/force"), refusal(None, "plant/force")), (None, None));
}

#[test]
fn failed_read_of_the_store_is_told_once() {
    let (_directory, place) = state();
    let guard = guard(file(), &place);
    assert!(guard.check_store().is_ok());
    let store = guard.store.as_ref().expect("a store");
    store.fail_read(Fault::of_file(&place, "cannot be read", "see whether the disk is well"));
    assert!(guard.check_store().is_err_and(|fault| fault.to_string().contains("cannot be read")));
    assert!(guard.check_store().is_ok());
}

#[test]
fn few_pairs_are_in_memory_beside_a_store() {
    let (_directory, place) = state();
    let (_other, elsewhere) = state();
    let text = file().to_text(false);
    let file = || GroupFile::parse(Path::new("g"), &text).expect("a group");
    let mut guard = guard(file(), &place);
    let mut sizes = Vec::new();
    for name in 0..14 {
        let store = Some(Store::open(&elsewhere).expect("opened"));
        let mut publisher = Guard::new(vec![file()], None, store, Some(format!("press{name}")));
        let mut envelope = Vec::new();
        publisher.seal(TOPIC, b"x", &mut envelope).expect("sealed");
        assert!(matches!(guard.open(TOPIC, &envelope, &mut Vec::new()), Verdict::Opened(_)));
        guard.flush().expect("durable");
        sizes.push(guard.groups[0].group.streams());
        assert!(matches!(guard.open(TOPIC, &envelope, &mut Vec::new()), Verdict::Refused(_)), "twice");
    }
    assert_eq!(sizes, [1, 2, 3, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8, 4]);
}

#[test]
fn payload_of_the_greatest_age_is_fresh() {
    let of_age = |age: i64| loop {
        let began = now();
        let time = u32::try_from(i64::from(began) - age).expect("a time");
        let verdict = fresh(Some(60), Some(time));
        if now() == began {
            return verdict;
        }
    };
    for age in [-60, 0, 60] {
        assert_eq!(of_age(age), Ok(()), "{age}");
    }
    for age in [-61, 61] {
        assert_eq!(of_age(age), Err(Dropped::Stale { age, max_age: 60 }));
    }
    assert_eq!(fresh(Some(60), None), Err(Dropped::Undated));
    assert_eq!(fresh(None, None), Ok(()));
}

#[test]
fn member_cannot_sign_for_another() {
    let devices = ["press7", "press8"].map(|name| Device { name: name.into(), ..device() });
    let members = devices.each_ref().map(|device| Member {
        name: device.name.clone(),
        public: None,
        publish: true,
        verify: Some(device.verify()),
    });
    for algorithm in [Algorithm::AesCcm16_64_128, Algorithm::A128Gcm, Algorithm::Aes128CbcHmacSha256] {
        let group = manage::new_group("g", algorithm, vec!["plant/#".into()], members.to_vec());
        let group = GroupFile {
            signed: vec!["plant/valve".into(), "plant/timed".into()],
            max_ages: vec![("plant/timed".into(), 5)],
            ..group.expect("a group")
        };
        let file = || GroupFile::parse(Path::new("g"), &group.to_text(false)).expect("a group");
        let places = [state(), state()];
        let [own, other] = devices.each_ref();
        let sealer = |device: &Device, place: &Path| {
            let device = Device { name: device.name.clone(), secret: device.secret.clone() };
            let store = Store::open(place).expect("opened");
            Guard::new(vec![file()], Some(device), Some(store), Some("press7".into()))
        };
        let (mut honest, mut liar) = (sealer(own, &places[0].1), sealer(other, &places[1].1));
        let mut reader = Guard::new(vec![file()], None, None, None);
        let (mut envelope, mut payload) = (Vec::new(), Vec::new());
        for topic in ["plant/valve", "plant/timed"] {
            // The same numbers: what is refused uses none up.
            for number in 0..3 {
                envelope.clear();
                liar.seal(topic, b"open", &mut envelope).expect("sealed");
                assert!(reader.check(topic, &envelope).is_err());
                match reader.open(topic, &envelope, &mut payload) {
                    Verdict::Refused(Dropped::Unsigned { publisher }) => assert_eq!(publisher, "press7"),
                    other => panic!("{other:?}"),
                }
                assert!(payload.is_empty());
                envelope.clear();
                honest.idle();
                honest.seal(topic, b"close", &mut envelope).expect("sealed");
                assert_eq!(reader.check(topic, &envelope), Ok(()));
                let shared = reader.authenticate(topic, &envelope, &mut payload);
                assert!(matches!(shared, Verdict::Opened(_)) && payload == b"close");
                match reader.open(topic, &envelope, &mut payload) {
                    Verdict::Opened(_) => assert_eq!(payload, b"close", "{algorithm} {number}"),
                    other => panic!("{other:?}"),
                }
                assert!(matches!(
                    reader.open(topic, &envelope, &mut payload),
                    Verdict::Refused(Dropped::Repeated { .. })
                ));
            }
        }
        // Other topics of the group are as before, without a device too.
        envelope.clear();
        liar.seal("plant/force", b"81.5", &mut envelope).expect("sealed");
        assert!(matches!(reader.open("plant/force", &envelope, &mut payload), Verdict::Opened(_)));
        assert_eq!(payload, b"81.5");
        let place = state();
        let store = Store::open(&place.1).expect("opened");
        let mut keyless = Guard::new(vec![file()], None, Some(store), Some("press7".into()));
        let sealed = keyless.seal("plant/valve", b"x", &mut envelope);
        assert!(matches!(sealed, Err(SealError::NoSigner(topic)) if topic == "plant/valve"));
    }
}

#[test]
fn member_follows_its_own_topic() {
    let (directory, place) = state();
    let press7 = device();
    let mut managed = manager(directory.path(), &press7);
    let text =
        managed.group().to_text(false).replacen("algorithm", "rotation = \"per-member\"\nalgorithm", 1);
    let path = directory.path().join("each.toml");
    fs::write(&path, &*text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours alone");
    managed = Manager::open(&path).expect("a manager");
    let again = || Device { name: press7.name.clone(), secret: press7.secret.clone() };
    let member = || {
        let store = Store::open(&place).expect("opened");
        Guard::new(vec![of(&managed, true)], Some(again()), Some(store), None)
    };
    let mut guard = member();
    let topics = guard.rotation_topics();
    assert_eq!(topics[1], format!("{}/{}", topics[0], press7.name));
    let messages: Vec<_> = managed.announcements().collect::<Result<_, _>>().expect("announced");
    let open = |guard: &mut Guard, message: &[u8], topic: &str| guard.open(topic, message, &mut Vec::new());
    // The notice is no refusal, before the key and after it.
    assert!(matches!(open(&mut guard, &messages[1].message, &topics[0]), Verdict::Known { .. }));
    assert!(matches!(open(&mut guard, &messages[0].message, &topics[1]), Verdict::Rotated { epoch: 1, .. }));
    assert!(matches!(open(&mut guard, &messages[1].message, &topics[0]), Verdict::Known { epoch: 1, .. }));
    assert!(guard.seal(TOPIC, b"x", &mut Vec::new()).is_ok());
    guard.close().expect("closed");
    // A message for nobody on the device's own topic leaves it out.
    let mut guard = member();
    assert!(guard.seal(TOPIC, b"x", &mut Vec::new()).is_ok(), "with the kept key");
    let out = open(&mut guard, &messages[1].message, &topics[1]);
    assert!(matches!(out, Verdict::NoRotation(RotationError::NotMember)), "{out:?}");
    assert!(matches!(guard.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoKey(_))));
}

#[test]
fn last_member_that_was_removed_publishes_nothing() {
    let (directory, place) = state();
    let press7 = device();
    let mut managed = manager(directory.path(), &press7);
    let member = |managed: &Manager| {
        let again = Device { name: press7.name.clone(), secret: press7.secret.clone() };
        let store = Store::open(&place).expect("opened");
        Guard::new(vec![of(managed, true)], Some(again), Some(store), None)
    };
    let mut guard = member(&managed);
    let topic = guard.rotation_topics().remove(0);
    let retained =
        |managed: &Manager| managed.announcements().last().expect("one").expect("announced").message;
    let first = retained(&managed);
    assert!(matches!(guard.open(&topic, &first, &mut Vec::new()), Verdict::Rotated { epoch: 1, .. }));
    assert!(guard.seal(TOPIC, b"x", &mut Vec::new()).is_ok());
    guard.close().expect("closed");
    managed.rotate(std::slice::from_ref(&press7.name), 0).expect("removed");
    for message in [retained(&managed), managed.announce().expect("announced")] {
        let mut guard = member(&managed);
        let out = guard.open(&topic, &message, &mut Vec::new());
        assert!(matches!(out, Verdict::NoRotation(RotationError::NotMember)), "{out:?}");
        assert!(matches!(guard.seal(TOPIC, b"x", &mut Vec::new()), Err(SealError::NoKey(_))));
        guard.close().expect("closed");
    }
}

#[test]
fn newcomer_reads_retained_payloads_of_past_epochs() {
    let (directory, place) = state();
    let press7 = device();
    let text = manager(directory.path(), &press7).group().to_text(false);
    let path = directory.path().join("past.toml");
    fs::write(&path, text.replacen("algorithm", "past_epochs = 4\nalgorithm", 1)).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours alone");
    let mut managed = Manager::open(&path).expect("a manager");
    let again = || Device { name: press7.name.clone(), secret: press7.secret.clone() };
    let member = |store| Guard::new(vec![of(&managed, true)], Some(again()), store, None);
    let mut sender = member(Some(Store::open(&place).expect("opened")));
    let (mut old, mut late) = (member(None), member(None));
    let topic = sender.rotation_topics().remove(0);
    let first = managed.announce().expect("announced");
    for guard in [&mut sender, &mut old] {
        assert!(matches!(guard.open(&topic, &first, &mut Vec::new()), Verdict::Rotated { epoch: 1, .. }));
    }
    let mut retained = Vec::new();
    sender.seal(TOPIC, b"retained", &mut retained).expect("sealed");
    let mut none = Vec::new();
    managed.rotate(&[], 0).expect("without grace");
    let second = managed.announce().expect("announced");
    assert!(matches!(late.open(&topic, &second, &mut none), Verdict::Rotated { epoch: 2, .. }));
    assert!(matches!(late.open(TOPIC, &retained, &mut none), Verdict::Refused(Dropped::OldEpoch { .. })));
    drop((late, old));
    // With a grace, the epoch stays among the past ones.
    let mut retained = Vec::new();
    assert!(matches!(sender.open(&topic, &second, &mut none), Verdict::Rotated { epoch: 2, .. }));
    sender.seal(TOPIC, b"retained", &mut retained).expect("sealed");
    managed.rotate(&[], 1).expect("rotated");
    let third = managed.announce().expect("announced");
    let file = || of(&managed, true);
    let mut newcomer = Guard::new(vec![file()], Some(again()), None, None);
    assert!(matches!(newcomer.open(&topic, &third, &mut none), Verdict::Rotated { epoch: 3, .. }));
    let opened = newcomer.open(TOPIC, &retained, &mut none);
    assert!(matches!(opened, Verdict::Opened(Opened { epoch: 2, .. })), "{opened:?}");
    // Members keep it beyond the grace, until a revocation.
    assert!(matches!(sender.open(&topic, &third, &mut none), Verdict::Rotated { epoch: 3, .. }));
    std::thread::sleep(Duration::from_millis(1100));
    let opened = sender.open(TOPIC, &retained, &mut none);
    assert!(matches!(opened, Verdict::Opened(Opened { epoch: 2, .. })), "{opened:?}");
}

#[test]
fn payloads_pass_a_bridge_with_a_prefix() {
    let (_directory, place) = state();
    let maps = vec![crate::file::TopicMap { here: "site2/".into(), sealed: String::new() }];
    let text = file().to_text(false);
    let file = || GroupFile::parse(Path::new("g"), &text).expect("a group");
    let far = || GroupFile { topic_maps: maps.clone(), ..file() };
    let mut home = guard(file(), &place);
    let mut reader = Guard::new(vec![far()], None, None, None);
    let (mut envelope, mut out) = (Vec::new(), Vec::new());
    home.seal(TOPIC, b"81.5", &mut envelope).expect("sealed");
    let there = format!("site2/{TOPIC}");
    assert!(matches!(reader.open(TOPIC, &envelope, &mut out), Verdict::Plain), "no such topic here");
    assert!(reader.check(&there, &envelope).is_ok());
    assert!(matches!(reader.open(&there, &envelope, &mut out), Verdict::Opened(_)));
    assert_eq!(out, b"81.5");
    assert!(matches!(reader.open(&there, &envelope, &mut out), Verdict::Refused(Dropped::Repeated { .. })));
    assert!(matches!(reader.authenticate(&there, &envelope, &mut out), Verdict::Opened(_)));
    home.close().expect("closed");
    // And back, prepared or not.
    let mut sender = guard(far(), &place);
    let template = PayloadTemplate::marked(&there, b"force=@@@@ kN").expect("a template");
    sender.antedate(&template).expect("nothing to prepare");
    let mut back = Vec::new();
    sender.seal_values(&template, &[b"12.7"], &mut back).expect("sealed");
    let mut reader = Guard::new(vec![file()], None, None, None);
    assert!(matches!(reader.open(TOPIC, &back, &mut out), Verdict::Opened(_)));
    assert_eq!(out, b"force=12.7 kN");
    assert!(matches!(sender.seal(TOPIC, b"x", &mut back), Err(SealError::NoGroup(_))));
}
