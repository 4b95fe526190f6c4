//! Counters that begin anew with fresh keys: WireGuard's sessions and DTLS' epochs. Ends send, make
//! new keys, restart, lose messages and hear them again, in every short order.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use antedate_channel::dtls::{
    CipherSuite, Client, Connection, Cookies, Event, Greeting, Keyring, Phase, Psk, records,
};
use antedate_channel::wireguard::{
    Device, Dropped, Environment, HEADROOM, LONGEST_HANDSHAKE, PeerId, Received, Settings, Timestamp,
};
use antedate_channel::{dtls, wireguard};
use antedate_host::numbers::model::{Choices, explore};

/// Events of a life.
const EVENTS: usize = 3;
const PACKET: [u8; 32] = *b"always the same packet, 32 octet";

/// Numbers that look random.
#[derive(Clone, Copy)]
struct Random(u64);

impl Random {
    fn fill(&mut self, out: &mut [u8]) {
        for octet in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *octet = (self.0 >> 56) as u8;
        }
    }
}

/// A clock, and random numbers, which a restarted machine without entropy repeats.
struct World {
    now: u64,
    random: Random,
}

const SECOND: u64 = 1_000_000_000;

impl Environment for World {
    fn now(&self) -> u64 {
        self.now
    }

    fn timestamp(&self) -> Timestamp {
        let mut out = [0; 12];
        out[..8].copy_from_slice(&((1 << 62) + self.now / SECOND).to_be_bytes());
        out[8..].copy_from_slice(&((self.now % SECOND) as u32).to_be_bytes());
        out
    }

    fn random(&mut self, out: &mut [u8]) {
        self.random.fill(out);
    }
}

const PEER: PeerId = PeerId(0);
const PRIVATE: [[u8; 32]; 2] = [[0x11; 32], [0x22; 32]];
const SEED: Random = Random(7);

/// Two tunnel ends.
struct Tunnel {
    world: World,
    devices: [Device; 2],
    /// Counter and ciphertext of each packet that left.
    sent: BTreeSet<Vec<u8>>,
    /// The first initiation, which an attacker repeats.
    recorded: Option<Vec<u8>>,
    /// A restart repeats the random numbers.
    forgets: bool,
}

fn address(at: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, at as u8], 51820))
}

fn device(at: usize) -> Device {
    let mut device = Device::new(&PRIVATE[at]);
    let mut settings = Settings::new(Device::public_of(&PRIVATE[1 - at]));
    settings.endpoint = Some(address(1 - at));
    settings.reach = 64;
    device.add_peer(&settings).expect("valid");
    device
}

impl Tunnel {
    fn new(forgets: bool) -> Self {
        let world = World { now: 1_000 * SECOND, random: SEED };
        Self { world, devices: [device(0), device(1)], sent: BTreeSet::new(), recorded: None, forgets }
    }

    /// Brings a handshake message to an end, and its answer back.
    fn bring(&mut self, to: usize, message: &[u8]) -> Result<(), Dropped> {
        let (mut message, mut answer) = (message.to_vec(), [0; LONGEST_HANDSHAKE]);
        let got = self.devices[to].receive(&mut self.world, address(1 - to), &mut message, &mut answer)?;
        match got {
            Received::Answer { len } => self.bring(1 - to, &answer[..len]),
            _ => Ok(()),
        }
    }

    /// Sends and delivers what is due at both ends.
    fn settle(&mut self) {
        for at in [0, 1, 0, 1] {
            let mut out = [0; LONGEST_HANDSHAKE];
            while let Some(outgoing) = self.devices[at].poll(&mut self.world, &mut out) {
                let message = out[..outgoing.len].to_vec();
                if message[0] == 4 {
                    self.leaves(&message);
                } else {
                    self.recorded.get_or_insert_with(|| message.clone());
                }
                let _ = self.bring(1 - at, &message);
            }
        }
    }

    /// A transport message leaves: type and receiver's index, counter, ciphertext.
    fn leaves(&mut self, message: &[u8]) {
        assert!(self.sent.insert(message[8..].to_vec()), "a packet leaves twice with one nonce");
    }

    fn send(&mut self, at: usize) {
        for _ in 0..2 {
            let mut datagram = vec![0; HEADROOM + PACKET.len() + 16];
            datagram[HEADROOM..HEADROOM + PACKET.len()].copy_from_slice(&PACKET);
            self.devices[at].idle(3);
            match self.devices[at].seal(self.world.now, PEER, &mut datagram, PACKET.len()) {
                Ok((_, len)) => {
                    datagram.truncate(len);
                    self.leaves(&datagram);
                    let _ = self.bring(1 - at, &datagram);
                    return;
                }
                Err(wireguard::SendError::NoSession) => self.settle(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn happen(&mut self, event: usize) {
        // More than the pause between two handshakes.
        self.world.now += 6 * SECOND;
        match event {
            0 | 1 => self.send(event),
            2 => {
                self.devices[0].want_handshake(self.world.now, PEER);
                self.settle();
            }
            3 | 4 => {
                self.devices[event - 3] = device(event - 3);
                if self.forgets {
                    self.world.random = SEED;
                }
            }
            _ => {
                let recorded = self.recorded.clone().unwrap_or_default();
                let _ = self.bring(1, &recorded);
            }
        }
        self.settle();
    }

    fn live(choices: &mut Choices, forgets: bool) -> usize {
        let mut tunnel = Self::new(forgets);
        tunnel.send(0);
        tunnel.send(1);
        for _ in 0..EVENTS {
            tunnel.happen(choices.pick(6));
        }
        [0, 1].into_iter().for_each(|at| tunnel.happen(at));
        tunnel.sent.len()
    }
}

#[test]
fn wireguard_counters_never_repeat() {
    let runs = explore(|choices| {
        assert!(Tunnel::live(choices, false) >= 4);
    });
    assert_eq!(runs, 6_u64.pow(EVENTS as u32));
}

/// Two ends that restart without entropy agree on the same keys again.
#[test]
#[should_panic(expected = "a packet leaves twice")]
fn repeated_wireguard_keys_are_found() {
    explore(|choices| {
        Tunnel::live(choices, true);
    });
}

struct OneKey;

impl Keyring for OneKey {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        (identity == b"device").then(|| Psk::new(b"a pre-shared key".to_vec()))
    }
}

/// A client and a server.
struct Pair {
    ends: [Option<Connection>; 2],
    cookies: Cookies,
    random: Random,
    now: u64,
    /// Records with data: number and ciphertext.
    sent: BTreeSet<Vec<u8>>,
    /// All protected records of the present connections: end, number.
    numbers: BTreeSet<(usize, u64)>,
    forgets: bool,
}

impl Pair {
    fn new(forgets: bool) -> Self {
        let mut pair = Self {
            ends: [None, None],
            cookies: Cookies::new([9; 32]),
            random: SEED,
            now: 1_000,
            sent: BTreeSet::new(),
            numbers: BTreeSet::new(),
            forgets,
        };
        pair.connect(usize::MAX);
        pair
    }

    fn settings() -> dtls::Settings {
        dtls::Settings {
            suites: vec![CipherSuite::EcdhePskAes128GcmSha256],
            reach: 64,
            ..dtls::Settings::default()
        }
    }

    /// The client begins anew; datagram number `lost` of the handshake does not arrive at first.
    fn connect(&mut self, lost: usize) {
        if self.forgets {
            self.random = SEED;
        }
        self.numbers.clear();
        let who = Client { identity: b"device".to_vec(), key: Psk::new(b"a pre-shared key".to_vec()) };
        let mut random = self.random;
        let client = Connection::connect(Self::settings(), who, self.now, &mut |out| random.fill(out));
        self.random = random;
        self.ends = [Some(client), None];
        let mut count = 0;
        for _ in 0..40 {
            let mut quiet = true;
            for at in 0..2 {
                while let Some(datagram) = self.ends[at].as_mut().and_then(Connection::transmit) {
                    quiet = false;
                    self.leaves(at, &datagram);
                    count += 1;
                    if count != lost {
                        self.bring(1 - at, &datagram);
                    }
                }
            }
            let done = self.ends.iter().flatten().filter(|end| end.phase() == Phase::Established).count();
            if quiet && done == 2 {
                return;
            }
            if quiet {
                self.now += 2_000;
                self.ends.iter_mut().flatten().for_each(|end| end.timeout(self.now));
            }
        }
    }

    /// Notes the protected records of a datagram.
    fn leaves(&mut self, from: usize, datagram: &[u8]) {
        for record in records(datagram, 0).map_while(Result::ok).filter(|record| record.epoch > 0) {
            let number = u64::from(record.epoch) << 48 | record.sequence;
            assert!(self.numbers.insert((from, number)), "a record leaves twice with one number");
        }
    }

    fn bring(&mut self, to: usize, datagram: &[u8]) {
        let now = self.now;
        match &mut self.ends[to] {
            Some(end) => {
                let _ = end.handle(datagram, now, &OneKey, &mut |_: Event<'_>| {});
            }
            None => match self.cookies.greet(datagram, b"192.0.2.1", now, |_| {}) {
                Greeting::Reply(reply) => self.bring(0, &reply),
                Greeting::Accept => {
                    let mut random = self.random;
                    let fill = &mut |out: &mut [u8]| random.fill(out);
                    let server = Connection::accept(Self::settings(), datagram, now, fill);
                    self.ends[1] = server.ok();
                    self.random = random;
                }
                _ => {}
            },
        }
    }

    fn send(&mut self, at: usize) {
        let Some(end) = &mut self.ends[at] else { return };
        let mut out = vec![0; 200];
        end.idle(3);
        let Ok(len) = end.seal(&PACKET, &mut out) else { return };
        out.truncate(len);
        self.leaves(at, &out);
        // The header has the number, too.
        assert!(self.sent.insert(out.clone()), "a packet leaves twice with one nonce");
        self.bring(1 - at, &out);
    }

    fn live(choices: &mut Choices, forgets: bool) -> usize {
        let mut pair = Self::new(forgets);
        pair.send(0);
        pair.send(1);
        for _ in 0..EVENTS {
            match choices.pick(8) {
                at @ 0..=1 => pair.send(at),
                // All flights arrive, or one does at the second attempt.
                2 => pair.connect(usize::MAX),
                lost => pair.connect(lost - 2),
            }
        }
        [0, 1].into_iter().for_each(|at| pair.send(at));
        pair.sent.len()
    }
}

#[test]
fn dtls_records_never_repeat() {
    let runs = explore(|choices| {
        assert!(Pair::live(choices, false) >= 4);
    });
    assert_eq!(runs, 8_u64.pow(EVENTS as u32));
}

#[test]
#[should_panic(expected = "a packet leaves twice")]
fn repeated_dtls_keys_are_found() {
    explore(|choices| {
        Pair::live(choices, true);
    });
}
