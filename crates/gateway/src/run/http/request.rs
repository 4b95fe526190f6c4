//! The head of a request (RFC 9112), as far as an endpoint needs it.
//!
//! Only what browsers and Prometheus send is accepted: origin form, no body, no folded lines. All
//! else is refused, so that no proxy in front can read a request in another way.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of the longest request.
pub const LONGEST: usize = 8 * 1024;

/// A request without a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whether only the head of the answer is wanted.
    pub head_only: bool,
    /// The path without its query.
    pub path: &'a str,
    /// The name and port that the client asked for. HTTP/1.0 has none.
    pub host: Option<&'a str>,
    /// The formats that the client reads, or empty.
    pub accept: &'a str,
    /// The client's credentials, or empty.
    pub authorization: &'a str,
    /// Which page made the request, by the browser's word (`Sec-Fetch-Site`), or empty.
    pub fetched_by: &'a str,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No request of this protocol.
    #[error("no request of HTTP/1.1 without a body")]
    Malformed,
    /// Another method.
    #[error("GET and HEAD alone are possible")]
    Method,
}

impl<'a> Request<'a> {
    /// Takes a head apart, with the empty line at its end.
    ///
    /// # Errors
    /// When it is malformed, or of another method.
    pub fn parse(head: &'a [u8]) -> Result<Self, RequestError> {
        let malformed = || RequestError::Malformed;
        let head = std::str::from_utf8(head).map_err(|_| RequestError::Malformed)?;
        let head = head.strip_suffix("\r\n\r\n").ok_or_else(malformed)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(RequestError::Malformed);
        };
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || method.is_empty() {
            return Err(RequestError::Malformed);
        }
        let head_only = match method {
            "GET" => false,
            "HEAD" => true,
            _ if method.bytes().all(|octet| octet.is_ascii_uppercase()) => return Err(RequestError::Method),
            _ => return Err(RequestError::Malformed),
        };
        let path = target.split('?').next().unwrap_or_default();
        if !path.starts_with('/') || !target.bytes().all(|octet| octet.is_ascii_graphic()) {
            return Err(RequestError::Malformed);
        }
        let mut request = Self { head_only, path, ..Self::default() };
        for line in lines {
            request.take(line).ok_or_else(malformed)?;
        }
        if version == "HTTP/1.1" && request.host.is_none() {
            return Err(RequestError::Malformed);
        }
        Ok(request)
    }

    /// Takes a line of the head. `None`: it is malformed, or announces a body.
    fn take(&mut self, line: &'a str) -> Option<()> {
        let (name, value) = line.split_once(':')?;
        let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet);
        if name.is_empty() || !name.bytes().all(is_token) {
            return None;
        }
        let value = value.trim_matches([' ', '\t']);
        if value.chars().any(|letter| letter.is_control() && letter != '\t') {
            return None;
        }
        let field = match &*name.to_ascii_lowercase() {
            "host" if self.host.is_none() => {
                self.host = Some(value);
                return Some(());
            }
            "host" | "transfer-encoding" => return None,
            "content-length" => return (value == "0").then_some(()),
            "accept" => &mut self.accept,
            "authorization" => &mut self.authorization,
            "sec-fetch-site" => &mut self.fetched_by,
            _ => return Some(()),
        };
        *field = value;
        Some(())
    }

    /// Whether the client asked for this machine by an address, as `localhost`, or by one of these
    /// names. A page of another site whose name was changed to this machine's address (DNS
    /// rebinding) asks by its own name.
    #[must_use]
    pub fn is_for(&self, names: &[String]) -> bool {
        let Some(host) = self.host else { return true };
        if let Some(rest) = host.strip_prefix('[') {
            let (address, port) = rest.split_once(']').unwrap_or_default();
            return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'));
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let known = |known: &String| known.eq_ignore_ascii_case(name);
        name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok() || names.iter().any(known)
    }

    /// Whether another site's page made the request, by the browser's word.
    #[must_use]
    pub fn is_of_another_site(&self) -> bool {
        !matches!(self.fetched_by, "" | "same-origin" | "none")
    }
}

/// Whether these octets have the end of a head.
#[must_use]
pub fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|window| window == b"\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Request<'_>, RequestError> {
        Request::parse(text.as_bytes())
    }

    #[test]
    fn browser_request_is_taken_apart() {
        let text = "GET /events?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9465\r\nAccept: text/event-stream\r\n\
                    Authorization: Basic eDp5\r\nSec-Fetch-Site: same-origin\r\nCookie: a=b\r\n\r\n";
        let expected = Request {
            head_only: false,
            path: "/events",
            host: Some("127.0.0.1:9465"),
            accept: "text/event-stream",
            authorization: "Basic eDp5",
            fetched_by: "same-origin",
        };
        assert_eq!(parse(text), Ok(expected));
        assert!(parse("HEAD / HTTP/1.0\r\n\r\n").is_ok_and(|request| request.head_only));
    }

    #[test]
    fn other_requests_are_refused() {
        for text in [
            "\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/2\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /\u{fc} HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nb\r\n\r\n",
            "\u{16}\u{3}\u{1}\r\n\r\n",
        ] {
            assert_eq!(parse(text), Err(RequestError::Malformed), "{text:?}");
        }
        assert_eq!(parse("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), Err(RequestError::Method));
        assert_eq!(Request::parse(b"\xff\r\n\r\n"), Err(RequestError::Malformed));
    }

    #[test]
    fn only_addresses_and_own_names_are_for_us() {
        let names = ["gateway.example".to_owned()];
        for (host, ours) in [
            ("127.0.0.1:9465", true),
            ("localhost", true),
            ("LocalHost:80", true),
            ("[::1]:9465", true),
            ("[::1]", true),
            ("192.0.2.7:80", true),
            ("Gateway.example:80", true),
            ("evil.example:9465", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("[::1].evil.example", false),
            ("::1", false),
            ("", false),
        ] {
            let request = Request { host: Some(host), ..Request::default() };
            assert_eq!(request.is_for(&names), ours, "{host}");
        }
        assert!(Request::default().is_for(&[]), "HTTP/1.0");
    }

    #[test]
    fn other_sites_are_known() {
        for (by, other) in
            [("", false), ("none", false), ("same-origin", false), ("same-site", true), ("cross-site", true)]
        {
            assert_eq!(Request { fetched_by: by, ..Request::default() }.is_of_another_site(), other, "{by}");
        }
    }
}
