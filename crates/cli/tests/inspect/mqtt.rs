//! A capture of MQTT in TCP, with segments cut anywhere, late, and twice.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use antedate_channel::mqtt::{Algorithm, Group, Publisher, Reserved};

use super::folder::Folder;
use super::{capture, ethernet};

/// A segment between these last octets of addresses, without checksums.
fn segment(ports: [u16; 2], sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((payload.len() + 40) as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    packet.extend(payload);
    ethernet(&packet)
}

/// A PUBLISH of QoS 0 and version 3.1.1.
fn publish(topic: &str, payload: &[u8]) -> Vec<u8> {
    let body = [&(topic.len() as u16).to_be_bytes()[..], topic.as_bytes(), payload].concat();
    assert!(body.len() < 128, "a short packet");
    [&[0x30, body.len() as u8][..], &body].concat()
}

#[test]
fn envelopes_are_opened_from_segments() {
    let mut group = Group::new("line4", Algorithm::AesCcm16_64_128);
    group.install(1, &[7; 32]);
    let material = group.material(1, b"press7").expect("material");
    let mut publisher = Publisher::new(&material, Reserved::new(1, 100));
    let mut sealed = |topic: &str, payload: &[u8]| {
        let mut message = Vec::new();
        publisher.seal(topic, payload, &mut message).expect("sealed");
        message
    };
    let first = sealed("plant/force", b"{\"kN\":81.5}");
    let skipped = sealed("plant/force", b"lost");
    let third = sealed("plant/force", b"{\"kN\":82.0}");
    drop(skipped);
    // Another sender with the same identity: the numbers come again.
    let mut other = Publisher::new(&material, Reserved::new(1, 100));
    let mut twice = Vec::new();
    other.seal("plant/force", b"other", &mut twice).expect("sealed");
    let stream = [
        b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0".to_vec(),
        publish("plant/force", &first),
        publish("plant/force", &third),
        publish("plant/other", &first),
        publish("plant/force", b"in clear"),
        publish("office/tea", b"ready"),
        publish("plant/force", &first),
    ]
    .concat();

    // On an unusual port, which the CONNECT makes known; cut in the middle of packets.
    let ports = [41_000, 11_883];
    let cut = [0, 20, 47, 90, 131, stream.len()];
    let mut frames = vec![segment(ports, 999, 0x02, b"")];
    frames.extend(
        cut.windows(2).map(|two| segment(ports, 1000 + two[0] as u32, 0x18, &stream[two[0]..two[1]])),
    );
    frames.swap(3, 4);
    frames.push(frames[2].clone());
    frames.push(segment([80, 41_001], 5, 0x18, b"HTTP/1.1 200 OK"));
    let folder = Folder::new();
    fs::write(folder.path("broker.pcap"), capture(&frames)).expect("a capture");
    let text = format!(
        "group = \"line4\"\nalgorithm = \"aes-ccm-16-64-128\"\ntopics = [\"plant/#\"]\n[[key]]\nepoch = 1\nsecret = \"{}\"\n",
        "07".repeat(32)
    );
    fs::write(folder.path("line4.toml"), &text).expect("keys");
    fs::set_permissions(folder.path("line4.toml"), fs::Permissions::from_mode(0o600)).expect("their mode");
    let run = |more: &[&str]| {
        let words = ["inspect", "broker.pcap", "--mqtt-keys", "line4.toml"];
        let output = folder.call(&[&words[..], more].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8(output.stdout).expect("a text"), error)
    };
    let (status, said, error) = run(&[]);
    assert_eq!(status, Some(0), "{said}{error}");
    for part in [
        "\"plant/force\" QoS 0 \"press7\" epoch 1 #1 authentic: {\"kN\":81.5}\n",
        "\"press7\" epoch 1 #3 (1 missing before it) authentic: {\"kN\":82.0}\n",
        "\"plant/other\" QoS 0 \"press7\" epoch 1 #1 refused: ",
        "refused: not protected on a protected topic",
        "\"office/tea\" QoS 0 not protected\n",
        "#1 (a copy) authentic: {\"kN\":81.5}\n",
        "8 frames, 6 publishes, 3 opened, 2 refused\n",
        "\"press7\" of \"line4\", epoch 1: 3 frames, PN 1 to 3, 1 missing, 0 late, 1 copies",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, json, _) = run(&["--json", "--quiet"]);
    let summary: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(summary["opened"], 3, "{json}");

    let end = 1000 + stream.len() as u32;
    frames.push(segment(ports, end, 0x18, &publish("plant/force", &twice)));
    fs::write(folder.path("broker.pcap"), capture(&frames)).expect("a capture");
    let (status, said, _) = run(&[]);
    assert!(status == Some(1) && said.contains("#1 (USED BEFORE) authentic: other"), "{said}");

    // A member's file without a key says whose to give.
    let member = format!("manager = \"{}\"\n", "20".repeat(32));
    let text = text.split("[[key]]").next().map(|front| front.to_owned() + &member);
    fs::write(folder.path("line4.toml"), text.expect("a front")).expect("written");
    let (status, _, error) = run(&[]);
    assert!(status == Some(2) && error.contains("manager"), "{error}");
}
