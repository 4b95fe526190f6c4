//! An arena for the memory that a node allocates when it is set up. A slot allocates nothing, which the
//! program checks. The arena is free again once all of it was returned.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use core::ptr;

/// Bytes: two nodes with a key each.
const ARENA: usize = 3072;

struct Arena {
    bytes: UnsafeCell<[u64; ARENA / 8]>,
    used: Cell<usize>,
    live: Cell<usize>,
}

// SAFETY: a mote has one thread of execution, and no interrupt handler allocates.
unsafe impl Sync for Arena {}

#[global_allocator]
static HEAP: Arena =
    Arena { bytes: UnsafeCell::new([0; ARENA / 8]), used: Cell::new(0), live: Cell::new(0) };

// SAFETY: each call hands out bytes behind those in use, aligned as asked.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = self.used.get().next_multiple_of(layout.align());
        if layout.align() > 8 || at + layout.size() > ARENA {
            return ptr::null_mut();
        }
        self.used.set(at + layout.size());
        self.live.set(self.live.get() + 1);
        // SAFETY: the offset is within the arena, as checked.
        unsafe { self.bytes.get().cast::<u8>().add(at) }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {
        self.live.set(self.live.get() - 1);
        if self.live.get() == 0 {
            self.used.set(0);
        }
    }
}

/// Bytes handed out.
pub(crate) fn used() -> usize {
    HEAP.used.get()
}
