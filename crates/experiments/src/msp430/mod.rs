//! A cycle-counting simulator of the MSP430, for the emulated motes of hiller2018.
//!
//! It executes the instruction set of the classic 16-bit CPU with the cycles of TI's table
//! (MSP430x2xx Family User's Guide, SLAU144, section 3.4.4). The memory layout is that of an
//! MSP430F2617: 8 KB of RAM, flash up to the reset vector, the hardware multiplier. Additional
//! ports let a program print, exit and measure itself, and a model of a radio's AES engine is
//! attached.
//!
//! - [`cpu`] decodes and executes; [`cycles`] is the table,
//! - [`bus`] is memory and devices; [`multiplier`] and [`engine`] are two of these,
//! - [`image`] reads programs.

pub mod bus;
pub mod cpu;
pub mod cycles;
pub mod engine;
pub mod image;
pub mod multiplier;

#[cfg(test)]
mod tests;

use bus::Bus;
use cpu::Cpu;
use image::Image;

/// Devices besides CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Devices {
    /// The 16-bit hardware multiplier of the F2617.
    pub multiplier: bool,
    /// An AES engine with this many cycles per block.
    pub aes_cycles: Option<u64>,
}

impl Default for Devices {
    fn default() -> Self {
        Self { multiplier: true, aes_cycles: None }
    }
}

/// Why a program stopped early. `pc` is the address of the instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// The word is not an instruction of the classic CPU.
    #[error("no instruction: {word:#06x} at {pc:#06x}")]
    Illegal {
        /// Where.
        pc: u16,
        /// The word.
        word: u16,
    },
    /// A write to flash, or an access to an unmapped address.
    #[error("{what} at {address:#06x}, by the instruction at {pc:#06x}")]
    Fault {
        /// Where.
        pc: u16,
        /// The address.
        address: u16,
        /// The fault.
        what: &'static str,
    },
    /// The program switched the CPU off; no interrupt can wake it.
    #[error("asleep for ever at {pc:#06x}")]
    Asleep {
        /// Where.
        pc: u16,
    },
    /// The limit of cycles was reached.
    #[error("not done after {cycles} cycles, at {pc:#06x}")]
    Limit {
        /// Where.
        pc: u16,
        /// The cycles so far.
        cycles: u64,
    },
}

/// A program that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Value written to the exit port; 0 is success.
    pub code: u16,
    /// Its output.
    pub output: String,
    /// The cycles of the whole run.
    pub cycles: u64,
    /// The instructions of the whole run.
    pub instructions: u64,
}

/// A mote: CPU, memory, devices.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The CPU.
    pub cpu: Cpu,
    /// Memory and devices.
    pub bus: Bus,
    /// Instructions executed.
    pub instructions: u64,
}

impl Machine {
    /// A machine with empty memory, stopped before the instruction at address 0.
    pub fn new(devices: Devices) -> Self {
        Self { cpu: Cpu::default(), bus: Bus::new(devices), instructions: 0 }
    }

    /// A machine after reset with a program in its flash.
    pub fn with(image: &Image, devices: Devices) -> Result<Self, image::ImageError> {
        let mut machine = Self::new(devices);
        for segment in &image.segments {
            machine.bus.load(segment.address, &segment.bytes)?;
        }
        machine.cpu.registers[0] = machine.bus.vector();
        Ok(machine)
    }

    /// Executes one instruction.
    pub fn step(&mut self) -> Result<(), StopError> {
        let pc = self.cpu.registers[0];
        let before = self.bus.cycles;
        let cycles = self.cpu.step(&mut self.bus)?;
        self.bus.finish_instruction(before, cycles);
        self.instructions += 1;
        match self.bus.take_fault() {
            Some((address, what)) => Err(StopError::Fault { pc, address, what }),
            None if self.cpu.is_off() => Err(StopError::Asleep { pc }),
            None => Ok(()),
        }
    }

    /// Runs to the end, or to the limit of cycles.
    pub fn run(&mut self, limit: u64) -> Result<Finished, StopError> {
        while self.bus.cycles < limit {
            self.step()?;
            if let Some(code) = self.bus.exit {
                return Ok(Finished {
                    code,
                    output: String::from_utf8_lossy(&self.bus.output).into_owned(),
                    cycles: self.bus.cycles,
                    instructions: self.instructions,
                });
            }
        }
        Err(StopError::Limit { pc: self.cpu.registers[0], cycles: self.bus.cycles })
    }
}
