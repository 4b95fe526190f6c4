//! MORUS-1280-128 (submission to CAESAR, version 2), which lackorzynski2020 measures. **For research only:** it came to the
//! finals and not into the portfolio, and its cipherstream has a linear bias (Ashur and others, "Cryptanalysis of MORUS",
//! 2018). It is here to reproduce that paper.

#[cfg(target_arch = "x86_64")]
use crate::backend::x86::morus::Kernels;
use crate::{
    Backend, Suite,
    backend::portable::{
        morus::{RATE, State},
        pieces,
    },
    buffers::Buffers,
    duplex::{self, Duplex},
};
use zeroize::Zeroize;

/// MORUS-1280 with a key of 128 bits, to reproduce a paper and not to protect anything.
#[derive(Clone, Copy, Debug)]
pub struct Morus1280;

impl Suite for Morus1280 {
    const NAME: &'static str = "morus-1280-128 (research only)";
    const KEY_LEN: usize = 16;
}

duplex::engine!(Morus1280, Expanded);

/// The key, and the backend that works with it.
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
        pieces::staged::<RATE>(aad, |part| {
            #[cfg(target_arch = "x86_64")]
            if let Some(kernels) = self.x86 {
                return kernels.absorb(state, part);
            }
            state.absorb(part);
        })
    }

    fn block(&self, state: &mut State, block: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = self.x86 {
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
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = self.x86 {
            return kernels.finish::<SEAL>(state, aad, buffers, lengths);
        }
        state.finish::<SEAL>(aad, buffers.into_in_place(), lengths)
    }
}
