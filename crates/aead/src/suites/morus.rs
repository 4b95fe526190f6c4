//! MORUS-1280-128 (submission to CAESAR, version 2), to reproduce lackorzynski2020. **For research
//! only:** it reached the finals but not the portfolio, and its key stream has a linear bias (Ashur
//! and others, "Cryptanalysis of MORUS", 2018).

use super::{duplex, suite::Suite};

/// MORUS-1280 with a key of 128 bits. Reproduces a paper; never protect data with it.
#[derive(Clone, Copy, Debug)]
pub struct Morus1280;

impl Suite for Morus1280 {
    const NAME: &'static str = "morus-1280-128 (research only)";
    const KEY_LEN: usize = 16;
}

duplex::engine!(Morus1280, Expanded);
duplex::key!(morus);
