//! Fragments of frames that are longer than the wire carries (Lackorzynski et al. 2020, section IV).
//!
//! A frame is split into as many pieces as are needed, all of one length but for an octet. Each piece is an Ethernet frame
//! with the addresses and the EtherType of the whole one, is protected like any other, and takes the next packet number of
//! its secure channel. *More fragments* (MF) is set in the SecTAG of all but the last.
//!
//! - `split`: where a frame is cut ([`Split`])
//! - `assembly`: how the receiver puts it together again, and when it refuses to
//!
//! # Why packet numbers must be adjacent
//!
//! A receiver that only waits for a piece without MF glues the end of one frame to the beginning of another as soon as two
//! pieces between them are lost. Packet numbers are authenticated and have no gaps, so the pieces of one frame are those
//! with adjacent numbers, and nothing else is put together.
//!
//! # What a receiver cannot know, and how it is told
//!
//! The last piece of a frame has no MF, as a whole frame has none. While no number is missing the piece before it tells
//! which of the two it is. Behind a gap nothing does: what was lost may have been the beginning. So behind a gap everything
//! is refused up to and including the first piece without MF, unless it is too short to be a piece ([`MIN_PIECE`]). A lost
//! frame then costs its successor as well.
//!
//! Where both sides agree to it, a sender also sets *continued fragment* (CF, the other reserved bit) on all pieces but
//! the first ([`Marks::Both`]). Then every frame says by itself what it is, and a lost frame costs nothing but itself.

mod assembly;
mod split;

pub(crate) use assembly::{Assembly, Verdict, Verified};
pub use assembly::{FragmentCounters, Limits, Refused};
pub use split::{Pieces, Split, Unsplittable};

/// The least octets of a piece behind its EtherType. With them a piece is no shorter than Ethernet's minimum, and whatever
/// is shorter is a whole frame.
pub const MIN_PIECE: usize = 48;
/// The most pieces of a frame: 9018 octets over an MTU of 128 take 94.
pub const MAX_PIECES: usize = 128;
/// The longest frame that is put together: 9018 octets, or a VLAN tag more.
pub const MAX_FRAME: usize = 9_022;
/// Addresses and EtherType, which each piece repeats.
pub(crate) const HEADER: usize = 14;

/// Which of the two flags a sender of fragments sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Marks {
    /// MF on all pieces but the last.
    #[default]
    More,
    /// MF, and CF on all pieces but the first.
    Both,
}
