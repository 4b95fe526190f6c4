//! IEEE 802.15.4-2015: the MAC frames of versions 0 to 2, with the auxiliary security header and information elements.
//!
//! A frame (clause 7.2) is
//!
//! ```text
//!   MAC header   2     frame control
//!                0-1   sequence number
//!                0-2   destination PAN identifier      which of these are sent: `addressing`
//!                0/2/8 destination address
//!                0-2   source PAN identifier
//!                0/2/8 source address
//!                0-14  auxiliary security header       `security`
//!                n     header information elements     `ie`
//!   MAC payload  n     payload information elements, content
//!                0-16  MIC
//!   MAC footer   2     FCS                             `fcs`
//! ```
//!
//! all of it with the least significant octet first. [`Frame::parse`] takes a frame without its FCS apart where it lies, and splits
//! it into what is authenticated only and what is encrypted too; [`Header::emit`] writes a header.
//!
//! Two crates of the same domain were looked at, and neither carries what link-layer security under TSCH needs:
//!
//! - `ieee802154` 0.6.1 (on `ccm` 0.4 and `cipher` 0.3) reads the bit that announces information elements but no element, and
//!   takes a frame counter of four octets from every secured frame, also where it is suppressed: it can read no secured TSCH frame
//!   and no time correction.
//! - `dot15d4` 0.1.2 is a CSMA driver over `dot15d4-frame` 0.1.2, which has the elements, but takes the length of the auxiliary
//!   security header for one octet and the MIC's (without frame counter and key identifier) and writes none.
//!
//! So the format is here, and strict: a reserved bit, mode or length that the tables of the standard do not have is refused by name
//! ([`Invalid`]), since whatever came to be defined there would change what follows.

mod address;
mod addressing;
mod beacon;
pub mod capture;
mod control;
mod fcs;
mod frame;
pub mod ie;
mod invalid;
mod security;

#[cfg(test)]
mod tests;

pub use address::{Address, ExtendedAddress, PanId, ShortAddress};
pub use addressing::Addressing;
pub use control::{AddressingMode, FrameType, FrameVersion};
pub use fcs::{FCS_LEN, append_fcs, check_fcs, fcs};
pub use frame::{Frame, Header};
pub use invalid::Invalid;
pub use security::{Asn, KeyIdentifier, MAX_SECURITY_HEADER_LEN, SecurityHeader, SecurityLevel};

/// Octets of the longest frame that the 2.4 GHz PHY carries, FCS included (aMaxPhyPacketSize).
pub const MAX_FRAME_LEN: usize = 127;
/// Octets of the longest header up to its information elements.
pub const MAX_HEADER_LEN: usize = 2 + 1 + 2 * (2 + 8) + MAX_SECURITY_HEADER_LEN;
