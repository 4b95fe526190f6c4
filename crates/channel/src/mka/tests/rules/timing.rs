//! Life times, intervals and what is announced.

use super::serving::serving;
use super::*;

#[test]
fn message_numbers_end_with_the_identity() {
    let mut bench = Bench::new();
    // One tick may send to all destinations.
    let last = u32::MAX - 8;
    (bench.me.message, bench.me.number) = (last - 1, 7);
    bench.tick(HELLO_TIME);
    assert_eq!((bench.me.message, bench.me.member.0[0], bench.me.number), (last, 0xee, 7));
    assert_eq!(bench.me.sent_at.len(), 2);
    bench.tick(HELLO_TIME);
    assert_eq!((bench.me.message, bench.me.member.0[0], bench.me.number), (1, 0xdd, 0));
    let sent: Vec<_> = bench.me.sent_at.iter().map(|sent| (sent.message, sent.at)).collect();
    assert_eq!(sent, [(1, bench.now)], "the old numbers prove nothing any more");
}

#[test]
fn answer_must_be_recent() {
    // Our message 1 was sent at the start.
    for (later, live) in [(LIFE_TIME - TINY, true), (LIFE_TIME, false)] {
        let mut bench = Bench::new();
        let us = bench.us();
        bench.now += later;
        bench.hear(&mkpdu(1, 1, &us, |_| {})).unwrap();
        assert_eq!(bench.me.peers.get(member(1)).unwrap().is_live(), live, "{later:?}");
    }
    // A number before the recent ones, another's identifier, and no list prove nothing.
    let mut bench = Bench::new();
    let other = PeerList::entry(member(9), 1).to_vec();
    let ours = bench.me.member;
    for list in [PeerList::entry(ours, 0).to_vec(), other, Vec::new()] {
        bench.hear(&mkpdu(2, bench.me.received as u32 + 1, &list, |_| {})).unwrap();
        assert!(!bench.me.peers.get(member(2)).unwrap().is_live());
    }
    // The potential list does.
    let us = bench.us();
    bench.hear(&mkpdu(2, 9, &[], |repr| repr.potential = PeerList::new(&us).ok())).unwrap();
    assert!(bench.me.peers.get(member(2)).unwrap().is_live());
}

#[test]
fn silent_peer_lives_six_seconds() {
    let mut bench = Bench::new();
    bench.meet(1);
    bench.key_of_1(2, 1);
    let since = bench.now;
    bench.now = since + LIFE_TIME - TINY;
    bench.tick(Duration::ZERO);
    assert!(bench.me.peers.get(member(1)).unwrap().is_live());
    assert_eq!(bench.latest(), Some(key(1, 1)));
    bench.actions.clear();
    bench.tick(TINY);
    assert!(bench.me.peers.get(member(1)).is_none());
    assert_eq!((bench.latest(), bench.me.first_live), (None, None));
    let gone: Vec<_> = bench.actions.iter().filter(|action| !matches!(action, Action::Send(_))).collect();
    assert!(
        matches!(gone[..], [Action::Forget(of), Action::Remove(an)] if *of == sci(1) && *an == AN[1]),
        "{gone:?}"
    );
}

#[test]
fn peer_that_does_not_name_us_is_potential() {
    let mut bench = Bench::new();
    bench.meet(1);
    let since = bench.now;
    bench.now = since + LIFE_TIME - TINY;
    bench.hear(&mkpdu(1, 2, &[], |_| {})).unwrap();
    bench.tick(Duration::ZERO);
    assert!(bench.me.peers.get(member(1)).unwrap().is_live());
    bench.tick(TINY);
    assert!(!bench.me.peers.get(member(1)).unwrap().is_live());
    assert!(matches!(bench.actions.iter().find(|action| matches!(action, Action::Forget(_))),
        Some(Action::Forget(of)) if *of == sci(1)));
}

#[test]
fn old_key_goes_when_none_uses_it() {
    // Peer 1 transmits with the new key at once: the old one goes when its frames have arrived.
    // Otherwise it goes after the retire time.
    for (settles, stays) in [(true, Duration::from_millis(500)), (false, 3 * SECOND)] {
        let (mut bench, first) = serving(|config| config.rekey_after = Some(5 * SECOND));
        bench.now = bench.me.latest.as_ref().unwrap().since + 5 * SECOND;
        let us = bench.us();
        bench.hear(&mkpdu(1, 3, &us, |repr| repr.sak_use = in_use(first, true, true))).unwrap();
        bench.tick(Duration::ZERO);
        let made = bench.latest().unwrap();
        bench.me.receives(made);
        assert_eq!(bench.me.old.as_ref().map(|held| held.key), Some(first));
        let us = bench.us();
        let begun = bench.now;
        bench.hear(&mkpdu(1, 4, &us, |repr| repr.sak_use = in_use(made, true, settles))).unwrap();
        bench.tick(Duration::ZERO);
        let held = |of: &Option<Held>| of.as_ref().map(|held| held.transmits);
        assert_eq!((held(&bench.me.latest), held(&bench.me.old)), (Some(true), Some(false)));
        bench.now = begun + stays - TINY;
        bench.tick(Duration::ZERO);
        assert!(bench.me.old.is_some());
        bench.actions.clear();
        bench.tick(TINY);
        assert!(bench.me.old.is_none());
        assert!(bench.actions.iter().any(|action| matches!(action, Action::Remove(an) if *an == AN[0])));
    }
}

#[test]
fn mkpdus_come_at_their_intervals() {
    // Alone: every 200 ms for three seconds, and then every two seconds.
    let mut bench = Bench::new();
    assert_eq!(bench.sent(), 1);
    for (after, sent) in [(199, 0), (1, 1), (199, 0), (1, 1)] {
        bench.tick(Duration::from_millis(after));
        assert_eq!(bench.sent(), sent);
    }
    bench.now = 103 * SECOND;
    bench.me.last_sent = Some(bench.now);
    assert_eq!(bench.me.wake_at(bench.now), bench.now + HELLO_TIME);
    for (after, sent) in [(1999, 0), (1, 1)] {
        bench.tick(Duration::from_millis(after));
        assert_eq!(bench.sent(), sent);
    }
    // News comes after 50 ms.
    bench.me.soon = true;
    for (after, sent) in [(49, 0), (1, 1), (1999, 0), (1, 1)] {
        bench.tick(Duration::from_millis(after));
        assert_eq!((bench.sent(), bench.me.soon), (sent, sent == 0 && after == 49));
    }
    // With bounded delay it is half a second, as the key server decides.
    for (own, theirs, serves, pause) in [
        (true, false, true, 500),
        (false, true, true, 2000),
        (false, true, false, 500),
        (true, false, false, 2000),
    ] {
        let mut bench = Bench::with(|config| {
            config.priority = if serves { 0 } else { 200 };
            config.delay_protect = own;
        });
        let us = bench.us();
        let said = Some(SakUse { delay_protect: theirs, ..SakUse::default() });
        bench.hear(&mkpdu(1, 1, &us, |repr| repr.sak_use = said)).unwrap();
        (bench.me.soon, bench.me.last_sent) = (false, Some(bench.now));
        assert_eq!(bench.me.bounds_delay(), pause == 500);
        let busy = bench.now + Duration::from_millis(50);
        assert_eq!(bench.me.wake_at(bench.now), busy, "a key is to come");
        bench.me.first_live = None;
        let due = bench.now + Duration::from_millis(pause);
        assert_eq!(bench.me.wake_at(bench.now), due);
    }
}

#[test]
fn wake_up_meets_the_next_deadline() {
    let (mut bench, made) = serving(|config| config.rekey_after = Some(20 * SECOND));
    bench.tick(SECOND);
    let us = bench.us();
    bench.hear(&mkpdu(1, 3, &us, |repr| repr.sak_use = in_use(made, true, true))).unwrap();
    bench.tick(SECOND);
    let now = bench.now;
    (bench.me.soon, bench.me.last_sent) = (false, Some(now));
    assert_eq!(bench.me.wake_at(now), now + HELLO_TIME);
    bench.me.soon = true;
    assert_eq!(bench.me.wake_at(now), now + Duration::from_millis(50));
    bench.me.soon = false;
    bench.me.conflict_until = Some(now + SECOND);
    assert_eq!(bench.me.wake_at(now), now + SECOND);
    bench.me.conflict_until = None;
    bench.me.latest.as_mut().unwrap().since = now - 19 * SECOND;
    assert_eq!(bench.me.wake_at(now), now + SECOND, "the key's age");
    bench.me.latest.as_mut().unwrap().since = now;
    bench.me.peers.0[0].heard = now - 5 * SECOND;
    assert_eq!(bench.me.wake_at(now), now + SECOND, "a peer's silence");
    bench.me.peers.0[0].heard = now;
    bench.me.peers.0[0].proven = Some(now - 5 * SECOND);
    assert_eq!(bench.me.wake_at(now), now + SECOND, "a peer that does not name us");
    assert_eq!(bench.me.wake_at(now + 9 * SECOND), now + 9 * SECOND, "never in the past");
    bench.me.peers.0[0].proven = Some(now);
    assert_eq!(bench.me.wake_at(now), now + HELLO_TIME);
    bench.me.latest.as_mut().unwrap().transmits = false;
    assert_eq!(bench.me.wake_at(now), now + Duration::from_millis(50), "a key to change to");
    (bench.me.old, bench.me.first_live) = (bench.me.latest.take(), None);
    assert_eq!(bench.me.wake_at(now), now + Duration::from_millis(50), "a key to end");
}

#[test]
fn late_bound_needs_three_agreements() {
    // The key server's decision, the member's own, and a key with which we receive.
    for (server, own, receives, expected) in [
        (true, true, true, true),
        (false, true, true, false),
        (true, false, true, false),
        (true, true, false, false),
    ] {
        let mut bench = Bench::new();
        bench.meet(1);
        bench.meet(2);
        bench.key_of_1(2, 1);
        bench.me.latest.as_mut().unwrap().receives = receives;
        let us = bench.us();
        let bounded =
            |delay_protect| Some(SakUse { delay_protect, ..in_use(key(1, 1), true, true).unwrap() });
        bench.hear(&mkpdu(1, 3, &us, |repr| repr.sak_use = bounded(server))).unwrap();
        while bench.me.next_action().is_some() {}
        bench.hear(&mkpdu(2, 3, &us, |repr| repr.sak_use = bounded(own))).unwrap();
        let lowest: Vec<_> = core::iter::from_fn(|| bench.me.next_action()).collect();
        match &lowest[..] {
            [Action::Lowest { sci: of, an, lowest_pn: 1, second_pn: None }] if expected => {
                assert_eq!((*of, *an), (sci(2), AN[1]));
            }
            [] if !expected => {}
            other => panic!("{server} {own} {receives}: {other:?}"),
        }
    }
}

#[test]
fn announced_numbers_lag_behind() {
    use super::super::super::held::PacketNumbers;
    let under_way = Duration::from_millis(100);
    let mut numbers = PacketNumbers::new(Duration::ZERO);
    let lowest = |numbers: &PacketNumbers| (numbers.lowest.first, numbers.lowest.second);
    numbers.progress(50, Some(7));
    numbers.progress(40, None);
    assert_eq!((numbers.highest(), lowest(&numbers)), (50, (1, None)));
    numbers.settle(under_way - TINY, under_way);
    assert_eq!(lowest(&numbers), (1, None));
    numbers.settle(under_way, under_way);
    numbers.progress(60, Some(90));
    assert_eq!((numbers.highest(), lowest(&numbers)), (90, (1, None)));
    numbers.settle(2 * under_way, under_way);
    assert_eq!(lowest(&numbers), (50, Some(7)));
    numbers.settle(3 * under_way, under_way);
    assert_eq!(lowest(&numbers), (60, Some(90)));
}

/// The channels of each key to receive with.
fn received(bench: &mut Bench) -> Vec<Vec<Sci>> {
    let installed = core::mem::take(&mut bench.actions).into_iter().filter_map(|action| match action {
        Action::Receive(install) => Some(install.members.iter().map(|(sci, _)| *sci).collect()),
        _ => None,
    });
    installed.collect()
}

#[test]
fn member_that_returns_is_received_again() {
    let mut bench = Bench::new();
    bench.meet(1);
    bench.meet(2);
    let wrapped = wrapped(&[7; 16]);
    let both = [bench.us(), PeerList::entry(member(2), 1).to_vec()].concat();
    bench.hear(&mkpdu(1, 2, &both, |repr| repr.distributed_sak = Some(sak(1, &wrapped)))).unwrap();
    bench.tick(Duration::ZERO);
    assert_eq!(received(&mut bench), [[sci(2), sci(1)]], "in the order of the list");
    // Peer 2 falls silent; peer 1 does not.
    bench.now += LIFE_TIME;
    let us = bench.us();
    bench.me.sent_at.back_mut().unwrap().at = bench.now;
    bench.hear(&mkpdu(1, 3, &us, |_| {})).unwrap();
    bench.tick(Duration::ZERO);
    assert!(bench.actions.iter().any(|action| matches!(action, Action::Forget(of) if *of == sci(2))));
    assert_eq!(received(&mut bench), [] as [Vec<Sci>; 0]);
    let us = bench.us();
    bench.hear(&mkpdu(2, 3, &us, |_| {})).unwrap();
    bench.tick(Duration::ZERO);
    assert_eq!(received(&mut bench), [[sci(2)]]);
    bench.tick(SECOND);
    assert_eq!(received(&mut bench), [] as [Vec<Sci>; 0], "once");
}

#[test]
fn only_member_of_a_key_may_return() {
    let mut bench = Bench::new();
    bench.meet(1);
    bench.meet(2);
    bench.key_of_1(2, 1);
    bench.tick(Duration::ZERO);
    assert_eq!(received(&mut bench), [[sci(1)]]);
    // Peer 1, the key's only other user, falls silent; peer 2 does not.
    bench.now += LIFE_TIME;
    let us = bench.us();
    bench.me.sent_at.back_mut().unwrap().at = bench.now;
    bench.hear(&mkpdu(2, 2, &us, |_| {})).unwrap();
    bench.tick(Duration::ZERO);
    assert!(bench.actions.iter().any(|action| matches!(action, Action::Forget(of) if *of == sci(1))));
    assert_eq!(received(&mut bench), [] as [Vec<Sci>; 0]);
    let us = bench.us();
    bench.hear(&mkpdu(1, 3, &us, |_| {})).unwrap();
    bench.tick(Duration::ZERO);
    assert_eq!(received(&mut bench), [[sci(1)]]);
}

/// The last MKPDU sent.
fn last_sent(bench: &Bench) -> Repr<'_> {
    let mut sent = bench.actions.iter().rev();
    let frame = sent.find_map(|action| if let Action::Send(frame) = action { Some(frame) } else { None });
    Repr::parse(frame.unwrap()).unwrap().repr
}

#[test]
fn lists_have_as_many_as_may_be_members() {
    let mut bench = Bench::with(|config| config.max_peers = 3);
    bench.meet(1);
    bench.meet(2);
    (3..=6).for_each(|n| bench.hear(&mkpdu(n, 1, &[], |_| {})).unwrap());
    bench.tick(SECOND);
    let repr = last_sent(&bench);
    let count = |list: Option<PeerList<'_>>| list.map_or(0, |list| list.peers().count());
    assert_eq!((count(repr.live), count(repr.potential)), (2, 1));
    let status = bench.me.status(bench.now);
    assert_eq!((status.sent, status.received, status.members.len()), (2, 6, 6));
    let servers: Vec<Sci> =
        status.members.iter().filter(|member| member.key_server).map(|member| member.sci).collect();
    assert_eq!((servers, status.key_server), (vec![sci(1)], Some(sci(1))));
}

#[test]
fn long_numbers_are_announced_whole() {
    let (mut bench, _) = serving(|config| config.suites = [CipherSuite::GcmAesXpn128].into());
    bench.me.progress(AN[0], (6 << 32) + 9, None);
    for later in [100, 100, 2000] {
        bench.tick(Duration::from_millis(later));
    }
    let repr = last_sent(&bench);
    assert_eq!(repr.xpn.map(|xpn| (xpn.latest_lowest_pn, xpn.old_lowest_pn)), Some((6, 0)));
    assert_eq!(repr.sak_use.and_then(|sak| sak.keys).map(|keys| keys[0].lowest_pn), Some(9));
}

#[test]
fn channels_of_strangers_are_forgotten() {
    let mut bench = Bench::new();
    bench.meet(1);
    bench.me.channels = vec![sci(1), sci(2)];
    bench.actions.clear();
    bench.tick(TINY);
    let forgotten: Vec<_> =
        bench.actions.iter().filter(|action| matches!(action, Action::Forget(_))).collect();
    assert!(matches!(forgotten[..], [Action::Forget(gone)] if *gone == sci(2)), "{forgotten:?}");
    assert_eq!(bench.me.channels, [sci(1)]);
}
