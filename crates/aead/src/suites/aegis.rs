//! AEGIS-128L (draft-irtf-cfrg-aegis-aead section 3) with tags of 128 bits.
//!
//! Every 32 bytes of a packet change all eight blocks of the state. Key and nonce take ten rounds,
//! the end takes seven, so for a short packet the preparation is most of the work.

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
