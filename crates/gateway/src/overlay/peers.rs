//! The state of each peer, and the capabilities that Antedate peers announce.

use std::collections::VecDeque;
use std::net::SocketAddr;

use antedate_channel::overlay::encapsulation::Template;
use antedate_channel::overlay::message::Hello;
use antedate_channel::overlay::reassembly::Reassembly;
use antedate_channel::wireguard::PeerId;

use crate::config::overlay::{LongFrames, Overlay};
use crate::config::{self};
use crate::sys::udp::headers;

/// Octets that WireGuard adds to a packet: header and tag, without padding.
const WIREGUARD: usize = 32;
/// The most frames that wait for a session of a peer.
const WAITING: usize = 16;
/// The most requests to a peer for its capabilities.
const ASKED: u8 = 3;
/// Time for the answer in nanoseconds.
const ANSWER: u64 = 1_000_000_000;

/// Counters of a peer's frames.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// Frames sent to it.
    pub sent: u64,
    /// Their octets.
    pub octets_sent: u64,
    /// Frames received from it.
    pub received: u64,
    /// Their octets.
    pub octets_received: u64,
    /// Frames that were sent in pieces.
    pub in_pieces: u64,
    /// Frames that were sent in IP fragments.
    pub in_fragments: u64,
    /// Frames dropped without a session.
    pub no_session: u64,
}

/// The way of a frame that is too long for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// In pieces.
    Pieces,
    /// In IP fragments inside the tunnel.
    Inside,
    /// Whole; the kernel fragments the datagram.
    Outside,
    /// Dropped.
    Refused,
}

/// A peer.
pub struct Peer {
    /// Its settings.
    pub settings: config::overlay::Peer,
    /// Its number in the WireGuard device.
    pub id: PeerId,
    /// The headers of frames to it.
    pub template: Template,
    /// Octets of the longest packet that fits in a datagram.
    pub limit: usize,
    /// Its UDP address, without WireGuard.
    pub endpoint: Option<SocketAddr>,
    /// Incomplete frames. Taken out while a complete one is in use.
    pub reassembly: Option<Box<Reassembly>>,
    /// The capabilities that it announced.
    pub hello: Option<Hello>,
    /// The identification of the next fragmented packet.
    pub ident: u16,
    /// Its counters.
    pub traffic: Traffic,
    /// Number of handshakes at the last greeting.
    greeted: u64,
    /// Time of the next request for its capabilities, and number of requests so far.
    ask: Option<(u64, u8)>,
    waiting: VecDeque<(u64, Box<[u8]>)>,
}

impl Peer {
    /// A peer of an overlay whose uplinks have these MTUs.
    #[must_use]
    pub fn new(
        overlay: &Overlay,
        place: usize,
        settings: &config::overlay::Peer,
        mtus: [Option<usize>; 2],
    ) -> Self {
        Self {
            id: PeerId(place),
            template: Template::new(overlay.address, settings.address, overlay.port, overlay.vni),
            limit: limit(overlay, mtus),
            endpoint: settings.endpoint,
            reassembly: Some(Box::default()),
            hello: None,
            ident: 0,
            traffic: Traffic::default(),
            greeted: 0,
            ask: None,
            waiting: VecDeque::new(),
            settings: settings.clone(),
        }
    }

    /// The way of a long frame of `len` octets.
    #[must_use]
    pub fn long(&self, fragmentation: LongFrames, len: usize) -> Long {
        match fragmentation {
            LongFrames::Auto => match self.hello {
                Some(hello) if hello.reads_pieces && usize::from(hello.longest) >= len => Long::Pieces,
                _ => Long::Inside,
            },
            LongFrames::Inside => Long::Inside,
            LongFrames::Outside => Long::Outside,
            LongFrames::Off => Long::Refused,
        }
    }

    /// Whether `handshakes` indicates a new session. It has to be greeted, as the peer's software
    /// may have changed.
    #[inline]
    pub fn is_new_session(&mut self, handshakes: u64, now: u64) -> bool {
        if self.greeted == handshakes {
            return false;
        }
        self.greeted = handshakes;
        self.hello = None;
        self.ask = Some((now, 0));
        true
    }

    /// Whether to ask it for its capabilities now.
    pub fn asks(&mut self, now: u64) -> bool {
        match self.ask {
            Some((due, tries)) if now >= due => {
                self.ask = (tries + 1 < ASKED).then_some((now + ANSWER, tries + 1));
                true
            }
            _ => false,
        }
    }

    /// Stores the capabilities that it announced.
    pub fn answered(&mut self, hello: Hello) {
        self.hello = Some(hello);
        self.ask = None;
    }

    /// Stores a frame until there is a session.
    #[cold]
    pub fn hold(&mut self, now: u64, frame: &[u8]) {
        if self.waiting.len() >= WAITING {
            self.waiting.pop_front();
            self.traffic.no_session += 1;
        }
        self.waiting.push_back((now, frame.into()));
    }

    /// The next stored frame, with its arrival.
    pub fn held(&mut self) -> Option<(u64, Box<[u8]>)> {
        self.waiting.pop_front()
    }
}

/// Octets of the longest tunnel packet whose datagram fits both uplinks; a longer one would be lost
/// with the other uplink. A multiple of 16, since WireGuard pads to it.
#[must_use]
pub fn limit(overlay: &Overlay, mtus: [Option<usize>; 2]) -> usize {
    let second = overlay.second_uplink.as_ref().map(|second| second.listen);
    let listen = [Some(overlay.listen), second];
    let rests = mtus
        .into_iter()
        .zip(listen)
        .filter_map(|(mtu, listen)| Some(mtu?.saturating_sub(headers(listen?.ip()))));
    let rest = rests.min().unwrap_or(0);
    if overlay.private_key_file.is_some() { rest.saturating_sub(WIREGUARD) / 16 * 16 } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::overlay::SecondUplink;

    #[test]
    fn packet_fits_both_uplinks() {
        let mut overlay = Overlay {
            listen: ([0; 4], 51820).into(),
            direct: true,
            private_key_file: Some("key".into()),
            address: [10, 66, 0, 1].into(),
            vni: antedate_wire::vxlan::Vni::default(),
            port: 4789,
            fragmentation: LongFrames::Auto,
            tcp_mss: config::overlay::Clamp::Auto,
            dscp: config::overlay::Dscp::Copy,
            relay: false,
            storm_limit: 0,
            release_clock_us: 0,
            mac_ageing_seconds: 300,
            mac_limit: 16,
            second_uplink: None,
            peers: Vec::new(),
        };
        assert_eq!(limit(&overlay, [Some(1500), None]), 1440);
        let listen = ([0u16; 8], 51820).into();
        overlay.second_uplink = Some(SecondUplink { interface: "lte0".into(), listen });
        assert_eq!(limit(&overlay, [Some(1500), Some(1400)]), 1312, "1400 less 48 and 32");
        assert_eq!(limit(&overlay, [Some(1300), Some(1500)]), 1232, "1300 less 28 and 32");
        overlay.private_key_file = None;
        assert_eq!(limit(&overlay, [Some(1300), Some(1400)]), 1272);
    }
}
