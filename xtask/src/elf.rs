//! ELF files of 32 bits, as far as the motes' programs need them.

use std::ops::Range;
use std::path::Path;

/// A program for a mote.
pub(crate) struct Elf {
    bytes: Vec<u8>,
    /// Address while it runs, and place in the file.
    segments: Vec<(u32, Range<usize>)>,
}

impl Elf {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let not = || format!("{}: not a program for a mote", path.display());
        Self::parse(bytes).ok_or_else(not)
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let number = |at: usize, len: usize| -> Option<usize> {
            let octets = bytes.get(at..at.checked_add(len)?)?;
            Some(octets.iter().rev().fold(0, |sum, octet| sum << 8 | usize::from(*octet)))
        };
        // Place, size and number of the program headers.
        let (at, size, count) = (number(28, 4)?, number(42, 2)?, number(44, 2)?);
        let mut segments = Vec::new();
        for i in 0..count {
            let header = at + i * size;
            if number(header, 4)? != 1 {
                continue;
            }
            let (from, address, len) =
                (number(header + 4, 4)?, number(header + 8, 4)?, number(header + 16, 4)?);
            bytes.get(from..from.checked_add(len)?)?;
            segments.push((u32::try_from(address).ok()?, from..from + len));
        }
        (!segments.is_empty()).then_some(Self { bytes, segments })
    }

    /// Bytes of flash: those of all segments in the file, also of those for RAM.
    pub(crate) fn flash(&self) -> u64 {
        self.segments.iter().map(|(_, place)| place.len() as u64).sum()
    }

    /// The halfword at an address.
    pub(crate) fn halfword(&self, address: u32) -> Option<u16> {
        self.segments.iter().find_map(|(start, place)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            let of = self.bytes.get(place.clone())?.get(offset..offset + 2)?;
            Some(u16::from_le_bytes([of[0], of[1]]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment of four bytes at 0x100.
    fn program() -> Vec<u8> {
        let mut bytes = vec![0; 88];
        (bytes[28], bytes[42], bytes[44]) = (52, 32, 1);
        (bytes[52], bytes[56], bytes[61], bytes[68]) = (1, 84, 1, 4);
        bytes[84..].copy_from_slice(&[0x70, 0x47, 0, 0xbf]);
        bytes
    }

    #[test]
    fn halfwords_are_found_by_address() {
        let elf = Elf::parse(program()).expect("a program");
        assert_eq!((elf.halfword(0x100), elf.halfword(0x102)), (Some(0x4770), Some(0xbf00)));
        assert_eq!((elf.halfword(0xfe), elf.halfword(0x103), elf.halfword(0x104)), (None, None, None));
        assert_eq!(elf.flash(), 4);
    }

    #[test]
    fn cut_files_are_refused() {
        for len in 0..program().len() {
            assert!(Elf::parse(program()[..len].to_vec()).is_none(), "{len}");
        }
    }
}
