//! Secure channels without I/O: the caller brings frames and buffers, and gets frames and reasons back.
//!
//! - [`macsec`]: IEEE 802.1AE, protecting frames ([`macsec::Transmit`]) and validating them ([`macsec::Receive`]).
//! - [`fragment`]: frames longer than the wire carries, in pieces under adjacent packet numbers.
//! - [`dot15d4`]: link-layer security of IEEE 802.15.4, with frame counters and in the slots of TSCH.
//! - [`dtls`]: records of DTLS 1.2, and the handshake with pre-shared keys before them.
//! - [`goose`]: GOOSE authenticated or encrypted on Ethernet, an event's frame prepared before the event.
//! - [`mka`]: who shares keys, and which: IEEE 802.1X key agreement with a pre-shared key.
//! - `mqtt`: MQTT payloads in COSE envelopes, end to end, and the rotation of their keys.
//! - `wireguard`: handshakes, sessions and cookies of WireGuard tunnels.
//! - [`overlay`]: Ethernet frames in such tunnels: VXLAN, pieces of frames that are too long, reassembly.
//! - [`replay`]: the window that refuses what was received before, for every channel with packet numbers.
//! - `world` (for tests, feature `test-world`): a sender, a receiver and a wire between them that loses,
//!   duplicates, reorders, corrupts, truncates, replays and injects, the same way in every run.
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
pub mod goose;
mod lengths;
pub mod macsec;
#[cfg(feature = "mka")]
pub mod mka;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod overlay;
pub mod replay;
#[cfg(feature = "wireguard")]
pub mod wireguard;
#[cfg(any(test, feature = "test-world"))]
pub mod world;
