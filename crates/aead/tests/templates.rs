//! Accepted templates, and packets that do not fit one.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::{Counter, key, nonce_of};
use antedate_aead::{
    Aes128Gcm, Aes256Gcm, Backend, ChaCha20Poly1305, Hole, Nonce, Opener, PrepareError, Sealer, Sparse,
    Template, TemplateError, TemplateSlot, TemplateStandby, Usual,
};

#[test]
fn bad_template_names_its_cause() {
    let check = |holes: &[Hole]| Template::new(&[0; 10], &[0; 20], holes).err();
    assert_eq!(check(&[Hole::Aad(0..10), Hole::Payload(0..20)]), None);
    assert_eq!(check(&[Hole::Aad(4..4)]), Some(TemplateError::Empty { hole: 0 }));
    let error = check(&[Hole::Payload(1..2), Hole::Payload(19..21)]).unwrap();
    assert_eq!(error.to_string(), "hole 1 ends at byte 21 of 20 bytes of payload");
    let error = check(&[Hole::Aad(9..11)]).unwrap();
    assert_eq!(error.to_string(), "hole 0 ends at byte 11 of 10 bytes of associated data");
    let holes = [Hole::Payload(3..9), Hole::Aad(3..9), Hole::Payload(8..9)];
    assert_eq!(check(&holes), Some(TemplateError::Overlapping { first: 0, second: 2 }));
}

#[test]
fn oversized_template_costs_no_nonce() {
    let mut sealer = Sealer::<Aes128Gcm, _>::new(key(0, Backend::detect()), Counter(0, 2));
    let mut slot = TemplateSlot::<Aes128Gcm, 64, 2>::new();
    let long = Template::new(&[], &[0; 65], &[]).unwrap();
    let error = sealer.prepare_template(&long, &mut slot).unwrap_err();
    assert_eq!(error, PrepareError::Template(TemplateError::TooLong { len: 65, capacity: 64 }));
    // A block counts once for each hole that touches it.
    let holes = [Hole::Payload(0..1), Hole::Payload(15..33)];
    let wide = Template::new(&[], &[0; 64], &holes).unwrap();
    let error = sealer.prepare_template(&wide, &mut slot).unwrap_err();
    assert_eq!(error, PrepareError::Template(TemplateError::TooManyBlocks { touched: 4, capacity: 2 }));
    assert_eq!(sealer.sequence().0, 0);
}

#[test]
fn misfit_values_return_packet_unspent() {
    let mut sealer = Sealer::<Aes128Gcm, _>::new(key(0, Backend::detect()), Counter(4, 9));
    let mut slot = TemplateSlot::<Aes128Gcm, 64, 2>::new();
    let holes = [Hole::Payload(1..3), Hole::Aad(0..1)];
    let template = Template::new(b"a", b"value", &holes).unwrap();
    let prepared = sealer.prepare_template(&template, &mut slot).unwrap();
    let misfit = prepared.seal(&[b"12", b"123"]).unwrap_err();
    assert_eq!(misfit.to_string(), "hole 1 has 1 bytes, but 3 were given");
    let misfit = misfit.prepared.seal(&[b"12"]).unwrap_err();
    assert_eq!((misfit.hole, misfit.given), (1, 0));
    let misfit = misfit.prepared.seal(&[b"12", b"3", b""]).unwrap_err();
    assert_eq!(misfit.hole, 2);
    let sealed = misfit.prepared.seal(&[b"12", b"3"]).unwrap();
    assert_eq!(sealed.number(), 4);
    let mut out = [0; 5];
    let tag = key::<Aes128Gcm>(0, Backend::detect()).seal(
        Nonce::assume_unique(nonce_of(4)),
        b"3",
        b"v12ue",
        &mut out,
    );
    assert_eq!((sealed.ciphertext(), sealed.tag()), (&out[..], tag));
}

fn another_packet<S: Usual + Sparse>() {
    for backend in Backend::available() {
        let plain = key::<S>(0, backend);
        let mut other = [0; 40];
        let tag = plain.seal(Nonce::assume_unique(nonce_of(0)), b"other", &[9; 40], &mut other);
        let template = Template::new(b"aad", b"payload", &[]).unwrap();
        let mut slot = TemplateSlot::<S, 64, 2>::new();
        let mut out = [0; 40];

        let mut sealer = Sealer::<S, _>::new(key(0, backend), Counter(0, 9));
        let mut prepared = sealer.prepare_template(&template, &mut slot).unwrap();
        prepared.step(100);
        assert_eq!(prepared.seal_other(b"other", &[9; 40], &mut out), tag);
        assert_eq!(out, other);

        let opener = Opener::<S, _>::new(key(0, backend), nonce_of);
        let mut expected = opener.expect_template(0, &template, &mut slot).unwrap();
        expected.step(100);
        assert!(expected.open(b"other", &other, &mut out, tag.as_bytes()).is_ok());
        assert_eq!(out, [9; 40]);
    }
}

/// Templates with one hole, a whole block or nearly so, at any place.
fn one_hole<S: Usual + Sparse>() {
    let (aad, payload) = ([7; 40], [8; 80]);
    let places = [0..16, 16..32, 64..80, 0..15, 17..33, 17..32];
    let holes = places.iter().cloned().map(Hole::Payload).chain([Hole::Aad(16..32), Hole::Aad(3..19)]);
    for (hole, backend) in holes.flat_map(|hole| Backend::available().map(move |at| (hole.clone(), at))) {
        let mut packet = (aad, payload);
        let place = match &hole {
            Hole::Aad(range) => &mut packet.0[range.clone()],
            Hole::Payload(range) => &mut packet.1[range.clone()],
        };
        place.iter_mut().zip(1..).for_each(|(to, byte)| *to = byte);
        let value = place.to_vec();
        let holes = [hole];
        let template = Template::new(&aad, &payload, &holes).unwrap();
        let mut slot = TemplateSlot::<S, 128, 2>::new();
        let mut sealer = Sealer::<S, _>::new(key(0, backend), Counter(0, 9));
        for (number, steps) in [0, 2, 100].into_iter().enumerate() {
            let mut prepared = sealer.prepare_template(&template, &mut slot).unwrap();
            prepared.step(steps);
            // Too many and too few bytes, joined and separate.
            let misfit = prepared.seal_joined(&[0; 17]).unwrap_err();
            let misfit = misfit.prepared.seal(&[&value[1..]]).unwrap_err();
            let misfit = misfit.prepared.seal(&[&value, &value]).unwrap_err();
            let sealed = match number {
                1 => misfit.prepared.seal_joined(&value).unwrap(),
                _ => misfit.prepared.seal(&[&value]).unwrap(),
            };
            let mut out = [0; 80];
            let nonce = Nonce::assume_unique(nonce_of(number as u64));
            let tag = key::<S>(0, backend).seal(nonce, &packet.0, &packet.1, &mut out);
            assert_eq!((sealed.ciphertext(), sealed.tag()), (&out[..], tag), "{holes:?}, {backend:?}");
        }
    }
}

#[test]
fn whole_block_hole_works_like_others() {
    one_hole::<Aes128Gcm>();
    one_hole::<Aes256Gcm>();
    one_hole::<ChaCha20Poly1305>();
}

#[test]
fn other_packet_takes_the_ordinary_path() {
    another_packet::<Aes128Gcm>();
    another_packet::<ChaCha20Poly1305>();
}

#[test]
fn misfit_joined_values_return_packet() {
    let mut sealer = Sealer::<Aes128Gcm, _>::new(key(0, Backend::detect()), Counter(4, 9));
    let mut slot = TemplateSlot::<Aes128Gcm, 64, 2>::new();
    let holes = [Hole::Payload(1..3), Hole::Aad(0..1)];
    let template = Template::new(b"a", b"value", &holes).unwrap();
    let prepared = sealer.prepare_template(&template, &mut slot).unwrap();
    let misfit = prepared.seal_joined(b"12").unwrap_err();
    assert_eq!((misfit.hole, misfit.expected, misfit.given), (2, 3, 2));
    assert!(misfit.prepared.seal_joined(b"123").is_ok());
}

#[test]
fn left_packet_is_sealed_once_later() {
    let mut standby =
        TemplateStandby::<ChaCha20Poly1305, _, 64, 2>::new(key(0, Backend::detect()), Counter(7, 9));
    let holes = [Hole::Payload(1..3)];
    let template = Template::new(b"a", b"value", &holes).unwrap();
    assert!(standby.resume_template(&template).is_none(), "nothing was left");
    standby.prepare_template(&template).unwrap().leave();
    while standby.resume_template(&template).is_some_and(|mut prepared| {
        let done = prepared.step(1);
        prepared.leave();
        done > 0
    }) {}
    let prepared = standby.resume_template(&template).unwrap();
    assert!(prepared.is_ready());
    let sealed = prepared.seal(&[b"12"]).unwrap();
    let mut out = [0; 5];
    let nonce = Nonce::assume_unique(nonce_of(7));
    let tag = key::<ChaCha20Poly1305>(0, Backend::detect()).seal(nonce, b"a", b"v12ue", &mut out);
    assert_eq!((sealed.ciphertext(), sealed.tag().as_bytes()), (&out[..], tag.as_bytes()));
    drop(sealed);
    assert!(standby.resume_template(&template).is_none(), "it was sealed");
    // One that was resumed and dropped, and one whose template has another length, lose their
    // nonces.
    standby.prepare_template(&template).unwrap().leave();
    drop(standby.resume_template(&template));
    assert!(standby.resume_template(&template).is_none());
    assert_eq!(standby.sequence().0, 9);
}

#[test]
fn template_of_other_length_resumes_nothing() {
    let mut standby = TemplateStandby::<Aes128Gcm, _, 64, 2>::new(key(0, Backend::detect()), Counter(0, 1));
    let holes = [Hole::Payload(1..3)];
    let [template, other] = [&b"value"[..], b"values"].map(|text| Template::new(b"a", text, &holes).unwrap());
    standby.prepare_template(&template).unwrap().leave();
    assert!(standby.resume_template(&other).is_none());
    assert!(standby.resume_template(&template).is_none(), "it is burnt");
}

#[test]
fn misfit_and_exhaustion_keep_left_packet() {
    let mut standby = TemplateStandby::<Aes128Gcm, _, 64, 2>::new(key(0, Backend::detect()), Counter(7, 8));
    let holes = [Hole::Payload(1..3)];
    let template = Template::new(b"a", b"value", &holes).unwrap();
    standby.prepare_template(&template).unwrap().leave();
    let wide = [Hole::Payload(0..40)];
    for (payload, holes) in [(&[0; 65][..], &holes), (&[0; 64], &wide)] {
        let other = Template::new(b"aad", payload, holes).unwrap();
        let error = standby.prepare_template(&other).unwrap_err();
        assert!(matches!(error, PrepareError::Template(_)), "{error}");
    }
    let error = standby.prepare_template(&template).unwrap_err();
    assert_eq!(error, PrepareError::Sequence("the counter is at its end"));
    let sealed = standby.resume_template(&template).unwrap().seal(&[b"12"]).unwrap();
    assert_eq!(sealed.number(), 7);
}

#[test]
fn longer_payloads_extend_next_preparation() {
    let mut standby = TemplateStandby::<Aes128Gcm, _, 256, 2>::new(key(0, Backend::detect()), Counter(0, 9));
    assert_eq!(standby.idle(60, 99), 2);
    assert_eq!(standby.idle(60, 99), 0);
    assert_eq!(standby.idle(200, 99), 3);
    assert_eq!(standby.idle(20, 99), 0);
    assert_eq!(standby.next_number(), Some(0));
    assert_eq!(standby.next().unwrap().ready(), 256);
}

fn all_at_once_after_some_steps<S: Usual + Sparse>() {
    for backend in Backend::available() {
        let (aad, payload) = ([3; 100], [7; 300]);
        let holes = [Hole::Aad(60..64), Hole::Payload(200..216)];
        let template = Template::new(&aad, &payload, &holes).unwrap();
        let mut slot = TemplateSlot::<S, 320, 4>::new();
        let mut sealer = Sealer::<S, _>::new(key(0, backend), Counter(0, u64::MAX));
        for some in 0..20 {
            let mut prepared = sealer.prepare_template(&template, &mut slot).unwrap();
            assert!(prepared.step(some) <= some);
            prepared.step(u32::MAX);
            assert!(prepared.is_ready());
            let sealed = prepared.seal(&[&aad[60..64], &payload[200..216]]).unwrap();
            let mut expected = [0; 300];
            let nonce = Nonce::assume_unique(nonce_of(sealed.number()));
            let tag = key::<S>(0, backend).seal(nonce, &aad, &payload, &mut expected);
            assert_eq!((sealed.ciphertext(), sealed.tag()), (&expected[..], tag));
        }
    }
}

/// With 32-bit words, the highest budget plus the steps already done overflows.
#[test]
fn highest_budget_may_follow_steps() {
    all_at_once_after_some_steps::<Aes128Gcm>();
    all_at_once_after_some_steps::<ChaCha20Poly1305>();
    all_at_once_after_some_steps::<antedate_aead::Aes128Ocb3>();
}
