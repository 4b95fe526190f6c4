//! Advice: the cheapest changes with which late messages meet their deadlines.
//!
//! Every advice was planned: the scenario with exactly its changes is answered again, the message
//! meets its deadline there, and none that met before misses it. Device, receiver, cipher,
//! preparation, bearer and the message's template are tried alone and together.

use serde::Serialize;

use crate::bearer::Bearer;
use crate::budget::{Answer, Message, Scenario, plan};
use crate::device::{self, Cipher, Device};

mod search;
#[cfg(test)]
mod tests;

use search::Search;

/// Keys of the scenario file to change. Those that stay are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes {
    /// the device
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// the receiving device
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// the cipher, or `any`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<&'static str>,
    /// preparation
    #[serde(skip_serializing_if = "Option::is_none")]
    pub antedated: Option<bool>,
    /// the bearer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<Bearer>,
    /// changes of the messages' entries
    #[serde(rename = "message", skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageChange>,
}

/// Keys of a message to change.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MessageChange {
    /// the message
    pub name: String,
    /// bytes known before
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub known: Option<usize>,
    /// bytes before the first new one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front: Option<usize>,
    /// blocks with new bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_blocks: Option<usize>,
    /// the shortest time between two messages, in ms
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<f64>,
    /// the deadline, in ms
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
}

/// An advice for several messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// as a sentence
    pub text: String,
    /// as keys of the scenario file
    pub changes: Changes,
}

/// A scenario with changed devices, cipher and bearer.
#[derive(Clone, Debug)]
struct Candidate {
    device: Option<Device>,
    receiver: Option<Device>,
    cipher: Option<Option<Cipher>>,
    prepare: bool,
    bearer: Option<Bearer>,
    price: u32,
}

/// A change of a message's template.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edit {
    /// none
    Keep,
    /// its static bytes come first
    Sort,
    /// all but this number of bytes are static, and come first
    New(usize),
}

/// Prices. Only their order counts: software comes before wires, and wires before devices. A sum
/// of all below is less than the next.
mod price {
    pub(super) const PREPARE: u32 = 1;
    pub(super) const CIPHER: u32 = 2;
    pub(super) const ANY: u32 = 3;
    pub(super) const SORT: u32 = 5;
    pub(super) const STATIC: u32 = 12;
    pub(super) const BEARER: u32 = 32;
    pub(super) const DEVICE: u32 = 64;
    pub(super) const RECEIVER: u32 = 65;
}

/// Numbers of new bytes that an advice leaves, the fewest changes first.
const NEW: [usize; 5] = [256, 128, 64, 32, 16];

impl Edit {
    const ALL: [Self; 7] = [
        Self::Keep,
        Self::Sort,
        Self::New(NEW[0]),
        Self::New(NEW[1]),
        Self::New(NEW[2]),
        Self::New(NEW[3]),
        Self::New(NEW[4]),
    ];

    fn price(self) -> u32 {
        match self {
            Self::Keep => 0,
            Self::Sort => price::SORT,
            Self::New(new) => {
                price::STATIC + NEW.iter().position(|one| *one == new).unwrap_or_default() as u32
            }
        }
    }

    /// The changed message; none if nothing would change.
    fn of(self, message: &Message) -> Option<Message> {
        let known = match self {
            Self::Keep => return Some(message.clone()),
            Self::Sort => message.known,
            Self::New(new) => message.size.checked_sub(new).filter(|known| *known > message.known)?,
        };
        let new = message.size - known;
        let new_blocks = if new == 0 { 0 } else { message.size.div_ceil(16) - known / 16 };
        let changed = Message { known, front: known, new_blocks, ..message.clone() };
        (changed != *message).then_some(changed)
    }

    fn text(self, message: &Message) -> Option<String> {
        match self {
            Self::Keep => None,
            Self::Sort => Some(format!("sort the {} static bytes to the front", message.known)),
            Self::New(new) => Some(format!(
                "make {} of its {} bytes static, at the front",
                message.size - new,
                message.size
            )),
        }
    }
}

impl MessageChange {
    fn template(changed: &Message) -> Self {
        Self {
            name: changed.name.clone(),
            known: Some(changed.known),
            front: Some(changed.front),
            new_blocks: Some(changed.new_blocks),
            ..Self::default()
        }
    }
}

impl Candidate {
    /// All of them, the cheapest first; the unchanged scenario is the first.
    fn all(scenario: &Scenario<'_>) -> Vec<Self> {
        let others = |own: &Device, price: u32| {
            let others = device::all().into_iter().filter(|other| other.name != own.name);
            let mut all = vec![(None, 0)];
            all.extend(others.map(|other| (Some(other), price)));
            all
        };
        let devices = others(scenario.device, price::DEVICE);
        let receivers = match scenario.receiver {
            Some(own) if !scenario.bearer.protects() => others(own, price::RECEIVER),
            _ => vec![(None, 0)],
        };
        let mut ciphers = vec![(None, 0)];
        if !scenario.bearer.protects() {
            let named = Cipher::ALL.into_iter().filter(|one| Some(*one) != scenario.cipher);
            ciphers.extend(named.map(|one| (Some(Some(one)), price::CIPHER)));
            ciphers.extend(scenario.cipher.map(|_| (Some(None), price::ANY)));
        }
        let prepares: &[_] = if scenario.antedated || scenario.bearer.protects() {
            &[(false, 0)]
        } else {
            &[(false, 0), (true, price::PREPARE)]
        };
        let mut bearers = vec![(None, 0)];
        let better = scenario.bearer.better().into_iter().zip(price::BEARER..);
        bearers.extend(better.map(|(bearer, price)| (Some(bearer), price)));
        let mut all = Vec::new();
        for (device, of_device) in &devices {
            for (receiver, of_receiver) in &receivers {
                for (bearer, of_bearer) in &bearers {
                    for (cipher, of_cipher) in &ciphers {
                        for (prepare, of_prepare) in prepares {
                            let price = of_device + of_receiver + of_bearer + of_cipher + of_prepare;
                            let (device, receiver) = (device.clone(), receiver.clone());
                            let (bearer, cipher, prepare) = (bearer.clone(), *cipher, *prepare);
                            all.push(Self { device, receiver, cipher, prepare, bearer, price });
                        }
                    }
                }
            }
        }
        all.sort_by_key(|candidate| candidate.price);
        all
    }

    fn scenario<'a>(&'a self, scenario: &Scenario<'a>, messages: &'a [Message]) -> Scenario<'a> {
        Scenario {
            device: self.device.as_ref().unwrap_or(scenario.device),
            receiver: scenario.receiver.map(|own| self.receiver.as_ref().unwrap_or(own)),
            bearer: self.bearer.as_ref().unwrap_or(scenario.bearer),
            cipher: self.cipher.unwrap_or(scenario.cipher),
            antedated: scenario.antedated || self.prepare,
            messages,
            advise: false,
            ..*scenario
        }
    }

    fn changes(&self) -> Changes {
        Changes {
            platform: self.device.as_ref().map(|device| device.name.clone()),
            receiver: self.receiver.as_ref().map(|device| device.name.clone()),
            cipher: self.cipher.map(|cipher| cipher.map_or("any", Cipher::name)),
            antedated: self.prepare.then_some(true),
            bearer: self.bearer.clone(),
            messages: Vec::new(),
        }
    }

    /// The changes as parts of a sentence.
    fn texts(&self, scenario: &Scenario<'_>) -> Vec<String> {
        let mut parts = Vec::new();
        if self.prepare {
            parts.push("prepare before: antedated = true".to_owned());
        }
        match self.cipher {
            Some(Some(cipher)) => parts.push(format!("take the cipher {}", cipher.name())),
            Some(None) => {
                parts.push("take the quickest cipher for each message: cipher = \"any\"".to_owned())
            }
            None => {}
        }
        if let Some(bearer) = &self.bearer {
            parts.push(said(scenario.bearer, bearer));
        }
        if let Some(device) = &self.device {
            parts.push(format!("take another device: {} ({})", device.name, device.about));
        }
        if let Some(device) = &self.receiver {
            parts.push(format!("take another receiver: {} ({})", device.name, device.about));
        }
        parts
    }
}

/// A better bearer as part of a sentence.
fn said(from: &Bearer, to: &Bearer) -> String {
    match (from, to) {
        (_, Bearer::Tsch(tsch)) => format!("take {} cells a hop", tsch.cells),
        (_, Bearer::SixLowpan { .. }) => "keep the receivers' radios on: wait_ms = 0".to_owned(),
        (Bearer::Mqtt { over: from, .. }, Bearer::Mqtt { over: to, .. })
        | (Bearer::Relayed { over: from, .. }, Bearer::Relayed { over: to, .. }) => said(from, to),
        _ => format!("take {} in the place of {}", to.name(), from.name()),
    }
}

/// Gives each late message of an answer its advice, and the answer one for all of them.
pub(crate) fn give(scenario: &Scenario<'_>, answer: &mut Answer) {
    let candidates = Candidate::all(scenario);
    let mut search = Search::new(scenario, answer, &candidates);
    search.run();
    let Search { found, all, complete, .. } = search;
    for (at, (message, found)) in answer.messages.iter_mut().zip(found).enumerate() {
        if message.meets {
            continue;
        }
        let (text, changes) = match found {
            Some(Advice { text, changes }) => (text, Some(changes)),
            None => longer(scenario, at, message.latency_ms, complete),
        };
        message.advice = Some(text);
        message.changes = changes;
    }
    answer.advice = all;
}

/// The advice where no known change helps: the deadline or the period that the scenario would keep.
fn longer(scenario: &Scenario<'_>, at: usize, latency_ms: f64, complete: bool) -> (String, Option<Changes>) {
    let none = if complete {
        "none of the devices, ciphers, bearers and templates known here helps, alone or together"
    } else {
        "nothing was found before the search ended, after its bound of combinations"
    };
    let Some(own) = scenario.messages.get(at) else { return (none.to_owned(), None) };
    let keeps = |changed: Message| {
        let mut messages = scenario.messages.to_vec();
        messages[at] = changed;
        let changed = plan(&Scenario { messages: &messages, advise: false, ..*scenario });
        changed.is_ok_and(|answer| answer.messages[at].meets)
    };
    let with = |change: MessageChange| Changes { messages: vec![change], ..Changes::default() };
    let named = || MessageChange { name: own.name.clone(), ..MessageChange::default() };
    if latency_ms.is_finite() {
        // Rounded up to whole microseconds.
        let deadline_ms = (latency_ms * 1000.0).ceil() / 1000.0;
        if keeps(Message { deadline_ms, ..own.clone() }) {
            let change = MessageChange { deadline_ms: Some(deadline_ms), ..named() };
            return (format!("{none}; a deadline of {deadline_ms:.3} ms would"), Some(with(change)));
        }
    } else {
        for doublings in 1..=20 {
            let period_ms = own.period_ms * f64::from(1u32 << doublings);
            if keeps(Message { period_ms, ..own.clone() }) {
                let change = MessageChange { period_ms: Some(period_ms), ..named() };
                return (format!("{none}; a period of {period_ms:.3} ms would"), Some(with(change)));
            }
        }
    }
    (none.to_owned(), None)
}

impl MessageChange {
    /// The message with this change, if it has its name.
    #[must_use]
    pub fn of(&self, message: &Message) -> Message {
        if message.name != self.name {
            return message.clone();
        }
        Message {
            known: self.known.unwrap_or(message.known),
            front: self.front.unwrap_or(message.front),
            new_blocks: self.new_blocks.unwrap_or(message.new_blocks),
            period_ms: self.period_ms.unwrap_or(message.period_ms),
            deadline_ms: self.deadline_ms.unwrap_or(message.deadline_ms),
            ..message.clone()
        }
    }
}
