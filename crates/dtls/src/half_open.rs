//! The bounds of handshakes in progress.
//!
//! A handshake costs memory before its peer has shown a key. Established sessions have a bound of
//! their own, so a flood of handshakes keeps no device out that has a key: the oldest handshake
//! gives way to the newest. Each address has a share, and takes places of others only within it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

/// The part of an address that one host can choose no other value of: the IPv4 address, or the
/// network of an IPv6 address (64 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Origin([u8; 8]);

impl Origin {
    fn of(address: SocketAddr) -> Self {
        let mut octets = [0; 8];
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => octets[4..].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => octets.copy_from_slice(&ip.octets()[..8]),
        }
        Self(octets)
    }
}

/// Handshakes in progress, the oldest first.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    most: usize,
    most_of_one: usize,
    next: u64,
    by_age: BTreeMap<u64, (usize, Origin)>,
    by_origin: HashMap<Origin, BTreeSet<u64>>,
    ages: HashMap<usize, u64>,
}

impl HalfOpen {
    /// Bounds for `most` handshakes; an address has a quarter of them.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            most_of_one: (most / 4).max(1),
            next: 0,
            by_age: BTreeMap::new(),
            by_origin: HashMap::new(),
            ages: HashMap::new(),
        }
    }

    /// The session whose handshake must end before one from `from` begins: the oldest of the same
    /// address beyond its share, or the oldest of the address with the most.
    pub(crate) fn oldest_beyond(&self, from: SocketAddr) -> Option<usize> {
        let own = self.by_origin.get(&Origin::of(from));
        let full = self.by_age.len() >= self.most;
        let of = match own {
            Some(own) if own.len() >= self.most_of_one => own,
            _ if full => self.by_origin.values().max_by_key(|ages| ages.len())?,
            _ => return None,
        };
        self.by_age.get(of.first()?).map(|(session, _)| *session)
    }

    /// Notes that a session's handshake begins, in place of an earlier one of the same session.
    pub(crate) fn begin(&mut self, session: usize, from: SocketAddr) {
        self.end(session);
        let (age, origin) = (self.next, Origin::of(from));
        self.next += 1;
        self.by_age.insert(age, (session, origin));
        self.by_origin.entry(origin).or_default().insert(age);
        self.ages.insert(session, age);
    }

    /// Notes that a session's handshake has ended.
    pub(crate) fn end(&mut self, session: usize) {
        let Some(age) = self.ages.remove(&session) else { return };
        let Some((_, origin)) = self.by_age.remove(&age) else { return };
        if let Some(ages) = self.by_origin.get_mut(&origin) {
            ages.remove(&age);
            if ages.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn flood_of_one_address_ends_its_own() {
        let mut half = HalfOpen::new(16);
        half.begin(1, address("10.0.0.1:1"));
        for session in 2..6 {
            let from = address(&format!("10.0.0.2:{session}"));
            assert_eq!(half.oldest_beyond(from), None);
            half.begin(session, from);
        }
        // The share of the address is used: its own oldest one gives way.
        assert_eq!(half.oldest_beyond(address("10.0.0.2:9")), Some(2));
        half.end(2);
        assert_eq!(half.oldest_beyond(address("10.0.0.2:9")), None);
        assert_eq!(half.oldest_beyond(address("10.0.0.1:2")), None);
    }

    #[test]
    fn full_table_ends_one_of_the_greatest_share() {
        let mut half = HalfOpen::new(8);
        half.begin(1, address("10.0.0.1:1"));
        for session in 2..9 {
            half.begin(session, address(&format!("[2001:db8:0:{}::1]:5", session / 2)));
        }
        // A newcomer takes no place of the device that is alone at its address.
        assert_ne!(half.oldest_beyond(address("10.0.0.9:1")), Some(1));
        assert!(half.oldest_beyond(address("10.0.0.9:1")).is_some());
        half.end(8);
        assert_eq!(half.oldest_beyond(address("10.0.0.9:1")), None);
    }

    #[test]
    fn ipv6_hosts_of_a_network_share() {
        let mut half = HalfOpen::new(8);
        half.begin(1, address("[2001:db8::1]:1"));
        half.begin(2, address("[2001:db8::2]:1"));
        assert_eq!(half.oldest_beyond(address("[2001:db8::3]:1")), Some(1));
        assert_eq!(half.oldest_beyond(address("[2001:db8:0:1::3]:1")), None);
        // An IPv4 address in IPv6's form is the same address.
        half.begin(3, address("10.0.0.1:1"));
        half.begin(4, address("[::ffff:10.0.0.1]:2"));
        assert_eq!(half.oldest_beyond(address("10.0.0.1:3")), Some(3));
    }

    #[test]
    fn repeated_handshake_counts_once() {
        let mut half = HalfOpen::new(8);
        for _ in 0..20 {
            half.begin(1, address("10.0.0.1:1"));
        }
        assert_eq!(half.oldest_beyond(address("10.0.0.1:2")), None);
        half.end(1);
        half.end(1);
        assert!(half.by_age.is_empty() && half.by_origin.is_empty() && half.ages.is_empty());
    }
}
