//! The URL of `-L`, as `mosquitto_pub` takes it.

use crate::failure::ValueError;

/// A broker, its user and a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) tls: bool,
    /// Over a WebSocket.
    pub(super) web: bool,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// User and password.
    pub(super) login: Option<(String, String)>,
    pub(super) topic: Option<String>,
}

impl Url {
    /// Reads `mqtt(s)://` or `ws(s)://`, and `[USER[:PASSWORD]@]HOST[:PORT][/TOPIC]`. As in Mosquitto
    /// nothing is escaped: the last `@` before the first `/` ends the password.
    pub(super) fn parse(text: &str) -> Result<Self, ValueError> {
        let form = || {
            ValueError::new(
                "give mqtt://HOST/TOPIC or mqtts://USER:PASSWORD@HOST:PORT/TOPIC, or ws:// and wss:// likewise",
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(form)?;
        let (web, tls) = match scheme {
            "mqtt" => (false, false),
            "mqtts" => (false, true),
            "ws" => (true, false),
            "wss" => (true, true),
            _ => return Err(form()),
        };
        let (authority, topic) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                (Some((user.to_owned(), password.to_owned())), place)
            }
            None => (None, authority),
        };
        // An IPv6 address is in brackets.
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(form)?,
            None => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => Some(digits.parse().ok().filter(|port| *port > 0).ok_or_else(form)?),
            None if port.is_empty() => None,
            None => return Err(form()),
        };
        if host.is_empty() || login.as_ref().is_some_and(|(user, _)| user.is_empty()) {
            return Err(form());
        }
        let topic = Some(topic.to_owned()).filter(|topic| !topic.is_empty());
        Ok(Self { tls, web, host: host.to_owned(), port, login, topic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_url_are_found() {
        let login = Some(("u".to_owned(), "p@:w".to_owned()));
        let url = Url {
            tls: true,
            web: false,
            host: "broker".into(),
            port: Some(8884),
            login,
            topic: Some("plant/+/a".into()),
        };
        assert_eq!(Url::parse("mqtts://u:p@:w@broker:8884/plant/+/a").ok(), Some(url));
        let plain =
            Url { tls: false, web: false, host: "fe80::1".into(), port: None, login: None, topic: None };
        assert_eq!(Url::parse("mqtt://[fe80::1]").ok(), Some(plain.clone()));
        assert_eq!(Url::parse("mqtt://[fe80::1]/").ok(), Some(plain.clone()));
        assert_eq!(Url::parse("ws://[fe80::1]").ok(), Some(Url { web: true, ..plain.clone() }));
        assert_eq!(Url::parse("wss://[fe80::1]").ok(), Some(Url { web: true, tls: true, ..plain }));
        for wrong in [
            "broker",
            "http://b/t",
            "mqtt://",
            "mqtt:///t",
            "mqtt://b:/t",
            "mqtt://b:99999",
            "mqtt://[::1/t",
            "mqtt://:p@b",
            "mqtt://[::1]x",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
