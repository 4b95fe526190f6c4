//! The envelopes of `vectors/mqtt.txt`: sealed, opened, and parsed by a general CBOR library.

use std::collections::BTreeMap;
use std::vec::Vec;

use minicbor::Decoder;

use super::super::{Algorithm, Group, Publisher, Reserved};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// minicbor's view: the algorithm, `kid`, Partial IV, and the ciphertext's length.
fn read(envelope: &[u8]) -> (i64, Vec<u8>, Vec<u8>, usize) {
    let mut decoder = Decoder::new(envelope);
    assert_eq!(decoder.array().unwrap(), Some(3));
    let mut protected = Decoder::new(decoder.bytes().unwrap());
    assert_eq!((protected.map().unwrap(), protected.i64().unwrap()), (Some(1), 1));
    let algorithm = protected.i64().unwrap();
    assert_eq!((decoder.map().unwrap(), decoder.i64().unwrap()), (Some(2), 4));
    let kid = decoder.bytes().unwrap().to_vec();
    assert_eq!(decoder.i64().unwrap(), 6);
    let number = decoder.bytes().unwrap().to_vec();
    let ciphertext = decoder.bytes().unwrap().len();
    assert_eq!(decoder.position(), envelope.len());
    (algorithm, kid, number, ciphertext)
}

#[test]
fn known_envelopes_are_sealed_and_opened() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/mqtt.txt"));
    let mut seen = 0;
    for block in text.split("\n\n") {
        let lines = block.lines().filter(|line| !line.starts_with('#'));
        let case: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(" = ")).collect();
        let Some(name) = case.get("Name") else { continue };
        let get = |key: &str| hex(case[key]);
        let algorithm: Algorithm = name.parse().unwrap();
        let mut group = Group::new("park", algorithm);
        group.install(1, &get("Secret").try_into().unwrap());
        let material = group.material(1, b"turbine1").unwrap();
        assert_eq!((material.key(), material.base()), (&get("Key")[..], &get("Base")[..]), "{name}");
        let mut sealed = Vec::new();
        let mut publisher = Publisher::new(&material, Reserved::new(5, 6));
        publisher.seal("wind/t1/power", &get("Plaintext"), &mut sealed).unwrap();
        assert_eq!(sealed, get("Envelope"), "{name}");
        let mut opened = Vec::new();
        group.open("wind/t1/power", &sealed, &mut opened).unwrap();
        assert_eq!(opened, get("Plaintext"), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn library_reads_our_envelopes() {
    for algorithm in Algorithm::ALL {
        for (epoch, number) in [(1, 1), (127, 255), (128, 256), (u32::MAX, u64::MAX - 1), (16_384, 1 << 24)] {
            for (name, len) in [(&b"a"[..], 0), (b"turbine1", 15), (&[7; 64], 300), (&[7; 23], 70_000)] {
                if len > algorithm.max_payload() {
                    continue;
                }
                let mut group = Group::new("park", algorithm);
                group.install(epoch, &[7; 32]);
                let mut sealed = Vec::new();
                let mut publisher =
                    Publisher::new(&group.material(epoch, name).unwrap(), Reserved::new(number, number + 1));
                publisher.seal("a", &std::vec![0; len], &mut sealed).unwrap();
                let (found, kid, partial, ciphertext) = read(&sealed);
                assert_eq!((found, ciphertext), (algorithm.number(), algorithm.sealed_len(len)));
                assert!(kid.ends_with(name) && kid.len() <= 5 + name.len());
                assert_eq!(partial.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte)), number);
                assert_ne!(partial[0], 0);
            }
        }
    }
}
