//! Latency of one packet, in nanoseconds, for suites with a serial MAC, fenced as in `latency`:
//! `lfence` before and after each call, the cost of an empty call subtracted, the tenth percentile
//! of many rounds.
//!
//!     cargo run --release -p antedate-aead --example fronts

#[cfg(target_arch = "x86_64")]
fn main() {
    x86::main();
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("the fences are those of x86-64");
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use antedate_aead::*;
    use std::{arch::x86_64::_mm_lfence, hint::black_box, time::Instant};

    const SLOTS: usize = 8;
    const CAP: usize = 1536;
    const ROUNDS: usize = 1500;
    const SIZES: [usize; 8] = [16, 32, 64, 112, 256, 600, 1000, 1500];

    struct Counter(u64);

    fn nonce_of<const N: usize>(number: u64) -> [u8; N] {
        let mut nonce = [0; N];
        nonce[N - 4..].copy_from_slice(&(number as u32).to_be_bytes());
        nonce
    }

    impl<const N: usize> NonceSequence<[u8; N]> for Counter {
        type Error = core::convert::Infallible;

        fn next(&mut self) -> Result<(u64, Nonce<[u8; N]>), Self::Error> {
            self.0 += 1;
            Ok((self.0 - 1, Nonce::assume_unique(nonce_of(self.0 - 1))))
        }
    }

    fn fence() {
        // SAFETY: every x86-64 CPU has SSE2.
        #[allow(unsafe_code, reason = "a fence between measurements")]
        unsafe {
            _mm_lfence()
        }
    }

    /// The tenth percentile of rounds, per call.
    fn time<T>(mut before: impl FnMut() -> Vec<T>, mut call: impl FnMut(T), mut after: impl FnMut()) -> f64 {
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let items = before();
                let count = items.len() as f64;
                let start = Instant::now();
                for item in items {
                    fence();
                    call(item);
                    fence();
                }
                let time = start.elapsed().as_nanos() as f64 / count;
                after();
                time
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 10]
    }

    fn suite<S: Fronted<NonceBytes = [u8; N]>, const N: usize>(backend: Backend) {
        let aad = [7; 14];
        let key =
            || Key::<S>::with_backend(&vec![9; S::KEY_LEN], backend).expect("the length is the suite's");
        let plain_key = Box::new(key());
        let indices = || (0..SLOTS).collect::<Vec<_>>();
        let empty = time(indices, |i| _ = black_box(i), || ());
        let mut rows = [const { Vec::new() }; 7];
        for size in SIZES {
            let src = vec![1u8; size];
            let mut dst = vec![0u8; size];
            let mut number = 0;
            rows[0].push(time(
                indices,
                |_| {
                    number += 1;
                    let nonce = Nonce::assume_unique(nonce_of(number));
                    black_box(plain_key.seal(nonce, black_box(&aad), black_box(&src), &mut dst));
                },
                || (),
            ));
            let mut sealed = vec![0; size];
            let tag = plain_key.seal(Nonce::assume_unique(nonce_of(0)), &aad, &src, &mut sealed);
            rows[1].push(time(
                indices,
                |_| {
                    let tag = black_box(tag.as_bytes());
                    assert!(plain_key.open(nonce_of(0), black_box(&aad), &sealed, &mut dst, tag).is_ok());
                },
                || (),
            ));
            let mut pool = Box::new(SealPool::<S, _, SLOTS, CAP>::new(key(), Counter(0)));
            pool.set_reach(size);
            let pool = std::cell::RefCell::new(pool);
            rows[2].push(time(
                || {
                    pool.borrow_mut().idle(u32::MAX);
                    indices()
                },
                |_| {
                    let mut pool = pool.borrow_mut();
                    let Ok(packet) = pool.next();
                    black_box(packet.seal(black_box(&aad), black_box(&src), &mut dst));
                },
                || (),
            ));

            let rest = ((size - 1) % 16) + 1;
            let lengths = [size];
            let front = Front::new(&aad, &src[..size - rest], &lengths).expect("the rest has a byte");
            let mut lines: Vec<_> = (0..SLOTS)
                .map(|_| (Sealer::<S, _>::new(key(), Counter(0)), FrontSlot::<S, CAP, 1>::new()))
                .collect();
            let opener = Opener::<S, _>::new(key(), nonce_of::<N>);
            let mut times = [const { Vec::new() }; 2];
            for _ in 0..ROUNDS {
                let mut packets: Vec<_> = lines
                    .iter_mut()
                    .filter_map(|(sealer, slot)| sealer.prepare_front(&front, slot).ok())
                    .collect();
                packets.iter_mut().for_each(|packet| while packet.step(u32::MAX) > 0 {});
                let mut done = Vec::with_capacity(SLOTS);
                let start = Instant::now();
                for packet in packets {
                    fence();
                    done.push(packet.seal(black_box(&src[..rest])));
                    fence();
                }
                times[0].push(start.elapsed().as_nanos() as f64 / SLOTS as f64);
                drop(done);
                let mut packets: Vec<_> = lines
                    .iter_mut()
                    .filter_map(|(_, slot)| opener.expect_front(0, &front, slot).ok())
                    .collect();
                packets.iter_mut().for_each(|packet| while packet.step(u32::MAX) > 0 {});
                let start = Instant::now();
                for packet in packets {
                    fence();
                    assert!(packet.open(black_box(&aad), &sealed, &mut dst, tag.as_bytes()).is_ok());
                    fence();
                }
                times[1].push(start.elapsed().as_nanos() as f64 / SLOTS as f64);
            }
            for (row, mut times) in rows[3..].iter_mut().zip(times) {
                times.sort_by(f64::total_cmp);
                row.push(times[ROUNDS / 10]);
            }
            let (mut sealer, mut slot) =
                (Sealer::<S, _>::new(key(), Counter(0)), FrontSlot::<S, CAP, 1>::new());
            rows[5].push(time(
                indices,
                |_| {
                    if let Ok(mut packet) = sealer.prepare_front(&front, &mut slot) {
                        packet.step(u32::MAX);
                    }
                },
                || (),
            ));
            let mut lone = Sealer::<S, _>::new(key(), Counter(0));
            let mut slot = Slot::<S, CAP>::new();
            rows[6].push(time(
                indices,
                |_| {
                    let Ok(mut packet) = lone.prepare(&mut slot);
                    packet.step(1 + size.div_ceil(64) as u32);
                },
                || (),
            ));
        }
        println!("{} on {backend:?}, 14 bytes of associated data", S::NAME);
        let names = [
            "seal",
            "open",
            "seal, stream prepared",
            "seal, last block new",
            "open, last block new",
            "prepare a front",
            "prepare a stream",
        ];
        for (name, row) in names.iter().zip(rows) {
            print!("  {name:<22}");
            row.iter().for_each(|time| print!("{:7.1}", time - empty));
            println!();
        }
    }

    pub(crate) fn main() {
        print!("payload bytes           ");
        SIZES.iter().for_each(|size| print!("{size:7}"));
        println!();
        for backend in Backend::available().filter(|backend| *backend != Backend::Portable) {
            suite::<Aes128Ccm8, 12>(backend);
            suite::<CcmStar64, 13>(backend);
            suite::<Aes256Ccm, 12>(backend);
        }
    }
}
