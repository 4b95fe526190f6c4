//! What the forwarding thread tells the main thread for the log. The forwarding thread itself never
//! waits for a log.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::search::NewPathMtu;
use super::table::Suspect;
use crate::config::overlay::Overlay;
use crate::config::uplink::Which;

/// Interval of lines about one cause.
const QUIET: Duration = Duration::from_secs(60);

/// News of the forwarding thread.
#[derive(Debug, Clone, Copy)]
pub enum News {
    /// Another path MTU of a peer.
    PathMtu(NewPathMtu),
    /// Frames of a machine of the field came from a peer: a loop, or an address that is used twice.
    Elsewhere(Suspect, u64),
}

/// Writes the news to the log.
pub(super) struct Log {
    came: Receiver<News>,
    peers: Vec<String>,
    /// The last line about frames from elsewhere, and the last such news.
    elsewhere: Option<(Instant, Instant)>,
}

impl Log {
    pub(super) fn new(came: Receiver<News>, overlay: &Overlay) -> Self {
        let peers = overlay.peers.iter().map(|peer| peer.name.clone()).collect();
        Self { came, peers, elsewhere: None }
    }

    /// Writes what came, and names other peers from now on.
    pub(super) fn rename(&mut self, overlay: &Overlay) {
        self.drain();
        self.peers = overlay.peers.iter().map(|peer| peer.name.clone()).collect();
    }

    /// Writes what came since the last call.
    pub(super) fn drain(&mut self) {
        while let Ok(news) = self.came.try_recv() {
            match news {
                News::PathMtu(new) => self.path_mtu(new),
                News::Elsewhere(suspect, frames) => self.elsewhere(suspect, frames),
            }
        }
        if let Some((_, last)) = self.elsewhere
            && last.elapsed() >= QUIET
        {
            self.elsewhere = None;
            tracing::info!("no frames of machines of the field come from peers any more");
        }
    }

    fn path_mtu(&self, NewPathMtu { peer, which, mtu, before }: NewPathMtu) {
        let peer = self.peers.get(peer).map_or("", String::as_str);
        let uplink = if which == Which::First { "first" } else { "second" };
        let (mtu, source) = (mtu.octets, mtu.source);
        match before {
            None => tracing::info!(peer, uplink, mtu, source, "path MTU"),
            Some(before) if before > mtu => {
                tracing::warn!(
                    peer,
                    uplink,
                    mtu,
                    source,
                    before,
                    "the path carries less: longer frames leave in parts; see the link, and overlay.tcp_mss"
                );
            }
            Some(before) => tracing::info!(peer, uplink, mtu, source, before, "the path carries more again"),
        }
    }

    fn elsewhere(&mut self, Suspect { address, peer }: Suspect, frames: u64) {
        let now = Instant::now();
        let said = self.elsewhere.map(|(said, _)| said).filter(|said| now - *said < QUIET);
        if said.is_none() {
            let peer = self.peers.get(peer).map_or("", String::as_str);
            tracing::warn!(
                %address, peer, frames,
                "frames of a machine of the field come from a peer and are dropped: a loop between the sites, or one address used twice; remove the second connection, or change the address"
            );
        }
        self.elsewhere = Some((said.unwrap_or(now), now));
    }
}
