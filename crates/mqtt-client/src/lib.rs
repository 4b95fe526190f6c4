//! An MQTT 3.1.1 and 5.0 client over TCP, TLS or WebSocket (`rumqttc-v4-next`, `rumqttc-v5-next`).
//!
//! It runs on the caller's thread, so a publish waits for no other thread, and with TCP_NODELAY, so
//! a segment waits for no other segment. Payloads are opaque here; `antedate-mqtt` seals and opens
//! them.
//!
//! - `four`, `five`: the same calls for the two versions
//! - `earlier`: sessions of earlier processes, for version 5
//! - [`ConnectionLostError`]: why there is no connection, and the remedy
//! - `kept`: turns of the library's event loop that outlive their callers
//! - `properties`: what a user adds to packets of version 5
//! - `tls`: the settings of TLS
//! - [`websocket`]: connections through HTTP servers

#![forbid(unsafe_code)]

mod earlier;
mod five;
mod four;
mod kept;
mod lost;
mod properties;
mod tls;
pub mod websocket;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use antedate_host::fault::Fault;

pub use lost::ConnectionLostError;
pub use properties::{ConnectProperties, DisconnectProperties, MessageProperties, Properties, UserProperty};
pub use tls::Tls;

/// A version of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// MQTT 3.1.1.
    #[default]
    V311,
    /// MQTT 5.0.
    V5,
}

/// The quality of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Qos {
    /// QoS 0.
    #[default]
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce,
    /// QoS 2.
    ExactlyOnce,
}

/// A message that the broker publishes when it loses the client.
#[derive(Debug, Clone)]
pub struct Will {
    /// The topic.
    pub topic: String,
    /// The payload: an envelope, if the topic is protected.
    pub payload: Vec<u8>,
    /// The quality of service.
    pub qos: Qos,
    /// Whether the broker retains it.
    pub retain: bool,
}

/// The settings of a connection.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The broker's name or address.
    pub host: String,
    /// The broker's port.
    pub port: u16,
    /// The client identifier.
    pub client_id: String,
    /// The protocol version.
    pub version: Version,
    /// Whether the broker begins a new session (with 3.1.1, it also ends with the connection).
    pub clean: bool,
    /// The keep-alive interval, in seconds.
    pub keep_alive: u16,
    /// User name and password.
    pub login: Option<(String, String)>,
    /// TLS, if the connection has it.
    pub tls: Option<Tls>,
    /// The path of the broker's WebSocket, if the connection is one.
    pub websocket: Option<String>,
    /// Properties of packets. Version 3.1.1 has none.
    pub properties: Properties,
    /// The will.
    pub will: Option<Will>,
    /// The most publishes that wait to be sent.
    pub queue: usize,
}

impl Settings {
    /// The settings of a plain TCP connection with MQTT 3.1.1.
    #[must_use]
    pub fn new(client_id: &str, host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            client_id: client_id.to_owned(),
            version: Version::V311,
            clean: true,
            keep_alive: 60,
            login: None,
            tls: None,
            websocket: None,
            properties: Properties::default(),
            will: None,
            queue: 1024,
        }
    }
}

/// A received message.
#[derive(Debug, Clone)]
pub struct Message {
    /// The topic.
    pub topic: String,
    /// The payload, as the broker sent it.
    pub payload: Vec<u8>,
    /// The quality of service of the delivery.
    pub qos: u8,
    /// Whether the broker had retained it.
    pub retain: bool,
    /// Its properties, with version 5. The broker may have changed them.
    pub properties: Option<Box<MessageProperties>>,
    /// Its packet identifier. 0 with QoS 0.
    id: u16,
    /// The connection that it came by.
    connection: u64,
}

impl Message {
    /// Its packet identifier in this connection. 0 with QoS 0.
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }
}

/// An event of a connection.
#[derive(Debug)]
pub enum Event {
    /// The connection is up.
    Connected {
        /// Whether the broker resumed a session.
        session: bool,
        /// The longest packet that the broker takes: MQTT's limit, or less if it told so (version 5).
        longest: u32,
    },
    /// The broker answered a subscription.
    Subscribed {
        /// Whether it granted all filters.
        granted: bool,
    },
    /// A received message. With QoS 1 and 2 it must be [acknowledged](Client::ack).
    Message(Message),
    /// An own publish was sent, under this packet identifier (0 with QoS 0).
    Sent(u16),
    /// The broker acknowledged an own publish of QoS 1 or 2, by packet identifier.
    Done(u16),
    /// The broker refused an own publish, by packet identifier and reason (MQTT 5 only).
    Denied(u16, String),
    /// The disconnect was sent.
    Disconnected,
    /// An event that no caller needs.
    Other,
}

/// The queue is full: call [`Client::next`] first.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("too many messages wait to be sent")]
pub struct QueueFullError;

/// The client of one version.
enum Inner {
    Four(four::Inner),
    Five(five::Inner),
}

/// Calls the client of either version.
macro_rules! either {
    ($inner:expr, $one:ident => $call:expr) => {
        match $inner {
            Inner::Four($one) => $call,
            Inner::Five($one) => $call,
        }
    };
}

impl Inner {
    fn new(settings: &Settings, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Self, Fault> {
        websocket::check(settings)?;
        Ok(match settings.version {
            Version::V311 => Self::Four(four::Inner::new(settings, tls)),
            Version::V5 => Self::Five(five::Inner::new(settings, tls)),
        })
    }
}

/// An MQTT client. [`next`](Self::next) connects, and connects again after a loss.
///
/// It reads from the network in [`next`](Self::next) alone, and only once all acknowledgements are
/// sent. A slow caller thus slows the broker down.
pub struct Client {
    inner: Inner,
    settings: Settings,
    tls: Option<Arc<rustls::ClientConfig>>,
    /// Connections so far: acknowledgements of a former one no longer count.
    connection: u64,
    /// Packet identifiers and QoS of messages to acknowledge.
    acks: VecDeque<(u16, u8)>,
    /// The disconnect follows them.
    ending: bool,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// A client without a connection.
    ///
    /// # Errors
    /// When the certificates cannot be read, or the WebSocket has no valid address.
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let tls = settings.tls.as_ref().map(Tls::config).transpose()?;
        let mut client = Self {
            inner: Inner::new(settings, tls.clone())?,
            settings: settings.clone(),
            tls,
            connection: 0,
            acks: VecDeque::new(),
            ending: false,
        };
        if let Some(will) = &settings.will {
            client.set_will(will);
        }
        Ok(client)
    }

    /// Sets the will of the next connection.
    pub fn set_will(&mut self, will: &Will) {
        either!(&mut self.inner, one => one.set_will(will));
    }

    /// Queues a publish.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn publish(
        &self,
        topic: &str,
        qos: Qos,
        retain: bool,
        payload: Vec<u8>,
    ) -> Result<(), QueueFullError> {
        either!(&self.inner, one => one.publish(topic, qos, retain, payload))
    }

    /// Queues subscriptions.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn subscribe(&self, filters: &[String], qos: Qos) -> Result<(), QueueFullError> {
        either!(&self.inner, one => one.subscribe(filters, qos))
    }

    /// Acknowledges a message with the next call of [`next`](Self::next). The broker does not send
    /// it again then. Without effect if its connection is lost: the broker sends it again.
    pub fn ack(&mut self, message: &Message) {
        if message.qos > 0 && message.connection == self.connection {
            self.acks.push_back((message.id, message.qos));
        }
    }

    /// Disconnects once all acknowledgements are sent and the broker has confirmed what it was sent.
    pub fn disconnect(&mut self) {
        self.ending = true;
    }

    /// Disconnects at once.
    pub fn disconnect_now(&mut self) {
        self.ending = false;
        // A full queue is of an event loop that nobody runs.
        let _ = either!(&self.inner, one => one.disconnect_now());
    }

    /// Closes the connection, which must follow [`disconnect`](Self::disconnect).
    /// [`next`](Self::next) connects again, with a will that is set after this.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn hang_up(&mut self) -> Result<(), Fault> {
        // The library's event loop ends with its disconnect.
        self.inner = Inner::new(&self.settings, self.tls.clone())?;
        self.part();
        Ok(())
    }

    /// The octets of a publish's packet (MQTT 5.0, section 3.3), with the properties of this client.
    #[must_use]
    pub fn packet_length(&self, topic: &str, qos: Qos, payload: usize) -> usize {
        let id = if qos == Qos::AtMostOnce { 0 } else { 2 };
        let properties = match self.settings.version {
            Version::V311 => 0,
            Version::V5 => five::length(&self.settings.properties.publish),
        };
        let rest = 2 + topic.len() + id + properties + payload;
        1 + length_of_length(rest) + rest
    }

    /// As [`next`](Self::next), and calls `idle` once if it would wait with nothing left to send.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_after(&mut self, idle: impl FnOnce()) -> Result<Event, ConnectionLostError> {
        let (mut next, mut idle) = (pin!(self.next()), Some(idle));
        poll_fn(|context| {
            let polled = next.as_mut().poll(context);
            if let (true, Some(idle)) = (polled.is_pending(), idle.take()) {
                idle();
            }
            polled
        })
        .await
    }

    /// Whether [`next`](Self::next) has an event without waiting.
    pub fn has_events(&mut self) -> bool {
        either!(&mut self.inner, one => one.has_events())
    }

    /// Connects if there is no connection, sends queued requests and waits for the next event.
    ///
    /// # Errors
    /// When the connection is lost. The next call connects and sends unacknowledged messages again.
    pub async fn next(&mut self) -> Result<Event, ConnectionLostError> {
        self.hand_over();
        match either!(&mut self.inner, one => one.next().await) {
            Ok(Event::Message(message)) => {
                Ok(Event::Message(Message { connection: self.connection, ..message }))
            }
            Ok(event) => Ok(event),
            Err(error) => {
                // The broker sends unacknowledged messages again, under other identifiers.
                either!(&mut self.inner, one => one.forget_unacknowledged());
                self.part();
                Err(error)
            }
        }
    }

    /// Hands acknowledgements, and then the disconnect, to the library as far as its queue has room.
    fn hand_over(&mut self) {
        while let Some((id, qos)) = self.acks.front() {
            if either!(&self.inner, one => one.ack(*id, *qos)).is_err() {
                return;
            }
            self.acks.pop_front();
        }
        if self.ending {
            self.ending = either!(&self.inner, one => one.disconnect()).is_err();
        }
    }

    /// The end of a connection.
    fn part(&mut self) {
        self.connection += 1;
        self.acks.clear();
    }
}

/// The octets of a length (section 1.5.5): seven bits each.
const fn length_of_length(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        _ => 4,
    }
}

/// The most waiting requests that are written at once. None is waited for.
const BATCH: usize = 64;
/// The largest packet: the limit of MQTT.
pub const MAX_PACKET: u32 = 268_435_455;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_of_a_packet_is_told() {
        let mut settings = Settings::new("x", "localhost", 1);
        let length = |settings: &Settings, qos, payload| {
            Client::new(settings).expect("a client").packet_length("a/b", qos, payload)
        };
        assert_eq!(length(&settings, Qos::AtMostOnce, 10), 1 + 1 + 5 + 10);
        assert_eq!(length(&settings, Qos::AtLeastOnce, 120), 1 + 1 + 5 + 2 + 120);
        assert_eq!(length(&settings, Qos::AtLeastOnce, 121), 1 + 2 + 5 + 2 + 121);
        settings.version = Version::V5;
        // The length of no properties.
        assert_eq!(length(&settings, Qos::AtMostOnce, 10), 1 + 1 + 5 + 1 + 10);
        settings.properties.publish.user.push(("k".into(), "v".into()));
        assert_eq!(length(&settings, Qos::AtMostOnce, 10), 1 + 1 + 5 + 1 + (1 + 3 + 3) + 10);
    }
}
