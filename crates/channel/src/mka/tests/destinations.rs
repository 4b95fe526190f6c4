//! Members that find each other by several destinations, whatever is filtered between.

use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

use antedate_wire::EthernetAddress;

use super::super::*;
use super::world::World;

fn automatic(count: usize, seed: u64) -> World {
    World::with(count, seed, |_, config| config.destinations = AUTOMATIC.to_vec())
}

/// A station's destinations in use.
fn used(world: &World, number: usize) -> Vec<EthernetAddress> {
    world.stations[number].status(world.now).destinations
}

/// A set of destinations, one bit each.
fn set_has(set: usize, to: EthernetAddress) -> bool {
    AUTOMATIC.iter().position(|known| *known == to).is_some_and(|place| set & 1 << place != 0)
}

#[test]
fn cable_is_spoken_on_in_the_standard_group() {
    for late in [0.0, 0.3, 0.9, 3.3, 7.1, 8.0] {
        let mut world = automatic(2, 1);
        world.start(0);
        world.run(late);
        world.start(1);
        let took = world.until_agreed(2.0);
        assert!(took < Duration::from_millis(700), "{took:?}");
        world.run(10.0);
        assert_eq!([0, 1].map(|number| used(&world, number)), [0, 1].map(|_| [AUTOMATIC[0]].to_vec()));
    }
}

#[test]
fn any_way_there_and_back_is_found() {
    for there in 1..16 {
        for back in 1..16 {
            let mut world = automatic(2, 7);
            world.carries = Box::new(move |from, _, to| set_has([there, back][from], to));
            world.start_all();
            let took = world.until_agreed(6.0);
            assert!(took < Duration::from_secs(3), "{there:04b} {back:04b}: {took:?}");
            world.run(3.0);
            let before = [0, 1].map(|number| world.stations[number].status(world.now).sent);
            world.run(6.0);
            for (number, set) in [there, back].into_iter().enumerate() {
                let used = used(&world, number);
                assert!(used.len() == 1 && set_has(set, used[0]), "{there:04b} {back:04b}: {used:?}");
                let sent = world.stations[number].status(world.now).sent - before[number];
                assert!(sent <= 4, "{there:04b} {back:04b}: {sent} MKPDUs in 6 s");
            }
        }
    }
}

#[test]
fn late_member_is_found_over_a_switch() {
    for late in [0.1, 2.9, 5.0, 60.0] {
        let mut world = automatic(2, 3);
        world.carries = Box::new(|_, _, to| to == EthernetAddress::BROADCAST);
        world.start(1);
        world.run(late);
        world.start(0);
        let took = world.until_agreed(3.0);
        assert!(took < Duration::from_millis(2100), "after {late} s: {took:?}");
    }
}

#[test]
fn members_at_different_distances_agree() {
    let mut world = automatic(3, 4);
    // The third one is behind a switch, and the first one's cable to the second has no broadcast.
    world.carries = Box::new(|from, to, group| match from.max(to) {
        2 => group == EthernetAddress::BROADCAST,
        _ => group == EthernetAddress::PAE_GROUP,
    });
    world.start_all();
    world.until_agreed(5.0);
    world.run(3.0);
    let lost = world.lost();
    world.run(30.0);
    assert_eq!((world.agreed(), world.lost()), (true, lost));
    assert_eq!(used(&world, 0), [EthernetAddress::PAE_GROUP, EthernetAddress::BROADCAST]);
    assert_eq!(used(&world, 2), [EthernetAddress::BROADCAST]);
}

#[test]
fn standard_participant_needs_no_setting() {
    let mut world = World::with(2, 5, |number, config| {
        if number == 0 {
            config.destinations = AUTOMATIC.to_vec();
        }
    });
    // It hears its own group only.
    world.carries = Box::new(|from, _, group| from == 1 || group == EthernetAddress::PAE_GROUP);
    world.start(0);
    world.run(4.0);
    world.start(1);
    world.until_agreed(3.0);
    world.run(20.0);
    assert!(world.agreed());
    assert_eq!(used(&world, 0), [EthernetAddress::PAE_GROUP]);
}

#[test]
fn another_way_is_found_when_one_ends() {
    let mut world = automatic(2, 6);
    world.start_all();
    world.until_agreed(2.0);
    world.run(5.0);
    world.carries = Box::new(|_, _, to| to == EthernetAddress::BROADCAST);
    world.run(6.1);
    world.until_agreed(6.0);
    world.run(2.0);
    assert_eq!(used(&world, 0), [EthernetAddress::BROADCAST]);
}

#[test]
fn first_mkpdus_go_to_the_standard_group() {
    let mut world = automatic(1, 8);
    world.start_all();
    world.run(10.0);
    let groups: Vec<_> = world.recording.iter().map(|frame| frame[..6].to_vec()).collect();
    let place = |group: &[u8]| AUTOMATIC.iter().position(|known| known.0 == *group).expect("one of them");
    let places: Vec<_> = groups.iter().map(|group| place(group)).collect();
    assert_eq!(places[..7], [0, 0, 1, 2, 3, 0, 1]);
    assert!(places.len() <= 32, "{places:?}");
}
