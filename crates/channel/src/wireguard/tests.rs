mod identity;
mod limits;
mod peers;
mod timers;

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A manually advanced clock, and predictable random numbers.
struct World {
    now: u64,
    /// The offset of the time of day from the clock.
    wall: i64,
    random: u64,
}

impl Environment for World {
    fn now(&self) -> u64 {
        self.now
    }

    fn timestamp(&self) -> Timestamp {
        let wall = (self.now as i64 + self.wall) as u64;
        let mut out = [0; 12];
        out[..8].copy_from_slice(&((1 << 62) + wall / SECOND).to_be_bytes());
        out[8..].copy_from_slice(&((wall % SECOND) as u32).to_be_bytes());
        out
    }

    fn random(&mut self, out: &mut [u8]) {
        for octet in out {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *octet = (self.random >> 56) as u8;
        }
    }
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 51820))
}

/// Two devices that know each other. A knows B's address.
struct Pair {
    world: World,
    devices: [Device; 2],
    /// Their addresses.
    at: [SocketAddr; 2],
    /// Packets received by each device.
    came: [Vec<Vec<u8>>; 2],
}

const PEER: PeerId = PeerId(0);

impl Pair {
    fn new(change: impl Fn(usize, &mut Settings)) -> Self {
        let keys = [[0x11; 32], [0x22; 32]];
        let mut devices = keys.map(|key| Device::new(&key));
        for at in 0..2 {
            let mut settings = Settings::new(Device::public_of(&keys[1 - at]));
            settings.preshared = [9; 32];
            settings.endpoint = (at == 0).then(|| address(2));
            change(at, &mut settings);
            devices[at].add_peer(&settings).unwrap();
        }
        let world = World { now: 1_000 * SECOND, wall: 0, random: 7 };
        Self { world, devices, at: [address(1), address(2)], came: [vec![], vec![]] }
    }

    /// Messages due at a device.
    fn due(&mut self, at: usize) -> Vec<Vec<u8>> {
        let mut out = [0; LONGEST_HANDSHAKE];
        let mut all = vec![];
        while let Some(outgoing) = self.devices[at].poll(&mut self.world, &mut out) {
            all.push(out[..outgoing.len].to_vec());
        }
        all
    }

    fn sealed(&mut self, at: usize, packet: &[u8]) -> Result<Vec<u8>, SendError> {
        let mut datagram = vec![0; packet.len() + 64];
        datagram[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
        let (_, len) = self.devices[at].seal(self.world.now, PEER, &mut datagram, packet.len())?;
        datagram.truncate(len);
        Ok(datagram)
    }

    /// Delivers a datagram to a device, and returns its answer.
    fn bring(&mut self, to: usize, from: SocketAddr, datagram: &[u8]) -> Result<Option<Vec<u8>>, Dropped> {
        let (mut datagram, mut answer) = (datagram.to_vec(), [0; LONGEST_HANDSHAKE]);
        match self.devices[to].receive(&mut self.world, from, &mut datagram, &mut answer)? {
            Received::Packet { range, .. } => self.came[to].push(datagram[range].to_vec()),
            Received::Answer { len } => return Ok(Some(answer[..len].to_vec())),
            _ => {}
        }
        Ok(None)
    }

    /// Delivers all due messages until there are none.
    fn settle(&mut self) {
        for _ in 0..10 {
            let mut quiet = true;
            for at in 0..2 {
                for datagram in self.due(at) {
                    quiet = false;
                    let answer = self.bring(1 - at, self.at[at], &datagram).unwrap();
                    if let Some(answer) = answer {
                        self.bring(at, self.at[1 - at], &answer).unwrap();
                    }
                }
            }
            if quiet {
                return;
            }
        }
        panic!("they never come to rest");
    }

    fn connected() -> Self {
        let mut pair = Self::new(|_, _| ());
        let now = pair.world.now;
        pair.devices[0].want_handshake(now, PEER);
        pair.settle();
        pair
    }

    fn pass(&mut self, from: usize, packet: &[u8]) -> Result<(), Dropped> {
        let datagram = self.sealed(from, packet).unwrap();
        self.bring(1 - from, self.at[from], &datagram).map(drop)
    }
}

#[test]
fn first_packet_triggers_a_handshake() {
    let mut pair = Pair::new(|_, _| ());
    assert_eq!(pair.sealed(0, b"early"), Err(SendError::NoSession));
    assert_eq!(pair.sealed(1, b"where to"), Err(SendError::NoEndpoint));
    pair.settle();
    assert!(pair.devices.iter().all(|device| device.is_ready(pair.world.now, PEER)));
    pair.pass(0, b"sixteen octets..").unwrap();
    pair.pass(1, b"short").unwrap();
    assert_eq!(pair.came[1], [b"sixteen octets.."]);
    assert_eq!(pair.came[0], [b"short\0\0\0\0\0\0\0\0\0\0\0"], "padded with zeros");
}

#[test]
fn preparation_changes_no_octet() {
    let mut sealed = vec![];
    for budget in [0, 3, 10_000] {
        let mut pair = Pair::connected();
        let mut all = vec![];
        for round in 0..40usize {
            while budget > 0 && pair.devices[0].idle(budget) > 0 {}
            pair.devices[1].idle(budget);
            let packet = vec![round as u8; round * 37];
            if round > 0 {
                let datagram = pair.sealed(0, &packet).unwrap();
                pair.bring(1, pair.at[0], &datagram).unwrap();
                assert_eq!(&pair.came[1].last().unwrap()[..packet.len()], packet);
                all.push(datagram);
            }
        }
        sealed.push(all);
    }
    assert!(sealed.windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn lost_initiation_is_retried_then_given_up() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let mut times = vec![];
    for _ in 0..1_000 {
        if !pair.due(0).is_empty() {
            times.push(pair.world.now);
        }
        pair.world.now += SECOND / 10;
    }
    assert!((17..=19).contains(&times.len()), "{}", times.len());
    assert!(times.windows(2).all(|two| (5 * SECOND..6 * SECOND).contains(&(two[1] - two[0]))));
    assert_eq!(pair.devices[0].counters(PEER).unwrap().handshakes_given_up, 1);
    assert_eq!(pair.devices[0].due(), None);
    // The next packet starts anew.
    let _ = pair.sealed(0, b"x");
    pair.settle();
    pair.pass(0, b"x").unwrap();
}

#[test]
fn abandoned_handshake_is_forgotten() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    for _ in 0..20 {
        pair.world.now += 6 * SECOND;
        pair.due(0);
    }
    assert!(pair.devices[0].peers[0].begun.is_some(), "its answer may be slow");
    pair.world.now += 180 * SECOND;
    assert!(pair.due(0).is_empty());
    assert!(pair.devices[0].peers[0].begun.is_none() && pair.devices[0].indices.is_empty());
}

#[test]
fn initiator_renews_without_loss() {
    let mut pair = Pair::connected();
    let handshakes = |pair: &Pair| pair.devices[0].counters(PEER).unwrap().handshakes;
    for step in 0..6_000u32 {
        pair.world.now += SECOND / 10;
        for from in 0..2 {
            pair.pass(from, &step.to_be_bytes()).unwrap();
        }
        pair.settle();
    }
    assert_eq!(handshakes(&pair), 1 + 600 / 120);
    assert_eq!((pair.came[0].len(), pair.came[1].len()), (6_000, 6_000));
}

#[test]
fn unrenewed_session_ends_in_three_minutes() {
    let mut pair = Pair::connected();
    let datagram = pair.sealed(0, b"late").unwrap();
    pair.world.now += 180 * SECOND;
    assert_eq!(pair.bring(1, pair.at[0], &datagram), Err(Dropped::Expired));
    assert_eq!(pair.sealed(0, b"late"), Err(SendError::NoSession));
    pair.settle();
    pair.pass(0, b"in time").unwrap();
}

#[test]
fn replayed_and_changed_data_is_refused() {
    let mut pair = Pair::connected();
    let all: Vec<_> = (0..5).map(|i| pair.sealed(0, &[i; 20]).unwrap()).collect();
    for i in [3, 0, 4, 1, 2] {
        pair.bring(1, pair.at[0], &all[i]).unwrap();
    }
    for datagram in &all {
        assert_eq!(pair.bring(1, pair.at[0], datagram), Err(Dropped::Replayed));
    }
    let good = pair.sealed(0, &[9; 20]).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(pair.bring(1, pair.at[0], &bad).is_err(), "octet {at}");
    }
    pair.bring(1, pair.at[0], &good).unwrap();
    assert_eq!(pair.came[1].len(), 6);
}

#[test]
fn peer_without_address_waits_for_one() {
    let mut pair = Pair::new(|at, settings| {
        settings.endpoint = None;
        settings.keepalive_seconds = if at == 0 { 25 } else { 0 };
    });
    assert!(pair.due(0).is_empty());
    let now = pair.world.now;
    pair.devices[0].set_endpoint(now, PEER, address(2));
    assert_eq!(pair.devices[0].endpoint(PEER), Some(address(2)));
    assert_eq!(pair.due(0).len(), 1, "an initiation, because of the keepalive");
    pair.devices[0].set_endpoint(now, PEER, address(9));
    assert_eq!(pair.devices[0].endpoint(PEER), Some(address(9)));
}

#[test]
fn roaming_peer_is_followed_forger_is_not() {
    let mut pair = Pair::connected();
    let mut forged = pair.sealed(0, b"from elsewhere").unwrap();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert_eq!(pair.bring(1, address(66), &forged), Err(Dropped::ForgedData));
    assert_eq!(pair.devices[1].endpoint(PEER), Some(address(1)));
    let datagram = pair.sealed(0, b"from elsewhere").unwrap();
    pair.bring(1, address(77), &datagram).unwrap();
    assert_eq!(pair.devices[1].endpoint(PEER), Some(address(77)));
    assert_eq!(pair.devices[1].counters(PEER).unwrap().roamed, 1);
}

#[test]
fn side_path_moves_no_peer() {
    let (mut pair, mut answer) = (Pair::new(|_, _| ()), [0; LONGEST_HANDSHAKE]);
    let beside = |pair: &mut Pair, to: usize, datagram: &[u8], answer: &mut [u8; LONGEST_HANDSHAKE]| {
        pair.devices[to].receive_beside(&mut pair.world, address(66), &mut datagram.to_vec(), answer)
    };
    // A peer with an unknown address gets this one;
    let _ = pair.sealed(0, b"x");
    let initiation = pair.due(0).remove(0);
    let came = beside(&mut pair, 1, &initiation, &mut answer);
    assert!(matches!(came, Ok(Received::Answer { .. })), "{came:?}");
    assert_eq!(pair.devices[1].endpoint(PEER), Some(address(66)));
    // all others keep theirs.
    let response = answer[..antedate_wire::wireguard::RESPONSE_LEN].to_vec();
    assert_eq!(beside(&mut pair, 0, &response, &mut answer), Ok(Received::Session { peer: PEER }));
    assert_eq!(pair.devices[0].endpoint(PEER), Some(address(2)));
    pair.settle();
    pair.pass(0, b"here").unwrap();
    assert_eq!(pair.devices[1].endpoint(PEER), Some(address(1)));
    let datagram = pair.sealed(0, b"beside").unwrap();
    let came = beside(&mut pair, 1, &datagram, &mut answer);
    assert!(matches!(came, Ok(Received::Packet { roamed: false, .. })), "{came:?}");
    let now = pair.world.now + 10 * SECOND;
    pair.world.now = now;
    pair.devices[0].want_handshake(now, PEER);
    let again = pair.due(0).into_iter().find(|message| message.len() == LONGEST_HANDSHAKE).unwrap();
    assert!(matches!(beside(&mut pair, 1, &again, &mut answer), Ok(Received::Answer { .. })));
    assert_eq!(pair.devices[1].endpoint(PEER), Some(address(1)));
    assert_eq!(pair.devices[1].counters(PEER).unwrap().roamed, 1);
}

#[test]
fn initiation_survives_clock_going_back() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let first = pair.due(0).remove(0);
    assert!(pair.bring(1, pair.at[0], &first).unwrap().is_some());
    assert_eq!(pair.bring(1, pair.at[0], &first), Err(Dropped::OldTimestamp));
    pair.world.now += 6 * SECOND;
    pair.world.wall -= 3_600 * SECOND as i64;
    let second = pair.due(0).remove(0);
    let answer = pair.bring(1, pair.at[0], &second).unwrap().unwrap();
    assert_eq!(pair.bring(1, pair.at[0], &first), Err(Dropped::OldTimestamp));
    pair.bring(0, pair.at[1], &answer).unwrap();
    assert_eq!(pair.bring(0, pair.at[1], &answer), Err(Dropped::UnknownIndex), "an answer counts once too");
    pair.pass(0, b"x").unwrap();
}

#[test]
fn strangers_cause_no_computation() {
    let mut pair = Pair::new(|_, _| ());
    let mut stranger = Device::new(&[0x33; 32]);
    let mut settings = Settings::new(*pair.devices[1].public());
    settings.endpoint = Some(address(2));
    stranger.add_peer(&settings).unwrap();
    let now = pair.world.now;
    stranger.want_handshake(now, PEER);
    let mut out = [0; LONGEST_HANDSHAKE];
    stranger.poll(&mut pair.world, &mut out).unwrap();
    assert_eq!(pair.bring(1, address(3), &out), Err(Dropped::UnknownPeer));
    out[120] ^= 1;
    assert_eq!(pair.bring(1, address(3), &out), Err(Dropped::Mac1));
    for len in [0, 1, 3, 4, 31, 32, 92, 147, 149, 1500] {
        assert!(pair.bring(1, address(3), &vec![0xa5; len]).is_err());
        let mut typed = vec![0; len];
        if let Some(first) = typed.first_mut() {
            *first = 4;
        }
        assert!(pair.bring(1, address(3), &typed).is_err());
    }
    assert_eq!(pair.devices[1].counters(PEER).unwrap().handshakes, 0);
}

#[test]
fn cookie_admits_a_peer_under_load() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let initiation = pair.due(0).remove(0);
    // A flood from a stranger with the public key.
    for _ in 0..CALM {
        let _ = pair.bring(1, address(66), &initiation);
    }
    let (mut copy, mut answer) = (initiation.clone(), [0; LONGEST_HANDSHAKE]);
    let at = pair.at[0];
    let refused = pair.devices[1].receive(&mut pair.world, at, &mut copy, &mut answer);
    assert_eq!(refused, Err(Dropped::CookieWanted));
    pair.bring(0, pair.at[1], &answer[..COOKIE_LEN]).unwrap();
    assert_eq!(pair.bring(0, pair.at[1], &answer[..COOKIE_LEN]), Err(Dropped::StrayCookie));
    pair.world.now += 6 * SECOND;
    for _ in 0..CALM {
        let _ = pair.bring(1, address(66), &initiation);
    }
    let second = pair.due(0).remove(0);
    assert!(matches!(pair.bring(1, address(66), &second), Err(Dropped::CookieWanted)), "another address");
    let answer = pair.bring(1, pair.at[0], &second).unwrap().unwrap();
    pair.bring(0, pair.at[1], &answer).unwrap();
    pair.pass(0, b"x").unwrap();
    // Even a cookie does not permit unlimited handshakes, because the CPU is limited.
    let mut overloads = 0;
    for _ in 0..2 * MOST {
        overloads += u32::from(pair.bring(1, pair.at[0], &second) == Err(Dropped::Overload));
    }
    assert!(overloads >= MOST);
}

#[test]
fn cookie_flood_spares_other_networks() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let mut stranger = Device::new(&[0x33; 32]);
    let mut settings = Settings::new(*pair.devices[1].public());
    settings.endpoint = Some(address(2));
    stranger.add_peer(&settings).unwrap();
    let now = pair.world.now;
    stranger.want_handshake(now, PEER);
    let (mut message, mut unused) = ([0; LONGEST_HANDSHAKE], [0; LONGEST_HANDSHAKE]);
    stranger.poll(&mut pair.world, &mut message).unwrap();
    let initiation = pair.due(0).remove(0);
    // Both get a cookie,
    for _ in 0..CALM {
        let _ = pair.bring(1, address(66), &message);
    }
    let mut answer = [0; LONGEST_HANDSHAKE];
    let refused = pair.devices[1].receive(&mut pair.world, address(66), &mut message, &mut answer);
    assert_eq!(refused, Err(Dropped::CookieWanted));
    stranger.receive(&mut pair.world, address(2), &mut answer[..COOKIE_LEN], &mut unused).unwrap();
    let (mut copy, at) = (initiation.clone(), pair.at[0]);
    let refused = pair.devices[1].receive(&mut pair.world, at, &mut copy, &mut answer);
    assert_eq!(refused, Err(Dropped::CookieWanted));
    pair.bring(0, pair.at[1], &answer[..COOKIE_LEN]).unwrap();
    // and one of them uses it without limit.
    pair.world.now += 6 * SECOND;
    stranger.poll(&mut pair.world, &mut message).unwrap();
    let mut worked_out = 0;
    for _ in 0..CALM + 2 * MOST {
        worked_out += u32::from(pair.bring(1, address(66), &message) == Err(Dropped::UnknownPeer));
    }
    assert_eq!(worked_out, CALM + MOST_OF_ONE);
    let second = pair.due(0).remove(0);
    let answer = pair.bring(1, pair.at[0], &second).unwrap().unwrap();
    pair.bring(0, pair.at[1], &answer).unwrap();
    pair.pass(0, b"x").unwrap();
}

#[test]
fn ipv6_network_counts_as_one() {
    let ip = |text: &str| network(text.parse().unwrap());
    assert_eq!(ip("2001:db8:0:1::5"), ip("2001:db8:0:1:ffff::6"));
    assert_ne!(ip("2001:db8:0:1::5"), ip("2001:db8:0:2::5"));
    assert_ne!(ip("192.0.2.1"), ip("192.0.2.2"));
}

#[test]
fn flood_without_cookies_spares_peers() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let initiation = pair.due(0).remove(0);
    let flood = |pair: &mut Pair| {
        for _ in 0..CALM + MOST {
            let _ = pair.bring(1, address(66), &initiation);
        }
    };
    flood(&mut pair);
    let (mut copy, mut answer) = (initiation.clone(), [0; LONGEST_HANDSHAKE]);
    let at = pair.at[0];
    let refused = pair.devices[1].receive(&mut pair.world, at, &mut copy, &mut answer);
    assert_eq!(refused, Err(Dropped::CookieWanted));
    pair.bring(0, pair.at[1], &answer[..COOKIE_LEN]).unwrap();
    pair.world.now += 6 * SECOND;
    flood(&mut pair);
    let second = pair.due(0).remove(0);
    let answer = pair.bring(1, pair.at[0], &second).unwrap().unwrap();
    pair.bring(0, pair.at[1], &answer).unwrap();
    pair.pass(0, b"x").unwrap();
}

#[test]
fn restarted_peer_gets_a_new_handshake() {
    let mut pair = Pair::connected();
    pair.pass(0, b"before").unwrap();
    let mut fresh = Pair::new(|_, _| ());
    core::mem::swap(&mut pair.devices[1], &mut fresh.devices[1]);
    let datagram = pair.sealed(0, b"lost").unwrap();
    assert_eq!(pair.bring(1, pair.at[0], &datagram), Err(Dropped::UnknownIndex));
    pair.world.now += 15 * SECOND;
    pair.settle();
    pair.pass(0, b"after").unwrap();
    assert_eq!(pair.came[1].last().unwrap()[..5], *b"after");
}

#[test]
fn receiver_sends_keepalive_in_ten_seconds() {
    let mut pair = Pair::connected();
    pair.pass(0, b"data").unwrap();
    assert!(pair.due(1).is_empty());
    pair.world.now += 10 * SECOND;
    let datagrams = pair.due(1);
    assert_eq!(datagrams.iter().map(Vec::len).collect::<Vec<_>>(), [32]);
    pair.bring(0, pair.at[1], &datagrams[0]).unwrap();
    assert!(pair.came[0].is_empty());
    assert_eq!(pair.devices[0].counters(PEER).unwrap().keepalives_received, 1);
}

#[test]
fn persistent_keepalive_starts_unprompted() {
    let mut pair = Pair::new(|at, settings| settings.keepalive_seconds = if at == 0 { 25 } else { 0 });
    pair.settle();
    let mut sent = 0;
    for _ in 0..100 {
        pair.world.now += SECOND;
        for datagram in pair.due(0) {
            sent += u32::from(datagram.len() == 32);
            pair.bring(1, pair.at[0], &datagram).unwrap();
        }
        let _ = pair.due(1);
    }
    assert_eq!(sent, 4);
}

#[test]
fn both_may_initiate_at_once() {
    let mut pair = Pair::new(|at, settings| settings.endpoint = Some(address(2 - at as u8)));
    let _ = (pair.sealed(0, b"x"), pair.sealed(1, b"x"));
    let (a, b) = (pair.due(0).remove(0), pair.due(1).remove(0));
    let to_a = pair.bring(1, pair.at[0], &a).unwrap().unwrap();
    let to_b = pair.bring(0, pair.at[1], &b).unwrap().unwrap();
    pair.bring(0, pair.at[1], &to_a).unwrap();
    pair.bring(1, pair.at[0], &to_b).unwrap();
    pair.settle();
    for _ in 0..3 {
        pair.pass(0, b"there").unwrap();
        pair.pass(1, b"back").unwrap();
    }
}

#[test]
fn wrong_preshared_key_is_refused() {
    let mut pair = Pair::new(|at, settings| settings.preshared = [at as u8; 32]);
    let _ = pair.sealed(0, b"x");
    let initiation = pair.due(0).remove(0);
    let answer = pair.bring(1, pair.at[0], &initiation).unwrap().unwrap();
    assert_eq!(pair.bring(0, pair.at[1], &answer), Err(Dropped::ForgedHandshake));
}

#[test]
fn bad_peers_are_refused_when_added() {
    let mut device = Device::new(&[1; 32]);
    let own = *device.public();
    assert_eq!(device.add_peer(&Settings::new(own)), Err(PeerError::Ourselves));
    assert_eq!(device.add_peer(&Settings::new([0; 32])), Err(PeerError::LowOrder));
    let other = Device::public_of(&[2; 32]);
    assert_eq!(device.add_peer(&Settings::new(other)), Ok(PeerId(0)));
    assert_eq!(device.add_peer(&Settings::new(other)), Err(PeerError::Known));
    assert_eq!(device.peer(&other), Some(PeerId(0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any faults of the wire, packets are output as sent and at most once, and traffic
    /// continues in the end.
    #[test]
    fn nothing_is_output_twice_or_changed(faults in proptest::collection::vec((0..6u8, any::<u16>()), 1..200)) {
        let mut pair = Pair::connected();
        let mut kept: Vec<Vec<u8>> = vec![];
        for (number, (fault, place)) in faults.into_iter().enumerate() {
            pair.world.now += SECOND / 3;
            let Ok(datagram) = pair.sealed(0, &(number as u32).to_be_bytes()) else {
                pair.settle();
                continue;
            };
            kept.push(datagram.clone());
            let from = pair.at[0];
            match fault {
                0 => continue,
                1 => {
                    let mut bad = datagram.clone();
                    let at = usize::from(place) % bad.len();
                    bad[at] ^= 1 << (place % 8);
                    prop_assert!(pair.bring(1, from, &bad).is_err());
                }
                2 => {
                    let old = kept[usize::from(place) % kept.len()].clone();
                    let _ = pair.bring(1, from, &old);
                }
                3 => {
                    let cut = usize::from(place) % datagram.len();
                    prop_assert!(pair.bring(1, from, &datagram[..cut]).is_err());
                }
                _ => {
                    let _ = pair.bring(1, from, &datagram);
                }
            }
            pair.settle();
        }
        let mut numbers: Vec<_> = pair.came[1].iter().map(|packet| packet[..4].to_vec()).collect();
        let count = numbers.len();
        numbers.sort();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), count);
        pair.pass(0, b"the end").or_else(|_| { pair.settle(); pair.pass(0, b"the end") }).unwrap();
    }
}

#[test]
fn preparation_changes_no_packet() {
    let [mut plain, mut prepared] = [(); 2].map(|()| Pair::connected());
    for (round, len) in [60, 60, 1400, 60, 1500, 9000, 0, 61].into_iter().cycle().take(400).enumerate() {
        let from = round % 2;
        for device in &mut prepared.devices {
            device.idle(round as u32 % 40);
        }
        let packet: Vec<u8> = (0..len).map(|i| (i * 7 + round) as u8).collect();
        let sealed = [plain.sealed(from, &packet).unwrap(), prepared.sealed(from, &packet).unwrap()];
        assert_eq!(sealed[0], sealed[1], "round {round}");
        for (pair, sealed) in [&mut plain, &mut prepared].into_iter().zip(&sealed) {
            pair.bring(1 - from, pair.at[from], sealed).unwrap();
            if len > 0 {
                assert_eq!(pair.came[1 - from].last().unwrap()[..len], packet);
            }
        }
    }
}
