//! Ascon-AEAD128: the portable code compiled for BMI1 and BMI2, where AND-NOT and a rotation into
//! another register are one instruction each.

use crate::{Backend, backend::portable::ascon::State};

/// Proof that the CPU supports the instructions; only `new` constructs it.
#[derive(Clone, Copy)]
pub(crate) struct Kernels(());

impl Kernels {
    /// Returns `None` unless the backend and the CPU have AVX-512, which implies BMI1 and BMI2.
    pub(crate) fn new(backend: Backend) -> Option<Self> {
        (backend.min(super::detect()) == Backend::Avx512).then_some(Self(()))
    }

    /// State after absorbing key and nonce.
    pub(crate) fn start(self, state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
        // SAFETY: `self` proves CPU support.
        unsafe { start(state, key, nonce) }
    }

    /// See [`State::absorb`].
    pub(crate) fn absorb(self, state: &mut State, aad: &[&[u8]]) {
        // SAFETY: `self` proves CPU support.
        unsafe { absorb(state, aad) }
    }

    /// See [`State::associate`].
    pub(crate) fn associate(self, state: &mut State, blocks: &[u8]) {
        // SAFETY: `self` proves CPU support.
        unsafe { associate(state, blocks) }
    }

    /// See [`State::block`].
    pub(crate) fn block(self, state: &mut State, data: &mut [u8]) {
        // SAFETY: `self` proves CPU support.
        unsafe { block(state, data) }
    }

    /// See [`State::finish`].
    pub(crate) fn finish<const SEAL: bool>(
        self,
        state: &State,
        aad: Option<&[u8]>,
        data: &mut [u8],
    ) -> [u8; 16] {
        // SAFETY: `self` proves CPU support.
        unsafe { finish::<SEAL>(state, aad, data) }
    }
}

#[target_feature(enable = "bmi1,bmi2")]
unsafe fn start(state: &mut State, key: &[u8; 16], nonce: &[u8; 16]) {
    state.start(key, nonce);
}

#[target_feature(enable = "bmi1,bmi2")]
unsafe fn absorb(state: &mut State, aad: &[&[u8]]) {
    state.absorb(aad);
}

#[target_feature(enable = "bmi1,bmi2")]
unsafe fn associate(state: &mut State, blocks: &[u8]) {
    state.associate(blocks);
}

#[target_feature(enable = "bmi1,bmi2")]
unsafe fn block(state: &mut State, data: &mut [u8]) {
    state.block(data);
}

#[target_feature(enable = "bmi1,bmi2")]
unsafe fn finish<const SEAL: bool>(state: &State, aad: Option<&[u8]>, data: &mut [u8]) -> [u8; 16] {
    state.finish::<SEAL>(aad, data)
}
