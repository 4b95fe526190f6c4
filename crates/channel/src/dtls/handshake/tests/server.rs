//! The server's checks of the client's messages.

use antedate_wire::dtls::handshake::{AlertDescription, ServerHello, ServerKeyExchange};

use super::super::group::Group;
use super::*;

const EMS: ExtensionType = ExtensionType::ExtendedMasterSecret;
const GROUPS: ExtensionType = ExtensionType::SupportedGroups;
const FORMATS: ExtensionType = ExtensionType::EcPointFormats;
const CID: ExtensionType = ExtensionType::ConnectionId;
const SECURE: ExtensionType = ExtensionType::RenegotiationInfo;

/// A ClientHello.
#[derive(Clone)]
pub(super) struct Hello {
    pub(super) version: u16,
    pub(super) random: [u8; 32],
    pub(super) session: Vec<u8>,
    pub(super) cookie: Vec<u8>,
    pub(super) suites: Vec<u16>,
    pub(super) compressions: Vec<u8>,
    pub(super) extensions: Vec<u8>,
}

impl Hello {
    pub(super) fn new() -> Self {
        let extensions =
            extensions(&[(EMS, &[]), (GROUPS, &[0, 4, 0, 23, 0, 29]), (FORMATS, &[1, 0]), (CID, b"\x03cli")]);
        Self {
            version: VERSION_1_2,
            random: [3; 32],
            session: Vec::new(),
            cookie: Vec::new(),
            suites: [PSK.number(), ECDHE.number(), 0x00ff].into(),
            compressions: [1, 0].into(),
            extensions,
        }
    }

    pub(super) fn body(&self) -> Vec<u8> {
        let suites: Vec<u8> = self.suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
        body(|writer| {
            writer.integer16(self.version).octets(&self.random).vector8(&self.session).vector8(&self.cookie);
            writer.vector16(&suites).vector8(&self.compressions).octets(&self.extensions);
        })
    }

    pub(super) fn datagram(&self) -> Vec<u8> {
        message(HandshakeType::ClientHello, 0, &self.body())
    }
}

fn accept(settings: Settings, hello: &Hello) -> Result<Connection, (Dropped, Option<Vec<u8>>)> {
    Connection::accept(settings, &hello.datagram(), 0, &mut |out| out.fill(5))
}

fn both() -> Settings {
    Settings { suites: [ECDHE, PSK].into(), cid: cid(b"srv"), ..settings(PSK) }
}

#[test]
fn unacceptable_hello_is_answered_by_alert() {
    use AlertDescription::{DecodeError, HandshakeFailure, IllegalParameter, ProtocolVersion};
    let good = Hello::new();
    let strict = Settings { require_extended_master_secret: true, ..both() };
    let with = |list: &[(ExtensionType, &[u8])]| Hello { extensions: extensions(list), ..good.clone() };
    let cases = [
        (good.clone(), both(), None),
        (good.clone(), strict.clone(), None),
        (with(&[]), both(), None),
        (with(&[]), strict, Some(HandshakeFailure)),
        (Hello { version: 0xfeff, ..good.clone() }, both(), Some(ProtocolVersion)),
        (Hello { version: 0xfefe, ..good.clone() }, both(), Some(ProtocolVersion)),
        (Hello { version: 0xfefc, ..good.clone() }, both(), None),
        (with(&[(ExtensionType::SupportedVersions, &[2, 0xfe, 0xfc])]), both(), Some(ProtocolVersion)),
        (Hello { suites: [0xc0ff].into(), ..good.clone() }, both(), Some(HandshakeFailure)),
        (Hello { suites: [ECDHE.number()].into(), ..good.clone() }, both(), None),
        (Hello { suites: [ECDHE.number()].into(), ..good.clone() }, settings(PSK), Some(HandshakeFailure)),
        (Hello { suites: [ECDHE.number()].into(), ..with(&[]) }, both(), Some(HandshakeFailure)),
        (
            Hello { suites: [ECDHE.number()].into(), ..with(&[(GROUPS, &[0, 2, 0, 24])]) },
            both(),
            Some(HandshakeFailure),
        ),
        (Hello { suites: [ECDHE.number()].into(), ..with(&[(GROUPS, &[0, 2, 0, 23])]) }, both(), None),
        // The length of the list is no group.
        (
            Hello { suites: [ECDHE.number()].into(), ..with(&[(GROUPS, &[0, 29, 0, 24])]) },
            both(),
            Some(HandshakeFailure),
        ),
        (Hello { compressions: [1].into(), ..good.clone() }, both(), Some(IllegalParameter)),
        (with(&[(CID, &[])]), both(), Some(DecodeError)),
        (with(&[(CID, &[3, 1])]), both(), Some(DecodeError)),
    ];
    for (number, (hello, settings, expected)) in cases.into_iter().enumerate() {
        match (accept(settings, &hello), expected) {
            (Ok(server), None) => assert_eq!(server.step, Step::ClientKeyExchange, "{number}"),
            (Err((refusal, answer)), Some(description)) => {
                assert_eq!(refusal, Dropped::Handshake, "{number}");
                let alert = Alert { fatal: true, description };
                let expected = plain(ContentType::Alert, &alert.emit());
                assert_eq!(answer, Some(expected), "{number}: its number is that of the hello");
            }
            (other, expected) => panic!("{number}: {expected:?}, not {:?}", other.is_ok()),
        }
    }
}

#[test]
fn refused_offer_is_explained() {
    use super::super::Offer;
    use crate::dtls::Cause;
    let strict = Settings { require_extended_master_secret: true, ..both() };
    let ecdhe = Hello { suites: [ECDHE.number()].into(), ..Hello::new() };
    let with = |hello: &Hello, list: &[(ExtensionType, &[u8])]| Hello {
        extensions: extensions(list),
        ..hello.clone()
    };
    let curve: (ExtensionType, &[u8]) = (GROUPS, &[0, 2, 0, 29]);
    let only_1_3: (ExtensionType, &[u8]) = (ExtensionType::SupportedVersions, &[2, 0xfe, 0xfc]);
    let also_1_2: (ExtensionType, &[u8]) = (ExtensionType::SupportedVersions, &[4, 0xfe, 0xfc, 0xfe, 0xfd]);
    for (hello, settings, cause, expected) in [
        (Hello { version: 0xfeff, ..Hello::new() }, both(), Cause::Version, "DTLS 1.0 only"),
        (with(&Hello::new(), &[only_1_3]), both(), Cause::Version, "DTLS 1.3 only"),
        (with(&Hello::new(), &[also_1_2]), both(), Cause::Message, "breaks a rule"),
        (Hello { suites: [0xc0ff].into(), ..Hello::new() }, both(), Cause::Suite, "no cipher suite"),
        (ecdhe.clone(), settings(PSK), Cause::Suite, "no cipher suite"),
        (with(&ecdhe, &[(GROUPS, &[0, 2, 0, 24])]), both(), Cause::Group, "which the client lacks"),
        (with(&Hello::new(), &[]), strict.clone(), Cause::MasterSecret, "--allow-plain-master-secret"),
        (with(&ecdhe, &[curve]), strict, Cause::MasterSecret, "--allow-plain-master-secret"),
        (with(&ecdhe, &[curve]), both(), Cause::Message, "breaks a rule"),
        (Hello::new(), both(), Cause::Message, "breaks a rule"),
    ] {
        let offer = Offer::of(&hello.datagram()).unwrap();
        let (found, text) = offer.mismatch(&settings);
        assert_eq!(found, cause);
        assert!(text.contains(expected), "{text}");
    }
    let offer =
        Offer::of(&Hello { suites: [PSK.number(), 0xc0ff].into(), ..Hello::new() }.datagram()).unwrap();
    let shown = std::format!("versions 1.2, suites {PSK} 0xc0ff, groups P-256 X25519");
    assert_eq!(std::format!("{offer}"), shown);
    let both = Offer::of(&with(&ecdhe, &[also_1_2]).datagram()).unwrap();
    assert_eq!(std::format!("{both}"), std::format!("versions 1.3 1.2, suites {ECDHE}, groups"));
    assert_eq!(Offer::of(&plain(ContentType::ApplicationData, b"x")), None);
}

#[test]
fn unreadable_hello_gets_no_answer() {
    let good = Hello::new().datagram();
    let other = |at: usize, value: u8| {
        let mut changed = good.clone();
        changed[at] = value;
        changed
    };
    let body = Hello::new().body();
    let cut = Fragment {
        kind: HandshakeType::ClientHello,
        length: body.len() + 1,
        message: 0,
        offset: 0,
        octets: &body,
    };
    let late = Fragment { offset: 1, ..cut };
    let fragment = |fragment: &Fragment<'_>| {
        plain(ContentType::Handshake, &[&fragment.header()[..], fragment.octets].concat())
    };
    let cases = [
        (good[..12].to_vec(), Dropped::Malformed),
        (other(0, 23), Dropped::UnknownConnection),
        (other(4, 1), Dropped::UnknownConnection),
        (plain(ContentType::Handshake, &[1; 5]), Dropped::Handshake),
        (other(HEADER_LEN, 2), Dropped::Handshake),
        (fragment(&cut), Dropped::Handshake),
        (fragment(&late), Dropped::Handshake),
        (message(HandshakeType::ClientHello, 0, &body[..30]), Dropped::Handshake),
    ];
    for (datagram, expected) in cases {
        let accepted = Connection::accept(both(), &datagram, 0, &mut |_| {});
        assert_eq!(accepted.err(), Some((expected, None)), "{datagram:?}");
    }
}

#[test]
fn hello_numbers_are_bounded() {
    let datagram = |sequence: u64, number: u16| {
        let hello = message(HandshakeType::ClientHello, number, &Hello::new().body());
        let (record, _) = Record::parse(&hello, 0).unwrap();
        octets(&Record { sequence, ..record })
    };
    for (sequence, number, fits) in [(4096, 4096, true), (4097, 0, false), (0, 4097, false)] {
        let accepted = Connection::accept(both(), &datagram(sequence, number), 0, &mut |_| {});
        assert_eq!(accepted.is_ok(), fits, "{sequence} {number}");
        // The server's numbers follow the client's.
        let Ok(mut server) = accepted else { continue };
        assert_eq!(server.assembly.next(), number + 1);
        let flight = server.transmit().unwrap();
        let (record, _) = Record::parse(&flight, 0).unwrap();
        let (fragment, _) = Fragment::parse(record.fragment).unwrap();
        assert_eq!((record.sequence, fragment.message), (sequence, number));
    }
}

#[test]
fn server_hello_says_what_was_agreed() {
    let with = |list: &[(ExtensionType, &[u8])]| Hello { extensions: extensions(list), ..Hello::new() };
    let curve: (ExtensionType, &[u8]) = (GROUPS, &[0, 2, 0, 29]);
    let without_scsv = Hello { suites: [ECDHE.number()].into(), ..with(&[curve, (SECURE, &[0])]) };
    let neither = Hello { suites: [ECDHE.number()].into(), ..with(&[curve]) };
    type Extension<'a> = (ExtensionType, &'a [u8]);
    let formats: Extension<'_> = (FORMATS, &[1, 0]);
    let secure: Extension<'_> = (SECURE, &[0]);
    let cids: Extension<'_> = (CID, b"\x03srv");
    let too_long = [&[33][..], &[7; 33]].concat();
    let cases: [(Hello, Settings, CipherSuite, &[Extension<'_>]); 8] = [
        (Hello::new(), both(), ECDHE, &[(EMS, &[]), secure, formats, cids]),
        (Hello::new(), Settings { cid: cid(b"srv"), ..settings(PSK) }, PSK, &[(EMS, &[]), secure, cids]),
        (Hello::new(), Settings { cid: None, ..both() }, ECDHE, &[(EMS, &[]), secure, formats]),
        (with(&[curve]), both(), ECDHE, &[secure]),
        (without_scsv, both(), ECDHE, &[secure]),
        (neither, both(), ECDHE, &[]),
        (with(&[(CID, &[0])]), both(), PSK, &[secure, cids]),
        (with(&[(CID, &too_long)]), both(), PSK, &[secure]),
    ];
    for (number, (hello, settings, suite, expected)) in cases.into_iter().enumerate() {
        let mut server = accept(settings, &hello).unwrap();
        let flight = server.transmit().unwrap();
        let messages: Vec<_> = split(&flight, 0);
        let parts: Vec<Vec<u8>> = messages.iter().map(|record| record[HEADER_LEN..].to_vec()).collect();
        let fragments: Vec<_> = parts.iter().map(|part| Fragment::parse(part).unwrap().0).collect();
        let says = ServerHello::parse(fragments[0].octets).unwrap();
        assert_eq!((says.version, says.random, says.compression), (VERSION_1_2, [5; 32], 0), "{number}");
        assert_eq!((says.suite, says.session), (suite.number(), &[][..]), "{number}");
        assert!(says.extensions.iter().eq(expected.iter().copied()), "{number}: {says:?}");
        let agreed = expected.contains(&cids);
        assert_eq!(server.local_cid().as_slice(), if agreed { &b"srv"[..] } else { b"" }, "{number}");
        assert_eq!(server.extended_master_secret, expected.contains(&(EMS, &[])), "{number}");
        let kinds: Vec<_> = fragments.iter().map(|fragment| (fragment.kind, fragment.message)).collect();
        use HandshakeType::{ServerHelloDone, ServerKeyExchange as Exchange};
        if suite.is_ecdhe() {
            assert_eq!(kinds[1..], [(Exchange, 1), (ServerHelloDone, 2)]);
            let exchange = ServerKeyExchange::parse(fragments[1].octets, true).unwrap();
            assert_eq!(
                (exchange.hint, exchange.share),
                (&[][..], Some((29, &Group::X25519.public(&server.ephemeral).unwrap()[..])))
            );
        } else {
            assert_eq!(kinds[1..], [(ServerHelloDone, 1)]);
        }
    }
}

#[test]
fn clients_exchange_must_fit_the_suite() {
    let exchange = |identity: &[u8], share: Option<&[u8]>| {
        body(|writer| {
            writer.vector16(identity);
            if let Some(share) = share {
                writer.vector8(share);
            }
        })
    };
    let unreadable = "a ClientKeyExchange cannot be read";
    let cases = [
        (PSK, exchange(IDENTITY, None), ""),
        (PSK, exchange(IDENTITY, Some(&[9; 32])), unreadable),
        (PSK, exchange(b"turbine 4", None), "nobody has the client's identity"),
        (ECDHE, exchange(IDENTITY, Some(&[9; 32])), ""),
        (ECDHE, exchange(IDENTITY, None), unreadable),
        (ECDHE, exchange(IDENTITY, Some(&[9; 31])), "the client's ephemeral key is no key"),
        (ECDHE, exchange(IDENTITY, Some(&[0; 32])), "the ephemeral key is of low order"),
    ];
    for (suite, exchange, expected) in cases {
        let mut server = accept(settings(suite), &Hello::new()).unwrap();
        while server.transmit().is_some() {}
        let before = server.hash();
        hand(&mut server, &message(HandshakeType::ClientKeyExchange, 1, &exchange));
        let fits = expected.is_empty();
        assert_eq!(server.step, if fits { Step::Finished } else { Step::ClientKeyExchange }, "{expected}");
        assert_eq!(server.hash() != before, fits, "{expected}");
        let unknown = expected.starts_with("nobody");
        assert_eq!(
            server.identity(),
            match (fits, unknown) {
                (true, _) => IDENTITY,
                (_, true) => b"turbine 4",
                _ => b"",
            }
        );
        // Only an unknown identity is answered.
        let alert = Alert { fatal: true, description: AlertDescription::UnknownPskIdentity }.emit();
        let said = server.transmit().map(|datagram| datagram[HEADER_LEN..].to_vec());
        assert_eq!(said, unknown.then(|| alert.to_vec()), "{expected}");
        assert_eq!(reason(server), expected);
    }
}

#[test]
fn wrong_finished_is_not_accepted() {
    for suite in [PSK, ECDHE] {
        // The client's, with one bit changed, one octet less, and one more.
        let ([mut client, mut server], _) = before_finished(suite);
        let before = server.hash();
        for wrong in [&[0; 12][..], &[0; 11], &[0; 13], &[]] {
            let datagram = say(&mut client, HandshakeType::Finished, 2, wrong, true);
            assert_eq!(hand(&mut server, &datagram), (false, Vec::new()));
            assert_eq!((server.step, server.phase()), (Step::Finished, Phase::Handshaking));
            assert_eq!((server.hash(), server.transmit()), (before.clone(), None), "nothing is said on it");
        }
        assert_eq!(server.refusals().bad_handshake, 4);
        assert_eq!(reason(server), "the Finished is wrong");
        // The server's.
        let ([mut client, mut server], _) = before_finished(suite);
        let number = client.assembly.next();
        let datagram = say(&mut server, HandshakeType::Finished, number, &[0; 12], true);
        assert_eq!(hand(&mut client, &datagram).1, []);
        assert_eq!(client.phase(), Phase::Handshaking);
        assert_eq!(reason(client), "the Finished is wrong");
    }
}

#[test]
fn finished_must_be_protected() {
    let ([mut client, mut server], _) = before_finished(PSK);
    let [_, Piece::Message { body: right, .. }] = client.finished().unwrap() else { panic!("no Finished") };
    // Even the right octets, as an attacker cannot know them.
    hand(&mut server, &message(HandshakeType::Finished, 2, &right));
    assert_eq!((server.step, server.phase()), (Step::Finished, Phase::Handshaking));
    // Another message under the new keys is none either.
    let datagram = say(&mut client, HandshakeType::ClientKeyExchange, 2, &right, true);
    hand(&mut server, &datagram);
    assert_eq!(server.refusals().bad_handshake, 2);
    assert_eq!(reason(server), "a message came in the wrong epoch");
}

#[test]
fn exchange_is_taken_once() {
    let ([_, mut server], _) = before_finished(PSK);
    let exchange = body(|writer| {
        writer.vector16(IDENTITY);
    });
    hand(&mut server, &message(HandshakeType::ClientKeyExchange, 2, &exchange));
    assert_eq!(server.step, Step::Finished);
    assert_eq!(reason(server), "a message came out of turn");
    // Before the exchange there is no Finished.
    let mut server = accept(settings(PSK), &Hello::new()).unwrap();
    server.step = Step::ClientKeyExchange;
    hand(&mut server, &message(HandshakeType::ClientHello, 1, &[]));
    assert_eq!(reason(server), "a message came out of turn");
}
