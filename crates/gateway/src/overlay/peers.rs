//! The state of each peer, and the capabilities that Antedate peers announce.

use std::collections::VecDeque;
use std::net::SocketAddr;

use antedate_channel::overlay::encapsulation::Template;
use antedate_channel::overlay::message::Hello;
use antedate_channel::overlay::reassembly::Reassembly;
use antedate_channel::wireguard::PeerId;

use super::search::{Search, first_limit};
use crate::config::overlay::{LongFrames, Overlay};
use crate::config::{self};
use crate::frames::bound::Bound;

/// The most frames that wait for a session of a peer.
const WAITING: usize = 16;
/// The most requests to a peer for its capabilities.
const ASKED: u8 = 3;
/// The most answers of a chosen length to a peer in a second.
const ANSWERS: u64 = 100;
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
    /// The worker with its sessions.
    pub worker: u8,
    /// The headers of frames to it.
    pub template: Template,
    /// Octets of the longest packet that fits in a datagram on each path.
    pub limit: usize,
    /// The search for it on each uplink.
    pub searches: [Option<Search>; 2],
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
    /// The answers to its pings: it may not make this gateway send at its pleasure.
    pub answers: Option<Bound>,
    /// Initiations sent when it was last heard, or its name last resolved.
    pub unanswered: u64,
    /// Number of handshakes at the last greeting.
    greeted: u64,
    /// Time of the next request for its capabilities, and number of requests so far.
    ask: Option<(u64, u8)>,
    waiting: VecDeque<(u64, Box<[u8]>)>,
}

impl Peer {
    /// A peer of an overlay whose uplinks have these MTUs. `trusted`: the path has the first one.
    #[must_use]
    pub fn new(
        overlay: &Overlay,
        place: usize,
        settings: &config::overlay::Peer,
        mtus: [Option<usize>; 2],
        trusted: bool,
    ) -> Self {
        Self {
            id: PeerId(place),
            worker: 0,
            template: Template::new(overlay.address, settings.address, overlay.port, overlay.vni),
            limit: first_limit(overlay, mtus, trusted),
            searches: [None, None],
            endpoint: settings.endpoint,
            reassembly: Some(Box::default()),
            hello: None,
            ident: 0,
            traffic: Traffic::default(),
            answers: Bound::of_frames(ANSWERS, 0, 0),
            unanswered: 0,
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

    /// Whether it may still answer what its capabilities are.
    #[must_use]
    pub const fn is_being_asked(&self) -> bool {
        self.ask.is_some()
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

    /// Whether it answers probes of ours. Any other end has its echo requests.
    #[must_use]
    pub fn answers_probes(&self) -> bool {
        self.hello.is_some_and(|hello| hello.answers_probes)
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
