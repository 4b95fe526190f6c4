//! Numbers of 128 bits in two general registers.

/// Returns `n` in two general registers. The compiler would otherwise take its words from a vector,
/// or a vector from two freshly stored words; each costs half a dozen cycles or more.
#[inline(always)]
#[allow(unsafe_code, reason = "an empty line of assembly")]
pub(crate) fn in_words(n: u128) -> u128 {
    let (mut low, mut high) = (n as u64, (n >> 64) as u64);
    // SAFETY: the assembly is empty.
    unsafe {
        core::arch::asm!("/* {} {} */", inout(reg) low, inout(reg) high, options(pure, nomem, nostack, preserves_flags));
    }
    u128::from(low) | u128::from(high) << 64
}
