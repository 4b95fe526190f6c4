//! Seals publishes with ChaCha20-Poly1305, checks them and measures.
#![no_std]
#![no_main]

use antedate_aead::ChaCha20Poly1305;
use antedate_mote_msp430::{Msp430, exit, libcalls};
use antedate_mote_programs::{measure_mqtt, report};

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    if let Some(which) = libcalls::check() {
        report::<Msp430>("wrong-libcall", &[], "", which as u32);
        exit(2);
    }
    exit(measure_mqtt::<Msp430, ChaCha20Poly1305>().err().map_or(0, |wrong| wrong as u16))
}
