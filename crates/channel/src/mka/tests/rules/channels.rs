//! Several transmit channels of one participant: what it announces and hears of them.

use antedate_wire::mka::{Announcement, Channels, Features};

use super::*;
use crate::macsec::{CHANNELS_MAX, channel_sci};

/// The announcement of a gateway that takes so many channels, and has further ones with these
/// numbers.
fn announced<'a>(takes: u8, numbers: &[[u64; 2]], room: &'a mut [u8]) -> Option<Announcement<'a>> {
    let octets = numbers.iter().flat_map(|numbers| Channels::entry(*numbers)).collect::<Vec<_>>();
    let suite = CipherSuite::GcmAes128.identifier();
    let features = Features::new(false, [false; 4], &suite).unwrap();
    let channels = Channels::new(takes, &octets).unwrap();
    Some(Announcement::new(&features, None, Some(&channels), room).unwrap())
}

/// Our last MKPDU: what it says of channels taken, and the numbers of further ones.
fn said(bench: &mut Bench) -> Option<(u8, Vec<[u64; 2]>)> {
    bench.me.soon = true;
    bench.tick(Duration::from_millis(60));
    let sent = bench.actions.iter().rev().find_map(|action| match action {
        Action::Send(frame) => Some(frame.clone()),
        _ => None,
    });
    let frame = sent.unwrap();
    let announcement = Repr::parse(&frame).unwrap().repr.announcement.unwrap();
    announcement.channels().map(|channels| (channels.takes, channels.further().collect()))
}

#[test]
fn channels_are_announced_with_their_numbers() {
    assert_eq!(said(&mut Bench::new()), None, "one channel needs no word");
    let mut bench = Bench::with(|config| config.takes_channels = 8);
    assert_eq!(said(&mut bench), Some((8, Vec::new())));
    let mut bench = Bench::with(|config| {
        (config.channels, config.takes_channels) = (3, 200);
        config.priority = 0;
    });
    assert_eq!(said(&mut bench), Some((CHANNELS_MAX, vec![[1, 1]; 2])));
    bench.meet(1);
    bench.tick(Duration::from_millis(60));
    let key = bench.latest().unwrap();
    bench.me.receives(key);
    let us = bench.us();
    bench.hear(&mkpdu(1, 9, &us, |repr| repr.sak_use = in_use(key, true, false))).unwrap();
    bench.tick(Duration::ZERO);
    assert!(bench.me.latest.as_ref().unwrap().transmits);
    let an = bench.me.latest.as_ref().unwrap().an;
    for (place, next) in [(0, 99), (1, 50), (2, 70), (2, 60), (3, 80), (255, 9)] {
        bench.me.progress_of(an, place, next);
    }
    // They are announced when they are 100 ms old.
    bench.tick(Duration::from_millis(100));
    bench.tick(Duration::from_millis(100));
    assert_eq!(said(&mut bench), Some((CHANNELS_MAX, vec![[50, 1], [70, 1]])));
}

#[test]
fn all_partners_must_take_the_channels() {
    let mut bench = Bench::with(|config| config.channels = 3);
    assert_eq!(bench.me.channels_in_use(), 1, "nobody is there");
    bench.meet(1);
    assert_eq!(bench.me.channels_in_use(), 1, "it says nothing of channels");
    let us = bench.us();
    let takes = |bench: &mut Bench, n, message, takes| {
        let mut room = [0; 128];
        let announcement = announced(takes, &[], &mut room);
        bench.hear(&mkpdu(n, message, &us, |repr| repr.announcement = announcement)).unwrap();
        bench.me.channels_in_use()
    };
    for (message, (taken, in_use)) in (20..).zip([(8, 3), (2, 1), (3, 3), (0, 1), (255, 3)]) {
        assert_eq!(takes(&mut bench, 1, message, taken), in_use, "{taken}");
    }
    bench.meet(2);
    assert_eq!(bench.me.channels_in_use(), 1, "a second one does not");
    assert_eq!(takes(&mut bench, 2, 20, 3), 3);
    // Who gets no key, as it wants none, does not count.
    let us = bench.us();
    bench.hear(&mkpdu(2, 21, &us, |repr| repr.basic.macsec_desired = false)).unwrap();
    assert_eq!(bench.me.channels_in_use(), 3);
    let status = bench.me.status(bench.now);
    assert_eq!((status.channels_in_use, status.members[0].takes_channels), (3, 255));
    assert_eq!(Bench::with(|config| config.channels = 0).me.config.channels, 1);
}

#[test]
fn pressure_in_any_channel_brings_a_key() {
    let end = CipherSuite::GcmAes128.packet_number_end();
    let near = end - end / 4;
    type Cause = fn(&mut Bench, KeyIdentifier, An, u64);
    let ours: Cause = |bench, _, an, next| bench.me.progress_of(an, 7, next);
    let theirs: Cause = |bench, key, _, next| {
        let (us, mut room) = (bench.us(), [0; 128]);
        let announcement = announced(8, &[[1, 1], [next, 1]], &mut room);
        let frame = mkpdu(1, 30, &us, |repr| {
            (repr.announcement, repr.sak_use) = (announcement, in_use(key, true, true));
        });
        bench.hear(&frame).unwrap();
    };
    for cause in [ours, theirs] {
        for (next, due) in [(near - 1, false), (near, true)] {
            let mut bench = Bench::with(|config| (config.channels, config.priority) = (8, 0));
            bench.meet(1);
            bench.tick(Duration::from_millis(60));
            let key = bench.latest().unwrap();
            bench.me.receives(key);
            let us = bench.us();
            bench.hear(&mkpdu(1, 9, &us, |repr| repr.sak_use = in_use(key, true, false))).unwrap();
            bench.tick(Duration::ZERO);
            let an = bench.me.latest.as_ref().unwrap().an;
            cause(&mut bench, key, an, next);
            bench.tick(Duration::from_millis(60));
            assert_eq!(bench.latest() != Some(key), due, "{next}");
        }
    }
}

#[test]
fn shared_further_channel_prevents_keys() {
    let beside = |place| channel_sci(sci(0), place).unwrap();
    // Our channels, those of the other one: its first, and how many more.
    for (own, first, more, shared) in [
        (1, 1, 0, false),
        (2, 1, 0, true),
        (2, 2, 0, false),
        (1, 1, 7, false),
        (8, 7, 7, true),
        (8, 8, 7, false),
    ] {
        let mut bench = Bench::with(|config| config.channels = own);
        let us = bench.us();
        let mut room = [0; 192];
        let announcement = announced(8, &vec![[1, 1]; more], &mut room);
        let frame = mkpdu(4, 1, &us, |repr| {
            repr.basic.sci = beside(first);
            repr.announcement = announcement;
        });
        let heard = bench.hear(&frame);
        let expected = if shared { Err(Dropped::OwnSci) } else { Ok(()) };
        assert_eq!(heard, expected, "{own} {first} {more}");
        assert_eq!(bench.me.fault == Some(Fault::SameSci), shared);
    }
    // The other one begins before us.
    let mut bench = Bench::with(|config| config.sci = beside(3));
    for (member, more, shared) in [(4, 2, false), (5, 3, true), (6, 30, true)] {
        let us = bench.us();
        let mut room = [0; 512];
        let announcement = announced(8, &vec![[1, 1]; more], &mut room);
        let frame = mkpdu(member, 1, &us, |repr| {
            repr.basic.sci = sci(0);
            repr.announcement = announcement;
        });
        assert_eq!(bench.hear(&frame).is_err(), shared, "{more}");
    }
}

#[test]
fn delay_is_bounded_in_each_channel() {
    let mut bench = Bench::new();
    bench.meet(1);
    bench.key_of_1(2, 1);
    bench.me.latest.as_mut().unwrap().receives = true;
    let (us, mut room) = (bench.us(), [0; 128]);
    let announcement = announced(8, &[[40, 4], [1 << 33, 5]], &mut room);
    while bench.me.next_action().is_some() {}
    let frame = mkpdu(1, 3, &us, |repr| {
        let sak_use = in_use(key(1, 1), true, true).unwrap();
        repr.sak_use = Some(SakUse { delay_protect: true, ..sak_use });
        repr.announcement = announcement;
    });
    bench.hear(&frame).unwrap();
    let lowest = core::iter::from_fn(|| bench.me.next_action()).filter_map(|action| match action {
        Action::Lowest { sci, lowest_pn, second_pn, .. } => Some((sci, lowest_pn, second_pn)),
        _ => None,
    });
    let channel = |place| channel_sci(sci(1), place).unwrap();
    let expected = [(sci(1), 1, None), (channel(1), 40, None), (channel(2), 1 << 33, None)];
    assert_eq!(lowest.collect::<Vec<_>>(), expected);
    assert_eq!(bench.me.status(bench.now).members[0].channels, 3);
}
