//! `antedate mqtt proxy`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use antedate_channel::mqtt::topic;
use antedate_hardening::confine::{self, Capability};
use antedate_host::signals;
use antedate_mqtt_proxy::{Listen, Options};
use clap::Args;

use super::options::{Broker, Protection};
use crate::failure::{Done, Failure, ValueError};
use crate::gateway::run::log;

/// Proxy.
#[derive(Args)]
#[command(
    after_help = "Each application connects here instead of to the broker, with its own user, session and will.\nExample:\n  antedate mqtt proxy --keys line4.toml --state /var/lib/antedate/line4 --publisher line4 -h broker.example --listen 127.0.0.1:1884"
)]
pub(crate) struct Proxy {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    protection: Protection,
    /// The publisher's name of all applications, unique in the group [default: the device's]
    #[arg(long, value_name = "NAME", value_parser = super::keygen::name)]
    publisher: Option<String>,
    /// A loopback address and port, or the path of a Unix socket, where applications connect; may be
    /// given more than once. Every user of this machine reaches an address
    #[arg(long, value_name = "PLACE", default_value = "127.0.0.1:1884", value_parser = place)]
    listen: Vec<Listen>,
    /// A filter of topics of no group that pass unprotected, in both directions; may be given more
    /// than once
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    plain: Vec<String>,
    /// The most connections of applications
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    max_clients: usize,
    /// The socket for `antedate mqtt status`
    #[arg(long, value_name = "PATH")]
    status: Option<PathBuf>,
    /// The log's level: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

fn place(text: &str) -> Result<Listen, ValueError> {
    if text.contains('/') {
        return Ok(Listen::Unix(text.into()));
    }
    let form = |why: String| {
        ValueError::new(format!("{why}; write 127.0.0.1:PORT or the path of a socket with a /"))
    };
    let addresses: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| form(error.to_string()))?.collect();
    match addresses.first() {
        Some(address) if address.ip().is_loopback() => Ok(Listen::Tcp(*address)),
        Some(address) => Err(form(format!(
            "{} is no address of this machine alone, and payloads here are in the clear",
            address.ip()
        ))),
        None => Err(form("this name has no address".into())),
    }
}

fn filter(text: &str) -> Result<String, ValueError> {
    topic::check_filter(text).map_err(|why| ValueError::new(why.to_string()))?;
    Ok(text.to_owned())
}

impl Proxy {
    pub(crate) fn run(self) -> Done {
        log(self.log.clone())?;
        if !self.protection.has_state() {
            return Err(Failure::usage(
                "a proxy publishes, and there is no state directory",
                "name it with --state, and make it once with antedate mqtt init",
            ));
        }
        let guard = self.protection.guard(self.publisher.clone())?;
        if !guard.has_name() {
            return Err(Failure::usage(
                "there is no publisher's name",
                "name it with --publisher, or a device file with --device",
            ));
        }
        for group in guard.ageless() {
            tracing::info!("{}", super::keygen::ageless(group));
        }
        let settings = self.broker.settings()?;
        let sockets = self.listen.iter().filter_map(|place| match place {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        });
        let folders = sockets.chain(&self.status).filter_map(|path| path.parent().map(Path::to_owned));
        self.protection.confine_more(&settings, folders.collect(), vec![Capability::NetBindService]);
        let stop = signals::stop_flag()
            .map_err(|error| Failure::Verdict(format!("signals cannot be caught: {error}")))?;
        let to = format!("{}, port {}", settings.host, settings.port);
        let options = Options {
            listen: self.listen,
            broker: settings,
            plain: self.plain,
            clients: self.max_clients,
            status: self.status,
        };
        let counters = antedate_mqtt_proxy::run(&options, guard, &stop, |places| {
            confine::keep_none();
            for place in places {
                tracing::info!("clear MQTT at {place}, sealed payloads to {to}");
            }
        })?;
        tracing::info!(
            "stopped: {} publishes sealed, {} messages opened, {} refused, {} connections",
            counters.sealed,
            counters.opened,
            counters.refused,
            counters.connections
        );
        Ok(())
    }
}
