//! The search for advice: candidates with rising price, each planned before it counts.

use super::{Advice, Candidate, Edit, MessageChange};
use crate::budget::{Answer, Message, Scenario, plan};

/// Messages planned again in a search. A thousand messages have a few thousand combinations.
const MOST: usize = 2_000_000;

pub(super) struct Search<'a> {
    scenario: &'a Scenario<'a>,
    candidates: &'a [Candidate],
    met: Vec<bool>,
    /// the advice for each late message
    pub(super) found: Vec<Option<Advice>>,
    /// the advice for all of them
    pub(super) all: Option<Advice>,
    /// all combinations were tried
    pub(super) complete: bool,
    left: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(scenario: &'a Scenario<'a>, answer: &Answer, candidates: &'a [Candidate]) -> Self {
        let met: Vec<bool> = answer.messages.iter().map(|message| message.meets).collect();
        let found = vec![None; met.len()];
        Self { scenario, candidates, met, found, all: None, complete: true, left: MOST }
    }

    fn late(&self) -> usize {
        self.met.iter().filter(|met| !**met).count()
    }

    fn waiting(&self) -> impl Iterator<Item = usize> {
        let (met, found) = (&self.met, &self.found);
        (0..met.len()).filter(|at| !met[*at] && found[*at].is_none())
    }

    pub(super) fn run(&mut self) {
        let mut order: Vec<(usize, Edit)> = (0..self.candidates.len())
            .flat_map(|at| Edit::ALL.map(|edit| (at, edit)))
            .filter(|(at, edit)| *at > 0 || *edit != Edit::Keep)
            .collect();
        order.sort_by_key(|(at, edit)| self.candidates[*at].price + edit.price());
        for (at, edit) in order {
            let done = self.waiting().next().is_none() && (self.all.is_some() || self.late() < 2);
            if done {
                return;
            }
            if self.left < self.met.len() {
                self.complete = false;
                return;
            }
            let candidate = &self.candidates[at];
            if edit == Edit::Keep {
                self.whole(candidate);
            } else {
                self.edited(candidate, edit);
            }
        }
    }

    /// Which messages meet their deadlines in a changed scenario; none if one that met misses it.
    fn meets(&mut self, candidate: &Candidate, messages: &[Message]) -> Option<Vec<bool>> {
        self.left = self.left.saturating_sub(messages.len());
        let changed = plan(&candidate.scenario(self.scenario, messages)).ok()?;
        let meets: Vec<bool> = changed.messages.iter().map(|message| message.meets).collect();
        let kept = meets.iter().zip(&self.met).all(|(meets, met)| *meets || !*met);
        kept.then_some(meets)
    }

    /// Without waiting and with its preparation done, a message would be in time.
    fn possible(&self, candidate: &Candidate, message: &Message) -> bool {
        let far = [Message { period_ms: 1e12, ..message.clone() }];
        let alone = Scenario { work: &[], ..candidate.scenario(self.scenario, &far) };
        plan(&alone).is_ok_and(|answer| {
            let one = &answer.messages[0];
            one.latency_ms - one.breakdown.blocking_ms <= message.deadline_ms
        })
    }

    /// Judges a candidate with the messages as they are.
    fn whole(&mut self, candidate: &Candidate) {
        let scenario = self.scenario;
        let several = self.all.is_none() && self.late() > 1;
        let some =
            |search: &Self| search.waiting().any(|at| search.possible(candidate, &scenario.messages[at]));
        if !several && !some(self) {
            return;
        }
        let Some(meets) = self.meets(candidate, scenario.messages) else { return };
        let advice = || {
            let text = candidate.texts(scenario).join(", and ");
            Advice { text, changes: candidate.changes() }
        };
        let helped: Vec<usize> = self.waiting().filter(|at| meets[*at]).collect();
        for at in helped {
            self.found[at] = Some(advice());
        }
        if several && meets.iter().all(|meets| *meets) {
            self.all = Some(advice());
        }
    }

    /// Judges a candidate with another template of each late message alone, and of all of them.
    fn edited(&mut self, candidate: &Candidate, edit: Edit) {
        let scenario = self.scenario;
        let waiting: Vec<usize> = self.waiting().collect();
        for at in waiting {
            let own = &scenario.messages[at];
            let Some(changed) = edit.of(own).filter(|changed| self.possible(candidate, changed)) else {
                continue;
            };
            if self.left < self.met.len() {
                self.complete = false;
                return;
            }
            let mut messages = scenario.messages.to_vec();
            messages[at] = changed.clone();
            if self.meets(candidate, &messages).is_some_and(|meets| meets[at]) {
                self.found[at] = Some(Self::with(candidate, scenario, edit.text(own), vec![changed]));
            }
        }
        if self.all.is_some() || self.late() < 2 || self.left < self.met.len() {
            return;
        }
        let mut messages = scenario.messages.to_vec();
        let mut edited = Vec::new();
        for (message, met) in messages.iter_mut().zip(&self.met) {
            if let Some(changed) = edit.of(message).filter(|_| !*met) {
                *message = changed.clone();
                edited.push(changed);
            }
        }
        let all = |meets: Vec<bool>| meets.iter().all(|meets| *meets);
        if !edited.is_empty() && self.meets(candidate, &messages).is_some_and(all) {
            let text = match edit {
                Edit::Sort => "sort the static bytes of late messages to the front".to_owned(),
                Edit::New(new) => format!("make all but {new} bytes of late messages static, at the front"),
                Edit::Keep => String::new(),
            };
            self.all = Some(Self::with(candidate, scenario, Some(text), edited));
        }
    }

    fn with(
        candidate: &Candidate,
        scenario: &Scenario<'_>,
        text: Option<String>,
        edited: Vec<Message>,
    ) -> Advice {
        let mut texts = candidate.texts(scenario);
        texts.extend(text);
        let messages = edited.iter().map(MessageChange::template).collect();
        Advice { text: texts.join(", and "), changes: super::Changes { messages, ..candidate.changes() } }
    }
}
