//! WireGuard without I/O. The caller passes in datagrams, a clock and random numbers, and gets
//! datagrams, packets and reasons back.
//!
//! A [`Device`] has one static key pair and any number of peers. Its packets are those of the
//! WireGuard paper (J. Donenfeld, NDSS 2017), so the other end may be any implementation. Transport
//! data is prepared: a session's counters are its nonces, so the key stream and one-time keys of
//! the next packets are ready in both directions before the packets exist.
//!
//! Times are nanoseconds of a monotonic clock.
//!
//! - `noise`: the handshake,
//! - `work`: the expensive parts of it, for another thread if there is one,
//! - `handshake`: the steps before and after that work,
//! - `identity`: static keys that change while sessions go on,
//! - `cookie`: MACs and cookies, which bound the cost of strangers,
//! - `session`: transport data,
//! - `counters`: refusals and per-peer counters,
//! - `settings` and `outcome`: inputs from and results for the caller,
//! - `ready`: peers that come and go,
//! - `overheard`: recorded sessions, for a holder of their logged keys,
//! - `peer`: sessions, handshakes and timers of one peer,
//! - this file: dispatch of datagrams.

mod cookie;
mod counters;
mod handshake;
mod identity;
mod noise;
mod outcome;
mod overheard;
mod peer;
mod ready;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod work;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use antedate_wire::wireguard::{
    COOKIE_REPLY_LEN, CookieReply, INITIATION_LEN, Message, TAG_LEN, TRANSPORT_HEADER_LEN,
};

use cookie::Checker;
pub use counters::{Dropped, PeerCounters, Refusals};
pub use identity::ReadyKeys;
use noise::Identity;
pub use noise::Timestamp;
pub use outcome::{Finished, KeyLogEntry, Outgoing, Received, SendError};
pub use overheard::Overheard;
use peer::{Origin, Peer, SECOND};
pub use ready::{GonePeer, ReadyPeer};
use session::{OpenError, Session};
pub use session::{PREPARED_LEN, SLOTS};
pub use settings::{PeerError, PeerId, Settings};
use work::Keys;
pub use work::{Done, Job};

/// Octets to leave free before a packet that is to be sealed, for the transport header.
pub const HEADROOM: usize = Peer::HEADROOM;
/// Octets of the longest message other than transport data.
pub const LONGEST_HANDSHAKE: usize = INITIATION_LEN;

/// Handshakes per second answered without a cookie. More could be a flood by strangers.
const CALM: u32 = 50;
/// Handshakes per second answered with a cookie,
const MOST: u32 = 500;
/// and those of one network, so that no network shuts out the others.
const MOST_OF_ONE: u32 = 20;

/// The device's access to clocks and randomness.
pub trait Environment {
    /// Nanoseconds of a monotonic clock.
    fn now(&self) -> u64;
    /// The time of day as TAI64N. It may go backwards.
    fn timestamp(&self) -> Timestamp;
    /// Fills `out` with unpredictable octets.
    fn random(&mut self, out: &mut [u8]);
}

/// Handshake messages of the current second.
#[derive(Default)]
struct Load {
    /// The start of the second.
    since: u64,
    /// Messages whose sender knew our public key.
    began: u32,
    /// Messages beyond [`CALM`] with a cookie,
    shown: u32,
    /// and their count by network.
    of_one: BTreeMap<IpAddr, u32>,
}

/// An address, or its network: the owner of an IPv6 address has 2^64 of them.
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

/// One end of tunnels.
pub struct Device {
    keys: Arc<Keys>,
    checker: Checker,
    peers: Vec<Peer>,
    /// The peer of each of our indices.
    indices: BTreeMap<u32, usize>,
    /// The index of the last transport message and its peer, which are most likely the next one's
    /// too.
    recent: Option<(u32, usize)>,
    load: Load,
    refusals: Refusals,
    key_log: Option<Vec<KeyLogEntry>>,
    /// Parts of handshakes for another thread. `None` if they are done at once.
    jobs: Option<VecDeque<Job>>,
}

impl Device {
    /// A device with this private key and no peers.
    pub fn new(private: &[u8; 32]) -> Self {
        let identity = Arc::new(Identity::new(private));
        let checker = Checker::new(&identity.public);
        Self {
            keys: Arc::new(Keys { identity, partners: Vec::new() }),
            jobs: None,
            checker,
            peers: Vec::new(),
            indices: BTreeMap::new(),
            recent: None,
            load: Load::default(),
            refusals: Refusals::default(),
            key_log: None,
        }
    }

    /// Our public key.
    pub fn public(&self) -> &[u8; 32] {
        &self.keys.identity.public
    }

    /// The public key of a private key.
    pub fn public_of(private: &[u8; 32]) -> [u8; 32] {
        Identity::new(private).public
    }

    /// Adds a peer.
    pub fn add_peer(&mut self, settings: &Settings) -> Result<PeerId, PeerError> {
        if [Some(settings.public), settings.other].iter().flatten().any(|key| self.peer(key).is_some()) {
            return Err(PeerError::Known);
        }
        ReadyPeer::of(&self.keys.identity, settings).map(|ready| self.join(ready))
    }

    /// The peer with this public key.
    pub fn peer(&self, public: &[u8; 32]) -> Option<PeerId> {
        self.peers.iter().position(|peer| peer.has(public)).map(PeerId)
    }

    /// The number of peers.
    pub const fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Remembers the keys of each handshake from now on, until they are
    /// [taken](Self::take_key_log). They reveal all traffic; for tests only.
    pub fn log_keys(&mut self) {
        self.key_log.get_or_insert_default();
    }

    /// The keys of the handshakes since the last call.
    pub fn take_key_log(&mut self) -> Vec<KeyLogEntry> {
        self.key_log.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Seals the packet of `len` octets in `datagram` after [`HEADROOM`]. Returns the destination
    /// and the length to send.
    ///
    /// # Errors
    ///
    /// Without a session the packet is refused, and a handshake is due at once: see
    /// [`poll`](Self::poll).
    #[inline]
    pub fn seal(
        &mut self,
        now: u64,
        peer: PeerId,
        datagram: &mut [u8],
        len: usize,
    ) -> Result<(SocketAddr, usize), SendError> {
        let peer = self.peers.get_mut(peer.0).ok_or(SendError::NoPeer)?;
        let to = peer.endpoint.ok_or(SendError::NoEndpoint)?;
        if datagram.len() < antedate_wire::wireguard::transport_len(len) {
            return Err(SendError::NoRoom);
        }
        let sealed = peer.seal(now, datagram, len).ok_or(SendError::NoSession)?;
        Ok((to, sealed))
    }

    /// Processes a datagram from an address. A packet is opened in place. An answer is written to
    /// `answer`, which has [`LONGEST_HANDSHAKE`] octets, and must be sent to that address.
    ///
    /// # Errors
    ///
    /// After a refusal the datagram contains no packet. `answer` contains a cookie if the reason
    /// was [`Dropped::CookieWanted`] ([`COOKIE_LEN`] octets).
    #[inline]
    pub fn receive(
        &mut self,
        world: &mut impl Environment,
        from: SocketAddr,
        datagram: &mut [u8],
        answer: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Received, Dropped> {
        self.take(world, Origin { from, beside: false }, datagram, answer)
    }

    /// Processes a datagram, as [`receive`](Self::receive) does, from a path on which roaming is
    /// not followed: the sender's address stays unless it was unknown. A cookie returns by the
    /// datagram's path.
    pub fn receive_beside(
        &mut self,
        world: &mut impl Environment,
        from: SocketAddr,
        datagram: &mut [u8],
        answer: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Received, Dropped> {
        self.take(world, Origin { from, beside: true }, datagram, answer)
    }

    #[inline]
    fn take(
        &mut self,
        world: &mut impl Environment,
        origin: Origin,
        datagram: &mut [u8],
        answer: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Received, Dropped> {
        let from = origin.from;
        let result = match Message::parse(datagram) {
            Err(_) => Err(Dropped::Malformed),
            Ok(Message::Transport(transport)) => {
                let (index, counter, len) = (transport.receiver, transport.counter, transport.packet.len());
                let tag = *transport.tag;
                self.transport(world.now(), origin, datagram, index, counter, len, &tag)
            }
            Ok(Message::Initiation(message)) => self
                .admit(world, from, datagram, message.sender, answer)
                .and_then(|()| self.initiation(world, origin, &message, answer)),
            Ok(Message::Response(message)) => self
                .admit(world, from, datagram, message.sender, answer)
                .and_then(|()| self.response(world, origin, &message, answer)),
            Ok(Message::CookieReply(message)) => self.cookie_reply(world.now(), &message),
        };
        result.inspect_err(|refusal| self.refusals.count(*refusal))
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the fields of a message, and its way")]
    fn transport(
        &mut self,
        now: u64,
        origin: Origin,
        datagram: &mut [u8],
        index: u32,
        counter: u64,
        len: usize,
        tag: &[u8; TAG_LEN],
    ) -> Result<Received, Dropped> {
        let at = match self.recent {
            Some((recent, at)) if recent == index => at,
            _ => *self.indices.get(&index).ok_or(Dropped::UnknownIndex)?,
        };
        let peer = self.peers.get_mut(at).ok_or(Dropped::UnknownIndex)?;
        let (age, session) = peer.receiving(index, now).ok_or(Dropped::Expired)?;
        let range = TRANSPORT_HEADER_LEN..TRANSPORT_HEADER_LEN + len;
        let packet = datagram.get_mut(range.clone()).ok_or(Dropped::Malformed)?;
        session.open(counter, packet, tag).map_err(|bad| match bad {
            OpenError::Replayed => Dropped::Replayed,
            OpenError::Counter => Dropped::CounterEnd,
            OpenError::Forged => Dropped::ForgedData,
        })?;
        self.recent = Some((index, at));
        let roamed = peer.heard_at(origin);
        let gone = peer.received(age, now, len);
        self.release(gone);
        let peer = PeerId(at);
        Ok(if len == 0 { Received::Keepalive { peer } } else { Received::Packet { peer, range, roamed } })
    }

    /// Checks that the sender of a handshake message knows our public key and, under load, shows a
    /// cookie.
    fn admit(
        &mut self,
        world: &mut impl Environment,
        from: SocketAddr,
        datagram: &[u8],
        sender: u32,
        answer: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<(), Dropped> {
        if !self.checker.knows_us(datagram) {
            return Err(Dropped::Mac1);
        }
        let now = world.now();
        if now.saturating_sub(self.load.since) >= SECOND {
            self.load = Load { since: now, ..Load::default() };
        }
        self.load.began = self.load.began.saturating_add(1);
        if self.load.began <= CALM {
            return Ok(());
        }
        if !self.checker.shows_cookie(datagram, from, now) {
            let reply = self.checker.reply(datagram, sender, from, now, |out| world.random(out));
            if let Some(reply) = reply {
                answer[..COOKIE_REPLY_LEN].copy_from_slice(&reply.emit());
            }
            return Err(Dropped::CookieWanted);
        }
        // Messages without a cookie do not count here: otherwise anyone with our public key could
        // shut out all peers.
        if self.load.shown >= MOST {
            return Err(Dropped::Overload);
        }
        let of_one = self.load.of_one.entry(network(from.ip())).or_default();
        if *of_one >= MOST_OF_ONE {
            return Err(Dropped::Overload);
        }
        *of_one += 1;
        self.load.shown += 1;
        Ok(())
    }

    fn cookie_reply(&mut self, now: u64, message: &CookieReply) -> Result<Received, Dropped> {
        let at = *self.indices.get(&message.receiver).ok_or(Dropped::StrayCookie)?;
        let peer = self.peers.get_mut(at).ok_or(Dropped::StrayCookie)?;
        if peer.marker.take(message, now) {
            Ok(Received::Cookie { peer: PeerId(at) })
        } else {
            Err(Dropped::StrayCookie)
        }
    }

    /// The next due message: an initiation, or a keepalive. Call it until it returns `None`: after
    /// a packet was refused for lack of a session, after a session was established, and when
    /// [`due`](Self::due) says so.
    pub fn poll(
        &mut self,
        world: &mut impl Environment,
        out: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Option<Outgoing> {
        let now = world.now();
        for at in 0..self.peers.len() {
            let peer = &mut self.peers[at];
            for gone in peer.expire(now) {
                self.release(gone);
            }
            let peer = &mut self.peers[at];
            let Some(to) = peer.endpoint else { continue };
            peer.hears_silence(now);
            if peer.takes_initiation(now)
                && let Some(len) = self.initiate(world, at, out)
            {
                return Some(Outgoing { peer: PeerId(at), to, len });
            }
            let peer = &mut self.peers[at];
            if peer.takes_keepalive(now)
                && let Some(len) = peer.seal(now, out, 0)
            {
                return Some(Outgoing { peer: PeerId(at), to, len });
            }
        }
        None
    }

    /// The time at which [`poll`](Self::poll) is due next.
    pub fn due(&self) -> Option<u64> {
        self.peers.iter().filter_map(Peer::due).min()
    }

    /// Requests a handshake with a peer now, whether there is a session or not.
    pub fn want_handshake(&mut self, now: u64, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(peer.0) {
            peer.want_handshake(now);
        }
    }

    /// Does at most `budget` preparation steps of about 64 octets, first for the peer heard last.
    /// Returns the number done.
    #[inline]
    pub fn idle(&mut self, budget: u32) -> u32 {
        let recent = self.recent.map(|(_, at)| at);
        let mut steps = recent.into_iter().chain(0..self.peers.len()).map(|at| self.peers[at].idle(budget));
        steps.find(|done| *done > 0).unwrap_or(0)
    }

    /// Whether data for a peer can be sent at once.
    pub fn is_ready(&self, now: u64, peer: PeerId) -> bool {
        self.peers.get(peer.0).is_some_and(|peer| peer.is_ready(now))
    }

    /// Sets the address of a peer, as its name was resolved. A peer with a persistent keepalive is
    /// contacted at once.
    pub fn set_endpoint(&mut self, now: u64, peer: PeerId, to: SocketAddr) {
        if let Some(peer) = self.peers.get_mut(peer.0) {
            peer.readdress(now, to);
        }
    }

    /// The address where a peer was heard last.
    pub fn endpoint(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(peer.0)?.endpoint
    }

    /// The counters of a peer.
    pub fn counters(&self, peer: PeerId) -> Option<&PeerCounters> {
        self.peers.get(peer.0).map(|peer| &peer.counters)
    }

    /// Packets prepared for sending to a peer.
    pub fn prepared(&self, peer: PeerId) -> usize {
        let current = self.peers.get(peer.0).and_then(|peer| peer.current.as_ref());
        current.map_or(0, Session::prepared)
    }

    /// The counters of refusals.
    pub const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn release(&mut self, index: Option<u32>) {
        if let Some(index) = index {
            self.indices.remove(&index);
        }
    }
}

/// Octets of the answer that comes with [`Dropped::CookieWanted`].
pub const COOKIE_LEN: usize = COOKIE_REPLY_LEN;

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("peers", &self.peers.len())
            .field("refusals", &self.refusals)
            .finish_non_exhaustive()
    }
}
