//! The functions of `antedate.h`. Each checks its arguments, finds the line, and returns the
//! outcome as a [`Code`].
//!
//! For all functions: a pointer is null or points to as much memory as the header demands, and
//! nothing else uses that memory during the call. This is the caller's guarantee, and the only
//! condition without a check.
#![allow(unsafe_code, reason = "C calls these functions with pointers")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the module comment and the header give the conditions for all functions"
)]

use crate::arguments::{overlap, packet, pointee, slice};
use crate::code::TEXTS;
use crate::context::{Opener, Sealer};
use crate::line::{Receiving, Sending};
use crate::suites::with_suite;
use crate::{BLOCKS, Bytes, Code, Encrypt, Front, Template, engine};
use antedate_aead::Suite;
use core::ffi::{CStr, c_char, c_void};

pub(crate) fn code(outcome: Result<(), Code>) -> Code {
    outcome.err().unwrap_or(Code::Ok)
}

/// The sealer's memory.
fn of_sealer(sealer: *mut u64) -> (*const u8, usize) {
    (sealer.cast(), crate::SEALER_BYTES)
}

/// Whether tag and answer are writable: not null, and apart from each other and from the sealer.
#[inline]
fn writable(sealer: *mut u64, sealed: *mut Bytes, tag: *mut u8, tag_len: usize) -> bool {
    let (own, own_len) = of_sealer(sealer);
    let (answer, answer_len) = (sealed.cast::<u8>(), size_of::<Bytes>());
    !(sealed.is_null()
        || !sealed.is_aligned()
        || tag.is_null()
        || overlap(tag, tag_len, answer, answer_len)
        || overlap(own, own_len, tag, tag_len)
        || overlap(own, own_len, answer, answer_len))
}

/// Drops the packet in preparation.
///
/// # Safety
/// As for the functions of C.
#[cfg(feature = "dtls")]
pub(crate) unsafe fn sealer_let_go(sealer: *mut u64) -> Result<(), Code> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (suite, line) = Sealer::own_line(sealer)?;
        with_suite!(suite, Sender, Line => {
            Line::let_go(line.cast());
            Ok(())
        })
    }
}

/// Drops the expected packet.
///
/// # Safety
/// As for the functions of C.
#[cfg(feature = "dtls")]
pub(crate) unsafe fn opener_let_go(opener: *mut u64) -> Result<(), Code> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (suite, line) = Opener::sound_line(opener)?;
        with_suite!(suite, Receiver, Line => {
            Line::let_go(line.cast());
            Ok(())
        })
    }
}

/// Bytes of a suite's tag; 0 for an unknown suite.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_tag_len(suite: u32) -> usize {
    let len: Result<usize, Code> =
        with_suite!(suite, Sender, Line => Ok(<<Line as Sending>::Of as Suite>::TAG_LEN));
    len.unwrap_or(0)
}

/// Bytes of a suite's nonce; 0 for an unknown suite.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_nonce_len(suite: u32) -> usize {
    let len: Result<usize, Code> =
        with_suite!(suite, Sender, Line => Ok(<<Line as Sending>::Of as Suite>::NONCE_LEN));
    len.unwrap_or(0)
}

/// Bytes of a suite's key; 0 for an unknown suite.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_key_len(suite: u32) -> usize {
    let len: Result<usize, Code> =
        with_suite!(suite, Sender, Line => Ok(<<Line as Sending>::Of as Suite>::KEY_LEN));
    len.unwrap_or(0)
}

/// Bytes of memory for a sealer of this build.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_sealer_bytes() -> usize {
    crate::SEALER_BYTES
}

/// Bytes of memory for an opener of this build.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_opener_bytes() -> usize {
    crate::OPENER_BYTES
}

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// A text for a result; never null.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_strerror(result: i32) -> *const c_char {
    let text = usize::try_from(result).ok().and_then(|number| TEXTS.get(number));
    text.map_or(c"not a result of this library".as_ptr(), |text| text.as_ptr())
}

/// Gives the library a chip's AES engine. Only a library with the feature `callback-aes` takes one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_set_aes(encrypt: Encrypt, engine: *mut c_void) -> Code {
    code(engine::set(encrypt, engine))
}

/// Makes a sealer. The header's macro `antedate_sealer_init` passes the size of the caller's
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_sealer_init_sized(
    sealer: *mut u64,
    bytes: usize,
    suite: u32,
    key: Bytes,
    initial: Bytes,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (key, initial) = (key.get()?, initial.get()?);
            with_suite!(suite, Sender, Line => {
                Sealer::make(sealer, bytes, suite, |place| Line::make(place.cast(), key, initial))
            })
        })()
    })
}

/// Begins to prepare a packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_prepare(sealer: *mut u64, number: u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Sealer::own_line(sealer)?;
            with_suite!(suite, Sender, Line => Line::prepare(line.cast(), number))
        })()
    })
}

/// Begins to prepare a packet of a template. The template and its bytes stay until the packet is
/// sealed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_prepare_template(
    sealer: *mut u64,
    number: u64,
    template: *const Template,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Sealer::own_line(sealer)?;
            let parts = pointee(template).and_then(|known| known.get());
            with_suite!(suite, Sender, Line => {
                Line::let_go(line.cast());
                Line::prepare_template(line.cast(), number, parts?)
            })
        })()
    })
}

/// Begins to prepare a packet with a front. The front and its bytes stay until the packet is
/// sealed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_prepare_front(sealer: *mut u64, number: u64, front: *const Front) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Sealer::own_line(sealer)?;
            let front = pointee(front).and_then(|known| known.get());
            with_suite!(suite, Sender, Line => {
                Line::let_go(line.cast());
                Line::prepare_front(line.cast(), number, front?)
            })
        })()
    })
}

/// Does at most `budget` units of preparation and returns their number; 0 if none is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_step(sealer: *mut u64, budget: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    let done = unsafe {
        Sealer::own_line(sealer)
            .and_then(|(suite, line)| with_suite!(suite, Sender, Line => Line::step(line.cast(), budget)))
    };
    done.unwrap_or(0)
}

/// Seals any packet with the current number. A preparation for another shape is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_seal(
    sealer: *mut u64,
    aad: Bytes,
    src: *const u8,
    dst: *mut u8,
    len: usize,
    tag: *mut u8,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Sealer::own_line(sealer)?;
            with_suite!(suite, Sender, Line => {
                let tag_len = <<Line as Sending>::Of as Suite>::TAG_LEN;
                let own = of_sealer(sealer);
                let meets = |read, read_len| overlap(tag, tag_len, read, read_len);
                let (known, payload) = packet(aad, src, dst, len, (tag, tag_len), own)?;
                if tag.is_null() || meets(aad.data, aad.len) || meets(src, len) || meets(own.0, own.1) {
                    return Err(Code::Argument);
                }
                Line::seal(line.cast(), known, payload, tag)?;
                Sealer::sound(sealer).inspect_err(|_| {
                    dst.write_bytes(0, len);
                    tag.write_bytes(0, tag_len);
                })
            })
        })()
    })
}

/// Seals the packet of the template. The ciphertext stays in the sealer until the next packet
/// begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_seal_template(
    sealer: *mut u64,
    values: *const Bytes,
    value_count: usize,
    sealed: *mut Bytes,
    tag: *mut u8,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Sealer::own_line(sealer)?;
            with_suite!(suite, Sender, Line => {
                let tag_len = <<Line as Sending>::Of as Suite>::TAG_LEN;
                if !writable(sealer, sealed, tag, tag_len) {
                    return Err(Code::Argument);
                }
                let given = slice(values, value_count)?;
                let mut values: [&[u8]; BLOCKS] = [&[]; BLOCKS];
                let values = values.get_mut(..given.len()).ok_or(Code::Misfit)?;
                for (to, from) in values.iter_mut().zip(given) {
                    if overlap(tag, tag_len, from.data, from.len) {
                        return Err(Code::Argument);
                    }
                    *to = from.get()?;
                }
                let ciphertext = Line::seal_template(line.cast(), values, tag)?;
                Sealer::sound(sealer).inspect_err(|_| tag.write_bytes(0, tag_len))?;
                sealed.write(Bytes { data: ciphertext.as_ptr(), len: ciphertext.len() });
                Ok(())
            })
        })()
    })
}

/// Seals the front's packet with the rest of its payload. The ciphertext of both stays in the
/// sealer until the next packet begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_seal_front(
    sealer: *mut u64,
    rest: Bytes,
    sealed: *mut Bytes,
    tag: *mut u8,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Sealer::own_line(sealer)?;
            with_suite!(suite, Sender, Line => {
                let tag_len = <<Line as Sending>::Of as Suite>::TAG_LEN;
                let rest = rest.get()?;
                let meets = || overlap(tag, tag_len, rest.as_ptr(), rest.len());
                if !writable(sealer, sealed, tag, tag_len) || meets() {
                    return Err(Code::Argument);
                }
                let ciphertext = Line::seal_front(line.cast(), rest, tag)?;
                Sealer::sound(sealer).inspect_err(|_| tag.write_bytes(0, tag_len))?;
                sealed.write(Bytes { data: ciphertext.as_ptr(), len: ciphertext.len() });
                Ok(())
            })
        })()
    })
}

/// Ends a sealer and zeroes key and preparation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_sealer_wipe(sealer: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Sealer::line(sealer)?;
            with_suite!(suite, Sender, Line => {
                Line::wipe(line.cast());
                Ok(())
            })?;
            Sealer::end(sealer)
        })()
    })
}

/// Makes an opener. The header's macro `antedate_opener_init` passes the size of the caller's
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_opener_init_sized(
    opener: *mut u64,
    bytes: usize,
    suite: u32,
    key: Bytes,
    initial: Bytes,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (key, initial) = (key.get()?, initial.get()?);
            with_suite!(suite, Receiver, Line => {
                Opener::make(opener, bytes, suite, |place| Line::make(place.cast(), key, initial))
            })
        })()
    })
}

/// Begins to prepare for the next received packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_expect(opener: *mut u64, number: u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Opener::sound_line(opener)?;
            with_suite!(suite, Receiver, Line => Line::expect(line.cast(), number))
        })()
    })
}

/// Begins to prepare for a packet of a template. The template and its bytes stay until the packet
/// is opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_expect_template(
    opener: *mut u64,
    number: u64,
    template: *const Template,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Opener::sound_line(opener)?;
            let parts = pointee(template).and_then(|known| known.get());
            with_suite!(suite, Receiver, Line => {
                Line::let_go(line.cast());
                Line::expect_template(line.cast(), number, parts?)
            })
        })()
    })
}

/// Begins to prepare for a packet with a front. The front and its bytes stay until the packet is
/// opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_expect_front(opener: *mut u64, number: u64, front: *const Front) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Opener::sound_line(opener)?;
            let front = pointee(front).and_then(|known| known.get());
            with_suite!(suite, Receiver, Line => {
                Line::let_go(line.cast());
                Line::expect_front(line.cast(), number, front?)
            })
        })()
    })
}

/// The receiving counterpart of [`antedate_step`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_opener_step(opener: *mut u64, budget: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    let done = unsafe {
        Opener::sound_line(opener)
            .and_then(|(suite, line)| with_suite!(suite, Receiver, Line => Line::step(line.cast(), budget)))
    };
    done.unwrap_or(0)
}

/// Opens the expected packet if it is authentic. Otherwise `dst` becomes zeros, and the packet is
/// still expected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_open(
    opener: *mut u64,
    aad: Bytes,
    src: *const u8,
    dst: *mut u8,
    len: usize,
    tag: *const u8,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Opener::sound_line(opener)?;
            let own = (opener.cast_const().cast(), crate::OPENER_BYTES);
            with_suite!(suite, Receiver, Line => {
                let tag_len = <<Line as Receiving>::Of as Suite>::TAG_LEN;
                let (aad, payload) = packet(aad, src, dst, len, (tag, tag_len), own)?;
                let tag = slice(tag, tag_len)?;
                let opened = Line::open(line.cast(), aad, payload, tag);
                Opener::sound(opener).inspect_err(|_| dst.write_bytes(0, len))?;
                opened
            })
        })()
    })
}

/// Opens a packet with any number, without a preparation. The expected packet stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_open_other(
    opener: *mut u64,
    number: u64,
    aad: Bytes,
    src: *const u8,
    dst: *mut u8,
    len: usize,
    tag: *const u8,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Opener::sound_line(opener)?;
            let own = (opener.cast_const().cast(), crate::OPENER_BYTES);
            with_suite!(suite, Receiver, Line => {
                let tag_len = <<Line as Receiving>::Of as Suite>::TAG_LEN;
                let (aad, payload) = packet(aad, src, dst, len, (tag, tag_len), own)?;
                let tag = slice(tag, tag_len)?;
                let opened = Line::open_other(line.cast(), number, aad, payload, tag);
                Opener::sound(opener).inspect_err(|_| dst.write_bytes(0, len))?;
                opened
            })
        })()
    })
}

/// Ends an opener and zeroes key and preparation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_opener_wipe(opener: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (suite, line) = Opener::line(opener)?;
            with_suite!(suite, Receiver, Line => {
                Line::wipe(line.cast());
                Ok(())
            })?;
            Opener::end(opener)
        })()
    })
}
