//! Each emulated intrinsic beside the real instruction, where this machine has it.

use super::{record, x86_64 as ours};
use core::{
    arch::x86_64 as real,
    mem::{size_of, transmute_copy},
};
use std::{collections::BTreeSet, eprintln, format, string::String, vec::Vec};

/// Operands: each is the first bytes of a row.
type Input = [Row; 4];
type Form = fn(&Input) -> Vec<u8>;

/// An intrinsic with its immediate.
struct Case {
    name: &'static str,
    ours: Form,
    /// Only for CPUs that have the features.
    real: unsafe fn(&Input) -> Vec<u8>,
    exists: bool,
}

/// Aligned: the compiler may make a row the operand of an instruction in legacy encoding, which
/// demands it.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Row([u8; 64]);

/// The row as a value of a type that allows any bits.
fn operand<T>(row: &Row) -> T {
    assert!(size_of::<T>() <= 64);
    // SAFETY: the row is long enough, and vectors and integers allow any bits.
    unsafe { transmute_copy(row) }
}

fn bytes<T>(x: T) -> Vec<u8> {
    let at = core::ptr::from_ref(&x).cast::<u8>();
    // SAFETY: vectors and integers have no padding.
    (0..size_of::<T>()).map(|i| unsafe { at.add(i).read() }).collect()
}

/// Intrinsics of vectors and numbers, by features.
macro_rules! values {
    ($features:literal: $($name:ident $(<$imm:literal>)? ($($type:ident)*);)*) => {
        [$({
            fn emulated(input: &Input) -> Vec<u8> {
                let mut rows = input.iter();
                let mut row = |_: &str| rows.next().expect("four rows");
                bytes(ours::$name$(::<$imm>)?($(operand(row(stringify!($type)))),*))
            }
            #[target_feature(enable = $features)]
            fn instruction(input: &Input) -> Vec<u8> {
                let mut rows = input.iter();
                let mut row = |_: &str| rows.next().expect("four rows");
                bytes(real::$name$(::<$imm>)?($(operand(row(stringify!($type)))),*))
            }
            Case { name: stringify!($name), ours: emulated, real: instruction, exists: exist($features) }
        }),*]
    };
}

/// Loads from a row, and stores into one.
macro_rules! memory {
    ($features:literal: $($name:ident $kind:ident $types:tt;)*) => {
        [$({
            fn emulated(input: &Input) -> Vec<u8> {
                memory!(@$kind ours input $name $types)
            }
            #[target_feature(enable = $features)]
            fn instruction(input: &Input) -> Vec<u8> {
                memory!(@$kind real input $name $types)
            }
            Case { name: stringify!($name), ours: emulated, real: instruction, exists: exist($features) }
        }),*]
    };
    // SAFETY, of all four: a row has 64 bytes, and is aligned by `Row`.
    (@load $arch:ident $input:ident $name:ident ($mask:ident $vector:ident)) => {
        bytes(unsafe { $arch::$name(operand(&$input[1]), $input[0].0.as_ptr().cast()) })
    };
    (@load $arch:ident $input:ident $name:ident ($vector:ident)) => {
        bytes(unsafe { $arch::$name($input[0].0.as_ptr().cast()) })
    };
    (@store $arch:ident $input:ident $name:ident ($mask:ident $vector:ident)) => {{
        let mut row = $input[0];
        let x = operand(&$input[1]);
        unsafe { $arch::$name(row.0.as_mut_ptr().cast(), operand(&$input[2]), x) };
        row.0.to_vec()
    }};
    (@store $arch:ident $input:ident $name:ident ($vector:ident)) => {{
        let mut row = $input[0];
        unsafe { $arch::$name(row.0.as_mut_ptr().cast(), operand(&$input[1])) };
        row.0.to_vec()
    }};
}

/// True if this CPU has all the features.
fn exist(features: &str) -> bool {
    macro_rules! any {
        ($name:ident: $($feature:tt)*) => {
            match $name {
                $($feature => std::arch::is_x86_feature_detected!($feature),)*
                other => panic!("no feature {other}"),
            }
        };
    }
    features.split(',').all(|name| {
        any!(name: "ssse3" "sse4.1" "pclmulqdq" "aes" "gfni" "bmi2" "avx" "avx2" "vaes" "vpclmulqdq"
            "avx512f" "avx512bw" "avx512vl" "avx512ifma")
    })
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(values! { "ssse3":
        _mm_shuffle_epi8(__m128i __m128i);
        _mm_alignr_epi8<1>(__m128i __m128i); _mm_alignr_epi8<15>(__m128i __m128i);
        _mm_alignr_epi8<20>(__m128i __m128i);
    });
    all.extend(values! { "sse4.1":
        _mm_insert_epi32<0>(__m128i i32);
        _mm_insert_epi32<3>(__m128i i32);
        _mm_extract_epi32<0>(__m128i);
        _mm_extract_epi32<2>(__m128i);
        _mm_extract_epi64<0>(__m128i);
        _mm_extract_epi64<1>(__m128i);
    });
    all.extend(values! { "pclmulqdq":
        _mm_clmulepi64_si128<0x00>(__m128i __m128i);
        _mm_clmulepi64_si128<0x01>(__m128i __m128i);
        _mm_clmulepi64_si128<0x10>(__m128i __m128i);
        _mm_clmulepi64_si128<0x11>(__m128i __m128i);
    });
    all.extend(values! { "aes":
        _mm_aesenc_si128(__m128i __m128i);
        _mm_aesenclast_si128(__m128i __m128i);
        _mm_aesdec_si128(__m128i __m128i);
        _mm_aesdeclast_si128(__m128i __m128i);
        _mm_aesimc_si128(__m128i);
    });
    all.extend(values! { "gfni":
        _mm_gf2p8affine_epi64_epi8<0>(__m128i __m128i);
        _mm_gf2p8affine_epi64_epi8<0x63>(__m128i __m128i);
    });
    all.extend(values! { "bmi2": _bzhi_u32(u32 u32); _bzhi_u64(u64 u32); });
    all.extend(values! { "avx2":
        _mm256_add_epi32(__m256i __m256i);
        _mm256_add_epi64(__m256i __m256i);
        _mm256_mul_epu32(__m256i __m256i);
        _mm256_and_si256(__m256i __m256i);
        _mm256_or_si256(__m256i __m256i);
        _mm256_xor_si256(__m256i __m256i);
        _mm256_shuffle_epi8(__m256i __m256i);
        _mm256_unpacklo_epi64(__m256i __m256i);
        _mm256_unpackhi_epi64(__m256i __m256i);
        _mm256_shuffle_epi32<0b01_00_11_10>(__m256i);
        _mm256_shuffle_epi32<0b00_11_10_01>(__m256i);
        _mm256_slli_epi32<0>(__m256i);
        _mm256_slli_epi32<12>(__m256i);
        _mm256_slli_epi32<32>(__m256i);
        _mm256_srli_epi32<25>(__m256i);
        _mm256_srli_epi32<32>(__m256i);
        _mm256_slli_epi64<2>(__m256i);
        _mm256_slli_epi64<64>(__m256i);
        _mm256_srli_epi64<26>(__m256i);
        _mm256_srli_epi64<64>(__m256i);
        _mm256_permute4x64_epi64<0b00_11_10_01>(__m256i);
        _mm256_permute4x64_epi64<0b10_01_00_11>(__m256i);
        _mm256_permute2x128_si256<0x20>(__m256i __m256i);
        _mm256_permute2x128_si256<0x31>(__m256i __m256i);
        _mm256_permute2x128_si256<0x83>(__m256i __m256i);
        _mm256_broadcastsi128_si256(__m128i);
        _mm256_castsi256_si128(__m256i);
        _mm256_zextsi128_si256(__m128i);
        _mm256_extracti128_si256<0>(__m256i);
        _mm256_extracti128_si256<1>(__m256i);
        _mm256_set_m128i(__m128i __m128i);
        _mm256_setzero_si256();
        _mm256_set1_epi8(i8);
        _mm256_set1_epi64x(i64);
        _mm256_set_epi64x(i64 i64 i64 i64);
    });
    all.extend(memory! { "avx2":
        _mm256_load_si256 load(__m256i);
        _mm256_loadu_si256 load(__m256i);
        _mm256_store_si256 store(__m256i);
        _mm256_storeu_si256 store(__m256i);
    });
    all.extend(values! { "avx,vaes":
        _mm256_aesenc_epi128(__m256i __m256i);
        _mm256_aesenclast_epi128(__m256i __m256i);
    });
    all.extend(values! { "avx,vpclmulqdq":
        _mm256_clmulepi64_epi128<0x00>(__m256i __m256i);
        _mm256_clmulepi64_epi128<0x11>(__m256i __m256i);
    });
    all.extend(values! { "avx512f,avx512vl":
        _mm_ternarylogic_epi64<0x78>(__m128i __m128i __m128i);
        _mm_ternarylogic_epi64<0x96>(__m128i __m128i __m128i);
        _mm_ternarylogic_epi64<0x1b>(__m128i __m128i __m128i);
        _mm256_ternarylogic_epi64<0x78>(__m256i __m256i __m256i);
        _mm256_rol_epi64<13>(__m256i);
    });
    all.extend(values! { "avx512f,avx512bw,avx512vl":
        _mm_maskz_mov_epi8(u16 __m128i);
        _mm_maskz_set1_epi8(u16 i8);
        _mm256_maskz_mov_epi8(u32 __m256i);
    });
    all.extend(memory! { "avx512f,avx512bw,avx512vl":
        _mm_maskz_loadu_epi8 load(u16 __m128i);
        _mm_mask_storeu_epi8 store(u16 __m128i);
        _mm256_maskz_loadu_epi8 load(u32 __m256i);
        _mm256_mask_storeu_epi8 store(u32 __m256i);
    });
    all.extend(memory! { "avx512f,avx512bw":
        _mm512_maskz_loadu_epi8 load(u64 __m512i);
        _mm512_mask_storeu_epi8 store(u64 __m512i);
    });
    all.extend(memory! { "avx512f":
        _mm512_loadu_si512 load(__m512i);
        _mm512_storeu_si512 store(__m512i);
        _mm512_maskz_loadu_epi64 load(u8 __m512i);
    });
    all.extend(values! { "avx512f,avx512bw":
        _mm512_shuffle_epi8(__m512i __m512i);
        _mm512_mask_mov_epi8(__m512i u64 __m512i);
        _mm512_maskz_mov_epi8(u64 __m512i);
    });
    all.extend(values! { "avx512f,vaes":
        _mm512_aesenc_epi128(__m512i __m512i);
        _mm512_aesenclast_epi128(__m512i __m512i);
        _mm512_aesdec_epi128(__m512i __m512i);
        _mm512_aesdeclast_epi128(__m512i __m512i);
    });
    all.extend(values! { "avx512f,vpclmulqdq":
        _mm512_clmulepi64_epi128<0x00>(__m512i __m512i);
        _mm512_clmulepi64_epi128<0x01>(__m512i __m512i);
        _mm512_clmulepi64_epi128<0x10>(__m512i __m512i);
        _mm512_clmulepi64_epi128<0x11>(__m512i __m512i);
    });
    all.extend(values! { "avx512f,avx512ifma":
        _mm512_madd52lo_epu64(__m512i __m512i __m512i);
        _mm512_madd52hi_epu64(__m512i __m512i __m512i);
    });
    all.extend(values! { "avx512f":
        _mm512_add_epi32(__m512i __m512i);
        _mm512_add_epi64(__m512i __m512i);
        _mm512_sub_epi64(__m512i __m512i);
        _mm512_and_si512(__m512i __m512i);
        _mm512_or_si512(__m512i __m512i);
        _mm512_xor_si512(__m512i __m512i);
        _mm512_unpacklo_epi64(__m512i __m512i);
        _mm512_unpackhi_epi64(__m512i __m512i);
        _mm512_unpacklo_epi32(__m512i __m512i);
        _mm512_unpackhi_epi32(__m512i __m512i);
        _mm512_shuffle_epi32<0b01_00_11_10>(__m512i);
        _mm512_shuffle_epi32<0b00_11_10_01>(__m512i);
        _mm512_rol_epi32<7>(__m512i);
        _mm512_slli_epi64<20>(__m512i);
        _mm512_slli_epi64<64>(__m512i);
        _mm512_srli_epi64<44>(__m512i);
        _mm512_srli_epi64<64>(__m512i);
        _mm512_ternarylogic_epi64<0x96>(__m512i __m512i __m512i);
        _mm512_ternarylogic_epi64<0x1b>(__m512i __m512i __m512i);
        _mm512_shuffle_i32x4<0x44>(__m512i __m512i);
        _mm512_shuffle_i32x4<0x88>(__m512i __m512i);
        _mm512_shuffle_i32x4<0xdd>(__m512i __m512i);
        _mm512_shuffle_i32x4<0xee>(__m512i __m512i);
        _mm512_permutex2var_epi64(__m512i __m512i __m512i);
        _mm512_maskz_permutex2var_epi64(u8 __m512i __m512i __m512i);
        _mm512_reduce_add_epi64(__m512i);
        _mm512_broadcast_i32x4(__m128i);
        _mm512_castsi512_si128(__m512i);
        _mm512_castsi512_si256(__m512i);
        _mm512_zextsi128_si512(__m128i);
        _mm512_extracti32x4_epi32<1>(__m512i);
        _mm512_extracti32x4_epi32<3>(__m512i);
        _mm512_extracti64x4_epi64<0>(__m512i);
        _mm512_extracti64x4_epi64<1>(__m512i);
        _mm512_inserti32x4<3>(__m512i __m128i);
        _mm512_setzero_si512();
        _mm512_set1_epi8(i8);
        _mm512_set1_epi32(i32);
        _mm512_set1_epi64(i64);
        _mm512_maskz_set1_epi32(u16 i32);
        _mm512_maskz_set1_epi64(u8 i64);
        _mm512_mask_mov_epi64(__m512i u8 __m512i);
        _mm512_maskz_mov_epi64(u8 __m512i);
        _mm512_mask_xor_epi64(__m512i u8 __m512i __m512i);
        _mm512_maskz_xor_epi64(u8 __m512i __m512i);
    });
    all.extend(sets());
    all
}

/// The intrinsics with more operands than rows: the words of one row.
fn sets() -> [Case; 3] {
    macro_rules! set {
        ($feature:literal $name:ident $type:ident $($i:literal)*) => {{
            fn emulated(input: &Input) -> Vec<u8> {
                let words: [$type; 64 / size_of::<$type>()] = operand(&input[0]);
                bytes(ours::$name($(words[$i]),*))
            }
            #[target_feature(enable = $feature)]
            fn instruction(input: &Input) -> Vec<u8> {
                let words: [$type; 64 / size_of::<$type>()] = operand(&input[0]);
                bytes(real::$name($(words[$i]),*))
            }
            Case { name: stringify!($name), ours: emulated, real: instruction, exists: exist($feature) }
        }};
    }
    [
        set!("avx" _mm256_set_epi32 i32 0 1 2 3 4 5 6 7),
        set!("avx512f" _mm512_set_epi64 i64 0 1 2 3 4 5 6 7),
        set!("avx512f" _mm512_set_epi32 i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
    ]
}

/// Random rows, then rows of few distinct bytes: carries, equal words, high bits.
fn inputs() -> impl Iterator<Item = Input> {
    // SplitMix64.
    let mut state = 0x0123_4567_89ab_cdefu64;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as u8
    };
    (0..400).map(move |round| {
        let mut row = || {
            Row(core::array::from_fn(|_| {
                if round < 300 { next() } else { [0, 0xff, 0x80, 1][usize::from(next() % 4)] }
            }))
        };
        [row(), row(), row(), row()]
    })
}

/// On machines with AVX-512 this judges all of the emulation; on others the lanes of the wider
/// forms, which share them with the narrower ones.
#[test]
fn emulation_matches_the_instructions() {
    let mut missing = BTreeSet::new();
    for case in cases() {
        if !case.exists {
            missing.insert(case.name);
            continue;
        }
        for input in inputs() {
            // SAFETY: the CPU has the features.
            let wanted = unsafe { (case.real)(&input) };
            assert_eq!((case.ours)(&input), wanted, "{} of {input:02x?}", case.name);
        }
    }
    for name in &missing {
        record::write(&format!("uncompared\t{name}\n"));
    }
    eprintln!("{} intrinsics are not compared: this CPU lacks them", missing.len());
}

#[test]
fn every_intrinsic_is_compared() {
    let sources =
        [include_str!("x86_64/narrow.rs"), include_str!("x86_64/ymm.rs"), include_str!("x86_64/zmm.rs")];
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let named: BTreeSet<String> = sources
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| {
            let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("unsafe ");
            let name = word(line.trim_start_matches("fn "));
            ["_mm", "_bzhi", "vpmul"].iter().any(|start| name.starts_with(start)).then_some(name)
        })
        .filter(|name| !name.is_empty())
        .collect();
    let compared: BTreeSet<String> = cases().iter().map(|case| case.name.into()).collect();
    assert!(named.len() > 100, "{named:?}");
    assert_eq!(named, compared);
}

/// FIPS 197 appendix B, SDM: the second round of the example, and its way back.
#[test]
fn aes_rounds_match_fips_197() {
    let of = |text: u128| u128::from_be_bytes(text.to_le_bytes());
    let start = of(0x193d_e3be_a0f4_e22b_9ac6_8d2a_e9f8_4808);
    let key = of(0xa0fa_fe17_8854_2cb1_23a3_3939_2a6c_7605);
    let next = of(0xa49c_7ff2_689f_352b_6b5b_ea43_026a_5049);
    assert_eq!(super::lanes::aesenc(start, key), next);
    let last = (of(0xeb40_f21e_592e_3884_8ba1_13e7_1bc3_42d2), of(0xd014_f9a8_c9ee_2589_e13f_0cc8_b663_0ca6));
    assert_eq!(super::lanes::aesenclast(last.0, last.1), of(0x3925_841d_02dc_09fb_dc11_8597_196a_0b32));
}

/// Writes the kernels that a run of all tests must reach.
#[test]
fn kernels_are_listed() {
    let kernels: Vec<_> = record::KERNELS.lines().map(|line| format!("kernel\t{line}\n")).collect();
    assert!(kernels.len() > 100);
    record::write(&kernels.concat());
}
