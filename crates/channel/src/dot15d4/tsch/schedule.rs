//! The schedule: slotframes of cells, and their channels (clauses 6.2.6.2 to 6.2.6.4).

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dot15d4::advertisement::{Advertisement, Link, Slotframe as Advertised};

use super::super::{Asn, ExtendedAddress};

/// The use of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellKind {
    /// only we send
    Transmit,
    /// every node may send, after a backoff
    Shared,
    /// we listen
    Receive,
}

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell {
    /// the slot within the slotframe
    pub slot: u16,
    /// added to the slot number to select the channel
    pub channel_offset: u16,
    /// its use
    pub kind: CellKind,
    /// the neighbour, or `None` for any
    pub neighbour: Option<ExtendedAddress>,
}

/// A repeating slotframe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slotframe {
    /// its length in slots
    pub length: u16,
    /// its cells in use
    pub cells: Vec<Cell>,
}

/// The reason for refusing a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleError {
    /// a slotframe has no slots
    EmptySlotframe,
    /// a cell is beyond the end of its slotframe
    CellBeyondEnd,
    /// there is no channel
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

/// The cells of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    slotframes: Vec<Slotframe>,
    hopping: Vec<u8>,
}

impl Schedule {
    /// The default channel hopping sequence of the 2.4 GHz PHY (sequence 0).
    pub const HOPPING: [u8; 16] = [16, 17, 23, 18, 26, 15, 25, 22, 19, 11, 12, 13, 24, 14, 20, 21];

    /// The schedule that a beacon advertises, for any neighbour, with this hopping sequence:
    /// [`HOPPING`](Self::HOPPING) for sequence 0.
    pub fn advertised(of: &Advertisement<'_>, hopping: Vec<u8>) -> Result<Self, ScheduleError> {
        let cell = |link: Link| {
            let has = |option| link.options & option != 0;
            let kind = match (has(Link::TRANSMIT), has(Link::SHARED), has(Link::RECEIVE)) {
                (true, true, _) => CellKind::Shared,
                (true, false, _) => CellKind::Transmit,
                (false, _, true) => CellKind::Receive,
                (false, _, false) => return None,
            };
            Some(Cell { slot: link.slot, channel_offset: link.channel_offset, kind, neighbour: None })
        };
        let slotframe = |of: Advertised<'_>| Slotframe {
            length: of.length,
            cells: of.links().filter_map(cell).collect(),
        };
        Self::new(of.slotframes().map(slotframe).collect(), hopping)
    }

    /// A schedule of slotframes in order of precedence, and the channel hopping sequence.
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

    /// The cells of a slot, by slotframe precedence, and with transmit cells first in each
    /// slotframe.
    pub fn cells(&self, asn: Asn) -> impl Iterator<Item = &Cell> + '_ {
        self.slotframes.iter().flat_map(move |slotframe| {
            let slot = asn.modulo(slotframe.length);
            let of =
                move |kind| slotframe.cells.iter().filter(move |cell| cell.slot == slot && cell.kind == kind);
            of(CellKind::Transmit).chain(of(CellKind::Shared)).chain(of(CellKind::Receive))
        })
    }

    /// The next slot at or after `from` with a wanted cell, and the cell.
    pub fn next(&self, from: Asn, mut wanted: impl FnMut(&Cell) -> bool) -> Option<(Asn, Cell)> {
        let mut best: Option<(Asn, Cell)> = None;
        for slotframe in &self.slotframes {
            let (length, now) = (u32::from(slotframe.length), u32::from(from.modulo(slotframe.length)));
            for cell in slotframe.cells.iter().filter(|cell| wanted(cell)) {
                let wait = (u32::from(cell.slot) + length - now) % length;
                let Some(asn) = from.after(wait.into()) else { continue };
                if best.is_none_or(|(earliest, _)| asn < earliest) {
                    best = Some((asn, *cell));
                }
            }
        }
        best
    }

    /// Slots of the longest slotframe.
    pub(super) fn longest(&self) -> u16 {
        self.slotframes.iter().map(|slotframe| slotframe.length).max().unwrap_or(0)
    }

    /// The channel of a cell in a slot.
    pub fn channel(&self, asn: Asn, channel_offset: u16) -> u8 {
        let channels = self.hopping.len().max(1);
        let of_slot = u16::try_from(channels).map_or(0, |channels| asn.modulo(channels));
        let at = (usize::from(of_slot) + usize::from(channel_offset) % channels) % channels;
        self.hopping.get(at).copied().unwrap_or_default()
    }
}
