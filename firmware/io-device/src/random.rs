//! Random numbers. The board has no source of them, so QEMU's host gives them by semihosting. A
//! device takes its chip's generator here.

use core::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use semihosting::fs::File;
use semihosting::io::Read;

/// The host's random numbers.
pub struct HostRandom(File);

impl HostRandom {
    /// Opens the host's source. `None` if it has none.
    pub fn open() -> Option<Self> {
        File::open(c"/dev/urandom").ok().map(Self)
    }
}

impl TryRng for HostRandom {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut octets = [0; 4];
        self.try_fill_bytes(&mut octets)?;
        Ok(u32::from_ne_bytes(octets))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut octets = [0; 8];
        self.try_fill_bytes(&mut octets)?;
        Ok(u64::from_ne_bytes(octets))
    }

    fn try_fill_bytes(&mut self, octets: &mut [u8]) -> Result<(), Infallible> {
        let read = self.0.read_exact(octets);
        assert!(read.is_ok(), "no random numbers, no keys");
        Ok(())
    }
}

impl TryCryptoRng for HostRandom {}
