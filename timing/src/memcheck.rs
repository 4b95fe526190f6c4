//! Secrets as undefined memory.
//!
//! The key and the plaintext are secret when a packet is sealed, and the key when one is opened. The
//! nonce, the associated data, the ciphertext and the tag are on the wire. Verdicts become public,
//! by one branch each: whether the tag is right, and whether a packet matches the template or the
//! front that was expected.

use crate::cases::{fronted, sparse, suites};
use crate::packets::{Counter, Random, nonce_of};
use crate::{table, valgrind};
use antedate_aead::{
    Backend, Front, FrontSlot, Fronted, Hole, Key, Nonce, Opener, Sealer, Slot, Sparse, Suite, Template,
    TemplateSlot,
};
use std::hint::black_box;

/// Lengths at the boundaries of blocks and kernels.
const LENGTHS: [usize; 12] = [0, 1, 15, 16, 17, 33, 64, 100, 128, 255, 256, 1024];
const AAD: &[u8] = b"associated data of 28 octets";
const CAPACITY: usize = 1024;

/// Runs all suites and prints their counts of errors; the last two lines must have some.
pub(crate) fn run() {
    for backend in Backend::available() {
        suites!(plain(backend));
        sparse!(templates(backend));
        fronted!(fronts(backend));
    }
    controls();
}

/// Prints a case: the errors seen, and the branches of public verdicts among them.
fn print(case: &str, part: &str, backend: Option<Backend>, verdicts: usize, errors: usize) {
    let backend = backend.map_or_else(|| "none".to_owned(), |backend| format!("{backend:?}"));
    println!(
        r#"{{"case":"{case}","part":"{part}","backend":"{backend}","verdicts":{verdicts},"errors":{errors}}}"#
    );
}

/// The errors while `run` runs.
fn counted(run: impl FnOnce()) -> usize {
    let before = valgrind::errors();
    run();
    valgrind::errors() - before
}

/// Whether a packet was genuine, which is public from here on.
fn verdict<E>(opened: Result<(), E>) -> bool {
    let mut genuine = [u8::from(opened.is_ok())];
    valgrind::publish(black_box(&mut genuine));
    black_box(genuine) == [1]
}

/// Octets from a seed.
fn octets(length: usize, seed: u64) -> Vec<u8> {
    let mut octets = vec![0; length];
    Random(seed).fill(&mut octets);
    octets
}

/// Secret octets.
fn secret(length: usize, seed: u64) -> Vec<u8> {
    let octets = octets(length, seed);
    valgrind::hide(&octets);
    octets
}

fn key<S: Suite>(backend: Backend) -> Key<S> {
    Key::with_backend(&secret(S::KEY_LEN, 1), backend).expect("a key of this length")
}

/// A packet of the wire.
fn sealed<S: Suite>(number: u64, plain: &[u8], backend: Backend) -> (Vec<u8>, S::TagBytes)
where
    S::NonceBytes: Default,
{
    let key = Key::<S>::with_backend(&octets(S::KEY_LEN, 1), backend).expect("a key of this length");
    let mut ciphertext = vec![0; plain.len()];
    let tag = key.seal(Nonce::assume_unique(nonce_of(number)), AAD, plain, &mut ciphertext);
    (ciphertext, *tag.as_bytes())
}

/// Sets up a key, seals and opens packets at once, and prepared ones; genuine and forged.
fn plain<S: Suite>(backend: Backend)
where
    S::NonceBytes: Default,
{
    print(S::NAME, "key set-up", Some(backend), 0, counted(|| drop(key::<S>(backend))));
    let mut errors = [0; 4];
    for length in LENGTHS {
        let hidden = secret(length, 2);
        let mut out = vec![0; length];
        let one = key::<S>(backend);
        errors[0] += counted(|| {
            black_box(one.seal(Nonce::assume_unique(nonce_of(0)), AAD, &hidden, &mut out));
        });
        let mut sealer = Sealer::<S, _>::new(key(backend), Counter(0));
        let mut slot = Slot::<S, CAPACITY>::new();
        errors[1] += counted(|| {
            let mut prepared = sealer.prepare(&mut slot).expect("a number");
            while prepared.step(1) > 0 {}
            black_box(prepared.seal(AAD, &hidden, &mut out));
        });
        let (ciphertext, tag) = sealed::<S>(0, &octets(length, 2), backend);
        let mut wrong = tag;
        wrong.as_mut()[0] ^= 1;
        let opener = Opener::<S, _>::new(key(backend), nonce_of);
        for (tag, genuine) in [(tag, true), (wrong, false)] {
            errors[2] += counted(|| {
                assert_eq!(verdict(one.open(nonce_of(0), AAD, &ciphertext, &mut out, &tag)), genuine);
            });
            errors[3] += counted(|| {
                let mut expected = opener.expect(0, &mut slot);
                while expected.step(1) > 0 {}
                assert_eq!(verdict(expected.open(AAD, &ciphertext, &mut out, &tag)), genuine);
            });
        }
    }
    let opened = 2 * LENGTHS.len();
    print(S::NAME, "sealing", Some(backend), 0, errors[0]);
    print(S::NAME, "sealing, prepared", Some(backend), 0, errors[1]);
    print(S::NAME, "opening", Some(backend), opened, errors[2]);
    print(S::NAME, "opening, prepared", Some(backend), opened, errors[3]);
}

/// Seals and opens packets of a template with two holes.
fn templates<S: Sparse>(backend: Backend)
where
    S::NonceBytes: Default,
{
    let mut errors = [0; 2];
    for length in [24, 100, 300] {
        let hidden = secret(length, 2);
        let values = [secret(4, 3), secret(9, 4)];
        let holes = [Hole::Payload(3..7), Hole::Payload(11..20)];
        let template = Template::new(AAD, &hidden, &holes).expect("holes that fit");
        let mut slot = TemplateSlot::<S, CAPACITY, 8>::new();
        let mut sealer = Sealer::<S, _>::new(key(backend), Counter(0));
        errors[0] += counted(|| {
            let mut prepared =
                sealer.prepare_template(&template, &mut slot).unwrap_or_else(|_| panic!("a number"));
            while prepared.step(1) > 0 {}
            let sealed =
                prepared.seal(&[&values[0], &values[1]]).unwrap_or_else(|_| panic!("values that fit"));
            black_box(sealed.ciphertext());
        });
        let (ciphertext, tag) = sealed::<S>(0, &octets(length, 2), backend);
        let mut wrong = tag;
        wrong.as_mut()[0] ^= 1;
        let opener = Opener::<S, _>::new(key(backend), nonce_of);
        let mut out = vec![0; length];
        for (tag, genuine) in [(tag, true), (wrong, false)] {
            errors[1] += counted(|| {
                let mut expected = opener
                    .expect_template(0, &template, &mut slot)
                    .unwrap_or_else(|_| panic!("holes that fit"));
                while expected.step(1) > 0 {}
                assert_eq!(verdict(expected.open(AAD, &ciphertext, &mut out, &tag)), genuine);
            });
        }
    }
    print(S::NAME, "sealing, template", Some(backend), 0, errors[0]);
    print(S::NAME, "opening, template", Some(backend), 12, errors[1]);
}

/// Seals and opens packets of a front.
fn fronts<S: Fronted>(backend: Backend)
where
    S::NonceBytes: Default,
{
    let mut errors = [0; 2];
    for length in [24, 100, 300] {
        let hidden = secret(length, 2);
        let lengths = [length, length + 1];
        let front = Front::new(AAD, &hidden[..12], &lengths).expect("lengths that fit");
        let mut slot = FrontSlot::<S, CAPACITY, 2>::new();
        let mut sealer = Sealer::<S, _>::new(key(backend), Counter(0));
        errors[0] += counted(|| {
            let mut prepared = sealer.prepare_front(&front, &mut slot).unwrap_or_else(|_| panic!("a number"));
            while prepared.step(1) > 0 {}
            let sealed = prepared.seal(&hidden[12..]).unwrap_or_else(|_| panic!("a rest that fits"));
            black_box(sealed.ciphertext());
        });
        let (ciphertext, tag) = sealed::<S>(0, &octets(length, 2), backend);
        let mut wrong = tag;
        wrong.as_mut()[0] ^= 1;
        let opener = Opener::<S, _>::new(key(backend), nonce_of);
        let mut out = vec![0; length];
        for (tag, genuine) in [(tag, true), (wrong, false)] {
            errors[1] += counted(|| {
                let mut expected =
                    opener.expect_front(0, &front, &mut slot).unwrap_or_else(|_| panic!("lengths that fit"));
                while expected.step(1) > 0 {}
                assert_eq!(verdict(expected.open(AAD, &ciphertext, &mut out, &tag)), genuine);
            });
        }
    }
    print(S::NAME, "sealing, front", Some(backend), 0, errors[0]);
    print(S::NAME, "opening, front", Some(backend), 12, errors[1]);
}

/// What leaks, and must be seen.
fn controls() {
    let words = table::table();
    let hidden: [u8; 16] = secret(16, 5).try_into().expect("16 octets");
    let errors = counted(|| {
        let out = black_box(table::round(&words, &hidden)).to_ne_bytes();
        valgrind::publish(&out);
    });
    print("control", "table", None, 0, errors);
    let errors = counted(|| {
        black_box(table::compare(&hidden, &[7; 16]));
    });
    print("control", "comparison", None, 0, errors);
}
