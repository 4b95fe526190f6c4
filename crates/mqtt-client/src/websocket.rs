//! MQTT over WebSocket (RFC 6455; MQTT 5.0, section 6).

use std::pin::Pin;

use antedate_host::fault::Fault;
use async_tungstenite::bytes::{ByteReader, ByteWriter};
use async_tungstenite::tokio::client_async_with_config;
use async_tungstenite::tungstenite::client::IntoClientRequest;
use async_tungstenite::tungstenite::handshake::client::Request;
use async_tungstenite::tungstenite::http::HeaderValue;
use async_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Settings;

/// The subprotocol [MQTT-6.0.0-3], and the header that names it.
const PROTOCOL: &str = "mqtt";
const HEADER: &str = "Sec-WebSocket-Protocol";

/// A connection whose octets are those of MQTT.
pub type WebSocket = Pin<Box<dyn Octets>>;

/// What reads and writes octets.
pub trait Octets: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Octets for T {}

/// The URL of a broker, with the scheme `ws` over TLS too: the connection below has TLS already.
pub(crate) fn url(settings: &Settings, path: &str) -> String {
    let (host, port) = (&settings.host, settings.port);
    let slash = if path.starts_with('/') { "" } else { "/" };
    match host.contains(':') {
        true => format!("ws://[{host}]:{port}{slash}{path}"),
        false => format!("ws://{host}:{port}{slash}{path}"),
    }
}

/// The request of a broker's WebSocket, or none without one.
fn request(settings: &Settings) -> Result<Option<Request>, Fault> {
    let Some(path) = &settings.websocket else { return Ok(None) };
    let url = url(settings, path);
    let mut request = url.as_str().into_client_request().map_err(|error| {
        Fault::of_file(
            url.as_ref(),
            format!("is no address of a WebSocket: {error}"),
            "give the broker's name with -h and a path such as /mqtt with --ws-path",
        )
    })?;
    request.headers_mut().insert(HEADER, HeaderValue::from_static(PROTOCOL));
    Ok(Some(request))
}

/// Checks the names of a broker and its path.
pub(crate) fn check(settings: &Settings) -> Result<(), Fault> {
    request(settings).map(drop)
}

/// Opens a WebSocket over a connection.
///
/// # Errors
/// When the broker does not answer as a WebSocket of MQTT.
pub async fn connect<S>(settings: &Settings, over: S) -> std::io::Result<WebSocket>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = request(settings).map_err(|fault| std::io::Error::other(format!("{fault:#}")))?;
    let request = request.ok_or_else(|| std::io::Error::other("no path of a WebSocket"))?;
    // Packets of MQTT have a limit of their own.
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let (socket, answer) =
        client_async_with_config(request, over, Some(config)).await.map_err(std::io::Error::other)?;
    if answer.headers().get(HEADER).is_none_or(|name| name.as_bytes() != PROTOCOL.as_bytes()) {
        return Err(std::io::Error::other("the WebSocket does not speak MQTT"));
    }
    let (writer, reader) = socket.split();
    Ok(Box::pin(tokio::io::join(ByteReader::new(reader), ByteWriter::new(writer))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_host_port_and_path() {
        let mut settings = Settings::new("x", "broker.example", 9001);
        assert_eq!(url(&settings, "/mqtt"), "ws://broker.example:9001/mqtt");
        settings.host = "::1".into();
        assert_eq!(url(&settings, "a?b=c"), "ws://[::1]:9001/a?b=c");
        check(&settings).expect("without a WebSocket");
        settings.websocket = Some("/mqtt".into());
        check(&settings).expect("an address");
        settings.host = "a b".into();
        let fault = check(&settings).expect_err("no name");
        assert!(fault.to_string().contains("is no address of a WebSocket"), "{fault}");
    }
}
