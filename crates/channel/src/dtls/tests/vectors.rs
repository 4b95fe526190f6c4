//! The records of `vectors/dtls.txt`: written, and opened.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use super::super::{Aead, ConnectionId, ContentType, DirectionKeys, Reader, Record, Writer};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn aead(name: &str) -> Aead {
    match name {
        "aes-128-ccm-8" => Aead::Aes128Ccm8,
        "aes-128-ccm" => Aead::Aes128Ccm,
        "aes-256-ccm-8" => Aead::Aes256Ccm8,
        "aes-256-ccm" => Aead::Aes256Ccm,
        "aes-128-gcm" => Aead::Aes128Gcm,
        "aes-256-gcm" => Aead::Aes256Gcm,
        "chacha20-poly1305" => Aead::ChaCha20Poly1305,
        other => panic!("no cipher {other}"),
    }
}

#[test]
fn known_records_are_written_and_opened() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/dtls.txt"));
    let mut seen = 0;
    for block in text.split("\n\n") {
        let lines = block.lines().filter(|line| !line.starts_with('#'));
        let case: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(" = ")).collect();
        let Some(name) = case.get("Name") else { continue };
        let get = |key: &str| hex(case.get(key).copied().unwrap_or_default());
        let keys = DirectionKeys::new(aead(case["Cipher"]), &get("Key"), &get("IV")).unwrap();
        let cid = ConnectionId::new(&get("CID")).unwrap();
        let number = u64::from_be_bytes(get("Number").try_into().unwrap());
        let (epoch, sequence) = ((number >> 48) as u16, number % (1 << 48));
        let (plaintext, expected) = (get("Plaintext"), get("Record"));
        let mut writer = Writer::new(&keys, epoch, sequence, cid).unwrap();
        let mut out = vec![0; expected.len()];
        assert_eq!(
            writer.protect(ContentType::ApplicationData, &plaintext, &mut out),
            Ok(expected.len()),
            "{name}"
        );
        assert_eq!(out, expected, "{name}");
        let mut reader = Reader::new(&keys, epoch, cid).unwrap();
        let (record, rest) = Record::parse(&expected, cid.len()).unwrap();
        let opened = reader.open(&record, &mut out).unwrap();
        assert_eq!(
            (&out[..opened.len], opened.content_type),
            (&plaintext[..], ContentType::ApplicationData),
            "{name}"
        );
        assert!(rest.is_empty());
        seen += 1;
    }
    assert_eq!(seen, 43);
}
