//! An MQTT client with the paper's consecutive blocks.
#![no_std]
#![no_main]

use antedate_mote_msp430::{Msp430, exit};
use antedate_mote_programs::client;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(client::blocks::<Msp430>().err().map_or(0, |wrong| wrong as u16))
}
