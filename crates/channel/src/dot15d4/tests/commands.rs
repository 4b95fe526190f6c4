//! MAC commands: the policy and the keys distinguish them by their identifiers
//! (macSecurityLevelTable, clause 9.5).

use std::vec::Vec;

use antedate_wire::dot15d4::{FormatError, FrameVersion};

use super::super::*;
use super::setup::*;

use NonceKind::FrameCounter;
use SecurityLevel::{EncMic32, Mic32};

const ASSOCIATION_REQUEST: u8 = 1;
const DISASSOCIATION: u8 = 3;
const DATA_REQUEST: u8 = 4;

fn command(version: FrameVersion) -> Header {
    Header { frame_type: FrameType::Command, version, ..header(1) }
}

/// Commands are encrypted, except the association request, which may be unsecured, and the data
/// request, for which a MIC suffices. Disassociation has no rule.
fn policy() -> Policy {
    Policy::default()
        .with(FrameType::Command, Some(LevelRule::only(Levels::ENCRYPTED)))
        .with_command(ASSOCIATION_REQUEST, Some(LevelRule::only(Levels::of(&[SecurityLevel::None]))))
        .and_then(|policy| {
            policy.with_command(DATA_REQUEST, Some(LevelRule::only(Levels::of(&[Mic32, EncMic32]))))
        })
        .and_then(|policy| policy.with_command(DISASSOCIATION, None))
        .unwrap()
}

fn receiver() -> Security {
    let mut b = security(B, A, FrameCounter);
    b.config.policy = policy();
    b
}

#[test]
fn each_command_has_its_own_levels() {
    let (improper, unavailable) = (Status::ImproperSecurityLevel, Status::UnavailableSecurityLevel);
    for version in [FrameVersion::V2006, FrameVersion::V2015] {
        let (mut a, mut b) = (security(A, B, FrameCounter), receiver());
        for (identifier, level, expected) in [
            (ASSOCIATION_REQUEST, SecurityLevel::None, Ok(())),
            (ASSOCIATION_REQUEST, EncMic32, Err(improper)),
            (DATA_REQUEST, SecurityLevel::None, Err(improper)),
            (DATA_REQUEST, Mic32, Ok(())),
            (DATA_REQUEST, EncMic32, Ok(())),
            (DISASSOCIATION, EncMic32, Err(unavailable)),
            // Commands without a rule of their own.
            (9, Mic32, Err(improper)),
            (9, EncMic32, Ok(())),
        ] {
            let sent = [identifier, 0x80];
            let frame = secure(&mut a, &command(version), &sent, level, None).unwrap();
            let heard_before = b.heard(&INDEX_1).to_vec();
            let mut out = std::vec![0x55; frame.len()];
            let result = b.unsecure(&frame, None, None, &mut out);
            let said = std::format!("{version:?} {identifier} {level}");
            assert_eq!(result.map(|_| ()), expected, "{said}");
            match expected {
                Ok(()) => assert_eq!(out[..2], sent, "{said}"),
                Err(_) => {
                    assert!(!out.windows(2).any(|window| window == sent), "{said}: it shows");
                    assert_eq!(b.heard(&INDEX_1), heard_before, "{said}");
                }
            }
        }
        assert_eq!(b.received().refusals().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(b.received().passed(), 4);
    }
}

#[test]
fn prepared_command_obeys_the_policy() {
    use super::super::tsch::*;
    let mut a = security(A, B, NonceKind::Asn);
    let receive = Cell { slot: 0, channel_offset: 0, kind: CellKind::Receive, neighbour: Some(A) };
    let schedule =
        Schedule::new([Slotframe { length: 1, cells: [receive].to_vec() }].to_vec(), [11].to_vec()).unwrap();
    let mut b = security(B, A, NonceKind::Asn);
    b.config.policy = policy();
    let mut node = Node::new(b, schedule, NodeConfig::new(at(EncMic32)), Asn::new(9).unwrap(), 1);
    let mut refused = Vec::new();
    for (slot, identifier) in [(10, DATA_REQUEST), (11, DATA_REQUEST), (12, DISASSOCIATION), (13, 9)] {
        let header = Header { sequence: Some(slot as u8), ..command(FrameVersion::V2015) };
        let frame = secure(&mut a, &header, &[identifier, 7], EncMic32, asn(slot)).unwrap();
        while node.idle(100) > 0 {}
        node.begin(asn(slot).unwrap());
        refused.push(node.received(&frame, 2120).err());
        node.end();
    }
    assert_eq!(refused, [None, None, Some(Status::UnavailableSecurityLevel), None]);
    // The first frame trains the prediction. The second and the refused one were foreseen. The refused
    // one teaches nothing, so the number of the last one was not.
    assert_eq!((node.counters().prepared[1], node.counters().unprepared[1]), (1, 2));
    assert_eq!(node.security().received().unavailable_security_level, 1);
}

#[test]
fn key_is_restricted_to_some_commands() {
    for version in [FrameVersion::V2006, FrameVersion::V2015] {
        let usage = Usage::of(&[FrameType::Data]).with_commands(&[DATA_REQUEST, 0xff]);
        let mut b = receiver();
        assert!(b.remove_key(&INDEX_1));
        let fresh = KeyConfig::fresh(INDEX_1, LinkKey::new([9; 16]), FrameCounter);
        b.install_key(KeyConfig { usage, ..fresh }).unwrap();
        let mut a = security(A, B, FrameCounter);
        assert!(a.remove_key(&INDEX_1));
        a.install_key(KeyConfig::fresh(INDEX_1, LinkKey::new([9; 16]), FrameCounter)).unwrap();
        let mut come = |identifier| {
            let frame = secure(&mut a, &command(version), &[identifier], EncMic32, None).unwrap();
            unsecure(&mut b, &frame, None).err()
        };
        assert_eq!(come(DATA_REQUEST), None);
        assert_eq!(come(9), Some(Status::ImproperKeyType));
        assert_eq!(come(0xff), None);
        // It does not secure others either.
        let refused = secure(&mut b, &command(version), &[9], EncMic32, None);
        assert_eq!(refused, Err(Status::ImproperKeyType));
        assert_eq!(b.numbers(&INDEX_1).unwrap().0, 0);
        assert!(secure(&mut b, &command(version), &[DATA_REQUEST], EncMic32, None).is_ok());
    }
}

#[test]
fn command_without_identifier_is_malformed() {
    let (mut a, mut b) = (security(A, B, FrameCounter), receiver());
    let empty = secure(&mut a, &command(FrameVersion::V2015), &[], EncMic32, None);
    assert_eq!(empty, Err(Status::Malformed(FormatError::Command)));
    assert_eq!(a.numbers(&INDEX_1).unwrap().0, 0);
    // Laid out as a data frame and relabelled as a command.
    let mut plain = std::vec![0; 60];
    let len = header(1).emit(&mut plain).unwrap();
    plain[0] = plain[0] & !7 | FrameType::Command as u8;
    assert_eq!(unsecure(&mut b, &plain[..len], None), Err(Status::Malformed(FormatError::Command)));
    assert_eq!(b.received().invalid_parameter, 1);
}

#[test]
fn policy_bounds_command_rules() {
    let rule = Some(LevelRule::only(Levels::ENCRYPTED));
    let full = (0..COMMAND_RULES as u8)
        .fold(Policy::default(), |policy, identifier| policy.with_command(identifier, rule).unwrap());
    assert_eq!(full.with_command(200, rule), None);
    assert!(full.with_command(3, None).is_some());
}
