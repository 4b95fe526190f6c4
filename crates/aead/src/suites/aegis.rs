//! AEGIS-128L (draft-irtf-cfrg-aegis-aead section 3) with tags of 128 bits.
//!
//! Eight blocks of state, of which every 32 bytes of the packet change all. Key and nonce take ten rounds of it, the end
//! takes seven; so for a short packet the preparation is most of the work.

use super::{duplex, suite::Suite};

/// AEGIS-128L with a key of 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aegis128L;

impl Suite for Aegis128L {
    const NAME: &'static str = "aegis-128l";
    const KEY_LEN: usize = 16;
}

duplex::engine!(Aegis128L, Expanded);
duplex::key!(aegis);
