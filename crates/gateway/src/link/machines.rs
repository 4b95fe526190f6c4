//! The addresses of the machines of the field, as far as they sent of late.

use std::sync::atomic::{AtomicU64, Ordering};

use antedate_wire::EthernetAddress;

/// Places of the table. An address has one, which another with the same digest takes over.
const PLACES: usize = 1024;

/// The table. One thread notes, any may read.
#[derive(Debug)]
pub struct Machines(Box<[AtomicU64]>);

impl Default for Machines {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Machines {
    /// Notes the source of a frame.
    #[inline]
    pub fn note(&self, frame: &[u8]) {
        let Some(source) = frame.get(6..12).and_then(<[u8]>::first_chunk::<6>) else { return };
        let [a, b, c, d, e, f] = *source;
        let bits = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let digest = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        if let Some(place) = self.0.get(digest as usize) {
            place.store(bits, Ordering::Relaxed);
        }
    }

    /// All addresses.
    pub fn all(&self) -> impl Iterator<Item = EthernetAddress> {
        let known = self.0.iter().map(|place| place.load(Ordering::Relaxed)).filter(|bits| *bits != 0);
        known.map(|bits| {
            let [_, _, octets @ ..] = bits.to_be_bytes();
            EthernetAddress(octets)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_remembered_once() {
        let machines = Machines::default();
        for last in [1, 2, 1, 3] {
            machines.note(&[9, 9, 9, 9, 9, 9, 2, 0, 0, 0, 0, last, 8, 0]);
        }
        machines.note(&[0; 11]);
        let mut all: Vec<_> = machines.all().map(|address| address.0[5]).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    }

    #[test]
    fn memory_is_bounded() {
        let machines = Machines::default();
        for number in 0..100_000u32 {
            let octets = number.to_be_bytes();
            machines.note(&[&[0; 8][..], &octets].concat());
        }
        let count = machines.all().count();
        assert!((PLACES * 9 / 10..=PLACES).contains(&count), "{count}");
    }
}
