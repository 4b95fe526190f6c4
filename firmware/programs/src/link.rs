//! Link-layer security on the frames that carry a publish (katsikeas2017 section III-B, option 4):
//! CCM* at ENC-MIC-32, as in Contiki.
//!
//! Both ends know the key, so the auxiliary security header has five octets. A frame is sealed or
//! opened with all work around the cipher, unprepared and prepared. The results are named
//! `link-OCTETS-PART`, by the octets of the frame's payload.

use crate::slots::{
    FRAME, FramePreparation, KEY, PAN, RECEIVER, SENDER, lay_out, nonce, open, open_prepared, prepare, seal,
    seal_prepared,
};
use crate::{Mote, Wrong, cost, nothing, report, right};
use antedate_aead::{AesCcm, BlockCipher, Key};
use antedate_wire::dot15d4::{Address, Addressing, Header, KeyIdentifier, SecurityHeader, SecurityLevel};
use core::hint::black_box;

const MIC: usize = 4;
/// Whole blocks, and the most a frame carries.
const SIZES: [usize; 6] = [16, 32, 48, 64, 80, 95];

/// Checks, measures and prints.
pub fn measure_link<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    nothing::<M>();
    crate::answers::aes_and_ccm::<A>()?;
    SIZES.into_iter().try_for_each(frame::<M, A>)
}

fn header() -> Header {
    let addressing = Addressing::within(PAN, Address::Extended(RECEIVER), Address::Extended(SENDER));
    let mut header = Header::data(black_box(9), addressing);
    header.security = Some(SecurityHeader {
        level: SecurityLevel::EncMic32,
        key: KeyIdentifier::Implicit,
        frame_counter: Some(5),
        asn_in_nonce: false,
    });
    header
}

#[inline(never)]
fn frame<M: Mote, A: BlockCipher>(size: usize) -> Result<(), Wrong> {
    let key = Key::<AesCcm<A, 13, MIC>>::new(&black_box(KEY)).map_err(|_| Wrong::Fit)?;
    let (mut frame, mut out, payload) = ([0; FRAME], [0; FRAME], [0x5a; FRAME]);
    let header = header();
    let payload = payload.get(..black_box(size)).ok_or(Wrong::Fit)?;
    let mic_at = header.buffer_len() + size;
    let (cost, done) = cost!(M, {
        lay_out(&header, payload, &mut frame)
            .and_then(|at| seal(&key, nonce(SENDER), true, &mut frame, at, mic_at))
    });
    done?;
    report::<M>("link", &[size], "seal", cost);
    let sent = frame.get(..mic_at + MIC).ok_or(Wrong::Fit)?;
    let (cost, done) = cost!(M, open(&key, nonce(SENDER), black_box(sent), &mut out));
    done?;
    report::<M>("link", &[size], "open", cost);
    right(out.starts_with(payload))?;

    // All except the last block is queued in advance.
    let mut plain = [0; FRAME];
    let at = lay_out(&header, payload, &mut plain)?;
    let (known, rest) =
        plain.get(..mic_at).and_then(|plain| plain.split_at_checked(mic_at - 8)).ok_or(Wrong::Fit)?;
    let mut slot = FramePreparation::new();
    let (cost, done) = cost!(M, prepare(&key, &mut slot, nonce(SENDER), Some(at), known, mic_at, true));
    done?;
    report::<M>("link", &[size], "prepare", cost);
    let (cost, done) = cost!(M, seal_prepared(&key, &mut slot, black_box(rest), &mut out));
    report::<M>("link", &[size], "online", cost);
    right(done? == sent.len() && out.starts_with(sent))?;
    let head = sent.get(..at).ok_or(Wrong::Fit)?;
    let (cost, done) = cost!(M, prepare(&key, &mut slot, nonce(SENDER), Some(at), head, mic_at, false));
    done?;
    report::<M>("link", &[size], "open-prepare", cost);
    let (cost, done) = cost!(M, open_prepared(&key, &mut slot, black_box(sent), &mut out));
    report::<M>("link", &[size], "open-online", cost);
    done?;
    right(out.get(at..mic_at) == Some(payload))
}
