//! A line: a key with its slot and the packet in preparation, for one suite and one side.
//!
//! The packet borrows from key and slot, which are fields of the same context, so Rust cannot
//! express the borrow. It is sound because a context does not move (each call checks its address),
//! key and slot are accessed only while no packet is held, and each field has its own pointer.
#![allow(unsafe_code, reason = "a line is accessed by pointer")]

use crate::Code;
use crate::arguments::{Payload, TemplateParts};
use antedate_aead::{Front, Suite};

/// The operations of the sending side. A line is accessed by pointer, since one part of it may
/// borrow another.
///
/// # Safety
/// For all functions but `make`: `this` was made, and has not moved or been dropped since. All
/// slices given to `prepare_*` stay unchanged while the packet is held.
pub(crate) trait Sending: Sized {
    /// The suite.
    type Of: Suite;

    /// Makes a line in memory without one.
    ///
    /// # Safety
    /// `place` is writable for a line.
    unsafe fn make(place: *mut Self, key: &[u8], initial: &[u8]) -> Result<(), Code>;

    /// Drops the held packet.
    unsafe fn let_go(this: *mut Self);

    /// Drops the held packet and begins to prepare another.
    unsafe fn prepare(this: *mut Self, number: u64) -> Result<(), Code>;

    /// `prepare` for a template.
    unsafe fn prepare_template(
        this: *mut Self,
        number: u64,
        parts: TemplateParts<'static>,
    ) -> Result<(), Code> {
        let _ = (this, number, parts);
        Err(Code::Unsupported)
    }

    /// `prepare` for a front.
    unsafe fn prepare_front(this: *mut Self, number: u64, front: Front<'static>) -> Result<(), Code> {
        let _ = (this, number, front);
        Err(Code::Unsupported)
    }

    /// Continues the preparation.
    unsafe fn step(this: *mut Self, budget: u32) -> Result<u32, Code>;

    /// Seals any packet with the held nonce.
    unsafe fn seal(this: *mut Self, aad: &[u8], payload: Payload<'_>, tag: *mut u8) -> Result<(), Code>;

    /// Seals the template's packet, which stays in the slot.
    unsafe fn seal_template(this: *mut Self, values: &[&[u8]], tag: *mut u8) -> Result<&'static [u8], Code> {
        let _ = (this, values, tag);
        Err(Code::Unsupported)
    }

    /// Seals the front's packet, which stays in the slot.
    unsafe fn seal_front(this: *mut Self, rest: &[u8], tag: *mut u8) -> Result<&'static [u8], Code> {
        let _ = (this, rest, tag);
        Err(Code::Unsupported)
    }

    /// Drops the line.
    unsafe fn wipe(this: *mut Self);
}

/// The operations of the receiving side.
///
/// # Safety
/// As for [`Sending`].
pub(crate) trait Receiving: Sized {
    /// The suite.
    type Of: Suite;

    /// Makes a line in memory without one.
    ///
    /// # Safety
    /// `place` is writable for a line.
    unsafe fn make(place: *mut Self, key: &[u8], initial: &[u8]) -> Result<(), Code>;

    /// Drops the expected packet.
    unsafe fn let_go(this: *mut Self);

    /// Drops the expected packet and begins to prepare for another.
    unsafe fn expect(this: *mut Self, number: u64) -> Result<(), Code>;

    /// `expect` for a template.
    unsafe fn expect_template(
        this: *mut Self,
        number: u64,
        parts: TemplateParts<'static>,
    ) -> Result<(), Code> {
        let _ = (this, number, parts);
        Err(Code::Unsupported)
    }

    /// `expect` for a front.
    unsafe fn expect_front(this: *mut Self, number: u64, front: Front<'static>) -> Result<(), Code> {
        let _ = (this, number, front);
        Err(Code::Unsupported)
    }

    /// Continues the preparation.
    unsafe fn step(this: *mut Self, budget: u32) -> Result<u32, Code>;

    /// Opens the expected packet; a refused packet stays expected.
    unsafe fn open(this: *mut Self, aad: &[u8], payload: Payload<'_>, tag: &[u8]) -> Result<(), Code>;

    /// Opens a packet with another number than the expected one, without a preparation.
    unsafe fn open_other(
        this: *mut Self,
        number: u64,
        aad: &[u8],
        payload: Payload<'_>,
        tag: &[u8],
    ) -> Result<(), Code>;

    /// Drops the line.
    unsafe fn wipe(this: *mut Self);
}

/// Writes a tag to memory of C.
///
/// # Safety
/// The tag's length is writable at `to`.
pub(crate) unsafe fn write_tag(tag: &[u8], to: *mut u8) {
    // SAFETY: guaranteed by the caller; a tag of Rust does not overlap memory of C.
    unsafe { core::ptr::copy_nonoverlapping(tag.as_ptr(), to, tag.len()) }
}

/// Both sides of a family of suites. `$slot` holds a shaped packet's preparation, `$extra` the
/// other data of a shape.
macro_rules! lines {
    ($bound:ident, $slot:ident[$size:expr], $prepared:ident, $sealed:ident, $expected:ident, $extra:ty = $none:expr) => {
        use crate::arguments::Payload;
        use crate::numbers::{Array, Numbers, nonce};
        use crate::{CAPACITY, Code};
        use antedate_aead::{Expected, Key, Opener, Prepared, RefusedError, Sealer, Slot};
        use core::mem::MaybeUninit;
        use core::ptr::addr_of_mut;

        #[allow(
            clippy::large_enum_variant,
            reason = "the caller's memory has the size of the largest variant"
        )]
        enum Slots<S: $bound> {
            Plain(Slot<S, CAPACITY>),
            Shaped($slot<S, CAPACITY, $size>),
        }

        impl<S: $bound> Slots<S> {
            fn plain(&mut self) -> Result<&mut Slot<S, CAPACITY>, Code> {
                if !matches!(self, Self::Plain(_)) {
                    *self = Self::Plain(Slot::new());
                }
                if let Self::Plain(slot) = self { Ok(slot) } else { Err(Code::State) }
            }

            fn shaped(&mut self) -> Result<&mut $slot<S, CAPACITY, $size>, Code> {
                if !matches!(self, Self::Shaped(_)) {
                    *self = Self::Shaped($slot::new());
                }
                if let Self::Shaped(slot) = self { Ok(slot) } else { Err(Code::State) }
            }
        }

        enum Held<S: $bound> {
            Nothing,
            Plain(Prepared<'static, S, CAPACITY>),
            Shaped($prepared<'static, S, CAPACITY, $size>),
            /// C has a pointer to the ciphertext, which is wiped on drop.
            Sealed(#[allow(dead_code, reason = "held for its drop")] $sealed<'static, S, CAPACITY, $size>),
        }

        /// The sending side.
        pub(crate) struct Sender<S: $bound>
        where
            S::NonceBytes: Array,
        {
            held: Held<S>,
            slots: Slots<S>,
            sealer: Sealer<S, Numbers<S::NonceBytes>>,
            extra: $extra,
        }

        impl<S: $bound> Sender<S>
        where
            S::NonceBytes: Array,
        {
            /// Drops the held packet and returns the fields that the next one borrows.
            ///
            /// # Safety
            /// As for [`Sending`].
            #[allow(clippy::type_complexity, reason = "the fields of the line, used only here")]
            unsafe fn free(
                this: *mut Self,
            ) -> (
                *mut Held<S>,
                &'static mut Slots<S>,
                &'static mut Sealer<S, Numbers<S::NonceBytes>>,
                &'static mut $extra,
            ) {
                // SAFETY: `this` points to a line. The packet is dropped before its fields are
                // borrowed again, the references are to distinct fields, and the line stays in
                // place while they live.
                unsafe {
                    let held = addr_of_mut!((*this).held);
                    *held = Held::Nothing;
                    let (slots, sealer) = (addr_of_mut!((*this).slots), addr_of_mut!((*this).sealer));
                    (held, &mut *slots, &mut *sealer, &mut *addr_of_mut!((*this).extra))
                }
            }

            /// Takes the held packet, to consume it.
            ///
            /// # Safety
            /// As for [`Sending`].
            unsafe fn take(this: *mut Self) -> Held<S> {
                // SAFETY: `this` points to a line, and this field is not borrowed.
                unsafe { core::mem::replace(&mut *addr_of_mut!((*this).held), Held::Nothing) }
            }

            /// Holds a packet; there is none.
            ///
            /// # Safety
            /// As for [`Sending`].
            #[inline]
            unsafe fn hold(this: *mut Self, held: Held<S>) {
                // SAFETY: as in `take`. The packet before was taken, so nothing is left undropped.
                unsafe { addr_of_mut!((*this).held).write(held) }
            }

            unsafe fn make_line(place: *mut Self, key: &[u8], initial: &[u8]) -> Result<(), Code> {
                let initial = Array::from_bytes(initial).ok_or(Code::NonceLength)?;
                let key = Key::new(key).map_err(|_| Code::KeyLength)?;
                let sealer = Sealer::new(key, Numbers::new(initial));
                let line =
                    Self { held: Held::Nothing, slots: Slots::Plain(Slot::new()), sealer, extra: $none };
                // SAFETY: guaranteed by the caller.
                unsafe { place.write(line) };
                Ok(())
            }

            unsafe fn prepare_plain(this: *mut Self, number: u64) -> Result<(), Code> {
                // SAFETY: guaranteed by the caller.
                let (held, slots, sealer, _) = unsafe { Self::free(this) };
                sealer.sequence_mut().ask(number).map_err(|_| Code::Spent)?;
                let prepared = sealer.prepare(slots.plain()?).map_err(|_| Code::Spent)?;
                // SAFETY: the field is not borrowed.
                unsafe { *held = Held::Plain(prepared) };
                Ok(())
            }

            unsafe fn step_line(this: *mut Self, budget: u32) -> Result<u32, Code> {
                // SAFETY: this field is not borrowed.
                match unsafe { &mut *addr_of_mut!((*this).held) } {
                    Held::Plain(packet) => Ok(packet.step(budget)),
                    Held::Shaped(packet) => Ok(packet.step(budget)),
                    Held::Nothing | Held::Sealed(_) => Err(Code::State),
                }
            }

            unsafe fn seal_line(
                this: *mut Self,
                aad: &[u8],
                payload: Payload<'_>,
                tag: *mut u8,
            ) -> Result<(), Code> {
                // SAFETY: guaranteed by the caller.
                let made = match unsafe { Self::take(this) } {
                    Held::Plain(packet) => match payload {
                        Payload::Apart(src, dst) if Payload::APART => packet.seal(aad, src, dst),
                        payload => packet.seal_in_place(aad, payload.into_in_place()),
                    },
                    Held::Shaped(packet) => packet.seal_other_in_place(aad, payload.into_in_place()),
                    other => {
                        // SAFETY: guaranteed by the caller.
                        unsafe { Self::hold(this, other) };
                        return Err(Code::State);
                    }
                };
                // SAFETY: guaranteed by the caller.
                unsafe { crate::line::write_tag(made.as_bytes().as_ref(), tag) };
                Ok(())
            }

            unsafe fn wipe_line(this: *mut Self) {
                // SAFETY: the packet is dropped before the fields it borrows; the line is not used
                // afterwards.
                unsafe {
                    *addr_of_mut!((*this).held) = Held::Nothing;
                    this.drop_in_place();
                }
            }
        }

        enum Awaited<S: $bound> {
            Nothing,
            Plain(Expected<'static, S, CAPACITY>),
            Shaped($expected<'static, S, CAPACITY, $size>),
        }

        type Rule<S> = &'static dyn Fn(u64) -> <S as Noncing>::Nonce;

        /// A suite with its nonce type.
        pub(crate) trait Noncing: $bound<NonceBytes = <Self as Noncing>::Nonce> {
            type Nonce: Array;
        }

        impl<S: $bound> Noncing for S
        where
            S::NonceBytes: Array,
        {
            type Nonce = S::NonceBytes;
        }

        /// The receiving side.
        pub(crate) struct Receiver<S: $bound>
        where
            S::NonceBytes: Array,
        {
            awaited: Awaited<S>,
            slots: Slots<S>,
            opener: Opener<S, Rule<S>>,
            /// Storage for the opener's rule: a closure that holds the initial value.
            rule: MaybeUninit<S::NonceBytes>,
            extra: $extra,
        }

        /// Places a closure in `room`.
        ///
        /// # Safety
        /// `room` stays in place and is not written to while the closure is in use.
        unsafe fn settle<B, F: Fn(u64) -> B + Copy + 'static>(
            rule: F,
            room: *mut MaybeUninit<B>,
        ) -> &'static dyn Fn(u64) -> B {
            const {
                assert!(size_of::<F>() <= size_of::<B>() && align_of::<F>() <= align_of::<B>());
            }
            let place = room.cast::<F>();
            // SAFETY: `room` is large enough and aligned, and the closure needs no drop.
            unsafe {
                place.write(rule);
                &*place
            }
        }

        impl<S: $bound> Receiver<S>
        where
            S::NonceBytes: Array,
            S::TagBytes: Array,
        {
            /// The receiving counterpart of [`Sender::free`].
            ///
            /// # Safety
            /// As for [`Receiving`].
            #[allow(clippy::type_complexity, reason = "the fields of the line, used only here")]
            unsafe fn free(
                this: *mut Self,
            ) -> (*mut Awaited<S>, &'static mut Slots<S>, &'static Opener<S, Rule<S>>, &'static mut $extra)
            {
                // SAFETY: as in the sender.
                unsafe {
                    let awaited = addr_of_mut!((*this).awaited);
                    *awaited = Awaited::Nothing;
                    let (slots, opener) = (addr_of_mut!((*this).slots), addr_of_mut!((*this).opener));
                    (awaited, &mut *slots, &*opener, &mut *addr_of_mut!((*this).extra))
                }
            }

            unsafe fn make_line(place: *mut Self, key: &[u8], initial: &[u8]) -> Result<(), Code> {
                let initial: S::NonceBytes = Array::from_bytes(initial).ok_or(Code::NonceLength)?;
                let key = Key::new(key).map_err(|_| Code::KeyLength)?;
                // SAFETY: a line may be written here, so each of its fields may.
                unsafe {
                    let rule = settle(move |number| nonce(&initial, number), addr_of_mut!((*place).rule));
                    addr_of_mut!((*place).awaited).write(Awaited::Nothing);
                    addr_of_mut!((*place).slots).write(Slots::Plain(Slot::new()));
                    addr_of_mut!((*place).opener).write(Opener::new(key, rule));
                    addr_of_mut!((*place).extra).write($none);
                }
                Ok(())
            }

            unsafe fn expect_plain(this: *mut Self, number: u64) -> Result<(), Code> {
                // SAFETY: guaranteed by the caller.
                let (awaited, slots, opener, _) = unsafe { Self::free(this) };
                let expected = opener.expect(number, slots.plain()?);
                // SAFETY: the field is not borrowed.
                unsafe { *awaited = Awaited::Plain(expected) };
                Ok(())
            }

            unsafe fn step_line(this: *mut Self, budget: u32) -> Result<u32, Code> {
                // SAFETY: this field is not borrowed.
                match unsafe { &mut *addr_of_mut!((*this).awaited) } {
                    Awaited::Plain(packet) => Ok(packet.step(budget)),
                    Awaited::Shaped(packet) => Ok(packet.step(budget)),
                    Awaited::Nothing => Err(Code::State),
                }
            }

            unsafe fn open_line(
                this: *mut Self,
                aad: &[u8],
                payload: Payload<'_>,
                tag: &[u8],
            ) -> Result<(), Code> {
                let tag: S::TagBytes = Array::from_bytes(tag).ok_or(Code::Argument)?;
                // SAFETY: this field is not borrowed.
                let field = unsafe { &mut *addr_of_mut!((*this).awaited) };
                *field = match core::mem::replace(field, Awaited::Nothing) {
                    Awaited::Plain(packet) => {
                        let opened = match payload {
                            Payload::Apart(src, dst) if Payload::APART => packet.open(aad, src, dst, &tag),
                            payload => packet.open_in_place(aad, payload.into_in_place(), &tag),
                        };
                        match opened {
                            Ok(()) => return Ok(()),
                            Err(RefusedError(packet)) => Awaited::Plain(packet),
                        }
                    }
                    Awaited::Shaped(packet) => {
                        let opened = match payload {
                            Payload::Apart(src, dst) => packet.open(aad, src, dst, &tag),
                            Payload::InPlace(buffer) => packet.open_in_place(aad, buffer, &tag),
                        };
                        match opened {
                            Ok(()) => return Ok(()),
                            Err(RefusedError(packet)) => Awaited::Shaped(packet),
                        }
                    }
                    Awaited::Nothing => return Err(Code::State),
                };
                Err(Code::Unauthentic)
            }

            unsafe fn open_line_other(
                this: *mut Self,
                number: u64,
                aad: &[u8],
                payload: Payload<'_>,
                tag: &[u8],
            ) -> Result<(), Code> {
                let tag: S::TagBytes = Array::from_bytes(tag).ok_or(Code::Argument)?;
                // SAFETY: the expected packet shares this field and does not write to it.
                let opener = unsafe { &*addr_of_mut!((*this).opener) };
                let opened = match payload {
                    Payload::Apart(src, dst) => opener.open(number, aad, src, dst, &tag),
                    Payload::InPlace(buffer) => opener.open_in_place(number, aad, buffer, &tag),
                };
                opened.map_err(|_| Code::Unauthentic)
            }

            unsafe fn wipe_line(this: *mut Self) {
                // SAFETY: the expected packet is dropped before the fields it borrows; the line is
                // not used afterwards.
                unsafe {
                    *addr_of_mut!((*this).awaited) = Awaited::Nothing;
                    this.drop_in_place();
                }
            }
        }
    };
}

/// The functions of both traits that all families share.
macro_rules! common {
    (sending) => {
        type Of = S;

        unsafe fn make(place: *mut Self, key: &[u8], initial: &[u8]) -> Result<(), Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::make_line(place, key, initial) }
        }

        unsafe fn let_go(this: *mut Self) {
            // SAFETY: guaranteed by the caller.
            drop(unsafe { Self::take(this) });
        }

        unsafe fn prepare(this: *mut Self, number: u64) -> Result<(), Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::prepare_plain(this, number) }
        }

        unsafe fn step(this: *mut Self, budget: u32) -> Result<u32, Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::step_line(this, budget) }
        }

        unsafe fn seal(
            this: *mut Self,
            aad: &[u8],
            payload: $crate::arguments::Payload<'_>,
            tag: *mut u8,
        ) -> Result<(), Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::seal_line(this, aad, payload, tag) }
        }

        unsafe fn wipe(this: *mut Self) {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::wipe_line(this) }
        }
    };
    (receiving) => {
        type Of = S;

        unsafe fn make(place: *mut Self, key: &[u8], initial: &[u8]) -> Result<(), Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::make_line(place, key, initial) }
        }

        unsafe fn let_go(this: *mut Self) {
            // SAFETY: guaranteed by the caller.
            let _ = unsafe { Self::free(this) };
        }

        unsafe fn expect(this: *mut Self, number: u64) -> Result<(), Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::expect_plain(this, number) }
        }

        unsafe fn step(this: *mut Self, budget: u32) -> Result<u32, Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::step_line(this, budget) }
        }

        unsafe fn open(
            this: *mut Self,
            aad: &[u8],
            payload: $crate::arguments::Payload<'_>,
            tag: &[u8],
        ) -> Result<(), Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::open_line(this, aad, payload, tag) }
        }

        unsafe fn open_other(
            this: *mut Self,
            number: u64,
            aad: &[u8],
            payload: $crate::arguments::Payload<'_>,
            tag: &[u8],
        ) -> Result<(), Code> {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::open_line_other(this, number, aad, payload, tag) }
        }

        unsafe fn wipe(this: *mut Self) {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::wipe_line(this) }
        }
    };
}

pub(crate) use {common, lines};
