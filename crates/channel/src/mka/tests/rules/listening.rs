//! MKPDUs and keys that are taken, and those that are not.

use super::*;

#[test]
fn message_numbers_must_rise() {
    let mut bench = Bench::new();
    let us = bench.us();
    for (message, expected) in [
        (5, Ok(())),
        (5, Err(Dropped::Replayed)),
        (4, Err(Dropped::Replayed)),
        (6, Ok(())),
        (u32::MAX, Ok(())),
        (0, Err(Dropped::Replayed)),
    ] {
        assert_eq!(bench.hear(&mkpdu(1, message, &us, |_| {})), expected, "{message}");
    }
    assert_eq!((bench.me.received, bench.me.refused.of(Dropped::Replayed)), (3, 3));
}

#[test]
fn member_keeps_its_sci() {
    let mut bench = Bench::new();
    bench.meet(1);
    let us = bench.us();
    let moved = mkpdu(1, 2, &us, |repr| repr.basic.sci = sci(9));
    assert_eq!(bench.hear(&moved), Err(Dropped::OtherSci));
    let peer = bench.me.peers.get(member(1)).unwrap();
    assert_eq!((peer.sci, peer.message), (sci(1), 1));
    assert_eq!(bench.hear(&mkpdu(1, 2, &us, |_| {})), Ok(()));
}

#[test]
fn foreign_or_changed_mkpdu_is_dropped() {
    let mut bench = Bench::new();
    let us = bench.us();
    let other_name = mkpdu(1, 1, &us, |repr| repr.basic.ckn = b"worle");
    let other_algorithm = mkpdu(1, 1, &us, |repr| repr.basic.algorithm_agility += 1);
    let mut wrong_icv = mkpdu(1, 1, &us, |_| {});
    *wrong_icv.last_mut().unwrap() ^= 0x80;
    for (frame, expected) in [
        (&wrong_icv[..30], Dropped::Malformed),
        (&other_name, Dropped::OtherName),
        (&other_algorithm, Dropped::OtherAlgorithm),
        (&wrong_icv, Dropped::WrongIcv),
    ] {
        assert_eq!(bench.hear(frame), Err(expected));
        assert_eq!(bench.me.refused.of(expected), 1);
    }
    assert!(bench.me.peers.0.is_empty());
}

#[test]
fn only_the_elected_claimant_is_obeyed() {
    let wrapped = wrapped(&[7; 16]);
    for (of, claims, obeyed) in [(1, true, true), (1, false, false), (2, true, false)] {
        let mut bench = Bench::new();
        bench.meet(1);
        bench.meet(2);
        assert_eq!(bench.me.server, Server::Peer(member(1)));
        let us = bench.us();
        let frame = mkpdu(of, 2, &us, |repr| {
            repr.basic.key_server = claims;
            repr.distributed_sak = Some(sak(1, &wrapped));
        });
        assert_eq!(bench.hear(&frame), Ok(()));
        assert_eq!(bench.latest(), obeyed.then_some(key(1, 1)), "{of} {claims}");
    }
}

#[test]
fn key_numbers_start_at_one_and_rise() {
    let mut bench = Bench::new();
    bench.meet(1);
    let us = bench.us();
    let mut message = 1;
    for (number, latest) in [(0, None), (2, Some(2)), (2, Some(2)), (1, Some(2)), (0, Some(2)), (3, Some(3))]
    {
        message += 1;
        let wrapped = wrapped(&[message as u8; 16]);
        let frame = mkpdu(1, message, &us, |repr| repr.distributed_sak = Some(sak(number, &wrapped)));
        bench.hear(&frame).unwrap();
        assert_eq!(bench.latest(), latest.map(|number| key(1, number)), "{number}");
    }
    assert_eq!((bench.me.fresh_keys, bench.me.fault), (2, None));
    // They are remembered for each key server, up to a bound.
    assert_eq!(bench.me.numbers, [(member(1), 3)]);
    bench.me.numbers = (0..300).map(|_| (member(9), 1)).take(256).collect();
    let wrapped = wrapped(&[9; 16]);
    let frame = mkpdu(1, 9, &us, |repr| repr.distributed_sak = Some(sak(4, &wrapped)));
    bench.hear(&frame).unwrap();
    assert_eq!((bench.me.numbers.len(), bench.me.numbers.last()), (256, Some(&(member(1), 4))));
}

#[test]
fn unusable_keys_give_their_fault() {
    let (good, foreign) = (wrapped(&[7; 16]), {
        let mut changed = wrapped(&[7; 16]);
        changed[0] ^= 1;
        changed
    });
    let (next, long) = (wrapped(&[8; 16]), wrapped(&[7; 32]));
    let default = CipherSuite::GcmAes128.identifier();
    let other = CipherSuite::GcmAes256.identifier();
    let with = |wrapped, suite, offset| {
        DistributedSak::Sak(WrappedSak {
            an: AN[0],
            confidentiality_offset: offset,
            number: 1,
            suite,
            wrapped,
        })
    };
    let held = |receives, transmits| in_use(key(1, 1), receives, transmits);
    let cases = [
        (sak(1, &good), None, None),
        (with(&good, Some(default), 1), held(true, false), None),
        (sak(1, &good), held(true, true), Some(Fault::KeyInUse)),
        (sak(1, &good), held(false, true), Some(Fault::KeyInUse)),
        (sak(1, &foreign), None, Some(Fault::NotUnwrapped)),
        (with(&long, Some(default), 1), None, Some(Fault::OtherSuite(default))),
        (with(&long, Some(other), 1), None, Some(Fault::OtherSuite(other))),
        (with(&good, None, 0), None, Some(Fault::OtherConfidentiality)),
        (with(&good, None, 2), None, Some(Fault::OtherConfidentiality)),
        (DistributedSak::Plain, None, Some(Fault::Unprotected)),
    ];
    for (distributed, sak_use, fault) in cases {
        let mut bench = Bench::new();
        bench.meet(1);
        let us = bench.us();
        let frame = mkpdu(1, 2, &us, |repr| {
            (repr.distributed_sak, repr.sak_use) = (Some(distributed), sak_use);
        });
        assert_eq!(bench.hear(&frame), Ok(()));
        assert_eq!(bench.me.status(bench.now).fault, fault);
        assert_eq!(bench.latest().is_some(), fault.is_none(), "{fault:?}");
        // A good key ends the fault.
        let frame = mkpdu(1, 3, &us, |repr| repr.distributed_sak = Some(sak(2, &next)));
        bench.hear(&frame).unwrap();
        assert_eq!((bench.latest(), bench.me.fault), (Some(key(1, 2)), None));
    }
}

#[test]
fn key_made_without_us_is_not_taken() {
    let wrapped = wrapped(&[7; 16]);
    let mut bench = Bench::new();
    bench.meet(1);
    let us = bench.us();
    // Only the live list counts.
    let frame = mkpdu(1, 2, &[], |repr| {
        repr.potential = PeerList::new(&us).ok();
        repr.distributed_sak = Some(sak(1, &wrapped));
    });
    bench.hear(&frame).unwrap();
    assert_eq!(bench.latest(), None);
    // Nor is one taken while another has our SCI.
    bench.me.conflict_until = Some(bench.now + SECOND);
    let frame = mkpdu(1, 3, &us, |repr| repr.distributed_sak = Some(sak(1, &wrapped)));
    bench.hear(&frame).unwrap();
    assert_eq!(bench.latest(), None);
    bench.me.conflict_until = None;
    let frame = mkpdu(1, 4, &us, |repr| repr.distributed_sak = Some(sak(1, &wrapped)));
    bench.hear(&frame).unwrap();
    assert_eq!(bench.latest(), Some(key(1, 1)));
}

#[test]
fn recording_with_our_sci_stops_nothing() {
    for second in [false, true] {
        let mut bench = Bench::with(|config| config.second = Some(sci(50)));
        let theirs = if second { sci(50) } else { sci(0) };
        bench.meet(1);
        bench.key_of_1(2, 1);
        let other = PeerList::entry(member(7), 1).to_vec();
        let us = bench.us();
        let rival = |message, list: &[u8]| mkpdu(2, message, list, |repr| repr.basic.sci = theirs);
        assert_eq!(bench.hear(&rival(5, &other)), Err(Dropped::OwnSci));
        assert_eq!(bench.hear(&rival(5, &other)), Err(Dropped::Replayed));
        assert_eq!(bench.hear(&rival(4, &us)), Err(Dropped::Replayed), "a replay proves nothing");
        assert_eq!((bench.me.fault, bench.me.conflict_until), (None, None));
        assert!(!bench.me.peers.get(member(2)).unwrap().is_live());
        bench.tick(Duration::ZERO);
        assert_eq!(bench.latest(), Some(key(1, 1)));
        // A living one that answers us does.
        let since = bench.now;
        let us = bench.us();
        assert_eq!(bench.hear(&rival(6, &us)), Err(Dropped::OwnSci));
        assert_eq!(bench.me.conflict_until, Some(since + LIFE_TIME));
        bench.tick(Duration::ZERO);
        assert_eq!((bench.latest(), bench.me.fault), (None, Some(Fault::SameSci)));
        // It ends a life time later, and not before.
        for (after, fault) in [(LIFE_TIME - TINY, Some(Fault::SameSci)), (LIFE_TIME, None)] {
            bench.now = since + after;
            bench.tick(Duration::ZERO);
            assert_eq!(bench.me.conflict_until.is_some(), fault.is_some());
            assert_eq!(bench.me.fault, fault);
        }
    }
}

#[test]
fn own_names_are_told_apart() {
    let mut bench = Bench::new();
    let ours = bench.me.member;
    let mut own =
        |sci: Sci| bench.hear(&mkpdu(1, 9, &[], |repr| (repr.basic.member, repr.basic.sci) = (ours, sci)));
    assert_eq!(own(sci(0)), Err(Dropped::Own));
    assert!(!bench.me.renew);
    let mut own =
        |sci: Sci| bench.hear(&mkpdu(1, 9, &[], |repr| (repr.basic.member, repr.basic.sci) = (ours, sci)));
    assert_eq!(own(sci(1)), Err(Dropped::OwnMember));
    assert!(bench.me.renew);
    assert!(bench.me.peers.0.is_empty());
    bench.tick(SECOND);
    assert_eq!((bench.me.member, bench.me.message, bench.me.renew), (MemberIdentifier([0xdd; 12]), 1, false));
}

#[test]
fn restarted_peer_displaces_its_past() {
    let mut bench = Bench::new();
    bench.meet(1);
    let us = bench.us();
    // The same SCI under a new identifier.
    bench.hear(&mkpdu(8, 1, &[], |repr| repr.basic.sci = sci(1))).unwrap();
    assert_eq!(bench.me.peers.0.len(), 2, "unproven, it displaces nothing");
    bench.hear(&mkpdu(8, 2, &us, |repr| repr.basic.sci = sci(1))).unwrap();
    assert_eq!(bench.me.peers.0.iter().map(|peer| peer.member).collect::<Vec<_>>(), [member(8)]);
}

#[test]
fn best_eligible_participant_serves() {
    let me = Server::Own;
    let peer = |n| Server::Peer(member(n));
    // Our priority; peers with priority, the number of their SCI, and whether they want MACsec.
    type Peer = (u8, u8, usize, bool);
    let cases: [(u8, &[Peer], Server); 9] = [
        (200, &[], me),
        (255, &[], Server::Nobody),
        (255, &[(1, 255, 1, true)], Server::Nobody),
        (255, &[(1, 254, 1, true)], peer(1)),
        (200, &[(1, 200, 1, true)], me),
        (200, &[(1, 199, 1, true)], peer(1)),
        (200, &[(1, 10, 1, false)], me),
        (200, &[(1, 10, 5, true), (2, 10, 4, true)], peer(2)),
        (200, &[(1, 9, 5, true), (2, 10, 4, true)], peer(1)),
    ];
    for (number, (own, peers, expected)) in cases.into_iter().enumerate() {
        let mut bench = Bench::with(|config| config.priority = own);
        for (n, priority, of, able) in peers.iter().copied() {
            let us = bench.us();
            let frame = mkpdu(n, 1, &us, |repr| {
                (repr.basic.priority, repr.basic.sci, repr.basic.macsec_desired) = (priority, sci(of), able);
            });
            bench.hear(&frame).unwrap();
        }
        assert_eq!(bench.me.server, expected, "{number}");
        let nobody = expected == Server::Nobody;
        assert_eq!(bench.me.status(bench.now).fault, nobody.then_some(Fault::NoServer), "{number}");
    }
    // A peer without the capability does not want MACsec either.
    let mut bench = Bench::new();
    let us = bench.us();
    bench.hear(&mkpdu(1, 1, &us, |repr| repr.basic.capability = Capability::None)).unwrap();
    assert_eq!(bench.me.server, Server::Own);
    bench.hear(&mkpdu(1, 9, &us, |repr| repr.basic.capability = Capability::Integrity)).unwrap();
    assert_eq!(bench.me.server, peer(1));
}

#[test]
fn strangers_places_are_bounded() {
    let mut bench = Bench::with(|config| config.max_peers = 2);
    // Twice as many potential peers as there may be members.
    for n in 1..=4 {
        bench.now += TINY;
        assert_eq!(bench.hear(&mkpdu(n, 1, &[], |_| {})), Ok(()));
    }
    assert_eq!(bench.hear(&mkpdu(5, 1, &[], |_| {})), Err(Dropped::TooMany));
    // A proven one displaces the potential peer that is silent for longest.
    let us = bench.us();
    assert_eq!(bench.hear(&mkpdu(1, 2, &[], |_| {})), Ok(()));
    bench.now += TINY;
    for (n, left) in [(6, [1, 3, 4, 6]), (7, [3, 4, 6, 7])] {
        bench.hear(&mkpdu(3, u32::from(n), &[], |_| {})).unwrap();
        assert_eq!(bench.hear(&mkpdu(n, 1, &us, |_| {})), Ok(()));
        let mut numbers: Vec<u8> = bench.me.peers.0.iter().map(|peer| peer.member.0[0]).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, left);
    }
    // Two are live, and no more.
    assert_eq!(bench.hear(&mkpdu(8, 1, &us, |_| {})), Err(Dropped::TooMany));
    assert_eq!(bench.me.peers.live().count(), 2);
}

#[test]
fn faults_name_their_remedy() {
    use std::string::ToString;
    let text = Fault::OtherSuite(CipherSuite::GcmAes256.identifier()).to_string();
    assert!(text.ends_with(&CipherSuite::GcmAes256.to_string()), "{text}");
    let text = Fault::OtherSuite([0xab; 8]).to_string();
    assert!(text.ends_with("abababababababab"), "{text}");
    let all = [
        Fault::SameSci,
        Fault::OtherConfidentiality,
        Fault::Unprotected,
        Fault::NotUnwrapped,
        Fault::KeyInUse,
        Fault::OldKey,
        Fault::OtherShortScis,
        Fault::NoCommonSuite,
        Fault::NoServer,
        Fault::NotAPair,
    ];
    let texts: std::collections::BTreeSet<_> = all.iter().map(Fault::to_string).collect();
    assert!(texts.len() == all.len() && texts.iter().all(|text| text.len() > 20));
}

#[test]
fn sender_is_named_if_genuine() {
    let mut bench = Bench::new();
    let us = bench.us();
    let good = mkpdu(1, 1, &us, |_| {});
    bench.hear(&good).unwrap();
    assert_eq!(bench.hear(&good), Err(Dropped::Replayed));
    assert_eq!(bench.me.sender(&good), Some(sci(1)), "whatever it says");
    let mut wrong_icv = good.clone();
    *wrong_icv.last_mut().unwrap() ^= 0x80;
    for other in [
        mkpdu(1, 1, &us, |repr| repr.basic.ckn = b"worle"),
        mkpdu(1, 1, &us, |repr| repr.basic.algorithm_agility += 1),
        wrong_icv,
        good[..30].to_vec(),
    ] {
        assert_eq!(bench.me.sender(&other), None);
    }
}

#[test]
fn peer_on_a_new_way_is_answered_again() {
    let mut bench = Bench::with(|config| config.destinations = AUTOMATIC.to_vec());
    let steps = [(3, false, false), (3, false, true), (3, true, false), (0, false, false)];
    for (message, (place, answered, answer)) in (1..).zip(steps) {
        let frame = mkpdu(1, message, &[], |repr| repr.destination = AUTOMATIC[place]);
        bench.hear(&frame).unwrap();
        let peer = bench.me.peers.get(member(1)).unwrap();
        assert_eq!((peer.heard_by, peer.answered), (Some(place), answered), "{message}");
        if answer {
            bench.tick(SECOND);
        }
    }
}

#[test]
fn strangers_get_twice_the_places() {
    for places in [1, 3] {
        let mut bench = Bench::with(|config| config.max_peers = usize::from(places));
        let most = 2 * places;
        for n in 1..most {
            assert_eq!(bench.hear(&mkpdu(n, 1, &[], |_| {})), Ok(()));
        }
        // Nobody is displaced while there is a place.
        let us = bench.us();
        assert_eq!(bench.hear(&mkpdu(most, 1, &us, |_| {})), Ok(()));
        assert_eq!(bench.me.peers.0.len(), usize::from(most));
        assert_eq!(bench.hear(&mkpdu(most + 1, 1, &[], |_| {})), Err(Dropped::TooMany));
    }
}

#[test]
fn each_refusal_has_its_words() {
    use std::string::ToString;
    let names: std::collections::BTreeSet<_> = Dropped::ALL.iter().map(|why| why.name()).collect();
    let texts: std::collections::BTreeSet<_> = Dropped::ALL.iter().map(Dropped::to_string).collect();
    assert_eq!((names.len(), texts.len()), (Dropped::ALL.len(), Dropped::ALL.len()));
    for (why, cause) in [
        (Dropped::Malformed, "MKPDU"),
        (Dropped::WrongIcv, "ICV"),
        (Dropped::OwnSci, "SCI"),
        (Dropped::OwnMember, "member identifier"),
        (Dropped::TooMany, "too many"),
    ] {
        assert!(why.to_string().contains(cause), "{why}");
    }
}
