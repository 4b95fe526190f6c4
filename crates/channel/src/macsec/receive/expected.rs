//! The frame that is expected next: what stands in its SecTAG is known before it comes, so it is compared and not read.

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
    /// The last packet number that there may be.
    last: u64,
}

impl Usual {
    pub(super) fn new(sci: Sci, an: An, suite: CipherSuite) -> Self {
        let tci = Tci::NONE.with_encryption(true).with_changed_text(true);
        Self { tag: Template::new(tci, an, Some(sci)), last: suite.packet_number_end() - 1 }
    }

    /// Whether it is this one that stands there, of a frame with so many octets of secure data.
    #[inline]
    fn is(&self, octets: &[u8; TAG_LEN_LONG], data: usize, number: u64) -> bool {
        *octets == self.tag.filled(SecTag::short_length_of(data), number) && number <= self.last
    }
}

impl Receive {
    /// As [`counted`](Self::counted) does it, for the usual frame that comes next from the association heard last. Of any other one it says
    /// nothing, and has changed nothing.
    #[inline(always)]
    pub(super) fn expected(&mut self, place: &mut impl Place) -> Option<Result<Range<usize>, Discard>> {
        let parts = Parts::usual(place.frame().len());
        if self.try_expected(place)? {
            return Some(Ok(place.opened_at(parts?)));
        }
        self.count_discarded(Discard::NotValid);
        Some(Err(Discard::NotValid))
    }

    /// The rest of what is known of the frame that was expected and lies `at` there now.
    pub(super) fn just_opened(&self, at: Range<usize>) -> Opened {
        let (peer, an) = self.recent;
        let sa = self.peers.get(peer).and_then(|peer| peer.associations.get(an)?.as_ref());
        let number = sa.map_or(0, |sa| sa.window.next() - 1);
        Opened { at, peer, an, number, more: false, continued: false }
    }

    /// Whether the frame was genuine, if it was the one expected.
    ///
    /// It gives nothing that would go through memory.
    #[inline(always)]
    fn try_expected(&mut self, place: &mut impl Place) -> Option<bool> {
        let (peer, an) = self.recent;
        let sa = self.peers.get_mut(peer)?.associations.get_mut(an)?.as_mut()?;
        let frame = place.frame();
        let parts = Parts::usual(frame.len())?;
        let octets = frame.get(ADDRESSES_LEN..)?.first_chunk::<TAG_LEN_LONG>()?;
        // One that is next has never come, and is not late.
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
    /// As [`validate`](Self::validate), if the frame is the one expected.
    pub(in crate::macsec) fn validate_expected(
        &mut self,
        frame: &[u8],
        out: &mut [u8],
    ) -> Option<Result<usize, Discard>> {
        Some(self.expected(&mut Apart { frame, out })?.map(|at| at.end))
    }

    /// As [`validate`](Self::validate), and reads the SecTAG of the frame expected too.
    pub(in crate::macsec) fn validate_unexpected(
        &mut self,
        frame: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Discard> {
        let result = self.try_validate(&mut Apart { frame, out }, false);
        result.inspect_err(|discard| self.count_discarded(*discard)).map(|opened| opened.at.end)
    }
}
