//! Rotation messages with one fault each, signed by the manager.

use alloc::vec;

use aes_kw::{KeyInit, KwAes256};
use ed25519_dalek::{Signer, SigningKey};
use minicbor::data::Tag;
use x25519_dalek::{PublicKey, StaticSecret};

use super::*;
use crate::sealed::{EDDSA, SMALL_ORDER, SealError as Unsealed, verified, wrapping_key};

const MANAGER: [u8; 32] = [0x11; 32];
const GROUP: &str = "line 4";
const NAME: &[u8] = b"press 7";
const DEVICE: [u8; 32] = [1; 32];

fn next() -> Rotation {
    let secret = Zeroizing::new([0x77; SECRET_LEN]);
    Rotation { epoch: 2, algorithm: Algorithm::A128Gcm, secret, grace: 60, past: Vec::new() }
}

fn random(out: &mut [u8]) -> Result<(), ()> {
    out.fill(5);
    Ok(())
}

fn message() -> Vec<u8> {
    let member = Recipient { name: NAME, public: device_public(&DEVICE) };
    seal(GROUP, &next(), &MANAGER, &[member], random).unwrap()
}

/// A message of any signed payload.
fn signed(payload: &[u8]) -> Vec<u8> {
    let signature = SigningKey::from_bytes(&MANAGER).sign(&heading(GROUP).to_be_signed(payload)).to_bytes();
    let mut message = Vec::new();
    Encoder::new(&mut message)
        .tag(Tag::new(18))
        .and_then(|e| e.array(4)?.bytes(EDDSA)?.map(0)?.bytes(payload)?.bytes(&signature))
        .unwrap();
    message
}

fn opened(message: &[u8]) -> Result<u32, RotationError> {
    open(GROUP, message, &manager_public(&MANAGER), NAME, &DEVICE).map(|rotation| rotation.epoch)
}

fn payload() -> Vec<u8> {
    let message = message();
    verified(heading(GROUP), &message, &manager_public(&MANAGER)).unwrap().to_vec()
}

/// The place of some octets.
fn place(of: &[u8], octets: &[u8]) -> usize {
    of.windows(octets.len()).position(|window| window == octets).unwrap()
}

#[test]
fn every_signed_octet_counts() {
    assert_eq!((signed(&payload()), opened(&message())), (message(), Ok(2)));
    let right = payload();
    let members = |message: &[u8]| members(GROUP, message, &manager_public(&MANAGER));
    for at in 0..right.len() {
        let mut changed = right.clone();
        changed[at] ^= 1;
        assert!(opened(&signed(&changed)).is_err(), "octet {at}");
        assert!(opened(&signed(&right[..at])).is_err(), "cut at {at}");
        // Reading the names never fails badly.
        let _ = members(&signed(&changed));
        assert!(members(&signed(&right[..at])).is_err() || at == right.len());
    }
    assert_eq!(members(&message()).unwrap(), ["press 7"]);
}

#[test]
fn octets_behind_a_message_are_refused() {
    let longer = [&message()[..], &[0]].concat();
    assert_eq!(opened(&longer), Err(RotationError::Format));
    let mut plain = Vec::new();
    let write = |plain: &mut Vec<u8>, group: &str, algorithm: i64, secret: &[u8]| {
        plain.clear();
        Encoder::new(plain)
            .array(5)
            .and_then(|e| e.str(group)?.u32(2)?.i64(algorithm)?.bytes(secret)?.u32(60))
            .unwrap();
    };
    let read = |plain: &[u8]| rotation(GROUP, plain).map(|rotation| (rotation.epoch, rotation.grace));
    write(&mut plain, GROUP, 1, &[7; 32]);
    assert_eq!(read(&plain), Ok((2, 60)));
    assert_eq!(read(&[&plain[..], &[0]].concat()), Err(RotationError::Format));
    assert_eq!(read(&plain[..plain.len() - 1]), Err(RotationError::Format));
    for (group, algorithm, len) in [("line 5", 1, 32), (GROUP, 2, 32), (GROUP, 1, 31), (GROUP, 1, 33)] {
        write(&mut plain, group, algorithm, &[7; 33][..len]);
        assert_eq!(read(&plain), Err(RotationError::Format), "{group} {algorithm} {len}");
    }
    write(&mut plain, GROUP, 1, &[7; 32]);
    plain[0] += 1;
    plain.push(0);
    assert_eq!(read(&plain), Err(RotationError::Format), "six items");
}

#[test]
fn low_order_share_is_refused() {
    // Its shared secret is zero, so anyone can wrap the key.
    let mut payload = payload();
    let ephemeral = PublicKey::from(&StaticSecret::from([5; 32])).to_bytes();
    let at = place(&payload, &ephemeral);
    payload[at..at + 32].fill(0);
    let mut wrapped = [0; 40];
    let kek = wrapping_key(&[0; 32]);
    KwAes256::new(&(*kek).into()).wrap_key(&[5; 32], &mut wrapped).unwrap();
    let end = payload.len() - 40;
    payload[end..].copy_from_slice(&wrapped);
    assert_eq!(opened(&signed(&payload)), Err(RotationError::Unauthentic));
}

#[test]
fn each_fault_of_a_form_is_told() {
    let right = payload();
    let nonce = place(&right, &[5; 12]);
    let sealed = nonce + 12 + 2;
    let kid = place(&right, NAME);
    let ephemeral = place(&right, &PublicKey::from(&StaticSecret::from([5; 32])).to_bytes());
    use RotationError::{Format, NotMember, Unauthentic};
    for (at, expected) in [
        (1, Format),
        (2, Format),
        (4, Format),
        (nonce - 2, Format),
        (nonce, Unauthentic),
        (sealed, Unauthentic),
        (kid - 2, Format),
        (kid, NotMember),
        (kid + NAME.len(), Format),
        (kid + NAME.len() + 2, Format),
        (kid + NAME.len() + 3, Format),
        (kid + NAME.len() + 4, Format),
        (kid + NAME.len() + 5, Format),
        (kid + NAME.len() + 6, Format),
        (ephemeral, Unauthentic),
        (right.len() - 1, Unauthentic),
    ] {
        let mut changed = right.clone();
        changed[at] ^= 1;
        assert_eq!(opened(&signed(&changed)), Err(expected), "octet {at}");
    }
}

#[test]
fn unsealable_rotation_names_its_member() {
    let good = || Recipient { name: NAME, public: device_public(&DEVICE) };
    let long = [b'a'; 65];
    let try_seal = |members: &[Recipient<'_>]| seal(GROUP, &next(), &MANAGER, members, random).map(drop);
    assert_eq!(try_seal(&[good(), Recipient { name: &long[..64], ..good() }]), Ok(()));
    for (member, expected) in [
        (Recipient { name: &long, ..good() }, Unsealed::Name { member: 1 }),
        (Recipient { name: b"", ..good() }, Unsealed::Name { member: 1 }),
        (Recipient { public: [0; 32], ..good() }, Unsealed::PublicKey { member: 1 }),
    ] {
        assert_eq!(try_seal(&[good(), member]), Err(expected.into()));
    }
    // The first name ends the attempt, unless there are too many at all.
    let nameless = vec![Recipient { name: b"", public: [9; 32] }; MEMBERS_MAX + 1];
    assert_eq!(try_seal(&nameless), Err(Unsealed::TooMany.into()));
    assert_eq!(try_seal(&nameless[1..]), Err(Unsealed::Name { member: 0 }.into()));
    // Randomness fails for the key, the nonce, or a member.
    for left in 0..4 {
        let mut calls = 0;
        let random = |out: &mut [u8]| {
            calls += 1;
            out.fill(5);
            if calls > left { Err("none") } else { Ok(()) }
        };
        let made = seal(GROUP, &next(), &MANAGER, &[good()], random).map(drop);
        assert_eq!(made, if left < 3 { Err(Unsealed::Random("none").into()) } else { Ok(()) }, "{left}");
    }
}

#[test]
fn keys_of_small_order_are_no_keys() {
    let is_good = |public: [u8; 32]| {
        StaticSecret::from([9; 32]).diffie_hellman(&PublicKey::from(public)).was_contributory()
    };
    for key in SMALL_ORDER {
        let mut high = key;
        high[31] |= 0x80;
        for key in [key, high] {
            assert!(!is_good(key) && !is_device_public(&key), "{key:x?}");
        }
    }
    for secret in 1..20 {
        let public = device_public(&[secret; 32]);
        assert!(is_good(public) && is_device_public(&public));
    }
}
