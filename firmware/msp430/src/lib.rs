//! An MSP430: start-up, the simulator's ports, and the routines that compiled code calls.
#![no_std]
#![feature(asm_experimental_arch)]

use antedate_aead::BlockCipher;
use antedate_mote_programs::Mote;
use core::arch::global_asm;
use core::ptr;

pub mod libcalls;

global_asm!(include_str!("reset.s"));

const EXIT: *mut u16 = 0x01c0 as *mut u16;
const PRINT: *mut u8 = 0x01c2 as *mut u8;
const MEASURED_LOW: *const u16 = 0x01c6 as *const u16;
const MEASURED_HIGH: *const u16 = 0x01c8 as *const u16;

// End of the variables and start of the stack, from the linker.
unsafe extern "C" {
    static bss_end: u8;
    static stack_top: u8;
}

/// Pattern for the free stack.
const PAINT: u16 = 0x5aa5;

/// The lowest word that the stack may use.
fn bottom() -> usize {
    (&raw const bss_end).addr()
}

/// The mote in the simulator, which counts cycles.
pub struct Msp430;

impl Mote for Msp430 {
    fn print(text: &str) {
        for byte in text.bytes() {
            // SAFETY: the simulator's port for printing.
            unsafe { ptr::write_volatile(PRINT, byte) }
        }
    }

    #[inline(always)]
    fn begin() {
        // SAFETY: the simulator's port that starts a measurement, written by one instruction. The
        // block may access memory, so the compiler moves no memory access across it.
        unsafe { core::arch::asm!("mov #1, &0x01c4") }
    }

    #[inline(always)]
    fn end() -> u32 {
        // SAFETY: as in `begin`; the others are the simulator's result ports.
        unsafe {
            core::arch::asm!("mov #0, &0x01c4");
            u32::from(ptr::read_volatile(MEASURED_HIGH)) << 16 | u32::from(ptr::read_volatile(MEASURED_LOW))
        }
    }

    #[inline(never)]
    fn paint() {
        let here = 0usize;
        // The frame of this function, and a margin for its callees.
        let end = (&raw const here).addr() - 64;
        let mut at = bottom();
        while at < end {
            // SAFETY: the RAM between the last variable and the stack in use is unused.
            unsafe { ptr::with_exposed_provenance_mut::<u16>(at).write_volatile(PAINT) }
            at += size_of::<u16>();
        }
    }

    #[inline(never)]
    fn depth() -> u32 {
        let (mut at, top) = (bottom(), (&raw const stack_top).addr());
        // SAFETY: as in `paint`; the stack is only read.
        while at < top && unsafe { ptr::with_exposed_provenance::<u16>(at).read_volatile() } == PAINT {
            at += size_of::<u16>();
        }
        (top - at) as u32
    }
}

/// A radio chip's AES engine: the key is loaded once, then each block is written and read back.
pub struct ChipAes;

const ENGINE_KEY: *mut u16 = 0x0160 as *mut u16;
const ENGINE_BLOCK: *mut u16 = 0x0170 as *mut u16;
const ENGINE_CONTROL: *mut u16 = 0x0180 as *mut u16;

/// Writes 16 bytes to the eight words from `port`.
#[inline(always)]
fn hand_over(port: *mut u16, bytes: &[u8]) {
    let (words, _) = bytes.as_chunks::<2>();
    for (i, word) in words.iter().take(8).enumerate() {
        // SAFETY: the engine has eight words at each of the two addresses used.
        unsafe { ptr::write_volatile(port.add(i), u16::from_le_bytes(*word)) }
    }
}

impl BlockCipher for ChipAes {
    const KEY_LEN: usize = 16;

    fn new(key: &[u8]) -> Self {
        hand_over(ENGINE_KEY, key);
        Self
    }

    fn encrypt(&self, block: &mut [u8; 16]) {
        hand_over(ENGINE_BLOCK, block);
        // SAFETY: these are the engine's ports; the block is read after the engine finishes.
        unsafe {
            ptr::write_volatile(ENGINE_CONTROL, 1);
            while ptr::read_volatile(ENGINE_CONTROL) != 0 {}
            for (i, word) in block.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *word = ptr::read_volatile(ENGINE_BLOCK.add(i)).to_le_bytes();
            }
        }
    }
}

/// Ends the program.
pub fn exit(code: u16) -> ! {
    loop {
        // SAFETY: the simulator's port that ends the program.
        unsafe { ptr::write_volatile(EXIT, code) }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(3)
}
