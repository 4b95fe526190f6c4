//! Attacks and misconfigurations: recordings, forgeries, wrong keys, duplicate names.

use std::vec;
use std::vec::Vec;

use super::super::*;
use super::world::{CAK, World, changed, sci};
use crate::macsec::CipherSuite;

fn refused(world: &World, number: usize, reason: Dropped) -> u64 {
    world.stations[number].status(world.now).refused.of(reason)
}

#[test]
fn replayed_mkpdus_change_nothing() {
    let mut world = World::new(3, 30);
    world.start_all();
    world.until_agreed(5.0);
    world.run(4.0);
    let recorded: Vec<_> = world.recording.clone();
    let key = world.key(0);
    for frame in &recorded {
        world.inject(frame);
    }
    world.run(3.0);
    assert_eq!(world.key(0), key);
    assert!(refused(&world, 0, Dropped::Replayed) > 0 && refused(&world, 0, Dropped::Own) > 0);
    // All restart: the same recordings are now of unknown members.
    (0..3).for_each(|number| world.start(number));
    for frame in &recorded {
        world.inject(frame);
    }
    world.run(0.5);
    for frame in &recorded {
        world.inject(frame);
    }
    let took = world.until_agreed(8.0);
    let live = world.stations[0].status(world.now).members.iter().filter(|member| member.live).count();
    assert_eq!(live, 2, "no recording is a live member: {took:?}");
}

#[test]
fn recordings_keep_no_member_out() {
    let mut old = World::new(64, 31);
    old.start_all();
    old.run(1.0);
    let mut older = World::new(64, 32);
    older.start_all();
    older.run(1.0);
    let mut world = World::with(2, 33, |number, config| config.sci = sci(100 + number));
    world.start(0);
    for _ in 0..20 {
        let recordings: Vec<_> = old.recording.iter().chain(&older.recording).cloned().collect();
        recordings.iter().step_by(7).for_each(|frame| world.inject(frame));
        world.step();
    }
    assert!(world.stations[0].status(world.now).members.len() <= 2 * MAX_PEERS);
    world.start(1);
    world.until_agreed(6.0);
}

#[test]
fn recordings_make_no_overlong_mkpdu() {
    let mut old = World::new(64, 43);
    old.start_all();
    old.run(1.0);
    let mut world = World::with(32, 44, |number, config| config.sci = sci(100 + number));
    world.start_all();
    world.until_agreed(6.0);
    old.recording.iter().for_each(|frame| world.inject(frame));
    let before = world.recording.len();
    world.run(3.0);
    assert!(world.stations[0].status(world.now).members.len() > 31 + 32, "there are potential peers");
    assert!(world.recording[before..].iter().all(|frame| frame.len() <= 1514));
}

#[test]
fn wrong_cak_gives_no_membership() {
    let mut world = World::new(3, 34);
    world.set_cak(0, &[1; 32]);
    world.start_all();
    world.run(8.0);
    assert!(refused(&world, 1, Dropped::WrongIcv) > 2);
    assert_eq!(world.stations[0].status(world.now).members, []);
    assert_eq!(world.key(1), world.key(2));
    assert!(world.key(1).is_some());
}

#[test]
fn damaged_mkpdus_are_refused() {
    let mut world = World::new(2, 35);
    world.start_all();
    world.until_agreed(5.0);
    world.run(2.0);
    let frame = world.recording.last().cloned().unwrap();
    let key = world.key(0);
    for len in 0..frame.len() {
        world.inject(&frame[..len]);
    }
    for at in 0..frame.len() {
        for bit in 0..8 {
            let mut changed = frame.clone();
            changed[at] ^= 1 << bit;
            world.inject(&changed);
        }
    }
    world.run(0.1);
    let status = world.stations[1].status(world.now);
    assert!(status.refused.of(Dropped::WrongIcv) > 100 && status.refused.of(Dropped::Malformed) > 100);
    world.run(10.0);
    assert_eq!((world.key(0), world.key(1)), (key, key));
}

#[test]
fn better_key_server_is_obeyed() {
    // Two associations, each with a key server, meet.
    let mut world = World::new(4, 36);
    for pair in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        world.cut.insert(pair);
    }
    world.start_all();
    world.run(4.0);
    let servers = |world: &World| world.statuses().iter().filter(|status| status.is_key_server).count();
    assert_eq!(servers(&world), 2);
    world.cut.clear();
    world.run(1.0);
    world.until_agreed(12.0);
    assert_eq!(servers(&world), 1);
    assert!(world.stations[0].status(world.now).is_key_server);
}

#[test]
fn shared_sci_silences_both() {
    let mut world = World::with(3, 37, |number, config| config.sci = sci(number % 2));
    world.start(0);
    world.start(1);
    world.until_agreed(5.0);
    world.start(2);
    world.run(10.0);
    let status = world.stations[0].status(world.now);
    assert_eq!((status.fault, status.keys[0]), (Some(Fault::SameSci), None));
    world.kill(2);
    world.run(14.0);
    world.until_agreed(10.0);
}

#[test]
fn shared_second_sci_prevents_keys() {
    let mut world = World::with(3, 39, |number, config| config.second = (number == 2).then(|| sci(0)));
    world.start_all();
    world.run(5.0);
    let own = world.stations[2].status(world.now);
    assert_eq!((own.fault, own.keys[0]), (Some(Fault::SameSci), None));
    assert!(world.key(0).is_some() && world.key(0) == world.key(1));
}

#[test]
fn shared_identifier_is_chosen_anew() {
    let mut world = World::new(2, 38);
    world.start_all();
    // Both get the same random octets.
    let cak = || Cak::new(&CAK, b"world").unwrap();
    for number in 0..2 {
        let config = world.stations[number].config.clone();
        let list = vec![Listed { cak: cak().into(), priority: 0 }];
        let same = Kay::new(list, config, &mut |octets| octets.fill(9));
        world.stations[number].participant = Some(same);
    }
    world.until_agreed(6.0);
    assert_ne!(world.stations[0].status(world.now).member, world.stations[1].status(world.now).member);
}

#[test]
fn unconfigured_suite_is_refused_with_fault() {
    let mut world = World::with(2, 39, |number, config| {
        config.suites = [[CipherSuite::GcmAes256, CipherSuite::GcmAes128][number]].into();
    });
    world.start_all();
    world.run(5.0);
    let status = world.stations[0].status(world.now);
    assert_eq!((status.fault, status.keys[0]), (Some(Fault::NoCommonSuite), None), "it is announced");
    // A key server that ignores the announcement, such as another implementation.
    for _ in 0..300 {
        world.stations[0].up_mut().peers.0.iter_mut().for_each(|peer| peer.antedate = false);
        world.step();
    }
    let status = world.stations[1].status(world.now);
    assert_eq!(status.fault, Some(Fault::OtherSuite(CipherSuite::GcmAes256.identifier())));
    assert_eq!(status.keys[0], None);
}

#[test]
fn integrity_only_is_refused() {
    let mut world = World::with(2, 40, |number, config| config.confidentiality = number == 1);
    world.start_all();
    world.run(5.0);
    assert_eq!(world.stations[1].status(world.now).fault, Some(Fault::OtherConfidentiality));
}

#[test]
fn fragments_need_all_members() {
    for others in [true, false] {
        let mut world = World::with(3, 41, |number, config| config.fragments = number < 2 || others);
        world.start_all();
        world.until_agreed(5.0);
        assert_eq!(world.stations[0].up().all_reassemble(), others);
        assert!(!world.stations[2].up().all_reassemble() || others);
    }
}

#[test]
fn foreign_association_is_ignored() {
    let mut world = World::new(2, 42);
    world.start(0);
    world.run(3.0);
    let frame = world.recording.last().cloned().unwrap();
    world.inject(&changed(&frame, |repr| repr.basic.ckn = b"other"));
    world.run(0.1);
    assert_eq!(refused(&world, 0, Dropped::OtherName), 1);
}
