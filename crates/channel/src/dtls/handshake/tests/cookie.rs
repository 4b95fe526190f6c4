//! The fields that a cookie depends on.

use antedate_wire::dtls::handshake::HelloVerifyRequest;

use super::super::{Cookies, Greeting};
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
fn cookie_binds_every_field_of_a_hello() {
    let cookies = Cookies::new([1; 32]);
    let good = Hello { session: [4; 8].into(), ..Hello::new() };
    let right = cookie(&cookies, &good, b"here", 0);
    let changed = [
        ("random", Hello { random: [8; 32], ..good.clone() }),
        ("session", Hello { session: [5; 8].into(), ..good.clone() }),
        ("suites", Hello { suites: [PSK.number()].into(), ..good.clone() }),
        ("extensions", Hello { extensions: extensions(&[]), ..good.clone() }),
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
    ] {
        assert_eq!(cookies.greet(datagram, b"here", 0, |_| {}), Greeting::Refused(expected));
    }
}
