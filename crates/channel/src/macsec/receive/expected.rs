//! The next expected frame. Its SecTAG is known in advance, so it is compared and not parsed.

use core::ops::Range;

use antedate_wire::macsec::{SecTag, TAG_LEN_LONG, Tci};

#[cfg(test)]
use super::place::Apart;
use super::place::{Parts, Place};
use super::{ADDRESSES_LEN, Discard, Opened, Receive, ValidateFrames};
use crate::macsec::suite::CipherSuite;
use crate::macsec::template::Template;
use crate::macsec::{An, Sci};

/// The SecTAG of an association's usual frames: encrypted, with explicit SCI, whole.
pub(super) struct Usual {
    tag: Template,
    /// The last possible packet number.
    last: u64,
}

impl Usual {
    pub(super) fn new(sci: Sci, an: An, suite: CipherSuite) -> Self {
        let tci = Tci::NONE.with_encryption(true).with_changed_text(true);
        Self { tag: Template::new(tci, an, Some(sci)), last: suite.packet_number_end() - 1 }
    }

    /// Whether `octets` are this SecTAG, for a frame with `data` octets of secure data.
    #[inline]
    fn is(&self, octets: &[u8; TAG_LEN_LONG], data: usize, number: u64) -> bool {
        *octets == self.tag.filled(SecTag::short_length_of(data), number) && number <= self.last
    }
}

impl Receive {
    /// Validates the next usual frame of the association heard last, as [`counted`](Self::counted)
    /// does. Returns `None`, with nothing changed, for any other frame.
    #[inline(always)]
    pub(super) fn expected(&mut self, place: &mut impl Place) -> Option<Result<Range<usize>, Discard>> {
        let parts = Parts::usual(place.frame().len());
        if self.try_expected(place)? {
            return Some(Ok(place.opened_at(parts?)));
        }
        self.count_discarded(Discard::NotValid);
        Some(Err(Discard::NotValid))
    }

    /// The remaining details of the expected frame, now at `at`.
    pub(super) fn just_opened(&self, at: Range<usize>) -> Opened {
        let (peer, an) = self.recent;
        let sa = self.peers.get(peer).and_then(|peer| peer.associations.get(an)?.as_ref());
        let number = sa.map_or(0, |sa| sa.window.next() - 1);
        Opened { at, peer, an, number, more: false, continued: false }
    }

    /// Whether the frame was authentic, if it was the expected one. Returns in registers.
    #[inline(always)]
    fn try_expected(&mut self, place: &mut impl Place) -> Option<bool> {
        let (peer, an) = self.recent;
        let sa = self.peers.get_mut(peer)?.associations.get_mut(an)?.as_mut()?;
        let frame = place.frame();
        let parts = Parts::usual(frame.len())?;
        let octets = frame.get(ADDRESSES_LEN..)?.first_chunk::<TAG_LEN_LONG>()?;
        // The next number has never been received, and is not late.
        let number = sa.window.next();
        let checked = self.config.validate != ValidateFrames::Disabled;
        if !(sa.usual.is(octets, parts.data, number) && checked && place.holds(parts.opened())) {
            return None;
        }
        if place.open_next(&mut sa.pool, number, parts).is_err() {
            return Some(false);
        }
        place.address(parts);
        sa.window.mark_next();
        sa.saw(parts.data);
        self.counters.in_octets_decrypted += parts.data as u64;
        self.counters.in_pkts_ok += 1;
        Some(true)
    }
}

#[cfg(test)]
impl Receive {
    /// Validates the frame, as [`validate`](Self::validate) does, if it is the expected one.
    pub(in crate::macsec) fn validate_expected(
        &mut self,
        frame: &[u8],
        out: &mut [u8],
    ) -> Option<Result<usize, Discard>> {
        Some(self.expected(&mut Apart { frame, out })?.map(|at| at.end))
    }

    /// Validates the frame, as [`validate`](Self::validate) does, parsing even the expected frame's
    /// SecTAG.
    pub(in crate::macsec) fn validate_unexpected(
        &mut self,
        frame: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Discard> {
        let result = self.try_validate(&mut Apart { frame, out }, false);
        result.inspect_err(|discard| self.count_discarded(*discard)).map(|opened| opened.at.end)
    }
}
