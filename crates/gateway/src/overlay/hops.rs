//! Next hops: over which neighbour each peer's address is reached, so that datagrams can leave past the kernel's IP stack.
//!
//! The kernel knows neighbours, and keeps their link addresses fresh as long as it sends to them itself. So a datagram goes by
//! the socket every few seconds: a neighbour that is gone is noticed by the kernel then, and as long as it knows no link
//! address all datagrams go by the socket. The steward asks the kernel; this thread is told.

use std::net::SocketAddrV4;
use std::sync::mpsc::Sender as Post;

use super::datagram::Headers;
use crate::sys::route::Hop;

/// How often a datagram goes by the socket, in nanoseconds.
const NUDGE: u64 = 5_000_000_000;
/// Addresses that are remembered. Peers have as many as they roamed to.
const MOST: usize = 512;

struct Entry {
    to: SocketAddrV4,
    headers: Option<Headers>,
    nudge: u64,
}

/// What is known.
pub(super) struct Hops {
    link: [u8; 6],
    port: u16,
    ask: Post<SocketAddrV4>,
    entries: Vec<Entry>,
    /// Where the next search begins: at the last one that was found, for the next one is the same, or the one behind it.
    next: usize,
}

impl Hops {
    /// Nothing is known yet of what leaves from that link address and port.
    pub(super) const fn new(link: [u8; 6], port: u16, ask: Post<SocketAddrV4>) -> Self {
        Self { link, port, ask, entries: Vec::new(), next: 0 }
    }

    /// The headers of a datagram that leaves now; none if the kernel is to send it.
    #[inline]
    pub(super) fn find(&mut self, now: u64, to: SocketAddrV4) -> Option<&Headers> {
        let count = self.entries.len();
        let found = (0..count).map(|step| (self.next + step) % count).find(|at| self.entries[*at].to == to);
        let Some(at) = found else {
            self.wanted(now, to);
            return None;
        };
        // A single peer is found at once the next time, and the one behind it at the second look.
        self.next = at;
        let entry = &mut self.entries[at];
        if now >= entry.nudge {
            entry.nudge = now + NUDGE;
            // The steward may have ended; nothing depends on it.
            let _ = self.ask.send(to);
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
        let _ = self.ask.send(to);
    }

    /// The next hop towards an address, or that there is none.
    pub(super) fn learn(&mut self, to: SocketAddrV4, hop: Option<Hop>) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.to == to) {
            entry.headers = hop.map(|hop| Headers::new(self.link, hop, self.port, to));
        }
    }

    /// Addresses with a next hop.
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
    fn the_kernel_sends_until_a_hop_is_known_and_once_in_a_while() {
        let (ask, asked) = mpsc::channel();
        let mut hops = Hops::new([2; 6], 51820, ask);
        assert!(hops.find(0, TO).is_none() && hops.find(1, TO).is_none());
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), [TO]);
        let hop = Hop { source: Ipv4Addr::new(192, 0, 2, 1), neighbour: [4; 6] };
        hops.learn(TO, Some(hop));
        assert!(hops.find(2, TO).is_some());
        assert!(hops.find(NUDGE, TO).is_none(), "one datagram keeps the kernel's neighbour fresh");
        assert_eq!(asked.try_iter().count(), 1);
        assert!(hops.find(NUDGE + 1, TO).is_some());
        hops.learn(TO, None);
        assert!(hops.find(NUDGE + 2, TO).is_none());
    }

    #[test]
    fn many_addresses_are_found_and_memory_is_bounded() {
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
