//! The primitives per CPU. A key is expanded for one backend and keeps it, so no packet pays for the choice.

pub(crate) mod portable;

/// The instruction sets that a key may be expanded for, from the least to the most capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Backend {
    /// Any CPU.
    Portable,
}

impl Backend {
    /// The best backend of this CPU.
    pub fn detect() -> Self {
        Self::Portable
    }

    /// All backends that this CPU can run, the portable one first.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        [Self::Portable].into_iter().filter(move |backend| *backend <= best)
    }
}
