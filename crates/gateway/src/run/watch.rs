//! Watches conditions that need the operator: a warning when one begins and each minute while it
//! lasts, a line when it is over.
//!
//! A condition holds or not ([`Watch::holds`]), or it lasts while a counter rises
//! ([`Watch::count`]). What an unauthenticated sender decides, such as its address, belongs into
//! the detail and never into the subject: each subject has its own line a minute.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::run::counters::PathCounters;
use crate::run::flows::report::document;
use crate::run::lock;
use crate::run::status::{Event, Flow, Warning};
use antedate_wire::EthernetAddress;

use crate::run::trouble::{Trouble, Words};

/// The shortest time between two warnings of one condition.
const SELDOM: Duration = Duration::from_secs(60);
/// A counter that did not rise for this long: the condition is over.
const QUIET: Duration = Duration::from_secs(60);
/// The most conditions that are remembered. Subjects are configured or authenticated, so a gateway
/// has fewer.
const MOST: usize = 512;
/// The most begins and ends that are remembered.
const EVENTS: usize = 64;

/// The conditions of a gateway, for all its threads.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    conditions: Mutex<Conditions>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { start: Instant::now(), conditions: Mutex::default() }
    }
}

impl Watch {
    /// Notes whether a condition holds: `Some` with details, or `None`. `about` is the subject,
    /// such as a peer's name, or empty.
    pub fn holds(&self, trouble: Trouble, about: &str, detail: Option<&str>) {
        let line = lock(&self.conditions).holds(self.start.elapsed(), trouble, about, detail);
        say(line);
    }

    /// Notes the value of a counter. The condition lasts while it rises.
    pub fn count(&self, trouble: Trouble, about: &str, total: u64, detail: &str) {
        let line = lock(&self.conditions).count(self.start.elapsed(), trouble, about, total, detail);
        say(line);
    }

    /// Forgets a subject that no longer exists, without a line.
    pub fn forget(&self, about: &str) {
        lock(&self.conditions).entries.retain(|entry| entry.about != about);
    }

    /// The conditions that last, for the status.
    #[must_use]
    pub fn active(&self) -> Vec<Warning> {
        lock(&self.conditions).active(self.start.elapsed())
    }

    /// The last begins and ends, for the status.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        lock(&self.conditions).events(self.start.elapsed())
    }
}

/// Watches the frames of both directions that were dropped for their age: from the field, then to
/// it.
pub fn watch_stale(watch: &Watch, [out, inward]: [&PathCounters; 2]) {
    for (about, counters) in [("field", out), ("uplink", inward)] {
        watch.count(Trouble::StaleFrames, about, counters.stale.get(), "");
    }
}

/// Watches the frames of both directions that the policy's bounds dropped.
pub fn watch_storms(watch: &Watch, [out, inward]: [&PathCounters; 2]) {
    for (about, counters) in [("field", out), ("uplink", inward)] {
        let all = [
            &counters.over_limit,
            &counters.storm_broadcast,
            &counters.storm_multicast,
            &counters.storm_unknown,
            &counters.storm_limit,
        ];
        let total = all.iter().map(|counter| counter.get()).sum();
        let last = format!("last from {}", address_of(counters.flooder.get()));
        watch.count(Trouble::Storm, about, total, &last);
    }
}

/// The address of a number, which has its octets.
pub fn address_of(bits: u64) -> EthernetAddress {
    let [_, _, octets @ ..] = bits.to_be_bytes();
    EthernetAddress(octets)
}

/// Watches the flows of both directions. `links`: those of the field and of the uplink. A sender
/// chooses its address and FrameID, so the port is the subject.
pub fn watch_flows(watch: &Watch, [out, inward]: [&PathCounters; 2], links: [bool; 2]) {
    let known = document([&out.flows, &inward.flows]).unwrap_or_default();
    for ((about, direction), link) in [("field", "out"), ("uplink", "in")].into_iter().zip(links) {
        let stopped = |flow: &&Flow| flow.stopped && flow.direction == direction;
        let stopped: Vec<_> = known.flows.iter().filter(stopped).collect();
        let detail = stopped.first().filter(|_| link).map(|flow| {
            let more = match stopped.len() {
                1 => String::new(),
                all => format!(", and {} more", all - 1),
            };
            format!("{}, for {:.1} s{more}", flow.name(), flow.silent_seconds)
        });
        watch.holds(Trouble::FlowStopped, about, detail.as_deref());
    }
}

fn say(line: Option<Line>) {
    match line {
        Some(Line::Warning(text)) => tracing::warn!("{text}"),
        Some(Line::Over(text)) => tracing::info!("{text}"),
        None => {}
    }
}

/// A line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Warning(String),
    Over(String),
}

/// One condition of one subject.
#[derive(Debug)]
struct Entry {
    trouble: Trouble,
    about: String,
    detail: String,
    /// Its begin, while it lasts.
    since: Option<Duration>,
    /// The last warning.
    warned: Option<Duration>,
    /// A warning was logged since it began, or since it was over without a line.
    told: bool,
    /// The counter, and its value at the last warning.
    total: u64,
    warned_total: u64,
    /// When the counter rose last.
    rose: Duration,
}

#[derive(Debug, Default)]
struct Conditions {
    entries: Vec<Entry>,
    /// The last begins and ends, and their times.
    events: VecDeque<(Duration, Event)>,
}

impl Conditions {
    fn entry(&mut self, trouble: Trouble, about: &str) -> Option<&mut Entry> {
        let known = |entry: &Entry| entry.trouble == trouble && entry.about == about;
        if let Some(at) = self.entries.iter().position(known) {
            return self.entries.get_mut(at);
        }
        if self.entries.len() >= MOST {
            return None;
        }
        self.entries.push(Entry {
            trouble,
            about: about.to_owned(),
            detail: String::new(),
            since: None,
            warned: None,
            told: false,
            total: 0,
            warned_total: 0,
            rose: Duration::ZERO,
        });
        self.entries.last_mut()
    }

    fn holds(&mut self, now: Duration, trouble: Trouble, about: &str, detail: Option<&str>) -> Option<Line> {
        let Some(detail) = detail else {
            let known = |entry: &&mut Entry| entry.trouble == trouble && entry.about == about;
            let entry = self.entries.iter_mut().find(known)?;
            return Self::end(&mut self.events, entry, now);
        };
        self.lasts(now, trouble, about, detail)
    }

    fn count(
        &mut self,
        now: Duration,
        trouble: Trouble,
        about: &str,
        total: u64,
        detail: &str,
    ) -> Option<Line> {
        if total == 0 {
            return None;
        }
        let entry = self.entry(trouble, about)?;
        if total > entry.total {
            (entry.total, entry.rose) = (total, now);
        } else if entry.since.is_none() || now >= entry.rose + QUIET {
            let entry =
                self.entries.iter_mut().find(|known| known.trouble == trouble && known.about == about)?;
            return Self::end(&mut self.events, entry, now);
        }
        self.lasts(now, trouble, about, detail)
    }

    fn lasts(&mut self, now: Duration, trouble: Trouble, about: &str, detail: &str) -> Option<Line> {
        let entry = self.entry(trouble, about)?;
        let begins = entry.since.is_none();
        let line = entry.lasts(now, detail);
        if begins {
            let event = entry.event("begin", trouble.words().warning);
            remember(&mut self.events, now, event);
        }
        line
    }

    fn end(events: &mut VecDeque<(Duration, Event)>, entry: &mut Entry, now: Duration) -> Option<Line> {
        if entry.since.is_some() {
            remember(events, now, entry.event("end", entry.trouble.words().over));
        }
        entry.end()
    }

    fn events(&self, now: Duration) -> Vec<Event> {
        let aged = |(at, event): &(Duration, Event)| Event {
            age_seconds: now.saturating_sub(*at).as_secs_f64(),
            ..event.clone()
        };
        self.events.iter().map(aged).collect()
    }

    fn active(&self, now: Duration) -> Vec<Warning> {
        let lasting = self.entries.iter().filter_map(|entry| Some((entry, entry.since?)));
        let all = lasting.map(|(entry, since)| {
            let Words { name, warning, remedy, .. } = entry.trouble.words();
            Warning {
                name: name.to_owned(),
                about: entry.about.clone(),
                what: entry.text(warning),
                remedy: remedy.to_owned(),
                seconds: now.saturating_sub(since).as_secs_f64(),
                count: entry.total,
                notice: entry.trouble.is_notice(),
            }
        });
        all.collect()
    }
}

fn remember(events: &mut VecDeque<(Duration, Event)>, now: Duration, event: Event) {
    if events.len() >= EVENTS {
        events.pop_front();
    }
    events.push_back((now, event));
}

impl Entry {
    fn event(&self, event: &str, what: &str) -> Event {
        let name = self.trouble.words().name.to_owned();
        let what = if event == "begin" {
            self.text(what)
        } else if self.about.is_empty() {
            what.to_owned()
        } else {
            format!("{}: {what}", self.about)
        };
        Event { event: event.to_owned(), name, about: self.about.clone(), what, age_seconds: 0.0 }
    }

    fn lasts(&mut self, now: Duration, detail: &str) -> Option<Line> {
        self.since.get_or_insert(now);
        if self.detail != detail {
            detail.clone_into(&mut self.detail);
        }
        if self.warned.is_some_and(|at| now < at + SELDOM) {
            return None;
        }
        let Words { warning, remedy, .. } = self.trouble.words();
        let mut text = self.text(warning);
        if self.total > 0 {
            text += &format!(", {} more", self.total - self.warned_total);
        }
        (self.warned, self.told, self.warned_total) = (Some(now), true, self.total);
        Some(Line::Warning(format!("{text}; {remedy}")))
    }

    fn end(&mut self) -> Option<Line> {
        self.since.take()?;
        let told = std::mem::take(&mut self.told);
        told.then(|| {
            let over = self.trouble.words().over;
            let about = if self.about.is_empty() { String::new() } else { format!("{}: ", self.about) };
            Line::Over(format!("{about}{over}"))
        })
    }

    fn text(&self, warning: &str) -> String {
        let mut text = String::new();
        if !self.about.is_empty() {
            text += &format!("{}: ", self.about);
        }
        text += warning;
        if !self.detail.is_empty() {
            text += &format!(" ({})", self.detail);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn lasting_condition_speaks_each_minute() {
        let mut watch = Conditions::default();
        let mut lines = Vec::new();
        for second in 0..150 {
            let detail = (10..140).contains(&second).then_some("for 6 s");
            lines.extend(watch.holds(at(second), Trouble::Alone, "", detail).map(|line| (second, line)));
        }
        let seconds: Vec<u64> = lines.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [10, 70, 130, 140]);
        let Line::Warning(text) = &lines[0].1 else { panic!("{lines:?}") };
        assert!(text.contains("(for 6 s); start the other gateway"), "{text}");
        assert_eq!(lines[3].1, Line::Over("another member is heard".into()));
        assert!(watch.active(at(150)).is_empty());
    }

    #[test]
    fn flapping_condition_is_no_flood() {
        let mut watch = Conditions::default();
        let mut lines = Vec::new();
        for second in 0..120 {
            let detail = (second % 2 == 0).then_some("");
            lines.extend(watch.holds(at(second), Trouble::Unheard, "b", detail));
        }
        assert_eq!(lines.len(), 4, "two warnings, each with its end: {lines:?}");
        assert_eq!(lines[1], Line::Over("b: the member hears this gateway".into()));
    }

    #[test]
    fn rising_counter_lasts_until_it_rests() {
        let mut watch = Conditions::default();
        let mut lines = Vec::new();
        for second in 0..200 {
            let total = 7 * second.min(65);
            lines.extend(watch.count(at(second), Trouble::ForgedFrames, "", total, "x").map(|l| (second, l)));
        }
        let seconds: Vec<u64> = lines.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [1, 61, 121, 125]);
        let more = |line: &Line| matches!(line, Line::Warning(text) if text.contains(", 420 more;"));
        assert!(more(&lines[1].1), "{lines:?}");
        assert!(matches!(lines[3].1, Line::Over(_)));
        assert_eq!(watch.count(at(300), Trouble::ForgedFrames, "", 7 * 65, "x"), None);
        let again = watch.count(at(301), Trouble::ForgedFrames, "", 7 * 65 + 1, "x");
        assert!(matches!(again, Some(Line::Warning(text)) if text.contains(", 1 more;")));
        assert_eq!(watch.active(at(302)).len(), 1);
    }

    #[test]
    fn subjects_speak_for_themselves() {
        let mut watch = Conditions::default();
        for about in ["a", "b"] {
            assert!(watch.holds(at(1), Trouble::NoSession, about, Some("")).is_some());
        }
        assert_eq!(watch.holds(at(2), Trouble::NoSession, "c", None), None);
        let active = watch.active(at(5));
        assert_eq!(active.len(), 2);
        assert_eq!((active[0].name.as_str(), active[0].seconds), ("no-session", 4.0));
        assert!(watch.holds(at(6), Trouble::NoSession, "a", None).is_some());
        assert_eq!(watch.active(at(6)).len(), 1);
    }

    #[test]
    fn begins_and_ends_are_remembered() {
        let mut watch = Conditions::default();
        for second in 0..200 {
            watch.holds(at(second), Trouble::Alone, "", (second % 4 < 2).then_some("for 6 s"));
            watch.count(at(second), Trouble::Storm, "field", second.min(5), "");
        }
        let events = watch.events(at(200));
        assert_eq!(events.len(), EVENTS);
        let [.., before, last] = &events[..] else { panic!("{events:?}") };
        assert_eq!((&*before.event, &*before.name, before.age_seconds), ("begin", "alone", 4.0));
        assert_eq!((&*last.event, &*last.what, last.age_seconds), ("end", "another member is heard", 2.0));
        let mut watch = Conditions::default();
        watch.count(at(1), Trouble::Storm, "field", 5, "last from a");
        watch.count(at(62), Trouble::Storm, "field", 5, "last from a");
        let told: Vec<_> = watch.events(at(62)).iter().map(|e| format!("{} {}", e.event, e.about)).collect();
        assert_eq!(told, ["begin field", "end field"]);
    }

    #[test]
    fn conditions_are_bounded() {
        let mut watch = Conditions::default();
        for number in 0..2 * MOST {
            watch.holds(at(1), Trouble::NoSession, &number.to_string(), Some(""));
        }
        assert_eq!(watch.entries.len(), MOST);
    }
}
