//! The functions of `antedate_dot15d4.h`. The caller's guarantees are those of [`crate::calls`].
#![allow(unsafe_code, reason = "C calls these functions with pointers")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the module comment and the header give the conditions for all functions"
)]

use super::{KeyContext, LENGTHS, Parts, Place, Protection, Radio, Secured, SlotContext, stamp};
use crate::arguments::{overlap, pointee, slice, slice_mut};
use crate::calls::code;
use crate::{Bytes, Code, PAYLOAD_MAX};
use antedate_aead::{FrameError, FrameSlot, Key, Nonce, Shape};
use antedate_wire::dot15d4::{Frame, MAX_SECURITY_HEADER_LEN, PanId, ShortAddress, nonce::Source};
use core::ptr::addr_of_mut;

/// Reads a frame.
///
/// # Safety
/// As for [`slice`].
unsafe fn read<'a>(frame: *const u8, len: usize) -> Result<Frame<'a>, Code> {
    if len > PAYLOAD_MAX {
        return Err(Code::TooLong);
    }
    // SAFETY: guaranteed by the caller.
    Frame::parse(unsafe { slice(frame, len) }?).map_err(|_| Code::Frame)
}

/// The eight octets of a sender in nonces.
///
/// # Safety
/// Null, or readable.
unsafe fn source_of(source: *const u8) -> Result<[u8; 8], Code> {
    // SAFETY: guaranteed by the caller.
    unsafe { slice(source, 8)?.first_chunk().copied().ok_or(Code::Argument) }
}

fn refused(error: FrameError) -> Code {
    match error {
        FrameError::Shape => Code::Template,
        FrameError::TooLong => Code::TooLong,
        FrameError::Spent => Code::State,
    }
}

/// Writes an auxiliary security header of at most 14 octets, and returns its length; 0 if there is
/// none such.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_security_header(
    protection: *const Protection,
    out: *mut u8,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let header = pointee(protection).and_then(|protection| protection.header());
        let (Ok(header), Ok(out)) = (header, slice_mut(out, MAX_SECURITY_HEADER_LEN)) else { return 0 };
        let (octets, len) = header.emit();
        for (to, from) in out.iter_mut().zip(octets).take(len) {
            *to = from;
        }
        len
    }
}

/// The octets of a short source address in nonces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_short_source(pan: u16, address: u16, out: *mut u8) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe { slice_mut(out, 8) }.map(|out| {
        out.copy_from_slice(&Source::Short(PanId(pan), ShortAddress(address)).octets());
    }))
}

/// Reads a frame without its key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_read(frame: *const u8, len: usize, parts: *mut Parts) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        read(frame, len).and_then(|frame| {
            if parts.is_null() || !parts.is_aligned() {
                return Err(Code::Argument);
            }
            parts.write(Parts::of(&frame));
            Ok(())
        })
    })
}

/// Bytes of memory for a key of this build.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_dot15d4_key_bytes() -> usize {
    super::DOT15D4_KEY_BYTES
}

/// Bytes of memory for a slot of this build.
#[unsafe(no_mangle)]
pub extern "C" fn antedate_dot15d4_slot_bytes() -> usize {
    super::DOT15D4_SLOT_BYTES
}

/// Makes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_key_init_sized(
    key: *mut u64,
    bytes: usize,
    octets: Bytes,
    slotted: i32,
    next: u64,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let octets = octets.get()?;
            KeyContext::make(key, bytes, 0, |place| {
                let key = Key::new(octets).map_err(|_| Code::KeyLength)?;
                place.write(Radio { key, next, slotted: slotted != 0, stamp: stamp() });
                Ok(())
            })
        })()
    })
}

/// Ends a key and zeroes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_key_wipe(key: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller; a live context has a key.
    code(unsafe {
        KeyContext::line(key).and_then(|(_, radio)| {
            radio.drop_in_place();
            KeyContext::end(key)
        })
    })
}

/// Makes an empty slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_slot_init_sized(slot: *mut u64, bytes: usize) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        SlotContext::make(slot, bytes, 0, |place| {
            place.write(Place { slot: FrameSlot::new(), key: (0, 0), number: 0, sends: false });
            Ok(())
        })
    })
}

/// Ends a slot and zeroes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_slot_wipe(slot: *mut u64) -> Code {
    // SAFETY: guaranteed by the caller; a live context has a slot.
    code(unsafe {
        SlotContext::line(slot).and_then(|(_, place)| {
            place.drop_in_place();
            SlotContext::end(slot)
        })
    })
}

/// The key for sending: live, sound, and of this process.
///
/// # Safety
/// As for [`crate::context::Context::line`], and the key is used by this call alone.
unsafe fn sender<'a>(key: *mut u64) -> Result<&'a mut Radio, Code> {
    // SAFETY: a live context has a key.
    unsafe { KeyContext::own_line(key).map(|(_, radio)| &mut *radio) }
}

/// The key for receiving.
///
/// # Safety
/// As for [`sender`].
unsafe fn receiver<'a>(key: *mut u64) -> Result<&'a Radio, Code> {
    // SAFETY: a live context has a key.
    unsafe { KeyContext::sound_line(key).map(|(_, radio)| &*radio) }
}

/// # Safety
/// As for [`sender`].
unsafe fn place<'a>(slot: *mut u64) -> Result<&'a mut Place, Code> {
    // SAFETY: a live context has a slot.
    unsafe { SlotContext::line(slot).map(|(_, place)| &mut *place) }
}

impl Place {
    /// Whether the slot is for this key.
    fn is_of(&self, radio: &Radio) -> bool {
        self.key == (core::ptr::from_ref(radio).addr(), radio.stamp)
    }

    /// Begins to prepare a frame.
    fn begin(
        &mut self,
        radio: &Radio,
        secured: &Secured,
        known: &[u8],
        lengths: &[usize],
        sends: bool,
    ) -> Result<(), Code> {
        self.slot.wipe();
        let shape = Shape { mic: secured.mic, open: secured.open(), known, lengths };
        self.slot.begin(Nonce::assume_unique(secured.nonce), &shape).map_err(refused)?;
        self.key = (core::ptr::from_ref(radio).addr(), radio.stamp);
        (self.number, self.sends) = (secured.number, sends);
        Ok(())
    }
}

/// Secures a frame in place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_secure(
    key: *mut u64,
    source: *const u8,
    asn: u64,
    frame: *mut u8,
    len: usize,
) -> Code {
    // SAFETY: guaranteed by the caller. The frame is not read while it is written.
    code(unsafe {
        (|| {
            let (radio, source) = (sender(key)?, source_of(source)?);
            let secured = radio.secured(&read(frame, len)?, source, asn)?;
            radio.check(secured.number)?;
            if overlap(frame, len, key.cast(), super::DOT15D4_KEY_BYTES) {
                return Err(Code::Argument);
            }
            let octets = slice_mut(frame, len)?;
            let (before, mic) = octets.split_at_mut(len - secured.mic);
            let (open, private) = before.split_at_mut(secured.open);
            let nonce = Nonce::assume_unique(secured.nonce);
            radio.take(secured.number);
            let key_of = &radio.key;
            match secured.mic {
                4 => mic.copy_from_slice(key_of.seal_in_place_with::<4>(nonce, open, private).as_bytes()),
                8 => mic.copy_from_slice(key_of.seal_in_place_with::<8>(nonce, open, private).as_bytes()),
                _ => mic.copy_from_slice(key_of.seal_in_place(nonce, open, private).as_bytes()),
            }
            KeyContext::sound(key).inspect_err(|_| frame.write_bytes(0, len))
        })()
    })
}

/// Unsecures a frame in place. With a slot for this frame its preparation is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_unsecure(
    key: *mut u64,
    slot: *mut u64,
    source: *const u8,
    asn: u64,
    frame: *mut u8,
    len: usize,
) -> Code {
    // SAFETY: guaranteed by the caller. The frame is not read while it is written.
    code(unsafe {
        (|| {
            let (radio, source) = (receiver(key)?, source_of(source)?);
            let secured = radio.secured(&read(frame, len)?, source, asn)?;
            let prepared = if slot.is_null() { None } else { Some(place(slot)?) };
            let meets = |at: *mut u64, bytes| overlap(frame, len, at.cast(), bytes);
            if meets(key, super::DOT15D4_KEY_BYTES)
                || (!slot.is_null() && meets(slot, super::DOT15D4_SLOT_BYTES))
            {
                return Err(Code::Argument);
            }
            let octets = slice_mut(frame, len)?;
            let (before, mic) = octets.split_at_mut(len - secured.mic);
            let prepared = prepared.filter(|place| {
                !place.sends
                    && place.is_of(radio)
                    && place.slot.is_for(&secured.nonce, secured.mic, secured.open())
            });
            let opened = if let Some(place) = prepared {
                place.slot.open_in_place(&radio.key, before, mic).map(|()| place.slot.wipe())
            } else {
                let (open, private) = before.split_at_mut(secured.open);
                let (nonce, key_of) = (secured.nonce, &radio.key);
                match secured.mic {
                    4 => key_of.open_in_place_with::<4>(nonce, open, private, &array(mic)?),
                    8 => key_of.open_in_place_with::<8>(nonce, open, private, &array(mic)?),
                    _ => key_of.open_in_place(nonce, open, private, &array(mic)?),
                }
            };
            KeyContext::sound(key).inspect_err(|_| frame.write_bytes(0, len))?;
            opened.map_err(|_| {
                frame.write_bytes(0, len);
                Code::Unauthentic
            })
        })()
    })
}

fn array<const N: usize>(octets: &[u8]) -> Result<[u8; N], Code> {
    octets.try_into().map_err(|_| Code::Frame)
}

/// Begins to prepare a frame to send, whose first `known` octets are final.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_prepare(
    key: *mut u64,
    slot: *mut u64,
    source: *const u8,
    asn: u64,
    frame: *const u8,
    len: usize,
    known: usize,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (radio, place, source) = (sender(key)?, place(slot)?, source_of(source)?);
            place.slot.wipe();
            let frame = read(frame, len)?;
            let secured = radio.secured(&frame, source, asn)?;
            radio.check(secured.number)?;
            let before = frame.before_mic();
            let front = before.get(..known).ok_or(Code::Template)?;
            // The header tells the nonce and the lengths: it is final.
            if known < frame.header.buffer_len() {
                return Err(Code::Template);
            }
            place.begin(radio, &secured, front, &[before.len()], true)
        })()
    })
}

/// Begins to prepare for a frame like `sample`, whose first `known` octets are predicted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_expect(
    key: *mut u64,
    slot: *mut u64,
    source: *const u8,
    asn: u64,
    sample: *const u8,
    len: usize,
    known: usize,
    other: usize,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (radio, place, source) = (receiver(key)?, place(slot)?, source_of(source)?);
            place.slot.wipe();
            let frame = read(sample, len)?;
            let secured = radio.secured(&frame, source, asn)?;
            let before = frame.before_mic();
            // What is encrypted cannot be predicted from its ciphertext.
            let front = before.get(..known.min(secured.open)).ok_or(Code::Template)?;
            let lengths = [before.len(), other.saturating_sub(secured.mic)];
            let count = if other == 0 { 1 } else { LENGTHS };
            place.begin(radio, &secured, front, lengths.get(..count).unwrap_or_default(), false)
        })()
    })
}

/// Does at most `budget` encryptions of a preparation and returns their number; 0 if none is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_step(key: *mut u64, slot: *mut u64, budget: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (Ok(radio), Ok(place)) = (receiver(key), place(slot)) else { return 0 };
        if !place.is_of(radio) || budget == 0 {
            return 0;
        }
        match place.slot.step(&radio.key, budget) {
            0 if place.sends => place.slot.complete(&radio.key),
            done => done,
        }
    }
}

/// Seals the prepared frame, which continues with `rest`. It stays in the slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antedate_dot15d4_seal(
    key: *mut u64,
    slot: *mut u64,
    rest: Bytes,
    sealed: *mut Bytes,
) -> Code {
    // SAFETY: guaranteed by the caller.
    code(unsafe {
        (|| {
            let (radio, place, rest) = (sender(key)?, place(slot)?, rest.get()?);
            let own = (slot.cast_const().cast(), super::DOT15D4_SLOT_BYTES);
            if sealed.is_null()
                || !sealed.is_aligned()
                || overlap(sealed.cast(), size_of::<Bytes>(), own.0, own.1)
                || overlap(rest.as_ptr(), rest.len(), own.0, own.1)
            {
                return Err(Code::Argument);
            }
            if !place.sends || place.slot.is_empty() || !place.is_of(radio) {
                return Err(Code::State);
            }
            radio.check(place.number)?;
            place.slot.seal_in_place(&radio.key, rest).map_err(refused)?;
            radio.take(place.number);
            KeyContext::sound(key).inspect_err(|_| place.slot.wipe())?;
            let frame: &[u8] = (*addr_of_mut!(place.slot)).frame();
            sealed.write(Bytes { data: frame.as_ptr(), len: frame.len() });
            Ok(())
        })()
    })
}
