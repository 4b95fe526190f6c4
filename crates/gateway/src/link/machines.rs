//! The addresses of the machines of both sides, as far as they sent of late.

use std::sync::atomic::{AtomicU64, Ordering};

use antedate_wire::EthernetAddress;

/// Places of the table. An address has one, which another with the same digest takes over.
const PLACES: usize = 1024;
/// Marks a machine behind the uplink, beside the bits of its address.
const FAR: u64 = 1 << 48;

/// The side of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The field.
    Near,
    /// Behind the uplink.
    Far,
}

/// The table. Any thread may note and read.
#[derive(Debug)]
pub struct Machines(Box<[AtomicU64]>);

impl Default for Machines {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Machines {
    /// Notes the source of a frame from this side.
    #[inline]
    pub fn note(&self, side: Side, frame: &[u8]) {
        if let Some(source) = frame.get(6..12).and_then(<[u8]>::first_chunk) {
            self.add(side, *source);
        }
    }

    /// Notes an address.
    #[inline]
    pub fn add(&self, side: Side, [a, b, c, d, e, f]: [u8; 6]) {
        let bits = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let digest = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        if let Some(place) = self.0.get(digest as usize) {
            place.store(bits | if side == Side::Far { FAR } else { 0 }, Ordering::Relaxed);
        }
    }

    /// All addresses from a place of the table on, in its order. Returns the place of each too.
    pub fn from(&self, start: usize) -> impl Iterator<Item = (usize, Side, EthernetAddress)> {
        let known = self.0.iter().map(|place| place.load(Ordering::Relaxed)).enumerate().skip(start);
        known.filter(|(_, bits)| *bits != 0).map(|(at, bits)| {
            let [_, _, octets @ ..] = bits.to_be_bytes();
            (at, if bits & FAR == 0 { Side::Near } else { Side::Far }, EthernetAddress(octets))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_remembered_at_its_last_side() {
        let machines = Machines::default();
        for (side, last) in [(Side::Near, 1), (Side::Near, 2), (Side::Far, 1), (Side::Far, 3)] {
            machines.note(side, &[9, 9, 9, 9, 9, 9, 2, 0, 0, 0, 0, last, 8, 0]);
        }
        machines.note(Side::Near, &[0; 11]);
        let mut all: Vec<_> = machines.from(0).map(|(_, side, address)| (address.0[5], side)).collect();
        all.sort_unstable_by_key(|(last, _)| *last);
        assert_eq!(all, [(1, Side::Far), (2, Side::Near), (3, Side::Far)]);
        let (first, ..) = machines.from(0).next().unwrap();
        assert_eq!(machines.from(first + 1).count(), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let machines = Machines::default();
        for number in 0..100_000u32 {
            let octets = number.to_be_bytes();
            machines.note(Side::Near, &[&[0; 8][..], &octets].concat());
        }
        let count = machines.from(0).count();
        assert!((PLACES * 9 / 10..=PLACES).contains(&count), "{count}");
    }
}
