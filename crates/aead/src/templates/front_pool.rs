//! Rings of packets that are prepared for a front or a template.

use crate::{
    Front, FrontError, FrontSlot, Fronted, Key, NonceSequence, OversizeError, Predictor, PreparedFront,
    PreparedTemplate, SealedFront, Sealer, Sparse, Template, TemplateError, TemplateSlot,
    slots::ring::{Ring, Tend},
};
use core::fmt;

/// Past packets for the prediction.
const PAST: usize = 16;

/// A [`Sealer`] with a ring of `SLOTS` slots, in which the next packets of the sequence are
/// prepared for one [`Front`].
///
/// If the front names no lengths, the packets are prepared for the lengths that a [`Predictor`]
/// expects.
pub struct FrontPool<
    't,
    S: Fronted,
    N: NonceSequence<S::NonceBytes>,
    const SLOTS: usize,
    const CAP: usize,
    const LENGTHS: usize,
> {
    tend: TendFronts<'t, S, N, CAP, LENGTHS>,
    ring: Ring<FrontSlot<S, CAP, LENGTHS>, SLOTS>,
}

struct TendFronts<'t, S: Fronted, N: NonceSequence<S::NonceBytes>, const CAP: usize, const LENGTHS: usize> {
    sealer: Sealer<S, N>,
    front: Front<'t>,
    predictor: Predictor<PAST>,
}

impl<S: Fronted, N: NonceSequence<S::NonceBytes>, const CAP: usize, const LENGTHS: usize>
    TendFronts<'_, S, N, CAP, LENGTHS>
{
    /// The lengths to prepare for.
    fn lengths(&self) -> ([usize; LENGTHS], usize) {
        let mut lengths = [0; LENGTHS];
        let named = self.front.lengths();
        if named.is_empty() {
            let count = self.predictor.likely(&mut lengths);
            return (lengths, count);
        }
        let count = named.len().min(LENGTHS);
        lengths[..count].copy_from_slice(&named[..count]);
        (lengths, count)
    }
}

impl<S: Fronted, N: NonceSequence<S::NonceBytes>, const CAP: usize, const LENGTHS: usize>
    Tend<FrontSlot<S, CAP, LENGTHS>> for TendFronts<'_, S, N, CAP, LENGTHS>
{
    type Error = N::Error;

    fn name(&mut self, slot: &mut FrontSlot<S, CAP, LENGTHS>) -> Result<(), N::Error> {
        let (lengths, count) = self.lengths();
        let (number, nonce) = self.sealer.sequence.next()?;
        slot.name(number, nonce, &self.front, &lengths[..count]);
        Ok(())
    }

    fn step(&mut self, slot: &mut FrontSlot<S, CAP, LENGTHS>, budget: u32) -> u32 {
        slot.step(&self.sealer.key, &self.front, budget)
    }

    fn is_ready(&self, slot: &FrontSlot<S, CAP, LENGTHS>) -> bool {
        slot.is_ready()
    }
}

impl<
    't,
    S: Fronted,
    N: NonceSequence<S::NonceBytes>,
    const SLOTS: usize,
    const CAP: usize,
    const LENGTHS: usize,
> FrontPool<'t, S, N, SLOTS, CAP, LENGTHS>
{
    /// An empty pool.
    pub fn new(key: Key<S>, sequence: N, front: Front<'t>) -> Result<Self, FrontError> {
        Self::check(&front)?;
        let tend = TendFronts { sealer: Sealer::new(key, sequence), front, predictor: Predictor::new() };
        Ok(Self { tend, ring: Ring::new(FrontSlot::new) })
    }

    fn check(front: &Front<'_>) -> Result<(), FrontError> {
        match FrontSlot::<S, CAP, LENGTHS>::check(front) {
            Err(FrontError::NoLength) => FrontSlot::<S, CAP, LENGTHS>::check_length(front),
            other => other,
        }
    }

    /// Does at most `budget` units of preparation (see [`PreparedFront::step`]) and returns the
    /// units done. Less than `budget` means that nothing is left to do.
    pub fn idle(&mut self, budget: u32) -> u32 {
        self.ring.idle(&mut self.tend, budget)
    }

    /// The next packet of the sequence, prepared as far as [`idle`](Self::idle) got.
    #[allow(clippy::should_implement_trait, reason = "it lends from the pool and fails as the sequence does")]
    pub fn next(&mut self) -> Result<PreparedFront<'_, S, CAP, LENGTHS>, N::Error> {
        let slot = self.ring.next(&mut self.tend)?;
        Ok(PreparedFront::new(&self.tend.sealer.key, &self.tend.front, slot))
    }

    /// Seals the next packet of the sequence and records its length.
    #[allow(clippy::type_complexity, clippy::result_large_err, reason = "the error gives the packet back")]
    pub fn seal(
        &mut self,
        rest: &[u8],
    ) -> Result<
        Result<SealedFront<'_, S, CAP, LENGTHS>, OversizeError<PreparedFront<'_, S, CAP, LENGTHS>>>,
        N::Error,
    > {
        self.observe(self.tend.front.payload().len() + rest.len());
        Ok(self.next()?.seal(rest))
    }

    /// Records the length of a payload, front and rest, for the prediction.
    pub fn observe(&mut self, len: usize) {
        self.tend.predictor.observe(len);
    }

    /// Packets that are ready.
    pub const fn prepared(&self) -> usize {
        self.ring.ready()
    }

    /// The sequence. It is ahead of the packets by the nonces in slots.
    pub const fn sequence(&self) -> &N {
        self.tend.sealer.sequence()
    }

    /// The sequence, to raise a limit for example.
    pub const fn sequence_mut(&mut self) -> &mut N {
        self.tend.sealer.sequence_mut()
    }
}

impl<S: Fronted, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize, const LENGTHS: usize>
    fmt::Debug for FrontPool<'_, S, N, SLOTS, CAP, LENGTHS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrontPool({}, {} of {SLOTS} prepared)", S::NAME, self.prepared())
    }
}

/// A [`Sealer`] with a ring of `SLOTS` slots, in which the next packets of the sequence are
/// prepared for one [`Template`].
pub struct TemplatePool<
    't,
    S: Sparse,
    N: NonceSequence<S::NonceBytes>,
    const SLOTS: usize,
    const CAP: usize,
    const BLOCKS: usize,
> {
    tend: TendTemplates<'t, S, N>,
    ring: Ring<TemplateSlot<S, CAP, BLOCKS>, SLOTS>,
}

struct TendTemplates<'t, S: Sparse, N: NonceSequence<S::NonceBytes>> {
    sealer: Sealer<S, N>,
    template: Template<'t>,
}

impl<S: Sparse, N: NonceSequence<S::NonceBytes>, const CAP: usize, const BLOCKS: usize>
    Tend<TemplateSlot<S, CAP, BLOCKS>> for TendTemplates<'_, S, N>
{
    type Error = N::Error;

    fn name(&mut self, slot: &mut TemplateSlot<S, CAP, BLOCKS>) -> Result<(), N::Error> {
        let (number, nonce) = self.sealer.sequence.next()?;
        // `new` checked that the template fits, so this only resets the slot.
        if slot.fit(&self.template).is_ok() {
            slot.name(number, nonce);
        }
        Ok(())
    }

    fn step(&mut self, slot: &mut TemplateSlot<S, CAP, BLOCKS>, budget: u32) -> u32 {
        slot.step(&self.sealer.key, &self.template, budget)
    }

    fn is_ready(&self, slot: &TemplateSlot<S, CAP, BLOCKS>) -> bool {
        slot.is_ready()
    }
}

impl<
    't,
    S: Sparse,
    N: NonceSequence<S::NonceBytes>,
    const SLOTS: usize,
    const CAP: usize,
    const BLOCKS: usize,
> TemplatePool<'t, S, N, SLOTS, CAP, BLOCKS>
{
    /// An empty pool.
    pub fn new(key: Key<S>, sequence: N, template: Template<'t>) -> Result<Self, TemplateError> {
        let mut ring = Ring::new(TemplateSlot::new);
        ring.each().try_for_each(|slot: &mut TemplateSlot<S, CAP, BLOCKS>| slot.fit(&template))?;
        Ok(Self { tend: TendTemplates { sealer: Sealer::new(key, sequence), template }, ring })
    }

    /// Does at most `budget` units of preparation (see [`PreparedTemplate::step`]) and returns the
    /// units done. Less than `budget` means that nothing is left to do.
    pub fn idle(&mut self, budget: u32) -> u32 {
        self.ring.idle(&mut self.tend, budget)
    }

    /// The next packet of the sequence, prepared as far as [`idle`](Self::idle) got.
    #[allow(clippy::should_implement_trait, reason = "it lends from the pool and fails as the sequence does")]
    pub fn next(&mut self) -> Result<PreparedTemplate<'_, S, CAP, BLOCKS>, N::Error> {
        let slot = self.ring.next(&mut self.tend)?;
        Ok(PreparedTemplate::new(&self.tend.sealer.key, self.tend.template, slot))
    }

    /// Packets that are ready.
    pub const fn prepared(&self) -> usize {
        self.ring.ready()
    }

    /// The sequence. It is ahead of the packets by the nonces in slots.
    pub const fn sequence(&self) -> &N {
        self.tend.sealer.sequence()
    }

    /// The sequence, to raise a limit for example.
    pub const fn sequence_mut(&mut self) -> &mut N {
        self.tend.sealer.sequence_mut()
    }
}

impl<S: Sparse, N: NonceSequence<S::NonceBytes>, const SLOTS: usize, const CAP: usize, const BLOCKS: usize>
    fmt::Debug for TemplatePool<'_, S, N, SLOTS, CAP, BLOCKS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TemplatePool({}, {} of {SLOTS} prepared)", S::NAME, self.prepared())
    }
}
