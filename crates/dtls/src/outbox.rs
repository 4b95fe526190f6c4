//! Sending in batches: the datagrams that one turn of the loop has made. They leave at its end, those
//! of each flow in their order.
//!
//! Equally long ones to one peer are joined for the kernel, which cuts them apart again (UDP_SEGMENT,
//! Linux 4.18); the others go several in a system call (`sendmmsg(2)`). A datagram that is alone
//! takes the ordinary call.

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use mio::net::UdpSocket;
use nix::sys::socket::sockopt::UdpGsoSegment;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, getsockopt, sendmsg};
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

/// The most datagrams that are joined: the bound of the kernel before 6.9 (`UDP_MAX_SEGMENTS`).
const MOST_JOINED: usize = 64;
/// The most octets of joined datagrams, below the longest that IP takes.
const MOST_OCTETS: usize = 65_000;
/// The most datagrams of a system call.
const MOST_AT_ONCE: usize = 64;
/// Octets that wait, beyond which they leave before the end of the turn.
const MOST_WAITING: usize = 256 << 10;
/// The piles that are looked through for the one of a flow, from the newest on.
const NEAR: usize = 16;
/// Octets of memory that an emptied pile keeps, and the piles that are kept.
const KEPT: (usize, usize) = (16 << 10, 16);

/// Where a datagram leaves.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// from the local address to a peer
    Peer(SocketAddr),
    /// from the connected socket of a session
    Session(usize, Rc<UdpSocket>),
}

impl Way {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Peer(one), Self::Peer(other)) => one == other,
            // A session may have another socket now.
            (Self::Session(_, one), Self::Session(_, other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// What became of a session's datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) session: usize,
    pub(crate) sent: u64,
    /// Those that the kernel refused.
    pub(crate) unsent: u64,
    /// Whether the port of the other end was reported closed.
    pub(crate) closed: bool,
}

/// Datagrams in system calls.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) datagrams: Cell<u64>,
    pub(crate) calls: Cell<u64>,
    pub(crate) unsent: Cell<u64>,
}

fn add(to: &Cell<u64>, more: u64) {
    to.set(to.get() + more);
}

/// The datagrams of one flow, in their order.
#[derive(Debug)]
struct Pile {
    way: Way,
    octets: Vec<u8>,
    lengths: Vec<usize>,
}

/// Datagrams that wait for the end of the turn.
#[derive(Debug)]
pub(crate) struct Outbox {
    piles: Vec<Pile>,
    /// Memory of emptied piles.
    spare: Vec<(Vec<u8>, Vec<usize>)>,
    waiting: usize,
    reports: Vec<Report>,
    joins: Joins,
}

/// Which datagrams are joined.
#[derive(Debug)]
struct Joins {
    /// Those of fewer octets: the path or the port may refuse longer ones.
    below: usize,
    most: usize,
    told: bool,
}

impl Joins {
    /// Asks the kernel of this socket.
    fn of(socket: &UdpSocket) -> Self {
        let mut joins = Self { below: usize::MAX, most: MOST_JOINED, told: false };
        if let Err(error) = getsockopt(socket, UdpGsoSegment) {
            joins.refused(0, &error.into());
        }
        joins
    }

    /// Notes that the kernel does not take joined datagrams of so many octets.
    fn refused(&mut self, octets: usize, error: &io::Error) {
        self.below = self.below.min(octets);
        if !std::mem::replace(&mut self.told, true) {
            tracing::info!(%error, octets, "the kernel takes no joined datagrams of so many octets (UDP_SEGMENT): they are sent one by one");
        }
    }
}

impl Outbox {
    /// `outside` is the socket at the local address.
    pub(crate) fn new(outside: &UdpSocket) -> Self {
        let joins = Joins::of(outside);
        Self { piles: Vec::new(), spare: Vec::new(), waiting: 0, reports: Vec::new(), joins }
    }

    /// Puts a datagram behind those of its flow. Returns whether so much waits that it should leave.
    pub(crate) fn put(&mut self, way: &Way, datagram: &[u8]) -> bool {
        let near = self.piles.len().saturating_sub(NEAR);
        let newest = self.piles.iter().skip(near).rposition(|pile| pile.way.is_same(way));
        let pile = match newest.and_then(|at| self.piles.get_mut(near + at)) {
            Some(pile) => pile,
            None => {
                let (octets, lengths) = self.spare.pop().unwrap_or_default();
                self.piles.push(Pile { way: way.clone(), octets, lengths });
                let last = self.piles.len() - 1;
                &mut self.piles[last]
            }
        };
        pile.octets.extend_from_slice(datagram);
        pile.lengths.push(datagram.len());
        self.waiting += datagram.len().max(1);
        self.waiting >= MOST_WAITING
    }

    /// Sends all that waits.
    pub(crate) fn flush(&mut self, outside: &UdpSocket, sent: &Sent) {
        if self.piles.is_empty() {
            return;
        }
        let mut piles = std::mem::take(&mut self.piles);
        self.waiting = 0;
        if let [pile] = piles.as_slice()
            && pile.lengths.len() == 1
        {
            let report = alone(outside, pile, sent);
            self.reports.extend(report);
            piles.drain(..).for_each(|pile| self.empty(pile));
            self.piles = piles;
            return;
        }
        let mut messages = Vec::new();
        for pile in piles.iter().filter(|pile| matches!(pile.way, Way::Peer(_))) {
            pile.messages(&self.joins, &mut messages);
        }
        send(outside, &messages, &mut self.joins, sent);
        for pile in &piles {
            let Way::Session(session, socket) = &pile.way else { continue };
            let mut messages = Vec::new();
            pile.messages(&self.joins, &mut messages);
            let report = send(socket, &messages, &mut self.joins, sent);
            self.reports.push(Report { session: *session, ..report });
        }
        piles.drain(..).for_each(|pile| self.empty(pile));
        self.piles = piles;
    }

    /// Keeps the memory of a pile that is sent.
    fn empty(&mut self, pile: Pile) {
        let Pile { mut octets, mut lengths, .. } = pile;
        if octets.capacity() <= KEPT.0 && self.spare.len() < KEPT.1 {
            octets.clear();
            lengths.clear();
            self.spare.push((octets, lengths));
        }
    }

    /// Exchanges the reports since the last call for an empty list.
    pub(crate) fn reports(&mut self, into: &mut Vec<Report>) {
        into.clear();
        std::mem::swap(&mut self.reports, into);
    }
}

/// Sends the only datagram. Returns the report of a session.
fn alone(outside: &UdpSocket, pile: &Pile, sent: &Sent) -> Option<Report> {
    let mut report = Report::default();
    let (socket, to) = match &pile.way {
        Way::Peer(to) => (outside, Some(*to)),
        Way::Session(session, socket) => {
            report.session = *session;
            (&**socket, None)
        }
    };
    one(socket, to, &pile.octets, sent, &mut report);
    add(&sent.datagrams, report.sent);
    add(&sent.unsent, report.unsent);
    matches!(pile.way, Way::Session(..)).then_some(report)
}

/// What a call sends: a datagram, or joined ones.
#[derive(Debug)]
struct Message<'a> {
    to: Option<SocketAddr>,
    octets: &'a [u8],
    /// The number of datagrams; if several, each has `each` octets and the last at most so many.
    count: usize,
    each: usize,
}

impl Pile {
    /// Its messages, in their order.
    fn messages<'a>(&'a self, joins: &Joins, into: &mut Vec<Message<'a>>) {
        let to = if let Way::Peer(to) = self.way { Some(to) } else { None };
        let (mut lengths, mut octets) = (self.lengths.as_slice(), self.octets.as_slice());
        while let Some(each) = lengths.first().copied() {
            let (mut count, mut whole) = (1, each);
            let can_join = each > 0 && each < joins.below;
            for length in lengths.iter().skip(1).take(joins.most - 1).take_while(|_| can_join) {
                if *length > each || *length == 0 || whole + length > MOST_OCTETS {
                    break;
                }
                (count, whole) = (count + 1, whole + length);
                if *length < each {
                    break;
                }
            }
            let (message, behind) = octets.split_at(whole);
            into.push(Message { to, octets: message, count, each });
            (lengths, octets) = (lengths.get(count..).unwrap_or_default(), behind);
        }
    }
}

/// Sends messages in their order. An error costs the datagram that it names, and no other.
fn send(socket: &UdpSocket, messages: &[Message<'_>], joins: &mut Joins, sent: &Sent) -> Report {
    let mut report = Report::default();
    let mut rest = messages;
    while let Some(first) = rest.first() {
        let single = rest.iter().take(MOST_AT_ONCE).take_while(|message| message.count == 1).count();
        let done = match single {
            0 => {
                joined(socket, first, joins, sent, &mut report);
                1
            }
            1 => {
                one(socket, first.to, first.octets, sent, &mut report);
                1
            }
            _ => {
                let several = rest.get(..single).unwrap_or_default();
                add(&sent.calls, 1);
                match at_once(socket, several) {
                    Ok(taken @ 1..) => {
                        report.sent += taken as u64;
                        taken
                    }
                    // The error is of the first one.
                    _ => {
                        one(socket, first.to, first.octets, sent, &mut report);
                        1
                    }
                }
            }
        };
        rest = rest.get(done..).unwrap_or_default();
    }
    add(&sent.datagrams, report.sent);
    add(&sent.unsent, report.unsent);
    report
}

/// Sends a datagram. The kernel reports that a port is closed in place of sending the next datagram,
/// which is therefore sent again.
fn one(socket: &UdpSocket, to: Option<SocketAddr>, octets: &[u8], sent: &Sent, report: &mut Report) {
    for _ in 0..2 {
        add(&sent.calls, 1);
        let result = match to {
            Some(to) => socket.send_to(octets, to),
            None => socket.send(octets),
        };
        match result {
            Ok(_) => {
                report.sent += 1;
                return;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => report.closed = true,
            Err(error) => {
                tracing::debug!(?to, %error, "not sent");
                break;
            }
        }
    }
    report.unsent += 1;
}

/// Sends joined datagrams; one by one, if the kernel does not take them so.
fn joined(socket: &UdpSocket, message: &Message<'_>, joins: &mut Joins, sent: &Sent, report: &mut Report) {
    let to = message.to.map(SockaddrStorage::from);
    let each = u16::try_from(message.each).unwrap_or(u16::MAX);
    for _ in 0..2 {
        add(&sent.calls, 1);
        let (slices, joined) = ([IoSlice::new(message.octets)], [ControlMessage::UdpGsoSegments(&each)]);
        match sendmsg(socket.as_raw_fd(), &slices, &joined, MsgFlags::MSG_DONTWAIT, to.as_ref()) {
            Ok(_) => {
                report.sent += message.count as u64;
                return;
            }
            Err(error) => {
                let error = io::Error::from(error);
                match error.kind() {
                    ErrorKind::ConnectionRefused => {
                        report.closed = true;
                        continue;
                    }
                    // A full queue has space for some, perhaps.
                    ErrorKind::WouldBlock => {}
                    _ if error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) => {}
                    _ => joins.refused(message.each, &error),
                }
                break;
            }
        }
    }
    for datagram in message.octets.chunks(message.each.max(1)) {
        one(socket, message.to, datagram, sent, report);
    }
}

/// Sends datagrams in one call. Returns how many the kernel took: if not all, the next one has an
/// error.
fn at_once(socket: &UdpSocket, messages: &[Message<'_>]) -> io::Result<usize> {
    let slices: Vec<[IoSlice<'_>; 1]> =
        messages.iter().map(|message| [IoSlice::new(message.octets)]).collect();
    let peers: Vec<Option<SocketAddrAny>> =
        messages.iter().map(|message| message.to.map(|to| to.as_any())).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = Vec::new();
    controls.resize_with(messages.len(), SendAncillaryBuffer::default);
    let mut headers: Vec<MMsgHdr<'_>> = slices
        .iter()
        .zip(&peers)
        .zip(&mut controls)
        .map(|((slice, peer), control)| match peer {
            Some(peer) => MMsgHdr::new_with_addr(peer, slice, control),
            None => MMsgHdr::new(slice, control),
        })
        .collect();
    Ok(sendmmsg(socket, &mut headers, SendFlags::DONTWAIT)?)
}

#[cfg(test)]
mod tests;
