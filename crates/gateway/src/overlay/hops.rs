//! The next hops of the peers' addresses, for datagrams that bypass the kernel's IP stack.
//!
//! The kernel keeps the link address of a neighbour fresh only while it sends to it. So one
//! datagram every few seconds is sent through the socket: the kernel then notices a neighbour that
//! is gone, and while it has no link address all datagrams pass the socket. The next-hops thread
//! asks the kernel; the forwarding thread receives its answers.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::mpsc::Sender as Post;

use super::datagram::Headers;
use crate::sys::route::Hop;

/// Interval of datagrams through the socket, in nanoseconds.
const NUDGE: u64 = 5_000_000_000;
/// The most addresses in the table. A peer has one for each address that it roamed to.
const MOST: usize = 512;

/// A question to the next-hops thread.
#[derive(Debug, Clone, Copy)]
pub enum Asked {
    /// The next hop to this address.
    Hop(SocketAddrV4),
    /// The kernel's path MTU to this address.
    Path(SocketAddr),
}

struct Entry {
    to: SocketAddrV4,
    headers: Option<Headers>,
    nudge: u64,
}

/// The known next hops.
pub(super) struct Hops {
    link: [u8; 6],
    port: u16,
    ask: Post<Asked>,
    entries: Vec<Entry>,
    /// Start of the next search: the last match, since the next packet usually goes to the same
    /// address or the one after it.
    next: usize,
}

impl Hops {
    /// An empty table for datagrams from this link address and port.
    pub(super) const fn new(link: [u8; 6], port: u16, ask: Post<Asked>) -> Self {
        Self { link, port, ask, entries: Vec::new(), next: 0 }
    }

    /// The headers of a datagram to `to`. `None` if the kernel is to send it.
    #[inline]
    pub(super) fn find(&mut self, now: u64, to: SocketAddrV4) -> Option<&Headers> {
        let count = self.entries.len();
        let found = (0..count).map(|step| (self.next + step) % count).find(|at| self.entries[*at].to == to);
        let Some(at) = found else {
            self.wanted(now, to);
            return None;
        };
        // So a single peer is found at once, and the next of several at the second step.
        self.next = at;
        let entry = &mut self.entries[at];
        if now >= entry.nudge {
            entry.nudge = now + NUDGE;
            // The next-hops thread may have ended.
            let _ = self.ask.send(Asked::Hop(to));
            return None;
        }
        entry.headers.as_ref()
    }

    #[cold]
    fn wanted(&mut self, now: u64, to: SocketAddrV4) {
        if self.entries.len() >= MOST {
            self.entries.clear();
        }
        self.entries.push(Entry { to, headers: None, nudge: now + NUDGE });
        let _ = self.ask.send(Asked::Hop(to));
    }

    /// Asks the next-hops thread.
    pub(super) fn ask(&self, asked: Asked) {
        let _ = self.ask.send(asked);
    }

    /// Uses another link address from now on. Until the kernel was asked again, it sends.
    pub(super) fn readdress(&mut self, link: [u8; 6]) {
        self.link = link;
        for entry in &mut self.entries {
            entry.headers = None;
            let _ = self.ask.send(Asked::Hop(entry.to));
        }
    }

    /// Stores the next hop of an address, or that there is none.
    pub(super) fn learn(&mut self, to: SocketAddrV4, hop: Option<Hop>) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.to == to) {
            entry.headers = hop.map(|hop| Headers::new(self.link, hop, self.port, to));
        }
    }

    /// Number of addresses with a next hop.
    pub(super) fn known(&self) -> usize {
        self.entries.iter().filter(|entry| entry.headers.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::mpsc;

    const TO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 51820);

    #[test]
    fn kernel_sends_at_first_and_regularly() {
        let (ask, asked) = mpsc::channel();
        let mut hops = Hops::new([2; 6], 51820, ask);
        assert!(hops.find(0, TO).is_none() && hops.find(1, TO).is_none());
        let all: Vec<_> = asked.try_iter().collect();
        assert!(matches!(all[..], [Asked::Hop(TO)]), "{all:?}");
        let hop = Hop { source: Ipv4Addr::new(192, 0, 2, 1), neighbour: [4; 6] };
        hops.learn(TO, Some(hop));
        assert!(hops.find(2, TO).is_some());
        assert!(hops.find(NUDGE, TO).is_none(), "one datagram keeps the kernel's neighbour fresh");
        assert_eq!(asked.try_iter().count(), 1);
        assert!(hops.find(NUDGE + 1, TO).is_some());
        hops.learn(TO, None);
        assert!(hops.find(NUDGE + 2, TO).is_none());
        hops.learn(TO, Some(hop));
        hops.readdress([6; 6]);
        assert!(hops.find(NUDGE + 3, TO).is_none() && asked.try_iter().count() == 1);
        hops.learn(TO, Some(hop));
        let mut head = [0; crate::sys::outbox::FRAME_HEADER];
        hops.find(NUDGE + 4, TO).unwrap().write(&mut head, &[], 0, None);
        assert_eq!(head[6..12], [6; 6]);
    }

    #[test]
    fn addresses_are_found_and_bounded() {
        let (ask, _asked) = mpsc::channel();
        let mut hops = Hops::new([2; 6], 51820, ask);
        let at = |port| SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), port);
        for port in 0..2000 {
            hops.find(0, at(port));
            assert!(hops.entries.len() <= MOST);
        }
        let hop = Hop { source: Ipv4Addr::new(192, 0, 2, 1), neighbour: [4; 6] };
        (1990..2000).for_each(|port| hops.learn(at(port), Some(hop)));
        assert_eq!(hops.known(), 10);
        for port in (1990..2000).chain([1990, 1995]) {
            assert!(hops.find(1, at(port)).is_some(), "{port}");
        }
    }
}
