//! Cipher primitives per CPU. A key is expanded for one backend and keeps it, so packets pay
//! nothing for the choice.

#[cfg(target_arch = "aarch64")]
pub(crate) mod arm;
pub(crate) mod blocks;
#[cfg(all(
    feature = "chacha20-poly1305",
    any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        all(
            target_arch = "aarch64",
            target_endian = "little",
            target_pointer_width = "64",
            target_feature = "neon"
        )
    )
))]
mod chacha20_rows;
pub(crate) mod cpu;
pub(crate) mod fours;
#[cfg(any(feature = "aegis", feature = "research"))]
pub(crate) mod kernels;
pub(crate) mod modes;
pub(crate) mod portable;
pub(crate) mod registers;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ssse3;
#[cfg(any(test, feature = "table-aes-1k", feature = "table-aes-2k"))]
pub(crate) mod table;
#[cfg(target_arch = "x86_64")]
pub(crate) mod words;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

pub use cpu::Backend;

/// Expands an AES key of 16 or 32 bytes, with the CPU's instructions if the backend has them.
pub(crate) fn round_keys(key: &[u8], backend: Backend) -> portable::aes::RoundKeys {
    #[cfg(target_arch = "x86_64")]
    if let Some(round_keys) = x86::expansion::round_keys(key, backend) {
        return round_keys;
    }
    let _ = backend;
    portable::aes::RoundKeys::expand(key)
}

/// Runs portable code as a fallback beside CPU-specific kernels. Where such kernels exist, the call
/// is cold and out of line, so that it does not constrain the code generated for their loops.
#[cfg(any(feature = "gcm", feature = "ocb3"))]
#[cfg_attr(target_arch = "x86_64", cold, inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
pub(crate) fn portably<R>(call: impl FnOnce() -> R) -> R {
    call()
}
