//! Lines of the suites with a serial MAC: static data at the front.
#![allow(unsafe_code, reason = "a line is accessed by pointer, see `line`")]

use crate::LENGTHS;
use crate::line::{Receiving, Sending, common, lines};
use antedate_aead::{
    ExpectedFront, Front, FrontError, FrontSlot, Fronted, OversizeError, PrepareError, PreparedFront,
    SealedFront,
};

lines!(Fronted, FrontSlot[LENGTHS], PreparedFront, SealedFront, ExpectedFront, Option<Front<'static>> = None);

fn refused(error: FrontError) -> Code {
    match error {
        FrontError::TooLong { .. } | FrontError::TooManyLengths { .. } => Code::TooLong,
        _ => Code::Template,
    }
}

impl<S: Fronted> Sending for Sender<S>
where
    S::NonceBytes: Array,
{
    common!(sending);

    unsafe fn prepare_front(this: *mut Self, number: u64, front: Front<'static>) -> Result<(), Code> {
        // SAFETY: guaranteed by the caller.
        let (held, slots, sealer, place) = unsafe { Self::free(this) };
        sealer.sequence_mut().ask(number).map_err(|_| Code::Spent)?;
        let prepared =
            sealer.prepare_front(place.insert(front), slots.shaped()?).map_err(|error| match error {
                PrepareError::Sequence(_) => Code::Spent,
                PrepareError::Template(error) => refused(error),
            })?;
        // SAFETY: the field is not borrowed.
        unsafe { *held = Held::Shaped(prepared) };
        Ok(())
    }

    unsafe fn seal_front(this: *mut Self, rest: &[u8], tag: *mut u8) -> Result<&'static [u8], Code> {
        // SAFETY: guaranteed by the caller, for the whole function.
        match unsafe { Self::take(this) } {
            Held::Shaped(packet) => match packet.seal(rest) {
                Ok(sealed) => {
                    let made = sealed.tag();
                    let ciphertext: *const [u8] = sealed.ciphertext();
                    // SAFETY: the ciphertext is in the slot, which stays unchanged while the sealed
                    // packet is held.
                    unsafe {
                        crate::line::write_tag(made.as_bytes().as_ref(), tag);
                        Self::hold(this, Held::Sealed(sealed));
                        Ok(&*ciphertext)
                    }
                }
                Err(OversizeError { prepared, .. }) => {
                    // SAFETY: guaranteed by the caller.
                    unsafe { Self::hold(this, Held::Shaped(prepared)) };
                    Err(Code::TooLong)
                }
            },
            other => {
                // SAFETY: guaranteed by the caller.
                unsafe { Self::hold(this, other) };
                Err(Code::State)
            }
        }
    }
}

impl<S: Fronted> Receiving for Receiver<S>
where
    S::NonceBytes: Array,
    S::TagBytes: Array,
{
    common!(receiving);

    unsafe fn expect_front(this: *mut Self, number: u64, front: Front<'static>) -> Result<(), Code> {
        // SAFETY: guaranteed by the caller.
        let (awaited, slots, opener, place) = unsafe { Self::free(this) };
        let expected = opener.expect_front(number, place.insert(front), slots.shaped()?).map_err(refused)?;
        // SAFETY: the field is not borrowed.
        unsafe { *awaited = Awaited::Shaped(expected) };
        Ok(())
    }
}
