//! An allocator that counts the octets in use, by thread.
#![allow(unsafe_code, reason = "a global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

thread_local! {
    /// The counter of this thread.
    static COUNTER: Cell<Option<&'static AtomicIsize>> = const { Cell::new(None) };
}

/// Counts what this thread allocates from now on, less what it frees.
pub(crate) fn count_in(counter: &'static AtomicIsize) {
    COUNTER.set(Some(counter));
}

fn add(octets: isize) {
    // The thread may be ending.
    let _ = COUNTER.try_with(|counter| {
        if let Some(counter) = counter.get() {
            counter.fetch_add(octets, Ordering::Relaxed);
        }
    });
}

pub(crate) struct Counting;

// SAFETY: all blocks are the system allocator's, and the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}
