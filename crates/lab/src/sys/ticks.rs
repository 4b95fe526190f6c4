//! A clock for single packets: the CPU's time stamp counter between fences, on CPUs that have one.

/// Reads the counter after all earlier instructions and before any later one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 CPU has SSE2 and a time stamp counter; neither touches memory.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Reads the system's clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    super::clock::monotonic_ns()
}

/// Nanoseconds of a tick.
#[must_use]
pub fn nanoseconds_per_tick() -> f64 {
    let (start, from) = (super::clock::monotonic_ns(), ticks());
    while super::clock::monotonic_ns() < start + 50_000_000 {}
    let (end, to) = (super::clock::monotonic_ns(), ticks());
    (end - start) as f64 / (to - from) as f64
}
