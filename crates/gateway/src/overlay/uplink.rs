//! The ports of an uplink.
//!
//! A UDP socket owns the port. With IPv4, a packet socket beside it receives datagrams from the
//! interface's ring, where polling costs a memory read, and another sends them with their headers.
//! Both save the kernel's IP and UDP stack. The socket remains for fragmented datagrams, neighbours
//! without a known link address, and IPv6.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::Sender as Post;

use super::datagram::{Came, read};
use super::hops::{Asked, Hops};
use crate::frames::offload::MOST_UDP;
use crate::frames::port::not_sent;
use crate::run::counters::PathCounters;
use crate::sys::age::{self, Age, Ages, Bounds};
use crate::sys::filter::{Datagrams, Filter, Share};
use crate::sys::interface::Interface;
use crate::sys::outbox::{self, Outbox, SEGMENT_UDP};
use crate::sys::packet::{Next, Receiver};
use crate::sys::route::Hop;
use crate::sys::segmenter::Segmenter;
use crate::sys::sender::Sender;
use crate::sys::thread;
use crate::sys::udp::{BATCH, Inbox, MAX_DATAGRAM_LEN, UdpSocket, headers};

/// The most datagrams in a turn.
const TURN: usize = 16;
/// How long datagrams are received from the socket after a fragmented one of a peer, in
/// nanoseconds. The first one may be lost, so a path that fragments rarely has to be remembered.
const BY_SOCKET: u64 = 3_600_000_000_000;

/// The sockets of an uplink.
pub struct Port {
    socket: Arc<UdpSocket>,
    direct: Option<(Receiver, outbox::Interface)>,
    listen: SocketAddr,
    link: [u8; 6],
    mtu: usize,
    bare: bool,
    share: Option<Share>,
    max_age: Bounds,
}

impl Port {
    /// Opens a port on an interface with packets of at most `mtu` octets: the socket and, with
    /// `direct`, the packet sockets. With `bypass` frames skip the queueing discipline. With `bare`
    /// there is no WireGuard to detect damage, so checksums are verified. With `share` the datagrams
    /// are those of one of several threads, each of which has a socket.
    ///
    /// # Errors
    /// When the kernel refuses a packet socket.
    pub fn new(
        socket: Arc<UdpSocket>,
        interface: &Interface,
        listen: SocketAddr,
        (mtu, direct, bypass): (usize, bool, bool),
        bare: bool,
        share: Option<Share>,
    ) -> std::io::Result<Self> {
        let direct = if direct && listen.is_ipv4() {
            let ring = Receiver::open_filtered(interface, &filter(listen, Datagrams::All, share))?;
            // From here on the socket receives only datagrams that the ring does not. Earlier ones
            // are still read from it.
            socket.filter(&longer(mtu))?;
            let sender = Sender::open(interface, bypass)?;
            Some((ring, outbox::Interface::new(sender, Segmenter::open(interface, bypass)?)))
        } else {
            None
        };
        let max_age = Bounds::NONE;
        Ok(Self { socket, direct, listen, link: interface.address, mtu, bare, share, max_age })
    }

    /// Drops datagrams that are older than these bounds when their turn comes.
    ///
    /// # Errors
    /// When the kernel does not stamp datagrams.
    pub fn bounded(self, max_age: Bounds) -> std::io::Result<Self> {
        if max_age != Bounds::NONE {
            self.socket.stamp()?;
        }
        let direct = self.direct.map(|(ring, sender)| (ring.bounded(max_age), sender));
        Ok(Self { direct, max_age, ..self })
    }

    /// Splits the port. `ask` receives addresses that need a next hop.
    pub(super) fn sides(self, ask: Post<Asked>) -> (Inward, Outward) {
        let (ring, sender) = self.direct.map_or((None, None), |(ring, sender)| (Some(ring), Some(sender)));
        let outward = Outward {
            socket: Arc::clone(&self.socket),
            sender,
            hops: Hops::new(self.link, self.listen.port(), ask),
            outbox: Outbox::new(),
            mtu: self.mtu,
            since: 0,
            max_age: self.max_age,
            ident: 0,
        };
        let inward = Inward {
            socket: self.socket,
            ring,
            listen: self.listen,
            mtu: self.mtu,
            bare: self.bare,
            share: self.share,
            by_socket: 0,
            looked: 0,
            inbox: Inbox::new(),
            ask: 1,
            damaged: 0,
            ages: Ages::new(self.max_age),
            stale: 0,
        };
        (inward, outward)
    }
}

/// The filter of a ring.
fn filter(listen: SocketAddr, which: Datagrams, share: Option<Share>) -> Filter {
    let address = match listen.ip() {
        IpAddr::V4(ip) if !ip.is_unspecified() => Some(ip),
        _ => None,
    };
    Filter::datagrams(listen.port(), address, which, share)
}

/// The filter of a socket beside a ring: datagrams longer than a packet were fragmented.
fn longer(mtu: usize) -> Filter {
    Filter::longer_than(mtu.saturating_sub(28))
}

/// The receiving side.
pub(super) struct Inward {
    socket: Arc<UdpSocket>,
    ring: Option<Receiver>,
    listen: SocketAddr,
    mtu: usize,
    bare: bool,
    share: Option<Share>,
    /// The end of receiving from the socket although there is a ring. 0: datagrams come from the
    /// ring.
    by_socket: u64,
    /// The last poll of the socket beside the ring.
    looked: u64,
    inbox: Inbox,
    /// Datagrams per read of the socket: one while they arrive singly.
    ask: usize,
    /// Packets with wrong lengths or checksums.
    pub(super) damaged: u64,
    /// The ages of datagrams from the socket.
    ages: Ages,
    /// Datagrams from the socket that were dropped for their age since the last census.
    stale: u64,
}

/// The most reads of stale datagrams in a turn: the whole buffer of the socket.
const STALE_READS: usize = 1024;

/// Interval of polling the socket beside the ring, in nanoseconds.
const LOOK: u64 = 10_000_000;

impl Inward {
    /// The descriptors to wait on: the ring, if any, and the socket.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.ring.as_ref().map_or(-1, AsRawFd::as_raw_fd), self.socket.as_raw_fd()]
    }

    /// Clears the ring's error that a wait found: a link that went down leaves one.
    pub(super) fn take_error(&self) {
        let _ = self.ring.as_ref().and_then(Receiver::take_error);
    }

    /// Drops datagrams that are older than these bounds from now on.
    pub(super) fn bound(&mut self, max_age: Bounds) {
        // A socket that stamps goes on without a bound. One that cannot stamps none, and none is
        // stale.
        if max_age != Bounds::NONE
            && let Err(error) = self.socket.stamp()
        {
            tracing::warn!(%error, "the kernel stamps no datagrams: their age has no bound");
        }
        self.ages.bound(max_age);
        if let Some(ring) = &mut self.ring {
            ring.bound(max_age);
        }
    }

    /// Datagrams dropped for their age since the last call.
    pub(super) fn take_stale(&mut self) -> u64 {
        std::mem::take(&mut self.stale) + self.ring.as_mut().map_or(0, Receiver::take_stale)
    }

    /// Datagrams that the kernel dropped since the last call because the ring was full.
    pub(super) fn overruns(&self) -> u64 {
        self.ring.as_ref().map_or(0, Receiver::overruns)
    }

    /// The way of incoming datagrams.
    pub(super) fn way(&self) -> &'static str {
        match (&self.ring, self.by_socket) {
            (None, _) => "socket",
            (Some(_), 0) => "interface",
            (Some(_), _) => "socket, for datagrams came in fragments",
        }
    }

    /// Passes a bounded number of datagrams to `each`, with whether they are too old for a cyclic
    /// frame. Returns their number. `is_peer` returns whether a peer has an address.
    #[inline]
    pub(super) fn turn<C>(
        &mut self,
        now: u64,
        context: &mut C,
        is_peer: impl Fn(&C, IpAddr) -> bool,
        mut each: impl FnMut(&mut C, &mut [u8], SocketAddr, u8, bool),
    ) -> usize {
        let Some(ring) = &mut self.ring else {
            return self.read_socket(|d, from, class, late| each(context, d, from, class, late));
        };
        let (mut count, mut fragments) = (0, false);
        while count < TURN {
            match ring.peek() {
                Next::Empty => break,
                // The tunnel's replay window and counters tolerate the loss.
                Next::Truncated => self.damaged += 1,
                Next::Frame(received) => {
                    let (offload, late) = (received.offload, received.late);
                    // A checksum that the sender's stack left to the hardware is not there to
                    // verify. Those of a super-frame were left too, or verified when it was joined.
                    let check = self.bare && !offload.needs_checksum && offload.segmentation == 0;
                    let len = usize::from(offload.segment_bytes);
                    match (read(received.into_frame(), check), offload.segmentation) {
                        (Came::Datagram(datagram, from, class), 0) => {
                            each(context, datagram, from.into(), class, late);
                        }
                        (Came::Datagram(datagrams, from, class), SEGMENT_UDP)
                            if datagrams.len() <= MOST_UDP * len =>
                        {
                            for datagram in datagrams.chunks_mut(len.max(1)) {
                                each(context, datagram, from.into(), class, late);
                                count += 1;
                            }
                        }
                        (Came::FirstPiece(from), ..) => fragments |= is_peer(context, from.into()),
                        _ => self.damaged += 1,
                    }
                }
            }
            ring.release();
            count += 1;
        }
        if fragments || self.by_socket != 0 || now.saturating_sub(self.looked) >= LOOK {
            count += self.aside(now, fragments, |d, from, class, late| each(context, d, from, class, late));
        }
        count
    }

    /// Receives from the socket beside the ring, and switches between the two.
    #[cold]
    fn aside(
        &mut self,
        now: u64,
        fragments: bool,
        each: impl FnMut(&mut [u8], SocketAddr, u8, bool),
    ) -> usize {
        self.looked = now;
        let which = match self.by_socket {
            0 if fragments => Some(Datagrams::FirstPieces),
            until if until != 0 && now >= until => Some(Datagrams::All),
            _ => None,
        };
        if fragments {
            self.by_socket = now + BY_SOCKET;
        }
        // In this order a datagram may arrive twice, and the replay window drops the second; none
        // is lost.
        if let (Some(which), Some(ring)) = (which, &self.ring) {
            let socket = if which == Datagrams::All { longer(self.mtu) } else { Filter::everything() };
            let ring = || ring.filter(&filter(self.listen, which, self.share));
            let changed = if which == Datagrams::All {
                self.by_socket = 0;
                ring().and_then(|()| self.socket.filter(&socket))
            } else {
                self.socket.filter(&socket).and_then(|()| ring())
            };
            if let Err(error) = changed {
                tracing::error!(%error, "the kernel takes no filter");
            }
        }
        self.read_socket(each)
    }

    #[inline]
    fn read_socket(&mut self, mut each: impl FnMut(&mut [u8], SocketAddr, u8, bool)) -> usize {
        let Self { socket, inbox, ask, ages, stale, .. } = self;
        for _ in 0..STALE_READS {
            // An error that the network reported for an earlier datagram is no reason to stop.
            let count = inbox.receive(socket, *ask).unwrap_or(0);
            if count < *ask {
                ages.queue_is_empty();
            }
            *ask = if count == *ask && count > 0 { BATCH } else { 1 };
            let before = *stale;
            for at in 0..count {
                let age = inbox.stamp(at).map_or(Age::Fresh, |stamp| ages.of(stamp));
                if age == Age::Stale {
                    *stale += 1;
                } else if let Some((datagram, from, class)) = inbox.get(at) {
                    each(datagram, from, class, age == Age::Late);
                }
            }
            // Stale datagrams go at once, so that the kernel has space for fresh ones.
            if count == 0 || (*stale - before) < count as u64 {
                age::put_down();
                return count;
            }
        }
        0
    }
}

/// The sending side.
pub(super) struct Outward {
    socket: Arc<UdpSocket>,
    sender: Option<outbox::Interface>,
    hops: Hops,
    outbox: Outbox,
    mtu: usize,
    /// The time of the first frame in the outbox.
    since: u64,
    max_age: Bounds,
    /// The identification of the next datagram.
    ident: u16,
}

impl Outward {
    /// The buffer of the next datagram. Sends the outbox first if it is full.
    #[inline]
    pub(super) fn place(&mut self, counters: &PathCounters) -> Option<&mut [u8; MAX_DATAGRAM_LEN]> {
        if self.outbox.is_full() {
            self.flush(counters);
        }
        self.outbox.place()
    }

    /// Queues the datagram of `len` octets in the buffer for a peer. `class` is the octet with DSCP
    /// and ECN.
    #[inline]
    pub(super) fn put(&mut self, now: u64, len: usize, to: SocketAddr, class: u8) {
        if self.outbox.is_empty() {
            self.since = now;
        }
        if self.sender.is_some()
            && let SocketAddr::V4(v4) = to
            && len + headers(to.ip()) <= self.mtu
            && let Some(hop) = self.hops.find(now, v4)
        {
            self.ident = self.ident.wrapping_add(1);
            let ident = Some(self.ident);
            self.outbox.put_frame(len, |head, datagram| hop.write(head, datagram, class, ident));
        } else {
            self.outbox.put(len, to, class);
        }
    }

    /// Sends the only datagram of the outbox whole, or not at all.
    #[cold]
    pub(super) fn put_whole(&mut self, counters: &PathCounters, now: u64, len: usize, to: SocketAddr) {
        self.since = thread::coarse_now();
        if self.sender.is_some()
            && let SocketAddr::V4(v4) = to
            && let Some(hop) = self.hops.find(now, v4)
        {
            self.outbox.put_frame(len, |head, datagram| hop.write(head, datagram, 0, None));
            return self.flush(counters);
        }
        self.outbox.put(len, to, 0);
        let _ = self.socket.whole(true);
        self.flush(counters);
        let _ = self.socket.whole(false);
    }

    /// Drops datagrams that waited here for longer from now on.
    pub(super) const fn bound(&mut self, max_age: Bounds) {
        self.max_age = max_age;
    }

    /// Asks the next-hops thread.
    pub(super) fn ask(&self, asked: Asked) {
        self.hops.ask(asked);
    }

    /// Uses another link address from now on.
    pub(super) fn readdress(&mut self, link: [u8; 6]) {
        self.hops.readdress(link);
    }

    /// Queues a copy of a datagram.
    #[inline]
    pub(super) fn copy(
        &mut self,
        counters: &PathCounters,
        now: u64,
        datagram: &[u8],
        to: SocketAddr,
        class: u8,
    ) {
        if let Some(room) = self.place(counters) {
            room[..datagram.len()].copy_from_slice(datagram);
            self.put(now, datagram.len(), to, class);
        }
    }

    /// Queues the datagram for the socket, to any address.
    pub(super) fn put_by_socket(&mut self, len: usize, to: SocketAddr) {
        if self.outbox.is_empty() {
            self.since = thread::coarse_now();
        }
        self.outbox.put(len, to, 0);
    }

    pub(super) fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// Stores the next hop of an address, or that there is none.
    pub(super) fn learn(&mut self, to: SocketAddrV4, hop: Option<Hop>) {
        self.hops.learn(to, hop);
    }

    /// Number of addresses that bypass the kernel's IP stack.
    pub(super) fn direct(&self) -> usize {
        self.hops.known()
    }

    /// Sends the queued datagrams.
    #[inline]
    pub(super) fn flush(&mut self, counters: &PathCounters) {
        if self.outbox.is_empty() {
            return;
        }
        // The process may have stood still since. A counter without a datagram is a lost datagram.
        if self.max_age.is_stale(thread::coarse_now().saturating_sub(self.since)) {
            return counters.stale.add(self.outbox.clear() as u64);
        }
        self.outbox.send(&self.socket, self.sender.as_mut(), |result| match result {
            Ok(len) => {
                counters.sent.count();
                counters.octets_sent.add(len as u64);
            }
            Err(error) => not_sent(counters, &error),
        });
    }
}
