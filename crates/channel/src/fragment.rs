//! Fragments of frames that are longer than the wire carries (Lackorzynski et al. 2020, section
//! IV).
//!
//! A frame is split into as few pieces as possible, whose lengths differ by at most one octet. Each
//! piece is an Ethernet frame with the addresses and EtherType of the whole one. It is protected
//! like any other and takes the next packet number of its secure channel. The SecTAG of every piece
//! but the last has *more fragments* (MF) set.
//!
//! - `split`: splitting at the sender ([`Split`])
//! - `assembly`: reassembly at the receiver, and its refusals
//!
//! # Why packet numbers must be adjacent
//!
//! A receiver that only waits for a piece without MF joins the end of one frame to the beginning of
//! another when the two pieces between them are lost. Packet numbers are authenticated and have no
//! gaps, so only pieces with adjacent numbers are joined.
//!
//! # Ambiguity after a loss
//!
//! Neither the last piece of a frame nor a whole frame has MF. The piece before it tells the two
//! apart, as long as no number is missing. After a gap the beginning may be lost, so the receiver
//! refuses everything up to and including the first piece without MF, unless that is too short to
//! be a piece ([`MIN_PIECE`]). A lost frame then costs its successor as well.
//!
//! Where both sides agree, the sender also sets *continued fragment* (CF, the other reserved bit)
//! on all pieces but the first ([`Marks::Both`]). Every frame is then unambiguous, and a loss costs
//! only the lost frame.

mod assembly;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use assembly::{Assembly, Verdict, Verified};
pub use assembly::{Dropped, FragmentCounters, Limits};
pub use split::{Pieces, Split, SplitError};

/// The least octets of a piece after its EtherType. A piece of this length reaches Ethernet's
/// minimum, so a shorter frame is a whole frame.
pub const MIN_PIECE: usize = 48;
/// The most pieces of a frame: 9018 octets over an MTU of 128 take 94.
pub const MAX_PIECES: usize = 128;
/// The longest reassembled frame: 9018 octets plus a VLAN tag.
pub const MAX_FRAME: usize = 9_022;

/// The flags that a sender of fragments sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Marks {
    /// MF on all pieces but the last.
    #[default]
    More,
    /// MF, and CF on all pieces but the first.
    Both,
}
