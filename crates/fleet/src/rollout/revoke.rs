//! A device that is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use antedate_host::fault::Fault;
use tokio::time::Instant;

use super::{Body, Planned, Rollout, RolloutError, Verdict, planned_of, reports};
use crate::bearer::Bearers;
use crate::engine::Engine;
use crate::home::Member;
use crate::login;
use crate::now;
use crate::report::{Level, Report};

impl Rollout<'_> {
    /// Puts a device out of all that it is in: it is told to forget its keys, the others of its cell,
    /// overlay and DTLS group get other keys at once, and its pass becomes void.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn revoke(&mut self, id: &str, patience: Duration) -> Result<(), RolloutError> {
        let begin = Instant::now();
        let known = reports(self.home, self.engine, self.reading).await?;
        let Some(member) = self.home.devices.get_mut(id) else { return Ok(()) };
        let lost = member.clone();
        if member.revoked == 0 {
            member.revoked = now();
        }
        self.home.save()?;
        let versions = self.send(vec![(id.to_owned(), Body::Revocation)], &known).await?;
        // First the others: a stolen device obeys nobody.
        if let Some(mut keys) = self.home.cell(&lost.cell)? {
            keys.replace(now()).map_err(|error| {
                Fault::of_file(self.home.directory(), error.to_string(), "no keys can be made on this system")
            })?;
            self.home.set_cell(&lost.cell, &keys)?;
        }
        let planned = self.neighbours(&lost);
        let known = reports(self.home, self.engine, self.reading).await?;
        let batch =
            planned.iter().map(|one| (one.id.clone(), Body::Settings(one.settings.clone()))).collect();
        let others = self.send(batch, &known).await?;
        for one in &planned {
            self.home.set_published(&one.id, &one.settings)?;
        }
        let mut ids: BTreeSet<String> = others.keys().cloned().collect();
        // Who is silent is not waited for.
        let silent: Vec<String> =
            ids.iter().filter(|id| known.get(*id).is_none_or(super::Known::is_silent)).cloned().collect();
        ids.retain(|id| !silent.contains(id));
        let verdict = |id: &str, report: &Report| {
            Verdict::of_settings(report, others.get(id).copied().unwrap_or_default(), Level::Absent)
        };
        let mut missing = self.wait(&ids, patience, verdict).await?;
        missing.extend(silent.into_iter().map(|id| (id, "is silent".to_owned())));
        if !others.is_empty() {
            (self.say)(format!(
                "{} of {} other device(s) of {} have other keys, {:.1} s",
                others.len() - missing.len(),
                others.len(),
                groups(&lost),
                begin.elapsed().as_secs_f64()
            ));
        }
        for name in self.names(&missing) {
            (self.say)(format!("{name}, and gets them when it is back"));
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

    /// The members that share keys with a lost one, and what they shall have now. One whose settings
    /// cannot be made does not keep the others waiting.
    fn neighbours(&mut self, lost: &Member) -> Vec<Planned> {
        let shares = |one: &str, other: &str| !one.is_empty() && one == other;
        let mut bearers = Bearers::default();
        let (mut planned, mut faults) = (Vec::new(), Vec::new());
        for (id, member) in self.home.members() {
            let near = shares(&member.cell, &lost.cell)
                || shares(&member.overlay, &lost.overlay)
                || shares(&member.dtls, &lost.dtls);
            if !near {
                continue;
            }
            match planned_of(self.home, &mut bearers, id, member) {
                Ok(one) if one.differences.is_empty() => {}
                Ok(one) => planned.push(one),
                Err(fault) => faults.push(format!("{} keeps its old keys: {fault:#}", member.name)),
            }
        }
        for fault in faults {
            (self.say)(fault);
        }
        planned
    }
}

/// The groups of a device, in words.
fn groups(member: &Member) -> String {
    let all =
        [("the cell", &member.cell), ("the overlay", &member.overlay), ("the DTLS group", &member.dtls)];
    let words: Vec<String> = all
        .iter()
        .filter(|(_, name)| !name.is_empty())
        .map(|(what, name)| format!("{what} {name}"))
        .collect();
    words.join(", ")
}
