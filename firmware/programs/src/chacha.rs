//! ChaCha20-Poly1305: unmodified, and with a template whose hole is one block.

use crate::{AAD, Counter, LONGEST, Mote, Wrong, cost, is_payload, nonce_of, payload, report, right};
use antedate_aead::{
    ChaCha20Poly1305, Hole, Key, MisfitError, Nonce, PreparedTemplate, Sealed, Sealer, Tag, Template,
    TemplateSlot,
};
use core::hint::black_box;
use core::mem::size_of;

const SIZES: [usize; 6] = [16, 48, 112, 240, 600, 1000];
const CAP: usize = LONGEST.next_multiple_of(64);

pub(crate) fn all<M: Mote>() -> Result<(), Wrong> {
    report::<M>("chacha-ram-127", &[], "", size_of::<TemplateSlot<ChaCha20Poly1305, 128, 1>>() as u32);
    for size in SIZES {
        unmodified::<M>(size)?;
    }
    for size in [64, 112, 240, 1000] {
        templated::<M>(size)?;
    }
    Ok(())
}

fn key() -> Result<Key<ChaCha20Poly1305>, Wrong> {
    Key::new(&black_box([7; 32])).map_err(|_| Wrong::Fit)
}

#[inline(never)]
fn one_shot(key: &Key<ChaCha20Poly1305>, nonce: Nonce, data: &mut [u8]) -> Tag {
    key.seal_in_place(nonce, &AAD, data)
}

type Prepared<'a> = PreparedTemplate<'a, ChaCha20Poly1305, CAP, 1>;

#[inline(never)]
#[allow(clippy::result_large_err, reason = "the error gives the preparation back")]
fn finish<'a>(
    prepared: Prepared<'a>,
    value: &[u8],
) -> Result<Sealed<'a, ChaCha20Poly1305, CAP, 1>, MisfitError<Prepared<'a>>> {
    prepared.seal(&[value])
}

#[inline(never)]
fn unmodified<M: Mote>(size: usize) -> Result<(), Wrong> {
    let key = key()?;
    let mut data = [0; LONGEST];
    payload(&mut data);
    let nonce = Nonce::assume_unique(black_box(nonce_of(1)));
    let (cost, _) = cost!(M, one_shot(&key, nonce, &mut data[..black_box(size)]));
    report::<M>("chacha", &[size], "seal", cost);
    Ok(())
}

/// A hole of 16 bytes in the middle.
#[inline(never)]
fn templated<M: Mote>(size: usize) -> Result<(), Wrong> {
    let mut data = [0; LONGEST];
    payload(&mut data);
    let start = size / 32 * 16;
    let holes = [Hole::Payload(start..start + 16)];
    let template = Template::new(&AAD, &data[..size], &holes).map_err(|_| Wrong::Fit)?;
    let mut sealer = Sealer::new(key()?, Counter(0));
    let mut slot = TemplateSlot::<ChaCha20Poly1305, CAP, 1>::new();
    let mut prepared = sealer.prepare_template(&template, &mut slot).map_err(|_| Wrong::Fit)?;
    let (cost, _) = cost!(M, prepared.step(u32::MAX));
    report::<M>("chacha", &[size], "template-prepare", cost);
    right(prepared.is_ready())?;
    let mut value = [0; 16];
    value.copy_from_slice(&data[start..start + 16]);
    let (cost, sealed) = cost!(M, finish(prepared, black_box(&value)));
    report::<M>("chacha", &[size], "template-online", cost);
    let sealed = sealed.map_err(|_| Wrong::Fit)?;
    check(sealed.ciphertext(), &sealed.tag())?;
    let (cost, ()) = cost!(M, drop(sealed));
    report::<M>("chacha", &[size], "template-wipe", cost);
    Ok(())
}

/// Checks that the packet is the unmodified cipher's for the payload.
#[inline(never)]
fn check(ciphertext: &[u8], tag: &Tag) -> Result<(), Wrong> {
    let mut opened = [0; LONGEST];
    let opened = &mut opened[..ciphertext.len()];
    key()?.open(nonce_of(1), &AAD, ciphertext, opened, tag.as_bytes()).map_err(|_| Wrong::Answer)?;
    right(is_payload(opened))
}
