//! Other keys for a group, without an outage.
//!
//! - MACsec: all have both CAKs, then all have the new one alone. If a member does not answer, both
//!   stay for all.
//! - WireGuard: hub and spoke get the new preshared key at once, in a session that lives on. If one
//!   does not answer, the pair goes back.
//! - DTLS: listeners have both keys, connectors the new one, and then listeners that one alone. A
//!   connector that does not answer keeps its old key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use antedate_host::fault::Fault;
use tokio::time::sleep;

use super::{Body, Planned, Rollout, RolloutError, Verdict, checked, planned_of, reports};
use crate::authority::Signing;
use crate::bearer::{Bearers, GroupError, dtls};
use crate::document::Document;
use crate::home::{Home, Member};
use crate::now;
use crate::report::{Level, Report};

/// The time in which a daemon that looks at its key file has read it.
const LOOK: Duration = Duration::from_secs(2);
/// The most octets of a pass for NATS.
const PASS: usize = 2048;
/// The longest time for which the two ends of a pair may differ: a session of WireGuard lives on.
const PAIR: Duration = Duration::from_secs(45);

impl Rollout<'_> {
    fn no_keys(&self, error: &GroupError) -> Fault {
        Fault::of_file(self.home.directory(), error.to_string(), "no keys can be made on this system")
    }

    /// The members that a test wants, with what they shall have.
    fn of(&self, wanted: impl Fn(&str, &Member) -> bool) -> Result<Vec<Planned>, RolloutError> {
        let mut bearers = Bearers::default();
        // A fault of a device elsewhere does not matter here.
        let members = self.home.members().filter(|(id, member)| wanted(id, member));
        let planned = members.map(|(id, member)| planned_of(self.home, &mut bearers, id, member));
        Ok(planned.collect::<Result<_, _>>()?)
    }

    /// Changes the CAK of a cell: first all have both, then the old one goes.
    ///
    /// # Errors
    /// [`RolloutError::Waits`] if a member has not got the new one. Nothing is lost then, and the
    /// next call goes on.
    pub async fn rotate(&mut self, cell: &str, patience: Duration) -> Result<usize, RolloutError> {
        let Some(mut keys) = self.home.cell(cell)? else { return Ok(0) };
        keys.begin(now()).map_err(|error| self.no_keys(&error.into()))?;
        self.home.set_cell(cell, &keys)?;
        let ckn = keys.preferred().map(|key| key.ckn.clone()).unwrap_or_default();
        let members = self.all_have(cell, patience, &ckn).await?;
        (self.say)(format!("{members} device(s) have the new CAK beside the old one"));
        // As it is now, with those that have its keys.
        if let Some(both) = self.home.cell(cell)? {
            keys = both;
        }
        keys.complete();
        self.home.set_cell(cell, &keys)?;
        let members = self.all_have(cell, patience, &ckn).await?;
        (self.say)(format!("{members} device(s) have the new CAK alone"));
        Ok(members)
    }

    /// Changes the CAKs of cells that devices know which are no members any more, as after a move to
    /// another cell. Returns the names of the cells.
    ///
    /// # Errors
    /// As [`Self::rotate`].
    pub async fn follow_cells(&mut self, patience: Duration) -> Result<Vec<String>, RolloutError> {
        let cells: Vec<String> = self.home.left_cells()?.into_keys().collect();
        for cell in &cells {
            self.rotate(cell, patience).await?;
            // Who left during a change that had begun has both keys.
            if self.home.left_cells()?.contains_key(cell) {
                self.rotate(cell, patience).await?;
            }
        }
        Ok(cells)
    }

    async fn all_have(&mut self, cell: &str, patience: Duration, ckn: &str) -> Result<usize, RolloutError> {
        let planned = self.of(|_, member| member.cell == cell)?;
        let missing = self.step(&planned, patience, ckn).await?;
        if missing.is_empty() {
            Ok(planned.len())
        } else {
            Err(RolloutError::Waits { missing: self.names(&missing) })
        }
    }

    /// One step of a change: all these members at once. Gateways must carry with the CAK of a name, if
    /// there is one. Returns those that have not answered, with reasons.
    pub(super) async fn step(
        &mut self,
        planned: &[Planned],
        patience: Duration,
        ckn: &str,
    ) -> Result<BTreeMap<String, String>, RolloutError> {
        checked(self.check, planned)?;
        let known = reports(self.home, self.engine, self.reading).await?;
        let batch =
            planned.iter().map(|one| (one.id.clone(), Body::Settings(one.settings.clone()))).collect();
        let sent = self.send(batch, &known).await?;
        let verdict = |id: &str, report: &Report| {
            // With gateways that run, the key must be in use. Others have it in their files.
            match Verdict::of_settings(report, sent.version(id), Level::Absent) {
                Verdict::Good
                    if !ckn.is_empty() && !report.health.ckn.is_empty() && report.health.ckn != ckn =>
                {
                    Verdict::NotYet("has the new CAK, and another one carries".into())
                }
                other => other,
            }
        };
        let missing = self.wait(&sent, &sent.ids(), patience, verdict).await?;
        for one in planned {
            self.home.set_published(&one.id, &one.settings)?;
        }
        Ok(missing)
    }

    /// Changes the preshared keys of an overlay, of the spokes that answer.
    ///
    /// # Errors
    /// [`RolloutError::Waits`] if a spoke or the hub does not answer. Those pairs keep their old keys.
    pub async fn rotate_overlay(&mut self, name: &str, patience: Duration) -> Result<usize, RolloutError> {
        let mut keys = self.home.overlay(name)?;
        if keys.hub().is_empty() {
            let error = GroupError::NoHub(name.to_owned());
            return Err(Fault::of_file(self.home.directory(), error.to_string(), "").into());
        }
        let known = reports(self.home, self.engine, self.reading).await?;
        let spokes: Vec<String> = self
            .home
            .members()
            .filter(|(id, member)| member.overlay == name && *id != keys.hub())
            .map(|(id, _)| id.clone())
            .collect();
        // A pair with a silent end would lose its session.
        let silent = |id: &str| known.get(id).is_none_or(super::Known::is_silent);
        let mut missing: BTreeMap<String, String> = BTreeMap::new();
        for id in spokes.iter().map(String::as_str).chain([keys.hub()]).filter(|id| silent(id)) {
            missing.insert(id.to_owned(), "is silent".into());
        }
        if missing.contains_key(keys.hub()) {
            return Err(RolloutError::Waits { missing: self.names(&missing) });
        }
        let heard: BTreeSet<String> = spokes.into_iter().filter(|id| !silent(id)).collect();
        keys.begin(&heard, now()).map_err(|error| self.no_keys(&error))?;
        self.home.set_overlay(name, &keys)?;
        let hub = keys.hub().to_owned();
        let planned = self.of(|id, member| member.overlay == name && (id == hub || heard.contains(id)))?;
        let late = self.step(&planned, patience.min(PAIR), "").await?;
        let back: BTreeSet<String> =
            if late.contains_key(&hub) { heard.clone() } else { late.keys().cloned().collect() };
        keys.complete(&back);
        self.home.set_overlay(name, &keys)?;
        if !back.is_empty() {
            let planned = self.of(|id, member| member.overlay == name && (id == hub || back.contains(id)))?;
            self.step(&planned, Duration::from_secs(5), "").await?;
        }
        missing.extend(late);
        (self.say)(format!("{} spoke(s) and the hub have another preshared key", heard.len() - back.len()));
        if missing.is_empty() {
            Ok(heard.len())
        } else {
            Err(RolloutError::Waits { missing: self.names(&missing) })
        }
    }

    /// Changes the keys of a DTLS group: first the listeners have both, then the connectors the new one,
    /// then the listeners that one alone.
    ///
    /// # Errors
    /// [`RolloutError::Waits`] if a member does not answer. A connector keeps its old key then.
    pub async fn rotate_dtls(&mut self, name: &str, patience: Duration) -> Result<usize, RolloutError> {
        let mut keys = self.home.dtls(name)?;
        let listeners = keys.listeners().clone();
        if listeners.is_empty() {
            let error = GroupError::NoListener(name.to_owned());
            return Err(Fault::of_file(self.home.directory(), error.to_string(), "").into());
        }
        keys.begin(now()).map_err(|error| self.no_keys(&error))?;
        for id in &listeners {
            fits(self.home, self.signing, id, &keys)?;
        }
        self.home.set_dtls(name, &keys)?;
        let of_listeners = |id: &str, member: &Member| member.dtls == name && listeners.contains(id);
        let missing = self.step(&self.of(of_listeners)?, patience, "").await?;
        if !missing.is_empty() {
            return Err(RolloutError::Waits { missing: self.names(&missing) });
        }
        sleep(LOOK).await;
        keys.exchange();
        self.home.set_dtls(name, &keys)?;
        let connectors = self.of(|id, member| member.dtls == name && !listeners.contains(id))?;
        let missing = self.step(&connectors, patience, "").await?;
        (self.say)(format!("{} connector(s) have the new key", connectors.len() - missing.len()));
        sleep(LOOK).await;
        keys.complete(&missing.keys().cloned().collect());
        self.home.set_dtls(name, &keys)?;
        let late = self.step(&self.of(of_listeners)?, patience, "").await?;
        let missing: BTreeMap<String, String> = missing.into_iter().chain(late).collect();
        if missing.is_empty() {
            Ok(connectors.len())
        } else {
            Err(RolloutError::Waits { missing: self.names(&missing) })
        }
    }
}

/// Whether a listener's document has room for two keys of each connector. If not, no change begins.
fn fits(home: &Home, signing: &Signing, id: &str, group: &dtls::Group) -> Result<(), RolloutError> {
    let Some(member) = home.devices.get(id) else { return Ok(()) };
    let Some(keys) = member.keys() else { return Ok(()) };
    let mut settings = home.published(id).unwrap_or_default();
    settings.files.extend(group.given(id).files);
    // As long as one that is signed later.
    settings.pass = "x".repeat(PASS);
    settings.certificates.clone_from(&home.fleet.certificates);
    let body = Body::Settings(settings);
    let document =
        Document { device: id.to_owned(), version: u64::MAX, not_before: 0, expires: u64::MAX, body };
    let sealed = document.seal(signing, &keys);
    sealed.map(drop).map_err(|error| RolloutError::Seal { device: member.name.clone(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Identity, Seed};

    #[test]
    fn change_without_room_does_not_begin() {
        let directory = tempfile::tempdir().unwrap();
        let mut home = Home::create(&directory.path().join("fleet"), "plant", &[], 1, "").unwrap();
        let signing = home.signing(None).unwrap();
        let listener = Identity::of(Seed::of([1; 32])).public();
        let mut member = Member::new("server", "device", "", listener);
        member.dtls = "hall".into();
        member.values.insert("listener".into(), "yes".into());
        home.devices.insert(listener.id(), member);
        let press = Identity::of(Seed::of([2; 32])).public();
        for at in 0..2000_u32 {
            let mut member = Member::new(&format!("sensor-{at}"), "device", "", press);
            member.dtls = "hall".into();
            home.devices.insert(format!("id{at}"), member);
        }
        let mut group = home.dtls("hall").unwrap();
        fits(&home, &signing, &listener.id(), &group).unwrap();
        group.begin(5).unwrap();
        let error = fits(&home, &signing, &listener.id(), &group).unwrap_err();
        assert!(matches!(error, RolloutError::Seal { .. }), "{error}");
        // The number of the book has room.
        let at = |id: &str| id.strip_prefix("id").and_then(|at| at.parse::<u32>().ok());
        home.devices.retain(|id, _| at(id).is_none_or(|at| at < 1600));
        let mut group = home.dtls("hall").unwrap();
        group.begin(6).unwrap();
        fits(&home, &signing, &listener.id(), &group).unwrap();
    }
}
