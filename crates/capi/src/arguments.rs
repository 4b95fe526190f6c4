//! What C hands over, as Rust has it.
#![allow(unsafe_code)]

use crate::{BLOCKS, Code, LENGTHS, PAYLOAD_MAX};
use core::slice;

/// `antedate_bytes`: bytes and how many.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first; may be null if there are none.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

/// `antedate_hole`: bytes that are known only when the packet is sent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    /// Zero for associated data, else payload.
    pub in_payload: i32,
    /// The first byte.
    pub start: usize,
    /// The first byte behind.
    pub end: usize,
}

/// `antedate_template`: what is known of a packet, with holes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// The associated data.
    pub aad: Bytes,
    /// The payload.
    pub payload: Bytes,
    /// The holes, in the order in which the values are given.
    pub holes: *const Hole,
    /// How many.
    pub hole_count: usize,
}

/// `antedate_front`: what a packet begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Front {
    /// The associated data.
    pub aad: Bytes,
    /// The front of the payload.
    pub payload: Bytes,
    /// The lengths that the whole payload may have.
    pub lengths: *const usize,
    /// How many.
    pub length_count: usize,
    /// The bytes of the associated data that are the payload's length; none if both are zero.
    pub length_start: usize,
    /// The first byte behind.
    pub length_end: usize,
}

/// A slice of what C points to.
///
/// # Safety
/// If `data` is not null, `len` elements can be read there for as long as `'a`, and nobody writes to them.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Code> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Code::Argument),
        _ if len > isize::MAX as usize / size_of::<T>() || !data.is_aligned() => Err(Code::Argument),
        // SAFETY: not null, aligned, not too long; the rest is the caller's word.
        _ => Ok(unsafe { slice::from_raw_parts(data, len) }),
    }
}

/// As [`slice`], to write to.
///
/// # Safety
/// If `data` is not null, `len` bytes can be written there for as long as `'a`, and nobody else uses them.
pub(crate) unsafe fn slice_mut<'a>(data: *mut u8, len: usize) -> Result<&'a mut [u8], Code> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Code::Argument),
        _ if len > isize::MAX as usize => Err(Code::Argument),
        // SAFETY: not null, not too long; the rest is the caller's word.
        _ => Ok(unsafe { slice::from_raw_parts_mut(data, len) }),
    }
}

/// Whether two buffers share a byte.
pub(crate) fn overlap(a: *const u8, a_len: usize, b: *const u8, b_len: usize) -> bool {
    let (a, b) = (a.addr(), b.addr());
    a_len > 0 && b_len > 0 && a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
}

/// Associated data, source and destination of a packet.
pub(crate) type PacketParts<'a> = (&'a [u8], &'a [u8], &'a mut [u8]);

/// The parts of a packet, of which the destination is apart from the others, from the tag and from the context.
///
/// # Safety
/// As for [`slice`] and [`slice_mut`].
pub(crate) unsafe fn packet<'a>(
    aad: Bytes,
    src: *const u8,
    dst: *mut u8,
    len: usize,
    tag: (*const u8, usize),
    context: (*const u8, usize),
) -> Result<PacketParts<'a>, Code> {
    if len > PAYLOAD_MAX {
        return Err(Code::TooLong);
    }
    if [(aad.data, aad.len), (src, len), tag, context].iter().any(|(at, of)| overlap(*at, *of, dst, len)) {
        return Err(Code::Argument);
    }
    // SAFETY: they are apart; the rest is the caller's word.
    unsafe { Ok((aad.get()?, slice(src, len)?, slice_mut(dst, len)?)) }
}

/// A struct of C.
///
/// # Safety
/// If the pointer is not null, one can be read there for as long as `'a`, and nobody writes to it.
pub(crate) unsafe fn pointee<'a, T>(at: *const T) -> Result<&'a T, Code> {
    // SAFETY: the caller's word.
    unsafe { slice(at, 1)?.first().ok_or(Code::Argument) }
}

impl Bytes {
    /// # Safety
    /// As for [`slice`].
    pub(crate) unsafe fn get<'a>(self) -> Result<&'a [u8], Code> {
        // SAFETY: the caller's word.
        unsafe { slice(self.data, self.len) }
    }
}

/// Associated data, payload and holes of a template.
pub(crate) type TemplateParts<'a> = (&'a [u8], &'a [u8], &'a [Hole]);

impl Template {
    /// # Safety
    /// As for [`slice`], for all three pointers.
    pub(crate) unsafe fn get<'a>(&self) -> Result<TemplateParts<'a>, Code> {
        if self.hole_count > BLOCKS {
            return Err(Code::TooLong);
        }
        // SAFETY: the caller's word.
        unsafe { Ok((self.aad.get()?, self.payload.get()?, slice(self.holes, self.hole_count)?)) }
    }
}

impl Front {
    /// # Safety
    /// As for [`slice`], for all three pointers.
    pub(crate) unsafe fn get<'a>(&self) -> Result<antedate_aead::Front<'a>, Code> {
        if self.length_count > LENGTHS {
            return Err(Code::TooLong);
        }
        // SAFETY: the caller's word.
        let (aad, payload, lengths) =
            unsafe { (self.aad.get()?, self.payload.get()?, slice(self.lengths, self.length_count)?) };
        let front = antedate_aead::Front::new(aad, payload, lengths).map_err(|_| Code::Template)?;
        match (self.length_start, self.length_end) {
            (0, 0) => Ok(front),
            (start, end) => front.with_length_field(start..end).map_err(|_| Code::Template),
        }
    }
}

impl Hole {
    pub(crate) fn get(&self) -> antedate_aead::Hole {
        match self.in_payload {
            0 => antedate_aead::Hole::Aad(self.start..self.end),
            _ => antedate_aead::Hole::Payload(self.start..self.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_may_be_null_and_something_may_not() {
        // SAFETY: nothing is read.
        unsafe {
            assert!(slice::<u8>(core::ptr::null(), 0).is_ok_and(<[u8]>::is_empty));
            assert_eq!(slice::<u8>(core::ptr::null(), 1), Err(Code::Argument));
            assert_eq!(slice([0u8; 4].as_ptr(), usize::MAX), Err(Code::Argument));
        }
    }

    #[test]
    fn overlap_is_a_shared_byte() {
        let bytes = [0u8; 8];
        let at = |i: usize| bytes[i..].as_ptr();
        assert!(overlap(at(0), 8, at(0), 8) && overlap(at(0), 5, at(4), 4) && overlap(at(4), 4, at(0), 5));
        assert!(!overlap(at(0), 4, at(4), 4) && !overlap(at(0), 8, at(4), 0));
    }
}
