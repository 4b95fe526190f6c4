#![allow(unsafe_code, missing_docs)]
use antedate_aead::*;
use std::{arch::x86_64::_mm_lfence, hint::black_box, time::Instant};
const SLOTS: usize = 8;
const CAP: usize = 256;
struct Counter(u64);
impl NonceSequence for Counter {
    type Error = core::convert::Infallible;
    fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
        self.0 += 1;
        Ok((self.0 - 1, Nonce::assume_unique([self.0 as u8; 12])))
    }
}
fn median(
    pool: &mut SealPool<Aes128Gcm, Counter, SLOTS, CAP>,
    mut call: impl FnMut(&mut SealPool<Aes128Gcm, Counter, SLOTS, CAP>),
) -> f64 {
    let mut times: Vec<f64> = (0..20001)
        .map(|_| {
            pool.idle(u32::MAX);
            let start = Instant::now();
            for _ in 0..SLOTS {
                unsafe { _mm_lfence() };
                call(pool);
                unsafe { _mm_lfence() };
            }
            start.elapsed().as_nanos() as f64 / SLOTS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[10000]
}
fn main() {
    let mut p = Box::new(SealPool::<Aes128Gcm, _, SLOTS, CAP>::new(Key::new(&[1; 16]).unwrap(), Counter(0)));
    let empty = median(&mut p, |_| {
        black_box(0);
    });
    println!("empty {empty}");
    println!("next+drop {}", median(&mut p, |p| drop(black_box(p.next().unwrap()))) - empty);
    let mut buf = [[0u8; 64]; 32];
    let buf = &mut buf.as_flattened_mut()[64 - (0)..];
    let (aad, rest) = buf.split_at_mut(64);
    let (src, dst) = rest.split_at_mut(512);
    for (a, l) in [
        (0usize, 0usize),
        (28, 0),
        (0, 16),
        (0, 64),
        (28, 48),
        (28, 64),
        (64, 64),
        (28, 63),
        (28, 128),
        (28, 256),
    ] {
        let t = median(&mut p, |p| {
            black_box(p.next().unwrap().seal(black_box(&aad[..a]), black_box(&src[..l]), &mut dst[..l]));
        });
        println!("{a} {l}: {:.1}", t - empty);
    }
}
