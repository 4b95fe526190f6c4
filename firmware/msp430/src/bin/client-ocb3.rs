//! An MQTT client with AES-OCB3.
#![no_std]
#![no_main]

use antedate_aead::Aes128Ocb3;
use antedate_mote_msp430::{Msp430, exit};
use antedate_mote_programs::client;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(client::protected::<Msp430, Aes128Ocb3>().err().map_or(0, |wrong| wrong as u16))
}
