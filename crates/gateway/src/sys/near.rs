//! Code that lies close together in the program.

/// Does it by code that lies beside that of all others that are done so. It has a place of its own, so that what it is part of
/// stays short.
///
/// What the way of a frame goes through lies all over the program else, in twelve pages of memory. Under a hypervisor that gives the
/// CPU back all translations of addresses are gone, and the next frame waits some twenty nanoseconds for that of each page of code.
#[inline(never)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
pub fn near<R>(what: impl FnOnce() -> R) -> R {
    what()
}
