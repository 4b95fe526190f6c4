//! The key expansion of AES (FIPS 197 section 5.2) with AES-NI, or SSSE3.

use crate::backend::ssse3::{self, Ssse3};
use crate::{Backend, backend::portable::aes::RoundKeys};
use core::arch::x86_64::*;

/// Expands a key of 16 or 32 bytes. Returns `None` unless the backend belongs to x86-64 and the CPU
/// supports it.
pub(crate) fn round_keys(key: &[u8], backend: Backend) -> Option<RoundKeys> {
    if let Some(ssse3) = Ssse3::new(backend) {
        return Some(RoundKeys::expand_by(key, |word| ssse3::sub_word(ssse3, word)));
    }
    if backend.min(super::detect()) < Backend::AesNi {
        return None;
    }
    // SAFETY: the backends from this one on need a CPU with AES-NI.
    Some(RoundKeys::expand_by(key, |word| unsafe { sub_word(word) }))
}

/// SubWord. AESENCLAST is ShiftRows, SubBytes and an XOR; ShiftRows leaves four equal columns as
/// they are.
///
/// # Safety
/// The CPU has AES-NI.
#[target_feature(enable = "sse2,aes")]
unsafe fn sub_word(word: [u8; 4]) -> [u8; 4] {
    let columns = _mm_shuffle_epi32::<0>(_mm_cvtsi32_si128(i32::from_le_bytes(word)));
    _mm_cvtsi128_si32(_mm_aesenclast_si128(columns, _mm_setzero_si128())).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_keys_are_those_of_portable_code() {
        let key: [u8; 32] = core::array::from_fn(|i| (37 * i + 11) as u8);
        for key in [&key[..16], &key] {
            assert!(round_keys(key, Backend::Portable).is_none());
            let portable = RoundKeys::expand(key);
            for keys in Backend::available().filter_map(|backend| round_keys(key, backend)) {
                assert_eq!((keys.rounds, keys.blocks), (portable.rounds, portable.blocks));
            }
        }
    }
}
