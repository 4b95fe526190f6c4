//! Lines of the suites with a linear MAC: holes anywhere in a template.
#![allow(unsafe_code, reason = "a line is accessed by pointer, see `line`")]

use crate::BLOCKS;
use crate::arguments::TemplateParts;
use crate::line::{Receiving, Sending, common, lines};
use antedate_aead::{
    ExpectedTemplate, Hole, PrepareError, PreparedTemplate, Sealed, Sparse, Template, TemplateError,
    TemplateSlot,
};

lines!(Sparse, TemplateSlot[BLOCKS], PreparedTemplate, Sealed, ExpectedTemplate, [Hole; BLOCKS] = NO_HOLES);

const NO_HOLES: [Hole; BLOCKS] = [const { Hole::Payload(0..0) }; BLOCKS];

/// The template, with its holes stored in `room`.
fn template<'a>(parts: TemplateParts<'a>, room: &'a mut [Hole; BLOCKS]) -> Result<Template<'a>, Code> {
    let (aad, payload, holes) = parts;
    for (to, from) in room.iter_mut().zip(holes) {
        *to = from.get();
    }
    let holes = room.get(..holes.len()).ok_or(Code::TooLong)?;
    Template::new(aad, payload, holes).map_err(refused)
}

fn refused(error: TemplateError) -> Code {
    match error {
        TemplateError::TooLong { .. } | TemplateError::TooManyBlocks { .. } => Code::TooLong,
        _ => Code::Template,
    }
}

impl<S: Sparse> Sending for Sender<S>
where
    S::NonceBytes: Array,
{
    common!(sending);

    unsafe fn prepare_template(
        this: *mut Self,
        number: u64,
        parts: TemplateParts<'static>,
    ) -> Result<(), Code> {
        // SAFETY: guaranteed by the caller.
        let (held, slots, sealer, room) = unsafe { Self::free(this) };
        let template = template(parts, room)?;
        sealer.sequence_mut().ask(number).map_err(|_| Code::Spent)?;
        let prepared = sealer.prepare_template(&template, slots.shaped()?).map_err(|error| match error {
            PrepareError::Sequence(_) => Code::Spent,
            PrepareError::Template(error) => refused(error),
        })?;
        // SAFETY: the field is not borrowed.
        unsafe { *held = Held::Shaped(prepared) };
        Ok(())
    }

    unsafe fn seal_template(this: *mut Self, values: &[&[u8]], tag: *mut u8) -> Result<&'static [u8], Code> {
        // SAFETY: guaranteed by the caller, for the whole function.
        match unsafe { Self::take(this) } {
            Held::Shaped(packet) => match packet.seal(values) {
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
                Err(misfit) => {
                    // SAFETY: guaranteed by the caller.
                    unsafe { Self::hold(this, Held::Shaped(misfit.prepared)) };
                    Err(Code::Misfit)
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

impl<S: Sparse> Receiving for Receiver<S>
where
    S::NonceBytes: Array,
    S::TagBytes: Array,
{
    common!(receiving);

    unsafe fn expect_template(
        this: *mut Self,
        number: u64,
        parts: TemplateParts<'static>,
    ) -> Result<(), Code> {
        // SAFETY: guaranteed by the caller.
        let (awaited, slots, opener, room) = unsafe { Self::free(this) };
        let template = template(parts, room)?;
        let expected = opener.expect_template(number, &template, slots.shaped()?).map_err(refused)?;
        // SAFETY: the field is not borrowed.
        unsafe { *awaited = Awaited::Shaped(expected) };
        Ok(())
    }
}
