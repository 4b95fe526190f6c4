//! Opening records.
#![allow(unsafe_code, reason = "C calls these functions with pointers")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the module comment of `calls` and the header give the conditions for all functions"
)]

use super::{ANY, BEFORE, Direction, FRONT, Head, NOTHING, SEQUENCE, check};
use crate::arguments::{overlap, slice};
use crate::calls::{code, opener_let_go};
use crate::{
    Bytes, Code, LENGTHS, antedate_expect, antedate_expect_front, antedate_open, antedate_open_other,
    antedate_opener_init_sized, antedate_opener_step, antedate_opener_wipe,
};
use antedate_wire::dtls::{Aad, ContentType, MAX_PLAINTEXT, Record, inner};

/// `antedate_dtls_content`: an opened record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Its content type.
    pub content_type: u8,
    /// Not 0 if it is newer than all before.
    pub newest: u8,
    /// Octets of content.
    pub len: usize,
    /// Octets of the record in the datagram, also if it was refused; 0 if it is malformed.
    pub record_len: usize,
}

/// The widest window.
const WINDOW: u64 = u64::BITS as u64;

impl Head {
    /// Expects the next record.
    fn expect_number(&mut self) -> Result<(), Code> {
        self.cipher()?;
        if self.spent != 0 {
            return Err(Code::Spent);
        }
        (self.number, self.shape) = (self.next, NOTHING);
        Ok(())
    }

    /// Whether a record may be opened (RFC 6347 section 4.1.2.6).
    fn admit(&self, number: u64) -> Result<(), Code> {
        if number >> 48 != u64::from(self.epoch) {
            return Err(Code::Frame);
        }
        // The last number of the last epoch has no successor.
        if number == u64::MAX {
            return Err(Code::Replayed);
        }
        match self.next.checked_sub(number).and_then(|age| age.checked_sub(1)) {
            None => Ok(()),
            Some(age) if age < WINDOW && self.window >> age & 1 == 0 => Ok(()),
            Some(_) => Err(Code::Replayed),
        }
    }

    /// Marks the number of an authentic record. Returns whether it is newer than all before.
    fn mark(&mut self, number: u64) -> bool {
        match self.next.checked_sub(number).and_then(|age| age.checked_sub(1)) {
            Some(age) => {
                self.window |= 1u64.checked_shl(age as u32).unwrap_or(0);
                false
            }
            None => {
                let jump = number - self.next + 1;
                let kept = u32::try_from(jump).ok().and_then(|jump| self.window.checked_shl(jump));
                self.window = kept.unwrap_or(0) | 1;
                self.spent = u8::from(number & SEQUENCE == SEQUENCE);
                self.next = number.saturating_add(1);
                true
            }
        }
    }
}

/// Makes a reader of the epoch of `number`, whose records below it were received by others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_reader_init_sized(
    reader: *mut u64,
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
            Direction::make(reader, bytes, suite, iv, number, cid.get()?, |opener, room, initial| {
                antedate_opener_init_sized(opener, room, suite, key, initial)
            })?;
            // What was before counts as received.
            Direction::at(reader)?.head.window = u64::MAX;
            Ok(())
        })
    })
}

/// Begins to prepare for the next record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_expect(reader: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        Direction::at(reader).and_then(|Direction { head, context, .. }| {
            head.expect_number()?;
            check(antedate_expect(context, head.number))?;
            head.shape = ANY;
            Ok(())
        })
    })
}

/// Begins to prepare for the next record, whose content begins with `front`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_expect_front(
    reader: *mut u64,
    content_type: u8,
    front: Bytes,
    lengths: *const usize,
    length_count: usize,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let mut direction = Direction::at(reader)?;
            if length_count > LENGTHS || front.len > MAX_PLAINTEXT {
                return Err(Code::TooLong);
            }
            direction.head.expect_number()?;
            let inner = direction.head.inner_lengths(slice(lengths, length_count)?);
            opener_let_go(direction.context)?;
            let inner = inner.get(..length_count).unwrap_or_default();
            let known = direction.front(content_type, front, inner)?;
            let Direction { head, context, .. } = direction;
            check(antedate_expect_front(context, head.number, &known))?;
            head.shape = FRONT;
            Ok(())
        })()
    })
}

/// Continues the preparation, as [`antedate_opener_step`] does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_reader_step(reader: *mut u64, budget: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe { Direction::at(reader).map_or(0, |reader| antedate_opener_step(reader.context, budget)) }
}

/// Opens the first record of a datagram into `plain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_open(
    reader: *mut u64,
    datagram: *const u8,
    len: usize,
    plain: *mut u8,
    room: usize,
    content: *mut Content,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let bytes = BEFORE + crate::OPENER_BYTES;
            let apart = |at: *const u8, of: usize| {
                !overlap(at, of, plain, room) && !overlap(at, of, content.cast(), size_of::<Content>())
            };
            if content.is_null()
                || !content.is_aligned()
                || !apart(datagram, len)
                || !apart(reader.cast(), bytes)
                || overlap(plain, room, content.cast(), size_of::<Content>())
            {
                return Err(Code::Argument);
            }
            content.write(Content::default());
            let direction = Direction::at(reader)?;
            let (cipher, cid) = (direction.head.cipher()?, direction.cid()?);
            let Direction { head, context, .. } = direction;
            let datagram = slice(datagram, len)?;
            let (record, _) = Record::parse(datagram, cid.len()).map_err(|_| Code::Frame)?;
            (*content).record_len = record.len();
            let with_cid = record.content_type == ContentType::Tls12Cid;
            if with_cid == cid.is_empty() || record.cid != cid.as_slice() {
                return Err(Code::Frame);
            }
            let number = record.number();
            head.admit(number)?;
            let (explicit, body) = record.fragment.split_at_checked(cipher.explicit).ok_or(Code::Frame)?;
            let text_len = body.len().checked_sub(cipher.tag).ok_or(Code::Frame)?;
            let (text, tag) = body.split_at(text_len);
            if text_len > MAX_PLAINTEXT + head.inner() {
                return Err(Code::Frame);
            }
            if text_len > room || (plain.is_null() && text_len > 0) {
                return Err(Code::TooLong);
            }
            // The nonce is the one in the record, even if we would have chosen another.
            let spoken = explicit.first_chunk().map_or(number, |octets| u64::from_be_bytes(*octets));
            let aad = Aad::new(&record.header(), &cid, text_len);
            let aad = Bytes { data: aad.as_slice().as_ptr(), len: aad.as_slice().len() };
            let (text, tag) = (text.as_ptr(), tag.as_ptr());
            if head.shape != NOTHING && head.number == spoken {
                check(antedate_open(context, aad, text, plain, text_len, tag))?;
                head.shape = NOTHING;
            } else {
                check(antedate_open_other(context, spoken, aad, text, plain, text_len, tag))?;
            }
            (*content).newest = head.mark(number).into();
            ((*content).content_type, (*content).len) = (record.content_type.number(), text_len);
            if with_cid {
                let text = core::slice::from_raw_parts(plain, text_len);
                let (content_type, len) = inner(text).ok_or(Code::Frame)?;
                ((*content).content_type, (*content).len) = (content_type.number(), len);
            }
            Ok(())
        })()
    })
}

/// Ends a reader and zeroes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dtls_reader_wipe(reader: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        Direction::at(reader).and_then(|Direction { head, context, .. }| {
            check(antedate_opener_wipe(context))?;
            core::ptr::from_mut(head).write_bytes(0, 1);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_accepts_each_number_once() {
        let mut head = Head::new(1, 1 << 48, 0).unwrap();
        head.window = u64::MAX;
        let at = |sequence: u64| 1 << 48 | sequence;
        for (sequence, right) in [
            (0, Ok(())),
            (0, Err(Code::Replayed)),
            (70, Ok(())),
            (6, Err(Code::Replayed)),
            (7, Ok(())),
            (7, Err(Code::Replayed)),
            (69, Ok(())),
            (SEQUENCE, Ok(())),
            (SEQUENCE, Err(Code::Replayed)),
            (71, Err(Code::Replayed)),
        ] {
            assert_eq!(head.admit(at(sequence)), right, "{sequence}");
            if right.is_ok() {
                head.mark(at(sequence));
            }
        }
        assert_eq!(head.admit(2 << 48), Err(Code::Frame), "another epoch");
    }
}
