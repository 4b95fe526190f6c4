//! The frames of `vectors/macsec.txt`: those of IEEE 802.1AE-2018 Annex C, and similar ones for
//! XPN.

use super::super::*;
use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;

type Case = BTreeMap<String, String>;

fn cases() -> Vec<Case> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/macsec.txt"));
    let mut cases = Vec::new();
    let mut case = Case::new();
    for line in text.lines().chain([""]) {
        match line.split_once(" = ") {
            Some((key, value)) if !line.starts_with('#') => {
                assert!(case.insert(key.to_string(), value.to_string()).is_none(), "{line}");
            }
            _ if line.is_empty() && !case.is_empty() => cases.push(core::mem::take(&mut case)),
            _ => assert!(line.is_empty() || line.starts_with('#'), "{line}"),
        }
    }
    cases
}

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

struct Parsed {
    config: TransmitConfig,
    sak: Sak,
    an: An,
    pn: u64,
    frame: Vec<u8>,
    protected: Vec<u8>,
}

fn parse(case: &Case) -> Parsed {
    let suite: CipherSuite = case["Suite"].parse().unwrap();
    let number = |key: &str| u64::from_str_radix(&case[key], 16).unwrap();
    let salt = case.get("Salt").map(|salt| hex(salt).try_into().unwrap());
    let explicit = case["Explicit"] == "yes";
    Parsed {
        config: TransmitConfig {
            ssci: suite.is_xpn().then(|| number("SSCI") as u32),
            sci_mode: if explicit { SciMode::Explicit } else { SciMode::EndStation },
            confidentiality: case["Confidentiality"] == "yes",
            ..TransmitConfig::new(suite, case["SCI"].parse().unwrap())
        },
        sak: Sak::new(suite, &hex(&case["Key"]), salt).unwrap(),
        an: An::new(number("AN") as u8).unwrap(),
        pn: number("PN"),
        frame: hex(&case["Frame"]),
        protected: hex(&case["Protected"]),
    }
}

#[test]
fn frames_are_protected_to_known_octets() {
    let cases = cases();
    assert_eq!(cases.len(), 32);
    assert_eq!(cases.iter().filter(|case| case["Source"] == "802.1AE").count(), 18);
    for case in &cases {
        for steps in [0, 1, 5, 1000] {
            let Parsed { config, sak, an, pn, frame, protected } = parse(case);
            let mut transmit = Transmit::new(config).unwrap();
            transmit.install(an, &sak, pn, u64::MAX).unwrap();
            transmit.idle(steps);
            let mut out = std::vec![0; transmit.protected_len(frame.len())];
            let len = transmit.protect(&frame, &mut out).unwrap();
            assert_eq!(out[..len], protected, "{} after {steps} steps", case["Name"]);
        }
    }
}

#[test]
fn known_frames_are_validated() {
    for case in &cases() {
        for steps in [0, 1, 5, 1000] {
            let Parsed { config, sak, an, pn, frame, protected } = parse(case);
            let mut receive = Receive::new(ReceiveConfig::new(config.suite));
            receive.add_peer(config.sci, config.ssci).unwrap();
            receive.install(config.sci, an, &sak, pn).unwrap();
            receive.idle(steps);
            let mut out = std::vec![0; frame.len()];
            assert_eq!(receive.validate(&protected, &mut out), Ok(frame.len()), "{}", case["Name"]);
            assert_eq!(out, frame, "{} after {steps} steps", case["Name"]);
            assert_eq!(receive.validate(&protected, &mut out), Err(Discard::Late));
        }
    }
}
