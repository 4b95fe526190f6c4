//! An MQTT 3.1.1 and 5.0 client over TCP or TLS (`rumqttc`).
//!
//! It runs on the caller's thread, so a publish waits for no other thread, and with TCP_NODELAY, so
//! a segment waits for no other segment. Payloads are opaque here; `antedate-mqtt` seals and opens
//! them.

#![forbid(unsafe_code)]

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use antedate_host::fault::Fault;
use rumqttc::v5::mqttbytes::v5 as five;
use rumqttc::{ConnectReturnCode, ConnectionError, NetworkOptions, Outgoing, Packet, Transport, v5};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

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

impl Qos {
    const fn four(self) -> rumqttc::QoS {
        match self {
            Self::AtMostOnce => rumqttc::QoS::AtMostOnce,
            Self::AtLeastOnce => rumqttc::QoS::AtLeastOnce,
            Self::ExactlyOnce => rumqttc::QoS::ExactlyOnce,
        }
    }

    const fn five(self) -> v5::mqttbytes::QoS {
        match self {
            Self::AtMostOnce => v5::mqttbytes::QoS::AtMostOnce,
            Self::AtLeastOnce => v5::mqttbytes::QoS::AtLeastOnce,
            Self::ExactlyOnce => v5::mqttbytes::QoS::ExactlyOnce,
        }
    }
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
    /// Root certificates (PEM). With them the connection is TLS.
    pub cafile: Option<PathBuf>,
    /// The will.
    pub will: Option<Will>,
    /// The most requests that wait to be sent.
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
            cafile: None,
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
    ack: Option<Box<Ack>>,
}

#[derive(Debug, Clone)]
enum Ack {
    Four(rumqttc::Publish),
    Five(five::Publish),
}

/// An event of a connection.
#[derive(Debug)]
pub enum Event {
    /// The connection is up.
    Connected {
        /// Whether the broker resumed a session.
        session: bool,
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

/// The connection is lost.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionLostError {
    /// The broker refused this client. Another try does not help.
    #[error("the broker refuses the connection: {0}")]
    Refused(String),
    /// TLS failed. Another try does not help.
    #[error(
        "TLS: {0} (--cafile names the certificate of the authority that signed the broker's, and -h the name that the broker's is for)"
    )]
    Tls(String),
    /// The network or the broker failed. Another try may help.
    #[error("{0}")]
    Broken(String),
}

/// The queue is full: call [`Client::next`] first.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("too many messages wait to be sent")]
pub struct QueueFullError;

enum Inner {
    Four(rumqttc::AsyncClient, Box<rumqttc::EventLoop>),
    Five(v5::AsyncClient, Box<v5::EventLoop>),
}

/// An MQTT client. [`next`](Self::next) connects, and connects again after a loss.
pub struct Client {
    inner: Inner,
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
    /// When the certificates cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let transport = match &settings.cafile {
            Some(file) => Transport::tls_with_config(rumqttc::TlsConfiguration::Rustls(tls(file)?)),
            None => Transport::tcp(),
        };
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        let keep_alive = Duration::from_secs(settings.keep_alive.into());
        let inner = match settings.version {
            Version::V311 => {
                let mut options =
                    rumqttc::MqttOptions::new(&settings.client_id, &settings.host, settings.port);
                options.set_transport(transport).set_keep_alive(keep_alive).set_clean_session(settings.clean);
                options
                    .set_manual_acks(true)
                    .set_max_packet_size(MAX_PACKET, MAX_PACKET)
                    .set_inflight(INFLIGHT);
                if let Some((user, password)) = &settings.login {
                    options.set_credentials(user, password);
                }
                let (client, mut events) = rumqttc::AsyncClient::new(options, settings.queue);
                events.set_network_options(network);
                Inner::Four(client, Box::new(events))
            }
            Version::V5 => {
                let mut options = v5::MqttOptions::new(&settings.client_id, &settings.host, settings.port);
                options.set_transport(transport).set_keep_alive(keep_alive).set_clean_start(settings.clean);
                options.set_manual_acks(true).set_network_options(network);
                options.set_outgoing_inflight_upper_limit(INFLIGHT);
                // The default is 10 KiB.
                options.set_max_packet_size(Some(MAX_PACKET as u32));
                // The default ends the session with the connection.
                options.set_session_expiry_interval((!settings.clean).then_some(u32::MAX));
                if let Some((user, password)) = &settings.login {
                    options.set_credentials(user, password);
                }
                let (client, events) = v5::AsyncClient::new(options, settings.queue);
                Inner::Five(client, Box::new(events))
            }
        };
        let mut client = Self { inner };
        if let Some(will) = &settings.will {
            client.set_will(will);
        }
        Ok(client)
    }

    /// Sets the will of the next connection.
    pub fn set_will(&mut self, will: &Will) {
        let (topic, payload) = (&will.topic, will.payload.clone());
        match &mut self.inner {
            Inner::Four(_, events) => {
                let will = rumqttc::LastWill::new(topic, payload, will.qos.four(), will.retain);
                events.mqtt_options.set_last_will(will);
            }
            Inner::Five(_, events) => {
                let will = five::LastWill::new(topic, payload, will.qos.five(), will.retain, None);
                events.options.set_last_will(will);
            }
        }
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
        match &self.inner {
            Inner::Four(client, _) => {
                client.try_publish(topic, qos.four(), retain, payload).map_err(|_| QueueFullError)
            }
            Inner::Five(client, _) => {
                client.try_publish(topic, qos.five(), retain, payload).map_err(|_| QueueFullError)
            }
        }
    }

    /// Queues subscriptions.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn subscribe(&self, filters: &[String], qos: Qos) -> Result<(), QueueFullError> {
        match &self.inner {
            Inner::Four(client, _) => {
                let filters =
                    filters.iter().map(|one| rumqttc::SubscribeFilter::new(one.clone(), qos.four()));
                client.try_subscribe_many(filters).map_err(|_| QueueFullError)
            }
            Inner::Five(client, _) => {
                let filters = filters.iter().map(|one| five::Filter::new(one.clone(), qos.five()));
                client.try_subscribe_many(filters).map_err(|_| QueueFullError)
            }
        }
    }

    /// Queues the acknowledgement of a message. The broker does not send it again then.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn ack(&self, message: &Message) -> Result<(), QueueFullError> {
        match (&self.inner, message.ack.as_deref()) {
            (Inner::Four(client, _), Some(Ack::Four(publish))) => {
                client.try_ack(publish).map_err(|_| QueueFullError)
            }
            (Inner::Five(client, _), Some(Ack::Five(publish))) => {
                client.try_ack(publish).map_err(|_| QueueFullError)
            }
            _ => Ok(()),
        }
    }

    /// Queues the disconnect.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn disconnect(&self) -> Result<(), QueueFullError> {
        match &self.inner {
            Inner::Four(client, _) => client.try_disconnect().map_err(|_| QueueFullError),
            Inner::Five(client, _) => client.try_disconnect().map_err(|_| QueueFullError),
        }
    }

    /// Closes the connection, which must follow [`disconnect`](Self::disconnect).
    /// [`next`](Self::next) connects again.
    pub fn hang_up(&mut self) {
        match &mut self.inner {
            Inner::Four(_, events) => events.clean(),
            Inner::Five(_, events) => events.clean(),
        }
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

    /// Connects if there is no connection, sends queued requests and waits for the next event.
    ///
    /// # Errors
    /// When the connection is lost. The next call connects and sends unacknowledged messages again.
    pub async fn next(&mut self) -> Result<Event, ConnectionLostError> {
        match &mut self.inner {
            Inner::Four(_, events) => {
                let event = match events.poll().await {
                    Ok(rumqttc::Event::Incoming(packet)) => incoming_four(packet),
                    Ok(rumqttc::Event::Outgoing(packet)) => outgoing(&packet),
                    Err(error) => return Err(lost_four(error)),
                };
                if let Event::Connected { session: true } = event {
                    // PUBREL may still come for messages that an earlier process received. The
                    // library answers it only for identifiers that it has seen, so it is shown all
                    // of them.
                    for id in 1..=u16::MAX {
                        let mut seen = rumqttc::Publish::new("a", rumqttc::QoS::ExactlyOnce, Vec::new());
                        seen.pkid = id;
                        let before = events.state.events.len();
                        let _ = events.state.handle_incoming_packet(Packet::Publish(seen));
                        events.state.events.truncate(before);
                    }
                }
                Ok(event)
            }
            Inner::Five(_, events) => {
                let event = match events.poll().await {
                    Ok(v5::Event::Incoming(packet)) => incoming_five(packet),
                    Ok(v5::Event::Outgoing(packet)) => outgoing(&packet),
                    Err(error) => return Err(lost_five(error)),
                };
                if let Event::Connected { session: true } = event {
                    for id in 1..=u16::MAX {
                        let mut seen =
                            five::Publish::new("a", v5::mqttbytes::QoS::ExactlyOnce, Vec::new(), None);
                        seen.pkid = id;
                        let before = events.state.events.len();
                        let _ = events.state.handle_incoming_packet(v5::Incoming::Publish(seen));
                        events.state.events.truncate(before);
                    }
                }
                Ok(event)
            }
        }
    }
}

/// The largest packet: the limit of MQTT.
const MAX_PACKET: usize = 268_435_455;
/// The most unacknowledged publishes of QoS 1 and 2. Mosquitto's own default is 20.
const INFLIGHT: u16 = 100;

fn tls(file: &std::path::Path) -> Result<Arc<rustls::ClientConfig>, Fault> {
    let cannot = |what: String| Fault::of_file(file, what, "give a file with certificates in PEM");
    let mut roots = rustls::RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(file).map_err(|error| cannot(format!("cannot be read: {error}")))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| cannot(format!("cannot be read: {error}")))?;
        roots.add(certificate).map_err(|error| cannot(format!("has a certificate that is none: {error}")))?;
    }
    if roots.is_empty() {
        return Err(cannot("has no certificate".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| cannot(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn outgoing(packet: &Outgoing) -> Event {
    match packet {
        Outgoing::Publish(id) => Event::Sent(*id),
        Outgoing::Disconnect => Event::Disconnected,
        _ => Event::Other,
    }
}

fn incoming_four(packet: Packet) -> Event {
    match packet {
        Packet::ConnAck(ack) => Event::Connected { session: ack.session_present },
        Packet::SubAck(ack) => {
            let refused =
                |code: &rumqttc::SubscribeReasonCode| matches!(code, rumqttc::SubscribeReasonCode::Failure);
            Event::Subscribed { granted: !ack.return_codes.iter().any(refused) }
        }
        Packet::Publish(publish) => Event::Message(Message {
            topic: publish.topic.clone(),
            payload: publish.payload.to_vec(),
            qos: publish.qos as u8,
            retain: publish.retain,
            ack: (publish.qos != rumqttc::QoS::AtMostOnce).then(|| Box::new(Ack::Four(publish))),
        }),
        Packet::PubAck(rumqttc::PubAck { pkid }) | Packet::PubComp(rumqttc::PubComp { pkid }) => {
            Event::Done(pkid)
        }
        _ => Event::Other,
    }
}

fn incoming_five(packet: v5::Incoming) -> Event {
    match packet {
        v5::Incoming::ConnAck(ack) => Event::Connected { session: ack.session_present },
        v5::Incoming::SubAck(ack) => {
            let granted =
                |code: &five::SubscribeReasonCode| matches!(code, five::SubscribeReasonCode::Success(_));
            Event::Subscribed { granted: ack.return_codes.iter().all(granted) }
        }
        v5::Incoming::Publish(publish) => Event::Message(Message {
            topic: String::from_utf8_lossy(&publish.topic).into_owned(),
            payload: publish.payload.to_vec(),
            qos: publish.qos as u8,
            retain: publish.retain,
            ack: (publish.qos != v5::mqttbytes::QoS::AtMostOnce).then(|| Box::new(Ack::Five(publish))),
        }),
        v5::Incoming::PubAck(five::PubAck { pkid, reason, .. }) => match reason {
            five::PubAckReason::Success | five::PubAckReason::NoMatchingSubscribers => Event::Done(pkid),
            reason => Event::Denied(pkid, format!("{reason:?}")),
        },
        // The library answers a successful one, and PUBCOMP follows.
        v5::Incoming::PubRec(five::PubRec { pkid, reason, .. }) => match reason {
            five::PubRecReason::Success | five::PubRecReason::NoMatchingSubscribers => Event::Other,
            reason => Event::Denied(pkid, format!("{reason:?}")),
        },
        v5::Incoming::PubComp(five::PubComp { pkid, .. }) => Event::Done(pkid),
        _ => Event::Other,
    }
}

fn lost_four(error: ConnectionError) -> ConnectionLostError {
    match error {
        ConnectionError::ConnectionRefused(ConnectReturnCode::ServiceUnavailable) => {
            ConnectionLostError::Broken("the broker is not available".into())
        }
        ConnectionError::ConnectionRefused(code) => ConnectionLostError::Refused(format!("{code:?}")),
        ConnectionError::Tls(rumqttc::TlsError::Io(error)) if error.get_ref().is_none() => {
            ConnectionLostError::Broken(error.to_string())
        }
        ConnectionError::Tls(error) => ConnectionLostError::Tls(error.to_string()),
        error => ConnectionLostError::Broken(error.to_string()),
    }
}

fn lost_five(error: v5::ConnectionError) -> ConnectionLostError {
    match error {
        v5::ConnectionError::ConnectionRefused(code) => ConnectionLostError::Refused(format!("{code:?}")),
        v5::ConnectionError::Tls(rumqttc::TlsError::Io(error)) if error.get_ref().is_none() => {
            ConnectionLostError::Broken(error.to_string())
        }
        v5::ConnectionError::Tls(error) => ConnectionLostError::Tls(error.to_string()),
        error => ConnectionLostError::Broken(error.to_string()),
    }
}
