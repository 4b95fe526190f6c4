//! A publish whose reading does not exist yet: all is done but the holes.

use alloc::vec::Vec;
use core::cell::OnceCell;
use core::fmt;

use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, Aes256Gcm, ChaCha20Poly1305, CoseCcm16_64_128, Front, PreparedFront,
    PreparedTemplate, Template,
};

use super::envelope::{Head, associated_data};
use super::publisher::{BLOCKS, CAP, Lane, Numbers, Publisher};
use super::template::PayloadTemplate;

/// The place of what one antedated publish refers to. Take a new one for each.
#[derive(Default)]
pub struct Room<'a> {
    aad: OnceCell<Vec<u8>>,
    envelope: OnceCell<Vec<u8>>,
    length: OnceCell<[usize; 1]>,
    front: OnceCell<Front<'a>>,
}

impl Room<'_> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            aad: OnceCell::new(),
            envelope: OnceCell::new(),
            length: OnceCell::new(),
            front: OnceCell::new(),
        }
    }
}

impl fmt::Debug for Room<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

enum Prepared<'a> {
    Ccm(PreparedFront<'a, CoseCcm16_64_128, CAP, 1>),
    Gcm128(PreparedTemplate<'a, Aes128Gcm, CAP, BLOCKS>),
    Gcm256(PreparedTemplate<'a, Aes256Gcm, CAP, BLOCKS>),
    ChaCha(PreparedTemplate<'a, ChaCha20Poly1305, CAP, BLOCKS>),
    Ocb3(PreparedTemplate<'a, Aes128Ocb3, CAP, BLOCKS>),
}

/// A publish to be: it owns a sequence number. Sealing consumes it, and dropping it burns the number.
pub struct Antedated<'a> {
    head: &'a Head,
    template: &'a PayloadTemplate,
    aad: &'a [u8],
    /// The envelope up to its ciphertext, if the values fit.
    envelope: &'a [u8],
    number: u64,
    prepared: Prepared<'a>,
}

impl<N: Numbers> Publisher<N> {
    /// Takes the next number and begins to prepare its publish for a template.
    ///
    /// `None` where that cannot be: the template is longer than 1024 bytes, its holes touch more than 32 blocks, the
    /// algorithm has no preparation (CBC and single blocks), the room was used before, or there is no number. No number is
    /// used then, and [`seal`](Self::seal) says what is wrong.
    pub fn prepare<'a>(
        &'a mut self,
        template: &'a PayloadTemplate,
        room: &'a Room<'a>,
    ) -> Option<Antedated<'a>> {
        let Self { head, protected, lane, .. } = self;
        let (head, len) = (&*head, template.payload().len());
        if len > CAP || room.aad.get().is_some() {
            return None;
        }
        let aad_of = |number| {
            room.aad.get_or_init(|| {
                associated_data(protected, template.topic(), &head.publisher, head.epoch, number)
            })
        };
        macro_rules! sparse {
            ($lane:expr, $name:ident) => {{
                let super::publisher::SparseLane { sealer, slot, .. } = &mut **$lane;
                // What would be refused is found out before a number is taken.
                let touched: usize =
                    template.holes().iter().map(|hole| (hole.end - 1) / 16 - hole.start / 16 + 1).sum();
                if touched > BLOCKS {
                    return None;
                }
                let number = sealer.sequence_mut().announce()?;
                let aad = aad_of(number);
                let template = Template::new(aad, template.payload(), template.marks()).ok()?;
                (number, aad, Prepared::$name(sealer.prepare_template(&template, slot).ok()?))
            }};
        }
        let (number, aad, prepared) = match lane {
            Lane::Ccm(lane) => {
                let super::publisher::FrontLane { sealer, slot, .. } = &mut **lane;
                let number = sealer.sequence_mut().announce()?;
                let aad = aad_of(number);
                let start = template.holes().first()?.start;
                let lengths = room.length.get_or_init(|| [len]);
                let front = Front::new(aad, &template.payload()[..start], lengths).ok()?;
                let front = room.front.get_or_init(|| front);
                (number, aad, Prepared::Ccm(sealer.prepare_front(front, slot).ok()?))
            }
            Lane::Gcm128(lane) => sparse!(lane, Gcm128),
            Lane::Gcm256(lane) => sparse!(lane, Gcm256),
            Lane::ChaCha(lane) => sparse!(lane, ChaCha),
            Lane::Ocb3(lane) => sparse!(lane, Ocb3),
            Lane::Blocks(..) => return None,
        };
        let envelope = room.envelope.get_or_init(|| {
            let mut envelope = Vec::new();
            head.put(number, head.algorithm.sealed_len(len), &mut envelope);
            envelope
        });
        Some(Antedated { head, template, aad, envelope, number, prepared })
    }
}

impl Antedated<'_> {
    /// The sequence number.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Prepares on, for at most `budget` units of some ten nanoseconds (on a PC), and returns the units done: 0 when only the
    /// values are left to do.
    pub fn step(&mut self, budget: u32) -> u32 {
        match &mut self.prepared {
            Prepared::Ccm(prepared) => prepared.step(budget),
            Prepared::Gcm128(prepared) => prepared.step(budget),
            Prepared::Gcm256(prepared) => prepared.step(budget),
            Prepared::ChaCha(prepared) => prepared.step(budget),
            Prepared::Ocb3(prepared) => prepared.step(budget),
        }
    }

    /// Whether only the values are left to do.
    pub fn is_ready(&self) -> bool {
        match &self.prepared {
            Prepared::Ccm(prepared) => prepared.is_ready(),
            Prepared::Gcm128(prepared) => prepared.is_ready(),
            Prepared::Gcm256(prepared) => prepared.is_ready(),
            Prepared::ChaCha(prepared) => prepared.is_ready(),
            Prepared::Ocb3(prepared) => prepared.is_ready(),
        }
    }

    /// Seals the publish with these values, one for each hole, and appends the envelope to `out`; returns its sequence number.
    ///
    /// Values of other lengths than their holes, and a publish that is not ready, go the ordinary way at once, with the same
    /// number.
    pub fn seal(self, values: &[&[u8]], out: &mut Vec<u8>) -> u64 {
        let Self { head, template, aad, envelope, number, prepared } = self;
        let (algorithm, payload) = (head.algorithm, template.payload());
        let fits = template.fits(values);
        if fits {
            out.reserve(envelope.len() + algorithm.sealed_len(payload.len()));
            out.extend_from_slice(envelope);
        }
        macro_rules! other {
            ($prepared:expr) => {{
                let filled = template.fill(values);
                head.put(number, algorithm.sealed_len(filled.len()), out);
                let start = out.len();
                out.resize(start + filled.len(), 0);
                let tag = $prepared.seal_other(aad, &filled, &mut out[start..]);
                out.extend_from_slice(tag.as_bytes());
            }};
        }
        macro_rules! sparse {
            ($prepared:expr) => {
                if fits {
                    // The values fit, so the engine takes them.
                    if let Ok(sealed) = $prepared.seal(values) {
                        out.extend_from_slice(sealed.ciphertext());
                        out.extend_from_slice(sealed.tag().as_bytes());
                    }
                } else {
                    other!($prepared)
                }
            };
        }
        match prepared {
            Prepared::Ccm(prepared) if fits => {
                let filled = template.fill(values);
                let start = template.holes().first().map_or(0, |hole| hole.start);
                if let Ok(sealed) = prepared.seal(&filled[start..]) {
                    out.extend_from_slice(sealed.ciphertext());
                    out.extend_from_slice(sealed.tag().as_bytes());
                }
            }
            Prepared::Ccm(prepared) => other!(prepared),
            Prepared::Gcm128(prepared) => sparse!(prepared),
            Prepared::Gcm256(prepared) => sparse!(prepared),
            Prepared::ChaCha(prepared) => sparse!(prepared),
            Prepared::Ocb3(prepared) => sparse!(prepared),
        }
        number
    }
}

impl fmt::Debug for Antedated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Antedated({}, number {}, ready: {})", self.head.algorithm, self.number, self.is_ready())
    }
}
