//! The types of `[overlay]`: frames in VXLAN, through WireGuard, over UDP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use antedate_wire::EthernetAddress;
use antedate_wire::vxlan::Vni;

use super::uplink::Which;

/// Default port: that of WireGuard's examples.
pub const PORT: u16 = 51820;
/// Default limit on frames per second to groups and unknown addresses.
pub const STORM_LIMIT: u32 = 10_000;
/// Default ageing time of a silent address in seconds, as in a bridge.
pub const AGEING: u32 = 300;
/// Default size of the address table.
pub const MACS: usize = 4096;

/// The settings of `[overlay]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// The local address of datagrams.
    pub listen: SocketAddr,
    /// Whether datagrams pass a packet ring of the interface instead of the kernel's IP stack.
    pub direct: bool,
    /// The file with the private key. `None`: VXLAN without WireGuard, for measurements.
    pub private_key_file: Option<PathBuf>,
    /// This gateway's address in the tunnel, the source of its VXLAN packets.
    pub address: Ipv4Addr,
    /// The VXLAN network identifier.
    pub vni: Vni,
    /// The UDP port of VXLAN.
    pub port: u16,
    /// How frames too long for a datagram are sent.
    pub fragmentation: LongFrames,
    /// Whether the maximum segment size of TCP is clamped.
    pub tcp_mss: Clamp,
    /// The DSCP of the datagrams.
    pub dscp: Dscp,
    /// Whether frames are forwarded from one peer to another.
    pub relay: bool,
    /// Limit on frames per second to groups and unknown addresses, in each direction. 0: none.
    pub storm_limit: u32,
    /// Longest hold of a cyclic frame by the release clock, in microseconds. 0: frames are not
    /// held.
    pub release_clock_us: u32,
    /// Ageing time of a silent address in seconds.
    pub mac_ageing_seconds: u32,
    /// Size of the address table.
    pub mac_limit: usize,
    /// The second uplink, which sends and receives a copy of each datagram.
    pub second_uplink: Option<SecondUplink>,
    /// The zones of link-local addresses, each with the uplink of its address.
    pub zones: Vec<(Which, String)>,
    /// The other gateways.
    pub peers: Vec<Peer>,
}

/// Whether an address can be that of a peer.
#[must_use]
pub fn is_one_end(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || broadcast)
}

/// `[overlay.second_uplink]`: the second uplink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondUplink {
    /// Its interface.
    pub interface: String,
    /// The local address of its datagrams.
    pub listen: SocketAddr,
}

/// A host name and a port.
pub type Host = (String, u16);

/// `[[overlay.peer]]`: another gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name in the status.
    pub name: String,
    /// Its public key; zeros without WireGuard.
    pub public_key: [u8; 32],
    /// Its other public key, while it changes keys.
    pub next_public_key: Option<[u8; 32]>,
    /// The file with the preshared key.
    pub preshared_key_file: Option<PathBuf>,
    /// Its UDP address. `None`: it has a host name, or has to start.
    pub endpoint: Option<SocketAddr>,
    /// Its host name and port, instead of an address.
    pub host: Option<Host>,
    /// Its UDP address on the second uplink.
    pub second_endpoint: Option<SocketAddr>,
    /// Its address in the tunnel, the source of its VXLAN packets.
    pub address: Ipv4Addr,
    /// Interval of keepalive messages in seconds. 0: none.
    pub keepalive_seconds: u16,
    /// Static addresses of machines behind it.
    pub macs: Vec<EthernetAddress>,
    /// Whether further addresses are learned from its frames.
    pub learn: bool,
}

impl Peer {
    /// Its public keys: one, or two while it changes keys.
    pub fn public_keys(&self) -> impl Iterator<Item = [u8; 32]> {
        std::iter::once(self.public_key).chain(self.next_public_key)
    }

    /// Whether one of its public keys is one of the other's, which is then the same peer.
    #[must_use]
    pub fn shares_key(&self, other: &Self) -> bool {
        self.public_keys().any(|key| other.public_keys().any(|its| its == key))
    }
}

/// How frames too long for a datagram are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongFrames {
    /// In pieces to a peer that reads them, otherwise as [`Self::Inside`].
    #[default]
    Auto,
    /// The inner IP packet is fragmented before encryption, as a stock WireGuard peer does.
    Inside,
    /// The kernel fragments the encrypted datagram.
    Outside,
    /// They are dropped.
    Off,
}

/// Whether the maximum segment size of TCP is clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clamp {
    /// No.
    #[default]
    Off,
    /// To fit a datagram.
    Auto,
    /// To this many octets over IPv4, 20 less over IPv6.
    At(u16),
}

/// The DSCP of the datagrams (RFC 2474).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dscp {
    /// That of the VLAN priority; without a tag the DSCP of the inner IP packet, if it is one.
    ByPriority([u8; 8]),
    /// A fixed value.
    Fixed(u8),
}

impl Default for Dscp {
    /// The class selectors.
    fn default() -> Self {
        Self::ByPriority([0, 8, 16, 24, 32, 40, 48, 56])
    }
}
