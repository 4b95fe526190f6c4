//! MACsec with key agreement for smoltcp, so that an IO device protects itself, without a gateway.
//!
//! A [`MacsecDevice`] wraps the driver of the network card, which is any [`smoltcp::phy::Device`] of
//! the medium Ethernet, and is a device for the stack itself:
//!
//! ```text
//!   sockets, Interface              smoltcp
//!        │ frames in the clear
//!   MacsecDevice                    MACsec (IEEE 802.1AE), beside it MKA (IEEE 802.1X)
//!        │ protected frames, MKPDUs
//!   the driver                      Ethernet
//! ```
//!
//! The program's loop, with the calls of this crate and of smoltcp:
//!
//! 1. [`MacsecDevice::poll`]: key agreement. It returns the time at which it wants to be called
//!    again.
//! 2. `Interface::poll` of smoltcp, which receives and sends frames through the device.
//! 3. [`MacsecDevice::prepare`] in idle time, in small steps: the key stream of the next packet
//!    numbers, in both directions.
//!
//! **What passes.** Until a key is agreed, [`transmit`](smoltcp::phy::Device::transmit) returns
//! `None`, so the stack keeps its data and tries again. Nothing leaves in the clear but MKPDUs,
//! whatever fails. Only frames that were authenticated and are no replay reach the stack; others are
//! counted in [`Counters`] by the standard's names.
//!
//! **Nonces.** Each nonce is spent once without any storage. A packet number belongs to a SAK, and a
//! participant of MKA never takes up a SAK that it or its key server had before: after each start
//! all members get a fresh one. So a device needs no reservation in flash, as it would with static
//! keys.
//!
//! **Random numbers.** The [`rand_core::CryptoRng`] gives the member identifier at the start, and
//! keys if the device is the key server. A device with weak randomness at its start should leave that
//! to the others: [`Settings::priority`] 255 never serves. A repeated member identifier is no danger
//! to a nonce then, but delays agreement.
//!
//! **Memory.** The heap is used for keys, when they are installed, and for MKPDUs; never for a frame
//! of the stack. Two frame buffers are allocated at the start. MKPDUs that the driver cannot take are
//! kept up to a bound.
//!
//! **Group addresses.** MKPDUs arrive at group addresses (01-80-C2-00-00-03 and others, see
//! [`Settings::destinations`]), and the driver's filter must let them pass.
//!
//! **The length of frames.** MACsec adds 32 octets. [`capabilities`](smoltcp::phy::Device::capabilities)
//! lowers the stack's MTU by them, so the driver's frames stay as long as they were. Hosts behind a
//! gateway send frames up to *their* MTU: the driver must take 32 octets more than these, 1546 for
//! the usual 1514, or the hosts' MTU must be lowered. The device neither sends nor accepts fragments,
//! which it tells the gateways.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod agreement;
mod counters;
mod device;
mod settings;
mod tokens;

#[cfg(test)]
mod tests;

pub use antedate_channel::macsec::{CipherSuite, Sci};
pub use antedate_channel::mka::{Cak, CakError, OtherKey, Status};
pub use antedate_wire::EthernetAddress;
pub use counters::Counters;
pub use device::{MacsecDevice, RECEIVED_AT_ONCE};
pub use settings::{MIN_MTU, OVERHEAD, Settings, SetupError};
pub use tokens::{RxToken, TxToken};
