//! The schedule: slotframes of cells, and the channel of each (clauses 6.2.6.2 to 6.2.6.4).

use alloc::vec::Vec;
use core::fmt;

use super::super::{Asn, ExtendedAddress};

/// What a cell is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellKind {
    /// we send, nobody else
    Transmit,
    /// anybody may send, we too, after a backoff
    Shared,
    /// we listen
    Receive,
}

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell {
    /// the slot within the slotframe
    pub slot: u16,
    /// what is added to the slot number to find the channel
    pub channel_offset: u16,
    /// what it is for
    pub kind: CellKind,
    /// with whom; none is anybody
    pub neighbour: Option<ExtendedAddress>,
}

/// A slotframe, which repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slotframe {
    /// its slots
    pub length: u16,
    /// those that are in use
    pub cells: Vec<Cell>,
}

/// Why there is no such schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleError {
    /// a slotframe without slots
    EmptySlotframe,
    /// a cell beyond the end of its slotframe
    CellBeyondEnd,
    /// no channel to hop to
    NoChannel,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptySlotframe => "a slotframe has no slots",
            Self::CellBeyondEnd => "a cell lies beyond the end of its slotframe",
            Self::NoChannel => "the hopping sequence is empty",
        })
    }
}

impl core::error::Error for ScheduleError {}

/// What a node does when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    slotframes: Vec<Slotframe>,
    hopping: Vec<u8>,
}

impl Schedule {
    /// Slotframes, the one with precedence first, and the channels in the order in which they are hopped over.
    pub fn new(slotframes: Vec<Slotframe>, hopping: Vec<u8>) -> Result<Self, ScheduleError> {
        for slotframe in &slotframes {
            if slotframe.length == 0 {
                return Err(ScheduleError::EmptySlotframe);
            }
            if slotframe.cells.iter().any(|cell| cell.slot >= slotframe.length) {
                return Err(ScheduleError::CellBeyondEnd);
            }
        }
        if hopping.is_empty() { Err(ScheduleError::NoChannel) } else { Ok(Self { slotframes, hopping }) }
    }

    /// The cells of a slot: those of the first slotframe first, and of one slotframe those to send in first.
    pub fn cells(&self, asn: Asn) -> impl Iterator<Item = &Cell> + '_ {
        self.slotframes.iter().flat_map(move |slotframe| {
            let slot = (asn.number() % u64::from(slotframe.length)) as u16;
            let of =
                move |kind| slotframe.cells.iter().filter(move |cell| cell.slot == slot && cell.kind == kind);
            of(CellKind::Transmit).chain(of(CellKind::Shared)).chain(of(CellKind::Receive))
        })
    }

    /// The next slot from `from` on with a cell that is wanted, and the cell.
    pub fn next(&self, from: Asn, mut wanted: impl FnMut(&Cell) -> bool) -> Option<(Asn, Cell)> {
        let mut best: Option<(Asn, Cell)> = None;
        for slotframe in &self.slotframes {
            let length = u64::from(slotframe.length);
            let now = from.number() % length;
            for cell in slotframe.cells.iter().filter(|cell| wanted(cell)) {
                let wait = (u64::from(cell.slot) + length - now) % length;
                let Some(asn) = from.after(wait) else { continue };
                if best.is_none_or(|(earliest, _)| asn < earliest) {
                    best = Some((asn, *cell));
                }
            }
        }
        best
    }

    /// The channel of a cell in a slot.
    pub fn channel(&self, asn: Asn, channel_offset: u16) -> u8 {
        let at = (asn.number() + u64::from(channel_offset)) % self.hopping.len().max(1) as u64;
        self.hopping.get(at as usize).copied().unwrap_or_default()
    }
}
