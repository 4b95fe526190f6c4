//! Secure channels without I/O. The caller passes frames and buffers in, and gets frames and
//! reasons back.
//!
//! - [`macsec`]: IEEE 802.1AE: protects frames ([`macsec::Transmit`]) and validates them
//!   ([`macsec::Receive`]).
//! - [`fragment`]: frames longer than the wire carries, split into pieces under adjacent packet
//!   numbers.
//! - [`dot15d4`]: link-layer security of IEEE 802.15.4, with frame counters or the slots of TSCH.
//! - [`dtls`]: records of DTLS 1.2, and the handshake with pre-shared keys.
//! - [`goose`]: GOOSE, authenticated or encrypted. An event's frame is prepared before the event.
//! - [`mka`]: IEEE 802.1X key agreement with a pre-shared key.
//! - `mqtt`: MQTT payloads in COSE envelopes, end to end, and key rotation.
//! - `wireguard`: handshakes, sessions and cookies of WireGuard tunnels.
//! - [`overlay`]: Ethernet frames in WireGuard tunnels: VXLAN, splitting and reassembly.
//! - [`replay`]: the replay window of every channel with packet numbers.
//! - `sealed`: messages that one author signs and named readers open: rotations, and documents of a
//!   fleet.
//! - `world` (for tests, feature `test-world`): a sender, a receiver and a wire that loses,
//!   duplicates, reorders, corrupts, truncates, replays and injects, deterministically.
//!
//! Memory is allocated when a key is installed, never for a frame.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dot15d4;
pub mod dtls;
pub mod fragment;
#[cfg(feature = "goose")]
pub mod goose;
mod lengths;
pub mod macsec;
#[cfg(feature = "mka")]
pub mod mka;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod overlay;
pub mod replay;
#[cfg(feature = "mqtt")]
pub mod sealed;
mod secret;
mod sequence;
#[cfg(feature = "wireguard")]
pub mod wireguard;
#[cfg(any(test, feature = "test-world"))]
pub mod world;
