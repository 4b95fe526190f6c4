//! Preparations of a cell's frame and acknowledgment in each direction, in fixed memory.

use antedate_aead::{FrameSlot, Nonce, Shape};
use antedate_wire::dot15d4::{Frame, SecurityLevel};
use zeroize::Zeroize;

use super::super::nonce::NONCE_LEN;
use super::super::policy::Kind;
use super::super::security::lay_out;
use super::super::{Asn, ExtendedAddress, FrameType, Header, Protection, Received, Security, Status};

/// Octets of the longest frame without its FCS.
const FRAME: usize = 125;
/// The most encrypted octets: all but the shortest header, in whole blocks.
const STREAM: usize = 112;
/// Octets of the longest acknowledgment without MIC.
const ACK: usize = 48;
/// The number of lengths for which an expected frame is prepared.
const LENGTHS: usize = 2;

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
    pub(super) frame: Preparation<FRAME, STREAM, 1>,
    pub(super) ack: Preparation<ACK, 0, 1>,
}

/// The frame expected in a cell, and its acknowledgment.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    pub(super) frame: Preparation<FRAME, STREAM, LENGTHS>,
    pub(super) ack: Preparation<ACK, 0, 1>,
}

/// Octets of memory of all preparations of a node.
#[cfg(test)]
pub(in crate::dot15d4) const PREPARATION_LEN: usize = size_of::<Outbound>() + size_of::<Inbound>();

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
        security: &Security,
        key: usize,
        nonce: &[u8; NONCE_LEN],
        mic: usize,
        open: Option<usize>,
    ) -> bool {
        self.generation == security.keys.generation()
            && usize::from(self.key) == key
            && self.slot.is_for(nonce, mic, open)
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
        let mut out = [0; FRAME];
        let Ok(len) = lay_out(&plan.header, ies, payload, &mut out) else { return };
        let Some(Ok(frame)) = out.get(..len).map(Frame::parse) else { return };
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

    /// Secures a frame, as [`secure`](Self::secure) does, using the preparation if it matches.
    #[expect(clippy::too_many_arguments, reason = "the parameters of securing a frame, and its preparation")]
    pub(super) fn secure_prepared<const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &mut self,
        header: &Header,
        ies: &[u8],
        payload: &[u8],
        protection: Protection,
        asn: Asn,
        preparation: &mut Preparation<CAP, STREAM, LENGTHS>,
        out: &mut [u8],
    ) -> Result<(usize, bool), Status> {
        if protection.level == SecurityLevel::None {
            // Anybody may cause such a frame. It leaves the preparation as it is.
            return self.secure(header, ies, payload, protection, Some(asn), out).map(|len| (len, false));
        }
        let sealed = self.try_prepared(header, ies, payload, protection, asn, preparation, out);
        let result = match sealed {
            Some(len) => {
                self.sent.secured += 1;
                Ok((len, true))
            }
            None => self.secure(header, ies, payload, protection, Some(asn), out).map(|len| (len, false)),
        };
        preparation.wipe();
        result
    }

    #[expect(clippy::too_many_arguments, reason = "the parameters of securing a frame, and its preparation")]
    fn try_prepared<const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &mut self,
        header: &Header,
        ies: &[u8],
        payload: &[u8],
        protection: Protection,
        asn: Asn,
        preparation: &mut Preparation<CAP, STREAM, LENGTHS>,
        out: &mut [u8],
    ) -> Option<usize> {
        // The plan is that of the preparation, except for later changes: key, number, policy.
        let plan = self.plan(header, protection, Some(asn)).ok()?;
        let key = plan.key?;
        let len = lay_out(&plan.header, ies, payload, out).ok()?;
        let frame = Frame::parse(out.get(..len)?).ok()?;
        let without_mic = frame.before_mic();
        let (open, known) = (frame.open().len(), preparation.slot.known_len());
        let open = (protection.level.is_encrypted() && open < without_mic.len()).then_some(open);
        let (front, rest) = without_mic.split_at_checked(known)?;
        if !preparation.fits(self, key, &plan.nonce, protection.level.mic_len(), open)
            || !preparation.slot.begins_as(front)
        {
            return None;
        }
        let mut late = [0; FRAME];
        let late = late.get_mut(..rest.len())?;
        late.copy_from_slice(rest);
        let kind = Kind::of_plain(&frame, frame.payload()).ok()?;
        let entry = self.keys.at(key).filter(|entry| entry.usage.permits(kind))?;
        entry.numbers.take(plan.number);
        // The number is spent on this slot. A frame that fails now is not sent.
        preparation.slot.seal(entry.cipher.prepared_key(), late, out).ok()
    }

    /// Unsecures a frame, as [`unsecure`](Self::unsecure) does, using the preparation if it
    /// matches. Returns whether it did.
    pub(super) fn unsecure_prepared<const CAP: usize, const STREAM: usize, const LENGTHS: usize>(
        &mut self,
        octets: &[u8],
        asn: Asn,
        implied: Option<ExtendedAddress>,
        preparation: &mut Preparation<CAP, STREAM, LENGTHS>,
        out: &mut [u8],
    ) -> (Result<Received, Status>, bool) {
        let Some((frame, accepted)) = Frame::parse(octets)
            .ok()
            .and_then(|frame| self.accept(&frame, Some(asn), implied).ok().map(|accepted| (frame, accepted)))
        else {
            return (self.unsecure(octets, Some(asn), implied, out), false);
        };
        let (level, before) = (frame.header.level(), frame.before_mic());
        let open = (level.is_encrypted() && frame.open().len() < before.len()).then_some(frame.open().len());
        let prepared = accepted
            .key
            .filter(|key| preparation.fits(self, *key, &accepted.nonce, level.mic_len(), open))
            .and_then(|key| self.keys.at(key));
        let (Some(entry), Some(device)) = (prepared, accepted.device) else {
            return (self.unsecure(octets, Some(asn), implied, out), false);
        };
        let mut plain = [0; FRAME];
        let len = frame.payload().len();
        let (Some(plain), Some(out)) = (plain.get_mut(..before.len()), out.get_mut(..len)) else {
            return (self.unsecure(octets, Some(asn), implied, out), false);
        };
        let verdict = preparation.slot.open(entry.cipher.prepared_key(), before, frame.mic(), plain);
        if verdict.is_err() {
            self.received.refuse(Status::SecurityError);
            return (Err(Status::SecurityError), true);
        }
        preparation.slot.wipe();
        let payload = plain.get(before.len() - len..).unwrap_or_default();
        if let Err(status) = self.check_content(&frame, &accepted, payload) {
            plain.zeroize();
            self.received.refuse(status);
            return (Err(status), true);
        }
        out.copy_from_slice(payload);
        if let Some(entry) = accepted.key.and_then(|key| self.keys.at(key)) {
            entry.mark(device, accepted.number, frame.header.frame_type == FrameType::Ack);
        }
        self.received.secured += 1;
        (Ok(Received { header: frame.header, len, device: Some(device) }), true)
    }
}
