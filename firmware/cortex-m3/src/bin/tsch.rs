//! Measures the node of `antedate-channel` in the slots of TSCH.
#![no_std]
#![no_main]

use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::tsch::measure_tsch;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(measure_tsch::<CortexM3>().err().map_or(0, |wrong| wrong as u16))
}
