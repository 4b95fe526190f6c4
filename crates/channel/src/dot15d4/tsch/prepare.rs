//! Preparations of a cell's frame and acknowledgment in each direction, in fixed memory.

use antedate_aead::{FrameSlot, Nonce, Shape};
use antedate_wire::dot15d4::{Frame, SecurityLevel};
use zeroize::Zeroize;

use super::super::nonce::{NONCE_LEN, NonceKind};
use super::super::policy::Kind;
use super::super::security::{Accepted, lay_out};
use super::super::{Asn, ExtendedAddress, Header, Protection, Received, Security, Status};
use super::Ticket;
use super::habits::KEPT;

/// Octets of the longest frame without its FCS.
pub(super) const FRAME: usize = 125;
/// The most encrypted octets: all but the shortest header, in whole blocks.
pub(super) const STREAM: usize = 112;
/// Octets of the longest acknowledgment.
pub(super) const ACK: usize = 48;

/// A prepared frame.
#[derive(Debug)]
pub(super) struct Preparation<const CAP: usize, const STREAM: usize, const LENGTHS: usize> {
    slot: FrameSlot<CAP, STREAM, LENGTHS>,
    /// Its slot. `None` if empty.
    asn: Option<Asn>,
    /// The generation of the keys.
    generation: u32,
    key: u8,
}

/// The frame sent in a cell, and its acknowledgment.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    /// The frame in the queue.
    pub(super) ticket: Option<Ticket>,
    pub(super) frame: Preparation<FRAME, STREAM, 1>,
    pub(super) ack: Preparation<ACK, 0, 1>,
}

/// A frame expected in a cell, and its acknowledgment.
#[derive(Debug, Default)]
pub(super) struct Inbound<const LENGTHS: usize> {
    /// The place of the habit that predicted it.
    pub(super) habit: usize,
    pub(super) frame: Preparation<KEPT, STREAM, LENGTHS>,
    pub(super) ack: Preparation<ACK, 0, 1>,
}

/// Octets of memory of all preparations of a node.
#[cfg(test)]
pub(in crate::dot15d4) const fn preparation_len<const EXPECTED: usize, const LENGTHS: usize>() -> usize {
    size_of::<Outbound>() + EXPECTED * size_of::<Inbound<LENGTHS>>()
}

impl<const CAP: usize, const STREAM: usize, const LENGTHS: usize> Default
    for Preparation<CAP, STREAM, LENGTHS>
{
    fn default() -> Self {
        Self { slot: FrameSlot::new(), asn: None, generation: 0, key: 0 }
    }
}

/// A frame as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'t> {
    pub(super) level: SecurityLevel,
    /// Its first octets.
    pub(super) front: &'t [u8],
    /// Unencrypted octets, at a level that encrypts.
    pub(super) open: usize,
    /// Its possible lengths in octets, without MIC.
    pub(super) lengths: &'t [usize],
}

impl<const CAP: usize, const STREAM: usize, const LENGTHS: usize> Preparation<CAP, STREAM, LENGTHS> {
    /// Whether it is for this slot.
    pub(super) fn is_for(&self, asn: Asn) -> bool {
        self.asn == Some(asn)
    }

    pub(super) fn is_prepared(&self) -> bool {
        !self.slot.is_empty()
    }

    /// The frame that was sealed in it.
    pub(super) fn frame(&self) -> &[u8] {
        self.slot.frame()
    }

    /// Whether a frame begins as predicted.
    pub(super) fn begins(&self, frame: &[u8]) -> bool {
        frame.get(..self.slot.known_len()).is_some_and(|front| self.slot.begins_as(front))
    }

    /// Starts to prepare a frame. An unpreparable frame takes the ordinary path, and is recorded as
    /// considered.
    fn begin(
        &mut self,
        security: &Security,
        asn: Asn,
        key: usize,
        nonce: [u8; NONCE_LEN],
        known: &Known<'_>,
    ) {
        self.wipe();
        self.asn = Some(asn);
        let (Ok(number), false) = (u8::try_from(key), known.level.mic_len() == 0) else { return };
        self.generation = security.keys.generation();
        self.key = number;
        let all_open = !known.level.is_encrypted() || known.lengths.iter().all(|len| *len == known.open);
        let shape = Shape {
            mic: known.level.mic_len(),
            open: if all_open { None } else { Some(known.open) },
            known: known.front,
            lengths: known.lengths,
        };
        // A shape that does not fit leaves the slot empty.
        let _ = self.slot.begin(Nonce::assume_unique(nonce), &shape);
    }

    /// Continues to prepare, and returns the encryptions done.
    pub(super) fn step(&mut self, security: &Security, budget: u32) -> u32 {
        if self.generation != security.keys.generation() {
            self.wipe();
        }
        let entry = security.keys.iter().nth(self.key.into());
        entry.map_or(0, |entry| self.slot.step(entry.cipher.prepared_key(), budget))
    }

    /// Continues to prepare a frame for sending, as `step` does. Seals it before its slot once all
    /// is known.
    pub(super) fn step_and_complete(&mut self, security: &Security, budget: u32) -> u32 {
        let done = self.step(security, budget);
        let entry = security.keys.iter().nth(self.key.into()).filter(|_| done == 0 && budget > 0);
        entry.map_or(done, |entry| self.slot.complete(entry.cipher.prepared_key()))
    }

    pub(super) fn wipe(&mut self) {
        self.slot.wipe();
        self.asn = None;
    }

    /// Whether it serves a frame with this key and nonce.
    fn fits(
        &self,
        generation: u32,
        key: usize,
        nonce: &[u8; NONCE_LEN],
        mic: usize,
        open: Option<usize>,
    ) -> bool {
        self.generation == generation && usize::from(self.key) == key && self.slot.is_for(nonce, mic, open)
    }
}

impl Security {
    /// Starts to prepare a frame for a slot, all but the last `late` octets of its payload.
    #[expect(clippy::too_many_arguments, reason = "the parameters of securing a frame, and its preparation")]
    pub(super) fn prepare<const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &self,
        header: &Header,
        ies: &[u8],
        payload: &[u8],
        late: usize,
        protection: Protection,
        asn: Asn,
        preparation: &mut Preparation<CAP, STREAM, LENGTHS>,
    ) {
        preparation.wipe();
        preparation.asn = Some(asn);
        let Ok(plan) = self.plan(header, protection, Some(asn)) else { return };
        let Some(key) = plan.key else { return };
        let Some(entry) = self.keys.iter().nth(key) else { return };
        let mut out = [0; FRAME];
        let Ok(len) = lay_out(&plan.header, ies, payload, &mut out) else { return };
        let Some(Ok(frame)) = out.get(..len).map(Frame::parse) else { return };
        if !Kind::of_plain(&frame, frame.payload()).is_ok_and(|kind| entry.usage.permits(kind)) {
            return;
        }
        let without_mic = frame.before_mic();
        let front = without_mic.split_at_checked(without_mic.len().saturating_sub(late));
        let Some((front, _)) = front else { return };
        let (level, open) = (protection.level, frame.open().len());
        let known = Known { level, front, open, lengths: &[without_mic.len()] };
        preparation.begin(self, asn, key, plan.nonce, &known);
    }

    /// Starts to prepare for a frame from a device in a slot, with `known` as its prediction.
    pub(super) fn expect<const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &self,
        sample: &[u8],
        implied: Option<ExtendedAddress>,
        asn: Asn,
        known: &Known<'_>,
        preparation: &mut Preparation<CAP, STREAM, LENGTHS>,
    ) {
        preparation.wipe();
        preparation.asn = Some(asn);
        let Ok(frame) = Frame::parse(sample) else { return };
        let Ok(accepted) = self.accept(&frame, Some(asn), implied) else { return };
        let Some(key) = accepted.key else { return };
        preparation.begin(self, asn, key, accepted.nonce, known);
    }

    /// Seals a prepared frame for this slot where it is ([`Preparation::frame`]), continued with
    /// `rest`. Returns false, and has spent nothing, if it is stale or was not prepared.
    pub(super) fn release<const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &mut self,
        asn: Asn,
        rest: &[u8],
        preparation: &mut Preparation<CAP, STREAM, LENGTHS>,
    ) -> bool {
        if !preparation.is_for(asn) || preparation.generation != self.keys.generation() {
            return false;
        }
        let Some(entry) = self.keys.at(preparation.key.into()) else { return false };
        // A frame counter was perhaps used since.
        if entry.nonces != NonceKind::Asn || entry.numbers.check(asn.number()).is_err() {
            return false;
        }
        if preparation.slot.seal_in_place(entry.cipher.prepared_key(), rest).is_err() {
            return false;
        }
        entry.numbers.take(asn.number());
        self.sent.secured += 1;
        true
    }

    /// Unsecures a frame, as [`unsecure`](Self::unsecure) does, using the preparation that matches,
    /// preferably one that foresaw the frame.
    pub(super) fn unsecure_prepared<'p, const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &mut self,
        frame: &Frame<'_>,
        asn: Asn,
        implied: Option<ExtendedAddress>,
        preparations: impl Iterator<Item = &'p mut Preparation<CAP, STREAM, LENGTHS>>,
        out: &mut [u8; FRAME],
    ) -> Result<Unsecured, Status> {
        let mut served = None;
        let result = self.accept(frame, Some(asn), implied).and_then(|accepted| {
            let Some((at, preparation, foreseen)) = self.matching(frame, &accepted, preparations) else {
                return self.unsecure_accepted(frame, &accepted, out);
            };
            served = Some((at, foreseen));
            self.unsecure_with(frame, &accepted, &mut preparation.slot, out)
        });
        self.count_received(&result);
        let at = if served.is_some() { frame.mac_header().len() } else { 0 };
        result.map(|received| Unsecured { received, served, at })
    }

    /// The preparation for an accepted frame, its place, and whether it foresaw the frame.
    fn matching<'p, const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &self,
        frame: &Frame<'_>,
        accepted: &Accepted,
        preparations: impl Iterator<Item = &'p mut Preparation<CAP, STREAM, LENGTHS>>,
    ) -> Option<(usize, &'p mut Preparation<CAP, STREAM, LENGTHS>, bool)> {
        let key = accepted.key?;
        let (level, before, generation) = (frame.header.level(), frame.before_mic(), self.keys.generation());
        let open = (level.is_encrypted() && frame.open().len() < before.len()).then_some(frame.open().len());
        let mut best = None;
        for (at, preparation) in preparations.enumerate() {
            if preparation.fits(generation, key, &accepted.nonce, level.mic_len(), open) {
                let foreseen = preparation.slot.foresees(before);
                if foreseen {
                    return Some((at, preparation, true));
                }
                best = best.or(Some((at, preparation, false)));
            }
        }
        best
    }

    fn unsecure_with<const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &mut self,
        frame: &Frame<'_>,
        accepted: &Accepted,
        slot: &mut FrameSlot<CAP, STREAM, LENGTHS>,
        out: &mut [u8; FRAME],
    ) -> Result<Received, Status> {
        let (before, len) = (frame.before_mic(), frame.payload().len());
        let entry = accepted.key.and_then(|key| self.keys.at(key)).ok_or(Status::UnavailableKey)?;
        let plain = out.get_mut(..before.len()).ok_or(Status::FrameTooLong)?;
        let verdict = slot.open(entry.cipher.prepared_key(), before, frame.mic(), plain);
        verdict.map_err(|_| Status::SecurityError)?;
        let payload = plain.get(before.len() - len..).unwrap_or_default();
        let content = self.check_content(frame, accepted, payload);
        if content.is_ok() {
            self.mark(frame, accepted);
        } else {
            plain.zeroize();
        }
        content.map(|()| Received { header: frame.header, len, device: accepted.device })
    }
}

/// An unsecured frame.
pub(super) struct Unsecured {
    pub(super) received: Received,
    /// The place of the preparation that served it, and whether that foresaw it.
    pub(super) served: Option<(usize, bool)>,
    /// The place of its MAC payload in the output.
    pub(super) at: usize,
}
