//! Ethernet frames in tunnels between sites, without I/O.
//!
//! A frame travels in VXLAN (RFC 7348) over UDP and IPv4, so the other end may be any VXLAN device.
//! Towards another Antedate, frames too long for a datagram travel as pieces under adjacent
//! counters instead.
//!
//! - [`encapsulation`]: a frame's headers, prebuilt, and parsing of received packets
//! - [`message`]: messages between two Antedate ends: capabilities, pieces of frames, probes
//! - [`reassembly`]: frames from pieces, and packets from IP fragments
//! - [`discovery`]: the longest packet that a path carries; [`echo`]: probes to a stock end
//! - [`ecn`]: congestion marks through the tunnel
//! - [`clamp`]: lowers the segment size of TCP connections to avoid fragmentation

pub mod clamp;
pub mod discovery;
pub mod echo;
pub mod ecn;
pub mod encapsulation;
pub mod message;
pub mod reassembly;
