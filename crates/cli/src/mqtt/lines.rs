//! The lines of `antedate mqtt sub`.

use std::time::{Duration, SystemTime};

use antedate_channel::mqtt::Opened;
use antedate_mqtt::guard::now;
use antedate_mqtt_client::{Message, MessageProperties};
use serde_json::{Map, Value, json};

use crate::failure::ValueError;

/// The form of a printed message.
pub(super) enum Form {
    /// The payload's octets.
    Payload,
    /// Origin, topic and payload on one line, in which no octet of a message ends it.
    Line { origin: bool, topic: bool },
    /// A format of the user.
    Format(Format),
    /// A JSON object.
    Json,
}

impl Form {
    /// Appends a message, without a newline behind it.
    pub(super) fn put(&self, message: &Message, payload: &[u8], opened: &Opened, out: &mut Vec<u8>) {
        match self {
            Self::Payload => out.extend_from_slice(payload),
            Self::Line { origin, topic } => {
                if *origin {
                    out.extend_from_slice(self::origin(opened).as_bytes());
                }
                if *topic {
                    put_visible(message.topic.as_bytes(), out);
                    out.push(b' ');
                }
                // As mosquitto_sub shows a retained message that was cleared.
                put_visible(if payload.is_empty() { &b"(null)"[..] } else { payload }, out);
            }
            Self::Format(format) => format.put(message, payload, opened, out),
            Self::Json => put_json(message, payload, opened, out),
        }
    }
}

/// Appends text, with control characters but tabs as escapes: a payload or topic must not look like
/// another message's line, or command the terminal.
fn put_visible(text: &[u8], out: &mut Vec<u8>) {
    for octet in text {
        match octet {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' | 0x20..=0x7e | 0x80.. => out.push(*octet),
            other => out.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
}

/// Publisher, epoch, sequence number and age. A publisher's name has no space (`is_name`) in files of
/// this project; others are shown as text without one.
fn origin(opened: &Opened) -> String {
    let age = match opened.time {
        Some(time) => (i64::from(now()) - i64::from(time)).to_string(),
        None => "-".to_owned(),
    };
    format!("{} {} {} {age} ", name(opened), opened.epoch, opened.sequence)
}

fn name(opened: &Opened) -> String {
    String::from_utf8_lossy(&opened.publisher).replace(|c: char| c.is_whitespace() || c.is_control(), "?")
}

/// The fields of `mosquitto_sub`'s `%j`, and the origin. A payload that is not UTF-8 is hexadecimal.
fn put_json(message: &Message, payload: &[u8], opened: &Opened, out: &mut Vec<u8>) {
    let mut object = json!({
        "tst": time(SystemTime::now()),
        "topic": message.topic,
        "qos": message.qos,
        "retain": u8::from(message.retain),
        "payloadlen": payload.len(),
        "publisher": String::from_utf8_lossy(&opened.publisher),
        "epoch": opened.epoch,
        "sequence": opened.sequence,
    });
    if message.qos > 0 {
        object["mid"] = json!(message.id());
    }
    if let Some(time) = opened.time {
        object["sealed"] = json!(time);
    }
    if let Some(properties) = &message.properties {
        put_properties(&mut object, properties);
    }
    match str::from_utf8(payload) {
        Ok(text) => object["payload"] = json!(text),
        Err(_) => object["payload_hex"] = json!(antedate_host::hex::hex(payload)),
    }
    out.extend_from_slice(object.to_string().as_bytes());
}

/// The `properties` of `mosquitto_sub`'s `%j`.
fn put_properties(object: &mut Value, of: &MessageProperties) {
    let mut found = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            found.insert(name.to_owned(), value);
        }
    };
    let data = of.correlation_data.as_ref().map(|data| String::from_utf8_lossy(data).into_owned());
    put("content-type", of.content_type.as_ref().map(|text| json!(text)));
    put("response-topic", of.response_topic.as_ref().map(|text| json!(text)));
    put("correlation-data", data.map(|text| json!(text)));
    put("message-expiry-interval", of.message_expiry_interval.map(|seconds| json!(seconds)));
    let pairs: Vec<Value> = of.user.iter().map(|(name, value)| json!({ name: value })).collect();
    put("user-properties", (!pairs.is_empty()).then(|| json!(pairs)));
    put("subscription-identifier", of.subscriptions.first().map(|id| json!(id)));
    if !found.is_empty() {
        object["properties"] = Value::Object(found);
    }
}

/// A format of `mosquitto_sub -F`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Payload,
    Hex { upper: bool },
    Length,
    Id,
    Qos,
    Retain,
    Time,
    Seconds,
    Json,
    ContentType,
    ResponseTopic,
    CorrelationData,
    Expiry,
    User,
    Subscriptions,
}

impl Format {
    /// Reads a format: letters behind `%`, escapes behind `\`.
    pub(super) fn parse(text: &str) -> Result<Self, ValueError> {
        let (mut pieces, mut plain) = (Vec::new(), Vec::new());
        let mut characters = text.chars();
        while let Some(one) = characters.next() {
            let piece = match one {
                '%' => match characters.next() {
                    Some('%') => None,
                    Some(letter) => Some(letter_piece(letter)?),
                    None => return Err(ValueError::new("% at its end: write %% for a percent sign")),
                },
                '\\' => {
                    plain.push(escape(characters.next())?);
                    continue;
                }
                '@' => {
                    if characters.next() != Some('@') {
                        return Err(ValueError::new(
                            "@ is for dates: write %I or %U, or @@ for the character",
                        ));
                    }
                    None
                }
                other => {
                    plain.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                    continue;
                }
            };
            match piece {
                Some(piece) => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(piece);
                }
                None => plain.push(one as u8),
            }
        }
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| *piece != Piece::Text(Vec::new()));
        Ok(Self(pieces))
    }

    fn put(&self, message: &Message, payload: &[u8], opened: &Opened, out: &mut Vec<u8>) {
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Payload => {
                    out.extend_from_slice(payload);
                    continue;
                }
                Piece::Json => {
                    put_json(message, payload, opened, out);
                    continue;
                }
                Piece::ContentType
                | Piece::ResponseTopic
                | Piece::CorrelationData
                | Piece::Expiry
                | Piece::User
                | Piece::Subscriptions => {
                    if let Some(properties) = &message.properties {
                        piece.put_property(properties, out);
                    }
                    continue;
                }
                Piece::Topic => message.topic.clone(),
                Piece::Hex { upper: false } => antedate_host::hex::hex(payload),
                Piece::Hex { upper: true } => antedate_host::hex::hex(payload).to_uppercase(),
                Piece::Length => payload.len().to_string(),
                Piece::Id => message.id().to_string(),
                Piece::Qos => message.qos.to_string(),
                Piece::Retain => u8::from(message.retain).to_string(),
                Piece::Time => format!("{}+0000", seconds(SystemTime::now())),
                Piece::Seconds => {
                    let since = since_1970(SystemTime::now());
                    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
                }
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
}

impl Piece {
    /// Appends a property. Its texts are visible ones, because nobody authenticates them.
    fn put_property(&self, of: &MessageProperties, out: &mut Vec<u8>) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let written = match self {
            Self::ContentType => text(&of.content_type),
            Self::ResponseTopic => text(&of.response_topic),
            Self::CorrelationData => {
                return put_visible(of.correlation_data.as_deref().unwrap_or_default(), out);
            }
            Self::Expiry => of.message_expiry_interval.map(|seconds| seconds.to_string()).unwrap_or_default(),
            Self::User => {
                let pairs: Vec<String> =
                    of.user.iter().map(|(name, value)| format!("{name}:{value}")).collect();
                pairs.join(" ")
            }
            Self::Subscriptions => {
                let ids: Vec<String> = of.subscriptions.iter().map(usize::to_string).collect();
                ids.join(",")
            }
            _ => return,
        };
        put_visible(written.as_bytes(), out);
    }
}

fn letter_piece(letter: char) -> Result<Piece, ValueError> {
    Ok(match letter {
        't' => Piece::Topic,
        'p' => Piece::Payload,
        'x' => Piece::Hex { upper: false },
        'X' => Piece::Hex { upper: true },
        'l' => Piece::Length,
        'm' => Piece::Id,
        'q' => Piece::Qos,
        'r' => Piece::Retain,
        'I' => Piece::Time,
        'U' => Piece::Seconds,
        'j' => Piece::Json,
        'C' => Piece::ContentType,
        'R' => Piece::ResponseTopic,
        'D' => Piece::CorrelationData,
        'E' => Piece::Expiry,
        'P' => Piece::User,
        'S' => Piece::Subscriptions,
        _ => {
            return Err(ValueError::new(
                "known are %t %p %x %X %l %m %q %r %I %U %j, of MQTT 5 %C %D %E %P %R %S, and %%",
            ));
        }
    })
}

fn escape(letter: Option<char>) -> Result<u8, ValueError> {
    Ok(match letter {
        Some('\\') => b'\\',
        Some('0') => 0,
        Some('a') => 7,
        Some('e') => 27,
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('v') => 11,
        _ => return Err(ValueError::new("known are \\\\ \\0 \\a \\e \\n \\r \\t and \\v")),
    })
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A time as ISO 8601 with microseconds, UTC.
fn time(of: SystemTime) -> String {
    format!("{}.{:06}+0000", seconds(of), since_1970(of).subsec_micros())
}

/// The same without parts of a second and zone.
fn seconds(of: SystemTime) -> String {
    let since = since_1970(of);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a day since 1970. Years begin in March here, so that a leap day is a
/// year's last, and an era has the 146,097 days of 400 years.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, after) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + 400 * era + after, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let mut out = Vec::new();
        put_visible("1\nplant/a 2\r\x1b[2J\t\\é\x7f".as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "1\\nplant/a 2\\r\\x1b[2J\t\\é\\x7f");
    }

    #[test]
    fn letters_of_a_format_are_found() {
        let format = Format::parse("%t %p\\n%%@@%x%X%l%m%q%r%I%U%j").expect("known letters").0;
        let text = |text: &str| Piece::Text(text.as_bytes().to_vec());
        let begin = [Piece::Topic, text(" "), Piece::Payload, text("\n%@"), Piece::Hex { upper: false }];
        assert_eq!(format[..5], begin);
        assert_eq!(format.len(), 13);
        for wrong in ["%", "%Z", "%J", "@Y", "\\", "\\q"] {
            assert!(Format::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn properties_forge_no_line() {
        let of = MessageProperties {
            content_type: Some("a\nb".into()),
            user: vec![("n".into(), "v\r".into()), ("m".into(), "w".into())],
            subscriptions: vec![7, 9],
            message_expiry_interval: Some(60),
            ..MessageProperties::default()
        };
        let text = |piece: Piece| {
            let mut out = Vec::new();
            piece.put_property(&of, &mut out);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(text(Piece::ContentType), "a\\nb");
        assert_eq!(text(Piece::User), "n:v\\r m:w");
        assert_eq!((text(Piece::Subscriptions), text(Piece::Expiry)), ("7,9".into(), "60".into()));
        assert_eq!(text(Piece::ResponseTopic), "");
        let mut object = json!({});
        put_properties(&mut object, &of);
        assert_eq!(object["properties"]["user-properties"], json!([{"n": "v\r"}, {"m": "w"}]));
        assert_eq!(object["properties"]["subscription-identifier"], json!(7));
    }

    #[test]
    fn dates_are_of_the_calendar() {
        let at = |seconds| time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000+0000");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000+0000");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000+0000");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000+0000");
        assert_eq!(at(1_795_790_645), "2026-11-27T14:44:05.000000+0000");
    }
}
