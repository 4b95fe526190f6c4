//! The context inside the caller's words.
//!
//! C aligns its words to 8 bytes. The context begins at the first place in them with Rust's
//! alignment.
#![allow(unsafe_code, reason = "a context is memory of C")]

use crate::suites::{AnyReceiver, AnySender};
use crate::{Code, engine, process};
use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;

/// A line of any suite, with the marks of a live context.
#[repr(C)]
pub(crate) struct Context<L> {
    /// [`Side::MARK`] in a live context, cut to a word; other memory has it only by chance.
    mark: usize,
    /// Address of the context; a copy elsewhere is not a context.
    here: usize,
    /// The process that made it.
    process: u64,
    suite: u32,
    /// Failures of the AES engine before it was made.
    #[cfg(feature = "callback-aes")]
    failures: u32,
    line: MaybeUninit<L>,
}

pub(crate) type Sealer = Context<AnySender>;
pub(crate) type Opener = Context<AnyReceiver>;

/// Bytes of a sealer's memory. `ANTEDATE_SEALER_BYTES` of the header is at least this.
pub const SEALER_BYTES: usize = Sealer::BYTES;
/// Bytes of an opener's memory.
pub const OPENER_BYTES: usize = Opener::BYTES;

/// Alignment of the memory in C.
const WORD: usize = 8;

/// The side of a line: sending or receiving.
pub(crate) trait Side {
    /// Mark of a live context of this side.
    const MARK: u64;
}

impl Side for AnySender {
    const MARK: u64 = u64::from_be_bytes(*b"antedate");
}

impl Side for AnyReceiver {
    const MARK: u64 = u64::from_be_bytes(*b"expected");
}

impl<L> Context<L> {
    /// Bytes of its memory in C.
    pub(crate) const BYTES: usize = if align_of::<Self>() > WORD {
        size_of::<Self>() + align_of::<Self>() - WORD
    } else {
        size_of::<Self>().next_multiple_of(WORD)
    };
}

impl<L: Side> Context<L> {
    /// The place of the context in the caller's memory.
    fn place(words: *mut u64) -> Result<*mut Self, Code> {
        if words.is_null() || !words.is_aligned() {
            return Err(Code::Argument);
        }
        let over = words.addr() % align_of::<Self>();
        let skip = if over == 0 { 0 } else { align_of::<Self>() - over };
        Ok(words.wrapping_byte_add(skip).cast())
    }

    /// Makes a context in memory without one; `make` makes its line.
    ///
    /// # Safety
    /// The memory has `bytes` bytes and is the caller's.
    pub(crate) unsafe fn make(
        words: *mut u64,
        bytes: usize,
        suite: u32,
        make: impl FnOnce(*mut L) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let context = Self::place(words)?;
        if bytes < Self::BYTES {
            return Err(Code::Size);
        }
        // SAFETY: the memory is large enough from this place on. The mark is written last.
        unsafe {
            engine::ready()?;
            addr_of_mut!((*context).mark).write(0);
            make(addr_of_mut!((*context).line).cast())?;
            addr_of_mut!((*context).suite).write(suite);
            #[cfg(feature = "callback-aes")]
            addr_of_mut!((*context).failures).write(engine::failures());
            addr_of_mut!((*context).process).write(process::number());
            addr_of_mut!((*context).here).write(context.addr());
            addr_of_mut!((*context).mark).write(L::MARK as usize);
        }
        Ok(())
    }

    /// The suite and the line of a live context, also in a child of the process that made it.
    ///
    /// # Safety
    /// The memory is that of a context or at least as long, and is initialised.
    pub(crate) unsafe fn line(words: *mut u64) -> Result<(u32, *mut L), Code> {
        let context = Self::place(words)?;
        // SAFETY: guaranteed by the caller; any bytes are valid integers.
        unsafe {
            let (mark, here) = (addr_of_mut!((*context).mark).read(), addr_of_mut!((*context).here).read());
            if mark != L::MARK as usize || here != context.addr() {
                return Err(Code::State);
            }
            Ok((addr_of_mut!((*context).suite).read(), addr_of_mut!((*context).line).cast()))
        }
    }

    /// Refuses a context that has seen a failure of the AES engine.
    ///
    /// # Safety
    /// The memory is that of a live context.
    #[inline]
    pub(crate) unsafe fn sound(words: *mut u64) -> Result<(), Code> {
        #[cfg(feature = "callback-aes")]
        // SAFETY: guaranteed by the caller.
        if unsafe { addr_of_mut!((*Self::place(words)?).failures).read() } != engine::failures() {
            return Err(Code::Engine);
        }
        let _ = words;
        Ok(())
    }

    /// The suite and the line of a live and sound context.
    ///
    /// # Safety
    /// As for [`line`](Self::line).
    pub(crate) unsafe fn sound_line(words: *mut u64) -> Result<(u32, *mut L), Code> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let line = Self::line(words)?;
            Self::sound(words)?;
            Ok(line)
        }
    }

    /// The suite and the line of a live and sound context of this process.
    ///
    /// # Safety
    /// As for [`line`](Self::line).
    pub(crate) unsafe fn own_line(words: *mut u64) -> Result<(u32, *mut L), Code> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let line = Self::sound_line(words)?;
            // Without an operating system there is one process.
            let maker = if cfg!(feature = "std") {
                addr_of_mut!((*Self::place(words)?).process).read()
            } else {
                process::number()
            };
            if maker == process::number() { Ok(line) } else { Err(Code::Forked) }
        }
    }

    /// Ends a context whose line was dropped, and zeroes all its bytes.
    ///
    /// # Safety
    /// As for [`line`](Self::line), and the line is not used afterwards.
    pub(crate) unsafe fn end(words: *mut u64) -> Result<(), Code> {
        let context = Self::place(words)?;
        for at in 0..size_of::<Self>() {
            // SAFETY: inside the context. Volatile, so that the compiler keeps the write.
            unsafe { context.cast::<u8>().wrapping_add(at).write_volatile(0) };
        }
        Ok(())
    }
}
