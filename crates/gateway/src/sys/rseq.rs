//! Restartable sequences (rseq(2)), which glibc registers for each thread and nothing here uses.
//!
//! The kernel writes the number of the CPU into a registered area whenever the thread has the CPU again after another one, and a
//! forwarding thread that shares its CPU with a station has it again for each frame.

use std::ffi::CStr;

/// The octets of an area as first defined, and the flag that ends a registration (`linux/rseq.h`).
const SIZE: usize = 32;
const UNREGISTER: libc::c_int = 1;
/// Where a kernel tells how many octets it knows, and what their place is a multiple of (`linux/auxvec.h`).
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
const AT_RSEQ_ALIGN: libc::c_ulong = 28;
/// What glibc registers with, and the kernel compares.
const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

/// Ends the registration of the calling thread. Returns whether there was one that could be ended: without glibc 2.35 there is none.
pub fn unregister() -> bool {
    let Some(pointer) = thread_pointer() else { return false };
    let Some(offset) = symbol(c"__rseq_offset") else { return false };
    // SAFETY: glibc defines the symbol as a `const ptrdiff_t`, which lives as long as the process.
    let area = pointer.wrapping_offset(unsafe { *offset.cast::<isize>() });
    // SAFETY: no pointers.
    let [known, align] =
        [AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN].map(|kind| unsafe { libc::getauxval(kind) as usize });
    // glibc registers as many octets as the kernel knows since 2.41, but never less than those.
    [SIZE, known.next_multiple_of(align.max(1))].into_iter().any(|size| {
        // SAFETY: the kernel refuses an address, a length and a signature that were not registered for this thread; else it writes to
        // the area once more, which glibc keeps as long as the thread. No code of this process reads the area but sched_getcpu(3),
        // which asks the kernel where none is registered.
        unsafe { libc::syscall(libc::SYS_rseq, area, size, UNREGISTER, SIGNATURE) == 0 }
    })
}

fn symbol(name: &CStr) -> Option<*const u8> {
    // SAFETY: `name` ends with a zero; the default handle needs no library to be open.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found.cast_const().cast())
}

/// What glibc's offsets into a thread's own memory count from.
fn thread_pointer() -> Option<*const u8> {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer;
        // SAFETY: the first word of a thread's control block is its own address (ELF Handling for Thread-Local Storage, 3.4.6).
        unsafe {
            std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
        }
        Some(pointer)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let pointer;
        // SAFETY: the register may be read by everyone.
        unsafe {
            std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
        }
        Some(pointer)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn a_registration_ends_once_and_the_thread_goes_on() {
        // A kernel or an emulator without rseq(2) has registered nothing.
        let registered = super::symbol(c"__rseq_size").is_some_and(|size| {
            // SAFETY: glibc defines the symbol as a `const unsigned int`.
            unsafe { *size.cast::<libc::c_uint>() > 0 }
        });
        let thread = std::thread::spawn(|| {
            let ended = [super::unregister(), super::unregister()];
            // SAFETY: no arguments.
            (ended, unsafe { libc::sched_getcpu() })
        });
        let (ended, cpu) = thread.join().unwrap();
        assert_eq!(ended, [registered, false]);
        assert!(cpu >= 0);
    }
}
