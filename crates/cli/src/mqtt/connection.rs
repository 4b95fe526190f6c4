//! A connection that lasts over losses of the broker and rotations of the key.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use antedate_channel::mqtt::{Dropped, Opened};
use antedate_host::signals;
use antedate_mqtt::guard::{Guard, SealError, Verdict};
use antedate_mqtt_client::{
    Client, ConnectionLostError, Event, MAX_PACKET, Message, Properties, Qos, Settings,
};

use super::options::WillArguments;
use super::outage::Outage;
use crate::failure::{Done, Failure};
use crate::output;

/// A runtime on this thread.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Verdict(format!("no event loop: {error}")))?;
    runtime.block_on(work)
}

/// The flag of SIGTERM and SIGINT.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    signals::stop_flag().map_err(|error| Failure::Verdict(format!("signals cannot be caught: {error}")))
}

/// Time for the broker to send a retained rotation message.
const RETAINED: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);
/// Most messages that wait for a key.
const HELD_MAX: usize = 1000;
/// Publishes that the broker may refuse before the client gives up.
const DENIED_MAX: usize = 50;

/// A connection that reconnects, repeats unconfirmed publishes and follows rotations.
pub(super) struct Link {
    pub(super) client: Client,
    /// The broker's name for messages.
    broker: String,
    pub(super) guard: Guard,
    subscriptions: Vec<(Vec<String>, Qos)>,
    /// Unsent and unconfirmed publishes.
    queued: VecDeque<Outgoing>,
    unconfirmed: Vec<(u16, Outgoing)>,
    connected: bool,
    /// The longest packet that the broker takes.
    longest: u32,
    /// Start of the connection.
    since: Option<Instant>,
    /// The last event of the connection.
    heard: Option<Instant>,
    outage: Outage,
    /// Answered subscriptions, and since when all are.
    answers: usize,
    answered: Option<Instant>,
    /// The broker's session has the filters.
    granted: bool,
    /// Patience for the answers.
    patience: Duration,
    /// Messages of an epoch whose key may still come, and messages to open again.
    held: VecDeque<Message>,
    again: VecDeque<Message>,
    /// Publishes that the broker refused.
    denied: usize,
    will: WillArguments,
    /// The will is of an ended epoch. A new one needs a new connection, which is made when no
    /// payload can be missed.
    stale_will: bool,
    reads: bool,
    /// Whether a missing key was told.
    told_key: bool,
    pub(super) stop: Arc<AtomicBool>,
}

#[derive(Clone)]
struct Outgoing {
    topic: String,
    payload: Vec<u8>,
    qos: Qos,
    retain: bool,
    /// The client has it, and repeats it if the session continues.
    handed: bool,
}

/// Results for the verbs.
pub(super) enum Arrival {
    /// A message for the user, its opened payload and its origin.
    Payload(Message, Vec<u8>, Opened),
    /// A message that failed authentication or replay protection.
    Refused(Message, Why),
    /// No result.
    Nothing,
}

/// Why a message was refused.
pub(super) struct Why {
    /// The kind of reason, without content of the message.
    pub(super) kind: String,
    pub(super) text: String,
    /// The remedy.
    pub(super) remedy: &'static str,
}

impl Link {
    pub(super) fn new(
        settings: &Settings,
        guard: Guard,
        filters: Vec<String>,
        qos: Qos,
        keep_trying: bool,
    ) -> Result<Self, Failure> {
        let rotations = guard.rotation_topics();
        let mut subscriptions = Vec::new();
        // Keys first, so later messages can be opened.
        if !rotations.is_empty() {
            subscriptions.push((rotations, Qos::AtLeastOnce));
        }
        let reads = !filters.is_empty();
        if reads {
            subscriptions.push((filters, qos));
        }
        Ok(Self {
            client: Client::new(settings)?,
            broker: format!("{}, port {}", settings.host, settings.port),
            guard,
            subscriptions,
            queued: VecDeque::new(),
            unconfirmed: Vec::new(),
            connected: false,
            longest: MAX_PACKET,
            since: None,
            heard: None,
            outage: Outage::new(keep_trying),
            answers: 0,
            answered: None,
            granted: false,
            patience: PATIENCE,
            held: VecDeque::new(),
            again: VecDeque::new(),
            denied: 0,
            will: WillArguments::default(),
            stale_will: false,
            reads,
            told_key: false,
            stop: stop_flag()?,
        })
    }

    /// Like [`new`](Self::new), with a will. With a manager the broker's retained key is fetched
    /// first, because the local one may be missing or old. So is the key of a session's queued
    /// messages, which arrive before retained ones: a broker sends only some of them before
    /// acknowledgements. Gives up after `limit`.
    pub(super) async fn with_will(
        settings: &Settings,
        guard: Guard,
        (filters, qos): (Vec<String>, Qos),
        will: &WillArguments,
        (limit, keep_trying): (Option<Duration>, bool),
    ) -> Result<Self, Failure> {
        let queued = !settings.clean && !guard.has_keys();
        let (guard, late) = if (will.is_given() || queued) && !guard.rotation_topics().is_empty() {
            Self::fetch_keys(settings, guard, limit.unwrap_or(Duration::MAX), keep_trying).await?
        } else {
            (guard, None)
        };
        let mut link = Self::new(settings, guard, filters, qos, keep_trying)?;
        // A stop before the key came leaves no will.
        if !link.stop.load(Ordering::Relaxed) || link.guard.has_keys() {
            link.leave_will(will).map_err(|error| match (error, late) {
                (SealError::NoKey(_), Some(missing)) => {
                    Failure::Verdict(format!("the will has no key: when the time was over {missing}"))
                }
                (error, _) => error.into(),
            })?;
        }
        Ok(link)
    }

    /// Seals the will for the next connection, and again for each later one: like every sealed
    /// message a will is accepted once.
    pub(super) fn leave_will(&mut self, will: &WillArguments) -> Result<(), SealError> {
        (self.will, self.stale_will) = (will.clone(), false);
        if let Some(will) = will.seal(&mut self.guard)? {
            self.client.set_will(&will);
        }
        Ok(())
    }

    /// Publishes bytes unchanged. A packet beyond the broker's limit would end the connection, so it
    /// is an error here.
    pub(super) fn send(&mut self, topic: &str, payload: Vec<u8>, qos: Qos, retain: bool) -> Done {
        if let Some(why) = self.too_long(topic, qos, payload.len()) {
            let remedy = "publish less at once, or raise max_packet_size in the broker's configuration";
            return Err(Failure::usage(format!("{topic}: {why}"), remedy));
        }
        let mut one = Outgoing { topic: topic.to_owned(), payload, qos, retain, handed: false };
        if self.connected {
            // The next connection sends a message that does not fit the queue; callers stay below
            // its limit.
            one.handed = self.client.publish(&one.topic, one.qos, one.retain, one.payload.clone()).is_ok();
        }
        self.queued.push_back(one);
        Ok(())
    }

    /// Why the broker would not take a publish, if its packet is too long.
    fn too_long(&self, topic: &str, qos: Qos, payload: usize) -> Option<String> {
        let length = self.client.packet_length(topic, qos, payload);
        let most = self.longest as usize;
        (length > most).then(|| {
            format!("the sealed publish has {length} octets, and the broker takes packets of {most} at most")
        })
    }

    /// Whether it is connected.
    pub(super) const fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether the broker has answered all subscriptions.
    pub(super) const fn is_subscribed(&self) -> bool {
        self.answers >= self.subscriptions.len()
    }

    /// The missing subscription or key, and the remedy.
    pub(super) fn missing(&self) -> String {
        let what = match (self.connected, self.is_subscribed()) {
            (false, _) => "there was no connection to",
            (true, false) => "there was no answer to the subscription from",
            (true, true) => "no key had come from",
        };
        format!("{what} {} (remedy: look into the broker's log, or give -W more)", self.broker)
    }

    /// Number of unfinished publishes.
    pub(super) fn waiting(&self) -> usize {
        self.queued.len() + self.unconfirmed.len()
    }

    /// Whether [`turn`](Self::turn) has an event without waiting.
    pub(super) fn has_more(&mut self) -> bool {
        !self.again.is_empty() || self.client.has_events()
    }

    /// Waits for the next event, at most `patience`. Reconnects if needed.
    pub(super) async fn turn(&mut self, patience: Duration) -> Result<Arrival, Failure> {
        if self.unanswered() {
            return Err(Failure::Verdict(format!(
                "{} has not answered the subscription for {} s (remedy: look into the broker's log, or name another one with -h and -p)",
                self.broker,
                self.patience.as_secs()
            )));
        }
        if self.settled() {
            self.again.append(&mut self.held);
            self.tell_key();
        }
        if let Some(message) = self.again.pop_front() {
            return Ok(self.arrived(message));
        }
        // A connection attempt must complete.
        let patience = if self.connected { patience } else { PATIENCE };
        let guard = &mut self.guard;
        let next = self.client.next_after(|| guard.idle());
        let event = match tokio::time::timeout(patience, next).await {
            Err(_) => return Ok(Arrival::Nothing),
            Ok(event) => event,
        };
        // What this end sent, and answers to its pings, are no answer to a subscription.
        if !matches!(event, Ok(Event::Sent(_) | Event::Other)) {
            self.heard = Some(Instant::now());
        }
        match event {
            Ok(Event::Connected { session, longest }) => {
                self.longest = longest;
                self.connected(session)?;
            }
            Ok(Event::Subscribed { granted: true }) => {
                self.answers += 1;
                self.granted |= self.is_subscribed();
            }
            Ok(Event::Subscribed { granted: false }) => {
                return Err(Failure::Verdict("the broker does not grant the subscription".into()));
            }
            Ok(Event::Sent(id)) => {
                if !self.unconfirmed.iter().any(|(known, _)| id != 0 && *known == id)
                    && let Some(one) = self.queued.pop_front()
                    && id != 0
                {
                    self.unconfirmed.push((id, one));
                }
            }
            Ok(Event::Done(id)) => self.unconfirmed.retain(|(known, _)| *known != id),
            Ok(Event::Denied(id, why)) => self.denied(id, &why)?,
            Ok(Event::Message(message)) => return Ok(self.arrived(message)),
            Ok(Event::Disconnected) if self.stale_will => self.renew_will()?,
            Ok(Event::Disconnected | Event::Other) => {}
            Err(why) => return self.lost(why).await,
        }
        Ok(Arrival::Nothing)
    }

    /// Leaves a will of the new epoch with a new connection. The old connection ends with a
    /// DISCONNECT, so its will is not published.
    fn renew_will(&mut self) -> Result<(), Failure> {
        self.client.hang_up()?;
        (self.connected, self.since) = (false, None);
        self.outage.intended();
        let will = self.will.clone();
        Ok(self.leave_will(&will)?)
    }

    /// Whether the connected broker has left a subscription unanswered too long. One that sends a
    /// session's queue first may take long, and is not silent.
    fn unanswered(&self) -> bool {
        let waits = self.connected && !self.is_subscribed();
        waits && self.heard.is_some_and(|heard| heard.elapsed() > self.patience)
    }

    /// Whether the broker's retained keys have come.
    fn settled(&mut self) -> bool {
        if !self.connected || !self.is_subscribed() {
            return false;
        }
        let rotations = !self.guard.rotation_topics().is_empty();
        self.answered.get_or_insert_with(Instant::now).elapsed() > RETAINED || !rotations
    }

    /// Tells a reader once that the broker retains no key for it. The key may come later.
    fn tell_key(&mut self) {
        if self.reads
            && !std::mem::replace(&mut self.told_key, true)
            && let Some(missing) = self.guard.missing_key()
        {
            output::tell(format_args!("antedate: {missing} (remedy: {})", missing.remedy()));
        }
    }

    /// Handles a publish that the broker refused.
    fn denied(&mut self, id: u16, why: &str) -> Result<(), Failure> {
        let Some(at) = self.unconfirmed.iter().position(|(known, _)| *known == id) else { return Ok(()) };
        let (_, one) = self.unconfirmed.swap_remove(at);
        let said = format!("{}: the broker does not take it: {why}", one.topic);
        self.denied += 1;
        if self.denied >= DENIED_MAX {
            return Err(Failure::Verdict(said));
        }
        output::tell(format_args!("antedate: {said}"));
        Ok(())
    }

    fn connected(&mut self, session: bool) -> Result<(), Failure> {
        let first = !self.connected && !self.outage.lasts();
        self.connected = true;
        self.outage.over(&self.broker);
        (self.since, self.answered) = (Some(Instant::now()), None);
        let full = |_| Failure::Verdict("too many messages wait to be sent".into());
        // A session's queue may lack the last rotation if it was full. The retained message has it.
        self.granted &= session && !first;
        let known = usize::from(self.granted && self.reads);
        self.answers = known;
        for (filters, qos) in &self.subscriptions[..self.subscriptions.len() - known] {
            self.client.subscribe(filters, *qos).map_err(full)?;
        }
        // The broker and the client have forgotten unconfirmed publishes unless the session
        // continues. The same envelopes are sent again; receivers recognise repeated numbers.
        if !session {
            let again: Vec<Outgoing> =
                self.unconfirmed.drain(..).map(|(_, one)| one).chain(self.queued.drain(..)).collect();
            for one in again {
                // The limit may be another one than when it was queued.
                match self.too_long(&one.topic, one.qos, one.payload.len()) {
                    None => self.queued.push_back(Outgoing { handed: false, ..one }),
                    Some(why) => {
                        self.denied += 1;
                        output::tell(format_args!("antedate: {}: {why}", one.topic));
                    }
                }
            }
        }
        for one in self.queued.iter_mut().filter(|one| !one.handed) {
            self.client.publish(&one.topic, one.qos, one.retain, one.payload.clone()).map_err(full)?;
            one.handed = true;
        }
        Ok(())
    }

    async fn lost(&mut self, why: ConnectionLostError) -> Result<Arrival, Failure> {
        let lasted = self.since.take().map(|since| since.elapsed());
        let pause = self.outage.lost(&self.broker, why, lasted);
        let pause = pause.map_err(|given_up| Failure::Verdict(given_up.to_string()))?;
        if lasted.is_some() {
            // Unacknowledged messages come again.
            self.held.retain(|message| message.qos == 0);
            self.again.retain(|message| message.qos == 0);
            let will = self.will.clone();
            self.leave_will(&will)?;
        }
        (self.connected, self.answers) = (false, 0);
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Arrival::Nothing)
    }

    fn arrived(&mut self, message: Message) -> Arrival {
        if message.payload.is_empty() && self.guard.covers(&message.topic) {
            // Brokers clear what they retain by an empty message, which anybody may send.
            let text = "the retained message was cleared, and nobody of the group signed for it".to_owned();
            let remedy = "clear with antedate mqtt pub -n -r; or look who may publish there";
            return Arrival::Refused(message, Why { kind: "cleared".into(), text, remedy });
        }
        let mut payload = Vec::new();
        match self.guard.open(&message.topic, &message.payload, &mut payload) {
            Verdict::Opened(opened) => Arrival::Payload(message, payload, opened),
            Verdict::Plain => {
                let text = "is of no group, so nothing protects it".to_owned();
                let remedy = "name its group file with --keys, or read it with mosquitto_sub";
                Arrival::Refused(message, Why { kind: text.clone(), text, remedy })
            }
            // Queued messages come before the retained key.
            Verdict::Refused(Dropped::UnknownEpoch { .. })
                if self.held.len() < HELD_MAX && !self.settled() =>
            {
                self.held.push_back(message);
                Arrival::Nothing
            }
            Verdict::Refused(refusal) => {
                let (kind, text, remedy) = (refusal.name().into(), refusal.to_string(), refusal.remedy());
                Arrival::Refused(message, Why { kind, text, remedy })
            }
            Verdict::NoRotation(refusal) => {
                let text = refusal.to_string();
                let remedy = "ask the group's manager, or look who may publish there";
                Arrival::Refused(message, Why { kind: text.clone(), text, remedy })
            }
            Verdict::Rotated { group, epoch } => {
                output::tell(format_args!("antedate: group {group}: epoch {epoch} begins"));
                self.again.append(&mut self.held);
                self.client.ack(&message);
                if self.will.is_given() && !self.reads && !self.stale_will {
                    self.client.disconnect();
                    self.stale_will = true;
                }
                Arrival::Nothing
            }
            Verdict::Known { group, epoch, newest } => {
                if epoch < newest {
                    output::tell(format_args!(
                        "antedate: group {group}: the rotation to epoch {epoch} is not followed, for epoch {newest} was seen"
                    ));
                }
                self.client.ack(&message);
                Arrival::Nothing
            }
        }
    }

    /// Waits until it is connected and the broker's retained keys have come.
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
        while !self.stop.load(Ordering::Relaxed) && !self.settled() {
            let arrival = self.turn(Duration::from_millis(50)).await?;
            self.told(arrival);
        }
        Ok(())
    }

    /// Reports a refused message, for verbs without payloads.
    pub(super) fn told(&mut self, arrival: Arrival) {
        if let Arrival::Refused(message, Why { text, remedy, .. }) = arrival {
            output::tell(format_args!("antedate: {}: {text} (remedy: {remedy})", message.topic));
            self.client.ack(&message);
        }
    }

    /// Fetches the broker's retained keys by a separate connection, because messages sealed before
    /// the first connection (a will) need them. Returns the guard and, after the limit, the missing
    /// part.
    async fn fetch_keys(
        settings: &Settings,
        guard: Guard,
        limit: Duration,
        keep_trying: bool,
    ) -> Result<(Guard, Option<String>), Failure> {
        let settings = Settings {
            client_id: format!("{}-keys", settings.client_id),
            clean: true,
            will: None,
            properties: Properties::default(),
            ..settings.clone()
        };
        let mut link = Self::new(&settings, guard, Vec::new(), Qos::AtMostOnce, keep_trying)?;
        // A late key can come with the next connection.
        let late = match tokio::time::timeout(limit, link.settle()).await {
            Ok(done) => done.map(|()| None)?,
            Err(_) => Some(link.missing()),
        };
        link.leave().await;
        Ok((link.guard, late))
    }

    /// Disconnects after everything was sent.
    pub(super) async fn finish(mut self) -> Result<(), Failure> {
        self.leave().await;
        self.guard.close()?;
        match self.denied {
            0 => Ok(()),
            1 => Err(Failure::Verdict("the broker did not take the message".into())),
            more => Err(Failure::Verdict(format!("the broker did not take {more} messages"))),
        }
    }

    /// Disconnects without writing state.
    pub(super) async fn leave(&mut self) {
        if !self.connected {
            return;
        }
        match self.reads {
            true => self.client.disconnect(),
            // Without waiting for a subscription that nobody needs any more: what the broker sent
            // after it would reset the connection, and publish the will.
            false => self.client.disconnect_now(),
        }
        let (end, patience) = (Instant::now() + Duration::from_secs(2), Duration::from_millis(200));
        let mut asked = false;
        while Instant::now() < end {
            let next = tokio::time::timeout(patience, self.client.next()).await;
            if let Ok(Ok(Event::Disconnected) | Err(_)) = next {
                break;
            }
            // The broker owes a confirmation. Without a DISCONNECT it would publish the will.
            if !asked && Instant::now() + Duration::from_secs(1) > end {
                self.client.disconnect_now();
                asked = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
