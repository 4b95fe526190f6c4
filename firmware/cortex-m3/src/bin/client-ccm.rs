//! An MQTT client with AES-CCM.
#![no_std]
#![no_main]

use antedate_aead::{Aes128, AesCcm};
use antedate_mote_cortex_m3::{CortexM3, exit};
use antedate_mote_programs::client;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(client::protected::<CortexM3, AesCcm<Aes128, 13, 8>>().err().map_or(0, |wrong| wrong as u16))
}
