use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::macsec::An;

/// A key server's MKPDU from wpa_supplicant: live peer list, SAK use, distributed SAK.
const FROM_A_KEY_SERVER: &str = "0180c200000302000000 0a01888e030500b00110e03c020000000a0100010fe7
    9b9c81e097f4ead95a9b000000030080c2016162636465666768696a6b6c6d6e6f707172737475767778797a303132333435
    01000010ea337e23c1a8bbe29e9ab5e700000002 033000280fe79b9c81e097f4ead95a9b000000010000000100000000
    00000000000000000000000000000001 0410001c0000000183fbad4f9f7576d4ca960095352b19d1b1a919d58ae41b6e
    da25210a3232f3f4273d99a08cd9dfbe";

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn emitted(repr: &Repr<'_>, icv: [u8; 16]) -> Vec<u8> {
    let mut out = vec![0xaa; repr.buffer_len()];
    assert_eq!(repr.emit(&mut out, |_| icv), Ok(repr.buffer_len()));
    out
}

#[test]
fn key_server_mkpdu_round_trips() {
    let frame = bytes(FROM_A_KEY_SERVER);
    let parsed = Repr::parse(&frame).unwrap();
    let repr = parsed.repr;
    assert!(repr.basic.key_server && repr.basic.macsec_desired);
    assert_eq!((repr.basic.version, repr.basic.priority), (1, 0x10));
    assert_eq!(repr.basic.capability, Capability::Confidentiality);
    assert_eq!(repr.basic.ckn, b"abcdefghijklmnopqrstuvwxyz012345");
    assert_eq!(repr.live.unwrap().peers().map(|(_, message)| message).collect::<Vec<_>>(), [2]);
    let [latest, old] = repr.sak_use.unwrap().keys.unwrap();
    assert!(latest.transmits && latest.receives && latest.is_some() && !old.is_some());
    assert_eq!(latest.key.server, repr.basic.member);
    let Some(DistributedSak::Sak(sak)) = repr.distributed_sak else { panic!("{repr:?}") };
    assert_eq!((sak.an, sak.confidentiality_offset, sak.number), (An::ALL[0], 1, 1));
    assert_eq!((sak.suite, sak.wrapped.len()), (None, 24));
    assert_eq!((parsed.skipped, parsed.covered.len() + 16), (0, frame.len()));
    assert_eq!(emitted(&repr, *parsed.icv), frame);
}

#[test]
fn trailing_octets_are_padding() {
    let mut frame = bytes(FROM_A_KEY_SERVER);
    let len = frame.len();
    let again = emitted(&Repr::parse(&frame).unwrap().repr, [7; 16]);
    frame.copy_from_slice(&again);
    frame.extend([0; 9]);
    let parsed = Repr::parse(&frame).unwrap();
    assert_eq!((parsed.covered.len() + 16, *parsed.icv), (len, [7; 16]));
}

#[test]
fn truncated_mkpdu_is_refused() {
    let frame = bytes(FROM_A_KEY_SERVER);
    for len in 0..frame.len() {
        assert!(Repr::parse(&frame[..len]).is_err(), "{len}");
    }
}

#[test]
fn only_unknown_sets_are_skipped() {
    let frame = bytes(FROM_A_KEY_SERVER);
    // The live peer list begins behind the headers and the basic set.
    let at = 18 + 4 + 28 + 32;
    let mut unknown = frame.clone();
    unknown[at] = 200;
    let parsed = Repr::parse(&unknown).unwrap();
    assert_eq!((parsed.skipped, parsed.repr.live), (1, None));
    let mut shorter = frame.clone();
    shorter[at + 3] = 15;
    assert_eq!(Repr::parse(&shorter), Err(Error::Length));
    let mut twice = frame;
    twice[at + 20] = 1;
    assert!(Repr::parse(&twice).is_err());
}

#[test]
fn oversized_set_is_not_written() {
    let frame = bytes(FROM_A_KEY_SERVER);
    let repr = Repr::parse(&frame).unwrap().repr;
    let nameless = Repr { basic: Basic { ckn: &[], ..repr.basic }, ..repr };
    assert_eq!(nameless.emit(&mut [0; 300], |_| [0; 16]), Err(Error::Value));
    assert_eq!(repr.emit(&mut [0; 100], |_| [0; 16]), Err(Error::Truncated));
    let many = vec![0; 16 * 256];
    let list = PeerList::new(&many).unwrap();
    let mut room = vec![0; 8000];
    let crowd = Repr { live: Some(list), ..repr };
    assert_eq!(crowd.emit(&mut room, |_| [0; 16]), Err(Error::Length));
}

#[test]
fn features_are_found_among_other_tlvs() {
    let features =
        Features::new(true, [false, true, false, true], &[0xa2, 0x4e, 0xd7, 0, 0, 0, 0, 1]).unwrap();
    let mut buffer = [0; 64];
    let announcement = Announcement::new(&features, Some([7, 1 << 40]), None, &mut buffer).unwrap();
    assert_eq!(
        (announcement.features(), announcement.second_channel()),
        (Some(features), Some([7, 1 << 40]))
    );
    let without = Announcement::new(&features, None, None, &mut [0; 64]).unwrap().second_channel();
    assert_eq!(without, None);
    let mut octets = bytes("e0020001");
    octets.extend(announcement.octets());
    let among = Announcement::parse(&octets).unwrap();
    assert_eq!(among.features(), Some(features));
    assert_eq!(octets[4..10], bytes("fe0da24ed701"), "subtype of the features");
    assert_eq!(octets[10], 0xa1);
    assert_eq!(features.suites().collect::<Vec<_>>(), [[0xa2, 0x4e, 0xd7, 0, 0, 0, 0, 1]]);
    assert_eq!(Announcement::parse(&octets[..octets.len() - 1]), Err(Error::Length));
}

#[test]
fn channels_are_found_among_other_tlvs() {
    let features = Features::new(false, [false; 4], &[]).unwrap();
    let numbers = [[9, 1], [1 << 33, 7]];
    let octets = numbers.map(Channels::entry).concat();
    let channels = Channels::new(8, &octets).unwrap();
    let mut buffer = [0; 80];
    let announcement = Announcement::new(&features, Some([3, 4]), Some(&channels), &mut buffer).unwrap();
    assert_eq!(announcement.channels(), Some(channels));
    assert_eq!(announcement.channels().unwrap().further().collect::<Vec<_>>(), numbers);
    assert_eq!((announcement.features(), announcement.second_channel()), (Some(features), Some([3, 4])));
    let tlv = announcement.octets().len() - 7 - 32;
    assert_eq!(announcement.octets()[tlv..tlv + 7], bytes("fe25a24ed70308"), "37 octets, subtype, 8 taken");
    // One that only takes several.
    let channels = Channels::new(2, &[]).unwrap();
    let announcement = Announcement::new(&features, None, Some(&channels), &mut buffer).unwrap();
    let found = announcement.channels().unwrap();
    assert_eq!((found.takes, found.further().count()), (2, 0));
    // Numbers that are cut short say nothing.
    assert_eq!(Channels::new(8, &octets[1..]), Err(Error::Length));
    let cut = bytes("fe0da24ed70308000000000000000100");
    assert_eq!(Announcement::parse(&cut[..15]).unwrap().channels(), None);
    let without = Announcement::new(&features, None, None, &mut buffer).unwrap();
    assert_eq!(without.channels(), None);
}

prop_compose! {
    fn key_use()(server: [u8; 12], number: u32, an in 0..4usize, transmits: bool, receives: bool, lowest_pn: u32)
        -> KeyUse
    {
        let key = KeyIdentifier { server: MemberIdentifier(server), number };
        KeyUse { key, an: An::ALL[an], transmits, receives, lowest_pn }
    }
}

proptest! {
    #[test]
    fn every_mkpdu_round_trips(
        (version, priority, flags) in (1u8.., any::<u8>(), any::<[bool; 6]>()),
        sci: [u8; 8], member: [u8; 12], message: u32, ckn in prop::collection::vec(any::<u8>(), 1..=32),
        peers in prop::collection::vec(any::<[u8; 16]>(), 0..70),
        keys in prop::option::of([key_use(), key_use()]),
        (an, offset, number) in (0..4usize, 0..4u8, any::<u32>()),
        suite: Option<[u8; 8]>, wrapped: [u8; 40], long: bool, xpn: Option<(u8, u32, u32)>, icv: [u8; 16],
    ) {
        let octets = peers.concat();
        let list = PeerList::new(&octets).unwrap();
        let mut live = list;
        live.key_server_ssci = version;
        let basic = Basic {
            version, priority, key_server: flags[0], macsec_desired: flags[1],
            capability: Capability::from_number(priority & 3), sci: Sci(sci),
            member: MemberIdentifier(member), message, algorithm_agility: ALGORITHM_AGILITY, ckn: &ckn,
        };
        let wrapped = if long && suite.is_some() { &wrapped[..] } else { &wrapped[..24] };
        let sak = WrappedSak { an: An::ALL[an], confidentiality_offset: offset, number, suite, wrapped };
        let mut buffer = [0; 128];
        let numbers = keys.map_or([[1; 2]; 2], |[a, b]| [[a.lowest_pn.into(), 1 << 40], [5, b.lowest_pn.into()]]);
        let numbers = numbers.map(Channels::entry).concat();
        let channels = Channels::new(priority, if flags[0] { &numbers } else { &[] }).unwrap();
        let channels = Some(&channels).filter(|_| flags[2]);
        let second = xpn.map(|(_, a, b)| [u64::from(a), u64::from(b) << 32]);
        let features = Features::new(flags[4], [flags[5], flags[0], flags[1], flags[2]], &sci).unwrap();
        let repr = Repr {
            live: flags[2].then_some(live),
            potential: (!flags[2]).then_some(list),
            sak_use: flags[3].then_some(SakUse {
                keys, plain_transmit: flags[4], plain_receive: flags[5], delay_protect: flags[0],
            }),
            distributed_sak: flags[5].then_some(if flags[4] { DistributedSak::Plain } else { DistributedSak::Sak(sak) }),
            xpn: xpn.map(|(suspension_time, latest_lowest_pn, old_lowest_pn)| {
                Xpn { suspension_time, latest_lowest_pn, old_lowest_pn }
            }),
            announcement: flags[1].then_some(Announcement::new(&features, second, channels, &mut buffer).unwrap()),
            icv_indicator: flags[0],
            ..Repr::new(Address::PAE_GROUP, Address(member[..6].try_into().unwrap()), basic)
        };
        let frame = emitted(&repr, icv);
        let parsed = Repr::parse(&frame).unwrap();
        prop_assert_eq!((parsed.repr, *parsed.icv, parsed.skipped), (repr, icv, 0));
        prop_assert_eq!(parsed.covered.len() + 16, frame.len());
    }

    #[test]
    fn parser_never_panics(
        changes in prop::collection::vec((14..194usize, any::<u8>()), 0..8), len in 0..220usize,
    ) {
        let mut frame = bytes(FROM_A_KEY_SERVER);
        for (at, octet) in changes {
            frame[at] = octet;
        }
        frame.resize(len, 0);
        if let Ok(parsed) = Repr::parse(&frame) {
            let again = emitted(&parsed.repr, *parsed.icv);
            prop_assert_eq!(Repr::parse(&again).unwrap().repr, parsed.repr);
        }
    }
}
