//! AES-GCM (NIST SP 800-38D) with nonces of 96 bits and tags of 128.
//!
//! The nonce gives the key stream and E(J0), the mask of the tag; the key gives the powers of H.
//! All AES work is done in preparation; an XOR and a GHASH are left for the data.

#[cfg(target_arch = "x86_64")]
use crate::holes::Template;
use crate::{
    Backend, Suite,
    backend::{
        modes::gcm::{self as portable, Gcm, Predicted},
        portable::ghash::Power,
        portably, round_keys,
    },
    buffers::Buffers,
    bytes::Tagged,
    holes::{Filling, Head, Piece, Reading, Shape, Spot, Stretch, Values, WeightedMac, xor_block_at},
    suites::{
        engine::{Engine, at_most},
        linear::LinearEngine,
        sparse::SparseEngine,
    },
};
#[cfg(target_arch = "x86_64")]
use crate::{backend::x86::gcm as x86, holes::FillingOne};
use zeroize::Zeroize;

/// AES-GCM with a key of 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aes128Gcm;

/// AES-GCM with a key of 256 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aes256Gcm;

impl Suite for Aes128Gcm {
    const NAME: &'static str = "aes-128-gcm";
    const KEY_LEN: usize = 16;
}

impl Suite for Aes256Gcm {
    const NAME: &'static str = "aes-256-gcm";
    const KEY_LEN: usize = 32;
}

/// An expanded key for AES of `R` rounds, in its backend's form.
#[allow(clippy::large_enum_variant, reason = "a key stays where it was made")]
pub enum Expanded<const R: usize> {
    Portable(portable::Key),
    #[cfg(target_arch = "x86_64")]
    X86(x86::Key<R>),
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

/// The output of a nonce besides the key stream: E(J0), in memory order.
#[derive(Default)]
pub struct OneTime {
    mask: u128,
}

impl Zeroize for OneTime {
    #[inline]
    fn zeroize(&mut self) {
        self.mask.zeroize();
    }
}

/// Out of line with its arguments in registers, so that the caller's fast path spills nothing.
#[inline(never)]
fn fill_by_key<S: Gcm, V: Values, const R: usize, const N: usize>(
    key: &Expanded<R>,
    head: &mut Head<S, N>,
    values: V,
    body: &mut [u8],
) {
    let Some(filling) = Filling::new(head, values, body) else { return };
    // The fill functions are out of line.
    match key {
        Expanded::Portable(key) => key.fill(filling),
        #[cfg(target_arch = "x86_64")]
        Expanded::X86(key) => key.fill(filling),
    }
}

macro_rules! engine {
    ($suite:ty, $rounds:literal) => {
        impl Tagged for $suite {
            type TagBytes = [u8; 16];
        }

        impl Engine for $suite {
            type Key = Expanded<$rounds>;
            type OneTime = OneTime;
            type NonceBytes = [u8; 12];
            const STREAMS: bool = true;
            // SP 800-38D section 5.2.1.1.
            const MAX_PAYLOAD: usize = at_most((1 << 36) - 32);

            fn expand(key: &[u8], backend: Backend) -> Self::Key {
                let round_keys = round_keys(key, backend);
                #[cfg(target_arch = "x86_64")]
                if let Some(key) = x86::Key::new(&round_keys, backend) {
                    return Expanded::X86(key);
                }
                Expanded::Portable(portable::Key::new(&round_keys, backend))
            }

            fn prepare_once(key: &Self::Key, nonce: &[u8; 12], once: &mut OneTime) {
                with!(key, key => key.mask(nonce, &mut once.mask));
            }

            fn prepare_stream(key: &Self::Key, nonce: &[u8; 12], first: usize, out: &mut [u8]) {
                with!(key, key => key.stream(nonce, first, out));
            }

            fn seal(key: &Self::Key, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                with!(key, key => key.seal(nonce, aad, buffers))
            }

            fn open(key: &Self::Key, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                with!(key, key => key.open(nonce, aad, buffers))
            }

            #[inline(always)]
            fn seal_prepared(
                key: &Self::Key,
                _nonce: &[u8; 12],
                once: &OneTime,
                stream: &mut [u8],
                aad: &[u8],
                buffers: Buffers<'_>,
                tag: &mut [u8; 16],
            ) {
                with!(key, key => key.seal_prepared(&once.mask, stream, aad, buffers, tag))
            }

            #[inline]
            fn open_prepared(
                key: &Self::Key,
                _nonce: &[u8; 12],
                once: &OneTime,
                stream: &[u8],
                aad: &[u8],
                buffers: Buffers<'_>,
                tag: &mut [u8; 16],
            ) {
                with!(key, key => key.open_prepared(&once.mask, stream, aad, buffers, tag))
            }

            #[inline(always)]
            fn open_and_wipe(
                key: &Self::Key,
                nonce: &[u8; 12],
                once: &OneTime,
                stream: &mut [u8],
                aad: &[u8],
                buffers: Buffers<'_>,
                tag: &mut [u8; 16],
            ) -> bool {
                #[cfg(target_arch = "x86_64")]
                if let Expanded::X86(key) = key {
                    return key.open_and_wipe(&once.mask, stream, aad, buffers, tag);
                }
                Self::open_prepared(key, nonce, once, stream, aad, buffers, tag);
                false
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn seal_in_one_piece(
                key: &Self::Key,
                once: &OneTime,
                stream: &mut [u8],
                aad: &[u8],
                packet: &mut [u8],
            ) -> bool {
                let Expanded::X86(key) = key else { return false };
                key.seal_in_one_piece(&once.mask, stream, aad, packet)
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn open_in_one_piece(
                key: &Self::Key,
                once: &OneTime,
                stream: &mut [u8],
                aad: &[u8],
                packet: &mut [u8],
            ) -> Option<bool> {
                let Expanded::X86(key) = key else { return None };
                key.open_in_one_piece(&once.mask, stream, aad, packet)
            }

            #[inline]
            fn touch(key: &Self::Key, len: usize) {
                #[cfg(target_arch = "x86_64")]
                if let Expanded::X86(key) = key {
                    key.touch(len);
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = (key, len);
            }

            fn authenticate(
                key: &Self::Key,
                _nonce: &[u8; 12],
                once: &OneTime,
                aad: &[&[u8]],
            ) -> [u8; 16] {
                with!(key, key => key.authenticate(&once.mask, aad))
            }

            #[inline]
            fn wipe(key: &Self::Key, bytes: &mut [u8]) {
                with!(key, key => key.wipe(bytes))
            }
        }

        impl WeightedMac for $suite {
            type Sum = Predicted;
            type Weight = Power;
        }

        impl SparseEngine for $suite {
            const BY_BLOCK: bool = false;

            #[cfg(target_arch = "x86_64")]
            fn prepare_whole(
                key: &Self::Key,
                nonce: &[u8; 12],
                sum: &mut Predicted,
                spots: &mut [Spot<Power>],
                template: &Template<'_>,
                body: &mut [u8],
            ) -> bool {
                let Expanded::X86(key) = key else { return false };
                key.prepare_whole(nonce, sum, spots, template, body);
                true
            }

            fn absorb(
                key: &Self::Key,
                _once: &OneTime,
                sum: &mut Predicted,
                _spots: &[Spot<Power>],
                stretch: Stretch<'_>,
            ) {
                with!(key, key => key.absorb(&mut sum.hash, stretch));
            }

            fn close(key: &Self::Key, once: &OneTime, sum: &mut Predicted, shape: &Shape) {
                let lengths = portable::lengths(shape.aad, shape.payload);
                let hash = with!(key, key => key.times(sum.hash ^ u128::from_be_bytes(lengths)));
                sum.hash = hash ^ u128::from_be(once.mask);
                #[cfg(target_arch = "x86_64")]
                if let Expanded::X86(key) = key {
                    sum.holes = Some(key.holes());
                }
            }

            // XOR is its own difference: the tag depends on the values alone, not on the key
            // stream.
            fn weigh(
                key: &Self::Key,
                _once: &OneTime,
                sum: &mut Predicted,
                shape: &Shape,
                piece: &Piece,
                block: u128,
                body: &mut [u8],
            ) -> Power {
                let had = block & piece.bits();
                let weight = with!(key, key => key.power(shape.distance(piece.block(shape))));
                sum.hash ^= with!(key, key => key.product(had.swap_bytes(), &weight));
                if piece.in_payload() {
                    xor_block_at(body, piece.at(), had);
                }
                weight
            }

            #[inline(always)]
            fn fill<V: Values, const N: usize>(key: &Self::Key, filling: Filling<'_, Self, V, N>) {
                #[cfg(target_arch = "x86_64")]
                if let Some(holes) = filling.sum().holes {
                    return holes.fill(filling);
                }
                let (head, values, body) = filling.parts();
                fill_by_key(key, head, values, body);
            }

            #[inline(always)]
            #[cfg(target_arch = "x86_64")]
            fn fill_one<const N: usize>(filling: FillingOne<'_, Self, N>) -> bool {
                filling.sum().holes.is_some_and(|holes| holes.fill_one(filling))
            }

            #[inline(always)]
            fn check<const N: usize>(key: &Self::Key, reading: Reading<'_, Self, N>) -> [u8; 16] {
                #[cfg(target_arch = "x86_64")]
                if let Some(holes) = reading.sum().holes {
                    return holes.check(reading);
                }
                with!(key, key => key.check(reading))
            }
        }

        impl LinearEngine for $suite {
            fn add_stream(key: &Self::Key, mac: &mut u128, stream: &mut [u8], len: usize) {
                /// Plaintext of zeros, which leaves the key stream unchanged.
                const NOTHING: [u8; 512] = [0; 512];
                for (index, body) in stream.chunks_mut(NOTHING.len()).enumerate() {
                    let len = len.saturating_sub(index * NOTHING.len()).min(NOTHING.len());
                    let stretch =
                        Stretch { aad: &[], aad_from: 0, payload: &NOTHING[..len], payload_from: 0, body };
                    with!(key, key => key.absorb(mac, stretch));
                }
            }

            fn close_stream(key: &Self::Key, once: &OneTime, mac: u128) -> u128 {
                with!(key, key => key.times(mac)) ^ u128::from_be(once.mask)
            }

            fn flow_half(sum: &Predicted) -> u128 {
                sum.hash
            }

            #[inline]
            fn product(key: &Self::Key, block: u128, weight: &Power) -> u128 {
                with!(key, key => key.product(block, weight))
            }

            fn tag(sum: u128) -> [u8; 16] {
                sum.to_be_bytes()
            }
        }
    };
}

engine!(Aes128Gcm, 10);
engine!(Aes256Gcm, 14);
