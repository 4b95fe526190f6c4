//! DTLS: the parsers of records and handshake messages, a reader of records, and a client and a
//! server that receive datagrams from strangers.

use antedate_channel::dtls::{
    Aead, CertificateType, Client, Connection, ConnectionId, ContentType, Cookies, Credentials,
    DirectionKeys, Distrust, Greeting, Keyring, PartialHello, Phase, Psk, PublicKey, RawPublicKey, Reader,
    Settings, Shown, SigningKey, Trusted, Writer,
};
use antedate_wire::dtls::handshake::certificates::{
    CertificateRequest, Certificates, Signature, SignedKeyExchange, client_share, raw_public_key,
};
use antedate_wire::dtls::handshake::{
    Alert, ClientHello, ClientHelloFront, ClientKeyExchange, Fragment, HelloVerifyRequest, ServerHello,
    ServerKeyExchange,
};
use antedate_wire::dtls::{MAX_CID, Record, inner, records};

/// Records: a parsed record is written back unchanged. The first octet gives the length of
/// connection IDs.
pub fn dtls_record(data: &[u8]) {
    let (cid_len, datagram) =
        data.split_first().map_or((0, data), |(n, rest)| (usize::from(*n) % (MAX_CID + 1), rest));
    let mut at = 0;
    for record in records(datagram, cid_len) {
        let Ok(record) = record else { break };
        let mut out = vec![0; record.len()];
        assert_eq!(record.emit(&mut out), Ok(record.len()));
        assert_eq!(out, datagram[at..at + record.len()]);
        at += record.len();
        assert!(inner(record.fragment).is_none_or(|(_, len)| len < record.fragment.len()));
    }
}

/// Handshake messages: each parsed part is inside the message, and no length misleads the parser.
pub fn dtls_handshake(data: &[u8]) {
    let mut rest = data;
    while let Ok((fragment, behind)) = Fragment::parse(rest) {
        assert!(fragment.offset + fragment.octets.len() <= fragment.length);
        assert_eq!([&fragment.header()[..], fragment.octets, behind].concat(), rest);
        body(fragment.octets);
        rest = behind;
    }
    body(data);
}

fn body(octets: &[u8]) {
    let front = ClientHelloFront::parse(octets);
    if let Ok(hello) = ClientHello::parse(octets) {
        let of_hello = (hello.version, hello.random, hello.session, hello.cookie);
        assert_eq!(front.map(|f| (f.version, f.random, f.session, f.cookie)), Ok(of_hello));
        assert_eq!(hello.suites().count(), hello.suite_octets().len() / 2);
        let walked: usize = hello.extensions.iter().map(|(_, says)| 4 + says.len()).sum();
        assert_eq!(walked, hello.extensions.octets().len());
        let _ = hello.extensions.connection_id();
    }
    let _ = (ServerHello::parse(octets), HelloVerifyRequest::parse(octets), Alert::parse(octets));
    if let Ok(list) = Certificates::parse(octets) {
        let walked: usize = list.iter().map(|one| 3 + one.len()).sum();
        assert_eq!(walked + 3, octets.len());
    }
    if let Ok(exchange) = SignedKeyExchange::parse(octets) {
        assert!(octets.starts_with(exchange.params));
    }
    let _ = (
        CertificateRequest::parse(octets).map(|request| request.schemes().count()),
        Signature::parse(octets),
    );
    let _ = (client_share(octets), raw_public_key(octets));
    for ecdhe in [false, true] {
        let _ = (ServerKeyExchange::parse(octets, ecdhe), ClientKeyExchange::parse(octets, ecdhe));
    }
}

/// Records from outside in the middle of an epoch: the input itself, and a genuine record changed
/// by the input. Only the genuine plaintext is delivered, once.
pub fn dtls_open(data: &[u8]) {
    let (place, plaintext) = data.split_first().map_or((0, data), |(n, rest)| (usize::from(*n), rest));
    let plaintext = &plaintext[..plaintext.len().min(2000)];
    let aead = Aead::ALL[place % Aead::ALL.len()];
    let cid = ConnectionId::new(&b"connected"[..place % 10]).expect("it is short");
    let keys =
        DirectionKeys::new(aead, &[1; 32][..aead.key_len()], &[2; 12][..aead.iv_len()]).expect("lengths fit");
    let mut writer = Writer::new(&keys, 1, 0, cid).expect("keys fit");
    let mut reader = Reader::new(&keys, 1, cid).expect("keys fit");
    reader.idle(20);
    let mut out = vec![0; 1 << 16];
    for record in records(data, cid.len()).flatten() {
        assert!(reader.open(&record, &mut out).is_err(), "a forgery came out");
    }
    let mut datagram = vec![0; plaintext.len() + writer.overhead()];
    let len = writer.protect(ContentType::ApplicationData, plaintext, &mut datagram).expect("it fits");
    assert_eq!(len, datagram.len());
    let mut changed = datagram.clone();
    changed[place % len] ^= 1 << (place % 8);
    for record in records(&changed, cid.len()).flatten() {
        assert!(reader.open(&record, &mut out).is_err(), "a changed record came out");
    }
    let (record, _) = Record::parse(&datagram, cid.len()).expect("it is a record");
    let opened = reader.open(&record, &mut out).expect("good traffic was disturbed");
    assert_eq!(&out[..opened.len], plaintext);
    assert!(reader.open(&record, &mut out).is_err(), "a record came out twice");
}

struct OneKey;

impl Keyring for OneKey {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        (identity == b"h3").then(|| Psk::new(vec![7; 16]))
    }

    fn judge(&self, shown: &Shown) -> Result<Trusted, Distrust> {
        let entries = shown.entries();
        let key = entries.first().and_then(|spki| PublicKey::from_spki(spki)).ok_or(Distrust::Key)?;
        Ok(Trusted { identity: entries.concat(), key })
    }
}

/// Datagrams from strangers at each stage of a handshake. None establishes a connection.
pub fn dtls_connection(data: &[u8]) {
    let random = &mut |out: &mut [u8]| out.fill(5);
    let settings = Settings { cid: ConnectionId::new(b"c").ok(), ..Settings::default() };
    let cookies = Cookies::new([3; 32]);
    assert!(!matches!(cookies.greet(data, b"stranger", 0, |_| {}), Greeting::Accept | Greeting::Begin));
    if let Some(mut partial) = PartialHello::new(data)
        && let Some(whole) = partial.take(data)
    {
        assert!(whole.len() <= data.len());
    }
    let stranger = |connection: &mut Connection| {
        connection.handle(data, 0, &OneKey, &mut |event| panic!("{event:?} from a stranger"));
        while connection.transmit().is_some() {}
        connection.timeout(1000);
        assert_eq!(connection.phase(), Phase::Handshaking);
    };
    if let Ok(mut server) = Connection::accept(settings.clone(), data, 0, random) {
        stranger(&mut server);
    }
    let client = Client { identity: b"h3".to_vec(), key: Psk::new(vec![7; 16]) };
    let mut client = Connection::connect(settings.clone(), client, 0, random);
    let hello = client.transmit().expect("a hello");
    let Greeting::Reply(reply) = cookies.greet(&hello, b"peer", 0, |_| {}) else { panic!("no cookie") };
    client.handle(&reply, 0, &(), &mut |_| {});
    let hello = client.transmit().expect("a hello with cookie");
    assert_eq!(cookies.greet(&hello, b"peer", 0, |_| {}), Greeting::Accept);
    let mut server = Connection::accept(settings, &hello, 0, random).expect("a good hello");
    let flight = server.transmit().expect("a flight");
    stranger(&mut server);
    client.handle(&flight, 0, &(), &mut |_| {});
    stranger(&mut client);
}

/// The same with raw public keys: whatever is shown, its key does not sign this handshake.
pub fn dtls_credentials(data: &[u8]) {
    let random = &mut |out: &mut [u8]| out.fill(5);
    let key = |octet| RawPublicKey::new(SigningKey::new(&[octet; 32]).expect("a key"));
    let accepts = vec![CertificateType::RawPublicKey, CertificateType::X509];
    let of_client = Settings { accepts, ..Settings::default() };
    let of_server = Settings { credentials: vec![Credentials::RawPublicKey(key(9))], ..of_client.clone() };
    for kind in [CertificateType::X509, CertificateType::RawPublicKey] {
        if let Some(shown) = Shown::new(kind, true, data) {
            assert!(shown.entries().iter().map(|one| one.len()).sum::<usize>() < data.len().max(1));
        }
    }
    let stranger = |connection: &mut Connection| {
        connection.handle(data, 0, &OneKey, &mut |event| panic!("{event:?} from a stranger"));
        while connection.transmit().is_some() {}
        connection.timeout(1000);
        assert_eq!(connection.phase(), Phase::Handshaking);
    };
    if let Ok(mut server) = Connection::accept(of_server.clone(), data, 0, random) {
        stranger(&mut server);
    }
    let mut client = Connection::connect(of_client, Credentials::RawPublicKey(key(8)), 0, random);
    let hello = client.transmit().expect("a hello");
    let mut server = Connection::accept(of_server, &hello, 0, random).expect("a good hello");
    let flight = server.transmit().expect("a flight");
    stranger(&mut server);
    stranger(&mut client);
    let mut client = client;
    client.handle(&flight, 0, &OneKey, &mut |_| {});
    stranger(&mut client);
}

/// A peer's certificate, a private key and a file of peers. A name that is shown fits a line of the log.
pub fn dtls_certificate(data: &[u8]) {
    use antedate_dtls::credentials::{der, peers::Peers};
    if let Some(name) = der::subject(data) {
        assert!(!name.is_empty() && name.len() <= 200 && !name.contains(char::is_control));
    }
    let _ = der::may_sign(data);
    for secret in [der::pkcs8(data), der::sec1(data, false)].into_iter().flatten() {
        assert!(data.windows(32).any(|part| part == secret));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(peers) = Peers::parse(text)
    {
        assert!(peers.len() <= text.lines().count());
    }
}
