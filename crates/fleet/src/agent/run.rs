//! The connection, and what to do when.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use antedate_host::fault::Fault;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Gateway;
use super::apply::{Desk, Outcome};
use super::ask::Ask;
use super::stale::Stale;
use crate::document::DocumentError;
use crate::engine::{Access, Change, Engine};
use crate::login;
use crate::now;
use crate::report::{self, Event, Health, Level, Report};
use crate::subjects::{DOCUMENTS, EVENTS, STATUS};

/// How an agent runs.
#[derive(Debug, Clone)]
pub struct Rhythm {
    /// The longest time between two reports.
    pub report: Duration,
    /// The time between two looks at the gateway.
    pub watch: Duration,
    /// The time between two questions for a document that was not heard.
    pub fetch: Duration,
}

impl Default for Rhythm {
    fn default() -> Self {
        Self {
            report: Duration::from_secs(60),
            watch: Duration::from_secs(2),
            fetch: Duration::from_secs(600),
        }
    }
}

/// What changed, for which a report does not wait.
#[derive(PartialEq, Eq, Default)]
struct Told {
    settings: u64,
    failed: u64,
    refused: String,
    revoked: bool,
    health: (report::Level, String, Vec<String>),
}

struct Agent {
    desk: Desk,
    gateway: Box<dyn Gateway>,
    engine: Engine,
    id: String,
    start: u64,
    number: u64,
    refused: String,
    stale: Stale,
    ask: Ask,
    told: Told,
    reported: Option<Instant>,
    /// A document is wanted: from time to time, or since one was not applied.
    fetch: bool,
    /// The connection is there.
    up: bool,
    /// The pass for the next connection.
    pass: Arc<Mutex<String>>,
    /// The end of the pass, if that was told.
    warned: u64,
}

/// Runs until `stop` completes. `start` is the number of this start.
///
/// # Errors
/// When an address of NATS is none, or the files cannot be set right.
pub async fn run(
    desk: Desk,
    access: &Access,
    mut gateway: Box<dyn Gateway>,
    rhythm: Rhythm,
    start: u64,
    stop: impl Future<Output = ()>,
) -> Result<(), Fault> {
    if desk.restore()? {
        tracing::warn!("the files were not those of the document in force, as after a crash; they are again");
        let directory = super::state::State::of(desk.directory()).files();
        if let Err(why) = gateway.reload(&directory) {
            tracing::warn!(%why, "the gateway refuses them");
        }
    }
    let (sender, mut changes) = mpsc::unbounded_channel();
    let connected = Engine::stay(access, sender).await;
    let engine = connected.map_err(|error| {
        Fault::of_file(desk.directory(), error.to_string(), "correct `servers` in member.json")
    })?;
    let id = desk.identity().public().id();
    let heard = engine.hear(DOCUMENTS.subject(&id)).await;
    let mut heard =
        heard.map_err(|error| Fault::of_file(desk.directory(), error.to_string(), "start it again"))?;
    let mut agent = Agent {
        desk,
        gateway,
        engine,
        id,
        start,
        number: 0,
        refused: String::new(),
        stale: Stale::default(),
        ask: Ask::default(),
        told: Told::default(),
        reported: None,
        fetch: false,
        up: false,
        pass: Arc::clone(&access.newer),
        warned: 0,
    };
    if access.newer.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
        agent.keep_pass(access.pass.clone());
    }
    let mut stop = pin!(stop);
    let (mut watch, mut fetch) = (interval(rhythm.watch), interval(rhythm.fetch));
    watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
    fetch.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut complaint = String::new();
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            Some(change) = changes.recv() => match change {
                Change::Up => {
                    tracing::info!("connected to NATS");
                    complaint.clear();
                    agent.up = true;
                    agent.ask.connected();
                    agent.reported = None;
                    agent.ask_for_document().await;
                    agent.watch(rhythm.report).await;
                }
                Change::Down => {
                    if std::mem::replace(&mut agent.up, false) {
                        tracing::warn!("NATS is away: all goes on as it is, and the connection is tried again");
                    }
                }
                Change::Refused(what) => {
                    if what != complaint {
                        tracing::warn!(what, "NATS refuses something");
                        complaint = what;
                    }
                }
            },
            Some(message) = heard.next() => {
                // One that is published again: the report of it may be lost.
                if agent.consider(&message.payload).await {
                    agent.reported = None;
                }
            }
            _ = watch.tick() => {
                if agent.up && (agent.fetch || agent.stale.asks() || agent.ask.is_due()) {
                    agent.ask_for_document().await;
                }
                agent.watch(rhythm.report).await;
            }
            _ = fetch.tick() => agent.fetch = true,
        }
    }
}

impl Agent {
    async fn ask_for_document(&mut self) {
        match self.engine.last(&DOCUMENTS, &self.id).await {
            Ok(found) => {
                self.fetch = false;
                self.ask.answered();
                if let Some(stored) = found {
                    self.consider(&stored.payload).await;
                }
            }
            Err(error) => tracing::debug!(%error, "no answer for the document; asked again"),
        }
    }

    /// Keeps a pass for the next connection.
    fn keep_pass(&mut self, pass: String) {
        if !pass.is_empty() {
            *self.pass.lock().unwrap_or_else(PoisonError::into_inner) = pass;
        }
    }

    /// When the pass ends, and in how many seconds if that is near: within a quarter of its time.
    fn pass_ends(&self) -> (u64, Option<u64>) {
        let (from, ends) = login::validity(&self.pass.lock().unwrap_or_else(PoisonError::into_inner));
        let left = ends.saturating_sub(now());
        (ends, (ends != 0 && left < ends.saturating_sub(from) / 4).then_some(left))
    }

    /// Warns of a pass that ends soon, and forgets keys whose time is over.
    fn look_at_ends(&mut self, health: &mut Health) {
        if let (ends, Some(left)) = self.pass_ends() {
            let what = format!("the pass for NATS ends in {} h: antedate fleet renew", left / 3600);
            if self.warned != ends {
                self.warned = ends;
                tracing::warn!("{what}");
            }
            if health.level == Level::Ok {
                (health.level, health.what) = (Level::Warning, what);
            }
        }
        match self.desk.expire(now(), &mut *self.gateway) {
            Ok(true) => {
                tracing::error!("no new document came in time: the keys of this device are forgotten")
            }
            Ok(false) => {}
            Err(fault) => self.complain(format!("the keys whose time is over are not removed: {fault:#}")),
        }
        if self.desk.has_ended() {
            "the time of its keys is over, and it has forgotten them: antedate fleet renew"
                .clone_into(&mut self.refused);
        }
    }

    /// True if the document is the one that was taken last.
    async fn consider(&mut self, message: &[u8]) -> bool {
        let outcome = match self.desk.consider(message, now(), &mut *self.gateway) {
            Ok(outcome) => outcome,
            Err(fault) => {
                self.complain(format!("a document is not applied: {fault:#}"));
                // As when a disk is full for a while.
                self.fetch = true;
                return false;
            }
        };
        let what = match outcome {
            Outcome::Unchanged => match self.stale.passed() {
                None => return true,
                Some(before) => {
                    tracing::info!("NATS shows the newest document again");
                    self.refused = before;
                    "NATS shows the newest document again".to_owned()
                }
            },
            Outcome::Applied { version, said } => {
                self.refused.clear();
                self.stale.passed();
                self.keep_pass(self.desk.pass());
                tracing::info!(version, "settings are in force: {said}");
                format!("settings {version} are in force: {said}")
            }
            Outcome::Failed { version, why } => {
                self.stale.passed();
                self.keep_pass(self.desk.pass());
                tracing::error!(version, "settings are not in force, and the old ones stay: {why}");
                self.refused = format!("settings {version}: {why}");
                format!("settings {version} are not in force: {why}")
            }
            Outcome::Refused(error) => {
                if matches!(error, DocumentError::Old { .. }) {
                    self.stale.shown(&self.refused);
                }
                let why = error.to_string();
                if self.refused == why {
                    return false;
                }
                tracing::warn!("a document is refused: {why}");
                self.refused.clone_from(&why);
                format!("a document is refused: {why}")
            }
            Outcome::Revoked => self.revoked(),
        };
        self.tell(what).await;
        self.watch(Duration::MAX).await;
        false
    }

    /// Tells a fault once, and until something else is to be told.
    fn complain(&mut self, what: String) {
        if self.refused != what {
            tracing::error!("{what}");
        }
        self.refused = what;
    }

    fn revoked(&mut self) -> String {
        tracing::warn!("this device was revoked: its keys are gone");
        self.refused.clear();
        "revoked: the keys are gone".to_owned()
    }

    async fn tell(&mut self, what: String) {
        let event = Event { time: now(), what };
        if let Ok(sealed) = report::seal(&event, self.desk.identity(), self.desk.authority()) {
            let _ = self.engine.tell(&EVENTS, &self.id, sealed).await;
        }
    }

    /// Looks at the gateway, and reports what changed, or after `every`.
    async fn watch(&mut self, every: Duration) {
        match self.desk.finish(&mut *self.gateway) {
            Ok(true) => {
                let what = self.revoked();
                if self.up {
                    self.tell(what).await;
                }
            }
            Ok(false) => {}
            Err(fault) => {
                self.complain(format!("this device was revoked, and its keys are not gone: {fault:#}"))
            }
        }
        let mut health = self.gateway.health();
        self.look_at_ends(&mut health);
        let kept = self.desk.kept();
        let told = Told {
            settings: kept.settings,
            failed: kept.failed,
            refused: self.refused.clone(),
            revoked: self.desk.is_revoked(),
            health: (health.level, health.ckn.clone(), health.resting.clone()),
        };
        let due = self.reported.is_none_or(|last| last.elapsed() >= every);
        if !self.up || (told == self.told && !due) {
            return;
        }
        self.number += 1;
        let report = Report {
            start: self.start,
            number: self.number,
            time: now(),
            antedate: env!("CARGO_PKG_VERSION").to_owned(),
            settings: kept.settings,
            failed: kept.failed,
            refused: cut(&self.refused, 1000),
            revoked: self.desk.is_revoked(),
            pass_ends: self.pass_ends().0,
            health: Health { what: cut(&health.what, 1000), ..health },
        };
        match report::seal(&report, self.desk.identity(), self.desk.authority()) {
            Ok(sealed) => {
                if self.engine.tell(&STATUS, &self.id, sealed).await.is_ok() {
                    self.told = told;
                    self.reported = Some(Instant::now());
                }
            }
            Err(error) => tracing::error!(%error, "no report"),
        }
    }
}

/// The begin of a text, so that a report has a bound.
fn cut(text: &str, letters: usize) -> String {
    text.chars().take(letters).collect()
}
