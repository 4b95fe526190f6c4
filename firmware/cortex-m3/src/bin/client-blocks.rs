//! An MQTT client with the paper's consecutive blocks.
#![no_std]
#![no_main]

use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::client;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(client::blocks::<CortexM3>().err().map_or(0, |wrong| wrong as u16))
}
