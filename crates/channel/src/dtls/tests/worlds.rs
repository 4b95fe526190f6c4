//! Client and server on a faulty wire, until both have received all data.

use std::collections::BTreeSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::handshake::{Connection, Cookies, Event, Failure, Greeting, Phase, SendError, Settings};
use super::super::{CipherSuite, Client, ConnectionId, Dropped, Keyring, Psk};
use super::cid;
use crate::world::{Faults, Rng, Wire};

struct OneKey;

impl Keyring for OneKey {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        (identity == b"turbine 3").then(|| Psk::new(b"a key of the wind park".to_vec()))
    }
}

struct World {
    client: Connection,
    server: Option<Connection>,
    server_settings: Settings,
    cookies: Cookies,
    wires: [Wire; 2],
    rng: Rng,
    now: u64,
    /// Data received by client and server.
    received: [Vec<Vec<u8>>; 2],
    established: [u32; 2],
}

fn settings(suite: CipherSuite, cid: Option<ConnectionId>) -> Settings {
    Settings { suites: [suite].into(), cid, retransmit_ms: 100, ..Settings::default() }
}

impl World {
    fn new(
        client: Settings,
        server: Settings,
        faults: Faults,
        seed: u64,
        identity: &[u8],
        key: &[u8],
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut fill = Rng::new(rng.number());
        let who = Client { identity: identity.to_vec(), key: Psk::new(key.to_vec()) };
        let client = Connection::connect(client, who, 0, &mut |out| {
            out.iter_mut().for_each(|octet| *octet = fill.number() as u8);
        });
        let wires = [Wire::new(faults, Rng::new(rng.number())), Wire::new(faults, Rng::new(rng.number()))];
        Self {
            client,
            server: None,
            server_settings: server,
            cookies: Cookies::new([9; 32]),
            wires,
            rng,
            now: 0,
            received: [Vec::new(), Vec::new()],
            established: [0; 2],
        }
    }

    /// One millisecond.
    fn turn(&mut self) {
        self.now += 1;
        for connection in [Some(&mut self.client), self.server.as_mut()].into_iter().flatten() {
            if connection.deadline().is_some_and(|deadline| self.now >= deadline) {
                connection.timeout(self.now);
            }
            connection.idle(self.rng.below(30) as u32);
        }
        while let Some(datagram) = self.client.transmit() {
            self.wires[0].put(&datagram, 0);
        }
        while let Some(datagram) = self.server.as_mut().and_then(Connection::transmit) {
            self.wires[1].put(&datagram, 0);
        }
        if let Some(flight) = self.wires[0].take() {
            self.at_server(&flight.bytes);
        }
        if let Some(flight) = self.wires[1].take() {
            let (received, established) = (&mut self.received[0], &mut self.established[0]);
            self.client.handle(&flight.bytes, self.now, &(), &mut |event| note(event, received, established));
        }
    }

    fn at_server(&mut self, datagram: &[u8]) {
        if let Some(server) = &mut self.server {
            let (received, established) = (&mut self.received[1], &mut self.established[1]);
            server.handle(datagram, self.now, &OneKey, &mut |event| note(event, received, established));
            return;
        }
        match self.cookies.greet(datagram, b"192.0.2.1", self.now, |_| {}) {
            Greeting::Reply(reply) => self.wires[1].put(&reply, 0),
            Greeting::Accept => {
                let settings = self.server_settings.clone();
                let mut fill = Rng::new(self.rng.number());
                let accepted = Connection::accept(settings, datagram, self.now, &mut |out| {
                    out.iter_mut().for_each(|octet| *octet = fill.number() as u8);
                });
                match accepted {
                    Ok(server) => self.server = Some(server),
                    Err((_, alert)) => alert.iter().for_each(|alert| self.wires[1].put(alert, 0)),
                }
            }
            _ => {}
        }
    }

    fn until_established(&mut self, turns: u32) -> bool {
        for _ in 0..turns {
            self.turn();
            let server = self.server.as_ref().map(Connection::phase);
            if self.client.phase() == Phase::Established && server == Some(Phase::Established) {
                return true;
            }
        }
        false
    }
}

fn note(event: Event<'_>, received: &mut Vec<Vec<u8>>, established: &mut u32) {
    match event {
        Event::Data(data) => received.push(data.to_vec()),
        Event::Established => *established += 1,
        Event::Closed => {}
    }
}

fn world(suite: CipherSuite, faults: Faults, seed: u64, cids: [Option<ConnectionId>; 2]) -> World {
    let [client, server] = cids.map(|cid| settings(suite, cid));
    World::new(client, server, faults, seed, b"turbine 3", b"a key of the wind park")
}

#[test]
fn every_suite_carries_data_both_ways() {
    for &suite in CipherSuite::ALL.iter().filter(|suite| suite.is_psk()) {
        let cids = [Some(ConnectionId::EMPTY), Some(cid(b"srv"))];
        let mut world = world(suite, Faults::default(), 1, cids);
        assert!(world.until_established(50), "{suite}");
        assert!(world.client.has_extended_master_secret());
        assert_eq!(world.client.remote_cid(), cid(b"srv"));
        let server = world.server.as_mut().unwrap();
        assert_eq!((server.identity(), server.suite()), (&b"turbine 3"[..], Some(suite)));
        let mut out = [0; 200];
        let len = server.seal(b"to the client", &mut out).unwrap();
        world
            .client
            .handle(&out[..len], 0, &(), &mut |event| assert_eq!(event, Event::Data(b"to the client")));
        let len = world.client.seal(b"to the server", &mut out).unwrap();
        let newest = server.handle(&out[..len], 0, &OneKey, &mut |event| {
            assert_eq!(event, Event::Data(b"to the server"));
        });
        assert!(newest);
        assert_eq!(out[0], 25, "the client addresses the server by its connection ID");
        world.client.close();
        let datagram = world.client.transmit().unwrap();
        let mut closed = 0;
        server.handle(&datagram, 0, &OneKey, &mut |event| closed += u32::from(event == Event::Closed));
        assert_eq!((closed, server.phase()), (1, Phase::Closed));
        assert_eq!(server.seal(b"x", &mut out), Err(SendError::NotEstablished));
    }
}

#[test]
fn handshake_fits_small_datagrams() {
    let suite = CipherSuite::EcdhePskAes128Ccm8Sha256;
    let settings = Settings { mtu: 60, ..settings(suite, None) };
    let key = b"a key of the wind park";
    let mut world = World::new(settings.clone(), settings, Faults::default(), 1, b"turbine 3", key);
    assert!(world.until_established(50));
}

#[test]
fn connection_ids_need_both_sides() {
    let suite = CipherSuite::PskAes128Ccm8;
    let some = Some(cid(b"abc"));
    for (cids, agreed) in [([some, some], true), ([some, None], false), ([None, some], false)] {
        let mut world = world(suite, Faults::default(), 1, cids);
        assert!(world.until_established(50));
        assert_eq!(!world.client.remote_cid().is_empty(), agreed);
        assert_eq!(!world.server.unwrap().local_cid().is_empty(), agreed);
    }
}

#[test]
fn wrong_key_or_identity_fails_with_reason() {
    let suite = CipherSuite::PskAes128Ccm8;
    for (identity, key) in [(&b"turbine 3"[..], &b"wrong"[..]), (b"turbine 4", b"a key of the wind park")] {
        let settings = Settings { give_up_ms: 5000, ..settings(suite, None) };
        let mut world = World::new(settings.clone(), settings, Faults::default(), 1, identity, key);
        assert!(!world.until_established(6000));
        let Phase::Failed(failure @ Failure::TimedOut { alert, .. }) = world.client.phase() else {
            panic!("{:?}", world.client)
        };
        assert_eq!(alert.is_some(), identity == b"turbine 4", "{failure}");
        let server = world.server.unwrap();
        assert!(matches!(server.phase(), Phase::Failed(_)), "{server:?}");
        assert!(server.refusals().total() > 0);
    }
}

#[test]
fn client_learns_of_no_common_suite() {
    let server = settings(CipherSuite::PskAes128Ccm, None);
    let client = Settings { give_up_ms: 1000, ..settings(CipherSuite::PskAes128Ccm8, None) };
    let mut world = World::new(client, server, Faults::default(), 1, b"turbine 3", b"key");
    assert!(!world.until_established(1100));
    assert!(matches!(world.client.phase(), Phase::Failed(Failure::TimedOut { alert: Some(_), .. })));
}

#[test]
fn early_close_fails_the_handshake() {
    let mut world = world(CipherSuite::PskAes128Ccm8, Faults::default(), 1, [None, None]);
    while world.established[1] == 0 {
        world.turn();
    }
    // The server's Finished is lost, and it closes.
    let server = world.server.as_mut().unwrap();
    server.close();
    let last = core::iter::from_fn(|| server.transmit()).last().unwrap();
    world.client.handle(&last, world.now, &(), &mut |_| {});
    assert!(matches!(world.client.phase(), Phase::Failed(Failure::Alert(_))), "{:?}", world.client);
}

#[test]
fn hello_without_numbers_left_is_refused() {
    let cookies = Cookies::new([1; 32]);
    let mut world = world(CipherSuite::PskAes128Ccm8, Faults::default(), 1, [None, None]);
    let hello = world.client.transmit().unwrap();
    // The record's number is in octets 5 to 10, the message's in 17 and 18.
    for octets in [5..11, 17..19] {
        let mut last = hello.clone();
        last[octets].fill(0xff);
        let greeting = cookies.greet(&last, b"here", 0, |_| {});
        assert_eq!(greeting, Greeting::Refused(Dropped::Handshake));
        let accepted = Connection::accept(world.server_settings.clone(), &last, 0, &mut |_| {});
        assert!(accepted.is_err());
    }
}

#[test]
fn cookie_is_bound_to_address_and_time() {
    let cookies = Cookies::new([1; 32]);
    let mut world = world(CipherSuite::PskAes128Ccm8, Faults::default(), 1, [None, None]);
    let hello = world.client.transmit().unwrap();
    let Greeting::Reply(reply) = cookies.greet(&hello, b"here", 0, |_| {}) else { panic!("no cookie") };
    assert!(reply.len() <= hello.len(), "an answer to nobody is no longer than the question");
    world.client.handle(&reply, 0, &(), &mut |_| {});
    let with_cookie = world.client.transmit().unwrap();
    assert_eq!(cookies.greet(&with_cookie, b"here", 60_000, |_| {}), Greeting::Accept);
    let mut counted = 0;
    for (peer, now) in [(b"here", 120_000), (b"away", 0)] {
        let greeting = cookies.greet(&with_cookie, peer, now, |_| counted += 1);
        assert!(matches!(greeting, Greeting::Reply(_)), "{greeting:?}");
    }
    assert_eq!(counted, 2);
    assert!(matches!(Cookies::new([2; 32]).greet(&with_cookie, b"here", 0, |_| {}), Greeting::Reply(_)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Lost, duplicated, reordered and replayed datagrams only delay a handshake. Afterwards data
    /// is output at most once and as sent, whatever else the wire does. (A changed handshake
    /// message makes the handshake fail, because the hashes differ.)
    #[test]
    fn bad_wire_only_delays_handshake(seed: u64, suite in 5usize..15, with_cid: bool) {
        let faults = Faults {
            lose: 150, duplicate: 100, reorder: 200, displacement: 3, replay: 100, ..Faults::default()
        };
        let cids = if with_cid { [Some(cid(b"cl")), Some(cid(b"server!!"))] } else { [None, None] };
        let suite = CipherSuite::ALL[suite];
        let [mut client, mut server] = cids.map(|cid| settings(suite, cid));
        (client.mtu, server.mtu) = (150, 150);
        client.give_up_ms = u64::MAX;
        server.give_up_ms = u64::MAX;
        let mut world = World::new(client, server, faults, seed, b"turbine 3", b"a key of the wind park");
        prop_assert!(world.until_established(4_000_000), "{:?} {:?}", world.client, world.server);
        prop_assert_eq!(world.established, [1, 1]);
        for wire in &mut world.wires {
            wire.faults = Faults { corrupt: 100, truncate: 50, inject: 100, ..faults };
        }
        let mut out = [0; 200];
        for serial in 0..50u8 {
            let len = world.client.seal(&[serial; 30], &mut out).unwrap();
            world.wires[0].put(&out[..len], 0);
            let len = world.server.as_mut().unwrap().seal(&[serial; 40], &mut out).unwrap();
            world.wires[1].put(&out[..len], 0);
            world.turn();
        }
        (0..100).for_each(|_| world.turn());
        for (side, len) in [(0, 40), (1, 30)] {
            let mut seen = BTreeSet::new();
            for data in &world.received[side] {
                prop_assert!(data.len() == len && data.iter().all(|octet| *octet == data[0]));
                prop_assert!(seen.insert(data[0]), "{} came twice", data[0]);
            }
            prop_assert!(seen.len() > 20);
        }
    }
}
