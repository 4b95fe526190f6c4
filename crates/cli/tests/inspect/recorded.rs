//! Traffic recorded on a loopback interface: OpenSSL 3.0 as a client of `antedate dtls listen`,
//! `antedate dtls connect`, and `antedate mqtt` over Mosquitto 2.0. tshark 4.0 reads the same payloads
//! in the DTLS sessions with AES, and the same topics.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::folder::Folder;

const PSK: &str = "device:000102030405060708090a0b0c0d0e0f\n";

/// The lines of a recording, and the payloads that are opened.
fn payloads(name: &str, octets: &[u8], words: &[&str], keys: &[(&str, &str)]) -> Vec<String> {
    let folder = Folder::new();
    fs::write(folder.path(name), octets).expect("a capture");
    for (name, text) in keys {
        fs::write(folder.path(name), text).expect("keys");
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o600)).expect("their mode");
    }
    let output = folder.call(&[&["inspect", name], words].concat());
    let said = String::from_utf8(output.stdout).expect("a text");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(" 0 refused"), "{said}");
    said.lines()
        .filter_map(|line| line.split_once("authentic: "))
        .map(|(_, payload)| payload.into())
        .collect()
}

#[cfg(feature = "dtls")]
#[test]
fn recorded_sessions_are_opened() {
    let capture = include_bytes!("recorded/dtls.pcap");
    let log = include_str!("recorded/keys.log");
    let open = |words: &[&str]| payloads("dtls.pcap", capture, words, &[("psk", PSK), ("keys.log", log)]);
    let [first, second, third] = ["psk-suite", "ephemeral-suite", "own client"].map(|text| {
        let end = if text == "own client" { "" } else { "\\n" };
        [format!("{text}{end}"), format!("answer to {text}")]
    });
    assert_eq!(open(&["--dtls-psk", "psk"]), [&first[..], &third].concat());
    assert_eq!(open(&["--dtls-keys", "keys.log"]), [first, second, third].concat());
}

#[cfg(feature = "mqtt")]
#[test]
fn recorded_publishes_are_opened() {
    let capture = include_bytes!("recorded/mqtt.pcap");
    let keys = [("line4.toml", include_str!("recorded/line4.toml"))];
    let opened = payloads("mqtt.pcap", capture, &["--mqtt-keys", "line4.toml"], &keys);
    // Each comes to the broker and from it.
    let expected: Vec<String> =
        (1..=3).flat_map(|at| [format!("{{\"kN\":{at}}}"), format!("{{\"kN\":{at}}}")]).collect();
    assert_eq!(opened, expected);
}
