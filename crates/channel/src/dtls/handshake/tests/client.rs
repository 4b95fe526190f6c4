//! The client's checks of the server's messages.

use antedate_wire::dtls::handshake::ClientHello;

use super::*;

/// A ServerHello.
#[derive(Clone)]
struct Hello {
    version: u16,
    suite: u16,
    compression: u8,
    extensions: Vec<u8>,
}

impl Hello {
    fn new(suite: CipherSuite) -> Self {
        let extensions = extensions(&[(ExtensionType::ExtendedMasterSecret, &[])]);
        Self { version: VERSION_1_2, suite: suite.number(), compression: 0, extensions }
    }

    fn message(&self, number: u16) -> Vec<u8> {
        let body = body(|writer| {
            writer.integer16(self.version).octets(&[5; 32]).vector8(&[]).integer16(self.suite);
            writer.octets(&[self.compression]).octets(&self.extensions);
        });
        message(HandshakeType::ServerHello, number, &body)
    }
}

const EMS: ExtensionType = ExtensionType::ExtendedMasterSecret;
const CID: ExtensionType = ExtensionType::ConnectionId;

#[test]
fn every_field_of_server_hello_counts() {
    let good = Hello::new(PSK);
    let strict = Settings { require_extended_master_secret: true, ..settings(PSK) };
    let without_cid = Settings { cid: None, ..settings(PSK) };
    let with = |list: &[(ExtensionType, &[u8])]| Hello { extensions: extensions(list), ..good.clone() };
    let longest = [&[32][..], &[7; 32]].concat();
    let too_long = [&[33][..], &[7; 33]].concat();
    let cases = [
        (good.clone(), strict.clone(), ""),
        (with(&[]), settings(PSK), ""),
        (with(&[]), strict, "the server has no extended master secret"),
        (
            Hello { version: 0xfeff, ..good.clone() },
            settings(PSK),
            "the server wants another version than DTLS 1.2",
        ),
        (
            Hello { version: 0xfefc, ..good.clone() },
            settings(PSK),
            "the server wants another version than DTLS 1.2",
        ),
        (
            Hello { suite: ECDHE.number(), ..good.clone() },
            settings(PSK),
            "the server chose a cipher suite that was not offered",
        ),
        (Hello { compression: 1, ..good.clone() }, settings(PSK), "the server wants to compress"),
        (with(&[(CID, &[])]), settings(PSK), "a connection ID cannot be read"),
        (with(&[(CID, &[1, 2, 3])]), settings(PSK), "a connection ID cannot be read"),
        (with(&[(CID, &[1, 2])]), without_cid.clone(), "the server speaks of connection IDs unasked"),
        (with(&[]), without_cid, ""),
        (with(&[(CID, &longest)]), settings(PSK), ""),
        (with(&[(CID, &too_long)]), settings(PSK), "the server's connection ID is too long"),
        (Hello { extensions: [0].into(), ..good }, settings(PSK), "a ServerHello cannot be read"),
    ];
    for (hello, settings, expected) in cases {
        let mut client = client(settings);
        hand(&mut client, &hello.message(0));
        let fits = expected.is_empty();
        assert_eq!(client.step, if fits { Step::ServerHelloDone } else { Step::ServerHello }, "{expected}");
        assert_eq!(client.suite(), fits.then_some(PSK));
        assert_eq!(client.refusals().bad_handshake, u64::from(!fits), "{expected}");
        assert_eq!(reason(client), expected);
    }
}

#[test]
fn server_hello_sets_the_parameters() {
    let ours = Settings { cid: cid(b"ours"), ..settings(PSK) };
    let mut hello = Hello::new(PSK);
    for (list, extended, cids) in [
        (&[(EMS, &[][..]), (CID, &[2, b'h', b'i'])][..], true, [&b"ours"[..], b"hi"]),
        (&[(CID, &[0])], false, [b"ours", b""]),
        (&[], false, [b"", b""]),
    ] {
        hello.extensions = extensions(list);
        let mut client = client(ours.clone());
        hand(&mut client, &hello.message(0));
        assert_eq!(client.extended_master_secret, extended);
        assert_eq!([client.local_cid().as_slice(), client.remote_cid().as_slice()], cids);
        assert_eq!(client.randoms, [[3; 32], [5; 32]]);
    }
}

#[test]
fn right_message_follows_a_forged_one() {
    let mut client = client(settings(PSK));
    hand(&mut client, &Hello { version: 0, ..Hello::new(PSK) }.message(0));
    assert_eq!(client.step, Step::ServerHello);
    let mut server = server(settings(PSK), &mut client);
    pass(&mut server, &mut client);
    assert_eq!(pass(&mut client, &mut server), [Seen::Established]);
    assert_eq!(pass(&mut server, &mut client), [Seen::Established]);
}

#[test]
fn servers_share_must_fit_the_suite() {
    let share = |group: u16, key: &[u8]| {
        body(|writer| {
            writer.vector16(b"hint").server_share(group, key);
        })
    };
    let hint = body(|writer| {
        writer.vector16(b"hint");
    });
    let missing = "the server's part of the key exchange is missing";
    let cases = [
        (ECDHE, Some(share(29, &[9; 32])), ""),
        (ECDHE, None, missing),
        (ECDHE, Some(hint.clone()), "a ServerKeyExchange cannot be read"),
        (ECDHE, Some(share(23, &[9; 65])), "the server's ephemeral key is no key"),
        (ECDHE, Some(share(24, &[9; 32])), "the server chose a group that was not offered"),
        (ECDHE, Some(share(29, &[9; 31])), "the server's ephemeral key is no key"),
        (ECDHE, Some(share(29, &[0; 32])), "the ephemeral key is of low order"),
        (PSK, None, ""),
        (PSK, Some(hint), ""),
    ];
    for (suite, exchange, expected) in cases {
        let mut client = client(settings(suite));
        hand(&mut client, &Hello::new(suite).message(0));
        let sent = client.next_message;
        let mut number = 1;
        if let Some(exchange) = exchange {
            hand(&mut client, &message(HandshakeType::ServerKeyExchange, number, &exchange));
            number += u16::from(client.refusals().bad_handshake == 0);
        }
        let refused = client.refusals().bad_handshake;
        hand(&mut client, &message(HandshakeType::ServerHelloDone, number, &[]));
        let fits = expected.is_empty();
        assert_eq!(client.step, if fits { Step::Finished } else { Step::ServerHelloDone }, "{expected}");
        // Nothing is said on a wrong exchange.
        assert_eq!(client.next_message, if fits { sent + 2 } else { sent }, "{expected}");
        if refused == 0 {
            assert_eq!(reason(client), expected);
        } else {
            assert_eq!(reason(client), missing, "{expected}");
        }
    }
}

#[test]
fn refused_exchange_gives_its_reason() {
    for (suite, group, len, expected) in [
        (PSK, 29, 32, "a ServerKeyExchange cannot be read"),
        (ECDHE, 23, 32, "the server's ephemeral key is no key"),
        (ECDHE, 24, 32, "the server chose a group that was not offered"),
        (ECDHE, 29, 33, "the server's ephemeral key is no key"),
        (ECDHE, 29, 31, "the server's ephemeral key is no key"),
    ] {
        let mut client = client(settings(suite));
        hand(&mut client, &Hello::new(suite).message(0));
        let exchange = body(|writer| {
            writer.vector16(&[]).server_share(group, &[9; 40][..len]);
        });
        hand(&mut client, &message(HandshakeType::ServerKeyExchange, 1, &exchange));
        assert_eq!(client.peer_share, None);
        assert_eq!(reason(client), expected);
    }
}

#[test]
fn server_hello_done_is_empty() {
    let mut client = client(settings(PSK));
    hand(&mut client, &Hello::new(PSK).message(0));
    hand(&mut client, &message(HandshakeType::ServerHelloDone, 1, &[0]));
    assert_eq!(client.step, Step::ServerHelloDone);
    hand(&mut client, &message(HandshakeType::ServerHelloDone, 1, &[]));
    assert_eq!(client.step, Step::Finished);
}

#[test]
fn overlong_identity_is_no_exchange() {
    let who = Client { identity: [7; 1024].into(), key: key() };
    let mut client = Connection::connect(settings(PSK), who, 0, &mut |out| out.fill(3));
    hand(&mut client, &Hello::new(PSK).message(0));
    hand(&mut client, &message(HandshakeType::ServerHelloDone, 1, &[]));
    assert_eq!(client.step, Step::ServerHelloDone);
    assert_eq!(reason(client), "the identity is too long");
}

#[test]
fn messages_out_of_turn_change_nothing() {
    use HandshakeType::{
        ClientHello, ClientKeyExchange, Finished, HelloRequest, HelloVerifyRequest, ServerHello,
        ServerHelloDone, ServerKeyExchange,
    };
    let all = [
        HelloRequest,
        ClientHello,
        ServerHello,
        HelloVerifyRequest,
        ServerKeyExchange,
        ServerHelloDone,
        ClientKeyExchange,
        HandshakeType::Unknown(99),
    ];
    for (step, legal) in [
        (Step::ServerHello, &[ServerHello, HelloVerifyRequest][..]),
        (Step::ServerHelloDone, &[ServerKeyExchange, ServerHelloDone]),
        (Step::Finished, &[]),
        (Step::Done, &[]),
    ] {
        for kind in all.iter().filter(|kind| !legal.contains(kind)) {
            let mut client = client(settings(PSK));
            client.step = step;
            let before = client.hash();
            hand(&mut client, &message(*kind, 0, &[]));
            assert_eq!((client.step, client.hash()), (step, before), "{kind:?}");
            assert_eq!(reason(client), "a message came out of turn", "{kind:?}");
        }
    }
    // A Finished needs protection, and nothing else has it.
    let mut client = client(settings(PSK));
    client.step = Step::Finished;
    hand(&mut client, &message(Finished, 0, &[0; 12]));
    assert_eq!(client.step, Step::Finished);
    assert_eq!(reason(client), "a message came in the wrong epoch");
}

#[test]
fn client_asks_four_times_at_most() {
    let mut client = client(settings(PSK));
    let request = body(|writer| {
        writer.integer16(0xfeff).vector8(b"cookie");
    });
    let mut hellos = 0;
    for number in 0..9 {
        if let Some(datagram) = client.transmit() {
            hellos += 1;
            let (record, _) = Record::parse(&datagram, 0).unwrap();
            let (fragment, _) = Fragment::parse(record.fragment).unwrap();
            let hello = ClientHello::parse(fragment.octets).unwrap();
            assert_eq!((hello.random, fragment.message), ([3; 32], number));
            assert_eq!(hello.cookie, if number == 0 { &b""[..] } else { b"cookie" });
        }
        hand(&mut client, &message(HandshakeType::HelloVerifyRequest, number, &request));
    }
    assert_eq!(hellos, 4);
    assert_eq!(reason(client), "a message came out of turn");
}

#[test]
fn unreadable_cookie_is_not_answered() {
    let mut client = client(settings(PSK));
    client.transmit().unwrap();
    hand(&mut client, &message(HandshakeType::HelloVerifyRequest, 0, &[0xfe, 0xff, 9]));
    assert_eq!(client.transmit(), None);
    assert_eq!(reason(client), "a HelloVerifyRequest cannot be read");
}

#[test]
fn client_hello_says_what_is_configured() {
    let hello_of = |settings: Settings, check: &dyn Fn(&ClientHello<'_>)| {
        let datagram = client(settings).transmit().unwrap();
        let (record, _) = Record::parse(&datagram, 0).unwrap();
        assert_eq!((record.version, record.epoch), (0xfeff, 0));
        let (fragment, _) = Fragment::parse(record.fragment).unwrap();
        let hello = ClientHello::parse(fragment.octets).unwrap();
        assert_eq!((hello.version, hello.session, hello.compressions), (VERSION_1_2, &[][..], &[0][..]));
        check(&hello);
    };
    hello_of(Settings { suites: [PSK, ECDHE].into(), cid: cid(b"abc"), ..settings(PSK) }, &|hello| {
        assert!(hello.suites().eq([PSK.number(), ECDHE.number(), 0x00ff]));
        let kinds: Vec<_> = hello.extensions.iter().collect();
        let expected: [(_, &[u8]); 4] = [
            (EMS, &[]),
            (ExtensionType::SupportedGroups, &[0, 4, 0, 29, 0, 23]),
            (ExtensionType::EcPointFormats, &[1, 0]),
            (CID, b"\x03abc"),
        ];
        assert_eq!(kinds, expected);
    });
    hello_of(Settings { cid: None, ..settings(PSK) }, &|hello| {
        assert!(hello.extensions.iter().eq([(EMS, &[][..])]));
    });
}
