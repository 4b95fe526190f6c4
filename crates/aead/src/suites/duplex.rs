//! The common part of AEGIS-128L, MORUS-1280 and Ascon-AEAD128.
//!
//! Their state takes key and nonce, then the associated data, then the payload block by block, and
//! gives the tag. The state is the preparation. Each suite provides a [`Duplex`], and the macros
//! make its engine.

use crate::{Backend, buffers::Buffers};
use zeroize::Zeroize;

/// A key of a cipher with one state.
pub trait Duplex {
    /// The state; wipes itself when dropped.
    type State: Default + Clone + Zeroize;

    /// Bytes of a block.
    const RATE: usize;

    /// Takes the key.
    fn expand(key: &[u8], backend: Backend) -> Self;

    /// Sets the state for a nonce.
    fn start(&self, state: &mut Self::State, nonce: &[u8; 16]);

    /// Absorbs all of the associated data, in pieces that are read as one, and returns its length.
    fn absorb(&self, state: &mut Self::State, aad: &[&[u8]]) -> usize;

    /// Absorbs the next part of the associated data: `RATE` bytes, or less if it is the last.
    fn associate(&self, state: &mut Self::State, part: &[u8], last: bool) {
        let _ = last;
        self.absorb(state, &[part]);
    }

    /// Encrypts a block that is not the packet's last: `RATE` bytes.
    fn block(&self, state: &mut Self::State, block: &mut [u8]);

    /// Absorbs the associated data if it is given, encrypts or decrypts the rest of the packet, and
    /// returns the tag. `lengths` are those of the whole packet's associated data and payload. The
    /// state stays unchanged.
    fn finish<const SEAL: bool>(
        &self,
        state: &Self::State,
        aad: Option<&[u8]>,
        buffers: Buffers<'_>,
        lengths: (usize, usize),
    ) -> [u8; 16];
}

/// Implements the engine of a duplex.
macro_rules! engine {
    ($suite:ty, $key:ty) => {
        impl crate::bytes::Tagged for $suite {
            type TagBytes = [u8; 16];
        }

        impl crate::suites::engine::Engine for $suite {
            type Key = $key;
            type OneTime = <$key as Duplex>::State;
            type NonceBytes = [u8; 16];
            const STREAMS: bool = false;

            fn expand(key: &[u8], backend: Backend) -> $key {
                Duplex::expand(key, backend)
            }

            fn prepare_once(key: &$key, nonce: &[u8; 16], once: &mut Self::OneTime) {
                key.start(once, nonce);
            }

            fn prepare_stream(_key: &$key, _nonce: &[u8; 16], _first: usize, _out: &mut [u8]) {}

            fn seal(key: &$key, nonce: &[u8; 16], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                let mut state = Self::OneTime::default();
                key.start(&mut state, nonce);
                let lengths = (aad.len(), buffers.len());
                key.finish::<true>(&state, Some(aad), buffers, lengths)
            }

            fn open(key: &$key, nonce: &[u8; 16], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
                let mut state = Self::OneTime::default();
                key.start(&mut state, nonce);
                let lengths = (aad.len(), buffers.len());
                key.finish::<false>(&state, Some(aad), buffers, lengths)
            }

            fn seal_prepared(
                key: &$key,
                _nonce: &[u8; 16],
                once: &Self::OneTime,
                _stream: &mut [u8],
                aad: &[u8],
                buffers: Buffers<'_>,
                tag: &mut [u8; 16],
            ) {
                let lengths = (aad.len(), buffers.len());
                *tag = key.finish::<true>(once, Some(aad), buffers, lengths);
            }

            fn open_prepared(
                key: &$key,
                _nonce: &[u8; 16],
                once: &Self::OneTime,
                _stream: &[u8],
                aad: &[u8],
                buffers: Buffers<'_>,
                tag: &mut [u8; 16],
            ) {
                let lengths = (aad.len(), buffers.len());
                *tag = key.finish::<false>(once, Some(aad), buffers, lengths);
            }

            fn authenticate(key: &$key, nonce: &[u8; 16], _once: &Self::OneTime, aad: &[&[u8]]) -> [u8; 16] {
                let mut state = Self::OneTime::default();
                key.start(&mut state, nonce);
                let length = key.absorb(&mut state, aad);
                key.finish::<true>(&state, None, Buffers::InPlace(&mut []), (length, 0))
            }
        }

        impl crate::suites::serial::Serial for $suite {
            type Chain = Self::OneTime;
            const RATE: usize = <$key as Duplex>::RATE;
            const LENGTH_FIRST: bool = false;

            fn begin(
                key: &$key,
                _nonce: &[u8; 16],
                once: &Self::OneTime,
                aad_len: usize,
                _len: usize,
                chain: &mut Self::Chain,
            ) {
                chain.clone_from(once);
                if aad_len == 0 {
                    key.absorb(chain, &[]);
                }
            }

            fn portion(aad_len: usize, done: usize) -> usize {
                <Self as crate::suites::serial::Serial>::RATE.min(aad_len - done)
            }

            fn associate(key: &$key, chain: &mut Self::Chain, aad_len: usize, done: usize, portion: &[u8]) {
                key.associate(chain, portion, done + portion.len() == aad_len);
            }

            fn absorb(key: &$key, chain: &mut Self::Chain, block: &[u8], out: &mut [u8]) {
                out.copy_from_slice(block);
                key.block(chain, out);
            }

            // A state takes whole blocks only; the tail comes with the rest.
            fn settle_front(_key: &$key, _chain: &mut Self::Chain, _tail: &[u8]) {}

            fn seal_rest(
                key: &$key,
                _once: &Self::OneTime,
                chain: &Self::Chain,
                sizes: crate::suites::serial::Sizes,
                tail: &[u8],
                rest: &[u8],
                out: &mut [u8],
                tag: &mut [u8; 16],
            ) {
                let lengths = (sizes.aad, sizes.payload);
                let buffers = if tail.is_empty() {
                    Buffers::apart(rest, out)
                } else {
                    let (first, second) = out.split_at_mut(tail.len());
                    first.copy_from_slice(tail);
                    second.copy_from_slice(rest);
                    Buffers::InPlace(out)
                };
                *tag = key.finish::<true>(chain, None, buffers, lengths);
            }

            fn open_rest(
                key: &$key,
                _once: &Self::OneTime,
                chain: &Self::Chain,
                sizes: crate::suites::serial::Sizes,
                _tail: &[u8],
                _stream: &[u8],
                src: &[u8],
                dst: &mut [u8],
                tag: &mut [u8; 16],
            ) {
                let lengths = (sizes.aad, sizes.payload);
                *tag = key.finish::<false>(chain, None, Buffers::Apart(src, dst), lengths);
            }
        }
    };
}

pub(crate) use engine;

/// Implements the key of a suite with kernels for 32 bytes at a time: AEGIS-128L and MORUS-1280.
macro_rules! key {
    ($kernels:ident) => {
        use $crate::{
            Backend,
            backend::kernels::$kernels::Kernels,
            backend::portable::{
                pieces,
                $kernels::{RATE, State},
            },
            buffers::Buffers,
            suites::duplex::Duplex,
        };
        use zeroize::Zeroize;

        /// The key and its backend's kernels.
        pub struct Expanded {
            key: [u8; 16],
            kernels: Option<Kernels>,
        }

        impl Drop for Expanded {
            fn drop(&mut self) {
                self.key.zeroize();
            }
        }

        impl Duplex for Expanded {
            type State = State;
            const RATE: usize = RATE;

            fn expand(key: &[u8], backend: Backend) -> Self {
                let mut expanded = Self { key: [0; 16], kernels: Kernels::new(backend) };
                expanded.key.copy_from_slice(key);
                expanded
            }

            fn start(&self, state: &mut State, nonce: &[u8; 16]) {
                if let Some(kernels) = self.kernels {
                    return kernels.start(state, &self.key, nonce);
                }
                state.start(&self.key, nonce);
            }

            fn absorb(&self, state: &mut State, aad: &[&[u8]]) -> usize {
                pieces::staged::<RATE>(aad, |part| {
                    if let Some(kernels) = self.kernels {
                        return kernels.absorb(state, part);
                    }
                    state.absorb(part);
                })
            }

            fn block(&self, state: &mut State, block: &mut [u8]) {
                if let Some(kernels) = self.kernels {
                    return kernels.block(state, block);
                }
                state.crypt::<true>(block);
            }

            fn finish<const SEAL: bool>(
                &self,
                state: &State,
                aad: Option<&[u8]>,
                buffers: Buffers<'_>,
                lengths: (usize, usize),
            ) -> [u8; 16] {
                let aad = aad.unwrap_or_default();
                if let Some(kernels) = self.kernels {
                    return kernels.finish::<SEAL>(state, aad, buffers, lengths);
                }
                state.finish::<SEAL>(aad, buffers.into_in_place(), lengths)
            }
        }
    };
}

pub(crate) use key;
