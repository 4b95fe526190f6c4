//! `vectors/dot15d4.txt`: annex C, the Linux kernel, scapy, and frames that tshark accepts.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use antedate_wire::dot15d4::Frame;

use super::super::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn blocks() -> Vec<BTreeMap<&'static str, &'static str>> {
    let text = include_str!("../../../../../vectors/dot15d4.txt");
    let mut blocks = Vec::new();
    for block in text.split("\n\n") {
        let fields: BTreeMap<_, _> = block
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(" = "))
            .collect();
        if !fields.is_empty() {
            blocks.push(fields);
        }
    }
    blocks
}

struct Case {
    receiver: Security,
    sender: Security,
    protection: Protection,
    asn: Option<Asn>,
    frame: Vec<u8>,
}

fn case(block: &BTreeMap<&str, &str>) -> Case {
    let octets = hex(block["Frame"]);
    let frame = Frame::parse(&octets).unwrap();
    let header = frame.header;
    let security = header.security.unwrap();
    let pan = PanId(u16::from_str_radix(block["PAN"], 16).unwrap());
    let extended = ExtendedAddress(hex(block["Sender"]).try_into().unwrap());
    let short = block.get("Short").map(|short| ShortAddress(u16::from_str_radix(short, 16).unwrap()));
    assert_eq!(security.level.number(), block["Level"].parse::<u8>().unwrap());
    assert_eq!(security.key.mode(), block["Key mode"].parse::<u8>().unwrap());
    let asn = block.get("ASN").map(|asn| Asn::new(asn.parse().unwrap()).unwrap());
    let nonces = if asn.is_some() { NonceKind::Asn } else { NonceKind::FrameCounter };
    let levels = Levels::of(&SecurityLevel::ALL[1..]);
    let config =
        |extended| Config { extended, pan, short, policy: Policy::uniform(levels), enc_without_mic: true };
    let key = |lookup| KeyConfig {
        next: asn.map_or(u64::from(security.frame_counter.unwrap_or(0)), Asn::number),
        ..KeyConfig::fresh(lookup, LinkKey::new(hex(block["Key"]).try_into().unwrap()), nonces)
    };
    let lookup = |peer| match security.key {
        KeyIdentifier::Implicit => KeyLookup::Peer(pan, peer),
        identifier => KeyLookup::Identified(identifier),
    };
    let mut receiver = Security::new(config(ExtendedAddress([9; 8])));
    receiver.add_device(Device { pan, extended, short, exempt: false });
    receiver.install_key(key(lookup(header.addressing.src))).unwrap();
    let mut sender = Security::new(config(extended));
    sender.install_key(key(lookup(header.addressing.dst))).unwrap();
    let protection = Protection { level: security.level, key: security.key };
    Case { receiver, sender, protection, asn, frame: octets }
}

#[test]
fn every_vector_is_read_and_written() {
    let mut sources: BTreeMap<String, u32> = BTreeMap::new();
    for block in blocks() {
        let name = block["Name"];
        let Case { mut receiver, mut sender, protection, asn, frame } = case(&block);
        let mut out = std::vec![0; frame.len()];
        let result = receiver.unsecure(&frame, asn, None, &mut out);
        *sources.entry(block["Source"].into()).or_default() += 1;
        if let Some(status) = block.get("Status") {
            assert_eq!(result.map_err(Status::name), Err(*status), "{name}");
            continue;
        }
        let received = result.unwrap_or_else(|status| panic!("{name}: {status}"));
        let payload = hex(block["Payload"]);
        assert_eq!(out[..received.len], payload, "{name}");
        // A repetition is a replay.
        assert_eq!(receiver.unsecure(&frame, asn, None, &mut out), Err(Status::CounterError), "{name}");
        // A sender without destination finds its implicit key without one.
        let implicit = protection.key == KeyIdentifier::Implicit;
        assert!(!implicit || sender.keys().count() == 1);
        let mut again = std::vec![0; 140];
        let len = sender.secure(&received.header, &[], &payload, protection, asn, &mut again);
        assert_eq!(len.map(|len| &again[..len]), Ok(&frame[..]), "{name}");
    }
    assert_eq!(sources.len(), 4, "{sources:?}");
    assert_eq!(sources.values().sum::<u32>(), 45);
}

#[test]
fn mic_detects_every_changed_octet() {
    for block in blocks().iter().filter(|block| block["Level"] != "4" && !block.contains_key("Status")) {
        let frame = hex(block["Frame"]);
        for at in 0..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 0x10;
            let Case { mut receiver, asn, .. } = case(block);
            let mut out = std::vec![0x55; frame.len()];
            let result = receiver.unsecure(&changed, asn, None, &mut out);
            assert!(result.is_err(), "{}: octet {at}", block["Name"]);
            assert_eq!(receiver.received().refused(), 1);
            // Good traffic is not disturbed.
            assert!(receiver.unsecure(&frame, asn, None, &mut out).is_ok());
        }
    }
}
