//! Times of two classes of secrets, a fixed one and random ones, in random order.

use crate::packets::{Counter, Random, nonce_of};
use crate::table;
use crate::welch::Classes;
use antedate_aead::{
    Aes128Ccm, Aes128Gcm, Aes256Gcm, Backend, ChaCha20Poly1305, Hole, Key, Nonce, Opener, Sealer, Slot,
    Sparse, Suite, Template, TemplateSlot, Usual,
};
use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::hint::black_box;

/// Samples of a batch; the first gives the limits.
const BATCH: usize = 10_000;
/// The fewest samples: two batches.
pub(crate) const FEWEST: usize = 2 * BATCH;
/// Limits that leave out what interrupts prolonged: 1 - 0.5^(10 n / LIMITS) of the samples remain.
const LIMITS: usize = 40;
/// The fewest samples of a class for a verdict on the samples below a limit.
const ENOUGH: f64 = 2_000.0;
const AAD: &[u8] = b"associated data of 28 octets";

/// Runs all cases with so many samples each.
pub(crate) fn run(samples: usize) {
    let best = Backend::detect();
    for backend in Backend::available().filter(|backend| *backend <= Backend::Ssse3 || *backend == best) {
        set_up::<Aes128Gcm>(samples, backend);
        set_up::<Aes256Gcm>(samples, backend);
        set_up::<ChaCha20Poly1305>(samples, backend);
        verdict::<Aes128Gcm>(samples, backend);
        holes::<Aes128Gcm>(samples, backend);
        holes::<ChaCha20Poly1305>(samples, backend);
    }
    for software in Backend::available().filter(|backend| *backend <= Backend::Ssse3) {
        aes(samples, software);
        ghash(samples, software);
    }
    let mut reference = [0; 16];
    Random(1).fill(&mut reference);
    // The fixed class is the reference itself.
    measure("control", "comparison", None, samples, 16, |input| {
        let input = input.first_chunk().expect("16 octets");
        ticks(|| black_box(table::compare(input, &reference)))
    });
}

/// Measures a function of `length` secret octets, which returns its ticks, and prints the greatest
/// |t| of all limits.
fn measure(
    case: &str,
    part: &str,
    backend: Option<Backend>,
    samples: usize,
    length: usize,
    mut run: impl FnMut(&[u8]) -> u64,
) {
    let mut fixed = vec![0; length];
    Random(1).fill(&mut fixed);
    let mut random = Random(2);
    let (mut inputs, mut times) = (vec![0; BATCH * length], vec![0; BATCH]);
    let mut limits: Vec<u64> = Vec::new();
    let mut classes = [Classes::default(); LIMITS + 1];
    for batch in 0..samples / BATCH {
        let order = inputs.chunks_exact_mut(length).map(|input| {
            random.fill(input);
            let class = (random.number() >> 63) as usize;
            if class == 0 {
                input.copy_from_slice(&fixed);
            }
            class
        });
        let order: Vec<usize> = order.collect();
        for (input, time) in inputs.chunks_exact(length).zip(&mut times) {
            *time = run(input);
        }
        if batch == 0 {
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let share = |n: usize| 1.0 - 0.5_f64.powf(10.0 * n as f64 / LIMITS as f64);
            limits = (1..=LIMITS).map(|n| sorted[(share(n) * BATCH as f64) as usize]).collect();
            continue;
        }
        for (class, time) in order.iter().zip(&times) {
            classes[LIMITS].add(*class, *time as f64);
            for (below, limit) in classes.iter_mut().zip(&limits) {
                if time < limit {
                    below.add(*class, *time as f64);
                }
            }
        }
    }
    let enough = classes.iter().filter(|classes| classes.least() >= ENOUGH);
    let t = enough.map(|classes| classes.t().abs()).fold(0.0, f64::max);
    let backend = backend.map_or_else(|| "none".to_owned(), |backend| format!("{backend:?}"));
    println!(
        r#"{{"case":"{case}","part":"{part}","backend":"{backend}","samples":{},"t":{t:.2}}}"#,
        classes[LIMITS].least() as u64
    );
}

/// The ticks of a function, with no instruction of others between.
#[inline(always)]
#[allow(unsafe_code, reason = "instructions that read a counter")]
fn ticks<T>(run: impl FnOnce() -> T) -> u64 {
    // SAFETY: all x86-64 CPUs have them, and they touch no memory.
    let read = || unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    };
    let begin = read();
    black_box(run());
    read() - begin
}

fn key<S: Suite>(bytes: &[u8], backend: Backend) -> Key<S> {
    Key::with_backend(bytes, backend).expect("a key of this length")
}

/// A key is expanded and wiped.
fn set_up<S: Suite>(samples: usize, backend: Backend) {
    measure(S::NAME, "key set-up", Some(backend), samples, S::KEY_LEN, |secret| {
        ticks(|| drop(black_box(key::<S>(secret, backend))))
    });
}

/// A wrong tag is refused: of the fixed class all octets but the last are right.
fn verdict<S: Usual>(samples: usize, backend: Backend) {
    let opener = Opener::<S, _>::new(key(&vec![7; S::KEY_LEN], backend), nonce_of);
    let right =
        key::<S>(&vec![7; S::KEY_LEN], backend).seal(Nonce::assume_unique(nonce_of(0)), AAD, &[], &mut []);
    let mut nearly = *right.as_bytes();
    nearly[15] ^= 1;
    let mut fixed = [0; 16];
    Random(1).fill(&mut fixed);
    let mut slot = Slot::<S, 64>::new();
    measure(S::NAME, "comparison of tags", Some(backend), samples, 16, |secret| {
        let mut tag: [u8; 16] = secret.try_into().expect("16 octets");
        // The same work for both classes: the fixed one becomes the tag that is nearly right.
        tag.iter_mut().zip(fixed).zip(nearly).for_each(|((octet, fixed), nearly)| *octet ^= fixed ^ nearly);
        let mut expected = opener.expect(0, &mut slot);
        while expected.step(8) > 0 {}
        ticks(|| assert!(expected.verify(&[AAD], &tag).is_err()))
    });
}

/// Values are sealed in the holes of a template, and opened.
fn holes<S: Sparse + Usual>(samples: usize, backend: Backend) {
    let holes = [Hole::Payload(3..7), Hole::Payload(11..20)];
    let plain = [7; 40];
    let template = Template::new(AAD, &plain, &holes).expect("holes that fit");
    let mut slot = TemplateSlot::<S, 64, 4>::new();
    let mut sealer = Sealer::<S, _>::new(key(&vec![7; S::KEY_LEN], backend), Counter(0));
    measure(S::NAME, "sealing of holes", Some(backend), samples, 13, |secret| {
        let mut prepared =
            sealer.prepare_template(&template, &mut slot).unwrap_or_else(|_| panic!("a number"));
        while prepared.step(8) > 0 {}
        ticks(|| prepared.seal_joined(secret).map_or(0, |sealed| black_box(sealed.ciphertext()[0])))
    });
    let opener = Opener::<S, _>::new(key(&vec![7; S::KEY_LEN], backend), nonce_of);
    let one = key::<S>(&vec![7; S::KEY_LEN], backend);
    let (mut values, mut ciphertext, mut out) = (plain, [0; 40], [0; 40]);
    let mut number = 0;
    measure(S::NAME, "opening of holes", Some(backend), samples, 13, |secret| {
        number += 1;
        values[3..7].copy_from_slice(&secret[..4]);
        values[11..20].copy_from_slice(&secret[4..]);
        let tag = one.seal(Nonce::assume_unique(nonce_of(number)), AAD, &values, &mut ciphertext);
        let mut expected =
            opener.expect_template(number, &template, &mut slot).unwrap_or_else(|_| panic!("holes that fit"));
        while expected.step(8) > 0 {}
        ticks(|| assert!(expected.open(AAD, &ciphertext, &mut out, tag.as_bytes()).is_ok()))
    });
}

/// AES and its CBC-MAC under a secret key.
fn aes(samples: usize, backend: Backend) {
    let mut out = [0; 48];
    measure("aes-128", "CCM under a key", Some(backend), samples, 16, |secret| {
        let key = key::<Aes128Ccm>(secret, backend);
        ticks(|| key.seal(Nonce::assume_unique(nonce_of(0)), AAD, &[7; 48], &mut out))
    });
}

/// GHASH of secret octets.
fn ghash(samples: usize, backend: Backend) {
    let key = key::<Aes128Gcm>(&[7; 16], backend);
    measure("ghash", "64 octets", Some(backend), samples, 64, |secret| {
        ticks(|| key.seal(Nonce::assume_unique(nonce_of(0)), secret, &[], &mut []))
    });
}
