//! With extended packet numbers the nonce contains a short SCI, which each participant computes by
//! itself. The world checks that no two of them collide.

use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

use antedate_wire::mka::{PeerList, Repr};

use super::super::*;
use super::world::{Faults, World, changed, sci};
use crate::macsec::CipherSuite;

fn with_xpn(config: &mut Config) {
    config.suites = [CipherSuite::GcmAesXpn128].into();
    config.rekey_after = Some(Duration::from_secs(5));
}

#[test]
fn unwilling_member_keeps_its_short_sci() {
    for unwilling in 1..4 {
        let mut world = World::with(4, 60 + unwilling as u64, |_, config| with_xpn(config));
        world.unwilling.insert(unwilling);
        world.start_all();
        world.until_agreed(6.0);
        world.run(1.0);
        let lost = world.lost();
        world.run(12.0);
        assert_eq!(world.lost(), lost, "all count alike");
        assert!(world.stations[3].status(world.now).fresh_keys >= 3);
    }
}

#[test]
fn keys_change_beside_unwilling_twins() {
    let mut world = World::with(4, 64, |number, config| {
        with_xpn(config);
        config.sci = sci(number.min(2));
    });
    (0..3).for_each(|number| world.start(number));
    world.until_agreed(5.0);
    world.start(3);
    world.run(2.0);
    assert_eq!(world.stations[2].status(world.now).fault, Some(Fault::SameSci));
    let before = world.stations[1].status(world.now).fresh_keys;
    world.run(20.0);
    let after = world.stations[1].status(world.now).fresh_keys;
    assert!((before + 2..before + 12).contains(&after), "from {before} to {after} keys");
    assert_eq!(world.key(0), world.key(1));
    world.kill(3);
    world.run(14.0);
    world.until_agreed(10.0);
}

#[test]
fn short_scis_never_collide() {
    for seed in 0..6 {
        let mut world = World::with(5, 70 + seed, |_, config| with_xpn(config));
        world.faults = Faults { lose: 200, duplicate: 100, delay: 20, ..Faults::default() };
        world.slowness = 20;
        world.start_all();
        for _ in 0..60 {
            world.run(0.7);
            let number = world.rng.below(5);
            match world.rng.below(4) {
                0 => world.start(number),
                1 if !world.unwilling.remove(&number) => drop(world.unwilling.insert(number)),
                _ => {}
            }
        }
        world.faults = Faults::default();
        world.unwilling.clear();
        world.run(12.0);
        world.until_agreed(10.0);
    }
}

#[test]
fn other_short_sci_order_is_refused() {
    // Version 3 of MKA: the key server's short SCI, and then the others in the order of theirs.
    let cases = [(0, [1, 2], true), (3, [2, 1], true), (3, [1, 2], false), (1, [2, 1], false)];
    for (ssci, order, agreed) in cases {
        let mut world = World::with(3, 65, |_, config| with_xpn(config));
        world.start_all();
        let members = order.map(|number| world.stations[number].status(world.now).member);
        world.rewrite = Some(Box::new(move |from, frame| {
            let Some(list) = Repr::parse(frame).unwrap().repr.live.filter(|_| from == 0) else {
                return frame.to_vec();
            };
            let mut peers: Vec<_> = list.peers().collect();
            peers.sort_by_key(|(peer, _)| members.iter().position(|member| member == peer));
            let octets: Vec<u8> =
                peers.into_iter().flat_map(|(member, message)| PeerList::entry(member, message)).collect();
            changed(frame, |repr| {
                repr.basic.version = 3;
                let mut list = PeerList::new(&octets).unwrap();
                list.key_server_ssci = ssci;
                repr.live = Some(list);
            })
        }));
        world.run(4.0);
        let status = world.stations[1].status(world.now);
        assert_eq!(status.keys[0].is_some(), agreed, "{ssci} {order:?}");
        assert_eq!(status.fault, (!agreed).then_some(Fault::OtherShortScis), "{ssci} {order:?}");
    }
}
