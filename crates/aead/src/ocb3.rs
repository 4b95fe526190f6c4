//! AES-128-OCB3 (RFC 7253) with nonces of 96 bits and tags of 128.
//!
//! Every block is encrypted by itself, under an offset that depends on the nonce and on its place; the tag is the
//! encryption of the XOR of all plaintext blocks. So a block that is known beforehand can be done beforehand, wherever
//! it stands.

#[cfg(target_arch = "x86_64")]
use crate::backend::x86::ocb3 as x86;
use crate::{
    Backend, Suite,
    backend::portable::{aes::RoundKeys, ocb3 as portable},
    buffers::Buffers,
    engine::Engine,
};
use zeroize::Zeroize;

/// AES-OCB3 with a key of 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aes128Ocb3;

impl Suite for Aes128Ocb3 {
    const NAME: &'static str = "aes-128-ocb3";
    const KEY_LEN: usize = 16;
}

/// An expanded key, in the form that its backend works with.
#[allow(clippy::large_enum_variant)]
pub enum Expanded {
    Portable(portable::Key),
    #[cfg(target_arch = "x86_64")]
    X86(x86::Key),
}

/// Calls the same method on whichever key there is.
macro_rules! with {
    ($expanded:expr, $key:ident => $call:expr) => {
        match $expanded {
            Expanded::Portable($key) => $call,
            #[cfg(target_arch = "x86_64")]
            Expanded::X86($key) => $call,
        }
    };
}

/// What a nonce gives: the offset before the first block.
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

impl Engine for Aes128Ocb3 {
    type Key = Expanded;
    type OneTime = OneTime;
    type NonceBytes = [u8; 12];
    type TagBytes = [u8; 16];
    const STREAMS: bool = false;

    fn expand(key: &[u8], backend: Backend) -> Expanded {
        let round_keys = RoundKeys::expand(key);
        #[cfg(target_arch = "x86_64")]
        if let Some(key) = x86::Key::new(&round_keys, backend) {
            return Expanded::X86(key);
        }
        let _ = backend;
        Expanded::Portable(portable::Key::new(&round_keys))
    }

    fn prepare_once(key: &Expanded, nonce: &[u8; 12], once: &mut OneTime) {
        once.offset = with!(key, key => key.offset(nonce));
    }

    fn prepare_stream(_key: &Expanded, _nonce: &[u8; 12], _first: usize, _out: &mut [u8]) {}

    fn seal(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        match key {
            Expanded::Portable(key) => key.packet::<true>(key.offset(nonce), &[aad], buffers),
            #[cfg(target_arch = "x86_64")]
            Expanded::X86(key) => key.one_shot::<true>(nonce, aad, buffers),
        }
    }

    fn open(key: &Expanded, nonce: &[u8; 12], aad: &[u8], buffers: Buffers<'_>) -> [u8; 16] {
        match key {
            Expanded::Portable(key) => key.packet::<false>(key.offset(nonce), &[aad], buffers),
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
            Expanded::Portable(key) => key.packet::<true>(once.offset, &[aad], buffers),
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
            Expanded::Portable(key) => key.packet::<false>(once.offset, &[aad], buffers),
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
