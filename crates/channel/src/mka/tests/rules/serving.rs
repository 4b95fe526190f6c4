//! The key server: when a key is made, and when it is used.

use super::*;

#[test]
fn member_transmits_after_its_key_server() {
    let mut bench = Bench::new();
    bench.meet(1);
    bench.meet(2);
    let (us, wrapped) = (bench.us(), wrapped(&[7; 16]));
    bench.hear(&mkpdu(1, 2, &us, |repr| repr.distributed_sak = Some(sak(1, &wrapped)))).unwrap();
    let transmits = |bench: &Bench| bench.me.latest.as_ref().is_some_and(|held| held.transmits);
    // It is not installed yet.
    bench.hear(&mkpdu(1, 3, &us, |repr| repr.sak_use = in_use(key(1, 1), true, true))).unwrap();
    bench.tick(Duration::ZERO);
    assert!(!transmits(&bench));
    bench.me.receives(key(1, 2));
    assert!(!bench.me.latest.as_ref().unwrap().receives, "another key is installed");
    bench.hear(&mkpdu(1, 4, &us, |repr| repr.sak_use = in_use(key(1, 1), true, false))).unwrap();
    bench.me.receives(key(1, 1));
    // Another member's use is no sign, nor is that of another key.
    bench.hear(&mkpdu(2, 2, &us, |repr| repr.sak_use = in_use(key(1, 1), true, true))).unwrap();
    bench.hear(&mkpdu(1, 5, &us, |repr| repr.sak_use = in_use(key(1, 2), true, true))).unwrap();
    bench.tick(Duration::ZERO);
    assert!(!transmits(&bench));
    bench.hear(&mkpdu(1, 6, &us, |repr| repr.sak_use = in_use(key(1, 1), true, true))).unwrap();
    assert!(transmits(&bench), "at once, before the next tick");
    bench.tick(Duration::ZERO);
    let begun = bench.actions.iter().filter(|action| matches!(action, Action::Transmit(_))).count();
    assert_eq!(begun, 1);
}

#[test]
fn key_server_waits_for_all_receivers() {
    let mut bench = Bench::with(|config| config.priority = 0);
    bench.meet(1);
    bench.meet(2);
    bench.tick(SECOND);
    let made = bench.latest().unwrap();
    assert_eq!((made.server, made.number), (bench.me.member, 1));
    bench.me.receives(made);
    let transmits = |bench: &Bench| bench.me.latest.as_ref().is_some_and(|held| held.transmits);
    let us = bench.us();
    bench.hear(&mkpdu(1, 2, &us, |repr| repr.sak_use = in_use(made, true, false))).unwrap();
    bench.tick(Duration::ZERO);
    assert!(!transmits(&bench) && bench.me.to_distribute().is_some());
    let since = bench.now;
    let mut other = bench;
    // All receive:
    other.hear(&mkpdu(2, 2, &us, |repr| repr.sak_use = in_use(made, true, false))).unwrap();
    other.tick(Duration::ZERO);
    assert!(transmits(&other) && other.me.to_distribute().is_none());
    // or one stays silent about it for a life time.
    let mut bench = Bench::with(|config| config.priority = 0);
    bench.meet(1);
    bench.tick(SECOND);
    let made = bench.latest().unwrap();
    bench.me.receives(made);
    assert_eq!(bench.now, since);
    for (after, begun) in [(LIFE_TIME - TINY, false), (LIFE_TIME, true)] {
        bench.now = since + after;
        let us = bench.us();
        let message = bench.me.received as u32 + 1;
        bench.hear(&mkpdu(1, message, &us, |_| {})).unwrap();
        bench.tick(Duration::ZERO);
        assert_eq!(transmits(&bench), begun, "{after:?}");
    }
}

#[test]
fn first_key_waits_for_potential_members() {
    // A potential member is waited for, for 2.5 seconds after the first live one.
    let mut bench = Bench::with(|config| config.priority = 0);
    bench.hear(&mkpdu(2, 1, &[], |_| {})).unwrap();
    bench.meet(1);
    let since = bench.now;
    for (after, made) in [(2500 - 1, false), (2500, true)] {
        bench.now = since + Duration::from_millis(after);
        bench.tick(Duration::ZERO);
        assert_eq!(bench.latest().is_some(), made, "{after}");
    }
    // Without one the key waits only for members that arrive together.
    let mut bench = Bench::with(|config| config.priority = 0);
    bench.meet(1);
    let since = bench.now;
    for (after, made) in [(50 - 1, false), (50, true)] {
        bench.now = since + Duration::from_millis(after);
        bench.tick(Duration::ZERO);
        assert_eq!(bench.latest().is_some(), made, "{after}");
    }
    // A later key waits for no potential member.
    bench.hear(&mkpdu(4, 1, &[], |_| {})).unwrap();
    let first = bench.latest();
    bench.meet(3);
    bench.tick(Duration::from_millis(50));
    assert_ne!(bench.latest(), first);
}

/// A key server whose key is used by itself and peer 1.
pub(super) fn serving(change: impl FnOnce(&mut Config)) -> (Bench, KeyIdentifier) {
    let mut bench = Bench::with(|config| {
        config.priority = 0;
        change(config);
    });
    bench.meet(1);
    bench.tick(SECOND);
    let made = bench.latest().unwrap();
    bench.me.receives(made);
    let us = bench.us();
    bench.hear(&mkpdu(1, 2, &us, |repr| repr.sak_use = in_use(made, true, true))).unwrap();
    bench.tick(Duration::ZERO);
    assert!(bench.me.latest.as_ref().unwrap().transmits && bench.me.old.is_none());
    (bench, made)
}

#[test]
fn fresh_key_is_due_for_each_cause() {
    let end = CipherSuite::GcmAes128.packet_number_end();
    let near = end - end / 4;
    let announced = |pn: u64, key| {
        let known = KeyUse { key, an: AN[0], receives: true, transmits: true, lowest_pn: pn as u32 };
        Some(SakUse { keys: Some([known, KeyUse::default()]), ..SakUse::default() })
    };
    type Cause = (&'static str, bool, fn(&mut Bench, KeyIdentifier, u64));
    let causes: [Cause; 8] = [
        ("nothing", false, |_, _, _| {}),
        ("a new member", true, |bench, _, _| bench.meet(3)),
        ("our numbers", true, |bench, _, near| bench.me.progress(AN[0], near, None)),
        ("not yet our numbers", false, |bench, _, near| bench.me.progress(AN[0], near - 1, None)),
        ("a second channel's", true, |bench, _, near| bench.me.progress(AN[0], 1, Some(near))),
        ("another association's", false, |bench, _, near| bench.me.progress(AN[1], near, None)),
        ("another server's key", true, |bench, _, _| {
            bench.me.latest.as_mut().unwrap().key.server = member(9);
        }),
        ("a potential member", false, |bench, _, _| bench.hear(&mkpdu(3, 1, &[], |_| {})).unwrap()),
    ];
    for (cause, due, happens) in causes {
        let (mut bench, made) = serving(|_| {});
        happens(&mut bench, made, near);
        bench.tick(Duration::from_millis(60));
        assert_eq!(bench.me.fresh_keys, 1 + u64::from(due), "{cause}");
    }
    for (pn, due) in [(near - 1, false), (near, true)] {
        let (mut bench, made) = serving(|_| {});
        let us = bench.us();
        bench.hear(&mkpdu(1, 3, &us, |repr| repr.sak_use = announced(pn, made))).unwrap();
        bench.tick(Duration::from_millis(60));
        assert_eq!(bench.me.fresh_keys, 1 + u64::from(due), "a member's numbers: {pn}");
    }
}

#[test]
fn key_ages_as_configured() {
    let (mut bench, made) = serving(|config| config.rekey_after = Some(5 * SECOND));
    let since = bench.me.latest.as_ref().unwrap().since;
    assert_eq!(bench.me.rekey_at(), Some(since + 5 * SECOND));
    for (after, keys) in [(5 * SECOND - TINY, 1), (5 * SECOND, 2)] {
        bench.now = since + after;
        let us = bench.us();
        let message = bench.me.received as u32 + 1;
        bench.hear(&mkpdu(1, message, &us, |repr| repr.sak_use = in_use(made, true, true))).unwrap();
        bench.tick(Duration::ZERO);
        assert_eq!(bench.me.fresh_keys, keys);
    }
    // The number is another one, and the next key waits for this change.
    assert_eq!(bench.me.latest.as_ref().map(|held| (held.key.number, held.an)), Some((2, AN[1])));
    let (bench, _) = serving(|_| {});
    assert_eq!(bench.me.rekey_at(), None);
    let mut bench = Bench::with(|config| config.rekey_after = Some(SECOND));
    bench.meet(1);
    bench.key_of_1(2, 1);
    assert_eq!(bench.me.rekey_at(), None, "a member leaves it to the key server");
}

#[test]
fn unheeded_key_is_replaced() {
    // Peer 2 does not report the key a life time after we transmit with it.
    let mut bench = Bench::with(|config| config.priority = 0);
    bench.meet(1);
    bench.meet(2);
    bench.tick(SECOND);
    let (made, since) = (bench.latest().unwrap(), bench.now);
    bench.me.receives(made);
    let speak = |bench: &mut Bench, at: Duration| {
        bench.now = at;
        let us = bench.us();
        let message = bench.me.received as u32 + 1;
        bench.hear(&mkpdu(1, message, &us, |repr| repr.sak_use = in_use(made, true, true))).unwrap();
        bench.hear(&mkpdu(2, message, &us, |_| {})).unwrap();
        bench.tick(Duration::ZERO);
    };
    (1..=6).for_each(|second| speak(&mut bench, since + second * SECOND));
    assert!(bench.me.latest.as_ref().unwrap().transmits);
    let began = bench.me.latest.as_ref().unwrap().transmits_since;
    assert_eq!(began, since + LIFE_TIME);
    (7..12).for_each(|second| speak(&mut bench, since + second * SECOND));
    speak(&mut bench, began + LIFE_TIME - TINY);
    assert_eq!(bench.me.fresh_keys, 1);
    speak(&mut bench, began + LIFE_TIME);
    assert_eq!(bench.me.fresh_keys, 2);
}

#[test]
fn free_association_number_is_taken() {
    let (mut bench, _) = serving(|_| {});
    // Ours is 0; a member announces 1 and 2.
    let known = |an| KeyUse { key: key(1, 8), an, receives: true, transmits: false, lowest_pn: 1 };
    bench.me.peers.0[0].keys = [known(AN[1]), known(AN[2])];
    bench.me.number = 4;
    bench.meet(3);
    bench.tick(SECOND);
    assert_eq!(bench.me.latest.as_ref().map(|held| held.an), Some(AN[3]));
}

/// A live peer that does not want MACsec. It has a short SCI, and gets no key.
fn meet_unwilling(bench: &mut Bench, n: u8) {
    let us = bench.us();
    bench.hear(&mkpdu(n, 1, &us, |repr| repr.basic.macsec_desired = false)).unwrap();
}

#[test]
fn changed_short_scis_make_a_key_due() {
    let (xpn, plain) = (CipherSuite::GcmAesXpn128, CipherSuite::GcmAes128);
    let leave = |bench: &mut Bench| bench.me.peers.0.retain(|peer| peer.member != member(2));
    type Change = fn(&mut Bench, KeyIdentifier, fn(&mut Bench));
    let changes: [(&'static str, CipherSuite, bool, Change); 7] = [
        ("nothing", xpn, false, |_, _, _| {}),
        ("one more", xpn, true, |bench, _, _| meet_unwilling(bench, 3)),
        ("one less", xpn, true, |bench, _, leave| leave(bench)),
        ("another in its place", xpn, true, |bench, _, leave| {
            leave(bench);
            meet_unwilling(bench, 3);
        }),
        ("no short SCIs", plain, false, |bench, _, _| meet_unwilling(bench, 3)),
        ("all have the key", xpn, false, |bench, made, _| {
            let us = bench.us();
            bench.hear(&mkpdu(1, 2, &us, |repr| repr.sak_use = in_use(made, true, false))).unwrap();
            meet_unwilling(bench, 3);
        }),
        ("the key is in use", xpn, false, |bench, _, _| {
            bench.me.latest.as_mut().unwrap().transmits = true;
            meet_unwilling(bench, 3);
        }),
    ];
    for (change, suite, due, happens) in changes {
        let mut bench = Bench::with(|config| (config.priority, config.suites) = (0, [suite].into()));
        bench.meet(1);
        meet_unwilling(&mut bench, 2);
        bench.tick(SECOND);
        let made = bench.latest().unwrap();
        happens(&mut bench, made, leave);
        bench.tick(Duration::from_millis(60));
        assert_eq!(bench.me.fresh_keys, 1 + u64::from(due), "{change}");
    }
}

#[test]
fn silent_member_has_not_refused_a_key() {
    // It says nothing of the key, and is not heard a life time after it was made.
    let (mut bench, made) = serving(|_| {});
    let since = bench.me.latest.as_ref().unwrap().since;
    for (message, after, keeps, keys) in
        [(3, 3 * SECOND, true, 1), (4, LIFE_TIME, false, 1), (5, LIFE_TIME + TINY, false, 2)]
    {
        bench.now = since + after;
        let us = bench.us();
        let said = in_use(made, true, true).filter(|_| keeps);
        bench.hear(&mkpdu(1, message, &us, |repr| repr.sak_use = said)).unwrap();
        bench.tick(Duration::ZERO);
        assert_eq!(bench.me.fresh_keys, keys, "{after:?}");
    }
}

#[test]
fn member_without_a_list_gets_the_default() {
    use CipherSuite::{ChaCha20Poly1305, GcmAes128, GcmAes256};
    for (suites, expected) in [
        (&[GcmAes256, GcmAes128][..], Some(GcmAes128)),
        (&[GcmAes256], Some(GcmAes256)),
        (&[ChaCha20Poly1305], None),
        (&[GcmAes256, ChaCha20Poly1305], None),
    ] {
        let mut bench = Bench::with(|config| (config.priority, config.suites) = (0, suites.to_vec()));
        bench.meet(1);
        bench.tick(SECOND);
        assert_eq!(bench.me.latest.as_ref().map(|held| held.suite), expected, "{suites:?}");
        assert_eq!(bench.me.fault, expected.is_none().then_some(Fault::NoCommonSuite));
    }
}

#[test]
fn own_association_number_is_never_taken() {
    let (mut bench, _) = serving(|_| {});
    // Ours is 0; the others announce the rest.
    let known = |an| KeyUse { key: key(1, 8), an, receives: true, transmits: false, lowest_pn: 1 };
    bench.meet(3);
    bench.me.peers.0[0].keys = [known(AN[1]), known(AN[2])];
    bench.me.peers.0[1].keys = [known(AN[3]), KeyUse::default()];
    bench.tick(SECOND);
    assert_eq!((bench.me.fresh_keys, bench.me.latest.as_ref().map(|held| held.an)), (2, Some(AN[1])));
}
