//! Members join, leave and return.

use core::time::Duration;
use std::vec::Vec;

use super::super::*;
use super::world::{Faults, World, sci};
use crate::macsec::{CipherSuite, Discard};

#[test]
fn better_priority_serves_soon() {
    let mut world = World::new(2, 1);
    world.start_all();
    let took = world.until_agreed(5.0);
    assert!(took < Duration::from_millis(600), "{took:?}");
    let [a, b] = [0, 1].map(|number| world.stations[number].status(world.now));
    assert!(a.is_key_server && !b.is_key_server);
    assert_eq!((a.key_server, b.key_server), (Some(sci(0)), Some(sci(0))));
    assert_eq!(a.keys[0].unwrap().key, b.keys[0].unwrap().key);
    world.run(1.0);
    let lost = world.lost();
    world.run(20.0);
    assert_eq!((world.lost(), world.key(0)), (lost, world.key(1)));
    assert!(world.got() > 4000, "frames flow: {}", world.got());
    assert_eq!(world.stations[0].status(world.now).fresh_keys, 1, "one key is enough");
}

#[test]
fn agreement_survives_lost_first_mkpdus() {
    let mut world = World::new(2, 11);
    world.cut.insert((0, 1));
    world.start_all();
    world.run(1.0);
    world.cut.clear();
    let took = world.until_agreed(5.0);
    assert!(took < Duration::from_millis(800), "{took:?}");
    // A lone member stops after a while.
    let mut alone = World::new(1, 12);
    alone.start_all();
    alone.run(3.5);
    let before = alone.stations[0].status(alone.now).sent;
    alone.run(10.0);
    let sent = alone.stations[0].status(alone.now).sent - before;
    assert!(before <= 16 && sent <= 6, "{before}, {sent}");
    alone.run(1000.0);
    assert!(alone.stations[0].up().sent_at.len() <= 4, "nor remembers what it said");
}

#[test]
fn lower_sci_serves_at_equal_priority() {
    let mut world = World::with(3, 2, |_, config| config.priority = 7);
    world.start_all();
    world.until_agreed(5.0);
    assert!(world.stations[0].status(world.now).is_key_server);
}

#[test]
fn priority_255_never_serves() {
    let mut world = World::with(2, 3, |number, config| config.priority = [255, 200][number]);
    world.start_all();
    world.until_agreed(5.0);
    assert!(world.stations[1].status(world.now).is_key_server);
    let mut nobody = World::with(2, 4, |_, config| config.priority = 255);
    nobody.start_all();
    nobody.run(10.0);
    let status = nobody.stations[0].status(nobody.now);
    assert_eq!((status.key_server, status.fault, status.keys[0]), (None, Some(Fault::NoServer), None));
}

#[test]
fn simultaneous_start_shares_one_key() {
    let mut world = World::new(8, 5);
    world.start_all();
    world.until_agreed(5.0);
    for number in 0..8 {
        assert_eq!(world.stations[number].status(world.now).fresh_keys, 1, "station {number}");
    }
}

#[test]
fn sixty_four_members_agree() {
    let mut world = World::new(64, 6);
    world.start_all();
    world.until_agreed(10.0);
    let status = world.stations[63].status(world.now);
    assert_eq!(status.members.iter().filter(|member| member.live && member.receives).count(), 63);
    // Every member's frames reach all members, and a non-member has no effect.
    let (lost, got) = (world.lost(), world.got());
    world.run(0.2);
    assert_eq!(world.lost(), lost);
    assert_eq!(world.got() - got, 20 * 64 * 63);
    let stranger = world.frame_of_a_stranger();
    let before = world.held();
    for _ in 0..1_000 {
        world.deliver(&stranger, Discard::UnknownSci);
    }
    assert_eq!(world.held(), before, "no channel, no key and no memory");
    let (lost, got) = (world.lost(), world.got());
    world.run(0.2);
    assert_eq!((world.lost(), world.got() - got), (lost, 20 * 64 * 63));
}

#[test]
fn every_suite_reaches_agreement() {
    for suite in CipherSuite::ALL.into_iter().filter(|suite| suite.identifier()[0] == 0) {
        let mut world = World::with(3, 7, |_, config| config.suites = [suite].into());
        world.start_all();
        world.until_agreed(5.0);
        world.run(1.0);
        let lost = world.lost();
        world.run(5.0);
        assert_eq!((world.lost(), world.key(2).unwrap().2), (lost, suite));
    }
}

#[test]
fn common_fast_suite_is_chosen() {
    use CipherSuite::{Aegis128L, Aes128Ocb3, AsconAead128, ChaCha20Poly1305, GcmAes128, GcmAesXpn256};
    // With AES instructions, without, and one without a choice.
    let fast = [Aegis128L, GcmAes128, ChaCha20Poly1305];
    let slow = [ChaCha20Poly1305, Aegis128L, GcmAes128];
    for (lists, agreed) in [
        ([&fast[..], &fast], Some(Aegis128L)),
        ([&fast, &slow], Some(Aegis128L)),
        ([&slow, &slow], Some(ChaCha20Poly1305)),
        ([&fast, &[GcmAes128]], Some(GcmAes128)),
        ([&[GcmAesXpn256, GcmAes128], &[GcmAesXpn256]], Some(GcmAesXpn256)),
        ([&[AsconAead128, Aes128Ocb3], &[AsconAead128]], Some(AsconAead128)),
        ([&[Aes128Ocb3, GcmAes128], &[AsconAead128, Aes128Ocb3]], Some(Aes128Ocb3)),
        ([&[AsconAead128], &[GcmAes128]], None),
        ([&[GcmAes128], &[GcmAesXpn256]], None),
    ] {
        let mut world = World::with(2, 9, |number, config| config.suites = lists[number].to_vec());
        world.start_all();
        match agreed {
            Some(suite) => {
                world.until_agreed(5.0);
                world.run(1.0);
                let lost = world.lost();
                world.run(2.0);
                assert_eq!((world.key(1).unwrap().2, world.lost()), (suite, lost), "{lists:?}");
            }
            None => {
                world.run(5.0);
                let status = world.stations[0].status(world.now);
                assert_eq!((status.keys[0], status.fault), (None, Some(Fault::NoCommonSuite)));
            }
        }
    }
}

#[test]
fn new_member_without_suite_changes_it() {
    use CipherSuite::{Aegis128L, GcmAesXpn128};
    let mut world = World::with(3, 10, |number, config| {
        config.suites = if number == 2 { [GcmAesXpn128].into() } else { [Aegis128L, GcmAesXpn128].into() };
    });
    (0..2).for_each(|number| world.start(number));
    world.until_agreed(5.0);
    world.run(2.0);
    assert_eq!(world.key(0).unwrap().2, Aegis128L);
    let lost: u64 = world.stations[..2].iter().map(|station| station.lost).sum();
    world.start(2);
    world.until_agreed(8.0);
    world.run(2.0);
    assert_eq!(world.key(2).unwrap().2, GcmAesXpn128);
    let after: u64 = world.stations[..2].iter().map(|station| station.lost).sum();
    assert_eq!(after, lost, "a change of suites loses no frame");
}

#[test]
fn late_member_costs_no_frame() {
    for suite in [CipherSuite::GcmAes128, CipherSuite::GcmAesXpn256] {
        for late in 0..3 {
            let mut world = World::with(3, 8, |_, config| config.suites = [suite].into());
            (0..3).filter(|number| *number != late).for_each(|number| world.start(number));
            world.until_agreed(5.0);
            world.run(2.0);
            let others: Vec<usize> = (0..3).filter(|number| *number != late).collect();
            let before = world.key(others[0]).unwrap().0;
            let lost = |world: &World| others.iter().map(|number| world.stations[*number].lost).sum::<u64>();
            let lost_before = lost(&world);
            world.start(late);
            world.until_agreed(8.0);
            world.run(3.0);
            assert_ne!(world.key(others[0]).unwrap().0, before);
            assert_eq!(lost(&world), lost_before, "{suite} {late}");
        }
    }
}

#[test]
fn killed_key_server_is_replaced() {
    let mut world = World::new(3, 9);
    world.start_all();
    world.until_agreed(5.0);
    world.run(2.0);
    let lost = world.lost();
    let before = world.key(1).unwrap().0;
    world.kill(0);
    world.run(1.0);
    let took = world.until_agreed(10.0);
    assert!(took < LIFE_TIME + Duration::from_millis(500), "{took:?}");
    world.run(2.0);
    assert!(world.stations[1].status(world.now).is_key_server);
    assert_ne!(world.key(1).unwrap().0, before);
    assert_eq!(world.lost(), lost, "the old key was valid all the time");
    // The first one returns, and serves again.
    world.start(0);
    world.until_agreed(8.0);
    assert!(world.stations[0].status(world.now).is_key_server);
}

#[test]
fn quick_restart_gets_a_fresh_key() {
    for number in 0..2 {
        let mut world = World::new(2, 10 + number as u64);
        world.start_all();
        world.until_agreed(5.0);
        world.run(2.0);
        let before = world.key(0).unwrap().0;
        world.kill(number);
        world.run(0.2);
        world.start(number);
        let took = world.until_agreed(8.0);
        assert!(took < Duration::from_secs(3), "{took:?}");
        assert_ne!(world.key(0).unwrap().0, before);
    }
}

#[test]
fn lone_member_uses_no_key() {
    let mut world = World::new(2, 12);
    world.start_all();
    world.until_agreed(5.0);
    world.kill(0);
    world.run(7.0);
    let status = world.stations[1].status(world.now);
    assert_eq!((status.keys, status.members.len()), ([None; 2], 0));
    assert!(status.is_key_server, "it waits for others");
}

#[test]
fn silent_deaf_peer_is_forgotten() {
    let mut world = World::new(3, 14);
    world.unheard.insert((1, 2));
    world.start_all();
    world.run(4.0);
    // The key server lists station 2, so station 1 receives from it, although it may be a
    // recording.
    let heard =
        world.stations[1].status(world.now).members.iter().map(|member| member.live).collect::<Vec<_>>();
    assert_eq!((heard.len(), world.receives(1, sci(2))), (2, true));
    assert!(heard.contains(&false));
    world.kill(2);
    world.run(7.0);
    assert!(!world.receives(1, sci(2)));
    assert!(world.receives(1, sci(0)), "the key is still in use");
}

#[test]
fn third_member_faults_frames_without_sci() {
    let mut world = World::with(3, 15, |_, config| config.pair = true);
    (0..2).for_each(|number| world.start(number));
    world.until_agreed(5.0);
    assert_eq!(world.stations[0].status(world.now).fault, None);
    world.start(2);
    world.until_agreed(5.0);
    for number in 0..3 {
        assert_eq!(world.stations[number].status(world.now).fault, Some(Fault::NotAPair));
    }
    world.kill(2);
    world.run(8.0);
    assert_eq!(world.stations[0].status(world.now).fault, None);
}

#[test]
fn cut_cable_is_survived() {
    for seconds in [0.5, 3.0, 5.9, 6.5, 20.0] {
        let mut world = World::new(2, 13);
        world.start_all();
        world.until_agreed(5.0);
        world.run(2.0);
        world.cut.insert((0, 1));
        world.run(seconds);
        world.cut.clear();
        world.run(0.5);
        world.until_agreed(8.0);
    }
}

#[test]
fn faulty_network_is_survived() {
    for seed in 0..6 {
        let mut world = World::new(4, 100 + seed);
        world.faults = Faults { lose: 200, duplicate: 100, delay: 20, ..Faults::default() };
        world.start_all();
        world.run(10.0);
        for round in 0..4 {
            let victim = (seed as usize + round) % 4;
            world.kill(victim);
            world.run(3.0 * round as f64);
            world.start(victim);
            world.run(10.0);
        }
        world.faults = Faults::default();
        world.run(8.0);
        world.until_agreed(10.0);
        let lost = world.lost();
        world.run(5.0);
        assert_eq!(world.lost(), lost, "seed {seed}");
    }
}

#[test]
fn channels_follow_the_members() {
    // Two gateways with several channels, and one that knows of none.
    let mut world = World::with(3, 71, |number, config| {
        if number < 2 {
            (config.channels, config.takes_channels) = (2 + number as u8, 8);
        }
    });
    let in_use = |world: &World, number: usize| world.stations[number].status(world.now).channels_in_use;
    world.start(0);
    world.start(1);
    world.until_agreed(10.0);
    assert_eq!((in_use(&world, 0), in_use(&world, 1)), (2, 3));
    // Before it has the key, frames are such as it can read.
    world.start(2);
    world.until_agreed(10.0);
    assert_eq!((in_use(&world, 0), in_use(&world, 1), in_use(&world, 2)), (1, 1, 1));
    world.kill(2);
    world.run(8.0);
    assert_eq!((in_use(&world, 0), in_use(&world, 1)), (2, 3));
    assert_eq!(world.stations[1].lost, 0);
}
