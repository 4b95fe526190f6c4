//! The time stamp counter between fences, and the benchmark's core.
#![allow(unsafe_code, reason = "the cycle counter is an instruction")]

use std::arch::{
    asm,
    x86_64::{_mm_lfence, _rdtsc},
};
use std::time::{Duration, Instant};

/// Ticks, read after all earlier instructions complete and before any later one starts.
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

/// The same bytes, opaque to the compiler: neither address nor contents is known any more. The
/// address is now in a register, like a function argument; called before the clock starts, it costs
/// no contender a load from the stack.
#[inline(always)]
pub fn held(bytes: &[u8]) -> &[u8] {
    let (mut start, mut len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the assembly is empty; the outputs equal the inputs.
    unsafe {
        asm!("/* {} {} */", inout(reg) start, inout(reg) len, options(nostack, preserves_flags));
        std::slice::from_raw_parts(start, len)
    }
}

/// Like [`held`], for bytes that may be written.
#[inline(always)]
pub fn held_mut(bytes: &mut [u8]) -> &mut [u8] {
    let (mut start, mut len) = (bytes.as_mut_ptr(), bytes.len());
    // SAFETY: as above.
    unsafe {
        asm!("/* {} {} */", inout(reg) start, inout(reg) len, options(nostack, preserves_flags));
        std::slice::from_raw_parts_mut(start, len)
    }
}

/// Nanoseconds per tick. The counter's rate is independent of the core's.
pub fn nanoseconds_per_tick() -> f64 {
    let (start, from) = (Instant::now(), ticks());
    while start.elapsed() < Duration::from_millis(100) {}
    let (passed, to) = (start.elapsed(), ticks());
    passed.as_nanos() as f64 / (to - from) as f64
}

/// Pins this process to the last CPU it may use, and returns the CPU's number.
pub fn pin() -> Result<usize, String> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a CPU set is a plain array of bits; all zeros is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes to `set`.
    if unsafe { libc::sched_getaffinity(0, size, &mut set) } != 0 {
        return Err(format!("the CPUs of this process: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: `cpu` is below the number of bits in a set.
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
