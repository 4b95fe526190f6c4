//! The client for MQTT 5.0.

use std::sync::Arc;

use rumqttc_five::mqttbytes::{Error as MqttError, QoS};
use rumqttc_five::{
    AckMode, AsyncClient, Broker, ConnectReturnCode, ConnectionError, DisconnectProperties,
    DisconnectReasonCode, Event as Given, EventLoop, LastWill, LastWillProperties, ManualAck, MqttOptions,
    NetworkOptions, Outgoing, Packet, PubAck, PubAckReason, PubComp, PubRec, PubRecReason, PublishOptions,
    PublishProperties, StateError, SubscribeFilter, SubscribeProperties, SubscribeReasonCode,
    TlsConfiguration, Transport,
};
use rustls::ClientConfig;

use crate::earlier::Earlier;
use crate::kept::Kept;
use crate::lost::words;
use crate::{
    BATCH, ConnectProperties, ConnectionLostError, Event, MAX_PACKET, Message, MessageProperties, Properties,
    Qos, QueueFullError, Settings, Will, length_of_length, tls, websocket,
};

/// The most unacknowledged publishes of QoS 1 and 2, if the broker's Receive Maximum is not less.
const INFLIGHT: u16 = 100;

/// A reason code: packet too large.
const PACKET_TOO_LARGE: u8 = 0x95;

pub(crate) struct Inner {
    client: AsyncClient,
    events: Kept<EventLoop, Result<Given, ConnectionError>>,
    /// The will of the next connection, if a turn ran when it was given.
    will: Option<LastWill>,
    /// The end of the connection, once what it brought was passed on.
    lost: Option<ConnectionLostError>,
    properties: Box<Properties>,
}

const fn qos(qos: Qos) -> QoS {
    match qos {
        Qos::AtMostOnce => QoS::AtMostOnce,
        Qos::AtLeastOnce => QoS::AtLeastOnce,
        Qos::ExactlyOnce => QoS::ExactlyOnce,
    }
}

/// The broker, and the way to it. The address of a WebSocket was checked.
fn place(settings: &Settings, tls: Option<Arc<ClientConfig>>) -> (Broker, Transport) {
    let url = settings.websocket.as_ref().map(|path| websocket::url(settings, path));
    let websocket = url.and_then(|url| Broker::websocket(url).ok());
    let tls = tls.map(TlsConfiguration::Rustls);
    match (websocket, tls) {
        (Some(broker), Some(tls)) => (broker, Transport::wss_with_config(tls)),
        (Some(broker), None) => (broker, Transport::ws()),
        (None, Some(tls)) => (Broker::tcp(&settings.host, settings.port), Transport::tls_with_config(tls)),
        (None, None) => (Broker::tcp(&settings.host, settings.port), Transport::tcp()),
    }
}

impl Inner {
    pub(crate) fn new(settings: &Settings, tls: Option<Arc<ClientConfig>>) -> Self {
        let (broker, transport) = place(settings, tls);
        let mut options = MqttOptions::new(&settings.client_id, broker);
        options.set_transport(transport);
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        options
            .set_keep_alive(settings.keep_alive)
            .set_clean_start(settings.clean)
            .set_ack_mode(AckMode::Manual)
            .set_network_options(network)
            .set_outgoing_inflight_upper_limit(INFLIGHT)
            .set_max_request_batch(BATCH);
        let ConnectProperties {
            session_expiry_interval,
            receive_maximum,
            maximum_packet_size,
            topic_alias_maximum,
            user,
        } = settings.properties.connect.clone();
        // Without an interval the session ends with the connection.
        let expiry = session_expiry_interval.or((!settings.clean).then_some(u32::MAX));
        options
            .set_max_packet_size(Some(maximum_packet_size.unwrap_or(MAX_PACKET)))
            .set_session_expiry_interval(expiry)
            .set_receive_maximum(receive_maximum)
            .set_topic_alias_max(topic_alias_maximum)
            .set_user_properties(user);
        if !settings.clean {
            // The broker's session may be an earlier process's.
            options.set_session_store(Earlier { inflight: INFLIGHT, expiry });
        }
        if let Some((user, password)) = &settings.login {
            options.set_credentials(user, password.clone());
        }
        let (client, events) = AsyncClient::builder(options).capacity(settings.queue).build();
        Self {
            client,
            events: Kept::new(events),
            will: None,
            lost: None,
            properties: Box::new(settings.properties.clone()),
        }
    }

    pub(crate) fn set_will(&mut self, will: &Will) {
        let properties = will_properties(&self.properties);
        let will = LastWill::new(&will.topic, will.payload.clone(), qos(will.qos), will.retain, properties);
        match self.events.idle() {
            Some(events) => drop(events.options.set_last_will(will)),
            None => self.will = Some(will),
        }
    }

    pub(crate) fn publish(
        &self,
        topic: &str,
        of: Qos,
        retain: bool,
        payload: Vec<u8>,
    ) -> Result<(), QueueFullError> {
        let mut options = PublishOptions::new(qos(of)).retain(retain);
        if self.properties.publish != MessageProperties::default() {
            options = options.properties(publish_properties(&self.properties.publish));
        }
        self.client.try_publish(topic, payload, options).map_err(full)
    }

    pub(crate) fn subscribe(&self, filters: &[String], of: Qos) -> Result<(), QueueFullError> {
        let filters = filters.iter().map(|one| SubscribeFilter::new(one.clone(), qos(of)));
        let (user_properties, id) = self.properties.subscribe.clone();
        let done = match (&user_properties[..], id) {
            ([], None) => self.client.try_subscribe_many(filters),
            _ => self
                .client
                .try_subscribe_many_with_properties(filters, SubscribeProperties { id, user_properties }),
        };
        done.map_err(full)
    }

    pub(crate) fn ack(&self, id: u16, of: u8) -> Result<(), QueueFullError> {
        let ack = match of {
            1 => ManualAck::PubAck(PubAck::new(id, None)),
            _ => ManualAck::PubRec(PubRec::new(id, None)),
        };
        self.client.try_manual_ack(ack).map_err(full)
    }

    pub(crate) fn disconnect(&self) -> Result<(), QueueFullError> {
        let done = match self.goodbye() {
            None => self.client.try_disconnect(),
            Some(properties) => self
                .client
                .try_disconnect_with_properties(DisconnectReasonCode::NormalDisconnection, properties),
        };
        done.map_err(full)
    }

    pub(crate) fn disconnect_now(&self) -> Result<(), QueueFullError> {
        let done = match self.goodbye() {
            None => self.client.try_disconnect_now(),
            Some(properties) => self
                .client
                .try_disconnect_now_with_properties(DisconnectReasonCode::NormalDisconnection, properties),
        };
        done.map_err(full)
    }

    /// The properties of the disconnect, if there are any.
    fn goodbye(&self) -> Option<DisconnectProperties> {
        let given = &self.properties.disconnect;
        (given != &crate::DisconnectProperties::default()).then(|| DisconnectProperties {
            session_expiry_interval: given.session_expiry_interval,
            reason_string: None,
            user_properties: given.user.clone(),
            server_reference: None,
        })
    }

    /// Whether the next event is there already.
    pub(crate) fn has_events(&mut self) -> bool {
        self.lost.is_some() || self.events.idle().is_some_and(|events| !events.state.events.is_empty())
    }

    pub(crate) async fn next(&mut self) -> Result<Event, ConnectionLostError> {
        if let Some(lost) = self.lost.take() {
            return self.last(lost);
        }
        let given = match self.events.idle() {
            // Without waiting.
            Some(events) if !events.state.events.is_empty() => events.poll().await,
            idle => {
                if let Some((events, will)) = idle.zip(self.will.take()) {
                    events.options.set_last_will(will);
                }
                let turn = |mut events: Box<EventLoop>| async move {
                    let given = events.poll().await;
                    (events, given)
                };
                self.events.turn(turn).await
            }
        };
        match given {
            Ok(Given::Incoming(packet)) => Ok(incoming(packet)),
            Ok(Given::Outgoing(Outgoing::Publish(id))) => Ok(Event::Sent(id)),
            Ok(Given::Outgoing(Outgoing::Disconnect)) => Ok(Event::Disconnected),
            Ok(Given::Outgoing(_) | Given::Auth(_)) => Ok(Event::Other),
            Err(error) => self.last(lost(error)),
        }
    }

    /// The next event of a publish from before the connection was lost, or the loss. A broker may
    /// refuse a publish and close the connection at once.
    fn last(&mut self, lost: ConnectionLostError) -> Result<Event, ConnectionLostError> {
        let of_a_publish = |event: &Given| {
            matches!(
                event,
                Given::Outgoing(Outgoing::Publish(_))
                    | Given::Incoming(Packet::PubAck(_) | Packet::PubRec(_) | Packet::PubComp(_))
            )
        };
        let found = self.events.idle().and_then(|events| {
            let at = events.state.events.iter().position(of_a_publish)?;
            events.state.events.remove(at)
        });
        let event = match found {
            Some(Given::Outgoing(Outgoing::Publish(id))) => Event::Sent(id),
            Some(Given::Incoming(packet)) => incoming(packet),
            _ => return Err(lost),
        };
        self.lost = Some(lost);
        Ok(event)
    }

    /// Drops what the lost connection brought and nobody has seen, if the broker sends it again.
    pub(crate) fn forget_unacknowledged(&mut self) {
        let Some(events) = self.events.idle() else { return };
        events.state.events.retain(|event| {
            !matches!(event, Given::Incoming(Packet::Publish(publish)) if publish.qos != QoS::AtMostOnce)
        });
    }
}

/// The client's requests are valid, and its event loop lives, so the queue is full.
fn full(_: rumqttc_five::ClientError) -> QueueFullError {
    QueueFullError
}

fn incoming(packet: Packet) -> Event {
    match packet {
        Packet::ConnAck(ack) => {
            let told = ack.properties.and_then(|properties| properties.max_packet_size);
            Event::Connected { session: ack.session_present, longest: told.unwrap_or(MAX_PACKET) }
        }
        Packet::SubAck(ack) => {
            let granted = |code: &SubscribeReasonCode| matches!(code, SubscribeReasonCode::Success(_));
            Event::Subscribed { granted: ack.return_codes.iter().all(granted) }
        }
        Packet::Publish(publish) => Event::Message(Message {
            topic: String::from_utf8_lossy(&publish.topic).into_owned(),
            payload: publish.payload.to_vec(),
            qos: publish.qos as u8,
            retain: publish.retain,
            properties: publish.properties.map(|given| Box::new(received(given))),
            id: publish.pkid,
            connection: 0,
        }),
        Packet::PubAck(PubAck { pkid, reason, .. }) => match reason {
            PubAckReason::Success | PubAckReason::NoMatchingSubscribers => Event::Done(pkid),
            reason => Event::Denied(pkid, words(&format!("{reason:?}"))),
        },
        // The library answers a successful one, and PUBCOMP follows.
        Packet::PubRec(PubRec { pkid, reason, .. }) => match reason {
            PubRecReason::Success | PubRecReason::NoMatchingSubscribers => Event::Other,
            reason => Event::Denied(pkid, words(&format!("{reason:?}"))),
        },
        Packet::PubComp(PubComp { pkid, .. }) => Event::Done(pkid),
        _ => Event::Other,
    }
}

fn publish_properties(of: &MessageProperties) -> PublishProperties {
    PublishProperties {
        message_expiry_interval: of.message_expiry_interval,
        response_topic: of.response_topic.clone(),
        correlation_data: of.correlation_data.clone().map(Into::into),
        user_properties: of.user.clone(),
        content_type: of.content_type.clone(),
        ..PublishProperties::default()
    }
}

fn received(of: PublishProperties) -> MessageProperties {
    MessageProperties {
        content_type: of.content_type,
        response_topic: of.response_topic,
        correlation_data: of.correlation_data.map(|data| data.to_vec()),
        message_expiry_interval: of.message_expiry_interval,
        user: of.user_properties,
        subscriptions: of.subscription_identifiers,
    }
}

/// The properties of a will, if there are any.
fn will_properties(of: &Properties) -> Option<LastWillProperties> {
    let (will, delay_interval) = (&of.will, of.will_delay_interval);
    (will != &MessageProperties::default() || delay_interval.is_some()).then(|| LastWillProperties {
        delay_interval,
        payload_format_indicator: None,
        message_expiry_interval: will.message_expiry_interval,
        content_type: will.content_type.clone(),
        response_topic: will.response_topic.clone(),
        correlation_data: will.correlation_data.clone().map(Into::into),
        user_properties: will.user.clone(),
    })
}

/// The octets of a publish's properties, with those of their length.
pub(crate) fn length(of: &MessageProperties) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, |text| 3 + text.len());
    let user: usize = of.user.iter().map(|(name, value)| 5 + name.len() + value.len()).sum();
    let length = text(&of.content_type)
        + text(&of.response_topic)
        + of.correlation_data.as_ref().map_or(0, |data| 3 + data.len())
        + of.message_expiry_interval.map_or(0, |_| 5)
        + user;
    length_of_length(length) + length
}

fn lost(error: ConnectionError) -> ConnectionLostError {
    match error {
        ConnectionError::ConnectionRefused(
            ConnectReturnCode::ServiceUnavailable
            | ConnectReturnCode::ServerUnavailable
            | ConnectReturnCode::ServerBusy
            | ConnectReturnCode::ConnectionRateExceeded,
        ) => ConnectionLostError::unavailable(),
        ConnectionError::ConnectionRefused(code) => ConnectionLostError::refused(&code),
        // Mosquitto acknowledges a publish above its `message_size_limit` so, with a reason that this
        // packet does not have (MQTT 5.0, section 3.4.2.1). Another try would not help.
        ConnectionError::MqttState(StateError::Deserialization(MqttError::InvalidConnectReturnCode(
            PACKET_TOO_LARGE,
        ))) => ConnectionLostError::TooLong,
        ConnectionError::MqttState(StateError::Deserialization(error)) => ConnectionLostError::broken(&error),
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, .. }) => {
            ConnectionLostError::disconnected(&reason_code)
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => ConnectionLostError::closed(),
        ConnectionError::MqttState(StateError::AwaitPingResp) | ConnectionError::Timeout(_) => {
            ConnectionLostError::silent()
        }
        ConnectionError::Tls(error) => tls::lost(&error),
        error => ConnectionLostError::broken(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_a_publish_is_no_outage() {
        let state = StateError::Deserialization(MqttError::InvalidConnectReturnCode(PACKET_TOO_LARGE));
        let told = lost(ConnectionError::MqttState(state));
        assert!(matches!(told, ConnectionLostError::TooLong), "{told}");
    }

    #[test]
    fn publish_and_its_answer_precede_the_loss() {
        let mut inner = Inner::new(&Settings::new("press7", "localhost", 1), None);
        let events = &mut inner.events.idle().expect("no turn runs").state.events;
        events.push_back(Given::Outgoing(Outgoing::PingReq));
        events.push_back(Given::Outgoing(Outgoing::Publish(7)));
        events.push_back(Given::Incoming(Packet::PubAck(PubAck::new(7, None))));
        let told = inner.last(ConnectionLostError::closed());
        assert!(matches!(told, Ok(Event::Sent(7))), "{told:?}");
        for is_answer in [true, false] {
            let lost = inner.lost.take().expect("the loss");
            let told = inner.last(lost);
            match told {
                Ok(Event::Done(7)) => assert!(is_answer),
                Err(ConnectionLostError::Broken { .. }) => assert!(!is_answer),
                other => panic!("{other:?}"),
            }
        }
    }
}
