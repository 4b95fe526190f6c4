//! Caches and address translations: the hot text section, prefetches, first writes to pages.

use std::ptr::NonNull;

/// Octets of a cache line.
pub(super) const LINE: usize = 64;
/// Octets of the shortest page of memory.
const PAGE: usize = 4096;

// The hot section begins at a page.
#[cfg(target_os = "linux")]
core::arch::global_asm!(".pushsection .text.antedate.near, \"ax\"", ".p2align 12", ".popsection");

/// Places `f` in the hot text section, as a function of its own.
///
/// The code of a frame's path then occupies few pages. After a hypervisor has returned the CPU, no
/// address translation is cached, and the next frame waits for that of each page of code.
#[inline(never)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
pub fn hot<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Prefetches all cache lines of a frame or slot but the first. Another core wrote most of them,
/// and without prefetches each would be awaited in turn.
#[inline]
pub(super) fn prefetch(frame: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (LINE..len).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that touches no memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(frame.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (frame, len);
}

/// Writes a zero to the first octet of each page. The first write to a page through a mapping takes
/// some 180 ns, since the CPU notes it in the page's entry; without this it would be a frame's.
///
/// # Safety
/// The mapping has `length` octets, all zero, and no other user yet.
pub(super) unsafe fn write_to_each_page(mapping: NonNull<u8>, length: usize) {
    for page in (0..length).step_by(PAGE) {
        // SAFETY: `page < length`; the rest is the caller's.
        unsafe { mapping.add(page).write_volatile(0) };
    }
}
