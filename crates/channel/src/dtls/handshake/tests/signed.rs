//! Handshakes with raw public keys and certificates: each check of both sides. A "certificate" here is
//! any octets, which the test's keyring knows.

use antedate_wire::dtls::handshake::certificates::{CertificateType, ECDSA_SIGN, Signature, SignatureScheme};
use sha2::{Digest, Sha256};

use super::super::group::Group;
use super::super::misfit::{NO_COMMON_TYPE, WRONG_SIGNATURE};
use super::super::{Asks, Offer};
use super::*;
use crate::dtls::{
    Cause, Certificate, Credentials, Distrust, PublicKey, RawPublicKey, Shown, SigningKey, Trusted,
};

const ECDSA: CipherSuite = CipherSuite::EcdheEcdsaAes128Ccm8;
const RAW: CertificateType = CertificateType::RawPublicKey;
const X509: CertificateType = CertificateType::X509;
/// What stands for certificates of client and server.
const CERTIFICATES: [&[u8]; 2] = [b"the client's certificate", b"the server's certificate"];

fn signing(by_server: bool) -> SigningKey {
    SigningKey::new(&[if by_server { 9 } else { 8 }; 32]).unwrap()
}

fn raw(by_server: bool) -> Credentials {
    Credentials::RawPublicKey(RawPublicKey::new(signing(by_server)))
}

/// A chain as long as that of an authority with one in between.
fn certificate(by_server: bool) -> Credentials {
    let chain = [CERTIFICATES[usize::from(by_server)].to_vec(), std::vec![5; 2500]];
    Credentials::Certificate(Certificate::new(signing(by_server), &chain).unwrap())
}

/// Knows the keys of both, and the pre-shared key.
struct Both(Option<Distrust>);

impl Keyring for Both {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        OneKey.key(identity)
    }

    fn judge(&self, shown: &Shown) -> Result<Trusted, Distrust> {
        if let Some(reason) = self.0 {
            return Err(reason);
        }
        let key = signing(shown.by_server()).public();
        let entries = shown.entries();
        let known = match shown.kind() {
            X509 => entries[0] == CERTIFICATES[usize::from(shown.by_server())],
            _ => PublicKey::from_spki(entries[0]).ok_or(Distrust::Key)? == key,
        };
        let identity = if shown.by_server() { b"plant".to_vec() } else { b"turbine".to_vec() };
        known.then_some(Trusted { identity, key }).ok_or(Distrust::Unlisted)
    }
}

fn of_client(suite: CipherSuite) -> Settings {
    Settings { accepts: [RAW, X509].into(), require_extended_master_secret: true, ..settings(suite) }
}

fn of_server(suite: CipherSuite, own: Credentials) -> Settings {
    Settings { credentials: [own].into(), ..of_client(suite) }
}

fn client_with(settings: Settings, own: Credentials) -> Connection {
    Connection::connect(settings, own, 0, &mut |out| out.fill(3))
}

fn give(to: &mut Connection, datagram: &[u8], keyring: &Both) -> bool {
    let mut established = false;
    to.handle(datagram, 0, keyring, &mut |event| established |= event == Event::Established);
    established
}

fn pass(from: &mut Connection, to: &mut Connection, keyring: &Both) -> bool {
    let mut established = false;
    while let Some(datagram) = from.transmit() {
        established |= give(to, &datagram, keyring);
    }
    established
}

/// Runs a handshake to its end.
fn shake(of_client: Settings, own: Credentials, of_server: Settings) -> [Connection; 2] {
    let mut client = client_with(of_client, own);
    let mut server = server(of_server, &mut client);
    let good = Both(None);
    pass(&mut server, &mut client, &good);
    pass(&mut client, &mut server, &good);
    pass(&mut server, &mut client, &good);
    [client, server]
}

fn is_established(both: &[Connection; 2]) -> bool {
    both.iter().all(|one| one.phase() == Phase::Established)
}

#[test]
fn every_suite_proves_both_sides() {
    for suite in CipherSuite::ALL.iter().copied().filter(|suite| !suite.is_psk()) {
        for (own, other) in [(raw as fn(_) -> _, raw as fn(_) -> _), (certificate, certificate)] {
            let mut both = shake(of_client(suite), own(false), of_server(suite, other(true)));
            assert!(is_established(&both), "{suite} {both:?}");
            assert_eq!((both[0].identity(), both[1].identity()), (&b"plant"[..], &b"turbine"[..]));
            assert!(both[0].shown().unwrap().by_server() && !both[1].shown().unwrap().by_server());
            let [client, server] = &mut both;
            let datagram = data(client, 7);
            assert_eq!(hand(server, &datagram).1, [Seen::Data([7].into())]);
        }
    }
}

#[test]
fn each_side_shows_what_the_other_takes() {
    let both_kinds = |by_server| std::vec![raw(by_server), certificate(by_server)];
    for (accepts, own, seen) in [
        ([X509].to_vec(), certificate(false), X509),
        ([RAW].to_vec(), certificate(false), RAW),
        ([RAW].to_vec(), raw(false), RAW),
        ([X509, RAW].to_vec(), raw(false), RAW),
    ] {
        let of_server = Settings { credentials: both_kinds(true), ..of_server(ECDSA, raw(true)) };
        let both = shake(Settings { accepts, ..of_client(ECDSA) }, own, of_server);
        assert!(is_established(&both), "{both:?}");
        assert_eq!(both[0].shown().unwrap().kind(), seen);
    }
}

#[test]
fn sides_without_common_kind_are_told() {
    // The server has a raw public key, and the client accepts certificates.
    let mut client = client_with(Settings { accepts: [X509].into(), ..of_client(ECDSA) }, certificate(false));
    let hello = client.transmit().unwrap();
    let settings = of_server(ECDSA, raw(true));
    let refused = Connection::accept(settings.clone(), &hello, 0, &mut |_| {});
    assert!(refused.is_err());
    let offer = Offer::of(&hello).unwrap();
    assert_eq!(offer.mismatch(&settings), (Cause::CertificateType, NO_COMMON_TYPE));
    // The server wants certificates of clients.
    let mut client = client_with(of_client(ECDSA), raw(false));
    let hello = client.transmit().unwrap();
    let settings = Settings { accepts: [X509].into(), ..of_server(ECDSA, certificate(true)) };
    assert_eq!(Offer::of(&hello).unwrap().mismatch(&settings), (Cause::CertificateType, NO_COMMON_TYPE));
    assert!(Connection::accept(settings.clone(), &hello, 0, &mut |_| {}).is_err());
    // Asked politely, it need not.
    let settings = Settings { asks: Asks::Politely, ..settings };
    assert!(Connection::accept(settings.clone(), &hello, 0, &mut |_| {}).is_ok());
    // A server with a pre-shared key alone.
    let settings = super::settings(ECDSA);
    let (cause, reason) = Offer::of(&hello).unwrap().mismatch(&settings);
    assert!(cause == Cause::Suite && reason.contains("--key"), "{reason}");
}

#[test]
fn weak_offers_are_refused() {
    let mut client = client_with(of_client(ECDSA), raw(false));
    let hello = client.transmit().unwrap();
    let changed = |from: &[u8], to: &[u8]| {
        let at = hello.windows(from.len()).position(|part| part == from).unwrap();
        let mut hello = hello.clone();
        hello[at..at + to.len()].copy_from_slice(to);
        hello
    };
    for (hello, cause) in [
        // The signature algorithms, without ECDSA with SHA-256.
        (changed(&[0, 13, 0, 12, 0, 10, 4, 3], &[0, 13, 0, 12, 0, 10, 2, 3]), Cause::Suite),
        // The groups, without P-256.
        (changed(&[0, 10, 0, 6, 0, 4, 0, 29, 0, 23], &[0, 10, 0, 6, 0, 4, 0, 29, 0, 24]), Cause::Group),
        // The types of certificates.
        (changed(&[0, 20, 0, 3, 2, 2, 0], &[0, 20, 0, 3, 2, 1, 0]), Cause::CertificateType),
    ] {
        let own = if cause == Cause::CertificateType { raw(true) } else { certificate(true) };
        let hello = if cause == Cause::CertificateType {
            let at = hello.windows(7).position(|part| part == [0, 20, 0, 3, 2, 1, 0]).unwrap();
            let mut hello = hello;
            hello[at + 6] = 1;
            hello
        } else {
            hello
        };
        let settings = of_server(ECDSA, own);
        assert!(Connection::accept(settings.clone(), &hello, 0, &mut |_| {}).is_err(), "{cause:?}");
        assert_eq!(Offer::of(&hello).unwrap().mismatch(&settings).0, cause);
    }
}

/// Neither side can be moved from keys to certificates or back.
#[test]
fn credentials_choose_the_suites() {
    let all = || Settings { suites: CipherSuite::ALL.to_vec(), ..of_client(ECDSA) };
    for (own, with_psk) in [
        (Client { identity: IDENTITY.to_vec(), key: key() }.into(), true),
        (raw(false), false),
        (Credentials::Anonymous, false),
    ] {
        let mut client = client_with(all(), own);
        let offer = std::format!("{}", Offer::of(&client.transmit().unwrap()).unwrap());
        assert_eq!((offer.contains("_PSK_"), offer.contains("_ECDSA_")), (with_psk, !with_psk), "{offer}");
    }
    // A server that chooses one that was not offered.
    let mut client = client_with(all(), raw(false));
    client.transmit().unwrap();
    let hello = body(|writer| {
        writer.integer16(VERSION_1_2).octets(&[5; 32]).vector8(&[]).integer16(PSK.number()).octets(&[0]);
    });
    give(&mut client, &message(HandshakeType::ServerHello, 0, &hello), &Both(None));
    assert_eq!(reason(client), "the server chose a cipher suite that was not offered");
}

#[test]
fn refused_peers_get_an_alert_and_a_reason() {
    for distrust in Distrust::ALL.iter().copied() {
        let cause = distrust.cause();
        // The client refuses the server.
        let mut client = client_with(of_client(ECDSA), certificate(false));
        let mut server = server(of_server(ECDSA, certificate(true)), &mut client);
        pass(&mut server, &mut client, &Both(Some(distrust)));
        let alert = client.transmit().unwrap();
        assert_eq!(alert[HEADER_LEN..], [2, distrust.alert().number()]);
        client.timeout(u64::MAX);
        let Phase::Failed(failure) = client.phase() else { panic!("{client:?}") };
        assert_eq!(failure.cause(), cause);
        assert!(std::format!("{failure}").contains(distrust.text()));
        // The server refuses the client.
        let mut client = client_with(of_client(ECDSA), raw(false));
        let mut server = super::server(of_server(ECDSA, raw(true)), &mut client);
        pass(&mut server, &mut client, &Both(None));
        pass(&mut client, &mut server, &Both(Some(distrust)));
        assert_eq!(reason(server), distrust.text());
    }
}

#[test]
fn judgements_are_bounded() {
    struct Counts(core::cell::Cell<u32>);
    impl Keyring for Counts {
        fn judge(&self, _: &Shown) -> Result<Trusted, Distrust> {
            self.0.set(self.0.get() + 1);
            Err(Distrust::Chain)
        }
    }
    let mut client = client_with(of_client(ECDSA), raw(false));
    let mut server = server(of_server(ECDSA, raw(true)), &mut client);
    pass(&mut server, &mut client, &Both(None));
    let counts = Counts(core::cell::Cell::new(0));
    let flight = client.transmit().unwrap();
    for _ in 0..20 {
        server.handle(&flight, 0, &counts, &mut |_| {});
    }
    assert_eq!(counts.0.get(), 3);
    assert_eq!(reason(server), Distrust::Chain.text(), "the reason stays");
    // Wrong signatures too: after three, a good one is not looked at.
    let (mut server, flight) = answered();
    for record in &flight[..2] {
        give(&mut server, record, &Both(None));
    }
    let scheme = SignatureScheme::EcdsaSha256;
    let wrong = body(|writer| Signature { scheme, octets: &[1] }.emit(writer));
    for _ in 0..3 {
        give(&mut server, &message(HandshakeType::CertificateVerify, 3, &wrong), &Both(None));
    }
    give(&mut server, &flight[2], &Both(None));
    assert_eq!(server.step, Step::CertificateVerify);
}

#[test]
fn client_without_certificate_is_refused() {
    for (asks, accepted) in [(Asks::Firmly, false), (Asks::Politely, true), (Asks::No, true)] {
        let of_server = Settings { asks, ..of_server(ECDSA, certificate(true)) };
        let [client, server] = shake(of_client(ECDSA), Credentials::Anonymous, of_server);
        assert_eq!(server.phase() == Phase::Established, accepted, "{asks:?}");
        assert_eq!(server.identity(), b"");
        assert!(accepted == (client.phase() == Phase::Established));
        if !accepted {
            assert_eq!(reason(server), Distrust::Nothing.text());
        }
    }
}

/// The messages of the client's flight after ServerHelloDone, and a server that awaits them.
fn answered() -> (Connection, Vec<Vec<u8>>) {
    let mut client = client_with(of_client(ECDSA), raw(false));
    let mut server = server(of_server(ECDSA, raw(true)), &mut client);
    pass(&mut server, &mut client, &Both(None));
    (server, split(&client.transmit().unwrap(), 0))
}

#[test]
fn missing_or_wrong_verify_establishes_nothing() {
    // Certificate, ClientKeyExchange, CertificateVerify, ChangeCipherSpec, Finished.
    let (mut server, flight) = answered();
    assert_eq!(flight.len(), 5);
    for record in flight.iter().enumerate().filter(|(place, _)| *place != 2).map(|(_, record)| record) {
        assert!(!give(&mut server, record, &Both(None)), "without CertificateVerify");
    }
    assert_eq!(server.step, Step::CertificateVerify);
    // A Finished in its place is out of turn, and so is one of the right number.
    give(&mut server, &message(HandshakeType::ServerHelloDone, 3, &[]), &Both(None));
    assert_eq!(reason(server), "a message came out of turn");

    let scheme = SignatureScheme::EcdsaSha256;
    let say = |scheme, octets: &[u8]| {
        let signed = body(|writer| Signature { scheme, octets }.emit(writer));
        message(HandshakeType::CertificateVerify, 3, &signed)
    };
    let foreign = signing(true).sign(&Sha256::digest(b"another handshake").into()).unwrap();
    for (verify, expected) in [
        (say(scheme, &foreign), WRONG_SIGNATURE),
        (say(scheme, &[]), WRONG_SIGNATURE),
        (say(SignatureScheme::EcdsaSha384, &foreign), WRONG_SIGNATURE),
        (
            say(SignatureScheme::Unknown(0x0203), &foreign),
            "the peer signs with an algorithm that was not offered",
        ),
        (message(HandshakeType::CertificateVerify, 3, &[4]), "a CertificateVerify cannot be read"),
    ] {
        let (mut server, flight) = answered();
        for record in &flight[..2] {
            give(&mut server, record, &Both(None));
        }
        give(&mut server, &verify, &Both(None));
        assert_eq!(server.step, Step::CertificateVerify);
        // The genuine one may still come.
        if expected != WRONG_SIGNATURE {
            let good = flight[2..].iter().map(|record| give(&mut server, record, &Both(None)));
            assert!(good.fold(false, |established, one| established | one), "{expected}");
            continue;
        }
        server.timeout(u64::MAX);
        let Phase::Failed(failure) = server.phase() else { panic!("{server:?}") };
        assert_eq!(failure.cause(), Cause::Signature);
        assert!(std::format!("{failure}").ends_with(expected));
    }
}

#[test]
fn another_clients_certificate_is_no_proof() {
    // It shows the client's key, and signs with its own.
    let thief = Certificate::new(signing(true), &[CERTIFICATES[0].to_vec()]).unwrap();
    let of_server = of_server(ECDSA, certificate(true));
    let [_, server] = shake(of_client(ECDSA), Credentials::Certificate(thief), of_server);
    assert_eq!(server.step, Step::CertificateVerify);
    assert_eq!(reason(server), WRONG_SIGNATURE);
    // And a server with another's certificate.
    let thief = Certificate::new(signing(false), &[CERTIFICATES[1].to_vec()]).unwrap();
    let own = Credentials::Certificate(thief);
    let [client, _] = shake(of_client(ECDSA), raw(false), super::signed::of_server(ECDSA, own));
    assert_eq!(reason(client), WRONG_SIGNATURE);
}

#[test]
fn servers_flight_must_be_in_order() {
    let cases: [(&[usize], &str); 5] = [
        (&[0, 2], "the server's key exchange came out of turn"),
        (&[0, 3], "a CertificateRequest came out of turn"),
        (&[0, 4], "the server's part of the key exchange is missing"),
        (&[0, 1, 4], "the server's part of the key exchange is missing"),
        (&[0, 1, 1], "a certificate came out of turn"),
    ];
    for (order, expected) in cases {
        let mut client = client_with(of_client(ECDSA), raw(false));
        let mut server = server(of_server(ECDSA, raw(true)), &mut client);
        let flight = split(&server.transmit().unwrap(), 0);
        assert_eq!(flight.len(), 5);
        for (number, place) in order.iter().enumerate() {
            let (fragment, _) = Fragment::parse(&flight[*place][HEADER_LEN..]).unwrap();
            give(&mut client, &message(fragment.kind, number as u16, fragment.octets), &Both(None));
        }
        assert_eq!(reason(client), expected, "{order:?}");
    }
}

#[test]
fn servers_ephemeral_key_is_under_its_signature() {
    let share = Group::P256.public(&signing_secret()).unwrap();
    let params = |group: u16, point: &[u8]| {
        body(|writer| {
            writer.server_share(group, point);
        })
    };
    let good = params(23, &share);
    let mut beside = share.clone();
    beside[64] ^= 1;
    let sign = |params: &[u8], server_random: [u8; 32]| {
        let whole = [&[3; 32][..], &server_random, params].concat();
        signing(true).sign(&Sha256::digest(whole).into()).unwrap()
    };
    let cases = [
        (good.clone(), sign(&good, [5; 32]), ""),
        (good.clone(), sign(&good, [6; 32]), WRONG_SIGNATURE),
        (params(29, &[9; 32]), sign(&good, [5; 32]), WRONG_SIGNATURE),
        (params(23, &beside), sign(&params(23, &beside), [5; 32]), "the server's ephemeral key is no key"),
        (params(24, &share), sign(&good, [5; 32]), "the server chose a group that was not offered"),
        (params(23, &share)[1..].to_vec(), sign(&good, [5; 32]), "a ServerKeyExchange cannot be read"),
    ];
    for (params, signature, expected) in cases {
        let mut client = client_with(of_client(ECDSA), raw(false));
        let mut server = server(of_server(ECDSA, raw(true)), &mut client);
        let flight = split(&server.transmit().unwrap(), 0);
        for record in &flight[..2] {
            give(&mut client, record, &Both(None));
        }
        let exchange = body(|writer| {
            writer.octets(&params);
            Signature { scheme: SignatureScheme::EcdsaSha256, octets: &signature }.emit(writer);
        });
        give(&mut client, &message(HandshakeType::ServerKeyExchange, 2, &exchange), &Both(None));
        assert_eq!(reason(client), expected);
    }
}

fn signing_secret() -> crate::secret::Boxed<32> {
    crate::secret::Boxed::from([4; 32])
}

#[test]
fn servers_request_must_fit_the_key() {
    let request = |types: &[u8], schemes: &[u8]| {
        body(|writer| {
            writer.vector8(types).vector16(schemes).vector16(&[]);
        })
    };
    let no_ecdsa = "the server accepts no signatures by ECDSA with SHA-256";
    for (request, own, expected) in [
        (request(&[1, ECDSA_SIGN], &[4, 1, 4, 3]), raw(false), ""),
        (request(&[1], &[4, 3]), raw(false), no_ecdsa),
        (request(&[ECDSA_SIGN], &[4, 1]), raw(false), no_ecdsa),
        (request(&[1], &[4, 1]), Credentials::Anonymous, ""),
        (request(&[ECDSA_SIGN], &[]), raw(false), "a CertificateRequest cannot be read"),
    ] {
        let mut client = client_with(of_client(ECDSA), own);
        let settings = Settings { asks: Asks::Politely, ..of_server(ECDSA, raw(true)) };
        let mut server = server(settings, &mut client);
        let flight = split(&server.transmit().unwrap(), 0);
        for record in &flight[..3] {
            give(&mut client, record, &Both(None));
        }
        give(&mut client, &message(HandshakeType::CertificateRequest, 3, &request), &Both(None));
        assert_eq!(reason(client), expected);
    }
    // A server of certificates alone does not understand a raw public key.
    let mut client = client_with(of_client(ECDSA), raw(false));
    let settings =
        Settings { asks: Asks::Politely, accepts: [X509].into(), ..of_server(ECDSA, certificate(true)) };
    let mut server = super::server(settings, &mut client);
    pass(&mut server, &mut client, &Both(None));
    assert!(!client.is_signed() || client.step == Step::Finished, "it is not asked");
}

#[test]
fn chosen_types_must_be_offered() {
    let hello = |list: &[(ExtensionType, &[u8])]| {
        body(|writer| {
            writer
                .integer16(VERSION_1_2)
                .octets(&[5; 32])
                .vector8(&[])
                .integer16(ECDSA.number())
                .octets(&[0]);
            writer.octets(&extensions(list));
        })
    };
    let ems: (ExtensionType, &[u8]) = (ExtensionType::ExtendedMasterSecret, &[]);
    let kind = ExtensionType::ServerCertificateType;
    for (list, accepts, expected) in [
        (std::vec![ems, (kind, &[2][..])], [RAW].to_vec(), ""),
        (std::vec![ems], [X509].to_vec(), ""),
        (std::vec![ems], [RAW].to_vec(), NO_COMMON_TYPE),
        (std::vec![ems, (kind, &[2])], [X509].to_vec(), NO_COMMON_TYPE),
        (std::vec![ems, (kind, &[1])], [RAW, X509].to_vec(), NO_COMMON_TYPE),
        (std::vec![ems, (kind, &[1, 2])], [RAW].to_vec(), "a type of certificate cannot be read"),
    ] {
        let mut client = client_with(Settings { accepts, ..of_client(ECDSA) }, raw(false));
        client.transmit().unwrap();
        give(&mut client, &message(HandshakeType::ServerHello, 0, &hello(&list)), &Both(None));
        assert_eq!(reason(client), expected);
    }
    // Asked for a certificate in place of the raw public key that was offered.
    let mut client = client_with(of_client(ECDSA), raw(false));
    let mut server = server(of_server(ECDSA, certificate(true)), &mut client);
    let flight = split(&server.transmit().unwrap(), 0);
    let (fragment, _) = Fragment::parse(&flight[0][HEADER_LEN..]).unwrap();
    let mut without = fragment.octets.to_vec();
    let at = without.windows(5).position(|part| part == [0, 19, 0, 1, 2]).unwrap();
    without[at + 1] = 200;
    give(&mut client, &message(HandshakeType::ServerHello, 0, &without), &Both(None));
    assert!(!client.shows_own());
}

#[test]
fn long_chain_crosses_small_datagrams_and_loss() {
    let chain: Vec<Vec<u8>> = (0..4).map(|_| std::vec![7; 3600]).collect();
    let chain = [&[CERTIFICATES[1].to_vec()][..], &chain].concat();
    assert!(Certificate::new(signing(true), &[chain.clone(), chain.clone()].concat()).is_none(), "too long");
    assert!(
        Certificate::new(signing(true), &[]).is_none()
            && Certificate::new(signing(true), &[[].into()]).is_none()
    );
    let own = Credentials::Certificate(Certificate::new(signing(true), &chain).unwrap());
    let settings = Settings { mtu: 300, ..of_server(ECDSA, own) };
    let mut client = client_with(Settings { mtu: 300, ..of_client(ECDSA) }, certificate(false));
    let mut server = server(settings, &mut client);
    // Every third datagram is lost, another one each time.
    let good = Both(None);
    for round in 0..12 {
        for (number, datagram) in core::iter::from_fn(|| server.transmit()).enumerate().collect::<Vec<_>>() {
            assert!(datagram.len() <= 300);
            if (number + round) % 3 != 0 {
                give(&mut client, &datagram, &good);
            }
        }
        for (number, datagram) in core::iter::from_fn(|| client.transmit()).enumerate().collect::<Vec<_>>() {
            if (number + round) % 3 != 1 {
                give(&mut server, &datagram, &good);
            }
        }
        let now = [client.deadline(), server.deadline()].into_iter().flatten().min().unwrap_or(0);
        client.timeout(now);
        server.timeout(now);
    }
    assert!(is_established(&[client, server]));
}

#[test]
fn certificates_are_long_only_when_awaited() {
    // A server of pre-shared keys, and one that does not ask.
    let long = |kind| {
        let fragment = Fragment { kind, length: 4000, message: 1, offset: 0, octets: &[1] };
        plain(ContentType::Handshake, &[&fragment.header()[..], &[1]].concat())
    };
    let mut client = super::client(settings(PSK));
    let mut server = super::server(settings(PSK), &mut client);
    server.assembly.expect(1);
    give(&mut server, &long(HandshakeType::Certificate), &Both(None));
    give(&mut client, &long(HandshakeType::Certificate), &Both(None));
    assert_eq!((server.refusals().bad_handshake, client.refusals().bad_handshake), (1, 1));
    let (mut server, _) = answered();
    server.assembly.expect(1);
    give(&mut server, &long(HandshakeType::Certificate), &Both(None));
    assert_eq!(server.refusals().bad_handshake, 0);
    give(&mut server, &long(HandshakeType::CertificateVerify), &Both(None));
    assert_eq!(server.refusals().bad_handshake, 1);
}

#[test]
fn server_name_is_told() {
    let settings = Settings { server_name: Some("plant.example".into()), ..of_client(ECDSA) };
    let mut client = client_with(settings, raw(false));
    let hello = client.transmit().unwrap();
    let said = [&[0, 0, 0, 18, 0, 16, 0, 0, 13][..], b"plant.example"].concat();
    assert!(hello.windows(said.len()).any(|part| part == said));
}

#[test]
fn shown_entries_are_read() {
    let shown = Shown::new(X509, false, b"\0\0\x09\0\0\x02ab\0\0\x01c").unwrap();
    assert_eq!(shown.entries(), [&b"ab"[..], b"c"]);
    assert_eq!(Shown::new(RAW, false, b"\0\0\x02ab").unwrap().entries(), [b"ab"]);
    assert!(Shown::new(RAW, false, b"\0\0\0").unwrap().entries().is_empty());
    assert!(Shown::new(X509, false, b"\0\0\x02ab").is_none());
    assert!(Shown::new(RAW, false, b"ab").is_none());
    assert!(Shown::new(CertificateType::Unknown(1), false, b"\0\0\0").is_none());
    assert_eq!(().judge(&shown), Err(Distrust::Unlisted));
    assert!(Keyring::key(&(), b"a").is_none());
    let all = [
        raw(true),
        certificate(true),
        Credentials::Anonymous,
        Client { identity: [1].into(), key: key() }.into(),
    ];
    assert!(std::format!("{all:?}").len() < 200, "no keys are shown");
}
