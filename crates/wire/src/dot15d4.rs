//! IEEE 802.15.4-2015: the MAC frames of versions 0 to 2, with the auxiliary security header and
//! information elements.
//!
//! A frame (clause 7.2), with the least significant octet first:
//!
//! ```text
//!   MAC header   2     frame control
//!                0-1   sequence number
//!                0-2   destination PAN identifier      presence of these: `addressing`
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
//! The nonce of a secured frame is in [`nonce`].
//!
//! [`Frame::parse`] splits a frame without its FCS in place, into the authenticated and the
//! encrypted part. [`Header::emit`] writes a header.
//!
//! The existing crates lack parts that link-layer security under TSCH needs:
//!
//! - `ieee802154` 0.6.1 (on `ccm` 0.4 and `cipher` 0.3) reads no information elements, and takes a
//!   frame counter of four octets from every secured frame, even a suppressed one. So it reads no
//!   secured TSCH frame and no time correction.
//! - `dot15d4` 0.1.2 is a CSMA driver over `dot15d4-frame` 0.1.2, which has the elements, but takes
//!   the length of the auxiliary security header for one octet and the MIC's (without frame counter
//!   and key identifier) and writes none.
//!
//! The parser is strict: a reserved bit, mode or length is refused by name ([`FormatError`]), since a
//! later definition of it could change the meaning of the octets behind it.

mod address;
mod addressing;
pub mod advertisement;
mod beacon;
pub mod capability;
pub mod capture;
mod control;
mod error;
mod fcs;
mod frame;
pub mod ie;
pub mod nonce;
mod security;
pub mod sixtop;

#[cfg(test)]
mod tests;

pub use address::{Address, ExtendedAddress, PanId, ShortAddress};
pub use addressing::Addressing;
pub use control::{AddressingMode, FrameType, FrameVersion};
pub use error::FormatError;
pub use fcs::{FCS_LEN, append_fcs, check_fcs, fcs};
pub use frame::{Frame, Header};
pub use security::{Asn, KeyIdentifier, MAX_SECURITY_HEADER_LEN, SecurityHeader, SecurityLevel};

/// Octets of the longest frame of the 2.4 GHz PHY, FCS included (aMaxPhyPacketSize).
pub const MAX_FRAME_LEN: usize = 127;
/// Octets of the longest header up to its information elements.
pub const MAX_HEADER_LEN: usize = 2 + 1 + 2 * (2 + 8) + MAX_SECURITY_HEADER_LEN;
