//! Numbers of 128 bits in two general registers.

/// The same number, in two words. A compiler would load a vector and take its words for products from there, or load one from where two
/// words were just stored: each is later by half a dozen cycles or more.
#[inline(always)]
#[allow(unsafe_code, reason = "an empty line of assembly")]
pub(crate) fn in_words(n: u128) -> u128 {
    let (mut low, mut high) = (n as u64, (n >> 64) as u64);
    // SAFETY: nothing is done.
    unsafe {
        core::arch::asm!("/* {} {} */", inout(reg) low, inout(reg) high, options(pure, nomem, nostack, preserves_flags));
    }
    u128::from(low) | u128::from(high) << 64
}
