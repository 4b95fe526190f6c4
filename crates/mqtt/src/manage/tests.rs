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

/// A manager's file with so many members, whose secrets are their numbers.
fn many(directory: &Path, count: u8) -> PathBuf {
    let names: Vec<String> = (1..=count).map(|at| format!("press{at}")).collect();
    let members: Vec<(&str, [u8; 32])> =
        names.iter().zip(1..).map(|(name, at)| (name.as_str(), rotation::device_public(&[at; 32]))).collect();
    file(directory, &members)
}

fn all(manager: &Manager) -> Vec<Announcement> {
    manager.announcements().collect::<Result<_, _>>().expect("announced")
}

#[test]
fn large_group_has_a_message_for_each_member() {
    let directory = tempfile::tempdir().expect("a directory");
    let small = many(directory.path(), 64);
    assert_eq!(all(&Manager::open(&small).expect("held")).len(), 1, "one message for all");
    std::fs::remove_file(&small).expect("removed");
    let file = many(directory.path(), 65);
    let mut manager = Manager::open(&file).expect("held");
    let key = manager.group().manager.expect("a manager");
    let read = |one: &Announcement, name: &str, secret: u8| {
        rotation::open("line4", &one.message, &key, name.as_bytes(), &[secret; 32])
            .map(|rotation| rotation.epoch)
    };
    let messages = all(&manager);
    assert_eq!(messages.len(), 66);
    for (message, at) in messages.iter().zip(1..=65) {
        let name = format!("press{at}");
        assert_eq!(message.topic, format!("antedate/keys/line4/{name}"));
        assert_eq!(read(message, &name, at), Ok(1));
        assert!(message.message.len() < 400, "{}", message.message.len());
    }
    // The topic for all has a notice.
    assert_eq!(messages[65].topic, "antedate/keys/line4");
    assert_eq!(read(&messages[65], "press1", 1), Err(rotation::RotationError::PerMember));
    // A removed one is told so, again too, and the group keeps its way.
    manager.rotate(&["press2".into(), "press3".into()], GRACE).expect("revoked");
    drop(manager);
    let manager = Manager::open(&file).expect("held");
    let messages = all(&manager);
    assert_eq!((messages.len(), manager.group().recipients().len()), (66, 63));
    for (message, name) in messages[63..65].iter().zip(["press2", "press3"]) {
        assert_eq!(message.topic, format!("antedate/keys/line4/{name}"));
        assert_eq!(read(message, name, 2), Err(rotation::RotationError::PerMember));
    }
    let one = manager.announcement_for("press9").expect("a member");
    assert_eq!((one.topic.as_str(), read(&one, "press9", 9)), ("antedate/keys/line4/press9", Ok(2)));
    assert!(manager.announcement_for("press2").is_err());
}

#[test]
fn past_epochs_end_with_a_revocation() {
    let directory = tempfile::tempdir().expect("a directory");
    let (secret, public) = device();
    let file = file(directory.path(), &[("press7", public), ("press8", [3; 32])]);
    let text =
        fs::read_to_string(&file).expect("a file").replacen("algorithm", "past_epochs = 2\nalgorithm", 1);
    fs::write(&file, text).expect("written");
    let mut manager = Manager::open(&file).expect("held");
    let key = manager.group().manager.expect("a manager");
    let past = |manager: &Manager| {
        let message = manager.announce().expect("a message");
        let rotation = rotation::open("line4", &message, &key, b"press7", &secret).expect("for this device");
        rotation.past().map(|(epoch, _)| epoch).collect::<Vec<_>>()
    };
    assert!(past(&manager).is_empty());
    for (epoch, expected) in [(2, vec![1]), (3, vec![1, 2]), (4, vec![2, 3])] {
        assert_eq!(manager.rotate(&[], GRACE).expect("rotated"), epoch);
        assert_eq!(past(&manager), expected);
    }
    manager.rotate(&["press8".into()], GRACE).expect("revoked");
    assert_eq!((past(&manager), epochs(&file)), (vec![], vec![5]));
    manager.rotate(&[], GRACE).expect("rotated");
    assert_eq!(past(&manager), [5]);
    manager.rotate(&[], 0).expect("rotated");
    assert!(past(&manager).is_empty(), "no grace, no past");
}

fn code(octet: u8) -> Code {
    let fill = |out: &mut [u8]| {
        out.fill(octet);
        Ok::<_, ()>(())
    };
    Code::new(fill).expect("a code")
}

fn wish(name: &str, secret: u8) -> Request {
    Request {
        name: name.into(),
        public: rotation::device_public(&[secret; 32]),
        verify: rotation::manager_public(&[secret; 32]),
    }
}

#[test]
fn devices_are_admitted_once_by_a_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("manager.toml");
    let group =
        new_managed_group("line4", Algorithm::AesCcm16_64_128, vec!["plant/#".into()]).expect("a group");
    create(&file, &group.to_text(false)).expect("written");
    let mut manager = Manager::open(&file).expect("held");
    manager.admit(&wish("press7", 9), &code(1), true).expect("admitted");
    let (before, epoch) = (fs::read_to_string(&file).expect("a file"), manager.group().epoch());
    manager.admit(&wish("press7", 9), &code(1), true).expect("the same again");
    assert_eq!((fs::read_to_string(&file).expect("a file"), epoch), (before, 1));
    let mut refused =
        |request: &Request, code: &Code| manager.admit(request, code, true).expect_err("refused").to_string();
    assert!(refused(&wish("press8", 8), &code(1)).contains("used before"));
    assert!(refused(&wish("press7", 8), &code(2)).contains("antedate mqtt replace"));
    assert!(refused(&wish("press 8", 8), &code(2)).contains("is no name"));
    // The code of a removed member does not bring it back.
    manager.rotate(&["press7".into()], 0).expect("removed");
    drop(manager);
    let mut manager = Manager::open(&file).expect("held");
    let said = manager.admit(&wish("press7", 9), &code(1), true).expect_err("refused").to_string();
    assert!(said.contains("used before") && said.contains("ask again"), "{said}");
    manager.admit(&wish("press7", 9), &code(3), false).expect("asked again");
    assert!(!manager.group().members[0].publish);
}

#[test]
fn replaced_device_gets_no_new_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file(directory.path(), &[("press7", device().1), ("press8", [3; 32])]);
    let mut manager = Manager::open(&file).expect("held");
    assert!(manager.replace(&wish("press9", 5), Some(&code(1))).is_err(), "no such member");
    assert!(manager.replace(&wish("press7", 5), Some(&code(1))).expect("replaced"));
    assert!(!manager.replace(&wish("press7", 5), Some(&code(1))).expect("the same again"));
    assert_eq!((manager.group().epoch(), epochs(&file)), (2, vec![2]), "the old epoch is over");
    let key = manager.group().manager.expect("a manager");
    let message = manager.announce().expect("a message");
    let read = |secret: u8| rotation::open("line4", &message, &key, b"press7", &[secret; 32]).map(drop);
    assert_eq!((read(5), read(9)), (Ok(()), Err(rotation::RotationError::Unauthentic)));
    let without = Request { verify: [0; 32], ..wish("press8", 6) };
    assert!(manager.replace(&without, None).expect("replaced"));
    assert_eq!(manager.group().members[1].verify, None);
}

#[test]
fn group_without_a_manager_admits_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file(directory.path(), &[]);
    let mut manager = Manager::open(&file).expect("held");
    let said = manager.admit(&wish("press7", 9), &code(1), true).expect_err("refused").to_string();
    assert!(said.contains("no manager") && said.contains("--managed"), "{said}");
    assert!(manager.replace(&wish("press7", 9), None).is_err());
}

fn member(name: &str, public: [u8; 32], publish: bool) -> Member {
    Member { name: name.to_owned(), public: Some(public), publish, verify: None }
}

#[test]
fn group_follows_a_list_of_members() {
    let directory = tempfile::tempdir().expect("a directory");
    let (secret, public) = device();
    let file = file(directory.path(), &[("press7", public), ("press8", [3; 32])]);
    let mut manager = Manager::open(&file).expect("held");
    // The same ones in another order, a new one, and one that reads only from now on: no new epoch.
    let mut list = vec![member("press8", [3; 32], true), member("press7", public, true)];
    assert!(!manager.follow(list.clone()).expect("nothing"));
    list.push(member("press9", [4; 32], true));
    list[0].publish = false;
    assert!(!manager.follow(list.clone()).expect("a newcomer"));
    let group = GroupFile::load(&file).expect("a group");
    assert!(has_members(&group, &list) && group.epoch() == 1);
    // One is gone: it is not told of the new epoch, and the previous one is read by nobody.
    list.remove(0);
    assert!(manager.follow(list.clone()).expect("a revocation"));
    assert_eq!(epochs(&file), [2]);
    let message = manager.announce().expect("a message");
    let key = manager.group().manager.expect("a manager");
    let rotation = rotation::open("line4", &message, &key, b"press7", &secret).expect("for this device");
    assert_eq!((rotation.epoch, rotation.grace), (2, 0));
    assert!(rotation::open("line4", &message, &key, b"press8", &secret).is_err());
    assert_eq!(manager.group().keys.last().expect("a key").without, ["press8"]);
    // A second call changes nothing. Another key of the same name is another device.
    assert!(!manager.follow(list.clone()).expect("nothing"));
    list[1].public = Some([5; 32]);
    assert!(manager.follow(list).expect("another device"));
    assert_eq!(epochs(&file), [3]);
    assert!(manager.group().keys[0].without.is_empty());
    assert!(manager.follow(Vec::new()).expect("nobody"));
    assert_eq!(GroupFile::load(&file).expect("a group").members, []);
    let many = (0..=MEMBERS_MAX).map(|at| member(&format!("m{at}"), public, true)).collect();
    assert!(manager.follow(many).expect_err("too many").to_string().contains("several groups"));
}
