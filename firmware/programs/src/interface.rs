//! The engine's calls on AES-128-CCM_8, as `c/interface.c` measures them through the C interface.

use crate::{AAD, Counter, Mote, Wrong, cost, nonce_of, nothing, report, right};
use antedate_aead::{
    Aes128Ccm8, Expected, ExpectedFront, Front, FrontSlot, Key, Nonce, Opener, Prepared, PreparedFront,
    SealedFront, Sealer, Slot, Tag,
};
use core::hint::black_box;

const LEN: usize = 112;
const FRONT: usize = 96;
type Mac = Tag<[u8; 8]>;

// Calls of an application; never inlined, so that the compiler does not know the sizes.

#[inline(never)]
fn seal_unprepared(key: &Key<Aes128Ccm8>, nonce: Nonce, src: &[u8], dst: &mut [u8]) -> Mac {
    key.seal(nonce, &AAD, src, dst)
}

#[inline(never)]
fn open_unprepared(key: &Key<Aes128Ccm8>, src: &[u8], dst: &mut [u8], tag: &[u8; 8]) -> bool {
    key.open(nonce_of(1), &AAD, src, dst, tag).is_ok()
}

#[inline(never)]
fn seal(prepared: Prepared<'_, Aes128Ccm8, 128>, src: &[u8], dst: &mut [u8]) -> Mac {
    prepared.seal(&AAD, src, dst)
}

#[inline(never)]
fn seal_in_place(prepared: Prepared<'_, Aes128Ccm8, 128>, data: &mut [u8]) -> Mac {
    prepared.seal_in_place(&AAD, data)
}

#[inline(never)]
fn open(expected: Expected<'_, Aes128Ccm8, 128>, src: &[u8], dst: &mut [u8], tag: &[u8; 8]) -> bool {
    expected.open(&AAD, src, dst, tag).is_ok()
}

#[inline(never)]
fn finish<'a>(
    prepared: PreparedFront<'a, Aes128Ccm8, 128, 4>,
    rest: &[u8],
) -> Option<SealedFront<'a, Aes128Ccm8, 128, 4>> {
    prepared.seal(rest).ok()
}

#[inline(never)]
fn open_front(
    expected: ExpectedFront<'_, Aes128Ccm8, 128, 4>,
    src: &[u8],
    dst: &mut [u8],
    tag: &[u8; 8],
) -> bool {
    expected.open(&AAD, src, dst, tag).is_ok()
}

/// Checks, measures and prints.
pub fn measure_interface<M: Mote>() -> Result<(), Wrong> {
    nothing::<M>();
    let octets = black_box([7; 16]);
    let key = || Key::<Aes128Ccm8>::new(&octets).map_err(|_| Wrong::Fit);
    let mut plain = [0; LEN];
    for (i, byte) in plain.iter_mut().enumerate() {
        *byte = (i * 7) as u8;
    }
    let (plain, mut sealed, mut opened) = (black_box(plain), [0; LEN], [0; LEN]);

    let one = key()?;
    let nonce = Nonce::assume_unique(nonce_of(1));
    let (cost, tag) = cost!(M, seal_unprepared(&one, nonce, &plain, &mut sealed));
    report::<M>("seal-112", &[], "", cost);
    let (cost, is_open) = cost!(M, open_unprepared(&one, &sealed, &mut opened, tag.as_bytes()));
    report::<M>("open-112", &[], "", cost);
    right(is_open && opened == plain)?;

    let (mut sealer, opener) = (Sealer::new(key()?, Counter(0)), Opener::new(key()?, nonce_of));
    let mut slot = Slot::<_, 128>::new();
    let mut prepared = sealer.prepare(&mut slot).map_err(|_| Wrong::Fit)?;
    let number = prepared.number();
    let (cost, _) = cost!(M, prepared.step(black_box(8)));
    report::<M>("stream-112-prepare", &[], "", cost);
    let (cost, tag) = cost!(M, seal(prepared, &plain, &mut sealed));
    report::<M>("stream-112-online", &[], "", cost);
    let mut expected = opener.expect(number, &mut slot);
    expected.step(black_box(8));
    let (cost, is_open) = cost!(M, open(expected, &sealed, &mut opened, tag.as_bytes()));
    report::<M>("stream-112-open", &[], "", cost);
    right(is_open && opened == plain)?;
    let mut prepared = sealer.prepare(&mut slot).map_err(|_| Wrong::Fit)?;
    prepared.step(black_box(8));
    let (cost, _) = cost!(M, seal_in_place(prepared, &mut opened));
    report::<M>("stream-112-in-place", &[], "", cost);

    let lengths = [LEN];
    let front = Front::new(&AAD, &plain[..FRONT], &lengths).map_err(|_| Wrong::Fit)?;
    let mut slot = FrontSlot::<_, 128, 4>::new();
    let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|_| Wrong::Fit)?;
    let (cost, _) = cost!(M, prepared.step(black_box(u32::MAX)));
    report::<M>("front-112-96-prepare", &[], "", cost);
    let (cost, sent) = cost!(M, finish(prepared, black_box(&plain[FRONT..])));
    report::<M>("front-112-96-online", &[], "", cost);
    let sent = sent.ok_or(Wrong::Fit)?;
    let mut other = FrontSlot::<_, 128, 4>::new();
    let mut expected = opener.expect_front(sent.number(), &front, &mut other).map_err(|_| Wrong::Fit)?;
    expected.step(black_box(u32::MAX));
    let tag = sent.tag();
    let (cost, is_open) = cost!(M, open_front(expected, sent.ciphertext(), &mut opened, tag.as_bytes()));
    report::<M>("front-112-96-open", &[], "", cost);
    right(is_open && opened == plain)
}
