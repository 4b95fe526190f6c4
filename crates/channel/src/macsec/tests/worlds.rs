//! The channel in the two-party world.

use super::super::*;
use super::setup::*;
use crate::world::{Faults, World};
use proptest::prelude::*;

fn world(suite: CipherSuite, confidentiality: bool, window: u32, faults: Faults, seed: u64) -> World {
    let config = TransmitConfig { confidentiality, ..transmit_config(suite) };
    let receive_config = ReceiveConfig { replay_window: window, ..ReceiveConfig::new(suite) };
    World::new(transmit(config), receive(receive_config), faults, seed)
}

const EVERYTHING: Faults = Faults {
    lose: 50,
    duplicate: 50,
    reorder: 100,
    displacement: 20,
    corrupt: 100,
    truncate: 50,
    replay: 100,
    inject: 100,
};

#[test]
fn quiet_wire_delivers_all_in_order() {
    for suite in CipherSuite::ALL {
        let mut world = world(suite, true, 0, Faults::default(), 1);
        for i in 0..200 {
            world.transmit.idle(i % 40);
            world.receive.idle(i % 30);
            world.send(i as usize * 9).unwrap().unwrap();
            world.arrive(0, true).unwrap();
        }
        assert!(world.order.iter().copied().eq(0..200));
        assert_eq!(world.receive.counters().in_pkts_ok, 200);
        assert_eq!(world.receive.counters().discarded(), 0);
        assert_eq!(world.transmit.counters().out_pkts_encrypted, 200);
    }
}

#[test]
fn faults_are_counted_and_isolated() {
    let mut world = world(CipherSuite::GcmAes128, true, 1024, EVERYTHING, 7);
    for i in 0..3000 {
        world.transmit.idle(30);
        world.send(i % 200).unwrap().unwrap();
        world.receive.idle(30);
        world.arrive(30, true).unwrap();
    }
    world.arrive(0, true).unwrap();
    let wire = world.wire();
    assert!(
        [wire.lost, wire.duplicated, wire.reordered, wire.damaged, wire.replayed, wire.injected]
            .iter()
            .all(|n| *n > 50)
    );
    for counter in
        ["InPktsNoTag", "InPktsBadTag", "InPktsNoSCI", "InPktsNotUsingSA", "InPktsLate", "InPktsNotValid"]
    {
        assert!(world.discards.contains_key(counter), "{counter}");
    }
}

#[test]
fn key_change_loses_no_frame() {
    let suite = CipherSuite::GcmAes256;
    let faults = Faults { reorder: 300, displacement: 40, duplicate: 50, ..Faults::default() };
    let mut world = world(suite, true, 64, faults, 3);
    for round in 0..12u8 {
        let (an, key) = (An::ALL[usize::from(round + 1) % 4], sak(suite, round + 1));
        world.receive.install(SCI, an, &key, 1).unwrap();
        world.transmit.install(an, &key, 1, u64::MAX).unwrap();
        for _ in 0..50 {
            world.send(100).unwrap().unwrap();
            world.arrive(45, true).unwrap();
        }
        world.transmit.set_encoding_sa(an).unwrap();
        world.key_is(u64::from(round) + 1);
        world.transmit.remove(An::ALL[usize::from(round) % 4]);
    }
    world.arrive(0, true).unwrap();
    assert_eq!(world.order.len() as u64, world.sent());
}

#[test]
fn extended_number_crosses_32_bits() {
    let suite = CipherSuite::GcmAesXpn128;
    let config = transmit_config(suite);
    let start = (1 << 32) - 500;
    let mut transmit = Transmit::new(config).unwrap();
    transmit.install(A0, &sak(suite, 0), start, u64::MAX).unwrap();
    let mut receive = receive(ReceiveConfig { replay_window: 256, ..ReceiveConfig::new(suite) });
    receive.set_lowest_acceptable_pn(SCI, A0, start);
    let faults = Faults { reorder: 200, displacement: 30, replay: 100, ..Faults::default() };
    let mut world = World::new(transmit, receive, faults, 9);
    for _ in 0..1000 {
        world.send(60).unwrap().unwrap();
        world.arrive(40, true).unwrap();
    }
    world.arrive(0, true).unwrap();
    assert_eq!(world.order.len(), 1000);
    assert_eq!(world.transmit.encoding(), Some((A0, start + 1000)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn only_authentic_frames_come_out_once(
        suite in prop::sample::select(&CipherSuite::ALL[..]),
        confidentiality: bool,
        seed: u64,
        chances in prop::array::uniform7(0u32..250),
        displacement in 0usize..60,
        steps in 0u32..60,
    ) {
        let [lose, duplicate, reorder, corrupt, truncate, replay, inject] = chances;
        let faults = Faults { lose, duplicate, reorder, displacement, corrupt, truncate, replay, inject };
        let mut world = world(suite, confidentiality, 1024, faults, seed);
        for i in 0..250 {
            world.transmit.idle(steps);
            prop_assert!(matches!(world.send(i * 7 % 300), Ok(Ok(_))));
            world.receive.idle(steps);
            prop_assert_eq!(world.arrive(70, true), Ok(()));
        }
        prop_assert_eq!(world.arrive(0, true), Ok(()));
    }

    #[test]
    fn narrow_window_never_delivers_twice(seed: u64, window in 0u32..70, displacement in 0usize..60) {
        let faults = Faults { displacement, ..EVERYTHING };
        let mut world = world(CipherSuite::GcmAes128, true, window, faults, seed);
        for _ in 0..250 {
            prop_assert!(matches!(world.send(50), Ok(Ok(_))));
            prop_assert_eq!(world.arrive(70, false), Ok(()));
        }
        prop_assert_eq!(world.arrive(0, false), Ok(()));
    }
}
