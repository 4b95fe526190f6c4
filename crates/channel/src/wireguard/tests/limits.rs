//! Each limit and timer, at its boundary.

use super::super::cookie::Marker;
use super::super::session::REKEY_AFTER_MESSAGES;
use super::*;

const TINY: u64 = 1;

/// The lengths of the messages due at a device. The messages are lost.
fn due(pair: &mut Pair, at: usize) -> Vec<usize> {
    pair.due(at).iter().map(Vec::len).collect()
}

const INITIATION: usize = LONGEST_HANDSHAKE;
const KEEPALIVE: usize = 32;

/// A connected pair without anything due.
fn resting() -> Pair {
    let mut pair = Pair::connected();
    pair.pass(0, b"x").unwrap();
    pair.pass(1, b"x").unwrap();
    assert_eq!((due(&mut pair, 0), due(&mut pair, 1)), (vec![], vec![]));
    pair
}

#[test]
fn unknown_peer_or_short_buffer_is_refused() {
    let mut pair = Pair::connected();
    let now = pair.world.now;
    let mut datagram = vec![0; HEADROOM + 32 + TAG_LEN];
    let before = *pair.devices[0].counters(PEER).unwrap();
    assert_eq!(pair.devices[0].seal(now, PeerId(1), &mut datagram, 20), Err(SendError::NoPeer));
    let short = datagram.len() - 1;
    assert_eq!(pair.devices[0].seal(now, PEER, &mut datagram[..short], 20), Err(SendError::NoRoom));
    assert_eq!(*pair.devices[0].counters(PEER).unwrap(), before);
    // Exactly enough, with the first number after the keepalive's.
    assert_eq!(pair.devices[0].seal(now, PEER, &mut datagram, 20), Ok((address(2), datagram.len())));
    assert_eq!(datagram[8..16], 1u64.to_le_bytes());
    let sent = PeerCounters { sent: 1, octets_sent: 64, ..before };
    assert_eq!(*pair.devices[0].counters(PEER).unwrap(), sent);
    assert_eq!((pair.devices[0].endpoint(PeerId(1)), pair.devices[0].counters(PeerId(1))), (None, None));
    assert!(!pair.devices[0].is_ready(now, PeerId(1)));
    assert_eq!(pair.devices[0].prepared(PeerId(1)), 0);
}

#[test]
fn session_ends_at_its_age() {
    // Sealed just in time; opened just in time, and too late.
    for (age, sends) in [(180 * SECOND - TINY, true), (180 * SECOND, false)] {
        let mut pair = resting();
        let early = pair.sealed(0, b"early").unwrap();
        let born = pair.devices[0].counters(PEER).unwrap().last_handshake;
        pair.world.now = born + age;
        assert_eq!(pair.devices[0].is_ready(pair.world.now, PEER), sends);
        assert_eq!(pair.bring(1, pair.at[0], &early).is_ok(), sends);
        assert_eq!(pair.sealed(0, b"late").err(), (!sends).then_some(SendError::NoSession));
    }
}

#[test]
fn worn_session_is_renewed() {
    for (from, sent, renews) in [
        (0, REKEY_AFTER_MESSAGES - 2, false),
        (0, REKEY_AFTER_MESSAGES - 1, true),
        (1, REKEY_AFTER_MESSAGES, true),
    ] {
        let mut pair = resting();
        pair.world.now += 5 * SECOND;
        pair.devices[from].peers[0].current.as_mut().unwrap().sent = sent;
        pair.sealed(from, b"x").unwrap();
        assert_eq!(due(&mut pair, from), if renews { vec![INITIATION] } else { vec![] }, "{from} {sent}");
    }
}

#[test]
fn silence_after_data_starts_a_handshake() {
    for (data, after, starts) in
        [(&b"x"[..], 15 * SECOND - TINY, false), (b"x", 15 * SECOND, true), (b"", 15 * SECOND, false)]
    {
        let mut pair = resting();
        pair.sealed(0, data).unwrap();
        pair.world.now += after;
        assert_eq!(due(&mut pair, 0).contains(&INITIATION), starts, "{after}");
    }
    // Any authentic message ends the wait, and the first packet counts.
    let mut pair = resting();
    pair.sealed(0, b"x").unwrap();
    pair.world.now += 14 * SECOND;
    pair.pass(1, b"").unwrap();
    pair.world.now += SECOND;
    assert!(!due(&mut pair, 0).contains(&INITIATION));
    let mut pair = resting();
    pair.sealed(0, b"x").unwrap();
    pair.world.now += 14 * SECOND;
    pair.sealed(0, b"x").unwrap();
    pair.world.now += SECOND;
    assert!(due(&mut pair, 0).contains(&INITIATION));
}

#[test]
fn keepalive_follows_received_data_only() {
    for (data, after, sent) in [
        (&b"x"[..], 10 * SECOND - TINY, vec![]),
        (b"x", 10 * SECOND, vec![KEEPALIVE]),
        (b"", 10 * SECOND, vec![]),
    ] {
        let mut pair = resting();
        pair.world.now += SECOND;
        let received = pair.devices[1].counters(PEER).unwrap().received;
        pair.devices[1].peers[0].keepalive_due = None;
        pair.pass(0, data).unwrap();
        assert_eq!(pair.devices[1].counters(PEER).unwrap().received, received + u64::from(!data.is_empty()));
        pair.world.now += after;
        pair.devices[1].peers[0].silence_due = None;
        assert_eq!(due(&mut pair, 1), sent, "{after}");
        assert_eq!(due(&mut pair, 1), [] as [usize; 0], "once");
    }
    // Data of our own takes its place.
    let mut pair = resting();
    pair.pass(0, b"x").unwrap();
    pair.sealed(1, b"y").unwrap();
    pair.world.now += 10 * SECOND;
    assert_eq!(due(&mut pair, 1), [] as [usize; 0]);
}

#[test]
fn initiations_keep_their_distance() {
    let mut pair = Pair::new(|_, _| ());
    let start = pair.world.now;
    let _ = pair.sealed(0, b"x");
    assert_eq!(due(&mut pair, 0), [INITIATION]);
    // Whatever is wanted, the next comes five seconds later, and less than a third of one more.
    let again = pair.devices[0].due().unwrap();
    assert!((start + 5 * SECOND..start + 5 * SECOND + SECOND / 3).contains(&again));
    let _ = pair.sealed(0, b"x");
    assert_eq!(pair.devices[0].due(), Some(again));
    pair.world.now = again - TINY;
    assert_eq!(due(&mut pair, 0), [] as [usize; 0]);
    pair.world.now = again;
    assert_eq!(due(&mut pair, 0), [INITIATION]);
    // After an answered one it is five seconds as well.
    let mut pair = Pair::connected();
    let since = pair.world.now;
    pair.world.now += SECOND;
    let now = pair.world.now;
    pair.devices[0].want_handshake(now, PEER);
    assert_eq!(pair.devices[0].due(), Some(since + 5 * SECOND));
    pair.devices[0].want_handshake(now, PeerId(9));
    // It is given up 90 seconds after the first.
    let mut pair = Pair::new(|_, _| ());
    let start = pair.world.now;
    let _ = pair.sealed(0, b"x");
    due(&mut pair, 0);
    for (after, given_up) in [(90 * SECOND - TINY, 0), (90 * SECOND, 1)] {
        pair.devices[0].peers[0].initiation_due = Some(start);
        pair.world.now = start + after;
        let sent = due(&mut pair, 0);
        assert_eq!(sent.len(), 1 - given_up, "{after}");
        assert_eq!(pair.devices[0].counters(PEER).unwrap().handshakes_given_up, given_up as u64);
    }
}

#[test]
fn close_initiations_are_a_flood() {
    let pause = SECOND / 50;
    for (later, expected) in [(pause - TINY, Err(Dropped::Flood)), (pause, Ok(()))] {
        let mut pair = Pair::new(|_, _| ());
        let now = pair.world.now;
        let initiation = |pair: &mut Pair| {
            pair.devices[0].peers[0].initiation_due = Some(0);
            pair.due(0).remove(0)
        };
        let first = initiation(&mut pair);
        assert!(pair.bring(1, pair.at[0], &first).unwrap().is_some());
        pair.world.now = now + later;
        let second = initiation(&mut pair);
        assert_eq!(pair.bring(1, pair.at[0], &second).map(drop), expected);
        assert_eq!(pair.devices[1].refusals().flood, u64::from(expected.is_err()));
        // A refused one sets no timestamp: it counts later.
        if expected.is_err() {
            pair.world.now = now + pause;
            assert!(pair.bring(1, pair.at[0], &second).is_ok());
        }
        assert_eq!(pair.bring(1, pair.at[0], &second), Err(Dropped::OldTimestamp));
        assert_eq!(pair.bring(1, pair.at[0], &first), Err(Dropped::OldTimestamp));
    }
}

#[test]
fn timestamps_rise_whatever_the_clock() {
    let mut pair = Pair::new(|_, _| ());
    let mut stamps = vec![];
    // The clock stands still, and an earlier timestamp had ended in 255.
    pair.devices[0].peers[0].said = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 2, 0xff, 0xff];
    for _ in 0..3 {
        pair.devices[0].peers[0].initiation_due = Some(0);
        due(&mut pair, 0);
        stamps.push(pair.devices[0].peers[0].said);
    }
    let expected = |last| [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 3, 0, last];
    assert_eq!(stamps, [expected(0), expected(1), expected(2)]);
}

#[test]
fn sessions_are_forgotten_in_three_minutes() {
    let mut pair = resting();
    let born = pair.devices[0].counters(PEER).unwrap().last_handshake;
    for (after, left) in [(180 * SECOND - TINY, 1), (180 * SECOND, 0)] {
        pair.world.now = born + after;
        pair.devices[0].peers[0].initiation_due = None;
        pair.devices[0].peers[0].silence_due = None;
        pair.devices[0].peers[0].keepalive_due = None;
        due(&mut pair, 0);
        assert_eq!(pair.devices[0].indices.len(), left, "{after}");
        assert_eq!(pair.devices[0].peers[0].current.is_some(), left == 1);
    }
}

#[test]
fn two_sessions_have_an_index() {
    let mut pair = resting();
    let oldest = pair.sealed(0, b"old").unwrap();
    for round in 0..3 {
        pair.world.now += 6 * SECOND;
        let now = pair.world.now;
        pair.devices[0].want_handshake(now, PEER);
        pair.settle();
        pair.pass(0, b"x").unwrap();
        pair.pass(1, b"x").unwrap();
        // The previous session is read still, the one before is not.
        let came = [(); 2].map(|()| pair.bring(1, pair.at[0], &oldest).map(drop));
        let expected = match round {
            0 => [Ok(()), Err(Dropped::Replayed)],
            _ => [Err(Dropped::UnknownIndex); 2],
        };
        assert_eq!(came, expected, "{round}");
        for device in &pair.devices {
            assert_eq!(device.indices.len(), 2, "{round}");
        }
    }
}

#[test]
fn unconfirmed_session_is_replaced() {
    let mut pair = resting();
    for _ in 0..3 {
        pair.world.now += 6 * SECOND;
        let now = pair.world.now;
        pair.devices[0].want_handshake(now, PEER);
        let initiation = pair.due(0).into_iter().find(|message| message.len() == INITIATION).unwrap();
        // The answer is lost.
        assert!(pair.bring(1, pair.at[0], &initiation).unwrap().is_some());
        assert_eq!(pair.devices[1].indices.len(), 2, "the present session and the last answer's");
    }
    // The responder still sends under the present one.
    pair.pass(1, b"x").unwrap();
}

#[test]
fn waiting_handshakes_are_bounded() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let initiation = pair.due(0).remove(0);
    pair.devices[1].defer_handshakes();
    let mut answer = [0; LONGEST_HANDSHAKE];
    for number in 0..34 {
        let (from, mut copy) = (pair.at[0], initiation.clone());
        let came = pair.devices[1].receive(&mut pair.world, from, &mut copy, &mut answer);
        assert_eq!(came, if number < 32 { Ok(Received::Pending) } else { Err(Dropped::Overload) });
    }
    assert_eq!(pair.devices[1].refusals().overload, 2);
    let jobs: Vec<_> = core::iter::from_fn(|| pair.devices[1].take_job()).collect();
    assert_eq!(jobs.len(), 32);
    // One of them counts; the others carry an old timestamp.
    let mut outcomes = jobs.into_iter().map(|job| {
        let done = job.run();
        pair.devices[1].finish(&mut pair.world, done, &mut answer)
    });
    let first = outcomes.next().unwrap();
    assert!(matches!(first, Ok(Finished::Answered(Outgoing { to, .. })) if to == address(1)), "{first:?}");
    assert!(outcomes.all(|outcome| outcome == Err(Dropped::OldTimestamp)));
    assert_eq!(pair.devices[1].refusals().old_timestamp, 31);
    // Without a queue there is none to take from.
    assert!(pair.devices[0].take_job().is_none());
}

#[test]
fn late_result_of_a_job_is_refused() {
    let mut pair = Pair::new(|_, _| ());
    pair.devices[0].defer_handshakes();
    let _ = pair.sealed(0, b"x");
    let mut out = [0; LONGEST_HANDSHAKE];
    assert_eq!(pair.devices[0].poll(&mut pair.world, &mut out), None, "it is a job");
    let done = pair.devices[0].take_job().unwrap().run();
    let begun = pair.devices[0].finish(&mut pair.world, done, &mut out);
    let to = address(2);
    assert_eq!(begun, Ok(Finished::Begun(Outgoing { peer: PEER, to, len: LONGEST_HANDSHAKE })));
    let response = pair.bring(1, pair.at[0], &out).unwrap().unwrap();
    // Two copies of the response are computed; one session comes of them.
    for _ in 0..2 {
        let came = pair.devices[0].receive(&mut pair.world, to, &mut response.clone(), &mut out);
        assert_eq!(came, Ok(Received::Pending));
    }
    let jobs = [pair.devices[0].take_job().unwrap(), pair.devices[0].take_job().unwrap()];
    let [first, second] = jobs.map(|job| {
        let done = job.run();
        pair.devices[0].finish(&mut pair.world, done, &mut out)
    });
    assert_eq!((first, second), (Ok(Finished::Session { peer: PEER }), Err(Dropped::UnknownIndex)));
    pair.settle_after_session();
    pair.pass(0, b"x").unwrap();
    // A response to a handshake that was begun anew.
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let first = pair.due(0).remove(0);
    let response = pair.bring(1, pair.at[0], &first).unwrap().unwrap();
    pair.devices[0].peers[0].initiation_due = Some(0);
    due(&mut pair, 0);
    assert_eq!(pair.bring(0, pair.at[1], &response), Err(Dropped::UnknownIndex));
    assert_eq!(pair.devices[0].indices.len(), 1, "the first index is free");
}

impl Pair {
    /// Brings the keepalive that confirms a session of device 0.
    fn settle_after_session(&mut self) {
        let datagrams = self.due(0);
        assert_eq!(datagrams.iter().map(Vec::len).collect::<Vec<_>>(), [KEEPALIVE]);
        self.bring(1, self.at[0], &datagrams[0]).unwrap();
    }
}

#[test]
fn calm_ends_at_fifty_a_second() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let initiation = pair.due(0).remove(0);
    let (start, mut answer) = (pair.world.now, [0; LONGEST_HANDSHAKE]);
    let (world, device) = (&mut pair.world, &mut pair.devices[1]);
    for (later, calm) in [(0, 50), (SECOND - TINY, 0), (SECOND, 50), (2 * SECOND - TINY, 0), (2 * SECOND, 50)]
    {
        world.now = start + later;
        for number in 0..60 {
            let admitted = device.admit(world, address(1), &initiation, 5, &mut answer);
            assert_eq!(admitted, if number < calm { Ok(()) } else { Err(Dropped::CookieWanted) });
        }
    }
    // What does not know our key does not count.
    world.now = start + 3 * SECOND;
    let mut wrong = initiation.clone();
    wrong[0] ^= 1;
    for _ in 0..60 {
        assert_eq!(device.admit(world, address(1), &wrong, 5, &mut answer), Err(Dropped::Mac1));
    }
    assert_eq!(device.admit(world, address(1), &initiation, 5, &mut answer), Ok(()));
}

#[test]
fn load_is_bounded_by_network_and_in_all() {
    let mut pair = Pair::new(|_, _| ());
    let _ = pair.sealed(0, b"x");
    let initiation = pair.due(0).remove(0);
    let mut answer = [0; LONGEST_HANDSHAKE];
    let (world, device) = (&mut pair.world, &mut pair.devices[1]);
    for _ in 0..CALM {
        device.admit(world, address(1), &initiation, 5, &mut answer).unwrap();
    }
    let (own, now) = (*device.public(), world.now);
    let mut admitted = 0;
    for network in 0..30u16 {
        let from = SocketAddr::from(([0x2001, 0xdb8, 0, network, 0, 0, 0, 1], 9));
        let mut marker = Marker::new(&own);
        let mut message = initiation.clone();
        marker.mark(&mut message, now);
        let reply = device.checker.reply(&message, 5, from, now, |out| out.fill(7)).unwrap();
        assert!(marker.take(&reply, now));
        marker.mark(&mut message, now);
        let passed = (0..25).filter(|_| device.admit(world, from, &message, 5, &mut answer).is_ok()).count();
        assert_eq!(passed, if network < 25 { 20 } else { 0 }, "{network}");
        admitted += passed;
        assert_eq!(device.admit(world, from, &message, 5, &mut answer), Err(Dropped::Overload));
    }
    assert_eq!(admitted, 500);
}

#[test]
fn packets_of_two_peers_are_told_apart() {
    // Device C has A and B as peers; their packets come in turns.
    let keys = [[0x11; 32], [0x22; 32], [0x33; 32]];
    let mut devices = keys.map(|key| Device::new(&key));
    let mut world = World { now: 1_000 * SECOND, wall: 0, random: 7 };
    for at in 0..2 {
        let mut settings = Settings::new(Device::public_of(&keys[2]));
        settings.endpoint = Some(address(3));
        devices[at].add_peer(&settings).unwrap();
        let public = *devices[at].public();
        devices[2].add_peer(&Settings::new(public)).unwrap();
    }
    assert_eq!(devices[2].peers(), 2);
    let (mut out, mut answer) = ([0; LONGEST_HANDSHAKE], [0; LONGEST_HANDSHAKE]);
    for at in 0..2 {
        let now = world.now;
        devices[at].want_handshake(now, PEER);
        devices[at].poll(&mut world, &mut out).unwrap();
        let from = address(at as u8 + 1);
        let Ok(Received::Answer { len }) = devices[2].receive(&mut world, from, &mut out, &mut answer) else {
            panic!("no answer")
        };
        let session = devices[at].receive(&mut world, address(3), &mut answer[..len], &mut out);
        assert_eq!(session, Ok(Received::Session { peer: PEER }));
    }
    for round in 0..4 {
        for at in [0, 1, 1, 0] {
            let mut datagram = [0; 64];
            let (_, len) = devices[at].seal(world.now, PEER, &mut datagram, 5).unwrap();
            let from = address(at as u8 + 1);
            let came = devices[2].receive(&mut world, from, &mut datagram[..len], &mut answer);
            let expected = Received::Packet { peer: PeerId(at), range: 16..32, roamed: false };
            assert_eq!(came, Ok(expected), "{round}");
            assert_eq!(devices[2].recent.map(|(_, at)| at), Some(at));
        }
    }
    for at in 0..2 {
        let counters = devices[2].counters(PeerId(at)).unwrap();
        assert_eq!((counters.received, counters.octets_received, counters.roamed), (8, 8 * 48, 0));
    }
    // Idle time goes first to the peer heard last, and then to the other.
    assert!(devices[2].idle(u32::MAX) > 0);
    assert_eq!((devices[2].prepared(PeerId(0)) > 0, devices[2].prepared(PeerId(1)) > 0), (true, false));
    while devices[2].idle(u32::MAX) > 0 {}
    assert!(devices[2].prepared(PeerId(1)) > 0);
}

#[test]
fn counter_beyond_the_end_is_refused() {
    let mut pair = resting();
    let mut datagram = pair.sealed(0, b"x").unwrap();
    // It is refused before its tag is computed.
    for (counter, expected) in [
        (u64::MAX, Dropped::CounterEnd),
        (u64::MAX - (1 << 13), Dropped::CounterEnd),
        (u64::MAX - (1 << 13) - 1, Dropped::ForgedData),
    ] {
        datagram[8..16].copy_from_slice(&counter.to_le_bytes());
        assert_eq!(pair.bring(1, pair.at[0], &datagram), Err(expected), "{counter:#x}");
    }
    assert_eq!(pair.bring(1, pair.at[0], &[9; 32]), Err(Dropped::Malformed));
    let refusals = pair.devices[1].refusals();
    assert_eq!((refusals.counter_end, refusals.forged_data, refusals.malformed), (2, 1, 1));
}

#[test]
fn key_log_holds_each_handshake_once() {
    let mut pair = Pair::new(|_, _| ());
    pair.devices[1].log_keys();
    let _ = pair.sealed(0, b"x");
    pair.settle();
    assert!(pair.devices[0].take_key_log().is_empty(), "it was not asked for");
    let log = pair.devices[1].take_key_log();
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].remote_static, *log[0].preshared), (*pair.devices[0].public(), [9; 32]));
    assert_eq!(*log[0].local_static, [0x22; 32]);
    assert!(pair.devices[1].take_key_log().is_empty());
}

#[test]
fn stray_cookies_are_counted() {
    let mut pair = Pair::new(|_, _| ());
    let cookie = |receiver: u32| CookieReply { receiver, nonce: [1; 24], cookie: [2; 32] }.emit();
    assert_eq!(pair.bring(0, pair.at[1], &cookie(5)), Err(Dropped::StrayCookie));
    let _ = pair.sealed(0, b"x");
    due(&mut pair, 0);
    let index = *pair.devices[0].indices.keys().next().unwrap();
    assert_eq!(pair.bring(0, pair.at[1], &cookie(index)), Err(Dropped::StrayCookie));
    assert_eq!(pair.devices[0].refusals().stray_cookie, 2);
}

#[test]
fn debug_and_errors_show_no_key() {
    let shown = std::format!("{:?}", Pair::connected().devices[0]);
    assert!(shown.starts_with("Device { peers: 1, ") && !shown.contains("17, 17"), "{shown}");
    let settings =
        Settings { endpoint: Some(address(2)), preshared: [0xb7; 32], ..Settings::new([0xa7; 32]) };
    assert_eq!(std::format!("{settings:?}"), "Settings { endpoint: Some(192.0.2.2:51820), .. }");
    let errors = [PeerError::Known, PeerError::Ourselves, PeerError::LowOrder];
    let texts = errors.map(|error| std::format!("{error}"));
    for (text, cause) in texts.iter().zip(["there is a peer", "our own", "key generator"]) {
        assert!(text.contains(cause), "{text}");
    }
    let errors = [SendError::NoPeer, SendError::NoSession, SendError::NoEndpoint, SendError::NoRoom];
    let texts = errors.map(|error| std::format!("{error}"));
    for (text, cause) in texts.iter().zip(["peer", "session", "address", "room"]) {
        assert!(text.contains(cause), "{text}");
    }
}
