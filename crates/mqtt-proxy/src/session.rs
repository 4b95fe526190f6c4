//! One application's connection, without I/O: packets of one side become packets of the other.
//!
//! Sessions, packet identifiers and acknowledgements are those of application and broker. The proxy
//! changes payloads, and answers itself for messages that do not pass.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use antedate_channel::mqtt::Dropped;
use antedate_channel::replay::ReplayError;
use antedate_host::fault::Fault;
use antedate_mqtt::guard::{SealError, Verdict};
use bytes::{Bytes, BytesMut};

use crate::packet::{self, Connect, MalformedError, Publish, Refusal, Version, kind};
use crate::shared::Shared;
use crate::windows::{Arrival, Handed, Received, Refused};

/// The most octets by which an envelope is longer than its payload: head, tag and time.
pub(crate) const LONGER: u32 = 192;
/// A reason of version 5: not authorized.
const NOT_AUTHORIZED: u8 = 0x87;
const PACKET_TOO_LARGE: u8 = 0x95;

/// The end of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error(transparent)]
    Malformed(#[from] MalformedError),
    #[error("it broke the protocol: {0}")]
    Protocol(&'static str),
    #[error("there is no key: {0}")]
    NoKey(Box<SealError>),
    /// The proxy cannot go on.
    #[error("{0:#}")]
    Fault(Box<Fault>),
}

/// A refused CONNECT, with its answer.
#[derive(Debug)]
pub(crate) struct RefusedConnect {
    pub(crate) answer: BytesMut,
    pub(crate) why: String,
}

/// What became of a packet of the broker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Done,
    /// Its key has not come yet.
    Held,
}

/// Topics by their aliases, in one direction.
#[derive(Default)]
struct Aliases {
    most: u16,
    topics: HashMap<u16, String>,
}

impl Aliases {
    /// The topic of a publish.
    fn resolve(&mut self, publish: &Publish) -> Result<String, End> {
        let topic = publish.topic()?;
        let Some(alias) = publish.alias() else {
            return match topic {
                "" => Err(End::Protocol("a publish without a topic")),
                topic => Ok(topic.to_owned()),
            };
        };
        if alias == 0 || alias > self.most {
            return Err(End::Protocol("a topic alias above the maximum"));
        }
        if topic.is_empty() {
            return self.topics.get(&alias).cloned().ok_or(End::Protocol("an unknown topic alias"));
        }
        self.topics.insert(alias, topic.to_owned());
        Ok(topic.to_owned())
    }
}

/// A connection.
pub(crate) struct Session {
    version: Version,
    client_id: String,
    received: Rc<RefCell<Received>>,
    handed: Handed,
    up: Aliases,
    down: Aliases,
    /// The longest packet that the application takes.
    most: Option<u32>,
    /// Whether its will is sealed.
    has_will: bool,
    connected: bool,
    /// Publishes of QoS 2 that the proxy refused, of either side.
    refused_up: HashSet<u16>,
    refused_down: HashSet<u16>,
    scratch: Vec<u8>,
}

impl Session {
    /// Takes the CONNECT, and appends the one for the broker.
    pub(crate) fn begin(
        shared: &Shared,
        packet: BytesMut,
        to_broker: &mut BytesMut,
    ) -> Result<Self, RefusedConnect> {
        let version = Connect::version(&packet);
        let refuse = |refusal, why: String| {
            let mut answer = BytesMut::new();
            packet::put_refusal(version, refusal, &mut answer);
            RefusedConnect { answer, why }
        };
        let mut connect = Connect::read(packet).map_err(|_| {
            refuse(Refusal::Version, "it does not begin with a CONNECT of MQTT 3.1.1 or 5".into())
        })?;
        let mut guard = shared.guard.borrow_mut();
        if !guard.has_keys() {
            let why = "the key has not come from the broker yet (remedy: see that its manager has rotated, and that this device is a member)";
            return Err(refuse(Refusal::Unavailable, why.into()));
        }
        let mut has_will = false;
        if let Some(will) = connect.will() {
            let topic = String::from_utf8_lossy(will.topic).into_owned();
            if guard.covers(&topic) {
                let mut sealed = Vec::new();
                guard.seal(&topic, will.payload, &mut sealed).map_err(|error| {
                    let refusal = match error {
                        SealError::NoKey(_) => Refusal::Unavailable,
                        _ => Refusal::Forbidden,
                    };
                    refuse(refusal, format!("its will on {topic}: {error} (remedy: {})", error.remedy()))
                })?;
                *will.payload = Bytes::from(sealed);
                has_will = true;
            }
        }
        drop(guard);
        if let Some((user, password)) = &shared.login {
            connect.set_login(user, password);
        }
        let client_id = connect.client_id().to_owned();
        let received = shared.clients.borrow_mut().connect(&client_id, connect.is_lasting());
        let (aliases, most) = connect.widen(LONGER);
        connect.write(to_broker).map_err(|_| refuse(Refusal::Forbidden, "its CONNECT is too long".into()))?;
        Ok(Self {
            version,
            client_id,
            received,
            handed: Handed::default(),
            up: Aliases::default(),
            down: Aliases { most: aliases, ..Aliases::default() },
            most,
            has_will,
            connected: false,
            refused_up: HashSet::new(),
            refused_down: HashSet::new(),
            scratch: Vec::new(),
        })
    }

    /// The application's name.
    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Whether the broker has a sealed will, which is of an old epoch after a rotation.
    pub(crate) const fn has_will(&self) -> bool {
        self.has_will
    }

    /// Takes a packet of the application.
    pub(crate) fn take_from_client(
        &mut self,
        shared: &Shared,
        packet: BytesMut,
        to_broker: &mut BytesMut,
        to_client: &mut BytesMut,
    ) -> Result<(), End> {
        match packet::kind(&packet) {
            kind::CONNECT => return Err(End::Protocol("a second CONNECT")),
            kind::PUBLISH => return self.publish(shared, packet, to_broker, to_client),
            kind::PUBACK => self.acknowledged(packet::id(&packet)?),
            kind::PUBREC => self.acknowledged(packet::id(&packet)?),
            kind::PUBREL if self.refused_up.remove(&packet::id(&packet)?) => {
                packet::put_ack(kind::PUBCOMP, packet::id(&packet)?, None, to_client);
                return Ok(());
            }
            _ => {}
        }
        to_broker.extend_from_slice(&packet);
        Ok(())
    }

    /// The application has a message.
    fn acknowledged(&mut self, id: u16) {
        if let Some(number) = self.handed.take(id) {
            self.received.borrow_mut().mark(number);
        }
    }

    /// Seals a publish.
    fn publish(
        &mut self,
        shared: &Shared,
        packet: BytesMut,
        to_broker: &mut BytesMut,
        to_client: &mut BytesMut,
    ) -> Result<(), End> {
        let raw = packet.clone();
        let mut publish = Publish::read(self.version, packet)?;
        let topic = self.up.resolve(&publish)?;
        let mut guard = shared.guard.borrow_mut();
        if !guard.covers(&topic) && shared.is_plain(&topic) {
            to_broker.extend_from_slice(&raw);
            return Ok(());
        }
        self.scratch.clear();
        match guard.seal(&topic, publish.payload(), &mut self.scratch) {
            Ok(_) => {
                publish.set_payload(&self.scratch);
                shared.count(|counters| counters.sealed += 1);
                Ok(publish.write(to_broker)?)
            }
            Err(SealError::State(fault)) => Err(End::Fault(Box::new(fault))),
            Err(error @ SealError::NoKey(_)) => Err(End::NoKey(Box::new(error))),
            Err(error) => {
                let text = format!("{error} (remedy: {})", remedy(&error));
                shared.refuse(&self.client_id, "not published", &topic, &text);
                self.answer(&publish, to_client);
                Ok(())
            }
        }
    }

    /// Acknowledges a publish of the application that does not go on. With version 3.1.1 there is no
    /// way to refuse it.
    fn answer(&mut self, publish: &Publish, to_client: &mut BytesMut) {
        let reason = (self.version == Version::Five).then_some(NOT_AUTHORIZED);
        match publish.qos() {
            1 => packet::put_ack(kind::PUBACK, publish.id(), reason, to_client),
            2 => {
                packet::put_ack(kind::PUBREC, publish.id(), reason, to_client);
                if reason.is_none() {
                    self.refused_up.insert(publish.id());
                }
            }
            _ => {}
        }
    }

    /// Whether the broker has answered the CONNECT.
    pub(crate) const fn is_answered(&self) -> bool {
        self.connected
    }

    /// Takes a packet of the broker. With `last`, a message whose key has not come is refused.
    pub(crate) fn take_from_broker(
        &mut self,
        shared: &Shared,
        packet: BytesMut,
        last: bool,
        to_broker: &mut BytesMut,
        to_client: &mut BytesMut,
    ) -> Result<Passed, End> {
        match packet::kind(&packet) {
            kind::CONNACK if !self.connected => {
                self.connected = true;
                let code = packet::connack_code(&packet)?;
                if code != 0 {
                    let what = match code {
                        4 | 0x86 => " (bad user name or password)",
                        5 | 0x87 => " (not authorized)",
                        _ => "",
                    };
                    let why = format!(
                        "the broker refuses it with reason {code}{what} (remedy: its user and password at the broker are the application's own, or those of -u and --pw-file)"
                    );
                    shared.refuse(&self.client_id, "not connected", "", &why);
                }
                if self.version == Version::Five {
                    let (aliases, answer) = packet::narrow(packet, LONGER)?;
                    self.up.most = aliases;
                    to_client.extend_from_slice(&answer);
                    return Ok(Passed::Done);
                }
            }
            kind::PUBLISH => return self.deliver(shared, packet, last, to_broker, to_client),
            kind::PUBREL if self.refused_down.remove(&packet::id(&packet)?) => {
                packet::put_ack(kind::PUBCOMP, packet::id(&packet)?, None, to_broker);
                return Ok(Passed::Done);
            }
            _ => {}
        }
        to_client.extend_from_slice(&packet);
        Ok(Passed::Done)
    }

    /// Opens a message.
    fn deliver(
        &mut self,
        shared: &Shared,
        packet: BytesMut,
        last: bool,
        to_broker: &mut BytesMut,
        to_client: &mut BytesMut,
    ) -> Result<Passed, End> {
        let raw = packet.clone();
        let mut publish = Publish::read(self.version, packet)?;
        let topic = self.down.resolve(&publish)?;
        let mut guard = shared.guard.borrow_mut();
        self.scratch.clear();
        let verdict = guard.authenticate(&topic, publish.payload(), &mut self.scratch);
        guard.check_store().map_err(|fault| End::Fault(Box::new(fault)))?;
        let (text, again) = match verdict {
            Verdict::Plain if shared.is_plain(&topic) => {
                to_client.extend_from_slice(&raw);
                return Ok(Passed::Done);
            }
            Verdict::Plain => (
                "no group protects the topic (remedy: name its group file with --keys, or the topic with --plain)"
                    .to_owned(),
                false,
            ),
            Verdict::Opened(opened) => {
                // A sealed empty payload in the place of a retained message: there is none any more.
                if self.scratch.is_empty() && publish.retain() {
                    drop(guard);
                    self.decline(&publish, false, to_broker);
                    return Ok(Passed::Done);
                }
                let arrival =
                    Arrival { topic: &topic, opened: &opened, retain: publish.retain(), id: publish.id() };
                let received = Rc::clone(&self.received);
                let judged = shared.clients.borrow_mut().judge(
                    &guard,
                    &mut received.borrow_mut(),
                    &mut self.handed,
                    &arrival,
                );
                match judged {
                    Ok(()) => {
                        publish.set_payload(&self.scratch);
                        let before = to_client.len();
                        publish.write(to_client)?;
                        let length = to_client.len() - before;
                        if self.most.is_some_and(|most| length > most as usize) {
                            to_client.truncate(before);
                            self.handed.take(publish.id());
                            drop(guard);
                            self.too_long(shared, &publish, &topic, to_broker);
                            return Ok(Passed::Done);
                        }
                        shared.count(|counters| counters.opened += 1);
                        return Ok(Passed::Done);
                    }
                    Err(refused) => (told(refused, opened.sequence), matches!(refused, Refused::Replay(_))),
                }
            }
            Verdict::Refused(Dropped::UnknownEpoch { .. }) if !last && !guard.rotation_topics().is_empty() => {
                return Ok(Passed::Held);
            }
            Verdict::Refused(why) => {
                (format!("{}: {why} (remedy: {})", why.name(), why.remedy()), false)
            }
            // A subscriber to all topics gets the group's messages too. They are followed here.
            Verdict::Rotated { .. } => {
                drop(guard);
                shared.rotated();
                self.decline(&publish, false, to_broker);
                return Ok(Passed::Done);
            }
            Verdict::Known { .. } | Verdict::NoRotation(_) => {
                drop(guard);
                self.decline(&publish, false, to_broker);
                return Ok(Passed::Done);
            }
        };
        drop(guard);
        // A message that the application has already, after a lost connection, is no news.
        if !(again && publish.dup()) {
            shared.refuse(&self.client_id, "refused", &topic, &text);
        }
        self.decline(&publish, again, to_broker);
        Ok(Passed::Done)
    }

    fn too_long(&mut self, shared: &Shared, publish: &Publish, topic: &str, to_broker: &mut BytesMut) {
        let text = "it is longer than the application takes (remedy: give it a higher maximum packet size)";
        shared.refuse(&self.client_id, "refused", topic, text);
        match publish.qos() {
            1 => packet::put_ack(kind::PUBACK, publish.id(), Some(PACKET_TOO_LARGE), to_broker),
            2 => packet::put_ack(kind::PUBREC, publish.id(), Some(PACKET_TOO_LARGE), to_broker),
            _ => {}
        }
    }

    /// Acknowledges a message that the application does not get. The application may have it
    /// already: `again` lets the PUBREL through to it, so that it can end its part.
    fn decline(&mut self, publish: &Publish, again: bool, to_broker: &mut BytesMut) {
        match publish.qos() {
            1 => packet::put_ack(kind::PUBACK, publish.id(), None, to_broker),
            2 => {
                packet::put_ack(kind::PUBREC, publish.id(), None, to_broker);
                if !(again && publish.dup()) {
                    self.refused_down.insert(publish.id());
                }
            }
            _ => {}
        }
    }
}

fn remedy(error: &SealError) -> &'static str {
    match error {
        SealError::NoGroup(_) => "name its group file with --keys, or the topic with --plain",
        error => error.remedy(),
    }
}

fn told(refused: Refused, sequence: u64) -> String {
    let (name, text) = match refused {
        Refused::Replay(ReplayError::Duplicate) => ("repeated", "was received before"),
        Refused::Replay(ReplayError::Late) => ("late", "is older than what was received"),
        Refused::Crowded => ("crowded", "is of one pair of publisher and topic too many"),
    };
    format!(
        "{name}: sequence number {sequence} {text} (remedy: none, if the broker repeats messages; otherwise look who does)"
    )
}

#[cfg(test)]
mod tests;
