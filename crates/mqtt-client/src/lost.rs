//! Why there is no connection, in words for an operator, and the remedy.

use std::error::Error;
use std::fmt::Debug;
use std::io;

use antedate_host::fault;
use rustls::{AlertDescription, CertificateError};

/// The connection is lost, or does not begin.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionLostError {
    /// The broker refused this client.
    #[error("the broker refuses this client: {why}")]
    Refused {
        /// The reason of its CONNACK.
        why: String,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// TLS failed.
    #[error("TLS: {why}")]
    Tls {
        /// The reason.
        why: String,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// The broker does not take a publish of this length, and says so after it came.
    #[error("a publish is longer than the broker takes (reason 149)")]
    TooLong,
    /// The network or the broker failed.
    #[error("{why}")]
    Broken {
        /// The reason.
        why: String,
        /// What the operator can do.
        remedy: &'static str,
    },
}

const ABSENT: &str = "look whether the broker runs, and whether -h and -p name it";
const CLOSED: &str = "look whether it runs, and into its log: it may want TLS (--cafile) or none, or refuse by an access list, a message that is too long, or a second client of this identifier";

impl ConnectionLostError {
    /// What the operator can do.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Refused { remedy, .. } | Self::Tls { remedy, .. } | Self::Broken { remedy, .. } => remedy,
            Self::TooLong => {
                "publish less at once, or raise message_size_limit in the broker's configuration"
            }
        }
    }

    /// The broker answered CONNECT with this code.
    pub(crate) fn refused(code: &impl Debug) -> Self {
        let code = format!("{code:?}");
        let remedy = match code.as_str() {
            "NotAuthorized" | "BadUserNamePassword" | "BadAuthenticationMethod" | "Banned" => {
                "give a user of the broker with -u and its password with --pw-file; the broker's log tells more"
            }
            "BadClientId" | "ClientIdentifierNotValid" => "give another client identifier with -i",
            "RefusedProtocolVersion" | "UnsupportedProtocolVersion" => "give the other version with -V",
            "UseAnotherServer" | "ServerMoved" => "give the other broker with -h",
            _ => "look into the broker's log",
        };
        Self::Refused { why: words(&code), remedy }
    }

    /// The network or the broker failed, in the library's words.
    pub(crate) fn broken(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(one) = next {
            if let Some(error) = one.downcast_ref::<io::Error>() {
                return Self::of_io(error);
            }
            next = one.source();
        }
        Self::Broken { why: error.to_string(), remedy: CLOSED }
    }

    /// A socket failed, or TLS on it.
    #[must_use]
    pub fn of_io(error: &io::Error) -> Self {
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Self::of_tls(error);
        }
        let was_there = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        );
        Self::Broken { why: fault::explain(error), remedy: if was_there { CLOSED } else { ABSENT } }
    }

    /// The broker closed the connection without a word.
    #[must_use]
    pub fn closed() -> Self {
        Self::Broken { why: "the broker closed it".into(), remedy: CLOSED }
    }

    pub(crate) fn unavailable() -> Self {
        Self::Broken { why: "the broker is not available now".into(), remedy: "look into the broker's log" }
    }

    pub(crate) fn silent() -> Self {
        Self::Broken { why: "the broker does not answer".into(), remedy: ABSENT }
    }

    /// The broker disconnected with this reason (version 5).
    pub(crate) fn disconnected(reason: &impl Debug) -> Self {
        let reason = format!("{reason:?}");
        let remedy = match reason.as_str() {
            "SessionTakenOver" => "give each client an identifier of its own with -i",
            "PacketTooLarge" => {
                "publish less at once, or raise max_packet_size in the broker's configuration"
            }
            _ => "look into the broker's log",
        };
        Self::Broken { why: format!("the broker disconnected: {}", words(&reason)), remedy }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        use CertificateError as Bad;
        const CLOCK: &str = "set this machine's clock, or give the broker a certificate that holds now";
        const AUTHORITY: &str =
            "give the certificate of the authority that signed the broker's with --cafile or --capath";
        const NAME: &str = "give the name that the broker's certificate is for with -h";
        const OTHER: &str = "look whether -p is the broker's port for TLS, and into its log";
        let remedy = match error {
            rustls::Error::InvalidCertificate(
                Bad::Expired | Bad::ExpiredContext { .. } | Bad::NotValidYet | Bad::NotValidYetContext { .. },
            ) => CLOCK,
            rustls::Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
                NAME
            }
            rustls::Error::InvalidCertificate(_) => AUTHORITY,
            rustls::Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::HandshakeFailure,
            ) => "give a certificate that the broker knows with --cert and --key; its log tells more",
            _ => OTHER,
        };
        let why = match error {
            rustls::Error::InvalidCertificate(Bad::ExpiredContext { time, not_after }) => {
                let days = time.as_secs().saturating_sub(not_after.as_secs()) / 86_400;
                format!("the broker's certificate expired {days} days ago, by this machine's clock")
            }
            rustls::Error::InvalidCertificate(Bad::NotValidYetContext { time, not_before }) => {
                let days = not_before.as_secs().saturating_sub(time.as_secs()) / 86_400;
                format!("the broker's certificate will hold in {days} days, by this machine's clock")
            }
            rustls::Error::InvalidCertificate(Bad::Expired) => {
                "the broker's certificate has expired, by this machine's clock".into()
            }
            rustls::Error::InvalidCertificate(Bad::NotValidYet) => {
                "the broker's certificate does not hold yet, by this machine's clock".into()
            }
            error => error.to_string(),
        };
        Self::Tls { why, remedy }
    }
}

/// `NotAuthorized` as words.
pub(crate) fn words(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::UnixTime;
    use std::time::Duration;

    fn told(lost: &ConnectionLostError) -> String {
        format!("{lost} (remedy: {})", lost.remedy())
    }

    #[test]
    fn refused_client_is_told_what_to_give() {
        let told = told(&ConnectionLostError::refused(&rumqttc_four::ConnectReturnCode::NotAuthorized));
        assert!(told.contains("not authorized") && told.contains("-u"), "{told}");
    }

    #[test]
    fn wrong_clock_is_told_as_such() {
        let day = |day: u64| UnixTime::since_unix_epoch(Duration::from_secs(day * 86_400));
        let early = CertificateError::NotValidYetContext { time: day(10), not_before: day(400) };
        let late = CertificateError::ExpiredContext { time: day(400), not_after: day(10) };
        for (error, text) in [(early, "will hold in 390 days"), (late, "expired 390 days ago")] {
            let lost =
                ConnectionLostError::of_io(&io::Error::other(rustls::Error::InvalidCertificate(error)));
            assert!(matches!(lost, ConnectionLostError::Tls { .. }));
            assert!(told(&lost).contains(text) && told(&lost).contains("clock"), "{}", told(&lost));
        }
        let issuer = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert!(told(&ConnectionLostError::of_tls(&issuer)).contains("--cafile"));
    }

    #[test]
    fn socket_failure_has_no_number_of_the_library() {
        let reset = io::Error::from_raw_os_error(104);
        let state = rumqttc_four::StateError::Deserialization(rumqttc_four::mqttbytes::Error::Io(reset));
        let told = told(&ConnectionLostError::broken(&rumqttc_four::ConnectionError::MqttState(state)));
        assert!(told.starts_with("connection reset by peer") && told.contains("--cafile"), "{told}");
    }
}
