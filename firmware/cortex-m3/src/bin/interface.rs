//! Checks and measures the calls of AES-128-CCM_8, beside those of the C interface.
#![no_std]
#![no_main]

use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::measure_interface;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(measure_interface::<CortexM3>().err().map_or(0, |wrong| wrong as u16))
}
