//! A node's link-layer security alone: its use of flash and RAM (figures 3 and 4 of
//! sciancalepore2016).
//!
//! All four operations of a slot are in one image, at a level chosen at run time. The program
//! without security has the same frames, so the difference of the images is the cost of security.
//! The maximum stack depth is found by painting the stack first.

use crate::slots::{
    ACK, AckPreparation, FRAME, FramePreparation, KEY, RECEIVER, SENDER, ack_header, header, lay_out,
    lay_out_ack, nonce, open, open_prepared, prepare, seal, seal_prepared,
};
use crate::{Mote, Wrong, report, right};
use antedate_aead::{AesCcm, BlockCipher, Key};
use antedate_wire::dot15d4::ie::TimeCorrection;
use antedate_wire::dot15d4::{Frame, SecurityLevel};
use core::hint::black_box;

const MIC: usize = 4;

/// A level with this MIC, opaque to the compiler.
fn level() -> SecurityLevel {
    if black_box(true) { SecurityLevel::EncMic32 } else { SecurityLevel::Mic32 }
}

fn measured<M: Mote>(node: fn() -> Result<(), Wrong>) -> Result<(), Wrong> {
    M::paint();
    let done = node();
    report::<M>("node-ram-stack", &[], "", M::depth());
    done
}

/// A node without security.
pub fn plain<M: Mote>() -> Result<(), Wrong> {
    #[inline(never)]
    fn node() -> Result<(), Wrong> {
        let (mut frame, payload) = ([0; FRAME], [0x5a; FRAME]);
        let header = header(SecurityLevel::None);
        let len = black_box(FRAME - header.buffer_len());
        lay_out(&header, payload.get(..len).ok_or(Wrong::Fit)?, &mut frame)?;
        right(Frame::parse(black_box(&frame)).is_ok())?;
        let len = lay_out_ack(&ack_header(SecurityLevel::None), black_box(-317), &mut frame)?;
        let ack = Frame::parse(frame.get(..len).ok_or(Wrong::Fit)?).map_err(|_| Wrong::Answer)?;
        right(ack.header_ies().time_correction().is_some_and(|of| of.microseconds == -317))
    }
    measured::<M>(node)
}

/// A node that secures in its slot.
pub fn secured<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    #[inline(never)]
    fn node<A: BlockCipher>() -> Result<(), Wrong> {
        let (mut frame, mut out, payload) = ([0; FRAME], [0; FRAME], [0x5a; FRAME]);
        let key = Key::<AesCcm<A, 13, MIC>>::new(&black_box(KEY)).map_err(|_| Wrong::Fit)?;
        let level = level();
        let header = header(level);
        let payload = payload.get(..black_box(FRAME - MIC - header.buffer_len())).ok_or(Wrong::Fit)?;
        let at = lay_out(&header, payload, &mut frame)?;
        seal(&key, nonce(SENDER), level.is_encrypted(), &mut frame, at, FRAME - MIC)?;
        open(&key, nonce(SENDER), black_box(&frame), &mut out)?;
        let len = lay_out_ack(&ack_header(level), black_box(-317), &mut frame)?;
        seal(&key, nonce(RECEIVER), level.is_encrypted(), &mut frame, len, len)?;
        let ack = frame.get(..len + MIC).ok_or(Wrong::Fit)?;
        right(open(&key, nonce(RECEIVER), black_box(ack), &mut out)? == -317)
    }
    measured::<M>(node::<A>)
}

/// A node that prepares both frames and both acknowledgments, and keeps the unprepared code as a
/// fallback.
pub fn antedated<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    #[inline(never)]
    fn node<A: BlockCipher>() -> Result<(), Wrong> {
        let (mut frame, mut out, payload) = ([0; FRAME], [0; FRAME], [0x5a; FRAME]);
        let key = Key::<AesCcm<A, 13, MIC>>::new(&black_box(KEY)).map_err(|_| Wrong::Fit)?;
        let mut frames = [const { FramePreparation::new() }; 2];
        let mut acks = [const { AckPreparation::new() }; 2];
        let [outgoing, incoming] = &mut frames;
        let [sent_ack, expected_ack] = &mut acks;
        let level = level();
        let header = header(level);
        let at = header.buffer_len();
        let private = level.is_encrypted().then_some(at);
        let payload = payload.get(..black_box(FRAME - MIC - at)).ok_or(Wrong::Fit)?;
        lay_out(&header, payload, &mut frame)?;
        let plain = frame.get(..FRAME - MIC).ok_or(Wrong::Fit)?;
        let head = plain.get(..at).ok_or(Wrong::Fit)?;
        prepare(&key, outgoing, nonce(SENDER), private, plain, FRAME - MIC, true)?;
        prepare(&key, incoming, nonce(SENDER), private, head, FRAME - MIC, false)?;
        let len = seal_prepared(&key, outgoing, &[], &mut out)?;
        right(len == FRAME)?;
        open_prepared(&key, incoming, black_box(&out), &mut frame)?;
        // Without a preparation.
        lay_out(&header, payload, &mut frame)?;
        seal(&key, nonce(SENDER), level.is_encrypted(), &mut frame, at, FRAME - MIC)?;
        right(out == frame)?;
        open(&key, nonce(SENDER), black_box(&frame), &mut out)?;

        let len = lay_out_ack(&ack_header(level), black_box(-317), &mut frame)?;
        let known = len - TimeCorrection::LEN;
        let front = frame.get(..known).ok_or(Wrong::Fit)?;
        prepare(&key, sent_ack, nonce(RECEIVER), None, front, len, true)?;
        prepare(&key, expected_ack, nonce(RECEIVER), None, front, len, false)?;
        let correction = frame.get(known..len).ok_or(Wrong::Fit)?;
        let len = seal_prepared(&key, sent_ack, black_box(correction), &mut out)?;
        let mut open_to = [0; ACK];
        let ack = out.get(..len).ok_or(Wrong::Fit)?;
        right(open_prepared(&key, expected_ack, black_box(ack), &mut open_to)? == -317)?;
        right(open(&key, nonce(RECEIVER), black_box(ack), &mut open_to)? == -317)
    }
    measured::<M>(node::<A>)
}
