//! Stages of a bearer at which messages wait for each other.

use super::{Bearer, UDP, publish_bytes};
use crate::publish;

/// A stage serves messages in their order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    /// name
    pub(crate) what: &'static str,
    /// time for which the message occupies it, in ms
    pub(crate) occupied_ms: f64,
    /// consecutive links of this speed: a message may meet a longer one before it on each
    pub(crate) links: f64,
    /// the time by which service may stay behind that rate once messages wait, in ms
    pub(crate) behind_ms: f64,
}

/// The device's bearer, as an operator calls it.
const BEARER: &str = "bearer";

impl Stage {
    const fn new(what: &'static str, occupied_ms: f64, links: f64) -> Self {
        Self { what, occupied_ms, links, behind_ms: 0.0 }
    }
}

impl Bearer {
    /// The stages of a packet in their order. Each packet of a bearer has the same number of them.
    pub(crate) fn stages(&self, bytes: usize, security: usize) -> Vec<Stage> {
        match self {
            Self::None | Self::Loopback => Vec::new(),
            // Each hop has its own cells.
            Self::Tsch(tsch) => {
                let hop = |hop| Stage {
                    behind_ms: tsch.behind_ms(hop),
                    ..Stage::new(BEARER, tsch.occupied_ms(bytes, hop), 1.0)
                };
                (0..tsch.hops()).map(hop).collect()
            }
            // The hops of a radio without slots share one medium.
            Self::SixLowpan { hops, .. } => {
                let frames = publish::packet(UDP + bytes + security, false).all_ms();
                vec![Stage::new(BEARER, f64::from(*hops) * frames, 1.0)]
            }
            Self::FastEthernet(path) | Self::Gigabit(path) => {
                let sending = self.journey(bytes, security).transmission_ms;
                vec![Stage::new(BEARER, sending, f64::from(path.switches) + 1.0)]
            }
            Self::Wireguard { .. } => {
                vec![Stage::new(BEARER, self.journey(bytes, security).transmission_ms, 1.0)]
            }
            Self::Relayed { via, added_us, each_us, over, .. } => {
                let mut stages = over.stages(bytes, security + via.octets());
                if let Some(first) = stages.first_mut() {
                    first.links += 2.0;
                }
                let median = via.added(added_us).first().map_or(0.0, |(_, delay)| *delay);
                stages.insert(0, Stage::new("relay", each_us.unwrap_or(median) / 1000.0, 2.0));
                stages
            }
            Self::Mqtt { broker_ms, topic, over } => {
                let mut leg = over.stages(publish_bytes(bytes, security, *topic, over), 0);
                // A radio without slots has one medium for both legs.
                if let (Self::SixLowpan { .. }, Some(medium)) = (&**over, leg.first_mut()) {
                    medium.occupied_ms *= 2.0;
                    if *broker_ms <= 0.0 {
                        return leg;
                    }
                }
                // Without a broker's time both legs are links of one speed.
                if let (Self::FastEthernet(_) | Self::Gigabit(_), Some(links)) = (&**over, leg.first_mut())
                    && *broker_ms <= 0.0
                {
                    links.links *= 2.0;
                    return leg;
                }
                let back = leg.clone();
                leg.push(Stage::new("broker", *broker_ms, 1.0));
                leg.extend(back);
                leg
            }
        }
    }

    /// The share of messages that arrive within a time on the bearer, if losses make it less than
    /// all.
    pub(crate) fn arriving(&self, bytes: usize, within_ms: f64) -> Option<f64> {
        match self {
            Self::Tsch(tsch) => tsch.arriving(bytes, within_ms),
            _ => None,
        }
    }
}
