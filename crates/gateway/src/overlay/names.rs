//! Peers with a host name: resolved at the start, and again when the peer is lost. The resolver may
//! wait for seconds, so it has a thread of its own.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use antedate_hardening::confine;
use antedate_host::helper;

use super::message::Message;
use super::state::{Core, Crypt};
use crate::config::overlay::{Host, Overlay, is_one_end};
use crate::run::mailbox::Mailbox;

/// Interval of attempts for a name without an address.
const AGAIN: Duration = Duration::from_secs(5);
/// Interval of log lines about one name.
const QUIET: Duration = Duration::from_secs(60);
/// Silence of a peer, in nanoseconds, before unanswered handshakes mean that it is lost.
const SILENT: u64 = 10_000_000_000;
/// Unanswered handshakes until its name is resolved again.
const UNANSWERED: u64 = 2;

struct Name {
    host: Host,
    at: Option<SocketAddr>,
    /// Whether it has to be resolved.
    wanted: bool,
    said: Option<Instant>,
}

/// Starts the thread, if a peer has a name. It resolves all names but the `known` ones. The
/// returned sender asks for a name again; the thread ends when it is dropped.
pub(super) fn start(
    overlay: &Overlay,
    known: &[&Host],
    mailbox: &Arc<Mailbox<Message>>,
) -> io::Result<Option<mpsc::Sender<Host>>> {
    let mut names: Vec<Name> = Vec::new();
    for host in overlay.peers.iter().filter_map(|peer| peer.host.as_ref()) {
        if names.iter().all(|name| name.host != *host) {
            names.push(Name { host: host.clone(), at: None, wanted: !known.contains(&host), said: None });
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    let (ask, asked) = mpsc::channel();
    let (v6, mailbox) = (overlay.listen.is_ipv6(), Arc::clone(mailbox));
    let work = move || {
        // The resolver parses what comes from the network.
        confine::keep_none();
        loop {
            for name in names.iter_mut().filter(|name| name.wanted) {
                if let Some(at) = name.resolve(v6) {
                    mailbox.post(Message::Endpoint(name.host.clone(), at));
                }
            }
            match asked.recv_timeout(AGAIN) {
                Ok(host) => {
                    names.iter_mut().filter(|name| name.host == host).for_each(|name| name.wanted = true);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    helper::thread("names").spawn(work)?;
    Ok(Some(ask))
}

impl Name {
    fn resolve(&mut self, v6: bool) -> Option<SocketAddr> {
        let (host, port) = &self.host;
        let found = (host.as_str(), *port).to_socket_addrs();
        let reason = match found {
            Ok(mut all) => match all.find(|at| at.is_ipv6() == v6 && is_one_end(at.ip())) {
                Some(at) => {
                    self.wanted = false;
                    if self.at.replace(at) != Some(at) {
                        tracing::info!(host, %at, "host name of a peer resolved");
                    }
                    return Some(at);
                }
                None if v6 => "it has no IPv6 address, and overlay.listen is one".to_owned(),
                None => "it has no IPv4 address, and overlay.listen is one".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        if self.said.is_none_or(|said| said.elapsed() >= QUIET) {
            self.said = Some(Instant::now());
            tracing::warn!(
                host,
                reason,
                "the host name of a peer has no address; see endpoint, and: getent ahosts"
            );
        }
        None
    }
}

impl Core {
    /// Has the names of lost peers resolved again.
    pub(super) fn find_lost(&mut self, now: u64) {
        let (Some(names), Crypt::Wireguard(device)) = (&self.names, &self.crypt) else { return };
        for peer in &mut self.peers {
            let Some(counters) = device.counters(peer.id) else { continue };
            let Some(host) = &peer.settings.host else { continue };
            if now.saturating_sub(counters.last_received) < SILENT {
                peer.unanswered = counters.initiations_sent;
            } else if counters.initiations_sent >= peer.unanswered + UNANSWERED {
                peer.unanswered = counters.initiations_sent;
                // The thread may have ended.
                let _ = names.send(host.clone());
            }
        }
    }

    /// Stores the address of the peers with this host name.
    pub(super) fn found(&mut self, now: u64, host: &Host, at: SocketAddr) {
        let Crypt::Wireguard(device) = &mut self.crypt else { return };
        for peer in self.peers.iter().filter(|peer| peer.settings.host.as_ref() == Some(host)) {
            if device.endpoint(peer.id) != Some(at) {
                device.set_endpoint(now, peer.id, at);
                self.look = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_right_version_are_found() {
        let name = |host: &str| Name { host: (host.into(), 51820), at: None, wanted: true, said: None };
        // Addresses need no name server.
        assert_eq!(name("192.0.2.7").resolve(false), Some(([192, 0, 2, 7], 51820).into()));
        assert_eq!(name("192.0.2.7").resolve(true), None);
        for group in ["224.0.0.1", "255.255.255.255", "0.0.0.0"] {
            assert_eq!(name(group).resolve(false), None, "{group}");
        }
    }
}
