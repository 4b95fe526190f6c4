//! Bearers: the transit time of a packet.

use serde::{Deserialize, Serialize};

use crate::publish;

/// A network that carries packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Bearer {
    /// none: the deadline is for security alone, as in table I of hiller2018
    None,
    /// IEEE 802.15.4 TSCH
    Tsch {
        /// slots of a slotframe
        slots: u32,
        /// cells on each hop
        #[serde(default = "one")]
        cells: u32,
        /// hops
        #[serde(default = "one")]
        hops: u32,
        /// a slot, in ms
        #[serde(default = "ten")]
        slot_ms: f64,
    },
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

/// Bytes of payload in a TSCH frame with ENC-MIC-32.
const TSCH_PAYLOAD: usize = 65;
/// Air time of a frame and its acknowledgment (table III of sciancalepore2016).
const TSCH_AIR_MS: f64 = crate::timeslot::TS_MAX_TX + crate::timeslot::TS_MAX_ACK;

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
            Self::Tsch { .. } => "tsch".into(),
            Self::SixLowpan { .. } => "6lowpan".into(),
            Self::FastEthernet(_) => "fast-ethernet".into(),
            Self::Gigabit(_) => "gigabit".into(),
            Self::Wireguard { .. } => "wireguard".into(),
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
            Self::None => None,
            Self::Tsch { slots, cells, hops, slot_ms } => {
                let fits = u64::from(*cells) * u64::from(*hops) <= u64::from(*slots);
                says(
                    *slots == 0 || *cells == 0 || *hops == 0 || !fits,
                    "tsch: all hops' cells must fit the slotframe, and there must be one",
                )
                .or_else(|| says(not_positive(*slot_ms), "tsch: slot_ms must be more than 0"))
            }
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
                let rising = delay_ms.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
                let sane = delay_ms.iter().all(|(share, ms)| (0.0..=1.0).contains(share) && !negative(*ms));
                let last = delay_ms.last().map_or(0.0, |(share, _)| *share);
                says(not_positive(*rate_mbit), "wireguard: rate_mbit must be more than 0")
                    .or_else(|| says(delay_ms.is_empty() || !rising || !sane, "wireguard: delay_ms needs pairs [share, ms] with rising shares between 0 and 1 and delays that do not fall"))
                    .or_else(|| says(!(0.0..=1.0).contains(quantile), "wireguard: quantile must be between 0 and 1"))
                    .or_else(|| says(*quantile > last, "wireguard: nothing is known of the delay at this quantile; delay_ms ends before it"))
            }
            Self::Mqtt { broker_ms, topic, over } => {
                says(negative(*broker_ms), "mqtt: broker_ms must be 0 or more")
                    .or_else(|| says(*topic == 0 || *topic > 65_535, "mqtt: a topic has 1 to 65535 bytes"))
                    .or_else(|| says(matches!(**over, Self::Mqtt { .. }), "mqtt: not over mqtt"))
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

    /// The transit of a packet with `bytes` of payload and `security` bytes of header and tag.
    #[must_use]
    pub fn journey(&self, bytes: usize, security: usize) -> Journey {
        match self {
            Self::None => Journey::default(),
            Self::Tsch { slots, cells, hops, slot_ms } => {
                let frames = tsch_frames(bytes);
                let hops = f64::from(*hops);
                // The worst wait, on each hop and for each frame: a whole slotframe.
                let wait = f64::from(*slots) * slot_ms / f64::from(*cells);
                Journey {
                    transmission_ms: slot_ms * frames,
                    propagation_ms: 0.0,
                    forwarding_ms: hops * frames * wait + (hops - 1.0) * frames * slot_ms,
                    air_ms: 2.0 * hops * frames * TSCH_AIR_MS,
                }
            }
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

    /// Time for which a packet occupies the slowest part of the bearer, in ms. Its inverse is the
    /// largest packet rate.
    #[must_use]
    pub fn occupied_ms(&self, bytes: usize, security: usize) -> f64 {
        match self {
            Self::None => 0.0,
            // Each hop has its own cells.
            Self::Tsch { slots, cells, slot_ms, .. } => {
                tsch_frames(bytes) * f64::from(*slots) * slot_ms / f64::from(*cells)
            }
            Self::SixLowpan { hops, .. } => {
                f64::from(*hops) * publish::packet(UDP + bytes + security, false).all_ms()
            }
            Self::FastEthernet(_) | Self::Gigabit(_) | Self::Wireguard { .. } => {
                self.journey(bytes, security).transmission_ms
            }
            Self::Mqtt { topic, over, .. } => {
                // A radio without slots has one medium for both legs.
                let legs = if matches!(**over, Self::SixLowpan { .. }) { 2.0 } else { 1.0 };
                legs * over.occupied_ms(publish_bytes(bytes, security, *topic, over), 0)
            }
        }
    }

    /// The number of consecutive links of one speed. A message may meet a longer one before it on
    /// each.
    #[must_use]
    pub fn links(&self) -> f64 {
        match self {
            // The hops of a radio without slots share one medium.
            Self::None | Self::SixLowpan { .. } | Self::Wireguard { .. } => 1.0,
            Self::Tsch { hops, .. } => f64::from(*hops),
            Self::FastEthernet(path) | Self::Gigabit(path) => f64::from(path.switches) + 1.0,
            Self::Mqtt { over, .. } if matches!(**over, Self::SixLowpan { .. }) => 1.0,
            Self::Mqtt { over, .. } => 2.0 * over.links(),
        }
    }

    /// The next faster bearer of the same kind, if any.
    #[must_use]
    pub fn faster(&self) -> Option<Self> {
        match self {
            Self::FastEthernet(path) => Some(Self::Gigabit(*path)),
            Self::Tsch { slots, cells, hops, slot_ms }
                if u64::from(*cells) * 2 * u64::from(*hops) <= u64::from(*slots) =>
            {
                Some(Self::Tsch { slots: *slots, cells: cells * 2, hops: *hops, slot_ms: *slot_ms })
            }
            Self::Mqtt { broker_ms, topic, over } => {
                Some(Self::Mqtt { broker_ms: *broker_ms, topic: *topic, over: Box::new(over.faster()?) })
            }
            _ => None,
        }
    }
}

/// Frames of a packet on TSCH.
fn tsch_frames(bytes: usize) -> f64 {
    bytes.div_ceil(TSCH_PAYLOAD).max(1) as f64
}

/// Bytes of a PUBLISH with its transport.
const fn publish_bytes(bytes: usize, security: usize, topic: usize, over: &Bearer) -> usize {
    // TCP and IP with time stamps; without on a radio, where IP is compressed and UDP's 8 are
    // already counted.
    let radio = matches!(over, Bearer::SixLowpan { .. } | Bearer::Tsch { .. });
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

/// The delay of a share of packets, interpolated linearly between the known shares.
fn at_quantile(known: &[(f64, f64)], quantile: f64) -> f64 {
    let mut before = known.first().copied().unwrap_or_default();
    for &(share, ms) in known {
        if share >= quantile {
            let span = share - before.0;
            let part = if span > 0.0 { (quantile - before.0).max(0.0) / span } else { 1.0 };
            return before.1 + part * (ms - before.1);
        }
        before = (share, ms);
    }
    before.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_frame_takes_6_72_us() {
        let path = Path { switches: 2, switch_us: 3.0, metres: 100.0, other_frame: 0 };
        let journey = Bearer::FastEthernet(path).journey(20, 13);
        assert!((journey.transmission_ms - 0.00672).abs() < 1e-9);
        assert!((journey.forwarding_ms - 2.0 * 0.00972).abs() < 1e-9);
        assert!((journey.propagation_ms - 0.0005).abs() < 1e-9);
    }

    #[test]
    fn delays_are_interpolated_linearly() {
        let known = [(0.5, 10.0), (0.9, 14.0), (0.999, 40.0)];
        assert!((at_quantile(&known, 0.7) - 12.0).abs() < 1e-9);
        assert_eq!((at_quantile(&known, 0.1), at_quantile(&known, 0.999)), (10.0, 40.0));
    }

    #[test]
    fn impossible_bearers_are_refused() {
        let wan =
            |delay_ms: Vec<(f64, f64)>, quantile| Bearer::Wireguard { rate_mbit: 10.0, delay_ms, quantile };
        assert!(wan(vec![(0.9, 1.0)], 0.999).fault().is_some_and(|why| why.contains("ends before")));
        assert!(wan(vec![(0.9, 5.0), (0.5, 9.0)], 0.5).fault().is_some_and(|why| why.contains("rising")));
        assert!(wan(vec![], 0.5).fault().is_some());
        assert_eq!(wan(vec![(0.5, 5.0), (1.0, 9.0)], 0.999).fault(), None);
        let tsch = Bearer::Tsch { slots: 10, cells: 6, hops: 2, slot_ms: 10.0 };
        assert!(tsch.fault().is_some_and(|why| why.contains("slotframe")));
        let mqtt = |over| Bearer::Mqtt { broker_ms: 0.0, topic: 8, over: Box::new(over) };
        assert!(mqtt(mqtt(Bearer::None)).fault().is_some());
    }

    #[test]
    fn mqtt_on_radio_waits_for_both_receivers() {
        let over = Box::new(Bearer::SixLowpan { wait_ms: 60.0, hops: 1 });
        let journey = Bearer::Mqtt { broker_ms: 1.0, topic: 13, over }.journey(48, 8);
        // A PUBLISH of 128 bytes or more has one more octet of length.
        let leg = publish::frames(13, 48 + 32 + 1, false);
        assert_eq!(leg.count, 2);
        assert!((journey.transmission_ms - 2.0 * leg.all_ms()).abs() < 1e-9);
        assert!((journey.forwarding_ms - 121.0).abs() < 1e-9);
    }

    #[test]
    fn mqtt_on_tsch_counts_all_headers() {
        let over = Bearer::Tsch { slots: 7, cells: 1, hops: 1, slot_ms: 10.0 };
        let mqtt = Bearer::Mqtt { broker_ms: 0.0, topic: 13, over: Box::new(over) };
        // 48 and 8 bytes with 5, 13, 12 and 24 around them: two frames a leg, each a slot after the
        // wait of a slotframe.
        let journey = mqtt.journey(48, 8);
        assert!(
            (journey.transmission_ms - 40.0).abs() < 1e-9 && (journey.forwarding_ms - 280.0).abs() < 1e-9
        );
        assert!((mqtt.occupied_ms(48, 8) - 140.0).abs() < 1e-9);
    }

    #[test]
    fn mqtt_adds_both_legs_and_the_broker() {
        let leg = Bearer::Gigabit(Path::default()).journey(80, 8 + 3 + 2 + 32 + 52 + 24);
        let mqtt =
            Bearer::Mqtt { broker_ms: 0.5, topic: 32, over: Box::new(Bearer::Gigabit(Path::default())) };
        let journey = mqtt.journey(80, 8);
        assert!((journey.transmission_ms - 2.0 * leg.transmission_ms).abs() < 1e-12);
        assert!((journey.forwarding_ms - 0.5).abs() < 1e-12);
    }
}
