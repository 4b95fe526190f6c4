//! Peers that come and go, and other preshared keys, while packets pass.

use super::*;

/// A stranger to both devices.
fn stranger() -> Settings {
    Settings { endpoint: Some(address(77)), ..Settings::new(Device::public_of(&[0x33; 32])) }
}

/// Two devices whose first has the stranger as peer 0, and the other as peer 1.
fn with_a_stranger() -> Pair {
    let mut pair = Pair::new(|_, _| ());
    let mut device = Device::new(&[0x11; 32]);
    device.add_peer(&stranger()).unwrap();
    let other = Settings { preshared: [9; 32], ..Settings::new(*pair.devices[1].public()) };
    let ready = ReadyPeer::new(&[0x11; 32], &Settings { endpoint: Some(address(2)), ..other }).unwrap();
    assert_eq!(device.join(ready), PeerId(1));
    pair.devices[0] = device;
    pair
}

/// Brings what is due, whatever becomes of it.
pub(super) fn exchange(pair: &mut Pair) {
    for at in 0..2 {
        for datagram in pair.due(at) {
            if let Ok(Some(answer)) = pair.bring(1 - at, pair.at[at], &datagram) {
                let _ = pair.bring(at, pair.at[1 - at], &answer);
            }
        }
    }
}

#[test]
fn session_outlives_another_peer() {
    let mut pair = with_a_stranger();
    let now = pair.world.now;
    pair.devices[0].want_handshake(now, PeerId(1));
    pair.settle();
    assert!(pair.devices[0].is_ready(now, PeerId(1)));
    let on_the_way = {
        let mut datagram = vec![0; 96];
        let (_, len) = pair.devices[1].seal(now, PEER, &mut datagram, 16).unwrap();
        datagram[..len].to_vec()
    };
    assert!(pair.devices[0].remove_peer(PeerId(0)).is_some());
    assert!(pair.devices[0].remove_peer(PeerId(1)).is_none(), "there is one peer");
    pair.bring(0, pair.at[1], &on_the_way).unwrap();
    pair.pass(0, b"there").unwrap();
    pair.pass(1, b"and back").unwrap();
    assert_eq!((pair.came[0].len(), pair.came[1].len()), (2, 1));
    // It comes back as the last one.
    let ready = ReadyPeer::new(&[0x11; 32], &stranger()).unwrap();
    assert_eq!(pair.devices[0].join(ready), PeerId(1));
    pair.pass(0, b"still there").unwrap();
}

#[test]
fn removed_peer_is_a_stranger() {
    let mut pair = Pair::connected();
    let packet = pair.sealed(1, b"on the way").unwrap();
    assert!(pair.devices[0].remove_peer(PEER).is_some());
    assert_eq!(pair.bring(0, pair.at[1], &packet), Err(Dropped::UnknownIndex));
    assert_eq!(pair.sealed(0, b"to whom"), Err(SendError::NoPeer));
    let now = pair.world.now;
    pair.devices[1].want_handshake(now, PEER);
    pair.world.now += 6 * SECOND;
    let initiation = pair.due(1).remove(0);
    assert_eq!(pair.bring(0, pair.at[1], &initiation), Err(Dropped::UnknownPeer));
    assert!(pair.devices[0].indices.is_empty());
}

#[test]
fn handshakes_under_way_find_their_peer() {
    let mut pair = with_a_stranger();
    let now = pair.world.now;
    pair.devices[0].defer_handshakes();
    (0..2).for_each(|peer| pair.devices[0].want_handshake(now, PeerId(peer)));
    assert!(pair.due(0).is_empty(), "another thread computes");
    let jobs: Vec<_> = core::iter::from_fn(|| pair.devices[0].take_job()).collect();
    let _ = pair.devices[0].remove_peer(PeerId(0));
    let mut out = [0; LONGEST_HANDSHAKE];
    let mut done = vec![];
    for job in jobs {
        done.push(pair.devices[0].finish(&mut pair.world, job.run(), &mut out));
    }
    assert!(matches!(done[0], Err(Dropped::UnknownPeer)), "it was removed");
    assert!(matches!(done[1], Ok(Finished::Begun(Outgoing { peer: PEER, .. }))));
}

#[test]
fn other_preshared_key_keeps_the_session() {
    let mut pair = Pair::connected();
    let now = pair.world.now;
    assert!(!pair.devices[0].set_preshared(now, PEER, &[9; 32]), "it is the same");
    assert!(pair.devices[0].set_preshared(now, PEER, &[8; 32]));
    for _ in 0..60 {
        pair.world.now += SECOND;
        exchange(&mut pair);
        (0..2).for_each(|from| pair.pass(from, b"on and on").unwrap());
    }
    assert_eq!(pair.devices[0].counters(PEER).unwrap().handshakes, 1, "none with two different keys");
    assert!(pair.devices[0].refusals().each().any(|(name, count)| name == "forged_handshake" && count > 0));
    let now = pair.world.now;
    assert!(pair.devices[1].set_preshared(now, PEER, &[8; 32]));
    for _ in 0..12 {
        pair.world.now += SECOND;
        exchange(&mut pair);
        (0..2).for_each(|from| pair.pass(from, b"on and on").unwrap());
    }
    assert!(pair.devices[0].counters(PEER).unwrap().handshakes > 1);
}

#[test]
fn one_sided_preshared_key_ends_the_session() {
    let mut pair = Pair::connected();
    let now = pair.world.now;
    pair.devices[0].set_preshared(now, PEER, &[8; 32]);
    let mut last = 0;
    for second in 1..300 {
        pair.world.now += SECOND;
        exchange(&mut pair);
        if pair.sealed(0, b"x").is_ok() {
            last = second;
        }
    }
    assert_eq!(last, 179, "three minutes after the handshake");
}

#[test]
fn keepalive_changes_at_once() {
    let mut pair = Pair::connected();
    let now = pair.world.now;
    assert_eq!(pair.devices[0].due(), None);
    pair.devices[0].set_keepalive(now, PEER, 25);
    assert_eq!(pair.devices[0].due(), Some(now + 25 * SECOND));
    pair.devices[0].set_keepalive(now, PEER, 0);
    assert_eq!(pair.devices[0].due(), None);
    let mut idle = Pair::new(|_, _| ());
    idle.devices[0].set_keepalive(now, PEER, 25);
    assert_eq!(idle.devices[0].due(), Some(now), "it is contacted at once");
}

#[test]
fn another_device_finishes_an_answer() {
    const LANE: u8 = 5;
    let mut pair = Pair::new(|at, settings| {
        settings.endpoint = (at == 1).then(|| address(1));
        settings.lane = (at == 0).then_some(LANE);
    });
    // Of two devices with the same keys, the first takes what comes without an index.
    let mut first = Device::new(&[0x11; 32]);
    let own = Settings { preshared: [9; 32], lane: Some(LANE), ..Settings::new(*pair.devices[1].public()) };
    first.add_peer(&stranger()).unwrap();
    first.add_peer(&own).unwrap();
    first.defer_handshakes();
    let now = pair.world.now;
    pair.devices[1].want_handshake(now, PEER);
    let mut initiation = pair.due(1).remove(0);
    let mut out = [0; LONGEST_HANDSHAKE];
    let came = first.receive(&mut pair.world, address(2), &mut initiation, &mut out);
    assert_eq!(came, Ok(Received::Pending));
    let done = first.take_job().unwrap().run();
    assert_eq!(first.peer_of(&done), Some(PeerId(1)));
    assert_eq!(pair.devices[0].peer_of(&done), Some(PEER));
    let Ok(Finished::Answered(answer)) = pair.devices[0].finish(&mut pair.world, done, &mut out) else {
        panic!("no answer");
    };
    assert_eq!(answer.to, address(2));
    // Responses have our index behind their type, data behind theirs.
    assert_eq!(out[4] & 7, LANE);
    pair.bring(1, address(1), &out[..answer.len]).unwrap();
    let data = pair.sealed(1, b"to the owner").unwrap();
    assert_eq!(data[4] & 7, LANE);
    assert_eq!(
        first.receive(&mut pair.world, address(2), &mut data.clone(), &mut out),
        Err(Dropped::UnknownIndex)
    );
    pair.bring(0, address(2), &data).unwrap();
    pair.pass(0, b"and back").unwrap();
    assert_eq!((pair.came[0].len(), pair.came[1].len()), (1, 1));
    // Initiations of its own have the same lane.
    pair.world.now += 10 * SECOND;
    let now = pair.world.now;
    pair.devices[0].want_handshake(now, PEER);
    assert_eq!(pair.due(0).remove(0)[4] & 7, LANE);
}
