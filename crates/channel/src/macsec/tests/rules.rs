//! The rules of clauses 10.5 and 10.6, one by one.

use super::super::*;
use super::setup::*;
use std::format;

fn check_mode(validate: ValidateFrames) -> Receive {
    receive(ReceiveConfig { validate, ..ReceiveConfig::new(SUITE) })
}

fn integrity_only() -> Transmit {
    transmit(TransmitConfig { confidentiality: false, ..transmit_config(SUITE) })
}

#[test]
fn short_frames_lose_their_padding() {
    let (mut transmit, mut receive) = (transmit(transmit_config(SUITE)), receive(ReceiveConfig::new(SUITE)));
    for len in [0, 1, 10, 45, 46, 47, 1500] {
        let frame = frame(len);
        let mut protected = protect(&mut transmit, &frame).unwrap();
        assert_eq!(usize::from(protected[15]), if len + 2 < 48 { len + 2 } else { 0 });
        protected.resize(protected.len().max(60), 0);
        assert_eq!(validate(&mut receive, &protected), Ok(frame));
    }
}

#[test]
fn inconsistent_short_length_is_a_bad_tag() {
    let (mut transmit, mut receive) = (transmit(transmit_config(SUITE)), receive(ReceiveConfig::new(SUITE)));
    let mut protected = protect(&mut transmit, &frame(40)).unwrap();
    protected[15] -= 1;
    assert_eq!(validate(&mut receive, &protected), Err(Discard::BadTag(SecTagError::ShortLength)));
    assert_eq!(receive.counters().in_pkts_bad_tag, 1);
}

#[test]
fn fragmentation_bit_is_a_bad_tag() {
    let (mut transmit, mut receive) = (transmit(transmit_config(SUITE)), receive(ReceiveConfig::new(SUITE)));
    let mut protected = protect(&mut transmit, &frame(100)).unwrap();
    protected[15] |= 0x80;
    assert_eq!(validate(&mut receive, &protected), Err(Discard::BadTag(SecTagError::ReservedBits)));
}

#[test]
fn sci_comes_from_tag_source_or_peer() {
    for (sci_mode, tci) in
        [(SciMode::Explicit, 0x2c), (SciMode::EndStation, 0x4c), (SciMode::PointToPoint, 0x0c)]
    {
        let mut transmit = transmit(TransmitConfig { sci_mode, ..transmit_config(SUITE) });
        let protected = protect(&mut transmit, &frame(60)).unwrap();
        assert_eq!(protected[14], tci);
        assert_eq!(protected.len(), 60 + 14 + 16 + if sci_mode == SciMode::Explicit { 16 } else { 8 });
        let mut receive = receive(ReceiveConfig::new(SUITE));
        assert_eq!(validate(&mut receive, &protected), Ok(frame(60)));
    }
}

#[test]
fn two_peers_require_an_sci() {
    let config = TransmitConfig { sci_mode: SciMode::PointToPoint, ..transmit_config(SUITE) };
    let protected = protect(&mut transmit(config), &frame(60)).unwrap();
    let mut receive = receive(ReceiveConfig::new(SUITE));
    receive.add_peer(Sci([9; 8]), None).unwrap();
    assert_eq!(validate(&mut receive, &protected), Err(Discard::UnknownSci));
    receive.remove_peer(Sci([9; 8]));
    assert_eq!(validate(&mut receive, &protected), Ok(frame(60)));
}

#[test]
fn single_copy_broadcast_is_port_zero() {
    // A frame without explicit SCI and with SCB set, sealed under an SCI with port 0. SCB is
    // authenticated, so the frame is assembled by hand.
    use antedate_aead::{Aes128Gcm, Key, Nonce};
    let key: std::vec::Vec<u8> = (0..16).collect();
    let header = [&[3; 6][..], &[2; 6], &[0x88, 0xe5, 0x1c, 0, 0, 0, 0, 1]].concat();
    let mut nonce = [0; 12];
    nonce[..6].copy_from_slice(&[2; 6]);
    nonce[11] = 1;
    let mut data = frame(60)[12..].to_vec();
    let key = Key::<Aes128Gcm>::new(&key).unwrap();
    let icv = key.seal_in_place(Nonce::assume_unique(nonce), &header, &mut data);
    let protected = [&header[..], &data, icv.as_bytes()].concat();
    let mut receive = receive(ReceiveConfig::new(SUITE));
    assert_eq!(validate(&mut receive, &protected), Err(Discard::UnknownSci));
    let broadcast = Sci([2, 2, 2, 2, 2, 2, 0, 0]);
    receive.add_peer(broadcast, None).unwrap();
    receive.install(broadcast, A0, &sak(SUITE, 0), 1).unwrap();
    assert_eq!(validate(&mut receive, &protected), Ok(frame(60)));
}

#[test]
fn end_station_sends_own_address_only() {
    let config = TransmitConfig { sci_mode: SciMode::EndStation, ..transmit_config(SUITE) };
    let mut transmit = transmit(config);
    let mut foreign = frame(60);
    foreign[11] = 9;
    assert_eq!(protect(&mut transmit, &foreign), Err(ProtectError::ForeignSource));
    assert_eq!(transmit.counters().out_discarded_foreign_source, 1);
    let other_port = TransmitConfig { sci: Sci([2, 2, 2, 2, 2, 2, 0, 2]), ..config };
    assert_eq!(Transmit::new(other_port).err(), Some(TransmitConfigError::EndStationPort));
}

#[test]
fn packet_number_zero_is_a_bad_tag() {
    let (mut transmit, mut receive) = (transmit(transmit_config(SUITE)), receive(ReceiveConfig::new(SUITE)));
    let mut protected = protect(&mut transmit, &frame(60)).unwrap();
    protected[16..20].fill(0);
    assert_eq!(validate(&mut receive, &protected), Err(Discard::ZeroPacketNumber));
    protected[14] = 0x28;
    assert_eq!(validate(&mut receive, &protected), Err(Discard::ReservedEncoding));
    assert_eq!(receive.counters().in_pkts_bad_tag, 2);
}

#[test]
fn another_association_survives_exhaustion() {
    for suite in [SUITE, CipherSuite::GcmAesXpn256] {
        let end = suite.packet_number_end();
        let mut transmit = Transmit::new(transmit_config(suite)).unwrap();
        transmit.install(A0, &sak(suite, 0), end - 2, u64::MAX).unwrap();
        transmit.install(A1, &sak(suite, 1), 1, u64::MAX).unwrap();
        transmit.idle(1000);
        assert!(protect(&mut transmit, &frame(60)).is_ok());
        assert!(protect(&mut transmit, &frame(60)).is_ok());
        for _ in 0..3 {
            transmit.reserve_until(A0, u64::MAX);
            assert_eq!(protect(&mut transmit, &frame(60)), Err(ProtectError::Exhausted));
        }
        assert_eq!(transmit.set_encoding_sa(A0), Err(SwitchError::Exhausted));
        transmit.set_encoding_sa(A1).unwrap();
        assert!(protect(&mut transmit, &frame(60)).is_ok());
        assert_eq!(transmit.counters().out_discarded_exhausted, 3);
    }
}

#[test]
fn nothing_is_sent_beyond_reservation() {
    let mut transmit = Transmit::new(transmit_config(SUITE)).unwrap();
    transmit.install(A0, &sak(SUITE, 0), 1, 3).unwrap();
    transmit.idle(10_000);
    assert_eq!(transmit.status().next().unwrap().prepared, 2);
    assert!(protect(&mut transmit, &frame(60)).is_ok());
    assert!(protect(&mut transmit, &frame(60)).is_ok());
    assert_eq!(protect(&mut transmit, &frame(60)), Err(ProtectError::NotReserved));
    transmit.reserve_until(A0, 4);
    assert!(protect(&mut transmit, &frame(60)).is_ok());
    let status = transmit.status().next().unwrap();
    assert_eq!((status.next_pn, status.limit, status.encoding), (4, 4, true));
    assert_eq!(transmit.counters().out_discarded_not_reserved, 1);
}

#[test]
fn reinstalled_key_continues_above() {
    let mut transmit = transmit(transmit_config(SUITE));
    transmit.idle(10_000);
    for _ in 0..5 {
        protect(&mut transmit, &frame(60)).unwrap();
    }
    let key = sak(SUITE, 0);
    assert_eq!(transmit.install(A1, &key, 100, 200), Err(TransmitInstallError::KeyInUse(A0)));
    let used = Err(TransmitInstallError::PacketNumberUsed { lowest: 6 });
    assert_eq!(transmit.install(A0, &key, 5, 200), used);
    // The association is unchanged.
    assert!(protect(&mut transmit, &frame(60)).is_ok());
    transmit.remove(A0);
    assert_eq!(protect(&mut transmit, &frame(60)), Err(ProtectError::NoSa));
    assert_eq!(transmit.install(A1, &key, 6, 200), Err(TransmitInstallError::PacketNumberUsed { lowest: 7 }));
    transmit.install(A1, &key, 7, 200).unwrap();
    assert_eq!(protect(&mut transmit, &frame(60)).unwrap()[16..20], [0, 0, 0, 7]);
    assert_eq!(transmit.install(A0, &sak(SUITE, 9), 0, 9), Err(TransmitInstallError::PacketNumberZero));
}

#[test]
fn key_is_refused_with_another_salt() {
    let suite = CipherSuite::GcmAesXpn128;
    let mut transmit = transmit(transmit_config(suite));
    let resalted = sak_with_salt(suite, 0, [8; 12]);
    assert_eq!(transmit.install(A0, &resalted, 100, 200), Err(TransmitInstallError::OtherSalt));
    transmit.remove(A0);
    assert_eq!(transmit.install(A1, &resalted, 100, 200), Err(TransmitInstallError::OtherSalt));
    assert_eq!(transmit.install(A1, &sak(SUITE, 0), 100, 200), Err(TransmitInstallError::OtherSuite));
}

#[test]
fn reinstalled_receive_key_refuses_replays() {
    let (mut transmit, mut receive) = (transmit(transmit_config(SUITE)), receive(ReceiveConfig::new(SUITE)));
    let first = protect(&mut transmit, &frame(60)).unwrap();
    assert!(validate(&mut receive, &first).is_ok());
    receive.install(SCI, A0, &sak(SUITE, 0), 1).unwrap();
    assert_eq!(validate(&mut receive, &first), Err(Discard::Late));
    receive.remove(SCI, A0);
    assert_eq!(validate(&mut receive, &first), Err(Discard::NotUsingSa));
    receive.install(SCI, A0, &sak(SUITE, 0), 1).unwrap();
    assert_eq!(validate(&mut receive, &first), Err(Discard::Late));
    let second = protect(&mut transmit, &frame(60)).unwrap();
    assert!(validate(&mut receive, &second).is_ok());
}

#[test]
fn returning_members_refuse_replays() {
    let scis: std::vec::Vec<Sci> = (0..126).map(|number| Sci([2, 0, 0, 0, 0, number, 0, 1])).collect();
    let mut receive = Receive::new(ReceiveConfig { max_peers: scis.len(), ..ReceiveConfig::new(SUITE) });
    let keys = [(A0, sak(SUITE, 0)), (A1, sak(SUITE, 1))];
    let come = |receive: &mut Receive| {
        for (an, sak) in &keys {
            for sci in &scis {
                receive.adopt(ReadyReceive::new(*sci, None, *an, sak, 1).unwrap()).unwrap();
            }
        }
    };
    come(&mut receive);
    let mut recorded = std::vec::Vec::new();
    for sci in &scis {
        for (an, sak) in &keys {
            let mut transmit = Transmit::new(TransmitConfig::new(SUITE, *sci)).unwrap();
            transmit.install(*an, sak, 1, u64::MAX).unwrap();
            recorded.push(protect(&mut transmit, &frame(60)).unwrap());
        }
    }
    assert!(recorded.iter().all(|frame| validate(&mut receive, frame).is_ok()));
    scis.iter().for_each(|sci| drop(receive.remove_peer(*sci)));
    come(&mut receive);
    assert!(recorded.iter().all(|frame| validate(&mut receive, frame) == Err(Discard::Late)));
}

#[test]
fn lowest_packet_number_only_rises() {
    let mut receive = receive(ReceiveConfig { replay_window: 100, ..ReceiveConfig::new(SUITE) });
    let mut transmit = transmit(transmit_config(SUITE));
    let frames: std::vec::Vec<_> = (0..10).map(|_| protect(&mut transmit, &frame(60)).unwrap()).collect();
    assert!(receive.set_lowest_acceptable_pn(SCI, A0, 5));
    assert!(receive.set_lowest_acceptable_pn(SCI, A0, 2));
    assert_eq!(validate(&mut receive, &frames[3]), Err(Discard::Late));
    assert!(validate(&mut receive, &frames[4]).is_ok());
    assert!(!receive.set_lowest_acceptable_pn(SCI, A1, 5));
    let status = receive.status().next().unwrap();
    assert_eq!((status.next_pn, status.lowest_pn), (6, 5));
}

#[test]
fn copies_of_a_second_path_are_no_replays() {
    let two = ReceiveConfig { replay_window: 4, two_paths: true, ..ReceiveConfig::new(SUITE) };
    let mut receive = receive(two);
    let mut transmit = transmit(transmit_config(SUITE));
    let frames: std::vec::Vec<_> = (0..10).map(|_| protect(&mut transmit, &frame(60)).unwrap()).collect();
    for frame in &frames {
        assert!(validate(&mut receive, frame).is_ok());
        assert_eq!(validate(&mut receive, frame), Err(Discard::Duplicate));
    }
    // Behind the window it is late.
    assert_eq!(validate(&mut receive, &frames[0]), Err(Discard::Late));
    let counters = receive.counters();
    assert_eq!((counters.in_pkts_ok, counters.in_pkts_copies, counters.in_pkts_late), (10, 10, 1));
    assert_eq!(counters.discarded(), 11);
}

#[test]
fn forgery_leaves_window_and_preparation() {
    let (mut transmit, mut receive) = (transmit(transmit_config(SUITE)), receive(ReceiveConfig::new(SUITE)));
    receive.idle(10_000);
    let genuine = protect(&mut transmit, &frame(60)).unwrap();
    for pn in [1u32, 2, 1000, u32::MAX] {
        let mut forged = genuine.clone();
        forged[16..20].copy_from_slice(&pn.to_be_bytes());
        forged[40] ^= 1;
        assert_eq!(validate(&mut receive, &forged), Err(Discard::NotValid));
    }
    assert_eq!(validate(&mut receive, &genuine), Ok(frame(60)));
    assert_eq!(receive.counters().in_pkts_not_valid, 4);
}

#[test]
fn late_frames_delayed_unless_protected() {
    let mut receive = receive(ReceiveConfig { replay_protect: false, ..ReceiveConfig::new(SUITE) });
    let mut transmit = transmit(transmit_config(SUITE));
    let first = protect(&mut transmit, &frame(60)).unwrap();
    let second = protect(&mut transmit, &frame(60)).unwrap();
    for frame in [&second, &first, &first] {
        assert!(validate(&mut receive, frame).is_ok());
    }
    let counters = receive.counters();
    assert_eq!((counters.in_pkts_ok, counters.in_pkts_delayed), (1, 2));
}

#[test]
fn checking_counts_and_delivers_readable() {
    let mut receive = check_mode(ValidateFrames::Check);
    let plain = frame(60);
    assert_eq!(validate(&mut receive, &plain), Ok(plain.clone()));
    let mut wrong = protect(&mut integrity_only(), &plain).unwrap();
    wrong[40] ^= 1;
    assert!(validate(&mut receive, &wrong).is_ok());
    let mut unreadable = protect(&mut transmit(transmit_config(SUITE)), &plain).unwrap();
    unreadable[40] ^= 1;
    assert_eq!(validate(&mut receive, &unreadable), Err(Discard::NotValid));
    let other_sci = TransmitConfig { sci: Sci([5; 8]), confidentiality: false, ..transmit_config(SUITE) };
    assert!(validate(&mut receive, &protect(&mut transmit(other_sci), &plain).unwrap()).is_ok());
    let mut unused =
        Transmit::new(TransmitConfig { confidentiality: false, ..transmit_config(SUITE) }).unwrap();
    unused.install(A1, &sak(SUITE, 0), 1, 9).unwrap();
    assert!(validate(&mut receive, &protect(&mut unused, &plain).unwrap()).is_ok());
    let counters = receive.counters();
    assert_eq!((counters.in_pkts_untagged, counters.in_pkts_invalid, counters.in_pkts_not_valid), (1, 1, 1));
    assert_eq!((counters.in_pkts_unknown_sci, counters.in_pkts_unused_sa), (1, 1));
}

#[test]
fn disabled_validation_delivers_unchecked() {
    let mut receive = check_mode(ValidateFrames::Disabled);
    let mut wrong = protect(&mut integrity_only(), &frame(60)).unwrap();
    wrong[40] ^= 1;
    assert!(validate(&mut receive, &wrong).is_ok());
    let encrypted = protect(&mut transmit(transmit_config(SUITE)), &frame(60)).unwrap();
    assert_eq!(validate(&mut receive, &encrypted), Err(Discard::NotValid));
    assert_eq!(receive.counters().in_pkts_unchecked, 1);
}

#[test]
fn strict_validation_names_the_counter() {
    let mut receive = receive(ReceiveConfig::new(SUITE));
    let protected = protect(&mut integrity_only(), &frame(60)).unwrap();
    let other_sci = TransmitConfig { sci: Sci([5; 8]), ..transmit_config(SUITE) };
    let foreign = protect(&mut transmit(other_sci), &frame(60)).unwrap();
    let mut unused = protected.clone();
    unused[14] |= 1;
    let mut wrong = protected.clone();
    wrong[70] ^= 1;
    let mut eapol = frame(60);
    eapol[12..14].copy_from_slice(&[0x88, 0x8e]);
    for (bytes, discard, counter) in [
        (&frame(60), Discard::NoTag, "InPktsNoTag"),
        (&frame(60)[..13].to_vec(), Discard::NoTag, "InPktsNoTag"),
        (&eapol, Discard::Uncontrolled, "InPktsUncontrolled"),
        (&foreign, Discard::UnknownSci, "InPktsNoSCI"),
        (&unused, Discard::NotUsingSa, "InPktsNotUsingSA"),
        (&wrong, Discard::NotValid, "InPktsNotValid"),
    ] {
        let before: std::vec::Vec<_> = receive.counters().named().collect();
        assert_eq!(validate(&mut receive, bytes), Err(discard));
        assert_eq!(discard.counter(), counter);
        let raised = receive.counters().named().zip(before).filter(|(now, then)| now != then);
        assert!(raised.map(|((name, _), _)| name).eq([counter]));
    }
    assert_eq!(receive.validate(&protected, &mut [0; 20]), Err(Discard::OutputTooSmall));
    assert_eq!(validate(&mut receive, &protected), Ok(frame(60)));
    let counters = receive.counters();
    assert_eq!(counters.in_pkts_no_sci + counters.in_pkts_not_using_sa, 2);
}

#[test]
fn user_data_is_counted_by_protection() {
    let mut receive = receive(ReceiveConfig::new(SUITE));
    let (mut clear, mut secret) = (integrity_only(), transmit(transmit_config(SUITE)));
    assert!(validate(&mut receive, &protect(&mut clear, &frame(60)).unwrap()).is_ok());
    protect(&mut secret, &frame(60)).unwrap();
    assert!(validate(&mut receive, &protect(&mut secret, &frame(100)).unwrap()).is_ok());
    assert_eq!((receive.counters().in_octets_validated, receive.counters().in_octets_decrypted), (62, 102));
    assert_eq!((clear.counters().out_octets_protected, clear.counters().out_pkts_protected), (62, 1));
    assert_eq!((secret.counters().out_octets_encrypted, secret.counters().out_pkts_encrypted), (164, 2));
}

#[test]
fn bad_lengths_cost_no_packet_number() {
    let mut transmit = transmit(transmit_config(SUITE));
    assert_eq!(protect(&mut transmit, &[0; 13]), Err(ProtectError::TooShort));
    let frame = frame(60);
    let mut out = std::vec![0; transmit.protected_len(frame.len()) - 1];
    assert_eq!(transmit.protect(&frame, &mut out), Err(ProtectError::OutputTooSmall));
    assert_eq!(transmit.encoding(), Some((A0, 1)));
    assert_eq!(transmit.counters().out_discarded_malformed, 2);
}

#[test]
fn preparation_stops_at_its_target() {
    let mut transmit = transmit(TransmitConfig { prepare: 3, ..transmit_config(SUITE) });
    let mut steps = 0;
    while let done @ 1.. = transmit.idle(7) {
        assert!(done <= 7);
        steps += done;
    }
    let prepared = transmit.status().next().unwrap().prepared;
    assert!((3..=4).contains(&prepared), "{prepared}");
    assert!(steps >= 3 * 26);
    protect(&mut transmit, &frame(60)).unwrap();
    assert_eq!(transmit.counters().out_prepared, 1);
}

#[test]
fn short_frames_are_not_overprepared() {
    for suite in CipherSuite::ALL {
        let mut transmit = transmit(TransmitConfig { prepare: 2, ..transmit_config(suite) });
        // Longer than the window of the length prediction.
        for _ in 0..150 {
            while transmit.idle(64) > 0 {}
            assert_eq!(transmit.status().next().unwrap().prepared, 2, "{suite}");
            protect(&mut transmit, &frame(46)).unwrap();
        }
    }
}

#[test]
fn peer_number_is_bounded() {
    let mut receive = Receive::new(ReceiveConfig { max_peers: 1, ..ReceiveConfig::new(SUITE) });
    receive.add_peer(SCI, None).unwrap();
    assert_eq!(receive.add_peer(SCI, None), Err(PeerError::Known));
    assert_eq!(receive.add_peer(Sci([1; 8]), None), Err(PeerError::TooMany));
    assert_eq!(receive.install(Sci([1; 8]), A0, &sak(SUITE, 0), 1), Err(ReceiveInstallError::UnknownSci));
    let xpn = CipherSuite::GcmAesXpn128;
    assert_eq!(receive.install(SCI, A0, &sak(xpn, 0), 1), Err(ReceiveInstallError::OtherSuite));
    assert_eq!(Receive::new(ReceiveConfig::new(xpn)).add_peer(SCI, None), Err(PeerError::SsciMissing));
    let config = TransmitConfig::new(xpn, SCI);
    assert_eq!(Transmit::new(config).err(), Some(TransmitConfigError::SsciMissing));
}

#[test]
fn copy_within_the_window_is_a_duplicate() {
    let mut transmit = transmit(transmit_config(SUITE));
    let mut receive = receive(ReceiveConfig { replay_window: 2, ..ReceiveConfig::new(SUITE) });
    let frames = [(); 4].map(|()| protect(&mut transmit, &frame(60)).unwrap());
    for (at, expected) in [
        (2, Ok(())),
        (2, Err(Discard::Duplicate)),
        (1, Ok(())),
        (1, Err(Discard::Duplicate)),
        (0, Err(Discard::Late)),
        (3, Ok(())),
    ] {
        assert_eq!(validate(&mut receive, &frames[at]).map(drop), expected, "{at}");
    }
}

#[test]
fn prepared_key_is_for_its_channel() {
    let mut channel = transmit(transmit_config(SUITE));
    let ready = |config| ReadyTransmit::new(config, A1, &sak(SUITE, 9), 1, u64::MAX).unwrap();
    let config = transmit_config(SUITE);
    for other in [
        TransmitConfig { sci: Sci([1; 8]), ..config },
        TransmitConfig { sci_mode: SciMode::PointToPoint, ..config },
        TransmitConfig { confidentiality: false, ..config },
        TransmitConfig { prepare: 1, ..config },
    ] {
        let refused = channel.adopt(ready(other)).map(drop);
        assert_eq!(refused, Err(TransmitInstallError::OtherChannel), "{other:?}");
        assert_eq!(channel.set_encoding_sa(A1), Err(SwitchError::NoSa), "nothing was installed");
    }
    // Suite and short SCI come with the key.
    channel.adopt(ready(TransmitConfig { ssci: Some(7), ..config })).unwrap();
    assert_eq!(channel.config().ssci, Some(7));
    assert_eq!(channel.set_encoding_sa(A1), Ok(()));
    let install =
        |channel: &mut Transmit, an, seed, next| channel.install(an, &sak(SUITE, seed), next, u64::MAX);
    assert_eq!(install(&mut channel, A0, 9, 1), Err(TransmitInstallError::KeyInUse(A1)));
    assert_eq!(install(&mut channel, A1, 10, 0), Err(TransmitInstallError::PacketNumberZero));
    let xpn = CipherSuite::GcmAesXpn128;
    let other = channel.install(A1, &sak(xpn, 3), 1, u64::MAX);
    assert_eq!(other, Err(TransmitInstallError::OtherSuite));
    let without = ReadyTransmit::new(TransmitConfig::new(xpn, SCI), A1, &sak(xpn, 3), 1, u64::MAX);
    assert_eq!(without.err(), Some(TransmitInstallError::SsciMissing));
    let station =
        TransmitConfig { sci: Sci([2, 2, 2, 2, 2, 2, 0, 2]), sci_mode: SciMode::EndStation, ..config };
    assert_eq!(Transmit::new(station).err(), Some(TransmitConfigError::EndStationPort));
}

#[test]
fn prepared_keys_do_not_exceed_the_peers() {
    let mut channels = Receive::new(ReceiveConfig { max_peers: 2, ..ReceiveConfig::new(SUITE) });
    let ready = |of: u8, an| ReadyReceive::new(Sci([of; 8]), None, an, &sak(SUITE, of), 1).unwrap();
    for of in [1, 2] {
        channels.adopt(ready(of, A0)).unwrap();
    }
    assert_eq!(channels.adopt(ready(3, A0)).map(drop), Err(ReceiveInstallError::TooManyPeers));
    channels.adopt(ready(2, A1)).unwrap();
    drop(channels.remove_peer(Sci([1; 8])));
    channels.adopt(ready(3, A0)).unwrap();
    assert_eq!(channels.status().count(), 3);
    let xpn = CipherSuite::GcmAesXpn128;
    let without = ReadyReceive::new(SCI, None, A0, &sak(xpn, 1), 1);
    assert_eq!(without.err(), Some(ReceiveInstallError::SsciMissing));
}

#[test]
fn keys_are_checked_and_never_shown() {
    assert_eq!(Sak::new(SUITE, &[1; 32], None).err(), Some(SakError::KeyLength { expected: 16, given: 32 }));
    assert_eq!(Sak::new(SUITE, &[1; 16], Some(SALT)).err(), Some(SakError::SaltUnexpected));
    assert_eq!(Sak::new(CipherSuite::GcmAesXpn128, &[1; 16], None).err(), Some(SakError::SaltMissing));
    assert_eq!(format!("{:?}", sak(SUITE, 0)), "Sak(gcm-aes-128, ..)");
}

#[test]
fn channels_are_send() {
    fn assert_send<T: Send>() {}
    assert_send::<Transmit>();
    assert_send::<Receive>();
}
