//! The way of documents to devices: in waves, with a return when health falls.
//!
//! - here: plans, and settings in waves
//! - `send`: documents on their way, and the wait for reports
//! - `change`: other keys for a group
//! - `revoke`: a device that is lost
//! - `admit`: a new device

mod admit;
mod change;
mod revoke;
mod send;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use antedate_host::fault::{Fault, Faults};
use tokio::time::Instant;

use crate::authority::{Reading, Signing};
use crate::bearer::{Bearers, overlay};
use crate::document::{Body, SealError, Settings};
use crate::engine::{Engine, EngineError};
use crate::home::{Home, Member};
use crate::render::{Difference, differences};
use crate::report::{self, Level, Report};
use crate::subjects::STATUS;
use crate::{now, utc};

/// Seconds without a report after which a device counts as silent. Agents report each minute.
pub const SILENT: u64 = 150;
/// Documents on their way to NATS at a time.
const AT_ONCE: usize = 64;

/// Why a roll-out ended early.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// A file of the operator's directory.
    #[error("{0:#}")]
    Fault(Fault),
    /// Settings that the check refuses.
    #[error(transparent)]
    Check(Faults),
    /// NATS.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A document cannot be made.
    #[error("{device}: {error}")]
    Seal {
        /// The device's name.
        device: String,
        /// Why.
        error: SealError,
    },
    /// The clocks of this machine and of NATS differ.
    #[error("this machine's clock shows {}, and NATS's shows {} or later: correct the one that is wrong, or devices refuse what is signed here", utc(*here), utc(*there))]
    Clock {
        /// This machine's clock, in seconds since 1970.
        here: u64,
        /// NATS's, now or at the newest report.
        there: u64,
    },
    /// Devices are worse than before. The others went back.
    #[error("{} device(s) are worse than before, and {returned} went back to their old settings: {}", bad.len(), bad.join("; "))]
    Returned {
        /// Names and reasons.
        bad: Vec<String>,
        /// How many went back.
        returned: usize,
    },
    /// Others have keys that a lost device knows.
    #[error("{} device(s) keep keys that the lost one knows: {}; set them right and call this again, or revoke them", kept.len(), kept.join("; "))]
    Keeps {
        /// Names and reasons.
        kept: Vec<String>,
    },
    /// Devices have not answered, so that the old key must stay.
    #[error("the old key stays for {} device(s), which do not have the new one yet: {}; call this again when they are back, or revoke them", missing.len(), missing.join("; "))]
    Waits {
        /// Names and reasons.
        missing: Vec<String>,
    },
}

impl From<Fault> for RolloutError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A device whose settings would change.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Its identifier.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its new settings.
    pub settings: Settings,
    /// What differs from the last ones.
    pub differences: Vec<Difference>,
    /// Whether it never had any.
    pub first: bool,
}

/// The devices whose settings would change. `all` lists the others too.
///
/// # Errors
/// When templates cannot be filled.
pub fn plan(home: &Home, all: bool) -> Result<Vec<Planned>, Fault> {
    let mut planned = Vec::new();
    let mut bearers = Bearers::default();
    for (id, member) in home.members() {
        let one = planned_of(home, &mut bearers, id, member)?;
        if all || !one.differences.is_empty() {
            planned.push(one);
        }
    }
    Ok(planned)
}

fn planned_of(home: &Home, bearers: &mut Bearers, id: &str, member: &Member) -> Result<Planned, Fault> {
    let settings = home.wanted(bearers, id)?;
    let before = home.published(id);
    let differences = differences(before.as_ref().unwrap_or(&Settings::default()), &settings);
    let first = before.is_none();
    Ok(Planned { id: id.to_owned(), name: member.name.clone(), settings, differences, first })
}

/// The members whose passes end within so many seconds, with the settings that they have. What was set
/// since is not among them.
#[must_use]
pub fn renewals(home: &Home, within: u64) -> Vec<Planned> {
    let due = home.members().filter(|(_, member)| member.pass_ends < now().saturating_add(within));
    let planned = due.filter_map(|(id, member)| {
        let settings = home.published(id)?;
        Some(Planned {
            id: id.clone(),
            name: member.name.clone(),
            settings,
            differences: Vec::new(),
            first: false,
        })
    });
    planned.collect()
}

/// A believed report, and the time of its arrival at NATS.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The report.
    pub report: Report,
    /// Seconds since 1970 by the server's clock.
    pub time: u64,
}

impl Known {
    /// Whether it is so old that the device counts as silent.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.time + SILENT < now()
    }
}

/// The last reports of all members. Those that are not signed by their device are left out.
///
/// # Errors
/// When NATS does not answer.
pub async fn reports(
    home: &Home,
    engine: &Engine,
    reading: &Reading,
) -> Result<BTreeMap<String, Known>, EngineError> {
    let ids: Vec<&str> = home.devices.keys().map(String::as_str).collect();
    reports_of(home, engine, reading, &ids).await
}

/// The last reports of some members, which are read one by one: that needs no consumer at NATS.
async fn reports_of(
    home: &Home,
    engine: &Engine,
    reading: &Reading,
    ids: &[&str],
) -> Result<BTreeMap<String, Known>, EngineError> {
    let mut known = BTreeMap::new();
    for stored in engine.last_of(&STATUS, ids).await? {
        let keys = home.devices.get(&stored.id).and_then(Member::keys);
        if let Some(report) =
            keys.and_then(|keys| report::open::<Report>(&stored.payload, &keys, reading).ok())
        {
            known.insert(stored.id, Known { report, time: stored.time });
        }
    }
    Ok(known)
}

/// Waves of a roll-out.
#[derive(Debug, Clone, Copy)]
pub struct Waves {
    /// Devices of the first wave.
    pub canaries: usize,
    /// Devices of each further one. 0 for all at once.
    pub size: usize,
    /// The longest time for a wave.
    pub patience: Duration,
}

/// What a roll-out did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Devices with the new settings in force.
    pub applied: usize,
    /// Names of devices that were silent, and find the document when they are back.
    pub silent: Vec<String>,
}

/// All that a roll-out needs.
pub struct Rollout<'a> {
    /// The operator's directory.
    pub home: &'a mut Home,
    /// NATS.
    pub engine: &'a Engine,
    /// The key that makes policy.
    pub signing: &'a Signing,
    /// The key that opens reports.
    pub reading: &'a Reading,
    /// Finds faults of settings before a device does: whichever call sends them.
    pub check: &'a dyn Fn(&Planned) -> Result<(), Faults>,
    /// Hears of each step.
    pub say: &'a mut dyn FnMut(String),
}

impl std::fmt::Debug for Rollout<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rollout")
    }
}

/// The next wave, and the others. The ends of an overlay whose keys change are in one wave: one alone has
/// no session until the other one has its key, and would count as worse.
fn next_wave(home: &Home, mut planned: Vec<Planned>, size: usize) -> (Vec<Planned>, Vec<Planned>) {
    let at = if size == 0 { planned.len() } else { size.min(planned.len()) };
    let rest = planned.split_off(at);
    let changed = |one: &Planned| {
        let changes = one.differences.iter().any(|found| overlay::is_key(&found.file));
        let overlay = home.devices.get(&one.id).map(|member| member.overlay.clone());
        overlay.filter(|name| changes && !name.is_empty())
    };
    let overlays: BTreeSet<String> = planned.iter().filter_map(changed).collect();
    let (with, others): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|one| changed(one).is_some_and(|name| overlays.contains(&name)));
    planned.extend(with);
    (planned, others)
}

/// Judges settings before anything of them is sent.
fn checked(check: &dyn Fn(&Planned) -> Result<(), Faults>, planned: &[Planned]) -> Result<(), RolloutError> {
    planned.iter().try_for_each(check).map_err(RolloutError::Check)
}

type Batch = Vec<(String, Body)>;

impl Rollout<'_> {
    fn name(&self, id: &str) -> String {
        self.home.devices.get(id).map_or_else(|| id.to_owned(), |member| member.name.clone())
    }

    fn names(&self, of: &BTreeMap<String, String>) -> Vec<String> {
        of.iter().map(|(id, why)| format!("{} {why}", self.name(id))).collect()
    }

    /// Brings settings to devices in waves. When a device gets worse, all go back.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn apply(&mut self, mut planned: Vec<Planned>, waves: Waves) -> Result<Done, RolloutError> {
        let known = reports(self.home, self.engine, self.reading).await?;
        let silent = |id: &str| known.get(id).is_none_or(Known::is_silent);
        // Canaries must be able to sing.
        planned.sort_by_key(|one| silent(&one.id));
        let mut done = Done::default();
        let mut before: Vec<(String, Option<Settings>)> = Vec::new();
        let mut rest = planned;
        let mut size = if waves.canaries == 0 { waves.size } else { waves.canaries };
        while !rest.is_empty() {
            let (wave, others) = next_wave(self.home, rest, size);
            (rest, size) = (others, waves.size);
            checked(self.check, &wave)?;
            before.extend(wave.iter().map(|one| (one.id.clone(), self.home.published(&one.id))));
            let batch =
                wave.iter().map(|one| (one.id.clone(), Body::Settings(one.settings.clone()))).collect();
            let begin = Instant::now();
            let sent = self.send(batch, &known).await?;
            // What was told is known, also when this call is interrupted while it waits.
            for one in &wave {
                self.home.set_published(&one.id, &one.settings)?;
            }
            let mut reached = sent.ids();
            reached.retain(|id| !silent(id));
            let levels: BTreeMap<&str, Level> =
                known.iter().map(|(id, known)| (id.as_str(), known.report.health.level)).collect();
            let verdict = |id: &str, report: &Report| {
                // A gateway starts after its first files, and is compared from then on.
                let is_first = wave.iter().any(|one| one.id == id && one.first);
                let level =
                    if is_first { Level::Absent } else { levels.get(id).copied().unwrap_or_default() };
                Verdict::of_settings(report, sent.version(id), level)
            };
            let bad = self.wait(&sent, &reached, waves.patience, verdict).await?;
            if !bad.is_empty() {
                let returned = self.return_all(before, &known).await?;
                return Err(RolloutError::Returned { bad: self.names(&bad), returned });
            }
            done.applied += reached.len();
            done.silent.extend(wave.iter().filter(|one| silent(&one.id)).map(|one| one.name.clone()));
            (self.say)(format!(
                "{} of {} device(s) have their new settings, {:.1} s",
                reached.len(),
                wave.len(),
                begin.elapsed().as_secs_f64()
            ));
        }
        Ok(done)
    }

    /// Gives devices back what they had.
    async fn return_all(
        &mut self,
        before: Vec<(String, Option<Settings>)>,
        known: &BTreeMap<String, Known>,
    ) -> Result<usize, RolloutError> {
        let mut batch = Batch::new();
        for (id, settings) in before {
            if let Some(settings) = settings {
                self.home.set_published(&id, &settings)?;
                batch.push((id, Body::Settings(settings)));
            } else {
                self.home.forget_published(&id)?;
            }
        }
        Ok(self.send(batch, known).await?.ids().len())
    }
}

/// What a report says of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it shall be.
    Good,
    /// It is on its way.
    NotYet(String),
    /// It will not get there.
    Bad(String),
}

impl Verdict {
    /// Whether settings of a version are in force, and the health is not worse than `before`.
    #[must_use]
    pub fn of_settings(report: &Report, version: u64, before: Level) -> Self {
        if report.failed == version {
            return Self::Bad(format!("refuses its settings: {}", report.refused));
        }
        if report.settings < version {
            let why = &report.refused;
            let what = if why.is_empty() { "has its old settings".into() } else { format!("says: {why}") };
            return Self::NotYet(what);
        }
        if report.health.level > before {
            return Self::NotYet(format!("is {}: {}", report.health.level.name(), report.health.what));
        }
        Self::Good
    }
}

#[cfg(test)]
mod tests {
    use super::send::seal_all;
    use super::*;
    use crate::document::MAX_LEN;
    use crate::identity::{Identity, Seed};
    use crate::report::Health;

    #[test]
    fn long_document_keeps_no_other_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let mut home = Home::create(&directory.path().join("fleet"), "plant", &[], 1, "").unwrap();
        let signing = home.signing(None).unwrap();
        let mut batch = Batch::new();
        for (octet, name, length) in [(1, "a", MAX_LEN), (2, "b", 5)] {
            let keys = Identity::of(Seed::of([octet; 32])).public();
            home.devices.insert(keys.id(), Member::new(name, "gateway", "line4", keys));
            let files = BTreeMap::from([("file".to_owned(), "x".repeat(length))]);
            batch.push((keys.id(), Body::Settings(Settings { files, ..Settings::default() })));
        }
        let mut faults = Vec::new();
        let known = BTreeMap::new();
        let sealed = seal_all(&mut home, &signing, batch.clone(), &known, Some(&mut faults)).unwrap();
        assert!(sealed.len() == 1 && home.devices[&sealed[0].id].name == "b");
        assert!(faults.len() == 1 && faults[0].starts_with("a: a document of"), "{faults:?}");
        let error = seal_all(&mut home, &signing, batch, &known, None).unwrap_err();
        assert!(matches!(error, RolloutError::Seal { .. }), "{error}");
        let error = RolloutError::Keeps { kept: faults }.to_string();
        assert!(error.contains("1 device(s) keep keys") && error.contains("a: "), "{error}");
    }

    fn planned(home: &mut Home, name: &str, octet: u8, overlay: &str, files: &[&str]) -> Planned {
        let keys = Identity::of(Seed::of([octet; 32])).public();
        let mut member = Member::new(name, "gateway", "", keys);
        overlay.clone_into(&mut member.overlay);
        home.devices.insert(keys.id(), member);
        let settings = Settings {
            files: files.iter().map(|file| ((*file).to_owned(), name.to_owned())).collect(),
            ..Settings::default()
        };
        let differences = differences(&Settings::default(), &settings);
        Planned { id: keys.id(), name: name.to_owned(), settings, differences, first: false }
    }

    #[test]
    fn ends_whose_keys_change_are_in_one_wave() {
        let directory = tempfile::tempdir().unwrap();
        let mut home = Home::create(&directory.path().join("fleet"), "plant", &[], 1, "").unwrap();
        let all = vec![
            planned(&mut home, "north", 1, "wan", &["gateway.toml", "psk-hub"]),
            planned(&mut home, "alone", 2, "", &["gateway.toml", "psk-x"]),
            planned(&mut home, "text", 3, "wan", &["gateway.toml"]),
            planned(&mut home, "other", 4, "lan", &["psk-y"]),
            planned(&mut home, "hub", 5, "wan", &["gateway.toml", "psk-north"]),
        ];
        let names = |of: &[Planned]| of.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let (wave, rest) = next_wave(&home, all, 1);
        assert_eq!(
            (names(&wave), names(&rest)),
            (vec!["north".into(), "hub".into()], vec!["alone".into(), "text".into(), "other".into()])
        );
        // A template alone has its canary.
        let (wave, rest) = next_wave(&home, rest.into_iter().rev().collect(), 2);
        assert_eq!((names(&wave), names(&rest)), (vec!["other".into(), "text".into()], vec!["alone".into()]));
        assert_eq!(next_wave(&home, wave, 0).0.len(), 2);
    }

    #[test]
    fn refused_settings_are_not_sent() {
        let directory = tempfile::tempdir().unwrap();
        let mut home = Home::create(&directory.path().join("fleet"), "plant", &[], 1, "").unwrap();
        let all = [planned(&mut home, "north", 1, "", &["x"]), planned(&mut home, "south", 2, "", &["x"])];
        let check = |one: &Planned| {
            if one.name == "north" {
                Ok(())
            } else {
                Err(Fault::of_file(one.name.as_ref(), "is bad", "mend it").into())
            }
        };
        checked(&check, &all[..1]).unwrap();
        let error = checked(&check, &all).unwrap_err();
        assert!(matches!(&error, RolloutError::Check(faults) if faults.len() == 1), "{error}");
        assert!(error.to_string().contains("south: is bad"), "{error}");
    }

    #[test]
    fn health_decides_over_settings() {
        let report = |settings, failed, level| Report {
            settings,
            failed,
            health: Health { level, ..Health::default() },
            ..Report::default()
        };
        let of = |report: Report, before| Verdict::of_settings(&report, 5, before);
        assert_eq!(of(report(5, 0, Level::Ok), Level::Ok), Verdict::Good);
        assert_eq!(of(report(6, 0, Level::Warning), Level::Warning), Verdict::Good);
        assert!(matches!(of(report(4, 0, Level::Ok), Level::Ok), Verdict::NotYet(_)));
        assert!(matches!(of(report(4, 5, Level::Ok), Level::Ok), Verdict::Bad(_)));
        // In force, and nothing passes any more.
        assert!(matches!(of(report(5, 0, Level::Critical), Level::Ok), Verdict::NotYet(_)));
        // It was as bad before.
        assert_eq!(of(report(5, 0, Level::Critical), Level::Critical), Verdict::Good);
    }
}
