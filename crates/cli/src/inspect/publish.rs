//! PUBLISH packets of MQTT 3.1.1 and 5.0, from octets that anyone may have sent.
//!
//! The client library's codec decodes packets into values of its own and counts the octets of
//! several subscription identifiers wrongly. A reader of captures needs the topic and the payload.

use std::collections::HashMap;

/// The most topic aliases of a direction.
const ALIASES_MAX: usize = 4096;

/// Octets that are no packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MalformedError;

/// The version of the protocol, in which CONNECT names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Four,
    Five,
}

/// A PUBLISH.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Publish {
    /// Empty if an alias names it that is not known.
    pub(super) topic: String,
    pub(super) qos: u8,
    pub(super) retained: bool,
    pub(super) payload: Vec<u8>,
}

/// The octets of the first packet, once all are there (MQTT 5.0, section 2.1).
pub(super) fn whole(input: &[u8]) -> Result<Option<usize>, MalformedError> {
    let Some(first) = input.first() else { return Ok(None) };
    // Reserved flags: a stream that is entered in the middle of a packet rarely has them right.
    let is_right = match first >> 4 {
        0 => false,
        3 => first & 0x06 != 0x06,
        6 | 8 | 10 => first & 0x0f == 2,
        _ => first & 0x0f == 0,
    };
    if !is_right {
        return Err(MalformedError);
    }
    let length = match input.get(1..).map(variable) {
        Some(Ok(length)) => length,
        Some(Err(())) => return Err(MalformedError),
        None => None,
    };
    Ok(length.map(|(length, octets)| 1 + octets + length).filter(|whole| *whole <= input.len()))
}

/// A variable byte integer in front (section 1.5.5), and its octets. `None`: it is cut.
fn variable(input: &[u8]) -> Result<Option<(usize, usize)>, ()> {
    let mut value = 0;
    for (at, octet) in input.iter().take(4).enumerate() {
        value |= usize::from(octet & 0x7f) << (7 * at);
        if octet & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    if input.len() < 4 { Ok(None) } else { Err(()) }
}

/// The version in a CONNECT, if the octets begin with one.
pub(super) fn connect(octets: &[u8]) -> Option<Version> {
    let (0x10, rest) = octets.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    let (_, at) = variable(rest).ok()??;
    match rest.get(at..)?.strip_prefix(b"\0\x04MQTT")?.first()? {
        4 => Some(Version::Four),
        5 => Some(Version::Five),
        _ => None,
    }
}

/// Reads a whole packet. Without a version both forms are tried: properties are rarely valid by
/// chance. `None`: it is no PUBLISH.
pub(super) fn read(
    packet: &[u8],
    version: Option<Version>,
    aliases: &mut HashMap<u16, String>,
) -> Option<Publish> {
    let flags = *packet.first()?;
    if flags >> 4 != 3 {
        return None;
    }
    let (_, at) = variable(packet.get(1..)?).ok()??;
    let body = packet.get(1 + at..)?;
    let (length, rest) = body.split_first_chunk::<2>()?;
    let (topic, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let mut topic = std::str::from_utf8(topic).ok()?.to_owned();
    let qos = flags >> 1 & 3;
    let rest = if qos > 0 { rest.get(2..)? } else { rest };
    let payload = match version {
        Some(Version::Four) => rest,
        Some(Version::Five) | None => match properties(rest) {
            Some((alias, payload)) => {
                match alias {
                    Some(alias) if topic.is_empty() => {
                        topic = aliases.get(&alias).cloned().unwrap_or_default()
                    }
                    Some(alias) if aliases.len() < ALIASES_MAX => drop(aliases.insert(alias, topic.clone())),
                    _ => {}
                }
                payload
            }
            None if version.is_none() => rest,
            None => return None,
        },
    };
    Some(Publish { topic, qos, retained: flags & 1 != 0, payload: payload.to_vec() })
}

/// The topic alias in the properties in front (section 3.3.2.3), and the octets behind them.
fn properties(octets: &[u8]) -> Option<(Option<u16>, &[u8])> {
    let (length, at) = variable(octets).ok()??;
    let (mut rest, payload) = octets.get(at..)?.split_at_checked(length)?;
    let mut alias = None;
    while let Some((kind, value)) = rest.split_first() {
        let text = |octets: &[u8]| Some(2 + usize::from(u16::from_be_bytes(*octets.first_chunk()?)));
        let len = match kind {
            0x01 => 1,
            0x02 => 4,
            0x03 | 0x08 | 0x09 => text(value)?,
            0x0b => variable(value).ok()??.1,
            0x23 => 2,
            0x26 => {
                let name = text(value)?;
                name + text(value.get(name..)?)?
            }
            _ => return None,
        };
        let (value, behind) = value.split_at_checked(len)?;
        if *kind == 0x23 {
            alias = value.first_chunk().copied().map(u16::from_be_bytes);
        }
        rest = behind;
    }
    Some((alias, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Option<Version> = Some(Version::Five);

    /// A PUBLISH of QoS 1 with these properties.
    fn publish(topic: &str, properties: Option<&[u8]>, payload: &[u8]) -> Vec<u8> {
        let mut body = (topic.len() as u16).to_be_bytes().to_vec();
        body.extend(topic.as_bytes());
        body.extend([0, 9]);
        if let Some(properties) = properties {
            body.push(properties.len() as u8);
            body.extend(properties);
        }
        body.extend(payload);
        [&[0x33, body.len() as u8][..], &body].concat()
    }

    fn payload(packet: &[u8], version: Option<Version>) -> Option<Vec<u8>> {
        read(packet, version, &mut HashMap::new()).map(|publish| publish.payload)
    }

    #[test]
    fn both_versions_are_read() {
        let four = publish("a/b", None, b"hello");
        let all =
            [&[1, 1][..], &[0x26, 0, 1, b'k', 0, 1, b'v'], &[0x0b, 0x80, 1], &[0x0b, 2], &[8, 0, 1, b'r']];
        let five = publish("a/b", Some(&all.concat()), b"hello");
        assert_eq!(payload(&four, Some(Version::Four)), Some(b"hello".to_vec()));
        assert_eq!(payload(&five, FIVE), Some(b"hello".to_vec()));
        assert_eq!(payload(&five, None), Some(b"hello".to_vec()));
        assert_eq!(payload(&four, None), Some(b"hello".to_vec()), "104 octets of properties are not there");
        let read = read(&four, Some(Version::Four), &mut HashMap::new()).unwrap();
        assert_eq!((&*read.topic, read.qos, read.retained), ("a/b", 1, true));
        for length in 0..five.len() {
            let _ = payload(&five[..length], FIVE);
            assert_eq!(whole(&five[..length]), Ok(None), "{length}");
        }
        assert_eq!(whole(&[five.clone(), vec![0xc0, 0]].concat()), Ok(Some(five.len())));
        for wrong in [&[0x00, 0][..], &[0x36, 0], &[0x81, 0], &[0x30, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(whole(wrong), Err(MalformedError), "{wrong:x?}");
        }
    }

    #[test]
    fn aliases_name_topics() {
        let mut aliases = HashMap::new();
        let mut topic = |packet: &[u8]| read(packet, FIVE, &mut aliases).unwrap().topic;
        assert_eq!(topic(&publish("", Some(&[0x23, 0, 7]), b"x")), "", "given before");
        assert_eq!(topic(&publish("plant/press", Some(&[0x23, 0, 7]), b"x")), "plant/press");
        assert_eq!(topic(&publish("", Some(&[0x23, 0, 7]), b"x")), "plant/press");
    }

    #[test]
    fn connect_names_the_version() {
        let packet = |version: u8| [&b"\x10\x0c\0\x04MQTT"[..], &[version, 2, 0, 60, 0, 0]].concat();
        assert_eq!(connect(&packet(4)), Some(Version::Four));
        assert_eq!(connect(&packet(5)), FIVE);
        assert_eq!(connect(&packet(3)), None);
        assert_eq!(connect(b"GET / HTTP/1.1"), None);
        assert_eq!(connect(&[]), None);
    }
}
