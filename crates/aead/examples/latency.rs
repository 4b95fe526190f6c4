//! Latency of one packet, in nanoseconds: `lfence` before and after each call, the cost of an empty
//! call subtracted. Each figure is a low percentile over many short rounds of one ring of prepared
//! packets, since other load on the machine only adds time.
//!
//!     cargo run --release -p antedate-aead --example latency -- [AAD bytes] [part of suite's name]

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
    const ROUNDS: usize = 4000;
    const SIZES: [usize; 8] = [16, 32, 64, 112, 256, 600, 1000, 1500];

    struct Counter(u64);

    impl NonceSequence for Counter {
        type Error = core::convert::Infallible;

        fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
            self.0 += 1;
            Ok((self.0 - 1, Nonce::assume_unique(nonce_of(self.0 - 1))))
        }
    }

    fn nonce_of(number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        nonce
    }

    fn fence() {
        // SAFETY: every x86-64 CPU has SSE2.
        #[allow(unsafe_code, reason = "a fence between measurements")]
        unsafe {
            _mm_lfence()
        }
    }

    fn low(mut times: Vec<f64>) -> f64 {
        times.sort_by(f64::total_cmp);
        times[times.len() / 50]
    }

    /// A low percentile of rounds, per call.
    fn measure(mut before: impl FnMut(), mut call: impl FnMut(usize)) -> f64 {
        low((0..ROUNDS)
            .map(|_| {
                before();
                let start = Instant::now();
                for i in 0..SLOTS {
                    fence();
                    call(i);
                    fence();
                }
                start.elapsed().as_nanos() as f64 / SLOTS as f64
            })
            .collect())
    }

    fn suite<S: Usual + Sparse>(backend: Backend, aad_len: usize) {
        let aad = vec![7; aad_len];
        let key =
            || Key::<S>::with_backend(&vec![9; S::KEY_LEN], backend).expect("the length is the suite's");
        let mut sealer = Box::new(SealPool::<S, _, SLOTS, CAP>::new(key(), Counter(0)));
        let mut opener = Box::new(OpenPool::<S, _, SLOTS, CAP>::new(key(), nonce_of));
        let plain_key = Box::new(key());
        let empty = measure(|| (), |i| _ = black_box(i));
        let mut rows = [const { Vec::new() }; 5];
        for size in SIZES {
            let src = vec![1u8; size];
            let mut dst = vec![0u8; size];
            let pool = std::cell::RefCell::new(&mut sealer);
            rows[0].push(measure(
                || _ = pool.borrow_mut().idle(u32::MAX),
                |_| {
                    let mut pool = pool.borrow_mut();
                    let Ok(packet) = pool.next();
                    black_box(packet.seal(black_box(&aad), black_box(&src), &mut dst));
                },
            ));

            let packets: Vec<_> = (0..SLOTS as u64)
                .map(|i| {
                    let mut out = vec![0; size];
                    let tag = plain_key.seal(Nonce::assume_unique(nonce_of(i)), &aad, &src, &mut out);
                    (out, *tag.as_bytes())
                })
                .collect();
            let pool = std::cell::RefCell::new(&mut opener);
            rows[1].push(measure(
                || {
                    let mut pool = pool.borrow_mut();
                    pool.expect_from(u64::MAX / 2);
                    pool.expect_from(0);
                    pool.idle(u32::MAX);
                },
                |i| {
                    let (src, tag) = &packets[i];
                    let opened = pool.borrow_mut().open(i as u64, black_box(&aad), src, &mut dst, tag);
                    assert!(opened.is_ok());
                },
            ));

            let mut number = 0;
            rows[2].push(measure(
                || (),
                |_| {
                    number += 1;
                    let nonce = Nonce::assume_unique(nonce_of(number));
                    black_box(plain_key.seal(nonce, black_box(&aad), black_box(&src), &mut dst));
                },
            ));
            rows[3].push(measure(
                || (),
                |i| {
                    let (src, tag) = &packets[i];
                    let opened = plain_key.open(nonce_of(i as u64), black_box(&aad), src, &mut dst, tag);
                    assert!(opened.is_ok());
                },
            ));

            let units = 1 + size.div_ceil(64) as u32;
            let mut slot = Slot::<S, CAP>::new();
            let mut lone = Sealer::new(key(), Counter(0));
            rows[4].push(measure(
                || (),
                |_| {
                    let Ok(mut packet) = lone.prepare(&mut slot);
                    packet.step(units);
                    drop(packet);
                },
            ));
        }
        println!("{} on {backend:?}, {aad_len} bytes of associated data", S::NAME);
        for (name, row) in
            ["seal, prepared", "open, prepared", "seal", "open", "prepare and wipe"].iter().zip(rows)
        {
            print!("  {name:<18}");
            row.iter().for_each(|time| print!("{:7.1}", time - empty));
            println!();
        }
        for touched in [1, 4, 16] {
            let times = SIZES.map(|size| template::<S>(backend, &aad, touched, size));
            for (i, name) in ["seal", "open", "prepare"].iter().enumerate() {
                print!("  {:<18}", format!("{name}, d = {touched}"));
                for times in &times {
                    times.map_or_else(|| print!("      -"), |times| print!("{:7.1}", times[i] - empty));
                }
                println!();
            }
        }
    }

    /// Packets of a template whose holes touch `touched` blocks, spread over the payload: sealed,
    /// opened, prepared.
    fn template<S: Usual + Sparse>(
        backend: Backend,
        aad: &[u8],
        touched: usize,
        size: usize,
    ) -> Option<[f64; 3]> {
        let place = |i: usize| 16 * (i * (size / 16) / touched);
        let holes: Vec<_> = (0..touched).map(|i| Hole::Payload(place(i)..place(i) + 4)).collect();
        let payload = vec![1; size];
        let template = Template::new(aad, &payload, &holes).ok()?;
        let value: &[u8] = &[1, 2, 3, 4];
        let joined = vec![1; 4 * touched];
        let _ = value;
        let key = || Key::<S>::with_backend(&vec![9; S::KEY_LEN], backend).expect("the suite's length");
        let mut sealers: Vec<_> = (0..SLOTS).map(|_| Sealer::new(key(), Counter(0))).collect();
        let opener = Box::new(Opener::<S, _>::new(key(), nonce_of));
        let mut slots: Vec<_> = (0..SLOTS).map(|_| TemplateSlot::<S, CAP, 16>::new()).collect();
        let mut out = vec![0; size];
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            let number = sealers[0].sequence().0;
            let start = Instant::now();
            let packets: [_; SLOTS] = {
                let mut lines = sealers.iter_mut().zip(&mut slots);
                core::array::from_fn(|_| {
                    let (sealer, slot) = lines.next().expect("as many as slots");
                    fence();
                    let mut packet = sealer.prepare_template(&template, slot).expect("it fits");
                    packet.step(u32::MAX);
                    fence();
                    packet
                })
            };
            times[2].push(start.elapsed().as_nanos() as f64 / SLOTS as f64);
            let mut sealed = [const { None }; SLOTS];
            let start = Instant::now();
            let values = black_box(&joined[..]);
            for (packet, sealed) in packets.into_iter().zip(&mut sealed) {
                fence();
                *sealed = packet.seal_joined(values).ok();
                fence();
            }
            times[0].push(start.elapsed().as_nanos() as f64 / SLOTS as f64);
            let first = sealed.first_mut()?.take()?;
            let (ciphertext, tag) = (first.ciphertext().to_vec(), first.tag());
            drop((first, sealed));

            let packets: [_; SLOTS] = {
                let mut slots = slots.iter_mut();
                core::array::from_fn(|_| {
                    let slot = slots.next().expect("as many as slots");
                    let mut packet = opener.expect_template(number, &template, slot).expect("it fits");
                    packet.step(u32::MAX);
                    packet
                })
            };
            let start = Instant::now();
            for packet in packets {
                fence();
                let opened = packet.open(black_box(aad), &ciphertext, &mut out, tag.as_bytes());
                fence();
                assert!(opened.is_ok());
            }
            times[1].push(start.elapsed().as_nanos() as f64 / SLOTS as f64);
        }
        Some(times.map(low))
    }

    pub(crate) fn main() {
        print!("payload bytes       ");
        SIZES.iter().for_each(|size| print!("{size:7}"));
        println!();
        let aad = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(14);
        let wanted = std::env::args().nth(2).unwrap_or_default();
        for backend in Backend::available().filter(|backend| *backend != Backend::Portable) {
            if Aes128Gcm::NAME.contains(&wanted) {
                suite::<Aes128Gcm>(backend, aad);
            }
            if Aes256Gcm::NAME.contains(&wanted) {
                suite::<Aes256Gcm>(backend, aad);
            }
            if ChaCha20Poly1305::NAME.contains(&wanted) {
                suite::<ChaCha20Poly1305>(backend, aad);
            }
        }
    }
}
