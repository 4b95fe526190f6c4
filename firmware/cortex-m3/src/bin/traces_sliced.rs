//! Runs AES, bit-sliced, in a build without the feature `table`, with many keys.
#![no_std]
#![no_main]

use antedate_aead::Aes128;
use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::measure_traces;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(measure_traces::<CortexM3, Aes128>().err().map_or(0, |wrong| wrong as u16))
}
