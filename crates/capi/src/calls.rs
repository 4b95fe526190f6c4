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
use crate::context::{Opener, Sealer};
use crate::line::{Receiving, Sending};
use crate::suites::with_suite;
use crate::{BLOCKS, Bytes, Code, Front, PAYLOAD_MAX, Template};
use antedate_aead::Suite;

fn code(outcome: Result<(), Code>) -> Code {
    outcome.err().unwrap_or(Code::Ok)
}

/// The sealer's memory.
fn of_sealer(sealer: *mut u64) -> (*const u8, usize) {
    (sealer.cast(), crate::SEALER_BYTES)
}

/// Whether tag and answer are writable: not null, and apart from each other and from the sealer.
fn writable(sealer: *mut u64, sealed: *mut Bytes, tag: *mut u8, tag_len: usize) -> bool {
    let (own, own_len) = of_sealer(sealer);
    let (answer, answer_len) = (sealed.cast::<u8>(), size_of::<Bytes>());
    let meet = overlap(tag, tag_len, answer, answer_len)
        || overlap(own, own_len, tag, tag_len)
        || overlap(own, own_len, answer, answer_len);
    !sealed.is_null() && sealed.is_aligned() && !tag.is_null() && !meet
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
            let tag_len = antedate_tag_len(suite);
            let own = of_sealer(sealer);
            let (aad, src, dst) = packet(aad, src, dst, len, (tag, tag_len), own)?;
            let meets = |read: &[u8]| overlap(tag, tag_len, read.as_ptr(), read.len());
            if tag.is_null() || meets(aad) || meets(src) || overlap(tag, tag_len, own.0, own.1) {
                return Err(Code::Argument);
            }
            with_suite!(suite, Sender, Line => Line::seal(line.cast(), aad, src, dst, tag))
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
            let tag_len = antedate_tag_len(suite);
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
            let ciphertext =
                with_suite!(suite, Sender, Line => Line::seal_template(line.cast(), values, tag))?;
            sealed.write(Bytes { data: ciphertext.as_ptr(), len: ciphertext.len() });
            Ok(())
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
            let rest = rest.get()?;
            let tag_len = antedate_tag_len(suite);
            if !writable(sealer, sealed, tag, tag_len) || overlap(tag, tag_len, rest.as_ptr(), rest.len()) {
                return Err(Code::Argument);
            }
            if rest.len() > PAYLOAD_MAX {
                return Err(Code::TooLong);
            }
            let ciphertext = with_suite!(suite, Sender, Line => Line::seal_front(line.cast(), rest, tag))?;
            sealed.write(Bytes { data: ciphertext.as_ptr(), len: ciphertext.len() });
            Ok(())
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
            let (suite, line) = Opener::line(opener)?;
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
            let (suite, line) = Opener::line(opener)?;
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
            let (suite, line) = Opener::line(opener)?;
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
        Opener::line(opener)
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
            let (suite, line) = Opener::line(opener)?;
            let tag_len = antedate_tag_len(suite);
            let own = (opener.cast_const().cast(), crate::OPENER_BYTES);
            let (aad, src, dst) = packet(aad, src, dst, len, (tag, tag_len), own)?;
            let tag = slice(tag, tag_len)?;
            with_suite!(suite, Receiver, Line => Line::open(line.cast(), aad, src, dst, tag))
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
