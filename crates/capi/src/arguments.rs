//! Conversion of C's arguments to Rust.
#![allow(unsafe_code, reason = "C passes pointers")]

use crate::{BLOCKS, Code, LENGTHS, PAYLOAD_MAX};
use core::slice;

/// `antedate_bytes`: a pointer and a length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first byte; may be null if `len` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// `antedate_hole`: bytes that are known only when the packet is sent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    /// Zero for associated data, otherwise payload.
    pub in_payload: i32,
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// `antedate_template`: the known bytes of a packet, with holes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// The associated data.
    pub aad: Bytes,
    /// The payload.
    pub payload: Bytes,
    /// The holes, in the order of their values.
    pub holes: *const Hole,
    /// Number of holes.
    pub hole_count: usize,
}

/// `antedate_front`: the beginning of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Front {
    /// The associated data.
    pub aad: Bytes,
    /// The beginning of the payload.
    pub payload: Bytes,
    /// The possible lengths of the whole payload.
    pub lengths: *const usize,
    /// Number of lengths.
    pub length_count: usize,
    /// The first byte of the payload's length in the associated data; none if start and end are
    /// zero.
    pub length_start: usize,
    /// One past the last byte of that length.
    pub length_end: usize,
}

/// A slice at a pointer of C.
///
/// # Safety
/// If `data` is not null, `len` elements are readable there for `'a`, and nothing writes to them.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Code> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Code::Argument),
        _ if len > isize::MAX as usize / size_of::<T>() || !data.is_aligned() => Err(Code::Argument),
        // SAFETY: not null, aligned, not too long; the caller guarantees the rest.
        _ => Ok(unsafe { slice::from_raw_parts(data, len) }),
    }
}

/// A writable slice at a pointer of C; see [`slice`].
///
/// # Safety
/// If `data` is not null, `len` bytes are writable there for `'a`, and nothing else uses them.
pub(crate) unsafe fn slice_mut<'a>(data: *mut u8, len: usize) -> Result<&'a mut [u8], Code> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Code::Argument),
        _ if len > isize::MAX as usize => Err(Code::Argument),
        // SAFETY: not null, not too long; the caller guarantees the rest.
        _ => Ok(unsafe { slice::from_raw_parts_mut(data, len) }),
    }
}

/// Whether two buffers share a byte: whether `a` begins at most its length before `b`, or in it. One
/// comparison, on the deadline.
#[inline]
pub(crate) fn overlap(a: *const u8, a_len: usize, b: *const u8, b_len: usize) -> bool {
    let (a, b) = (a.addr(), b.addr());
    // From the first place where `a` would reach `b`.
    a_len > 0 && b_len > 0 && a.wrapping_sub(b).wrapping_add(a_len - 1) < (a_len - 1).saturating_add(b_len)
}

/// The payload of a packet: a source and a destination of equal length, or one buffer.
pub(crate) enum Payload<'a> {
    Apart(&'a [u8], &'a mut [u8]),
    InPlace(&'a mut [u8]),
}

impl<'a> Payload<'a> {
    /// Whether the engine gains from two buffers. On a mote it does not, and one way is less code.
    pub(crate) const APART: bool = !cfg!(target_os = "none");

    /// The destination, with the source's bytes.
    pub(crate) fn into_in_place(self) -> &'a mut [u8] {
        match self {
            Self::Apart(src, dst) => {
                dst.copy_from_slice(src);
                dst
            }
            Self::InPlace(buffer) => buffer,
        }
    }
}

/// Checks a packet and returns its associated data and payload. Source and destination are the same
/// or apart; the destination must not overlap the other parts, the tag or the context.
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
) -> Result<(&'a [u8], Payload<'a>), Code> {
    if len > PAYLOAD_MAX {
        return Err(Code::TooLong);
    }
    let in_place = src == dst.cast_const();
    let source = if in_place { 0 } else { len };
    let meets = |at, of| overlap(at, of, dst, len);
    if meets(aad.data, aad.len) || meets(src, source) || meets(tag.0, tag.1) || meets(context.0, context.1) {
        return Err(Code::Argument);
    }
    // SAFETY: the parts do not overlap; the caller guarantees the rest.
    unsafe {
        let (aad, dst) = (aad.get()?, slice_mut(dst, len)?);
        Ok((aad, if in_place { Payload::InPlace(dst) } else { Payload::Apart(slice(src, len)?, dst) }))
    }
}

/// A struct of C.
///
/// # Safety
/// If the pointer is not null, it points to a readable `T` for `'a`, and nothing writes to it.
pub(crate) unsafe fn pointee<'a, T>(at: *const T) -> Result<&'a T, Code> {
    // SAFETY: guaranteed by the caller.
    unsafe { slice(at, 1)?.first().ok_or(Code::Argument) }
}

impl Bytes {
    /// # Safety
    /// As for [`slice`].
    pub(crate) unsafe fn get<'a>(self) -> Result<&'a [u8], Code> {
        // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
    fn null_needs_zero_length() {
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
