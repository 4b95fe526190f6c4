//! What a running gateway says of itself: the document of `antedate gateway status`.
//!
//! Field names are stable. Those of MACsec's counters are the standard's (IEEE 802.1AE-2018, 10.7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of Antedate.
    pub antedate: String,
    /// The configuration's file.
    pub config: String,
    /// The daemon's process.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_seconds: f64,
    /// `macsec`, `wireguard` or `none`.
    pub protection: String,
    /// Whether the forwarding threads answered. If not, what they alone know is missing here.
    pub forwarding: bool,
    /// The port to the machines.
    pub field: Port,
    /// The port to the untrusted side.
    pub uplink: Port,
    /// From the machines to the uplink.
    pub out: Forwarding,
    /// From the uplink to the machines.
    #[serde(rename = "in")]
    pub inward: Forwarding,
    /// How the forwarding threads wait and where they run.
    pub threads: Vec<Thread>,
    /// MACsec, where it is in use.
    pub macsec: Option<Macsec>,
    /// The overlay, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<Overlay>,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its interface.
    pub interface: String,
    /// Whether its link carries frames.
    pub link: bool,
    /// The longest payload that it carries, in octets.
    pub mtu: u64,
    /// Its address.
    pub address: String,
    /// Frames received.
    pub received_frames: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames that the kernel had no room for before they were read.
    pub ring_drops: u64,
    /// Frames that could not be sent.
    pub send_errors: u64,
    /// How often the link went down.
    pub link_downs: u64,
}

/// One direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Forwarding {
    /// Frames given to the other port, a fragment as one.
    pub forwarded_frames: u64,
    /// Their octets, as they leave.
    pub forwarded_octets: u64,
    /// Frames that did not pass, by reason: `policy:` with the kind of traffic, or what hindered them. What MACsec
    /// refused is among its own counters.
    pub refused: BTreeMap<String, u64>,
    /// Frames that each rule of the policy decided, in the order of the file.
    pub rules: Vec<u64>,
    /// Frames that passed in the express channel.
    #[serde(default)]
    pub express_frames: u64,
    /// Super-frames of segmentation offload that were cut.
    pub segmented: u64,
    /// Frames that left joined to super-frames.
    #[serde(default)]
    pub joined: u64,
    /// Checksums that the sender had left to its network card.
    pub checksums_completed: u64,
}

/// A forwarding thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// `both`, `out` or `in`.
    pub direction: String,
    /// The CPU that it is pinned to.
    pub cpu: Option<u64>,
    /// Its `SCHED_FIFO` priority, if it has one.
    pub priority: Option<u8>,
    /// `adaptive`, `busy` or `block`.
    pub poll: String,
    /// The configured bound on polling.
    pub poll_cpu_percent: Option<u8>,
    /// The share of its CPU that it used of late.
    pub cpu_percent: f64,
    /// Frames that found it polling. Counted in adaptive polling alone, as are the next two.
    pub frames_caught: u64,
    /// Frames that had to wake it.
    pub frames_woken: u64,
    /// Flows whose rhythm it knows.
    pub rhythms: u64,
    /// How often it slept.
    pub sleeps: u64,
}

/// MACsec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Macsec {
    /// The cipher suite.
    pub suite: String,
    /// The SCI that this gateway sends under.
    pub sci: String,
    /// The association in use for sending; none while there is no key.
    pub encoding_sa: Option<u8>,
    /// The transmit associations.
    pub transmit: Vec<TransmitSa>,
    /// The receive associations.
    pub receive: Vec<ReceiveSa>,
    /// Packet numbers prepared ahead for sending.
    pub sealing: Preparation,
    /// Packet numbers prepared ahead for receiving.
    pub opening: Preparation,
    /// Key agreement, where keys are not static.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// The counters by the standard's names: `OutPktsEncrypted`, `InPktsNotValid`, ...
    pub counters: BTreeMap<String, u64>,
}

/// A transmit association.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TransmitSa {
    /// Its association number.
    pub an: u8,
    /// The next packet number.
    pub next_pn: u64,
    /// Packet numbers below this one are reserved on the medium.
    pub reserved_until: u64,
}

/// A receive association.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceiveSa {
    /// The channel.
    pub sci: String,
    /// Whose it is, by the key file.
    pub member: String,
    /// Its association number.
    pub an: u8,
    /// The lowest packet number that is still acceptable.
    pub lowest_pn: u64,
}

/// MACsec Key Agreement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// This gateway's member identifier.
    pub member: String,
    /// Its priority as a key server.
    pub priority: u8,
    /// The SCI of the key server; empty where there is none.
    pub key_server: String,
    /// Whether that is this gateway.
    pub is_key_server: bool,
    /// The latest and the old key, as far as they are there.
    pub keys: Vec<AgreementKey>,
    /// The others.
    pub members: Vec<AgreementMember>,
    /// Whether all live members reassemble fragments.
    pub all_reassemble: bool,
    /// Keys since the start.
    pub fresh_keys: u64,
    /// MKPDUs sent.
    pub sent: u64,
    /// MKPDUs received.
    pub received: u64,
    /// MKPDUs refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// What keeps this gateway from using a key; empty where nothing does.
    pub fault: String,
}

/// A key that was agreed upon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgreementKey {
    /// Its identifier, as `ip macsec` shows it.
    pub key: String,
    /// Its association number.
    pub an: u8,
    /// Its cipher suite.
    pub suite: String,
    /// Whether frames are received with it.
    pub receives: bool,
    /// Whether frames are protected with it.
    pub transmits: bool,
    /// Seconds since it came.
    pub age_seconds: f64,
}

/// Another member of the association.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgreementMember {
    /// Its SCI.
    pub sci: String,
    /// Where its MKPDUs come from.
    pub address: String,
    /// Its member identifier.
    pub member: String,
    /// Its priority as a key server.
    pub priority: u8,
    /// Whether it is proven to be alive.
    pub live: bool,
    /// Whether it is the key server.
    pub key_server: bool,
    /// Whether it receives with the latest key.
    pub receives: bool,
    /// Whether it protects with the latest key.
    pub transmits: bool,
    /// Whether it is a gateway of this project.
    pub antedate: bool,
    /// Whether it reassembles fragments.
    pub fragments: bool,
    /// Seconds since it was heard.
    pub silent_seconds: f64,
}

/// An overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    /// `wireguard` or `none`.
    pub protection: String,
    /// Our public key, as `wg` shows it.
    pub public_key: String,
    /// Where datagrams come in.
    pub listen: String,
    /// Our address in the tunnel.
    pub address: String,
    /// The network.
    pub vni: u32,
    /// How datagrams come: from the `interface`, or through the kernel's IP stack by the `socket`, and why.
    pub datagrams_by: String,
    /// Addresses of peers to which datagrams leave by the interface, past the kernel's IP stack.
    pub direct_addresses: u64,
    /// The other ends.
    pub peers: Vec<OverlayPeer>,
    /// What the second uplink did, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_uplink: Option<SecondUplink>,
    /// What the release clock did, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_clock: Option<ReleaseClock>,
    /// Machines that are known on the field.
    pub field_macs: u64,
    /// Machines that can be known.
    pub mac_limit: u64,
    /// Machines that moved from one place to another.
    pub macs_moved: u64,
    /// Frames from machines that there was no room to remember.
    pub macs_not_learned: u64,
    /// Handshakes that were answered by a cookie, for there were many.
    pub cookies_sent: u64,
    /// What was dropped, by reason: `wireguard:` with WireGuard's own, or what hindered it behind the tunnel.
    pub refused: BTreeMap<String, u64>,
}

/// The second uplink of an overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondUplink {
    /// Its interface.
    pub interface: String,
    /// Whether its link is up.
    #[serde(default)]
    pub link: bool,
    /// How often the link went down since the start.
    #[serde(default)]
    pub link_downs: u64,
    /// Datagrams that came by it.
    pub received: u64,
    /// Those of them that came before their copy by the first uplink, or without it.
    pub first: u64,
    /// Copies that were refused, on either uplink, for the other one had come.
    pub eliminated: u64,
}

/// The egress release clock of an overlay. Jitter is how far the intervals of a flow are off its period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseClock {
    /// Flows whose period is known.
    pub flows: u64,
    /// Microseconds that a frame may be held.
    pub limit_us: u64,
    /// Microseconds from a frame's beat to its departure, of the flow where it is longest.
    pub delay_us: f64,
    /// Frames that were held.
    pub held: u64,
    /// Microseconds that they were held: the mean,
    pub added_mean_us: f64,
    /// and the longest.
    pub added_max_us: f64,
    /// Frames that came too late for the clock, and left at once.
    pub late: u64,
    /// Frames that left at once, for there was no place left.
    pub full: u64,
    /// The jitter that came, in microseconds: the 99th percentile,
    pub jitter_in_p99_us: u64,
    /// and that of one in a thousand.
    pub jitter_in_p999_us: u64,
    /// The jitter that is left, in microseconds: the 99th percentile,
    pub jitter_out_p99_us: u64,
    /// and that of one in a thousand.
    pub jitter_out_p999_us: u64,
}

/// Another end of an overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OverlayPeer {
    /// Its name in the configuration.
    pub name: String,
    /// Its public key.
    pub public_key: String,
    /// Where it was heard last; empty if that is not known.
    pub endpoint: String,
    /// Its address in the tunnel.
    pub address: String,
    /// Whether frames can be sent to it at once.
    pub session: bool,
    /// Handshakes that ended well.
    pub handshakes: u64,
    /// Seconds since the last one.
    pub handshake_age_seconds: Option<f64>,
    /// Seconds since something genuine came from it.
    pub silent_seconds: Option<f64>,
    /// How often it moved to another address.
    pub roamed: u64,
    /// Frames sent to it.
    pub sent_frames: u64,
    /// Their octets.
    pub sent_octets: u64,
    /// Frames that came from it.
    pub received_frames: u64,
    /// Their octets.
    pub received_octets: u64,
    /// Frames sent in pieces.
    pub frames_in_pieces: u64,
    /// Frames sent in IP fragments.
    pub frames_in_fragments: u64,
    /// Frames that came in parts and became whole.
    pub frames_reassembled: u64,
    /// Frames that were dropped since there was no session in time.
    pub frames_without_session: u64,
    /// Machines that are known behind it.
    pub macs: u64,
    /// Whether it said that it is an Antedate.
    pub antedate: bool,
    /// How frames go to it that are too long for a datagram, and why.
    pub long_frames: String,
    /// Packets that lie prepared for it.
    pub prepared: Preparation,
}

/// Work done beforehand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// How many packet numbers are kept prepared.
    pub target: u64,
    /// How many are prepared now.
    pub prepared: u64,
}
