//! Cycles by TI's table (SLAU144, section 3.4.4). A generated constant costs the same as a
//! register; a jump costs the same whether taken or not.

/// Addressing of the source, as far as cycles depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `Rn`, or a generated constant.
    Register,
    /// `@Rn`
    Indirect,
    /// `@Rn+`
    Increment,
    /// `#N`
    Immediate,
    /// `x(Rn)`, `EDE`, `&EDE`
    Indexed,
}

/// Addressing of the destination of a format I instruction, as far as cycles depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// `Rm`
    Register,
    /// `PC`
    ProgramCounter,
    /// `x(Rm)`, `EDE`, `&EDE`
    Indexed,
}

/// The rows of the table for instructions with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single {
    /// RRA, RRC, SWPB, SXT
    Shift,
    /// PUSH
    Push,
    /// CALL
    Call,
}

/// A jump.
pub const JUMP: u64 = 2;

/// RETI.
pub const RETURN: u64 = 5;

/// An instruction with two operands (format I).
pub const fn two(source: Source, destination: Destination) -> u64 {
    use Destination::{Indexed as ToMemory, ProgramCounter, Register as ToRegister};
    match (source, destination) {
        (Source::Register, ToRegister) => 1,
        (Source::Register | Source::Indirect, ProgramCounter) => 2,
        (Source::Register, ToMemory) => 4,
        (Source::Indirect | Source::Increment | Source::Immediate, ToRegister) => 2,
        (Source::Increment | Source::Immediate, ProgramCounter) => 3,
        (Source::Indirect | Source::Increment | Source::Immediate, ToMemory) => 5,
        (Source::Indexed, ToRegister | ProgramCounter) => 3,
        (Source::Indexed, ToMemory) => 6,
    }
}

/// An instruction with one operand (format II).
pub const fn one(kind: Single, operand: Source) -> u64 {
    match (kind, operand) {
        (Single::Shift, Source::Register) => 1,
        (Single::Shift, Source::Indirect | Source::Increment | Source::Immediate) => 3,
        (Single::Shift, Source::Indexed) => 4,
        (Single::Push, Source::Register) => 3,
        (Single::Push | Single::Call, Source::Indirect) | (Single::Call, Source::Register) => 4,
        (Single::Push, Source::Immediate) => 4,
        (Single::Push | Single::Call, Source::Increment | Source::Indexed) => 5,
        (Single::Call, Source::Immediate) => 5,
    }
}
