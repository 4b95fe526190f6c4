//! Cycles of a Cortex-M3 by ARM's technical reference manual (DDI 0337, section "Instruction timing"), over
//! the pairs of instructions that a program executed.

use super::thumb::{Instruction, Kind, decode};
use std::collections::BTreeMap;

/// The memory of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flash {
    /// Cycles that an access waits.
    pub(super) wait_states: u64,
    /// Bytes of an access.
    pub(super) line: u32,
}

impl Flash {
    /// Memory as quick as the CPU, which published measurements have (24 MHz on an STM32L100, say).
    pub(super) const QUICK: Self = Self { wait_states: 0, line: 8 };
    /// Two wait states, 8 bytes at once and no buffer: an STM32F1 at 72 MHz without its prefetcher.
    pub(super) const SLOW: Self = Self { wait_states: 2, line: 8 };
}

/// Cycles to fill the pipeline after a branch: of a place in the instruction, which is fetched early, in a
/// register, and from memory. The manual says 1 to 3.
const REFILL: [u64; 3] = [1, 2, 3];

/// How often an instruction came right after another one.
pub(super) type Pairs = BTreeMap<(u32, u32), u64>;

/// Instructions and cycles of what was executed. `code` gives the halfword at an address.
pub(super) fn cycles(
    pairs: &Pairs,
    code: impl Fn(u32) -> Option<u16>,
    flash: Flash,
) -> Result<(u64, u64), String> {
    let at = |address: u32| {
        let halfword = |at| code(at).ok_or_else(|| format!("no code at {at:#x}"));
        let first = halfword(address)?;
        let second = if first >> 11 >= 0b11101 { halfword(address + 2)? } else { 0 };
        Ok::<_, String>(decode(first, second))
    };
    let (mut instructions, mut cycles) = (0, 0);
    for (&(from, to), &count) in pairs {
        let (before, this) = (at(from)?, at(to)?);
        let taken = to != from + before.bytes;
        let mut of = alone(this.kind, &before) + stall(&before, &this);
        if taken {
            // A wide instruction across two words takes a fetch more.
            of += refill(before.kind) + u64::from(this.bytes == 4 && !to.is_multiple_of(4));
        }
        if taken || to / flash.line != from / flash.line {
            of += flash.wait_states;
        }
        instructions += count;
        cycles += count * of;
    }
    Ok((instructions, cycles))
}

/// Cycles of an instruction after another one, where no branch is taken.
fn alone(kind: Kind, before: &Instruction) -> u64 {
    // Address and data of single accesses overlap.
    let overlaps = u64::from(matches!(before.kind, Kind::Load(_)));
    match kind {
        Kind::Data | Kind::Branch | Kind::BranchToRegister | Kind::Store => 1,
        Kind::Takes(cycles) => cycles,
        // The longest, as the factors are not known.
        Kind::LongProduct(_, most) => most,
        Kind::Division => 12,
        Kind::Load(_) | Kind::StoreAtOffset => 2 - overlaps,
        Kind::Multiple(registers) | Kind::LoadPc(registers) => 1 + registers,
        Kind::TableBranch => 3,
        // Folded into the instruction before it.
        Kind::If => u64::from(before.bytes == 4),
    }
}

fn refill(kind: Kind) -> u64 {
    match kind {
        Kind::BranchToRegister => REFILL[1],
        Kind::LoadPc(_) | Kind::TableBranch => REFILL[2],
        _ => REFILL[0],
    }
}

/// An address waits for the data processing right before it, and is not early when it comes from a load.
fn stall(before: &Instruction, this: &Instruction) -> u64 {
    let uses = |register: u8| this.address >> register & 1 == 1;
    let loads = matches!(this.kind, Kind::Load(_) | Kind::StoreAtOffset);
    match before.kind {
        Kind::Load(to) => u64::from(loads && uses(to)),
        _ => u64::from(before.writes.is_some_and(uses)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs halfwords from address 0 once, from one to the next.
    fn of(code: &[u16], flash: Flash) -> (u64, u64) {
        let mut pairs = Pairs::new();
        let mut at = 0;
        loop {
            let next =
                at + decode(code[at as usize / 2], code.get(at as usize / 2 + 1).copied().unwrap_or(0)).bytes;
            if next as usize / 2 >= code.len() {
                break;
            }
            pairs.insert((at, next), 1);
            at = next;
        }
        cycles(&pairs, |at| code.get(at as usize / 2).copied(), flash).expect("code")
    }

    const NOP: u16 = 0xbf00;
    const LOAD: u16 = 0x6808; // ldr r0, [r1]

    #[test]
    fn loads_overlap_as_the_manual_says() {
        assert_eq!(of(&[NOP, LOAD, NOP], Flash::QUICK), (2, 3));
        // Four loads in five cycles.
        assert_eq!(of(&[NOP, LOAD, LOAD, LOAD, LOAD], Flash::QUICK), (4, 5));
        // An address from the load before: ldr r1, [r0].
        assert_eq!(of(&[NOP, LOAD, 0x6801], Flash::QUICK), (2, 4));
        // An address from data processing: adds r1, #1.
        assert_eq!(of(&[NOP, 0x3101, LOAD], Flash::QUICK), (2, 4));
        // Stores do not wait; four registers take five cycles.
        assert_eq!(of(&[NOP, 0x6008, 0x6008, 0xc80f], Flash::QUICK), (3, 7));
    }

    #[test]
    fn slow_flash_waits_at_each_line() {
        assert_eq!(of(&[NOP; 13], Flash::QUICK), (12, 12));
        assert_eq!(of(&[NOP; 13], Flash::SLOW), (12, 12 + 3 * 2));
    }

    #[test]
    fn taken_branches_refill_the_pipeline() {
        let code = |at| [0xe000u16, NOP, NOP, 0x4770].get(at as usize / 2).copied();
        let pairs = Pairs::from([((0, 4), 10)]);
        assert_eq!(cycles(&pairs, code, Flash::QUICK), Ok((10, 20)));
        let back = Pairs::from([((6, 0), 1)]);
        assert_eq!(cycles(&back, code, Flash::QUICK), Ok((1, 3)));
        assert!(
            cycles(&Pairs::from([((0, 90), 1)]), code, Flash::QUICK).is_err_and(|why| why.contains("0x5a"))
        );
    }
}
