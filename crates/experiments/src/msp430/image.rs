//! Programs as the linker leaves them: 32-bit little-endian ELF.

use object::Endianness;
use object::elf::{EM_ARM, EM_MSP430, FileHeader32, PF_W, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs;
use std::path::Path;

/// Fault of a program file.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file can't be read.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// It is not such an ELF.
    #[error("not a 32-bit little-endian ELF program: {0}")]
    Elf(String),
    /// It does not fit the machine.
    #[error("{len} bytes at {address:#06x} are outside of RAM and flash")]
    Place {
        /// Start address.
        address: u32,
        /// Length.
        len: usize,
    },
}

impl From<object::Error> for ImageError {
    fn from(error: object::Error) -> Self {
        Self::Elf(error.to_string())
    }
}

/// Bytes that are in memory before the program starts.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Load address.
    pub address: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Image {
    /// Loaded segments.
    pub segments: Vec<Segment>,
    /// Bytes of RAM that its variables take.
    pub variables: usize,
}

impl Image {
    /// Reads a program from a file.
    pub fn read(path: &Path) -> Result<Self, ImageError> {
        Self::parse(&fs::read(path)?)
    }

    /// Reads a program.
    pub fn parse(file: &[u8]) -> Result<Self, ImageError> {
        let header = FileHeader32::<Endianness>::parse(file)?;
        let endian = header.endian()?;
        if endian != Endianness::Little || ![EM_MSP430, EM_ARM].contains(&header.e_machine(endian)) {
            return Err(ImageError::Elf("for another machine".into()));
        }
        let (mut segments, mut variables) = (Vec::new(), 0);
        for program in header.program_headers(endian, file)? {
            if program.p_type(endian) != PT_LOAD {
                continue;
            }
            if program.p_flags(endian) & PF_W != 0 {
                variables += program.p_memsz(endian) as usize;
            }
            let bytes = program.data(endian, file).map_err(|()| ImageError::Elf("cut off".into()))?;
            if !bytes.is_empty() {
                segments.push(Segment { address: program.p_paddr(endian), bytes: bytes.to_vec() });
            }
        }
        Ok(Self { segments, variables })
    }

    /// Bytes of flash: code, tables, initial values of variables.
    pub fn size(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes.len()).sum()
    }
}
