//! Handshakes with certificates: between two own ends, and with OpenSSL's programs as either end.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use antedate_dtls::certified::{Came, Certified, Handshake, HandshakeError, Identity, Suite};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

fn openssl(args: &[&str], directory: &Path) {
    let done = Command::new("openssl").args(args).current_dir(directory).stdin(Stdio::null()).output();
    let done = done.expect("openssl is installed (cargo xtask setup)");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A directory with two certificates and their keys, as PEM for OpenSSL and as DER.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["a", "b"] {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
        let curve = "ec_paramgen_curve:P-256";
        openssl(
            &[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                curve,
                "-nodes",
                "-keyout",
                &key,
                "-out",
                &certificate,
                "-subj",
                "/CN=antedate",
                "-days",
                "2",
            ],
            directory.path(),
        );
        openssl(
            &["x509", "-in", &certificate, "-outform", "DER", "-out", &format!("{name}.der")],
            directory.path(),
        );
        openssl(
            &["pkcs8", "-topk8", "-nocrypt", "-in", &key, "-outform", "DER", "-out", &format!("{name}.p8")],
            directory.path(),
        );
    }
    directory
}

fn identity(directory: &Path, ours: &str, theirs: &str) -> Identity {
    let read = |name: String| fs::read(directory.join(name)).expect("made");
    Identity {
        certificate: read(format!("{ours}.der")),
        key: Zeroizing::new(read(format!("{ours}.p8"))),
        peer: Sha256::digest(read(format!("{theirs}.der"))).into(),
    }
}

/// Connects both ends. `passes` decides which of the server's datagrams arrive.
fn pair(
    directory: &Path,
    suite: Suite,
    passes: impl Fn(usize) -> bool,
) -> Result<[Certified; 2], HandshakeError> {
    let mut now = Instant::now();
    let mut client = Handshake::new(&identity(directory, "a", "b"), &[suite], true, now)?;
    let mut server = Handshake::new(&identity(directory, "b", "a"), &[suite], false, now)?;
    let mut sent = 0;
    for _ in 0..200 {
        let mut moved = false;
        while let Some(datagram) = client.transmit() {
            moved = true;
            server.handle(&datagram)?;
        }
        while let Some(datagram) = server.transmit() {
            moved = true;
            sent += 1;
            if passes(sent) {
                client.handle(&datagram)?;
            }
        }
        match (client.finish()?, server.finish()?) {
            (Ok(client), Ok(server)) => return Ok([client, server]),
            (Err(one), Err(other)) => (client, server) = (*one, *other),
            _ => panic!("one side alone has keys"),
        }
        if !moved {
            now += Duration::from_secs(2);
            client.time(now)?;
            server.time(now)?;
        }
    }
    panic!("no keys");
}

#[test]
fn each_suite_carries_records_both_ways() {
    let directory = directory();
    for suite in Suite::ALL {
        let [mut client, mut server] = pair(directory.path(), suite, |_| true).expect("keys");
        for round in 0..20 {
            if round % 2 == 1 {
                while client.idle(64) + server.idle(64) > 0 {}
                assert!(client.prepared() > 0);
            }
            let data = [round as u8; 40];
            let there = client.protect(&data).expect("protected");
            assert_eq!(server.open(&there), [Came::Data(data.to_vec())], "{suite:?}");
            assert!(matches!(server.open(&there)[..], [Came::Refused(_)]), "a replay");
            let back = server.protect(&data).expect("protected");
            assert_eq!(client.open(&back), [Came::Data(data.to_vec())]);
        }
        assert_eq!(server.open(&client.close().expect("closed")), [Came::Closed]);
    }
}

#[test]
fn data_beside_the_last_flight_is_not_lost() {
    let directory = directory();
    let now = Instant::now();
    let mut client =
        Handshake::new(&identity(directory.path(), "a", "b"), &Suite::ALL, true, now).expect("begun");
    let mut server =
        Handshake::new(&identity(directory.path(), "b", "a"), &Suite::ALL, false, now).expect("begun");
    for _ in 0..20 {
        while let Some(datagram) = client.transmit() {
            server.handle(&datagram).expect("goes on");
        }
        let mut ready = match server.finish().expect("keys") {
            Ok(ready) => ready,
            Err(on) => {
                server = *on;
                while let Some(datagram) = server.transmit() {
                    client.handle(&datagram).expect("goes on");
                }
                continue;
            }
        };
        let mut flight: Vec<u8> = std::iter::from_fn(|| ready.transmit()).flatten().collect();
        flight.extend(ready.protect(b"with it").expect("protected"));
        client.handle(&flight).expect("goes on");
        let next = ready.protect(b"behind it").expect("protected");
        client.handle(&next).expect("goes on");
        let Ok(mut certified) = client.finish().expect("keys") else { panic!("no keys") };
        let said = [Came::Data(b"with it".to_vec()), Came::Data(b"behind it".to_vec())];
        assert_eq!(certified.came(), said);
        assert!(certified.came().is_empty() && matches!(certified.open(&next)[..], [Came::Refused(_)]));
        return;
    }
    panic!("no keys");
}

#[test]
fn unexpected_certificate_gives_no_keys() {
    let directory = directory();
    let now = Instant::now();
    let mut client =
        Handshake::new(&identity(directory.path(), "a", "a"), &Suite::ALL, true, now).expect("begun");
    let mut server =
        Handshake::new(&identity(directory.path(), "b", "a"), &Suite::ALL, false, now).expect("begun");
    for _ in 0..20 {
        while let Some(datagram) = client.transmit() {
            let _ = server.handle(&datagram);
        }
        while let Some(datagram) = server.transmit() {
            if let Err(failed) = client.handle(&datagram) {
                return assert_eq!(failed, HandshakeError::OtherPeer);
            }
        }
    }
    panic!("nobody minded");
}

/// A program of OpenSSL, killed on drop.
struct Program {
    child: Child,
    said: Receiver<u8>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(directory: &Path, args: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command.args(args).current_dir(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("openssl runs");
        let output = child.stdout.take().expect("piped");
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).bytes().map_while(Result::ok).try_for_each(|byte| say.send(byte))
        });
        Self { child, said }
    }

    fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(line.as_bytes()).and_then(|()| input.flush()).expect("taken");
    }

    /// Waits for a line.
    fn hears(&mut self, line: &str) {
        let mut seen = String::new();
        while !seen.ends_with(line) {
            match self.said.recv_timeout(Duration::from_secs(10)) {
                Ok(byte) => seen.push(char::from(byte)),
                Err(_) => panic!("only {seen:?} was said"),
            }
        }
    }
}

/// OpenSSL's name of a suite.
fn name(suite: Suite) -> &'static str {
    match suite {
        Suite::Aes128GcmSha256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        Suite::Aes256GcmSha384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        Suite::Chacha20Poly1305Sha256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("an option");
    socket
}

/// Completes a handshake over a socket. A server learns its peer from the first datagram.
fn shake(
    socket: &UdpSocket,
    mut handshake: Handshake,
    mut peer: Option<SocketAddr>,
) -> (Certified, SocketAddr) {
    let end = Instant::now() + Duration::from_secs(20);
    let mut buffer = [0; 4096];
    while Instant::now() < end {
        while let (Some(peer), Some(datagram)) = (peer, handshake.transmit()) {
            socket.send_to(&datagram, peer).expect("sent");
        }
        match handshake.finish().expect("keys") {
            Ok(mut certified) => {
                let peer = peer.expect("somebody is there");
                while let Some(datagram) = certified.transmit() {
                    socket.send_to(&datagram, peer).expect("sent");
                }
                return (certified, peer);
            }
            Err(on) => handshake = *on,
        }
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            peer = Some(from);
            handshake.handle(&buffer[..len]).expect("goes on");
        }
        if handshake.deadline().is_some_and(|deadline| Instant::now() >= deadline) {
            handshake.time(Instant::now()).expect("goes on");
        }
    }
    panic!("no keys in time");
}

/// Exchanges a line with the program in each direction.
fn talk(program: &mut Program, socket: &UdpSocket, certified: &mut Certified, peer: SocketAddr) {
    for round in 0..4 {
        while round % 2 == 1 && certified.idle(64) > 0 {}
        let (there, back) = (format!("there {round}\n"), format!("back {round}\n"));
        socket.send_to(&certified.protect(there.as_bytes()).expect("protected"), peer).expect("sent");
        program.hears(&there);
        program.say(&back);
        let end = Instant::now() + Duration::from_secs(10);
        let (mut buffer, mut came) = ([0; 4096], false);
        while !came && Instant::now() < end {
            if let Ok(len) = socket.recv(&mut buffer) {
                came = certified.open(&buffer[..len]).contains(&Came::Data(back.clone().into_bytes()));
            }
        }
        assert!(came, "{back:?} did not come");
    }
}

#[test]
fn openssl_is_the_server() {
    let directory = directory();
    for suite in Suite::ALL {
        let server = socket().local_addr().expect("bound");
        let at = server.to_string();
        let args = [
            "s_server", "-dtls1_2", "-quiet", "-accept", &at, "-cert", "b.pem", "-key", "b.key", "-Verify",
            "1",
        ];
        let mut program = Program::start(directory.path(), &[&args[..], &["-cipher", name(suite)]].concat());
        let socket = socket();
        let handshake = Handshake::new(&identity(directory.path(), "a", "b"), &[suite], true, Instant::now());
        // Datagrams before the program listens are lost and sent again.
        let (mut certified, peer) = shake(&socket, handshake.expect("begun"), Some(server));
        talk(&mut program, &socket, &mut certified, peer);
    }
}

#[test]
fn openssl_is_the_client() {
    let directory = directory();
    for suite in Suite::ALL {
        let socket = socket();
        let at = socket.local_addr().expect("bound").to_string();
        let handshake =
            Handshake::new(&identity(directory.path(), "b", "a"), &[suite], false, Instant::now());
        let args = ["s_client", "-dtls1_2", "-quiet", "-connect", &at, "-cert", "a.pem", "-key", "a.key"];
        let mut program = Program::start(directory.path(), &[&args[..], &["-cipher", name(suite)]].concat());
        let (mut certified, peer) = shake(&socket, handshake.expect("begun"), None);
        talk(&mut program, &socket, &mut certified, peer);
    }
}
