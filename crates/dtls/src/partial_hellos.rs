//! ClientHellos that come in fragments, as some clients send them on paths with small datagrams.
//!
//! Memory is spent for verified addresses only, with the bounds of [`HalfOpen`] and 2 KiB each.

use std::collections::HashMap;
use std::net::SocketAddr;

use antedate_channel::dtls::PartialHello;

use crate::half_open::HalfOpen;

/// The most incomplete hellos; an address has a quarter of them.
const MOST: usize = 64;
/// Milliseconds after which an incomplete hello is dropped. Its client repeats all fragments.
const LIFE_MS: u64 = 10_000;

struct Entry {
    place: usize,
    began: u64,
    hello: PartialHello,
}

/// Incomplete hellos by address.
pub(crate) struct PartialHellos {
    places: HalfOpen,
    next: usize,
    by_peer: HashMap<SocketAddr, Entry>,
    peers: HashMap<usize, SocketAddr>,
}

impl PartialHellos {
    pub(crate) fn new() -> Self {
        Self { places: HalfOpen::new(MOST), next: 0, by_peer: HashMap::new(), peers: HashMap::new() }
    }

    /// Begins with the first fragment of a verified address, in place of an earlier hello.
    pub(crate) fn begin(&mut self, datagram: &[u8], from: SocketAddr, now: u64) {
        self.end(from);
        let Some(hello) = PartialHello::new(datagram) else { return };
        if let Some(peer) =
            self.places.oldest_beyond(from).and_then(|oldest| self.peers.get(&oldest).copied())
        {
            self.end(peer);
        }
        let place = self.next;
        self.next += 1;
        self.places.begin(place, from);
        self.peers.insert(place, from);
        self.by_peer.insert(from, Entry { place, began: now, hello });
    }

    /// Takes fragments. Returns the hello as one datagram, once it is complete.
    pub(crate) fn take(&mut self, datagram: &[u8], from: SocketAddr, now: u64) -> Option<Vec<u8>> {
        let entry = self.by_peer.get_mut(&from)?;
        let whole = entry.hello.take(datagram);
        let old = now.saturating_sub(entry.began) > LIFE_MS;
        if whole.is_some() || old {
            self.end(from);
        }
        whole.filter(|_| !old)
    }

    fn end(&mut self, peer: SocketAddr) {
        if let Some(entry) = self.by_peer.remove(&peer) {
            self.peers.remove(&entry.place);
            self.places.end(entry.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with a fragment of a ClientHello of `length` octets.
    fn fragment(offset: u8, octets: &[u8], length: u8) -> Vec<u8> {
        let len = octets.len() as u8;
        let handshake = [&[1, 0, 0, length, 0, 1, 0, 0, offset, 0, 0, len][..], octets].concat();
        let record = [22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, offset, 0, handshake.len() as u8];
        [&record[..], &handshake].concat()
    }

    fn peer(host: u8, port: u16) -> SocketAddr {
        ([10, 0, 0, host], port).into()
    }

    #[test]
    fn hello_is_whole_with_its_last_fragment() {
        let mut hellos = PartialHellos::new();
        let (from, other) = (peer(1, 1), peer(1, 2));
        assert_eq!(hellos.take(&fragment(3, b"lo", 5), from, 0), None, "nothing was begun");
        for (at, fits) in [(LIFE_MS, true), (LIFE_MS + 1, false)] {
            hellos.begin(&fragment(0, b"hel", 5), from, 0);
            assert_eq!(hellos.take(&fragment(0, b"hel", 5), from, 0), None);
            assert_eq!(hellos.take(&fragment(3, b"lo", 5), other, 0), None);
            let whole = hellos.take(&fragment(3, b"lo", 5), from, at);
            let expected = fragment(0, b"hello", 5);
            // The record has the highest number.
            let expected = [&expected[..10], &[3], &expected[11..]].concat();
            assert_eq!(whole, fits.then_some(expected));
            assert!(hellos.by_peer.is_empty() && hellos.peers.is_empty());
        }
    }

    #[test]
    fn flood_of_fragments_has_bounds() {
        let mut hellos = PartialHellos::new();
        let good = peer(2, 1);
        hellos.begin(&fragment(0, b"hel", 5), good, 0);
        for port in 1..1000 {
            hellos.begin(&fragment(0, b"hel", 5), peer(1, port), 0);
        }
        assert_eq!(hellos.by_peer.len(), 1 + MOST / 4);
        for host in 3..=255 {
            hellos.begin(&fragment(0, b"hel", 5), peer(host, 1), 0);
        }
        assert_eq!((hellos.by_peer.len(), hellos.peers.len()), (MOST, MOST));
    }
}
