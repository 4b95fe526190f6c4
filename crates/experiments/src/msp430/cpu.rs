//! The CPU: 16 registers, 27 instructions, 7 addressing modes (SLAU144 chapter 3).

use super::StopError;
use super::bus::Bus;
use super::cycles::{self, Destination, Single, Source};

/// The carry flag.
pub const C: u16 = 0x0001;
/// The zero flag.
pub const Z: u16 = 0x0002;
/// The negative flag.
pub const N: u16 = 0x0004;
/// CPU off.
pub const CPUOFF: u16 = 0x0010;
/// The overflow flag.
pub const V: u16 = 0x0100;

const PC: usize = 0;
const SP: usize = 1;
const SR: usize = 2;
const CG: usize = 3;

/// The registers; R0 is the program counter, R1 the stack pointer, R2 the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// R0 to R15. R3 is the constant generator; writes to it are ignored.
    pub registers: [u16; 16],
}

/// Bytes or words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Byte,
    Word,
}

impl Width {
    const fn of(word: u16) -> Self {
        if word & 0x40 == 0 { Self::Word } else { Self::Byte }
    }

    const fn mask(self) -> u16 {
        match self {
            Self::Byte => 0x00ff,
            Self::Word => 0xffff,
        }
    }

    const fn sign(self) -> u16 {
        match self {
            Self::Byte => 0x0080,
            Self::Word => 0x8000,
        }
    }
}

/// Place of an operand or result.
#[derive(Clone, Copy)]
enum Place {
    Register(usize),
    Memory(u16),
    /// A generated constant.
    Nowhere,
}

impl Cpu {
    /// Whether the program has switched the CPU off.
    pub const fn is_off(&self) -> bool {
        self.registers[SR] & CPUOFF != 0
    }

    /// Executes one instruction and returns its cycles.
    pub fn step(&mut self, bus: &mut Bus) -> Result<u64, StopError> {
        let pc = self.registers[PC];
        let word = self.fetch(bus);
        match word >> 12 {
            0x1 if word < 0x1400 => self.single(bus, pc, word),
            0x2 | 0x3 => {
                self.jump(word);
                Ok(cycles::JUMP)
            }
            0x4.. => Ok(self.double(bus, word)),
            _ => Err(StopError::Illegal { pc, word }),
        }
    }

    fn fetch(&mut self, bus: &mut Bus) -> u16 {
        let word = bus.fetch(self.registers[PC]);
        self.registers[PC] = self.registers[PC].wrapping_add(2);
        word
    }

    fn set(&mut self, register: usize, value: u16) {
        self.registers[register] = match register {
            PC | SP => value & !1,
            CG => 0,
            _ => value,
        };
    }

    /// The address of an operand `x(Rn)`; R2 is read as 0, which gives `&EDE`, and the PC is that
    /// of the extension word.
    fn indexed(&mut self, bus: &mut Bus, register: usize) -> u16 {
        let base = match register {
            SR | CG => 0,
            _ => self.registers[register],
        };
        base.wrapping_add(self.fetch(bus))
    }

    /// A source operand: its kind for the cycles, its place and its value.
    fn source(&mut self, bus: &mut Bus, word: u16, register: usize, width: Width) -> (Source, Place, u16) {
        let mode = word >> 4 & 3;
        let constant = match (register, mode) {
            (CG, 0) => Some(0),
            (CG, 1) => Some(1),
            (CG, 2) => Some(2),
            (CG, _) => Some(0xffff),
            (SR, 2) => Some(4),
            (SR, 3) => Some(8),
            _ => None,
        };
        if let Some(value) = constant {
            return (Source::Register, Place::Nowhere, value & width.mask());
        }
        match mode {
            0 => (Source::Register, Place::Register(register), self.registers[register] & width.mask()),
            1 => {
                let address = self.indexed(bus, register);
                (Source::Indexed, Place::Memory(address), read(bus, address, width))
            }
            _ => {
                let address = self.registers[register];
                // An immediate is a word of the program, whatever the width.
                let value = match register {
                    PC => bus.fetch(address) & width.mask(),
                    _ => read(bus, address, width),
                };
                if mode == 2 {
                    return (Source::Indirect, Place::Memory(address), value);
                }
                let by = if width == Width::Byte && register > SP { 1 } else { 2 };
                self.registers[register] = address.wrapping_add(by);
                let kind = if register == PC { Source::Immediate } else { Source::Increment };
                (kind, Place::Memory(address), value)
            }
        }
    }

    fn write(&mut self, bus: &mut Bus, place: Place, width: Width, value: u16) {
        match place {
            Place::Register(register) => self.set(register, value & width.mask()),
            Place::Memory(address) => write(bus, address, width, value),
            Place::Nowhere => {}
        }
    }

    fn carry(&self) -> u16 {
        self.registers[SR] & C
    }

    fn flags(&mut self, value: u16, width: Width, carry: bool, overflow: bool) {
        let mut status = self.registers[SR] & !(C | Z | N | V);
        if value & width.mask() == 0 {
            status |= Z;
        }
        if value & width.sign() != 0 {
            status |= N;
        }
        if carry {
            status |= C;
        }
        if overflow {
            status |= V;
        }
        self.registers[SR] = status;
    }

    /// Format II.
    fn single(&mut self, bus: &mut Bus, pc: u16, word: u16) -> Result<u64, StopError> {
        let operation = word >> 7 & 7;
        let width = Width::of(word);
        let illegal = match operation {
            1 | 3 | 5 => width == Width::Byte,
            6 => word != 0x1300,
            7 => true,
            _ => false,
        };
        if illegal {
            return Err(StopError::Illegal { pc, word });
        }
        if operation == 6 {
            self.registers[SR] = self.pop(bus);
            self.registers[PC] = self.pop(bus) & !1;
            return Ok(cycles::RETURN);
        }
        let (kind, place, value) = self.source(bus, word, usize::from(word & 0xf), width);
        let row = match operation {
            0 => {
                let result = value >> 1 | if self.carry() != 0 { width.sign() } else { 0 };
                self.flags(result, width, value & 1 != 0, false);
                self.write(bus, place, width, result);
                Single::Shift
            }
            1 => {
                self.write(bus, place, width, value.swap_bytes());
                Single::Shift
            }
            2 => {
                let result = value >> 1 | value & width.sign();
                self.flags(result, width, value & 1 != 0, false);
                self.write(bus, place, width, result);
                Single::Shift
            }
            3 => {
                let result = value as u8 as i8 as u16;
                self.flags(result, width, result != 0, false);
                self.write(bus, place, width, result);
                Single::Shift
            }
            4 => {
                self.registers[SP] = self.registers[SP].wrapping_sub(2);
                write(bus, self.registers[SP], width, value);
                Single::Push
            }
            _ => {
                self.registers[SP] = self.registers[SP].wrapping_sub(2);
                write(bus, self.registers[SP], Width::Word, self.registers[PC]);
                self.set(PC, value);
                Single::Call
            }
        };
        Ok(cycles::one(row, kind))
    }

    fn pop(&mut self, bus: &mut Bus) -> u16 {
        let value = bus.read_word(self.registers[SP]);
        self.registers[SP] = self.registers[SP].wrapping_add(2);
        value
    }

    /// Jumps: the condition, and ten bits of offset in words.
    fn jump(&mut self, word: u16) {
        let status = self.registers[SR];
        let less = (status & N != 0) != (status & V != 0);
        let taken = match word >> 10 & 7 {
            0 => status & Z == 0,
            1 => status & Z != 0,
            2 => status & C == 0,
            3 => status & C != 0,
            4 => status & N != 0,
            5 => !less,
            6 => less,
            _ => true,
        };
        if taken {
            let offset = ((word << 6) as i16 >> 6) * 2;
            self.registers[PC] = self.registers[PC].wrapping_add_signed(offset);
        }
    }

    /// Format I.
    fn double(&mut self, bus: &mut Bus, word: u16) -> u64 {
        let width = Width::of(word);
        let (kind, _, source) = self.source(bus, word, usize::from(word >> 8 & 0xf), width);
        let register = usize::from(word & 0xf);
        let (to, place) = match (word & 0x80 != 0, register) {
            (true, _) => (Destination::Indexed, Place::Memory(self.indexed(bus, register))),
            (false, PC) => (Destination::ProgramCounter, Place::Register(PC)),
            (false, _) => (Destination::Register, Place::Register(register)),
        };
        let operation = word >> 12;
        // MOV does not read its destination, which matters to a device.
        let old = match place {
            _ if operation == 4 => 0,
            Place::Memory(address) => read(bus, address, width),
            Place::Register(CG) | Place::Nowhere => 0,
            Place::Register(register) => self.registers[register] & width.mask(),
        };
        let result = match operation {
            0x4 => Some(source),
            0x5 => Some(self.add(old, source, 0, width)),
            0x6 => Some(self.add(old, source, self.carry(), width)),
            0x7 => Some(self.add(old, !source, self.carry(), width)),
            0x8 => Some(self.add(old, !source, 1, width)),
            0x9 => {
                self.add(old, !source, 1, width);
                None
            }
            0xa => Some(self.add_decimal(old, source, width)),
            0xc => Some(old & !source),
            0xd => Some(old | source),
            0xe => {
                let result = old ^ source;
                let overflow = old & source & width.sign() != 0;
                self.flags(result, width, result & width.mask() != 0, overflow);
                Some(result)
            }
            _ => {
                let result = old & source;
                self.flags(result, width, result != 0, false);
                (operation == 0xf).then_some(result)
            }
        };
        if let Some(result) = result {
            self.write(bus, place, width, result);
        }
        cycles::two(kind, to)
    }

    fn add(&mut self, a: u16, b: u16, carry: u16, width: Width) -> u16 {
        let (a, b) = (a & width.mask(), b & width.mask());
        let sum = u32::from(a) + u32::from(b) + u32::from(carry);
        let result = sum as u16 & width.mask();
        let overflow = !(a ^ b) & (a ^ result) & width.sign() != 0;
        self.flags(result, width, sum > u32::from(width.mask()), overflow);
        result
    }

    /// DADD: digits of four bits, with carry in and out. V is undefined there; it is left cleared here.
    fn add_decimal(&mut self, a: u16, b: u16, width: Width) -> u16 {
        let mut carry = self.carry();
        let mut result = 0;
        let digits = if width == Width::Byte { 2 } else { 4 };
        for shift in (0..digits).map(|digit| 4 * digit) {
            let mut digit = (a >> shift & 0xf) + (b >> shift & 0xf) + carry;
            carry = u16::from(digit > 9);
            if carry != 0 {
                digit -= 10;
            }
            result |= (digit & 0xf) << shift;
        }
        self.flags(result, width, carry != 0, false);
        result
    }
}

fn read(bus: &mut Bus, address: u16, width: Width) -> u16 {
    match width {
        Width::Byte => bus.read_byte(address).into(),
        Width::Word => bus.read_word(address),
    }
}

fn write(bus: &mut Bus, address: u16, width: Width, value: u16) {
    match width {
        Width::Byte => bus.write_byte(address, value as u8),
        Width::Word => bus.write_word(address, value),
    }
}
