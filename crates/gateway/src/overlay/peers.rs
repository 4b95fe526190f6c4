//! What is known of each other end, and what two Antedate ends agree on.

use std::collections::VecDeque;
use std::net::SocketAddr;

use antedate_channel::overlay::encapsulation::Template;
use antedate_channel::overlay::message::Hello;
use antedate_channel::overlay::reassembly::Reassembly;
use antedate_channel::wireguard::PeerId;

use crate::config::overlay::{LongFrames, Overlay};
use crate::config::{self};
use crate::sys::udp::headers;

/// Octets that WireGuard adds to a packet: header and tag, padding not counted.
const WIREGUARD: usize = 32;
/// Frames that wait for a session.
const WAITING: usize = 16;
/// How long they do.
const WAIT: u64 = 1_000_000_000;
/// Times that a peer is asked whether it is an Antedate,
const ASKED: u8 = 3;
/// and how long an answer may take.
const ANSWER: u64 = 1_000_000_000;

/// Frames of a peer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// Frames sent to it, and their octets.
    pub sent: u64,
    /// Their octets.
    pub octets_sent: u64,
    /// Frames that came from it.
    pub received: u64,
    /// Their octets.
    pub octets_received: u64,
    /// Frames that were sent in pieces.
    pub in_pieces: u64,
    /// Frames whose packet was fragmented.
    pub in_fragments: u64,
    /// Frames that were dropped since there was no session.
    pub no_session: u64,
}

/// How a frame goes that is too long for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// In pieces of ours.
    Pieces,
    /// In IP fragments inside the tunnel.
    Inside,
    /// Whole: the kernel fragments the datagram.
    Outside,
    /// Not at all.
    Refused,
}

/// Another end.
pub struct Peer {
    /// What the file says.
    pub settings: config::overlay::Peer,
    /// Which one it is to WireGuard.
    pub id: PeerId,
    /// The headers in front of its frames.
    pub template: Template,
    /// Octets of the longest packet that fits a datagram.
    pub limit: usize,
    /// Where it is, without WireGuard.
    pub endpoint: Option<SocketAddr>,
    /// Frames that are not whole yet. Taken while one of them is looked at.
    pub reassembly: Option<Box<Reassembly>>,
    /// What it said that it can do.
    pub hello: Option<Hello>,
    /// The identification of the next fragmented packet.
    pub ident: u16,
    /// Its frames.
    pub traffic: Traffic,
    /// Handshakes when the session was greeted.
    greeted: u64,
    /// When it is asked again, and how often it was.
    ask: Option<(u64, u8)>,
    waiting: VecDeque<(u64, Box<[u8]>)>,
}

impl Peer {
    /// A peer of an overlay whose datagrams, with their IP header, have at most so many octets on each uplink.
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

    /// How a long frame of so many octets goes.
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

    /// There is a session after so many handshakes. Tells whether it is a new one, which is to be greeted: the end may have
    /// become another one since.
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

    /// Whether it is to be asked now whether it is an Antedate.
    pub fn asks(&mut self, now: u64) -> bool {
        match self.ask {
            Some((due, tries)) if now >= due => {
                self.ask = (tries + 1 < ASKED).then_some((now + ANSWER, tries + 1));
                true
            }
            _ => false,
        }
    }

    /// It said what it can do.
    pub fn answered(&mut self, hello: Hello) {
        self.hello = Some(hello);
        self.ask = None;
    }

    /// Keeps a frame until there is a session.
    #[cold]
    pub fn hold(&mut self, now: u64, frame: &[u8]) {
        if self.waiting.len() >= WAITING {
            self.waiting.pop_front();
            self.traffic.no_session += 1;
        }
        self.waiting.push_back((now, frame.into()));
    }

    /// The next frame that waited and is not too old.
    pub fn held(&mut self, now: u64) -> Option<Box<[u8]>> {
        while let Some((since, frame)) = self.waiting.pop_front() {
            if now.saturating_sub(since) < WAIT {
                return Some(frame);
            }
            self.traffic.no_session += 1;
        }
        None
    }
}

/// Octets of the longest packet of the tunnel for which a datagram fits both uplinks, which carry so much: a multiple of 16,
/// since WireGuard pads to it. What fits one of them alone would be lost with that one.
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
    fn a_packet_fits_both_uplinks() {
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
