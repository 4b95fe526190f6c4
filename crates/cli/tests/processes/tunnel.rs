//! The memory of an overlay's gateway, searched for keys that were retired. The test is its peer.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use antedate_aead::{ChaCha20Poly1305, Key, Nonce};
use antedate_channel::wireguard::{
    Device, Environment, HEADROOM, LONGEST_HANDSHAKE, PeerId, Received, Settings, Timestamp,
};
use antedate_gateway::config::tunnel_keys::decode;
use antedate_gateway::run::control::{self, Request};
use antedate_lab::ns::{Chain, ChainOptions};
use blake2::{Blake2s256, Digest as _};
use hmac::{KeyInit as _, Mac as _, SimpleHmac};
use x25519_dalek::{PublicKey, StaticSecret};

use super::memory::{Found, Needle, WIPED, count, search};
use super::retired::{ConcatAll as _, pieces};
use super::{PATIENCE, Site, antedate, configuration, directory, frame, harness, start};

const PEER: PeerId = PeerId(0);
const GATEWAY: &str = "192.0.2.1:51820";
const TEST: &str = "192.0.2.2:51820";

type Secret = [u8; 32];

struct World(Instant);

impl Environment for World {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn timestamp(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let mut stamp = [0; 12];
        stamp[..8].copy_from_slice(&((1 << 62) + since.as_secs()).to_be_bytes());
        stamp[8..].copy_from_slice(&since.subsec_nanos().to_be_bytes());
        stamp
    }

    fn random(&mut self, out: &mut [u8]) {
        getrandom::fill(out).expect("random numbers");
    }
}

/// `N` keys of HKDF (WireGuard paper, section 5.4).
fn kdf<const N: usize>(chaining: Secret, input: &[u8]) -> [Secret; N] {
    let hmac = |key: Secret, parts: &[&[u8]]| -> Secret {
        let mut mac = SimpleHmac::<Blake2s256>::new_from_slice(&key).expect("any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    };
    let first = hmac(chaining, &[input]);
    let mut last = Vec::new();
    (1..=N as u8)
        .map(|number| {
            let key = hmac(first, &[&last, &[number]]);
            last = key.to_vec();
            key
        })
        .collect::<Vec<_>>()
        .try_into()
        .expect("N keys")
}

/// The secrets of a handshake that the test began: the chaining keys and agreements that both ends
/// need for it alone, and the keys of the session, the test's for sending first.
struct Secrets {
    passing: Vec<Secret>,
    keys: [Secret; 2],
}

impl Secrets {
    fn new(own: Secret, ephemeral: Secret, psk: Secret, gateway: Secret, answer: Secret) -> Self {
        let agree = |secret: Secret, public: Secret| {
            StaticSecret::from(secret).diffie_hellman(&PublicKey::from(public)).to_bytes()
        };
        let begin: Secret = Blake2s256::digest(b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s").into();
        let [first] = kdf(begin, PublicKey::from(&StaticSecret::from(ephemeral)).as_bytes());
        let agreements = [agree(ephemeral, gateway), agree(ephemeral, answer), agree(own, answer)];
        let [second, sealing] = kdf(first, &agreements[0]);
        let [third, stamping] = kdf(second, &agree(own, gateway));
        let [fourth] = kdf(third, &answer);
        let [fifth] = kdf(fourth, &agreements[1]);
        let [sixth] = kdf(fifth, &agreements[2]);
        let [seventh, tau, empty] = kdf(sixth, &psk);
        let passing = [second, sealing, third, stamping, fourth, fifth, sixth, seventh, tau, empty];
        Self { passing: [&passing[..], &agreements].concat(), keys: kdf(seventh, &[]) }
    }

    /// The keys, and the key streams of the numbers that are likely to be prepared: after `sent` in
    /// each direction.
    fn needles(&self, sent: [u64; 2]) -> Vec<Needle> {
        let mut needles = Vec::new();
        for ((name, key), sent) in ["receiving", "sending"].iter().zip(self.keys).zip(sent) {
            needles.extend(pieces(&format!("{name} key"), &key));
            for number in sent..sent + 4 {
                let mut nonce = [0; 12];
                nonce[4..].copy_from_slice(&number.to_le_bytes());
                let mut stream = [0; 64];
                let cipher = Key::<ChaCha20Poly1305>::new(&key).expect("32 octets");
                let _ = cipher.seal_in_place(Nonce::assume_unique(nonce), &[], &mut stream);
                needles.extend(pieces(&format!("{name} stream {number}"), &stream));
            }
        }
        needles
    }

    fn passing(&self) -> Vec<Needle> {
        let named = self.passing.iter().enumerate();
        named.flat_map(|(at, secret)| pieces(&format!("passing secret {at}"), secret)).collect()
    }
}

/// The far end of the gateway's tunnel.
struct Far {
    socket: UdpSocket,
    world: World,
    own: Secret,
    gateway: Secret,
}

impl Far {
    /// A handshake, after which the gateway uses the session in both directions.
    fn session(&mut self, psk: Secret, plc: &impl Fn(u32)) -> Secrets {
        let to: SocketAddr = GATEWAY.parse().expect("an address");
        let mut device = Device::new(&self.own);
        device.log_keys();
        let settings = Settings { preshared: psk, endpoint: Some(to), ..Settings::new(self.gateway) };
        device.add_peer(&settings).expect("a peer");
        device.want_handshake(self.world.now(), PEER);
        let (mut datagram, mut answer) = ([0; 2_048], [0; LONGEST_HANDSHAKE]);
        let (end, mut answered, mut number) = (Instant::now() + PATIENCE, None, 0);
        // Until the gateway has sent packets in it.
        while device.counters(PEER).is_none_or(|counters| counters.received < 8) {
            assert!(Instant::now() < end, "no session, or nothing in it: {device:?}");
            while let Some(outgoing) = device.poll(&mut self.world, &mut answer) {
                self.socket.send_to(&answer[..outgoing.len], outgoing.to).expect("sent");
            }
            if answered.is_some() {
                plc(number);
                number += 1;
                let sealed = device.seal(self.world.now(), PEER, &mut datagram[..HEADROOM + 64], 16);
                let (_, len) = sealed.expect("a session");
                self.socket.send_to(&datagram[..len], to).expect("sent");
            }
            let Ok((len, from)) = self.socket.recv_from(&mut datagram) else { continue };
            // The gateway's own initiations stay without an answer.
            if from == to && datagram[0] != 1 {
                let response = datagram;
                let received = device.receive(&mut self.world, from, &mut datagram[..len], &mut answer);
                if received == Ok(Received::Session { peer: PEER }) {
                    answered = response[12..].first_chunk().copied();
                }
            }
        }
        let log = device.take_key_log();
        let ephemeral = *log.last().expect("a handshake").local_ephemeral;
        Secrets::new(self.own, ephemeral, psk, self.gateway, answered.expect("a response"))
    }
}

/// A key file, and the key in it.
fn made(file: &Path, preshared: bool) -> Secret {
    let name = file.display().to_string();
    let words = ["keygen", "wireguard", "--preshared", "--out", &name];
    let words: Vec<_> = words.into_iter().filter(|word| preshared || *word != "--preshared").collect();
    let made = antedate(&words);
    assert_eq!(made.0, 0, "{}", made.1);
    decode(&fs::read_to_string(file).expect("a key")).expect("32 octets")
}

/// The names of what was found, one each.
fn names(found: &Found) -> Vec<&str> {
    let mut names: Vec<_> = found.iter().map(|(name, _)| &name[..]).collect();
    names.dedup();
    names
}

pub(super) fn retired_tunnel_keys_leave_memory() {
    let files = directory("tunnel");
    let private = made(&files.join("a.key"), false);
    let own = made(&files.join("b.key"), false);
    let psks = ["first.psk", "second.psk"].map(|name| made(&files.join(name), true));
    let section = |psk: &str, public: &str| {
        format!(
            "[overlay]\nprivate_key_file = \"a.key\"\naddress = \"10.66.0.1\"\nvni = 42\n[[overlay.peer]]\nname = \"b\"\n\
             public_key = \"{public}\"\npreshared_key_file = \"{psk}\"\nendpoint = \"{TEST}\"\naddress = \"10.66.0.2\""
        )
    };
    let public = |secret: Secret| Device::public_of(&secret);
    let text = |key: Secret| antedate_gateway::config::tunnel_keys::encode(&key).to_string();
    let write = |psk: &str, peer: Secret| {
        fs::write(files.join("a.toml"), configuration("a", &section(psk, &text(peer)))).expect("written");
    };
    write("first.psk", public(own));
    let chain = Chain::build(ChainOptions { wire: false, ..ChainOptions::default() }).expect("a chain");
    for (space, address) in [(&chain.gateway_a, GATEWAY), (&chain.gateway_b, TEST)] {
        let address = address.trim_end_matches(":51820");
        space.batch(&[format!("address add {address}/24 dev uplink")]).expect("an address");
    }
    let plc = Site::port(&chain.plc);
    let mut gateway = start(&files, "a", &chain.gateway_a);
    let socket = chain.gateway_b.run(|| UdpSocket::bind(TEST)).expect("a thread").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("an option");
    let mut far = Far { socket, world: World(Instant::now()), own, gateway: public(private) };
    let send = |number: u32| drop(plc.send(&frame(1, number)));
    let reload = || {
        let reply = control::ask(&files.join("a.sock"), Request::Reload {}).expect("a reply");
        assert!(reply.ok, "{reply:?}");
    };

    // In use: the keys, and nothing of the handshake.
    let first = far.session(psks[0], &send);
    thread::sleep(Duration::from_millis(300));
    let in_use = first.needles([0; 2]);
    let Some(found) = search(gateway.pid(), &in_use) else {
        return harness::skipped("the memory of an overlay: /proc/PID/mem is not readable");
    };
    for name in ["receiving key, 0", "sending key, 0"] {
        assert!(count(&found, name) >= 1, "{name}: {found:#?}");
    }
    thread::sleep(WIPED);
    let found = search(gateway.pid(), &first.passing()).expect("its memory");
    assert!(found.is_empty(), "of the handshake: {found:#?}");

    // One copy of each static secret.
    let shared = StaticSecret::from(private).diffie_hellman(&PublicKey::from(public(own))).to_bytes();
    let lasting = |psk: Secret| {
        [
            pieces("private key", &private),
            pieces("private key's text", text(private).as_bytes()),
            pieces("shared secret", &shared),
            pieces("preshared key", &psk),
            pieces("preshared key's text", text(psk).as_bytes()),
        ]
    };
    let once = ["private key", "shared secret", "preshared key"];
    let check = |found: &Found, psk: Secret| {
        for needle in lasting(psk).iter().flatten() {
            let expected = usize::from(once.iter().any(|name| needle.name.split(',').next() == Some(name)));
            assert_eq!(count(found, &needle.name), expected, "{}: {found:#?}", needle.name);
        }
    };
    let all = |psk: Secret| lasting(psk).into_iter().flatten().collect::<Vec<_>>();
    check(&search(gateway.pid(), &all(psks[0])).expect("its memory"), psks[0]);

    // Replaced by two newer ones: the first of them is still received.
    let second = far.session(psks[0], &send);
    let third = far.session(psks[0], &send);
    thread::sleep(WIPED);
    let found = search(gateway.pid(), &first.needles([0; 2])).expect("its memory");
    assert!(found.is_empty(), "of the session before the last: {:?} {found:#?}", names(&found));
    assert!(
        count(&search(gateway.pid(), &third.needles([0; 2])).expect("its memory"), "sending key, 0") >= 1
    );

    // Another preshared key.
    write("second.psk", public(own));
    reload();
    thread::sleep(WIPED);
    let old = [pieces("old", &psks[0]), pieces("old text", text(psks[0]).as_bytes())].concat_all();
    let found = search(gateway.pid(), &old).expect("its memory");
    assert!(found.is_empty(), "of the preshared key: {found:#?}");
    check(&search(gateway.pid(), &all(psks[1])).expect("its memory"), psks[1]);

    // The peer is gone.
    write("second.psk", public([7; 32]));
    reload();
    thread::sleep(WIPED);
    let mut gone =
        [second.needles([0; 2]), third.needles([0; 2]), pieces("shared secret", &shared)].concat_all();
    gone.extend(third.passing());
    let found = search(gateway.pid(), &gone).expect("its memory");
    assert!(found.is_empty(), "of a peer that is gone: {found:#?}");
    assert!(gateway.is_running(), "{:?}", gateway.errors());
    gateway.terminate();
    let _ = fs::remove_dir_all(files);
}
