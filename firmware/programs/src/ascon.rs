//! Ascon-AEAD128: unmodified, and with a front before one new block.

use crate::{AAD, Counter, LONGEST, Mote, Wrong, cost, is_payload, payload, report, right};
use antedate_aead::{AsconAead128, Front, FrontSlot, Key, Nonce, NonceSequence, Sealer, Tag};
use core::convert::Infallible;
use core::hint::black_box;

/// A packet of a few blocks, and sizes that published figures have.
const SIZES: [usize; 5] = [16, 48, 64, 112, LONGEST];
const CAP: usize = LONGEST.next_multiple_of(64);
const FRONTS: [(usize, usize); 2] = [(112, 96), (LONGEST, LONGEST - 16)];

fn key() -> Result<Key<AsconAead128>, Wrong> {
    Key::new(&black_box([7; 16])).map_err(|_| Wrong::Fit)
}

fn nonce_of(number: u64) -> [u8; 16] {
    let mut nonce = *b"mote of ascon\0\0\0";
    nonce[8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// Numbers from 1, in nonces of 16 bytes.
struct Numbers(Counter);

impl NonceSequence<[u8; 16]> for Numbers {
    type Error = Infallible;

    fn next(&mut self) -> Result<(u64, Nonce<[u8; 16]>), Infallible> {
        self.0.0 += 1;
        Ok((self.0.0, Nonce::assume_unique(nonce_of(self.0.0))))
    }
}

#[inline(never)]
fn one_shot(key: &Key<AsconAead128>, nonce: Nonce<[u8; 16]>, data: &mut [u8]) -> Tag {
    key.seal_in_place(nonce, &AAD, data)
}

#[inline(never)]
fn open(key: &Key<AsconAead128>, data: &mut [u8], tag: &Tag) -> bool {
    key.open_in_place(nonce_of(1), &AAD, data, tag.as_bytes()).is_ok()
}

#[inline(never)]
pub(crate) fn all<M: Mote>() -> Result<(), Wrong> {
    for size in SIZES {
        unmodified::<M>(size)?;
    }
    for (size, front) in FRONTS {
        fronted::<M>(size, front)?;
    }
    Ok(())
}

#[inline(never)]
fn unmodified<M: Mote>(size: usize) -> Result<(), Wrong> {
    let mut data = [0; LONGEST];
    payload(&mut data);
    let key = key()?;
    let nonce = Nonce::assume_unique(black_box(nonce_of(1)));
    let (cost, tag) = cost!(M, one_shot(&key, nonce, &mut data[..black_box(size)]));
    report::<M>("ascon", &[size], "seal", cost);
    let (cost, genuine) = cost!(M, open(&key, &mut data[..black_box(size)], &tag));
    report::<M>("ascon", &[size], "open", cost);
    right(genuine && is_payload(&data))
}

#[inline(never)]
fn fronted<M: Mote>(size: usize, front_len: usize) -> Result<(), Wrong> {
    let mut data = [0; LONGEST];
    payload(&mut data);
    let lengths = [size];
    let front = Front::new(&AAD, &data[..front_len], &lengths).map_err(|_| Wrong::Fit)?;
    let mut sealer = Sealer::new(key()?, Numbers(Counter(0)));
    let mut slot = FrontSlot::<AsconAead128, CAP, 1>::new();
    let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|_| Wrong::Fit)?;
    let (cost, _) = cost!(M, prepared.step(u32::MAX));
    report::<M>("ascon", &[size, front_len], "front-prepare", cost);
    let rest = black_box(&data[front_len..size]);
    let (cost, sealed) = cost!(M, prepared.seal(rest));
    report::<M>("ascon", &[size, front_len], "front-online", cost);
    let sealed = sealed.map_err(|_| Wrong::Fit)?;
    let mut opened = [0; LONGEST];
    let opened = &mut opened[..size];
    key()?
        .open(nonce_of(1), &AAD, sealed.ciphertext(), opened, sealed.tag().as_bytes())
        .map_err(|_| Wrong::Answer)?;
    right(is_payload(opened))
}
