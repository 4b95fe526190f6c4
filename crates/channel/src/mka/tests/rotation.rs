//! Key rotation under load.

use core::time::Duration;

use super::world::World;
use crate::macsec::CipherSuite;

#[test]
fn timed_rotation_loses_no_frame() {
    for suite in [CipherSuite::GcmAes128, CipherSuite::GcmAesXpn128] {
        let mut world = World::with(3, 20, |_, config| {
            config.suites = [suite].into();
            config.rekey_after = Some(Duration::from_secs(5));
        });
        world.start_all();
        world.until_agreed(5.0);
        world.run(1.0);
        let (lost, got) = (world.lost(), world.got());
        world.run(60.0);
        let status = world.stations[2].status(world.now);
        assert!(status.fresh_keys >= 11, "{}", status.fresh_keys);
        assert_eq!(world.lost(), lost);
        // Six directions, a hundred frames per second.
        assert_eq!(world.got() - got, 6 * 6000);
    }
}

#[test]
fn ending_numbers_bring_a_fresh_key() {
    for number in 0..2 {
        let mut world = World::new(2, 21);
        world.start_all();
        world.until_agreed(5.0);
        world.run(1.0);
        let (key, an, _) = world.key(0).unwrap();
        let end = CipherSuite::GcmAes128.packet_number_end();
        world.stations[number].up_mut().progress(an, end - end / 4 - 1, None);
        world.run(4.0);
        assert_eq!(world.key(0).unwrap().0, key, "not yet");
        let lost = world.lost();
        world.stations[number].up_mut().progress(an, end - end / 4, None);
        world.run(4.0);
        assert_ne!(world.key(0).unwrap().0, key);
        assert_eq!((world.lost(), world.key(0)), (lost, world.key(1)));
    }
}

#[test]
fn association_numbers_rotate() {
    let mut world = World::with(2, 22, |_, config| config.rekey_after = Some(Duration::from_secs(4)));
    world.start_all();
    world.until_agreed(5.0);
    let mut seen = std::vec::Vec::new();
    for _ in 0..9 {
        world.run(4.0);
        seen.extend(world.key(1).map(|(_, an, _)| an.number()));
    }
    seen.dedup();
    assert!(seen.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 4), "{seen:?}");
    assert!(seen.len() >= 8, "{seen:?}");
    let mut forgotten = |_| {
        world.step();
        world.stations[0].status(world.now).keys[1].is_none()
    };
    assert!((0..200).any(&mut forgotten), "within two seconds");
}

#[test]
fn slow_installation_delays_transmission() {
    let mut world = World::with(4, 23, |_, config| config.rekey_after = Some(Duration::from_secs(6)));
    world.slowness = 60;
    world.start_all();
    world.until_agreed(8.0);
    world.run(1.0);
    let lost = world.lost();
    world.run(60.0);
    assert_eq!(world.lost(), lost);
    assert!(world.stations[3].status(world.now).fresh_keys > 5);
}

#[test]
fn bounded_delay_discards_withheld_frames() {
    for bounded in [false, true] {
        let mut world = World::with(2, 24, |number, config| {
            // The key server decides for both.
            config.delay_protect = bounded && number == 0;
        });
        world.start_all();
        world.until_agreed(5.0);
        world.run(2.0);
        let lost = world.lost();
        // An attacker withholds station 1's frames for two seconds, and passes key agreement.
        world.withhold = Some(1);
        world.run(2.0);
        world.withhold = None;
        let (accepted, late) = world.deliver_withheld(0);
        if bounded {
            // The rest was sent after the last MKPDU, or shortly before it.
            assert!(late >= 120 && accepted <= 80, "{accepted} of {} frames", accepted + late);
        } else {
            assert_eq!((accepted, late), (200, 0));
        }
        world.run(3.0);
        assert_eq!(world.lost(), lost, "and nothing else is");
    }
}

#[test]
fn second_channel_numbers_are_announced() {
    let mut world = World::with(2, 25, |_, config| config.delay_protect = true);
    world.start_all();
    world.until_agreed(5.0);
    let (_, an, _) = world.key(0).unwrap();
    world.stations[0].up_mut().progress(an, 5, Some(700));
    world.run(2.0);
    assert_eq!(world.stations[1].second_pn, Some(700));
}
