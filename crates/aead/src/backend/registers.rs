//! The vector registers, in which ciphers leave keys.
#![cfg_attr(
    any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")),
    allow(unsafe_code, reason = "instructions that write registers")
)]

/// Overwrites the vector registers of this CPU with zeros. A cipher's last round key remains in one
/// of them, until other code uses it; meanwhile a signal, or a function of a shared library that is
/// bound at its first call, has all registers saved on the stack.
///
/// CPUs other than x86-64 and ARM with 64 bits are not covered.
#[inline(never)]
pub fn wipe_registers() {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    x86();
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    arm();
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
fn x86() {
    use super::cpu::x86;
    use core::arch::asm;

    // Asked first: code after the wiping could use the registers.
    let (avx, avx512) = x86::has_avx2_and_avx512f();
    // SAFETY: all x86-64 CPUs have the instructions, which write what is declared.
    unsafe {
        asm!(
            "pxor xmm0, xmm0", "pxor xmm1, xmm1", "pxor xmm2, xmm2", "pxor xmm3, xmm3",
            "pxor xmm4, xmm4", "pxor xmm5, xmm5", "pxor xmm6, xmm6", "pxor xmm7, xmm7",
            "pxor xmm8, xmm8", "pxor xmm9, xmm9", "pxor xmm10, xmm10", "pxor xmm11, xmm11",
            "pxor xmm12, xmm12", "pxor xmm13, xmm13", "pxor xmm14, xmm14", "pxor xmm15, xmm15",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nomem, nostack, preserves_flags),
        );
    }
    if avx {
        // SAFETY: the CPU has AVX. The instruction writes the registers that are declared.
        unsafe {
            asm!(
                "vzeroall",
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nomem, nostack, preserves_flags),
            );
        }
    }
    if avx512 {
        // SAFETY: the CPU has AVX-512F. The instructions write the registers that are declared.
        unsafe {
            asm!(
                "vpxorq zmm16, zmm16, zmm16", "vpxorq zmm17, zmm17, zmm17", "vpxorq zmm18, zmm18, zmm18",
                "vpxorq zmm19, zmm19, zmm19", "vpxorq zmm20, zmm20, zmm20", "vpxorq zmm21, zmm21, zmm21",
                "vpxorq zmm22, zmm22, zmm22", "vpxorq zmm23, zmm23, zmm23", "vpxorq zmm24, zmm24, zmm24",
                "vpxorq zmm25, zmm25, zmm25", "vpxorq zmm26, zmm26, zmm26", "vpxorq zmm27, zmm27, zmm27",
                "vpxorq zmm28, zmm28, zmm28", "vpxorq zmm29, zmm29, zmm29", "vpxorq zmm30, zmm30, zmm30",
                "vpxorq zmm31, zmm31, zmm31",
                out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _,
                out("xmm20") _, out("xmm21") _, out("xmm22") _, out("xmm23") _,
                out("xmm24") _, out("xmm25") _, out("xmm26") _, out("xmm27") _,
                out("xmm28") _, out("xmm29") _, out("xmm30") _, out("xmm31") _,
                options(nomem, nostack, preserves_flags),
            );
        }
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
fn arm() {
    use core::arch::asm;

    // SAFETY: the target has Advanced SIMD; the instructions write what is declared.
    unsafe {
        asm!(
            "movi v0.2d, #0", "movi v1.2d, #0", "movi v2.2d, #0", "movi v3.2d, #0",
            "movi v4.2d, #0", "movi v5.2d, #0", "movi v6.2d, #0", "movi v7.2d, #0",
            "movi v16.2d, #0", "movi v17.2d, #0", "movi v18.2d, #0", "movi v19.2d, #0",
            "movi v20.2d, #0", "movi v21.2d, #0", "movi v22.2d, #0", "movi v23.2d, #0",
            "movi v24.2d, #0", "movi v25.2d, #0", "movi v26.2d, #0", "movi v27.2d, #0",
            "movi v28.2d, #0", "movi v29.2d, #0", "movi v30.2d, #0", "movi v31.2d, #0",
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _,
            out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _,
            out("v28") _, out("v29") _, out("v30") _, out("v31") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #![allow(unsafe_code, reason = "instructions that read and write registers")]

    use super::*;
    use core::arch::asm;

    #[test]
    fn wiped_registers_are_zero() {
        // The call keeps no vector register (System V ABI, section 3.2.1).
        let (first, last): (u64, u64);
        let wipe: fn() = wipe_registers;
        // SAFETY: a function without arguments, called with an aligned stack; all registers that it
        // may write are declared.
        unsafe {
            asm!(
                "movq xmm0, {value}",
                "movq xmm15, {value}",
                "call {wipe}",
                "movq rax, xmm0",
                "movq rdx, xmm15",
                value = in(reg) u64::MAX,
                wipe = in(reg) wipe,
                lateout("rax") first,
                lateout("rdx") last,
                clobber_abi("C"),
            );
        }
        assert_eq!((first, last), (0, 0));
    }
}
