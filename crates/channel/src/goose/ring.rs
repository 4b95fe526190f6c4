//! The keys that a subscriber accepts, each with the windows of its publishers.
//!
//! Two keys are accepted at once while publishers change from one to the next, each at its time. The
//! change is final for each publisher: once it was heard with a later key, its messages with an earlier
//! one are late, so nothing that was held back comes after the change.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use antedate_aead::Suite;

use super::counter::END;
use super::mac::GroupKey;
use super::subscriber::{Dropped, MAX_PUBLISHERS};
use crate::replay::{ReplayError, ReplayWindow};

/// The most keys at once.
pub const MAX_KEYS: usize = 8;

/// A key in use.
struct Accepted<S: Suite> {
    number: u32,
    key: GroupKey<S>,
    publishers: BTreeMap<[u8; 6], ReplayWindow>,
    /// The last SPDU number of each control block, of routed publishers with random IVs.
    blocks: BTreeMap<Vec<u8>, u32>,
}

/// The keys, the earliest first.
pub(super) struct Ring<S: Suite> {
    keys: Vec<Accepted<S>>,
    window: u32,
}

/// A place in the ring, of a key that a message names.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

impl<S: Suite> Ring<S> {
    pub(super) fn new(key: GroupKey<S>, number: u32, window: u32) -> Self {
        let mut this = Self { keys: vec![], window };
        this.accept(key, number);
        this
    }

    /// Accepts a key that comes after all others. False if its number is accepted, or the ring is full.
    pub(super) fn accept(&mut self, key: GroupKey<S>, number: u32) -> bool {
        let is_new = self.keys.len() < MAX_KEYS && self.keys.iter().all(|key| key.number != number);
        if is_new {
            let (publishers, blocks) = (BTreeMap::new(), BTreeMap::new());
            self.keys.push(Accepted { number, key, publishers, blocks });
        }
        is_new
    }

    /// Refuses a key from now on.
    pub(super) fn forget(&mut self, number: u32) {
        self.keys.retain(|key| key.number != number);
    }

    /// The numbers of the accepted keys, the earliest first.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.keys.iter().map(|key| key.number)
    }

    pub(super) fn find(&self, number: u32) -> Result<Place, Dropped> {
        self.keys.iter().position(|key| key.number == number).map(Place).ok_or(Dropped::UnknownKey)
    }

    pub(super) fn key(&self, Place(at): Place) -> &GroupKey<S> {
        &self.keys[at].key
    }

    /// Accepts of a publisher with a key numbers from `lowest` only.
    pub(super) fn refuse_below(&mut self, number: u32, sender: [u8; 6], lowest: u64) {
        let window = self.window;
        let key = self.keys.iter_mut().find(|key| key.number == number);
        if let Some(Accepted { publishers, .. }) = key.filter(|key| key.publishers.len() < MAX_PUBLISHERS) {
            publishers.insert(sender, ReplayWindow::new(lowest, window));
        }
    }

    /// Each key's number with its publishers and one above the highest number delivered.
    pub(super) fn publishers(&self) -> impl Iterator<Item = (u32, [u8; 6], u64)> {
        self.keys.iter().flat_map(|key| {
            let heard = key.publishers.iter();
            heard.map(|(sender, window)| (key.number, *sender, window.next()))
        })
    }

    /// Whether a number of a publisher may come, before it is known to be authentic.
    pub(super) fn check(&self, Place(at): Place, sender: [u8; 6], number: u64) -> Result<(), Dropped> {
        let publishers = &self.keys[at].publishers;
        let known = publishers.get(&sender);
        if known.is_none() && publishers.len() == MAX_PUBLISHERS {
            return Err(Dropped::UnknownSender);
        }
        // The last number has no successor.
        let changed = self.keys[at + 1..].iter().any(|later| later.publishers.contains_key(&sender));
        if number >= END || changed {
            return Err(Dropped::Late);
        }
        let fresh = ReplayWindow::new(1, self.window);
        known.unwrap_or(&fresh).check(number).map_err(|why| match why {
            ReplayError::Late => Dropped::Late,
            ReplayError::Duplicate => Dropped::Duplicate,
        })
    }

    /// An authentic message came. A window begins with it, so forgers occupy none.
    pub(super) fn mark(&mut self, Place(at): Place, sender: [u8; 6], number: u64) {
        let fresh = ReplayWindow::new(1, self.window);
        self.keys[at].publishers.entry(sender).or_insert(fresh).mark(number);
    }

    /// Whether the SPDU number of an authentic message rises in its control block.
    pub(super) fn rises(&mut self, Place(at): Place, block: &[u8], number: u32) -> Result<(), Dropped> {
        let (earlier, later) = self.keys.split_at_mut(at + 1);
        if later.iter().any(|later| later.blocks.contains_key(block)) {
            return Err(Dropped::Late);
        }
        let Some(Accepted { blocks, .. }) = earlier.last_mut() else { return Err(Dropped::UnknownKey) };
        match blocks.get(block) {
            Some(last) if number == *last => return Err(Dropped::Duplicate),
            Some(last) if number < *last => return Err(Dropped::Late),
            None if blocks.len() == MAX_PUBLISHERS => return Err(Dropped::UnknownSender),
            _ => {}
        }
        blocks.insert(block.to_vec(), number);
        Ok(())
    }
}
