//! A device that is lost.

use std::cell::RefCell;
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
    /// overlay and DTLS group get other keys at once, and its pass becomes void, whatever failed before.
    ///
    /// # Errors
    /// [`RolloutError::Keeps`] if others cannot get other keys, and the rest of [`RolloutError`].
    pub async fn revoke(&mut self, id: &str, patience: Duration) -> Result<(), RolloutError> {
        let begin = Instant::now();
        let saved = self.home.lose(id);
        let Some(lost) = self.home.devices.get(id).cloned() else { return Ok(()) };
        let (mut kept, mut confirmed) = (Vec::new(), false);
        let others = self.change_others(id, &lost, patience, &mut kept, &mut confirmed).await;
        self.shut_out().await?;
        let confirmed = if confirmed { "confirmed that its keys are gone" } else { "did not answer" };
        let name = self.name(id);
        (self.say)(format!(
            "{name} {confirmed}; NATS does not admit it any more, {:.1} s",
            begin.elapsed().as_secs_f64()
        ));
        saved?;
        others?;
        if kept.is_empty() { Ok(()) } else { Err(RolloutError::Keeps { kept }) }
    }

    /// Voids the passes of all that are revoked.
    async fn shut_out(&self) -> Result<(), RolloutError> {
        let token = login::account(self.signing, &self.home.fleet.name, now(), &self.home.revoked());
        Engine::connect(&self.home.system_access(self.signing)).await?.set_account(token).await?;
        Ok(())
    }

    /// Tells the lost device, and gives the others other keys. `kept` has those that cannot get any.
    async fn change_others(
        &mut self,
        id: &str,
        lost: &Member,
        patience: Duration,
        kept: &mut Vec<String>,
        confirmed: &mut bool,
    ) -> Result<(), RolloutError> {
        let begin = Instant::now();
        let known = reports(self.home, self.engine, self.reading).await?;
        let mut untold = Vec::new();
        let told = self.send_each(vec![(id.to_owned(), Body::Revocation)], &known, &mut untold).await?;
        for fault in untold {
            (self.say)(format!("the lost device is not told to forget its keys: {fault}"));
        }
        // First the others: a stolen device obeys nobody.
        match self.home.cell(&lost.cell) {
            Ok(Some(mut keys)) => {
                keys.replace(now()).map_err(|error| {
                    let remedy = "no keys can be made on this system";
                    Fault::of_file(self.home.directory(), error.to_string(), remedy)
                })?;
                self.home.set_cell(&lost.cell, &keys)?;
            }
            Ok(None) => {}
            Err(fault) => kept.push(format!("all of the cell {}: {fault:#}", lost.cell)),
        }
        let planned = self.neighbours(lost, kept);
        let known = reports(self.home, self.engine, self.reading).await?;
        let batch =
            planned.iter().map(|one| (one.id.clone(), Body::Settings(one.settings.clone()))).collect();
        let others = self.send_each(batch, &known, kept).await?;
        for one in planned.iter().filter(|one| others.has(&one.id)) {
            self.home.set_published(&one.id, &one.settings)?;
        }
        let mut ids = others.ids();
        let all = ids.len();
        // Who is silent is not waited for.
        let silent: Vec<String> =
            ids.iter().filter(|id| known.get(*id).is_none_or(super::Known::is_silent)).cloned().collect();
        ids.retain(|id| !silent.contains(id));
        let refused = RefCell::new(BTreeSet::new());
        let verdict = |id: &str, report: &Report| {
            let verdict = Verdict::of_settings(report, others.version(id), Level::Absent);
            if matches!(verdict, Verdict::Bad(_)) {
                refused.borrow_mut().insert(id.to_owned());
            }
            verdict
        };
        let mut missing = self.wait(&others, &ids, patience, verdict).await?;
        let mut refusing = missing.clone();
        refusing.retain(|id, _| refused.borrow().contains(id));
        missing.extend(silent.into_iter().map(|id| (id, "is silent".to_owned())));
        if all != 0 {
            (self.say)(format!(
                "{} of {} other device(s) of {} have other keys, {:.1} s",
                all - missing.len(),
                all,
                groups(lost),
                begin.elapsed().as_secs_f64()
            ));
        }
        missing.retain(|id, _| !refusing.contains_key(id));
        for name in self.names(&missing) {
            (self.say)(format!("{name}, and gets them when it is back"));
        }
        kept.extend(self.names(&refusing));
        let ids = told.ids();
        let verdict = |_: &str, report: &Report| {
            if report.revoked { Verdict::Good } else { Verdict::NotYet("has not confirmed".into()) }
        };
        let silent = self.wait(&told, &ids, Duration::from_secs(2), verdict).await?;
        *confirmed = !ids.is_empty() && silent.is_empty();
        Ok(())
    }

    /// The members that share keys with a lost one, and what they shall have now. One whose settings
    /// cannot be made does not keep the others waiting. It gets at least the new CAK, and `kept` has it if
    /// it shares other keys.
    fn neighbours(&self, lost: &Member, kept: &mut Vec<String>) -> Vec<Planned> {
        let shares = |one: &str, other: &str| !one.is_empty() && one == other;
        let mut bearers = Bearers::default();
        let mut planned = Vec::new();
        for (id, member) in self.home.members() {
            let in_cell = shares(&member.cell, &lost.cell);
            let in_other = shares(&member.overlay, &lost.overlay)
                || shares(&member.dtls, &lost.dtls)
                || shares(&member.mqtt, &lost.mqtt);
            if !in_cell && !in_other {
                continue;
            }
            let checked = |one: Planned| match (self.check)(&one) {
                Ok(()) => Ok(one),
                Err(faults) => {
                    let all: Vec<String> = faults.iter().map(|fault| format!("{fault:#}")).collect();
                    Err(all.join("; "))
                }
            };
            let one = planned_of(self.home, &mut bearers, id, member).map_err(|fault| format!("{fault:#}"));
            match one.and_then(checked) {
                Ok(one) if one.differences.is_empty() => {}
                Ok(one) => planned.push(one),
                Err(fault) => {
                    let settings = if in_cell { self.home.with_cell(id).ok().flatten() } else { None };
                    if in_other || settings.is_none() {
                        kept.push(format!("{}: {fault}", member.name));
                    }
                    planned.extend(settings.map(|settings| Planned {
                        id: id.clone(),
                        name: member.name.clone(),
                        settings,
                        differences: Vec::new(),
                        first: false,
                    }));
                }
            }
        }
        planned
    }
}

/// The groups of a device, in words.
fn groups(member: &Member) -> String {
    let all = [
        ("the cell", &member.cell),
        ("the overlay", &member.overlay),
        ("the DTLS group", &member.dtls),
        ("the MQTT group", &member.mqtt),
    ];
    let words: Vec<String> = all
        .iter()
        .filter(|(_, name)| !name.is_empty())
        .map(|(what, name)| format!("{what} {name}"))
        .collect();
    words.join(", ")
}
