//! Rotation messages: their readers, and a stranger's possibilities.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use zeroize::Zeroizing;

use super::setup::{TOPIC, group, publisher, sealed};
use crate::mqtt::rotation::{self, Recipient, Rotation, RotationError, SealError};
use crate::mqtt::{Algorithm, Group};
use crate::sealed::SealError as Unsealed;

const MANAGER: [u8; 32] = [0x11; 32];
const MEMBERS: [(&[u8], [u8; 32]); 3] = [(b"press 7", [1; 32]), (b"press 8", [2; 32]), (b"scada", [3; 32])];

fn next(epoch: u32) -> Rotation {
    Rotation {
        epoch,
        algorithm: Algorithm::A128Gcm,
        secret: Zeroizing::new([0x77; 32]),
        grace: 60,
        past: Vec::new(),
    }
}

fn message(rotation: &Rotation, members: &[(&[u8], [u8; 32])]) -> Vec<u8> {
    let members: Vec<Recipient<'_>> = members
        .iter()
        .map(|(name, secret)| Recipient { name, public: rotation::device_public(secret) })
        .collect();
    let mut counter = 0u8;
    let random = |out: &mut [u8]| {
        counter += 1;
        out.fill(counter);
        Ok::<_, NoRandom>(())
    };
    rotation::seal("line 4", rotation, &MANAGER, &members, random).expect("sealed")
}

#[derive(Debug, PartialEq)]
struct NoRandom;

fn open(message: &[u8], (name, secret): (&[u8], [u8; 32])) -> Result<Rotation, RotationError> {
    rotation::open("line 4", message, &rotation::manager_public(&MANAGER), name, &secret)
}

#[test]
fn only_listed_members_open_a_rotation() {
    let sealed = message(&next(2), &MEMBERS[..2]);
    for member in &MEMBERS[..2] {
        let opened = open(&sealed, *member).expect("a member");
        assert_eq!((opened.epoch, opened.grace, *opened.secret), (2, 60, [0x77; 32]));
    }
    assert_eq!(open(&sealed, MEMBERS[2]).map(drop), Err(RotationError::NotMember));
    assert_eq!(open(&sealed, (b"press 7", [9; 32])).map(drop), Err(RotationError::Unauthentic));
    let names = rotation::members("line 4", &sealed, &rotation::manager_public(&MANAGER)).expect("signed");
    assert_eq!(names, ["press 7", "press 8"]);
}

#[test]
fn only_the_manager_rotates() {
    let sealed = message(&next(2), &MEMBERS);
    let stranger = rotation::manager_public(&[0x12; 32]);
    let refused = rotation::open("line 4", &sealed, &stranger, b"scada", &[3; 32]);
    assert_eq!(refused.map(drop), Err(RotationError::Signature));
    let other = rotation::open("line 5", &sealed, &rotation::manager_public(&MANAGER), b"scada", &[3; 32]);
    assert_eq!(other.map(drop), Err(RotationError::Signature));
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(open(&changed, MEMBERS[0]).is_err(), "byte {at}");
        assert!(open(&sealed[..at], MEMBERS[0]).is_err(), "cut at {at}");
    }
}

#[test]
fn replayed_rotation_changes_nothing() {
    let mut group = group(Algorithm::A128Gcm);
    let rotation = open(&message(&next(2), &MEMBERS), MEMBERS[0]).expect("a member");
    assert!(group.rotate(&rotation));
    assert!(!group.rotate(&rotation) && !group.rotate(&next(1)));
    assert_eq!(group.newest(), Some(2));
}

#[test]
fn old_epoch_is_read_until_ended() {
    let mut reader = group(Algorithm::A128Gcm);
    let mut old = publisher(&reader, b"a");
    assert!(reader.rotate(&next(2)));
    let mut new = publisher(&reader, b"a");
    let mut out = Vec::new();
    assert!(reader.open(TOPIC, &sealed(&mut old, TOPIC, b"old"), &mut out).is_ok());
    assert!(reader.open(TOPIC, &sealed(&mut new, TOPIC, b"new"), &mut out).is_ok());
    reader.retire_before(2);
    let why = reader.open(TOPIC, &sealed(&mut old, TOPIC, b"old"), &mut out).expect_err("over");
    assert_eq!(why.to_string(), "epoch 1 is over, 2 is in use");
    assert!(reader.open(TOPIC, &sealed(&mut new, TOPIC, b"new"), &mut out).is_ok());
}

#[test]
fn past_epochs_come_with_a_rotation() {
    let mut old = group(Algorithm::A128Gcm);
    let mut sender = publisher(&old, b"a");
    let retained = sealed(&mut sender, TOPIC, b"retained");
    assert!(old.open(TOPIC, &retained, &mut Vec::new()).is_ok());
    let past = vec![Zeroizing::new([0x42; 32])];
    let with = Rotation { past, ..next(2) };
    let opened = open(&message(&with, &MEMBERS), MEMBERS[0]).expect("a member");
    assert_eq!((opened.first(), opened.past().count()), (1, 1));
    let mut newcomer = Group::new("line 4", Algorithm::A128Gcm);
    assert!(newcomer.rotate(&opened));
    assert_eq!((newcomer.newest(), newcomer.epochs().collect::<Vec<_>>()), (Some(2), vec![1, 2]));
    assert!(newcomer.has(1, &[0x42; 32]) && next(2).first() == 2);
}

#[test]
fn impossible_past_epochs_are_refused() {
    let random = |out: &mut [u8]| {
        out.fill(1);
        Ok::<_, NoRandom>(())
    };
    let many = |epoch, count| Rotation { past: vec![Zeroizing::new([1; 32]); count], ..next(epoch) };
    for (epoch, count) in [(2, 3), (99, rotation::PAST_MAX + 1)] {
        let refused = rotation::seal("g", &many(epoch, count), &MANAGER, &[], random);
        assert_eq!(refused, Err(SealError::Past));
    }
    let all = open(&message(&many(99, rotation::PAST_MAX), &MEMBERS), MEMBERS[0]).expect("a member");
    assert_eq!(all.first(), 99 - 32);
}

#[test]
fn message_for_nobody_tells_of_others() {
    let notice = message(&next(2), &[]);
    assert_eq!(open(&notice, MEMBERS[0]).map(drop), Err(RotationError::PerMember));
    let one = message(&next(2), &MEMBERS[..1]);
    assert!(open(&one, MEMBERS[0]).is_ok());
    assert_eq!(open(&one, MEMBERS[1]).map(drop), Err(RotationError::NotMember));
}

#[test]
fn unsealable_rotation_is_an_error() {
    let small = Recipient { name: b"bad", public: [0; 32] };
    let random = |_: &mut [u8]| Ok::<_, NoRandom>(());
    let cannot = rotation::seal("g", &next(2), &MANAGER, std::slice::from_ref(&small), random);
    assert_eq!(cannot, Err(Unsealed::PublicKey { member: 0 }.into()));
    let nameless = Recipient { name: b"", public: [9; 32] };
    assert_eq!(
        rotation::seal("g", &next(2), &MANAGER, &[nameless], random),
        Err(Unsealed::Name { member: 0 }.into())
    );
    let none = rotation::seal("g", &next(2), &MANAGER, &[small], |_| Err(NoRandom));
    assert_eq!(none, Err(SealError::Message(Unsealed::Random(NoRandom))));
}
