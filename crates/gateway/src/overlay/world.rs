//! The clocks and random numbers of this machine, for WireGuard.

use antedate_channel::wireguard::{Environment, Timestamp};

use crate::sys::thread;

/// This machine's clocks and its random number generator.
pub(super) struct World;

impl Environment for World {
    #[inline]
    fn now(&self) -> u64 {
        thread::now()
    }

    fn timestamp(&self) -> Timestamp {
        // TAI64N (D. J. Bernstein, "libtai"): 2^62 and ten seconds ahead of 1970.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut stamp = [0; 12];
        stamp[..8].copy_from_slice(&(0x4000_0000_0000_000a + since.as_secs()).to_be_bytes());
        stamp[8..].copy_from_slice(&since.subsec_nanos().to_be_bytes());
        stamp
    }

    fn random(&mut self, out: &mut [u8]) {
        // It fails only on a kernel without the system call. Ending is better than keys without
        // randomness.
        getrandom::fill(out).unwrap_or_else(|error| panic!("the system gives no random numbers: {error}"));
    }
}
