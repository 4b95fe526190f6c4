//! The common part of every program, subtracted from the size of the others.
#![no_std]
#![no_main]

use antedate_mote_cortex_m3::exit;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(u16::from(!antedate_mote_programs::smallest::nothing()))
}
