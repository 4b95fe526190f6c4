//! A Cortex-M3 as in QEMU's mps2-an385: start-up, semihosting, and SysTick as instruction counter.
//!
//! Under `-icount shift=0` each instruction takes one nanosecond of emulated time. SysTick runs at
//! 25 MHz, so a tick is 40 instructions. To count single instructions, the counter is read 40
//! times, seven instructions apart. Seven and 40 have no common divisor, so the readings hit each
//! phase of a tick once. Their sum is the time in instructions plus a constant, which cancels in
//! the difference of two sums. The difference of two consecutive measurements is printed as
//! `nothing`, for readers to subtract.
#![no_std]

use antedate_mote_programs::Mote;
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ptr;

global_asm!(include_str!("reset.s"));

// End of the variables and start of the stack, from the linker.
unsafe extern "C" {
    static bss_end: u8;
    static stack_top: u8;
}

/// Pattern for the free stack.
const PAINT: u32 = 0x5aa5;

/// The lowest word that the stack may use.
fn bottom() -> usize {
    (&raw const bss_end).addr()
}

/// The mote in QEMU, which counts instructions.
pub struct CortexM3;

/// The reading at the start of a measurement.
struct Since(UnsafeCell<u32>);

// SAFETY: there is one thread of execution, and no interrupt is enabled.
unsafe impl Sync for Since {}

static SINCE: Since = Since(UnsafeCell::new(0));

/// The time in instructions from an arbitrary origin. SysTick has 24 bits and counts down.
#[inline(always)]
fn now() -> u32 {
    let mut sum: u32 = 0;
    // SAFETY: reads SysTick's current value (0xe000e018), which has no side effect. The compiler
    // must assume that the block accesses memory, so it moves no memory access across it.
    unsafe {
        asm!(
            "2: ldr {value}, [{counter}]",
            "sub {sum}, {sum}, {value}",
            "nop",
            "nop",
            "nop",
            "subs {left}, {left}, #1",
            "bne 2b",
            counter = in(reg) 0xe000_e018u32,
            left = inout(reg) 40u32 => _,
            value = out(reg) _,
            sum = inout(reg) sum,
        );
    }
    sum
}

impl Mote for CortexM3 {
    fn print(text: &str) {
        for byte in text.bytes() {
            // SYS_WRITEC.
            semihosting(0x03, (&raw const byte).addr());
        }
    }

    #[inline(always)]
    fn begin() {
        // SAFETY: one thread of execution, see `Since`.
        unsafe { SINCE.0.get().write_volatile(now()) }
    }

    #[inline(always)]
    fn end() -> u32 {
        let now = now();
        // SAFETY: as in `begin`.
        now.wrapping_sub(unsafe { SINCE.0.get().read_volatile() })
    }

    #[inline(never)]
    fn paint() {
        let here = 0usize;
        // The frame of this function, and a margin for its callees.
        let end = (&raw const here).addr() - 64;
        let mut at = bottom();
        while at < end {
            // SAFETY: the RAM between the last variable and the stack in use is unused.
            unsafe { ptr::with_exposed_provenance_mut::<u32>(at).write_volatile(PAINT) }
            at += size_of::<u32>();
        }
    }

    #[inline(never)]
    fn depth() -> u32 {
        let (mut at, top) = (bottom(), (&raw const stack_top).addr());
        // SAFETY: as in `paint`; the stack is only read.
        while at < top && unsafe { ptr::with_exposed_provenance::<u32>(at).read_volatile() } == PAINT {
            at += size_of::<u32>();
        }
        (top - at) as u32
    }
}

/// Calls the emulator.
fn semihosting(operation: usize, parameter: usize) {
    // SAFETY: a breakpoint with this number calls the emulator, which reads the data `parameter`
    // points to.
    unsafe { asm!("bkpt 0xab", inout("r0") operation => _, in("r1") parameter) }
}

/// Ends the program: SYS_EXIT_EXTENDED with the reason ADP_Stopped_ApplicationExit.
pub fn exit(code: u16) -> ! {
    let block = [0x20026usize, code.into()];
    loop {
        semihosting(0x20, block.as_ptr().addr());
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(3)
}
