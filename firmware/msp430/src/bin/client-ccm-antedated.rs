//! An MQTT client that prepares its publish with AES-CCM.
#![no_std]
#![no_main]

use antedate_mote_msp430::{Msp430, exit};
use antedate_mote_programs::client;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(client::antedated::<Msp430>().err().map_or(0, |wrong| wrong as u16))
}
