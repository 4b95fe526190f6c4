//! Refusals, their reasons, and their lack of side effects.

use std::vec;
use std::vec::Vec;

use antedate_wire::dtls::{Aad, Header, VERSION_1_2};
use proptest::prelude::*;

use super::super::{Aead, ConnectionId, ContentType, Dropped, ProtectError, Reader, Record, Writer};
use super::{cid, keys, pair};
use crate::world::{Faults, Rng, Wire};

fn sealed(writer: &mut Writer, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len() + writer.overhead()];
    let len = writer.protect(ContentType::ApplicationData, data, &mut out).unwrap();
    out.truncate(len);
    out
}

fn open(reader: &mut Reader, octets: &[u8], cid_len: usize) -> Result<Vec<u8>, Dropped> {
    let (record, _) = Record::parse(octets, cid_len).map_err(|_| Dropped::Malformed)?;
    let mut out = vec![0; record.fragment.len()];
    let opened = reader.open(&record, &mut out);
    if opened.is_err() {
        assert!(out.iter().all(|octet| *octet == 0), "something was left behind");
    }
    let opened = opened?;
    assert_eq!(opened.content_type, ContentType::ApplicationData);
    out.truncate(opened.len);
    Ok(out)
}

#[test]
fn record_is_opened_only_once() {
    for aead in Aead::ALL {
        for (cid, len) in [(ConnectionId::EMPTY, 0), (cid(b"abcd"), 4)] {
            let (mut writer, mut reader) = pair(aead, cid);
            for i in 0..40u8 {
                reader.idle(u32::from(i));
                let record = sealed(&mut writer, &[i; 20]);
                assert_eq!(open(&mut reader, &record, len), Ok(vec![i; 20]));
                assert_eq!(open(&mut reader, &record, len), Err(Dropped::Replayed));
            }
        }
    }
}

#[test]
fn resting_sides_speak_as_large_ones() {
    for aead in Aead::ALL {
        for (cid, len) in [(ConnectionId::EMPTY, 0), (cid(b"abcd"), 4)] {
            let (mut large, mut reader) = pair(aead, cid);
            let mut resting = Writer::sized(&keys(aead), 1, 0, cid, false).unwrap();
            let mut resting_reader = Reader::sized(&keys(aead), 1, cid, false).unwrap();
            for data in [0, 1, 20, 64, 1472, 9000].map(|octets| vec![octets as u8; octets]) {
                assert_eq!((resting.idle(100), resting_reader.idle(100), resting.prepared()), (0, 0, 0));
                let record = sealed(&mut resting, &data);
                assert_eq!(record, sealed(&mut large, &data));
                let mut forged = record.clone();
                *forged.last_mut().unwrap() ^= 1;
                for reader in [&mut reader, &mut resting_reader] {
                    assert_eq!(open(reader, &forged, len), Err(Dropped::Forged));
                    assert_eq!(open(reader, &record, len).as_ref(), Ok(&data));
                    assert_eq!(open(reader, &record, len), Err(Dropped::Replayed));
                }
            }
            let end = Writer::sized(&keys(aead), 1, antedate_wire::dtls::SEQUENCE_END, cid, false);
            let refused = end.unwrap().protect(ContentType::ApplicationData, b"a", &mut [0; 64]);
            assert_eq!(refused, Err(ProtectError::Exhausted));
        }
    }
}

#[test]
fn number_is_used_once_in_either_size() {
    let (mut writer, mut reader) = pair(Aead::Aes128Gcm, ConnectionId::EMPTY);
    let mut next = 0;
    for round in 0..20u8 {
        let large = round % 3 != 1;
        writer.set_large(large);
        reader.set_large(large);
        // Several records.
        writer.idle(50 * u32::from(round));
        reader.idle(50 * u32::from(round));
        let record = sealed(&mut writer, &[round; 20]);
        let number = Record::parse(&record, 0).unwrap().0.number();
        assert!(number >= next, "{number} again");
        next = number + 1;
        assert_eq!(open(&mut reader, &record, 0), Ok(vec![round; 20]));
    }
    assert!(next > (1 << 48) + 20, "what was prepared in a large pool is burnt");
}

#[test]
fn records_before_the_window_are_late() {
    let (mut writer, mut reader) = pair(Aead::Aes128Ccm8, ConnectionId::EMPTY);
    let first = sealed(&mut writer, b"first");
    for _ in 0..1100 {
        let record = sealed(&mut writer, b"later");
        assert!(open(&mut reader, &record, 0).is_ok());
    }
    assert_eq!(open(&mut reader, &first, 0), Err(Dropped::Late));
}

#[test]
fn other_epoch_or_connection_is_refused() {
    let aead = Aead::Aes128Ccm8;
    let mut reader = Reader::new(&keys(aead), 2, ConnectionId::EMPTY).unwrap();
    let mut past = Writer::new(&keys(aead), 1, 0, ConnectionId::EMPTY).unwrap();
    let mut future = Writer::new(&keys(aead), 3, 0, ConnectionId::EMPTY).unwrap();
    assert_eq!(open(&mut reader, &sealed(&mut past, b"x"), 0), Err(Dropped::Epoch));
    assert_eq!(open(&mut reader, &sealed(&mut future, b"x"), 0), Err(Dropped::Epoch));

    let (mut with, mut with_reader) = pair(aead, cid(b"ours"));
    let (mut without, mut without_reader) = pair(aead, ConnectionId::EMPTY);
    let mut other = Writer::new(&keys(aead), 1, 0, cid(b"them")).unwrap();
    let unknown = Err(Dropped::UnknownConnection);
    assert_eq!(open(&mut with_reader, &sealed(&mut without, b"x"), 4), unknown);
    assert_eq!(open(&mut with_reader, &sealed(&mut other, b"x"), 4), unknown);
    assert_eq!(open(&mut without_reader, &sealed(&mut with, b"x"), 4), unknown);
}

#[test]
fn truncated_record_is_refused_harmlessly() {
    for aead in Aead::ALL {
        let (mut writer, mut reader) = pair(aead, ConnectionId::EMPTY);
        let record = sealed(&mut writer, b"pressure");
        for len in 0..record.len() {
            assert_eq!(open(&mut reader, &record[..len], 0), Err(Dropped::Malformed), "{len}");
            // The same with a length that fits the truncated record.
            if let Some(fragment) = len.checked_sub(13) {
                let mut cut = record[..len].to_vec();
                cut[11..13].copy_from_slice(&(fragment as u16).to_be_bytes());
                let expected = if fragment < aead.explicit_len() + aead.tag_len() {
                    Dropped::Short
                } else {
                    Dropped::Forged
                };
                assert_eq!(open(&mut reader, &cut, 0), Err(expected), "{len}");
            }
        }
        assert_eq!(open(&mut reader, &record, 0), Ok(b"pressure".to_vec()));
    }
}

#[test]
fn every_octet_of_a_record_is_checked() {
    for aead in Aead::ALL {
        for (cid, len) in [(ConnectionId::EMPTY, 0), (cid(b"abcd"), 4)] {
            let (mut writer, mut reader) = pair(aead, cid);
            reader.idle(1000);
            let record = sealed(&mut writer, b"pressure");
            for bit in 0..8 * record.len() {
                let mut changed = record.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(open(&mut reader, &changed, len).is_err(), "{aead:?}, bit {bit}");
            }
            assert_eq!(open(&mut reader, &record, len), Ok(b"pressure".to_vec()), "{aead:?}");
        }
    }
}

#[test]
fn freely_chosen_nonce_is_accepted() {
    // The same key and implicit nonce, with the number of another epoch in the record, as from a
    // sender with random explicit nonces.
    let aead = Aead::Aes128Gcm;
    let mut reader = Reader::new(&keys(aead), 1, ConnectionId::EMPTY).unwrap();
    let cipher = antedate_aead::Key::<antedate_aead::Aes128Gcm>::new(keys(aead).key()).unwrap();
    for sequence in 0..20u64 {
        let (number, spoken) = (1 << 48 | sequence, 0xdead_beef_0000_0000 + 7 * sequence);
        let mut nonce = keys(aead).rule().nonce(0);
        nonce[4..].copy_from_slice(&spoken.to_be_bytes());
        let header = Header { content_type: ContentType::ApplicationData, version: VERSION_1_2, number };
        let aad = Aad::new(&header, &ConnectionId::EMPTY, 4);
        let mut text = *b"text";
        let nonce = antedate_aead::Nonce::assume_unique(nonce);
        let tag = cipher.seal_in_place(nonce, aad.as_slice(), &mut text);
        let fragment = [&spoken.to_be_bytes()[..], &text, tag.as_bytes()].concat();
        let record = Record {
            content_type: ContentType::ApplicationData,
            version: 0xfefd,
            epoch: 1,
            sequence,
            cid: &[],
            fragment: &fragment,
        };
        reader.idle(100);
        let mut out = [0; 100];
        assert_eq!(reader.open(&record, &mut out).map(|opened| opened.len), Ok(4));
        assert_eq!(&out[..4], b"text");
    }
}

#[test]
fn record_without_content_type_is_refused() {
    let (mut writer, mut reader) = pair(Aead::Aes128Ccm8, cid(b"c"));
    let mut out = vec![0; 100];
    let len = writer.protect(ContentType::Unknown(0), &[0; 5], &mut out).unwrap();
    assert_eq!(open(&mut reader, &out[..len], 1), Err(Dropped::NoType));
}

/// A record of the widest text that the cipher seals, built without the writer's own bound.
fn record_of(text_len: usize, cid: ConnectionId) -> Vec<u8> {
    let number = 1 << 48;
    let content_type = if cid.is_empty() { ContentType::ApplicationData } else { ContentType::Tls12Cid };
    let header = Header { content_type, version: VERSION_1_2, number };
    let mut text = vec![23; text_len];
    let aad = Aad::new(&header, &cid, text_len);
    let keys = keys(Aead::Aes128Gcm);
    let cipher = antedate_aead::Key::<antedate_aead::Aes128Gcm>::new(keys.key()).unwrap();
    let nonce = antedate_aead::Nonce::assume_unique(keys.rule().nonce(number));
    let tag = cipher.seal_in_place(nonce, aad.as_slice(), &mut text);
    let fragment = [&number.to_be_bytes()[..], &text, tag.as_bytes()].concat();
    let record = Record {
        content_type,
        version: VERSION_1_2,
        epoch: 1,
        sequence: 0,
        cid: cid.as_slice(),
        fragment: &fragment,
    };
    let mut out = vec![0; record.len()];
    record.emit(&mut out).unwrap();
    out
}

#[test]
fn overlong_record_is_refused() {
    let most = 1 << 14;
    for (cid, text_len, expected) in [
        (ConnectionId::EMPTY, most, Ok(most)),
        (ConnectionId::EMPTY, most + 1, Err(Dropped::Overlong)),
        (cid(b"abcd"), most + 1, Ok(most)),
        (cid(b"abcd"), most + 2, Err(Dropped::Overlong)),
    ] {
        let (_, mut reader) = pair(Aead::Aes128Gcm, cid);
        let record = record_of(text_len, cid);
        assert_eq!(open(&mut reader, &record, cid.len()).map(|data| data.len()), expected);
    }
    // The output must hold the text.
    let (_, mut reader) = pair(Aead::Aes128Gcm, ConnectionId::EMPTY);
    let record = record_of(20, ConnectionId::EMPTY);
    let (record, _) = Record::parse(&record, 0).unwrap();
    assert_eq!(reader.open(&record, &mut [0; 19]), Err(Dropped::Overlong));
    assert!(reader.open(&record, &mut [0; 20]).is_ok());
}

#[test]
fn newest_record_is_told_apart() {
    let (mut writer, mut reader) = pair(Aead::Aes128Ccm8, ConnectionId::EMPTY);
    let records: Vec<_> = (0..4).map(|_| sealed(&mut writer, b"data")).collect();
    let first = 1u64 << 48;
    assert_eq!((reader.next(), writer.next()), (first, first + 4));
    for (place, newest, next) in [(0, true, 1), (2, true, 3), (1, false, 3), (3, true, 4)] {
        reader.idle(10_000);
        let (record, _) = Record::parse(&records[place], 0).unwrap();
        let opened = reader.open(&record, &mut [0; 100]).unwrap();
        assert_eq!((opened.newest, reader.next()), (newest, first + next), "{place}");
        // What is expected next follows the newest record only.
        assert_eq!(reader.idle(10_000) > 0, newest, "{place}");
    }
}

#[test]
fn nothing_is_sent_after_last_number() {
    for (epoch, last) in [(1, (1 << 48) - 1), (u16::MAX, (1 << 48) - 2)] {
        let mut writer = Writer::new(&keys(Aead::Aes128Ccm8), epoch, last - 1, ConnectionId::EMPTY).unwrap();
        let mut reader = Reader::new(&keys(Aead::Aes128Ccm8), epoch, ConnectionId::EMPTY).unwrap();
        writer.idle(1000);
        for _ in 0..2 {
            let record = sealed(&mut writer, b"one of the last");
            assert!(open(&mut reader, &record, 0).is_ok());
        }
        let mut out = [0xff; 100];
        for _ in 0..3 {
            assert_eq!(
                writer.protect(ContentType::ApplicationData, b"x", &mut out),
                Err(ProtectError::Exhausted)
            );
        }
        assert!(!out[..30].contains(&b'x'));
    }
}

#[test]
fn errors_use_no_sequence_number() {
    let (mut writer, _) = pair(Aead::Aes128Ccm8, ConnectionId::EMPTY);
    let mut out = vec![0; 1 << 15];
    let next = writer.next();
    assert!(writer.protect(ContentType::ApplicationData, &vec![0; 1 << 14], &mut out).is_ok());
    assert_eq!(writer.next(), next + 1);
    let next = writer.next();
    let too_long = vec![0; (1 << 14) + 1];
    assert_eq!(writer.protect(ContentType::ApplicationData, &too_long, &mut out), Err(ProtectError::TooLong));
    assert_eq!(
        writer.protect(ContentType::ApplicationData, b"x", &mut out[..20]),
        Err(ProtectError::OutputTooSmall)
    );
    assert_eq!(writer.next(), next);
}

proptest! {
    /// On a wire with every fault, a record is output at most once and as sent, and every undamaged
    /// record that first arrives within the window is output.
    #[test]
    fn bad_wire_delivers_at_most_once(seed: u64, aead in 0usize..7, with_cid: bool) {
        let aead = Aead::ALL[aead];
        let (cid, cid_len) = if with_cid { (cid(b"abcdef"), 6) } else { (ConnectionId::EMPTY, 0) };
        let (mut writer, mut reader) = pair(aead, cid);
        let mut rng = Rng::new(seed);
        let faults = Faults {
            lose: 100, duplicate: 100, reorder: 200, displacement: 20, corrupt: 100, truncate: 50, replay: 100, inject: 100,
        };
        let mut wire = Wire::new(faults, Rng::new(rng.number()));
        let mut delivered = std::collections::BTreeSet::new();
        for serial in 0..200u64 {
            writer.idle(rng.below(40) as u32);
            reader.idle(rng.below(40) as u32);
            let mut data = serial.to_be_bytes().to_vec();
            data.resize(8 + rng.below(100), serial as u8);
            wire.put(&sealed(&mut writer, &data), serial);
            while let Some(flight) = wire.take() {
                match open(&mut reader, &flight.bytes, cid_len) {
                    Ok(data) => {
                        let serial = u64::from_be_bytes(*data.first_chunk().unwrap());
                        prop_assert!(data[8..].iter().all(|octet| *octet == serial as u8));
                        prop_assert!(delivered.insert(serial), "{} came twice", serial);
                    }
                    Err(refusal) => if let Some(serial) = flight.genuine {
                        prop_assert!(delivered.contains(&serial), "{} was lost: {}", serial, refusal);
                    }
                }
                if rng.happens(300) {
                    break;
                }
            }
        }
        prop_assert!(delivered.len() > 100);
    }
}

#[test]
fn reach_bounds_the_preparation() {
    let prepared = |reach: Option<usize>| {
        let (_, mut reader) = pair(Aead::Aes128Gcm, ConnectionId::EMPTY);
        if let Some(octets) = reach {
            reader.set_reach(octets);
        }
        core::iter::from_fn(|| Some(reader.idle(u32::MAX)).filter(|steps| *steps > 0)).sum::<u32>()
    };
    assert!(prepared(Some(0)) < prepared(Some(500)) && prepared(Some(500)) < prepared(None));
}

#[test]
fn debug_of_a_reader_shows_no_key() {
    let (_, reader) = pair(Aead::Aes128Gcm, ConnectionId::EMPTY);
    assert_eq!(std::format!("{reader:?}"), "Reader(Aes128Gcm, epoch 1, next 0x1000000000000)");
}
