//! Page layout of a pool: few pages for a frame.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

/// Aligned to a memory page, so that a packet's part of the pool and its key share one page. When a
/// hypervisor returns the CPU, the TLB is empty and the next frame waits some ten nanoseconds for
/// each page it touches. A CPU without an operating system has no pages, and no memory for gaps.
#[derive(Debug)]
#[cfg_attr(target_os = "none", repr(C, align(8)))]
#[cfg_attr(not(target_os = "none"), repr(C, align(4096)))]
pub(super) struct Paged<T>(T);

impl<T> Paged<T> {
    pub(super) fn boxed(value: T) -> Box<Self> {
        Box::new(Self(value))
    }
}

impl<T> Deref for Paged<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Paged<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
