//! The fields that a cookie depends on.

use antedate_wire::dtls::handshake::HelloVerifyRequest;

use super::super::{Cookies, Greeting, PartialHello};
use super::server::Hello;
use super::*;

fn cookie(cookies: &Cookies, hello: &Hello, peer: &[u8], now: u64) -> Vec<u8> {
    let Greeting::Reply(reply) = cookies.greet(&hello.datagram(), peer, now, |_| {}) else {
        panic!("no cookie")
    };
    let (record, rest) = Record::parse(&reply, 0).unwrap();
    let (fragment, after) = Fragment::parse(record.fragment).unwrap();
    assert_eq!((rest, after, record.sequence, fragment.message), (&[][..], &[][..], 9, 0));
    assert_eq!((record.version, fragment.kind), (0xfeff, HandshakeType::HelloVerifyRequest));
    assert_eq!((fragment.offset, fragment.length), (0, fragment.octets.len()));
    let request = HelloVerifyRequest::parse(fragment.octets).unwrap();
    assert_eq!((request.version, request.cookie.len()), (0xfeff, 16));
    request.cookie.to_vec()
}

#[test]
fn cookie_binds_the_front_of_a_hello() {
    let cookies = Cookies::new([1; 32]);
    let good = Hello { session: [4; 8].into(), ..Hello::new() };
    let right = cookie(&cookies, &good, b"here", 0);
    let changed = [
        ("random", Hello { random: [8; 32], ..good.clone() }),
        ("session", Hello { session: [5; 8].into(), ..good.clone() }),
        ("version", Hello { version: 0xfeff, ..good.clone() }),
    ];
    let with = |hello: &Hello| Hello { cookie: right.clone(), ..hello.clone() };
    let greet = |hello: &Hello, peer: &[u8], now| {
        let mut counted = Vec::new();
        let greeting = cookies.greet(&hello.datagram(), peer, now, |refusal| counted.push(refusal));
        (greeting == Greeting::Accept, counted)
    };
    for now in [0, 59_999, 60_000, 119_999] {
        assert_eq!(greet(&with(&good), b"here", now), (true, Vec::new()), "{now}");
    }
    let wrong = (false, [Dropped::Cookie].to_vec());
    assert_eq!(greet(&with(&good), b"here", 120_000), wrong);
    assert_eq!(greet(&with(&good), b"away", 0), wrong);
    for (field, hello) in changed {
        assert_eq!(greet(&with(&hello), b"here", 0), wrong, "{field}");
    }
    assert_eq!(greet(&good, b"here", 0), (false, Vec::new()), "no cookie is no wrong one");
    // The octets of the address and of the hello are told apart by their lengths.
    let longer = Hello { session: [4; 7].into(), ..good.clone() };
    let shifted = cookie(&cookies, &longer, &[&b"here"[..], &[4]].concat(), 0);
    assert_ne!(shifted, right);
    // A cookie of another secret, and a prefix.
    let other = Hello { cookie: cookie(&Cookies::new([2; 32]), &good, b"here", 0), ..good.clone() };
    assert_eq!(greet(&other, b"here", 0), wrong);
    let prefix = Hello { cookie: right[..15].to_vec(), ..good.clone() };
    assert_eq!(greet(&prefix, b"here", 0), wrong);
    // A wrong cookie is answered with the right one.
    assert_eq!(cookie(&cookies, &other, b"here", 1), right);
}

#[test]
fn greeting_tells_why_it_refuses() {
    let cookies = Cookies::new([1; 32]);
    for (datagram, expected) in [
        (&[22][..], Dropped::Malformed),
        (&plain(ContentType::ApplicationData, b"x"), Dropped::UnknownConnection),
        (&message(HandshakeType::Finished, 0, &[0; 12]), Dropped::Handshake),
        (&fragment_of(&[7; 100], 0, 34), Dropped::Handshake),
        (&message(HandshakeType::ClientHello, 0, &[0; 50]), Dropped::Handshake),
    ] {
        assert_eq!(cookies.greet(datagram, b"here", 0, |_| {}), Greeting::Refused(expected));
    }
}

/// A datagram with the octets from `from` to `to` of a ClientHello.
fn fragment_of(body: &[u8], from: usize, to: usize) -> Vec<u8> {
    let (kind, octets) = (HandshakeType::ClientHello, &body[from..to]);
    let fragment = Fragment { kind, length: body.len(), message: 1, offset: from, octets };
    let octets = [&fragment.header()[..], octets].concat();
    // A record's number; each has its own.
    let sequence = from as u64;
    let record = Record {
        content_type: ContentType::Handshake,
        version: VERSION_1_2,
        epoch: 0,
        sequence,
        cid: &[],
        fragment: &octets,
    };
    let mut out = std::vec![0; record.len()];
    record.emit(&mut out).unwrap();
    out
}

#[test]
fn hello_in_fragments_is_put_together() {
    let cookies = Cookies::new([1; 32]);
    let greet = |datagram: &[u8]| cookies.greet(datagram, b"here", 0, |_| {});
    let body = Hello::new().body();
    // Without a cookie: the first fragment is answered, and nothing is kept.
    let Greeting::Reply(reply) = greet(&fragment_of(&body, 0, 60)) else { panic!("no cookie") };
    assert!(reply.len() < fragment_of(&body, 0, 60).len(), "nothing is amplified");
    assert_eq!(greet(&fragment_of(&body, 60, body.len())), Greeting::Continue);
    let (record, _) = Record::parse(&reply, 0).unwrap();
    let (fragment, _) = Fragment::parse(record.fragment).unwrap();
    let cookie = HelloVerifyRequest::parse(fragment.octets).unwrap().cookie.to_vec();
    let hello = Hello { cookie, ..Hello::new() };
    let body = hello.body();
    let (first, second, third) =
        (fragment_of(&body, 0, 60), fragment_of(&body, 60, 70), fragment_of(&body, 70, body.len()));
    assert_eq!(greet(&first), Greeting::Begin);
    for order in [[&first, &second, &third], [&third, &first, &second]] {
        let mut partial = PartialHello::new(&first).unwrap();
        assert_eq!((partial.take(order[0]), partial.take(order[1])), (None, None));
        let whole = partial.take(order[2]).unwrap();
        assert_eq!(greet(&whole), Greeting::Accept);
        let mut server = Connection::accept(settings(PSK), &whole, 0, &mut |out| out.fill(5)).unwrap();
        let answer = server.transmit().unwrap();
        let (answer, _) = Record::parse(&answer, 0).unwrap();
        assert!(answer.sequence >= 70, "no number twice");
    }
    // Two fragments in one datagram, and one of another message.
    let mut partial = PartialHello::new(&first).unwrap();
    assert_eq!(partial.take(&message(HandshakeType::ClientHello, 2, &body)), None);
    assert!(partial.take(&[&first[..], &second, &third].concat()).is_some());
    assert!(PartialHello::new(&plain(ContentType::ApplicationData, b"x")).is_none());
    // A hello longer than any is kept by nobody.
    let mut partial = PartialHello::new(&first).unwrap();
    let long = std::vec![0; 4000];
    assert_eq!(
        (partial.take(&fragment_of(&long, 0, 2000)), partial.take(&fragment_of(&long, 2000, 4000))),
        (None, None)
    );
}
