//! Memory and devices by address, as on an MSP430F2617 below 64 KB.
//!
//! | addresses | content |
//! | --- | --- |
//! | 0x0130 to 0x013f | the hardware multiplier |
//! | 0x0160 to 0x0183 | the model of a radio's AES engine |
//! | 0x01c0 | a word written here ends the program with that code |
//! | 0x01c2 | a byte written here is printed |
//! | 0x01c4 | 1 begins a measurement, 0 ends it |
//! | 0x01c6, 0x01c8 | the cycles of the last measurement, lower and upper word |
//! | 0x1100 to 0x30ff | RAM |
//! | 0x3100 to 0xffff | flash |

use super::Devices;
use super::engine::Engine;
use super::image::ImageError;
use super::multiplier::Multiplier;
use std::ops::Range;

/// RAM.
pub const RAM: Range<u32> = 0x1100..0x3100;
/// Flash.
pub const FLASH: Range<u32> = 0x3100..0x1_0000;
/// The port that ends the program.
pub const EXIT: u16 = 0x01c0;
/// The port that prints.
pub const PRINT: u16 = 0x01c2;
/// The port that begins and ends a measurement.
pub const MEASURE: u16 = 0x01c4;

/// Memory, devices, and the clock.
#[derive(Clone, Debug)]
pub struct Bus {
    memory: Box<[u8; 0x1_0000]>,
    multiplier: Option<Multiplier>,
    engine: Option<Engine>,
    /// Cycles since reset, up to the start of the running instruction.
    pub cycles: u64,
    /// Output of the program.
    pub output: Vec<u8>,
    /// Exit code, once written.
    pub exit: Option<u16>,
    /// Mark of the running instruction on the measurement.
    mark: Option<bool>,
    /// Start of the measurement in cycles.
    since: u64,
    measured: u32,
    fault: Option<(u16, &'static str)>,
}

impl Bus {
    pub(crate) fn new(devices: Devices) -> Self {
        Self {
            memory: Box::new([0; 0x1_0000]),
            multiplier: devices.multiplier.then(Multiplier::default),
            engine: devices.aes_cycles.map(Engine::new),
            cycles: 0,
            output: Vec::new(),
            exit: None,
            mark: None,
            since: 0,
            measured: 0,
            fault: None,
        }
    }

    /// Loads bytes before the program starts.
    pub fn load(&mut self, address: u32, bytes: &[u8]) -> Result<(), ImageError> {
        let end = address as usize + bytes.len();
        let fits = |range: &Range<u32>| address >= range.start && end <= range.end as usize;
        match self.memory.get_mut(address as usize..end) {
            Some(memory) if fits(&RAM) || fits(&FLASH) => {
                memory.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(ImageError::Place { address, len: bytes.len() }),
        }
    }

    /// The reset vector.
    pub fn vector(&self) -> u16 {
        self.word(0xfffe)
    }

    /// Bytes from an address, for tests.
    pub fn bytes(&self, address: u16, len: usize) -> &[u8] {
        let start = usize::from(address);
        &self.memory[start..self.memory.len().min(start + len)]
    }

    /// Accounts an instruction that began at cycle `before`. The two instructions that mark a
    /// measurement are excluded from it.
    pub(crate) fn finish_instruction(&mut self, before: u64, cycles: u64) {
        self.cycles = before + cycles;
        match self.mark.take() {
            Some(true) => self.since = self.cycles,
            Some(false) => self.measured = u32::try_from(before - self.since).unwrap_or(u32::MAX),
            None => {}
        }
    }

    pub(crate) fn take_fault(&mut self) -> Option<(u16, &'static str)> {
        self.fault.take()
    }

    fn blame(&mut self, address: u16, what: &'static str) {
        self.fault.get_or_insert((address, what));
    }

    fn word(&self, address: u16) -> u16 {
        let at = usize::from(address & !1);
        u16::from_le_bytes([self.memory[at], self.memory[at + 1]])
    }

    /// A word of the program.
    pub(crate) fn fetch(&mut self, address: u16) -> u16 {
        if u32::from(address) < RAM.start {
            self.blame(address, "no program");
        }
        self.word(address)
    }

    pub(crate) fn read_word(&mut self, address: u16) -> u16 {
        let address = address & !1;
        if u32::from(address) >= RAM.start {
            return self.word(address);
        }
        let value = match address {
            0x01c6 => Some(self.measured as u16),
            0x01c8 => Some((self.measured >> 16) as u16),
            _ => match (&self.multiplier, &self.engine) {
                (Some(multiplier), _) if Multiplier::PLACES.contains(&address) => multiplier.read(address),
                (_, Some(engine)) if Engine::PLACES.contains(&address) => engine.read(address, self.cycles),
                _ => None,
            },
        };
        value.unwrap_or_else(|| {
            self.blame(address, "a read where nothing is");
            0
        })
    }

    pub(crate) fn read_byte(&mut self, address: u16) -> u8 {
        let word = self.read_word(address);
        word.to_le_bytes()[usize::from(address & 1)]
    }

    pub(crate) fn write_word(&mut self, address: u16, value: u16) {
        let address = address & !1;
        match u32::from(address) {
            at if RAM.contains(&at) => {
                let at = usize::from(address);
                self.memory[at..at + 2].copy_from_slice(&value.to_le_bytes());
            }
            at if at >= FLASH.start => self.blame(address, "a write to flash"),
            _ => self.write_device(address, value),
        }
    }

    pub(crate) fn write_byte(&mut self, address: u16, value: u8) {
        if RAM.contains(&u32::from(address)) {
            self.memory[usize::from(address)] = value;
        } else {
            self.write_word(address, value.into());
        }
    }

    fn write_device(&mut self, address: u16, value: u16) {
        let known = match address {
            EXIT => {
                self.exit = Some(value);
                true
            }
            PRINT => {
                self.output.push(value as u8);
                true
            }
            MEASURE => {
                self.mark = Some(value != 0);
                true
            }
            _ => match (&mut self.multiplier, &mut self.engine) {
                (Some(multiplier), _) if Multiplier::PLACES.contains(&address) => {
                    multiplier.write(address, value)
                }
                (_, Some(engine)) if Engine::PLACES.contains(&address) => {
                    engine.write(address, value, self.cycles)
                }
                _ => false,
            },
        };
        if !known {
            self.blame(address, "a write where nothing is");
        }
    }
}
