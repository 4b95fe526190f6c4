//! Flow tables (see `antedate_aead::Flow`) for frames of one shape with few varying octets.
//!
//! The user declares [`FlowShape`]s: the octets that frames begin with, and the octets that vary.
//! Idle time turns the first frame of a shape into a flow's half, once per key. A frame of the
//! shape with another address or constant makes a flow of its own, up to a bound. Other frames are
//! protected the ordinary way.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use antedate_aead::{Flow, FlowPool, Halved, Hole, Key, Linear, SealPool, Template};
use antedate_wire::macsec::TAG_LEN_LONG;

use super::ADDRESSES_LEN;
use super::packet_number::PacketNumbers;
use super::pool::{PREPARED_LEN, SLOTS};
use crate::sequence::NumberError;

/// The most flow tables of one key.
pub const FLOWS: usize = 16;
/// Octets before the user data, including the longest SecTAG, rounded up to whole blocks.
const HEADER: usize = (ADDRESSES_LEN + TAG_LEN_LONG).next_multiple_of(16);
/// The most 16-octet blocks touched by a flow's holes, including that of the packet number.
pub const FLOW_BLOCKS: usize = 16;
/// After this many frames of a shape without a table, the shapes are considered wrong.
const PATIENCE: u32 = 256;
/// The packet number's position in a protected frame.
const PACKET_NUMBER: Range<usize> = ADDRESSES_LEN + 4..ADDRESSES_LEN + 8;

/// Declares which frames make flows, and their varying octets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowShape {
    /// the octets at the start, from the EtherType
    pub begins: Vec<u8>,
    /// the varying octets, counted from the EtherType
    pub holes: Vec<Range<usize>>,
}

impl FlowShape {
    fn takes(&self, data: &[u8]) -> bool {
        data.starts_with(&self.begins) && self.holes.iter().all(|hole| hole.end <= data.len())
    }
}

pub(super) type Table<S> = Flow<S, HEADER, PREPARED_LEN, FLOW_BLOCKS>;

/// A pool of packet numbers, and the tables of the flows seen. Hot fields come first.
#[repr(C)]
pub(super) struct Tables<S: Linear<NonceBytes = [u8; 12]>> {
    pool: FlowPool<S, PacketNumbers, SLOTS, PREPARED_LEN>,
    shapes: Vec<FlowShape>,
    flows: Vec<Box<Table<S>>>,
    /// A frame of a shape that has no table yet: header, user data and shape.
    seen: Option<(Vec<u8>, Vec<u8>, usize)>,
    /// Frames of a shape that no table served, less those that one did.
    misses: u32,
    /// Holds a copy of the data of a frame that is protected in place.
    scratch: Vec<u8>,
}

impl<S: Linear<NonceBytes = [u8; 12]>> Tables<S> {
    pub(super) fn new(key: Key<S>, numbers: PacketNumbers) -> Self {
        let pool = FlowPool::new(SealPool::new(key, numbers));
        Self { pool, shapes: Vec::new(), flows: Vec::new(), seen: None, misses: 0, scratch: Vec::new() }
    }

    /// Makes tables for frames of these shapes from now on, and drops the existing ones.
    pub(super) fn set_shapes(&mut self, shapes: Vec<FlowShape>) {
        (self.shapes, self.flows, self.seen, self.misses) = (shapes, Vec::new(), None, 0);
        self.pool.forget_lengths();
    }

    pub(super) fn set_reach(&mut self, octets: usize) {
        self.pool.set_reach(octets);
    }

    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        self.pool.idle(budget)
    }

    /// Works on the tables only.
    pub(super) fn finish(&mut self, budget: u32) -> u32 {
        if let (Some((header, data, shape)), true) = (&self.seen, budget > 0) {
            self.learn(&header.clone(), &data.clone(), *shape);
            self.seen = None;
            return budget;
        }
        self.pool.finish(budget)
    }

    /// Makes a flow's table.
    #[cold]
    fn learn(&mut self, header: &[u8], data: &[u8], shape: usize) {
        let Some(FlowShape { holes, .. }) = self.shapes.get(shape) else { return };
        let number = core::iter::once(Hole::Aad(PACKET_NUMBER));
        let holes: Vec<_> = number.chain(holes.iter().cloned().map(Hole::Payload)).collect();
        let flow =
            Template::new(header, data, &holes).and_then(|template| Flow::new(self.pool.key(), &template));
        match flow {
            Ok(flow) if self.pool.add_length(data.len()) => self.flows.push(Box::new(flow)),
            // The holes touch too many blocks, or the limit of lengths is reached: use the ordinary
            // path.
            _ => {
                self.shapes.remove(shape);
                if self.shapes.is_empty() && self.flows.is_empty() {
                    self.pool.forget_lengths();
                }
            }
        }
    }

    pub(super) fn touch(&self, octets: usize) {
        self.pool.touch(octets);
    }

    pub(super) fn prepared(&self) -> usize {
        self.pool.pool().prepared()
    }

    pub(super) fn sequence(&self) -> &PacketNumbers {
        self.pool.pool().sequence()
    }

    pub(super) fn sequence_mut(&mut self) -> &mut PacketNumbers {
        self.pool.sequence_mut()
    }

    /// The pool itself, if there are no shapes to look for.
    #[inline]
    pub(super) fn plain(&mut self) -> Option<&mut SealPool<S, PacketNumbers, SLOTS, PREPARED_LEN>> {
        if self.shapes.is_empty() && self.flows.is_empty() { self.pool.plain() } else { None }
    }

    /// Returns the pool, as [`plain`](Self::plain) does, if no shapes were declared.
    #[inline(always)]
    pub(super) fn without_shapes(&mut self) -> Option<&mut SealPool<S, PacketNumbers, SLOTS, PREPARED_LEN>> {
        self.pool.plain()
    }

    /// The next packet number, and the table that seems to match a frame. `header` is that of the
    /// protected frame.
    #[inline]
    pub(super) fn next(
        &mut self,
        header: &[u8],
        data: &[u8],
    ) -> Result<(Halved<'_, S, PREPARED_LEN>, Option<&Table<S>>), NumberError> {
        let place = self.find(header, data);
        let Self { pool, flows, .. } = self;
        Ok((pool.next()?, place.and_then(|place| flows.get(place)).map(|flow| &**flow)))
    }

    /// Empty memory for a copy of a frame's data, to be [returned](Self::take_scratch).
    pub(super) fn lend_scratch(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.scratch)
    }

    pub(super) fn take_scratch(&mut self, mut scratch: Vec<u8>) {
        scratch.clear();
        self.scratch = scratch;
    }

    fn find(&mut self, header: &[u8], data: &[u8]) -> Option<usize> {
        if let Some(place) = self.flows.iter().position(|flow| flow.begins(header, data)) {
            self.misses = self.misses.saturating_sub(1);
            return Some(place);
        }
        let shape = self.shapes.iter().position(|shape| shape.takes(data))?;
        self.misses += 1;
        if self.misses > PATIENCE {
            // The octets declared constant vary: searching costs more than it saves.
            self.set_shapes(Vec::new());
        } else if self.seen.is_none() && self.flows.len() < FLOWS && data.len() <= PREPARED_LEN {
            self.seen = Some((header.to_vec(), data.to_vec(), shape));
        }
        None
    }

    /// Records that a table did not match its frame.
    pub(super) fn missed(&mut self) {
        self.misses += 2;
        if self.misses > PATIENCE {
            self.set_shapes(Vec::new());
        }
    }
}

impl<S: Linear<NonceBytes = [u8; 12]>> fmt::Debug for Tables<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tables({:?}, {} flows)", self.pool, self.flows.len())
    }
}
