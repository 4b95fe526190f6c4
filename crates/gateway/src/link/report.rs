//! The status of a MACsec gateway, from snapshots of its forwarding threads.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use antedate_channel::macsec::SwitchError;
use antedate_wire::macsec::An;

use crate::link::agreement;
use crate::link::message::Message;
use crate::link::snapshot::Snapshot;
use crate::run::control::{Command, CommandError, StatusSource};
use crate::run::counters::PathCounters;
use crate::run::lock;
use crate::run::mailbox::Mailbox;
use crate::run::report::{ANSWER_TIMEOUT, About, Carries, Place, Shares, forwarding, port};
use crate::run::status::{Macsec, ReceiveSa, Status, TransmitSa};

/// Answers requests of the control socket.
#[derive(Debug)]
pub struct Answers {
    /// The constant part of the status.
    pub about: About,
    /// The mailboxes of the forwarding threads, in the order of [`Self::places`]: out first, in
    /// last.
    pub mailboxes: Vec<Arc<Mailbox<Message>>>,
    /// From the machines to the uplink.
    pub out: Arc<PathCounters>,
    /// From the uplink to the machines.
    pub inward: Arc<PathCounters>,
    /// CPU and priority of the threads.
    pub places: Vec<Arc<Mutex<Place>>>,
    /// The state of key agreement, if in use.
    pub agreement: Mutex<Option<agreement::View>>,
    /// Packet numbers below these are reserved.
    pub limits: Mutex<Vec<(An, u64)>>,
    /// Names and MTUs of the ports: field, uplink.
    pub ports: Mutex<[Carries; 2]>,
    /// For field and uplink: whether the link is up, and how often it went down.
    pub links: Mutex<[(bool, u64); 2]>,
    /// Recent CPU shares of the threads.
    pub shares: Shares,
}

/// The reason for not changing the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SwitchSaError {
    /// No thread forwards frames to the uplink.
    #[error("there is no forwarding thread")]
    NoThread,
    /// The channel refused.
    #[error(transparent)]
    Refused(#[from] SwitchError),
    /// No answer, or no channel.
    #[error("this gateway has no secure channel, or its forwarding thread does not answer")]
    NoAnswer,
}

impl Answers {
    /// Collects snapshots of all forwarding threads. `None` when one does not answer.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let ask = |mailbox: &Arc<Mailbox<Message>>| -> Receiver<Snapshot> {
            let (answer, receiver) = mpsc::channel();
            mailbox.post(Message::Snapshot(answer));
            receiver
        };
        let asked: Vec<_> = self.mailboxes.iter().map(ask).collect();
        let mut whole = Snapshot::default();
        for receiver in asked {
            whole.merge(receiver.recv_timeout(ANSWER_TIMEOUT).ok()?);
        }
        Some(whole)
    }

    /// Protects with another association from the next frame on.
    ///
    /// # Errors
    /// When the channel refuses, or the forwarding thread does not answer.
    pub fn switch(&self, an: An) -> Result<(), SwitchSaError> {
        let mailbox = self.mailboxes.first().ok_or(SwitchSaError::NoThread)?;
        let (answer, receiver) = mpsc::channel();
        mailbox.post(Message::Switch(an, answer));
        Ok(receiver.recv_timeout(ANSWER_TIMEOUT).map_err(|_| SwitchSaError::NoAnswer)??)
    }

    /// Records the state of the links: field, uplink.
    pub fn link_changes(&self, up: [bool; 2]) {
        for ((known, downs), now) in lock(&self.links).iter_mut().zip(up) {
            if *known && !now {
                *downs += 1;
            }
            *known = now;
        }
    }

    fn macsec(&self, snapshot: &Snapshot) -> Option<Macsec> {
        let (suite, own, members) = self.about.macsec.as_ref()?;
        let limits = lock(&self.limits);
        let view = lock(&self.agreement).clone();
        let agreement = view.and_then(|view| lock(&view).as_ref().map(agreement::report::document));
        let limit = |an: An| limits.iter().find(|(known, _)| *known == an).map_or(0, |(_, limit)| *limit);
        let transmit = snapshot.transmit.iter().map(|sa| TransmitSa {
            an: sa.an.number(),
            next_pn: sa.next_pn,
            // An agreed key needs no reservation.
            reserved_until: if agreement.is_some() { sa.limit } else { limit(sa.an) },
        });
        let transmit: Vec<_> = transmit.collect();
        let receive = snapshot.receive.iter().map(|sa| ReceiveSa {
            sci: sa.sci.to_string(),
            member: members.get(&sa.sci).cloned().unwrap_or_default(),
            an: sa.an.number(),
            lowest_pn: sa.lowest_pn,
        });
        let used = agreement.as_ref().and_then(|known| known.keys.iter().find(|key| key.transmits));
        Some(Macsec {
            suite: used.map_or(suite, |key| &key.suite).clone(),
            sci: own.to_string(),
            encoding_sa: snapshot.encoding.map(An::number),
            transmit,
            receive: receive.collect(),
            agreement,
            sealing: snapshot.sealing.clone(),
            opening: snapshot.opening.clone(),
            counters: snapshot.counters.clone(),
        })
    }
}

impl StatusSource for Answers {
    fn status(&self) -> Status {
        let snapshot = self.snapshot();
        let answering = snapshot.is_some();
        let snapshot = snapshot.unwrap_or_default();
        let [field, uplink] = *lock(&self.links);
        let [field_now, uplink_now] = *lock(&self.ports);
        Status {
            forwarding: answering,
            field: port(&self.about.field, &self.out, &self.inward, field, field_now),
            uplink: port(&self.about.uplink, &self.inward, &self.out, uplink, uplink_now),
            out: forwarding(&self.out),
            inward: forwarding(&self.inward),
            threads: self.shares.threads(&self.about, &snapshot.waits, &self.places),
            macsec: self.macsec(&snapshot),
            ..self.about.head()
        }
    }

    fn command(&self, command: Command) -> Result<String, CommandError> {
        let Command::SwitchSa { an } = command else {
            return Err(CommandError {
                what: "this gateway has no sessions".into(),
                remedy: "keys that are agreed upon change by themselves; `antedate gateway switch-sa` changes static ones".into(),
            });
        };
        let known: Vec<String> = lock(&self.limits).iter().map(|(an, _)| an.to_string()).collect();
        let remedy = match known.split_last() {
            Some((last, [])) => format!("the key file has association {last} alone"),
            Some((last, rest)) => {
                format!("name an association of the key file: {} or {last}", rest.join(", "))
            }
            None => "only gateways with a key_file have associations to change between".to_owned(),
        };
        let refused = |what: String| CommandError { what, remedy: remedy.clone() };
        if lock(&self.agreement).is_some() {
            return Err(CommandError {
                what: "keys are agreed upon with the other members, who would not hear of it".into(),
                remedy: "the key server changes them: see mka_rekey_seconds".into(),
            });
        }
        let an = An::new(an).ok_or_else(|| refused(format!("{an} is no association number")))?;
        self.switch(an).map_err(|error| refused(error.to_string()))?;
        Ok(format!("frames are protected with association {an} from now on"))
    }
}
