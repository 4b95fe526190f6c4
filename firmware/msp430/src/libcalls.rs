//! Routines that compiled code calls and the compiler's library lacks. A wrong one would silently
//! give wrong ciphertext, so every program first checks known answers, including those of these
//! routines ([`check`]).

use core::arch::global_asm;
use core::hint::black_box;

global_asm!(include_str!("libcalls.s"));

/// Quotient and remainder, bit by bit. Division by zero gives all ones; any result is allowed.
macro_rules! divide {
    ($name:ident, $type:ty, $a:ident, $b:ident) => {{
        let (mut quotient, mut remainder): ($type, $type) = ($a, 0);
        let mut bits = <$type>::BITS;
        while bits > 0 {
            let top = quotient >> (<$type>::BITS - 1);
            quotient = quotient << 1;
            remainder = remainder << 1 | top;
            if remainder >= $b {
                remainder = remainder.wrapping_sub($b);
                quotient |= 1;
            }
            bits -= 1;
        }
        (quotient, remainder)
    }};
}

#[unsafe(no_mangle)]
extern "C" fn __mspabi_divu(a: u16, b: u16) -> u16 {
    divide!(divide, u16, a, b).0
}

#[unsafe(no_mangle)]
extern "C" fn __mspabi_remu(a: u16, b: u16) -> u16 {
    divide!(divide, u16, a, b).1
}

#[unsafe(no_mangle)]
extern "C" fn __mspabi_divul(a: u32, b: u32) -> u32 {
    divide!(divide, u32, a, b).0
}

#[unsafe(no_mangle)]
extern "C" fn __mspabi_remul(a: u32, b: u32) -> u32 {
    divide!(divide, u32, a, b).1
}

/// The first known answer that fails, on operands the compiler cannot evaluate in advance.
pub fn check() -> Option<usize> {
    let (a, b) = (black_box(0x1234_5678u32), black_box(0x9abc_def0u32));
    let (c, d) = (black_box(0x0123_4567_89ab_cdefu64), black_box(0xfedc_ba98_7654_3211u64));
    let (e, f) = (black_box(0xfedcu16), black_box(0x1235u16));
    let by = black_box(13u32);
    let text = black_box(*b"even and odd ends");
    let mut copy = [0u8; 20];
    copy[black_box(1)..18].copy_from_slice(&text);
    let mut even = [0xaau8; 20];
    even[..black_box(17)].copy_from_slice(&text);
    let mut wiped = even;
    wiped[black_box(3)..black_box(9)].fill(black_box(7));
    let answers = [
        a.wrapping_mul(b) == 0x242d_2080,
        c.wrapping_mul(d) == 0x235a_1df7_6f0d_5adf,
        e.wrapping_mul(f) == 0x3b8c,
        a << by == 0x8acf_0000,
        b >> by == 0x0004_d5e6,
        (b as i32) >> by == 0xfffc_d5e6u32 as i32,
        c << by == 0x68ac_f135_79bd_e000,
        c >> by == 0x0000_091a_2b3c_4d5e,
        (b / a, b % a) == (8, 0x091a_2b30),
        (e / f, e % f) == (13, 0x122b),
        copy[1..18] == text,
        even[..17] == text,
        even[17..] == [0xaa; 3],
        wiped[2..10] == [b'e', 7, 7, 7, 7, 7, 7, b'o'],
    ];
    answers.iter().position(|right| !right)
}
