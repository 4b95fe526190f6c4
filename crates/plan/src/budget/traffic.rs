//! The load of a device's messages on the stages of their way, and how long they wait there for
//! each other.
//!
//! A message reaches a stage within a jitter after its release: the response of its sealing, and all
//! that it may have waited or been delayed on earlier stages. So each stage is examined as the first
//! one is ([`queue`]).

use super::sealing::Sealing;
use super::{Message, RECORD, StageLoad};
use crate::bearer::{Bearer, Journey, Stage};
use crate::queue::{self, Class};

/// Bytes that the device's protection adds to a payload.
pub(super) fn security(bearer: &Bearer, sealing: &Sealing) -> usize {
    let Some(cipher) = sealing.cipher else { return 0 };
    // MQTT has an envelope instead of a record.
    let record = if matches!(bearer, Bearer::Mqtt { .. }) { 0 } else { RECORD };
    record + cipher.tag()
}

/// All messages on all stages.
pub(super) struct Traffic<'a> {
    messages: &'a [Message],
    /// the stages of each message, the last one its receiver's opening
    stages: Vec<Vec<Stage>>,
    /// delays that vary, so that messages come in bursts behind them, in ms
    varying_ms: Vec<f64>,
}

/// The waits of a message, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waits {
    /// on the bearer, at relays and at a broker
    pub(super) bearer_ms: f64,
    /// at the receiver
    pub(super) receiver_ms: f64,
    /// the first stage that is overloaded
    pub(super) overloaded: Option<&'static str>,
}

/// The stage at which a receiver opens messages.
const RECEIVER: &str = "receiver";

impl<'a> Traffic<'a> {
    pub(super) fn new(bearer: &Bearer, messages: &'a [Message], sealings: &[Sealing]) -> Self {
        let stages = |(message, sealing): (&Message, &Sealing)| {
            let mut stages = bearer.stages(message.size, security(bearer, sealing));
            let opening = sealing.receiving;
            stages.push(Stage { what: RECEIVER, occupied_ms: opening, links: 1.0, behind_ms: 0.0 });
            stages
        };
        let varying = |(message, sealing): (&Message, &Sealing)| {
            let Journey { propagation_ms, forwarding_ms, .. } =
                bearer.journey(message.size, security(bearer, sealing));
            propagation_ms + forwarding_ms
        };
        Self {
            messages,
            stages: messages.iter().zip(sealings).map(stages).collect(),
            varying_ms: messages.iter().zip(sealings).map(varying).collect(),
        }
    }

    fn of_stage(&self, at: usize) -> impl Iterator<Item = &Stage> {
        self.stages.iter().filter_map(move |stages| stages.get(at))
    }

    /// The load of each stage. None carries more than 1.
    pub(super) fn loads(&self) -> Vec<StageLoad> {
        let load = |at: usize| {
            let loads = self.of_stage(at).zip(self.messages);
            loads.map(|(stage, message)| stage.occupied_ms / message.period_ms).sum()
        };
        let names = self.stages.first().into_iter().flatten();
        names.enumerate().map(|(at, stage)| StageLoad { stage: stage.what, load: load(at) }).collect()
    }

    /// The waits of each message, which reaches the first stage within its jitter.
    pub(super) fn waits(&self, jitters_ms: impl Iterator<Item = f64>) -> Vec<Waits> {
        let mut jitters: Vec<f64> = jitters_ms.collect();
        let mut waits = vec![Waits::default(); self.messages.len()];
        let stages = self.stages.first().map_or(0, Vec::len);
        for at in 0..stages {
            let class = |((stage, message), jitter_ms): ((&Stage, &Message), &f64)| Class {
                period_ms: message.period_ms,
                jitter_ms: *jitter_ms,
                occupied_ms: stage.occupied_ms,
            };
            let classes: Vec<_> = self.of_stage(at).zip(self.messages).zip(&jitters).map(class).collect();
            let stay = queue::longest_stay(&classes);
            let longest = classes.iter().map(|class| class.occupied_ms).fold(0.0, f64::max);
            for (of, stages) in self.stages.iter().enumerate() {
                let (Some(stage), Some(waits), Some(jitter)) =
                    (stages.get(at), waits.get_mut(of), jitters.get_mut(of))
                else {
                    continue;
                };
                let mut wait = queue::wait_ms(stay, longest, stage.occupied_ms, stage.links);
                if wait > 0.0 {
                    wait += stage.behind_ms;
                }
                if wait.is_infinite() && jitter.is_finite() {
                    waits.overloaded.get_or_insert(stage.what);
                }
                if stage.what == RECEIVER {
                    waits.receiver_ms += wait;
                } else {
                    waits.bearer_ms += wait;
                }
                *jitter += wait;
                // All varying delay may lie before the second stage.
                if at == 0 {
                    *jitter += self.varying_ms.get(of).copied().unwrap_or_default();
                }
            }
        }
        waits
    }
}
