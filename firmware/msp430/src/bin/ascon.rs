//! Checks known answers and measures Ascon-AEAD128.
#![no_std]
#![no_main]

use antedate_mote_msp430::{Msp430, exit, libcalls};
use antedate_mote_programs::{measure_ascon, report};

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    if let Some(which) = libcalls::check() {
        report::<Msp430>("wrong-libcall", &[], "", which as u32);
        exit(2);
    }
    exit(measure_ascon::<Msp430>().err().map_or(0, |wrong| wrong as u16))
}
