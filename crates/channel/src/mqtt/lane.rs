//! A publisher's key in the engine, with memory for preparations.

use alloc::boxed::Box;

use antedate_aead::{
    Aes128Gcm, Aes128Ocb3, Aes256Gcm, ChaCha20Poly1305, CoseCcm16_64_128, FrontStandby, Key, KeyLengthError,
    Standby, TemplateStandby,
};

use super::Algorithm;
use super::cipher::{Blocks, CAP};
use super::derive::Material;
use super::numbers::{Nonces, Numbers};

/// The most blocks that a template's holes may touch.
pub(super) const BLOCKS: usize = 32;

pub(super) type Sparse<S, N> = TemplateStandby<S, Nonces<N>, CAP, BLOCKS>;
pub(super) type Fronted<S, N> = FrontStandby<S, Nonces<N>, CAP, 1>;

pub(super) enum Lane<N: Numbers> {
    Ccm(Box<Fronted<CoseCcm16_64_128, N>>),
    Gcm128(Box<Sparse<Aes128Gcm, N>>),
    Gcm256(Box<Sparse<Aes256Gcm, N>>),
    ChaCha(Box<Sparse<ChaCha20Poly1305, N>>),
    Ocb3(Box<Sparse<Aes128Ocb3, N>>),
    Blocks(Box<Blocks>, N),
}

/// Makes the same call for any suite.
macro_rules! each {
    ($lane:expr, $standby:ident => $call:expr, ($numbers:ident) => $otherwise:expr) => {
        match $lane {
            Lane::Ccm($standby) => $call,
            Lane::Gcm128($standby) => $call,
            Lane::Gcm256($standby) => $call,
            Lane::ChaCha($standby) => $call,
            Lane::Ocb3($standby) => $call,
            Lane::Blocks(_, $numbers) => $otherwise,
        }
    };
}
pub(super) use each;

impl<N: Numbers> Lane<N> {
    pub(super) fn new(material: &Material, numbers: N) -> Result<Self, KeyLengthError> {
        let nonces = Nonces::new(material, numbers);
        macro_rules! standby {
            () => {
                Box::new(Standby::new(Key::new(&material.key)?, nonces))
            };
        }
        Ok(match material.head.algorithm {
            Algorithm::AesCcm16_64_128 => Self::Ccm(standby!()),
            Algorithm::A128Gcm => Self::Gcm128(standby!()),
            Algorithm::A256Gcm => Self::Gcm256(standby!()),
            Algorithm::ChaCha20Poly1305 => Self::ChaCha(standby!()),
            Algorithm::Aes128Ocb3 => Self::Ocb3(standby!()),
            _ => Self::Blocks(Box::new(Blocks::new(material)?), nonces.numbers),
        })
    }

    pub(super) fn numbers_mut(&mut self) -> &mut N {
        each!(self, standby => &mut standby.sequence_mut().numbers, (numbers) => numbers)
    }

    /// Prepares for a payload of up to `len` bytes.
    pub(super) fn idle(&mut self, len: usize, budget: u32) -> u32 {
        each!(self, standby => standby.idle(len, budget), (_numbers) => 0)
    }
}
