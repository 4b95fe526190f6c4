//! Recordings of connections, opened by their keys.

use zeroize::Zeroizing;

use super::super::{ClosedError, KnownKeys, Overheard, OverheardHandshake};
use super::*;

/// The key of the test's client, or the master secret of one connection.
#[derive(Default)]
struct Known {
    psk: bool,
    log: Option<([u8; 32], Zeroizing<[u8; 48]>)>,
}

impl KnownKeys for Known {
    fn psk(&self, identity: &[u8]) -> Option<Psk> {
        (self.psk && identity == IDENTITY).then(key)
    }

    fn master(&self, client_random: &[u8; 32]) -> Option<Zeroizing<[u8; 48]>> {
        let (random, master) = self.log.as_ref()?;
        (random == client_random).then(|| master.clone())
    }
}

/// An established connection, and the datagrams of its handshake with their direction.
fn recorded(of_client: Settings, of_server: Settings) -> ([Connection; 2], Vec<(bool, Vec<u8>)>) {
    let mut client = client(of_client);
    let hello = client.transmit().unwrap();
    let mut server = Connection::accept(of_server, &hello, 0, &mut |out| out.fill(5)).unwrap();
    let mut all = std::vec![(true, hello)];
    for from_client in [false, true, false] {
        let (from, to) = if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
        while let Some(datagram) = from.transmit() {
            hand(to, &datagram);
            all.push((from_client, datagram));
        }
    }
    assert_eq!((client.phase(), server.phase()), (Phase::Established, Phase::Established));
    ([client, server], all)
}

/// What a handshake's recording gives: the last result.
fn hear(
    handshake: &mut OverheardHandshake,
    recording: &[(bool, Vec<u8>)],
    keys: &Known,
) -> Option<Result<Overheard, ClosedError>> {
    let mut done = None;
    for (from_client, datagram) in recording {
        for record in records(datagram, 0).map_while(Result::ok).filter(|record| record.epoch == 0) {
            if record.content_type == ContentType::Handshake {
                done = handshake.hear(record.fragment, *from_client, keys).or(done);
            }
        }
    }
    done
}

fn opened(known: &mut Overheard, from_client: bool, datagram: &[u8]) -> Option<Vec<u8>> {
    let (record, _) = Record::parse(datagram, known.cid(from_client).len()).ok()?;
    let mut out = std::vec![0; 200];
    let opened = known.open(&record, from_client, &mut out).ok()?;
    Some(out[..opened.len].to_vec())
}

#[test]
fn key_opens_both_ways() {
    for (cid_of_client, extended) in [(None, false), (cid(b"cli"), true), (cid(b""), false)] {
        let with = |cid: Option<ConnectionId>| Settings {
            cid,
            require_extended_master_secret: extended,
            ..settings(PSK)
        };
        let of_server = cid_of_client.and(cid(b"server"));
        let ([mut client, mut server], recording) = recorded(with(cid_of_client), with(of_server));
        let keys = Known { psk: true, log: None };
        let mut known = hear(&mut OverheardHandshake::default(), &recording, &keys).unwrap().unwrap();
        assert_eq!((known.suite(), known.identity()), (PSK.number(), IDENTITY));
        assert_eq!(known.cid(true), of_server.unwrap_or_default());
        for (from_client, from) in [(true, &mut client), (false, &mut server)] {
            let sent = data(from, 7);
            assert_eq!(opened(&mut known, from_client, &sent), Some(std::vec![7]));
            assert_eq!(opened(&mut known, from_client, &sent), Some(std::vec![7]), "a copy");
            assert_eq!(opened(&mut known, !from_client, &sent), None, "the other direction");
            let mut forged = sent;
            *forged.last_mut().unwrap() ^= 1;
            assert_eq!(opened(&mut known, from_client, &forged), None);
        }
    }
}

#[test]
fn retransmissions_change_nothing() {
    let ([mut client, _], recording) = recorded(settings(PSK), settings(PSK));
    let twice: Vec<_> = recording.iter().flat_map(|one| [one.clone(), one.clone()]).collect();
    let keys = Known { psk: true, log: None };
    let mut handshake = OverheardHandshake::default();
    let mut known = hear(&mut handshake, &twice, &keys).unwrap().unwrap();
    let sent = data(&mut client, 7);
    assert_eq!(opened(&mut known, true, &sent), Some(std::vec![7]));
    assert!(hear(&mut handshake, &recording[..1], &keys).is_none(), "the same hello again");
}

#[test]
fn master_secret_opens_ephemeral_suites() {
    let ([client, mut server], recording) = recorded(settings(ECDHE), settings(ECDHE));
    let log = client.key_log();
    assert_eq!(log, server.key_log());
    let closed = hear(&mut OverheardHandshake::default(), &recording, &Known { psk: true, log: None });
    assert_eq!(closed.unwrap().unwrap_err(), ClosedError::ForwardSecret(ECDHE.number()));
    let keys = Known { psk: false, log };
    let mut known = hear(&mut OverheardHandshake::default(), &recording, &keys).unwrap().unwrap();
    let sent = data(&mut server, 9);
    assert_eq!(opened(&mut known, false, &sent), Some(std::vec![9]));
}

#[test]
fn closed_connections_say_why() {
    let (_, recording) = recorded(settings(PSK), settings(PSK));
    let why = |recording: &[_], keys| hear(&mut OverheardHandshake::default(), recording, &keys);
    let unknown = ClosedError::UnknownIdentity(IDENTITY.to_vec());
    assert_eq!(why(&recording, Known::default()).unwrap().unwrap_err(), unknown);
    // Without the server's flight nothing is known of the suite.
    let by_client: Vec<_> = recording.iter().filter(|(from_client, _)| *from_client).cloned().collect();
    let keys = Known { psk: true, log: None };
    assert_eq!(why(&by_client, keys).unwrap().unwrap_err(), ClosedError::Incomplete);
    let mut other = recording;
    // The suite in the ServerHello: behind header, version, random and an empty session.
    other[1].1[HEADER_LEN + 12 + 2 + 32 + 1 + 1] ^= 0x40;
    let closed = why(&other, Known { psk: true, log: None }).unwrap().unwrap_err();
    assert!(matches!(closed, ClosedError::Suite(_)), "{closed}");
    for cut in 0..other[0].1.len() {
        let _ = why(&[(true, other[0].1[..cut].to_vec())], Known::default());
    }
}
