//! Ethernet frames as the packets of a tunnel between sites, without I/O.
//!
//! A frame travels in VXLAN (RFC 7348) over UDP and IPv4, so that the other end may be any VXLAN device. Towards another
//! Antedate there is a second way for frames that are too long for a datagram: pieces under adjacent counters.
//!
//! - [`encapsulation`]: the headers in front of a frame, prebuilt, and what they say of a packet that came
//! - [`message`]: what two Antedate ends say to each other that no stock end does: that they read pieces, and the pieces
//! - [`reassembly`]: frames from pieces and packets from IP fragments
//! - [`clamp`]: the segment size of TCP connections, so that there is less to fragment

pub mod clamp;
pub mod encapsulation;
pub mod message;
pub mod reassembly;
