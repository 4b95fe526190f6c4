//! AES-CCM (NIST SP 800-38C, RFC 3610) with nonces of 7 to 13 bytes and tags of 4 to 16.
//!
//! The nonce gives the key stream and S0, the mask of the tag. The MAC is serial, and its first
//! block B0 contains the payload's length. So it is prepared for each possible length, as far as
//! the bytes are known (a [`Front`](crate::Front)).

use crate::{
    Aes128, Aes256, AuthenticationError, Backend, BlockCipher, Key, Nonce, Suite, Tag,
    backend::blocks::{Block, sum, xor_in},
    buffers::Buffers,
    bytes::{Tagged, wipe},
    suites::{
        engine::{Engine, at_most},
        key::{assert_sealable, open_buffers},
        serial::{Serial, Sizes},
    },
};
#[cfg(target_arch = "x86_64")]
use crate::{backend::x86::ccm as x86, bytes::gather, suites::block_cipher::Kernels};
use core::{fmt, marker::PhantomData};
use zeroize::Zeroize;

/// CCM over the block cipher `A`, with nonces of `NONCE` bytes (7 to 13) and tags of `TAG` bytes
/// (4, 6, .. 16).
///
/// A shorter nonce allows longer payloads: with 13 bytes a payload has at most 65,535 bytes, with
/// 12 at most 16,777,215. Parameters outside the standard do not compile:
///
/// ```compile_fail
/// use antedate_aead::{Aes128, AesCcm, Key};
/// let key = Key::<AesCcm<Aes128, 14, 8>>::new(&[0; 16]); // a nonce has 7 to 13 bytes
/// ```
///
/// ```compile_fail
/// use antedate_aead::{Aes128, AesCcm, Key};
/// let key = Key::<AesCcm<Aes128, 13, 7>>::new(&[0; 16]); // a tag has an even number of bytes
/// ```
pub struct AesCcm<A, const NONCE: usize, const TAG: usize>(PhantomData<A>);

/// AEAD_AES_128_CCM (RFC 5116 section 5.3).
pub type Aes128Ccm = AesCcm<Aes128, 12, 16>;
/// AEAD_AES_256_CCM (RFC 5116 section 5.4).
pub type Aes256Ccm = AesCcm<Aes256, 12, 16>;
/// AEAD_AES_128_CCM_8 (RFC 6655 section 6.1), of TLS and DTLS.
pub type Aes128Ccm8 = AesCcm<Aes128, 12, 8>;
/// AEAD_AES_256_CCM_8 (RFC 6655 section 6.2).
pub type Aes256Ccm8 = AesCcm<Aes256, 12, 8>;
/// CCM\* of IEEE 802.15.4 with a MIC of 4 bytes (security level 5).
pub type CcmStar32 = AesCcm<Aes128, 13, 4>;
/// CCM\* of IEEE 802.15.4 with a MIC of 8 bytes (security level 6).
pub type CcmStar64 = AesCcm<Aes128, 13, 8>;
/// CCM\* of IEEE 802.15.4 with a MIC of 16 bytes (security level 7).
pub type CcmStar128 = AesCcm<Aes128, 13, 16>;
/// AES-CCM-16-64-128 of COSE (RFC 9053 section 4.2, algorithm 10).
pub type CoseCcm16_64_128 = AesCcm<Aes128, 13, 8>;
/// AES-CCM-16-64-256 of COSE (algorithm 11).
pub type CoseCcm16_64_256 = AesCcm<Aes256, 13, 8>;
/// AES-CCM-64-64-128 of COSE (algorithm 12).
pub type CoseCcm64_64_128 = AesCcm<Aes128, 7, 8>;
/// AES-CCM-64-64-256 of COSE (algorithm 13).
pub type CoseCcm64_64_256 = AesCcm<Aes256, 7, 8>;
/// AES-CCM-16-128-128 of COSE (algorithm 30).
pub type CoseCcm16_128_128 = AesCcm<Aes128, 13, 16>;
/// AES-CCM-16-128-256 of COSE (algorithm 31).
pub type CoseCcm16_128_256 = AesCcm<Aes256, 13, 16>;
/// AES-CCM-64-128-128 of COSE (algorithm 32).
pub type CoseCcm64_128_128 = AesCcm<Aes128, 7, 16>;
/// AES-CCM-64-128-256 of COSE (algorithm 33).
pub type CoseCcm64_128_256 = AesCcm<Aes256, 7, 16>;

/// Tags of another length under the same expanded key, for protocols that choose the length per
/// packet, such as IEEE 802.15.4. The length is authenticated.
impl<A: BlockCipher, const NONCE: usize, const TAG: usize> Key<AesCcm<A, NONCE, TAG>> {
    /// As [`seal_in_place`](Self::seal_in_place), with a tag of `OTHER` bytes.
    ///
    /// # Panics
    /// If the buffer is longer than the suite allows.
    pub fn seal_in_place_with<const OTHER: usize>(
        &self,
        nonce: Nonce<[u8; NONCE]>,
        aad: &[u8],
        buffer: &mut [u8],
    ) -> Tag<[u8; OTHER]> {
        assert_sealable::<AesCcm<A, NONCE, OTHER>>(buffer.len());
        Tag(AesCcm::<A, NONCE, OTHER>::seal(&self.inner, &nonce.0, aad, Buffers::InPlace(buffer)))
    }

    /// As [`open`](Self::open), with a tag of `OTHER` bytes.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    pub fn open_with<const OTHER: usize>(
        &self,
        nonce: [u8; NONCE],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &[u8; OTHER],
    ) -> Result<(), AuthenticationError> {
        open_buffers::<AesCcm<A, NONCE, OTHER>>(&self.inner, &nonce, aad, Buffers::apart(src, dst), tag)
    }

    /// As [`open_in_place`](Self::open_in_place), with a tag of `OTHER` bytes.
    pub fn open_in_place_with<const OTHER: usize>(
        &self,
        nonce: [u8; NONCE],
        aad: &[u8],
        buffer: &mut [u8],
        tag: &[u8; OTHER],
    ) -> Result<(), AuthenticationError> {
        open_buffers::<AesCcm<A, NONCE, OTHER>>(&self.inner, &nonce, aad, Buffers::InPlace(buffer), tag)
    }
}

impl<A: BlockCipher, const NONCE: usize, const TAG: usize> Suite for AesCcm<A, NONCE, TAG> {
    const NAME: &'static str = name(A::KEY_LEN, TAG);
    const KEY_LEN: usize = A::KEY_LEN;
}

const fn name(key: usize, tag: usize) -> &'static str {
    match (key, tag) {
        (16, 4) => "aes-128-ccm-4",
        (16, 6) => "aes-128-ccm-6",
        (16, 8) => "aes-128-ccm-8",
        (16, 10) => "aes-128-ccm-10",
        (16, 12) => "aes-128-ccm-12",
        (16, 14) => "aes-128-ccm-14",
        (16, _) => "aes-128-ccm",
        (32, 4) => "aes-256-ccm-4",
        (32, 6) => "aes-256-ccm-6",
        (32, 8) => "aes-256-ccm-8",
        (32, 10) => "aes-256-ccm-10",
        (32, 12) => "aes-256-ccm-12",
        (32, 14) => "aes-256-ccm-14",
        (32, _) => "aes-256-ccm",
        _ => "ccm",
    }
}

/// Returns the kernels' result, if the cipher's key is in their form.
#[cfg(target_arch = "x86_64")]
macro_rules! with_kernels {
    ($cipher:expr, $key:ident => $call:expr) => {
        match $cipher.kernels() {
            Kernels::None => {}
            Kernels::Aes128($key) => return $call,
            Kernels::Aes256($key) => return $call,
        }
    };
}

/// S0, the tag's mask, in the block cipher's own form.
#[derive(Default)]
#[repr(C, align(4))]
pub struct OneTime {
    mask: [u8; 16],
}

impl Zeroize for OneTime {
    #[inline]
    fn zeroize(&mut self) {
        wipe(&mut self.mask);
    }
}

/// The MAC after the packet's beginning, in the block cipher's own form once the front is settled.
#[derive(Clone, Default)]
#[repr(C, align(4))]
pub struct Chain([u8; 16]);

impl Zeroize for Chain {
    #[inline]
    fn zeroize(&mut self) {
        wipe(&mut self.0);
    }
}

/// The encoding of the associated data's length (SP 800-38C appendix A.2.2), in 0, 2, 6 or 10
/// bytes.
fn prefix(aad: usize) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    if aad == 0 {
        (bytes, 0)
    } else if aad < 0xff00 {
        bytes[..2].copy_from_slice(&(aad as u16).to_be_bytes());
        (bytes, 2)
    } else if let Ok(aad) = u32::try_from(aad) {
        bytes[..2].copy_from_slice(&[0xff, 0xfe]);
        bytes[2..6].copy_from_slice(&aad.to_be_bytes());
        (bytes, 6)
    } else {
        bytes[..2].copy_from_slice(&[0xff, 0xff]);
        bytes[2..].copy_from_slice(&(aad as u64).to_be_bytes());
        (bytes, 10)
    }
}

impl<A: BlockCipher, const NONCE: usize, const TAG: usize> AesCcm<A, NONCE, TAG> {
    /// Bytes of the counter, and of the payload's length in B0: `q` in SP 800-38C.
    const Q: usize = {
        assert!(NONCE >= 7 && NONCE <= 13, "a nonce of CCM has 7 to 13 bytes");
        assert!(
            TAG >= 4 && TAG <= 16 && TAG.is_multiple_of(2),
            "a tag of CCM has 4, 6, 8, 10, 12, 14 or 16 bytes"
        );
        15 - NONCE
    };

    /// Counter block 0 (appendix A.3).
    #[inline]
    fn a0(nonce: &[u8; NONCE]) -> [u8; 16] {
        let mut block = [0; 16];
        block[0] = (Self::Q - 1) as u8;
        block[1..=NONCE].copy_from_slice(nonce);
        block
    }

    /// B0 (appendix A.2.1).
    #[inline]
    fn b0(nonce: &[u8; NONCE], aad: usize, payload: usize) -> [u8; 16] {
        let mut block = Self::a0(nonce);
        block[0] |= (((TAG - 2) / 2) << 3) as u8 | u8::from(aad > 0) << 6;
        // The payload's length was checked to fit the field.
        let len = payload.to_be_bytes();
        let places = if Self::Q < len.len() { Self::Q } else { len.len() };
        for (byte, len) in block[16 - places..].iter_mut().zip(&len[len.len() - places..]) {
            *byte = *len;
        }
        block
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn header(nonce: &[u8; NONCE], aad: usize, payload: usize) -> x86::Header {
        // As numbers: bytes written one by one would delay their load as a vector.
        let a0 = (Self::Q - 1) as u128 | gather(nonce) << 8;
        let flags = (((TAG - 2) / 2) << 3) as u128 | u128::from(aad > 0) << 6;
        // The payload's length was checked to fit the field.
        let b0 = a0 | flags | u128::from((payload as u64).swap_bytes()) << 64;
        if aad < 0xff00 {
            let prefix = u128::from((aad as u16).swap_bytes());
            return x86::Header { b0, a0, prefix, prefix_len: if aad > 0 { 2 } else { 0 } };
        }
        let (bytes, prefix_len) = prefix(aad);
        let mut padded = [0; 16];
        padded[..10].copy_from_slice(&bytes);
        x86::Header { b0, a0, prefix: u128::from_le_bytes(padded), prefix_len }
    }

    /// The MAC up to the payload: B0 and the associated data, which comes in pieces.
    fn beginning(key: &A, nonce: &[u8; NONCE], aad: &[&[u8]], payload: usize) -> [u8; 16] {
        let total = aad.iter().map(|piece| piece.len()).sum();
        let Block(mac) = &mut Block(Self::b0(nonce, total, payload));
        key.encrypt(mac);
        let (bytes, prefix_len) = prefix(total);
        let mut held = prefix_len;
        for (byte, prefix) in mac.iter_mut().zip(&bytes[..prefix_len]) {
            *byte ^= prefix;
        }
        for piece in aad {
            for byte in *piece {
                if held == 16 {
                    key.encrypt(mac);
                    held = 0;
                }
                mac[held] ^= byte;
                held += 1;
            }
        }
        if held > 0 {
            key.encrypt(mac);
        }
        *mac
    }

    /// Processes the payload with a key stream that covers it by whole blocks.
    fn payload(key: &A, mac: &mut [u8; 16], stream: &[u8], data: &mut [u8], seal: bool) {
        let mut pads = stream.as_chunks::<16>().0.iter();
        for chunk in data.chunks_mut(16) {
            Self::block(mac, pads.next().unwrap_or(&[0; 16]), chunk, seal);
            key.encrypt(mac);
        }
    }

    /// Adds a block of payload to the MAC and encrypts or decrypts it.
    #[inline]
    fn block(mac: &mut [u8; 16], pad: &[u8; 16], chunk: &mut [u8], seal: bool) {
        if let Ok(block) = <&mut [u8; 16]>::try_from(&mut *chunk) {
            if seal {
                xor_in(mac, block);
                xor_in(block, pad);
            } else {
                xor_in(block, pad);
                xor_in(mac, block);
            }
        } else {
            for ((byte, mac), pad) in chunk.iter_mut().zip(mac.iter_mut()).zip(pad) {
                let (from, to) = (*byte, *byte ^ pad);
                *byte = to;
                *mac ^= if seal { from } else { to };
            }
        }
    }

    // Out of line: sealing and opening share it.
    #[inline(never)]
    fn one_shot(key: &A, nonce: &[u8; NONCE], aad: &[u8], data: &mut [u8], seal: bool) -> [u8; TAG] {
        let mut mac = Block(Self::beginning(key, nonce, &[aad], data.len()));
        let mut counter = Block(Self::a0(nonce));
        let (mut mask, mut pad) = (Block(counter.0), Block([0; 16]));
        // The MAC of a block and the key stream of the next one are a pair, and so are the mask and
        // the first of the stream: a cipher may do two blocks at the cost of one.
        let mut chunks = data.chunks_mut(16);
        let mut begun = false;
        loop {
            let other = if begun { &mut mac.0 } else { &mut mask.0 };
            let Some(chunk) = chunks.next() else { break key.encrypt(other) };
            count(&mut counter.0);
            pad.0 = counter.0;
            key.encrypt_two(other, &mut pad.0);
            Self::block(&mut mac.0, &pad.0, chunk, seal);
            begun = true;
        }
        wipe(&mut pad.0);
        xor_in(&mut mac.0, &mask.0);
        cut(&mac.0)
    }

    /// The masked tag of a finished MAC, with a mask in the block cipher's own form.
    fn masked(key: &A, mut mac: [u8; 16], once: &OneTime) -> [u8; TAG] {
        // The form is an added constant; adding it again removes it.
        let mut form = [0; 16];
        key.fold_mask(&mut form);
        xor_in(&mut mac, &form);
        xor_in(&mut mac, &once.mask);
        wipe(&mut form);
        cut(&mac)
    }
}

/// The first bytes of a block.
#[inline]
fn cut<const TAG: usize>(block: &[u8; 16]) -> [u8; TAG] {
    // A tag is at most a block long, which the compiler can't see.
    block.first_chunk().copied().unwrap_or([0; TAG])
}

/// Increments the counter block. A payload has less than 2^32 blocks, so only the last word
/// changes.
#[inline]
fn count(block: &mut [u8; 16]) {
    let [.., a, b, c, d] = block;
    let next = u32::from_be_bytes([*a, *b, *c, *d]).wrapping_add(1);
    [*a, *b, *c, *d] = next.to_be_bytes();
}

impl<A: BlockCipher, const NONCE: usize, const TAG: usize> Tagged for AesCcm<A, NONCE, TAG> {
    type TagBytes = [u8; TAG];
}

impl<A: BlockCipher, const NONCE: usize, const TAG: usize> Engine for AesCcm<A, NONCE, TAG> {
    type Key = A;
    type OneTime = OneTime;
    type NonceBytes = [u8; NONCE];
    const STREAMS: bool = true;
    const UNIT: usize = A::UNIT;
    // 2^(8q) - 1 bytes, and 2^32 - 1 blocks, because only the counter's last word changes.
    const MAX_PAYLOAD: usize = at_most(if Self::Q > 4 { (1 << 36) - 16 } else { (1 << (8 * Self::Q)) - 1 });

    fn expand(key: &[u8], backend: Backend) -> A {
        const { assert!(Self::Q >= 2) };
        A::select(key, backend)
    }

    fn prepare_once(key: &A, nonce: &[u8; NONCE], once: &mut OneTime) {
        once.mask = Self::a0(nonce);
        key.encrypt(&mut once.mask);
        key.fold_mask(&mut once.mask);
    }

    fn prepare_stream(key: &A, nonce: &[u8; NONCE], first: usize, out: &mut [u8]) {
        let mut counter = Self::a0(nonce);
        #[cfg(target_arch = "x86_64")]
        with_kernels!(key, key => key.stream(&counter, first, out));
        let [.., a, b, c, d] = &mut counter;
        let before = u32::from_be_bytes([*a, *b, *c, *d]).wrapping_add((first * (A::UNIT / 16)) as u32);
        [*a, *b, *c, *d] = before.to_be_bytes();
        let (blocks, _) = out.as_chunks_mut::<16>();
        for block in blocks.iter_mut() {
            count(&mut counter);
            *block = counter;
        }
        key.encrypt_all(blocks);
    }

    #[inline]
    fn seal(key: &A, nonce: &[u8; NONCE], aad: &[u8], buffers: Buffers<'_>) -> [u8; TAG] {
        #[cfg(target_arch = "x86_64")]
        {
            let header = Self::header(nonce, aad.len(), buffers.len());
            with_kernels!(key, key => cut(&key.one_shot::<true>(&header, aad, buffers)));
        }
        Self::one_shot(key, nonce, aad, buffers.into_in_place(), true)
    }

    #[inline]
    fn open(key: &A, nonce: &[u8; NONCE], aad: &[u8], buffers: Buffers<'_>) -> [u8; TAG] {
        #[cfg(target_arch = "x86_64")]
        {
            let header = Self::header(nonce, aad.len(), buffers.len());
            with_kernels!(key, key => cut(&key.one_shot::<false>(&header, aad, buffers)));
        }
        Self::one_shot(key, nonce, aad, buffers.into_in_place(), false)
    }

    fn seal_prepared(
        key: &A,
        nonce: &[u8; NONCE],
        once: &OneTime,
        stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; TAG],
    ) {
        #[cfg(target_arch = "x86_64")]
        {
            let header = Self::header(nonce, aad.len(), buffers.len());
            with_kernels!(key, key => {
                *tag = cut(&key.seal_prepared(&header, &once.mask, stream, aad, buffers));
            });
        }
        let data = buffers.into_in_place();
        let mut mac = Self::beginning(key, nonce, &[aad], data.len());
        Self::payload(key, &mut mac, stream, data, true);
        wipe(stream);
        *tag = Self::masked(key, mac, once);
    }

    fn open_prepared(
        key: &A,
        nonce: &[u8; NONCE],
        once: &OneTime,
        stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; TAG],
    ) {
        #[cfg(target_arch = "x86_64")]
        {
            let header = Self::header(nonce, aad.len(), buffers.len());
            with_kernels!(key, key => {
                *tag = cut(&key.open_prepared(&header, &once.mask, stream, aad, buffers));
            });
        }
        let data = buffers.into_in_place();
        let mut mac = Self::beginning(key, nonce, &[aad], data.len());
        Self::payload(key, &mut mac, stream, data, false);
        *tag = Self::masked(key, mac, once);
    }

    fn authenticate(key: &A, nonce: &[u8; NONCE], once: &OneTime, aad: &[&[u8]]) -> [u8; TAG] {
        Self::masked(key, Self::beginning(key, nonce, aad, 0), once)
    }
}

impl<A: BlockCipher, const NONCE: usize, const TAG: usize> Serial for AesCcm<A, NONCE, TAG> {
    type Chain = Chain;
    const RATE: usize = 16;
    const LENGTH_FIRST: bool = true;

    fn begin(key: &A, nonce: &[u8; NONCE], _once: &OneTime, aad_len: usize, len: usize, chain: &mut Chain) {
        let b0 = Self::b0(nonce, aad_len, len);
        let (bytes, prefix_len) = prefix(aad_len);
        #[cfg(target_arch = "x86_64")]
        with_kernels!(key, key => key.begin(&mut chain.0, u128::from_ne_bytes(b0), &bytes[..prefix_len]));
        chain.0 = b0;
        key.encrypt(&mut chain.0);
        for (byte, prefix) in chain.0.iter_mut().zip(&bytes[..prefix_len]) {
            *byte ^= prefix;
        }
    }

    fn portion(aad_len: usize, done: usize) -> usize {
        let room = if done == 0 { 16 - prefix(aad_len).1 } else { 16 };
        room.min(aad_len - done)
    }

    fn associate(key: &A, chain: &mut Chain, aad_len: usize, done: usize, portion: &[u8]) {
        let held = if done == 0 { prefix(aad_len).1 } else { 0 };
        #[cfg(target_arch = "x86_64")]
        with_kernels!(key, key => key.take(&mut chain.0, held, portion));
        for (byte, new) in chain.0[held..].iter_mut().zip(portion) {
            *byte ^= new;
        }
        key.encrypt(&mut chain.0);
    }

    fn absorb(key: &A, chain: &mut Chain, blocks: &[u8], _out: &mut [u8]) {
        let (blocks, _) = blocks.as_chunks::<16>();
        #[cfg(target_arch = "x86_64")]
        with_kernels!(key, key => key.chain(&mut chain.0, blocks));
        for block in blocks {
            xor_in(&mut chain.0, block);
            key.encrypt(&mut chain.0);
        }
    }

    fn settle_front(key: &A, chain: &mut Chain, tail: &[u8]) {
        for (byte, new) in chain.0.iter_mut().zip(tail) {
            *byte ^= new;
        }
        #[cfg(target_arch = "x86_64")]
        with_kernels!(key, key => key.fold(&mut chain.0));
        key.fold(&mut chain.0);
    }

    #[inline(always)]
    fn seal_rest(
        key: &A,
        once: &OneTime,
        chain: &Chain,
        _sizes: Sizes,
        tail: &[u8],
        rest: &[u8],
        out: &mut [u8],
        tag: &mut [u8; TAG],
    ) {
        let within = tail.len();
        #[cfg(target_arch = "x86_64")]
        with_kernels!(key, key => key.seal_rest(&chain.0, within, rest, out, &once.mask, tag));
        let out = &mut out[within..][..rest.len()];
        Self::seal_rest_anywhere(key, once, chain, within, rest, out, tag);
    }

    #[inline]
    fn open_rest(
        key: &A,
        once: &OneTime,
        chain: &Chain,
        _sizes: Sizes,
        tail: &[u8],
        stream: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; TAG],
    ) {
        let (dst_tail, dst) = dst.split_at_mut(tail.len());
        dst_tail.copy_from_slice(tail);
        let (within, src, stream) = (tail.len(), &src[tail.len()..], &stream[tail.len()..]);
        #[cfg(target_arch = "x86_64")]
        with_kernels!(key, key => {
            *tag = cut(&key.open_rest(&chain.0, within, stream, src, dst, &once.mask));
        });
        dst.copy_from_slice(src);
        xor(dst, stream);
        let mut mac = Block(chain.0);
        Self::rest(key, &mut mac.0, within, dst);
        key.finish(&mac.0, &once.mask, tag);
    }
}

impl<A: BlockCipher, const NONCE: usize, const TAG: usize> AesCcm<A, NONCE, TAG> {
    /// As `seal_rest`, for any block cipher. Out of line on x86-64, where the kernels replace it.
    #[cfg_attr(target_arch = "x86_64", cold, inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline)]
    fn seal_rest_anywhere(
        key: &A,
        once: &OneTime,
        chain: &Chain,
        within: usize,
        rest: &[u8],
        out: &mut [u8],
        tag: &mut [u8; TAG],
    ) {
        // One block is the usual case, and its size is a constant.
        if let (0, Ok(block), Ok(out)) =
            (within, <&[u8; 16]>::try_from(rest), <&mut [u8; 16]>::try_from(&mut *out))
        {
            let mac = sum(&chain.0, block);
            xor_in(out, block);
            return key.finish(&mac.0, &once.mask, tag);
        }
        let mut mac = Block(chain.0);
        Self::rest(key, &mut mac.0, within, rest);
        xor(out, rest);
        key.finish(&mac.0, &once.mask, tag);
    }

    /// Adds the rest to a settled chain, and leaves its last block unencrypted.
    #[inline]
    fn rest(key: &A, mac: &mut [u8; 16], within: usize, rest: &[u8]) {
        let (first, later) = rest.split_at(rest.len().min(16 - within));
        for (byte, new) in mac[within..].iter_mut().zip(first) {
            *byte ^= new;
        }
        let (blocks, last) = later.as_chunks::<16>();
        for block in blocks {
            key.advance(mac);
            xor_in(mac, block);
        }
        if !last.is_empty() {
            key.advance(mac);
            for (byte, new) in mac.iter_mut().zip(last) {
                *byte ^= new;
            }
        }
    }
}

/// XORs bytes of equal length, by whole blocks first.
#[inline]
fn xor(data: &mut [u8], with: &[u8]) {
    let (blocks, rest) = data.as_chunks_mut::<16>();
    let (others, rest_of_others) = with.as_chunks::<16>();
    for (block, other) in blocks.iter_mut().zip(others) {
        xor_in(block, other);
    }
    for (byte, other) in rest.iter_mut().zip(rest_of_others) {
        *byte ^= other;
    }
}

impl<A, const NONCE: usize, const TAG: usize> fmt::Debug for AesCcm<A, NONCE, TAG> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(0, TAG))
    }
}
