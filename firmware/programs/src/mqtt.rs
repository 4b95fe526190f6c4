//! A mote's protected publish (katsikeas2017 section III-B), sealed whole at the deadline or
//! prepared: the cost of each option.
//!
//! In idle time, the envelope's head and the associated data are written, since they follow from
//! the sequence number, and the cipher does all work except for the reading, the last [`VALUE`]
//! bytes of the payload. At the deadline the reading is sealed and appended to the head. Key and
//! nonce base come from the provisioning for this publisher. The results are named
//! `mqtt-OPTION-SIZE-PART`.

use crate::vectors::field;
use crate::{Mote, Wrong, cost, expected, nothing, report, right};
use antedate_aead::research::SingleBlockAes128;
use antedate_aead::unauthenticated::{Aes128Cbc, Iv, ciphertext_len};
use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, AesCcm, BlockCipher, ChaCha20Poly1305, Front, FrontSlot, Hole, Key, Nonce,
    NonceSequence, Opener, Sealer, Slot, Sparse, Suite, Template, TemplateSlot,
};
use antedate_wire::mqtt::{self, Head};
use core::hint::black_box;

const TEXT: &str = include_str!("../../../vectors/mqtt.txt");
pub(crate) const TOPIC: &str = "wind/t1/power";
const PUBLISHER: &[u8] = b"turbine1";
const EPOCH: u32 = 1;
/// The sequence number of the first publish.
pub(crate) const FIRST: u64 = 5;
/// The paper's payloads and larger ones.
const SIZES: [usize; 7] = [16, 32, 48, 64, 256, 512, LONGEST];
const LONGEST: usize = 1024;
/// The payload of the known answers.
const KNOWN: usize = 48;
/// Octets of the reading.
pub(crate) const VALUE: usize = 8;
/// Octets of associated data, at most.
const AAD: usize = 64;
/// Octets of an envelope before its ciphertext, at most.
const HEAD: usize = 32;
/// Octets of a tag, or of padding.
const BEHIND: usize = 16;

/// A suite as a protection option for payloads.
pub trait Protects: Suite {
    /// Its name in the report.
    const WHAT: &'static str;
    /// Its COSE number.
    const NUMBER: i64;
    /// This publisher's key.
    const BYTES: &'static [u8];
    /// The envelope of the known payload under [`FIRST`].
    const ANSWER: &'static [u8];

    /// The nonce of a number (RFC 9052 section 3.1, Partial IV).
    fn nonce(number: u64) -> Self::NonceBytes;
    /// A tag's bytes.
    fn tag(tag: &Self::TagBytes) -> &[u8];
    /// Splits a ciphertext into the bytes before the tag, and the tag.
    fn split(ciphertext: &[u8]) -> Option<(&[u8], &Self::TagBytes)>;
}

macro_rules! protects {
    ($({$($of:tt)*})? $suite:ty, $what:literal, $name:literal, $number:literal, $key:literal, $nonce:literal, $tag:literal) => {
        impl $($($of)*)? Protects for $suite {
            const WHAT: &'static str = $what;
            const NUMBER: i64 = $number;
            const BYTES: &'static [u8] = &const { field::<$key>(TEXT, $name, "Key") };
            const ANSWER: &'static [u8] = &const { field::<{ head_len($number) + KNOWN + $tag }>(TEXT, $name, "Envelope") };

            fn nonce(number: u64) -> [u8; $nonce] {
                let mut nonce = const { field::<$nonce>(TEXT, $name, "Base") };
                for (byte, of) in nonce.iter_mut().skip($nonce - 8).zip(number.to_be_bytes()) {
                    *byte ^= of;
                }
                nonce
            }

            fn tag(tag: &[u8; $tag]) -> &[u8] {
                tag
            }

            fn split(ciphertext: &[u8]) -> Option<(&[u8], &[u8; $tag])> {
                ciphertext.split_last_chunk()
            }
        }
    };
}

/// Octets before the ciphertext of a known answer: array, protected header, parameters, and the
/// ciphertext's own head.
const fn head_len(number: i64) -> usize {
    let algorithm = match number {
        0..24 => 1,
        24..256 => 2,
        _ => 5,
    };
    1 + 3 + algorithm + 1 + 1 + 2 + PUBLISHER.len() + 1 + 2 + 2
}

protects!({<A: BlockCipher>} AesCcm<A, 13, 8>, "mqtt-ccm", "aes-ccm-16-64-128", 10, 16, 13, 8);
protects!(Aes128Gcm, "mqtt-gcm", "aes-128-gcm", 1, 16, 12, 16);
protects!(ChaCha20Poly1305, "mqtt-chacha", "chacha20-poly1305", 24, 32, 12, 16);
protects!(Aes128Ocb3, "mqtt-ocb3", "aes-128-ocb3", -65537, 16, 12, 16);

/// Reserved numbers: the upper bound is in flash before any of them is used.
pub(crate) struct Reserved {
    pub(crate) next: u64,
    pub(crate) limit: u64,
}

impl Reserved {
    pub(crate) fn take(&mut self) -> Result<u64, Wrong> {
        if self.next >= self.limit {
            return Err(Wrong::Fit);
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// The numbers with a suite's nonces.
struct Nonces<S>(Reserved, core::marker::PhantomData<S>);

impl<S: Protects> NonceSequence<S::NonceBytes> for Nonces<S> {
    type Error = Wrong;

    fn next(&mut self) -> Result<(u64, Nonce<S::NonceBytes>), Wrong> {
        let number = self.0.take()?;
        Ok((number, Nonce::assume_unique(S::nonce(number))))
    }
}

fn nonces<S>() -> Nonces<S> {
    Nonces(Reserved { next: FIRST, limit: FIRST + 100 }, core::marker::PhantomData)
}

const fn head(algorithm: i64) -> Head<'static> {
    Head { algorithm, epoch: EPOCH, publisher: PUBLISHER }
}

/// Writes an envelope up to its ciphertext; returns the length.
#[inline(never)]
pub(crate) fn lay_out(
    algorithm: i64,
    number: u64,
    ciphertext: usize,
    out: &mut [u8],
) -> Result<usize, Wrong> {
    head(algorithm).emit(number, ciphertext, out).map_err(|_| Wrong::Fit)
}

/// Writes the associated data; returns its length.
#[inline(never)]
pub(crate) fn associated(algorithm: i64, number: u64, out: &mut [u8]) -> Result<usize, Wrong> {
    let (header, header_len) = mqtt::protected(algorithm);
    let header = header.get(..header_len).ok_or(Wrong::Fit)?;
    mqtt::associated_data(header, TOPIC, PUBLISHER, EPOCH, number, out).map_err(|_| Wrong::Fit)
}

/// Seals the whole envelope at the deadline; returns its length.
#[inline(never)]
pub(crate) fn seal<S: Protects>(
    key: &Key<S>,
    number: u64,
    payload: &[u8],
    out: &mut [u8],
) -> Result<usize, Wrong> {
    let mut aad = [0; AAD];
    let aad_len = associated(S::NUMBER, number, &mut aad)?;
    let at = lay_out(S::NUMBER, number, payload.len() + S::TAG_LEN, out)?;
    let (text, rest) =
        out.get_mut(at..).and_then(|out| out.split_at_mut_checked(payload.len())).ok_or(Wrong::Fit)?;
    let aad = aad.get(..aad_len).ok_or(Wrong::Fit)?;
    let tag = key.seal(Nonce::assume_unique(S::nonce(number)), aad, payload, text);
    rest.get_mut(..S::TAG_LEN).ok_or(Wrong::Fit)?.copy_from_slice(S::tag(tag.as_bytes()));
    Ok(at + payload.len() + S::TAG_LEN)
}

/// Parses an envelope of this publisher.
#[inline(never)]
pub(crate) fn parse(algorithm: i64, message: &[u8]) -> Result<(u64, &[u8]), Wrong> {
    head(algorithm).read(message).ok_or(Wrong::Answer)
}

/// Opens an envelope; returns its number.
#[inline(never)]
pub(crate) fn open<S: Protects>(key: &Key<S>, message: &[u8], out: &mut [u8]) -> Result<u64, Wrong> {
    let (number, ciphertext) = parse(S::NUMBER, message)?;
    let (body, tag) = S::split(ciphertext).ok_or(Wrong::Answer)?;
    let mut aad = [0; AAD];
    let aad_len = associated(S::NUMBER, number, &mut aad)?;
    let aad = aad.get(..aad_len).ok_or(Wrong::Fit)?;
    let out = out.get_mut(..body.len()).ok_or(Wrong::Fit)?;
    key.open(S::nonce(number), aad, body, out, tag).map_err(|_| Wrong::Answer)?;
    Ok(number)
}

/// Appends ciphertext and tag to the head.
pub(crate) fn put(text: &[u8], tag: &[u8], at: usize, out: &mut [u8]) -> Result<usize, Wrong> {
    let (first, rest) =
        out.get_mut(at..).and_then(|out| out.split_at_mut_checked(text.len())).ok_or(Wrong::Fit)?;
    first.copy_from_slice(text);
    rest.get_mut(..tag.len()).ok_or(Wrong::Fit)?.copy_from_slice(tag);
    Ok(at + text.len() + tag.len())
}

type Message = [u8; HEAD + LONGEST + BEHIND];

fn fill(data: &mut [u8]) {
    data.iter_mut().enumerate().for_each(|(i, byte)| *byte = expected(i));
}

fn is_filled(data: &[u8]) -> bool {
    data.iter().enumerate().all(|(i, byte)| *byte == expected(i))
}

/// A position-dependent checksum: memory is too short for two messages beside a preparation.
#[inline(never)]
fn sum(data: &[u8]) -> u32 {
    data.iter().fold(1, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

/// Unprepared: seals and opens a publish, and the payload alone, as the paper's options do. Returns
/// the envelope's checksum.
#[inline(never)]
fn whole<M: Mote, S: Protects>(size: usize) -> Result<u32, Wrong> {
    // Key expansion uses stack that is free again when messages need it; here and below.
    let key = Key::<S>::new(black_box(S::BYTES)).map_err(|_| Wrong::Fit)?;
    unprepared::<M, S>(size, &key)
}

#[inline(never)]
fn unprepared<M: Mote, S: Protects>(size: usize, key: &Key<S>) -> Result<u32, Wrong> {
    let (mut data, mut message): (_, Message) = ([0; LONGEST], [0; HEAD + LONGEST + BEHIND]);
    fill(&mut data);
    let (cost, len) = cost!(M, seal(key, black_box(FIRST), &data[..size], &mut message));
    report::<M>(S::WHAT, &[size], "seal", cost);
    let envelope = message.get(..len?).ok_or(Wrong::Fit)?;
    if size == KNOWN {
        right(envelope == S::ANSWER)?;
    }
    data.fill(0);
    let (cost, number) = cost!(M, open(key, black_box(envelope), &mut data));
    report::<M>(S::WHAT, &[size], "open", cost);
    right(number? == FIRST && is_filled(&data[..size]))?;
    let sum = sum(envelope);

    let text = message.get_mut(..size).ok_or(Wrong::Fit)?;
    let nonce = Nonce::assume_unique(black_box(S::nonce(FIRST)));
    let (cost, _) = cost!(M, key.seal(nonce, &[], &data[..size], text));
    report::<M>(S::WHAT, &[size], "payload", cost);
    Ok(sum)
}

/// Writes a publish for opening; the key's memory is free again afterwards.
#[inline(never)]
fn published<S: Protects>(size: usize, key: &Key<S>, message: &mut Message) -> Result<usize, Wrong> {
    let mut data = [0; LONGEST];
    fill(&mut data);
    seal(key, FIRST, &data[..size], message)
}

/// A subscriber that knows the next number.
#[inline(never)]
fn expecting<M: Mote, S: Protects>(size: usize) -> Result<(), Wrong> {
    let key = Key::<S>::new(black_box(S::BYTES)).map_err(|_| Wrong::Fit)?;
    expected_by::<M, S>(size, key)
}

#[inline(never)]
fn expected_by<M: Mote, S: Protects>(size: usize, key: Key<S>) -> Result<(), Wrong> {
    let mut message: Message = [0; HEAD + LONGEST + BEHIND];
    let len = published::<S>(size, &key, &mut message)?;
    let opener = Opener::new(key, S::nonce);
    opening::<M, S>(size, &opener, message.get(..len).ok_or(Wrong::Fit)?)
}

#[inline(never)]
fn opening<M: Mote, S: Protects>(
    size: usize,
    opener: &Opener<S, impl Fn(u64) -> S::NonceBytes>,
    message: &[u8],
) -> Result<(), Wrong> {
    let mut data = [0; LONGEST];
    let mut slot = Slot::<S, LONGEST>::new();
    let mut aad = [0; AAD];
    let (cost, (aad_len, expected)) = cost!(M, {
        let aad_len = associated(S::NUMBER, black_box(FIRST), &mut aad);
        let mut expected = opener.expect(FIRST, &mut slot);
        expected.step(1);
        // The steps for a message of equal length, and no more.
        while expected.ready() < size && expected.step(1) > 0 {}
        (aad_len, expected)
    });
    report::<M>(S::WHAT, &[size], "open-prepare", cost);
    let aad = aad.get(..aad_len?).ok_or(Wrong::Fit)?;
    let (cost, opened) = cost!(M, {
        parse(S::NUMBER, black_box(message)).and_then(|(number, ciphertext)| {
            right(number == FIRST)?;
            let (body, tag) = S::split(ciphertext).ok_or(Wrong::Answer)?;
            let out = data.get_mut(..body.len()).ok_or(Wrong::Fit)?;
            expected.open(aad, body, out, tag).map_err(|_| Wrong::Answer)
        })
    });
    report::<M>(S::WHAT, &[size], "open-online", cost);
    opened?;
    right(is_filled(&data[..size]))
}

/// AES-CCM, whose known bytes are at the start.
pub fn measure_mqtt_ccm<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    nothing::<M>();
    crate::answers::aes_and_ccm::<A>()?;
    for size in SIZES {
        let sum = whole::<M, AesCcm<A, 13, 8>>(size)?;
        fronted::<M, A>(size, sum)?;
        expecting::<M, AesCcm<A, 13, 8>>(size)?;
    }
    Ok(())
}

#[inline(never)]
fn fronted<M: Mote, A: BlockCipher>(size: usize, expected: u32) -> Result<(), Wrong> {
    type Ccm<A> = AesCcm<A, 13, 8>;
    let number = <Ccm<A> as Protects>::NUMBER;
    let mut data = [0; LONGEST];
    fill(&mut data);
    let key = Key::new(black_box(<Ccm<A> as Protects>::BYTES)).map_err(|_| Wrong::Fit)?;
    let (known, value) =
        data.get(..size).and_then(|data| data.split_last_chunk::<VALUE>()).ok_or(Wrong::Fit)?;
    let mut message: Message = [0; HEAD + LONGEST + BEHIND];
    let mut aad = [0; AAD];
    let (laying, (aad_len, at)) = cost!(M, {
        (associated(number, black_box(FIRST), &mut aad), lay_out(number, FIRST, size + 8, &mut message))
    });
    let (aad, at) = (aad.get(..aad_len?).ok_or(Wrong::Fit)?, at?);
    let lengths = [size];
    let front = Front::new(aad, known, &lengths).map_err(|_| Wrong::Fit)?;
    let mut sealer = Sealer::new(key, nonces::<Ccm<A>>());
    let mut slot = FrontSlot::<Ccm<A>, LONGEST, 1>::new();
    let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|_| Wrong::Fit)?;
    let (preparing, _) = cost!(M, prepared.step(u32::MAX));
    report::<M>("mqtt-ccm", &[size], "prepare", laying + preparing);
    let (cost, len) = cost!(M, {
        prepared
            .seal(black_box(value))
            .map_err(|_| Wrong::Fit)
            .and_then(|sealed| put(sealed.ciphertext(), sealed.tag().as_bytes(), at, &mut message))
    });
    report::<M>("mqtt-ccm", &[size], "online", cost);
    right(sum(message.get(..len?).ok_or(Wrong::Fit)?) == expected)
}

/// A suite that allows holes anywhere.
pub fn measure_mqtt<M: Mote, S: Protects + Sparse>() -> Result<(), Wrong> {
    nothing::<M>();
    for size in SIZES {
        let sum = whole::<M, S>(size)?;
        holed::<M, S>(size, sum)?;
        expecting::<M, S>(size)?;
    }
    Ok(())
}

#[inline(never)]
fn holed<M: Mote, S: Protects + Sparse>(size: usize, expected: u32) -> Result<(), Wrong> {
    let key = Key::<S>::new(black_box(S::BYTES)).map_err(|_| Wrong::Fit)?;
    filled::<M, S>(size, expected, &mut Sealer::new(key, nonces::<S>()))
}

#[inline(never)]
fn filled<M: Mote, S: Protects + Sparse>(
    size: usize,
    expected: u32,
    sealer: &mut Sealer<S, Nonces<S>>,
) -> Result<(), Wrong> {
    let mut message: Message = [0; HEAD + LONGEST + BEHIND];
    let mut aad = [0; AAD];
    let (laying, (aad_len, at)) = cost!(M, {
        (
            associated(S::NUMBER, black_box(FIRST), &mut aad),
            lay_out(S::NUMBER, FIRST, size + S::TAG_LEN, &mut message),
        )
    });
    let (aad, at) = (aad.get(..aad_len?).ok_or(Wrong::Fit)?, at?);
    let mut data = [0; LONGEST];
    fill(&mut data);
    let payload = data.get_mut(..size).ok_or(Wrong::Fit)?;
    let (_, hole) = payload.split_last_chunk_mut::<VALUE>().ok_or(Wrong::Fit)?;
    let value = core::mem::take(hole);
    let holes = [Hole::Payload(size - VALUE..size)];
    let template = Template::new(aad, payload, &holes).map_err(|_| Wrong::Fit)?;
    let mut slot = TemplateSlot::<S, LONGEST, 1>::new();
    let mut prepared = sealer.prepare_template(&template, &mut slot).map_err(|_| Wrong::Fit)?;
    let (preparing, _) = cost!(M, prepared.step(u32::MAX));
    report::<M>(S::WHAT, &[size], "prepare", laying + preparing);
    let (cost, len) = cost!(M, {
        prepared
            .seal(&[black_box(&value)])
            .map_err(|_| Wrong::Fit)
            .and_then(|sealed| put(sealed.ciphertext(), S::tag(sealed.tag().as_bytes()), at, &mut message))
    });
    report::<M>(S::WHAT, &[size], "online", cost);
    right(sum(message.get(..len?).ok_or(Wrong::Fit)?) == expected)
}

/// The paper's unauthenticated options: consecutive blocks, and CBC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bare {
    Blocks,
    Cbc,
}

const BLOCKS: &str = "aes-128-blocks-unauthenticated";
const CBC: &str = "aes-128-cbc-unauthenticated";

pub(crate) struct BareKey {
    of: Bare,
    /// Derives initialisation vectors from numbers.
    base: SingleBlockAes128,
    blocks: SingleBlockAes128,
    cbc: Aes128Cbc,
}

impl BareKey {
    pub(crate) fn new(of: Bare) -> Self {
        let (key, base) = black_box(match of {
            Bare::Blocks => const { (field::<16>(TEXT, BLOCKS, "Key"), field::<16>(TEXT, BLOCKS, "Base")) },
            Bare::Cbc => const { (field::<16>(TEXT, CBC, "Key"), field::<16>(TEXT, CBC, "Base")) },
        });
        let single = SingleBlockAes128::new;
        Self { of, base: single(&base), blocks: single(&key), cbc: Aes128Cbc::new(&key) }
    }

    const fn number(&self) -> i64 {
        match self.of {
            Bare::Cbc => -65539,
            Bare::Blocks => -65540,
        }
    }

    fn iv(&self, number: u64) -> [u8; 16] {
        let mut block = [0; 16];
        block[8..].copy_from_slice(&number.to_be_bytes());
        self.base.encrypt(&mut block);
        block
    }

    #[inline(never)]
    pub(crate) fn encrypt(&self, number: u64, payload: &[u8], out: &mut [u8]) -> Result<usize, Wrong> {
        let len = ciphertext_len(payload.len());
        let out = out.get_mut(..len).ok_or(Wrong::Fit)?;
        if self.of == Bare::Cbc {
            let iv = Iv::assume_unpredictable(self.iv(number));
            return self.cbc.encrypt(iv, payload, out).map_err(|_| Wrong::Fit);
        }
        let (text, padding) = out.split_at_mut_checked(payload.len()).ok_or(Wrong::Fit)?;
        text.copy_from_slice(payload);
        padding.fill(padding.len() as u8);
        out.as_chunks_mut().0.iter_mut().for_each(|block| self.blocks.encrypt(block));
        Ok(len)
    }

    #[inline(never)]
    pub(crate) fn seal(&self, number: u64, payload: &[u8], out: &mut [u8]) -> Result<usize, Wrong> {
        let at = lay_out(self.number(), number, ciphertext_len(payload.len()), out)?;
        Ok(at + self.encrypt(number, payload, out.get_mut(at..).ok_or(Wrong::Fit)?)?)
    }

    #[inline(never)]
    pub(crate) fn open(&self, message: &[u8], out: &mut [u8]) -> Result<u64, Wrong> {
        let (number, body) = parse(self.number(), message)?;
        let out = out.get_mut(..body.len()).ok_or(Wrong::Fit)?;
        if self.of == Bare::Cbc {
            let opened = self.cbc.decrypt(&self.iv(number), body, out).map_err(|_| Wrong::Answer)?;
            black_box(opened.assume_authentic());
            return Ok(number);
        }
        out.copy_from_slice(body);
        out.as_chunks_mut().0.iter_mut().for_each(|block| self.blocks.decrypt(block));
        Ok(number)
    }
}

/// Measures the paper's two unauthenticated options.
pub fn measure_mqtt_bare<M: Mote>() -> Result<(), Wrong> {
    nothing::<M>();
    for of in [Bare::Blocks, Bare::Cbc] {
        for size in SIZES {
            bare::<M>(of, size)?;
        }
    }
    Ok(())
}

#[inline(never)]
fn bare<M: Mote>(of: Bare, size: usize) -> Result<(), Wrong> {
    const ANSWER: usize = head_len(-65539) + KNOWN + BEHIND;
    let (what, answer) = match of {
        Bare::Blocks => ("mqtt-blocks", const { &field::<ANSWER>(TEXT, BLOCKS, "Envelope") }),
        Bare::Cbc => ("mqtt-cbc", const { &field::<ANSWER>(TEXT, CBC, "Envelope") }),
    };
    let key = BareKey::new(of);
    let mut data = [0; LONGEST + BEHIND];
    fill(&mut data);
    let mut message: Message = [0; HEAD + LONGEST + BEHIND];
    let (cost, len) = cost!(M, key.seal(black_box(FIRST), &data[..size], &mut message));
    report::<M>(what, &[size], "seal", cost);
    let envelope = message.get(..len?).ok_or(Wrong::Fit)?;
    right(size != KNOWN || envelope == answer)?;
    data.fill(0);
    let (cost, number) = cost!(M, key.open(black_box(envelope), &mut data));
    report::<M>(what, &[size], "open", cost);
    right(number? == FIRST && is_filled(&data[..size]))?;
    let (cost, len) = cost!(M, key.encrypt(black_box(FIRST), &data[..size], &mut message));
    report::<M>(what, &[size], "payload", cost);
    len.map(|_| ())
}
