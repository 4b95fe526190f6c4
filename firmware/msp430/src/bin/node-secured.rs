//! A node that secures in its slot.
#![no_std]
#![no_main]

use antedate_aead::Aes128;
use antedate_mote_msp430::{Msp430, exit};
use antedate_mote_programs::node;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(node::secured::<Msp430, Aes128>().err().map_or(0, |wrong| wrong as u16))
}
