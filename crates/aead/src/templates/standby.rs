//! A packet that waits for its values without a handle.

use crate::{
    Front, FrontError, FrontSlot, Fronted, Key, NonceSequence, PrepareError, Prepared, PreparedFront,
    PreparedTemplate, SealPool, Sparse, Suite, Template, TemplateError, TemplateSlot,
};
use core::fmt;

/// A sealer with two slots: one for any next packet, as in a [`SealPool`], and one for a packet of
/// a template or a front, which stays there without a handle until its values come.
///
/// A [`PreparedTemplate`] borrows sealer, template and slot, so an event loop can't keep it. Here
/// the packet is [left](PreparedTemplate::leave) between two idle times and
/// [resumed](Self::resume_template). Sealer and slot stay together, so that a packet's nonce always
/// belongs to the key.
///
/// ```
/// # use antedate_aead::{Aes128Gcm, Hole, Key, Nonce, NonceSequence, Template, TemplateStandby};
/// # struct Counter(u64);
/// # impl NonceSequence for Counter {
/// #     type Error = core::convert::Infallible;
/// #     fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
/// #         self.0 += 1;
/// #         let mut nonce = [0; 12];
/// #         nonce[4..].copy_from_slice(&self.0.to_be_bytes());
/// #         Ok((self.0, Nonce::assume_unique(nonce)))
/// #     }
/// # }
/// let key = Key::new(&[7; 16]).unwrap();
/// let mut standby = TemplateStandby::<Aes128Gcm, _, 64, 2>::new(key, Counter(0));
/// let holes = [Hole::Payload(5..9)];
/// let template = Template::new(b"press 7", b"{kN: ????}", &holes).unwrap();
///
/// let mut packet = standby.prepare_template(&template).unwrap();
/// while packet.step(8) > 0 {}
/// packet.leave();
/// // Later, when the value is there:
/// let sealed = standby.resume_template(&template).unwrap().seal(&[b"81.5"]).unwrap();
/// # let ciphertext = sealed.ciphertext().to_vec();
/// # drop(sealed);
/// assert!(standby.resume_template(&template).is_none(), "its nonce is spent");
/// ```
pub struct Standby<S: Suite, N: NonceSequence<S::NonceBytes>, M, const CAP: usize> {
    pool: SealPool<S, N, 1, CAP>,
    slot: M,
    /// Lengths of associated data and payload of the slot's template or front. They are not in the
    /// slot, which motes use without them.
    form: (usize, usize),
}

/// A [`Standby`] for templates.
pub type TemplateStandby<S, N, const CAP: usize, const BLOCKS: usize> =
    Standby<S, N, TemplateSlot<S, CAP, BLOCKS>, CAP>;

/// A [`Standby`] for fronts.
pub type FrontStandby<S, N, const CAP: usize, const LENGTHS: usize> =
    Standby<S, N, FrontSlot<S, CAP, LENGTHS>, CAP>;

impl<S: Suite, N: NonceSequence<S::NonceBytes>, M: Default, const CAP: usize> Standby<S, N, M, CAP> {
    /// An empty standby.
    pub fn new(key: Key<S>, sequence: N) -> Self {
        Self { pool: SealPool::new(key, sequence), slot: M::default(), form: (0, 0) }
    }

    /// Prepares the next packet for any payload of up to `reach` bytes, with at most `budget` units
    /// (see [`SealPool::idle`]), and returns the units done.
    pub fn idle(&mut self, reach: usize, budget: u32) -> u32 {
        self.pool.set_reach_of_all(reach);
        self.pool.idle(budget)
    }

    /// The next packet of the sequence, prepared as far as [`idle`](Self::idle) got.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "it lends from the pool and fails as the sequence does")]
    pub fn next(&mut self) -> Result<Prepared<'_, S, CAP>, N::Error> {
        self.pool.next()
    }

    /// The number of the packet that `next` gives, if its nonce was already taken.
    pub fn next_number(&self) -> Option<u64> {
        self.pool.next_number()
    }

    /// The sequence. It is ahead of the packets by the nonces in the slots.
    pub const fn sequence(&self) -> &N {
        self.pool.sequence()
    }

    /// The sequence, to raise a limit for example.
    pub const fn sequence_mut(&mut self) -> &mut N {
        self.pool.sequence_mut()
    }
}

impl<S: Sparse, N: NonceSequence<S::NonceBytes>, const CAP: usize, const BLOCKS: usize>
    TemplateStandby<S, N, CAP, BLOCKS>
{
    /// Takes the next nonce and begins to prepare its packet for a template, in place of a left
    /// packet. An error keeps the left packet.
    pub fn prepare_template<'a>(
        &'a mut self,
        template: &Template<'a>,
    ) -> Result<PreparedTemplate<'a, S, CAP, BLOCKS>, PrepareError<N::Error, TemplateError>> {
        TemplateSlot::<S, CAP, BLOCKS>::takes(template).map_err(PrepareError::Template)?;
        let sealer = self.pool.sealer_mut();
        let (number, nonce) = sealer.sequence.next().map_err(PrepareError::Sequence)?;
        self.slot.fit(template).map_err(PrepareError::Template)?;
        self.slot.name(number, nonce);
        self.form = (template.aad().len(), template.payload().len());
        Ok(PreparedTemplate::new(&sealer.key, *template, &mut self.slot))
    }

    /// Resumes the packet that was [left](PreparedTemplate::leave). The template must be the one of
    /// its preparation: receivers refuse the packet otherwise.
    ///
    /// Returns `None` if no packet was left, or one of other lengths, which is burnt.
    #[inline]
    pub fn resume_template<'a>(
        &'a mut self,
        template: &Template<'a>,
    ) -> Option<PreparedTemplate<'a, S, CAP, BLOCKS>> {
        let form = (template.aad().len(), template.payload().len());
        if !self.slot.resume() || self.form != form {
            self.slot.wipe();
            return None;
        }
        Some(PreparedTemplate::new(&self.pool.sealer_mut().key, *template, &mut self.slot))
    }

    /// Burns the left packet.
    pub fn burn(&mut self) {
        self.slot.wipe();
    }
}

impl<S: Fronted, N: NonceSequence<S::NonceBytes>, const CAP: usize, const LENGTHS: usize>
    FrontStandby<S, N, CAP, LENGTHS>
{
    /// Takes the next nonce and begins to prepare its packet for a front, in place of a left
    /// packet. An error keeps the left packet.
    pub fn prepare_front<'a>(
        &'a mut self,
        front: &'a Front<'a>,
    ) -> Result<PreparedFront<'a, S, CAP, LENGTHS>, PrepareError<N::Error, FrontError>> {
        let packet = self.pool.sealer_mut().prepare_front(front, &mut self.slot)?;
        self.form = (front.aad().len(), front.payload().len());
        Ok(packet)
    }

    /// Resumes the packet that was [left](PreparedFront::leave). The front must be the one of its
    /// preparation: receivers refuse the packet otherwise.
    ///
    /// Returns `None` if no packet was left, or one for a front of other lengths, which is burnt.
    #[inline]
    pub fn resume_front<'a>(
        &'a mut self,
        front: &'a Front<'a>,
    ) -> Option<PreparedFront<'a, S, CAP, LENGTHS>> {
        let form = (front.aad().len(), front.payload().len());
        if !self.slot.resume() || self.form != form {
            self.slot.wipe();
            return None;
        }
        Some(PreparedFront::new(&self.pool.sealer_mut().key, front, &mut self.slot))
    }

    /// Burns the left packet.
    pub fn burn(&mut self) {
        self.slot.wipe();
    }
}

impl<S: Suite, N: NonceSequence<S::NonceBytes>, M, const CAP: usize> fmt::Debug for Standby<S, N, M, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Standby({}, ..)", S::NAME)
    }
}
