//! Reassembly, one frame at a time for each peer. The memory is reserved at the agreement with the
//! peer, so peers cannot exhaust each other's.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use antedate_wire::ethernet::HEADER_LEN;

use super::{MAX_FRAME, MAX_PIECES, MIN_PIECE, Marks};

/// Limits of reassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// octets of the longest frame, at most [`MAX_FRAME`]
    pub frame: usize,
    /// pieces of a frame, at most [`MAX_PIECES`]
    pub pieces: usize,
    /// time between the first and the last piece, in the units of the caller's clock (nanoseconds)
    pub deadline: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame: MAX_FRAME, pieces: MAX_PIECES, deadline: 100_000_000 }
    }
}

/// The reason for refusing a piece, and its frame with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// a packet number is missing between two pieces
    Gap,
    /// a frame begins before the previous one has ended
    SecondFirst,
    /// the addresses are not those of the first piece
    OtherAddresses,
    /// the EtherType is not that of the first piece
    OtherEtherType,
    /// the last piece was not received in time
    TimedOut,
    /// the frame has more pieces than the limit
    TooMany,
    /// the frame is longer than the limit
    TooLong,
    /// the piece is shorter than [`MIN_PIECE`]
    TooShort,
    /// the first piece was not received, or was refused
    NoFirst,
    /// after a gap, the frame may be whole or the rest of one whose beginning was lost
    Unplaced,
}

impl Dropped {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Gap,
        Self::SecondFirst,
        Self::OtherAddresses,
        Self::OtherEtherType,
        Self::TimedOut,
        Self::TooMany,
        Self::TooLong,
        Self::TooShort,
        Self::NoFirst,
        Self::Unplaced,
    ];

    /// The name of the reason's counter.
    pub const fn counter(self) -> &'static str {
        match self {
            Self::Gap => "InFragmentsGap",
            Self::SecondFirst => "InFragmentsSecondFirst",
            Self::OtherAddresses => "InFragmentsOtherAddresses",
            Self::OtherEtherType => "InFragmentsOtherEtherType",
            Self::TimedOut => "InFragmentsTimedOut",
            Self::TooMany => "InFragmentsTooMany",
            Self::TooLong => "InFragmentsTooLong",
            Self::TooShort => "InFragmentsTooShort",
            Self::NoFirst => "InFragmentsNoFirst",
            Self::Unplaced => "InFragmentsUnplaced",
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gap => "a fragment is missing",
            Self::SecondFirst => "a frame begins before the last one has ended",
            Self::OtherAddresses => "other addresses than in the first fragment",
            Self::OtherEtherType => "another EtherType than in the first fragment",
            Self::TimedOut => "the last fragment did not come in time",
            Self::TooMany => "too many fragments",
            Self::TooLong => "the frame is too long",
            Self::TooShort => "the fragment is too short",
            Self::NoFirst => "the first fragment is missing",
            Self::Unplaced => "it may be the rest of a frame whose beginning is missing",
        })
    }
}

/// Counters of fragments. A refusal counts an incomplete frame, or a piece that belongs to no
/// frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentCounters {
    /// valid pieces accepted
    pub taken: u64,
    /// frames reassembled
    pub reassembled: u64,
    refused: [u64; Dropped::ALL.len()],
}

impl FragmentCounters {
    /// Refusals for this reason.
    pub const fn refused(&self, why: Dropped) -> u64 {
        self.refused[why as usize]
    }

    /// Each counter with its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counters = *self;
        let whole = [("InFragments", self.taken), ("InFramesReassembled", self.reassembled)];
        whole.into_iter().chain(Dropped::ALL.map(|why| (why.counter(), counters.refused(why))))
    }

    fn refuse(&mut self, why: Dropped) -> Dropped {
        self.refused[why as usize] += 1;
        why
    }
}

/// A frame with a verified tag, and its association and packet number. Only a receive channel
/// constructs one, after the cipher has authenticated the frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verified<'a> {
    /// The association, one of [`CHAINS`].
    pub(crate) association: usize,
    pub(crate) number: u64,
    /// MF
    pub(crate) more: bool,
    /// CF
    pub(crate) continued: bool,
    /// Destination, source, EtherType, data.
    pub(crate) frame: &'a [u8],
}

impl Verified<'_> {
    fn piece(&self) -> &[u8] {
        self.frame.get(HEADER_LEN..).unwrap_or_default()
    }
}

/// The result for a verified frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// The frame is whole.
    Whole,
    /// The piece is kept until the rest arrives.
    Held,
    /// The piece completes this frame.
    Complete(&'a [u8]),
    /// The piece is dropped.
    Refused(Dropped),
}

/// Associations of a secure channel.
const CHAINS: usize = 4;

/// The state after an association's last number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The last number ended a frame.
    Between,
    /// The last number was a piece of the incomplete frame, which this association owns.
    Inside,
    /// The last number was a piece of a frame that was refused.
    Refusing,
    /// The last number is unknown.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Chain {
    /// One above the highest number verified.
    next: u64,
    /// Bit n: number `next - 1 - n` was verified and ended a frame.
    ends: u64,
    phase: Phase,
}

impl Chain {
    const UNUSED: Self = Self { next: 0, ends: 0, phase: Phase::Unknown };

    fn ended(&self, number: u64) -> bool {
        match self.next.checked_sub(number) {
            Some(behind @ 1..=64) => self.ends >> (behind - 1) & 1 != 0,
            _ => false,
        }
    }

    fn note(&mut self, number: u64, ends: bool) {
        if number >= self.next {
            let moved = number - self.next + 1;
            self.ends = if moved < 64 { self.ends << moved } else { 0 };
            self.next = number + 1;
        }
        if let behind @ 1..=64 = self.next - number {
            self.ends |= u64::from(ends) << (behind - 1);
        }
    }
}

/// The incomplete frame, and the number sequences of a peer's associations.
pub(crate) struct Assembly {
    limits: Limits,
    marks: Marks,
    chains: [Chain; CHAINS],
    /// The association of the incomplete frame, if any.
    owner: Option<usize>,
    pieces: usize,
    until: u64,
    len: usize,
    frame: Box<[u8]>,
}

impl Assembly {
    /// Reserves memory for one frame.
    pub(crate) fn new(limits: Limits, marks: Marks) -> Self {
        let frame = limits.frame.clamp(HEADER_LEN, MAX_FRAME);
        Self {
            limits: Limits { frame, pieces: limits.pieces.min(MAX_PIECES), ..limits },
            marks,
            chains: [Chain::UNUSED; CHAINS],
            owner: None,
            pieces: 0,
            until: 0,
            len: 0,
            frame: vec![0; frame].into_boxed_slice(),
        }
    }

    /// The flags that the peer sets.
    pub(crate) const fn marks(&self) -> Marks {
        self.marks
    }

    /// Starts an association's sequence at `lowest` for a new key. Nothing can be missing before
    /// the very first number.
    pub(crate) fn install(&mut self, association: usize, lowest: u64) {
        if self.owner == Some(association) {
            self.owner = None;
        }
        let phase = if lowest <= 1 { Phase::Between } else { Phase::Unknown };
        if let Some(chain) = self.chains.get_mut(association) {
            *chain = Chain { next: lowest, ends: u64::from(lowest <= 1), phase };
        }
    }

    /// Drops the incomplete frame if its deadline has passed.
    pub(crate) fn expire(&mut self, now: u64, counters: &mut FragmentCounters) {
        if self.owner.is_some() && now >= self.until {
            self.drop_frame(counters, Dropped::TimedOut);
        }
    }

    /// Processes a verified frame.
    #[inline]
    pub(crate) fn take(
        &mut self,
        now: impl FnOnce() -> u64,
        verified: Verified<'_>,
        counters: &mut FragmentCounters,
    ) -> Verdict<'_> {
        let Some(chain) = self.chains.get_mut(verified.association) else { return Verdict::Whole };
        let Verified { number, more, continued, .. } = verified;
        // Most frames are whole and follow a whole one.
        if !more && !continued && number == chain.next && chain.phase == Phase::Between {
            chain.next = number + 1;
            chain.ends = chain.ends << 1 | 1;
            return Verdict::Whole;
        }
        self.take_piece(now(), verified, counters)
    }

    fn take_piece(
        &mut self,
        now: u64,
        verified: Verified<'_>,
        counters: &mut FragmentCounters,
    ) -> Verdict<'_> {
        self.expire(now, counters);
        let Verified { association, number, more, continued, .. } = verified;
        let Some(mut chain) = self.chains.get(association).copied() else { return Verdict::Whole };
        let short = verified.piece().len() < MIN_PIECE;
        let whole = !more && !continued;
        let (expected, before) = (chain.next, chain.phase);
        let known = self.marks == Marks::Both || short || chain.ended(number.wrapping_sub(1));
        chain.note(number, !more);
        if number < expected {
            // Late, from before the incomplete frame, which it does not affect.
            self.set(association, chain);
            return match (whole, known) {
                (true, true) => Verdict::Whole,
                (true, false) => Verdict::Refused(counters.refuse(Dropped::Unplaced)),
                (false, _) => Verdict::Refused(counters.refuse(Dropped::Gap)),
            };
        }
        let adjacent = number == expected;
        if !adjacent && self.owner == Some(association) {
            self.drop_frame(counters, Dropped::Gap);
        }
        let phase = if adjacent { before } else { Phase::Unknown };
        chain.phase = if more { Phase::Refusing } else { Phase::Between };
        self.set(association, chain);
        let marked = self.marks == Marks::Both;
        match phase {
            Phase::Inside if continued || !marked => self.append(verified, counters),
            Phase::Inside => {
                self.drop_frame(counters, Dropped::SecondFirst);
                self.begin(now, verified, counters)
            }
            Phase::Between if continued => Verdict::Refused(counters.refuse(Dropped::NoFirst)),
            Phase::Between => self.begin(now, verified, counters),
            Phase::Refusing => self.follow(now, verified, marked, counters),
            Phase::Unknown if continued => Verdict::Refused(counters.refuse(Dropped::NoFirst)),
            Phase::Unknown if marked || (short && whole) => self.begin(now, verified, counters),
            Phase::Unknown => Verdict::Refused(counters.refuse(Dropped::Unplaced)),
        }
    }

    /// Processes the successor of a refused piece: part of the same frame, unless marked as a first
    /// piece.
    fn follow(
        &mut self,
        now: u64,
        verified: Verified<'_>,
        marked: bool,
        counters: &mut FragmentCounters,
    ) -> Verdict<'_> {
        if marked && !verified.continued {
            return self.begin(now, verified, counters);
        }
        Verdict::Refused(counters.refuse(Dropped::NoFirst))
    }

    /// Begins with a whole frame or a first piece.
    fn begin(&mut self, now: u64, verified: Verified<'_>, counters: &mut FragmentCounters) -> Verdict<'_> {
        if !verified.more {
            return Verdict::Whole;
        }
        if verified.piece().len() < MIN_PIECE {
            return Verdict::Refused(counters.refuse(Dropped::TooShort));
        }
        if self.owner.is_some() {
            self.drop_frame(counters, Dropped::SecondFirst);
        }
        let Some(place) = self.frame.get_mut(..verified.frame.len()) else {
            return Verdict::Refused(counters.refuse(Dropped::TooLong));
        };
        place.copy_from_slice(verified.frame);
        self.len = verified.frame.len();
        self.pieces = 1;
        self.until = now.saturating_add(self.limits.deadline);
        self.owner = Some(verified.association);
        self.set_phase(verified.association, Phase::Inside);
        counters.taken += 1;
        Verdict::Held
    }

    /// Appends the next piece to the incomplete frame.
    fn append(&mut self, verified: Verified<'_>, counters: &mut FragmentCounters) -> Verdict<'_> {
        let piece = verified.piece();
        if let Err(why) = self.fits(verified.frame, piece) {
            self.owner = None;
            return Verdict::Refused(counters.refuse(why));
        }
        let end = self.len + piece.len();
        if let Some(place) = self.frame.get_mut(self.len..end) {
            place.copy_from_slice(piece);
        }
        self.len = end;
        self.pieces += 1;
        counters.taken += 1;
        if verified.more {
            self.set_phase(verified.association, Phase::Inside);
            return Verdict::Held;
        }
        self.owner = None;
        counters.reassembled += 1;
        Verdict::Complete(self.frame.get(..end).unwrap_or_default())
    }

    fn fits(&self, frame: &[u8], piece: &[u8]) -> Result<(), Dropped> {
        if frame.get(..12) != self.frame.get(..12) {
            return Err(Dropped::OtherAddresses);
        }
        if frame.get(12..HEADER_LEN) != self.frame.get(12..HEADER_LEN) {
            return Err(Dropped::OtherEtherType);
        }
        if piece.len() < MIN_PIECE {
            return Err(Dropped::TooShort);
        }
        if self.pieces >= self.limits.pieces {
            return Err(Dropped::TooMany);
        }
        if self.len + piece.len() > self.frame.len() {
            return Err(Dropped::TooLong);
        }
        Ok(())
    }

    fn drop_frame(&mut self, counters: &mut FragmentCounters, why: Dropped) {
        if let Some(owner) = self.owner.take() {
            counters.refuse(why);
            self.set_phase(owner, Phase::Refusing);
        }
    }

    fn set(&mut self, association: usize, chain: Chain) {
        if let Some(place) = self.chains.get_mut(association) {
            *place = chain;
        }
    }

    fn set_phase(&mut self, association: usize, phase: Phase) {
        if let Some(chain) = self.chains.get_mut(association) {
            chain.phase = phase;
        }
    }
}

impl fmt::Debug for Assembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembly").field("limits", &self.limits).field("busy", &self.owner.is_some()).finish()
    }
}
