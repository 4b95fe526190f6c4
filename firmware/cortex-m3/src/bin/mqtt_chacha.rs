//! Seals publishes with ChaCha20-Poly1305, checks them and measures.
#![no_std]
#![no_main]

use antedate_aead::ChaCha20Poly1305;
use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::measure_mqtt;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(measure_mqtt::<CortexM3, ChaCha20Poly1305>().err().map_or(0, |wrong| wrong as u16))
}
