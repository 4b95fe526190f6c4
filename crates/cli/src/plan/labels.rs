//! The origin of the planner's numbers: executed on this machine, counted on an emulated one, or
//! modelled.

use std::collections::BTreeMap;

use antedate_plan::device::{self, Device};
use antedate_plan::strategy::Strategy;
use serde::Serialize;

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// measured on a real machine, by `--calibrate`
    Executed,
    /// counted on an emulated CPU
    Emulated,
    /// calculated, or from a datasheet or a paper
    Modelled,
}

impl Origin {
    const fn name(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Emulated => "emulated",
            Self::Modelled => "modelled",
        }
    }

    /// Of a device's times of ciphers: a device that is not built in comes from a platform file.
    pub(super) fn of(device: &Device) -> Self {
        // A platform file may have the name of a built-in device.
        let built_in = device::find(&device.name).is_some_and(|own| own.about == device.about);
        match built_in {
            false => Self::Executed,
            true if device.about.ends_with("modelled") => Self::Modelled,
            true => Self::Emulated,
        }
    }
}

/// An answer with the origin of each of its numbers, by their names.
#[derive(Serialize)]
pub(super) struct Labelled<'a, T> {
    #[serde(flatten)]
    pub(super) answer: &'a T,
    pub(super) origins: BTreeMap<&'static str, Origin>,
}

/// The origins of an answer on messages, with those of the sender's and the receiver's ciphers.
pub(super) fn of_messages(sender: Origin, receiver: Origin) -> BTreeMap<&'static str, Origin> {
    let mut origins: BTreeMap<_, _> =
        [("preparation_ms", sender), ("online_ms", sender), ("receiving_ms", receiver)].into();
    for name in MODELLED {
        origins.insert(name, Origin::Modelled);
    }
    origins
}

/// Calculated from the others and from the bearer.
const MODELLED: [&str; 13] = [
    "bearer_load",
    "blocking_ms",
    "forwarding_ms",
    "joules_a_day",
    "latency_ms",
    "load",
    "margin_ms",
    "memory",
    "meets",
    "propagation_ms",
    "queueing_ms",
    "schedule",
    "transmission_ms",
];

/// The lines below a table of messages.
pub(super) fn say_messages(device: &Device, receiver: Option<&Device>) -> String {
    let receiver = receiver.unwrap_or(device);
    format!(
        "{}: before and sealing, on {}\n{}: opening, on {}\nmodelled: all other numbers\n",
        Origin::of(device).name(),
        device.about,
        Origin::of(receiver).name(),
        receiver.about
    )
}

/// The origin of a slot's security operations. An engine's times are the paper's.
pub(super) const fn of_operations(strategy: Strategy) -> Origin {
    match strategy {
        Strategy::Software => Origin::Emulated,
        Strategy::Hybrid | Strategy::Hardware => Origin::Modelled,
    }
}

/// The origins of an answer on TSCH.
pub(super) fn of_slots(strategy: Strategy) -> BTreeMap<&'static str, Origin> {
    let modelled = ["flows", "joules_a_day", "parts", "sleep_joules_a_day", "slot", "standard"];
    let mut origins: BTreeMap<_, _> = modelled.map(|name| (name, Origin::Modelled)).into();
    origins.insert("operations", of_operations(strategy));
    origins
}

/// The lines below an answer on TSCH.
pub(super) fn say_slots(strategy: Strategy) -> String {
    let of = of_operations(strategy).name();
    let how = match strategy {
        Strategy::Software => "counted on an emulated mote",
        Strategy::Hybrid | Strategy::Hardware => "engine with the times of sciancalepore2016",
    };
    format!(
        "{of}: what security takes ({how})\nmodelled: all other numbers, by equations 1 and 2 and datasheets\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_tell_their_origin() {
        let origins: Vec<_> = device::all().iter().map(Origin::of).collect();
        assert_eq!(origins, [Origin::Emulated, Origin::Modelled, Origin::Emulated]);
        let calibrated = Device { name: "this-machine".into(), ..device::all().remove(0) };
        assert_eq!(Origin::of(&calibrated), Origin::Executed);
    }

    #[test]
    fn labels_follow_the_answer() {
        #[derive(Serialize)]
        struct Answer {
            device: &'static str,
        }
        let origins = of_messages(Origin::Executed, Origin::Emulated);
        let labelled = Labelled { answer: &Answer { device: "x" }, origins };
        let text = serde_json::to_string(&labelled).expect("JSON");
        assert!(text.starts_with("{\"device\""), "{text}");
        assert!(
            text.contains("\"online_ms\":\"executed\"") && text.contains("\"load\":\"modelled\""),
            "{text}"
        );
    }
}
