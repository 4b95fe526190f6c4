//! Reads addresses of datagrams: an IP address with a port and perhaps a zone (RFC 4007), or a host
//! name with a port.

use std::net::{IpAddr, SocketAddr};

use antedate_host::document::Field;

use crate::config::overlay::is_one_end;

/// An address or a host name, with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    Address(SocketAddr, Option<String>),
    Host(String, u16),
}

/// Reads the endpoint of a peer.
pub(super) fn endpoint(field: &Field<'_, '_>, key: &str, names: bool) -> Option<Endpoint> {
    let text = field.string()?;
    let remedy = format!("write e.g. {key} = \"192.0.2.2:51820\" or \"[2001:db8::2]:51820\"");
    if let Some((at, zone)) = address(text) {
        let wrong = match at.ip() {
            _ if at.port() == 0 => Some("has no port"),
            ip if ip.is_unspecified() => Some("is no address and port of one end"),
            ip if !is_one_end(ip) => Some("is a multicast or broadcast address, and a peer is one end"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            field.fault(format!("\"{text}\" {wrong}"), remedy);
            return None;
        }
        return Some(Endpoint::Address(at, zone));
    }
    let host = host(text);
    if host.is_some() && !names {
        field.fault(
            format!("\"{text}\" is a host name, which is not resolved here"),
            format!("write the address: {remedy}"),
        );
        return None;
    }
    if host.is_none() {
        field.fault(format!("\"{text}\" is not address and port, nor host name and port"), remedy);
    }
    host.map(|(host, port)| Endpoint::Host(host, port))
}

/// An address with a port, without its zone, and the zone.
pub(super) fn address(text: &str) -> Option<(SocketAddr, Option<String>)> {
    let (text, zone) = zoned(text, ']')?;
    Some((text.parse().ok()?, zone))
}

/// An address without its zone, and the zone.
pub(super) fn ip(text: &str) -> Option<(IpAddr, Option<String>)> {
    let (text, zone) = zoned(text, '\0')?;
    Some((text.parse().ok()?, zone))
}

/// Takes the zone out, which reaches to `end` or to the end of the text.
fn zoned(text: &str, end: char) -> Option<(String, Option<String>)> {
    let Some((head, tail)) = text.split_once('%') else { return Some((text.to_owned(), None)) };
    let zone_len = if end == '\0' { tail.len() } else { tail.find(end)? };
    let (zone, rest) = tail.split_at_checked(zone_len)?;
    (!zone.is_empty()).then(|| (format!("{head}{rest}"), Some(zone.to_owned())))
}

/// A host name (RFC 1123, section 2.1) with a port. It has a letter, so it is no mistyped address.
fn host(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let label = |label: &str| {
        let legal = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(legal) && !label.starts_with('-')
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    let legal = name.len() <= 253 && name.split('.').all(label);
    let letter = name.rsplit('.').next()?.bytes().any(|c| c.is_ascii_alphabetic());
    (legal && letter).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_taken_out() {
        let zone = |name: &str| Some(name.to_owned());
        assert_eq!(address("[fe80::1%eth0]:51820"), Some(("[fe80::1]:51820".parse().unwrap(), zone("eth0"))));
        assert_eq!(address("[fe80::1%3]:5"), Some(("[fe80::1]:5".parse().unwrap(), zone("3"))));
        assert_eq!(address("[fe80::1]:5"), Some(("[fe80::1]:5".parse().unwrap(), None)));
        assert_eq!(ip("fe80::1%eth0"), Some(("fe80::1".parse().unwrap(), zone("eth0"))));
        for wrong in ["[fe80::1%]:5", "[fe80::1%eth0:5", "192.0.2.1", "[fe80::1%eth0]", "%"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn host_names_are_told_from_addresses() {
        for (text, name, port) in [
            ("hall.example:51820", "hall.example", 51820),
            ("hall-2:1", "hall-2", 1),
            ("hall.example.:65535", "hall.example.", 65535),
        ] {
            assert_eq!(host(text), Some((name.to_owned(), port)));
        }
        for wrong in [
            "hall",
            "hall:0",
            "hall:65536",
            "192.0.2.300:51820",
            "1.2.3:5",
            ":5",
            "a..b:5",
            "-a:5",
            "a b:5",
            "hall.example:",
            "http://hall:5",
            "[hall]:5",
        ] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }
}
