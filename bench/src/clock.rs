//! The time stamp counter with fences around it, and the core that the benchmark stays on.
#![allow(unsafe_code)]

use std::arch::{
    asm,
    x86_64::{_mm_lfence, _rdtsc},
};
use std::time::{Duration, Instant};

/// Ticks, after all that stands before has been done, and before anything that stands behind has begun.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has SSE2 and a time stamp counter; neither touches memory.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// The same bytes, of which the compiler knows nothing any more, not even where they are. Where they are is in registers from now on, as
/// an argument is when a function is called: taken before the clock starts, it costs nobody a detour by the stack.
#[inline(always)]
pub fn held(bytes: &[u8]) -> &[u8] {
    let (mut start, mut len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: nothing is done; what comes out is what went in.
    unsafe {
        asm!("/* {} {} */", inout(reg) start, inout(reg) len, options(nostack, preserves_flags));
        std::slice::from_raw_parts(start, len)
    }
}

/// As [`held`], of bytes that may be written.
#[inline(always)]
pub fn held_mut(bytes: &mut [u8]) -> &mut [u8] {
    let (mut start, mut len) = (bytes.as_mut_ptr(), bytes.len());
    // SAFETY: as above.
    unsafe {
        asm!("/* {} {} */", inout(reg) start, inout(reg) len, options(nostack, preserves_flags));
        std::slice::from_raw_parts_mut(start, len)
    }
}

/// Nanoseconds of a tick. The counter has a rate of its own, whatever the core's is.
pub fn nanoseconds_per_tick() -> f64 {
    let (start, from) = (Instant::now(), ticks());
    while start.elapsed() < Duration::from_millis(100) {}
    let (passed, to) = (start.elapsed(), ticks());
    passed.as_nanos() as f64 / (to - from) as f64
}

/// Stays on the last CPU that this process may use, and says which.
pub fn pin() -> Result<usize, String> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a CPU set is a plain array of bits, for which zeros are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes to `set`.
    if unsafe { libc::sched_getaffinity(0, size, &mut set) } != 0 {
        return Err(format!("the CPUs of this process: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: `cpu` is below the number of bits that a set has.
    let mut usable = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) });
    let cpu = usable.next_back().ok_or("this process may use no CPU")?;
    // SAFETY: as above; the set is this function's own.
    unsafe {
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(cpu, &mut set);
    }
    // SAFETY: the kernel reads `size` bytes of `set`.
    if unsafe { libc::sched_setaffinity(0, size, &set) } != 0 {
        return Err(format!("CPU {cpu}: {}", std::io::Error::last_os_error()));
    }
    Ok(cpu)
}
