//! Model of the stand-alone AES engine of a radio chip such as the CC2420.
//!
//! The host writes a key once. For each block it writes 16 bytes, starts the engine, waits, and
//! reads 16 bytes. The real chip uses SPI; here the registers have addresses. A block takes the
//! chip's whole time as hiller2018 measured it (section VI-B: 0.24 ms), counted from the first word
//! written.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use std::ops::Range;

/// The key.
pub const KEY: u16 = 0x0160;
/// The block, input and output.
pub const BLOCK: u16 = 0x0170;
/// A write starts; reads as 1 while the engine works.
pub const CONTROL: u16 = 0x0180;

/// The engine.
#[derive(Clone, Debug)]
pub struct Engine {
    key: [u8; 16],
    block: [u8; 16],
    /// Cycles per block.
    cycles: u64,
    /// Cycle of the block's first word.
    begun: u64,
    started: bool,
}

impl Engine {
    /// Its addresses.
    pub const PLACES: Range<u16> = KEY..CONTROL + 2;

    pub(crate) fn new(cycles: u64) -> Self {
        Self { key: [0; 16], block: [0; 16], cycles, begun: 0, started: false }
    }

    /// Reads the block or the busy flag; the key is write-only.
    pub fn read(&self, address: u16, now: u64) -> Option<u16> {
        let busy = self.started && now < self.begun + self.cycles;
        match address {
            CONTROL => Some(busy.into()),
            BLOCK.. if !busy => {
                let at = usize::from(address - BLOCK);
                Some(u16::from_le_bytes([*self.block.get(at)?, *self.block.get(at + 1)?]))
            }
            _ => None,
        }
    }

    /// Writes a word. False while the engine works or for an unknown address.
    pub fn write(&mut self, address: u16, value: u16, now: u64) -> bool {
        if self.started && now < self.begun + self.cycles {
            return false;
        }
        let (bytes, at) = match address {
            CONTROL => {
                Aes128::new(&self.key.into()).encrypt_block((&mut self.block).into());
                self.started = true;
                return true;
            }
            BLOCK.. => (&mut self.block, address - BLOCK),
            _ => (&mut self.key, address - KEY),
        };
        if address == BLOCK {
            self.begun = now;
            self.started = false;
        }
        let at = usize::from(at);
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_time_starts_with_first_word() {
        let mut engine = Engine::new(3840);
        let plain: [u8; 16] = std::array::from_fn(|i| 0x11 * i as u8);
        for i in 0..8u16 {
            let at = usize::from(2 * i);
            assert!(engine.write(KEY + 2 * i, u16::from_le_bytes([at as u8, at as u8 + 1]), 0));
            let word = u16::from_le_bytes([plain[at], plain[at + 1]]);
            assert!(engine.write(BLOCK + 2 * i, word, 100 + u64::from(i)));
        }
        assert!(engine.write(CONTROL, 1, 200));
        assert_eq!(engine.read(CONTROL, 3939), Some(1));
        assert_eq!(engine.read(BLOCK, 3939), None, "not before it is done");
        assert!(!engine.write(BLOCK, 0, 3939));
        assert_eq!(engine.read(CONTROL, 3940), Some(0));
        // FIPS 197 appendix C.1.
        assert_eq!(engine.read(BLOCK, 3940), Some(0xc469));
        assert_eq!(engine.read(BLOCK + 14, 3940), Some(0x5ac5));
        assert_eq!(engine.read(KEY, 3940), None);
    }
}
