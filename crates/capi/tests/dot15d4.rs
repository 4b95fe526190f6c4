//! Frames of IEEE 802.15.4 by the calls of C: the known answers of the standard, the Linux kernel,
//! scapy and tshark, prepared and not, and an error for each misuse.
#![allow(unsafe_code, reason = "the tests call the functions as C does")]

mod vectors;

use antedate_capi::*;
use proptest::prelude::*;
use std::ptr::{null, null_mut};
use vectors::{Block, blocks, hex};

const KEY: usize = DOT15D4_KEY_BYTES / 8 + 1;
const SLOT: usize = DOT15D4_SLOT_BYTES / 8 + 1;

fn bytes(data: &[u8]) -> Bytes {
    Bytes { data: data.as_ptr(), len: data.len() }
}

struct Key(Box<[u64; KEY]>);

impl Key {
    fn new(octets: &[u8], slotted: bool, next: u64) -> Self {
        let mut this = Self(Box::new([0; KEY]));
        // SAFETY: all pointers are of live slices.
        let code = unsafe {
            antedate_dot15d4_key_init_sized(this.at(), KEY * 8, bytes(octets), slotted.into(), next)
        };
        assert_eq!(code, Code::Ok);
        this
    }

    fn at(&mut self) -> *mut u64 {
        self.0.as_mut_ptr()
    }

    fn secure(&mut self, source: &[u8], asn: u64, frame: &mut [u8]) -> Code {
        // SAFETY: as above.
        unsafe { antedate_dot15d4_secure(self.at(), source.as_ptr(), asn, frame.as_mut_ptr(), frame.len()) }
    }

    fn unsecure(&mut self, slot: Option<&mut Slot>, source: &[u8], asn: u64, frame: &mut [u8]) -> Code {
        let slot = slot.map_or(null_mut(), Slot::at);
        let (frame, len) = (frame.as_mut_ptr(), frame.len());
        // SAFETY: as above.
        unsafe { antedate_dot15d4_unsecure(self.at(), slot, source.as_ptr(), asn, frame, len) }
    }
}

struct Slot(Box<[u64; SLOT]>);

impl Slot {
    fn new() -> Self {
        let mut this = Self(Box::new([0; SLOT]));
        // SAFETY: as above.
        assert_eq!(unsafe { antedate_dot15d4_slot_init_sized(this.at(), SLOT * 8) }, Code::Ok);
        this
    }

    fn at(&mut self) -> *mut u64 {
        self.0.as_mut_ptr()
    }

    fn prepare(&mut self, key: &mut Key, source: &[u8], asn: u64, frame: &[u8], known: usize) -> Code {
        let (octets, len) = (frame.as_ptr(), frame.len());
        // SAFETY: as above.
        unsafe { antedate_dot15d4_prepare(key.at(), self.at(), source.as_ptr(), asn, octets, len, known) }
    }

    fn expect(
        &mut self,
        key: &mut Key,
        source: &[u8],
        asn: u64,
        sample: &[u8],
        known: usize,
        other: usize,
    ) -> Code {
        let (octets, len) = (sample.as_ptr(), sample.len());
        // SAFETY: as above.
        unsafe {
            antedate_dot15d4_expect(key.at(), self.at(), source.as_ptr(), asn, octets, len, known, other)
        }
    }

    fn step(&mut self, key: &mut Key, budget: u32) -> u32 {
        // SAFETY: as above.
        unsafe { antedate_dot15d4_step(key.at(), self.at(), budget) }
    }

    fn seal(&mut self, key: &mut Key, rest: &[u8]) -> Result<Vec<u8>, Code> {
        let mut sealed = bytes(&[]);
        // SAFETY: as above; the frame stays in the slot.
        unsafe {
            match antedate_dot15d4_seal(key.at(), self.at(), bytes(rest), &mut sealed) {
                Code::Ok => Ok(std::slice::from_raw_parts(sealed.data, sealed.len).to_vec()),
                code => Err(code),
            }
        }
    }
}

fn read(frame: &[u8]) -> (Code, Parts) {
    let mut parts = Parts::default();
    // SAFETY: as above.
    let code = unsafe { antedate_dot15d4_read(frame.as_ptr(), frame.len(), &mut parts) };
    (code, parts)
}

/// A frame of the vectors.
struct Case {
    octets: Vec<u8>,
    slotted: bool,
    asn: u64,
    source: Vec<u8>,
    secured: Vec<u8>,
    clear: Vec<u8>,
    parts: Parts,
}

impl Case {
    fn new(block: &Block) -> Self {
        let secured = hex(&block["Frame"]);
        let (code, parts) = read(&secured);
        assert_eq!(code, Code::Ok, "{}", block["Name"]);
        let mut source = hex(&block["Sender"]);
        if parts.protection.slotted != 0 && parts.source_len == 2 {
            let pan = u16::from_str_radix(&block["PAN"], 16).expect("digits");
            let address = u16::from_be_bytes([parts.source[0], parts.source[1]]);
            // SAFETY: eight octets.
            let code = unsafe { antedate_dot15d4_short_source(pan, address, source.as_mut_ptr()) };
            assert_eq!(code, Code::Ok);
        }
        let mut clear = secured.clone();
        let at = usize::from(parts.header_len);
        let payload = hex(&block["Payload"]);
        clear[at..at + payload.len()].copy_from_slice(&payload);
        let mic = clear.len() - usize::from(parts.mic_len);
        clear[mic..].fill(0);
        let asn = block.get("ASN").map_or(0, |asn| asn.parse().expect("a number"));
        let slotted = block.contains_key("ASN");
        Self { octets: hex(&block["Key"]), slotted, asn, source, secured, clear, parts }
    }

    fn number(&self) -> u64 {
        if self.slotted { self.asn } else { self.parts.protection.frame_counter.into() }
    }

    fn key(&self) -> Key {
        Key::new(&self.octets, self.slotted, self.number())
    }
}

/// The vectors that can be written: level 4 is refused, and those with a status are faulty.
fn cases() -> Vec<Case> {
    let all = blocks("dot15d4");
    let good = all.iter().filter(|block| block["Level"] != "4" && !block.contains_key("Status"));
    let cases: Vec<Case> = good.map(Case::new).collect();
    assert!(cases.len() > 30, "{}", cases.len());
    assert!(cases.iter().any(|case| case.slotted) && cases.iter().any(|case| !case.slotted));
    cases
}

#[test]
fn every_vector_is_secured_and_unsecured() {
    for case in cases() {
        let (mut key, mut frame) = (case.key(), case.clear.clone());
        assert_eq!(key.secure(&case.source, case.asn, &mut frame), Code::Ok);
        assert_eq!(frame, case.secured);
        // The number is spent.
        assert_eq!(key.secure(&case.source, case.asn, &mut frame), Code::Spent);
        assert_eq!(frame, case.secured);
        assert_eq!(key.unsecure(None, &case.source, case.asn, &mut frame), Code::Ok);
        let mic = frame.len() - usize::from(case.parts.mic_len);
        assert_eq!(frame[..mic], case.clear[..mic]);
    }
}

#[test]
fn prepared_frames_have_the_same_octets() {
    for case in cases() {
        let before = case.clear.len() - usize::from(case.parts.mic_len);
        // The header up to its elements: before them in the frame, at the least.
        let least = usize::from(case.parts.header_len);
        for known in least..=before {
            for steps in [0, 1, 3, 99] {
                let (mut key, mut slot) = (case.key(), Slot::new());
                assert_eq!(slot.prepare(&mut key, &case.source, case.asn, &case.clear, known), Code::Ok);
                for _ in 0..steps {
                    slot.step(&mut key, 1);
                }
                let sealed = slot.seal(&mut key, &case.clear[known..before]);
                assert_eq!(sealed.as_ref(), Ok(&case.secured), "{known} known, {steps} steps");
                assert_eq!(slot.seal(&mut key, &[]), Err(Code::State), "a second time");
                let again = slot.prepare(&mut key, &case.source, case.asn, &case.clear, known);
                assert_eq!(again, Code::Spent);
            }
        }
    }
}

#[test]
fn expected_frames_are_opened_and_forgeries_refused() {
    for case in cases() {
        let before = case.secured.len() - usize::from(case.parts.mic_len);
        for known in [0, usize::from(case.parts.header_len), before] {
            for steps in [0, 2, 99] {
                let (mut key, mut slot) = (case.key(), Slot::new());
                let other = case.secured.len() + 3;
                let code = slot.expect(&mut key, &case.source, case.asn, &case.secured, known, other);
                assert_eq!(code, Code::Ok);
                for _ in 0..steps {
                    slot.step(&mut key, 1);
                }
                let mut forged = case.secured.clone();
                *forged.last_mut().expect("an octet") ^= 1;
                let refused = key.unsecure(Some(&mut slot), &case.source, case.asn, &mut forged);
                assert_eq!((refused, forged.iter().all(|octet| *octet == 0)), (Code::Unauthentic, true));
                let mut frame = case.secured.clone();
                let opened = key.unsecure(Some(&mut slot), &case.source, case.asn, &mut frame);
                assert_eq!((opened, &frame[..before]), (Code::Ok, &case.clear[..before]));
                // The slot is empty now; the frame still opens the ordinary way.
                let mut frame = case.secured.clone();
                let opened = key.unsecure(Some(&mut slot), &case.source, case.asn, &mut frame);
                assert_eq!((opened, &frame[..before]), (Code::Ok, &case.clear[..before]));
            }
        }
    }
}

#[test]
fn faulty_vectors_and_level_4_are_refused() {
    let all = blocks("dot15d4");
    let bad = all.iter().filter(|block| block["Level"] == "4" || block.contains_key("Status"));
    let mut seen = 0;
    for block in bad {
        let secured = hex(&block["Frame"]);
        for slotted in [false, true] {
            let mut key = Key::new(&hex(&block["Key"]), slotted, 0);
            let mut frame = secured.clone();
            let asn = block.get("ASN").map_or(0, |asn| asn.parse().expect("a number"));
            let code = key.unsecure(None, &hex(&block["Sender"]), asn, &mut frame);
            assert!(matches!(code, Code::Frame | Code::Unauthentic | Code::Spent), "{code:?}");
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
fn security_headers_are_read_and_written() {
    for case in cases() {
        let mut out = [0xee; 14];
        // SAFETY: the header's longest length.
        let len = unsafe { antedate_dot15d4_security_header(&case.parts.protection, out.as_mut_ptr()) };
        let at = case.secured.windows(len).position(|octets| octets == &out[..len]);
        assert!(len > 0 && at.is_some_and(|at| at < usize::from(case.parts.header_len)));
        assert!(out[len..].iter().all(|octet| *octet == 0xee), "nothing behind it is written");
    }
    let good = Protection { level: 5, key_mode: 1, key_index: 1, ..Protection::default() };
    for bad in [
        Protection { level: 4, ..good },
        Protection { level: 0, ..good },
        Protection { level: 8, ..good },
        Protection { key_mode: 4, ..good },
        Protection { key_index: 0, ..good },
    ] {
        // SAFETY: as above.
        let len = unsafe { antedate_dot15d4_security_header(&bad, [0; 14].as_mut_ptr()) };
        assert_eq!(len, 0, "{bad:?}");
    }
    // SAFETY: nothing is accessed.
    unsafe {
        assert_eq!(antedate_dot15d4_security_header(null(), [0; 14].as_mut_ptr()), 0);
        assert_eq!(antedate_dot15d4_security_header(&good, null_mut()), 0);
    }
}

#[test]
fn misuse_is_an_error() {
    let case = cases().into_iter().find(|case| case.slotted).expect("of TSCH");
    let (mut key, mut slot) = (case.key(), Slot::new());
    let known = usize::from(case.parts.header_len);
    // Another key, also at the same address, does not serve the slot.
    assert_eq!(slot.prepare(&mut key, &case.source, case.asn, &case.clear, known), Code::Ok);
    let mut stranger = case.key();
    assert_eq!((slot.step(&mut stranger, 9), slot.seal(&mut stranger, &[])), (0, Err(Code::State)));
    // SAFETY: a live key is wiped and made again in its memory.
    unsafe {
        assert_eq!(antedate_dot15d4_key_wipe(key.at()), Code::Ok);
        assert_eq!(antedate_dot15d4_key_wipe(key.at()), Code::State);
        let octets = bytes(&case.octets);
        assert_eq!(antedate_dot15d4_key_init_sized(key.at(), KEY * 8, octets, 1, 0), Code::Ok);
    }
    assert_eq!((slot.step(&mut key, 9), slot.seal(&mut key, &[])), (0, Err(Code::State)));
    // Slots of the past, frames of the other kind, unknown parts of the header.
    let mut late = Key::new(&case.octets, true, case.asn + 1);
    assert_eq!(slot.prepare(&mut late, &case.source, case.asn, &case.clear, known), Code::Spent);
    let mut counted = Key::new(&case.octets, false, 0);
    assert_eq!(counted.secure(&case.source, case.asn, &mut case.clear.clone()), Code::Frame);
    assert_eq!(slot.prepare(&mut key, &case.source, case.asn, &case.clear, 4), Code::Template);
    assert_eq!(slot.prepare(&mut key, &case.source, 1 << 40, &case.clear, known), Code::Argument);
    let beyond = case.clear.len();
    assert_eq!(slot.prepare(&mut key, &case.source, case.asn, &case.clear, beyond), Code::Template);
    // A preparation to receive is not sent.
    assert_eq!(slot.expect(&mut key, &case.source, case.asn, &case.secured, 0, 0), Code::Ok);
    assert_eq!(slot.seal(&mut key, &[]), Err(Code::State));
    // Too long for a slot; it can still be sealed.
    assert_eq!(slot.prepare(&mut key, &case.source, case.asn, &case.clear, known), Code::Ok);
    assert_eq!(slot.seal(&mut key, &[0; 125]), Err(Code::TooLong));
    let before = case.clear.len() - usize::from(case.parts.mic_len);
    assert_eq!(slot.seal(&mut key, &case.clear[known..before]).as_ref(), Ok(&case.secured));
    // SAFETY: nulls are found, a copied context is refused, and no memory is too short for that.
    unsafe {
        let mut octets = case.clear.clone();
        let frame = octets.as_mut_ptr();
        let source = case.source.as_ptr();
        assert_eq!(antedate_dot15d4_secure(null_mut(), source, 0, frame, 0), Code::Argument);
        assert_eq!(antedate_dot15d4_secure(key.at(), null(), 0, frame, 0), Code::Argument);
        assert_eq!(antedate_dot15d4_secure(key.at(), source, 0, null_mut(), 9), Code::Argument);
        assert_eq!(antedate_dot15d4_secure(key.at(), source, 0, frame, 1 << 20), Code::TooLong);
        assert_eq!(antedate_dot15d4_read(null(), 0, &mut Parts::default()), Code::Frame);
        assert_eq!(antedate_dot15d4_read(case.secured.as_ptr(), 9, null_mut()), Code::Frame);
        assert_eq!(antedate_dot15d4_seal(key.at(), slot.at(), bytes(&[]), null_mut()), Code::Argument);
        let mut copy = Key(key.0.clone());
        assert_eq!(copy.secure(&case.source, case.asn, &mut case.clear.clone()), Code::State);
        assert_eq!(
            antedate_dot15d4_key_init_sized(copy.at(), DOT15D4_KEY_BYTES - 8, bytes(&[0; 16]), 0, 0),
            Code::Size
        );
        assert_eq!(
            antedate_dot15d4_key_init_sized(copy.at(), KEY * 8, bytes(&[0; 15]), 0, 0),
            Code::KeyLength
        );
        assert_eq!(antedate_dot15d4_slot_init_sized(copy.at(), 8), Code::Size);
        assert_eq!(antedate_dot15d4_slot_wipe(slot.at()), Code::Ok);
        assert_eq!((slot.step(&mut key, 1), antedate_dot15d4_slot_wipe(slot.at())), (0, Code::State));
        assert!(slot.0.iter().all(|word| *word == 0), "wiped");
    }
}

#[test]
fn other_traffic_leaves_a_preparation() {
    let case = cases().into_iter().find(|case| case.slotted && case.parts.mic_len == 4).expect("of TSCH");
    let (mut key, mut slot) = (case.key(), Slot::new());
    assert_eq!(slot.expect(&mut key, &case.source, case.asn, &case.secured, 0, 0), Code::Ok);
    while slot.step(&mut key, 1) > 0 {}
    // A frame of another sender in the same slot.
    let mut sender = case.key();
    let (other, mut frame) = ([9; 8], case.clear.clone());
    assert_eq!(sender.secure(&other, case.asn, &mut frame), Code::Ok);
    assert_eq!(key.unsecure(Some(&mut slot), &other, case.asn, &mut frame), Code::Ok);
    assert_eq!(slot.step(&mut key, 1), 0, "still prepared");
    let mut frame = case.secured.clone();
    assert_eq!(key.unsecure(Some(&mut slot), &case.source, case.asn, &mut frame), Code::Ok);
}

proptest! {
    /// Any octets but the genuine frame, also those that begin like it, are refused: read, expected,
    /// prepared and unsecured without harm, and nothing of them comes out.
    #[test]
    fn any_frame_is_refused(
        which in any::<proptest::sample::Index>(),
        kept in 0..40usize,
        octets in proptest::collection::vec(any::<u8>(), 0..140),
        known in 0..140usize,
        other in 0..140usize,
        asn in 0..1u64 << 41,
    ) {
        let cases = cases();
        let case = which.get(&cases);
        let kept = kept.min(case.secured.len());
        let mut frame = [&case.secured[..kept], &octets].concat();
        // With a frame counter the genuine one is authentic in any slot.
        prop_assume!(frame != case.secured);
        let (mut key, mut slot) = (case.key(), Slot::new());
        let _ = read(&frame);
        let expected = slot.expect(&mut key, &case.source, asn, &frame, known, other);
        while slot.step(&mut key, 3) > 0 {}
        let code = key.unsecure(Some(&mut slot), &case.source, asn, &mut frame);
        prop_assert_ne!(code, Code::Ok);
        prop_assert!(code != Code::Unauthentic || frame.iter().all(|octet| *octet == 0));
        let prepared = slot.prepare(&mut key, &case.source, asn, &frame, known);
        while slot.step(&mut key, 3) > 0 {}
        let sealed = slot.seal(&mut key, &[]);
        prop_assert!(sealed.is_err() || prepared == Code::Ok, "{:?} {:?}", expected, prepared);
    }
}
