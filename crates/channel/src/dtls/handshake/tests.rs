//! Each check of the handshake, with a peer that says anything: an ordinary connection whose
//! flights the test writes.

mod client;
mod connection;
mod cookie;
mod overheard;
mod server;
mod signed;

use std::vec::Vec;

use antedate_wire::dtls::handshake::{Alert, ExtensionType, Fragment, HandshakeType, Writer};
use antedate_wire::dtls::{ContentType, HEADER_LEN, Record, VERSION_1_2, records};

use super::super::{CipherSuite, Client, ConnectionId, Dropped, Keyring, ProtectError, Psk, Refusals};
use super::connection::Step;
use super::flight::Piece;
use super::{Connection, Event, Failure, Phase, SendError, Settings};

const PSK: CipherSuite = CipherSuite::PskAes128Ccm8;
const ECDHE: CipherSuite = CipherSuite::EcdhePskAes128GcmSha256;
const IDENTITY: &[u8] = b"turbine 3";

struct OneKey;

impl Keyring for OneKey {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        (identity == IDENTITY).then(key)
    }
}

fn key() -> Psk {
    Psk::new(b"a key of the wind park".to_vec())
}

fn settings(suite: CipherSuite) -> Settings {
    let require_extended_master_secret = false;
    let suites = [suite].into();
    Settings {
        suites,
        retransmit_ms: 100,
        give_up_ms: 10_000,
        require_extended_master_secret,
        ..Settings::default()
    }
}

fn cid(octets: &[u8]) -> Option<ConnectionId> {
    Some(ConnectionId::new(octets).unwrap())
}

fn client(settings: Settings) -> Connection {
    let who = Client { identity: IDENTITY.to_vec(), key: key() };
    Connection::connect(settings, who, 0, &mut |out| out.fill(3))
}

/// The server that answers a client's first hello.
fn server(settings: Settings, client: &mut Connection) -> Connection {
    let hello = client.transmit().unwrap();
    Connection::accept(settings, &hello, 0, &mut |out| out.fill(5)).unwrap()
}

/// The events of a datagram, with the data that came.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Established,
    Data(Vec<u8>),
    Closed,
}

fn hand(to: &mut Connection, datagram: &[u8]) -> (bool, Vec<Seen>) {
    let mut seen = Vec::new();
    let newest = to.handle(datagram, 0, &OneKey, &mut |event| {
        seen.push(match event {
            Event::Established => Seen::Established,
            Event::Data(data) => Seen::Data(data.to_vec()),
            Event::Closed => Seen::Closed,
        });
    });
    (newest, seen)
}

/// Passes on all that one side has to send.
fn pass(from: &mut Connection, to: &mut Connection) -> Vec<Seen> {
    core::iter::from_fn(|| from.transmit()).flat_map(|datagram| hand(to, &datagram).1).collect()
}

/// An established connection.
fn established(of_client: Settings, of_server: Settings) -> [Connection; 2] {
    let mut client = client(of_client);
    let mut server = server(of_server, &mut client);
    pass(&mut server, &mut client);
    assert_eq!(pass(&mut client, &mut server), [Seen::Established]);
    assert_eq!(pass(&mut server, &mut client), [Seen::Established]);
    [client, server]
}

/// A client, a server that has made its keys, and the client's Finished on its way to it.
fn before_finished(suite: CipherSuite) -> ([Connection; 2], Vec<u8>) {
    let mut client = client(settings(suite));
    let mut server = server(settings(suite), &mut client);
    pass(&mut server, &mut client);
    let [exchange, _, finished] = <[_; 3]>::try_from(split(&client.transmit().unwrap(), 0)).unwrap();
    hand(&mut server, &exchange);
    assert_eq!((client.step, server.step), (Step::Finished, Step::Finished));
    ([client, server], finished)
}

/// A protected record of one octet of data.
fn data(from: &mut Connection, octet: u8) -> Vec<u8> {
    protected(from, ContentType::ApplicationData, &[octet])
}

fn protected(from: &mut Connection, content_type: ContentType, content: &[u8]) -> Vec<u8> {
    let mut out = std::vec![0; 100];
    let len = from.writer.as_mut().unwrap().protect(content_type, content, &mut out).unwrap();
    out.truncate(len);
    out
}

/// The records of a datagram.
fn split(datagram: &[u8], cid_len: usize) -> Vec<Vec<u8>> {
    records(datagram, cid_len).map(|record| octets(&record.unwrap())).collect()
}

fn octets(record: &Record<'_>) -> Vec<u8> {
    let mut out = std::vec![0; record.len()];
    record.emit(&mut out).unwrap();
    out
}

/// An unprotected record.
fn plain(content_type: ContentType, fragment: &[u8]) -> Vec<u8> {
    octets(&Record { content_type, version: VERSION_1_2, epoch: 0, sequence: 9, cid: &[], fragment })
}

/// An unprotected message.
fn message(kind: HandshakeType, message: u16, body: &[u8]) -> Vec<u8> {
    let fragment = Fragment { kind, length: body.len(), message, offset: 0, octets: body };
    plain(ContentType::Handshake, &[&fragment.header()[..], body].concat())
}

/// Makes a side send a message, protected or not, and returns its datagram.
fn say(from: &mut Connection, kind: HandshakeType, number: u16, body: &[u8], protected: bool) -> Vec<u8> {
    from.fly([Piece::Message { kind, number, body: body.to_vec(), protected }].into(), 0);
    from.transmit().unwrap()
}

fn body(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = [0; 1024];
    let mut writer = Writer::new(&mut out);
    write(&mut writer);
    writer.finish().unwrap().to_vec()
}

/// The reason that a side gives when its time is over. Empty if nothing was refused.
fn reason(mut of: Connection) -> &'static str {
    of.timeout(u64::MAX);
    match of.phase() {
        Phase::Failed(Failure::TimedOut { reason, .. }) => reason.unwrap_or(""),
        other => panic!("{other:?}"),
    }
}

/// A list of extensions, with its length.
fn extensions(list: &[(ExtensionType, &[u8])]) -> Vec<u8> {
    let inner = body(|writer| {
        for (kind, says) in list {
            writer.extension(*kind, says);
        }
    });
    body(|writer| {
        writer.vector16(&inner);
    })
}
