//! A capture of DTLS: a handshake with a pre-shared key and connection IDs, and data both ways.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use antedate_channel::dtls::{CipherSuite, Client, Connection, ConnectionId, Keyring, Phase, Psk, Settings};

use super::folder::Folder;
use super::{capture, datagram, ethernet};

const IDENTITY: &str = "turbine-3";
const KEY: [u8; 16] = [0x5a; 16];
/// Addresses and ports from the client to the server.
const THERE: ([u8; 2], [u16; 2]) = ([1, 2], [40_000, 4433]);
const BACK: ([u8; 2], [u16; 2]) = ([2, 1], [4433, 40_000]);

struct Keys;

impl Keyring for Keys {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        (identity == IDENTITY.as_bytes()).then(|| Psk::new(KEY.to_vec()))
    }
}

fn settings(suite: CipherSuite, cid: &[u8]) -> Settings {
    let cid = Some(ConnectionId::new(cid).expect("a connection ID"));
    Settings { suites: vec![suite], cid, ..Settings::default() }
}

/// Frames of a handshake and of these data by the client, each answered; and the line of a key log.
fn session(suite: CipherSuite, data: &[&[u8]]) -> (Vec<Vec<u8>>, String) {
    let who = Client { identity: IDENTITY.into(), key: Psk::new(KEY.to_vec()) };
    let mut client = Connection::connect(settings(suite, b"cl"), who, 0, &mut |out| out.fill(3));
    let hello = client.transmit().expect("a hello");
    let of_server = settings(suite, b"server");
    let mut server = Connection::accept(of_server, &hello, 0, &mut |out| out.fill(5)).expect("a server");
    let frame = |(ends, ports), content: &[u8]| ethernet(&datagram(ends, ports, content));
    let mut frames = vec![frame(THERE, &hello)];
    for way in [BACK, THERE, BACK] {
        let (from, to) = if way == THERE { (&mut client, &mut server) } else { (&mut server, &mut client) };
        while let Some(datagram) = from.transmit() {
            to.handle(&datagram, 0, &Keys, &mut |_| {});
            frames.push(frame(way, &datagram));
        }
    }
    assert_eq!((client.phase(), server.phase()), (Phase::Established, Phase::Established));
    for content in data {
        for (way, from) in [(THERE, &mut client), (BACK, &mut server)] {
            let mut out = [0; 200];
            let length = from.seal(content, &mut out).expect("sealed");
            frames.push(frame(way, &out[..length]));
        }
    }
    let (random, secret) = client.key_log().expect("keys");
    let hex = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    (frames, format!("CLIENT_RANDOM {} {}\n", hex(&random), hex(&secret[..])))
}

fn private(folder: &Folder, name: &str, text: &str) {
    fs::write(folder.path(name), text).expect("written");
    fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o600)).expect("its mode");
}

#[test]
fn sessions_are_opened_by_key() {
    let (mut frames, _) = session(CipherSuite::PskAes128Ccm8, &[b"21.5 degrees", &[0xff, 0]]);
    // The client is behind another address by now, and its connection ID tells the connection.
    let data = frames.len() - 4;
    let payload = frames[data][14 + 28..].to_vec();
    frames[data] = ethernet(&datagram([7, 2], [50_000, 4433], &payload));
    let mut forged = frames[data].clone();
    *forged.last_mut().expect("octets") ^= 1;
    frames.extend([forged, frames[data].clone(), frames[0][..30].to_vec()]);

    let folder = Folder::new();
    fs::write(folder.path("devices.pcap"), capture(&frames)).expect("a capture");
    private(&folder, "psk", &format!("{IDENTITY}:{}\n", "5a".repeat(16)));
    let words = ["inspect", "devices.pcap", "--dtls-psk", "psk"];
    let output = folder.call(&[&words[..], &["--write", "plain.pcap"]].concat());
    let said = String::from_utf8(output.stdout).expect("a text");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "handshake 0/0 ClientHello\n",
        "ClientKeyExchange; its keys are known, TLS_PSK_WITH_AES_128_CCM_8\n",
        "handshake 1/0 CID 736572766572 authentic, Finished\n",
        "192.0.2.7:50000 > 192.0.2.2:4433",
        "CID 736572766572 authentic: 21.5 degrees\n",
        "CID 636c authentic: ff00\n",
        "refused: wrong tag\n",
        "(a copy) authentic: 21.5 degrees\n",
        "192.0.2.1:40000 > 192.0.2.2:4433 (TLS_PSK_WITH_AES_128_CCM_8, turbine-3): 4 frames, PN 0 to 2, 0 missing",
        "7 opened, 1 refused\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let plain = fs::read(folder.path("plain.pcap")).expect("written");
    assert_eq!(plain.windows(12).filter(|window| *window == b"21.5 degrees").count(), 3);

    let json = String::from_utf8(folder.call(&[&words[..], &["--json"]].concat()).stdout).expect("a text");
    let payloads: Vec<String> = json
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["payload"].as_str().map(Into::into)
        })
        .collect();
    assert_eq!(payloads.len(), 5, "{json}");
    assert_eq!(payloads[3], "ff00", "{json}");
}

#[test]
fn ephemeral_sessions_need_a_key_log() {
    let (frames, log) = session(CipherSuite::EcdhePskAes128GcmSha256, &[b"closed"]);
    let folder = Folder::new();
    fs::write(folder.path("devices.pcap"), capture(&frames)).expect("a capture");
    private(&folder, "psk", &format!("{IDENTITY}:{}\n", "5a".repeat(16)));
    private(&folder, "keys.log", &log);
    let run = |option: &str, file: &str| {
        let output = folder.call(&["inspect", "devices.pcap", option, file]);
        (output.status.code(), String::from_utf8(output.stdout).expect("a text"), output.stderr)
    };
    let (status, said, _) = run("--dtls-psk", "psk");
    assert!(
        status == Some(0) && said.contains("has ephemeral keys, and its master secret is not logged"),
        "{said}"
    );
    assert!(said.contains(" 0 opened"), "{said}");
    let (status, said, _) = run("--dtls-keys", "keys.log");
    assert!(status == Some(0) && said.contains("authentic: closed"), "{said}");
    // Keys for other eyes are refused.
    fs::set_permissions(folder.path("keys.log"), fs::Permissions::from_mode(0o644)).expect("its mode");
    let (status, _, error) = run("--dtls-keys", "keys.log");
    assert!(status == Some(2) && String::from_utf8_lossy(&error).contains("keys.log"), "{status:?}");
}
