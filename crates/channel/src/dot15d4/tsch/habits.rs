//! The habits of neighbours: the forms of their frames, from which the next ones are predicted.
//!
//! Only authentic frames teach. A frame without MIC may be anybody's.

use antedate_wire::dot15d4::Frame;

use super::super::{Asn, ExtendedAddress, FrameType, Header, SecurityLevel};
use super::Node;
use super::prepare::{FRAME, STREAM};

/// Octets of a MAC header kept to predict the next one.
pub(super) const KEPT: usize = 48;

/// A form of a neighbour's frames: their type, and whether they are for all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    from: ExtendedAddress,
    frame_type: FrameType,
    broadcast: bool,
}

/// A form, and its last frame.
pub(super) struct Habit<const LENGTHS: usize> {
    form: Form,
    header: [u8; KEPT],
    header_len: u8,
    open: u8,
    /// The different lengths of its frames without MIC, the last one first; 0 for none.
    lengths: [u8; LENGTHS],
    level: SecurityLevel,
    sequence: Option<u8>,
    asn: Asn,
}

impl<const LENGTHS: usize> Habit<LENGTHS> {
    /// The sender.
    pub(super) const fn from(&self) -> ExtendedAddress {
        self.form.from
    }

    /// The level of the last frame.
    pub(super) const fn level(&self) -> SecurityLevel {
        self.level
    }

    /// The last header, with this sequence number in place of its own.
    pub(super) fn header(&self, sequence: Option<u8>) -> [u8; KEPT] {
        let mut header = self.header;
        // The sequence number is the octet after the frame control field.
        if let (Some(sequence), Some(place)) = (sequence, header.get_mut(2)) {
            *place = sequence;
        }
        header
    }

    /// Octets of the header, and of the unencrypted part.
    pub(super) fn open(&self) -> (usize, usize) {
        (self.header_len.into(), self.open.into())
    }

    /// Makes a length the first one. The one heard longest ago leaves for a new one.
    fn saw(&mut self, len: u8) {
        let at = self.lengths.iter().position(|of| *of == len).unwrap_or(LENGTHS.saturating_sub(1));
        if let Some(until) = self.lengths.get_mut(..=at) {
            until.rotate_right(1);
        }
        if let Some(first) = self.lengths.first_mut() {
            *first = len;
        }
    }
}

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// Records a neighbour's authentic frame for us or for all.
    pub(super) fn learn(&mut self, from: ExtendedAddress, frame: &Frame<'_>, broadcast: bool) {
        let (header, open) = (frame.mac_header(), frame.open().len());
        let form = Form { from, frame_type: frame.header.frame_type, broadcast };
        let lens = [header.len(), open, frame.before_mic().len()].map(u8::try_from);
        let [Ok(header_len), Ok(open), Ok(len)] = lens else { return };
        if header.len() > KEPT {
            return;
        }
        let known = self.habits.iter().position(|habit| habit.form == form);
        let at = known.unwrap_or_else(|| self.place(form));
        let Some(habit) = self.habits.get_mut(at) else { return };
        let level = frame.header.level();
        if (habit.header_len, habit.open, habit.level) != (header_len, open, level) {
            habit.lengths = [0; LENGTHS];
        }
        if let Some(place) = habit.header.get_mut(..header.len()) {
            place.copy_from_slice(header);
        }
        (habit.header_len, habit.open, habit.sequence) = (header_len, open, frame.header.sequence);
        (habit.level, habit.asn) = (level, self.asn);
        habit.saw(len);
    }

    /// Records a frame that its habit foresaw: only its number and its length are new.
    pub(super) fn confirm(&mut self, habit: usize, from: ExtendedAddress, frame: &Frame<'_>) {
        // Another frame of the slot may have taken its place.
        let own = |habit: &&mut Habit<LENGTHS>| habit.form.from == from;
        let Some(habit) = self.habits.get_mut(habit).filter(own) else { return };
        (habit.sequence, habit.asn) = (frame.header.sequence, self.asn);
        if let Ok(len) = u8::try_from(frame.before_mic().len()) {
            habit.saw(len);
        }
    }

    /// The place of a new form: a free one, or that of the form heard longest ago.
    fn place(&mut self, form: Form) -> usize {
        let habit = Habit {
            form,
            header: [0; KEPT],
            header_len: 0,
            open: 0,
            lengths: [0; LENGTHS],
            level: SecurityLevel::None,
            sequence: None,
            asn: self.asn,
        };
        if self.habits.len() < self.config.habits {
            self.habits.push(habit);
            return self.habits.len() - 1;
        }
        let oldest = self.habits.iter().enumerate().min_by_key(|(_, habit)| habit.asn);
        let at = oldest.map_or(0, |(at, _)| at);
        if let Some(place) = self.habits.get_mut(at) {
            *place = habit;
        }
        at
    }

    /// Records the sequence number of an authentic frame for another device: the next frame for us
    /// has the one after it.
    pub(super) fn overheard(&mut self, from: ExtendedAddress, header: &Header) {
        let own = self.habits.iter_mut().filter(|habit| habit.form.from == from);
        let last =
            own.filter(|habit| habit.form.frame_type == header.frame_type).max_by_key(|habit| habit.asn);
        if let Some(habit) = last {
            (habit.sequence, habit.asn) = (header.sequence, self.asn);
        }
    }

    /// The lengths to expect of a form, and their number: its own ones, the last one first, then those
    /// of other neighbours, who speak the same protocols.
    pub(super) fn lengths(&self, habit: &Habit<LENGTHS>) -> ([usize; LENGTHS], usize) {
        let (mut all, mut count) = ([0; LENGTHS], 0);
        let others = self.habits.iter().filter(|other| other.form.frame_type == habit.form.frame_type);
        for other in core::iter::once(habit).chain(others) {
            for len in other.lengths.iter().take_while(|len| **len > 0) {
                let len = usize::from(len - other.header_len) + usize::from(habit.header_len);
                let fits = len + habit.level.mic_len() <= FRAME && len - usize::from(habit.open) <= STREAM;
                if fits
                    && !all.contains(&len)
                    && let Some(place) = all.get_mut(count)
                {
                    *place = len;
                    count += 1;
                }
            }
        }
        (all, count)
    }

    /// The next sequence number of a form. A device numbers its beacons apart from its other frames
    /// (macEbsn and macDsn).
    pub(super) fn next_sequence(&self, habit: &Habit<LENGTHS>) -> Option<u8> {
        let beacon = |habit: &Habit<LENGTHS>| habit.form.frame_type == FrameType::Beacon;
        let last = self
            .habits
            .iter()
            .filter(|other| other.form.from == habit.form.from && beacon(other) == beacon(habit))
            .max_by_key(|other| other.asn)?;
        let next = last.sequence?.wrapping_add(1);
        habit.sequence.map(|_| next)
    }

    /// The form heard last, of a neighbour or of any, among those that are not taken yet.
    pub(super) fn last_heard(&self, from: Option<ExtendedAddress>, taken: &[usize]) -> Option<usize> {
        let of = |habit: &Habit<LENGTHS>| from.is_none_or(|from| habit.form.from == from);
        let free = self.habits.iter().enumerate().filter(|(at, habit)| !taken.contains(at) && of(habit));
        free.max_by_key(|(_, habit)| habit.asn).map(|(at, _)| at)
    }
}
