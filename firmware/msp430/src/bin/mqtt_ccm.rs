//! Seals publishes with AES-CCM, checks them against the known answer and measures.
#![no_std]
#![no_main]

use antedate_aead::Aes128;
use antedate_mote_msp430::{Msp430, exit, libcalls};
use antedate_mote_programs::{measure_mqtt_ccm, report};

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    if let Some(which) = libcalls::check() {
        report::<Msp430>("wrong-libcall", &[], "", which as u32);
        exit(2);
    }
    exit(measure_mqtt_ccm::<Msp430, Aes128>().err().map_or(0, |wrong| wrong as u16))
}
