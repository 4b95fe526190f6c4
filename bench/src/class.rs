//! Classes of CPUs: this CPU without the instructions that older and smaller ones lack.
//!
//! The kernel lets CPUID fault in a process (`arch_prctl(2)`, `ARCH_SET_CPUID`). Each CPUID then ends
//! in a handler here, which executes it and takes bits away. Every implementation asks CPUID before it
//! chooses a kernel, some of them before `main`: so the handler is installed before the constructors
//! of the program, in `.preinit_array`. Caches, ports and clock stay those of this CPU.
#![allow(unsafe_code, reason = "a handler of a signal changes the registers of CPUID")]

use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names the class to the process that measures it.
pub const VARIABLE: &str = "ANTEDATE_BENCH_CLASS";

/// A class of CPUs.
#[derive(Debug)]
pub struct Class {
    /// The name.
    pub name: &'static str,
    /// What it has, and who has it.
    pub what: &'static str,
    /// How many of [`STEPS`] it lacks, from the first.
    lacks: usize,
}

/// From the newest to the oldest.
pub const ALL: [Class; 5] = [
    Class { name: "avx512", what: "AVX-512 and VAES: Xeons from Ice Lake on, EPYCs from Zen 4 on", lacks: 0 },
    Class {
        name: "vaes",
        what: "AVX2, and VAES of 256 bits: Core from Alder Lake on with its E-cores, EPYCs of Zen 3",
        lacks: 1,
    },
    Class {
        name: "avx2",
        what: "AVX2 and AES-NI: Core from Haswell to Comet Lake, embedded EPYCs and Ryzens of Zen 1 and 2",
        lacks: 2,
    },
    Class { name: "sse", what: "SSE4.1 and AES-NI: Atoms, as E3845 and x6000E", lacks: 3 },
    Class { name: "no-aes", what: "SSE4.1, no AES instructions: Celeron J1900, older Atoms", lacks: 4 },
];

/// A register of a leaf of CPUID, and bits that are taken away.
struct Bits(u32, u32, fn(&mut CpuidResult) -> &mut u32, u32);

const fn bits<const N: usize>(places: [u32; N]) -> u32 {
    let (mut all, mut at) = (0, 0);
    while at < N {
        all |= 1 << places[at];
        at += 1;
    }
    all
}

/// The instructions that each class lacks beyond the class before it (Intel SDM volume 2, CPUID).
static STEPS: [&[Bits]; 4] = [
    // AVX-512 and its parts, AMX, AVX10.
    &[
        Bits(7, 0, |r| &mut r.ebx, bits([16, 17, 21, 26, 27, 28, 30, 31])),
        Bits(7, 0, |r| &mut r.ecx, bits([1, 6, 11, 12, 14])),
        Bits(7, 0, |r| &mut r.edx, bits([2, 3, 8, 22, 23, 24, 25])),
        Bits(7, 1, |r| &mut r.eax, bits([5, 21])),
        Bits(7, 1, |r| &mut r.edx, bits([19])),
    ],
    // GFNI, VAES, VPCLMULQDQ, AVX-VNNI, AVX-IFMA.
    &[Bits(7, 0, |r| &mut r.ecx, bits([8, 9, 10])), Bits(7, 1, |r| &mut r.eax, bits([4, 23]))],
    // FMA, AVX, F16C; BMI1, AVX2, BMI2, ADX.
    &[Bits(1, 0, |r| &mut r.ecx, bits([12, 28, 29])), Bits(7, 0, |r| &mut r.ebx, bits([3, 5, 8, 19]))],
    // PCLMULQDQ, AES; SHA.
    &[Bits(1, 0, |r| &mut r.ecx, bits([1, 25])), Bits(7, 0, |r| &mut r.ebx, bits([29]))],
];

impl Class {
    /// Whether CPUID tells what this class has, and no more.
    pub fn is_here(&self) -> bool {
        let here = [
            is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vaes"),
            is_x86_feature_detected!("vaes"),
            is_x86_feature_detected!("avx2"),
            is_x86_feature_detected!("aes"),
        ];
        here.iter().position(|here| *here).unwrap_or(here.len()) == self.lacks
    }
}

/// The class of a name.
pub fn named(name: &str) -> Result<&'static Class, String> {
    let names = || ALL.iter().map(|class| class.name).collect::<Vec<_>>().join(", ");
    ALL.iter()
        .find(|class| class.name == name)
        .ok_or_else(|| format!("no class `{name}`; there are {}", names()))
}

/// Steps whose bits are taken away.
static LACKS: AtomicUsize = AtomicUsize::new(0);

const ARCH_SET_CPUID: c_int = 0x1012;

/// Lets CPUID fault, or not. False if this CPU cannot.
fn faulting(on: bool) -> bool {
    // SAFETY: this call changes a flag of the calling thread, and no memory.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, u64::from(!on)) == 0 }
}

/// The answer of CPUID in this class.
fn masked(leaf: u32, subleaf: u32) -> CpuidResult {
    // Under a fault the handler would be asked by itself.
    faulting(false);
    let mut result = __cpuid_count(leaf, subleaf);
    faulting(true);
    for Bits(of, sub, register, mask) in STEPS.iter().take(LACKS.load(Ordering::Relaxed)).copied().flatten() {
        // Leaf 1 has no further ones, and programs leave any number in the register of these.
        if *of == leaf && (*sub == subleaf || leaf == 1) {
            *register(&mut result) &= !mask;
        }
    }
    result
}

/// Answers a CPUID that faulted. Another fault is the program's, and ends it.
extern "C" fn answer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with `SA_SIGINFO` the kernel hands the context of the fault, which is this handler's alone.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize];
    // SAFETY: the instruction that faulted begins here, and more text of the program follows it. A jump
    // to no memory faults again at this read, while the signal is blocked, which ends the process.
    let octets = unsafe { std::ptr::with_exposed_provenance::<[u8; 2]>(at as usize).read_unaligned() };
    if octets != [0x0f, 0xa2] {
        // SAFETY: the default action takes no handler.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    let (leaf, subleaf) = (registers[libc::REG_RAX as usize], registers[libc::REG_RCX as usize]);
    let CpuidResult { eax, ebx, ecx, edx } = masked(leaf as u32, subleaf as u32);
    for (register, value) in
        [(libc::REG_RAX, eax), (libc::REG_RBX, ebx), (libc::REG_RCX, ecx), (libc::REG_RDX, edx)]
    {
        registers[register as usize] = i64::from(value);
    }
    registers[libc::REG_RIP as usize] = at + 2;
}

/// Runs before every constructor of the program and its libraries.
#[used]
#[unsafe(link_section = ".preinit_array")]
static BEFORE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = before;

extern "C" fn before(_: c_int, _: *const *const c_char, mut environment: *const *const c_char) {
    loop {
        // SAFETY: the environment is a list of pointers that ends with a null pointer.
        let entry = unsafe { *environment };
        if entry.is_null() {
            return;
        }
        // SAFETY: each entry is a string that ends with a zero, and lives as long as the process.
        let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
        let name = entry.strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        if let Some(class) = name.and_then(|name| ALL.iter().find(|class| class.name.as_bytes() == name)) {
            return begin(class);
        }
        // SAFETY: this entry was not the last.
        environment = unsafe { environment.add(1) };
    }
}

/// Lets this process see the CPU of a class. Whether it does, [`Class::is_here`] tells.
fn begin(class: &Class) {
    if class.lacks == 0 {
        return;
    }
    LACKS.store(class.lacks, Ordering::Relaxed);
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = answer;
    // SAFETY: all zeros is a valid action; the kernel reads it once.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
    }
    faulting(true);
}
