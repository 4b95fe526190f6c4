//! The status of an overlay.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use super::message::Message;
use super::snapshot::Snapshot;
use crate::run::control::{Command, CommandError, StatusSource};
use crate::run::counters::PathCounters;
use crate::run::lock;
use crate::run::mailbox::Mailbox;
use crate::run::report::{ANSWER_TIMEOUT, About, Carries, Place, Shares, forwarding, port};
use crate::run::status::Status;
use crate::run::watch::Watch;

/// Answers requests of the control socket.
pub(super) struct Answers {
    pub(super) about: About,
    pub(super) mailbox: Arc<Mailbox<Message>>,
    pub(super) out: Arc<PathCounters>,
    pub(super) inward: Arc<PathCounters>,
    pub(super) place: Arc<Mutex<Place>>,
    /// Names and MTUs of the ports: field, uplink.
    pub(super) ports: Mutex<[Carries; 2]>,
    /// For field, uplink and second uplink: whether the link is up, and how often it went down.
    pub(super) links: Mutex<[(bool, u64); 3]>,
    pub(super) shares: Shares,
    /// The conditions that need the operator.
    pub(super) watch: Arc<Watch>,
}

impl Answers {
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let (answer, receiver) = mpsc::channel();
        self.mailbox.post(Message::Snapshot(answer));
        receiver.recv_timeout(ANSWER_TIMEOUT).ok()
    }
}

impl StatusSource for Answers {
    fn status(&self) -> Status {
        let snapshot = self.snapshot();
        let waits: Vec<_> = snapshot.iter().map(|snapshot| snapshot.waits).collect();
        let [field, uplink, second] = *lock(&self.links);
        let [field_now, uplink_now] = *lock(&self.ports);
        let about = &self.about;
        Status {
            forwarding: snapshot.is_some(),
            warnings: self.watch.active(),
            field: port(&about.field, &self.out, &self.inward, field, field_now),
            uplink: port(&about.uplink, &self.inward, &self.out, uplink, uplink_now),
            out: forwarding(&self.out),
            inward: forwarding(&self.inward),
            threads: self.shares.threads(about, &waits, &[Arc::clone(&self.place)]),
            overlay: snapshot.map(|mut snapshot| {
                if let Some(about) = &mut snapshot.document.second_uplink {
                    (about.link, about.link_downs) = second;
                }
                snapshot.document
            }),
            ..about.head()
        }
    }

    fn command(&self, command: Command) -> Result<String, CommandError> {
        match command {
            Command::Rekey => {
                self.mailbox.post(Message::Rekey);
                Ok("new sessions are begun with all peers".into())
            }
            Command::SwitchSa { .. } => Err(CommandError {
                what: "an overlay has sessions, no associations".into(),
                remedy: "`antedate gateway rekey` makes new sessions".into(),
            }),
        }
    }
}
