//! A node without link-layer security: subtracted from the size of the others.
#![no_std]
#![no_main]

use antedate_mote_msp430::{Msp430, exit};
use antedate_mote_programs::node;

#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    exit(node::plain::<Msp430>().err().map_or(0, |wrong| wrong as u16))
}
