//! The status of a running gateway: the document of `antedate gateway status`.
//!
//! Field names are stable. Those of MACsec's counters are the standard's (IEEE 802.1AE-2018, 10.7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The whole status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of Antedate.
    pub antedate: String,
    /// The configuration file.
    pub config: String,
    /// The daemon's process ID.
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_seconds: f64,
    /// `macsec`, `wireguard` or `none`.
    pub protection: String,
    /// Whether the forwarding threads answered. If not, their part of the status is missing.
    pub forwarding: bool,
    /// The conditions that last and need the operator.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// The last begins and ends of conditions, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The policy, which [`Forwarding::rules`] counts.
    #[serde(default)]
    pub policy: Policy,
    /// The port to the machines.
    pub field: Port,
    /// The port to the untrusted network.
    pub uplink: Port,
    /// From the machines to the uplink.
    pub out: Forwarding,
    /// From the uplink to the machines.
    #[serde(rename = "in")]
    pub inward: Forwarding,
    /// The cyclic flows, if they are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// The gateways that stand by for one another, if configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<Standby>,
    /// Link loss forwarding, if configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_loss: Option<LinkLoss>,
    /// The forwarding threads.
    pub threads: Vec<Thread>,
    /// MACsec, if in use.
    pub macsec: Option<Macsec>,
    /// The overlay, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<Overlay>,
}

/// A condition that needs the operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Its name in the manual's chapter "When it does not work".
    pub name: String,
    /// Its subject, such as a peer, or empty.
    pub about: String,
    /// The warning, as in the log.
    pub what: String,
    /// The remedy.
    pub remedy: String,
    /// Seconds since it began.
    pub seconds: f64,
    /// Frames or messages counted since the start, or 0.
    pub count: u64,
    /// Whether it may last in a healthy network.
    pub notice: bool,
}

/// The gateways that stand by for one another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standby {
    /// Whether this gateway forwards.
    pub active: bool,
    /// The reason why it cannot, or nothing.
    pub cause: String,
    /// The number of the group.
    pub group: u8,
    /// Its preference.
    pub priority: u8,
    /// The others of the group that are there.
    pub others: Vec<StandbyOther>,
    /// How often this gateway began to forward.
    pub takeovers: u64,
    /// Hellos of the field that were refused.
    pub refused: u64,
}

/// Another gateway of the group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StandbyOther {
    /// Its SCI.
    pub sci: String,
    /// Whether it forwards.
    pub active: bool,
    /// Whether it can.
    pub able: bool,
}

/// The begin or the end of a condition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `begin` or `end`.
    pub event: String,
    /// The condition's name.
    pub name: String,
    /// Its subject, such as a peer, or empty.
    pub about: String,
    /// The sentence of the log.
    pub what: String,
    /// Seconds since then.
    pub age_seconds: f64,
}

/// The policy in words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The kinds of traffic that pass.
    pub allow: Vec<String>,
    /// The rules, in the order of the file: decision, direction and conditions.
    pub rules: Vec<String>,
}

/// Link loss forwarding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkLoss {
    /// Whether the field port is taken down.
    pub lowered: bool,
    /// The cause, or empty.
    pub cause: String,
    /// How often it was taken down.
    pub times: u64,
}

/// The second of two uplinks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MacsecUplink {
    /// Its interface.
    pub interface: String,
    /// Whether its link is up.
    pub link: bool,
    /// How often the link went down.
    pub link_downs: u64,
    /// Frames that came by it.
    pub received: u64,
    /// Frames that came by the first uplink.
    pub first_received: u64,
    /// `both`: each frame leaves by both; `waiting`: by one of them.
    #[serde(default)]
    pub mode: String,
    /// The interface that frames leave by, if one of both waits; else empty.
    #[serde(default)]
    pub carries: String,
    /// How often that changed.
    #[serde(default)]
    pub switches: u64,
    /// The cause of the last change, or empty.
    #[serde(default)]
    pub cause: String,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its interface.
    pub interface: String,
    /// Whether its link is up.
    pub link: bool,
    /// Its MTU.
    pub mtu: u64,
    /// Its address.
    pub address: String,
    /// How frames leave: `ring` by a packet socket, `xdp` by AF_XDP.
    #[serde(default)]
    pub io: String,
    /// Frames received.
    pub received_frames: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames dropped because the ring was full.
    pub ring_drops: u64,
    /// Those of them that were in the ring of frames with deadlines.
    #[serde(default)]
    pub urgent_ring_drops: u64,
    /// Frames that could not be sent.
    pub send_errors: u64,
    /// How often the link went down.
    pub link_downs: u64,
}

/// One direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Forwarding {
    /// Frames sent to the other port. A MACsec fragment counts as one; an overlay counts whole
    /// frames, once for each peer.
    pub forwarded_frames: u64,
    /// Octets of the sent frames.
    pub forwarded_octets: u64,
    /// Datagrams of an overlay: out, those sent, handshakes and fragments included; in, those
    /// received.
    #[serde(default)]
    pub datagrams: u64,
    /// Dropped frames by reason: `policy:` with the kind of traffic, or another obstacle. MACsec
    /// has counters of its own.
    pub refused: BTreeMap<String, u64>,
    /// Frames decided by each rule of the policy, in the order of the file.
    pub rules: Vec<u64>,
    /// Frames sent in the express channel.
    #[serde(default)]
    pub express_frames: u64,
    /// Super-frames that were cut.
    pub segmented: u64,
    /// Frames sent in super-frames.
    #[serde(default)]
    pub joined: u64,
    /// Checksums that the sender left to its network card.
    pub checksums_completed: u64,
    /// Frames whose outer VLAN tag has another priority than their own one (`uplink.vlan`).
    #[serde(default)]
    pub outer_priorities_differ: u64,
    /// PTP messages that the transparent clock handled.
    #[serde(default)]
    pub ptp_corrected: u64,
    /// PTP messages that it left as they were, because they are signed.
    #[serde(default)]
    pub ptp_signed: u64,
}

/// The cyclic flows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// Cycles without a frame that a consumer tolerates, as configured.
    pub watchdog_cycles: u64,
    /// The most flows that are watched.
    pub limit: u64,
    /// How often a flow with a cycle found no place.
    pub no_room: u64,
    /// The flows: stopped ones first, then by their margin.
    pub flows: Vec<Flow>,
}

/// A cyclic flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// `out` or `in`.
    pub direction: String,
    /// `profinet-rt`, `goose`, `sampled-values` or `ethercat`.
    pub protocol: String,
    /// The FrameID or APPID in hexadecimal digits, or empty.
    pub id: String,
    /// The source address.
    pub source: String,
    /// The destination address.
    pub destination: String,
    /// Frames since it got its place.
    pub frames: u64,
    /// Seconds from the beginning of this count to the last frame: the sum of the intervals.
    #[serde(default)]
    pub span_seconds: f64,
    /// The learnt cycle in microseconds.
    pub cycle_us: f64,
    /// Mean deviation of the intervals from it, in microseconds.
    pub jitter_us: f64,
    /// The longest interval of the last one to two minutes, in microseconds.
    pub longest_us: f64,
    /// What that interval left of the watchdog's time.
    pub margin_percent: f64,
    /// Cycles without a frame.
    pub missed_cycles: u64,
    /// Intervals longer than the watchdog's time.
    pub watchdog_expired: u64,
    /// Seconds since the last frame.
    pub silent_seconds: f64,
    /// Whether it is silent for longer than the watchdog's time.
    pub stopped: bool,
    /// The last data status, of Profinet.
    pub data_status: Option<DataStatus>,
    /// The histogram of the intervals, without empty buckets.
    pub intervals: Vec<Interval>,
}

/// The data status of a Profinet frame (IEC 61158-6-10).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataStatus {
    /// Whether the provider runs.
    pub run: bool,
    /// Whether the data is valid.
    pub valid: bool,
    /// Whether the station reports a problem.
    pub problem: bool,
    /// Whether the provider is the primary one.
    pub primary: bool,
    /// The cycle counter, in units of 31.25 µs.
    pub cycle_counter: u16,
}

/// A bucket of a histogram.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its end in microseconds.
    pub below_us: f64,
    /// Its count.
    pub count: u64,
}

/// A forwarding thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// `both`, `out` or `in`.
    pub direction: String,
    /// The CPU that it is pinned to.
    pub cpu: Option<u64>,
    /// Its `SCHED_FIFO` priority, if any.
    pub priority: Option<u8>,
    /// `adaptive`, `busy` or `block`.
    pub poll: String,
    /// The configured limit on polling.
    pub poll_cpu_percent: Option<u8>,
    /// Its recent share of its CPU.
    pub cpu_percent: f64,
    /// Frames that found it polling. Counted with adaptive polling only, as are the next two.
    pub frames_caught: u64,
    /// Frames that woke it.
    pub frames_woken: u64,
    /// Flows with a known period.
    pub rhythms: u64,
    /// Number of sleeps.
    pub sleeps: u64,
}

/// MACsec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Macsec {
    /// The cipher suite.
    pub suite: String,
    /// The SCI of this gateway.
    pub sci: String,
    /// The encoding association. None without a key.
    pub encoding_sa: Option<u8>,
    /// The transmit associations.
    pub transmit: Vec<TransmitSa>,
    /// The receive associations.
    pub receive: Vec<ReceiveSa>,
    /// Packet numbers prepared for sending.
    pub sealing: Preparation,
    /// Packet numbers prepared for receiving.
    pub opening: Preparation,
    /// The path MTU to the other gateways, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMtu>,
    /// The second uplink, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_uplink: Option<MacsecUplink>,
    /// Key agreement, if in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// The counters, with the standard's names: `OutPktsEncrypted`, `InPktsNotValid`, ...
    pub counters: BTreeMap<String, u64>,
}

/// A path MTU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathMtu {
    /// The longest payload that the path carries, protection included.
    pub mtu: u64,
    /// `probe`: echoes of other gateways.
    pub source: String,
    /// Seconds since it changed.
    pub seconds: f64,
}

/// A transmit association.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TransmitSa {
    /// The SCI of its channel.
    #[serde(default)]
    pub sci: String,
    /// Its association number.
    pub an: u8,
    /// The next packet number.
    pub next_pn: u64,
    /// Packet numbers below this one are reserved on disk.
    pub reserved_until: u64,
}

/// A receive association.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceiveSa {
    /// Its SCI.
    pub sci: String,
    /// The member's name in the key file.
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
    /// Its key-server priority.
    pub priority: u8,
    /// The SCI of the key server, or empty.
    pub key_server: String,
    /// Whether this gateway is the key server.
    pub is_key_server: bool,
    /// The latest and the old key, if any.
    pub keys: Vec<AgreementKey>,
    /// The other members.
    pub members: Vec<AgreementMember>,
    /// Whether all live members reassemble fragments.
    pub all_reassemble: bool,
    /// The secure channels of this gateway, one for each worker.
    #[serde(default)]
    pub channels: u64,
    /// Those that frames are sent in.
    #[serde(default)]
    pub channels_in_use: u64,
    /// Number of keys since the start.
    pub fresh_keys: u64,
    /// MKPDUs sent.
    pub sent: u64,
    /// MKPDUs received.
    pub received: u64,
    /// MKPDUs refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// The reason why this gateway cannot use a key, or empty.
    pub fault: String,
    /// The CAKs, the preferred one first.
    #[serde(default)]
    pub caks: Vec<AgreementCak>,
}

/// A CAK of this gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgreementCak {
    /// Its name (CKN) in hexadecimal digits.
    pub ckn: String,
    /// Its preference: the largest first.
    pub priority: i32,
    /// Whether frames are protected with its keys.
    pub carries: bool,
    /// Whether it has no keys because a preferred one carries.
    pub rests: bool,
    /// Whether it is not in the key file any more, and goes on until another one carries.
    pub removed: bool,
    /// The members that are heard with it.
    pub members: Vec<AgreementMember>,
    /// The reason why its keys cannot be used, or empty.
    pub fault: String,
}

/// An agreed key.
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
    /// Seconds since it was agreed.
    pub age_seconds: f64,
}

/// Another member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgreementMember {
    /// Its SCI.
    pub sci: String,
    /// The source address of its MKPDUs.
    pub address: String,
    /// Its member identifier.
    pub member: String,
    /// Its key-server priority.
    pub priority: u8,
    /// Whether it is live.
    pub live: bool,
    /// Whether it is the key server.
    pub key_server: bool,
    /// Whether it receives with the latest key.
    pub receives: bool,
    /// Whether it protects with the latest key.
    pub transmits: bool,
    /// Whether it is an Antedate gateway.
    pub antedate: bool,
    /// Whether it reassembles fragments.
    pub fragments: bool,
    /// The secure channels that it sends in.
    #[serde(default)]
    pub channels: u64,
    /// The most channels that it receives of another member.
    #[serde(default)]
    pub takes_channels: u64,
    /// The destination by which it hears this gateway, or empty.
    #[serde(default)]
    pub hears_by: String,
    /// Seconds since its last MKPDU.
    pub silent_seconds: f64,
}

/// An overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    /// `wireguard` or `none`.
    pub protection: String,
    /// Our public key, as `wg` shows it.
    pub public_key: String,
    /// The local address of datagrams.
    pub listen: String,
    /// Our address in the tunnel.
    pub address: String,
    /// The VXLAN network identifier.
    pub vni: u32,
    /// The way of incoming datagrams: `interface`, or `socket` with the reason.
    pub datagrams_by: String,
    /// Addresses of peers to which datagrams bypass the kernel's IP stack.
    pub direct_addresses: u64,
    /// The peers.
    pub peers: Vec<OverlayPeer>,
    /// The second uplink, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_uplink: Option<SecondUplink>,
    /// The release clock, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_clock: Option<ReleaseClock>,
    /// Known machines on the field.
    pub field_macs: u64,
    /// Size of the address table.
    pub mac_limit: u64,
    /// Machines that moved from one place to another.
    pub macs_moved: u64,
    /// Loops: machines that returned to the field twice within a minute.
    #[serde(default)]
    pub loops: u64,
    /// Addresses that were not learned for lack of space.
    pub macs_not_learned: u64,
    /// Handshakes answered with a cookie, under load.
    pub cookies_sent: u64,
    /// Frames that one worker passed to another one.
    #[serde(default)]
    pub passed_frames: u64,
    /// Dropped packets by reason: `wireguard:` with WireGuard's own, or an obstacle behind the
    /// tunnel.
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
    /// Datagrams from it.
    pub received: u64,
    /// Those that arrived before, or without, the copy on the first uplink.
    pub first: u64,
    /// Second copies, dropped on either uplink.
    pub eliminated: u64,
}

/// The release clock of an overlay. Jitter is the deviation of a flow's intervals from its period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseClock {
    /// Flows with a known period.
    pub flows: u64,
    /// Longest hold of a frame, in microseconds.
    pub limit_us: u64,
    /// Longest current playout delay of a flow, in microseconds.
    pub delay_us: f64,
    /// Frames that were held.
    pub held: u64,
    /// Mean hold in microseconds.
    pub added_mean_us: f64,
    /// Longest hold in microseconds.
    pub added_max_us: f64,
    /// Frames that arrived too late for the clock, and were sent at once.
    pub late: u64,
    /// Frames that were sent at once because the buffer was full.
    pub full: u64,
    /// 99th percentile of the jitter on arrival, in microseconds.
    pub jitter_in_p99_us: u64,
    /// 99.9th percentile of the jitter on arrival, in microseconds.
    pub jitter_in_p999_us: u64,
    /// 99th percentile of the remaining jitter, in microseconds.
    pub jitter_out_p99_us: u64,
    /// 99.9th percentile of the remaining jitter, in microseconds.
    pub jitter_out_p999_us: u64,
}

/// A peer of an overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OverlayPeer {
    /// Its name in the configuration.
    pub name: String,
    /// Its public key; the one heard last, or tried last, if it has two.
    pub public_key: String,
    /// Its other public key, while it changes keys; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub other_public_key: String,
    /// Its last known UDP address, or empty.
    pub endpoint: String,
    /// Its UDP address on the second uplink, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub second_endpoint: String,
    /// Its address in the tunnel.
    pub address: String,
    /// Whether there is a session.
    pub session: bool,
    /// Handshakes begun here.
    #[serde(default)]
    pub initiations: u64,
    /// Completed handshakes.
    pub handshakes: u64,
    /// Seconds since the last one.
    pub handshake_age_seconds: Option<f64>,
    /// Seconds since the last authenticated datagram from it.
    pub silent_seconds: Option<f64>,
    /// How often its UDP address changed.
    pub roamed: u64,
    /// Frames sent to it.
    pub sent_frames: u64,
    /// Their octets.
    pub sent_octets: u64,
    /// Frames received from it.
    pub received_frames: u64,
    /// Their octets.
    pub received_octets: u64,
    /// Frames sent in pieces.
    pub frames_in_pieces: u64,
    /// Frames sent in IP fragments.
    pub frames_in_fragments: u64,
    /// Frames reassembled from pieces or fragments.
    pub frames_reassembled: u64,
    /// Frames dropped for lack of a session.
    pub frames_without_session: u64,
    /// Known machines behind it.
    pub macs: u64,
    /// Whether it announced itself as an Antedate gateway.
    pub antedate: bool,
    /// How long frames are sent to it, and why.
    pub long_frames: String,
    /// The MTU of the path to it, 0 if it is not searched.
    #[serde(default)]
    pub path_mtu: u64,
    /// Its source: `interface`, `kernel` (ICMP), `probe`, or `base` before an answer.
    #[serde(default)]
    pub path_mtu_source: String,
    /// Seconds since its last change.
    #[serde(default)]
    pub path_mtu_age_seconds: Option<f64>,
    /// Packets prepared for it.
    pub prepared: Preparation,
}

/// Prepared packet numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// The number to keep prepared.
    pub target: u64,
    /// The number prepared now.
    pub prepared: u64,
}
