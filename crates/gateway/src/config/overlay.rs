//! `[overlay]`: frames in VXLAN, through WireGuard, over UDP.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use antedate_wire::EthernetAddress;
use antedate_wire::vxlan::Vni;

/// The port that WireGuard's examples use.
pub const PORT: u16 = 51820;
/// Frames to groups and to unknown addresses a second, when the file does not say.
pub const STORM_LIMIT: u32 = 10_000;
/// Seconds after which an address that is not heard is forgotten, when the file does not say: as a bridge does it.
pub const AGEING: u32 = 300;
/// Addresses that are remembered, when the file does not say.
pub const MACS: usize = 4096;

/// `[overlay]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// Where datagrams come in.
    pub listen: SocketAddr,
    /// Whether datagrams are taken from the interface and put on it, past the kernel's IP stack.
    pub direct: bool,
    /// The file with the private key. `None`: no WireGuard, VXLAN alone. For comparing measurements.
    pub private_key_file: Option<PathBuf>,
    /// Our address in the tunnel, from which VXLAN comes.
    pub address: Ipv4Addr,
    /// The network.
    pub vni: Vni,
    /// VXLAN's port.
    pub port: u16,
    /// What becomes of frames that are too long for a datagram.
    pub fragmentation: LongFrames,
    /// Whether TCP is told to use shorter segments.
    pub tcp_mss: Clamp,
    /// The class of the datagrams.
    pub dscp: Dscp,
    /// Whether frames go from one peer to another.
    pub relay: bool,
    /// Frames to groups and unknown addresses a second, each way; 0: as many as come.
    pub storm_limit: u32,
    /// Microseconds that the release clock may hold a cyclic frame; 0: frames pass as they come.
    pub release_clock_us: u32,
    /// Seconds after which an address that is not heard is forgotten.
    pub mac_ageing_seconds: u32,
    /// Addresses that are remembered.
    pub mac_limit: usize,
    /// By which a copy of each datagram leaves, and comes.
    pub second_uplink: Option<SecondUplink>,
    /// The other ends.
    pub peers: Vec<Peer>,
}

/// `[overlay.second_uplink]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondUplink {
    /// Its interface.
    pub interface: String,
    /// Where datagrams come in there.
    pub listen: SocketAddr,
}

/// `[[overlay.peer]]`: another end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name in the status.
    pub name: String,
    /// Its public key; zeros without WireGuard.
    pub public_key: [u8; 32],
    /// The file with the preshared key.
    pub preshared_key_file: Option<PathBuf>,
    /// Where it is; without it, the peer has to begin.
    pub endpoint: Option<SocketAddr>,
    /// Where it is on the second uplink.
    pub second_endpoint: Option<SocketAddr>,
    /// Its address in the tunnel: VXLAN from it has this source.
    pub address: Ipv4Addr,
    /// A sign of life every so many seconds, 0 for none.
    pub keepalive_seconds: u16,
    /// Machines behind it, known beforehand.
    pub macs: Vec<EthernetAddress>,
    /// Whether others are learned from what it sends.
    pub learn: bool,
}

/// What becomes of frames that are too long for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongFrames {
    /// Pieces towards a peer that says that it reads them, otherwise as [`Self::Inside`].
    #[default]
    Auto,
    /// VXLAN's IP packet is fragmented before it is encrypted, as a stock end does it.
    Inside,
    /// The datagram is fragmented by the kernel, after it was encrypted.
    Outside,
    /// They are refused.
    Off,
}

/// Whether TCP is told to use shorter segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clamp {
    /// No.
    #[default]
    Off,
    /// As long as fits a datagram.
    Auto,
    /// At most so many octets over IPv4, and 20 less over IPv6.
    At(u16),
}

/// The class of the datagrams (RFC 2474).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dscp {
    /// That of the VLAN priority as class selector, otherwise that of the IP packet in the frame.
    #[default]
    Copy,
    /// Always this one.
    Fixed(u8),
}
