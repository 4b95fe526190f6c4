//! The four security operations of a TSCH slot at each level, unprepared and antedated
//! (sciancalepore2016 section 3.3).
//!
//! The frame is the paper's: 127 octets with FCS, and an auxiliary security header of 14, the
//! longest. Each operation includes the work around the cipher: writing the header, or parsing the
//! frame. The results are named `slot-LEVEL-OPERATION-PART`.

use crate::{Mote, Wrong, cost, nothing, report, right};
use antedate_aead::unauthenticated::{CounterBlock, CtrStream};
use antedate_aead::{AesCcm, BlockCipher, FrameSlot, Key, Nonce, Shape};
use antedate_wire::dot15d4::ie::{Following, HeaderWriter, TimeCorrection};
use antedate_wire::dot15d4::{
    Address, Addressing, Asn, ExtendedAddress, Frame, Header, KeyIdentifier, PanId, SecurityHeader,
    SecurityLevel,
};
use core::hint::black_box;
use core::mem::size_of;

/// Octets of the frame without FCS.
pub(crate) const FRAME: usize = 125;
pub(crate) const PAN: PanId = PanId(0xabcd);
pub(crate) const SENDER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 1]);
pub(crate) const RECEIVER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 2]);
pub(crate) const KEY: [u8; 16] = *b"sixteen byte key";
/// Octets of the acknowledgment's elements.
const ACK_IES: usize = 4;
/// Octets of payload that become known only at the start of the slot.
const LATE: usize = 16;
/// Octets of the longest acknowledgment.
pub(crate) const ACK: usize = 48;

pub(crate) type FramePreparation = FrameSlot<FRAME, 112, 1>;
pub(crate) type AckPreparation = FrameSlot<ACK, 0, 1>;

fn security(level: SecurityLevel) -> SecurityHeader {
    let key = KeyIdentifier::Source8([7; 8], 1);
    SecurityHeader { level, key, frame_counter: Some(5), asn_in_nonce: true }
}

pub(crate) fn header(level: SecurityLevel) -> Header {
    let addressing = Addressing::within(PAN, Address::Extended(RECEIVER), Address::Extended(SENDER));
    let mut header = Header::data(black_box(9), addressing);
    if level != SecurityLevel::None {
        header.security = Some(security(level));
    }
    header
}

pub(crate) fn ack_header(level: SecurityLevel) -> Header {
    let addressing = Addressing::within(PAN, Address::Extended(SENDER), Address::Absent);
    let mut header = Header::enhanced_ack(Some(black_box(9)), addressing);
    if level != SecurityLevel::None {
        header.security = Some(security(level));
    }
    header
}

pub(crate) fn nonce(source: ExtendedAddress) -> [u8; 13] {
    let asn = Asn::new(black_box(0x12_3456)).unwrap_or_default().to_be_bytes();
    let mut nonce = [0; 13];
    nonce[..8].copy_from_slice(&source.0);
    nonce[8..].copy_from_slice(&asn);
    nonce
}

/// Writes header, payload and space for the MIC; returns the payload's offset.
#[inline(never)]
pub(crate) fn lay_out(header: &Header, payload: &[u8], out: &mut [u8]) -> Result<usize, Wrong> {
    let at = header.emit(out).map_err(|_| Wrong::Fit)?;
    out.get_mut(at..at + payload.len()).ok_or(Wrong::Fit)?.copy_from_slice(payload);
    Ok(at)
}

/// Writes an acknowledgment up to its MIC; returns its length.
#[inline(never)]
pub(crate) fn lay_out_ack(header: &Header, microseconds: i16, out: &mut [u8]) -> Result<usize, Wrong> {
    let at = header.emit(out).map_err(|_| Wrong::Fit)?;
    let mut writer = HeaderWriter::new(out.get_mut(at..at + ACK_IES).ok_or(Wrong::Fit)?);
    writer.time_correction(TimeCorrection::new(microseconds, false)).map_err(|_| Wrong::Fit)?;
    Ok(at + writer.finish(Following::Nothing).map_err(|_| Wrong::Fit)?)
}

/// Seals a laid-out frame in place.
#[inline(never)]
pub(crate) fn seal<A: BlockCipher, const MIC: usize>(
    key: &Key<AesCcm<A, 13, MIC>>,
    nonce: [u8; 13],
    encrypted: bool,
    frame: &mut [u8],
    open: usize,
    mic_at: usize,
) -> Result<(), Wrong> {
    let (before, mic) = frame.split_at_mut_checked(mic_at).ok_or(Wrong::Fit)?;
    let nonce = Nonce::assume_unique(nonce);
    let open = if encrypted { open } else { mic_at };
    let (open, private) = before.split_at_mut_checked(open).ok_or(Wrong::Fit)?;
    let tag = key.seal_in_place(nonce, open, private);
    mic.get_mut(..MIC).ok_or(Wrong::Fit)?.copy_from_slice(tag.as_bytes());
    Ok(())
}

/// Parses a frame and opens it.
#[inline(never)]
pub(crate) fn open<A: BlockCipher, const MIC: usize>(
    key: &Key<AesCcm<A, 13, MIC>>,
    nonce: [u8; 13],
    octets: &[u8],
    out: &mut [u8],
) -> Result<i16, Wrong> {
    let frame = Frame::parse(octets).map_err(|_| Wrong::Answer)?;
    let mic = frame.mic().try_into().map_err(|_| Wrong::Answer)?;
    let encrypted = frame.header.level().is_encrypted();
    let (open, private) =
        if encrypted { (frame.open(), frame.private()) } else { (frame.before_mic(), &[][..]) };
    let out = out.get_mut(..private.len()).ok_or(Wrong::Fit)?;
    key.open(nonce, open, private, out, mic).map_err(|_| Wrong::Answer)?;
    Ok(frame.header_ies().time_correction().map_or(0, |correction| correction.microseconds))
}

/// Parses a frame and opens it with its preparation.
#[inline(never)]
pub(crate) fn open_prepared<A: BlockCipher, const MIC: usize, const CAP: usize, const STREAM: usize>(
    key: &Key<AesCcm<A, 13, MIC>>,
    slot: &mut FrameSlot<CAP, STREAM, 1>,
    octets: &[u8],
    out: &mut [u8],
) -> Result<i16, Wrong> {
    let frame = Frame::parse(octets).map_err(|_| Wrong::Answer)?;
    let before = frame.before_mic();
    let out = out.get_mut(..before.len()).ok_or(Wrong::Fit)?;
    slot.open(key, before, frame.mic(), out).map_err(|_| Wrong::Answer)?;
    Ok(frame.header_ies().time_correction().map_or(0, |correction| correction.microseconds))
}

#[inline(never)]
pub(crate) fn seal_prepared<A: BlockCipher, const MIC: usize, const CAP: usize, const STREAM: usize>(
    key: &Key<AesCcm<A, 13, MIC>>,
    slot: &mut FrameSlot<CAP, STREAM, 1>,
    rest: &[u8],
    out: &mut [u8],
) -> Result<usize, Wrong> {
    slot.seal(key, rest, out).map_err(|_| Wrong::Fit)
}

/// Runs a whole preparation: starts it and does all steps.
#[inline(never)]
pub(crate) fn prepare<A: BlockCipher, const MIC: usize, const CAP: usize, const STREAM: usize>(
    key: &Key<AesCcm<A, 13, MIC>>,
    slot: &mut FrameSlot<CAP, STREAM, 1>,
    nonce: [u8; 13],
    open: Option<usize>,
    known: &[u8],
    len: usize,
    sends: bool,
) -> Result<(), Wrong> {
    let shape = Shape { mic: MIC, open, known, lengths: &[len] };
    slot.begin(Nonce::assume_unique(nonce), &shape).map_err(|_| Wrong::Fit)?;
    while slot.step(key, u32::MAX) > 0 {}
    if sends && known.len() == len {
        slot.complete(key);
    }
    Ok(())
}

/// Measures all levels.
pub fn measure_slots<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    nothing::<M>();
    report::<M>("slot-ram-frame", &[], "", size_of::<FramePreparation>() as u32);
    report::<M>("slot-ram-ack", &[], "", size_of::<AckPreparation>() as u32);
    let (aes, mut block) = (A::new(&KEY), [5; 16]);
    let (cost, ()) = cost!(M, aes.advance(black_box(&mut block)));
    report::<M>("slot-block", &[], "", cost);
    unsecured::<M>()?;
    encrypted_only::<M, A>()?;
    level::<M, A, 4>(SecurityLevel::Mic32)?;
    level::<M, A, 8>(SecurityLevel::Mic64)?;
    level::<M, A, 16>(SecurityLevel::Mic128)?;
    level::<M, A, 4>(SecurityLevel::EncMic32)?;
    level::<M, A, 8>(SecurityLevel::EncMic64)?;
    level::<M, A, 16>(SecurityLevel::EncMic128)
}

fn say<M: Mote>(level: SecurityLevel, part: &str, number: u32) {
    report::<M>("slot", &[usize::from(level.number())], part, number);
}

/// The work without security: writing and reading headers.
#[inline(never)]
fn unsecured<M: Mote>() -> Result<(), Wrong> {
    let level = SecurityLevel::None;
    let (mut frame, payload) = ([0; FRAME], [0x5a; FRAME]);
    let header = header(level);
    let len = FRAME - header.buffer_len();
    let payload = payload.get(..black_box(len)).ok_or(Wrong::Fit)?;
    let (cost, result) = cost!(M, lay_out(&header, payload, &mut frame));
    result?;
    say::<M>(level, "sec1", cost);
    let (cost, parsed) = cost!(M, Frame::parse(black_box(&frame)).is_ok());
    right(parsed)?;
    say::<M>(level, "sec2", cost);
    let ack = ack_header(level);
    let (cost, len) = cost!(M, lay_out_ack(&ack, black_box(-5), &mut frame));
    let len = len?;
    say::<M>(level, "sec3", cost);
    let ack = frame.get(..len).ok_or(Wrong::Fit)?;
    let (cost, parsed) = cost!(M, Frame::parse(black_box(ack)).is_ok());
    say::<M>(level, "sec4", cost);
    right(parsed)
}

/// Level 4: counter mode alone. An acknowledgment has nothing to encrypt.
#[inline(never)]
fn encrypted_only<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    let level = SecurityLevel::Enc;
    let (mut frame, payload) = ([0; FRAME], [0x5a; FRAME]);
    let header = header(level);
    let len = FRAME - header.buffer_len();
    let payload = payload.get(..black_box(len)).ok_or(Wrong::Fit)?;
    let mut first = [1; 16];
    first[1..14].copy_from_slice(&nonce(SENDER));
    first[14..].copy_from_slice(&[0, 1]);
    let stream = || CtrStream::<A, 6>::new(&KEY, CounterBlock(first), 6).map_err(|_| Wrong::Fit);
    for (operation, antedated) in [("sec1", "sec1-antedated"), ("sec2", "sec2-antedated")] {
        for prepared in [false, true] {
            let mut stream = stream()?;
            if prepared {
                let (cost, _) = cost!(M, stream.idle(6));
                if operation == "sec1" {
                    say::<M>(level, "sec1-prepare", cost);
                } else {
                    say::<M>(level, "sec2-prepare", cost);
                }
            }
            let (cost, result) = if operation == "sec1" {
                cost!(M, {
                    lay_out(&header, payload, &mut frame)
                        .and_then(|at| stream.encrypt(&mut frame[at..]).map(|_| ()).map_err(|_| Wrong::Fit))
                })
            } else {
                let at = FRAME - len;
                let received = frame;
                cost!(M, {
                    Frame::parse(black_box(&received))
                        .map_err(|_| Wrong::Answer)
                        .and_then(|_| stream.encrypt(&mut frame[at..]).map(|_| ()).map_err(|_| Wrong::Fit))
                })
            };
            result?;
            say::<M>(level, if prepared { antedated } else { operation }, cost);
            if operation == "sec2" {
                right(frame.ends_with(payload))?;
                lay_out(&header, payload, &mut frame)?;
                let mut again =
                    CtrStream::<A, 6>::new(&KEY, CounterBlock(first), 6).map_err(|_| Wrong::Fit)?;
                again.encrypt(&mut frame[FRAME - len..]).map_err(|_| Wrong::Fit)?;
            }
        }
    }
    let ack = ack_header(level);
    let (cost, len) = cost!(M, lay_out_ack(&ack, black_box(-5), &mut frame));
    let len = len?;
    say::<M>(level, "sec3", cost);
    say::<M>(level, "sec3-antedated", cost);
    let ack = frame.get(..len).ok_or(Wrong::Fit)?;
    let (cost, parsed) = cost!(M, Frame::parse(black_box(ack)).is_ok());
    say::<M>(level, "sec4", cost);
    say::<M>(level, "sec4-antedated", cost);
    right(parsed)
}

#[inline(never)]
fn level<M: Mote, A: BlockCipher, const MIC: usize>(level: SecurityLevel) -> Result<(), Wrong> {
    let key = Key::<AesCcm<A, 13, MIC>>::new(&black_box(KEY)).map_err(|_| Wrong::Fit)?;
    data::<M, A, MIC>(level, &key)?;
    acknowledgment::<M, A, MIC>(level, &key)
}

/// sec1 and sec2.
#[inline(never)]
fn data<M: Mote, A: BlockCipher, const MIC: usize>(
    level: SecurityLevel,
    key: &Key<AesCcm<A, 13, MIC>>,
) -> Result<(), Wrong> {
    let (mut frame, mut out, payload) = ([0; FRAME], [0; FRAME], [0x5a; FRAME]);
    let header = header(level);
    let at = header.buffer_len();
    let mic_at = FRAME - MIC;
    let payload = payload.get(..black_box(mic_at - at)).ok_or(Wrong::Fit)?;
    let encrypted = level.is_encrypted();
    let (cost, result) = cost!(M, {
        lay_out(&header, payload, &mut frame)
            .and_then(|open| seal(key, nonce(SENDER), encrypted, &mut frame, open, mic_at))
    });
    result?;
    say::<M>(level, "sec1", cost);
    let (cost, result) = cost!(M, open(key, nonce(SENDER), black_box(&frame), &mut out));
    result?;
    say::<M>(level, "sec2", cost);

    // First with all queued before the slot, then with all except the last block.
    let mut plain = [0; FRAME];
    lay_out(&header, payload, &mut plain)?;
    let plain = plain.get(..mic_at).ok_or(Wrong::Fit)?;
    let mut slot = FramePreparation::new();
    let open = encrypted.then_some(at);
    for (late, prepare_name, name) in
        [(0, "sec1-prepare", "sec1-antedated"), (LATE, "sec1-prepare-late", "sec1-antedated-late")]
    {
        let (known, rest) = plain.split_at_checked(mic_at - late).ok_or(Wrong::Fit)?;
        let (cost, result) = cost!(M, prepare(key, &mut slot, nonce(SENDER), open, known, mic_at, true));
        result?;
        say::<M>(level, prepare_name, cost);
        let (cost, result) = cost!(M, seal_prepared(key, &mut slot, black_box(rest), &mut out));
        right(result? == FRAME && out == frame)?;
        say::<M>(level, name, cost);
    }
    let known = frame.get(..at).ok_or(Wrong::Fit)?;
    let (cost, result) = cost!(M, prepare(key, &mut slot, nonce(SENDER), open, known, mic_at, false));
    result?;
    say::<M>(level, "sec2-prepare", cost);
    let (cost, result) = cost!(M, open_prepared(key, &mut slot, black_box(&frame), &mut out));
    result?;
    say::<M>(level, "sec2-antedated", cost);
    let (cost, ()) = cost!(M, slot.wipe());
    say::<M>(level, "frame-wipe", cost);
    right(out.starts_with(plain))
}

/// sec3 and sec4.
#[inline(never)]
fn acknowledgment<M: Mote, A: BlockCipher, const MIC: usize>(
    level: SecurityLevel,
    key: &Key<AesCcm<A, 13, MIC>>,
) -> Result<(), Wrong> {
    let (mut frame, mut out) = ([0; ACK], [0; ACK]);
    let header = ack_header(level);
    let encrypted = level.is_encrypted();
    let (cost, len) = cost!(M, {
        lay_out_ack(&header, black_box(-317), &mut frame)
            .and_then(|len| seal(key, nonce(RECEIVER), encrypted, &mut frame, len, len).map(|()| len))
    });
    let len = len?;
    say::<M>(level, "sec3", cost);
    let ack = frame.get(..len + MIC).ok_or(Wrong::Fit)?;
    let (cost, result) = cost!(M, open(key, nonce(RECEIVER), black_box(ack), &mut out));
    right(result? == -317)?;
    say::<M>(level, "sec4", cost);

    let mut slot = AckPreparation::new();
    let (known, correction) = ack
        .get(..len)
        .and_then(|plain| plain.split_at_checked(len - TimeCorrection::LEN))
        .ok_or(Wrong::Fit)?;
    let (cost, result) = cost!(M, prepare(key, &mut slot, nonce(RECEIVER), None, known, len, true));
    result?;
    say::<M>(level, "sec3-prepare", cost);
    let (cost, result) = cost!(M, seal_prepared(key, &mut slot, black_box(correction), &mut out));
    right(result? == ack.len() && out.starts_with(ack))?;
    say::<M>(level, "sec3-antedated", cost);
    let (cost, result) = cost!(M, prepare(key, &mut slot, nonce(RECEIVER), None, known, len, false));
    result?;
    say::<M>(level, "sec4-prepare", cost);
    let (cost, result) = cost!(M, open_prepared(key, &mut slot, black_box(ack), &mut out));
    right(result? == -317)?;
    say::<M>(level, "sec4-antedated", cost);
    let (cost, ()) = cost!(M, slot.wipe());
    say::<M>(level, "ack-wipe", cost);
    Ok(())
}
