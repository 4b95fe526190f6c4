//! Documents on their way: signed, published, awaited, and published again to those that do not report.
//!
//! NATS delivers a message to those that are connected at that moment, and a server that has just come
//! back, or lost a neighbour, may pass none. So what nobody has reported is published again, at growing
//! intervals. An agent that has the document reports once more, so a lost report comes again too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{AT_ONCE, Batch, Known, Rollout, RolloutError, Verdict, reports_of};
use crate::authority::Signing;
use crate::document::{Body, CLOCKS_DIFFER, Document, VALID};
use crate::engine::EngineError;
use crate::home::{Home, Member};
use crate::login;
use crate::now;
use crate::report::{self, Report};
use crate::subjects::{DOCUMENTS, STATUS};

/// The time without any progress after which the last reports are read again.
const LOOK: Duration = Duration::from_secs(3);
/// The time without any progress after which documents are published again: the first one, and the
/// longest. Each is twice the one before.
const AGAIN: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(60)];
/// The longest time for NATS's clock.
const CLOCK: Duration = Duration::from_secs(3);
/// Progress of others puts that off, by so many times at most.
const PUT_OFF: u32 = 4;

/// A document on its way.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) id: String,
    version: u64,
    message: Bytes,
}

/// Documents that are stored at NATS, by their devices.
#[derive(Debug, Default)]
pub(super) struct Sent(BTreeMap<String, (u64, Bytes)>);

impl Sent {
    /// The version of a device's document, or 0.
    pub(super) fn version(&self, id: &str) -> u64 {
        self.0.get(id).map_or(0, |(version, _)| *version)
    }

    /// Whether a device has one.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// The devices.
    pub(super) fn ids(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }
}

/// When documents are published again.
#[derive(Debug)]
struct Again {
    pause: Duration,
    sent: Instant,
    moved: Instant,
}

impl Again {
    fn new() -> Self {
        let now = Instant::now();
        Self { pause: AGAIN[0], sent: now, moved: now }
    }

    /// A device has got further.
    fn moved(&mut self) {
        self.moved = Instant::now();
    }

    /// Whether it is time.
    fn is_due(&self) -> bool {
        let quiet = self.moved.max(self.sent).elapsed();
        quiet >= self.pause || self.sent.elapsed() >= self.pause * PUT_OFF
    }

    /// They were published.
    fn sent(&mut self) {
        self.sent = Instant::now();
        self.pause = (self.pause * 2).min(AGAIN[1]);
    }
}

/// Signs documents with versions above all that are known. With `faults`, one that cannot be made is left
/// out, and its device and the reason are there.
pub(super) fn seal_all(
    home: &mut Home,
    signing: &Signing,
    batch: Batch,
    known: &BTreeMap<String, Known>,
    mut faults: Option<&mut Vec<String>>,
) -> Result<Vec<Sealed>, RolloutError> {
    let mut all = Vec::new();
    let time = now();
    clock_is_right(known, time)?;
    let days = |days: u64| time + days * 86_400;
    let (pass_ends, keys_days) = (days(home.fleet.pass_days), home.fleet.keys_days);
    let certificates = Some(&home.fleet.certificates).filter(|_| home.fleet.certificates_changed).cloned();
    for (id, mut body) in batch {
        let Some(member) = home.devices.get_mut(&id) else { continue };
        let Some(keys) = member.keys() else { continue };
        // After a restored backup, the device knows a newer version than this directory.
        let reported = known.get(&id).map_or(0, |known| known.report.settings.max(known.report.failed));
        let version = member.version.max(reported) + 1;
        member.version = version;
        if let Body::Settings(settings) = &mut body {
            settings.pass = login::device(signing, &id, &keys.login, time, pass_ends);
            settings.certificates = certificates.clone().unwrap_or_default();
            settings.until = if keys_days == 0 { 0 } else { days(keys_days) };
        }
        let renews = matches!(body, Body::Settings(_));
        let (device, not_before) = (id.clone(), time.saturating_sub(CLOCKS_DIFFER));
        let document = Document { device, version, not_before, expires: time + VALID, body };
        match (document.seal(signing, &keys), &mut faults) {
            (Ok(message), _) => {
                if renews {
                    member.pass_ends = pass_ends;
                }
                all.push(Sealed { id, version, message: message.into() });
            }
            (Err(error), Some(faults)) => faults.push(format!("{}: {error}", member.name)),
            (Err(error), None) => return Err(RolloutError::Seal { device: member.name.clone(), error }),
        }
    }
    Ok(all)
}

/// Whether this machine's clock is not behind that of NATS, as far as reports show it. A document that is
/// signed with an old time would be refused by all, and its version spent.
fn clock_is_right(known: &BTreeMap<String, Known>, here: u64) -> Result<(), RolloutError> {
    let there = known.values().map(|known| known.time).max().unwrap_or_default();
    if here + CLOCKS_DIFFER < there { Err(RolloutError::Clock { here, there }) } else { Ok(()) }
}

/// Whether two clocks show the same time, as far as documents need it.
const fn are_near(here: u64, there: u64) -> Result<(), RolloutError> {
    if here.abs_diff(there) > CLOCKS_DIFFER { Err(RolloutError::Clock { here, there }) } else { Ok(()) }
}

impl Rollout<'_> {
    /// Compares this machine's clock with NATS's before something is signed. An answer that does not come
    /// is no verdict: reports show a clock that is behind ([`clock_is_right`]).
    pub(super) async fn look_at_clock(&self) -> Result<(), RolloutError> {
        match timeout(CLOCK, self.engine.time()).await {
            Ok(Ok(there)) => return are_near(now(), there),
            Ok(Err(error)) => tracing::debug!(%error, "NATS's clock is not shown"),
            Err(_) => tracing::debug!("NATS's clock is not shown in time"),
        }
        Ok(())
    }

    /// Signs documents with versions above all that are known, and publishes them.
    pub(super) async fn send(
        &mut self,
        batch: Batch,
        known: &BTreeMap<String, Known>,
    ) -> Result<Sent, RolloutError> {
        self.look_at_clock().await?;
        let sealed = seal_all(self.home, self.signing, batch, known, None)?;
        self.put_all(sealed, None).await
    }

    /// As `send`, and one device whose document cannot be made or stored does not keep the others waiting:
    /// `faults` has its name and the reason.
    pub(super) async fn send_each(
        &mut self,
        batch: Batch,
        known: &BTreeMap<String, Known>,
        faults: &mut Vec<String>,
    ) -> Result<Sent, RolloutError> {
        self.look_at_clock().await?;
        let sealed = seal_all(self.home, self.signing, batch, known, Some(faults))?;
        self.put_all(sealed, Some(faults)).await
    }

    async fn put_all(
        &mut self,
        sealed: Vec<Sealed>,
        mut faults: Option<&mut Vec<String>>,
    ) -> Result<Sent, RolloutError> {
        // Before they are used, so that no version comes twice.
        self.home.save()?;
        let engine = self.engine;
        let mut sent = Sent::default();
        let puts = sealed.into_iter().map(|Sealed { id, version, message }| async move {
            let put = engine.put(&DOCUMENTS, &id, message.clone()).await;
            (id, version, message, put)
        });
        let mut puts = stream::iter(puts).buffer_unordered(AT_ONCE);
        while let Some((id, version, message, put)) = puts.next().await {
            match (put, &mut faults) {
                (Ok(()), _) => drop(sent.0.insert(id, (version, message))),
                (Err(error), Some(faults)) => faults.push(format!("{}: {error}", self.name(&id))),
                (Err(error), None) => return Err(error.into()),
            }
        }
        Ok(sent)
    }

    /// Publishes documents again. One that NATS does not store now comes with the next call.
    async fn put_again(&self, sent: &Sent, ids: impl Iterator<Item = &String>) {
        let puts = ids.filter_map(|id| Some((id, sent.0.get(id)?))).map(|(id, (_, message))| async move {
            if let Err(error) = self.engine.put_once(&DOCUMENTS, id, message.clone()).await {
                tracing::debug!(%error, id, "a document is not published again");
            }
        });
        stream::iter(puts).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    }

    /// Waits until each device is as `verdict` wants it, and publishes the documents again to those that
    /// do not report them. Returns the devices that are not, with reasons.
    pub(super) async fn wait(
        &self,
        sent: &Sent,
        ids: &BTreeSet<String>,
        patience: Duration,
        verdict: impl Fn(&str, &Report) -> Verdict,
    ) -> Result<BTreeMap<String, String>, RolloutError> {
        let mut open: BTreeMap<String, String> =
            ids.iter().map(|id| (id.clone(), "has not answered".to_owned())).collect();
        // Those that have their document, and are not well yet.
        let mut reached = BTreeSet::new();
        let mut bad = BTreeMap::new();
        let mut heard = self.engine.hear(STATUS.subject("*")).await?;
        let until = Instant::now() + patience;
        let mut again = Again::new();
        let mut judge = |id: &str, report: &Report, open: &mut BTreeMap<String, String>| {
            let Some(before) = open.get_mut(id) else { return (false, false) };
            let has = report.revoked || report.settings >= sent.version(id);
            match verdict(id, report) {
                Verdict::Good => drop(open.remove(id)),
                Verdict::NotYet(why) if why == *before => return (false, has),
                Verdict::NotYet(why) => *before = why,
                Verdict::Bad(why) => {
                    open.remove(id);
                    bad.insert(id.to_owned(), why);
                }
            }
            (true, has)
        };
        // What was reported before this began to listen.
        let mut looked: Option<Instant> = None;
        while !open.is_empty() && Instant::now() < until {
            let mut judged = Vec::new();
            if looked.is_none_or(|at| at.max(again.moved).elapsed() >= LOOK) {
                let ids: Vec<&str> = open.keys().map(String::as_str).collect();
                match timeout_at(until, reports_of(self.home, self.engine, self.reading, &ids)).await {
                    Ok(Ok(known)) => judged.extend(known.into_iter().map(|(id, known)| (id, known.report))),
                    // What was published is stored, and is heard of.
                    Ok(Err(EngineError::Failed(why))) => tracing::debug!(why, "the reports are not read"),
                    Ok(Err(error)) => return Err(error.into()),
                    Err(_) => {}
                }
                looked = Some(Instant::now());
            } else {
                match timeout(LOOK / 3, heard.next()).await {
                    Ok(Some(message)) => judged.extend(self.read(message.subject.as_str(), &message.payload)),
                    Ok(None) => sleep(Duration::from_secs(1)).await,
                    Err(_) => {}
                }
            }
            for (id, report) in judged {
                let (moved, has) = judge(&id, &report, &mut open);
                if moved {
                    again.moved();
                }
                if has {
                    reached.insert(id);
                }
            }
            if again.is_due() {
                self.put_again(sent, open.keys().filter(|id| !reached.contains(*id))).await;
                again.sent();
            }
        }
        bad.append(&mut open);
        Ok(bad)
    }

    /// A report that was heard, if its device has signed it.
    fn read(&self, subject: &str, payload: &[u8]) -> Option<(String, Report)> {
        let id = STATUS.id(subject)?;
        let keys = self.home.devices.get(id).and_then(Member::keys)?;
        let report = report::open::<Report>(payload, &keys, self.reading).ok()?;
        Some((id.to_owned(), report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_behind_the_reports_is_told() {
        let known = BTreeMap::from([("a".to_owned(), Known { time: 10_000, ..Known::default() })]);
        clock_is_right(&known, 10_000 - CLOCKS_DIFFER).unwrap();
        let error = clock_is_right(&known, 9_000 - CLOCKS_DIFFER).unwrap_err();
        assert!(matches!(error, RolloutError::Clock { there: 10_000, .. }), "{error}");
        clock_is_right(&BTreeMap::new(), 0).unwrap();
    }

    #[test]
    fn clock_ahead_of_nats_is_told() {
        are_near(10_000 + CLOCKS_DIFFER, 10_000).unwrap();
        are_near(10_000, 10_000 + CLOCKS_DIFFER).unwrap();
        for here in [10_001 + CLOCKS_DIFFER, 9_999 - CLOCKS_DIFFER] {
            let error = are_near(here, 10_000).unwrap_err();
            assert!(matches!(error, RolloutError::Clock { there: 10_000, .. }), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_progress_puts_them_off() {
        let mut again = Again::new();
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let begin = Instant::now();
            while !again.is_due() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            pauses.push(begin.elapsed().as_secs());
            again.sent();
        }
        assert_eq!(pauses, [4, 8, 16, 32, 60, 60]);
        // Others report each second, for ever.
        let mut again = Again::new();
        let begin = Instant::now();
        while !again.is_due() {
            tokio::time::advance(Duration::from_secs(1)).await;
            again.moved();
        }
        assert_eq!(begin.elapsed().as_secs(), 16);
    }
}
