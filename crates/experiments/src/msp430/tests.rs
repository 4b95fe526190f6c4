//! The simulator against TI's cycle table, and against the manual's results and flags.

use super::cpu::{C, N, V, Z};
use super::*;

const HERE: u16 = 0x4000;
const DATA: u16 = 0x2000;
const ELSEWHERE: u16 = 0x2100;

/// A machine with a program at `HERE` in flash and registers that point into RAM.
fn machine(program: &[u16]) -> Machine {
    let mut machine = Machine::new(Devices::default());
    let bytes: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
    machine.bus.load(HERE.into(), &bytes).expect("a place in flash");
    machine.cpu.registers[0] = HERE;
    machine.cpu.registers[1] = 0x3000;
    machine.cpu.registers[4] = DATA;
    machine.cpu.registers[5] = ELSEWHERE;
    machine
}

fn cycles_of(program: &[u16]) -> u64 {
    let mut machine = machine(program);
    machine.step().unwrap_or_else(|stop| panic!("{program:04x?}: {stop}"));
    machine.bus.cycles
}

/// Format I with its extension words.
fn two(operation: u16, source: (u16, u16), destination: (u16, u16), byte: bool, words: &[u16]) -> Vec<u16> {
    let (register, mode) = source;
    let (to, ad) = destination;
    let word = operation << 12 | register << 8 | ad << 7 | u16::from(byte) << 6 | mode << 4 | to;
    [&[word], words].concat()
}

/// Format II.
fn one(operation: u16, operand: (u16, u16), byte: bool, words: &[u16]) -> Vec<u16> {
    let (register, mode) = operand;
    [&[0x1000 | operation << 7 | u16::from(byte) << 6 | mode << 4 | register], words].concat()
}

/// The sources of the table: register and mode, extension words, row.
const SOURCES: [((u16, u16), &[u16], usize); 15] = [
    ((6, 0), &[], 0),
    ((4, 2), &[], 1),
    ((4, 3), &[], 2),
    ((0, 3), &[0x1234], 3),
    ((4, 1), &[6], 4),      // x(Rn)
    ((0, 1), &[0xe000], 5), // EDE: x(PC)
    ((2, 1), &[0x2004], 6), // &EDE
    ((3, 0), &[], 0),       // the constants 0, 1, 2, -1, 4, 8
    ((3, 1), &[], 0),
    ((3, 2), &[], 0),
    ((3, 3), &[], 0),
    ((2, 2), &[], 0),
    ((2, 3), &[], 0),
    ((2, 0), &[], 0), // SR and SP are registers like the others
    ((1, 0), &[], 0),
];

/// SLAU144 table 3-16: format I, by rows Rn, @Rn, @Rn+, #N, x(Rn), EDE, &EDE and columns Rm, PC,
/// x(Rm), EDE, &EDE.
const TABLE_3_16: [[u64; 5]; 7] = [
    [1, 2, 4, 4, 4],
    [2, 2, 5, 5, 5],
    [2, 3, 5, 5, 5],
    [2, 3, 5, 5, 5],
    [3, 3, 6, 6, 6],
    [3, 3, 6, 6, 6],
    [3, 3, 6, 6, 6],
];

#[test]
fn format_one_cycles_match_the_table() {
    // EDE is relative to its extension word, so the offset reaches RAM from flash.
    let destinations: [((u16, u16), &[u16]); 5] =
        [((7, 0), &[]), ((0, 0), &[]), ((5, 1), &[2]), ((0, 1), &[0xe000]), ((2, 1), &[0x2102])];
    let mut tried = 0;
    for operation in 4..16 {
        for (source, words, row) in SOURCES {
            for (column, (destination, more)) in destinations.iter().enumerate() {
                for byte in [false, true] {
                    let program = two(operation, source, *destination, byte, &[words, more].concat());
                    assert_eq!(cycles_of(&program), TABLE_3_16[row][column], "{program:04x?}");
                    tried += 1;
                }
            }
        }
    }
    assert_eq!(tried, 12 * 15 * 5 * 2);
}

/// SLAU144 table 3-15: format II, by rows Rn, @Rn, @Rn+, #N, x(Rn), EDE, &EDE and columns RRA RRC
/// SWPB SXT, PUSH, CALL.
const TABLE_3_15: [[Option<u64>; 3]; 7] = [
    [Some(1), Some(3), Some(4)],
    [Some(3), Some(4), Some(4)],
    [Some(3), Some(5), Some(5)],
    [None, Some(4), Some(5)],
    [Some(4), Some(5), Some(5)],
    [Some(4), Some(5), Some(5)],
    [Some(4), Some(5), Some(5)],
];

#[test]
fn format_two_cycles_match_the_table() {
    for (operation, column) in [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 2)] {
        for (operand, words, row) in SOURCES {
            for byte in [false, true] {
                let Some(expected) = TABLE_3_15[row][column] else { continue };
                if byte && [1, 3, 5].contains(&operation) {
                    continue;
                }
                let program = one(operation, operand, byte, words);
                assert_eq!(cycles_of(&program), expected, "{program:04x?}");
            }
        }
    }
}

#[test]
fn jumps_take_two_cycles_and_reti_five() {
    for word in 0x2000..0x4000 {
        assert_eq!(cycles_of(&[word]), 2);
    }
    assert_eq!(cycles_of(&[0x1300]), 5);
}

/// Runs one instruction `OP R6, R7` with these values and this status. Returns R7 and C, Z, N, V.
fn result(operation: u16, byte: bool, source: u16, old: u16, status: u16) -> (u16, u16) {
    let mut machine = machine(&two(operation, (6, 0), (7, 0), byte, &[]));
    machine.cpu.registers[6] = source;
    machine.cpu.registers[7] = old;
    machine.cpu.registers[2] = status;
    machine.step().expect("a good instruction");
    (machine.cpu.registers[7], machine.cpu.registers[2])
}

#[test]
fn two_operand_results_match_manual() {
    let (mov, add, addc, subc, sub, cmp) = (4, 5, 6, 7, 8, 9);
    let (dadd, bit, bic, bis, xor, and) = (10, 11, 12, 13, 14, 15);
    for (operation, byte, source, old, status, expected) in [
        (mov, false, 0x8000, 1, C | Z | N | V, (0x8000, C | Z | N | V)),
        (mov, true, 0x12ff, 0xaaaa, 0, (0x00ff, 0)),
        (add, false, 0x7fff, 1, C, (0x8000, N | V)),
        (add, false, 0xffff, 1, 0, (0, C | Z)),
        (add, true, 0x80, 0x1280, 0, (0, C | Z | V)),
        (addc, false, 0xffff, 0, C, (0, C | Z)),
        (addc, false, 1, 1, 0, (2, 0)),
        (sub, false, 1, 0, 0, (0xffff, N)),
        (sub, false, 1, 0x8000, 0, (0x7fff, C | V)),
        (sub, true, 5, 5, 0, (0, C | Z)),
        (subc, false, 1, 5, 0, (3, C)),
        (subc, false, 1, 5, C, (4, C)),
        (subc, true, 0, 0, 0, (0xff, N)),
        (cmp, false, 6, 5, C, (5, N)),
        (cmp, false, 5, 5, 0, (5, C | Z)),
        (dadd, false, 0x0999, 0x0001, 0, (0x1000, 0)),
        (dadd, false, 0x9999, 0x0000, C, (0, C | Z)),
        (dadd, true, 0x45, 0x47, 0, (0x92, N)),
        (bit, false, 0x00f0, 0x0f00, C | V, (0x0f00, Z)),
        (bit, false, 0x8000, 0x8001, 0, (0x8001, C | N)),
        (bic, false, 0x00ff, 0x1234, N, (0x1200, N)),
        (bic, true, 0x0f, 0x1234, 0, (0x30, 0)),
        (bis, false, 0x00ff, 0x1200, Z, (0x12ff, Z)),
        (xor, false, 0xffff, 0x8000, 0, (0x7fff, C | V)),
        (xor, true, 0x55, 0x55, 0, (0, Z)),
        (and, false, 0x8000, 0xffff, V, (0x8000, C | N)),
        (and, true, 0xf0, 0x0f, 0, (0, Z)),
    ] {
        let name = format!("{operation:#x} {source:#06x}, {old:#06x}, byte {byte}, status {status:#06x}");
        assert_eq!(result(operation, byte, source, old, status), expected, "{name}");
    }
}

#[test]
fn one_operand_results_match_manual() {
    let (rrc, swpb, rra, sxt) = (0, 1, 2, 3);
    for (operation, byte, old, status, expected) in [
        (rrc, false, 0x0001, C, (0x8000, C | N)),
        (rrc, false, 0x0001, V, (0x0000, C | Z)),
        (rrc, true, 0x1202, C, (0x0081, N)),
        (swpb, false, 0x1234, N, (0x3412, N)),
        (rra, false, 0x8001, 0, (0xc000, C | N)),
        (rra, true, 0x0081, 0, (0x00c0, C | N)),
        (sxt, false, 0x1280, 0, (0xff80, C | N)),
        (sxt, false, 0xff00, V, (0x0000, Z)),
    ] {
        let mut machine = machine(&one(operation, (7, 0), byte, &[]));
        machine.cpu.registers[7] = old;
        machine.cpu.registers[2] = status;
        machine.step().expect("a good instruction");
        let found = (machine.cpu.registers[7], machine.cpu.registers[2]);
        assert_eq!(found, expected, "{operation} {old:#06x}, byte {byte}, status {status:#06x}");
    }
}

#[test]
fn jumps_are_taken_as_the_flags_say() {
    let taken = |condition: u16, status: u16| {
        let mut machine = machine(&[0x2000 | condition << 10 | 5]);
        machine.cpu.registers[2] = status;
        machine.step().expect("a jump");
        machine.cpu.registers[0] == HERE + 12
    };
    for status in 0..=(C | Z | N) {
        for status in [status, status | V] {
            let (c, z, n, v) = (status & C != 0, status & Z != 0, status & N != 0, status & V != 0);
            let expected = [!z, z, !c, c, n, n == v, n != v, true];
            for (condition, expected) in expected.into_iter().enumerate() {
                assert_eq!(taken(condition as u16, status), expected, "{condition} {status:#06x}");
            }
        }
    }
    let mut backwards = machine(&[0x3fff]);
    backwards.step().expect("a jump");
    assert_eq!(backwards.cpu.registers[0], HERE, "an offset of -1 is a jump to itself");
}

#[test]
fn addressing_reaches_the_right_bytes() {
    // mov @r4+, 2(r5); mov.b @r4+, r6; mov.b &0x2103, r7; mov #0xabcd, &0x2004; mov.b 1(r4), r8
    let mut machine = machine(&[0x44b5, 2, 0x4476, 0x4257, 0x2103, 0x40b2, 0xabcd, 0x2004, 0x4458, 1]);
    machine.bus.load(DATA.into(), &[0x11, 0x22, 0x33, 0x44]).expect("RAM");
    for _ in 0..5 {
        machine.step().expect("good instructions");
    }
    assert_eq!(machine.bus.bytes(ELSEWHERE, 4), [0, 0, 0x11, 0x22]);
    assert_eq!(machine.cpu.registers[4], DATA + 3, "a word advances by two, a byte by one");
    assert_eq!(machine.cpu.registers[6], 0x33);
    assert_eq!(machine.cpu.registers[7], 0x22);
    assert_eq!(machine.bus.bytes(DATA + 4, 2), [0xcd, 0xab]);
    assert_eq!(machine.cpu.registers[8], 0xcd, "{:x?}", machine.cpu.registers);
}

#[test]
fn calls_and_the_stack_come_back() {
    // call #0x4010; mov #7, r9 ... 0x4010: push r4; pop r10 (mov @sp+, r10); ret (mov @sp+, pc)
    let mut machine = machine(&[0x12b0, 0x4010, 0x4039, 7, 0, 0, 0, 0, 0x1204, 0x413a, 0x4130]);
    for _ in 0..5 {
        machine.step().expect("good instructions");
    }
    assert_eq!((machine.cpu.registers[9], machine.cpu.registers[10]), (7, DATA));
    assert_eq!(machine.cpu.registers[1], 0x3000);
    assert_eq!(machine.bus.cycles, 5 + 3 + 2 + 3 + 2);
}

#[test]
fn program_prints_measures_and_ends() {
    // mov.b #'k', &PRINT; mov #1, &MEASURE; mov r4, r5; mov @r4, r6; mov #0, &MEASURE; mov
    // &MEASURED, r7; mov #3, &EXIT
    let mut machine = machine(&[
        0x40f2, 0x6b, 0x01c2, 0x4392, 0x01c4, 0x4405, 0x4426, 0x4382, 0x01c4, 0x4217, 0x01c6, 0x40b2, 3,
        0x01c0,
    ]);
    let finished = machine.run(1000).expect("an end");
    assert_eq!((finished.code, finished.output.as_str()), (3, "k"));
    assert_eq!(machine.cpu.registers[7], 3, "what marks a measurement is not of it");
    assert_eq!((finished.cycles, finished.instructions), (5 + 4 + 1 + 2 + 4 + 3 + 5, 7));
}

#[test]
fn faults_stop_the_program() {
    assert_eq!(machine(&[0x0000]).step(), Err(StopError::Illegal { pc: HERE, word: 0 }));
    assert_eq!(
        machine(&[0x1404]).step(),
        Err(StopError::Illegal { pc: HERE, word: 0x1404 }),
        "an MSP430X instruction"
    );
    let flash = machine(&[0x4382, 0x5000]).step();
    assert_eq!(flash, Err(StopError::Fault { pc: HERE, address: 0x5000, what: "a write to flash" }));
    let hole = machine(&[0x4216, 0x0100]).step();
    assert_eq!(hole, Err(StopError::Fault { pc: HERE, address: 0x0100, what: "a read where nothing is" }));
    assert_eq!(machine(&[0xd032, 0x0010]).step(), Err(StopError::Asleep { pc: HERE }));
    let endless = machine(&[0x3fff]).run(10);
    assert_eq!(endless, Err(StopError::Limit { pc: HERE, cycles: 10 }));
}

#[test]
fn multiplier_is_optional() {
    let program = [0x4382, 0x0130];
    let mut with = machine(&program);
    assert_eq!(with.step(), Ok(()));
    let mut without = Machine::new(Devices { multiplier: false, aes_cycles: None });
    without.bus.load(HERE.into(), &[0x82, 0x43, 0x30, 0x01]).expect("flash");
    without.cpu.registers[0] = HERE;
    assert!(matches!(without.step(), Err(StopError::Fault { address: 0x0130, .. })));
}

#[test]
fn invalid_images_are_refused() {
    for bytes in [&b""[..], b"\x7fELF", &[0; 100]] {
        assert!(Image::parse(bytes).is_err());
    }
    let mut bus = Machine::new(Devices::default()).bus;
    assert!(bus.load(0x30ff, &[0; 2]).is_err(), "half in RAM, half in flash");
    assert!(bus.load(0xffff, &[0; 2]).is_err());
    assert!(bus.load(u32::MAX, &[0; 2]).is_err());
}
