//! Templates as the suites see them: holes cut into pieces, one for each block of 16 bytes that a hole touches.
//!
//! A suite prepares the template's packet as if its holes were filled with zeros, and keeps a weight for each piece: what
//! the piece's bytes must be multiplied with in a polynomial MAC, or the block they are in for a block cipher. At the
//! deadline it goes over the pieces alone, so the time depends on where the holes are, and on nothing else.

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
