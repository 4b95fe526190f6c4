//! Code that lies close together in the program.

// It begins with a page.
#[cfg(target_os = "linux")]
core::arch::global_asm!(".pushsection .text.antedate.near, \"ax\"", ".p2align 12", ".popsection");

/// Does it by code that lies beside that of all others that are done so. It has a place of its own, so that what it is part of
/// stays short.
///
/// Else the way of a frame goes all over the program. Where a hypervisor gives the CPU back, no translation of an address is left, and
/// the next frame waits some twenty nanoseconds for that of each page of code (the book, *How the round trips became what they are*,
/// what a hypervisor forgets).
#[inline(never)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
pub fn near<R>(what: impl FnOnce() -> R) -> R {
    what()
}
