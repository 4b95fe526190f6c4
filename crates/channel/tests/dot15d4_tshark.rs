//! tshark decrypts and verifies what we secure: frames with counters, and TSCH frames with their slot in the capture.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use antedate_channel::dot15d4::{
    Address, Addressing, Asn, Config, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup, LinkKey,
    NonceKind, PanId, Policy, Protection, Security, SecurityLevel, ShortAddress,
};
use antedate_wire::dot15d4::FrameVersion;

const KEY: &str = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf";
const PAN: PanId = PanId(0xabcd);
const SENDER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0b]);
const RECEIVER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0a]);
/// Link types of captures: IEEE 802.15.4 without FCS, and with the TAP header.
const NO_FCS: u32 = 230;
const TAP: u32 = 283;

fn sender(nonces: NonceKind) -> Security {
    let mut security = Security::new(Config {
        extended: SENDER,
        pan: PAN,
        short: Some(ShortAddress(2)),
        policy: Policy::default(),
        enc_without_mic: false,
    });
    let key = std::array::from_fn(|i| 0xc0 + i as u8);
    let lookup = KeyLookup::Identified(KeyIdentifier::Index(1));
    security.install_key(KeyConfig::fresh(lookup, LinkKey::new(key), nonces)).unwrap();
    security
}

fn payload(level: SecurityLevel) -> Vec<u8> {
    [&[0][..], b"antedate ", level.name().as_bytes()].concat()
}

fn secure(security: &mut Security, header: &Header, level: SecurityLevel, asn: Option<Asn>) -> Vec<u8> {
    let mut out = [0; 127];
    let protection = Protection { level, key: KeyIdentifier::Index(1) };
    let len = security.secure(header, &[], &payload(level), protection, asn, &mut out).unwrap();
    out[..len].to_vec()
}

fn tap(asn: Asn, frame: &[u8]) -> Vec<u8> {
    // The length of the header; no FCS; the slot.
    let mut out = vec![0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 7, 0, 8, 0];
    out.extend(asn.number().to_le_bytes());
    out.extend(frame);
    out
}

/// What tshark shows of each frame: the payload, and its warnings. None without tshark.
fn dissect(name: &str, link: u32, frames: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, link] {
        pcap.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend(frame);
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, pcap).unwrap();
    let keys = format!("uat:ieee802154_keys:\"{KEY}\",\"1\",\"No hash\"");
    let mut tshark = Command::new("tshark");
    tshark.args(["-o", &keys, "-T", "fields", "-E", "separator=|"]);
    tshark.args(["-e", "data.data", "-e", "_ws.expert.message"]);
    for other in ["6lowpan", "zbee_nwk", "zbee_nwk_gp", "lwm"] {
        tshark.args(["--disable-protocol", other]);
    }
    match tshark.arg("-r").arg(&path).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("SKIPPED {name}: tshark is not installed");
            None
        }
        Err(error) => panic!("tshark: {error}"),
    }
}

const LEVELS: [SecurityLevel; 6] = [
    SecurityLevel::Mic32,
    SecurityLevel::Mic64,
    SecurityLevel::Mic128,
    SecurityLevel::EncMic32,
    SecurityLevel::EncMic64,
    SecurityLevel::EncMic128,
];

/// All but the last frame are decrypted without a warning; with the last one something is wrong, and tshark says so.
fn judge(lines: &[String]) {
    assert_eq!(lines.len(), LEVELS.len() + 1, "{lines:?}");
    for (line, level) in lines.iter().zip(LEVELS) {
        let hex: String = payload(level).iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(line, &format!("{hex}|"), "{level}: {lines:?}");
    }
    assert!(lines.last().is_some_and(|line| !line.ends_with('|')), "{lines:?}");
}

#[test]
fn frames_with_counters_are_decrypted_and_verified_at_every_level() {
    let mut security = sender(NonceKind::FrameCounter);
    let addressing = Addressing::within(PAN, Address::Short(ShortAddress(1)), Address::Extended(SENDER));
    let header = Header { version: FrameVersion::V2006, ..Header::data(1, addressing) };
    let mut frames: Vec<_> = LEVELS.map(|level| secure(&mut security, &header, level, None)).to_vec();
    let mut changed = secure(&mut security, &header, SecurityLevel::EncMic32, None);
    *changed.last_mut().unwrap() ^= 1;
    frames.push(changed);
    if let Some(lines) = dissect("dot15d4.pcap", NO_FCS, &frames) {
        judge(&lines);
    }
}

#[test]
fn tsch_frames_are_decrypted_and_verified_with_the_slot_of_the_capture() {
    let ends = [
        ("extended.pcap", Address::Extended(RECEIVER), Address::Extended(SENDER)),
        ("short.pcap", Address::Short(ShortAddress(1)), Address::Short(ShortAddress(2))),
    ];
    for (name, dst, src) in ends {
        let mut security = sender(NonceKind::Asn);
        let header = Header::data(1, Addressing::within(PAN, dst, src));
        let slot = |number: usize| Asn::new(0x01_0000_0000 + number as u64).unwrap();
        let mut frames = Vec::new();
        for (i, level) in LEVELS.into_iter().enumerate() {
            frames.push(tap(slot(i), &secure(&mut security, &header, level, Some(slot(i)))));
        }
        // One of another slot.
        frames.push(tap(slot(99), &secure(&mut security, &header, SecurityLevel::EncMic32, Some(slot(98)))));
        if let Some(lines) = dissect(name, TAP, &frames) {
            judge(&lines);
        }
    }
}
