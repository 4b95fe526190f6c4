//! The emulated CPU: its answers to CPUID and XGETBV (Intel SDM volume 2, CPUID).

use std::sync::OnceLock;

pub(crate) use core::arch::x86_64::CpuidResult;

/// Names the emulated CPU; without it, one with all instructions.
pub(crate) const VARIABLE: &str = "ANTEDATE_EMULATED_CPU";

const SSSE3: u32 = 1 << 9;
const SSE41_AES: u32 = 1 << 1 | 1 << 9 | 1 << 19 | 1 << 25;
const OSXSAVE_AVX: u32 = 1 << 27 | 1 << 28;
const AVX2_BMI: u32 = 1 << 3 | 1 << 5 | 1 << 8;
/// F, DQ, BW, VL.
const AVX512: u32 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;
const IFMA: u32 = 1 << 21;
const GFNI: u32 = 1 << 8;
const VAES_VPCLMULQDQ: u32 = 1 << 9 | 1 << 10;
/// XMM and YMM; opmask, upper ZMM and high ZMM.
const YMM: u64 = 0x6;
const ZMM: u64 = 0xe0;

struct Cpu {
    name: &'static str,
    vendor: [u8; 4],
    one_ecx: u32,
    seven_ebx: u32,
    seven_ecx: u32,
    state: u64,
}

const CPUS: [Cpu; 7] = [
    Cpu { name: "sse2", vendor: *b"Genu", one_ecx: 0, seven_ebx: 0, seven_ecx: 0, state: 0 },
    Cpu { name: "ssse3", vendor: *b"Genu", one_ecx: SSSE3, seven_ebx: 0, seven_ecx: 0, state: 0 },
    Cpu { name: "aes-ni", vendor: *b"Genu", one_ecx: SSE41_AES, seven_ebx: 0, seven_ecx: 0, state: 0 },
    Cpu {
        name: "vaes",
        vendor: *b"Genu",
        one_ecx: SSE41_AES | OSXSAVE_AVX,
        seven_ebx: AVX2_BMI,
        seven_ecx: GFNI | VAES_VPCLMULQDQ,
        state: YMM,
    },
    // The first servers with AVX-512.
    Cpu {
        name: "avx512-without-vaes",
        vendor: *b"Genu",
        one_ecx: SSE41_AES | OSXSAVE_AVX,
        seven_ebx: AVX2_BMI | AVX512,
        seven_ecx: 0,
        state: YMM | ZMM,
    },
    Cpu {
        name: "avx512",
        vendor: *b"Genu",
        one_ecx: SSE41_AES | OSXSAVE_AVX,
        seven_ebx: AVX2_BMI | AVX512 | IFMA,
        seven_ecx: GFNI | VAES_VPCLMULQDQ,
        state: YMM | ZMM,
    },
    Cpu {
        name: "avx512-amd",
        vendor: *b"Auth",
        one_ecx: SSE41_AES | OSXSAVE_AVX,
        seven_ebx: AVX2_BMI | AVX512 | IFMA,
        seven_ecx: GFNI | VAES_VPCLMULQDQ,
        state: YMM | ZMM,
    },
];

fn cpu() -> &'static Cpu {
    static NAME: OnceLock<&'static Cpu> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = std::env::var(VARIABLE).unwrap_or_else(|_| "avx512".into());
        CPUS.iter().find(|cpu| cpu.name == name).unwrap_or_else(|| panic!("{VARIABLE}: no CPU {name:?}"))
    })
}

pub(crate) fn __cpuid(leaf: u32) -> CpuidResult {
    __cpuid_count(leaf, 0)
}

pub(crate) fn __cpuid_count(leaf: u32, subleaf: u32) -> CpuidResult {
    let cpu = cpu();
    let (eax, ebx, ecx) = match (leaf, subleaf) {
        (0, _) => (7, u32::from_le_bytes(cpu.vendor), 0),
        (1, _) => (0, 0, cpu.one_ecx),
        (7, 0) => (0, cpu.seven_ebx, cpu.seven_ecx),
        _ => panic!("CPUID leaf {leaf}, {subleaf} is not emulated"),
    };
    CpuidResult { eax, ebx, ecx, edx: 0 }
}

/// # Safety
/// None: it is a function of the emulated CPU.
pub(crate) unsafe fn _xgetbv(register: u32) -> u64 {
    assert_eq!(register, 0);
    assert_ne!(cpu().one_ecx & OSXSAVE_AVX, 0, "XGETBV without OSXSAVE is an invalid instruction");
    cpu().state
}
