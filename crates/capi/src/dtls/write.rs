//! Protecting records.
#![allow(unsafe_code, reason = "C calls these functions with pointers")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the module comment of `calls` and the header give the conditions for all functions"
)]

use super::{ANY, BEFORE, Direction, FRONT, Head, NOTHING, SEQUENCE, check};
use crate::arguments::{overlap, slice};
use crate::calls::{code, sealer_let_go};
use crate::{
    Bytes, Code, LENGTHS, antedate_prepare, antedate_prepare_front, antedate_seal, antedate_seal_front,
    antedate_sealer_init_sized, antedate_sealer_wipe, antedate_step,
};
use antedate_wire::dtls::{Aad, HEADER_LEN, MAX_PLAINTEXT};

/// Makes a writer, whose first record has `number`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_writer_init_sized(
    writer: *mut u64,
    bytes: usize,
    suite: u32,
    key: Bytes,
    iv: Bytes,
    number: u64,
    cid: Bytes,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        iv.get().and_then(|iv| {
            Direction::make(writer, bytes, suite, iv, number, cid.get()?, |sealer, room, initial| {
                antedate_sealer_init_sized(sealer, room, suite, key, initial)
            })
        })
    })
}

impl Head {
    /// Takes the number of the next record.
    fn take_number(&mut self) -> Result<(), Code> {
        if self.spent != 0 {
            return Err(Code::Spent);
        }
        (self.number, self.shape) = (self.next, NOTHING);
        self.spent = u8::from(self.number & SEQUENCE == SEQUENCE);
        self.next = self.number.wrapping_add(u64::from(self.spent == 0));
        Ok(())
    }
}

/// Begins to prepare the next record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_prepare(writer: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        Direction::at(writer).and_then(|Direction { head, context, .. }| {
            head.cipher()?;
            head.take_number()?;
            check(antedate_prepare(context, head.number))?;
            head.shape = ANY;
            Ok(())
        })
    })
}

/// Begins to prepare the next record, whose content begins with `front`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_prepare_front(
    writer: *mut u64,
    content_type: u8,
    front: Bytes,
    lengths: *const usize,
    length_count: usize,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let mut direction = Direction::at(writer)?;
            direction.head.cipher()?;
            if length_count > LENGTHS || front.len > MAX_PLAINTEXT {
                return Err(Code::TooLong);
            }
            let inner = direction.head.inner_lengths(slice(lengths, length_count)?);
            direction.head.take_number()?;
            sealer_let_go(direction.context)?;
            let inner = inner.get(..length_count).unwrap_or_default();
            let known = direction.front(content_type, front, inner)?;
            let Direction { head, context, .. } = direction;
            check(antedate_prepare_front(context, head.number, &known))?;
            (head.shape, head.content_type, head.front_len) = (FRONT, content_type, front.len as u16);
            Ok(())
        })()
    })
}

/// Continues the preparation, as [`antedate_step`] does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_step(writer: *mut u64, budget: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe { Direction::at(writer).map_or(0, |writer| antedate_step(writer.context, budget)) }
}

/// The places of a record in its output.
struct Places {
    explicit: *mut u8,
    text: *mut u8,
    text_len: usize,
    tag: *mut u8,
    len: usize,
}

/// Checks the output for `len` octets of content, and lays it out.
fn lay_out(head: &Head, out: *mut u8, room: usize, len: usize) -> Result<Places, Code> {
    let cipher = head.cipher()?;
    if len > MAX_PLAINTEXT {
        return Err(Code::TooLong);
    }
    if out.is_null() {
        return Err(Code::Argument);
    }
    let before = HEADER_LEN + usize::from(head.cid_len);
    let text_len = len + head.inner();
    let total = before + cipher.explicit + text_len + cipher.tag;
    if total > room {
        return Err(Code::TooLong);
    }
    let text = out.wrapping_add(before + cipher.explicit);
    Ok(Places {
        explicit: out.wrapping_add(before),
        text,
        text_len,
        tag: text.wrapping_add(text_len),
        len: total,
    })
}

/// Writes the header and the explicit nonce.
///
/// # Safety
/// `out` is the output of [`lay_out`].
unsafe fn write_header(
    writer: &Direction<'_>,
    content_type: u8,
    out: *mut u8,
    places: &Places,
) -> Result<(), Code> {
    let (head, cid) = (&writer.head, writer.cid()?);
    let cipher = head.cipher()?;
    // SAFETY: the output has these octets.
    unsafe {
        let header = core::slice::from_raw_parts_mut(out, HEADER_LEN + cid.len());
        let fragment = places.len - header.len();
        let emitted = head.header(content_type, head.number).emit(cid.as_slice(), fragment, header);
        emitted.map_err(|_| Code::TooLong)?;
        let number = head.number.to_be_bytes();
        places.explicit.copy_from_nonoverlapping(number.as_ptr(), cipher.explicit);
    }
    Ok(())
}

/// Whether an answer is writable and lies apart from the record and the writer.
fn answers(answer: *mut usize, out: *mut u8, room: usize, writer: *mut u64) -> bool {
    let (len, bytes) = (size_of::<usize>(), BEFORE + crate::SEALER_BYTES);
    !answer.is_null()
        && answer.is_aligned()
        && !overlap(answer.cast(), len, out, room)
        && !overlap(answer.cast(), len, writer.cast(), bytes)
        && !overlap(out, room, writer.cast(), bytes)
}

/// Protects a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_protect(
    writer: *mut u64,
    content_type: u8,
    content: Bytes,
    out: *mut u8,
    room: usize,
    record_len: *mut usize,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            if !answers(record_len, out, room, writer) {
                return Err(Code::Argument);
            }
            let given = content.get()?;
            let (given, len) = (given.as_ptr(), given.len());
            let places = lay_out(Direction::at(writer)?.head, out, room, len)?;
            if Direction::at(writer)?.head.shape == NOTHING {
                check(antedate_dtls_prepare(writer))?;
            }
            let writer = Direction::at(writer)?;
            // The content may lie anywhere in the output.
            places.text.copy_from(given, len);
            if writer.head.inner() > 0 {
                places.text.wrapping_add(len).write(content_type);
            }
            let sealed = write_header(&writer, content_type, out, &places).and_then(|()| {
                let header = writer.head.header(content_type, writer.head.number);
                let aad = Aad::new(&header, &writer.cid()?, places.text_len);
                let aad = Bytes { data: aad.as_slice().as_ptr(), len: aad.as_slice().len() };
                let Places { text, text_len, tag, .. } = places;
                check(antedate_seal(writer.context, aad, text, text, text_len, tag))
            });
            writer.head.shape = NOTHING;
            sealed.inspect_err(|_| out.write_bytes(0, places.len))?;
            record_len.write(places.len);
            Ok(())
        })()
    })
}

/// Protects the record of the front, whose content continues with `rest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_protect_front(
    writer: *mut u64,
    rest: Bytes,
    out: *mut u8,
    room: usize,
    record_len: *mut usize,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            if !answers(record_len, out, room, writer) {
                return Err(Code::Argument);
            }
            let writer = Direction::at(writer)?;
            if writer.head.shape != FRONT {
                return Err(Code::State);
            }
            let given = rest.get()?;
            let (given, len) = (given.as_ptr(), given.len());
            let front = usize::from(writer.head.front_len);
            let places = lay_out(writer.head, out, room, front.saturating_add(len))?;
            // At its place in the output, with the inner content type behind it.
            let place = places.text.wrapping_add(front);
            place.copy_from(given, len);
            if writer.head.inner() > 0 {
                place.wrapping_add(len).write(writer.head.content_type);
            }
            let rest = Bytes { data: place, len: len + writer.head.inner() };
            let mut text = Bytes { data: core::ptr::null(), len: 0 };
            let sealed = check(antedate_seal_front(writer.context, rest, &mut text, places.tag));
            let sealed = sealed.and_then(|()| {
                writer.head.shape = NOTHING;
                places.text.copy_from(text.data, places.text_len.min(text.len));
                write_header(&writer, writer.head.content_type, out, &places)
            });
            sealed.inspect_err(|_| out.write_bytes(0, places.len))?;
            record_len.write(places.len);
            Ok(())
        })()
    })
}

/// Ends a writer and zeroes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_writer_wipe(writer: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        Direction::at(writer).and_then(|Direction { head, context, .. }| {
            check(antedate_sealer_wipe(context))?;
            core::ptr::from_mut(head).write_bytes(0, 1);
            Ok(())
        })
    })
}
