//! A sensor's MQTT client, which prepares its publish with AES-CCM and receives nothing.
#![no_std]
#![no_main]

use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::client;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(client::sensor::<CortexM3>().err().map_or(0, |wrong| wrong as u16))
}
