//! What the copied engine has in the place of `core::arch`.

pub(crate) mod cpu;
pub(crate) mod lanes;
pub(crate) mod record;
#[cfg(test)]
mod tests;
pub(crate) mod x86_64;

/// The kernels' assembly. A line without an instruction keeps the compiler from moving code, and
/// changes no value. Any other assembly does not compile here.
macro_rules! asm {
    ("/* {} */", $($operands:tt)*) => {
        ()
    };
    ("/* {} {} */", $($operands:tt)*) => {
        ()
    };
    ("/* {} {} {} {} */", $($operands:tt)*) => {
        ()
    };
    ("/* {0} {1} {2} */", $($operands:tt)*) => {
        ()
    };
    ("/* {0} {1} {2} {3} {4} {5} {6} {7} */", $($operands:tt)*) => {
        ()
    };
    (
        "vpmuludq {}, {}, [{} + {}]",
        out(ymm_reg) $product:ident, in(ymm_reg) $a:ident, in(reg) $table:ident, const $at:ident,
        options($($option:ident),*)
    ) => {
        $product = crate::emulated::x86_64::_mm256_mul_epu32(
            $a,
            *core::ptr::from_ref($table).cast::<u8>().add($at).cast::<crate::emulated::x86_64::__m256i>(),
        )
    };
    // Registers are wiped as far as each x86-64 CPU has them, and read by the test of it.
    ("pxor xmm0, xmm0", $($rest:tt)*) => {
        core::arch::asm!("pxor xmm0, xmm0", $($rest)*)
    };
    ("movq xmm0, {value}", $($rest:tt)*) => {
        core::arch::asm!("movq xmm0, {value}", $($rest)*)
    };
    ("vzeroall", $($rest:tt)*) => {
        ()
    };
    ("vpxorq zmm16, zmm16, zmm16", $($rest:tt)*) => {
        ()
    };
}

/// Notes that a kernel ran.
macro_rules! ran {
    ($place:literal, $features:expr) => {{
        static RAN: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
        if !RAN.load(core::sync::atomic::Ordering::Relaxed) {
            crate::emulated::record::note(&RAN, $place, $features);
        }
    }};
}

pub(crate) use {asm, ran};
