//! Records in and out: epochs, early and held records, alerts, timers.

use antedate_wire::dtls::handshake::AlertDescription;

use super::*;
use crate::dtls::{Cause, Failures};

/// The server's keys exist after the record with the client's exchange.
#[test]
fn early_records_wait_up_to_a_bound() {
    let mut client = client(settings(PSK));
    let mut server = server(settings(PSK), &mut client);
    pass(&mut server, &mut client);
    let [exchange, _, finished] = <[_; 3]>::try_from(split(&client.transmit().unwrap(), 0)).unwrap();
    // The Finished and seven records of data fit. The last is dropped.
    assert_eq!(hand(&mut server, &finished), (false, Vec::new()));
    for octet in 0..8 {
        let record = data(&mut client, octet);
        assert_eq!(hand(&mut server, &record), (false, Vec::new()));
        assert_eq!(server.refusals().early, u64::from(octet == 7), "{octet}");
    }
    let mut right = Refusals::default();
    right.count(Dropped::Early);
    assert_eq!(*server.refusals(), right);
    let (newest, seen) = hand(&mut server, &exchange);
    let all = (0..7).map(|octet| Seen::Data([octet].into()));
    assert_eq!(seen, [Seen::Established].into_iter().chain(all).collect::<Vec<_>>());
    assert!(!newest, "an early record says nothing of the present address");
    assert_eq!(server.counts().1, 7);
    assert_eq!(server.phase(), Phase::Established);
}

#[test]
fn data_before_the_finished_is_held() {
    let ([mut client, mut server], finished) = before_finished(PSK);
    for octet in 0..10 {
        let (newest, seen) = hand(&mut server, &data(&mut client, octet));
        assert_eq!((newest, seen), (octet < 8, Vec::new()), "nothing comes out before the Finished");
        assert_eq!(server.refusals().early, u64::from(octet.saturating_sub(7)));
        assert_eq!((server.counts().1, server.phase()), (0, Phase::Handshaking));
    }
    let (_, seen) = hand(&mut server, &finished);
    let held = (0..8).map(|octet| Seen::Data([octet].into()));
    assert_eq!(seen, [Seen::Established].into_iter().chain(held).collect::<Vec<_>>());
    assert_eq!(server.counts().1, 8);
}

#[test]
fn record_has_its_place_in_time() {
    let app = plain(ContentType::ApplicationData, b"clear");
    let other = |epoch| {
        let record = plain(ContentType::ApplicationData, &[0; 30]);
        let (record, _) = Record::parse(&record, 0).unwrap();
        octets(&Record { epoch, ..record })
    };
    let hello = message(HandshakeType::HelloRequest, 0, &[]);
    let cases = [
        (app, Some(Dropped::Unprotected)),
        (plain(ContentType::Unknown(99), b"?"), Some(Dropped::Malformed)),
        (plain(ContentType::Alert, &[2, 40]), Some(Dropped::Alert)),
        (plain(ContentType::ChangeCipherSpec, &[1]), None),
        (other(2), Some(Dropped::Epoch)),
        (other(1), Some(Dropped::Forged)),
        (hello, Some(Dropped::Epoch)),
        ([0; 5].to_vec(), Some(Dropped::Malformed)),
    ];
    for (datagram, expected) in cases {
        let [mut client, mut server] = established(settings(PSK), settings(PSK));
        for side in [&mut client, &mut server] {
            let mut right = *side.refusals();
            expected.into_iter().for_each(|refusal| right.count(refusal));
            assert_eq!(hand(side, &datagram), (false, Vec::new()), "{expected:?}");
            assert_eq!((*side.refusals(), side.phase()), (right, Phase::Established), "{expected:?}");
            // Afterwards nothing is taken at all.
            side.close();
            right.count(Dropped::UnknownConnection);
            let last = plain(ContentType::ChangeCipherSpec, &[1]);
            assert_eq!(hand(side, &last), (false, Vec::new()));
            assert_eq!(*side.refusals(), right);
        }
    }
}

#[test]
fn newest_record_tells_the_address() {
    let [mut client, mut server] = established(settings(PSK), settings(PSK));
    let mut out = [[0; 100]; 3];
    let records: Vec<_> = out
        .iter_mut()
        .map(|out| {
            let len = client.seal(b"data", out).unwrap();
            out[..len].to_vec()
        })
        .collect();
    let data = || [Seen::Data(b"data".to_vec())].into();
    assert_eq!(hand(&mut server, &records[1]), (true, data()));
    assert_eq!(hand(&mut server, &records[0]), (false, data()), "it is older");
    assert_eq!(hand(&mut server, &records[1]), (false, Vec::new()), "it is a copy");
    // Together with an older one, in either order.
    let both = [&records[2][..], &records[0]].concat();
    assert_eq!(hand(&mut server, &both), (true, data()));
    assert_eq!(server.refusals().replayed, 2);
    assert_eq!((client.counts(), server.counts()), ((3, 0, 0), (0, 3, 0)));
}

#[test]
fn protected_alerts_end_the_connection() {
    use AlertDescription::{CloseNotify, HandshakeFailure};
    let failed = |alert| Phase::Failed(Failure::Alert(alert));
    for (fatal, description, done, closes) in [
        (false, CloseNotify, Some(Phase::Closed), true),
        (true, CloseNotify, Some(Phase::Closed), true),
        (false, HandshakeFailure, None, false),
        (true, HandshakeFailure, Some(failed(Alert { fatal: true, description: HandshakeFailure })), true),
    ] {
        let [mut client, mut server] = established(settings(PSK), settings(PSK));
        client.say(Alert { fatal, description });
        let seen = pass(&mut client, &mut server);
        assert_eq!(seen, if closes { [Seen::Closed].into() } else { Vec::new() });
        assert_eq!(server.phase(), done.unwrap_or(Phase::Established));
        assert_eq!(server.seal(b"x", &mut [0; 100]).is_ok(), done.is_none());
        // Before the Finished an end is a failure.
        let ([mut client, mut server], _) = before_finished(PSK);
        while client.transmit().is_some() {}
        client.say(Alert { fatal, description });
        let seen = pass(&mut client, &mut server);
        assert_eq!(seen, if closes { [Seen::Closed].into() } else { Vec::new() });
        let expected = if closes { failed(Alert { fatal, description }) } else { Phase::Handshaking };
        assert_eq!(server.phase(), expected);
    }
}

#[test]
fn unreadable_protected_content_is_counted() {
    for (content_type, content, expected) in [
        (ContentType::Alert, &[3, 0][..], Dropped::Malformed),
        (ContentType::Alert, &[2], Dropped::Malformed),
        (ContentType::ChangeCipherSpec, &[1], Dropped::Malformed),
        (ContentType::Handshake, &[20, 0, 0], Dropped::Handshake),
    ] {
        let [mut client, mut server] = established(settings(PSK), settings(PSK));
        let record = protected(&mut client, content_type, content);
        let mut right = *server.refusals();
        right.count(expected);
        assert_eq!(hand(&mut server, &record), (false, Vec::new()));
        assert_eq!((*server.refusals(), server.phase()), (right, Phase::Established));
    }
}

#[test]
fn second_handshake_is_declined() {
    let hello = |kind| {
        let fragment = Fragment { kind, length: 0, message: 9, offset: 0, octets: &[] };
        fragment.header()
    };
    // The peer's kind of hello alone, and between established sides only.
    for (kind, of_client, of_server) in [
        (HandshakeType::HelloRequest, true, false),
        (HandshakeType::ClientHello, false, true),
        (HandshakeType::Finished, false, false),
    ] {
        let [mut client, mut server] = established(settings(PSK), settings(PSK));
        let warning = Alert { fatal: false, description: AlertDescription::NoRenegotiation }.emit();
        for to_client in [true, false] {
            let (from, to) = if to_client { (&mut server, &mut client) } else { (&mut client, &mut server) };
            let record = protected(from, ContentType::Handshake, &hello(kind));
            assert_eq!(hand(to, &record).1, []);
            let declines = if to_client { of_client } else { of_server };
            let said = to.transmit();
            assert_eq!(said.is_some(), declines, "{kind:?}");
            if let Some(said) = said {
                let (record, _) = Record::parse(&said, 0).unwrap();
                let opened = from.reader.as_mut().unwrap().open(&record, &mut [0; 99]).unwrap();
                assert_eq!((opened.content_type, opened.len), (ContentType::Alert, warning.len()));
            }
            assert_eq!((to.phase(), to.seal(b"x", &mut [0; 100]).is_ok()), (Phase::Established, true));
        }
    }
    let ([mut client, mut server], _) = before_finished(PSK);
    while server.transmit().is_some() {}
    let record = protected(&mut client, ContentType::Handshake, &hello(HandshakeType::ClientHello));
    assert_eq!((hand(&mut server, &record).1, server.transmit()), (Vec::new(), None));
}

#[test]
fn only_a_server_repeats_its_finished() {
    let ([mut client, mut server], finished) = before_finished(PSK);
    hand(&mut server, &finished);
    let first = server.transmit().unwrap();
    // The client's flight again, under new numbers.
    client.timeout(100);
    hand(&mut server, &client.transmit().unwrap());
    let again = server.transmit().unwrap();
    assert_ne!(first, again, "its records have new numbers");
    assert_eq!((server.counts().2, server.transmit()), (1, None));
    // An attacker without keys cannot cause it.
    hand(&mut server, &message(HandshakeType::Finished, 2, &[0; 12]));
    assert_eq!((server.counts().2, server.transmit()), (1, None));
    // The client ends here and says no more.
    assert_eq!(hand(&mut client, &first).1, [Seen::Established]);
    assert_eq!(hand(&mut client, &again).1, []);
    assert_eq!((client.phase(), client.transmit()), (Phase::Established, None));
}

#[test]
fn flight_is_repeated_at_doubled_intervals() {
    let patient = Settings { retransmit_ms: 25_000, give_up_ms: 1_000_000, ..settings(PSK) };
    let mut client = client(patient);
    assert!(client.transmit().is_some());
    // 25, 50, then 60 seconds at most.
    for (number, due) in [25_000, 75_000, 135_000, 195_000].into_iter().enumerate() {
        assert_eq!(client.deadline(), Some(due));
        client.timeout(due - 1);
        assert_eq!((client.transmit(), client.counts().2), (None, number as u64));
        client.timeout(due);
        assert!(client.transmit().is_some());
        assert_eq!((client.transmit(), client.counts().2), (None, number as u64 + 1));
    }
    client.timeout(999_999);
    assert_eq!((client.deadline(), client.phase()), (Some(1_000_000), Phase::Handshaking));
    client.timeout(1_000_000);
    assert_eq!(client.phase(), Phase::Failed(Failure::TimedOut { alert: None, reason: None }));
    assert_eq!(client.deadline(), None);
    while client.transmit().is_some() {}
    // A failed side does no more.
    client.timeout(u64::MAX);
    assert_eq!((client.transmit(), client.counts().2), (None, 5));
}

#[test]
fn established_side_has_no_deadline() {
    let [mut client, mut server] = established(settings(PSK), settings(PSK));
    for side in [&mut client, &mut server] {
        assert_eq!(side.deadline(), None);
        side.timeout(u64::MAX);
        assert_eq!((side.phase(), side.transmit(), side.counts().2), (Phase::Established, None, 0));
    }
}

#[test]
fn new_flight_displaces_the_old_one() {
    let mut client = client(Settings { retransmit_ms: 0, ..settings(PSK) });
    assert_eq!(client.deadline(), Some(1), "a flight is not repeated at once");
    client.timeout(1);
    assert!(client.transmit().is_some());
    assert_eq!(client.transmit(), None, "the older copy is dropped");
}

#[test]
fn end_is_told_under_keys_only() {
    let mut early = client(settings(PSK));
    while early.transmit().is_some() {}
    assert_eq!(early.seal(b"x", &mut [0; 100]), Err(SendError::NotEstablished));
    early.close();
    assert_eq!((early.transmit(), early.phase()), (None, Phase::Closed));

    let ([_, mut server], _) = before_finished(PSK);
    while server.transmit().is_some() {}
    assert_eq!(server.seal(b"x", &mut [0; 100]), Err(SendError::NotEstablished), "keys alone are not enough");

    let [mut client, mut server] = established(settings(PSK), settings(PSK));
    assert_eq!(client.seal(b"x", &mut [0; 10]), Err(SendError::Protect(ProtectError::OutputTooSmall)));
    assert_eq!(client.counts().0, 0, "nothing was sent");
    client.close();
    assert_eq!(pass(&mut client, &mut server), [Seen::Closed]);
    assert_eq!((client.phase(), server.phase()), (Phase::Closed, Phase::Closed));
    assert_eq!(client.seal(b"x", &mut [0; 100]), Err(SendError::NotEstablished));
}

#[test]
fn idle_time_prepares_established_sides_only() {
    for (reach, prepares) in [(100, true), (0, false)] {
        let of = Settings { reach, ..settings(PSK) };
        let mut fresh = client(of.clone());
        assert_eq!(fresh.idle(100), 0);
        let ([_, mut waiting], _) = before_finished(PSK);
        assert_eq!((waiting.idle(100), waiting.prepared()), (0, 0));
        let [mut client, _] = established(of.clone(), of);
        assert_eq!(client.idle(1), u32::from(prepares));
        let done = client.idle(10_000);
        assert_eq!((done > 0, client.prepared() > 0), (prepares, prepares));
        // Both directions are prepared, and then nothing is left.
        let mut out = [0; 100];
        assert_eq!(client.idle(10_000), 0);
        client.seal(b"x", &mut out).unwrap();
        assert_eq!(client.idle(10_000) > 0, prepares);
    }
}

#[test]
fn failures_tell_their_causes() {
    let alert = |description| Alert { fatal: true, description };
    let unknown = alert(AlertDescription::UnknownPskIdentity);
    for (failure, cause, expected) in [
        (
            Failure::TimedOut { alert: None, reason: None },
            Cause::Silence,
            "no valid answer in time: is the peer there, and has it the same key?",
        ),
        (
            Failure::TimedOut { alert: Some(unknown), reason: None },
            Cause::Identity,
            "no valid answer in time; an alert on the way said UnknownPskIdentity",
        ),
        (
            Failure::TimedOut { alert: None, reason: Some("why") },
            Cause::Message,
            "no valid answer in time; a message was refused: why",
        ),
        (Failure::Alert(unknown), Cause::Identity, "the peer ended it: UnknownPskIdentity"),
        (
            Failure::Alert(alert(AlertDescription::HandshakeFailure)),
            Cause::Alert,
            "the peer ended it: HandshakeFailure",
        ),
    ] {
        assert_eq!(std::format!("{failure}"), expected);
        assert_eq!(failure.cause(), cause, "{expected}");
    }
    for (description, cause) in [
        (AlertDescription::BadRecordMac, Cause::Key),
        (AlertDescription::DecryptError, Cause::Key),
        (AlertDescription::ProtocolVersion, Cause::Version),
    ] {
        assert_eq!(Failure::Alert(alert(description)).cause(), cause);
    }
}

/// A server that has no key for the identity, or another one.
#[test]
fn wrong_secrets_are_told_apart() {
    struct Other(Option<Psk>);
    impl Keyring for Other {
        fn key(&self, _: &[u8]) -> Option<Psk> {
            self.0.clone()
        }
    }
    for (key, expected) in [(None, Cause::Identity), (Some(Psk::new([7; 16].into())), Cause::Key)] {
        let mut client = client(settings(PSK));
        let mut server = server(settings(PSK), &mut client);
        while let Some(datagram) = server.transmit() {
            hand(&mut client, &datagram);
        }
        while let Some(datagram) = client.transmit() {
            server.handle(&datagram, 0, &Other(key.clone()), &mut |_| panic!("no event"));
        }
        server.timeout(u64::MAX);
        let Phase::Failed(failure) = server.phase() else { panic!("{:?}", server.phase()) };
        assert_eq!(failure.cause(), expected, "{failure}");
    }
    assert!(Failures::default().each().all(|(_, count)| count == 0));
    let mut failures = Failures::default();
    failures.count(Cause::Suite);
    assert_eq!(failures.no_suite, 1);
}

#[test]
fn unprotected_alert_only_explains() {
    let mut client = client(settings(PSK));
    hand(&mut client, &plain(ContentType::Alert, &[2, 115]));
    hand(&mut client, &plain(ContentType::Alert, &[9, 9]));
    assert_eq!((client.phase(), client.refusals().unprotected_alert), (Phase::Handshaking, 2));
    client.timeout(u64::MAX);
    let alert = Some(Alert { fatal: true, description: AlertDescription::UnknownPskIdentity });
    assert_eq!(client.phase(), Phase::Failed(Failure::TimedOut { alert, reason: None }));
}

#[test]
fn flight_fits_its_datagrams() {
    for mtu in [40, 60, 91, 120, 400] {
        let of = Settings { mtu, ..settings(ECDHE) };
        let mut client = client(of.clone());
        let mut server = server(of, &mut client);
        let least = HEADER_LEN + 12 + 64;
        let flight: Vec<_> = core::iter::from_fn(|| server.transmit()).collect();
        assert!(flight.iter().all(|datagram| datagram.len() <= mtu.max(least)), "{mtu}");
        // As many records as fit are together.
        for pair in flight.windows(2) {
            let next = split(&pair[1], 0)[0].len();
            assert!(pair[0].len() + next > mtu, "{mtu}");
        }
        let records: Vec<_> = flight.iter().flat_map(|datagram| split(datagram, 0)).collect();
        let numbers = records.iter().map(|record| Record::parse(record, 0).unwrap().0.sequence);
        assert!(numbers.eq(0..records.len() as u64), "each has its own number");
        flight.iter().for_each(|datagram| drop(hand(&mut client, datagram)));
        assert_eq!(client.step, Step::Finished);
    }
}

#[test]
fn debug_shows_no_key_and_errors_their_cause() {
    let who = Client { identity: IDENTITY.to_vec(), key: key() };
    assert_eq!(std::format!("{who:?}"), "Client(9 octets of identity, ..)");
    assert_eq!(Keyring::key(&(), IDENTITY), None, "a client has no keys of others");
    let error = ProtectError::TooLong;
    assert_eq!(std::format!("{}", SendError::Protect(error)), std::format!("{error}"));
    assert!(std::format!("{}", SendError::NotEstablished).contains("no keys"));
}
