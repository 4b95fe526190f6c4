//! AES-128-CCM_8: unmodified, with prepared key stream, and with a front (hiller2018 section VI,
//! figure 6).

use crate::{AAD, Counter, LONGEST, Mote, Wrong, cost, is_payload, nonce_of, payload, report, right};
use antedate_aead::{
    AesCcm, BlockCipher, Expected, Front, FrontSlot, Key, Nonce, Opener, Prepared, PreparedFront,
    SealedFront, Sealer, Slot, Tag,
};
use core::hint::black_box;
use core::mem::size_of;

/// Sizes of the peers and of hiller2018.
const SIZES: [usize; 9] = [16, 48, 50, 64, 80, 112, 200, 240, 1000];

/// Sizes and fronts: last block new, all new, and hiller2018's templates.
const FRONTS: [(usize, usize); 20] = [
    (16, 0),
    (50, 0),
    (50, 48),
    (200, 48),
    (64, 48),
    (112, 0),
    (112, 16),
    (112, 32),
    (112, 48),
    (112, 64),
    (112, 80),
    (112, 96),
    (127, 112),
    (240, 0),
    (240, 224),
    (1000, 0),
    (1000, 16),
    (1000, 48),
    (1000, 96),
    (1000, 984),
];

pub(crate) fn block<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    /// At an even address, like a structure's member.
    #[repr(align(4))]
    struct Block([u8; 16]);
    let aes = A::new(&[3; 16]);
    let mut block = Block([5; 16]);
    let (cost, ()) = cost!(M, aes.encrypt(black_box(&mut block.0)));
    report::<M>("aes-128-block", &[], "", cost);
    Ok(())
}

#[inline(never)]
pub(crate) fn all<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    report::<M>("ccm8-ram-127", &[], "", size_of::<FrontSlot<Ccm8<A>, 128, 1>>() as u32);
    report::<M>("ccm8-ram-key", &[], "", size_of::<Key<Ccm8<A>>>() as u32);
    for size in SIZES {
        unmodified::<M, A>(size)?;
    }
    for (size, front) in FRONTS {
        fronted::<M, A>(size, front)?;
    }
    Ok(())
}

/// AEAD_AES_128_CCM_8 over the mote's AES.
type Ccm8<A> = AesCcm<A, 12, 8>;

fn key<A: BlockCipher>() -> Result<Key<Ccm8<A>>, Wrong> {
    Key::new(&black_box([7; 16])).map_err(|_| Wrong::Fit)
}

/// An application's call; never inlined, so that the compiler does not know the sizes.
#[inline(never)]
fn one_shot<A: BlockCipher>(key: &Key<Ccm8<A>>, nonce: Nonce, data: &mut [u8]) -> Tag<[u8; 8]> {
    key.seal_in_place(nonce, &AAD, data)
}

#[inline(never)]
fn from_stream<A: BlockCipher>(prepared: Prepared<'_, Ccm8<A>, LONGEST>, data: &mut [u8]) -> Tag<[u8; 8]> {
    prepared.seal_in_place(&AAD, data)
}

#[inline(never)]
fn finish<'a, A: BlockCipher>(
    prepared: PreparedFront<'a, Ccm8<A>, LONGEST, 1>,
    rest: &[u8],
) -> Option<SealedFront<'a, Ccm8<A>, LONGEST, 1>> {
    prepared.seal(rest).ok()
}

/// The cipher without preparation, and with prepared key stream.
#[inline(never)]
fn unmodified<M: Mote, A: BlockCipher>(size: usize) -> Result<(), Wrong> {
    let mut sealer = Sealer::new(key::<A>()?, Counter(0));
    let mut slot = Slot::<Ccm8<A>, LONGEST>::new();
    let mut prepared = sealer.prepare(&mut slot).map_err(|_| Wrong::Fit)?;
    // One step for the nonce, then one for each block of key stream.
    let steps = 1 + size.div_ceil(16) as u32;
    let (cost, _) = cost!(M, prepared.step(black_box(steps)));
    report::<M>("ccm8", &[size], "stream-prepare", cost);
    let mut data = [0; LONGEST];
    payload(&mut data);
    let (cost, tag) = cost!(M, from_stream(prepared, &mut data[..black_box(size)]));
    report::<M>("ccm8", &[size], "stream-online", cost);

    let key = key::<A>()?;
    key.open_in_place(nonce_of(1), &AAD, &mut data[..size], tag.as_bytes()).map_err(|_| Wrong::Answer)?;
    right(is_payload(&data))?;
    let nonce = Nonce::assume_unique(black_box(nonce_of(1)));
    let (cost, same) = cost!(M, one_shot(&key, nonce, &mut data[..black_box(size)]));
    report::<M>("ccm8", &[size], "seal", cost);
    right(same == tag)?;
    opened::<M, A>(&key, &mut data[..size], &tag)
}

/// An application's calls; never inlined.
#[inline(never)]
fn open<A: BlockCipher>(key: &Key<Ccm8<A>>, data: &mut [u8], tag: &[u8; 8]) -> bool {
    key.open_in_place(nonce_of(1), &AAD, data, tag).is_ok()
}

#[inline(never)]
fn open_expected<A: BlockCipher>(
    expected: Expected<'_, Ccm8<A>, LONGEST>,
    data: &mut [u8],
    tag: &[u8; 8],
) -> bool {
    expected.open_in_place(&AAD, data, tag).is_ok()
}

/// The receiver's side: without preparation, and with prepared key stream.
#[inline(never)]
fn opened<M: Mote, A: BlockCipher>(
    key: &Key<Ccm8<A>>,
    data: &mut [u8],
    tag: &Tag<[u8; 8]>,
) -> Result<(), Wrong> {
    let size = data.len();
    let (cost, genuine) = cost!(M, open(key, black_box(&mut *data), tag.as_bytes()));
    report::<M>("ccm8", &[size], "open", cost);
    right(genuine && is_payload(data))?;
    let again = key.seal_in_place(Nonce::assume_unique(nonce_of(1)), &AAD, data);
    right(again == *tag)?;
    let opener = Opener::new(self::key::<A>()?, nonce_of);
    let mut slot = Slot::<Ccm8<A>, LONGEST>::new();
    let mut expected = opener.expect(1, &mut slot);
    expected.step(1 + size.div_ceil(16) as u32);
    let (cost, genuine) = cost!(M, open_expected(expected, black_box(&mut *data), tag.as_bytes()));
    report::<M>("ccm8", &[size], "open-online", cost);
    right(genuine && is_payload(data))
}

/// The cipher prepared except for the bytes after the front.
#[inline(never)]
fn fronted<M: Mote, A: BlockCipher>(size: usize, front_len: usize) -> Result<(), Wrong> {
    let mut data = [0; LONGEST];
    payload(&mut data);
    let lengths = [size];
    let front = Front::new(&AAD, &data[..front_len], &lengths).map_err(|_| Wrong::Fit)?;
    let mut sealer = Sealer::new(key::<A>()?, Counter(0));
    let mut slot = FrontSlot::<Ccm8<A>, LONGEST, 1>::new();
    let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|_| Wrong::Fit)?;
    let (cost, _) = cost!(M, prepared.step(u32::MAX));
    report::<M>("ccm8", &[size, front_len], "front-prepare", cost);
    right(prepared.is_ready())?;
    let rest = black_box(&data[front_len..size]);
    let (cost, sealed) = cost!(M, finish(prepared, rest));
    report::<M>("ccm8", &[size, front_len], "front-online", cost);
    let sealed = sealed.ok_or(Wrong::Fit)?;

    let tag = sealed.tag();
    check::<A>(sealed.ciphertext(), &tag)?;
    let (cost, ()) = cost!(M, drop(sealed));
    report::<M>("ccm8", &[size, front_len], "front-wipe", cost);
    Ok(())
}

/// Checks that the packet is the unmodified cipher's for the payload.
#[inline(never)]
fn check<A: BlockCipher>(ciphertext: &[u8], tag: &Tag<[u8; 8]>) -> Result<(), Wrong> {
    let mut opened = [0; LONGEST];
    let opened = &mut opened[..ciphertext.len()];
    key::<A>()?.open(nonce_of(1), &AAD, ciphertext, opened, tag.as_bytes()).map_err(|_| Wrong::Answer)?;
    right(is_payload(opened))
}
