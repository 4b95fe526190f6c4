//! Connections to the broker.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use antedate_host::fault::Fault;
use antedate_mqtt_client::{ConnectionLostError, Settings, websocket};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::relay::Stream;

/// Time for a connection, with TLS.
const PATIENCE: Duration = Duration::from_secs(10);

/// The broker.
pub(crate) struct Upstream {
    settings: Settings,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Whether the last attempt failed.
    away: Cell<bool>,
    /// Whether the last connection was closed before an answer.
    mute: Cell<bool>,
}

impl Upstream {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Fault> {
        let config = settings.tls.as_ref().map(|tls| tls.config()).transpose()?;
        let tls = config.map(|config| named(&settings.host).map(|name| (connector(config), name)));
        Ok(Self {
            settings: settings.clone(),
            tls: tls.transpose()?,
            away: Cell::new(false),
            mute: Cell::new(false),
        })
    }

    /// Connects. The log has a line when the broker goes away, and one when it is back.
    pub(crate) async fn connect(&self) -> Option<Box<dyn Stream>> {
        let attempt = tokio::time::timeout(PATIENCE, self.attempt()).await;
        let place = format!("{}, port {}", self.settings.host, self.settings.port);
        match attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                if self.away.replace(false) {
                    tracing::info!("{place}: connected again");
                }
                Some(stream)
            }
            Err(error) => {
                if !self.away.replace(true) {
                    let why = ConnectionLostError::of_io(&error);
                    tracing::warn!(
                        "no connection to {place}: {why}; applications are told that the server is unavailable (remedy: {})",
                        why.remedy()
                    );
                }
                None
            }
        }
    }

    /// The broker closed a connection before it answered the CONNECT. The log has a line, and none
    /// again until a broker answers.
    pub(crate) fn closed(&self) {
        if !self.mute.replace(true) {
            let why = ConnectionLostError::closed();
            let Settings { host, port, .. } = &self.settings;
            tracing::warn!("{host}, port {port}: {why} before it answered (remedy: {})", why.remedy());
        }
    }

    /// The broker answered a CONNECT.
    pub(crate) fn answered(&self) {
        self.mute.set(false);
    }

    /// Whether the last attempt failed.
    pub(crate) fn is_away(&self) -> bool {
        self.away.get()
    }

    async fn attempt(&self) -> io::Result<Box<dyn Stream>> {
        let Settings { host, port, .. } = &self.settings;
        let tcp = TcpStream::connect((host.as_str(), *port)).await?;
        tcp.set_nodelay(true)?;
        let web = self.settings.websocket.is_some();
        Ok(match &self.tls {
            Some((connector, name)) => {
                let tls = connector.connect(name.clone(), tcp).await?;
                match web {
                    true => Box::new(websocket::connect(&self.settings, tls).await?),
                    false => Box::new(tls),
                }
            }
            None if web => Box::new(websocket::connect(&self.settings, tcp).await?),
            None => Box::new(tcp),
        })
    }
}

fn connector(config: Arc<rustls::ClientConfig>) -> TlsConnector {
    TlsConnector::from(config)
}

fn named(host: &str) -> Result<ServerName<'static>, Fault> {
    ServerName::try_from(host.to_owned()).map_err(|error| {
        Fault::of_file(
            host.as_ref(),
            format!("is no name of a certificate: {error}"),
            "give the broker's name with -h",
        )
    })
}
