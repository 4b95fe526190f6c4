//! An MQTT client with ChaCha20-Poly1305.
#![no_std]
#![no_main]

use antedate_aead::ChaCha20Poly1305;
use antedate_mote_msp430::{Msp430, exit};
use antedate_mote_programs::client;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(client::protected::<Msp430, ChaCha20Poly1305>().err().map_or(0, |wrong| wrong as u16))
}
