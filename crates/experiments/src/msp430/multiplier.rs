//! The hardware multiplier of the MSP430F2617 (SLAU144, chapter 8): 16 by 16 bits, signed or
//! unsigned, with or without accumulation. The result is available to the next instruction.

use std::ops::Range;

const MPY: u16 = 0x0130;
const MPYS: u16 = 0x0132;
const MAC: u16 = 0x0134;
const MACS: u16 = 0x0136;
const OP2: u16 = 0x0138;
const RESLO: u16 = 0x013a;
const RESHI: u16 = 0x013c;
const SUMEXT: u16 = 0x013e;

/// Registers of the multiplier. The address of the first operand selects the operation.
#[derive(Clone, Debug, Default)]
pub struct Multiplier {
    operation: u16,
    first: u16,
    second: u16,
    result: u32,
    extension: u16,
}

impl Multiplier {
    /// Its addresses.
    pub const PLACES: Range<u16> = MPY..SUMEXT + 2;

    /// Reads a register.
    pub fn read(&self, address: u16) -> Option<u16> {
        Some(match address {
            MPY | MPYS | MAC | MACS => self.first,
            OP2 => self.second,
            RESLO => self.result as u16,
            RESHI => (self.result >> 16) as u16,
            SUMEXT => self.extension,
            _ => return None,
        })
    }

    /// Writes a register; false for a read-only one.
    pub fn write(&mut self, address: u16, value: u16) -> bool {
        match address {
            MPY | MPYS | MAC | MACS => {
                self.operation = address;
                self.first = value;
            }
            OP2 => {
                self.second = value;
                self.multiply();
            }
            RESLO => self.result = self.result & 0xffff_0000 | u32::from(value),
            RESHI => self.result = self.result & 0x0000_ffff | u32::from(value) << 16,
            _ => return false,
        }
        true
    }

    fn multiply(&mut self) {
        let unsigned = u32::from(self.first) * u32::from(self.second);
        let signed = (i32::from(self.first as i16) * i32::from(self.second as i16)) as u32;
        match self.operation {
            MPYS => {
                self.result = signed;
                self.extension = if (signed as i32) < 0 { 0xffff } else { 0 };
            }
            MAC => {
                let (sum, carry) = self.result.overflowing_add(unsigned);
                self.result = sum;
                self.extension = carry.into();
            }
            MACS => {
                self.result = self.result.wrapping_add(signed);
                self.extension = if (self.result as i32) < 0 { 0xffff } else { 0 };
            }
            _ => {
                self.result = unsigned;
                self.extension = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(multiplier: &mut Multiplier, operation: u16, a: u16, b: u16) -> (u16, u16, u16) {
        assert!(multiplier.write(operation, a) && multiplier.write(OP2, b));
        let read = |at| multiplier.read(at).unwrap_or_default();
        (read(RESHI), read(RESLO), read(SUMEXT))
    }

    #[test]
    fn products_are_signed_and_accumulate() {
        let mut m = Multiplier::default();
        assert_eq!(product(&mut m, MPY, 0xffff, 0xffff), (0xfffe, 0x0001, 0));
        assert_eq!(product(&mut m, MAC, 0xffff, 0xffff), (0xfffc, 0x0002, 1));
        assert_eq!(product(&mut m, MAC, 1, 1), (0xfffc, 0x0003, 0));
        assert_eq!(product(&mut m, MPYS, 0xffff, 2), (0xffff, 0xfffe, 0xffff));
        assert_eq!(product(&mut m, MACS, 3, 1), (0, 1, 0));
        assert_eq!(product(&mut m, MACS, 0xfffe, 1), (0xffff, 0xffff, 0xffff));
    }

    #[test]
    fn result_is_writable_extension_is_not() {
        let mut m = Multiplier::default();
        assert!(m.write(RESLO, 5) && m.write(RESHI, 6) && !m.write(SUMEXT, 1));
        assert_eq!(product(&mut m, MAC, 2, 3), (6, 11, 0));
    }
}
