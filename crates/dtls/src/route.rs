//! A peer's address, and the proof that the peer receives there.
//!
//! An authentic record from a new address proves little: anyone on the path can send a captured
//! record from the address of a victim. Until the address is proven, it gets at most three times
//! the octets that came from it (the bound of RFC 9000 section 8.1), and the last proven address
//! gets the rest. RFC 9146 section 6 leaves the method open.

use std::net::SocketAddr;

/// Octets sent to an unproven address for each octet received from it.
const FACTOR: usize = 3;
/// Records from the new address that prove it, and the least time between the first and the last.
const PROOF: (u32, u64) = (8, 2000);

/// The address of a peer.
#[derive(Debug)]
pub(crate) struct Route {
    peer: SocketAddr,
    unproven: Option<Unproven>,
}

#[derive(Debug)]
struct Unproven {
    /// The address before, which is proven.
    former: SocketAddr,
    credit: usize,
    records: u32,
    since: u64,
}

impl Route {
    /// A proven address.
    pub(crate) const fn new(peer: SocketAddr) -> Self {
        Self { peer, unproven: None }
    }

    /// The present address.
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Takes an authentic datagram, newer than all before. Returns the former address if this is
    /// another one.
    pub(crate) fn heard(&mut self, from: SocketAddr, octets: usize, now: u64) -> Option<SocketAddr> {
        let credit = FACTOR * octets;
        if from != self.peer {
            let was = std::mem::replace(&mut self.peer, from);
            let former = self.unproven.as_ref().map_or(was, |unproven| unproven.former);
            let unproven = Unproven { former, credit, records: 1, since: now };
            self.unproven = (from != former).then_some(unproven);
            return Some(was);
        }
        if let Some(unproven) = &mut self.unproven {
            unproven.credit = unproven.credit.saturating_add(credit);
            unproven.records += 1;
            if unproven.records >= PROOF.0 && now.saturating_sub(unproven.since) >= PROOF.1 {
                self.unproven = None;
            }
        }
        None
    }

    /// Notes that the peer has answered a cookie at its address.
    pub(crate) fn prove(&mut self, peer: SocketAddr) {
        *self = Self::new(peer);
    }

    /// The address for a datagram of so many octets, which is counted: the present one, or the
    /// last proven one when the present one has had enough.
    pub(crate) fn destination(&mut self, octets: usize) -> SocketAddr {
        let Some(unproven) = &mut self.unproven else { return self.peer };
        match unproven.credit.checked_sub(octets) {
            Some(left) => {
                unproven.credit = left;
                self.peer
            }
            None => unproven.former,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    #[test]
    fn captured_record_buys_little() {
        let mut route = Route::new(port(1));
        assert_eq!(route.destination(1_000_000), port(1));
        assert_eq!(route.heard(port(2), 40, 0), Some(port(1)));
        assert_eq!(route.destination(100), port(2));
        assert_eq!(route.destination(100), port(1), "more than three times 40");
        assert_eq!(route.destination(20), port(2));
        assert_eq!(route.destination(1), port(1));
        // A second victim does not make the first one proven.
        assert_eq!(route.heard(port(3), 40, 1), Some(port(2)));
        assert_eq!(route.destination(200), port(1));
        // The peer speaks from its own address again.
        assert_eq!(route.heard(port(1), 40, 5), Some(port(3)));
        assert_eq!(route.destination(1_000_000), port(1));
    }

    #[test]
    fn steady_peer_proves_its_address() {
        let mut route = Route::new(port(1));
        route.heard(port(2), 40, 0);
        for time in 1..=7 {
            route.heard(port(2), 40, time);
        }
        assert_eq!(route.destination(10_000), port(1), "too fast");
        route.heard(port(2), 40, 2000);
        assert_eq!(route.destination(10_000), port(2));
        route.heard(port(3), 40, 3000);
        assert_eq!(route.destination(10_000), port(2));
        route.prove(port(3));
        assert_eq!(route.destination(10_000), port(3));
    }
}
