//! Packets of the industrial scenarios (hiller2018 section VI-C, figure 7): CCM_8 unmodified, with
//! antedated encryption, and with templates as well; in addition, sparse templates. The associated
//! data is a DTLS 1.2 record's.

use crate::{AAD, Counter, Mote, Wrong, answers, cost, expected, nonce_of, nothing, report, right};
use antedate_aead::{
    Aes128Gcm, AesCcm, BlockCipher, ChaCha20Poly1305, Expected, Front, FrontSlot, Hole, Key, MisfitError,
    Nonce, Opener, Prepared, PreparedFront, PreparedTemplate, Sealed, SealedFront, Sealer, Slot, Sparse,
    Suite, Tag, Template, TemplateSlot,
};
use core::hint::black_box;
use core::ops::Range;

/// The longest payload, 1521 bytes, in slots of whole units.
const CAP: usize = 1536;
const LAST: usize = 1521;
/// The scenarios' own sizes, not whole blocks.
const ODD: [usize; 6] = [15, 20, 30, 50, 300, LAST];
const TEMPLATES: [usize; 3] = [16, 32, 48];
/// Sizes for sparse templates, whose cost at the deadline should not depend on them.
const SPARSE: [usize; 10] = [15, 20, 30, 50, 80, 200, 300, 1000, 1500, LAST];
const NEW: [usize; 2] = [16, 32];
/// The longest packet of a receiver with GCM, whose key leaves 8 KB of RAM less for slots.
const EXPECTED: usize = 512;

type Ccm8<A> = AesCcm<A, 12, 8>;

fn sizes() -> impl Iterator<Item = usize> {
    (16..=LAST).step_by(16).chain(ODD)
}

fn fill(data: &mut [u8]) {
    data.iter_mut().enumerate().for_each(|(i, byte)| *byte = expected(i));
}

fn is_filled(data: &[u8]) -> bool {
    data.iter().enumerate().all(|(i, byte)| *byte == expected(i))
}

fn key<A: BlockCipher>() -> Result<Key<Ccm8<A>>, Wrong> {
    Key::new(&black_box([7; 16])).map_err(|_| Wrong::Fit)
}

#[inline(never)]
fn one_shot<A: BlockCipher>(key: &Key<Ccm8<A>>, nonce: Nonce, data: &mut [u8]) -> Tag<[u8; 8]> {
    key.seal_in_place(nonce, &AAD, data)
}

#[inline(never)]
fn from_stream<A: BlockCipher>(prepared: Prepared<'_, Ccm8<A>, CAP>, data: &mut [u8]) -> Tag<[u8; 8]> {
    prepared.seal_in_place(&AAD, data)
}

#[inline(never)]
fn from_front<'a, A: BlockCipher>(
    prepared: PreparedFront<'a, Ccm8<A>, CAP, 1>,
    rest: &[u8],
) -> Option<SealedFront<'a, Ccm8<A>, CAP, 1>> {
    prepared.seal(rest).ok()
}

/// Measures CCM_8 at all sizes.
pub fn measure_scenarios<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    nothing::<M>();
    answers::aes_and_ccm::<A>()?;
    for size in sizes() {
        let tag = unmodified::<M, A>(size)?;
        streamed::<M, A>(size, &tag)?;
        received::<M, Ccm8<A>, CAP>("scenario", size, 16)?;
        for front in TEMPLATES {
            if front < size {
                fronted::<M, A>(size, front, &tag)?;
            }
        }
    }
    Ok(())
}

#[inline(never)]
fn unmodified<M: Mote, A: BlockCipher>(size: usize) -> Result<Tag<[u8; 8]>, Wrong> {
    let mut data = [0; CAP];
    fill(&mut data);
    let key = key::<A>()?;
    let nonce = Nonce::assume_unique(black_box(nonce_of(1)));
    let (cost, tag) = cost!(M, one_shot(&key, nonce, &mut data[..black_box(size)]));
    report::<M>("scenario", &[size], "seal", cost);
    let (cost, genuine) = cost!(M, open(&key, &mut data[..black_box(size)], tag.as_bytes()));
    report::<M>("scenario", &[size], "open", cost);
    right(genuine && is_filled(&data))?;
    Ok(tag)
}

/// An application's calls; never inlined.
#[inline(never)]
fn open<S: Suite<NonceBytes = [u8; 12]>>(key: &Key<S>, data: &mut [u8], tag: &S::TagBytes) -> bool {
    key.open_in_place(nonce_of(1), &AAD, data, tag).is_ok()
}

#[inline(never)]
fn open_expected<S: Suite<NonceBytes = [u8; 12]>, const MOST: usize>(
    expected: Expected<'_, S, MOST>,
    data: &mut [u8],
    tag: &S::TagBytes,
) -> bool {
    expected.open_in_place(&AAD, data, tag).is_ok()
}

/// Opens a packet of at most `MOST` bytes whose cipherstream the receiver has prepared, in steps of `unit`
/// bytes.
#[inline(never)]
fn received<M: Mote, S: Suite<NonceBytes = [u8; 12]>, const MOST: usize>(
    what: &str,
    size: usize,
    unit: usize,
) -> Result<(), Wrong> {
    let mut data = [0; MOST];
    fill(&mut data);
    let tag = sealed::<S>(&mut data[..size])?;
    let opener = Opener::new(secret::<S>()?, nonce_of);
    let mut slot = Slot::<S, MOST>::new();
    let mut expected = opener.expect(1, &mut slot);
    expected.step(1 + size.div_ceil(unit) as u32);
    let (cost, genuine) = cost!(M, open_expected(expected, &mut data[..black_box(size)], tag.as_bytes()));
    report::<M>(what, &[size], "open-online", cost);
    right(genuine && is_filled(&data))
}

/// Out of line, so that memory has one key at a time.
#[inline(never)]
fn sealed<S: Suite<NonceBytes = [u8; 12]>>(data: &mut [u8]) -> Result<Tag<S::TagBytes>, Wrong> {
    Ok(secret::<S>()?.seal_in_place(Nonce::assume_unique(nonce_of(1)), &AAD, data))
}

fn secret<S: Suite>() -> Result<Key<S>, Wrong> {
    Key::new(black_box([7; 32]).get(..S::KEY_LEN).unwrap_or_default()).map_err(|_| Wrong::Fit)
}

#[inline(never)]
fn streamed<M: Mote, A: BlockCipher>(size: usize, tag: &Tag<[u8; 8]>) -> Result<(), Wrong> {
    let mut sealer = Sealer::new(key::<A>()?, Counter(0));
    let mut slot = Slot::<Ccm8<A>, CAP>::new();
    let mut prepared = sealer.prepare(&mut slot).map_err(|_| Wrong::Fit)?;
    let steps = 1 + size.div_ceil(16) as u32;
    let (cost, _) = cost!(M, prepared.step(black_box(steps)));
    report::<M>("scenario", &[size], "stream-prepare", cost);
    let mut data = [0; CAP];
    fill(&mut data);
    let (cost, same) = cost!(M, from_stream(prepared, &mut data[..black_box(size)]));
    report::<M>("scenario", &[size], "stream-online", cost);
    right(same == *tag)
}

#[inline(never)]
fn fronted<M: Mote, A: BlockCipher>(size: usize, front_len: usize, tag: &Tag<[u8; 8]>) -> Result<(), Wrong> {
    let mut data = [0; CAP];
    fill(&mut data);
    let lengths = [size];
    let front = Front::new(&AAD, &data[..front_len], &lengths).map_err(|_| Wrong::Fit)?;
    let mut sealer = Sealer::new(key::<A>()?, Counter(0));
    let mut slot = FrontSlot::<Ccm8<A>, CAP, 1>::new();
    let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|_| Wrong::Fit)?;
    let (cost, _) = cost!(M, prepared.step(u32::MAX));
    report::<M>("scenario", &[size, front_len], "front-prepare", cost);
    let rest = black_box(&data[front_len..size]);
    let (cost, sealed) = cost!(M, from_front(prepared, rest));
    report::<M>("scenario", &[size, front_len], "front-online", cost);
    right(sealed.ok_or(Wrong::Fit)?.tag() == *tag)
}

/// A suite that allows holes anywhere.
pub trait Holes: Sparse<NonceBytes = [u8; 12], TagBytes = [u8; 16]> {
    /// Its name in the report.
    const WHAT: &'static str;
}

impl Holes for Aes128Gcm {
    const WHAT: &'static str = "gcm";
}

impl Holes for ChaCha20Poly1305 {
    const WHAT: &'static str = "chacha";
}

type Preparation<'a, S> = PreparedTemplate<'a, S, CAP, 3>;

#[inline(never)]
#[allow(clippy::result_large_err, clippy::type_complexity, reason = "the error gives the preparation back")]
fn from_template<'a, S: Holes>(
    prepared: Preparation<'a, S>,
    value: &[u8],
) -> Result<Sealed<'a, S, CAP, 3>, MisfitError<Preparation<'a, S>>> {
    prepared.seal(&[value])
}

/// Measures sparse templates at the scenarios' sizes.
pub fn measure_holes<M: Mote, S: Holes>() -> Result<(), Wrong> {
    nothing::<M>();
    for size in SPARSE {
        for new in NEW {
            // In the middle, on whole blocks.
            let new_here = new.min(size);
            let start = ((size - new_here) / 32) * 16;
            holes::<M, S>(size, new, start..start + new_here)?;
        }
        if size <= EXPECTED {
            received::<M, S, EXPECTED>(S::WHAT, size, 64)?;
        }
    }
    // Printing: 16 bytes are known, the following ones are not.
    holes::<M, S>(30, 14, 16..30)
}

/// A position-dependent checksum: memory is too short for two packets beside a preparation.
#[inline(never)]
fn sum(data: &[u8]) -> u32 {
    data.iter().fold(1, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

#[inline(never)]
fn holes<M: Mote, S: Holes>(size: usize, new: usize, hole: Range<usize>) -> Result<(), Wrong> {
    let mut data = [0; CAP];
    fill(&mut data);
    let (start, new_here) = (hole.start, hole.len());
    let holes = [Hole::Payload(hole)];
    let secret = black_box([7; 32]);
    let key = || Key::<S>::new(secret.get(..S::KEY_LEN).unwrap_or_default()).map_err(|_| Wrong::Fit);
    let mut value = [0; 32];
    value[..new_here].copy_from_slice(&data[start..start + new_here]);
    let (tag, packet) = {
        let template = Template::new(&AAD, &data[..size], &holes).map_err(|_| Wrong::Fit)?;
        let mut sealer = Sealer::new(key()?, Counter(0));
        let mut slot = TemplateSlot::<S, CAP, 3>::new();
        let mut prepared = sealer.prepare_template(&template, &mut slot).map_err(|_| Wrong::Fit)?;
        let (cost, _) = cost!(M, prepared.step(u32::MAX));
        report::<M>(S::WHAT, &[size, new], "template-prepare", cost);
        let (cost, sealed) = cost!(M, from_template(prepared, black_box(&value[..new_here])));
        report::<M>(S::WHAT, &[size, new], "template-online", cost);
        let sealed = sealed.map_err(|_| Wrong::Fit)?;
        (sealed.tag(), sum(sealed.ciphertext()))
    };
    // Checks that the packet is the unmodified cipher's for the payload.
    let key = key()?;
    let nonce = Nonce::assume_unique(black_box(nonce_of(1)));
    let (cost, same) = cost!(M, key.seal_in_place(nonce, &AAD, &mut data[..black_box(size)]));
    right(same == tag && sum(&data[..size]) == packet)?;
    if new != NEW[0] {
        return Ok(());
    }
    report::<M>(S::WHAT, &[size], "seal", cost);
    let (cost, genuine) = cost!(M, open(&key, &mut data[..black_box(size)], tag.as_bytes()));
    report::<M>(S::WHAT, &[size], "open", cost);
    right(genuine && is_filled(&data))
}
