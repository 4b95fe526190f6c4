//! wpa_supplicant's frames (`vectors/mka.txt`): derivation of ICK and KEK, ICVs, unwrapped SAKs,
//! and the frames protected by them.

use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;

use antedate_wire::Sci;
use antedate_wire::macsec::An;
use antedate_wire::mka::{DistributedSak, Repr};

use super::super::keys::Cak;
use crate::macsec::{CipherSuite, Receive, ReceiveConfig, Sak};

type Case = BTreeMap<String, String>;

fn cases() -> Vec<Case> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/mka.txt"));
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
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn keys_and_icvs_match_wpa_supplicant() {
    let (mut messages, mut saks, mut frames) = (0, 0, 0);
    let mut last: Option<(CipherSuite, Vec<u8>, String)> = None;
    for case in cases() {
        if let Some(frame) = case.get("Frame") {
            let cak = Cak::new(&hex(&case["CAK"]), &hex(&case["CKN"])).unwrap();
            assert_eq!(cak.derived(), (&hex(&case["ICK"])[..], &hex(&case["KEK"])[..]));
            let mut frame = hex(frame);
            let parsed = Repr::parse(&frame).unwrap();
            assert!(cak.verify(parsed.covered, parsed.icv), "{}", case["Name"]);
            assert_eq!(cak.icv(parsed.covered), *parsed.icv);
            if let Some(DistributedSak::Sak(sak)) = parsed.repr.distributed_sak {
                assert_eq!(cak.unwrap(sak.wrapped).unwrap().as_bytes(), hex(&case["SAK"]));
                assert_eq!(sak.an.number().to_string(), case["AN"]);
                let identifier = sak.suite.unwrap_or(CipherSuite::GcmAes128.identifier());
                let suite = CipherSuite::ALL.into_iter().find(|suite| suite.identifier() == identifier);
                last = Some((suite.unwrap(), hex(&case["SAK"]), case["AN"].clone()));
                saks += 1;
            }
            messages += 1;
            // A change of any octet, headers included, makes the ICV wrong.
            for at in [0, 6, 20, 30, frame.len() - 1] {
                frame[at] ^= 1;
                if let Ok(parsed) = Repr::parse(&frame) {
                    assert!(!cak.verify(parsed.covered, parsed.icv), "{at}");
                }
                frame[at] ^= 1;
            }
        } else {
            let (suite, key, an) = last.as_ref().expect("a key comes first");
            assert_eq!(case["AN"], *an);
            let sci = Sci(hex(&case["SCI"]).try_into().unwrap());
            let mut receive = Receive::new(ReceiveConfig::new(*suite));
            receive.add_peer(sci, None).unwrap();
            let an = An::new(an.parse().unwrap()).unwrap();
            receive.install(sci, an, &Sak::new(*suite, key, None).unwrap(), 1).unwrap();
            let protected = hex(&case["Protected"]);
            let mut out = std::vec![0; protected.len()];
            let len = receive.validate(&protected, &mut out).unwrap();
            assert_eq!(out[..len], hex(&case["Plain"]));
            frames += 1;
        }
    }
    assert_eq!((messages, saks, frames), (27, 6, 12));
}
