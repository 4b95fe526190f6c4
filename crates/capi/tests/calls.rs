//! The calls of C: the same bytes as the engine's one-shot calls, and an error for each misuse.
#![allow(unsafe_code, reason = "the tests call the functions as C does")]

use antedate_aead::{
    Aegis128L, Aes128Ccm, Aes128Ccm8, Aes128Gcm, Aes128Ocb3, Aes256Ccm, Aes256Gcm, AsconAead128, CcmStar32,
    CcmStar64, CcmStar128, ChaCha20Poly1305, Key, Nonce, Suite,
};
use antedate_capi::*;
use std::ptr::{null, null_mut};

const AAD: &[u8] = b"thirteen byte";
const WORDS: usize = CONTEXT_BYTES / 8;

type Memory = Box<[u64; WORDS]>;

fn bytes(data: &[u8]) -> Bytes {
    Bytes { data: data.as_ptr(), len: data.len() }
}

fn memory() -> Memory {
    Box::new([0; WORDS])
}

/// A sealer of a suite, with a key of counting bytes and an initial value of `i`s.
fn sealer(suite: u32) -> Memory {
    let mut memory = memory();
    let (key, initial) = (key(suite), vec![b'i'; antedate_nonce_len(suite)]);
    // SAFETY: all pointers are of live slices.
    let code = unsafe {
        antedate_sealer_init_sized(memory.as_mut_ptr(), CONTEXT_BYTES, suite, bytes(&key), bytes(&initial))
    };
    assert_eq!(code, Code::Ok);
    memory
}

fn opener(suite: u32) -> Memory {
    let mut memory = memory();
    let (key, initial) = (key(suite), vec![b'i'; antedate_nonce_len(suite)]);
    // SAFETY: as above.
    let code = unsafe {
        antedate_opener_init_sized(memory.as_mut_ptr(), CONTEXT_BYTES, suite, bytes(&key), bytes(&initial))
    };
    assert_eq!(code, Code::Ok);
    memory
}

fn key(suite: u32) -> Vec<u8> {
    (0..antedate_key_len(suite) as u8).collect()
}

fn seal(sealer: &mut Memory, plain: &[u8]) -> (Code, Vec<u8>, [u8; 16]) {
    let (mut out, mut tag) = (vec![0; plain.len()], [0; 16]);
    let (words, to) = (sealer.as_mut_ptr(), out.as_mut_ptr());
    // SAFETY: as above.
    let code = unsafe { antedate_seal(words, bytes(AAD), plain.as_ptr(), to, plain.len(), tag.as_mut_ptr()) };
    (code, out, tag)
}

fn open(opener: &mut Memory, cipher: &[u8], tag: &[u8; 16]) -> (Code, Vec<u8>) {
    let mut out = vec![0xaa; cipher.len()];
    let (words, to) = (opener.as_mut_ptr(), out.as_mut_ptr());
    // SAFETY: as above.
    let code = unsafe { antedate_open(words, bytes(AAD), cipher.as_ptr(), to, cipher.len(), tag.as_ptr()) };
    (code, out)
}

/// The engine's result for packet `number`, without this interface.
fn one_shot<S: Suite<NonceBytes = [u8; N]>, const N: usize>(number: u64, plain: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let key: Vec<u8> = (0..S::KEY_LEN as u8).collect();
    let mut nonce = [b'i'; N];
    nonce.iter_mut().rev().zip(number.to_le_bytes()).for_each(|(byte, part)| *byte ^= part);
    let mut out = vec![0; plain.len()];
    let key = Key::<S>::new(&key).expect("the suite's length");
    let tag = key.seal(Nonce::assume_unique(nonce), AAD, plain, &mut out);
    (out, tag.as_bytes().as_ref().to_vec())
}

type OneShot = fn(u64, &[u8]) -> (Vec<u8>, Vec<u8>);

const SUITES: [(u32, OneShot); 12] = [
    (1, one_shot::<Aes128Ccm8, 12>),
    (2, one_shot::<Aes128Ccm, 12>),
    (3, one_shot::<Aes256Ccm, 12>),
    (4, one_shot::<CcmStar32, 13>),
    (5, one_shot::<CcmStar64, 13>),
    (6, one_shot::<CcmStar128, 13>),
    (16, one_shot::<Aes128Gcm, 12>),
    (17, one_shot::<Aes256Gcm, 12>),
    (18, one_shot::<ChaCha20Poly1305, 12>),
    (19, one_shot::<Aes128Ocb3, 12>),
    (32, one_shot::<Aegis128L, 16>),
    (33, one_shot::<AsconAead128, 16>),
];

/// A template with a hole in each part, and the packet with its values.
struct Letter {
    payload: Vec<u8>,
    holes: [Hole; 2],
    packet: Vec<u8>,
}

impl Letter {
    fn new() -> Self {
        let payload: Vec<u8> = (0..75).collect();
        let mut packet = payload.clone();
        packet[20..40].fill(b'v');
        packet[74] = b'w';
        let hole = |start, end| Hole { in_payload: 1, start, end };
        Self { payload, holes: [hole(20, 40), hole(74, 75)], packet }
    }

    fn template(&self) -> Template {
        let (holes, hole_count) = (self.holes.as_ptr(), self.holes.len());
        Template { aad: bytes(AAD), payload: bytes(&self.payload), holes, hole_count }
    }
}

#[test]
fn every_suite_matches_the_engine_at_every_step() {
    for (suite, one_shot) in SUITES {
        let (mut sealer, mut opener) = (sealer(suite), opener(suite));
        for number in 0..60 {
            let plain: Vec<u8> = (0..(number * 37 % 200) as u8).collect();
            // SAFETY: these are contexts.
            unsafe {
                assert_eq!(antedate_prepare(sealer.as_mut_ptr(), number), Code::Ok);
                antedate_step(sealer.as_mut_ptr(), number as u32 % 40);
                assert_eq!(antedate_expect(opener.as_mut_ptr(), number), Code::Ok);
                antedate_opener_step(opener.as_mut_ptr(), number as u32 % 30);
            }
            let (code, cipher, tag) = seal(&mut sealer, &plain);
            let (expected, expected_tag) = one_shot(number, &plain);
            assert_eq!((code, &cipher), (Code::Ok, &expected), "suite {suite}, packet {number}");
            assert_eq!(tag[..expected_tag.len()], expected_tag);
            assert_eq!(open(&mut opener, &cipher, &tag), (Code::Ok, plain), "suite {suite}, packet {number}");
        }
    }
}

#[test]
fn shapes_match_or_are_unsupported() {
    let letter = Letter::new();
    let template = letter.template();
    let lengths = [letter.packet.len(), 70];
    let front = Front {
        aad: bytes(AAD),
        payload: bytes(&letter.packet[..50]),
        lengths: lengths.as_ptr(),
        length_count: 2,
        length_start: 0,
        length_end: 0,
    };
    for (suite, one_shot) in SUITES {
        let linear = (16..32).contains(&suite);
        let (mut sealer, mut opener) = (sealer(suite), opener(suite));
        let (sealer, opened) = (sealer.as_mut_ptr(), opener.as_mut_ptr());
        for number in 0..20 {
            let (mut sealed, mut tag) = (bytes(&[]), [0; 16]);
            // SAFETY: contexts, and live slices.
            let code = unsafe {
                let as_template = antedate_prepare_template(sealer, number, &template);
                assert_eq!(as_template, if linear { Code::Ok } else { Code::Unsupported });
                let as_front =
                    if linear { Code::Unsupported } else { antedate_prepare_front(sealer, number, &front) };
                assert_eq!(as_front, if linear { Code::Unsupported } else { Code::Ok });
                antedate_step(sealer, 3 * number as u32);
                if linear {
                    let values = [bytes(&[b'v'; 20]), bytes(b"w")];
                    antedate_seal_template(sealer, values.as_ptr(), 2, &mut sealed, tag.as_mut_ptr())
                } else {
                    antedate_seal_front(sealer, bytes(&letter.packet[50..]), &mut sealed, tag.as_mut_ptr())
                }
            };
            assert_eq!(code, Code::Ok, "suite {suite}");
            // SAFETY: the ciphertext stays until the next packet is named.
            let cipher = unsafe { std::slice::from_raw_parts(sealed.data, sealed.len) }.to_vec();
            let (expected, expected_tag) = one_shot(number, &letter.packet);
            assert_eq!(
                (&cipher, &tag[..expected_tag.len()]),
                (&expected, &expected_tag[..]),
                "suite {suite}"
            );
            // SAFETY: as above.
            unsafe {
                let code = match linear {
                    true => antedate_expect_template(opened, number, &template),
                    false => antedate_expect_front(opened, number, &front),
                };
                assert_eq!(code, Code::Ok);
                antedate_opener_step(opened, 3 * number as u32);
            }
            let mut wrong = cipher.clone();
            wrong[60] ^= 4;
            assert_eq!(open(&mut opener, &wrong, &tag), (Code::Unauthentic, vec![0; 75]));
            assert_eq!(open(&mut opener, &cipher, &tag), (Code::Ok, letter.packet.clone()), "suite {suite}");
        }
    }
}

#[test]
fn packet_and_number_are_used_once() {
    let mut context = sealer(16);
    let words = context.as_mut_ptr();
    assert_eq!(seal(&mut context, b"nothing is prepared").0, Code::State);
    // SAFETY: a context.
    unsafe {
        assert_eq!(antedate_prepare(words, 7), Code::Ok);
        assert_eq!(seal(&mut context, b"once").0, Code::Ok);
        assert_eq!(seal(&mut context, b"twice").0, Code::State);
        assert_eq!(antedate_step(words, 9), 0);
        for (number, code) in [(7, Code::Spent), (3, Code::Spent), (8, Code::Ok), (8, Code::Spent)] {
            assert_eq!(antedate_prepare(words, number), code, "{number}");
        }
        assert_eq!(seal(&mut context, b"the refusal dropped what was prepared").0, Code::State);
        assert_eq!(antedate_prepare(words, u64::MAX), Code::Ok);
        assert_eq!(antedate_prepare(words, u64::MAX), Code::Spent);
    }
}

#[test]
fn misfit_values_keep_the_packet() {
    let letter = Letter::new();
    let template = letter.template();
    let mut context = sealer(18);
    let words = context.as_mut_ptr();
    let (mut sealed, mut tag) = (bytes(&[]), [0; 16]);
    let v = [b'v'; 20];
    // SAFETY: contexts, and live slices.
    unsafe {
        assert_eq!(antedate_prepare_template(words, 1, &template), Code::Ok);
        while antedate_step(words, 1) > 0 {}
        let mut seal = |values: &[Bytes]| {
            antedate_seal_template(words, values.as_ptr(), values.len(), &mut sealed, tag.as_mut_ptr())
        };
        assert_eq!(seal(&[bytes(&v)]), Code::Misfit);
        assert_eq!(seal(&[bytes(&v), bytes(b"too long")]), Code::Misfit);
        assert_eq!(seal(&[bytes(&v); 9]), Code::Misfit);
        assert_eq!(seal(&[bytes(&v), bytes(b"w")]), Code::Ok);
        assert_eq!(seal(&[bytes(&v), bytes(b"w")]), Code::State);
        assert_eq!(tag[..], one_shot::<ChaCha20Poly1305, 12>(1, &letter.packet).1[..]);
        // A packet of another shape also uses up the number.
        assert_eq!(antedate_prepare_template(words, 2, &template), Code::Ok);
    }
    let (code, cipher, _) = seal(&mut context, b"of another shape");
    assert_eq!((code, cipher), (Code::Ok, one_shot::<ChaCha20Poly1305, 12>(2, b"of another shape").0));
}

#[test]
fn invalid_template_costs_no_number() {
    let mut letter = Letter::new();
    let mut context = sealer(16);
    let words = context.as_mut_ptr();
    // SAFETY: contexts, and live slices.
    unsafe {
        for (holes, code) in [
            ([(20, 40), (39, 41)], Code::Template),
            ([(20, 40), (74, 76)], Code::Template),
            ([(20, 40), (50, 50)], Code::Template),
            ([(30, 20), (50, 51)], Code::Template),
            ([(0, 75), (0, 75)], Code::Template),
            ([(0, 70), (70, 75)], Code::Ok),
        ] {
            letter.holes = holes.map(|(start, end)| Hole { in_payload: 1, start, end });
            assert_eq!(antedate_prepare_template(words, 1, &letter.template()), code, "{holes:?}");
        }
        let long = vec![0; CAPACITY + 1];
        let template = Template { payload: bytes(&long), ..letter.template() };
        assert_eq!(antedate_prepare_template(words, 2, &template), Code::TooLong);
        let template = Template { hole_count: 9, ..letter.template() };
        assert_eq!(antedate_prepare_template(words, 2, &template), Code::TooLong);
        assert_eq!(antedate_prepare(words, 2), Code::Ok);
    }
}

#[test]
fn invalid_context_is_refused() {
    // SAFETY: null, or initialised memory.
    unsafe {
        assert_eq!(antedate_prepare(null_mut(), 1), Code::Argument);
        assert_eq!(antedate_prepare(memory().as_mut_ptr(), 1), Code::State);
        assert_eq!(antedate_step(memory().as_mut_ptr(), 1), 0);
        assert_eq!(antedate_prepare(sealer(1).as_mut_ptr().byte_add(4), 1), Code::Argument);
        let original = sealer(1);
        let mut copy = memory();
        copy.copy_from_slice(&*original);
        assert_eq!(antedate_prepare(copy.as_mut_ptr(), 1), Code::State, "a copy is not a context");
        assert_eq!(antedate_expect(sealer(1).as_mut_ptr(), 1), Code::State, "a sealer is no opener");
    }
}

#[test]
fn wrong_arguments_return_their_code() {
    let (mut memory, key, initial) = (memory(), key(1), [0; 12]);
    let words = memory.as_mut_ptr();
    // SAFETY: null with a length is the only mistake, and it is detected.
    unsafe {
        let init = |size, suite, key, initial| antedate_sealer_init_sized(words, size, suite, key, initial);
        assert_eq!(init(CONTEXT_BYTES, 99, bytes(&key), bytes(&initial)), Code::Suite);
        assert_eq!(init(CONTEXT_BYTES, 1, bytes(&key[1..]), bytes(&initial)), Code::KeyLength);
        assert_eq!(init(CONTEXT_BYTES, 1, bytes(&key), bytes(&initial[1..])), Code::NonceLength);
        assert_eq!(init(SEALER_BYTES - 1, 1, bytes(&key), bytes(&initial)), Code::Size);
        assert_eq!(init(CONTEXT_BYTES, 1, Bytes { data: null(), len: 16 }, bytes(&initial)), Code::Argument);
        assert_eq!(antedate_prepare(words, 1), Code::State, "nothing was made");
        assert_eq!(init(SEALER_BYTES, 1, bytes(&key), bytes(&initial)), Code::Ok);
        assert_eq!(antedate_prepare(words, 1), Code::Ok);
        let (mut buffer, mut tag) = ([0u8; 64], [0; 16]);
        let (at, tag) = (buffer.as_mut_ptr(), tag.as_mut_ptr());
        let none = bytes(&[]);
        assert_eq!(antedate_seal(words, none, at, at.add(15), 16, tag), Code::Argument, "they overlap");
        assert_eq!(antedate_seal(words, none, null(), at, 16, tag), Code::Argument);
        assert_eq!(antedate_seal(words, none, at, at.add(32), 16, null_mut()), Code::Argument);
        assert_eq!(antedate_seal(words, none, at, at, PAYLOAD_MAX + 1, tag), Code::TooLong);
        assert_eq!(antedate_seal(words, none, at, at.add(32), 16, tag), Code::Ok, "all that cost nothing");
    }
}

#[test]
fn wiped_context_is_zeros() {
    for (suite, _) in SUITES {
        let mut context = sealer(suite);
        let words = context.as_mut_ptr();
        // SAFETY: a context.
        unsafe {
            assert_eq!(antedate_prepare(words, 1), Code::Ok);
            while antedate_step(words, 8) > 0 {}
            assert_eq!(antedate_sealer_wipe(words), Code::Ok);
            // The alignment gap before or behind the context is zero from the start.
            assert!(context.iter().all(|word| *word == 0), "suite {suite}");
            assert_eq!(antedate_sealer_wipe(words), Code::State);
        }
        let mut context = opener(suite);
        // SAFETY: a context.
        unsafe {
            assert_eq!(antedate_expect(context.as_mut_ptr(), 1), Code::Ok);
            antedate_opener_step(context.as_mut_ptr(), 100);
            assert_eq!(antedate_opener_wipe(context.as_mut_ptr()), Code::Ok);
        }
        assert!(context.iter().all(|word| *word == 0), "suite {suite}");
    }
}

/// Outputs must not overlap inputs, and structs must have C's alignment.
#[test]
fn overlap_and_misalignment_are_refused() {
    for (suite, one_shot) in SUITES {
        let (mut sealer, mut opener) = (sealer(suite), opener(suite));
        let (sealer, opened) = (sealer.as_mut_ptr(), opener.as_mut_ptr());
        let linear = (16..32).contains(&suite);
        let mut all = [b'a'; 128];
        all[64..77].copy_from_slice(AAD);
        let start = all.as_mut_ptr();
        let part = |at: usize, len| Bytes { data: start.wrapping_add(at), len };
        let at = |at: usize| start.wrapping_add(at);
        let tag_len = antedate_tag_len(suite);
        // SAFETY: contexts, and pointers to live bytes.
        unsafe {
            assert_eq!(antedate_prepare(sealer, 0), Code::Ok);
            for (aad, src, dst, tag) in [
                (part(24, 13), 0, 36, 80),
                (part(39, 13), 0, 24, 80),
                (part(64, 13), 0, 24, 39),
                (part(64, 13), 0, 24, 25 - tag_len),
                (part(64, 13), 0, 24, 15),
                (part(64, 13), 0, 24, 76),
            ] {
                let code = antedate_seal(sealer, aad, at(src), at(dst), 16, at(tag));
                assert_eq!(code, Code::Argument, "suite {suite}, {dst}, {tag}");
            }
            assert_eq!(antedate_seal(sealer, part(64, 13), at(0), at(24), 16, at(80)), Code::Ok);
            let expected = one_shot(0, &[b'a'; 16]);
            assert_eq!((&all[24..40], &all[80..80 + tag_len]), (&expected.0[..], &expected.1[..]));

            assert_eq!(antedate_expect(opened, 0), Code::Ok);
            for (aad, tag) in [(part(12, 13), 80), (part(64, 13), 15)] {
                assert_eq!(antedate_open(opened, aad, at(24), at(0), 16, at(tag)), Code::Argument);
            }
            assert_eq!(antedate_open(opened, part(64, 13), at(24), at(0), 16, at(80)), Code::Ok);
            assert_eq!(all[..16], [b'a'; 16]);

            let (rest, mut sealed) = (part(1, 4), bytes(&[]));
            if linear {
                let holes = [Hole { in_payload: 1, start: 2, end: 6 }];
                let template = Template {
                    aad: bytes(AAD),
                    payload: bytes(&[7; 20]),
                    holes: holes.as_ptr(),
                    hole_count: 1,
                };
                let askew = (&raw const template).wrapping_byte_add(1);
                assert_eq!(antedate_prepare_template(sealer, 1, askew), Code::Argument);
                assert_eq!(antedate_expect_template(opened, 1, askew), Code::Argument);
                assert_eq!(antedate_prepare_template(sealer, 1, &template), Code::Ok);
                assert_eq!(antedate_seal_template(sealer, &rest, 1, &mut sealed, at(4)), Code::Argument);
                assert_eq!(antedate_seal_template(sealer, &rest, 1, &mut sealed, at(5)), Code::Ok);
            } else {
                let lengths = [24];
                let front = Front {
                    aad: bytes(AAD),
                    payload: bytes(&[7; 20]),
                    lengths: lengths.as_ptr(),
                    length_count: 1,
                    length_start: 0,
                    length_end: 0,
                };
                let askew = (&raw const front).wrapping_byte_add(1);
                assert_eq!(antedate_prepare_front(sealer, 1, askew), Code::Argument);
                assert_eq!(antedate_expect_front(opened, 1, askew), Code::Argument);
                assert_eq!(antedate_prepare_front(sealer, 1, &front), Code::Ok);
                assert_eq!(antedate_seal_front(sealer, rest, &mut sealed, at(4)), Code::Argument);
                assert_eq!(antedate_seal_front(sealer, rest, &mut sealed, at(5)), Code::Ok);
            }
        }
    }
}

/// After an ignored error, C must not seal the packet before it.
#[test]
fn refusal_drops_the_previous_packet() {
    let (letter, lengths) = (Letter::new(), [AAD.len()]);
    let front = Front {
        aad: bytes(AAD),
        payload: bytes(&letter.payload[..4]),
        lengths: lengths.as_ptr(),
        length_count: 1,
        length_start: 0,
        length_end: 0,
    };
    let template = letter.template();
    let no_rest = Front { payload: bytes(&letter.payload), ..front };
    let too_many = Front { length_count: 9, ..front };
    let nowhere = Front { payload: Bytes { data: null(), len: 4 }, ..front };
    let holes = Template { hole_count: 9, ..template };
    for suite in [1, 16, 32] {
        let mut context = sealer(suite);
        let words = context.as_mut_ptr();
        let mut number = 0;
        // SAFETY: contexts, and live slices.
        let mut refused = |name: &dyn Fn(u64) -> Code| unsafe {
            number += 1;
            assert_eq!(antedate_prepare(words, number), Code::Ok);
            let code = name(number + 1);
            (code, seal(&mut context, b"of the packet before").0)
        };
        // SAFETY: as above; null and excess counts are refused.
        unsafe {
            let of_front = |front: &Front, number| antedate_prepare_front(words, number, front);
            assert_eq!(refused(&|number| of_front(&no_rest, number)), (Code::Template, Code::State));
            assert_eq!(refused(&|number| of_front(&too_many, number)), (Code::TooLong, Code::State));
            assert_eq!(refused(&|number| of_front(&nowhere, number)), (Code::Argument, Code::State));
            let of_template = |number| antedate_prepare_template(words, number, &holes);
            assert_eq!(refused(&of_template), (Code::TooLong, Code::State));
            let null_front = |number| antedate_prepare_front(words, number, null());
            assert_eq!(refused(&null_front), (Code::Argument, Code::State));
            let null_template = |number| antedate_prepare_template(words, number, null());
            assert_eq!(refused(&null_template), (Code::Argument, Code::State));
            let not_for_it = |number| match suite {
                16 => antedate_prepare_front(words, number, &front),
                _ => antedate_prepare_template(words, number, &template),
            };
            assert_eq!(refused(&not_for_it), (Code::Unsupported, Code::State));
        }
        let mut context = opener(suite);
        let words = context.as_mut_ptr();
        // SAFETY: as above.
        let mut refused = |name: &dyn Fn() -> Code| unsafe {
            assert_eq!(antedate_expect(words, 1), Code::Ok);
            let code = name();
            (code, open(&mut context, b"of the packet before", &[0; 16]).0)
        };
        // SAFETY: as above.
        unsafe {
            let of_front = |front: &Front| antedate_expect_front(words, 2, front);
            assert_eq!(refused(&|| of_front(&no_rest)), (Code::Template, Code::State));
            assert_eq!(refused(&|| of_front(&too_many)), (Code::TooLong, Code::State));
            assert_eq!(refused(&|| of_front(&nowhere)), (Code::Argument, Code::State));
            let of_template = || antedate_expect_template(words, 2, &holes);
            assert_eq!(refused(&of_template), (Code::TooLong, Code::State));
            let null_front = || antedate_expect_front(words, 2, null());
            assert_eq!(refused(&null_front), (Code::Argument, Code::State));
            let null_template = || antedate_expect_template(words, 2, null());
            assert_eq!(refused(&null_template), (Code::Argument, Code::State));
            let not_for_it = || match suite {
                16 => antedate_expect_front(words, 2, &front),
                _ => antedate_expect_template(words, 2, &template),
            };
            assert_eq!(refused(&not_for_it), (Code::Unsupported, Code::State));
        }
    }
}

#[test]
fn outputs_never_overlap_the_context() {
    let letter = Letter::new();
    let (mut context, mut opened) = (sealer(16), opener(16));
    let (words, expected) = (context.as_mut_ptr(), opened.as_mut_ptr());
    let (mut out, mut tag, mut sealed) = ([0u8; 16], [0u8; 16], bytes(&[]));
    let plain = [b'p'; 16];
    // SAFETY: contexts, and pointers to live bytes; overlaps are refused.
    unsafe {
        assert_eq!(antedate_prepare(words, 1), Code::Ok);
        let inside = words.byte_add(SEALER_BYTES - 1).cast::<u8>();
        let seal = |dst, tag| antedate_seal(words, bytes(AAD), plain.as_ptr(), dst, 16, tag);
        assert_eq!(seal(inside, tag.as_mut_ptr()), Code::Argument);
        assert_eq!(seal(out.as_mut_ptr(), inside), Code::Argument);
        assert_eq!(seal(out.as_mut_ptr(), tag.as_mut_ptr()), Code::Ok);
        assert_eq!(antedate_expect(expected, 1), Code::Ok);
        let into = expected.byte_add(8).cast::<u8>();
        let open = |dst| antedate_open(expected, bytes(AAD), out.as_ptr(), dst, 16, tag.as_ptr());
        assert_eq!(open(into), Code::Argument);
        let mut back = [0; 16];
        assert_eq!((open(back.as_mut_ptr()), back), (Code::Ok, plain));

        assert_eq!(antedate_prepare_template(words, 2, &letter.template()), Code::Ok);
        let values = [bytes(&[b'v'; 20]), bytes(b"w")];
        let seal = |sealed, tag| antedate_seal_template(words, values.as_ptr(), 2, sealed, tag);
        assert_eq!(seal(&raw mut sealed, (&raw mut sealed).cast()), Code::Argument);
        assert_eq!(seal(words.byte_add(64).cast(), tag.as_mut_ptr()), Code::Argument);
        assert_eq!(seal(&raw mut sealed, words.byte_add(64).cast()), Code::Argument);
        assert_eq!(seal(&raw mut sealed, tag.as_mut_ptr()), Code::Ok);
        assert_eq!(tag[..], one_shot::<Aes128Gcm, 12>(2, &letter.packet).1[..]);
    }
}

#[test]
fn packets_are_sealed_and_opened_in_place() {
    for (suite, _) in SUITES {
        let (mut context, mut other) = (sealer(suite), opener(suite));
        let plain: Vec<u8> = (0..100).collect();
        let length = [100];
        let front = Front {
            aad: bytes(AAD),
            payload: bytes(&plain[..64]),
            lengths: length.as_ptr(),
            length_count: 1,
            length_start: 0,
            length_end: 0,
        };
        // Prepared, unprepared, and prepared for a front: then the packet is of another shape.
        for (number, steps, shaped) in [(1, 100, false), (2, 0, false), (3, 100, true)] {
            let (mut apart, mut tag, mut buffer, mut same) = (vec![0; 100], [0; 16], plain.clone(), [0; 16]);
            let tag_len = antedate_tag_len(suite);
            // SAFETY: contexts, and pointers to live bytes.
            unsafe {
                let mut twin = sealer(suite);
                assert_eq!(antedate_prepare(twin.as_mut_ptr(), number), Code::Ok);
                let (aad, from, to) = (bytes(AAD), plain.as_ptr(), apart.as_mut_ptr());
                assert_eq!(antedate_seal(twin.as_mut_ptr(), aad, from, to, 100, tag.as_mut_ptr()), Code::Ok);

                let words = context.as_mut_ptr();
                match shaped && !(16..32).contains(&suite) {
                    true => assert_eq!(antedate_prepare_front(words, number, &front), Code::Ok),
                    false => assert_eq!(antedate_prepare(words, number), Code::Ok),
                }
                antedate_step(words, steps);
                let at = buffer.as_mut_ptr();
                // Buffers that share a part are refused, and the packet is still there.
                let part = antedate_seal(words, aad, at, at.add(1), 99, same.as_mut_ptr());
                assert_eq!((part, &buffer), (Code::Argument, &plain));
                assert_eq!(antedate_seal(words, aad, at, at, 100, same.as_mut_ptr()), Code::Ok);
                assert_eq!((&buffer, &same[..tag_len]), (&apart, &tag[..tag_len]), "suite {suite}");

                let expected = other.as_mut_ptr();
                match shaped && !(16..32).contains(&suite) {
                    true => assert_eq!(antedate_expect_front(expected, number, &front), Code::Ok),
                    false => assert_eq!(antedate_expect(expected, number), Code::Ok),
                }
                antedate_opener_step(expected, steps);
                let mut forged = apart.clone();
                forged[7] ^= 1;
                let at = forged.as_mut_ptr();
                assert_eq!(antedate_open(expected, aad, at, at, 100, tag.as_ptr()), Code::Unauthentic);
                assert_eq!(forged, [0; 100]);
                let at = buffer.as_mut_ptr();
                assert_eq!(antedate_open(expected, aad, at, at, 100, tag.as_ptr()), Code::Ok);
                assert_eq!(buffer, plain);
            }
        }
    }
}

#[test]
fn every_result_has_a_text() {
    // SAFETY: the functions return texts that live as long as the program.
    let text = |pointer| unsafe { std::ffi::CStr::from_ptr(pointer) }.to_str().expect("is text");
    let texts: std::collections::BTreeSet<&str> =
        (0..=18).map(|code| text(antedate_strerror(code))).collect();
    assert_eq!(texts.len(), 19, "{texts:?}");
    assert_eq!(text(antedate_strerror(Code::Unauthentic as i32)), "the packet is forged or damaged");
    for unknown in [19, -1, i32::MAX, i32::MIN] {
        assert_eq!(text(antedate_strerror(unknown)), "not a result of this library");
    }
    assert_eq!(text(antedate_version()), env!("CARGO_PKG_VERSION"));
}

#[test]
fn software_library_takes_no_engine() {
    // SAFETY: nothing is called.
    assert_eq!(unsafe { antedate_set_aes(None, null_mut()) }, Code::Unsupported);
}
