//! The same with a chip's AES engine in the place of the software.
#![no_std]
#![no_main]

use antedate_mote_msp430::{ChipAes, Msp430, exit, libcalls};
use antedate_mote_programs::{measure_scenarios, report};

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    if let Some(which) = libcalls::check() {
        report::<Msp430>("wrong-libcall", &[], "", which as u32);
        exit(2);
    }
    exit(measure_scenarios::<Msp430, ChipAes>().err().map_or(0, |wrong| wrong as u16))
}
