//! Records of DTLS 1.2 by the calls of C: the known answers, the Rust implementation at the other
//! end, and an error for each misuse.
#![allow(unsafe_code, reason = "the tests call the functions as C does")]

mod vectors;

use antedate_capi::*;
use antedate_channel::dtls::{Aead, ConnectionId, DirectionKeys, Reader, Writer};
use antedate_wire::dtls::{ContentType, Record};
use proptest::prelude::*;
use std::ptr::{null, null_mut};
use vectors::{blocks, hex};

const WORDS: usize = CONTEXT_BYTES / 8 + 12;
const APPLICATION: u8 = 23;

type Memory = Box<[u64; WORDS]>;

fn bytes(data: &[u8]) -> Bytes {
    Bytes { data: data.as_ptr(), len: data.len() }
}

/// The suites of both sides, by their numbers in the header.
const SUITES: [(u32, Aead, &str); 6] = [
    (1, Aead::Aes128Ccm8, "aes-128-ccm-8"),
    (2, Aead::Aes128Ccm, "aes-128-ccm"),
    (3, Aead::Aes256Ccm, "aes-256-ccm"),
    (16, Aead::Aes128Gcm, "aes-128-gcm"),
    (17, Aead::Aes256Gcm, "aes-256-gcm"),
    (18, Aead::ChaCha20Poly1305, "chacha20-poly1305"),
];

fn writer(suite: u32, key: &[u8], iv: &[u8], number: u64, cid: &[u8]) -> Memory {
    let mut memory: Memory = Box::new([0; WORDS]);
    // SAFETY: all pointers are of live slices.
    let code = unsafe {
        antedate_dtls_writer_init_sized(
            memory.as_mut_ptr(),
            WORDS * 8,
            suite,
            bytes(key),
            bytes(iv),
            number,
            bytes(cid),
        )
    };
    assert_eq!(code, Code::Ok);
    memory
}

fn reader(suite: u32, key: &[u8], iv: &[u8], number: u64, cid: &[u8]) -> Memory {
    let mut memory: Memory = Box::new([0; WORDS]);
    // SAFETY: as above.
    let code = unsafe {
        antedate_dtls_reader_init_sized(
            memory.as_mut_ptr(),
            WORDS * 8,
            suite,
            bytes(key),
            bytes(iv),
            number,
            bytes(cid),
        )
    };
    assert_eq!(code, Code::Ok);
    memory
}

fn protect(writer: &mut Memory, content_type: u8, content: &[u8]) -> Result<Vec<u8>, Code> {
    let (mut out, mut len) = (vec![0xee; content.len() + 70], 0);
    let (to, room) = (out.as_mut_ptr(), out.len());
    // SAFETY: as above.
    let code = unsafe {
        antedate_dtls_protect(writer.as_mut_ptr(), content_type, bytes(content), to, room, &mut len)
    };
    assert!(code != Code::Ok || out[len..].iter().all(|octet| *octet == 0xee), "nothing is behind it");
    out.truncate(len);
    if code == Code::Ok { Ok(out) } else { Err(code) }
}

fn protect_front(writer: &mut Memory, rest: &[u8]) -> Result<Vec<u8>, Code> {
    let (mut out, mut len) = (vec![0; 600], 0);
    let (to, room) = (out.as_mut_ptr(), out.len());
    // SAFETY: as above.
    let code = unsafe { antedate_dtls_protect_front(writer.as_mut_ptr(), bytes(rest), to, room, &mut len) };
    out.truncate(len);
    if code == Code::Ok { Ok(out) } else { Err(code) }
}

fn open(reader: &mut Memory, datagram: &[u8]) -> (Code, Content, Vec<u8>) {
    let (mut plain, mut content) = (vec![0; datagram.len()], Content::default());
    let (to, room) = (plain.as_mut_ptr(), plain.len());
    // SAFETY: as above.
    let code = unsafe {
        antedate_dtls_open(reader.as_mut_ptr(), datagram.as_ptr(), datagram.len(), to, room, &mut content)
    };
    let shown = if code == Code::Ok { content.len } else { 0 };
    assert!(code == Code::Ok || plain.iter().all(|octet| *octet == 0), "nothing unauthenticated");
    plain.truncate(shown);
    (code, content, plain)
}

/// Prepares a writer in one of the ways.
fn prepare(writer: &mut Memory, steps: u32) {
    // SAFETY: a live writer.
    unsafe {
        assert_eq!(antedate_dtls_prepare(writer.as_mut_ptr()), Code::Ok);
        antedate_dtls_step(writer.as_mut_ptr(), steps);
    }
}

#[test]
fn every_vector_is_protected_and_opened() {
    let mut seen = std::collections::BTreeSet::new();
    for block in blocks("dtls") {
        let Some((suite, ..)) = SUITES.iter().find(|(.., name)| *name == block["Cipher"]) else { continue };
        let (key, iv, record) = (hex(&block["Key"]), hex(&block["IV"]), hex(&block["Record"]));
        let cid = block.get("CID").map_or(vec![], |cid| hex(cid));
        let number = u64::from_str_radix(&block["Number"], 16).expect("digits");
        let plain = hex(&block["Plaintext"]);
        for steps in [None, Some(0), Some(1), Some(99)] {
            let mut sending = writer(*suite, &key, &iv, number, &cid);
            if let Some(steps) = steps {
                prepare(&mut sending, steps);
            }
            assert_eq!(protect(&mut sending, APPLICATION, &plain), Ok(record.clone()), "{}", block["Name"]);
            let mut receiving = reader(*suite, &key, &iv, number, &cid);
            if let Some(steps) = steps {
                // SAFETY: a live reader.
                unsafe {
                    assert_eq!(antedate_dtls_expect(receiving.as_mut_ptr()), Code::Ok);
                    antedate_dtls_reader_step(receiving.as_mut_ptr(), steps);
                }
            }
            let mut forged = record.clone();
            *forged.last_mut().expect("an octet") ^= 1;
            assert_eq!(open(&mut receiving, &forged).0, Code::Unauthentic);
            let (code, content, opened) = open(&mut receiving, &record);
            assert_eq!((code, content.content_type, opened), (Code::Ok, APPLICATION, plain.clone()));
            assert_eq!((content.newest, content.record_len), (1, record.len()));
            let (code, content, _) = open(&mut receiving, &record);
            assert_eq!((code, content.record_len), (Code::Replayed, record.len()));
        }
        seen.insert(*suite);
    }
    assert!(seen.len() >= 4, "{seen:?}");
}

fn keys(aead: Aead) -> (Vec<u8>, Vec<u8>, DirectionKeys) {
    let key: Vec<u8> = (1..=aead.key_len() as u8).collect();
    let iv: Vec<u8> = (100..100 + aead.iv_len() as u8).collect();
    let keys = DirectionKeys::new(aead, &key, &iv).expect("fits");
    (key, iv, keys)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The Rust implementation at the other end, in both directions, with fronts where the suite has
    /// them.
    #[test]
    fn rust_end_understands_records(
        which in 0..SUITES.len(),
        sequence in 0..(1u64 << 48) - 1,
        cid in proptest::collection::vec(any::<u8>(), 0..33),
        plain in proptest::collection::vec(any::<u8>(), 1..300),
        cut in any::<proptest::sample::Index>(),
        steps in 0..30u32,
        content_type in 20..24u8,
    ) {
        let (suite, aead, _) = SUITES[which];
        let (key, iv, keys) = keys(aead);
        let number = 1 << 48 | sequence;
        let own = ConnectionId::new(&cid).unwrap();
        let serial = suite < 16;

        // From C.
        let mut sending = writer(suite, &key, &iv, number, &cid);
        let (front, rest) = plain.split_at(cut.index(plain.len()));
        let lengths = [plain.len(), plain.len() + 4];
        let record = if serial {
            // SAFETY: live slices, which stay until the record is protected.
            unsafe {
                let at = sending.as_mut_ptr();
                let code = antedate_dtls_prepare_front(at, content_type, bytes(front), lengths.as_ptr(), 2);
                prop_assert_eq!(code, Code::Ok);
                antedate_dtls_step(at, steps);
            }
            protect_front(&mut sending, rest).unwrap()
        } else {
            prepare(&mut sending, steps);
            protect(&mut sending, content_type, &plain).unwrap()
        };
        let (read, behind) = Record::parse(&record, cid.len()).unwrap();
        prop_assert!(behind.is_empty() && read.number() == number);
        let mut out = vec![0; 400];
        let opened = Reader::new(&keys, 1, own).unwrap().open(&read, &mut out).unwrap();
        prop_assert_eq!(opened.content_type, ContentType::from(content_type));
        prop_assert_eq!(&out[..opened.len], &plain[..]);

        // To C.
        let mut from = Writer::new(&keys, 1, sequence, own).unwrap();
        let mut sent = vec![0; 400];
        let len = from.protect(ContentType::from(content_type), &plain, &mut sent).unwrap();
        prop_assert_eq!(&sent[..len], &record[..]);
        let mut receiving = reader(suite, &key, &iv, number, &cid);
        // SAFETY: as above.
        unsafe {
            let at = receiving.as_mut_ptr();
            let code = if serial {
                antedate_dtls_expect_front(at, content_type, bytes(front), lengths.as_ptr(), 2)
            } else {
                antedate_dtls_expect(at)
            };
            prop_assert_eq!(code, Code::Ok);
            antedate_dtls_reader_step(at, steps);
        }
        let (code, content, text) = open(&mut receiving, &sent[..len]);
        prop_assert_eq!((code, content.content_type), (Code::Ok, content_type));
        prop_assert_eq!(text, plain);
    }

    /// Any octets are refused, and cost no expected record.
    #[test]
    fn any_datagram_is_refused(datagram in proptest::collection::vec(any::<u8>(), 0..120), cid in 0..9usize) {
        let (key, iv, _) = keys(Aead::Aes128Ccm8);
        let cid = vec![5; cid];
        let mut receiving = reader(1, &key, &iv, 1 << 48, &cid);
        prop_assert_ne!(open(&mut receiving, &datagram).0, Code::Ok);
        let record = protect(&mut writer(1, &key, &iv, 1 << 48, &cid), APPLICATION, b"on").unwrap();
        prop_assert_eq!(open(&mut receiving, &record).2, b"on");
    }
}

#[test]
fn records_out_of_order_leave_the_expected_one() {
    let (key, iv, _) = keys(Aead::Aes128Ccm8);
    let mut sending = writer(1, &key, &iv, 1 << 48, &[]);
    let records: Vec<Vec<u8>> =
        (0..70u8).map(|i| protect(&mut sending, APPLICATION, &[i]).expect("protected")).collect();
    let mut receiving = reader(1, &key, &iv, 1 << 48, &[]);
    assert_eq!(open(&mut receiving, &records[3]).0, Code::Ok);
    // SAFETY: a live reader.
    unsafe {
        assert_eq!(antedate_dtls_expect(receiving.as_mut_ptr()), Code::Ok);
        while antedate_dtls_reader_step(receiving.as_mut_ptr(), 1) > 0 {}
    }
    for (i, newest) in [(1, 0), (6, 1), (0, 0), (4, 0), (69, 1)] {
        let (code, content, plain) = open(&mut receiving, &records[i]);
        assert_eq!((code, content.newest, plain), (Code::Ok, newest, vec![i as u8]), "{i}");
    }
    assert_eq!(open(&mut receiving, &records[5]).0, Code::Replayed, "below the window");
    assert_eq!(open(&mut receiving, &records[7]).0, Code::Ok);
    assert_eq!(open(&mut receiving, &records[4]).0, Code::Replayed);
    // Two records in a datagram.
    let both = [&records[60][..], &records[61]].concat();
    let (code, content, _) = open(&mut receiving, &both);
    assert_eq!(code, Code::Ok);
    assert_eq!(open(&mut receiving, &both[content.record_len..]).2, [61]);
}

#[test]
fn last_number_of_an_epoch_is_the_last() {
    let (key, iv, _) = keys(Aead::Aes128Ccm8);
    for epoch in [1u64, 0xffff] {
        let last = epoch << 48 | ((1 << 48) - 1);
        let mut sending = writer(1, &key, &iv, last - 1, &[]);
        for _ in 0..2 {
            assert!(protect(&mut sending, APPLICATION, b"x").is_ok());
        }
        assert_eq!(protect(&mut sending, APPLICATION, b"x"), Err(Code::Spent));
        // SAFETY: a live writer.
        unsafe { assert_eq!(antedate_dtls_prepare(sending.as_mut_ptr()), Code::Spent) };
    }
}

#[test]
fn refused_fronts_burn_their_number() {
    let (key, iv, _) = keys(Aead::Aes128Ccm8);
    let mut sending = writer(1, &key, &iv, 1 << 48, &[]);
    let at = sending.as_mut_ptr();
    let short = [2usize];
    // SAFETY: live slices.
    unsafe {
        let code = antedate_dtls_prepare_front(at, APPLICATION, bytes(b"front"), short.as_ptr(), 1);
        assert_eq!(code, Code::Template);
        assert_eq!(protect_front(&mut sending, b""), Err(Code::State));
    }
    let record = protect(&mut sending, APPLICATION, b"x").expect("the next number");
    assert_eq!(record[10], 1);
    // A front that turns out differently is protected whole, with its number.
    let lengths = [6usize];
    // SAFETY: as above.
    unsafe {
        let code = antedate_dtls_prepare_front(at, APPLICATION, bytes(b"front"), lengths.as_ptr(), 1);
        assert_eq!(code, Code::Ok);
    }
    assert_eq!(protect_front(&mut sending, &[0; 2000]), Err(Code::TooLong));
    let record = protect(&mut sending, 21, b"other").expect("whole");
    assert_eq!(record[10], 2);
    let mut receiving = reader(1, &key, &iv, 1 << 48, &[]);
    let (code, content, plain) = open(&mut receiving, &record);
    assert_eq!((code, content.content_type, plain), (Code::Ok, 21, b"other".to_vec()));
}

#[test]
fn content_may_lie_in_the_record() {
    let (key, iv, _) = keys(Aead::Aes128Ccm8);
    let mut apart = writer(1, &key, &iv, 1 << 48, &[]);
    let right = protect(&mut apart, APPLICATION, b"in its place").expect("protected");
    for at in [0usize, 5, 21, 30] {
        let mut sending = writer(1, &key, &iv, 1 << 48, &[]);
        let (mut out, mut len) = (vec![0; 80], 0);
        out[at..at + 12].copy_from_slice(b"in its place");
        let to = out.as_mut_ptr();
        // SAFETY: the content is in the output, as the header permits.
        let code = unsafe {
            let content = Bytes { data: to.add(at), len: 12 };
            antedate_dtls_protect(sending.as_mut_ptr(), APPLICATION, content, to, 80, &mut len)
        };
        assert_eq!((code, &out[..len]), (Code::Ok, &right[..]));
    }
}

#[test]
fn misuse_is_an_error() {
    let (key, iv, _) = keys(Aead::Aes128Ccm8);
    let mut sending = writer(1, &key, &iv, 1 << 48, b"id");
    let (at, none) = (sending.as_mut_ptr(), bytes(&[]));
    let (mut out, mut len, mut content) = ([0u8; 64], 0, Content::default());
    let to = out.as_mut_ptr();
    // SAFETY: nulls, lengths and overlaps are found before memory is used.
    unsafe {
        let init = |suite, iv: &[u8], cid: &[u8], room| {
            let mut memory: Memory = Box::new([0; WORDS]);
            let (key, at) = (bytes(&key), memory.as_mut_ptr());
            antedate_dtls_writer_init_sized(at, room, suite, key, bytes(iv), 0, bytes(cid))
        };
        assert_eq!(init(4, &iv, &[], WORDS * 8), Code::Suite);
        assert_eq!(init(1, &iv[1..], &[], WORDS * 8), Code::NonceLength);
        assert_eq!(init(1, &iv, &[0; 33], WORDS * 8), Code::TooLong);
        assert_eq!(init(1, &iv, &[], 40), Code::Size);
        assert_eq!(antedate_dtls_prepare(null_mut()), Code::Argument);
        assert_eq!(antedate_dtls_protect(at, 23, none, null_mut(), 64, &mut len), Code::Argument);
        assert_eq!(antedate_dtls_protect(at, 23, none, to, 64, null_mut()), Code::Argument);
        assert_eq!(antedate_dtls_protect(at, 23, none, at.cast(), 64, &mut len), Code::Argument);
        assert_eq!(antedate_dtls_protect(at, 23, none, to, 31, &mut len), Code::TooLong);
        let huge = Bytes { data: to, len: 1 << 15 };
        assert_eq!(antedate_dtls_protect(at, 23, huge, to, usize::MAX / 4, &mut len), Code::TooLong);
        assert_eq!(antedate_dtls_protect(at, 23, none, to, 32, &mut len), Code::Ok);
        assert_eq!(len, 32);
        assert_eq!(antedate_dtls_open(at, to, 32, null_mut(), 0, null_mut()), Code::Argument);
        assert_eq!(antedate_dtls_open(at, to, 32, to, 64, &mut content), Code::Argument);
        // A writer opens nothing, and a copy or a wiped one sends nothing.
        assert_ne!(open(&mut sending, &out[..32]).0, Code::Ok);
        let mut copy = sending.clone();
        assert_eq!(antedate_dtls_prepare(copy.as_mut_ptr()), Code::State);
        assert_eq!(antedate_dtls_writer_wipe(at), Code::Ok);
        assert_eq!(antedate_dtls_writer_wipe(at), Code::State);
        assert_eq!(antedate_dtls_protect(at, 23, none, to, 64, &mut len), Code::State);
        let mut receiving = reader(1, &key, &iv, 1 << 48, b"id");
        assert_eq!(antedate_dtls_open(receiving.as_mut_ptr(), null(), 0, to, 9, &mut content), Code::Frame);
        // Another connection.
        let record = protect(&mut writer(1, &key, &iv, 1 << 48, b"di"), 23, b"").expect("protected");
        assert_eq!(open(&mut receiving, &record).0, Code::Frame);
        let record = protect(&mut writer(1, &key, &iv, 1 << 48, b""), 23, b"").expect("protected");
        assert_eq!(open(&mut receiving, &record).0, Code::Frame);
        assert_eq!(antedate_dtls_reader_wipe(receiving.as_mut_ptr()), Code::Ok);
        assert!(receiving[..5].iter().all(|word| *word == 0));
    }
}
