//! The way of documents to devices: in waves, with a return when health falls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use antedate_host::fault::Fault;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use crate::authority::{Reading, Signing};
use crate::document::{Body, CLOCKS_DIFFER, Document, SealError, Settings, VALID, Welcome};
use crate::engine::{Engine, EngineError};
use crate::enrol::Request;
use crate::home::{Home, Member};
use crate::identity::is_id;
use crate::login;
use crate::now;
use crate::render::{Difference, differences};
use crate::report::{self, Level, Report};
use crate::subjects::{DOCUMENTS, REQUESTS, STATUS, WELCOMES};

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
    /// Devices are worse than before. The others went back.
    #[error("{} device(s) are worse than before, and {returned} went back to their old settings: {}", bad.len(), bad.join("; "))]
    Returned {
        /// Names and reasons.
        bad: Vec<String>,
        /// How many went back.
        returned: usize,
    },
    /// Devices have not answered, so that the old key must stay.
    #[error("the old key stays, because {} device(s) do not have the new one yet: {}; call this again when they are back, or revoke them", missing.len(), missing.join("; "))]
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
    for (id, member) in home.members() {
        let settings = home.wanted(id)?;
        let before = home.published(id);
        let differences = differences(before.as_ref().unwrap_or(&Settings::default()), &settings);
        if all || !differences.is_empty() {
            let first = before.is_none();
            planned.push(Planned { id: id.clone(), name: member.name.clone(), settings, differences, first });
        }
    }
    Ok(planned)
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
    let mut known = BTreeMap::new();
    for stored in engine.all(&STATUS, false).await? {
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
    /// Hears of each step.
    pub say: &'a mut dyn FnMut(String),
}

impl std::fmt::Debug for Rollout<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rollout")
    }
}

type Versions = BTreeMap<String, u64>;
type Batch = Vec<(String, Body)>;

impl Rollout<'_> {
    /// Signs documents with versions above all that are known, and publishes them.
    async fn send(
        &mut self,
        batch: Batch,
        known: &BTreeMap<String, Known>,
    ) -> Result<Versions, RolloutError> {
        let mut versions = Versions::new();
        let mut sealed = Vec::new();
        let time = now();
        for (id, body) in batch {
            let Some(member) = self.home.devices.get_mut(&id) else { continue };
            let Some(keys) = member.keys() else { continue };
            // After a restored backup, the device knows a newer version than this directory.
            let reported = known.get(&id).map_or(0, |known| known.report.settings.max(known.report.failed));
            member.version = member.version.max(reported) + 1;
            let document = Document {
                device: id.clone(),
                version: member.version,
                not_before: time.saturating_sub(CLOCKS_DIFFER),
                expires: time + VALID,
                body,
            };
            let message = document.seal(self.signing, &keys);
            let message =
                message.map_err(|error| RolloutError::Seal { device: member.name.clone(), error })?;
            versions.insert(id.clone(), member.version);
            sealed.push((id, message));
        }
        // Before they are used, so that no version comes twice.
        self.home.save()?;
        let engine = self.engine;
        let puts =
            sealed.into_iter().map(|(id, message)| async move { engine.put(&DOCUMENTS, &id, message).await });
        let mut puts = stream::iter(puts).buffer_unordered(AT_ONCE);
        while let Some(put) = puts.next().await {
            put?;
        }
        Ok(versions)
    }

    /// Waits until each device is as `verdict` wants it. Returns those that are not, with reasons.
    async fn wait(
        &self,
        ids: &BTreeSet<String>,
        patience: Duration,
        verdict: impl Fn(&str, &Report) -> Verdict,
    ) -> Result<BTreeMap<String, String>, RolloutError> {
        let mut open: BTreeMap<String, String> =
            ids.iter().map(|id| (id.clone(), "has not answered".to_owned())).collect();
        let mut bad = BTreeMap::new();
        let mut heard = self.engine.hear(STATUS.subject("*")).await?;
        let until = Instant::now() + patience;
        let mut judge = |id: &str, report: &Report, open: &mut BTreeMap<String, String>| {
            if !open.contains_key(id) {
                return;
            }
            match verdict(id, report) {
                Verdict::Good => drop(open.remove(id)),
                Verdict::NotYet(why) => drop(open.insert(id.to_owned(), why)),
                Verdict::Bad(why) => {
                    open.remove(id);
                    bad.insert(id.to_owned(), why);
                }
            }
        };
        // What was reported before this began to listen.
        let mut look = true;
        while !open.is_empty() && Instant::now() < until {
            if look {
                for (id, known) in reports(self.home, self.engine, self.reading).await? {
                    judge(&id, &known.report, &mut open);
                }
                look = false;
                continue;
            }
            match timeout(Duration::from_secs(3), heard.next()).await {
                Ok(Some(message)) => {
                    let Some(id) = STATUS.id(message.subject.as_str()) else { continue };
                    let keys = self.home.devices.get(id).and_then(Member::keys);
                    let report =
                        keys.map(|keys| report::open::<Report>(&message.payload, &keys, self.reading));
                    if let Some(Ok(report)) = report {
                        judge(id, &report, &mut open);
                    }
                }
                Ok(None) => sleep(Duration::from_secs(1)).await,
                Err(_) => look = true,
            }
        }
        bad.append(&mut open);
        Ok(bad)
    }

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
        let mut rest = &planned[..];
        let mut size = if waves.canaries == 0 { waves.size } else { waves.canaries };
        while !rest.is_empty() {
            let at = if size == 0 { rest.len() } else { size.min(rest.len()) };
            let (wave, others) = rest.split_at(at);
            (rest, size) = (others, waves.size);
            before.extend(wave.iter().map(|one| (one.id.clone(), self.home.published(&one.id))));
            let batch =
                wave.iter().map(|one| (one.id.clone(), Body::Settings(one.settings.clone()))).collect();
            let begin = Instant::now();
            let versions = self.send(batch, &known).await?;
            let reached: BTreeSet<String> = versions.keys().filter(|id| !silent(id)).cloned().collect();
            let levels: BTreeMap<&str, Level> =
                known.iter().map(|(id, known)| (id.as_str(), known.report.health.level)).collect();
            let verdict = |id: &str, report: &Report| {
                let version = versions.get(id).copied().unwrap_or_default();
                // A gateway starts after its first files, and is compared from then on.
                let is_first = wave.iter().any(|one| one.id == id && one.first);
                let level =
                    if is_first { Level::Absent } else { levels.get(id).copied().unwrap_or_default() };
                Verdict::of_settings(report, version, level)
            };
            let bad = self.wait(&reached, waves.patience, verdict).await?;
            if !bad.is_empty() {
                let returned = self.return_all(before, &known).await?;
                return Err(RolloutError::Returned { bad: self.names(&bad), returned });
            }
            for one in wave {
                self.home.set_published(&one.id, &one.settings)?;
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
            }
        }
        Ok(self.send(batch, known).await?.len())
    }

    /// The members of a cell with what they shall have.
    fn of_cell(&self, cell: &str) -> Result<Vec<Planned>, RolloutError> {
        let mut planned = plan(self.home, true)?;
        planned.retain(|one| self.home.devices.get(&one.id).is_some_and(|member| member.cell == cell));
        Ok(planned)
    }

    /// Changes the CAK of a cell: first all have both, then the old one goes.
    ///
    /// # Errors
    /// [`RolloutError::Waits`] if a member has not got the new one. Nothing is lost then, and the
    /// next call goes on.
    pub async fn rotate(&mut self, cell: &str, patience: Duration) -> Result<usize, RolloutError> {
        let Some(mut keys) = self.home.cell(cell)? else { return Ok(0) };
        keys.begin(now()).map_err(|error| {
            Fault::of_file(self.home.directory(), error.to_string(), "no keys can be made on this system")
        })?;
        self.home.set_cell(cell, &keys)?;
        let ckn = keys.preferred().map(|key| key.ckn.clone()).unwrap_or_default();
        let members = self.step(cell, patience, &ckn).await?;
        (self.say)(format!("{members} device(s) have the new CAK beside the old one"));
        keys.complete();
        self.home.set_cell(cell, &keys)?;
        let members = self.step(cell, patience, &ckn).await?;
        (self.say)(format!("{members} device(s) have the new CAK alone"));
        Ok(members)
    }

    /// One step of a change: all members of the cell at once. Gateways must carry with the new key.
    async fn step(&mut self, cell: &str, patience: Duration, ckn: &str) -> Result<usize, RolloutError> {
        let known = reports(self.home, self.engine, self.reading).await?;
        let planned = self.of_cell(cell)?;
        let batch =
            planned.iter().map(|one| (one.id.clone(), Body::Settings(one.settings.clone()))).collect();
        let versions = self.send(batch, &known).await?;
        let ids: BTreeSet<String> = versions.keys().cloned().collect();
        let verdict = |id: &str, report: &Report| {
            let version = versions.get(id).copied().unwrap_or_default();
            // With gateways that run, the key must be in use. Others have it in their files.
            match Verdict::of_settings(report, version, Level::Absent) {
                Verdict::Good if !report.health.ckn.is_empty() && report.health.ckn != ckn => {
                    Verdict::NotYet("has the new CAK, and another one carries".into())
                }
                other => other,
            }
        };
        let missing = self.wait(&ids, patience, verdict).await?;
        for one in &planned {
            self.home.set_published(&one.id, &one.settings)?;
        }
        if missing.is_empty() {
            Ok(ids.len())
        } else {
            Err(RolloutError::Waits { missing: self.names(&missing) })
        }
    }

    /// Puts a device out: it is told to forget its keys, its pass becomes void, and its cell gets
    /// another CAK at once.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn revoke(&mut self, id: &str, patience: Duration) -> Result<(), RolloutError> {
        let begin = Instant::now();
        let known = reports(self.home, self.engine, self.reading).await?;
        let Some(member) = self.home.devices.get_mut(id) else { return Ok(()) };
        let cell = member.cell.clone();
        member.revoked = now();
        self.home.save()?;
        let versions = self.send(vec![(id.to_owned(), Body::Revocation)], &known).await?;
        // First the cell: a stolen device obeys nobody.
        if let Some(mut keys) = self.home.cell(&cell)? {
            keys.replace(now()).map_err(|error| {
                Fault::of_file(self.home.directory(), error.to_string(), "no keys can be made on this system")
            })?;
            self.home.set_cell(&cell, &keys)?;
            let known = reports(self.home, self.engine, self.reading).await?;
            let planned = self.of_cell(&cell)?;
            let batch =
                planned.iter().map(|one| (one.id.clone(), Body::Settings(one.settings.clone()))).collect();
            let others = self.send(batch, &known).await?;
            for one in &planned {
                self.home.set_published(&one.id, &one.settings)?;
            }
            let ids: BTreeSet<String> = others.keys().cloned().collect();
            let verdict = |id: &str, report: &Report| {
                Verdict::of_settings(report, others.get(id).copied().unwrap_or_default(), Level::Absent)
            };
            let missing = self.wait(&ids, patience, verdict).await?;
            (self.say)(format!(
                "{} of {} other device(s) of the cell {cell} have another CAK, {:.1} s",
                ids.len() - missing.len(),
                ids.len(),
                begin.elapsed().as_secs_f64()
            ));
            for name in self.names(&missing) {
                (self.say)(format!("{name}, and gets it when it is back"));
            }
        }
        let ids: BTreeSet<String> = versions.keys().cloned().collect();
        let verdict = |_: &str, report: &Report| {
            if report.revoked { Verdict::Good } else { Verdict::NotYet("has not confirmed".into()) }
        };
        let silent = self.wait(&ids, Duration::from_secs(2), verdict).await?;
        let revoked: Vec<String> = self
            .home
            .devices
            .values()
            .filter(|member| member.revoked != 0)
            .filter_map(|member| Some(member.keys()?.user()))
            .collect();
        let token = login::account(self.signing, &self.home.fleet.name, now(), &revoked);
        Engine::connect(&self.home.system_access(self.signing)).await?.set_account(token).await?;
        let confirmed = if silent.is_empty() { "confirmed that its keys are gone" } else { "did not answer" };
        let name = self.name(id);
        (self.say)(format!(
            "{name} {confirmed}; NATS does not admit it any more, {:.1} s",
            begin.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    /// Requests that wait for an approval. Forged ones are left out.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn pending(home: &Home, engine: &Engine) -> Result<Vec<Request>, EngineError> {
        let stored = engine.all(&REQUESTS, false).await?;
        let requests = stored.iter().filter_map(|one| Request::read(&one.id, &one.payload).ok());
        Ok(requests.filter(|request| !home.devices.contains_key(&request.keys.id())).collect())
    }

    /// Makes devices members: name, role and cell each. The answers are published.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn admit(
        &mut self,
        all: Vec<(Request, String, String, String)>,
    ) -> Result<usize, RolloutError> {
        let time = now();
        let mut welcomes = Vec::new();
        for (request, name, role, cell) in all {
            let (keys, id) = (request.keys, request.keys.id());
            debug_assert!(is_id(&id));
            // The cell has its key before its first member.
            self.home.cell(&cell)?;
            let welcome = Welcome {
                name: name.clone(),
                role: role.clone(),
                pass: login::device(self.signing, &id, &keys.login, time),
            };
            let document = Document {
                device: id.clone(),
                version: 1,
                not_before: time.saturating_sub(CLOCKS_DIFFER),
                expires: time + 90 * 86_400,
                body: Body::Welcome(welcome),
            };
            let message = document.seal(self.signing, &keys);
            let message = message.map_err(|error| RolloutError::Seal { device: name.clone(), error })?;
            self.home.devices.insert(id.clone(), Member::new(&name, &role, &cell, keys));
            welcomes.push((id, message));
        }
        self.home.save()?;
        let engine = self.engine;
        let count = welcomes.len();
        let puts = welcomes.into_iter().map(|(id, message)| async move {
            engine.put(&WELCOMES, &id, message).await?;
            engine.forget(&REQUESTS, &id).await
        });
        let mut puts = stream::iter(puts).buffer_unordered(AT_ONCE);
        while let Some(put) = puts.next().await {
            put?;
        }
        Ok(count)
    }

    /// Makes those members whose requests prove a token. Each token is for one device.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn admit_by_token(&mut self) -> Result<usize, RolloutError> {
        let mut all = Vec::new();
        let mut names: BTreeSet<String> =
            self.home.devices.values().map(|member| member.name.clone()).collect();
        for request in Self::pending(self.home, self.engine).await? {
            let Some(proof) = &request.proof else { continue };
            let time = now();
            let issued = self.home.tokens.iter_mut().find(|issued| {
                issued.used.is_empty()
                    && issued.expires > time
                    && issued.token().is_some_and(|token| proof.is_of(&token, &request.keys))
            });
            let Some(issued) = issued else { continue };
            issued.used = request.keys.id();
            let proposed = request.name.clone();
            let name = if proposed.is_empty() || names.contains(&proposed) {
                format!("{}-{}", issued.role, request.keys.id())
            } else {
                proposed
            };
            names.insert(name.clone());
            let (role, cell) = (issued.role.clone(), issued.cell.clone());
            all.push((request, name, role, cell));
        }
        self.admit(all).await
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
            let why = if report.refused.is_empty() { "has its old settings" } else { &report.refused };
            return Self::NotYet(why.to_owned());
        }
        if report.health.level > before {
            return Self::NotYet(format!("is {}: {}", report.health.level.name(), report.health.what));
        }
        Self::Good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Health;

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
