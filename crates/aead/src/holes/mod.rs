//! Packets with holes: templates, and their pieces, weights and values.
//!
//! Holes are cut into pieces, one for each 16-byte block that a hole touches. A suite prepares the
//! template's packet with zeros in the holes and keeps a weight for each piece: the piece's factor
//! in a polynomial MAC, or its block for a block cipher. Filling the holes works on the pieces
//! alone, so its time depends on their places only.

mod filling;
mod head;
mod piece;
mod template;
mod values;

#[cfg(target_pointer_width = "64")]
pub(crate) use filling::FillingOne;
pub(crate) use filling::{Filling, Reading};
pub(crate) use head::{Head, Spot, Stage, WeightedMac};
pub(crate) use piece::{Piece, Shape, Stretch, block_at, xor_block_at};
pub use template::{Hole, Template, TemplateError};
pub(crate) use values::{Apart, Joined, Values};
