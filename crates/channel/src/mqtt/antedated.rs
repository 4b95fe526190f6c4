//! A publish prepared before its reading: everything but the holes.

use alloc::vec::Vec;

use antedate_aead::{CoseCcm16_64_128, Front, Sparse as Suite, Tag, Template};

use super::cipher::CAP;
use super::lane::{BLOCKS, Fronted, Lane, Sparse, each};
use super::layout::Layout;
use super::numbers::Numbers;
use super::publisher::Publisher;
use super::template::PayloadTemplate;

/// The publish prepared for a template, except for the engine's slot.
#[derive(Default)]
pub(super) struct Antedated {
    template: Option<PayloadTemplate>,
    /// The number of the packet in the slot, if there is one.
    number: Option<u64>,
    layout: Layout,
}

impl Antedated {
    pub(super) const fn template(&self) -> Option<&PayloadTemplate> {
        self.template.as_ref()
    }

    /// Whether it is this template's.
    #[inline]
    pub(super) fn is_for(&self, template: &PayloadTemplate) -> bool {
        self.template.as_ref().is_some_and(|own| own.is(template))
    }

    /// Whether it is for any payload of a length on a topic.
    #[inline]
    fn is_for_any(&self, topic: &str, len: usize) -> bool {
        let fits =
            |own: &PayloadTemplate| own.is_one_hole() && own.payload().len() == len && own.topic() == topic;
        self.template.as_ref().is_some_and(fits)
    }
}

/// A packet in a slot, from its nonce until it is sealed.
trait Packet {
    /// Takes the next nonce for a packet of this template. Returns false if there is none, which is
    /// the only refusal.
    fn begin(&mut self, aad: &[u8], template: &PayloadTemplate) -> bool;

    /// Continues to prepare, and returns the units done.
    fn step(&mut self, aad: &[u8], template: &PayloadTemplate, budget: u32) -> u32;

    /// Seals the packet with these values and appends ciphertext and tag. Values that do not fit
    /// take the ordinary path, under the same nonce. Returns false if there is no packet.
    fn seal(&mut self, aad: &[u8], template: &PayloadTemplate, values: Values<'_>, out: &mut Vec<u8>)
    -> bool;
}

/// The values for a template's holes.
enum Values<'v> {
    /// Values of the holes' lengths.
    Fitting(&'v [&'v [u8]]),
    /// Other values, in an assembled payload.
    Other(&'v [u8]),
}

/// Makes space for a payload, appends `seal`'s ciphertext and its tag.
fn append_other<const TAG: usize>(
    payload: &[u8],
    out: &mut Vec<u8>,
    seal: impl FnOnce(&mut [u8]) -> Tag<[u8; TAG]>,
) {
    let start = out.len();
    out.resize(start + payload.len(), 0);
    let tag = seal(&mut out[start..]);
    out.extend_from_slice(tag.as_bytes());
}

impl<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>, N: Numbers> Packet for Sparse<S, N> {
    fn begin(&mut self, aad: &[u8], template: &PayloadTemplate) -> bool {
        let Ok(form) = Template::new(aad, template.payload(), template.marks()) else { return false };
        self.prepare_template(&form).is_ok_and(|packet| {
            packet.leave();
            true
        })
    }

    fn step(&mut self, aad: &[u8], template: &PayloadTemplate, budget: u32) -> u32 {
        let Ok(form) = Template::new(aad, template.payload(), template.marks()) else { return 0 };
        let Some(mut packet) = self.resume_template(&form) else { return 0 };
        let done = packet.step(budget);
        packet.leave();
        done
    }

    #[inline]
    fn seal(
        &mut self,
        aad: &[u8],
        template: &PayloadTemplate,
        values: Values<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Ok(form) = Template::new(aad, template.payload(), template.marks()) else { return false };
        let Some(packet) = self.resume_template(&form) else { return false };
        match values {
            Values::Fitting(values) => {
                let Ok(sealed) = packet.seal(values) else { return false };
                out.extend_from_slice(sealed.ciphertext());
                out.extend_from_slice(sealed.tag().as_bytes());
            }
            Values::Other(payload) => {
                append_other(payload, out, |place| packet.seal_other(aad, payload, place))
            }
        }
        true
    }
}

impl<N: Numbers> Packet for Fronted<CoseCcm16_64_128, N> {
    fn begin(&mut self, aad: &[u8], template: &PayloadTemplate) -> bool {
        let lengths = [template.payload().len()];
        let Ok(front) = Front::new(aad, template.front(), &lengths) else { return false };
        self.prepare_front(&front).is_ok_and(|packet| {
            packet.leave();
            true
        })
    }

    fn step(&mut self, aad: &[u8], template: &PayloadTemplate, budget: u32) -> u32 {
        let lengths = [template.payload().len()];
        let Ok(front) = Front::new(aad, template.front(), &lengths) else { return 0 };
        let Some(mut packet) = self.resume_front(&front) else { return 0 };
        let done = packet.step(budget);
        packet.leave();
        done
    }

    #[inline]
    fn seal(
        &mut self,
        aad: &[u8],
        template: &PayloadTemplate,
        values: Values<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let lengths = [template.payload().len()];
        let Ok(front) = Front::new(aad, template.front(), &lengths) else { return false };
        let Some(packet) = self.resume_front(&front) else { return false };
        match values {
            Values::Fitting(values) => {
                // The rest after the front, assembled in the ciphertext's place if it is not
                // contiguous.
                let start = out.len();
                let sealed = match values {
                    [value] if template.is_one_hole() => packet.seal(value),
                    _ => {
                        template.fill_rest(values, out);
                        packet.seal(&out[start..])
                    }
                };
                let Ok(sealed) = sealed else { return false };
                out.truncate(start);
                out.extend_from_slice(sealed.ciphertext());
                out.extend_from_slice(sealed.tag().as_bytes());
            }
            Values::Other(payload) => {
                append_other(payload, out, |place| packet.seal_other(aad, payload, place))
            }
        }
        true
    }
}

impl<N: Numbers> Publisher<N> {
    /// Selects this template for the antedated publish. Returns false if the template cannot be
    /// prepared.
    pub(super) fn take_template(&mut self, template: &PayloadTemplate) -> bool {
        if self.antedated.is_for(template) {
            return true;
        }
        // Detect a refusal before a number is taken.
        let touched = |hole: &core::ops::Range<usize>| (hole.end - 1) / 16 - hole.start / 16 + 1;
        let possible = match &self.lane {
            Lane::Blocks(..) => false,
            Lane::Ccm(_) => true,
            _ => template.holes().iter().map(touched).sum::<usize>() <= BLOCKS,
        };
        if !possible || template.payload().len() > CAP {
            return false;
        }
        self.burn();
        self.antedated.template = Some(template.clone());
        true
    }

    /// Burns the antedated publish, because another one is sent first.
    pub(super) fn burn(&mut self) {
        if self.antedated.number.take().is_some() {
            each!(&mut self.lane, standby => standby.burn(), (_numbers) => ());
        }
    }

    /// Prepares the antedated publish, and returns the units done.
    pub(super) fn prepare(&mut self, budget: u32) -> u32 {
        if budget == 0 || !self.stand() {
            return 0;
        }
        let Self { lane, antedated, .. } = self;
        let Antedated { template: Some(template), number: Some(number), layout } = antedated else {
            return 0;
        };
        let aad = layout.associated_data(*number);
        each!(lane, standby => standby.step(aad, template, budget), (_numbers) => 0)
    }

    /// Ensures that there is a packet for the template.
    fn stand(&mut self) -> bool {
        let Self { head, protected, lane, antedated, .. } = self;
        let Antedated { template: Some(template), number: standing, layout } = antedated else {
            return false;
        };
        if standing.is_some() {
            return true;
        }
        each!(lane, standby => {
            // A packet prepared for any payload would be sent after it.
            if standby.next_number().is_some() {
                drop(standby.next());
            }
            let Ok(number) = standby.sequence_mut().announce() else { return false };
            if !layout.fits(template.topic(), number) {
                layout.renew(head, protected, template.topic(), number);
            }
            if standby.begin(layout.associated_data(number), template) {
                *standing = Some(number);
            }
        }, (_numbers) => return false);
        standing.is_some()
    }

    /// Seals the antedated publish, if it is of this template.
    #[inline]
    pub(super) fn seal_antedated(
        &mut self,
        template: &PayloadTemplate,
        values: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        if self.antedated.is_for(template) { self.seal_standing(values, out) } else { None }
    }

    /// Selects a publish like the last two, if useful: CCM's MAC can be started for one length
    /// only.
    pub(super) fn take_same(&mut self, len: usize) -> bool {
        let Lane::Ccm(_) = self.lane else { return false };
        let topic = self.layout.topic();
        if self.antedated.is_for_any(topic, len) {
            return true;
        }
        PayloadTemplate::any(topic, len).is_ok_and(|template| self.take_template(&template))
    }

    /// Seals the antedated publish, if it is for any payload of this length on this topic.
    #[inline]
    pub(super) fn seal_same(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) -> Option<u64> {
        if !self.antedated.is_for_any(topic, payload.len()) {
            return None;
        }
        self.seal_standing(&[payload], out)
    }

    #[inline]
    fn seal_standing(&mut self, values: &[&[u8]], out: &mut Vec<u8>) -> Option<u64> {
        let Self { head, lane, antedated, .. } = self;
        let Antedated { template: Some(template), number, layout } = antedated else { return None };
        let (template, number) = (&*template, number.take()?);
        let filled;
        let (len, values) = if template.fits(values) {
            (template.payload().len(), Values::Fitting(values))
        } else {
            filled = template.fill(values);
            (filled.len(), Values::Other(&filled))
        };
        let before = out.len();
        each!(lane, standby => {
            layout.put(number, head.algorithm.sealed_len(len), out);
            if !standby.seal(layout.associated_data(number), template, values, out) {
                out.truncate(before);
                return None;
            }
        }, (_numbers) => return None);
        Some(number)
    }
}
