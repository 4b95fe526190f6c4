//! Packets of both versions. Those that the proxy changes are read by the client library's codec;
//! all others pass as octets.

use bytes::{BufMut, Bytes, BytesMut};
use rumqttc_five::mqttbytes::v5 as five;
use rumqttc_four::mqttbytes::v4 as four;

/// The control packet types (MQTT 5.0, section 2.1.2).
pub(crate) mod kind {
    pub(crate) const CONNECT: u8 = 1;
    pub(crate) const CONNACK: u8 = 2;
    pub(crate) const PUBLISH: u8 = 3;
    pub(crate) const PUBACK: u8 = 4;
    pub(crate) const PUBREC: u8 = 5;
    pub(crate) const PUBREL: u8 = 6;
    pub(crate) const PUBCOMP: u8 = 7;
    pub(crate) const DISCONNECT: u8 = 14;
}

/// Octets that are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it sent octets that are no MQTT packet")]
pub(crate) struct MalformedError;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Four,
    Five,
}

/// The octets of the first packet, once all are there.
pub(crate) fn whole(input: &[u8]) -> Result<Option<usize>, MalformedError> {
    let mut length = 0;
    for (at, octet) in input.iter().skip(1).take(4).enumerate() {
        length |= usize::from(octet & 0x7f) << (7 * at);
        if octet & 0x80 == 0 {
            let whole = at + 2 + length;
            return Ok((whole <= input.len()).then_some(whole));
        }
    }
    if input.len() > 4 { Err(MalformedError) } else { Ok(None) }
}

/// The type of a packet.
pub(crate) fn kind(packet: &[u8]) -> u8 {
    packet.first().map_or(0, |octet| octet >> 4)
}

/// The octets behind the fixed header.
fn body(packet: &[u8]) -> &[u8] {
    let lengths = packet.iter().skip(1).take_while(|octet| **octet & 0x80 != 0).count();
    packet.get(lengths + 2..).unwrap_or_default()
}

/// The packet identifier of PUBACK, PUBREC, PUBREL and PUBCOMP.
pub(crate) fn id(packet: &[u8]) -> Result<u16, MalformedError> {
    let id = body(packet).first_chunk().map(|octets| u16::from_be_bytes(*octets));
    id.filter(|id| *id != 0).ok_or(MalformedError)
}

/// Writes PUBACK, PUBREC, PUBREL or PUBCOMP. Version 3.1.1 knows no reasons.
pub(crate) fn put_ack(kind: u8, id: u16, reason: Option<u8>, out: &mut BytesMut) {
    let flags = if kind == kind::PUBREL { 2 } else { 0 };
    out.put_u8(kind << 4 | flags);
    out.put_u8(2 + u8::from(reason.is_some()));
    out.put_u16(id);
    if let Some(reason) = reason {
        out.put_u8(reason);
    }
}

/// A DISCONNECT of the client, for which the broker publishes no will.
pub(crate) fn put_disconnect(out: &mut BytesMut) {
    out.put_slice(&[kind::DISCONNECT << 4, 0]);
}

/// A DISCONNECT of the server: it is busy, come again. Version 3.1.1 has none.
pub(crate) const SERVER_BUSY: [u8; 3] = [kind::DISCONNECT << 4, 1, 0x89];

/// Writes a CONNACK that refuses.
pub(crate) fn put_refusal(version: Version, refusal: Refusal, out: &mut BytesMut) {
    match version {
        Version::Four => out.put_slice(&[kind::CONNACK << 4, 2, 0, refusal.four()]),
        Version::Five => out.put_slice(&[kind::CONNACK << 4, 3, 0, refusal.five(), 0]),
    }
}

/// The reason of a refused CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The version of the protocol.
    Version,
    /// The broker or a key is away; another try may help.
    Unavailable,
    /// Its will cannot be sealed.
    Forbidden,
}

impl Refusal {
    const fn four(self) -> u8 {
        match self {
            Self::Version => 1,
            Self::Unavailable => 3,
            Self::Forbidden => 5,
        }
    }

    const fn five(self) -> u8 {
        match self {
            Self::Version => 0x84,
            Self::Unavailable => 0x88,
            Self::Forbidden => 0x87,
        }
    }
}

/// A CONNECT.
#[derive(Debug)]
pub(crate) enum Connect {
    Four(Box<four::Connect>),
    Five(Box<(five::Connect, Option<five::LastWill>, five::ConnectAuth)>),
}

/// The will in a CONNECT.
pub(crate) struct Will<'c> {
    pub(crate) topic: &'c [u8],
    pub(crate) payload: &'c mut Bytes,
}

impl Connect {
    /// The version that a CONNECT names, for the answer to one that cannot be read.
    pub(crate) fn version(packet: &[u8]) -> Version {
        if body(packet).get(6) == Some(&5) { Version::Five } else { Version::Four }
    }

    pub(crate) fn read(mut packet: BytesMut) -> Result<Self, MalformedError> {
        match Self::version(&packet) {
            Version::Four => match four::Packet::read(&mut packet, usize::MAX) {
                Ok(four::Packet::Connect(connect)) => Ok(Self::Four(Box::new(connect))),
                _ => Err(MalformedError),
            },
            Version::Five => match five::Packet::read(&mut packet, None) {
                Ok(five::Packet::Connect(connect, will, login)) => {
                    Ok(Self::Five(Box::new((connect, will, login))))
                }
                _ => Err(MalformedError),
            },
        }
    }

    pub(crate) fn client_id(&self) -> &str {
        match self {
            Self::Four(connect) => &connect.client_id,
            Self::Five(five) => &five.0.client_id,
        }
    }

    /// Whether the session may outlive the connection.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Four(connect) => !connect.clean_session,
            Self::Five(five) => {
                let connect = &five.0;
                let properties = connect.properties.as_ref();
                let expiry = properties.and_then(|properties| properties.session_expiry_interval);
                !connect.clean_start || expiry.is_some_and(|seconds| seconds > 0)
            }
        }
    }

    pub(crate) fn will(&mut self) -> Option<Will<'_>> {
        match self {
            Self::Four(connect) => connect
                .last_will
                .as_mut()
                .map(|will| Will { topic: will.topic.as_bytes(), payload: &mut will.message }),
            Self::Five(five) => five.1.as_mut().map(|will| {
                // The payload is no text any more.
                if let Some(properties) = &mut will.properties {
                    properties.payload_format_indicator = None;
                }
                Will { topic: &will.topic, payload: &mut will.message }
            }),
        }
    }

    /// Sets user and password.
    pub(crate) fn set_login(&mut self, user: &str, password: &str) {
        match self {
            Self::Four(connect) => {
                connect.set_credentials(user, password.as_bytes().to_vec());
            }
            Self::Five(five) => {
                five.2 = five::ConnectAuth::UsernamePassword {
                    username: user.into(),
                    password: password.as_bytes().to_vec().into(),
                };
            }
        }
    }

    /// The highest topic alias, and the longest packet that the client takes. The broker may send
    /// packets that are longer by `longer`: they are shorter when opened.
    pub(crate) fn widen(&mut self, longer: u32) -> (u16, Option<u32>) {
        let Self::Five(five) = self else { return (0, None) };
        let Some(properties) = &mut five.0.properties else { return (0, None) };
        let most = properties.max_packet_size;
        properties.max_packet_size = most.map(|most| most.saturating_add(longer));
        (properties.topic_alias_max.unwrap_or(0), most)
    }

    pub(crate) fn write(&self, out: &mut BytesMut) -> Result<(), MalformedError> {
        let written = match self {
            Self::Four(connect) => connect.write(out).is_ok(),
            Self::Five(five) => five.0.write(&five.1, &five.2, out).is_ok(),
        };
        if written { Ok(()) } else { Err(MalformedError) }
    }
}

/// The reason of a CONNACK of either version (MQTT 3.1.1, section 3.2.2.3; MQTT 5.0, section 3.2.2.2).
pub(crate) fn connack_code(packet: &[u8]) -> Result<u8, MalformedError> {
    body(packet).get(1).copied().ok_or(MalformedError)
}

/// A CONNACK of version 5: its highest topic alias, and the packet for the client, whose own packets
/// must be shorter by `longer` than the broker's limit.
pub(crate) fn narrow(packet: BytesMut, longer: u32) -> Result<(u16, Bytes), MalformedError> {
    let raw = packet.clone().freeze();
    let mut packet = packet;
    let Ok(five::Packet::ConnAck(mut answer)) = five::Packet::read(&mut packet, None) else {
        return Err(MalformedError);
    };
    let Some(properties) = &mut answer.properties else { return Ok((0, raw)) };
    let aliases = properties.topic_alias_max.unwrap_or(0);
    let Some(most) = &mut properties.max_packet_size else { return Ok((aliases, raw)) };
    *most = most.saturating_sub(longer).max(longer);
    let mut out = BytesMut::new();
    answer.write(&mut out).map_err(|_| MalformedError)?;
    Ok((aliases, out.freeze()))
}

/// Octets of the payload in a PUBLISH of version 5 (MQTT 5.0, section 3.3).
fn payload_len(packet: &[u8]) -> Option<usize> {
    let topic = body(packet);
    let len = usize::from(u16::from_be_bytes(*topic.first_chunk()?));
    let id = if packet.first()? & 6 == 0 { 0 } else { 2 };
    // Behind an octet of what is before them, the properties have the form of a packet.
    let properties = topic.get(1 + len + id..)?;
    let end = whole(properties).ok()??;
    properties.len().checked_sub(end)
}

/// Takes the properties that the codec left in the payload: it counts one octet too many for each
/// subscription identifier, and ends too early.
fn with_all_properties(mut publish: five::Publish, payload: usize) -> Result<five::Publish, MalformedError> {
    while publish.payload.len() != payload {
        let left = publish.payload.len().checked_sub(payload).ok_or(MalformedError)?;
        let mut properties = BytesMut::new();
        let mut length = left;
        while length >= 0x80 {
            properties.put_u8(length as u8 | 0x80);
            length >>= 7;
        }
        properties.put_u8(length as u8);
        properties.put_slice(publish.payload.get(..left).unwrap_or_default());
        let mut properties = properties.freeze();
        let read = five::PublishProperties::read(&mut properties);
        let more = read.ok().flatten().ok_or(MalformedError)?;
        let all = publish.properties.get_or_insert_default();
        all.payload_format_indicator = all.payload_format_indicator.or(more.payload_format_indicator);
        all.message_expiry_interval = all.message_expiry_interval.or(more.message_expiry_interval);
        all.topic_alias = all.topic_alias.or(more.topic_alias);
        all.response_topic = all.response_topic.take().or(more.response_topic);
        all.correlation_data = all.correlation_data.take().or(more.correlation_data);
        all.content_type = all.content_type.take().or(more.content_type);
        all.user_properties.extend(more.user_properties);
        all.subscription_identifiers.extend(more.subscription_identifiers);
        let _ = publish.payload.split_to(left - properties.len());
    }
    Ok(publish)
}

/// A PUBLISH.
#[derive(Debug)]
pub(crate) enum Publish {
    Four(four::Publish),
    Five(five::Publish),
}

/// Runs the same expression for either version.
macro_rules! either {
    ($publish:expr, $one:ident => $call:expr) => {
        match $publish {
            Publish::Four($one) => $call,
            Publish::Five($one) => $call,
        }
    };
}

impl Publish {
    pub(crate) fn read(version: Version, mut packet: BytesMut) -> Result<Self, MalformedError> {
        match version {
            Version::Four => match four::Packet::read(&mut packet, usize::MAX) {
                Ok(four::Packet::Publish(publish)) => Ok(Self::Four(publish)),
                _ => Err(MalformedError),
            },
            Version::Five => {
                let payload = payload_len(&packet).ok_or(MalformedError)?;
                match five::Packet::read(&mut packet, None) {
                    Ok(five::Packet::Publish(publish)) => {
                        Ok(Self::Five(with_all_properties(publish, payload)?))
                    }
                    _ => Err(MalformedError),
                }
            }
        }
    }

    pub(crate) fn topic(&self) -> Result<&str, MalformedError> {
        str::from_utf8(either!(self, one => &one.topic)).map_err(|_| MalformedError)
    }

    pub(crate) fn alias(&self) -> Option<u16> {
        match self {
            Self::Four(_) => None,
            Self::Five(publish) => publish.properties.as_ref().and_then(|properties| properties.topic_alias),
        }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        either!(self, one => &one.payload)
    }

    /// Sets the payload, which is no text.
    pub(crate) fn set_payload(&mut self, payload: &[u8]) {
        if let Self::Five(publish) = self
            && let Some(properties) = &mut publish.properties
        {
            properties.payload_format_indicator = None;
        }
        let payload = Bytes::copy_from_slice(payload);
        either!(self, one => one.payload = payload);
    }

    pub(crate) fn qos(&self) -> u8 {
        either!(self, one => one.qos as u8)
    }

    pub(crate) fn retain(&self) -> bool {
        either!(self, one => one.retain)
    }

    pub(crate) fn dup(&self) -> bool {
        either!(self, one => one.dup)
    }

    /// The packet identifier, 0 with QoS 0.
    pub(crate) fn id(&self) -> u16 {
        either!(self, one => one.pkid)
    }

    pub(crate) fn write(&self, out: &mut BytesMut) -> Result<(), MalformedError> {
        let written = match self {
            Self::Four(publish) => publish.write(out).is_ok(),
            Self::Five(publish) => publish.write(out).is_ok(),
        };
        if written { Ok(()) } else { Err(MalformedError) }
    }
}

/// Reads octets as either side's packets, and what can be read must be written and read back: the body
/// of a fuzz target.
pub(crate) fn exercise(octets: &[u8]) {
    let mut rest = octets;
    while let Ok(Some(length)) = whole(rest) {
        let (packet, after) = rest.split_at(length);
        rest = after;
        let _ = (id(packet), narrow(packet.into(), 192));
        for version in [Version::Four, Version::Five] {
            let mut out = BytesMut::new();
            if let Ok(mut publish) = Publish::read(version, packet.into())
                && publish.topic().is_ok()
                && publish.write(&mut out).is_ok()
            {
                assert_eq!(whole(&out), Ok(Some(out.len())));
                let again = Publish::read(version, out).expect("what was written");
                let key = |one: &Publish| (one.qos(), one.retain(), one.id(), one.alias());
                assert_eq!((key(&publish), publish.topic()), (key(&again), again.topic()));
                assert_eq!(publish.payload(), again.payload());
                publish.set_payload(b"opened");
                let mut out = BytesMut::new();
                publish.write(&mut out).expect("a shorter or longer payload");
                assert_eq!(Publish::read(version, out).expect("written").payload(), b"opened");
            }
        }
        let mut out = BytesMut::new();
        if let Ok(mut connect) = Connect::read(packet.into()) {
            connect.set_login("user", "password");
            connect.widen(192);
            if let Some(will) = connect.will() {
                *will.payload = Bytes::from_static(b"sealed");
            }
            if connect.write(&mut out).is_ok() {
                let mut again = Connect::read(out).expect("what was written");
                assert_eq!(
                    (connect.client_id(), connect.is_lasting()),
                    (again.client_id(), again.is_lasting())
                );
                assert!(again.will().is_none_or(|will| &will.payload[..] == b"sealed"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_of_all_kinds_are_survived() {
        let publish = b"\x33\x0b\x00\x03a/b\x00\x07\x00on!";
        let connect = b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc";
        for packet in [&publish[..], connect] {
            exercise(packet);
            for at in 0..packet.len() {
                for bit in 0..8 {
                    let mut changed = packet.to_vec();
                    changed[at] ^= 1 << bit;
                    exercise(&changed);
                }
                exercise(&packet[..at]);
            }
        }
        assert!(Connect::read(connect[..].into()).is_ok());
        assert!(Publish::read(Version::Five, publish[..].into()).is_ok());
    }

    #[test]
    fn each_property_of_a_publish_is_read() {
        let packet = |properties: &[u8]| {
            let mut packet = vec![0x30, 0, 0, 1, b'a', properties.len() as u8];
            packet.extend([properties, b"payload"].concat());
            packet[1] = packet.len() as u8 - 2;
            Publish::read(Version::Five, packet[..].into())
        };
        for count in 0..8 {
            for last in [&[][..], &[1, 1], &[0x23, 0, 9], &[3, 0, 1, b't']] {
                let ids = (1..=count).flat_map(|id| [0x0b, id]);
                let properties: Vec<u8> = ids.chain(last.iter().copied()).collect();
                let Ok(Publish::Five(publish)) = packet(&properties) else { panic!("{properties:?}") };
                assert_eq!(publish.payload, &b"payload"[..], "{properties:?}");
                let all = publish.properties.unwrap_or_default();
                assert_eq!(all.subscription_identifiers, (1..=usize::from(count)).collect::<Vec<_>>());
                let [format, alias, text] = [1, 0x23, 3].map(|kind| last.first() == Some(&kind));
                assert_eq!(all.payload_format_indicator.is_some(), format);
                assert_eq!(all.topic_alias, alias.then_some(9));
                assert_eq!(all.content_type.as_deref(), text.then_some("t"));
            }
        }
        // The last one ends behind the properties.
        for broken in [&[0x0b, 1, 0x0b][..], &[0x0b, 1, 0x0b, 2, 1], &[0x0b; 11], &[3, 0, 9, b't']] {
            assert!(packet(broken).is_err(), "{broken:?}");
        }
        exercise(
            b"\x33\x15\0\x02\x02\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\xff\x1e\x9e\x9e\x9e",
        );
    }

    #[test]
    fn packets_are_cut_at_their_lengths() {
        assert_eq!(whole(&[]), Ok(None));
        assert_eq!(whole(&[0xc0]), Ok(None));
        assert_eq!(whole(&[0xc0, 0]), Ok(Some(2)));
        assert_eq!(whole(&[0xc0, 0, 0xc0]), Ok(Some(2)));
        assert_eq!(whole(&[0x30, 3, 0, 0]), Ok(None));
        let mut long = vec![0x30, 0x80, 0x01];
        long.resize(3 + 128, 0);
        assert_eq!(whole(&long), Ok(Some(131)));
        assert_eq!(whole(&[0x30, 0xff, 0xff, 0xff]), Ok(None));
        assert_eq!(whole(&[0x30, 0xff, 0xff, 0xff, 0xff]), Err(MalformedError));
    }

    #[test]
    fn acknowledgements_have_their_identifier() {
        let mut out = BytesMut::new();
        put_ack(kind::PUBREL, 513, None, &mut out);
        assert_eq!(&out[..], [0x62, 2, 2, 1]);
        assert_eq!(id(&out), Ok(513));
        out.clear();
        put_ack(kind::PUBACK, 1, Some(0x87), &mut out);
        assert_eq!((kind(&out), id(&out)), (kind::PUBACK, Ok(1)));
        assert_eq!(&out[..], [0x40, 3, 0, 1, 0x87]);
        assert_eq!((id(&[0x40, 2, 0, 0]), id(&[0x40, 1, 0])), (Err(MalformedError), Err(MalformedError)));
    }
}
