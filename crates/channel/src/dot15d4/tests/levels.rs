//! The security level table and the usage of keys, kind by kind.

use antedate_wire::dot15d4::Frame;

use super::super::policy::Kind;
use super::super::*;
use super::setup::*;

use SecurityLevel::{EncMic32, EncMic64, EncMic128, Mic32, Mic64, Mic128};

const NONE: LevelRule = LevelRule::only(Levels::of(&[SecurityLevel::None]));
const ENCRYPTED: LevelRule = LevelRule::only(Levels::ENCRYPTED);

#[test]
fn sets_of_levels_hold_what_they_name() {
    for level in SecurityLevel::ALL {
        assert!(!Levels::EMPTY.contains(level));
        assert_eq!(Levels::ENCRYPTED.contains(level), [EncMic32, EncMic64, EncMic128].contains(&level));
        let authentic = [Mic32, Mic64, Mic128, EncMic32, EncMic64, EncMic128].contains(&level);
        assert_eq!(Levels::AUTHENTICATED.contains(level), authentic, "{level}");
        let two = Levels::of(&[Mic32, EncMic128]);
        assert_eq!(two.contains(level), level == Mic32 || level == EncMic128, "{level}");
        assert!(Levels::EMPTY.with(level).contains(level));
    }
}

#[test]
fn exemption_needs_rule_device_and_no_security() {
    let check = |rule: LevelRule, level, exempt| {
        Policy::default().with(FrameType::Data, Some(rule)).check(Kind::Frame(FrameType::Data), level, exempt)
    };
    let improper = Err(Status::ImproperSecurityLevel);
    let excusing = LevelRule { exempt_devices: true, ..ENCRYPTED };
    assert_eq!(check(excusing, SecurityLevel::None, true), Ok(()));
    assert_eq!(check(excusing, SecurityLevel::None, false), improper);
    assert_eq!(check(ENCRYPTED, SecurityLevel::None, true), improper);
    assert_eq!(check(excusing, Mic32, true), improper, "a lower level is not excused");
    assert_eq!(check(excusing, EncMic32, false), Ok(()));
    assert_eq!(check(NONE, SecurityLevel::None, false), Ok(()));
}

#[test]
fn rule_is_that_of_the_kind() {
    let kinds = FrameType::ALL.map(Kind::Frame);
    for (at, frame_type) in FrameType::ALL.into_iter().enumerate() {
        let policy = Policy::default().with(frame_type, Some(ENCRYPTED));
        for (other, kind) in kinds.into_iter().enumerate() {
            let expected = if at == other { Ok(()) } else { Err(Status::UnavailableSecurityLevel) };
            assert_eq!(policy.check(kind, EncMic32, false), expected, "{kind:?}");
        }
        let uniform = Policy::uniform(Levels::ENCRYPTED);
        assert_eq!(uniform.check(kinds[at], EncMic64, false), Ok(()));
        assert_eq!(uniform.check(kinds[at], Mic64, false), Err(Status::ImproperSecurityLevel));
        assert_eq!(
            uniform.with(frame_type, None).check(kinds[at], EncMic64, false),
            Err(Status::UnavailableSecurityLevel)
        );
    }
}

#[test]
fn command_has_its_own_rule_or_the_general() {
    let (improper, unavailable) = (Err(Status::ImproperSecurityLevel), Err(Status::UnavailableSecurityLevel));
    let general = Policy::default().with(FrameType::Command, Some(ENCRYPTED));
    let policy = general.with_command(1, Some(NONE)).unwrap().with_command(2, None).unwrap();
    for (identifier, level, expected) in [
        (1, SecurityLevel::None, Ok(())),
        (1, EncMic32, improper),
        (2, SecurityLevel::None, unavailable),
        (2, EncMic32, unavailable),
        (3, SecurityLevel::None, improper),
        (3, EncMic32, Ok(())),
    ] {
        let found = policy.check(Kind::Command(identifier), level, false);
        assert_eq!(found, expected, "{identifier} {level}");
    }
    // A rule replaces that of its identifier.
    let replaced = policy.with_command(1, Some(ENCRYPTED)).unwrap();
    assert_eq!(replaced.check(Kind::Command(1), EncMic32, false), Ok(()));
    // With its identifier encrypted a command passes if some command would.
    for (policy, level, expected) in [
        (policy, EncMic32, Ok(())),
        (policy, SecurityLevel::None, Ok(())),
        (policy, Mic32, improper),
        (Policy::default(), EncMic32, unavailable),
        (Policy::default().with_command(2, None).unwrap(), EncMic32, unavailable),
        (Policy::default().with_command(2, Some(ENCRYPTED)).unwrap(), EncMic32, Ok(())),
        (Policy::default().with_command(2, Some(NONE)).unwrap(), EncMic32, improper),
        (general, EncMic32, Ok(())),
    ] {
        assert_eq!(policy.check(Kind::Encrypted, level, false), expected, "{level}");
    }
}

#[test]
fn key_is_for_its_kinds_only() {
    for (at, frame_type) in FrameType::ALL.into_iter().enumerate() {
        let usage = Usage::of(&[frame_type]);
        for (other, of) in FrameType::ALL.into_iter().enumerate() {
            assert_eq!(usage.permits(Kind::Frame(of)), at == other);
        }
        let commands = frame_type == FrameType::Command;
        assert_eq!(usage.permits(Kind::Encrypted), commands);
        assert_eq!(usage.permits(Kind::Command(7)), commands);
        assert!(Usage::ANY.permits(Kind::Frame(frame_type)));
    }
    let some = Usage::of(&[FrameType::Data]).with_commands(&[0, 63, 64, 200, 255]);
    for identifier in 0..=u8::MAX {
        let listed = [0, 63, 64, 200, 255].contains(&identifier);
        assert_eq!(some.permits(Kind::Command(identifier)), listed, "{identifier}");
        assert!(Usage::ANY.permits(Kind::Command(identifier)));
    }
    // A set that has commands already keeps them.
    let one = Usage::ANY.with_commands(&[7, 7]);
    assert!(one.permits(Kind::Command(7)) && one.permits(Kind::Encrypted) && !one.permits(Kind::Command(8)));
    assert!(some.permits(Kind::Frame(FrameType::Data)) && !some.permits(Kind::Frame(FrameType::Ack)));
}

#[test]
fn command_shows_or_hides_its_identifier() {
    let (mut a, _) = pair(NonceKind::FrameCounter);
    let command = Header { frame_type: FrameType::Command, ..header(1) };
    for (level, expected) in [(SecurityLevel::None, Kind::Command(7)), (EncMic32, Kind::Encrypted)] {
        let octets = secure(&mut a, &command, &[7, 1], level, None).unwrap();
        let frame = Frame::parse(&octets).unwrap();
        assert_eq!(Kind::of(&frame), Ok(expected));
        assert_eq!(Kind::of_plain(&frame, &[7, 1]), Ok(Kind::Command(7)));
    }
    let octets = secure(&mut a, &header(1), &[7, 1], EncMic32, None).unwrap();
    assert_eq!(Kind::of(&Frame::parse(&octets).unwrap()), Ok(Kind::Frame(FrameType::Data)));
}

#[test]
fn removed_keys_are_remembered() {
    let (mut a, _) = pair(NonceKind::FrameCounter);
    let install = |a: &mut Security, octet: u8| {
        let lookup = INDEX_1.with_index(octet);
        a.install_key(KeyConfig::fresh(lookup, LinkKey::new([octet; 16]), NonceKind::FrameCounter))
    };
    // The last sixteen.
    for octet in 100..117 {
        install(&mut a, octet).unwrap();
        assert!(a.remove_key(&INDEX_1.with_index(octet)));
    }
    assert_eq!(install(&mut a, 101), Err(InstallError::KeyUsedBefore));
    assert_eq!(install(&mut a, 116), Err(InstallError::KeyUsedBefore));
    assert_eq!(install(&mut a, 100), Ok(()));
    let text = std::format!(
        "{}",
        InstallError::Key(antedate_aead::KeyLengthError { suite: "aes-ccm", expected: 16, given: 3 })
    );
    assert!(!text.is_empty());
}
