//! A publisher's key in the engine, with the memory for what is prepared.

use alloc::boxed::Box;

use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, Aes256Gcm, ChaCha20Poly1305, CoseCcm16_64_128, FrontSlot, InvalidKeyLength, Key,
    Prepared, SealPool, Sparse, Suite, TemplateSlot,
};

use super::Algorithm;
use super::cipher::Blocks;
use super::derive::Material;
use super::numbers::{Nonces, Numbers};

/// Bytes of payload that are prepared at most.
pub(super) const CAP: usize = 1024;
/// Blocks that a template's holes may touch.
pub(super) const BLOCKS: usize = 32;

/// A key with its numbers, and the next publish.
pub(super) struct Pair<S: Suite<NonceBytes = [u8; LEN]>, M, N: Numbers, const LEN: usize> {
    /// For any payload.
    pub(super) pool: SealPool<S, Nonces<N>, 1, CAP>,
    /// For a template.
    pub(super) slot: M,
}

impl<S: Suite<NonceBytes = [u8; LEN]>, M, N: Numbers, const LEN: usize> Pair<S, M, N, LEN> {
    fn new(material: &Material, numbers: N, slot: M) -> Result<Box<Self>, InvalidKeyLength> {
        let nonces = Nonces::new(material, numbers);
        Ok(Box::new(Self { pool: SealPool::new(Key::new(&material.key)?, nonces), slot }))
    }

    /// The next publish, prepared or not. One that was prepared before another one was published is burnt.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Prepared<'_, S, CAP>, N::Error> {
        if self.pool.next_number().is_some_and(|number| !self.pool.sequence().is_latest(number)) {
            drop(self.pool.next()?);
        }
        self.pool.next()
    }
}

pub(super) type SparsePair<S, N> = Pair<S, TemplateSlot<S, CAP, BLOCKS>, N, 12>;
pub(super) type FrontPair<S, N> = Pair<S, FrontSlot<S, CAP, 1>, N, 13>;

pub(super) enum Lane<N: Numbers> {
    Ccm(Box<FrontPair<CoseCcm16_64_128, N>>),
    Gcm128(Box<SparsePair<Aes128Gcm, N>>),
    Gcm256(Box<SparsePair<Aes256Gcm, N>>),
    ChaCha(Box<SparsePair<ChaCha20Poly1305, N>>),
    Ocb3(Box<SparsePair<Aes128Ocb3, N>>),
    Blocks(Box<Blocks>, N),
}

/// Calls the same on whichever pair there is.
macro_rules! each {
    ($lane:expr, $pair:ident => $call:expr, ($numbers:ident) => $otherwise:expr) => {
        match $lane {
            Lane::Ccm($pair) => $call,
            Lane::Gcm128($pair) => $call,
            Lane::Gcm256($pair) => $call,
            Lane::ChaCha($pair) => $call,
            Lane::Ocb3($pair) => $call,
            Lane::Blocks(_, $numbers) => $otherwise,
        }
    };
}
pub(super) use each;

impl<N: Numbers> Lane<N> {
    pub(super) fn new(material: &Material, numbers: N) -> Result<Self, InvalidKeyLength> {
        fn sparse<S: Sparse<NonceBytes = [u8; 12]>, N: Numbers>(
            material: &Material,
            numbers: N,
        ) -> Result<Box<SparsePair<S, N>>, InvalidKeyLength> {
            Pair::new(material, numbers, TemplateSlot::new())
        }
        Ok(match material.head.algorithm {
            Algorithm::AesCcm16_64_128 => Self::Ccm(Pair::new(material, numbers, FrontSlot::new())?),
            Algorithm::A128Gcm => Self::Gcm128(sparse(material, numbers)?),
            Algorithm::A256Gcm => Self::Gcm256(sparse(material, numbers)?),
            Algorithm::ChaCha20Poly1305 => Self::ChaCha(sparse(material, numbers)?),
            Algorithm::Aes128Ocb3 => Self::Ocb3(sparse(material, numbers)?),
            _ => Self::Blocks(Box::new(Blocks::new(material)?), numbers),
        })
    }

    pub(super) fn numbers_mut(&mut self) -> &mut N {
        each!(self, pair => &mut pair.pool.sequence_mut().numbers, (numbers) => numbers)
    }

    /// Prepares for a payload of up to `len` bytes.
    pub(super) fn idle(&mut self, len: usize, budget: u32) -> u32 {
        each!(self, pair => {
            if pair.pool.next_number().is_some_and(|number| !pair.pool.sequence().is_latest(number)) {
                drop(pair.pool.next());
            }
            pair.pool.set_reach(len);
            pair.pool.idle(budget)
        }, (_numbers) => 0)
    }
}
