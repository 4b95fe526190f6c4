//! AES-128-OCB3 (RFC 7253) with nonces of 96 bits and tags of 128.
//!
//! Every block is encrypted by itself, under an offset that depends on the nonce and the block's
//! number. The tag is the encryption of the XOR of all plaintext blocks. So any known block can be
//! encrypted in preparation.

#[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
use crate::backend::table::cipher::BothWays;
#[cfg(target_arch = "x86_64")]
use crate::backend::x86::ocb3 as x86;
#[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
use crate::backend::{fours::Aes, round_keys};
use crate::{
    Backend, Suite,
    backend::{
        modes::{
            ocb3 as portable,
            ocb3_holes::{Sum, Weight, bytes_in_block, mark},
        },
        portably,
    },
    buffers::Buffers,
    bytes::Tagged,
    holes::{Filling, Piece, Reading, Shape, Spot, Stretch, Values, WeightedMac},
    suites::{
        engine::{Engine, at_most},
        sparse::SparseEngine,
    },
};
use zeroize::Zeroize;

/// AES-OCB3 with a key of 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aes128Ocb3;

impl Suite for Aes128Ocb3 {
    const NAME: &'static str = "aes-128-ocb3";
    const KEY_LEN: usize = 16;
}

/// An expanded key, in its backend's form.
#[allow(clippy::large_enum_variant, reason = "a key stays where it was made")]
pub enum Expanded {
    Portable(portable::Key),
    #[cfg(target_arch = "x86_64")]
    X86(x86::Key),
}

/// Calls a method on the key, in either form.
macro_rules! with {
    ($expanded:expr, $key:ident => $call:expr) => {
        match $expanded {
            Expanded::Portable($key) => portably(|| $call),
            #[cfg(target_arch = "x86_64")]
            Expanded::X86($key) => $call,
        }
    };
}

/// The output of a nonce: the offset before the first block.
#[derive(Default)]
pub struct OneTime {
    offset: u128,
}

impl Zeroize for OneTime {
    #[inline]
    fn zeroize(&mut self) {
        self.offset.zeroize();
    }
}

impl Tagged for Aes128Ocb3 {
    type TagBytes = [u8; 16];
}

impl Engine for Aes128Ocb3 {
    type Key = Expanded;
    type OneTime = OneTime;
    type NonceBytes = [u8; 12];
    const STREAMS: bool = false;
    // Block 2^32 has no L in the table of masks.
    const MAX_PAYLOAD: usize = at_most((1 << 36) - 1);

    fn expand(key: &[u8], backend: Backend) -> Expanded {
        #[cfg(any(feature = "table-aes-1k", feature = "table-aes-2k"))]
        let aes = BothWays::new(key);
        #[cfg(not(any(feature = "table-aes-1k", feature = "table-aes-2k")))]
        let aes = {
            let round_keys = round_keys(key, backend);
            #[cfg(target_arch = "x86_64")]
            if let Some(key) = x86::Key::new(&round_keys, backend) {
                return Expanded::X86(key);
            }
            Aes::new(&round_keys, backend)
        };
        let _ = backend;
        Expanded::Portable(portable::Key::new(aes))
    }

    fn prepare_once(key: &Expanded, nonce: &[u8; 12], once: &mut OneTime) {
        once.offset = with!(key, key => key.offset(nonce));
    }

    fn prepare_stream(_key: &Expanded, _nonce: &[u8; 12], _first: usize, _out: &mut [u8]) {}

    fn seal(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        match key {
            Expanded::Portable(key) => portably(|| key.packet::<true>(key.offset(nonce), &[aad], buffers)),
            #[cfg(target_arch = "x86_64")]
            Expanded::X86(key) => key.one_shot::<true>(nonce, aad, buffers),
        }
    }

    fn open(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        match key {
            Expanded::Portable(key) => portably(|| key.packet::<false>(key.offset(nonce), &[aad], buffers)),
            #[cfg(target_arch = "x86_64")]
            Expanded::X86(key) => key.one_shot::<false>(nonce, aad, buffers),
        }
    }

    fn seal_prepared(
        key: &Expanded,
        _nonce: &[u8; 12],
        once: &OneTime,
        _stream: &mut [u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        *tag = match key {
            Expanded::Portable(key) => portably(|| key.packet::<true>(once.offset, &[aad], buffers)),
            #[cfg(target_arch = "x86_64")]
            Expanded::X86(key) => key.prepared::<true>(once.offset, aad, buffers),
        };
    }

    fn open_prepared(
        key: &Expanded,
        _nonce: &[u8; 12],
        once: &OneTime,
        _stream: &[u8],
        aad: &[u8],
        buffers: Buffers<'_>,
        tag: &mut [u8; 16],
    ) {
        *tag = match key {
            Expanded::Portable(key) => portably(|| key.packet::<false>(once.offset, &[aad], buffers)),
            #[cfg(target_arch = "x86_64")]
            Expanded::X86(key) => key.prepared::<false>(once.offset, aad, buffers),
        };
    }

    fn authenticate(key: &Expanded, _nonce: &[u8; 12], once: &OneTime, aad: &[&[u8]]) -> [u8; 16] {
        match key {
            Expanded::Portable(key) => key.packet::<true>(once.offset, aad, Buffers::InPlace(&mut [])),
            #[cfg(target_arch = "x86_64")]
            Expanded::X86(key) => key.authenticate(once.offset, aad),
        }
    }
}

impl Expanded {
    fn masks(&self) -> &portable::Masks {
        with!(self, key => &key.masks)
    }

    fn encrypt_one(&self, block: u128) -> u128 {
        with!(self, key => key.encrypt_one(block))
    }
}

impl WeightedMac for Aes128Ocb3 {
    type Sum = Sum;
    type Weight = Weight;
}

impl SparseEngine for Aes128Ocb3 {
    const BY_BLOCK: bool = true;

    // A payload block with a hole is encrypted with the template's bytes, and replaced when the
    // values are there.
    fn absorb(key: &Expanded, once: &OneTime, sum: &mut Sum, spots: &[Spot<Weight>], stretch: Stretch<'_>) {
        let Stretch { aad, aad_from, payload, payload_from, body } = stretch;
        let masks = key.masks();
        for (i, bytes) in aad.chunks(16).enumerate() {
            let index = aad_from + i;
            if spots.iter().any(|spot| !spot.piece.in_payload() && spot.piece.at() == 16 * index) {
                continue;
            }
            sum.hash ^= with!(key, key => key.associated(index, bytes));
        }
        let whole = payload.len() - payload.len() % 16;
        let (blocks, rest) = payload.split_at(whole);
        let first = once.offset ^ masks.offset(payload_from);
        sum.checksum ^= with!(key, key => key.stretch(first, payload_from, blocks, &mut body[..whole]));
        if !rest.is_empty() {
            let offset = first ^ masks.between(payload_from, payload_from + whole / 16);
            sum.checksum ^= with!(key, key => key.last(offset, rest, &mut body[whole..]));
        }
    }

    fn close(key: &Expanded, once: &OneTime, sum: &mut Sum, shape: &Shape) {
        let masks = key.masks();
        let last = if shape.payload.is_multiple_of(16) { 0 } else { masks.star };
        sum.checksum ^= once.offset ^ masks.offset(shape.payload / 16) ^ last ^ masks.dollar;
    }

    fn weigh(
        key: &Expanded,
        once: &OneTime,
        sum: &mut Sum,
        shape: &Shape,
        piece: &Piece,
        block: u128,
        _body: &mut [u8],
    ) -> Weight {
        let masks = key.masks();
        let had = (block & piece.bits()).to_le();
        if piece.in_payload() {
            sum.checksum ^= had;
        }
        if !piece.lead() {
            return Weight { input: had, ..Weight::default() };
        }
        let rest = block.to_le() ^ had;
        let index = piece.at() / 16;
        let len = if piece.in_payload() { shape.payload } else { shape.aad };
        let bytes = bytes_in_block(piece.at(), len);
        let base = if piece.in_payload() { once.offset } else { 0 };
        if bytes == 16 {
            let offset = base ^ masks.offset(index + 1);
            return Weight { input: rest ^ offset, offset, ciphered: 1 };
        }
        let offset = base ^ masks.offset(index) ^ masks.star;
        let padded = rest ^ mark(bytes);
        if !piece.in_payload() {
            return Weight { input: padded ^ offset, offset, ciphered: 1 };
        }
        // The key stream's bytes, and the padding mark, which is not part of the ciphertext.
        let pad = key.encrypt_one(offset) & (u128::MAX >> (128 - 8 * bytes)).to_le();
        Weight { input: padded, offset: pad ^ mark(bytes), ciphered: 0 }
    }

    #[inline]
    fn fill<V: Values, const N: usize>(key: &Expanded, filling: Filling<'_, Self, V, N>) {
        with!(key, key => key.fill(filling));
    }

    #[inline]
    fn check<const N: usize>(key: &Expanded, reading: Reading<'_, Self, N>) -> [u8; 16] {
        with!(key, key => key.check(reading))
    }
}
