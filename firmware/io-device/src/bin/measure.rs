//! What a frame of MACsec costs on a Cortex-M3, in instructions of QEMU's emulated one (`-icount
//! shift=0`): protected and validated, with and without preparation.
//!
//! Each line has the suite, the octets of the frame, and the instructions of `protect` without a
//! preparation and with one, then those of `validate`. A tick of SysTick is 40 instructions.
#![no_std]
#![no_main]

use core::mem::MaybeUninit;

use antedate_channel::macsec::{An, CipherSuite, Receive, ReceiveConfig, Sak, Sci, Transmit, TransmitConfig};
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::entry;
use embedded_alloc::LlffHeap;
use semihosting::{println, process};

const SCI: Sci = Sci([2, 0, 0, 0, 0, 1, 0, 1]);
const LENGTHS: [usize; 3] = [64, 256, 1514];
const HEAP_LEN: usize = 64 << 10;
/// Instructions of a tick: a nanosecond each, at 25 MHz.
const TICK: u32 = 40;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

#[entry]
fn main() -> ! {
    static mut MEMORY: [MaybeUninit<u8>; HEAP_LEN] = [const { MaybeUninit::uninit() }; HEAP_LEN];
    // SAFETY: called once, with memory that nothing else uses.
    unsafe { HEAP.init((&raw mut *MEMORY).addr(), HEAP_LEN) };
    if let Some(mut peripherals) = cortex_m::Peripherals::take() {
        peripherals.SYST.set_clock_source(SystClkSource::Core);
        peripherals.SYST.set_reload(0x00ff_ffff);
        peripherals.SYST.clear_current();
        peripherals.SYST.enable_counter();
    }
    let suites = [CipherSuite::GcmAes128, CipherSuite::ChaCha20Poly1305];
    let all =
        suites.into_iter().try_for_each(|suite| LENGTHS.into_iter().try_for_each(|len| one(suite, len)));
    process::exit(if all.is_some() { 0 } else { 1 })
}

/// The instructions of a call.
fn cost<T>(call: impl FnOnce() -> T) -> (u32, T) {
    let before = SYST::get_current();
    let result = call();
    // SysTick has 24 bits and counts down.
    (before.wrapping_sub(SYST::get_current()) % (1 << 24) * TICK, result)
}

/// Measures a suite with frames of a length. `None` if a frame is refused.
fn one(suite: CipherSuite, len: usize) -> Option<()> {
    let key = [7; 32];
    let sak = Sak::new(suite, key.get(..suite.key_len())?, None).ok()?;
    let an = An::ALL[0];
    let mut transmit = Transmit::new(TransmitConfig::new(suite, SCI)).ok()?;
    transmit.install(an, &sak, 1, u64::MAX).ok()?;
    let mut receive = Receive::new(ReceiveConfig::new(suite));
    receive.add_peer(SCI, None).ok()?;
    receive.install(SCI, an, &sak, 1).ok()?;
    let frame = [2; 1514];
    let (mut protected, mut opened) = ([0; 1546], [0; 1514]);
    let mut told = [0; 4];
    // The first round warms nothing, but teaches the length.
    for prepared in [false, false, true] {
        if prepared {
            while transmit.idle(64) + receive.idle(64) > 0 {}
        }
        let (instructions, size) = cost(|| transmit.protect(frame.get(..len)?, &mut protected).ok());
        told[usize::from(prepared)] = instructions;
        let size = size?;
        let (instructions, size) = cost(|| receive.validate(protected.get(..size)?, &mut opened).ok());
        told[2 + usize::from(prepared)] = instructions;
        if opened.get(..size?)? != frame.get(..len)? {
            return None;
        }
    }
    let [plain, prepared, validated, expected] = told;
    println!("{} {len} {plain} {prepared} {validated} {expected}", suite.name());
    Some(())
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    process::exit(3)
}
