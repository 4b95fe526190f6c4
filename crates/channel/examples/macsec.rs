//! The cost of MACsec beyond its cipher: nanoseconds per frame for `protect` and `validate`, and
//! for the cipher alone on the same octets, with everything prepared. Medians over bursts of as
//! many frames as are prepared, which hides the cost of reading the clock.
//!
//! ```text
//! cargo run --release -p antedate-channel --example macsec
//! ```

#![allow(clippy::unwrap_used, reason = "an example ends at a failure")]

use std::hint::black_box;
use std::time::Instant;

use antedate_aead::{Aes128Gcm, Key, Nonce, NonceSequence, OpenPool, SealPool};
use antedate_channel::macsec::{
    An, CipherSuite, Receive, ReceiveConfig, SLOTS, Sak, Sci, Transmit, TransmitConfig,
};

const BURST: usize = SLOTS;
const BURSTS: usize = 3000;
const SCI: Sci = Sci([2, 2, 2, 2, 2, 2, 0, 1]);
const KEY: [u8; 16] = [7; 16];

struct Counter(u64);

impl NonceSequence for Counter {
    type Error = ();

    fn next(&mut self) -> Result<(u64, Nonce), ()> {
        self.0 += 1;
        Ok((self.0, Nonce::assume_unique(nonce(self.0))))
    }
}

fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// The median of nanoseconds per frame.
#[derive(Default)]
struct Median(Vec<f64>);

impl Median {
    fn time(&mut self, burst: impl FnMut(usize)) {
        let start = Instant::now();
        (0..BURST).for_each(burst);
        self.0.push(start.elapsed().as_nanos() as f64 / BURST as f64);
    }

    fn get(mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[self.0.len() / 2]
    }
}

fn measure(octets: usize, confidentiality: bool) {
    let suite = CipherSuite::GcmAes128;
    let sak = Sak::new(suite, &KEY, None).unwrap();
    let config = TransmitConfig { confidentiality, ..TransmitConfig::new(suite, SCI) };
    let mut transmit = Transmit::new(config).unwrap();
    transmit.install(An::ALL[0], &sak, 1, u64::MAX).unwrap();
    let mut receive = Receive::new(ReceiveConfig::new(suite));
    receive.add_peer(SCI, None).unwrap();
    receive.install(SCI, An::ALL[0], &sak, 1).unwrap();
    let mut sealing =
        Box::new(SealPool::<Aes128Gcm, _, SLOTS, 1600>::new(Key::new(&KEY).unwrap(), Counter(0)));
    let mut opening = Box::new(OpenPool::<Aes128Gcm, _, SLOTS, 1600>::new(Key::new(&KEY).unwrap(), nonce));
    opening.expect_from(1);

    let frame = vec![2; octets];
    let (header, data) = ([1; 28], &frame[12..]);
    let whole = vec![0; header.len() + data.len()];
    let mut protected = vec![vec![0; transmit.protected_len(octets)]; BURST];
    let mut sealed = vec![(vec![0; data.len()], [0; 16]); BURST];
    let mut out = vec![0; octets];
    let mut next = 1;
    let [mut protect, mut seal, mut validate, mut open]: [Median; 4] = Default::default();
    for _ in 0..BURSTS {
        while transmit.idle(1000) + receive.idle(1000) + sealing.idle(1000) + opening.idle(1000) > 0 {}
        protect.time(|i| {
            black_box(transmit.protect(black_box(&frame), &mut protected[i])).unwrap();
        });
        seal.time(|i| {
            let (out, tag) = &mut sealed[i];
            let prepared = sealing.next().unwrap();
            let sealed = if confidentiality {
                prepared.seal(&header, black_box(data), out)
            } else {
                prepared.authenticate(&[black_box(&whole)])
            };
            *tag = *sealed.as_bytes();
        });
        validate.time(|i| {
            black_box(receive.validate(black_box(&protected[i]), &mut out)).unwrap();
        });
        open.time(|i| {
            let (data, tag) = &sealed[i];
            if confidentiality {
                opening.open(next, &header, data, &mut out[12..], tag).unwrap();
            } else {
                opening.verify(next, &[black_box(&whole)], tag).unwrap();
            }
            next += 1;
            opening.expect_from(next);
        });
    }
    let mode = if confidentiality { "encrypted" } else { "integrity" };
    let [protect, seal, validate, open] = [protect, seal, validate, open].map(Median::get);
    println!(
        "{octets:5} octets, {mode}: protect {protect:6.1} ns (cipher {seal:6.1}), validate {validate:6.1} ns (cipher {open:6.1})"
    );
}

fn main() {
    for octets in [60, 64, 512, 1514] {
        for confidentiality in [true, false] {
            measure(octets, confidentiality);
        }
    }
}
