//! The client for MQTT 3.1.1.

use std::sync::Arc;

use rumqttc_four::mqttbytes::QoS;
use rumqttc_four::{
    AckMode, AsyncClient, Broker, ConnectReturnCode, ConnectionError, Event as Given, EventLoop, LastWill,
    ManualAck, MqttOptions, NetworkOptions, Outgoing, Packet, PubAck, PubComp, PubRec, PublishOptions,
    StateError, SubscribeFilter, SubscribeReasonCode, TlsConfiguration, Transport,
};
use rustls::ClientConfig;

use crate::kept::Kept;
use crate::{
    BATCH, ConnectionLostError, Event, MAX_PACKET, Message, Qos, QueueFullError, Settings, Will, tls,
    websocket,
};

/// The most unacknowledged publishes of QoS 1 and 2: Mosquitto's default for a client. In this version
/// a broker cannot tell its own limit, and Mosquitto 2.0.11 loses publishes of QoS 2 beyond it.
const INFLIGHT: u16 = 20;

pub(crate) struct Inner {
    client: AsyncClient,
    events: Kept<EventLoop, Result<Given, ConnectionError>>,
    /// The will of the next connection, if a turn ran when it was given.
    will: Option<LastWill>,
    /// The end of the connection, once what it brought was passed on.
    lost: Option<ConnectionLostError>,
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
        options
            .set_keep_alive(settings.keep_alive)
            .set_clean_session(settings.clean)
            .set_ack_mode(AckMode::Manual)
            .set_max_packet_size(MAX_PACKET as usize, MAX_PACKET as usize)
            .set_inflight(INFLIGHT)
            .set_max_request_batch(BATCH);
        if let Some((user, password)) = &settings.login {
            options.set_credentials(user, password.clone());
        }
        let (client, mut events) = AsyncClient::builder(options).capacity(settings.queue).build();
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        events.set_network_options(network);
        Self { client, events: Kept::new(events), will: None, lost: None }
    }

    pub(crate) fn set_will(&mut self, will: &Will) {
        let will = LastWill::new(&will.topic, will.payload.clone(), qos(will.qos), will.retain);
        match self.events.idle() {
            Some(events) => drop(events.mqtt_options.set_last_will(will)),
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
        self.client.try_publish(topic, payload, PublishOptions::new(qos(of)).retain(retain)).map_err(full)
    }

    pub(crate) fn subscribe(&self, filters: &[String], of: Qos) -> Result<(), QueueFullError> {
        self.client
            .try_subscribe_many(filters.iter().map(|one| SubscribeFilter::new(one.clone(), qos(of))))
            .map_err(full)
    }

    pub(crate) fn ack(&self, id: u16, of: u8) -> Result<(), QueueFullError> {
        let ack = match of {
            1 => ManualAck::PubAck(PubAck::new(id)),
            _ => ManualAck::PubRec(PubRec::new(id)),
        };
        self.client.try_manual_ack(ack).map_err(full)
    }

    pub(crate) fn disconnect(&self) -> Result<(), QueueFullError> {
        self.client.try_disconnect().map_err(full)
    }

    pub(crate) fn disconnect_now(&self) -> Result<(), QueueFullError> {
        self.client.try_disconnect_now().map_err(full)
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
                    events.mqtt_options.set_last_will(will);
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
            Ok(Given::Outgoing(_)) => Ok(Event::Other),
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
fn full(_: rumqttc_four::ClientError) -> QueueFullError {
    QueueFullError
}

fn incoming(packet: Packet) -> Event {
    match packet {
        Packet::ConnAck(ack) => Event::Connected { session: ack.session_present, longest: MAX_PACKET },
        Packet::SubAck(ack) => {
            let refused = |code: &SubscribeReasonCode| matches!(code, SubscribeReasonCode::Failure);
            Event::Subscribed { granted: !ack.return_codes.iter().any(refused) }
        }
        Packet::Publish(publish) => Event::Message(Message {
            topic: String::from_utf8_lossy(&publish.topic).into_owned(),
            payload: publish.payload.to_vec(),
            qos: publish.qos as u8,
            retain: publish.retain,
            properties: None,
            id: publish.pkid,
            connection: 0,
        }),
        Packet::PubAck(PubAck { pkid }) | Packet::PubComp(PubComp { pkid }) => Event::Done(pkid),
        _ => Event::Other,
    }
}

fn lost(error: ConnectionError) -> ConnectionLostError {
    match error {
        ConnectionError::ConnectionRefused(ConnectReturnCode::ServiceUnavailable) => {
            ConnectionLostError::unavailable()
        }
        ConnectionError::ConnectionRefused(code) => ConnectionLostError::refused(&code),
        ConnectionError::MqttState(StateError::ConnectionAborted) => ConnectionLostError::closed(),
        ConnectionError::MqttState(StateError::AwaitPingResp)
        | ConnectionError::NetworkTimeout
        | ConnectionError::FlushTimeout => ConnectionLostError::silent(),
        ConnectionError::Tls(error) => tls::lost(&error),
        error => ConnectionLostError::broken(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publish_and_its_answer_precede_the_loss() {
        let mut inner = Inner::new(&Settings::new("press7", "localhost", 1), None);
        let events = &mut inner.events.idle().expect("no turn runs").state.events;
        events.push_back(Given::Outgoing(Outgoing::PingReq));
        events.push_back(Given::Outgoing(Outgoing::Publish(7)));
        events.push_back(Given::Incoming(Packet::PubAck(PubAck::new(7))));
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
