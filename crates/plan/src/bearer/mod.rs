//! Bearers: the transit time of a packet.

use serde::{Deserialize, Serialize};

use crate::publish;

mod cells;
mod radio;
mod relay;
mod stages;

pub(crate) use cells::{Cells, anywhere};
pub use relay::Via;
pub(crate) use relay::{at_quantile, fault as delays_fault};
pub(crate) use stages::Stage;

/// A network that carries packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Bearer {
    /// none: the deadline is for security alone, as in table I of hiller2018
    None,
    /// applications of one machine: only its operating system takes time
    Loopback,
    /// IEEE 802.15.4 TSCH
    Tsch(Tsch),
    /// 6LoWPAN over IEEE 802.15.4 without slots; the receiver may sleep
    #[serde(rename = "6lowpan")]
    SixLowpan {
        /// wait of a frame for its receiver to wake, in ms; 0 where radios are always on
        #[serde(default)]
        wait_ms: f64,
        /// hops
        #[serde(default = "one")]
        hops: u32,
    },
    /// 100 Mbit/s
    FastEthernet(Path),
    /// 1 Gbit/s
    Gigabit(Path),
    /// Ethernet in VXLAN in WireGuard, over a WAN
    Wireguard {
        /// the slowest link, in Mbit/s
        rate_mbit: f64,
        /// the delay: pairs of a share of packets and their longest delay in ms
        delay_ms: Vec<(f64, f64)>,
        /// the share of packets that must arrive in time
        #[serde(default = "most")]
        quantile: f64,
    },
    /// Two relays protect what the device sends plain: gateways, ends of an overlay, DTLS proxies
    Relayed {
        /// the kind of relays
        via: Via,
        /// delay that both add together: pairs of a share of packets and their longest delay in us;
        /// measured ones of a laboratory if empty
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added_us: Vec<(f64, f64)>,
        /// time for which a packet occupies a relay, in us; the median of `added_us` if absent
        #[serde(default, skip_serializing_if = "Option::is_none")]
        each_us: Option<f64>,
        /// the share of packets that must arrive in time
        #[serde(default = "most")]
        quantile: f64,
        /// the bearer between the relays
        over: Box<Self>,
    },
    /// MQTT over another bearer: to the broker and from it
    Mqtt {
        /// time in the broker, in ms
        #[serde(default)]
        broker_ms: f64,
        /// bytes of the topic
        #[serde(default = "topic")]
        topic: usize,
        /// the bearer of both legs
        over: Box<Self>,
    },
}

/// A TSCH network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tsch {
    /// slots of a slotframe
    pub slots: u32,
    /// cells on each hop, anywhere in the slotframe
    #[serde(default = "one")]
    pub cells: u32,
    /// hops
    #[serde(default = "one")]
    pub hops: u32,
    /// a slot, in ms
    #[serde(default = "ten")]
    pub slot_ms: f64,
    /// slot offsets of each hop's cells, instead of `cells` and `hops`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<Vec<u32>>,
    /// the share of transmissions that fail and are repeated in the next cell; with a schedule
    #[serde(default)]
    pub loss: f64,
    /// the share of messages that must arrive in time, if some are lost
    #[serde(default = "most")]
    pub quantile: f64,
}

impl Tsch {
    /// A network whose cells may lie anywhere in the slotframe, without losses.
    #[must_use]
    pub const fn new(slots: u32, cells: u32, hops: u32) -> Self {
        Self { slots, cells, hops, slot_ms: ten(), schedule: Vec::new(), loss: 0.0, quantile: most() }
    }
}

/// A path of switches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// store-and-forward switches on the way
    #[serde(default)]
    pub switches: u32,
    /// latency of a switch beyond the frame's own time, in us
    #[serde(default = "switch")]
    pub switch_us: f64,
    /// metres of cable
    #[serde(default = "metres")]
    pub metres: f64,
    /// bytes of the longest other frame already on each link; 0 for none
    #[serde(default)]
    pub other_frame: u32,
}

impl Default for Path {
    fn default() -> Self {
        Self { switches: 0, switch_us: switch(), metres: metres(), other_frame: 0 }
    }
}

const fn one() -> u32 {
    1
}

const fn ten() -> f64 {
    10.0
}

const fn most() -> f64 {
    0.999
}

const fn topic() -> usize {
    32
}

const fn switch() -> f64 {
    3.0
}

const fn metres() -> f64 {
    100.0
}

/// The transit of a packet, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Journey {
    /// bits on the first link
    pub transmission_ms: f64,
    /// bits in the medium
    pub propagation_ms: f64,
    /// switches, further hops, waiting for cells and for other frames, brokers
    pub forwarding_ms: f64,
    /// radio time of a packet at both ends, in ms
    pub air_ms: f64,
}

/// Octets of a UDP header.
const UDP: usize = 8;
/// Bytes of COSE_Encrypt0 around a payload, without the tag.
const COSE: usize = 24;

impl Bearer {
    /// The name of the bearer.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Loopback => "loopback".into(),
            Self::Tsch(_) => "tsch".into(),
            Self::SixLowpan { .. } => "6lowpan".into(),
            Self::FastEthernet(_) => "fast-ethernet".into(),
            Self::Gigabit(_) => "gigabit".into(),
            Self::Wireguard { .. } => "wireguard".into(),
            Self::Relayed { via, over, .. } => format!("{} over {}", via.name(), over.name()),
            Self::Mqtt { over, .. } => format!("mqtt over {}", over.name()),
        }
    }

    /// The reason why the bearer is impossible, if any.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let says = |bad: bool, what: &str| bad.then(|| what.to_owned());
        let not_positive = |value: f64| !value.is_finite() || value <= 0.0;
        let negative = |value: f64| !value.is_finite() || value < 0.0;
        match self {
            Self::None | Self::Loopback => None,
            Self::Tsch(tsch) => tsch.fault().map(str::to_owned),
            Self::SixLowpan { wait_ms, hops } => says(*hops == 0, "6lowpan: there is at least one hop")
                .or_else(|| says(negative(*wait_ms), "6lowpan: wait_ms must be 0 or more")),
            Self::FastEthernet(path) | Self::Gigabit(path) => says(
                negative(path.switch_us)
                    || negative(path.metres)
                    || path.switches > 1000
                    || path.other_frame > 16_384,
                "ethernet: switch_us and metres must be 0 or more, at most 1000 switches and other frames of 16384 bytes",
            ),
            Self::Wireguard { rate_mbit, delay_ms, quantile } => {
                says(not_positive(*rate_mbit), "wireguard: rate_mbit must be more than 0")
                    .or_else(|| delays_fault("wireguard: delay_ms", delay_ms, *quantile))
            }
            Self::Relayed { via, added_us, each_us, quantile, over } => {
                delays_fault("relayed: added_us", via.added(added_us), *quantile)
                    .or_else(|| says(each_us.is_some_and(negative), "relayed: each_us must be 0 or more"))
                    .or_else(|| {
                        says(
                            !via.carried_by(over),
                            "relayed: over fast-ethernet, gigabit, wireguard or loopback",
                        )
                    })
                    .or_else(|| over.fault())
            }
            Self::Mqtt { broker_ms, topic, over } => {
                says(negative(*broker_ms), "mqtt: broker_ms must be 0 or more")
                    .or_else(|| says(*topic == 0 || *topic > 65_535, "mqtt: a topic has 1 to 65535 bytes"))
                    .or_else(|| says(matches!(**over, Self::Mqtt { .. }), "mqtt: not over mqtt"))
                    .or_else(|| says(matches!(**over, Self::Relayed { .. }), "mqtt: not over relays"))
                    .or_else(|| over.fault())
            }
        }
    }

    /// Bytes of MQTT's envelope around a payload, without the tag.
    #[must_use]
    pub const fn envelope() -> usize {
        COSE
    }

    /// The longest payload in one packet, if bounded.
    #[must_use]
    pub const fn longest(&self) -> Option<usize> {
        match self {
            // An Ethernet payload, record included.
            Self::FastEthernet(_) | Self::Gigabit(_) => Some(1500),
            _ => None,
        }
    }

    /// The relays protect what the device sends plain.
    #[must_use]
    pub const fn protects(&self) -> bool {
        matches!(self, Self::Relayed { .. })
    }

    /// The share of packets that may take longer than [`Bearer::journey`] says: what is beyond the
    /// quantile of each measured delay, and of losses.
    #[must_use]
    pub fn beyond(&self) -> f64 {
        match self {
            Self::Tsch(tsch) if tsch.loss > 0.0 => 1.0 - tsch.quantile,
            Self::Wireguard { quantile, .. } => 1.0 - quantile,
            Self::Relayed { quantile, over, .. } => 1.0 - quantile + over.beyond(),
            Self::Mqtt { over, .. } => 2.0 * over.beyond(),
            _ => 0.0,
        }
    }

    /// The same bearer with the longest known of each delay; none if one has no longest.
    #[must_use]
    pub fn at_worst(&self) -> Option<Self> {
        let ends = |known: &[(f64, f64)]| known.last().is_some_and(|(share, _)| *share >= 1.0);
        let mut worst = self.clone();
        match &mut worst {
            Self::Tsch(tsch) => return (tsch.loss <= 0.0).then_some(worst),
            Self::Wireguard { delay_ms, quantile, .. } => {
                *quantile = 1.0;
                return ends(delay_ms).then_some(worst);
            }
            Self::Relayed { via, added_us, quantile, over, .. } => {
                *quantile = 1.0;
                **over = over.at_worst()?;
                return ends(via.added(added_us)).then_some(worst);
            }
            Self::Mqtt { over, .. } => **over = over.at_worst()?,
            _ => {}
        }
        Some(worst)
    }

    /// The transit of a packet with `bytes` of payload and `security` bytes of header and tag.
    #[must_use]
    pub fn journey(&self, bytes: usize, security: usize) -> Journey {
        match self {
            Self::None | Self::Loopback => Journey::default(),
            Self::Tsch(tsch) => tsch.journey(bytes),
            Self::SixLowpan { wait_ms, hops } => {
                let frames = publish::packet(UDP + bytes + security, false);
                let hops = f64::from(*hops);
                Journey {
                    transmission_ms: frames.air_ms + frames.ack_ms,
                    propagation_ms: 0.0,
                    forwarding_ms: hops * wait_ms + (hops - 1.0) * frames.all_ms(),
                    air_ms: 2.0 * hops * frames.all_ms(),
                }
            }
            Self::FastEthernet(path) => path.journey(bytes + security, 100.0),
            Self::Gigabit(path) => path.journey(bytes + security, 1000.0),
            Self::Wireguard { rate_mbit, delay_ms, quantile } => {
                // Ethernet, VXLAN, UDP, IP, WireGuard, UDP, IP, and preamble, header, FCS and gap
                // of the link.
                let on_wire = (bytes + security + 14 + 8 + 8 + 20 + 32 + 8 + 20 + 38) as f64;
                Journey {
                    transmission_ms: on_wire * 8.0 / rate_mbit / 1000.0,
                    propagation_ms: at_quantile(delay_ms, *quantile),
                    ..Journey::default()
                }
            }
            Self::Relayed { via, added_us, quantile, over, .. } => {
                let between = over.journey(bytes, security + via.octets());
                let added_ms = at_quantile(via.added(added_us), *quantile) / 1000.0;
                // From the device to its relay, and from the other relay: two links of the same speed.
                let links = 2.0 * between.transmission_ms;
                Journey { forwarding_ms: between.forwarding_ms + links + added_ms, ..between }
            }
            Self::Mqtt { broker_ms, topic, over } => {
                let leg = over.journey(publish_bytes(bytes, security, *topic, over), 0);
                Journey {
                    transmission_ms: 2.0 * leg.transmission_ms,
                    propagation_ms: 2.0 * leg.propagation_ms,
                    forwarding_ms: 2.0 * leg.forwarding_ms + broker_ms,
                    air_ms: 2.0 * leg.air_ms,
                }
            }
        }
    }

    /// Better bearers of the same kind, the cheapest first.
    #[must_use]
    pub fn better(&self) -> Vec<Self> {
        match self {
            Self::FastEthernet(path) => vec![Self::Gigabit(*path)],
            Self::Tsch(tsch) => tsch.better().into_iter().map(Self::Tsch).collect(),
            // A radio that is always on.
            Self::SixLowpan { wait_ms, hops } if *wait_ms > 0.0 => {
                vec![Self::SixLowpan { wait_ms: 0.0, hops: *hops }]
            }
            Self::Mqtt { over, .. } | Self::Relayed { over, .. } => {
                let with = |better: Self| {
                    let mut whole = self.clone();
                    if let Self::Mqtt { over, .. } | Self::Relayed { over, .. } = &mut whole {
                        **over = better;
                    }
                    whole
                };
                over.better().into_iter().map(with).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Bytes of a PUBLISH with its transport.
const fn publish_bytes(bytes: usize, security: usize, topic: usize, over: &Bearer) -> usize {
    // TCP and IP with time stamps; without on a radio, where IP is compressed and UDP's 8 are
    // already counted.
    let radio = matches!(over, Bearer::SixLowpan { .. } | Bearer::Tsch(_));
    let transport = if radio { publish::TCP - UDP } else { 52 };
    // Fixed header, topic and its length, and COSE_Encrypt0 around the payload without the tag.
    bytes + security + 3 + 2 + topic + transport + COSE
}

impl Path {
    fn journey(&self, payload: usize, mbit: f64) -> Journey {
        // Preamble 8, header 14, FCS 4, gap 12; a frame has at least 64 bytes.
        let ms = |frame: f64| (frame.max(64.0) + 20.0) * 8.0 / mbit / 1000.0;
        let transmission_ms = ms((payload + 18) as f64);
        let switches = f64::from(self.switches);
        let others =
            if self.other_frame == 0 { 0.0 } else { ms(f64::from(self.other_frame)) * (switches + 1.0) };
        Journey {
            transmission_ms,
            propagation_ms: self.metres * 5e-6,
            forwarding_ms: switches * (transmission_ms + self.switch_us / 1000.0) + others,
            air_ms: 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
