//! A node that prepares before its slot, with a chip's AES engine.
#![no_std]
#![no_main]

use antedate_mote_msp430::{ChipAes, Msp430, exit};
use antedate_mote_programs::node;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(node::antedated::<Msp430, ChipAes>().err().map_or(0, |wrong| wrong as u16))
}
