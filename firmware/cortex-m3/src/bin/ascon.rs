//! Checks known answers and measures Ascon-AEAD128.
#![no_std]
#![no_main]

use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::measure_ascon;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(measure_ascon::<CortexM3>().err().map_or(0, |wrong| wrong as u16))
}
