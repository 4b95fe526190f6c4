//! Properties of MQTT 5, as `-D` of `mosquitto_pub` and `mosquitto_sub` takes them.

use antedate_mqtt_client::{MessageProperties, Properties};
use clap::Args;

use crate::failure::{Failure, ValueError};

/// The name of the property that may come more than once, and has two values.
const USER: &str = "user-property";

/// Properties of packets.
#[derive(Args, Default)]
pub(super) struct PropertyArguments {
    /// A property of MQTT 5; may be given more than once. PACKET is connect, publish, will, subscribe or
    /// disconnect; NAME is as in mosquitto_pub; user-property has a name and a value. Properties are in
    /// the clear, and a broker may change them
    #[arg(short = 'D', long = "property", num_args = 3..=4, value_names = ["PACKET", "NAME", "VALUE", "VALUE"])]
    properties: Vec<String>,
}

impl PropertyArguments {
    /// The properties, all checked.
    pub(super) fn read(&self) -> Result<Properties, Failure> {
        let mut found = Properties::default();
        let mut words = self.properties.iter().map(String::as_str);
        while let Some(packet) = words.next() {
            let (Some(name), Some(value)) = (words.next(), words.next()) else {
                return Err(wrong(packet, "", "it has no value"));
            };
            let second = match name == USER {
                true => Some(words.next().ok_or_else(|| wrong(packet, name, "it has a name and no value"))?),
                false => None,
            };
            put(&mut found, packet, name, (value, second))
                .map_err(|error| wrong(packet, name, &error.to_string()))?;
        }
        Ok(found)
    }
}

fn wrong(packet: &str, name: &str, why: &str) -> Failure {
    Failure::usage(
        format!("-D {packet} {name}: {why}"),
        "write -D publish content-type text/plain, or -D publish user-property NAME VALUE",
    )
}

/// Adds one property to its packet (MQTT 5.0, table 2-4).
fn put(to: &mut Properties, packet: &str, name: &str, value: (&str, Option<&str>)) -> Result<(), ValueError> {
    // The string of one property, and the pair of the other.
    let (one, pair) = (value.0, value.1.map(|second| (value.0.to_owned(), second.to_owned())));
    match (packet, name, pair) {
        ("connect", USER, Some(pair)) => to.connect.user.push(pair),
        ("disconnect", USER, Some(pair)) => to.disconnect.user.push(pair),
        ("subscribe", USER, Some(pair)) => to.subscribe.0.push(pair),
        ("publish", USER, Some(pair)) => to.publish.user.push(pair),
        ("will", USER, Some(pair)) => to.will.user.push(pair),
        ("connect", "session-expiry-interval", _) => {
            to.connect.session_expiry_interval = Some(number(one, 0)?);
        }
        ("connect", "receive-maximum", _) => to.connect.receive_maximum = Some(number(one, 1)?),
        ("connect", "maximum-packet-size", _) => to.connect.maximum_packet_size = Some(number(one, 1)?),
        ("connect", "topic-alias-maximum", _) => to.connect.topic_alias_maximum = Some(number(one, 0)?),
        ("disconnect", "session-expiry-interval", _) => {
            to.disconnect.session_expiry_interval = Some(number(one, 0)?);
        }
        ("subscribe", "subscription-identifier", _) => {
            to.subscribe.1 = Some(number::<u32>(one, 1).and_then(|id| match id {
                ..=MAX_ID => Ok(id as usize),
                _ => Err(ValueError::new(format!("give a number from 1 to {MAX_ID}"))),
            })?);
        }
        ("will", "will-delay-interval", _) => to.will_delay_interval = Some(number(one, 0)?),
        ("publish", name, _) => put_message(&mut to.publish, name, one)?,
        ("will", name, _) => put_message(&mut to.will, name, one)?,
        ("connect" | "disconnect" | "subscribe", _, _) => {
            return Err(ValueError::new("this packet has no such property here"));
        }
        _ => {
            return Err(ValueError::new(
                "the packet is connect, publish, will, subscribe or disconnect (there is no other here)",
            ));
        }
    }
    Ok(())
}

/// The highest identifier of a subscription (section 3.8.2.1.2).
const MAX_ID: u32 = 268_435_455;

fn put_message(to: &mut MessageProperties, name: &str, value: &str) -> Result<(), ValueError> {
    match name {
        "content-type" => to.content_type = Some(text(value)?),
        "response-topic" => {
            let topic = text(value)?;
            if topic.is_empty() || topic.contains(['+', '#']) {
                return Err(ValueError::new("a topic for answers has no wildcard, and is not empty"));
            }
            to.response_topic = Some(topic);
        }
        "correlation-data" => to.correlation_data = Some(text(value)?.into_bytes()),
        "message-expiry-interval" => to.message_expiry_interval = Some(number(value, 0)?),
        "payload-format-indicator" => {
            return Err(ValueError::new("a sealed payload is no text; name its content with content-type"));
        }
        "topic-alias" => return Err(ValueError::new("topics are sent in full; leave it out")),
        _ => return Err(ValueError::new("this packet has no such property here")),
    }
    Ok(())
}

/// A text of at most 65,535 octets (section 1.5.4).
fn text(value: &str) -> Result<String, ValueError> {
    match value.len() {
        ..=65_535 => Ok(value.to_owned()),
        _ => Err(ValueError::new("a value has 65,535 octets at most")),
    }
}

fn number<N: std::str::FromStr + PartialOrd + From<u8>>(value: &str, least: u8) -> Result<N, ValueError> {
    let found = value.parse().ok().filter(|number: &N| *number >= N::from(least));
    found.ok_or_else(|| {
        let most = if size_of::<N>() == 2 { u64::from(u16::MAX) } else { u64::from(u32::MAX) };
        ValueError::new(format!("give a number from {least} to {most}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Properties, Failure> {
        let properties = words.split(' ').map(str::to_owned).collect();
        PropertyArguments { properties }.read()
    }

    #[test]
    fn properties_reach_their_packets() {
        let found = read(
            "publish content-type text/plain publish user-property line 4 publish user-property line 5 \
             publish response-topic a/b publish correlation-data 7 publish message-expiry-interval 60 \
             will will-delay-interval 9 will content-type w connect session-expiry-interval 3600 \
             connect receive-maximum 5 connect maximum-packet-size 1000 connect topic-alias-maximum 4 \
             connect user-property c d subscribe subscription-identifier 7 subscribe user-property e f \
             disconnect session-expiry-interval 0 disconnect user-property g h",
        );
        let Ok(found) = found else { panic!("all are known") };
        assert_eq!(found.publish.content_type.as_deref(), Some("text/plain"));
        assert_eq!(found.publish.user, [("line".into(), "4".into()), ("line".into(), "5".into())]);
        assert_eq!(found.publish.response_topic.as_deref(), Some("a/b"));
        assert_eq!(found.publish.correlation_data.as_deref(), Some(&b"7"[..]));
        assert_eq!(found.publish.message_expiry_interval, Some(60));
        assert_eq!((found.will_delay_interval, found.will.content_type.as_deref()), (Some(9), Some("w")));
        assert_eq!(found.connect.session_expiry_interval, Some(3600));
        assert_eq!((found.connect.receive_maximum, found.connect.maximum_packet_size), (Some(5), Some(1000)));
        assert_eq!((found.connect.topic_alias_maximum, found.connect.user.len()), (Some(4), 1));
        assert_eq!(found.subscribe, (vec![("e".into(), "f".into())], Some(7)));
        assert_eq!((found.disconnect.session_expiry_interval, found.disconnect.user.len()), (Some(0), 1));
    }

    #[test]
    fn wrong_properties_are_refused() {
        for (words, why) in [
            ("publish content-type", "no value"),
            ("publish user-property a", "no value"),
            ("publish payload-format-indicator 1", "no text"),
            ("publish topic-alias 1", "in full"),
            ("publish response-topic a/#", "no wildcard"),
            ("publish message-expiry-interval x", "from 0 to 4294967295"),
            ("connect receive-maximum 0", "from 1 to 65535"),
            ("connect authentication-method x", "no such property"),
            ("subscribe subscription-identifier 268435456", "to 268435455"),
            ("unsubscribe user-property a b", "the packet is"),
        ] {
            let Err(Failure::Faults(faults)) = read(words) else { panic!("{words} is read") };
            assert!(faults.to_string().contains(why), "{words}: {faults}");
        }
    }
}
