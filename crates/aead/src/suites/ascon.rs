//! Ascon-AEAD128 (NIST SP 800-232 section 4), the lightweight standard; not the older Ascon-128 of
//! the competition.
//!
//! The state has 40 bytes. Key and nonce take twelve rounds of the permutation, each 16 bytes of
//! the packet eight, and the end twelve.

#[cfg(target_arch = "x86_64")]
use crate::backend::x86::ascon::Kernels;
use crate::{
    Backend, Suite,
    backend::portable::ascon::{RATE, State},
    buffers::Buffers,
    suites::duplex::{self, Duplex},
};
use zeroize::Zeroize;

/// Ascon-AEAD128.
#[derive(Clone, Copy, Debug)]
pub struct AsconAead128;

impl Suite for AsconAead128 {
    const NAME: &'static str = "ascon-aead128";
    const KEY_LEN: usize = 16;
}

duplex::engine!(AsconAead128, Expanded);

/// The key and its backend's kernels.
pub struct Expanded {
    key: [u8; 16],
    #[cfg(target_arch = "x86_64")]
    x86: Option<Kernels>,
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
        let _ = backend;
        let mut expanded = Self {
            key: [0; 16],
            #[cfg(target_arch = "x86_64")]
            x86: Kernels::new(backend),
        };
        expanded.key.copy_from_slice(key);
        expanded
    }

    fn start(&self, state: &mut State, nonce: &[u8; 16]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = self.x86 {
            return kernels.start(state, &self.key, nonce);
        }
        state.start(&self.key, nonce);
    }

    fn absorb(&self, state: &mut State, aad: &[&[u8]]) -> usize {
        let length = aad.iter().map(|piece| piece.len()).sum();
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = self.x86 {
            kernels.absorb(state, aad);
            return length;
        }
        state.absorb(aad);
        length
    }

    fn associate(&self, state: &mut State, part: &[u8], last: bool) {
        if last {
            self.absorb(state, &[part]);
        } else {
            #[cfg(target_arch = "x86_64")]
            if let Some(kernels) = self.x86 {
                return kernels.associate(state, part);
            }
            state.associate(part);
        }
    }

    fn block(&self, state: &mut State, block: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = self.x86 {
            return kernels.block(state, block);
        }
        state.block(block);
    }

    fn finish<const SEAL: bool>(
        &self,
        state: &State,
        aad: Option<&[u8]>,
        buffers: Buffers<'_>,
        _lengths: (usize, usize),
    ) -> [u8; 16] {
        let data = buffers.into_in_place();
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = self.x86 {
            return kernels.finish::<SEAL>(state, aad, data);
        }
        state.finish::<SEAL>(aad, data)
    }
}
