//! The keys that a member takes up, and their numbers.

use super::*;

#[test]
fn xpn_key_waits_for_all_listed_members() {
    let suite = CipherSuite::GcmAesXpn128;
    let mut bench = Bench::with(|config| config.suites = [suite].into());
    bench.meet(1);
    let wrapped = wrapped(&[7; 16]);
    let listed = [bench.us(), PeerList::entry(member(2), 1).to_vec()].concat();
    let offer = |message| {
        mkpdu(1, message, &listed, |repr| {
            repr.distributed_sak = Some(DistributedSak::Sak(WrappedSak {
                an: AN[0],
                confidentiality_offset: 1,
                number: 1,
                suite: Some(suite.identifier()),
                wrapped: &wrapped,
            }));
        })
    };
    bench.hear(&offer(2)).unwrap();
    // Without the SCI of peer 2 our short SCI would be that of another member.
    assert_eq!((bench.latest(), bench.me.fault), (None, None));
    bench.hear(&mkpdu(2, 1, &[], |_| {})).unwrap();
    bench.hear(&offer(3)).unwrap();
    let held = bench.me.latest.as_ref().unwrap();
    assert_eq!((held.key, held.ssci), (key(1, 1), Some(3)));
    assert_eq!(held.members, [(sci(2), Some(1)), (sci(1), Some(2))]);
}

#[test]
fn each_key_has_its_lowest_number() {
    let mut bench = Bench::new();
    let known = |number, lowest_pn| KeyUse {
        key: key(1, number),
        an: AN[number as usize],
        receives: true,
        transmits: true,
        lowest_pn,
    };
    for (message, old, expected) in
        [(1, known(1, 9), Some(((4 << 32) + 9, None))), (2, KeyUse::default(), None)]
    {
        let us = bench.us();
        let frame = mkpdu(1, message, &us, |repr| {
            repr.sak_use = Some(SakUse { keys: Some([known(2, 5), old]), ..SakUse::default() });
            repr.xpn = Some(Xpn { suspension_time: 0, latest_lowest_pn: 3, old_lowest_pn: 4 });
        });
        bench.hear(&frame).unwrap();
        let peer = bench.me.peers.get(member(1)).unwrap();
        assert_eq!(peer.lowest_pns(key(1, 2)), Some(((3 << 32) + 5, None)));
        assert_eq!(peer.lowest_pns(key(1, 1)), expected);
        assert_eq!(peer.lowest_pns(KeyIdentifier::default()), None, "no key has no number");
    }
}

#[test]
fn useful_keys_are_kept() {
    // Keys 1 and 2 of three, whether we transmit with each when the next one comes; the one that is
    // kept beside key 3, and the one that is not.
    for (transmits, kept, gone) in
        [([false, false], 1, 2), ([true, false], 1, 2), ([true, true], 2, 1), ([false, true], 2, 1)]
    {
        let mut bench = Bench::new();
        bench.meet(1);
        for number in 1..=3 {
            bench.key_of_1(number + 1, number);
            if let Some(transmits) = transmits.get(number as usize - 1) {
                bench.me.latest.as_mut().unwrap().transmits = *transmits;
            }
        }
        let old = bench.me.old.as_ref().map(|held| held.key);
        assert_eq!((bench.latest(), old), (Some(key(1, 3)), Some(key(1, kept))), "{transmits:?}");
        let removed: Vec<An> = core::iter::from_fn(|| bench.me.next_action())
            .filter_map(|action| if let Action::Remove(an) = action { Some(an) } else { None })
            .collect();
        assert_eq!(removed, [AN[gone]], "{transmits:?}");
    }
}

#[test]
fn occupied_numbers_wait_for_their_channels() {
    use super::super::super::participant::Occupied;
    // The number of another participant's key, and the channels whose partners may take it.
    let cases: [(An, Option<&[Sci]>, bool); 6] = [
        (AN[1], None, false),
        (AN[2], None, true),
        (AN[1], Some(&[]), true),
        (AN[1], Some(&[sci(1)]), true),
        (AN[1], Some(&[sci(1), sci(2)]), false),
        (AN[2], Some(&[sci(2)]), true),
    ];
    for (an, yields, is_taken) in cases {
        let mut bench = Bench::new();
        bench.meet(1);
        bench.me.occupied.push(Occupied { an, yields: yields.map(<[Sci]>::to_vec) });
        let (us, wrapped) = (bench.us(), wrapped(&[7; 16]));
        let frame = mkpdu(1, 2, &us, |repr| {
            repr.distributed_sak = Some(DistributedSak::Sak(WrappedSak {
                an: AN[1],
                confidentiality_offset: 1,
                number: 1,
                suite: None,
                wrapped: &wrapped,
            }));
        });
        bench.hear(&frame).unwrap();
        assert_eq!(bench.latest().is_some(), is_taken, "{an:?} {yields:?}");
    }
}

/// A member with the CAK becomes key server, and distributes a key of the former one.
#[test]
fn key_is_taken_up_once_by_any_name() {
    let mut bench = Bench::new();
    bench.meet(9);
    let (us, old, fresh) = (bench.us(), wrapped(&[7; 16]), wrapped(&[8; 16]));
    bench.hear(&mkpdu(9, 2, &us, |repr| repr.distributed_sak = Some(sak(1, &old)))).unwrap();
    assert_eq!(bench.latest(), Some(key(9, 1)));
    bench.meet(1);
    for (message, number, an) in [(2, 1, 0), (3, 2, 1), (4, 9, 3)] {
        let us = bench.us();
        let offer = mkpdu(1, message, &us, |repr| {
            repr.distributed_sak = Some(DistributedSak::Sak(WrappedSak {
                an: AN[an],
                confidentiality_offset: 1,
                number,
                suite: None,
                wrapped: &old,
            }));
        });
        bench.hear(&offer).unwrap();
        assert_eq!((bench.latest(), bench.me.fault), (Some(key(9, 1)), Some(Fault::OldKey)));
    }
    let us = bench.us();
    bench.hear(&mkpdu(1, 5, &us, |repr| repr.distributed_sak = Some(sak(10, &fresh)))).unwrap();
    assert_eq!((bench.latest(), bench.me.fault), (Some(key(1, 10)), None));
    // Its number is repeated with another key.
    let other = wrapped(&[9; 16]);
    bench.hear(&mkpdu(1, 6, &us, |repr| repr.distributed_sak = Some(sak(10, &other)))).unwrap();
    assert_eq!(bench.latest(), Some(key(1, 10)));
    assert_eq!(bench.me.latest.as_ref().unwrap().secret.as_bytes(), [8; 16]);
}
