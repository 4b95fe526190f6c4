//! The process of a sealer. A child of `fork(2)` has copies of its parent's sealers: both would seal
//! with the same nonces, so the child's are refused.
//!
//! A page that the kernel clears in each child (`MADV_WIPEONFORK`, Linux 4.14) holds the number of
//! the process. So the check is two memory reads. Without an operating system there is no fork.

/// The number of this process: another than that of each ancestor, and never 0.
#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) use linux::number;

/// The number of this process.
#[cfg(not(all(feature = "std", target_os = "linux")))]
pub(crate) const fn number() -> u64 {
    1
}

#[cfg(all(feature = "std", target_os = "linux"))]
#[allow(unsafe_code, reason = "a page of the kernel")]
mod linux {
    use core::ptr;
    use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    /// The page; null before the first call.
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    /// The highest number of this process and its ancestors.
    static LAST: AtomicU64 = AtomicU64::new(0);
    /// Octets of the mapping; the kernel rounds it up to a page.
    const LEN: usize = size_of::<AtomicU64>();

    pub(crate) fn number() -> u64 {
        let page = PAGE.load(Ordering::Acquire);
        let page = if page.is_null() { map() } else { page };
        if page.is_null() {
            // A kernel without such pages. A process identifier is reused, but hardly by a child.
            return std::process::id().into();
        }
        // SAFETY: the mapping is aligned to a page, is longer than the number, and stays for ever.
        let own = unsafe { &*page };
        match own.load(Ordering::Acquire) {
            0 => {
                let new = LAST.fetch_add(1, Ordering::AcqRel) + 1;
                // Of two threads the first one decides.
                own.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire)
                    .map_or_else(|set| set, |_| new)
            }
            set => set,
        }
    }

    /// Maps the page. Null if the kernel refuses.
    #[cold]
    fn map() -> *mut AtomicU64 {
        // SAFETY: a new private mapping of zeros. Nothing else uses its addresses.
        unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let page = libc::mmap(ptr::null_mut(), LEN, access, kind, -1, 0);
            if page == libc::MAP_FAILED {
                return ptr::null_mut();
            }
            if libc::madvise(page, LEN, libc::MADV_WIPEONFORK) != 0 {
                libc::munmap(page, LEN);
                return ptr::null_mut();
            }
            let set =
                PAGE.compare_exchange(ptr::null_mut(), page.cast(), Ordering::AcqRel, Ordering::Acquire);
            set.map_or_else(
                |other| {
                    libc::munmap(page, LEN);
                    other
                },
                |_| page.cast(),
            )
        }
    }
}
