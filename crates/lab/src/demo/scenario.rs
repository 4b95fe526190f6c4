//! The faults of `--faults`.

use super::OptionError;
use serde::{Deserialize, Serialize};

use crate::emulator::fault::Fault;

/// A fault of the plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", untagged)]
pub enum Scenario {
    /// A fault of a machine or cable.
    Plant(Incident),
    /// A fault of single frames on the wire.
    Wire(Fault),
}

/// Incidents of gateways and cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Incident {
    /// SIGKILL and restart of gateway A.
    KillA,
    /// SIGKILL and restart of gateway B.
    KillB,
    /// The wire drops everything for a while; all links stay up.
    Cut,
    /// Gateway A's uplink loses its link for a while.
    Unplug,
}

impl Incident {
    /// All incidents.
    pub const ALL: [Self; 4] = [Self::KillA, Self::KillB, Self::Cut, Self::Unplug];
}

impl Scenario {
    /// All scenarios, frame faults first.
    pub fn all() -> impl Iterator<Item = Self> {
        Fault::ALL.into_iter().map(Self::Wire).chain(Incident::ALL.into_iter().map(Self::Plant))
    }

    /// Name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wire(fault) => fault.name(),
            Self::Plant(Incident::KillA) => "kill-a",
            Self::Plant(Incident::KillB) => "kill-b",
            Self::Plant(Incident::Cut) => "cut",
            Self::Plant(Incident::Unplug) => "unplug",
        }
    }

    /// Description for the help text.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Wire(Fault::Lose) => "frames lost",
            Self::Wire(Fault::Duplicate) => "frames duplicated",
            Self::Wire(Fault::Reorder) => "frames overtaken by their successors",
            Self::Wire(Fault::Corrupt) => "a bit of the payload flipped",
            Self::Wire(Fault::CorruptHeader) => "a bit of the addresses or the SecTAG flipped",
            Self::Wire(Fault::Truncate) => "frames cut short",
            Self::Wire(Fault::Delay) => "frames delayed by 0.4 cycles, in order",
            Self::Wire(Fault::Replay) => "frames replayed from a recording",
            Self::Wire(Fault::Inject) => "forged Profinet frames in plaintext",
            Self::Wire(Fault::ForeignKey) => "forged frames sealed with a foreign key",
            Self::Wire(Fault::ForeignChannel) => "forged frames on an unknown secure channel",
            Self::Plant(Incident::KillA) => "gateway A killed and restarted",
            Self::Plant(Incident::KillB) => "gateway B killed and restarted",
            Self::Plant(Incident::Cut) => "the wire cut and healed",
            Self::Plant(Incident::Unplug) => "gateway A's uplink unplugged and plugged in",
        }
    }

    /// Parses `none`, `all`, or names separated by commas. `kill` selects both gateways.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, OptionError> {
        let mut scenarios = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "none" => {}
                "all" => scenarios.extend(Self::all()),
                "kill" => scenarios.extend([Self::Plant(Incident::KillA), Self::Plant(Incident::KillB)]),
                name => {
                    scenarios.push(Self::all().find(|scenario| scenario.name() == name).ok_or_else(|| {
                        let names: Vec<_> = Self::all().map(Self::name).collect();
                        OptionError(format!(
                            "no fault is called `{name}`: there are none, all, kill, {}",
                            names.join(", ")
                        ))
                    })?)
                }
            }
        }
        let mut once = Vec::new();
        for scenario in scenarios {
            if !once.contains(&scenario) {
                once.push(scenario);
            }
        }
        Ok(once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for scenario in Scenario::all() {
            assert_eq!(Scenario::parse_list(scenario.name()), Ok(vec![scenario]));
            assert_eq!(serde_json::to_string(&scenario).unwrap(), format!("\"{}\"", scenario.name()));
        }
    }

    #[test]
    fn fault_lists_are_deduplicated() {
        assert_eq!(Scenario::parse_list("none"), Ok(vec![]));
        assert_eq!(Scenario::parse_list("all,lose").unwrap().len(), 15);
        assert_eq!(Scenario::parse_list("kill").unwrap().len(), 2);
        assert!(Scenario::parse_list("lose,loose").unwrap_err().0.contains("`loose`"));
    }
}
