//! The publisher of a stream of sampled values.

use antedate_aead::Sparse;
use antedate_wire::template::What;

use super::counter::Counter;
use super::mac::GroupKey;
use super::publisher::{Layout, LayoutError, PublishError, Publisher};

/// What is new in an ASDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// the sample's number
    pub smp_cnt: u16,
    /// its time, for a layout with `refrTm`
    pub refr_tm: [u8; 8],
    /// the synchronisation
    pub smp_synch: u8,
    /// the samples, as long as in the layout
    pub octets: &'a [u8],
}

/// Publishes the frames of a stream, of a layout of [`Layout::sampled`] or
/// [`Layout::routed_sampled`].
pub struct Sampler<'t, S: Sparse<NonceBytes = [u8; 12], TagBytes = [u8; 16]>>(Publisher<'t, S>);

impl<'t, S: Sparse<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> Sampler<'t, S> {
    /// A sampler before its first frame.
    ///
    /// # Errors
    /// As [`Publisher::new`].
    pub fn new(
        key: impl Into<GroupKey<S>>,
        counter: Counter,
        layout: &'t Layout,
    ) -> Result<Self, LayoutError> {
        Publisher::new(key, counter, layout).map(Self)
    }

    /// Prepares the next frames for at most `budget` units, fewer if everything is prepared.
    /// Returns the units done.
    pub fn idle(&mut self, budget: u32) -> u32 {
        self.0.idle(budget)
    }

    /// Prepared frames.
    pub const fn prepared(&self) -> usize {
        self.0.prepared()
    }

    /// The counter, to reserve more numbers.
    pub fn counter_mut(&mut self) -> &mut Counter {
        self.0.counter_mut()
    }

    /// Publishes samples, one for each ASDU: writes their frame to the start of `out` and returns its
    /// length.
    ///
    /// # Errors
    /// [`PublishError::Values`] for another number of samples, or of their octets, than the layout has.
    /// No number was spent then.
    pub fn publish(&mut self, samples: &[Sample<'_>], out: &mut [u8]) -> Result<usize, PublishError> {
        let Publisher { layout, frame, .. } = &mut self.0;
        if out.len() < layout.frame_len() {
            return Err(PublishError::Buffer);
        }
        let asdus = layout.places.iter().filter(|(what, _)| matches!(what, What::Value(_)));
        let fits = |(range, sample): (usize, &Sample<'_>)| range == sample.octets.len();
        let lengths = asdus.clone().map(|(_, range)| range.len());
        if asdus.count() != samples.len() || !lengths.zip(samples).all(fits) {
            return Err(PublishError::Values);
        }
        let mut samples = samples.iter();
        let mut sample = samples.next();
        for (what, range) in &layout.places {
            let (Some(now), Some(place)) = (sample, frame.get_mut(range.clone())) else {
                return Err(PublishError::Values);
            };
            match what {
                What::Sequence => place.copy_from_slice(&now.smp_cnt.to_be_bytes()),
                What::Time => place.copy_from_slice(&now.refr_tm),
                What::State => place.copy_from_slice(&[now.smp_synch]),
                // The last place of an ASDU.
                _ => {
                    place.copy_from_slice(now.octets);
                    sample = samples.next();
                }
            }
        }
        self.0.seal(out)
    }
}
