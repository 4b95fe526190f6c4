//! The heap of a process with secrets.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use dlmalloc::{Allocator, Dlmalloc};

/// Octets that are requested from the kernel at once, or more.
const GRANULARITY: usize = 256 << 10;

/// Octets of the heap that could not be locked.
static UNLOCKED: AtomicUsize = AtomicUsize::new(0);

/// Octets of the heap that may reach the swap.
pub(crate) fn unlocked() -> usize {
    UNLOCKED.load(Ordering::Relaxed)
}

/// A global allocator for a process with secrets: its memory is locked as far as the limit permits,
/// left out of dumps, and wiped when freed, with padding and spare capacity. So a copy of a key in
/// any library's buffer is gone with the buffer.
///
/// ```
/// #[global_allocator]
/// static HEAP: antedate_hardening::Heap = antedate_hardening::Heap::new();
/// # fn main() { drop(vec![1]) }
/// ```
pub struct Heap {
    /// Held around each use of `inner`. A futex, so that a thread of fixed priority sleeps while
    /// another one has it.
    lock: Mutex<()>,
    inner: UnsafeCell<Dlmalloc<Pages>>,
}

// SAFETY: `inner` is used under `lock` alone.
unsafe impl Sync for Heap {}

impl Heap {
    /// An empty heap.
    #[must_use]
    pub const fn new() -> Self {
        let mut inner = Dlmalloc::new_with_allocator(Pages);
        assert!(inner.set_granularity(GRANULARITY));
        Self { lock: Mutex::new(()), inner: UnsafeCell::new(inner) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Dlmalloc<Pages>) -> T) -> T {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held, and `work` does not come back here: dlmalloc calls `Pages`
        // alone, which does not allocate.
        work(unsafe { &mut *self.inner.get() })
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: dlmalloc gives blocks of the requested size and alignment that do not overlap, under a
// lock. No method unwinds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout of more than no octets.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block has this many octets, and nobody uses it any more.
        unsafe { wipe(block, layout.size()) };
        // SAFETY: the caller got the block from this heap with this layout.
        self.with(|heap| unsafe { heap.free(block, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Always a new block: dlmalloc would free the old one with its content.
        // SAFETY: the caller guarantees that `size` is not zero and does not overflow with this
        // alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both blocks have at least this many octets, and do not overlap.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(size)) };
            // SAFETY: the caller gives the old block up.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}

/// Overwrites octets with zeros; the compiler can't remove it.
///
/// # Safety
/// The block has `size` octets that may be written.
unsafe fn wipe(block: *mut u8, size: usize) {
    // SAFETY: the caller's.
    unsafe { ptr::write_bytes(block, 0, size) };
    // SAFETY: no instructions. The block's address escapes to it, so the writes above must be done.
    unsafe { std::arch::asm!("/* {0} */", in(reg) block, options(nostack, preserves_flags)) };
}

/// Pages from the kernel: locked if possible, and left out of dumps.
struct Pages;

// SAFETY: `alloc` returns fresh private mappings of the size that it reports; the others unmap what
// it returned, or refuse.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping without a wanted address touches no other memory.
        let pages = unsafe { libc::mmap(ptr::null_mut(), size, rights, kind, -1, 0) };
        if pages == libc::MAP_FAILED {
            return (ptr::null_mut(), 0, 0);
        }
        // SAFETY: advice about the mapping above, which does not change its content.
        unsafe { libc::madvise(pages, size, libc::MADV_DONTDUMP) };
        // SAFETY: as above.
        if unsafe { libc::mlock2(pages, size, libc::MLOCK_ONFAULT) } != 0 {
            UNLOCKED.fetch_add(size, Ordering::Relaxed);
        }
        (pages.cast(), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, block: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: dlmalloc gives up the end of a mapping of ours.
        unsafe { libc::munmap(block.add(new).cast(), old - new) == 0 }
    }

    fn free(&self, block: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc gives up a mapping of ours.
        unsafe { libc::munmap(block.cast(), size) == 0 }
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        // SAFETY: no pointers.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    }
}
