//! The memory of a DTLS proxy and of an MQTT client, searched for keys that were retired.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{CipherSuite, Client, Connection, Phase, Settings};
use antedate_channel::mqtt::{Algorithm, Material};
use antedate_lab::ns::Namespace;
use antedate_lab::process::{Place, Process};
use antedate_mqtt::file::{Device, GroupFile, Member};
use antedate_mqtt::guard::{Guard, Verdict};
use antedate_mqtt::manage::{self, Manager};
use antedate_mqtt::store::Store;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::memory::{Needle, WIPED, count, needle, schedule, search};
use super::{ANTEDATE, PATIENCE, directory, harness};

/// A secret in pieces of 16 octets.
pub(super) fn pieces(name: &str, secret: &[u8]) -> Vec<Needle> {
    let (whole, _) = secret.as_chunks::<16>();
    whole.iter().enumerate().map(|(at, octets)| needle(format!("{name}, {}", 16 * at), *octets)).collect()
}

fn private(file: &Path, text: &str) {
    fs::write(file, text).expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("its mode");
}

// DTLS.

const PSK: [u8; 16] = *b"\x71\x0c\xe2\x93\x5d\xb8\x40\x1f\xa6\x2e\xc9\x54\x8b\x37\xf1\x6d";
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4_501);

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The pseudorandom function of TLS 1.2 (RFC 5246, section 5).
fn prf(secret: &[u8], seed: &[u8], len: usize) -> Vec<u8> {
    let (mut a, mut out) = (hmac(secret, &[seed]), Vec::new());
    while out.len() < len {
        out.extend(hmac(secret, &[&a, seed]));
        a = hmac(secret, &[&a]);
    }
    out.truncate(len);
    out
}

/// The handshake messages of a session with readable handshake: those of epoch 0 from the ClientHello
/// with the cookie on, once each.
#[derive(Default)]
struct Heard(Vec<Vec<u8>>);

impl Heard {
    fn datagram(&mut self, mut datagram: &[u8]) {
        while let Some((head, rest)) = datagram.split_first_chunk::<13>() {
            let (record, rest) = rest.split_at(usize::from(u16::from_be_bytes([head[11], head[12]])));
            datagram = rest;
            if head[0] != 22 || head[3..5] != [0, 0] {
                continue;
            }
            // A HelloVerifyRequest, and the hello before it, do not count (RFC 6347, 4.2.1).
            let verify = record[0] == 3;
            let first = record[0] == 1 && record[4..6] == [0, 0];
            if !verify && !first && !self.0.iter().any(|known| known == record) {
                self.0.push(record.to_vec());
            }
        }
    }

    fn random(&self, kind: u8) -> &[u8] {
        let message = self.0.iter().find(|message| message[0] == kind).expect("a hello");
        &message[14..46]
    }

    /// The master secret (RFC 7627, section 4; RFC 4279, section 2), and the keys of client and
    /// server.
    fn keys(&self) -> (Vec<u8>, [[u8; 16]; 2]) {
        let premaster = [&[0, 16], &[0; 16][..], &[0, 16], &PSK].concat();
        let hash = Sha256::digest(self.0.concat());
        let master = prf(&premaster, &[&b"extended master secret"[..], &hash].concat(), 48);
        let seed = [b"key expansion", self.random(2), self.random(1)].concat();
        let block = prf(&master, &seed, 32);
        (master, [0, 16].map(|at| *block[at..].first_chunk().expect("16 octets")))
    }
}

/// A session with the proxy, and its handshake.
fn session(socket: &UdpSocket) -> (Connection, Heard) {
    let settings = Settings {
        suites: vec![CipherSuite::PskAes128GcmSha256],
        cid: None,
        retransmit_ms: 200,
        ..Settings::default()
    };
    let client = Client { identity: b"turbine".to_vec(), key: PSK.to_vec().into() };
    let mut random = |out: &mut [u8]| getrandom::fill(out).expect("random numbers");
    let mut connection = Connection::connect(settings, client, 0, &mut random);
    let (began, mut heard, mut buffer) = (Instant::now(), Heard::default(), [0; 2_000]);
    while connection.phase() != Phase::Established {
        assert!(began.elapsed() < PATIENCE, "{connection:?}");
        let now = began.elapsed().as_millis() as u64;
        if connection.deadline().is_some_and(|deadline| now >= deadline) {
            connection.timeout(now);
        }
        while let Some(datagram) = connection.transmit() {
            heard.datagram(&datagram);
            // The proxy may not listen yet.
            let _ = socket.send(&datagram);
        }
        if let Ok(len) = socket.recv(&mut buffer) {
            heard.datagram(&buffer[..len]);
            connection.handle(&buffer[..len], now, &(), &mut |_| ());
        }
    }
    (connection, heard)
}

pub(super) fn ended_dtls_session_leaves_memory() {
    let space = Namespace::create("keys").expect("a namespace");
    space.batch(&["link set dev lo up".into()]).expect("the loopback interface");
    let files = directory("ended");
    let digits: String = PSK.iter().map(|octet| format!("{octet:02x}")).collect();
    private(&files.join("psk"), &format!("turbine:{digits}\n"));
    let psk = files.join("psk").display().to_string();
    let listen = LISTEN.to_string();
    let words = ["dtls", "listen", "--listen", &listen, "--to", "127.0.0.1:4502", "--psk", &psk];
    let place = Place { namespace: Some(space.file()), ..Place::default() };
    let mut proxy = Process::start("listen", &ANTEDATE.into(), &words, &place).expect("it starts");
    let open = || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("an option");
        socket.connect(LISTEN).expect("an address");
        socket
    };
    let socket = space.run(open).expect("a thread");
    let (mut connection, heard) = session(&socket);
    let mut record = [0; 2_000];
    for _ in 0..20 {
        let len = connection.seal(b"a reading", &mut record).expect("keys");
        socket.send(&record[..len]).expect("sent");
    }
    thread::sleep(Duration::from_millis(200));
    let (master, [client, server]) = heard.keys();
    let mut needles = [schedule("client's", client), schedule("server's", server)].concat_all();
    needles.extend(pieces("master secret", &master));
    let Some(found) = search(proxy.pid(), &needles) else {
        return harness::skipped("the memory of a proxy: /proc/PID/mem is not readable");
    };
    // The search finds both keys in use.
    for name in ["client's, round 0", "server's, round 0"] {
        assert!(count(&found, name) >= 1, "{name}: {found:?}; {:?}", proxy.errors());
    }
    connection.close();
    while let Some(datagram) = connection.transmit() {
        socket.send(&datagram).expect("sent");
    }
    thread::sleep(WIPED);
    let found = search(proxy.pid(), &needles).expect("its memory");
    assert!(found.is_empty(), "{found:#?}");
    assert!(proxy.is_running());
    proxy.terminate();
    let _ = fs::remove_dir_all(files);
}

/// Joins lists that cannot be copied.
pub(super) trait ConcatAll<T> {
    fn concat_all(self) -> Vec<T>;
}

impl<T, const N: usize> ConcatAll<T> for [Vec<T>; N] {
    fn concat_all(self) -> Vec<T> {
        self.into_iter().flatten().collect()
    }
}

// MQTT.

const TOPIC: &str = "plant/force";
const KEYS: &str = "antedate/keys/line4";

/// `antedate mqtt open --frames`.
struct Opener {
    child: Child,
    requests: ChildStdin,
    /// The status of each answer, read by a thread: an answer that does not come ends the test.
    answers: mpsc::Receiver<u8>,
}

/// The status of the next answer.
fn answer(from: &mut ChildStdout) -> io::Result<u8> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    from.read_exact(&mut vec![0; len as usize])?;
    Ok(head[0])
}

impl Opener {
    /// The status of the answer: 0 opened, 1 refused, 2 a rotation.
    fn ask(&mut self, topic: &str, content: &[u8]) -> u8 {
        let lengths = ((topic.len() as u16).to_be_bytes(), (content.len() as u32).to_be_bytes());
        let request = [&lengths.0[..], topic.as_bytes(), &lengths.1, content].concat();
        self.requests.write_all(&request).and_then(|()| self.requests.flush()).expect("it reads");
        self.answers.recv_timeout(PATIENCE).expect("an answer in time")
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is computed from the newest key of a group for a publisher.
fn secrets(manager: &Manager, publisher: &str) -> Vec<Needle> {
    let key = manager.group().keys.iter().max_by_key(|key| key.epoch).expect("a key");
    let material =
        Material::derive("line4", Algorithm::A128Gcm, key.epoch, &key.secret, publisher.as_bytes());
    let own: [u8; 16] = material.expect("a name").key().try_into().expect("AES-128");
    [pieces("secret", &key.secret[..]), schedule("publisher's", own)].concat_all()
}

pub(super) fn retired_group_key_leaves_memory() {
    let files = directory("retired");
    let device = |name: &str| Device { name: name.into(), secret: manage::random().expect("random") };
    let (press7, scada) = (device("press7"), device("scada"));
    let member = |one: &Device| Member {
        name: one.name.clone(),
        public: Some(one.public()),
        publish: true,
        verify: None,
    };
    let members = vec![member(&press7), member(&scada)];
    let group = manage::new_group("line4", Algorithm::A128Gcm, vec!["plant/#".into()], members);
    let path = |name: &str| files.join(name);
    private(&path("manager.toml"), &group.expect("a group").to_text(false));
    let mut manager = Manager::open(&path("manager.toml")).expect("a manager");
    let text = manager.group().to_text(true);
    private(&path("line4.toml"), &text);
    private(&path("scada.device"), &scada.to_text());
    for state in ["seals", "opens"] {
        Store::permit_volatile(&path(state)).and_then(|()| Store::create(&path(state))).expect("a state");
    }
    let file = GroupFile::parse(Path::new("line4.toml"), &text).expect("the members' file");
    let mut publisher =
        Guard::new(vec![file], Some(press7), Some(Store::open(&path("seals")).expect("a state")), None);

    let mut child = Command::new(ANTEDATE)
        .args([
            "mqtt",
            "open",
            "--frames",
            "--keys",
            "line4.toml",
            "--device",
            "scada.device",
            "--state",
            "opens",
        ])
        .current_dir(&files)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the command");
    let (requests, mut out) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let (post, answers) = mpsc::channel();
    thread::spawn(move || while answer(&mut out).is_ok_and(|status| post.send(status).is_ok()) {});
    let mut opener = Opener { child, requests, answers };
    let mut rotate = |manager: &Manager, opener: &mut Opener| {
        let rotation = manager.announce().expect("announced");
        let heard = publisher.open(KEYS, &rotation, &mut Vec::new());
        assert!(matches!(heard, Verdict::Rotated { .. }), "{heard:?}");
        assert_eq!(opener.ask(KEYS, &rotation), 2);
        for _ in 0..5 {
            let mut envelope = Vec::new();
            publisher.seal(TOPIC, b"81.5", &mut envelope).expect("sealed");
            assert_eq!(opener.ask(TOPIC, &envelope), 0);
        }
    };
    rotate(&manager, &mut opener);
    let first = secrets(&manager, "press7");
    let Some(found) = search(opener.child.id(), &first) else {
        return harness::skipped("the memory of an MQTT client: /proc/PID/mem is not readable");
    };
    // The search finds the keys in use.
    for name in ["secret, 0", "publisher's, round 0"] {
        assert!(count(&found, name) >= 1, "{name}: {found:?}");
    }
    manager.rotate(&[], 0).expect("rotated");
    rotate(&manager, &mut opener);
    thread::sleep(WIPED);
    let found = search(opener.child.id(), &first).expect("its memory");
    assert!(found.is_empty(), "{found:#?}");
    drop(opener);
    let _ = fs::remove_dir_all(files);
}
