//! MORUS-1280-128 (submission to CAESAR, version 2), which lackorzynski2020 measures. **For research only:** it came to the
//! finals and not into the portfolio, and its cipherstream has a linear bias (Ashur and others, "Cryptanalysis of MORUS",
//! 2018). It is here to reproduce that paper.

use super::{duplex, suite::Suite};

/// MORUS-1280 with a key of 128 bits, to reproduce a paper and not to protect anything.
#[derive(Clone, Copy, Debug)]
pub struct Morus1280;

impl Suite for Morus1280 {
    const NAME: &'static str = "morus-1280-128 (research only)";
    const KEY_LEN: usize = 16;
}

duplex::engine!(Morus1280, Expanded);
duplex::key!(morus);
