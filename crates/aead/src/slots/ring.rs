//! A ring of slots, in which the next packets of a sequence are prepared in order.

use core::array;

/// The slots and their progress.
pub(crate) struct Ring<T, const SLOTS: usize> {
    slots: [T; SLOTS],
    /// The slot of the next packet.
    head: usize,
    /// Slots from `head` on that have a nonce.
    named: usize,
    /// Slots from `head` on that are ready.
    ready: usize,
}

/// The operations of a pool on its slots.
pub(crate) trait Tend<T> {
    type Error;

    /// Gives a slot the next nonce.
    fn name(&mut self, slot: &mut T) -> Result<(), Self::Error>;
    /// Continues the preparation.
    fn step(&mut self, slot: &mut T, budget: u32) -> u32;
    fn is_ready(&self, slot: &T) -> bool;
}

impl<T, const SLOTS: usize> Ring<T, SLOTS> {
    pub(crate) fn new(slot: impl Fn() -> T) -> Self {
        const { assert!(SLOTS > 0, "a pool has a slot at least") };
        Self { slots: array::from_fn(|_| slot()), head: 0, named: 0, ready: 0 }
    }

    /// Does at most `budget` units and returns the units done; less means that nothing is left to
    /// do.
    pub(crate) fn idle(&mut self, tend: &mut impl Tend<T>, budget: u32) -> u32 {
        let mut left = budget;
        while left > 0 && self.ready < SLOTS {
            let slot = &mut self.slots[Self::turn(self.head + self.ready)];
            if self.ready == self.named {
                if tend.name(slot).is_err() {
                    break;
                }
                self.named += 1;
            }
            left -= tend.step(slot, left);
            if tend.is_ready(slot) {
                self.ready += 1;
            }
        }
        budget - left
    }

    /// The slot of the next packet. The ring advances first: the slot of a forgotten handle is only
    /// ever named again.
    pub(crate) fn next<N: Tend<T>>(&mut self, tend: &mut N) -> Result<&mut T, N::Error> {
        let slot = &mut self.slots[self.head];
        if self.named == 0 {
            tend.name(slot)?;
            self.named = 1;
        }
        self.head = Self::turn(self.head + 1);
        self.named -= 1;
        self.ready = self.ready.saturating_sub(1);
        Ok(slot)
    }

    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut()
    }

    pub(crate) const fn ready(&self) -> usize {
        self.ready
    }

    const fn turn(index: usize) -> usize {
        if index < SLOTS { index } else { index - SLOTS }
    }
}
