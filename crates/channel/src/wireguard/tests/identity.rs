//! Static keys that change while packets pass.

use super::peers::exchange;
use super::*;

const OLD: [[u8; 32]; 2] = [[0x11; 32], [0x22; 32]];
const NEW: [u8; 32] = [0x33; 32];

/// Packets in both directions for so many seconds, and all messages that are due.
fn pass(pair: &mut Pair, seconds: u32) {
    for second in 0..seconds {
        pair.world.now += SECOND;
        exchange(pair);
        for from in 0..2 {
            pair.pass(from, b"on and on").unwrap_or_else(|why| panic!("{second} s, from {from}: {why:?}"));
        }
    }
}

/// Gives a device a private key, and its peer these public ones.
fn set(pair: &mut Pair, at: usize, private: &[u8; 32], public: [u8; 32], other: Option<[u8; 32]>) -> bool {
    let now = pair.world.now;
    let settings = Settings { other, ..Settings::new(public) };
    let mut ready = ReadyKeys::new(private, [&settings]).unwrap_or_else(|(_, error)| panic!("{error}"));
    pair.devices[at].set_keys(now, &mut ready)
}

fn handshakes(pair: &Pair, at: usize) -> u64 {
    pair.devices[at].counters(PEER).unwrap().handshakes
}

#[test]
fn key_changes_hours_apart_without_a_loss() {
    // The device that changes its key is the one that knows an address, then the other one.
    for changes in [0, 1] {
        let mut pair = Pair::connected();
        let [old, new] = [OLD[changes], NEW].map(|key| Device::public_of(&key));
        let stays = 1 - changes;
        assert!(!set(&mut pair, stays, &OLD[stays], old, Some(new)), "our own key is the same");
        pass(&mut pair, 600);
        assert_eq!(pair.devices[stays].public_of_peer(PEER), Some(&old));
        assert!(set(&mut pair, changes, &NEW, Device::public_of(&OLD[stays]), None));
        pass(&mut pair, 600);
        assert_eq!(pair.devices[stays].public_of_peer(PEER), Some(&new), "it learned the new one");
        assert_eq!(*pair.devices[changes].public(), new);
        let before = handshakes(&pair, stays);
        set(&mut pair, stays, &OLD[stays], new, None);
        pass(&mut pair, 600);
        assert!(handshakes(&pair, stays) >= before + 4, "sessions of the new key");
    }
}

#[test]
fn both_ends_change_at_once() {
    let mut pair = Pair::connected();
    let other = [0x44; 32];
    let [new, far] = [NEW, other].map(|key| Device::public_of(&key));
    let old = OLD.map(|key| Device::public_of(&key));
    set(&mut pair, 0, &NEW, old[1], Some(far));
    set(&mut pair, 1, &other, old[0], Some(new));
    pass(&mut pair, 600);
    assert_eq!(pair.devices[0].public_of_peer(PEER), Some(&far));
    assert_eq!(pair.devices[1].public_of_peer(PEER), Some(&new));
}

#[test]
fn initiation_alternates_until_an_answer() {
    let mut pair = Pair::new(|_, _| ());
    let [old, new] = [OLD[1], NEW].map(|key| Device::public_of(&key));
    // The other end has only the new key, cannot begin, and is asked under the old one first.
    set(&mut pair, 1, &NEW, Device::public_of(&OLD[0]), None);
    set(&mut pair, 0, &OLD[0], old, Some(new));
    let now = pair.world.now;
    pair.devices[0].want_handshake(now, PEER);
    exchange(&mut pair);
    assert!(!pair.devices[0].is_ready(now, PEER));
    pair.world.now += 6 * SECOND;
    exchange(&mut pair);
    assert!(pair.devices[0].is_ready(pair.world.now, PEER), "the second attempt was for the other key");
    pair.pass(0, b"through").unwrap();
}

#[test]
fn removed_key_is_refused() {
    let mut pair = Pair::connected();
    let new = Device::public_of(&NEW);
    set(&mut pair, 1, &OLD[1], new, None);
    pass(&mut pair, 170);
    pair.world.now += 20 * SECOND;
    for _ in 0..30 {
        pair.world.now += SECOND;
        exchange(&mut pair);
    }
    assert!(pair.sealed(0, b"x").is_err(), "the peer has the old key only");
    assert!(pair.devices[1].refusals().each().any(|(name, count)| name == "unknown_peer" && count > 0));
}

#[test]
fn keys_that_do_not_fit_change_nothing() {
    let mut pair = Pair::connected();
    let now = pair.world.now;
    let mut none = ReadyKeys::new(&NEW, []).unwrap_or_else(|(_, error)| panic!("{error}"));
    assert!(!pair.devices[0].set_keys(now, &mut none), "no key for the peer");
    assert_eq!(*pair.devices[0].public(), Device::public_of(&OLD[0]));
    let own = Settings::new(Device::public_of(&NEW));
    assert!(matches!(ReadyKeys::new(&NEW, [&own]), Err((0, PeerError::Ourselves))));
    let own = Settings { other: Some([0; 32]), ..Settings::new(Device::public_of(&OLD[1])) };
    assert!(matches!(ReadyKeys::new(&NEW, [&own]), Err((0, PeerError::LowOrder))));
}
