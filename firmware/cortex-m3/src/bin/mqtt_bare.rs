//! Seals publishes as the paper's unauthenticated options do, checks them and measures.
#![no_std]
#![no_main]

use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::measure_mqtt_bare;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(measure_mqtt_bare::<CortexM3>().err().map_or(0, |wrong| wrong as u16))
}
