//! Keys: rotation, restarts, other CAKs, and drivers that take nothing.

use alloc::collections::BTreeSet;
use core::time::Duration;

use antedate_channel::macsec::CipherSuite;
use antedate_wire::macsec::Mpdu;

use super::world::{World, cak};

/// Sends a datagram every 20 ms in each direction while the world runs. Returns those lost.
fn load(world: &mut World, seconds: u32, mut at: impl FnMut(u32, &mut World)) -> usize {
    let mut missing: [BTreeSet<u32>; 2] = Default::default();
    for number in 0..seconds * 50 {
        if number % 50 == 0 {
            at(number / 50, world);
        }
        for end in 0..2 {
            world.stations[end].send(&number.to_be_bytes());
            missing[1 - end].insert(number);
        }
        for _ in 0..4 {
            world.step();
            collect(world, &mut missing);
        }
    }
    world.run(1);
    collect(world, &mut missing);
    missing.iter().map(BTreeSet::len).sum()
}

fn collect(world: &mut World, missing: &mut [BTreeSet<u32>; 2]) {
    for (end, missing) in missing.iter_mut().enumerate() {
        while let Some(payload) = world.stations[end].next() {
            let number = u32::from_be_bytes(*payload.first_chunk().expect("a number"));
            assert!(missing.remove(&number), "{number} comes twice");
        }
    }
}

#[test]
fn rotation_loses_no_datagram() {
    let mut world = World::with(|end, settings| {
        settings.rekey_after = (end == 0).then_some(Duration::from_secs(10));
    });
    world.until_agreed();
    world.crosses(0, b"addresses are known");
    assert_eq!(load(&mut world, 45, |_, _| {}), 0);
    let status = world.stations[1].device.status(world.now);
    assert!(status.fresh_keys >= 4 && !status.is_key_server, "{status:?}");
    let counters = world.stations[1].device.counters();
    assert_eq!((counters.keys_refused, counters.mkpdus_unsent), (0, 0));
    assert_eq!((counters.receive.in_pkts_not_valid, counters.receive.in_pkts_late), (0, 0));
}

#[test]
fn every_suite_is_agreed_on() {
    for suite in CipherSuite::ALL {
        let mut world = World::with(|_, settings| settings.suites = [suite].into());
        world.until_agreed();
        world.crosses(0, b"with each suite");
        world.crosses(1, b"both ways");
        let key = world.stations[0].device.status(world.now).keys[0].expect("a key");
        assert_eq!(key.suite, suite);
    }
}

#[test]
fn integrity_alone_is_agreed_on() {
    let mut world = World::with(|_, settings| settings.confidentiality = false);
    world.until_agreed();
    world.crosses(0, b"readable on the wire");
    let counters = world.stations[0].device.counters().transmit;
    assert!(counters.out_pkts_protected > 0 && counters.out_pkts_encrypted == 0);
}

#[test]
fn restarted_device_gets_a_fresh_key() {
    let mut world = World::new();
    let mut nonces = BTreeSet::new();
    for _ in 0..4 {
        world.until_agreed();
        world.wire.borrow_mut().seen.clear();
        world.crosses(0, b"from the one");
        world.crosses(1, b"from the other");
        let key = world.stations[0].device.status(world.now).keys[0].expect("a key").key;
        for (_, frame) in &world.wire.borrow().seen {
            if let Ok(mpdu) = Mpdu::parse(frame) {
                let nonce = (key.server.0, key.number, mpdu.sci(), mpdu.tag.packet_number);
                assert!(nonces.insert(nonce), "a nonce is spent twice: {nonce:?}");
            }
        }
        // Killed, and started again with nothing kept.
        let fresh = world.station(1, b"first");
        world.stations[1] = fresh;
        assert!(!world.stations[1].device.is_secured());
        world.until_agreed();
        world.run(8);
    }
    assert!(nonces.len() >= 16);
}

#[test]
fn changed_cak_loses_no_datagram() {
    let mut world = World::new();
    world.until_agreed();
    world.crosses(0, b"addresses are known");
    let lost = load(&mut world, 30, |second, world| {
        let (now, change) = (world.now, [3, 9].iter().position(|at| *at == second));
        if let Some(end) = change {
            world.stations[end].device.change_cak(now, cak(b"second")).expect("another name");
        }
    });
    assert_eq!(lost, 0);
    let device = &mut world.stations[0].device;
    let other = crate::Cak::new(&[0x18; 16], b"second").expect("a CAK");
    assert!(device.change_cak(world.now, other).is_err(), "a name with another key");
}

#[test]
fn other_cak_is_no_member() {
    let mut world = World::new();
    let stranger = world.station(1, b"another name");
    world.stations[1] = stranger;
    world.run(10);
    assert!(world.stations.iter().all(|station| !station.device.is_secured()));
    let status = world.stations[0].device.status(world.now);
    assert!(status.members.is_empty() && status.refused.named().any(|(_, count)| count > 0));
}

#[test]
fn silent_member_takes_the_key_with_it() {
    let mut world = World::new();
    world.until_agreed();
    world.wire.borrow_mut().cut = true;
    world.run(8);
    assert!(world.stations.iter().all(|station| !station.device.is_secured()));
    world.wire.borrow_mut().cut = false;
    world.until_agreed();
    world.crosses(0, b"again");
}

#[test]
fn full_driver_keeps_few_mkpdus() {
    let mut world = World::new();
    world.wire.borrow_mut().full = true;
    world.run(60);
    assert!(world.stations[0].device.counters().mkpdus_unsent > 10);
    let before = world.wire.borrow().seen.len();
    world.wire.borrow_mut().full = false;
    world.stations[0].device.poll(world.now);
    assert!(world.wire.borrow().seen.len() - before <= 9);
    world.until_agreed();
    world.crosses(0, b"nothing is lost for good");
}
