//! Instructions of ARMv7-M (ARM DDI 0403E), as far as their time depends on them.

/// What an instruction does, by the classes of the Cortex-M3's table of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data processing, in one cycle.
    Data,
    /// In a fixed number of cycles.
    Takes(u64),
    /// A long product: cycles at least and at most, by its factors.
    LongProduct(u64, u64),
    /// A division: 2 to 12 cycles, by its operands.
    Division,
    /// A single load to this register.
    Load(u8),
    /// A single store with an offset in the instruction.
    Store,
    /// A single store with an offset in a register.
    StoreAtOffset,
    /// Loads or stores of this many registers.
    Multiple(u64),
    /// A branch to a place in the instruction.
    Branch,
    /// A branch to a place in a register.
    BranchToRegister,
    /// A load of the program counter, among this many registers.
    LoadPc(u64),
    /// A table branch.
    TableBranch,
    /// The condition of the next instructions.
    If,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Bytes, 2 or 4.
    pub(super) bytes: u32,
    pub(super) kind: Kind,
    /// The register that data processing writes.
    pub(super) writes: Option<u8>,
    /// The registers of an address, as bits.
    pub(super) address: u16,
}

const PC: u16 = 15;

/// Decodes an instruction from its first halfword and the next.
pub(super) fn decode(first: u16, second: u16) -> Instruction {
    if first >> 11 >= 0b11101 { wide(first, second) } else { narrow(first) }
}

fn bit(register: u16) -> u16 {
    1 << register
}

fn narrow(op: u16) -> Instruction {
    let low = |at: u16| op >> at & 7;
    let of = |kind, writes: Option<u16>, address| Instruction {
        bytes: 2,
        kind,
        writes: writes.map(|register| register as u8),
        address,
    };
    let data = |writes: u16| of(Kind::Data, Some(writes), 0);
    let load = |to: u16, address| of(Kind::Load(to as u8), None, address);
    match op >> 10 {
        // Shifts, additions, MOV and CMP with constants.
        0b00_0000..=0b00_1001 | 0b00_1100..=0b00_1111 => data(if op >> 13 == 1 { low(8) } else { low(0) }),
        0b00_1010 | 0b00_1011 => of(Kind::Data, None, 0),
        0b01_0000 => match op >> 6 & 15 {
            // TST, CMP, CMN.
            8 | 10 | 11 => of(Kind::Data, None, 0),
            _ => data(low(0)),
        },
        0b01_0001 => {
            let to = low(0) | op >> 4 & 8;
            match op >> 8 & 3 {
                3 => of(Kind::BranchToRegister, None, 0),
                1 => of(Kind::Data, None, 0),
                _ if to == PC => of(Kind::BranchToRegister, None, 0),
                _ => data(to),
            }
        }
        0b01_0010 | 0b01_0011 => load(low(8), bit(PC)),
        0b01_0100..=0b01_0111 => {
            let address = bit(low(3)) | bit(low(6));
            match op >> 9 & 7 {
                0..=2 => of(Kind::StoreAtOffset, None, address),
                _ => load(low(0), address),
            }
        }
        0b01_1000..=0b10_0011 => match op >> 11 & 1 {
            1 => load(low(0), bit(low(3))),
            _ => of(Kind::Store, None, bit(low(3))),
        },
        0b10_0100..=0b10_0111 => match op >> 11 & 1 {
            1 => load(low(8), bit(13)),
            _ => of(Kind::Store, None, bit(13)),
        },
        0b10_1000..=0b10_1011 => data(low(8)),
        0b10_1100..=0b10_1111 => miscellaneous(op),
        0b11_0000..=0b11_0011 => of(Kind::Multiple(u64::from((op & 255).count_ones())), None, bit(low(8))),
        // Conditional and unconditional branches; SVC and UDF do not occur in measurements.
        _ => of(Kind::Branch, None, 0),
    }
}

fn miscellaneous(op: u16) -> Instruction {
    let of = |kind, writes| Instruction { bytes: 2, kind, writes, address: 0 };
    let registers = u64::from((op & 255).count_ones());
    match op >> 8 & 15 {
        // The stack pointer.
        0 => of(Kind::Data, Some(13)),
        1 | 3 | 9 | 11 => of(Kind::Branch, None),
        4 | 5 => of(Kind::Multiple(registers + u64::from(op >> 8 & 1)), None),
        12 => of(Kind::Multiple(registers), None),
        13 => of(Kind::LoadPc(registers + 1), None),
        // Extensions and REV.
        2 | 10 => of(Kind::Data, Some((op & 7) as u8)),
        15 if op & 15 != 0 => of(Kind::If, None),
        _ => of(Kind::Data, None),
    }
}

fn wide(a: u16, b: u16) -> Instruction {
    let (n, d, t, m) = (a & 15, b >> 8 & 15, b >> 12, b & 15);
    let of = |kind, writes: Option<u16>, address| Instruction {
        bytes: 4,
        kind,
        writes: writes.map(|register| register as u8),
        address,
    };
    let data = |writes: u16| of(Kind::Data, (writes != PC).then_some(writes), 0);
    match (a >> 11 & 3, a >> 4 & 0x7f) {
        // LDM, STM, PUSH and POP.
        (1, op) if op & 0x64 == 0 => {
            let registers = u64::from(b.count_ones());
            match op & 1 == 1 && b >> 15 == 1 {
                true => of(Kind::LoadPc(registers), None, bit(n)),
                false => of(Kind::Multiple(registers), None, bit(n)),
            }
        }
        // LDRD, STRD, table branches; exclusive accesses are single ones.
        (1, op) if op & 0x64 == 4 => match (op & 0x12, op, b >> 4 & 15) {
            (0, 0x0d, 0 | 1) => of(Kind::TableBranch, None, bit(n) | bit(m)),
            (0, ..) if op & 1 == 1 => of(Kind::Load(t as u8), None, bit(n)),
            (0, ..) => of(Kind::Store, None, bit(n)),
            _ => of(Kind::Multiple(2), None, bit(n)),
        },
        (1, _) => data(d),
        (2, _) if b >> 15 == 0 => data(d),
        (2, _) if b & 0x5000 != 0 || a >> 6 & 15 < 14 => of(Kind::Branch, None, 0),
        // Special registers and barriers.
        (2, _) => of(Kind::Takes(2), None, 0),
        (_, op) if op & 0x71 == 0 => {
            // A store: with an offset of 12 bits, of 8 bits, or in a register.
            match op & 8 != 0 || b >> 11 & 1 == 1 {
                true => of(Kind::Store, None, bit(n)),
                false => of(Kind::StoreAtOffset, None, bit(n) | bit(m)),
            }
        }
        (_, op) if op & 0x61 == 1 => {
            let offset = n != PC && op & 8 == 0 && b >> 11 & 1 == 0;
            let address = bit(n) | if offset { bit(m) } else { 0 };
            match t {
                15 if op & 6 == 4 => of(Kind::LoadPc(1), None, address),
                // Hints to caches.
                15 => of(Kind::Data, None, 0),
                _ => of(Kind::Load(t as u8), None, address),
            }
        }
        (_, op) if op & 0x70 == 0x20 => data(d),
        (_, op) if op & 0x78 == 0x30 => {
            // MUL takes one cycle, MLA and MLS two.
            match t == PC && b >> 4 & 15 == 0 {
                true => data(d),
                false => of(Kind::Takes(2), Some(d), 0),
            }
        }
        (_, op) => match op & 7 {
            1 | 3 => of(Kind::Division, Some(d), 0),
            0 | 2 => of(Kind::LongProduct(3, 5), Some(d), 0),
            _ => of(Kind::LongProduct(4, 7), Some(d), 0),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Halfwords as LLVM assembles the text.
    const KNOWN: [(&str, u16, u16, Kind); 32] = [
        ("eors r4, r1", 0x404c, 0, Kind::Data),
        ("mov r12, r11", 0x46dc, 0, Kind::Data),
        ("bx lr", 0x4770, 0, Kind::BranchToRegister),
        ("ldr r0, [pc, #4]", 0x4801, 0, Kind::Load(0)),
        ("ldr r1, [r2, r3]", 0x58d1, 0, Kind::Load(1)),
        ("str r1, [r2, r3]", 0x50d1, 0, Kind::StoreAtOffset),
        ("ldrb r1, [r2, #3]", 0x78d1, 0, Kind::Load(1)),
        ("strh r1, [r2, #2]", 0x8051, 0, Kind::Store),
        ("str r0, [sp, #8]", 0x9002, 0, Kind::Store),
        ("add sp, #8", 0xb002, 0, Kind::Data),
        ("cbz r0, 0", 0xb100, 0, Kind::Branch),
        ("push {r4, lr}", 0xb510, 0, Kind::Multiple(2)),
        ("pop {r4, pc}", 0xbd10, 0, Kind::LoadPc(2)),
        ("it eq", 0xbf08, 0, Kind::If),
        ("nop", 0xbf00, 0, Kind::Data),
        ("ldm r0!, {r1, r2}", 0xc806, 0, Kind::Multiple(2)),
        ("bne", 0xd1fe, 0, Kind::Branch),
        ("b", 0xe7fe, 0, Kind::Branch),
        ("eor r1, r2, r3, ror #8", 0xea82, 0x2133, Kind::Data),
        ("and r1, r1, #0xf0f0f0f0", 0xf001, 0x31f0, Kind::Data),
        ("movw r2, #1", 0xf240, 0x0201, Kind::Data),
        ("bl", 0xf7ff, 0xfffe, Kind::Branch),
        ("ldr.w r3, [r2, r3, lsl #2]", 0xf852, 0x3023, Kind::Load(3)),
        ("ldr pc, [sp, #4]", 0xf8dd, 0xf004, Kind::LoadPc(1)),
        ("str.w r8, [r1]", 0xf8c1, 0x8000, Kind::Store),
        ("ldrd r2, r3, [r0, #32]", 0xe9d0, 0x2308, Kind::Multiple(2)),
        ("ldmia.w r0!, {r4-r7}", 0xe8b0, 0x00f0, Kind::Multiple(4)),
        ("mul r1, r2, r3", 0xfb02, 0xf103, Kind::Data),
        ("mla r1, r2, r3, r4", 0xfb02, 0x4103, Kind::Takes(2)),
        ("umull r1, r2, r3, r4", 0xfba3, 0x1204, Kind::LongProduct(3, 5)),
        ("umlal r2, r3, r4, lr", 0xfbe4, 0x230e, Kind::LongProduct(4, 7)),
        ("udiv r1, r2, r3", 0xfbb2, 0xf1f3, Kind::Division),
    ];

    #[test]
    fn instructions_have_their_kinds() {
        for (text, first, second, kind) in KNOWN {
            let of = decode(first, second);
            assert_eq!(of.kind, kind, "{text}");
            assert_eq!(of.bytes, if first >> 11 >= 0b11101 { 4 } else { 2 }, "{text}");
        }
    }

    #[test]
    fn addresses_and_results_are_registers() {
        let look_up = decode(0xf852, 0x3023);
        assert_eq!(look_up.address, bit(2) | bit(3));
        assert_eq!(decode(0xea82, 0x2133).writes, Some(1));
        assert_eq!(decode(0x404c, 0).writes, Some(4));
        assert_eq!(decode(0x9002, 0).address, bit(13));
    }
}
