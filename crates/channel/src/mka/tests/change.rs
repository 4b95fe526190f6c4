//! Changes of the CAK: gateways with several, one by one and at once, with faults and with members
//! that know the old one only.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use super::super::*;
use super::world::{Faults, OneCak, World, sci};
use crate::macsec::CipherSuite;

const OLD: &[u8] = b"world";
const NEW: &[u8] = b"fresh";

fn old(priority: i32) -> OneCak {
    (OLD, super::world::CAK.to_vec(), priority)
}

fn new(priority: i32) -> OneCak {
    (NEW, vec![0x77; 16], priority)
}

/// The name of the CAK that carries at a station.
fn carries(world: &World, number: usize) -> Option<Vec<u8>> {
    let caks = world.stations[number].kay().caks(world.now);
    assert!(caks.iter().filter(|cak| cak.carries).count() <= 1);
    caks.into_iter().find(|cak| cak.carries).map(|cak| cak.name.as_bytes().to_vec())
}

fn all_carry(world: &World, name: &[u8]) -> bool {
    (0..world.stations.len()).all(|number| carries(world, number).as_deref() == Some(name))
}

fn lossless(world: &World) {
    assert_eq!((world.lost(), world.unsent()), (0, 0));
    assert!(world.got() > 100);
}

/// Stations that agree under the old CAK.
fn agreed(count: usize, seed: u64, change: impl Fn(usize, &mut Config)) -> World {
    let mut world = World::with(count, seed, change);
    world.start_all();
    world.until_agreed(6.0);
    world.run(1.0);
    // Frames between the first key and the last one's installation.
    world.stations.iter_mut().for_each(|station| (station.lost, station.unsent) = (0, 0));
    world
}

#[test]
fn cak_changes_one_by_one_without_loss() {
    for (count, seed) in [(2, 300), (2, 301), (3, 302), (5, 303)] {
        let mut world = agreed(count, seed, |_, config| config.rekey_after = Some(Duration::from_secs(9)));
        for number in 0..count {
            assert!(all_carry(&world, OLD), "not before all have it");
            // Backwards, so that the key server is the last one.
            world.reload(count - 1 - number, &[old(0), new(1)]);
            world.run(if number + 1 < count { 25.0 } else { 2.0 });
        }
        assert!(all_carry(&world, NEW));
        world.run(1.0);
        for station in &world.stations {
            let old = &station.kay().actors[1].participant;
            assert!(old.latest.is_none() && old.old.is_none(), "its keys are retired");
        }
        for number in 0..count {
            world.reload(number, &[new(1)]);
            world.run(10.0);
        }
        assert!(world.stations.iter().all(|station| station.kay().caks(world.now).len() == 1));
        assert!(all_carry(&world, NEW));
        lossless(&world);
    }
}

#[test]
fn cak_changes_at_once_without_loss() {
    for (count, seed) in [(2, 310), (3, 311), (4, 312)] {
        for suite in [CipherSuite::GcmAes128, CipherSuite::GcmAesXpn128] {
            let mut world = agreed(count, seed, |_, config| config.suites = vec![suite]);
            (0..count).for_each(|number| world.reload(number, &[new(5), old(-1)]));
            world.run(1.5);
            assert!(all_carry(&world, NEW));
            (0..count).for_each(|number| world.reload(number, &[new(5)]));
            world.run(12.0);
            assert!(all_carry(&world, NEW));
            lossless(&world);
        }
    }
}

#[test]
fn replaced_file_changes_without_loss() {
    // The second one is told half a minute later: the removed CAK goes on meanwhile.
    for (pause, seed) in [(0.0, 320), (0.3, 321), (30.0, 322)] {
        let mut world = agreed(2, seed, |_, _| {});
        world.reload(0, &[new(0)]);
        world.run(pause);
        assert!(all_carry(&world, OLD));
        world.reload(1, &[new(0)]);
        world.run(15.0);
        assert!(all_carry(&world, NEW));
        assert!(world.stations.iter().all(|station| station.kay().caks(world.now).len() == 1));
        lossless(&world);
    }
}

#[test]
fn removed_cak_ends_in_time() {
    let mut world = agreed(2, 323, |_, _| {});
    world.reload(0, &[new(0)]);
    world.run(GRACE.as_secs_f64() - 1.0);
    assert_eq!(carries(&world, 0).as_deref(), Some(OLD));
    world.run(2.0);
    assert_eq!(carries(&world, 0), None);
    assert!(!world.receives(0, sci(1)), "its keys and channels are gone");
}

#[test]
fn removed_cak_goes_on_without_a_bound() {
    let mut world = agreed(2, 324, |_, _| {});
    world.replace(0, &[new(0)], None);
    world.run(3.0 * GRACE.as_secs_f64());
    assert!(all_carry(&world, OLD));
    // Nothing prolongs a bound.
    world.reload(0, &[new(0)]);
    world.replace(0, &[new(0)], None);
    world.run(GRACE.as_secs_f64() - 1.0);
    lossless(&world);
    world.run(2.0);
    assert_eq!(carries(&world, 0), None);
}

/// The key server, restarted with the new CAK alone, has one member follow, and not another.
#[test]
fn cautious_cak_parts_no_partners() {
    for (grace, kept) in [(None, OLD), (Some(GRACE), NEW)] {
        let mut world = agreed(3, 325, |_, _| {});
        world.kill(0);
        world.stations[0].caks = vec![new(0)];
        world.start(0);
        world.replace(1, &[new(0)], grace);
        world.run(30.0);
        assert_eq!(carries(&world, 1).as_deref(), Some(kept), "{grace:?}");
        assert!(grace.is_some() || world.receives(2, sci(1)), "and so does its partner");
        world.replace(2, &[new(0)], grace);
        world.run(15.0);
        assert!(all_carry(&world, NEW));
    }
}

#[test]
fn standby_cak_takes_over_without_loss() {
    // The new one has no preference: it carries when the old one is removed.
    for (order, seed) in [([0, 1], 330), ([1, 0], 331)] {
        let mut world = agreed(2, seed, |_, _| {});
        for number in order {
            world.reload(number, &[old(0), new(0)]);
            world.run(5.0);
        }
        assert!(all_carry(&world, OLD), "the first in the list is preferred");
        assert!(world.stations[0].kay().caks(world.now)[1].members[0].live, "the new one is heard");
        for number in order {
            world.reload(number, &[new(0)]);
            world.run(20.0);
        }
        assert!(all_carry(&world, NEW));
        lossless(&world);
    }
}

/// The frames lost in a change one by one or at once, while 30 % of the MKPDUs are lost.
fn lost_in_a_change(seed: u64, singly: bool, at_once: bool) -> u64 {
    let mut world = agreed(2, seed, |_, config| config.rekey_after = Some(Duration::from_secs(9)));
    world.faults = Faults { lose: 300, singly, ..Faults::default() };
    for list in [vec![new(1), old(0)], vec![new(1)]] {
        for number in [1, 0] {
            world.reload(number, &list);
            world.run(if at_once && number == 1 { 0.0 } else { 10.0 });
        }
    }
    assert!(!singly || all_carry(&world, NEW), "seed {seed}");
    world.lost() + world.unsent()
}

#[test]
fn single_lost_mkpdus_cost_no_frame() {
    // A life time is three intervals, so two MKPDUs lost in succession can end a membership. That
    // costs frames with one CAK as well, and needs no change.
    let (mut lost, mut unbounded) = (0, 0);
    for seed in 350..370 {
        for at_once in [false, true] {
            lost += lost_in_a_change(seed, true, at_once);
            unbounded += lost_in_a_change(seed, false, at_once);
        }
    }
    assert_eq!((lost, unbounded > 0), (0, true));
}

#[test]
fn opposite_preferences_lose_nothing() {
    for (lists, seed) in
        [([[new(1), old(0)], [old(1), new(0)]], 340), ([[old(1), new(0)], [new(1), old(0)]], 341)]
    {
        let mut world = agreed(2, seed, |_, config| config.rekey_after = Some(Duration::from_secs(10)));
        world.reload(0, &lists[0]);
        world.reload(1, &lists[1]);
        world.run(30.0);
        lossless(&world);
        world.reload(0, &[new(0)]);
        world.run(20.0);
        world.reload(1, &[new(0)]);
        world.run(20.0);
        assert!(all_carry(&world, NEW));
        lossless(&world);
    }
}

#[test]
fn single_cak_end_changes_in_a_restart() {
    // An end with one CAK at a time, such as wpa_supplicant, in both roles.
    for (server, seed) in [(0, 370), (1, 371)] {
        let mut world = agreed(2, seed, |_, _| {});
        let both = 1 - server;
        world.reload(both, &[old(0), new(1)]);
        world.run(10.0);
        lossless(&world);
        world.stations[server].caks = vec![new(0)];
        world.start(server);
        let since = world.now;
        while !all_carry(&world, NEW) {
            assert!(world.now < since + Duration::from_secs(1), "{:#?}", world.statuses());
            world.step();
        }
        world.run(1.0);
        let (lost, got) = (world.lost(), world.got());
        world.run(10.0);
        world.reload(both, &[new(1)]);
        world.run(10.0);
        assert_eq!((world.lost(), world.got() > got + 1000), (lost, true));
    }
}

#[test]
fn end_with_the_old_cak_is_followed_back() {
    let mut world = agreed(2, 380, |_, _| {});
    (0..2).for_each(|number| world.reload(number, &[new(1), old(0)]));
    world.run(10.0);
    assert!(all_carry(&world, NEW));
    for number in [0, 1] {
        world.stations[number].caks = vec![old(0)];
        world.start(number);
        world.run(8.0);
        assert!(all_carry(&world, OLD), "{:#?}", world.statuses());
        world.reload(number, &[new(1), old(0)]);
        world.run(3.0);
        assert!(all_carry(&world, NEW));
    }
}

#[test]
fn old_member_delays_the_change_only() {
    let mut world = agreed(3, 390, |_, _| {});
    (0..2).for_each(|number| world.reload(number, &[new(1), old(0)]));
    world.run(20.0);
    assert!(all_carry(&world, OLD), "the third one has not the new CAK");
    lossless(&world);
    world.kill(2);
    world.run(8.0);
    assert_eq!([0, 1].map(|number| carries(&world, number)), [Some(NEW.to_vec()), Some(NEW.to_vec())]);
    world.stations[2].lost = 0;
    lossless(&world);
}

#[test]
fn old_member_cannot_disturb_the_new_cak() {
    let mut world = World::with(3, 391, |number, config| config.priority = 10 - number as u8);
    (0..2).for_each(|number| world.stations[number].caks = vec![new(1), old(0)]);
    world.start(0);
    world.start(1);
    world.until_agreed(5.0);
    world.run(2.0);
    assert_eq!([0, 1].map(|number| carries(&world, number)), [Some(NEW.to_vec()), Some(NEW.to_vec())]);
    let (key, fresh) = (world.key(0), world.statuses()[0].fresh_keys);
    // It is the preferred key server of the old association, with a channel of the others too.
    for sci_of in [2, 1, 0] {
        world.stations[2].config.sci = sci(sci_of);
        world.start(2);
        world.run(15.0);
        let caks = world.stations[0].kay().caks(world.now);
        assert!(caks[1].rests && !caks[0].rests);
        assert!(caks[1].members.iter().any(|member| member.live) || sci_of == 0, "it is heard");
        assert!(world.stations[0].kay().actors[1].participant.latest.is_none(), "and gets no key");
        assert_eq!((world.key(0), world.key(1)), (key, key));
        assert_eq!(world.statuses()[0].fresh_keys, fresh);
        let heard = world.stations[2].got;
        assert_eq!(heard, 0, "nor reads a frame");
    }
    let unsent = world.stations[0].unsent + world.stations[1].unsent;
    assert_eq!(unsent, 0);
}

#[test]
fn recordings_of_both_caks_change_nothing() {
    let mut world = agreed(2, 392, |_, _| {});
    (0..2).for_each(|number| world.reload(number, &[new(1), old(0)]));
    world.run(5.0);
    let (key, recorded) = (world.key(0), world.recording.clone());
    recorded.iter().for_each(|frame| world.inject(frame));
    world.run(10.0);
    assert_eq!((world.key(0), world.key(1)), (key, key));
    lossless(&world);
    let replayed = world.stations[0].status(world.now).refused.of(Dropped::Replayed);
    assert!(replayed > 10);
}

#[test]
fn name_with_another_key_is_refused() {
    let mut world = agreed(2, 393, |_, _| {});
    let now = world.now;
    let kay = world.stations[0].participant.as_mut().unwrap();
    let other = Cak::new(&[3; 16], OLD).unwrap();
    let listed = vec![Listed { cak: other.into(), priority: 0 }];
    assert_eq!(kay.replace(now, listed, Some(GRACE), &mut |_| {}), Err(OtherKey(Ckn::new(OLD).unwrap())));
    world.run(10.0);
    assert!(all_carry(&world, OLD));
    lossless(&world);
}

/// Two follow the key server to the new CAK, one after the other. Nobody asks them to.
#[test]
fn followers_of_the_key_server_lose_nothing() {
    for seed in 500..600 {
        let mut world = World::new(3, seed);
        world.slowness = 2 + world.rng.below(30);
        world.faults.delay = world.rng.below(20);
        for number in 0..3 {
            world.start(number);
            let pause = world.rng.below(300) as f64 / 100.0;
            world.run(pause);
        }
        world.until_agreed(20.0);
        world.run(1.0);
        world.kill(0);
        world.run(1.0);
        world.stations.iter_mut().for_each(|station| station.lost_of.clear());
        world.stations[0].caks = vec![new(0)];
        world.start(0);
        for number in [1, 2] {
            world.run(0.2);
            world.replace(number, &[new(0)], None);
            world.run(if number == 1 { 3.0 } else { 10.0 });
        }
        assert!(all_carry(&world, NEW), "seed {seed}: {:#?}", world.statuses());
        // It does not know the old CAK, and so no association number that the others use with it.
        let lost = [(1, 2), (2, 1)].map(|(at, of)| world.stations[at].lost_of.get(&of).copied());
        assert_eq!(lost, [None; 2], "seed {seed}");
    }
}

/// Three CAKs, random reloads, restarts and faults: no nonce comes twice, which the world checks,
/// and all agree in the end.
#[test]
fn random_changes_repeat_no_nonce() {
    const LAST: &[u8] = b"third";
    for seed in 400..430 {
        let mut world = World::new(3, seed);
        world.start_all();
        for _ in 0..30 {
            let number = world.rng.below(3);
            let mut caks = Vec::new();
            for (name, key) in
                [(OLD, super::world::CAK.to_vec()), (NEW, vec![0x77; 16]), (LAST, vec![0x33; 32])]
            {
                if world.rng.happens(600) {
                    caks.push((name, key, world.rng.below(3) as i32));
                }
            }
            if caks.is_empty() {
                caks.push(old(0));
            }
            if world.rng.happens(250) {
                world.stations[number].caks = caks;
                world.start(number);
            } else {
                world.reload(number, &caks);
            }
            world.faults = Faults {
                lose: world.rng.below(200) as u32,
                duplicate: 50,
                delay: world.rng.below(30),
                ..Faults::default()
            };
            let steps = 1 + world.rng.below(900);
            (0..steps).for_each(|_| world.step());
        }
        world.faults = Faults::default();
        (0..3).for_each(|number| world.reload(number, &[new(1), old(0)]));
        world.run(90.0);
        assert!(all_carry(&world, NEW), "seed {seed}: {:#?}", world.statuses());
        let before = (world.lost(), world.unsent());
        world.run(20.0);
        assert_eq!((world.lost(), world.unsent()), before, "seed {seed}");
    }
}
