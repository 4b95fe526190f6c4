//! Counters, persistent keepalives, and which session is renewed or prepared.

use super::*;

const TINY: u64 = 1;

#[test]
fn each_kind_of_message_is_counted() {
    let pair = Pair::connected();
    let [a, b] = [0, 1].map(|at: usize| *pair.devices[at].counters(PEER).unwrap());
    assert_eq!((a.initiations_sent, a.handshakes, a.keepalives_sent), (1, 1, 1));
    assert_eq!((b.initiations_sent, b.handshakes, b.keepalives_received), (0, 1, 1));
}

#[test]
fn resolved_address_starts_a_persistent_peer() {
    for (seconds, starts) in [(25, true), (0, false)] {
        let mut pair =
            Pair::new(|_, settings| (settings.keepalive_seconds, settings.endpoint) = (seconds, None));
        let now = pair.world.now;
        pair.devices[0].set_endpoint(now, PEER, address(2));
        assert_eq!(pair.devices[0].due(), starts.then_some(now));
    }
    // Another address of a peer that had one is no reason.
    let mut pair = Pair::new(|at, settings| settings.keepalive_seconds = if at == 0 { 25 } else { 0 });
    pair.settle();
    let (now, before) = (pair.world.now, pair.devices[0].due());
    assert_eq!(before, Some(now + 25 * SECOND));
    pair.devices[0].set_endpoint(now, PEER, address(9));
    assert_eq!(pair.devices[0].due(), before);
    // Whatever is received, too, is a sign of life.
    pair.world.now += 10 * SECOND;
    pair.pass(1, b"").unwrap();
    assert_eq!(pair.devices[0].due(), Some(now + 35 * SECOND));
}

#[test]
fn persistent_peer_is_tried_again() {
    let mut pair = Pair::new(|_, settings| settings.keepalive_seconds = 25);
    while pair.devices[0].counters(PEER).unwrap().handshakes_given_up == 0 {
        pair.world.now = pair.world.now.max(pair.devices[0].due().unwrap());
        pair.due(0);
    }
    pair.world.now = pair.devices[0].due().unwrap();
    assert!(pair.due(0).is_empty(), "there is no session for a keepalive");
    assert_eq!(pair.devices[0].due(), Some(pair.world.now));
    assert_eq!(pair.due(0).len(), 1);
}

#[test]
fn received_data_renews_an_old_session() {
    for (age, renews) in [(165 * SECOND - TINY, false), (165 * SECOND, true)] {
        let mut pair = Pair::connected();
        let born = pair.devices[0].counters(PEER).unwrap().last_handshake;
        pair.world.now = born + age;
        pair.pass(1, b"x").unwrap();
        let lengths: Vec<_> = pair.due(0).iter().map(Vec::len).collect();
        assert_eq!(lengths.contains(&LONGEST_HANDSHAKE), renews, "{age}");
    }
}

#[test]
fn jitter_is_less_than_a_third_of_a_second() {
    let mut pair = Pair::new(|_, _| ());
    let now = pair.world.now;
    for (jitter, later) in [(0, 0), (1, 1), (SECOND / 3 - 1, SECOND / 3 - 1), (SECOND / 3, 0)] {
        let peer = &mut pair.devices[0].peers[0];
        peer.initiated(now, jitter);
        assert_eq!(peer.initiation_due, Some(now + 5 * SECOND + later), "{jitter}");
    }
}

#[test]
fn unconfirmed_session_is_prepared_too() {
    let mut pair = Pair::connected();
    while pair.devices[1].idle(u32::MAX) > 0 {}
    pair.world.now += 6 * SECOND;
    let now = pair.world.now;
    pair.devices[0].want_handshake(now, PEER);
    let initiation = pair.due(0).remove(0);
    assert!(pair.bring(1, pair.at[0], &initiation).unwrap().is_some());
    assert!(pair.devices[1].idle(u32::MAX) > 0);
}
